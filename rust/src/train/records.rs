//! Piece counts as bytes, sorted by piece; `_piece_records.py` describes the records.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, binary_heap};

use super::error::Error;
use super::record::{CountedPieces, push};
use crate::interrupt::Interrupt;
use crate::mem::growth::{append, copied, filled};

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
        while let Ok((piece, count, end)) = record(self.0, start) {
            interrupt.advance(end - start)?;
            take(piece, count);
            start = end;
        }
        Ok(())
    }
}

/// Why bytes are no record.
#[derive(Debug, PartialEq, Eq)]
enum Fault {
    /// The bytes end inside the record.
    Cut,
    Invalid,
}

/// A piece, its count, and where the record ends.
type Record<'a> = (&'a [u8], u64, usize);

fn record(bytes: &[u8], start: usize) -> Result<Record<'_>, Fault> {
    let (length, start) = number(bytes, start)?;
    if !(1..=MAX_PIECE_BYTES).contains(&length) {
        return Err(Fault::Invalid);
    }
    let end = start + length as usize;
    let piece = bytes.get(start..end).ok_or(Fault::Cut)?;
    let (count, next_start) = number(bytes, end)?;
    if count == 0 { Err(Fault::Invalid) } else { Ok((piece, count, next_start)) }
}

fn number(bytes: &[u8], start: usize) -> Result<(u64, usize), Fault> {
    let mut value = 0;
    for (index, &byte) in bytes.get(start..).unwrap_or_default().iter().enumerate() {
        if index == 9 && byte > 1 {
            break; // above 64 bits
        }
        value |= u64::from(byte & 0x7F) << (7 * index);
        if byte < 0x80 {
            let is_shortest = byte > 0 || index == 0;
            return if is_shortest { Ok((value, start + index + 1)) } else { Err(Fault::Invalid) };
        }
    }
    Err(if bytes.len() < start + 10 { Fault::Cut } else { Fault::Invalid })
}

/// Records of one run, which is a sequence of sorted records in several blocks.
pub struct Block<'a> {
    pub bytes: &'a [u8],
    /// Where the first record begins that is not merged yet.
    pub start: usize,
    /// Whether the run ends with this block. If not, its last record may be cut.
    pub is_last: bool,
    /// The factor of each count.
    pub weight: u64,
}

impl<'a> Block<'a> {
    /// Returns the next record; None at the end of the run.
    fn next(&self, last_piece: &[u8]) -> Result<Option<Record<'a>>, Fault> {
        if self.start == self.bytes.len() && self.is_last {
            return Ok(None);
        }
        match record(self.bytes, self.start) {
            Err(Fault::Cut) if self.is_last => Err(Fault::Invalid),
            Ok((piece, ..)) if piece <= last_piece || str::from_utf8(piece).is_err() => {
                Err(Fault::Invalid)
            }
            found => found.map(Some),
        }
    }
}

/// The result of a step of merging; the totals are of this step.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Merged {
    pub records: Vec<u8>,
    /// Of each block: where the first record begins that is not merged yet.
    pub starts: Vec<usize>,
    /// The index of the block without a whole record; None after the last step.
    pub hungry: Option<usize>,
    pub last_piece: Vec<u8>,
    pub distinct_pieces: u64,
    pub pieces: u64,
    pub text_bytes: u64,
    pub dropped_pieces: u64,
}

/// Adds up the counts of equal pieces of several runs, as far as every run has records.
///
/// `last_piece` and `text_bytes` are those of the steps before. A piece with a sum below
/// `min_count` is dropped. Returns None for records that are not valid or not sorted, and for a
/// number above 64 bits.
pub fn merge(
    mut blocks: Vec<Block<'_>>,
    min_count: u64,
    last_piece: &[u8],
    text_bytes: u64,
    interrupt: &mut Interrupt<'_>,
) -> Result<Option<Merged>, Error> {
    let mut merged = Merged { last_piece: copied(last_piece), ..Merged::default() };
    let mut waiting = BinaryHeap::with_capacity(blocks.len());
    let mut used: Vec<usize> = (0..blocks.len()).collect();
    loop {
        for index in used.drain(..) {
            match blocks[index].next(&merged.last_piece) {
                Ok(Some((piece, count, end))) => waiting.push(Reverse((piece, index, count, end))),
                Ok(None) => {}
                Err(Fault::Cut) => merged.hungry = merged.hungry.or(Some(index)),
                Err(Fault::Invalid) => return Ok(None),
            }
        }
        let (None, Some(&Reverse((piece, ..)))) = (merged.hungry, waiting.peek()) else { break };
        let mut sum = Some(0_u64);
        while let Some(first) = waiting.peek_mut()
            && first.0.0 == piece
        {
            let Reverse((_, index, count, end)) = binary_heap::PeekMut::pop(first);
            let block = &mut blocks[index];
            block.start = end;
            sum = sum.zip(count.checked_mul(block.weight)).and_then(|(sum, n)| sum.checked_add(n));
            used.push(index);
        }
        interrupt.advance(piece.len())?;
        merged.last_piece.clear();
        append(&mut merged.last_piece, piece);
        let Some(count) = sum else { return Ok(None) };
        if !merged.take(piece, count, min_count, text_bytes) {
            return Ok(None);
        }
    }
    merged.starts = blocks.iter().map(|block| block.start).collect();
    Ok(Some(merged))
}

/// Records with the number of distinct pieces, of pieces, and of their bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    pub records: Vec<u8>,
    pub distinct_pieces: u64,
    pub pieces: u64,
    pub text_bytes: u64,
}

/// Divides valid records by a hash of their pieces.
pub fn partition(
    records: &[u8],
    count: usize,
    interrupt: &mut Interrupt<'_>,
) -> Result<Vec<Partition>, Error> {
    let mut partitions = filled(Partition::default(), count);
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

/// Returns FNV-1a, folded to 32 bits. It is the same on every machine.
fn piece_hash(piece: &[u8]) -> u64 {
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
    let hash = piece.iter().fold(0xCBF2_9CE4_8422_2325, step);
    (hash >> 32 ^ hash) & 0xFFFF_FFFF
}

impl Merged {
    /// Takes the next piece; returns false if a number exceeds 64 bits.
    fn take(&mut self, piece: &[u8], count: u64, min_count: u64, text_bytes_before: u64) -> bool {
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
        total.is_some_and(|total| total.checked_add(text_bytes_before).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(bytes: &[u8], is_last: bool, weight: u64) -> Block<'_> {
        Block { bytes, start: 0, is_last, weight }
    }

    fn merged(blocks: Vec<Block<'_>>, min_count: u64) -> Option<Merged> {
        merge(blocks, min_count, b"", 0, &mut Interrupt::never()).expect("no interrupt")
    }

    fn records(pieces: &[(&str, u64)]) -> Vec<u8> {
        let mut records = Vec::new();
        pieces.iter().for_each(|(piece, count)| push(&mut records, piece.as_bytes(), *count));
        records
    }

    #[test]
    fn counts_of_equal_pieces_are_added() {
        let (one, other) = (records(&[("a", 1), ("b", 300)]), records(&[("a", 5), ("c", 7)]));
        let sum = merged(vec![block(&one, true, 2), block(&other, true, 1)], 7).expect("valid");
        assert_eq!(sum.records, records(&[("a", 7), ("b", 600), ("c", 7)]));
        assert_eq!((sum.distinct_pieces, sum.pieces, sum.text_bytes), (3, 614, 614));
        let sum = merged(vec![block(&one, true, 1), block(&other, true, 1)], 7).expect("valid");
        assert_eq!((sum.records, sum.dropped_pieces), (records(&[("b", 300), ("c", 7)]), 6));
    }

    #[test]
    fn a_cut_record_ends_a_step() {
        let whole = records(&[("a", 1), ("bc", 1 << 40)]);
        for length in 0..whole.len() {
            let sum = merged(vec![block(&whole[..length], false, 1)], 1).expect("valid");
            assert_eq!((sum.hungry, sum.starts), (Some(0), vec![if length < 3 { 0 } else { 3 }]));
            let is_between = length % 3 == 0 && length < 4;
            assert_eq!(merged(vec![block(&whole[..length], true, 1)], 1).is_some(), is_between);
        }
    }

    #[test]
    fn invalid_records_are_declined() {
        let cases: [&[u8]; 8] = [
            b"\0\x01",
            b"\x01a\0",
            b"\x01a\x81\0",
            b"\x81\0a\x01",
            b"\x01\xff\x01",
            b"\x01b\x01\x01a\x01",
            b"\x01a\x01\x01a\x01",
            b"\x01a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
        ];
        for case in cases {
            assert_eq!(merged(vec![block(case, true, 1)], 1), None, "{case:?}");
        }
    }

    #[test]
    fn numbers_above_64_bits_are_declined() {
        let (one, two) = (records(&[("a", u64::MAX)]), records(&[("ab", 1 << 63)]));
        assert!(merged(vec![block(&one, true, 1)], 1).is_some());
        assert_eq!(merged(vec![block(&one, true, 2)], 1), None);
        assert_eq!(merged(vec![block(&one, true, 1), block(&one, true, 1)], 1), None);
        assert_eq!(merged(vec![block(&two, true, 1)], 1), None);
        assert_eq!(merge(vec![block(&one, true, 1)], 1, b"", 1, &mut Interrupt::never()), Ok(None));
    }
}
