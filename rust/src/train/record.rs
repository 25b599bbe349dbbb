//! One record: a piece and its count; `_piece_records.py` describes the bytes.

use super::error::Error;
use crate::interrupt::Interrupt;
use crate::mem::growth::granted;

/// The most bytes of a number of 64 bits, since each byte holds 7 bits.
const MAX_NUMBER_BYTES: usize = 10;

pub trait CountedPieces {
    /// Yields each piece and its count, in any order.
    fn for_each(
        &self,
        interrupt: &mut Interrupt<'_>,
        take: impl FnMut(&[u8], u64),
    ) -> Result<(), Error>;

    /// Yields each piece as `for_each` does, and may free memory on the way.
    fn consume(
        self,
        interrupt: &mut Interrupt<'_>,
        take: impl FnMut(&[u8], u64),
    ) -> Result<(), Error>
    where
        Self: Sized,
    {
        self.for_each(interrupt, take)
    }
}

pub fn push(records: &mut Vec<u8>, piece: &[u8], count: u64) {
    granted(records.try_reserve(piece.len() + 2 * MAX_NUMBER_BYTES));
    push_number(records, piece.len() as u64);
    records.extend_from_slice(piece);
    push_number(records, count);
}

fn push_number(records: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        records.push(value as u8 | 0x80);
        value >>= 7;
    }
    records.push(value as u8);
}
