//! Training: from text to the counts of pieces, and from those to merges.
//!
//! What comes out depends neither on the number of threads nor on the order in which anything is
//! counted. What may take long asks now and then whether to go on.

mod counter;
mod counts;
mod learner;
mod pairs;

pub use counter::Counter;
pub use counts::Counts;
pub use learner::Learner;

/// A token, by its number: 0 to 255 are the bytes, and the merges follow in their order.
pub type Symbol = u32;

/// Says whether to go on.
pub type GoOn<'a> = &'a mut dyn FnMut() -> bool;

/// Why training ends early. What was at work is not to be used any more.
#[derive(Debug, PartialEq, Eq)]
pub enum Error {
    /// It was said not to go on.
    Stopped,
    /// There are 2 GiB or more of distinct pieces, or of text without a place to cut it.
    TooLarge,
    /// The bytes of a document, from this one on, are not UTF-8: up to four are given.
    NotUtf8 { offset: u64, bytes: Vec<u8> },
}

fn ask(go_on: GoOn<'_>) -> Result<(), Error> {
    if go_on() { Ok(()) } else { Err(Error::Stopped) }
}
