//! The escapes of JSON that are a backslash and one other character.

/// The character that each letter of a short escape stands for, or 0. `\u0000` is no short escape.
pub const SHORT_ESCAPES: [u8; 128] = {
    let mut characters = [0; 128];
    characters[b'"' as usize] = b'"';
    characters[b'\\' as usize] = b'\\';
    characters[b'/' as usize] = b'/';
    characters[b'b' as usize] = 0x08;
    characters[b'f' as usize] = 0x0C;
    characters[b'n' as usize] = b'\n';
    characters[b'r' as usize] = b'\r';
    characters[b't' as usize] = b'\t';
    characters
};

/// Returns the character that a letter of a short escape stands for, or 0.
#[inline(always)]
pub fn short_escape(letter: u8) -> u8 {
    SHORT_ESCAPES.get(usize::from(letter)).copied().unwrap_or(0)
}
