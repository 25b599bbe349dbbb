//! Training: from text to the counts of pieces, and from those to merges.
//!
//! The merges depend neither on the number of threads nor on the order of counting. Long work checks
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
