//! Pieces of several words, merged in parts.
//!
//! A piece of several words seldom repeats, but its words do, and so do the few words that become
//! one token. So the cache is asked for words first, and then for words that may merge. A *word
//! break* is the place before a space that follows a character other than ASCII white space.
//! Example, with the tokens ` of`, ` the`, ` of the` and ` they`:
//!
//! ```text
//! piece    ` out of the way`
//! words    ` out` ` of` ` the` ` way`       a token has ` of` before ` the`: these two may merge
//! parts    ` out` ` of the` ` way`
//! ```
//!
//! Why the parts have the tokens of the piece, if no merge uses a token that a higher rank makes:
//!
//! 1. Merging goes rank by rank. Let the *base* be the merges before the first merge that makes a
//!    token with a word break inside. They cross no word break, so a piece has the same base tokens
//!    as its words.
//! 2. Later merges join rows of base tokens. A merge that crosses from one base token to the next
//!    makes a token in which these two are neighbours, by the tree of its merges. So if no token
//!    has the two as neighbours, no merge crosses there, and neither side influences the other.
//! 3. The tokens of a word that is merged by itself are rows of base tokens too. So the first and
//!    the last base token of a word follow from its first and its last id.

use super::cjk::is_cjk_run;
use super::{MergeTable, Ranks};
use crate::hash::GOLDEN_RATIO;
use crate::mem::growth::{filled, push};
use crate::split::TokenNeighbours;
use crate::types::{BATCH, TokenIndex, WORD_BYTES};

/// The first and the last base token of a token.
#[derive(Clone, Copy, Default)]
struct Ends {
    first: TokenIndex,
    last: TokenIndex,
}

/// Neighbours in tokens, by which pieces are split at word breaks.
///
/// Two pairs of base tokens may have the same hash. Such a collision only joins two words that
/// could be merged apart.
pub struct WordNeighbours {
    /// The base tokens at the ends of each id's token.
    ends: Vec<Ends>,
    /// Hashes of two base tokens that are neighbours in a token, with a word break between them.
    pairs: Vec<u64>,
    hash_bits: u32,
}

/// How many bits of the hashes there are for each pair, so that pairs rarely share one.
const BITS_PER_PAIR: usize = 32;

/// The highest id may be at most this many times the number of tokens.
const MAX_IDS_PER_TOKEN: usize = 4;

/// If a smaller share of the merges are base merges, nearly every word may merge with the next.
const MAX_MERGES_PER_BASE_MERGE: usize = 16;

impl WordNeighbours {
    /// Takes the id of each token. Returns None if pieces must not be split, if the base is small,
    /// or if the gaps between ids are large.
    pub fn new(merges: &MergeTable, id_of: &[u32]) -> Option<WordNeighbours> {
        let tokens = merges.tokens_to_split_by()?;
        let max_id = id_of.iter().copied().max()? as usize;
        if max_id / MAX_IDS_PER_TOKEN > id_of.len() {
            return None;
        }
        let mut ends: Vec<Option<Ends>> = filled(None, tokens.len());
        // Returns None if the token was made before, because its base tokens would be ambiguous.
        let set = |ends: &mut Vec<Option<Ends>>, token: TokenIndex, first, last| {
            ends[token as usize].replace(Ends { first, last }).is_none().then_some(())
        };
        for &token in &merges.token_of_byte {
            set(&mut ends, token, token, token)?;
        }
        let mut pairs = Vec::new();
        let (mut is_base, mut base_merges) = (true, 0);
        for (rank, left, right) in merges.pairs() {
            let made = merges.made_by(rank, left, right);
            let is_at_break = is_word_break(*tokens.get(left).last()?, tokens.get(right)[0]);
            is_base &= !is_at_break;
            if is_base {
                base_merges += 1;
                set(&mut ends, made, made, made)?;
                continue;
            }
            let (left, right) = (ends[left as usize]?, ends[right as usize]?);
            if is_at_break {
                push(&mut pairs, (left.last, right.first));
            }
            set(&mut ends, made, left.first, right.last)?;
        }
        if base_merges * MAX_MERGES_PER_BASE_MERGE < merges.count as usize {
            return None;
        }
        let bits = (pairs.len() * BITS_PER_PAIR).next_power_of_two().max(64);
        let mut neighbours = WordNeighbours {
            ends: filled(Ends::default(), max_id + 1),
            pairs: filled(0, bits / 64),
            hash_bits: bits.trailing_zeros(),
        };
        for (&id, ends) in id_of.iter().zip(ends) {
            neighbours.ends[id as usize] = ends.unwrap_or_default();
        }
        for (left, right) in pairs {
            let hash = neighbours.hash(left, right);
            neighbours.pairs[hash / 64] |= 1 << (hash % 64);
        }
        Some(neighbours)
    }

    /// Returns whether tokens may cross from a word to the next, by the last id of the one and the
    /// first id of the other.
    #[inline(always)]
    pub fn may_join(&self, last_id: u32, first_id: u32) -> bool {
        let last = self.ends.get(last_id as usize).map_or(0, |ends| ends.last);
        let first = self.ends.get(first_id as usize).map_or(0, |ends| ends.first);
        let hash = self.hash(last, first);
        self.pairs[hash / 64] >> (hash % 64) & 1 == 1
    }

    #[inline(always)]
    fn hash(&self, left: TokenIndex, right: TokenIndex) -> usize {
        let both = u64::from(left) << 32 | u64::from(right);
        (both.wrapping_mul(GOLDEN_RATIO) >> (64 - self.hash_bits)) as usize
            & (self.pairs.len() * 64 - 1)
    }
}

/// Returns whether there is a word break between two bytes.
#[inline(always)]
fn is_word_break(before: u8, byte: u8) -> bool {
    byte == b' ' && !before.is_ascii_whitespace()
}

/// Returns whether a piece has several words.
pub fn has_words(piece: &[u8]) -> bool {
    next_word_break(piece, 0, piece.len()) < piece.len()
}

/// Returns whether a token has a space between two letters of ASCII.
pub fn joins_words(token: &[u8]) -> bool {
    token.windows(3).any(|bytes| {
        bytes[1] == b' ' && bytes[0].is_ascii_alphabetic() && bytes[2].is_ascii_alphabetic()
    })
}

/// Splits pieces at word breaks, and CJK runs where no token crosses.
pub struct WordSplitter<'a> {
    neighbours: &'a TokenNeighbours,
    pub text: &'a [u8],
    /// The start of each piece, and the end of the last.
    bounds: &'a [u32],
    /// The position in the text, and the number of whole pieces before it.
    at: usize,
    pieces: usize,
    /// The end of the word at `at`; at most `at` if it must be searched.
    end_of_word: usize,
}

/// Words of pieces, and parts of CJK runs.
pub struct Words {
    /// The start of each word, and the end of the last.
    pub bounds: [u32; BATCH + 1],
    /// The words that begin at a word break, so that they may merge with the word before.
    breaks: [u16; BATCH + 1],
    break_count: usize,
}

impl Default for Words {
    fn default() -> Words {
        Words { bounds: [0; BATCH + 1], breaks: [0; BATCH + 1], break_count: 0 }
    }
}

impl Words {
    /// Returns the numbers of the words that begin at a word break. The last may be the word after
    /// these words.
    #[inline(always)]
    pub fn breaks(&self) -> &[u16] {
        &self.breaks[..self.break_count]
    }
}

impl<'a> WordSplitter<'a> {
    pub fn new(
        neighbours: &'a TokenNeighbours,
        text: &'a [u8],
        bounds: &'a [u32],
    ) -> WordSplitter<'a> {
        let at = bounds[0] as usize;
        WordSplitter { neighbours, text, bounds, at, pieces: 0, end_of_word: at }
    }

    /// Finds the next words. Returns their number, which is 0 at the end.
    #[inline(always)]
    pub fn next_words(&mut self, words: &mut Words) -> usize {
        let WordSplitter { neighbours, text, bounds, mut at, mut pieces, mut end_of_word } = *self;
        let (mut count, mut break_count) = (0, 0);
        words.bounds[0] = at as u32;
        while pieces + 1 < bounds.len() && count < BATCH {
            let end = bounds[pieces + 1] as usize;
            if end_of_word <= at {
                // The first cache level has many short pieces, even with several words.
                let is_short = end - bounds[pieces] as usize <= WORD_BYTES;
                end_of_word = if is_short { end } else { next_word_break(text, at, end) };
            }
            if is_cjk_run(&text[at..end_of_word]) {
                at = neighbours.split_run(text, at, end_of_word, &mut words.bounds, &mut count);
            } else {
                at = end_of_word;
                count += 1;
                words.bounds[count] = at as u32;
            }
            // The next iteration overwrites the entry unless it is a word break.
            words.breaks[break_count] = count as u16;
            break_count += usize::from(at == end_of_word && at < end);
            pieces += usize::from(at == end);
        }
        words.break_count = break_count;
        (self.at, self.pieces, self.end_of_word) = (at, pieces, end_of_word);
        count
    }

    /// Goes back to one of the last words, if they do not end with their piece.
    pub fn go_back(&mut self, at: usize) {
        (self.at, self.end_of_word) = (at, at);
    }

    /// Goes to the end of the piece, and returns it.
    pub fn skip_piece(&mut self) -> usize {
        self.pieces += 1;
        self.go_back(self.bounds[self.pieces] as usize);
        self.at
    }
}

/// Returns the first word break between `start` and `end`, or `end`.
#[inline(always)]
fn next_word_break(text: &[u8], start: usize, end: usize) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; WORD_BYTES]);
    const HIGH_BITS: u64 = ONES << 7;
    let mut at = start + 1;
    while at < end {
        let Some(eight) = text.get(at..).and_then(|rest| rest.first_chunk()) else {
            let is_break = |&at: &usize| is_word_break(text[at - 1], text[at]);
            return (at..end).find(is_break).unwrap_or(end);
        };
        // The high bit of each byte that is a space and, in these eight bytes, follows no space.
        let differences = u64::from_le_bytes(*eight) ^ (ONES * u64::from(b' '));
        let others = ((differences & !HIGH_BITS) + !HIGH_BITS) | differences;
        let spaces = !others & HIGH_BITS;
        let first_spaces = spaces & !(spaces << 8);
        at += first_spaces.trailing_zeros() as usize / 8;
        if first_spaces != 0 {
            if at < end && is_word_break(text[at - 1], b' ') {
                return at;
            }
            at += 1;
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_inputs::Rng;

    #[test]
    fn word_breaks_are_spaces_after_other_characters() {
        let mut rng = Rng::new(4);
        for _ in 0..if cfg!(miri) { 20 } else { 5000 } {
            let text = rng.text(&["a", " ", "  ", "\t", "\n", "!", "of", "中"], 30);
            let text = text.as_bytes();
            let end = rng.below(text.len() + 1);
            for start in 0..end {
                let is_break = |&at: &usize| is_word_break(text[at - 1], text[at]);
                let expected = (start + 1..end).find(is_break).unwrap_or(end);
                assert_eq!(next_word_break(text, start, end), expected);
            }
        }
    }
}
