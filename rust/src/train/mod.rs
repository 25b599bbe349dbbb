//! Training: counts the pieces of text, and learns merges from the counts.
//!
//! The merges are the same for any number of threads and any order of counting. Long work checks
//! for interrupts.

mod balance;
mod counter;
mod counts;
mod error;
mod learner;
mod pairs;
mod piece_key;
mod record;
mod records;

pub use balance::{Balance, Language};
pub use counter::Counter;
pub use counts::Counts;
pub use error::Error;
pub use learner::{Base, Learner};
pub use record::CountedPieces;
pub use records::{Records, Run, Totalled, merge, partition};
