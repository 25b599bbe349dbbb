//! Training: from text to the counts of pieces, and from those to merges.
//!
//! The merges depend neither on the number of threads nor on the order of counting. Long work checks
//! for interrupts.

mod balance;
mod counter;
mod counts;
mod error;
mod key;
mod learner;
mod pairs;
mod records;

pub use balance::{Balance, Language};
pub use counter::Counter;
pub use counts::{CountedPieces, Counts};
pub use error::Error;
pub use learner::{Base, Learner};
pub use records::{Block, Records, merge, partition};
