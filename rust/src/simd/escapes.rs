//! The escapes of JSON that are a backslash and one other character.

/// The character for each letter of a short escape, or 0. A zero is free to mark other letters,
/// because JSON spells it only as the long escape `\u0000`.
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

/// Returns the character for a letter of a short escape, or 0.
#[inline(always)]
pub fn short_escape(letter: u8) -> u8 {
    SHORT_ESCAPES.get(usize::from(letter)).copied().unwrap_or(0)
}
