//! Types and limits that several modules share.

/// A dense index of a token among all tokens of a vocabulary, in the order of their ids.
pub type TokenIndex = u32;

/// The index of a merge among all merges. Lower ranks merge first.
pub type Rank = u32;

/// The most pieces that the cache looks up together, as a batch.
pub const BATCH: usize = 512;

/// The longest piece of the first cache level.
pub const WORD_BYTES: usize = 8;

/// The longest cached piece. Longer pieces are merged in windows where that is exact.
pub const MAX_CACHED_PIECE: usize = 1024;
