//! Counts of ids, characters and words, and of tokens with fewer merges: for `bpetite.analysis`.

mod ids;
mod trees;
pub mod words;

pub use ids::IdCounts;
