//! The ids that merges make of the bytes of one piece.
//!
//! The rule: of all pairs in the piece that have a rank, the leftmost of the lowest rank is merged,
//! again and again. Two ways follow it: one looks at the whole piece for each merge, which is the
//! fastest for a word; the other has a heap, and is never quadratic. A very long piece is merged
//! window by window where that must come to the same, so that all that is needed stays near.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use crate::spans::Spans;
use crate::tokens::{Tokens, WholePieces};

/// A token by its place among all tokens: dense, whatever ids the vocabulary has.
pub type Token = u32;

/// A merge by its place among all merges. Lower ones come first.
type Rank = u32;

const NO_RANK: Rank = Rank::MAX;

/// Up to so many bytes a piece is merged by looking at all of it, on the stack.
const SHORT: usize = 32;

/// A piece of more bytes than these is merged window by window, if it may be, and whether to go on is
/// asked. What is merged of others is whole, and may be kept.
pub const LONG: usize = 2 * WINDOW;

/// How many bytes a window has, at first, and how many of them, at least, the next has too.
const WINDOW: usize = 512;
const MARGIN: usize = 48;

/// After how many looks at the heap it is asked whether to go on.
const QUESTION: u32 = 1 << 14;

/// A part of a long piece that is merged by itself.
#[derive(Clone, Copy)]
struct Window {
    /// Where it begins in the piece, and how many bytes it has at the most.
    start: usize,
    length: usize,
    /// How many tokens there are before it.
    first: usize,
    /// The token that it must begin with, since that came next in the window before.
    expected: Option<Token>,
}

/// What a vocabulary says of merging.
pub struct Merges {
    tokens_of_bytes: [Token; 256],
    last_byte: Token,
    /// How many merges there are.
    count: Rank,
    table: PairTable,
    /// The token that each merge makes, if that is not simply the one that has the number 256 and
    /// its rank.
    made: Option<Vec<Token>>,
    /// The merges of two single bytes, which are most of those asked for.
    byte_pairs: Vec<Rank>,
    /// The rule "a whole piece that is a token is that token", if the vocabulary has it.
    whole_pieces: Option<WholePieces>,
    /// Made when it is first asked for; none if parts of pieces may not be merged apart.
    spans: OnceLock<Option<Spans>>,
    /// If merges use only what merges of lower ranks make, as those that were trained do.
    lengths: Option<Lengths>,
}

/// A vocabulary that has too many tokens or merges for the tables here.
#[derive(Debug)]
pub struct TooManyError;

/// What merging needs to work in, kept from piece to piece.
#[derive(Default)]
pub struct Scratch {
    heap: BinaryHeap<Reverse<u64>>,
    tokens: Vec<Token>,
    window: Vec<Token>,
    ranks: Vec<Rank>,
    after: Vec<u32>,
    before: Vec<u32>,
}

impl Scratch {
    /// Returns for a piece of how many bytes there is room.
    pub fn room(&self) -> usize {
        self.tokens.capacity()
    }
}

impl Merges {
    /// There are no merges yet, but room for so many, of so many tokens.
    pub fn with_room(
        tokens_of_bytes: [Token; 256],
        tokens: usize,
        merges: usize,
    ) -> Result<Merges, TooManyError> {
        Ok(Merges {
            last_byte: tokens_of_bytes.into_iter().max().unwrap_or(0),
            tokens_of_bytes,
            count: 0,
            table: PairTable::with_room(tokens, merges)?,
            made: None,
            byte_pairs: vec![NO_RANK; 1 << 16],
            whole_pieces: None,
            spans: OnceLock::new(),
            lengths: Some(Lengths::new(&tokens_of_bytes, tokens)),
        })
    }

    /// Takes the merge of the next rank; returns false, and does nothing, if its pair has one.
    ///
    /// Not more may be taken than there was room made for.
    pub fn push(&mut self, left: Token, right: Token, made: Token) -> bool {
        let rank = self.count;
        if !self.table.add(key(left, right), rank) {
            return false;
        }
        self.count += 1;
        if self.lengths.as_mut().is_some_and(|lengths| !lengths.add(left, right, made)) {
            self.lengths = None;
        }
        if self.made.is_none() && made != 256 + rank {
            self.made = Some((256..256 + rank).collect());
        }
        if let Some(all_made) = &mut self.made {
            all_made.push(made);
        }
        // In most vocabularies the bytes are the first tokens, so this is rare.
        if left.max(right) <= self.last_byte {
            for first in self.bytes_of(left) {
                for second in self.bytes_of(right) {
                    self.byte_pairs[usize::from(first) << 8 | usize::from(second)] = rank;
                }
            }
        }
        true
    }

    /// Returns the bytes that are this token: one, or none.
    fn bytes_of(&self, token: Token) -> impl Iterator<Item = u8> + use<> {
        let tokens = self.tokens_of_bytes;
        (0..=255).filter(move |&byte| tokens[usize::from(byte)] == token)
    }

    /// From now on a whole piece that is a token is that token.
    pub fn know_whole_pieces(&mut self, whole_pieces: WholePieces) {
        self.whole_pieces = Some(whole_pieces);
    }

    /// Puts the tokens of a piece behind those in `tokens`.
    ///
    /// `go_on` is asked now and then, if the piece has more than `LONG` bytes; where it says no,
    /// that is the end, and the tokens are of no use.
    pub fn merge(
        &self,
        piece: &[u8],
        scratch: &mut Scratch,
        tokens: &mut Vec<Token>,
        go_on: &mut dyn FnMut() -> bool,
    ) {
        if let Some(token) = self.whole_pieces.as_ref().and_then(|whole| whole.find(piece)) {
            tokens.push(token);
        } else if piece.len() <= SHORT {
            self.merge_short(piece, tokens);
        } else if piece.len() <= LONG {
            self.merge_long(piece, scratch, tokens, &mut || true);
        } else if let Some(lengths) = &self.lengths {
            self.merge_in_windows(piece, lengths, scratch, tokens, go_on);
        } else {
            self.merge_long(piece, scratch, tokens, go_on);
        }
    }

    /// Merges a window of the piece, keeps its tokens but the last few, and goes on where those
    /// began. If each window begins with the token that came next in the one before, all is as if
    /// the piece had been merged at once; where one does not, that before is made twice as long.
    ///
    /// For where the ranks rise, merging goes rank by rank, and through the piece from left to right
    /// for each. Two neighbours in what comes out stay apart when they are merged by themselves,
    /// since each side of a place that no merge crosses goes its own way. And a row of tokens of
    /// which all neighbours stay apart comes out of its bytes: the first merge to cross from one to
    /// the next would, from the same state of those two, have been made between them alone.
    fn merge_in_windows(
        &self,
        piece: &[u8],
        lengths: &Lengths,
        scratch: &mut Scratch,
        tokens: &mut Vec<Token>,
        go_on: &mut dyn FnMut() -> bool,
    ) {
        let mut found = std::mem::take(&mut scratch.window);
        let mut windows: Vec<Window> = Vec::new();
        let first = tokens.len();
        let mut window = Window { start: 0, length: WINDOW, first, expected: None };
        while go_on() {
            let Window { start, length, expected, .. } = window;
            let end = piece.len().min(start + length);
            found.clear();
            self.merge_long(&piece[start..end], scratch, &mut found, go_on);
            if expected.is_some_and(|expected| found.first() != Some(&expected)) {
                let Some(last) = windows.pop() else { break };
                tokens.truncate(last.first);
                window = Window { length: 2 * last.length, ..last };
                continue;
            }
            if end == piece.len() {
                tokens.extend_from_slice(&found);
                break;
            }
            // The last token is not kept, nor are more until MARGIN bytes are not.
            let (mut kept, mut left) = (found.len(), 0);
            while kept > 0 && left < MARGIN {
                kept -= 1;
                left += lengths.of(found[kept]);
            }
            if kept == 0 {
                window.length *= 2;
                continue;
            }
            windows.push(window);
            tokens.extend_from_slice(&found[..kept]);
            let (first, expected) = (tokens.len(), Some(found[kept]));
            window = Window { start: end - left, length: WINDOW, first, expected };
        }
        scratch.window = found;
    }

    /// Returns what tells where pieces may be taken apart, if they may. Where whole pieces are
    /// looked up they may not: a part could be taken for one.
    pub fn spans(&self) -> Option<&Spans> {
        let make = || {
            let tokens = self.tokens()?;
            Some(Spans::new((0..tokens.len() as Token).map(|token| tokens.get(token))))
        };
        if self.spans.get().is_none() {
            // Nobody waits here for another thread, which a forked process may be without.
            let _ = self.spans.set(if self.whole_pieces.is_some() { None } else { make() });
        }
        self.spans.get()?.as_ref()
    }

    /// Returns the tokens of bytes and merges; of another number there is nothing. None if a merge
    /// has a part that only a later one makes.
    fn tokens(&self) -> Option<Tokens> {
        let made = (0..self.count).map(|rank| self.made_by(rank));
        let most = made.chain(self.tokens_of_bytes).max()?;
        let mut tokens = Tokens::with_room(most as usize + 1);
        for (byte, &token) in (0..=255).zip(&self.tokens_of_bytes) {
            tokens.define(token, &[byte]);
        }
        let mut parts = vec![(0, 0); self.count as usize];
        for (rank, left, right) in self.table.pairs() {
            parts[rank as usize] = (left, right);
        }
        for (rank, (left, right)) in (0..).zip(parts) {
            if tokens.get(left).is_empty() || tokens.get(right).is_empty() {
                return None;
            }
            if !tokens.define_joined(self.made_by(rank), left, right) {
                return None;
            }
        }
        Some(tokens)
    }

    #[inline(always)]
    fn made_by(&self, rank: Rank) -> Token {
        match &self.made {
            None => 256 + rank,
            Some(made) => made[rank as usize],
        }
    }

    fn byte_pair(&self, left: u8, right: u8) -> Rank {
        self.byte_pairs[usize::from(left) << 8 | usize::from(right)]
    }

    fn merge_short(&self, piece: &[u8], tokens: &mut Vec<Token>) {
        let mut parts = [0; SHORT];
        // ranks[i] is that of the pair that begins at parts[i].
        let mut ranks = [NO_RANK; SHORT];
        for (part, &byte) in parts.iter_mut().zip(piece) {
            *part = self.tokens_of_bytes[usize::from(byte)];
        }
        for (rank, pair) in ranks.iter_mut().zip(piece.windows(2)) {
            *rank = self.byte_pair(pair[0], pair[1]);
        }
        let mut length = piece.len();
        while length > 1 {
            let (mut lowest, mut at) = (ranks[0], 0);
            for (i, &rank) in ranks[..length - 1].iter().enumerate() {
                if rank < lowest {
                    (lowest, at) = (rank, i);
                }
            }
            if lowest == NO_RANK {
                break;
            }
            parts[at] = self.made_by(lowest);
            for i in at + 1..length - 1 {
                parts[i] = parts[i + 1];
                ranks[i - 1] = ranks[i];
            }
            length -= 1;
            if at > 0 {
                ranks[at - 1] = self.table.get(parts[at - 1], parts[at]);
            }
            if at + 1 < length {
                ranks[at] = self.table.get(parts[at], parts[at + 1]);
            }
        }
        tokens.extend_from_slice(&parts[..length]);
    }

    /// A heap has the rank and the place of each pair; what is not so any more when it comes up,
    /// since another merge has taken a part of it, is passed over.
    fn merge_long(
        &self,
        piece: &[u8],
        scratch: &mut Scratch,
        tokens: &mut Vec<Token>,
        go_on: &mut dyn FnMut() -> bool,
    ) {
        const TAKEN: Token = Token::MAX; // where a token has become the right part of another
        let end = u32::try_from(piece.len()).expect("texts are shorter than 4 GiB");
        let Scratch { heap, tokens: parts, ranks, after, before, .. } = scratch;
        parts.clear();
        parts.extend(piece.iter().map(|&byte| self.tokens_of_bytes[usize::from(byte)]));
        ranks.clear();
        ranks.extend(piece.windows(2).map(|pair| self.byte_pair(pair[0], pair[1])));
        ranks.push(NO_RANK);
        after.clear();
        after.extend(1..=end);
        before.clear();
        before.extend((0..end).map(|i| i.wrapping_sub(1)));
        if !go_on() {
            return;
        }
        let entry = |rank: u32, at: u32| Reverse(u64::from(rank) << 32 | u64::from(at));
        let mut entries = std::mem::take(heap).into_vec();
        entries.clear();
        let present = (0..end).zip(ranks.iter()).filter(|&(_, &rank)| rank != NO_RANK);
        entries.extend(present.map(|(at, &rank)| entry(rank, at)));
        *heap = BinaryHeap::from(entries);

        let mut until_question = QUESTION;
        while let Some(Reverse(top)) = heap.pop() {
            until_question -= 1;
            if until_question == 0 {
                until_question = QUESTION;
                if !go_on() {
                    return;
                }
            }
            let (rank, at) = ((top >> 32) as u32, top as u32);
            let here = at as usize;
            if ranks[here] != rank {
                continue;
            }
            let next = after[here] as usize;
            parts[here] = self.made_by(rank);
            parts[next] = TAKEN;
            ranks[next] = NO_RANK;
            let behind = after[next];
            after[here] = behind;
            ranks[here] = NO_RANK;
            if behind < end {
                before[behind as usize] = at;
                let rank = self.table.get(parts[here], parts[behind as usize]);
                if rank != NO_RANK {
                    ranks[here] = rank;
                    heap.push(entry(rank, at));
                }
            }
            let ahead = before[here];
            if ahead < end {
                let rank = self.table.get(parts[ahead as usize], parts[here]);
                ranks[ahead as usize] = rank;
                if rank != NO_RANK {
                    heap.push(entry(rank, ahead));
                }
            }
        }
        tokens.extend(parts.iter().filter(|&&token| token != TAKEN));
    }
}

/// How many bytes tokens have, as long as no merge uses a token that a merge of its rank or a
/// higher one makes.
struct Lengths {
    /// 0 of a token that nothing has made yet.
    bytes: Vec<u32>,
    is_used: Vec<bool>,
}

impl Lengths {
    fn new(tokens_of_bytes: &[Token; 256], tokens: usize) -> Lengths {
        let mut lengths = Lengths { bytes: vec![0; tokens], is_used: vec![false; tokens] };
        for &token in tokens_of_bytes {
            if let Some(bytes) = lengths.bytes.get_mut(token as usize) {
                *bytes = 1;
                lengths.is_used[token as usize] = true;
            }
        }
        lengths
    }

    /// Takes the merge of the next rank; returns whether the ranks still rise.
    fn add(&mut self, left: Token, right: Token, made: Token) -> bool {
        let mut length_of = |part: Token| {
            *self.is_used.get_mut(part as usize)? = true;
            Some(self.bytes[part as usize]).filter(|&length| length > 0)
        };
        let (Some(left), Some(right)) = (length_of(left), length_of(right)) else { return false };
        let (Some(length), Some(false)) =
            (left.checked_add(right), self.is_used.get(made as usize).copied())
        else {
            return false;
        };
        self.bytes[made as usize] = length;
        true
    }

    #[inline(always)]
    fn of(&self, token: Token) -> usize {
        self.bytes[token as usize] as usize
    }
}

/// Ranks by the pairs that are merged, in lines as long as those of the processor's cache.
///
/// Most pairs that are asked for are not there. A filter, which is small enough for the
/// processor's second cache, tells that of most of them: each pair sets one bit of at least eight
/// a pair.
///
/// Whoever writes a vocabulary file may look for pairs that all want one line. So where one would
/// be far from its line, the lines of all are drawn by lot.
struct PairTable {
    factor: u64,
    filter: Vec<u64>,
    filter_bits: u32,
    lines: Vec<Line>,
    line_bits: u32,
}

/// In each place the two tokens, 20 bits each, and the rank, 24 bits; all ones where there is none.
/// The places are taken from the first on; when there is none left, the next line's are.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u64; 8]);

const TOKEN_BITS: u32 = 20;
const RANK_BITS: u32 = 24;
const FREE: u64 = u64::MAX;

/// So many lines from its own no pair of a usual vocabulary is.
const FAR: usize = 256;

/// How often lines are drawn by lot at the most: once is enough, with certainty for all practice.
const MOST_DRAWS: u32 = 8;

impl PairTable {
    fn with_room(tokens: usize, merges: usize) -> Result<PairTable, TooManyError> {
        // The highest token is left out, so that no place is all ones.
        if merges >= 1 << RANK_BITS || tokens >= 1 << TOKEN_BITS {
            return Err(TooManyError);
        }
        let bits = |count: usize| count.next_power_of_two().trailing_zeros();
        let filter_bits = bits(merges * 8).max(6);
        // Up to 85 of 100 places are taken.
        let line_bits = bits(merges * 100 / (8 * 85) + 1).max(1);
        Ok(PairTable {
            factor: 0x9E37_79B9_7F4A_7C15,
            filter: vec![0; 1 << (filter_bits - 6)],
            filter_bits,
            lines: vec![Line([FREE; 8]); 1 << line_bits],
            line_bits,
        })
    }

    /// Puts in the rank of a pair; returns false, and does nothing, if it has one.
    fn add(&mut self, key: u64, rank: Rank) -> bool {
        let mut draws = 0;
        loop {
            let Some((line, place)) = self.free_place(key) else { return false };
            let steps = line.wrapping_sub(self.line(key)) & (self.lines.len() - 1);
            if steps < FAR || draws == MOST_DRAWS {
                self.put(line, place, key, rank);
                return true;
            }
            self.draw_lines();
            draws += 1;
        }
    }

    /// Returns the line and the place in it where a pair would be; none if it is there.
    fn free_place(&self, key: u64) -> Option<(usize, usize)> {
        let mut line = self.line(key);
        loop {
            for (place, &taken) in self.lines[line].0.iter().enumerate() {
                if taken == FREE {
                    return Some((line, place));
                }
                if taken >> RANK_BITS == key {
                    return None;
                }
            }
            line = (line + 1) & (self.lines.len() - 1);
        }
    }

    fn put(&mut self, line: usize, place: usize, key: u64, rank: Rank) {
        self.lines[line].0[place] = key << RANK_BITS | u64::from(rank);
        let bit = self.bit(key);
        self.filter[bit / 64] |= 1 << (bit % 64);
    }

    fn draw_lines(&mut self) {
        self.factor = RandomState::new().hash_one(self.factor) | 1;
        self.filter.fill(0);
        let empty = vec![Line([FREE; 8]); self.lines.len()];
        let lines = std::mem::replace(&mut self.lines, empty);
        for taken in lines.iter().flat_map(|line| line.0).filter(|&taken| taken != FREE) {
            let key = taken >> RANK_BITS;
            if let Some((line, place)) = self.free_place(key) {
                self.put(line, place, key, rank_of(taken));
            }
        }
    }

    #[inline(always)]
    fn mixed(&self, key: u64) -> u64 {
        key.wrapping_mul(self.factor)
    }

    #[inline(always)]
    fn bit(&self, key: u64) -> usize {
        (self.mixed(key) >> (64 - self.filter_bits)) as usize
    }

    #[inline(always)]
    fn line(&self, key: u64) -> usize {
        (self.mixed(key) >> (64 - self.line_bits)) as usize & (self.lines.len() - 1)
    }

    /// Returns the rank of the merge of two tokens, or NO_RANK.
    #[inline(always)]
    fn get(&self, left: Token, right: Token) -> Rank {
        let key = key(left, right);
        let bit = self.bit(key);
        if self.filter[bit / 64] >> (bit % 64) & 1 == 0 {
            return NO_RANK;
        }
        let mut line = self.line(key);
        loop {
            for &place in &self.lines[line].0 {
                if place >> RANK_BITS == key {
                    return rank_of(place);
                }
                if place == FREE {
                    return NO_RANK;
                }
            }
            line = (line + 1) & (self.lines.len() - 1);
        }
    }

    /// Returns all ranks, and the two tokens of each.
    fn pairs(&self) -> Vec<(Rank, Token, Token)> {
        let taken = self.lines.iter().flat_map(|line| line.0).filter(|&place| place != FREE);
        let token = |bits: u64| bits as Token & ((1 << TOKEN_BITS) - 1);
        let pair = |place: u64| {
            let key = place >> RANK_BITS;
            (rank_of(place), token(key >> TOKEN_BITS), token(key))
        };
        taken.map(pair).collect()
    }
}

fn key(left: Token, right: Token) -> u64 {
    u64::from(left) << TOKEN_BITS | u64::from(right)
}

/// Returns the rank in a place that is not free.
#[inline(always)]
fn rank_of(place: u64) -> Rank {
    place as Rank & ((1 << RANK_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::tokens::Tokens;

    fn merges_of(merges: &[(Token, Token, Token)]) -> Merges {
        let mut vocabulary = Merges::with_room(bytes(), 1000, merges.len() + 1).expect("few");
        for &(left, right, made) in merges {
            assert!(vocabulary.push(left, right, made));
        }
        vocabulary
    }

    fn bytes() -> [Token; 256] {
        std::array::from_fn(|byte| byte as Token)
    }

    /// The rule, said in the plainest way.
    fn merged_plainly(piece: &[u8], merges: &[(Token, Token, Token)]) -> Vec<Token> {
        let mut tokens: Vec<Token> = piece.iter().map(|&byte| byte.into()).collect();
        let find = |tokens: &[Token]| {
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
    fn both_ways_follow_the_rule() {
        // The last merge makes a pair of a lower rank possible, as those from elsewhere may.
        let a = u32::from(b'a');
        let b = u32::from(b'b');
        let merges = [(a, a, 256), (256, b, 257), (257, 256, 258), (b, b, 259), (259, a, 257)];
        let vocabulary = merges_of(&merges);
        let mut scratch = Scratch::default();
        for number in 0..1 << 12_u32 {
            let piece: Vec<u8> = (0..12).map(|bit| b"ab"[(number >> bit & 1) as usize]).collect();
            let wanted = merged_plainly(&piece, &merges);
            let (mut short, mut long) = (Vec::new(), Vec::new());
            vocabulary.merge_short(&piece, &mut short);
            vocabulary.merge_long(&piece, &mut scratch, &mut long, &mut || true);
            assert_eq!((&short, &long), (&wanted, &wanted));
        }
    }

    #[test]
    fn windows_come_to_the_same_as_the_whole() {
        // Ranks that rise, with tokens of runs, so that windows often must be made longer.
        let (a, b) = (u32::from(b'a'), u32::from(b'b'));
        let mut merges = vec![(a, a, 256), (a, b, 257), (b, b, 258)];
        for n in 0..60 {
            let token = 256 + merges.len() as u32;
            let part = |n: u32| 256 + n % (token - 256);
            let (left, right) = (part(n * 7 + token), part(n / 3 + token * 5));
            if !merges.iter().any(|&(l, r, _)| (l, r) == (left, right)) {
                merges.push((left, right, token));
            }
        }
        let vocabulary = merges_of(&merges);
        assert!(vocabulary.lengths.is_some());
        let mut scratch = Scratch::default();
        let mut state = 7_u64;
        for round in 0..400 {
            let length = LONG + 1 + round * 17;
            let piece: Vec<u8> = (0..length)
                .map(|i| {
                    state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                    let run = i / (1 + round % 40) % 2 == 0;
                    if round % 3 == 0 {
                        b"ab"[(state >> 40) as usize % 2]
                    } else {
                        b"ab"[usize::from(run)]
                    }
                })
                .collect();
            let (mut windows, mut whole) = (Vec::new(), Vec::new());
            vocabulary.merge(&piece, &mut scratch, &mut windows, &mut || true);
            vocabulary.merge_long(&piece, &mut scratch, &mut whole, &mut || true);
            assert_eq!(windows, whole, "round {round}");
        }
    }

    #[test]
    fn a_window_that_was_made_longer_is_held_against_the_one_before() {
        // All pairs of 37 letters, one after the other, of which the last is merged first: so what
        // a window begins with depends on whether what is behind it is odd.
        let walk: Vec<u8> = (0..37)
            .flat_map(|i| [i].into_iter().chain((i + 1..37).flat_map(move |j| [i, j])))
            .collect();
        for length in LONG + 1..walk.len() {
            let piece = &walk[..length];
            let pairs = piece.windows(2).rev().zip(256..);
            let merges: Vec<_> =
                pairs.map(|(pair, token)| (pair[0].into(), pair[1].into(), token)).collect();
            let mut vocabulary = Merges::with_room(bytes(), 256 + length, length).expect("few");
            for &(left, right, made) in &merges {
                assert!(vocabulary.push(left, right, made));
            }
            let (mut scratch, mut windows, mut whole) = (Scratch::default(), vec![], vec![]);
            vocabulary.merge(piece, &mut scratch, &mut windows, &mut || true);
            vocabulary.merge_long(piece, &mut scratch, &mut whole, &mut || true);
            assert_eq!(windows, whole, "{length} bytes");
        }
    }

    #[test]
    fn a_whole_piece_that_is_a_token_is_that_token() {
        let mut tokens = Tokens::with_room(301);
        assert!(tokens.define(300, b"abc"));
        let mut vocabulary = merges_of(&[(97, 98, 256)]);
        vocabulary.know_whole_pieces(WholePieces::new(Arc::new(tokens)).0);
        let mut tokens = Vec::new();
        vocabulary.merge(b"abc", &mut Scratch::default(), &mut tokens, &mut || true);
        vocabulary.merge(b"abcd", &mut Scratch::default(), &mut tokens, &mut || true);
        assert_eq!(tokens, [300, 256, 99, 100]);
    }

    #[test]
    fn a_pair_is_taken_once() {
        let mut vocabulary = merges_of(&[(97, 98, 256)]);
        assert!(!vocabulary.push(97, 98, 300));
        assert_eq!((vocabulary.table.get(97, 98), vocabulary.count), (0, 1));
    }

    #[test]
    fn merges_make_the_tokens_that_they_are_said_to_make() {
        for made in [[256, 257, 258], [256, 257, 300], [256, 256, 258], [9, 257, 258]] {
            let pairs = [(97, 98), (98, 99), (99, 100)];
            let merges: Vec<_> = pairs
                .into_iter()
                .zip(made)
                .map(|((left, right), made)| (left, right, made))
                .collect();
            let vocabulary = merges_of(&merges);
            for (piece, token) in [b"ab", b"bc", b"cd"].into_iter().zip(made) {
                let mut tokens = Vec::new();
                vocabulary.merge(piece, &mut Scratch::default(), &mut tokens, &mut || true);
                assert_eq!(tokens, [token]);
            }
        }
    }

    #[test]
    fn more_tokens_or_merges_than_fit_are_refused() {
        assert!(Merges::with_room(bytes(), 1 << TOKEN_BITS, 1).is_err());
        assert!(PairTable::with_room(300, 1 << RANK_BITS).is_err());
        assert!(Merges::with_room(bytes(), (1 << TOKEN_BITS) - 1, 1).is_ok());
    }

    #[test]
    fn pairs_that_want_one_line_cannot_slow_the_table_down() {
        let mut table = PairTable::with_room(1 << 19, 1 << 14).expect("few");
        let keys: Vec<u64> =
            (0..1 << 30).step_by(7).filter(|&key| table.line(key) == 0).take(1 << 12).collect();
        for (rank, &key) in (0..).zip(&keys) {
            assert!(table.add(key, rank));
        }
        let mask = table.lines.len() - 1;
        let steps = |line: usize, key: u64| line.wrapping_sub(table.line(key)) & mask;
        for (line, places) in table.lines.iter().enumerate() {
            let taken = places.0.iter().filter(|&&place| place != FREE);
            assert!(taken.into_iter().all(|place| steps(line, place >> RANK_BITS) < FAR));
        }
        for (rank, &key) in (0..).zip(&keys) {
            assert_eq!(table.get((key >> TOKEN_BITS) as Token, key as Token & 0xF_FFFF), rank);
        }
    }
}
