//! Pieces of up to 15 bytes as one number, which is faster to compare and to hash than bytes.

use crate::hash::Seeds;

/// A longer piece does not fit a key.
pub const MAX_BYTES: usize = 15;

/// A short piece as one number: its bytes, and its length above them.
pub type Key = u128;

/// The bits of a key that the bytes of a piece take, by its length.
const BYTES_OF_LENGTH: [Key; MAX_BYTES + 1] = {
    let mut masks = [0; MAX_BYTES + 1];
    let mut length = 0;
    while length <= MAX_BYTES {
        masks[length] = (1 << (8 * length)) - 1;
        length += 1;
    }
    masks
};

/// Returns the key of `text[start..end]`, a piece of 1 to MAX_BYTES bytes.
#[inline(always)]
pub fn key(text: &[u8], start: usize, end: usize) -> Key {
    let length = end - start;
    // If the text has sixteen bytes here, one read takes them all, and the mask clears the surplus.
    let bytes = match text[start..].first_chunk() {
        Some(bytes) => u128::from_le_bytes(*bytes),
        None => {
            let mut bytes = [0; 16];
            bytes[..length].copy_from_slice(&text[start..end]);
            u128::from_le_bytes(bytes)
        }
    };
    bytes & BYTES_OF_LENGTH[length] | (length as u128) << 120
}

/// Returns the piece of a key, given as bytes.
#[inline(always)]
pub fn piece(key: &[u8; size_of::<Key>()]) -> &[u8] {
    &key[..usize::from(key[MAX_BYTES])]
}

#[inline(always)]
pub fn hash(key: Key, seeds: Seeds) -> u64 {
    seeds.hash(key as u64, (key >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_whole_piece() {
        let text = b"ab\0\0abcdefghijklmnop";
        assert_ne!(key(text, 0, 2), key(text, 0, 3));
        assert_eq!(key(text, 0, 2), key(text, 4, 6));
        assert_eq!(key(text, 4, 19), key(b"abcdefghijklmno", 0, 15));
    }
}
