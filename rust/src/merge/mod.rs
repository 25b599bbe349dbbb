//! The tokens that merges make of the bytes of one piece.
//!
//! The rule: among all pairs in the piece that have a rank, merge the leftmost pair with the lowest
//! rank, again and again. Three functions follow it. `merge_short` scans the whole piece for each
//! merge, which is the fastest way for a word. `merge_long` keeps the pairs in a heap, and is never
//! quadratic. `merge_in_windows` merges a very long piece in windows, where that gives the same
//! result.

pub mod cjk;
mod heap;
pub mod joins;
mod pair_table;
mod ranks;
mod short;
mod windows;

pub use heap::{MergeScratch, merge_long};
use pair_table::PairTable;
pub use ranks::{NO_RANK, Ranks};
pub use short::Row;
use short::{MAX_STACK_PIECE, merge_short};
use windows::merge_in_windows;

use std::collections::HashMap;
use std::mem::replace;
use std::sync::OnceLock;

use crate::interrupt::Interrupt;
use crate::mem::growth::{collected, filled, push, with_room};
use crate::tokens::{MadeTokens, WholePieces};
use crate::types::{MAX_CACHED_PIECE, Rank, TokenIndex};

/// Flags a rank whose pairs make different tokens.
const SEVERAL: TokenIndex = 1 << 31;

/// The left and the right token of a merge, and the token that they make.
pub type Merge = (TokenIndex, TokenIndex, TokenIndex);

pub struct MergeTable {
    pub token_of_byte: [TokenIndex; 256],
    /// The merges in rank order.
    pub merges: Vec<Merge>,
    /// The merges that share the rank of the merge before them, in ascending order.
    tied_merges: Vec<usize>,
    max_byte_token: TokenIndex,
    /// The number of tokens that the table has room for.
    tokens: usize,
    count: Rank,
    ranks: PairTable,
    /// The ranks of pairs of two bytes, which are most of the pairs looked up.
    ranks_of_bytes: Vec<Rank>,
    /// The token that each merge makes; None if each merge r makes the token 256 + r.
    made: Option<Vec<TokenIndex>>,
    /// The tokens that pairs make if their rank belongs to several. `made` has the flag `SEVERAL`
    /// there.
    tied: HashMap<(TokenIndex, TokenIndex), TokenIndex>,
    /// Tokens by their bytes, if a piece that is a token is not merged.
    pub whole_pieces: Option<WholePieces>,
    /// The lengths of tokens in bytes, made on first use; None if a token has several lengths.
    fixed_lengths: OnceLock<Option<Vec<u32>>>,
}

impl MergeTable {
    /// Returns an empty table with room for `merges` merges and `tokens` tokens; None if they are
    /// too many.
    pub fn with_room(
        token_of_byte: [TokenIndex; 256],
        tokens: usize,
        merges: usize,
    ) -> Option<MergeTable> {
        Some(MergeTable {
            token_of_byte,
            merges: with_room(merges),
            tied_merges: Vec::new(),
            max_byte_token: token_of_byte.into_iter().max().unwrap_or(0),
            count: 0,
            ranks: PairTable::with_room(tokens, merges)?,
            ranks_of_bytes: filled(NO_RANK, 1 << 16),
            made: None,
            tied: HashMap::new(),
            whole_pieces: None,
            tokens,
            fixed_lengths: OnceLock::new(),
        })
    }

    /// Adds the merge of the next rank, for which the table must have room. If the pair has a rank
    /// already, returns false and changes nothing.
    pub fn push(&mut self, left: TokenIndex, right: TokenIndex, made: TokenIndex) -> bool {
        let rank = self.count;
        if !self.ranks.add(left, right, rank) {
            return false;
        }
        self.count += 1;
        if self.made.is_none() && made != 256 + rank {
            self.made = Some(collected(256..256 + rank));
        }
        if let Some(all_made) = &mut self.made {
            push(all_made, made);
        }
        push(&mut self.merges, (left, right, made));
        self.add_bytes(left, right, rank);
        true
    }

    /// Adds a merge to the last rank, among whose pairs the leftmost in a piece is merged first.
    pub fn push_tied(&mut self, left: TokenIndex, right: TokenIndex, made: TokenIndex) -> bool {
        let Some(rank) = self.count.checked_sub(1) else { return false };
        if !self.ranks.add(left, right, rank) {
            return false;
        }
        let all_made = self.made.get_or_insert_with(|| collected(256..256 + self.count));
        let first = &mut all_made[rank as usize];
        if *first & !SEVERAL != made {
            *first |= SEVERAL;
            self.tied.insert((left, right), made);
        }
        push(&mut self.tied_merges, self.merges.len());
        push(&mut self.merges, (left, right, made));
        self.add_bytes(left, right, rank);
        true
    }

    fn add_bytes(&mut self, left: TokenIndex, right: TokenIndex, rank: Rank) {
        // This is rare, because bytes are the first tokens of most vocabularies.
        if left.max(right) <= self.max_byte_token {
            for first in self.bytes_of(left) {
                for second in self.bytes_of(right) {
                    self.ranks_of_bytes[usize::from(first) << 8 | usize::from(second)] = rank;
                }
            }
        }
    }

    /// Yields the bytes that are this token: one, or none.
    fn bytes_of(&self, token: TokenIndex) -> impl Iterator<Item = u8> + use<> {
        let tokens = self.token_of_byte;
        (0..=255).filter(move |&byte| tokens[usize::from(byte)] == token)
    }

    /// Returns whether a merge shares the rank of the merge before it.
    pub fn is_tied(&self, merge: usize) -> bool {
        self.tied_merges.binary_search(&merge).is_ok()
    }

    /// Returns the tokens that merging can make, by which pieces may be split. None if they must
    /// not be, because a part could be a whole piece, or a token has several spellings.
    pub fn tokens_to_split_by(&self) -> Option<MadeTokens> {
        if self.whole_pieces.is_some() {
            return None;
        }
        let mut tokens = MadeTokens::new(self.tokens, &self.token_of_byte);
        let mut is_one = true;
        self.for_each_possible(|(left, right, made)| is_one &= tokens.join(left, right, made));
        is_one.then_some(tokens)
    }

    /// Returns the length of each token that merging can make, in bytes; 0 for others.
    pub fn lengths(&self, tokens: usize) -> Vec<u32> {
        if let Some(WholePieces { tokens, .. }) = &self.whole_pieces {
            let all = 0..tokens.len() as TokenIndex;
            return collected(all.map(|token| tokens.get(token).len() as u32));
        }
        let mut lengths = self.lengths_by_merges();
        lengths.resize(tokens, 0);
        lengths
    }

    fn lengths_by_merges(&self) -> Vec<u32> {
        let mut lengths = filled(0_u32, self.tokens);
        self.token_of_byte.iter().for_each(|&token| lengths[token as usize] = 1);
        self.for_each_possible(|(left, right, made)| {
            if lengths[made as usize] == 0 {
                let [left, right] = [left, right].map(|part| lengths[part as usize]);
                lengths[made as usize] = left.saturating_add(right);
            }
        });
        lengths
    }

    /// Takes the merges whose parts can be made, each after merges that make them. They are in rank
    /// order, except that a merge comes later if it uses a token of a higher rank.
    fn for_each_possible(&self, mut take: impl FnMut(Merge)) {
        const NONE: u32 = u32::MAX;
        let mut is_made = filled(false, self.tokens);
        self.token_of_byte.iter().for_each(|&token| is_made[token as usize] = true);
        // For each token, the last merge that waits for it; for each merge, the one before. Most
        // vocabularies need neither.
        let (mut waiting, mut before, mut next) = (Vec::new(), Vec::new(), Vec::new());
        for merge in 0..self.merges.len() as u32 {
            push(&mut next, merge);
            while let Some(merge) = next.pop() {
                let (left, right, made) = self.merges[merge as usize];
                if let Some(part) = [left, right].into_iter().find(|&part| !is_made[part as usize])
                {
                    if waiting.is_empty() {
                        waiting = filled(NONE, self.tokens);
                        before = filled(NONE, self.merges.len());
                    }
                    before[merge as usize] = replace(&mut waiting[part as usize], merge);
                    continue;
                }
                take((left, right, made));
                if !replace(&mut is_made[made as usize], true) && !waiting.is_empty() {
                    let mut merge = waiting[made as usize];
                    while merge != NONE {
                        push(&mut next, merge);
                        merge = before[merge as usize];
                    }
                }
            }
        }
    }

    /// Returns the lengths of tokens by which windows are divided.
    fn fixed_lengths(&self) -> Option<&[u32]> {
        if self.fixed_lengths.get().is_none() {
            let lengths = self.lengths_by_merges();
            let length = |token: TokenIndex| lengths.get(token as usize).copied().unwrap_or(0);
            let is_fixed = self.merges.iter().all(|&(left, right, made)| {
                let [left, right, made] = [left, right, made].map(length);
                left == 0 || right == 0 || made == left.saturating_add(right)
            });
            // In a forked process, `get_or_init` could wait for ever for a thread of the parent.
            let _ = self.fixed_lengths.set(is_fixed.then_some(lengths));
        }
        self.fixed_lengths.get()?.as_deref()
    }

    /// Returns the tokens of a piece, which are in `scratch`.
    ///
    /// Only a piece of more than `MAX_CACHED_PIECE` bytes is checked for interrupts. After an
    /// interrupt the tokens are incomplete.
    pub fn merge<'s>(
        &self,
        piece: &[u8],
        scratch: &'s mut MergeScratch,
        interrupt: &mut Interrupt<'_>,
    ) -> &'s [TokenIndex] {
        let mut tokens = std::mem::take(&mut scratch.tokens);
        tokens.clear();
        if let Some(token) = self.whole_pieces.as_ref().and_then(|whole| whole.find(piece)) {
            push(&mut tokens, token);
        } else if piece.len() <= MAX_STACK_PIECE {
            merge_short(self, piece, &mut tokens);
        } else if piece.len() <= MAX_CACHED_PIECE {
            merge_long(self, piece, scratch, &mut tokens, &mut Interrupt::never());
        } else if let Some(lengths) = self.fixed_lengths() {
            merge_in_windows(self, piece, lengths, scratch, &mut tokens, interrupt);
        } else {
            merge_long(self, piece, scratch, &mut tokens, interrupt);
        }
        scratch.tokens = tokens;
        &scratch.tokens
    }
}

impl Ranks for MergeTable {
    #[inline(always)]
    fn of_byte(&self, byte: u8) -> TokenIndex {
        self.token_of_byte[usize::from(byte)]
    }

    #[inline(always)]
    fn rank(&self, left: TokenIndex, right: TokenIndex) -> Rank {
        self.ranks.get(left, right)
    }

    #[inline(always)]
    fn prefetch(&self, left: TokenIndex, right: TokenIndex) {
        self.ranks.prefetch(left, right);
    }

    #[inline(always)]
    fn byte_pair(&self, left: u8, right: u8) -> Rank {
        self.ranks_of_bytes[usize::from(left) << 8 | usize::from(right)]
    }

    #[inline(always)]
    fn made_by(&self, rank: Rank, left: TokenIndex, right: TokenIndex) -> TokenIndex {
        let Some(made) = &self.made else { return 256 + rank };
        let token = made[rank as usize];
        if token & SEVERAL == 0 {
            return token;
        }
        self.tied.get(&(left, right)).copied().unwrap_or(token & !SEVERAL)
    }
}

#[cfg(test)]
mod tests {
    use super::pair_table::TOKEN_BITS;
    use super::*;
    use crate::test_inputs::Rng;

    fn bytes() -> [TokenIndex; 256] {
        std::array::from_fn(|byte| byte as TokenIndex)
    }

    const A: TokenIndex = b'a' as TokenIndex;
    const B: TokenIndex = b'b' as TokenIndex;

    fn table_of(merges: &[Merge]) -> MergeTable {
        let room = merges.len() + 1;
        let mut table = MergeTable::with_room(bytes(), 300 + room, room).expect("few");
        assert!(merges.iter().all(|&(left, right, made)| table.push(left, right, made)));
        table
    }

    fn merged(table: &MergeTable, piece: &[u8]) -> Vec<TokenIndex> {
        table.merge(piece, &mut MergeScratch::default(), &mut Interrupt::never()).to_vec()
    }

    fn merged_at_once(table: &MergeTable, piece: &[u8]) -> Vec<TokenIndex> {
        let (mut scratch, mut tokens) = (MergeScratch::default(), Vec::new());
        merge_long(table, piece, &mut scratch, &mut tokens, &mut Interrupt::never());
        tokens
    }

    /// The rule in its plainest form.
    fn merged_plainly(piece: &[u8], merges: &[Merge]) -> Vec<TokenIndex> {
        let mut tokens: Vec<TokenIndex> = piece.iter().map(|&byte| byte.into()).collect();
        let find = |tokens: &[TokenIndex]| {
            merges.iter().find_map(|&(left, right, token)| {
                let at = tokens.windows(2).position(|pair| pair == [left, right])?;
                Some((at, token))
            })
        };
        while let Some((at, token)) = find(&tokens) {
            tokens.splice(at..at + 2, [token]);
        }
        tokens
    }

    #[test]
    fn short_and_long_merging_follow_the_rule() {
        // The last merge makes a pair of a lower rank possible, as training never does.
        let merges = [(A, A, 256), (256, B, 257), (257, 256, 258), (B, B, 259), (259, A, 257)];
        let table = table_of(&merges);
        for number in 0..1 << 12_u32 {
            let piece: Vec<u8> = (0..12).map(|bit| b"ab"[(number >> bit & 1) as usize]).collect();
            let expected = merged_plainly(&piece, &merges);
            assert_eq!(merged(&table, &piece), expected);
            assert_eq!(merged_at_once(&table, &piece), expected);
        }
    }

    #[test]
    fn windows_match_merging_at_once() {
        // Ranks ascend, and tokens are runs, so that windows often have to be lengthened.
        let mut merges = vec![(A, A, 256), (A, B, 257), (B, B, 258)];
        for n in 0..60 {
            let token = 256 + merges.len() as u32;
            let part = |n: u32| 256 + n % (token - 256);
            let (left, right) = (part(n * 7 + token), part(n / 3 + token * 5));
            if !merges.iter().any(|&(l, r, _)| (l, r) == (left, right)) {
                merges.push((left, right, token));
            }
        }
        let table = table_of(&merges);
        assert!(table.fixed_lengths().is_some());
        let mut rng = Rng::new(7);
        for round in 0..400 {
            let length = MAX_CACHED_PIECE + 1 + round * 17;
            let is_run_of_a = |i: usize| (i / (1 + round % 40)).is_multiple_of(2);
            let piece: Vec<u8> = (0..length)
                .map(|i| if round % 3 == 0 { rng.below(2) } else { is_run_of_a(i).into() })
                .map(|letter| b"ab"[letter])
                .collect();
            assert_eq!(merged(&table, &piece), merged_at_once(&table, &piece), "round {round}");
        }
    }

    /// Merges in any order of ranks. Up to three have one rank, tied to the merge before.
    fn random_merges(rng: &mut Rng) -> Vec<(Merge, bool)> {
        let mut made: Vec<(Vec<u8>, TokenIndex)> = vec![(vec![b'a'], A), (vec![b'b'], B)];
        let mut merges: Vec<Merge> = Vec::new();
        for _ in 0..3 + rng.below(20) {
            let (left, right) = (rng.below(made.len()), rng.below(made.len()));
            let text = [made[left].0.clone(), made[right].0.clone()].concat();
            let pair = (made[left].1, made[right].1);
            if text.len() > 12 || merges.iter().any(|&(l, r, _)| (l, r) == pair) {
                continue;
            }
            let known = made.iter().find(|(bytes, _)| *bytes == text).map(|&(_, token)| token);
            let token = known.unwrap_or(256 + made.len() as TokenIndex);
            if known.is_none() {
                made.push((text, token));
            }
            merges.insert(rng.below(merges.len() + 1), (pair.0, pair.1, token));
        }
        let mut ties = 0;
        let tied = merges.into_iter().enumerate().map(|(i, merge)| {
            ties = if i > 0 && ties < 2 && rng.below(3) == 0 { ties + 1 } else { 0 };
            (merge, ties > 0)
        });
        tied.collect()
    }

    /// The rule in its plainest form, with ties.
    fn merged_by_ranks(piece: &[u8], merges: &[(Merge, bool)]) -> Vec<TokenIndex> {
        let mut tokens: Vec<TokenIndex> = piece.iter().map(|&byte| byte.into()).collect();
        loop {
            let mut rank = 0;
            let mut best = None;
            for &((left, right, token), is_tied) in merges {
                rank += usize::from(!is_tied);
                if let Some(at) = tokens.windows(2).position(|pair| pair == [left, right])
                    && best.is_none_or(|best: (usize, usize, TokenIndex)| {
                        (rank, at) < (best.0, best.1)
                    })
                {
                    best = Some((rank, at, token));
                }
            }
            let Some((_, at, token)) = best else { return tokens };
            tokens.splice(at..at + 2, [token]);
        }
    }

    #[test]
    fn all_ways_of_merging_follow_any_order_of_ranks() {
        let mut rng = Rng::new(9);
        for round in 0..if cfg!(miri) { 1 } else { 300 } {
            let merges = random_merges(&mut rng);
            let mut table = MergeTable::with_room(bytes(), 300, merges.len() + 1).expect("few");
            for &((left, right, made), is_tied) in &merges {
                let is_new = if is_tied {
                    table.push_tied(left, right, made)
                } else {
                    table.push(left, right, made)
                };
                assert!(is_new);
            }
            let piece: Vec<u8> = (0..60).map(|_| b"aab"[rng.below(3)]).collect();
            for length in [2, 5, 11, 32, 33, 60] {
                let expected = merged_by_ranks(&piece[..length], &merges);
                assert_eq!(merged(&table, &piece[..length]), expected, "round {round}");
                assert_eq!(merged_at_once(&table, &piece[..length]), expected);
            }
            assert!(table.fixed_lengths().is_some());
            let piece: Vec<u8> = (0..MAX_CACHED_PIECE + 1 + rng.below(2000))
                .map(|i| if (i / 200).is_multiple_of(2) { b'a' } else { b"ab"[rng.below(2)] })
                .collect();
            assert_eq!(merged(&table, &piece), merged_at_once(&table, &piece), "round {round}");
        }
    }

    #[test]
    fn a_lengthened_window_is_compared_with_the_window_before() {
        // All pairs of 37 letters, one after the other, where the last pair is merged first. So the
        // first token of a window depends on whether the number of letters after it is odd.
        let walk: Vec<u8> = (0..37)
            .flat_map(|i| [i].into_iter().chain((i + 1..37).flat_map(move |j| [i, j])))
            .collect();
        for length in MAX_CACHED_PIECE + 1..walk.len() {
            let piece = &walk[..length];
            let pairs = piece.windows(2).rev().zip(256..);
            let merges: Vec<_> =
                pairs.map(|(pair, token)| (pair[0].into(), pair[1].into(), token)).collect();
            let table = table_of(&merges);
            assert_eq!(merged(&table, piece), merged_at_once(&table, piece), "{length} bytes");
        }
    }

    #[test]
    fn a_merge_makes_its_token() {
        for made in [[256, 257, 258], [256, 257, 300], [256, 256, 258], [9, 257, 258]] {
            let merges = [0, 1, 2].map(|i| (A + i, A + i + 1, made[i as usize]));
            let table = table_of(&merges);
            let found = [b"ab", b"bc", b"cd"].map(|piece| merged(&table, piece));
            assert_eq!(found, made.map(|token| vec![token]));
        }
    }

    #[test]
    fn too_many_tokens_are_refused() {
        assert!(MergeTable::with_room(bytes(), 1 << TOKEN_BITS, 1).is_none());
        assert!(MergeTable::with_room(bytes(), (1 << TOKEN_BITS) - 1, 1).is_some());
    }
}
