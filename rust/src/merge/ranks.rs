//! The questions that merging asks a vocabulary.

use crate::types::{Rank, TokenIndex};

pub const NO_RANK: Rank = Rank::MAX;

/// The ranks of pairs, and the tokens that they become.
pub trait Ranks {
    fn of_byte(&self, byte: u8) -> TokenIndex;

    /// Returns the rank of the merge of two tokens, or NO_RANK.
    fn rank(&self, left: TokenIndex, right: TokenIndex) -> Rank;

    /// Returns the rank of the merge of two bytes, or NO_RANK.
    fn byte_pair(&self, left: u8, right: u8) -> Rank {
        self.rank(self.of_byte(left), self.of_byte(right))
    }

    /// Prefetches the rank of a pair for `rank`.
    fn prefetch(&self, _left: TokenIndex, _right: TokenIndex) {}

    /// Returns the token that the merge of two tokens, which has this rank, makes.
    fn made_by(&self, rank: Rank, left: TokenIndex, right: TokenIndex) -> TokenIndex;
}
