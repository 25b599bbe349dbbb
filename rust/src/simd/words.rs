//! The table of short words that is searched for eight of them at once.

use crate::hash::GOLDEN_RATIO;

/// Words of up to 8 bytes, padded with zeros, and their values. A word can only be in its own slot,
/// and the word 0 marks a free slot.
pub type WordTable = [[u64; 2]; 1 << WORD_TABLE_BITS];

pub const WORD_TABLE_BITS: u32 = 14; // 256 KB, which a processor's second-level cache holds

#[inline(always)]
pub fn slot_of_word(word: u64) -> usize {
    (word.wrapping_mul(GOLDEN_RATIO) >> (64 - WORD_TABLE_BITS)) as usize
        & ((1 << WORD_TABLE_BITS) - 1)
}

/// Returns the eight bytes from each of the first eight bounds on, unless the text has fewer.
#[inline(always)]
pub fn words_at(text: &[u8], bounds: &[u32; 9]) -> Option<[u64; 8]> {
    let mut words = [0; 8];
    for (word, &start) in words.iter_mut().zip(bounds) {
        *word = u64::from_le_bytes(*text.get(start as usize..)?.first_chunk()?);
    }
    Some(words)
}

/// The result of a search for eight pieces. Bit 0 of a mask is for the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Pieces of up to 8 bytes that are missing from the table, or that end in a zero.
    pub missing: u8,
    /// Pieces of more than 8 bytes.
    pub longer: u8,
}
