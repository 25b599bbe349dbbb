//! Keys: pieces of up to 47 bytes as numbers.

use crate::types::WORD_BYTES;

/// The longest pieces of the tables.
pub const MAX_BYTES_16: usize = 16;
pub const MAX_BYTES_47: usize = 47;

/// A piece of 17 to 47 bytes, zeros, and its length in the last byte.
pub type Key47 = [u64; 6];

#[inline(always)]
pub fn word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => {
            let mut word = [0; WORD_BYTES];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        }
    }
}

/// Returns the key of the piece of 1 to 8 bytes at the start of `text`. A piece that ends in a zero
/// has no key, because keys are padded with zeros; then the result is 0.
#[inline(always)]
pub fn word_key(text: &[u8], length: usize) -> u64 {
    let unused_bits = (64 - 8 * length) as u32;
    let key = word(text) << unused_bits >> unused_bits;
    if key >> (8 * (length - 1)) == 0 { 0 } else { key }
}

/// Returns the key of a piece of 9 to 16 bytes. Its second word is 0 if the last byte is 0.
#[inline(always)]
pub fn key16(text: &[u8], length: usize) -> [u64; 2] {
    [word(text), word_key(&text[WORD_BYTES..], length - WORD_BYTES)]
}

#[inline(always)]
pub fn key47(text: &[u8], length: usize) -> Key47 {
    let mut bytes = [0; MAX_BYTES_47 + 1];
    if let Some(long) = text.first_chunk() {
        // Without a branch for each length, unlike a copy of some bytes.
        bytes = *long;
        for (index, byte) in (0..).zip(&mut bytes) {
            *byte = if index < length as u8 { *byte } else { 0 };
        }
    } else {
        bytes[..length].copy_from_slice(&text[..length]);
    }
    bytes[MAX_BYTES_47] = length as u8;
    let words = bytes.as_chunks::<WORD_BYTES>().0;
    std::array::from_fn(|i| u64::from_le_bytes(words[i]))
}

/// Returns the bytes of a key, and the length of the piece at their start.
pub fn piece_of<const WORDS: usize>(key: &[u64; WORDS]) -> ([u8; MAX_BYTES_47 + 1], usize) {
    let mut bytes = [0; MAX_BYTES_47 + 1];
    for (room, word) in bytes.as_chunks_mut::<WORD_BYTES>().0.iter_mut().zip(key) {
        *room = word.to_le_bytes();
    }
    let zeros = key[WORDS - 1].leading_zeros() as usize / 8;
    let has_length = WORDS * WORD_BYTES > MAX_BYTES_47;
    let length = usize::from(bytes[MAX_BYTES_47]);
    (bytes, if has_length { length } else { WORDS * WORD_BYTES - zeros })
}
