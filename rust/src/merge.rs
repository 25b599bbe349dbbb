//! The ids that merges make of the bytes of one piece.
//!
//! The rule: of all pairs in the piece that have a rank, the leftmost of the lowest rank is merged,
//! again and again. Two ways follow it: one looks at the whole piece for each merge, which is the
//! fastest for a word; the other has a heap, and is never quadratic.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::OnceLock;

use crate::spans::Spans;

/// A token by its place among all tokens: dense, whatever ids the vocabulary has.
pub type Token = u32;

/// A merge as one number: its rank above, the token that it makes below. Lower ranks are less.
type Merge = u64;

const NO_MERGE: Merge = u64::MAX;

/// Up to so many bytes a piece is merged by looking at all of it, on the stack.
const SHORT: usize = 32;

/// What a vocabulary says of merging.
pub struct Merges {
    tokens_of_bytes: [Token; 256],
    table: PairTable,
    /// The merges of two single bytes, which are most of those asked for.
    byte_pairs: Vec<Merge>,
    /// The rule "a whole piece that is a token is that token", if the vocabulary has it.
    whole_pieces: Option<HashMap<Box<[u8]>, Token>>,
    /// Made when it is first asked for; none if parts of pieces may not be merged apart.
    spans: OnceLock<Option<Spans>>,
}

/// What merging needs to work in, kept from piece to piece.
#[derive(Default)]
pub struct Scratch {
    heap: BinaryHeap<Reverse<u64>>,
    tokens: Vec<Token>,
    ranks: Vec<u32>,
    after: Vec<u32>,
    before: Vec<u32>,
}

impl Merges {
    /// `merges` has, in the order of ranks, the two parts and the token that they make.
    pub fn new(
        tokens_of_bytes: [Token; 256],
        merges: &[(Token, Token, Token)],
        whole_pieces: Option<HashMap<Box<[u8]>, Token>>,
    ) -> Merges {
        let table = PairTable::new(merges);
        let mut byte_pairs = vec![NO_MERGE; 1 << 16];
        for left in 0..256 {
            for right in 0..256 {
                byte_pairs[left << 8 | right] =
                    table.get(tokens_of_bytes[left], tokens_of_bytes[right]);
            }
        }
        Merges { tokens_of_bytes, table, byte_pairs, whole_pieces, spans: OnceLock::new() }
    }

    /// Puts the tokens of a piece behind those in `tokens`.
    pub fn merge(&self, piece: &[u8], scratch: &mut Scratch, tokens: &mut Vec<Token>) {
        if let Some(&token) = self.whole_pieces.as_ref().and_then(|whole| whole.get(piece)) {
            tokens.push(token);
        } else if piece.len() <= SHORT {
            self.merge_short(piece, tokens);
        } else {
            self.merge_long(piece, scratch, tokens);
        }
    }

    /// Returns what tells where pieces may be taken apart, if they may. Where whole pieces are
    /// looked up they may not: a part could be taken for one.
    pub fn spans(&self) -> Option<&Spans> {
        let make = || {
            let tokens = self.bytes_of_tokens()?;
            Some(Spans::new(tokens.iter().map(Vec::as_slice)))
        };
        self.spans.get_or_init(|| if self.whole_pieces.is_some() { None } else { make() }).as_ref()
    }

    /// Returns the bytes of the tokens of bytes and merges, by token; of another, nothing. None
    /// if a merge has a part that only a later one makes.
    fn bytes_of_tokens(&self) -> Option<Vec<Vec<u8>>> {
        let mut merges: Vec<(u64, Merge)> =
            self.table.slots.iter().copied().filter(|slot| slot.1 != NO_MERGE).collect();
        merges.sort_unstable_by_key(|&(_, merge)| merge);
        let made = merges.iter().map(|&(_, merge)| merge as Token);
        let most = made.chain(self.tokens_of_bytes).max()?;
        let mut tokens = vec![Vec::new(); most as usize + 1];
        for (byte, &token) in (0..=255).zip(&self.tokens_of_bytes) {
            tokens[token as usize] = vec![byte];
        }
        for (pair, merge) in merges {
            let (left, right) =
                (tokens.get((pair >> 32) as usize)?, tokens.get(pair as u32 as usize)?);
            if left.is_empty() || right.is_empty() {
                return None;
            }
            tokens[merge as Token as usize] = [&left[..], right].concat();
        }
        Some(tokens)
    }

    fn byte_pair(&self, left: u8, right: u8) -> Merge {
        self.byte_pairs[usize::from(left) << 8 | usize::from(right)]
    }

    fn merge_short(&self, piece: &[u8], tokens: &mut Vec<Token>) {
        let mut parts = [0; SHORT];
        // merges[i] is that of the pair that begins at parts[i].
        let mut merges = [NO_MERGE; SHORT];
        for (part, &byte) in parts.iter_mut().zip(piece) {
            *part = self.tokens_of_bytes[usize::from(byte)];
        }
        for (merge, pair) in merges.iter_mut().zip(piece.windows(2)) {
            *merge = self.byte_pair(pair[0], pair[1]);
        }
        let mut length = piece.len();
        while length > 1 {
            let mut at = 0;
            let mut lowest = merges[0];
            for (i, &merge) in merges[1..length - 1].iter().enumerate() {
                if merge < lowest {
                    (lowest, at) = (merge, i + 1);
                }
            }
            if lowest == NO_MERGE {
                break;
            }
            parts[at] = lowest as Token;
            parts.copy_within(at + 2..length, at + 1);
            merges.copy_within(at + 1..length, at);
            length -= 1;
            if at > 0 {
                merges[at - 1] = self.table.get(parts[at - 1], parts[at]);
            }
            if at + 1 < length {
                merges[at] = self.table.get(parts[at], parts[at + 1]);
            }
        }
        tokens.extend_from_slice(&parts[..length]);
    }

    /// A heap has the rank and the place of each pair; what is not so any more when it comes up,
    /// since another merge has taken a part of it, is passed over.
    fn merge_long(&self, piece: &[u8], scratch: &mut Scratch, tokens: &mut Vec<Token>) {
        const TAKEN: Token = Token::MAX; // where a token has become the right part of another
        const NO_RANK: u32 = u32::MAX;
        let end = u32::try_from(piece.len()).expect("texts are shorter than 4 GiB");
        let Scratch { heap, tokens: parts, ranks, after, before } = scratch;
        parts.clear();
        parts.extend(piece.iter().map(|&byte| self.tokens_of_bytes[usize::from(byte)]));
        ranks.clear();
        ranks.extend(piece.windows(2).map(|pair| rank_of(self.byte_pair(pair[0], pair[1]))));
        ranks.push(NO_RANK);
        after.clear();
        after.extend(1..=end);
        before.clear();
        before.extend((0..end).map(|i| i.wrapping_sub(1)));
        let entry = |rank: u32, at: u32| Reverse(u64::from(rank) << 32 | u64::from(at));
        let mut entries = std::mem::take(heap).into_vec();
        entries.clear();
        let present = (0..end).zip(ranks.iter()).filter(|&(_, &rank)| rank != NO_RANK);
        entries.extend(present.map(|(at, &rank)| entry(rank, at)));
        *heap = BinaryHeap::from(entries);

        while let Some(Reverse(top)) = heap.pop() {
            let (rank, at) = ((top >> 32) as u32, top as u32);
            let here = at as usize;
            if ranks[here] != rank {
                continue;
            }
            let next = after[here] as usize;
            let merge = self.table.get(parts[here], parts[next]);
            parts[here] = merge as Token;
            parts[next] = TAKEN;
            ranks[next] = NO_RANK;
            let behind = after[next];
            after[here] = behind;
            ranks[here] = NO_RANK;
            if behind < end {
                before[behind as usize] = at;
                let rank = rank_of(self.table.get(parts[here], parts[behind as usize]));
                if rank != NO_RANK {
                    ranks[here] = rank;
                    heap.push(entry(rank, at));
                }
            }
            let ahead = before[here];
            if ahead < end {
                let rank = rank_of(self.table.get(parts[ahead as usize], parts[here]));
                ranks[ahead as usize] = rank;
                if rank != NO_RANK {
                    heap.push(entry(rank, ahead));
                }
            }
        }
        tokens.extend(parts.iter().filter(|&&token| token != TAKEN));
    }
}

/// Returns the rank of a merge, `u32::MAX` of none.
fn rank_of(merge: Merge) -> u32 {
    (merge >> 32) as u32
}

/// Merges by their pairs: open addressing, half full at the most.
struct PairTable {
    slots: Vec<(u64, Merge)>,
    shift: u32,
}

impl PairTable {
    fn new(merges: &[(Token, Token, Token)]) -> PairTable {
        let bits = (merges.len() * 2).next_power_of_two().trailing_zeros().max(4);
        let mut table = PairTable { slots: vec![(0, NO_MERGE); 1 << bits], shift: 64 - bits };
        for (rank, &(left, right, token)) in merges.iter().enumerate() {
            let at = table.place(left, right);
            if table.slots[at].1 == NO_MERGE {
                let rank = u64::try_from(rank).expect("fewer merges than 2^32");
                table.slots[at] = (key(left, right), rank << 32 | u64::from(token));
            }
        }
        table
    }

    /// Returns where a pair is, or the free place where it would be.
    #[inline(always)]
    fn place(&self, left: Token, right: Token) -> usize {
        let key = key(left, right);
        let mask = self.slots.len() - 1;
        let mut at = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize;
        while self.slots[at].1 != NO_MERGE && self.slots[at].0 != key {
            at = (at + 1) & mask;
        }
        at
    }

    #[inline(always)]
    fn get(&self, left: Token, right: Token) -> Merge {
        self.slots[self.place(left, right)].1
    }
}

fn key(left: Token, right: Token) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let vocabulary = Merges::new(bytes(), &merges, None);
        let mut scratch = Scratch::default();
        for number in 0..1 << 12_u32 {
            let piece: Vec<u8> = (0..12).map(|bit| b"ab"[(number >> bit & 1) as usize]).collect();
            let wanted = merged_plainly(&piece, &merges);
            let (mut short, mut long) = (Vec::new(), Vec::new());
            vocabulary.merge_short(&piece, &mut short);
            vocabulary.merge_long(&piece, &mut scratch, &mut long);
            assert_eq!((&short, &long), (&wanted, &wanted));
        }
    }

    #[test]
    fn a_whole_piece_that_is_a_token_is_that_token() {
        let whole = HashMap::from([(Box::from(*b"abc"), 300)]);
        let vocabulary = Merges::new(bytes(), &[(97, 98, 256)], Some(whole));
        let mut tokens = Vec::new();
        vocabulary.merge(b"abc", &mut Scratch::default(), &mut tokens);
        vocabulary.merge(b"abcd", &mut Scratch::default(), &mut tokens);
        assert_eq!(tokens, [300, 256, 99, 100]);
    }
}
