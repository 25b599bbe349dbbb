//! Merging a short piece by scanning all of it for the lowest rank.
//!
//! A branch that the processor predicts wrongly costs as much as a dozen instructions, and the
//! length of a piece and the place of a merge differ each time. So four ranks are compared and four
//! tokens are moved at once, even beyond the end of the piece, where no pair has a rank.

use super::ranks::{NO_RANK, Ranks};
use crate::mem::growth::append;
use crate::types::{Rank, TokenIndex};

/// A piece of up to this many bytes is merged on the stack.
pub const MAX_STACK_PIECE: usize = 32;

const FOUR: usize = 4;
const ROOM: usize = MAX_STACK_PIECE + FOUR;

/// Appends the tokens of a piece to `tokens`.
pub fn merge_short(table: &impl Ranks, piece: &[u8], tokens: &mut Vec<TokenIndex>) {
    let mut row = Row::default();
    for (part, &byte) in row.parts.iter_mut().zip(piece) {
        *part = table.of_byte(byte);
    }
    for (rank, pair) in row.ranks.iter_mut().zip(piece.windows(2)) {
        *rank = table.byte_pair(pair[0], pair[1]);
    }
    row.length = piece.len();
    row.merge(table);
    append(tokens, row.tokens());
}

/// A row of tokens.
pub struct Row {
    parts: [TokenIndex; ROOM],
    /// `ranks[i]` is the rank of the pair that begins at `parts[i]`.
    ranks: [Rank; ROOM],
    length: usize,
}

impl Default for Row {
    fn default() -> Row {
        Row { parts: [0; ROOM], ranks: [NO_RANK; ROOM], length: 0 }
    }
}

impl Row {
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// Appends tokens. Returns false if there is no room.
    #[inline(always)]
    pub fn add(&mut self, tokens: &[TokenIndex]) -> bool {
        let Some(room) = self.parts[..MAX_STACK_PIECE].get_mut(self.length..) else { return false };
        let Some(room) = room.get_mut(..tokens.len()) else { return false };
        room.copy_from_slice(tokens);
        self.length += tokens.len();
        true
    }

    /// Sets the ranks of tokens that were added.
    #[inline(always)]
    pub fn set_ranks(&mut self, table: &impl Ranks) {
        for at in 1..self.length {
            self.ranks[at - 1] = table.rank(self.parts[at - 1], self.parts[at]);
        }
    }

    pub fn tokens(&self) -> &[TokenIndex] {
        &self.parts[..self.length]
    }

    /// Merges the row. All ranks are NO_RANK then.
    #[inline(always)]
    pub fn merge(&mut self, table: &impl Ranks) {
        let (parts, ranks, mut length) = (&mut self.parts, &mut self.ranks, self.length);
        while length > 1 {
            let (lowest, at) = lowest_rank(ranks, length - 1);
            if lowest == NO_RANK {
                break;
            }
            let made = table.made_by(lowest, parts[at], parts[at + 1]);
            if at > 0 {
                table.prefetch(parts[at - 1], made);
            }
            if at + 2 < length {
                table.prefetch(made, parts[at + 2]);
            }
            parts[at] = made;
            length -= 1;
            for i in (at + 1..length).step_by(FOUR) {
                parts.copy_within(i + 1..i + 1 + FOUR, i);
                ranks.copy_within(i..i + FOUR, i - 1);
            }
            ranks[length - 1] = NO_RANK;
            if at > 0 {
                ranks[at - 1] = table.rank(parts[at - 1], made);
            }
            if at + 1 < length {
                ranks[at] = table.rank(made, parts[at + 1]);
            }
        }
        self.length = length;
    }
}

/// Returns the lowest of the first `count` ranks and its first index. The three ranks after them
/// are NO_RANK.
#[inline(always)]
fn lowest_rank(ranks: &[Rank; ROOM], count: usize) -> (Rank, usize) {
    let mut lowest = u64::MAX;
    let fours = ranks.as_chunks::<FOUR>().0;
    for (first, four) in (0..).step_by(FOUR).zip(&fours[..count.div_ceil(FOUR)]) {
        let key = |i: usize| u64::from(four[i]) << 32 | (first + i as u64);
        let (one, other) = (key(0).min(key(1)), key(2).min(key(3)));
        lowest = lowest.min(one.min(other));
    }
    ((lowest >> 32) as Rank, lowest as u32 as usize)
}
