//! Text to ids: find special literals, split the rest into pieces, and look up or merge each piece.

mod batch;
mod encoder;
mod literals;
pub mod parallel;
mod places;
mod sink;
mod trusted;

pub use batch::{Context, Job};
pub use encoder::Encoder;
#[cfg(test)]
pub use encoder::examples;
pub use parallel::Texts;
pub use sink::{Count, Id, IdList};
pub use trusted::{PartedText, Stop};
