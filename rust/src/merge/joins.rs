//! Pieces of several words, merged in fragments.
//!
//! A piece of several words seldom repeats, but its words do. If some tokens have several words,
//! the merges make them in two stages. Let the *base* be the merges before the first merge that
//! makes a token with a word break inside: a space after a character other than ASCII white space.
//! A piece is cut where no base token has two characters in a row, and each fragment is merged
//! alone. Then base tokens of neighbouring fragments are merged further, where some token has them
//! in a row. Example, with the tokens ` of`, ` the`, ` of the` and ` they`:
//!
//! ```text
//! piece      ` out of the way`
//! fragments  ` out` ` of` ` the` ` way`     a token has ` of` before ` the`: these two may join
//! tokens     ` out` ` of the` ` way`
//! ```
//!
//! Why these are the tokens of the piece, if each token is made by one merge, no merge uses a token
//! that a higher rank makes, and no base merge shares its rank with another merge:
//!
//! 1. Merging goes rank by rank, so first the base merges are done. No base merge crosses from one
//!    fragment to the next, since no base token has their characters in a row. So a piece has the
//!    base tokens of its fragments.
//! 2. Later merges join rows of base tokens. A merge that crosses from one base token to the next
//!    makes a token in which these two are neighbours, by the tree of its merges. So if no token
//!    has the two as neighbours, no merge crosses there, and neither side influences the other.
//! 3. The tokens of a fragment that is merged alone are rows of base tokens too. So the fragment's
//!    base tokens follow from its ids, and merging can go on from there.

use super::pair_table::{PairTable, RANK_BITS};
use super::{MAX_STACK_PIECE, MergeTable, NO_RANK, Ranks, Row};
use crate::mem::growth::{filled, granted, push};
use crate::split::Cuts;
use crate::tokens::MadeTokens;
use crate::types::{Rank, TokenIndex};

/// The base tokens of a token.
#[derive(Clone, Copy, Default)]
struct Base {
    first: TokenIndex,
    last: TokenIndex,
    /// Where `rows` has all of them; 0 for a base token, and `TOO_LONG` for a long row.
    row: u32,
}

impl Base {
    fn of(token: TokenIndex) -> Base {
        Base { first: token, last: token, row: 0 }
    }
}

/// The base tokens that tokens have in a row.
pub struct Joins {
    /// The base tokens of each id's token.
    base: Vec<Base>,
    /// From this id on, an id may have several base tokens, or a token that is not its index.
    first_other: u32,
    /// For each token of several base tokens: their number, then these. Item 0 is unused.
    rows: Vec<TokenIndex>,
    /// The ranks of pairs of base tokens that are neighbours in a token; `NO_MERGE` for most.
    pairs: PairTable,
}

/// Two base tokens have no rank, but are neighbours in a token.
const NO_MERGE: Rank = (1 << RANK_BITS) - 1;

/// A token has more base tokens than a row that is merged.
const TOO_LONG: u32 = u32::MAX;

/// The highest id may be at most this many times the number of tokens.
const MAX_IDS_PER_TOKEN: usize = 4;

/// If a smaller share of the merges are base merges, nearly every fragment may join the next.
const MAX_MERGES_PER_BASE_MERGE: usize = 16;

impl Joins {
    /// Takes the bytes and the id of each token. Returns the places where pieces are cut, too.
    ///
    /// Returns None if the proof above does not hold, if the base is small, or if the gaps between
    /// ids are large.
    pub fn new(merges: &MergeTable, tokens: &MadeTokens, id_of: &[u32]) -> Option<(Cuts, Joins)> {
        let max_id = id_of.iter().copied().max()? as usize;
        if max_id / MAX_IDS_PER_TOKEN > id_of.len() {
            return None;
        }
        let mut bases: Vec<Option<Base>> = filled(None, id_of.len());
        // Returns None if the token was made before, because its base tokens would be ambiguous.
        let set = |bases: &mut Vec<Option<Base>>, token: TokenIndex, base: Base| {
            bases[token as usize].replace(base).is_none().then_some(())
        };
        for &token in &merges.token_of_byte {
            set(&mut bases, token, Base::of(token))?;
        }
        let (mut pairs, mut rows) = (Vec::new(), filled(0, 1));
        let (mut is_base, mut base_merges) = (true, 0);
        for (merge, &(left, right, made)) in merges.merges.iter().enumerate() {
            let (first, second) = (bases[left as usize]?, bases[right as usize]?);
            let was_base = is_base;
            is_base &= !is_word_break(*tokens.get(left).last()?, *tokens.get(right).first()?);
            if is_base {
                base_merges += 1;
                set(&mut bases, made, Base::of(made))?;
                continue;
            }
            if was_base && merges.is_tied(merge) {
                return None;
            }
            push(&mut pairs, (first.last, second.first));
            let row = push_row(&mut rows, first, second);
            set(&mut bases, made, Base { first: first.first, last: second.last, row })?;
        }
        if base_merges * MAX_MERGES_PER_BASE_MERGE < merges.merges.len() {
            return None;
        }
        let is_base = |token: TokenIndex| bases[token as usize].is_some_and(|base| base.row == 0);
        let base_joints = tokens.joints().filter(|&(token, _)| is_base(token));
        let cuts = Cuts::new(base_joints.map(|(_, joint)| joint), 2);

        let mut table = PairTable::with_room(bases.len(), pairs.len())?;
        for &(left, right) in &pairs {
            let rank = merges.rank(left, right);
            table.add(left, right, if rank == NO_RANK { NO_MERGE } else { rank });
        }
        let is_plain = |(token, id): (u32, &u32)| {
            token == *id && bases[token as usize].is_none_or(|base| base.row == 0)
        };
        let mut joins = Joins {
            base: filled(Base::default(), max_id + 1),
            first_other: (0..).zip(id_of).take_while(|&each| is_plain(each)).count() as u32,
            rows,
            pairs: table,
        };
        for (&id, base) in id_of.iter().zip(&bases) {
            joins.base[id as usize] = base.unwrap_or_default();
        }
        Some((cuts, joins))
    }

    /// Returns the base tokens at the end of a fragment and at the start of the next, by their ids.
    #[inline(always)]
    pub fn base_tokens(&self, last_id: u32, first_id: u32) -> (TokenIndex, TokenIndex) {
        if last_id.max(first_id) < self.first_other {
            return (last_id, first_id);
        }
        let last = self.base.get(last_id as usize).map_or(0, |base| base.last);
        (last, self.base.get(first_id as usize).map_or(0, |base| base.first))
    }

    /// Returns whether a token may have two base tokens in a row; false for most that none has.
    #[inline(always)]
    pub fn may_join(&self, (left, right): (TokenIndex, TokenIndex)) -> bool {
        self.pairs.may_have(left, right)
    }

    /// Returns the rank of two base tokens that `may_join`, or NO_RANK; None if no token has them
    /// in a row.
    #[inline(always)]
    pub fn rank(&self, (left, right): (TokenIndex, TokenIndex)) -> Option<Rank> {
        match self.pairs.get_unfiltered(left, right) {
            NO_RANK => None,
            NO_MERGE => Some(NO_RANK),
            rank => Some(rank),
        }
    }

    /// Returns whether an id is so low that it is surely the index of a base token.
    #[inline(always)]
    pub fn is_base(&self, id: u32) -> bool {
        id < self.first_other
    }

    /// Appends the base tokens of an id to a row. Returns false if there is no room.
    #[inline(always)]
    pub fn add_to(&self, row: &mut Row, id: u32) -> bool {
        match self.base.get(id as usize) {
            None | Some(&Base { row: TOO_LONG, .. }) => false,
            Some(&Base { first, row: 0, .. }) => row.add(&[first]),
            Some(&Base { row: start, .. }) => {
                let start = start as usize;
                row.add(&self.rows[start + 1..][..self.rows[start] as usize])
            }
        }
    }
}

/// Appends the base tokens of two others to the rows, and returns where they are.
fn push_row(rows: &mut Vec<TokenIndex>, left: Base, right: Base) -> u32 {
    let start = rows.len();
    push(rows, 0);
    for Base { first, row, .. } in [left, right] {
        match row {
            TOO_LONG => {
                rows.truncate(start);
                return TOO_LONG;
            }
            0 => push(rows, first),
            _ => {
                let from = row as usize + 1;
                granted(rows.try_reserve(MAX_STACK_PIECE));
                rows.extend_from_within(from..from + rows[row as usize] as usize);
            }
        }
    }
    let count = rows.len() - start - 1;
    if count > MAX_STACK_PIECE {
        rows.truncate(start);
        return TOO_LONG;
    }
    rows[start] = count as TokenIndex;
    start as u32
}

/// Returns whether there is a word break between two bytes.
fn is_word_break(before: u8, byte: u8) -> bool {
    byte == b' ' && !before.is_ascii_whitespace()
}

/// Returns whether a token has a space between two letters of ASCII.
pub fn joins_words(token: &[u8]) -> bool {
    (2..token.len()).any(|at| {
        token[at - 1] == b' '
            && token[at - 2].is_ascii_alphabetic()
            && token[at].is_ascii_alphabetic()
    })
}
