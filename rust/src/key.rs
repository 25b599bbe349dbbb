//! Pieces of up to 15 bytes as one number, which is compared and hashed faster than bytes are.

/// Pieces of up to so many bytes are short: they fit a key.
pub const SHORT: usize = 15;

/// A short piece as one number: its bytes, and its length above them.
pub type Key = u128;

/// The bits of a key that the bytes of a piece take, by its length.
const BYTES_OF_LENGTH: [Key; SHORT + 1] = {
    let mut masks = [0; SHORT + 1];
    let mut length = 0;
    while length <= SHORT {
        masks[length] = (1 << (8 * length)) - 1;
        length += 1;
    }
    masks
};

/// Returns the key of `text[start..end]`, a piece of 1 to SHORT bytes.
#[inline(always)]
pub fn key(text: &[u8], start: usize, end: usize) -> Key {
    let length = end - start;
    // Sixteen bytes are read at once where the text has them, and what is not the piece's is cut.
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

/// Returns 64 bits of which each depends on the whole key.
#[inline(always)]
pub fn hash(key: Key) -> u64 {
    let folded = (key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        ^ ((key >> 64) as u64).wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
    let mixed = folded.wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    mixed ^ mixed >> 32
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
