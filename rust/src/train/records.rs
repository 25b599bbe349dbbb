//! Piece counts as bytes, sorted by piece; `_piece_records.py` describes the records.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, binary_heap};

use super::error::Error;
use super::record::{CountedPieces, push};
use crate::interrupt::Interrupt;
use crate::mem::growth::filled;

const MAX_PIECE_BYTES: u64 = (1 << 31) - 1;

/// Records that are valid.
pub struct Records<'a>(pub &'a [u8]);

impl CountedPieces for Records<'_> {
    fn for_each(
        &self,
        interrupt: &mut Interrupt<'_>,
        mut take: impl FnMut(&[u8], u64),
    ) -> Result<(), Error> {
        let mut start = 0;
        while let Some((piece, count, end)) = record(self.0, start) {
            interrupt.advance(end - start)?;
            take(piece, count);
            start = end;
        }
        Ok(())
    }
}

/// A piece, its count, and where the record ends.
type Record<'a> = (&'a [u8], u64, usize);

/// Returns the record at an offset; None if it is invalid.
fn record(bytes: &[u8], start: usize) -> Option<Record<'_>> {
    let (length, start) = number(bytes, start)?;
    if !(1..=MAX_PIECE_BYTES).contains(&length) {
        return None;
    }
    let end = start + length as usize;
    let piece = bytes.get(start..end)?;
    let (count, next_start) = number(bytes, end)?;
    if count == 0 { None } else { Some((piece, count, next_start)) }
}

/// Returns the number at an offset, and where it ends; None if it is invalid.
fn number(bytes: &[u8], start: usize) -> Option<(u64, usize)> {
    let mut value = 0;
    for (index, &byte) in bytes.get(start..)?.iter().enumerate() {
        if index == 9 && byte > 1 {
            break; // above 64 bits
        }
        value |= u64::from(byte & 0x7F) << (7 * index);
        if byte < 0x80 {
            let is_shortest = byte > 0 || index == 0;
            return is_shortest.then_some((value, start + index + 1));
        }
    }
    None
}

/// Sorted records.
pub struct Run<'a> {
    pub records: &'a [u8],
    /// The factor of each count.
    pub weight: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totalled {
    pub records: Vec<u8>,
    pub distinct_pieces: u64,
    pub pieces: u64,
    pub text_bytes: u64,
    pub dropped_pieces: u64,
}

/// Adds up the counts of equal pieces of several runs.
///
/// A piece with a sum below `min_count` is dropped. Returns None if records are invalid or out of
/// order, and if a number exceeds 64 bits.
pub fn merge(
    runs: &[Run<'_>],
    min_count: u64,
    interrupt: &mut Interrupt<'_>,
) -> Result<Option<Totalled>, Error> {
    let mut merged = Totalled::default();
    let mut waiting = BinaryHeap::with_capacity(runs.len());
    let mut used: Vec<(usize, usize)> = (0..runs.len()).map(|index| (index, 0)).collect();
    let mut last_piece: &[u8] = b"";
    loop {
        for (index, start) in used.drain(..) {
            let records = runs[index].records;
            if start == records.len() {
                continue;
            }
            match record(records, start) {
                Some((piece, count, end))
                    if piece > last_piece && str::from_utf8(piece).is_ok() =>
                {
                    waiting.push(Reverse((piece, index, count, end)));
                }
                _ => return Ok(None),
            }
        }
        let Some(&Reverse((piece, ..))) = waiting.peek() else { return Ok(Some(merged)) };
        let mut sum = Some(0_u64);
        while let Some(first) = waiting.peek_mut()
            && first.0.0 == piece
        {
            let Reverse((_, index, count, end)) = binary_heap::PeekMut::pop(first);
            let weight = runs[index].weight;
            sum = sum.zip(count.checked_mul(weight)).and_then(|(sum, n)| sum.checked_add(n));
            used.push((index, end));
        }
        interrupt.advance(piece.len())?;
        last_piece = piece;
        if !sum.is_some_and(|count| merged.take(piece, count, min_count)) {
            return Ok(None);
        }
    }
}

/// Divides valid records into `count` partitions, by a hash of their pieces.
pub fn partition(
    records: &[u8],
    count: usize,
    interrupt: &mut Interrupt<'_>,
) -> Result<Vec<Totalled>, Error> {
    let mut partitions = filled(Totalled::default(), count);
    Records(records).for_each(interrupt, |piece, number| {
        let partition = &mut partitions[(piece_hash(piece) % count as u64) as usize];
        push(&mut partition.records, piece, number);
        partition.distinct_pieces += 1;
        partition.pieces = partition.pieces.wrapping_add(number);
        let bytes = number.wrapping_mul(piece.len() as u64);
        partition.text_bytes = partition.text_bytes.wrapping_add(bytes);
    })?;
    Ok(partitions)
}

/// Returns FNV-1a, folded to 32 bits, because a partition must be the same on every machine.
fn piece_hash(piece: &[u8]) -> u64 {
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
    let hash = piece.iter().fold(0xCBF2_9CE4_8422_2325, step);
    (hash >> 32 ^ hash) & 0xFFFF_FFFF
}

impl Totalled {
    /// Takes the next piece; returns false if a number exceeds 64 bits.
    fn take(&mut self, piece: &[u8], count: u64, min_count: u64) -> bool {
        if count < min_count {
            let dropped = self.dropped_pieces.checked_add(count);
            self.dropped_pieces = dropped.unwrap_or_default();
            return dropped.is_some();
        }
        push(&mut self.records, piece, count);
        self.distinct_pieces += 1;
        self.pieces = self.pieces.wrapping_add(count);
        let bytes = count.checked_mul(piece.len() as u64);
        let total = bytes.and_then(|bytes| bytes.checked_add(self.text_bytes));
        self.text_bytes = total.unwrap_or_default();
        total.is_some()
    }
}
