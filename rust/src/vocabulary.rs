//! What follows from a vocabulary's ids and merges: a place for each token, its bytes, its merge.
//!
//! What is not as it has to be makes none, and neither does what is too much for the tables here: it
//! is for the Python engine, which is given the same, to say what is wrong, or to do the work.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::merge::{Merges, Scratch, Token};
use crate::tokens::{Tokens, WholePieces};

/// The tokens of a vocabulary, in the order of their ids, but for special ones; and its merges.
pub struct Vocabulary {
    pub id_of: Arc<[u32]>,
    pub token_of_byte: [Token; 256],
    /// The merges in the order of ranks: two parts, and the token that they make.
    pub merges: Vec<(Token, Token, Token)>,
    /// The same, to merge by.
    pub table: Arc<Merges>,
    /// The bytes of each token, where they were needed.
    pub bytes_of: Option<Arc<Tokens>>,
    /// The tokens that no merge makes, or none before it is a part in another; bytes apart.
    pub others: Vec<Token>,
    /// Whether a whole piece that is a token is that token.
    pub ignore_merges: bool,
}

impl Vocabulary {
    /// Returns the vocabulary of merges that are known to be right; none if they are too many.
    ///
    /// `bytes_of` has ids and the bytes of their tokens: of those that no merge makes, or, for
    /// `ignore_merges`, of all.
    pub fn of_trusted(
        byte_ids: &[u32; 256],
        bytes_of: &[(u32, &[u8])],
        pairs: &[(u32, u32)],
        made: &[u32],
        ignore_merges: bool,
    ) -> Option<Vocabulary> {
        let others = bytes_of.iter().map(|&(id, _)| id);
        let numbers = Numbers::new(byte_ids.iter().chain(made).copied().chain(others).collect());
        let token_of_byte = numbers.tokens_of(byte_ids)?;
        let mut table = Merges::with_room(token_of_byte, numbers.id_of.len(), pairs.len()).ok()?;
        let mut merges = Vec::with_capacity(pairs.len());
        for (&(left, right), &id) in pairs.iter().zip(made) {
            let [left, right, made] = numbers.tokens_of(&[left, right, id])?;
            table.push(left, right, made);
            merges.push((left, right, made));
        }
        if ignore_merges {
            let mut tokens = Tokens::with_room(numbers.id_of.len());
            for &(id, bytes) in bytes_of {
                tokens.define(numbers.token_of(id)?, bytes).then_some(())?;
            }
            table.know_whole_pieces(WholePieces::new(Arc::new(tokens)).0);
        }
        Some(Vocabulary {
            id_of: numbers.id_of.into(),
            token_of_byte,
            merges,
            table: Arc::new(table),
            bytes_of: None,
            others: Vec::new(),
            ignore_merges,
        })
    }

    /// Returns the vocabulary of merges that a file has, or none if anything is wrong with them.
    ///
    /// `others` has ids and the bytes of their tokens, in ascending order, `pairs` the ids of two
    /// parts, again and again, and `made` the ids that the merges make, in runs: the first, and how
    /// many they are. The bytes of all parts may be `most_bytes` at the most.
    pub fn of_merges(
        byte_ids: &[u32; 256],
        others: &[(u32, &[u8])],
        pairs: &[u32],
        made: &[(u32, u32)],
        ignore_merges: bool,
        most_bytes: u64,
    ) -> Option<Vocabulary> {
        let made = ids_of_runs(made, pairs.len() / 2)?;
        let other_ids = others.iter().map(|&(id, _)| id);
        let numbers =
            Numbers::new(byte_ids.iter().chain(&made).copied().chain(other_ids).collect());
        let token_of_byte = numbers.tokens_of(byte_ids)?;
        let mut tokens = Tokens::with_room(numbers.id_of.len());
        for (&token, byte) in token_of_byte.iter().zip(0..=255) {
            tokens.define(token, &[byte]).then_some(())?;
        }
        let mut other_tokens = Vec::with_capacity(others.len());
        for &(id, bytes) in others {
            let token = numbers.token_of(id)?;
            tokens.define(token, bytes).then_some(())?;
            other_tokens.push(token);
        }
        let mut merges = Vec::with_capacity(made.len());
        let mut total = 0;
        for (pair, &id) in pairs.chunks_exact(2).zip(&made) {
            let [left, right, made] = numbers.tokens_of(&[pair[0], pair[1], id])?;
            let lengths = [left, right].map(|part| tokens.get(part).len() as u64);
            total += lengths[0] + lengths[1];
            if lengths.contains(&0) || total > most_bytes {
                return None;
            }
            if tokens.get(made).is_empty() {
                tokens.define_joined(made, left, right).then_some(())?;
            } else if !tokens.is_joined(made, left, right) {
                return None;
            }
            merges.push((left, right, made));
        }
        // In a loop of its own, as the table is larger than the processor's cache.
        let mut table = Merges::with_room(token_of_byte, tokens.len(), merges.len()).ok()?;
        if !merges.iter().all(|&(left, right, made)| table.push(left, right, made)) {
            return None;
        }
        let tokens = Arc::new(tokens);
        let (whole_pieces, differ) = WholePieces::new(Arc::clone(&tokens));
        if !differ {
            return None;
        }
        if ignore_merges {
            table.know_whole_pieces(whole_pieces);
        }
        Some(Vocabulary {
            id_of: numbers.id_of.into(),
            token_of_byte,
            merges,
            table: Arc::new(table),
            bytes_of: Some(tokens),
            others: other_tokens,
            ignore_merges,
        })
    }

    /// Returns the vocabulary that gives the ids which tiktoken gives for these ranks, or none if
    /// anything is wrong with them; also if `go_on`, which is asked now and then, says no.
    ///
    /// `ranks` has ranks, which are ids, and the bytes of their tokens: `most_bytes` of each, at
    /// the most.
    pub fn of_ranks(
        mut ranks: Vec<(u32, &[u8])>,
        highest_rank: u32,
        most_bytes: usize,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Option<Vocabulary> {
        ranks.sort_by_key(|&(rank, _)| rank);
        if ranks.windows(2).any(|pair| pair[0].0 == pair[1].0)
            || ranks.iter().any(|&(_, bytes)| !(1..=most_bytes).contains(&bytes.len()))
            || ranks.last().is_none_or(|&(rank, _)| rank > highest_rank)
        {
            return None;
        }
        let mut tokens = Tokens::with_room(ranks.len());
        let mut token_of_byte = [NO_TOKEN; 256];
        for (token, &(_, bytes)) in (0..).zip(&ranks) {
            tokens.define(token, bytes).then_some(())?;
            if let &[byte] = bytes {
                token_of_byte[usize::from(byte)] = token;
            }
        }
        let tokens = Arc::new(tokens);
        let (whole_pieces, differ) = WholePieces::new(Arc::clone(&tokens));
        if !differ || token_of_byte.contains(&NO_TOKEN) {
            return None;
        }
        let mut finder = PairFinder::new(token_of_byte, &tokens, &whole_pieces)?;
        let mut merges = Vec::with_capacity(ranks.len());
        let mut work = 0;
        for token in 0..ranks.len() as Token {
            let length = tokens.get(token).len();
            work += length;
            if work > QUESTION {
                work = 0;
                if !go_on() {
                    return None;
                }
            }
            if length > 1
                && let Some((left, right)) = finder.find(token)
            {
                merges.push((left, right, token));
            }
        }
        let ignore_merges = 256 + merges.len() < ranks.len();
        let mut table = finder.table;
        if ignore_merges {
            table.know_whole_pieces(whole_pieces);
        }
        Some(Vocabulary {
            id_of: ranks.iter().map(|&(rank, _)| rank).collect(),
            token_of_byte,
            others: others(&token_of_byte, &merges, ranks.len()),
            merges,
            table: Arc::new(table),
            bytes_of: Some(tokens),
            ignore_merges,
        })
    }

    /// Returns the token of an id.
    pub fn token_of(&self, id: u32) -> Option<Token> {
        // Ids without gaps are places already.
        match self.id_of.get(id as usize) {
            Some(&same) if same == id => Some(id),
            _ => self.id_of.binary_search(&id).ok().map(|token| token as Token),
        }
    }
}

const NO_TOKEN: Token = Token::MAX;

/// After how many bytes of tokens it is asked whether to go on.
const QUESTION: usize = 1 << 18;

/// Returns the ids of runs, which have to be so many; none if one goes beyond all ids.
fn ids_of_runs(runs: &[(u32, u32)], count: usize) -> Option<Vec<u32>> {
    let total: u64 = runs.iter().map(|&(_, length)| u64::from(length)).sum();
    if total != count as u64 {
        return None;
    }
    let mut ids = Vec::with_capacity(count);
    for &(first, length) in runs {
        let last = first.checked_add(length.checked_sub(1)?)?;
        ids.extend(first..=last);
    }
    Some(ids)
}

/// Returns the tokens, in order, that no merge makes, or none before it is a part in another.
fn others(
    token_of_byte: &[Token; 256],
    merges: &[(Token, Token, Token)],
    count: usize,
) -> Vec<Token> {
    let mut known = vec![false; count];
    let mut is_other = vec![false; count];
    token_of_byte.iter().for_each(|&token| known[token as usize] = true);
    for &(left, right, made) in merges {
        for part in [left, right].map(|part| part as usize) {
            is_other[part] |= !known[part];
            known[part] = true;
        }
        known[made as usize] = true;
    }
    let tokens = 0..count as Token;
    tokens.filter(|&token| is_other[token as usize] || !known[token as usize]).collect()
}

/// A number for each id: its place among them all.
struct Numbers {
    /// The ids, in ascending order.
    id_of: Vec<u32>,
    /// The token of each id; empty where the ids are too far apart.
    token_of: Vec<Token>,
}

impl Numbers {
    fn new(mut ids: Vec<u32>) -> Numbers {
        let size = ids.iter().max().map_or(0, |&id| id as usize + 1);
        if size > 4 * ids.len() {
            ids.sort_unstable();
            ids.dedup();
            return Numbers { id_of: ids, token_of: Vec::new() };
        }
        let mut token_of = vec![NO_TOKEN; size];
        ids.iter().for_each(|&id| token_of[id as usize] = 0);
        ids.clear();
        for (id, token) in (0..).zip(&mut token_of) {
            if *token != NO_TOKEN {
                *token = ids.len() as Token;
                ids.push(id);
            }
        }
        Numbers { id_of: ids, token_of }
    }

    fn token_of(&self, id: u32) -> Option<Token> {
        if self.token_of.is_empty() {
            return self.id_of.binary_search(&id).ok().map(|token| token as Token);
        }
        self.token_of.get(id as usize).copied().filter(|&token| token != NO_TOKEN)
    }

    fn tokens_of<const N: usize>(&self, ids: &[u32; N]) -> Option<[Token; N]> {
        let mut tokens = [NO_TOKEN; N];
        for (token, &id) in tokens.iter_mut().zip(ids) {
            *token = self.token_of(id)?;
        }
        Some(tokens)
    }
}

/// Finds the pair that makes each token, one after the other in the order of ranks.
///
/// tiktoken joins any two neighbours whose bytes, joined, are a token. Of one token these are always
/// the same two, so the merges that are found so far say which, as long as they leave but two parts
/// of a token. If they leave more, tokens of higher ranks may have a part in it.
struct PairFinder<'a> {
    tokens: &'a Tokens,
    whole_pieces: &'a WholePieces,
    token_of_byte: [Token; 256],
    table: Merges,
    scratch: Scratch,
    parts: Vec<Token>,
}

impl<'a> PairFinder<'a> {
    fn new(
        token_of_byte: [Token; 256],
        tokens: &'a Tokens,
        whole_pieces: &'a WholePieces,
    ) -> Option<PairFinder<'a>> {
        Some(PairFinder {
            tokens,
            whole_pieces,
            token_of_byte,
            table: Merges::with_room(token_of_byte, tokens.len(), tokens.len()).ok()?,
            scratch: Scratch::default(),
            parts: Vec::new(),
        })
    }

    fn find(&mut self, token: Token) -> Option<(Token, Token)> {
        let bytes = self.tokens.get(token);
        self.parts.clear();
        self.table.merge(bytes, &mut self.scratch, &mut self.parts, &mut || true);
        if self.parts.len() != 2 {
            self.parts = self.join_any(bytes, token);
        }
        let &[left, right] = self.parts.as_slice() else { return None };
        self.table.push(left, right, token).then_some((left, right))
    }

    /// Joins the bytes of a token as tiktoken does if it has all tokens but this: of the neighbours
    /// whose bytes, joined, are a token, the leftmost of the lowest rank, again and again.
    fn join_any(&self, bytes: &[u8], but: Token) -> Vec<Token> {
        let end = bytes.len();
        let joined = |start: usize, end: usize| {
            self.whole_pieces.find(&bytes[start..end]).filter(|&token| token != but)
        };
        // Where the part that begins at each byte ends, and the one before it begins; and what it
        // makes with the part behind it.
        let mut ends: Vec<usize> = (1..=end).collect();
        let mut before: Vec<usize> = (0..end).map(|at| at.wrapping_sub(1)).collect();
        let mut made: Vec<Option<Token>> =
            (0..end).map(|at| (at + 2 <= end).then(|| joined(at, at + 2)).flatten()).collect();
        let mut parts: Vec<Token> =
            bytes.iter().map(|&byte| self.token_of_byte[usize::from(byte)]).collect();
        let mut heap: BinaryHeap<Reverse<(Token, usize)>> = made
            .iter()
            .zip(0..)
            .filter_map(|(made, at)| made.map(|token| Reverse((token, at))))
            .collect();
        while let Some(Reverse((token, at))) = heap.pop() {
            if made[at] != Some(token) {
                continue;
            }
            let taken = ends[at];
            ends[at] = ends[taken];
            parts[at] = token;
            parts[taken] = NO_TOKEN;
            made[taken] = None;
            let behind = ends[at];
            if behind < end {
                before[behind] = at;
            }
            let neighbours = [(at, behind), (before[at], at)];
            for (left, right) in neighbours {
                if left >= end {
                    continue;
                }
                made[left] = if right < end { joined(left, ends[right]) } else { None };
                if let Some(token) = made[left] {
                    heap.push(Reverse((token, left)));
                }
            }
        }
        parts.retain(|&part| part != NO_TOKEN);
        parts
    }
}

/// Returns the ranks in the lines of a .tiktoken file, and the bytes of their tokens, one behind
/// the other, with how many each token has. None if they are not written as tiktoken writes them.
pub fn parse_ranks(data: &[u8]) -> Option<(Vec<u32>, Vec<usize>, Vec<u8>)> {
    let lines = data.len() / 12;
    let (mut ranks, mut lengths) = (Vec::with_capacity(lines), Vec::with_capacity(lines));
    let mut bytes = Vec::with_capacity(data.len() / 2);
    let mut rest = data;
    while !rest.is_empty() {
        let start = bytes.len();
        let encoded = rest.iter().position(|&byte| byte == b' ')?;
        decode_base64(&rest[..encoded], &mut bytes)?;
        rest = &rest[encoded + 1..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if !(1..=10).contains(&digits) {
            return None;
        }
        let rank =
            rest[..digits].iter().fold(0, |rank, &digit| 10 * rank + u64::from(digit - b'0'));
        rest = &rest[digits..];
        rest = rest.strip_prefix(b"\r").unwrap_or(rest).strip_prefix(b"\n")?;
        ranks.push(u32::try_from(rank).ok()?);
        lengths.push(bytes.len() - start);
    }
    Some((ranks, lengths, bytes))
}

/// Puts the bytes that a text in base64 stands for behind others; none if it is not written in the
/// one way that they are written.
fn decode_base64(text: &[u8], bytes: &mut Vec<u8>) -> Option<()> {
    for (number, group) in text.chunks(4).enumerate() {
        let &[a, b, c, d] = group else { return None };
        let is_last = 4 * (number + 1) == text.len();
        let count = match (c, d) {
            (b'=', b'=') if is_last => 1,
            (_, b'=') if is_last => 2,
            _ => 3,
        };
        let mut bits = 0;
        for &character in &[a, b, c, d][..=count] {
            bits = bits << 6 | u32::from(SEXTET[usize::from(character)]).checked_sub(1)?;
        }
        bits <<= 6 * (3 - count);
        let [_, three @ ..] = bits.to_be_bytes();
        if three[count..].iter().any(|&byte| byte != 0) {
            return None;
        }
        bytes.extend_from_slice(&three[..count]);
    }
    Some(())
}

/// The six bits of each character of base64, and one more; 0 of all other characters.
const SEXTET: [u8; 256] = {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut table = [0; 256];
    let mut bits = 0;
    while bits < 64 {
        table[alphabet[bits] as usize] = bits as u8 + 1;
        bits += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u32; 256] = {
        let mut ids = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            ids[byte] = byte as u32;
            byte += 1;
        }
        ids
    };

    fn of_merges(
        others: &[(u32, &[u8])],
        pairs: &[u32],
        made: &[(u32, u32)],
    ) -> Option<Vocabulary> {
        Vocabulary::of_merges(&BYTES, others, pairs, made, false, 100)
    }

    fn bytes_of(vocabulary: &Vocabulary, id: u32) -> &[u8] {
        let token = vocabulary.token_of(id).unwrap();
        vocabulary.bytes_of.as_ref().unwrap().get(token)
    }

    #[test]
    fn tokens_have_the_bytes_that_merges_make() {
        let vocabulary = of_merges(
            &[(4_000_000_000, b"bc")],
            &[97, 4_000_000_000, 97, 98, 256, 99],
            &[(300, 1), (256, 1), (300, 1)],
        );
        let vocabulary = vocabulary.unwrap();
        assert_eq!(bytes_of(&vocabulary, 300), b"abc");
        assert_eq!(bytes_of(&vocabulary, 256), b"ab");
        assert_eq!(vocabulary.id_of[256..], [256, 300, 4_000_000_000]);
        assert_eq!(vocabulary.merges, [(97, 258, 257), (97, 98, 256), (256, 99, 257)]);
    }

    #[test]
    fn what_is_wrong_with_merges_makes_no_vocabulary() {
        let right: [&[u32]; 2] = [&[97, 98], &[97, 98, 256, 256]];
        assert!(of_merges(&[], right[0], &[(256, 1)]).is_some());
        assert!(of_merges(&[], right[1], &[(256, 2)]).is_some());
        type Given<'a> = (&'a [u32], &'a [(u32, u32)]);
        let wrong: [Given<'_>; 10] = [
            (&[97, 256], &[(256, 1)]),                    // a part that it makes itself
            (&[97, 999], &[(256, 1)]),                    // a part that there is not
            (&[97, 98, 97, 98], &[(256, 2)]),             // a pair given twice
            (&[97, 98, 97, 98], &[(256, 1), (256, 1)]),   // that makes the same token too
            (&[97, 98, 98, 97], &[(256, 1), (256, 1)]),   // another token of the same id
            (&[97, 98], &[(98, 1)]),                      // a byte that is joined
            (&[97, 98], &[(256, 2)]),                     // too many ids
            (&[97, 98], &[(u32::MAX, 2), (0, u32::MAX)]), // far too many
            (&[97, 98, 98, 99], &[(u32::MAX, 2)]),        // an id beyond all
            (&[97, 98, 256, 99, 98, 99, 97, 258], &[(256, 4)]), // two ids of the same bytes
        ];
        for (pairs, made) in wrong {
            assert!(of_merges(&[], pairs, made).is_none(), "{pairs:?}");
        }
    }

    #[test]
    fn merges_that_double_and_double_are_bounded() {
        let pairs: Vec<u32> =
            [97, 97].into_iter().chain((256..290).flat_map(|id| [id, id])).collect();
        assert!(of_merges(&[], &pairs, &[(256, 35)]).is_none());
        assert!(of_merges(&[], &pairs[..8], &[(256, 4)]).is_some());
    }

    fn of_ranks(tokens: &[&[u8]]) -> Option<Vocabulary> {
        let bytes: Vec<[u8; 1]> = (0..=255).map(|byte| [byte]).collect();
        let all = bytes.iter().map(|byte| &byte[..]).chain(tokens.iter().copied());
        Vocabulary::of_ranks((0..).zip(all).collect(), 1000, 10, &mut || true)
    }

    #[test]
    fn each_token_is_made_of_the_pair_that_its_bytes_become() {
        let vocabulary = of_ranks(&[b"ab", b"abc", b"bc", b"abcbc"]).unwrap();
        assert_eq!(
            vocabulary.merges,
            [(97, 98, 256), (256, 99, 257), (98, 99, 258), (257, 258, 259)]
        );
        assert_eq!((vocabulary.others, vocabulary.ignore_merges), (vec![], false));
    }

    #[test]
    fn a_token_may_be_made_of_one_of_a_higher_rank() {
        let vocabulary = of_ranks(&[b"abc", b"ab", b"xyz"]).unwrap();
        assert_eq!(vocabulary.merges, [(257, 99, 256), (97, 98, 257)]);
        assert_eq!((vocabulary.others, vocabulary.ignore_merges), (vec![257, 258], true));
    }

    #[test]
    fn what_is_wrong_with_ranks_makes_no_vocabulary() {
        assert!(of_ranks(&[b"ab", b"ab"]).is_none());
        assert!(of_ranks(&[b""]).is_none());
        assert!(of_ranks(&[b"more than ten"]).is_none());
        assert!(Vocabulary::of_ranks(vec![(0, b"a")], 1000, 10, &mut || true).is_none());
        assert!(Vocabulary::of_ranks(vec![], 1000, 10, &mut || true).is_none());
    }

    #[test]
    fn lines_are_tokens_in_base64_and_ranks() {
        let (ranks, lengths, bytes) = parse_ranks(b"YQ== 7\r\nYWI= 4294967295\nYWJj 0\n").unwrap();
        assert_eq!(
            (ranks, lengths, &bytes[..]),
            (vec![7, u32::MAX, 0], vec![1, 2, 3], &b"aababc"[..])
        );
        assert_eq!(parse_ranks(b""), Some((vec![], vec![], vec![])));
    }

    #[test]
    fn lines_that_are_spelled_otherwise_are_none() {
        let lines: [&[u8]; 12] = [
            b"YQ== 7",
            b"YQ==  7\n",
            b"YQ= 7\n",
            b"YR== 7\n",
            b"Y=== 7\n",
            b"YQ==YQ== 7\n",
            b"Y.== 7\n",
            b"YQ== 4294967296\n",
            b"YQ== 00000000007\n",
            b"YQ== +7\n",
            b"YQ==\n",
            b"YQ== 7\r\r\n",
        ];
        for line in lines {
            assert_eq!(parse_ranks(line), None, "{line:?}");
        }
    }
}
