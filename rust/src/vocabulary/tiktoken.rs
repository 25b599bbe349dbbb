//! tiktoken's ranks, and the pair that makes each token.

use std::ops::Range;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Vocabulary;
use super::ids::NO_TOKEN;
use crate::interrupt::Interrupt;
use crate::mem::growth::{collected, filled, granted, push, with_room};
use crate::merge::{MergeScratch, MergeTable, NO_RANK, Ranks, merge_long};
use crate::tokens::{Tokens, WholePieces};
use crate::types::{Rank, TokenIndex};

impl Vocabulary {
    /// Returns the vocabulary with tiktoken's ids for these ranks; None if they are invalid, or
    /// after an interrupt.
    ///
    /// `ranks` has ranks, which are ids, and the bytes of their tokens: 1 to `max_bytes` each.
    pub fn from_ranks(
        mut ranks: Vec<(u32, &[u8])>,
        max_rank: u32,
        max_bytes: usize,
        interrupt: &mut Interrupt<'_>,
    ) -> Option<Vocabulary> {
        // A stable sort would need more memory for nothing, since equal ranks are an error.
        ranks.sort_unstable_by_key(|&(rank, _)| rank);
        if ranks.windows(2).any(|pair| pair[0].0 == pair[1].0)
            || ranks.iter().any(|&(_, bytes)| !(1..=max_bytes).contains(&bytes.len()))
            || ranks.last().is_none_or(|&(rank, _)| rank > max_rank)
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
        // tiktoken joins two neighbours if their joined bytes are a token. So only one pair can
        // make a token: the two tokens that remain when its bytes are merged by all other tokens.
        // Usually the merges of lower ranks leave two. Example: if (a, b) → ab is known, "abc"
        // becomes (ab, c). If they leave more, tokens of higher ranks take part.
        let mut table = MergeTable::with_room(token_of_byte, tokens.len(), tokens.len())?;
        let (mut scratch, never) = (MergeScratch::default(), &mut Interrupt::never());
        for (token, &(_, bytes)) in (0..).zip(&ranks) {
            interrupt.advance(bytes.len()).ok()?;
            let mut joined = Vec::new();
            let mut parts = table.merge(bytes, &mut scratch, never);
            if parts.len() > 2 {
                let rule = AnyJoin {
                    whole_pieces: &whole_pieces,
                    token_of_byte: &token_of_byte,
                    but: token,
                };
                merge_long(&rule, bytes, &mut MergeScratch::default(), &mut joined, never);
                parts = &joined;
            }
            if let &[left, right] = parts {
                table.push(left, right, token);
            }
        }
        if 256 + table.merges.len() < ranks.len() {
            table.whole_pieces = Some(whole_pieces);
        }
        Some(Vocabulary {
            id_of: Arc::new(collected(ranks.iter().map(|&(rank, _)| rank))),
            others: others(&table, ranks.len()),
            table: Arc::new(table),
            bytes_of: Some(tokens),
        })
    }
}

/// Returns the tokens that no merge makes, or that a merge uses before another makes them.
fn others(table: &MergeTable, count: usize) -> Vec<TokenIndex> {
    let mut known = filled(false, count);
    let mut is_other = filled(false, count);
    table.token_of_byte.iter().for_each(|&token| known[token as usize] = true);
    for &(left, right, made) in &table.merges {
        for part in [left, right].map(|part| part as usize) {
            is_other[part] |= !known[part];
            known[part] = true;
        }
        known[made as usize] = true;
    }
    let tokens = 0..count as TokenIndex;
    let mut others = Vec::new();
    tokens
        .filter(|&token| is_other[token as usize] || !known[token as usize])
        .for_each(|token| push(&mut others, token));
    others
}

/// tiktoken's rule without the token `but`: two neighbours make the token of their joined bytes.
struct AnyJoin<'a> {
    whole_pieces: &'a WholePieces,
    token_of_byte: &'a [TokenIndex; 256],
    but: TokenIndex,
}

impl Ranks for AnyJoin<'_> {
    fn of_byte(&self, byte: u8) -> TokenIndex {
        self.token_of_byte[usize::from(byte)]
    }

    fn rank(&self, left: TokenIndex, right: TokenIndex) -> Rank {
        let joined = [left, right].map(|part| self.whole_pieces.tokens.get(part)).concat();
        let token = self.whole_pieces.find(&joined);
        token.filter(|&token| token != self.but).unwrap_or(NO_RANK)
    }

    fn made_by(&self, rank: Rank, _: TokenIndex, _: TokenIndex) -> TokenIndex {
        rank
    }
}

/// Ranks, and the range of each token in joined bytes.
type RankRanges = Vec<(u32, Range<usize>)>;

/// Returns the ranks, the ranges and the joined bytes of the tokens in a .tiktoken file.
///
/// Returns None unless each line is spelled as tiktoken writes it: canonical base64, a space, and
/// decimals.
pub fn parse_ranks(data: &[u8]) -> Option<(RankRanges, Vec<u8>)> {
    let mut ranks = with_room(data.len() / 12);
    let mut bytes = with_room(data.len() / 2);
    let mut rest = data;
    while !rest.is_empty() {
        let start = bytes.len();
        let encoded = rest.iter().position(|&byte| byte == b' ')?;
        granted(bytes.try_reserve(encoded));
        STANDARD.decode_vec(&rest[..encoded], &mut bytes).ok()?;
        rest = &rest[encoded + 1..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if !(1..=10).contains(&digits) {
            return None;
        }
        let rank =
            rest[..digits].iter().fold(0, |rank, &digit| 10 * rank + u64::from(digit - b'0'));
        rest = &rest[digits..];
        rest = rest.strip_prefix(b"\r").unwrap_or(rest).strip_prefix(b"\n")?;
        push(&mut ranks, (rank.try_into().ok()?, start..bytes.len()));
    }
    Some((ranks, bytes))
}
