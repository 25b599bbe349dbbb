//! Classes of ASCII characters by the two hexadecimal digits of their code, which vectors look up.
//!
//! A character has the classes that both of its digits have. "A" is 41, and only `EARLY_LETTERS`
//! have the high digit 4 and the low digit 1.

/// The letters 41 to 4F and 61 to 6F, and the letters 50 to 5A and 70 to 7A.
const EARLY_LETTERS: u8 = 1 << 7;
const LATE_LETTERS: u8 = 1 << 6;
pub const NUMBERS: u8 = 1 << 5;
/// White space except U+0020.
pub const CONTROLS: u8 = 1 << 4;
pub const NEWLINES: u8 = 1 << 3;
pub const SPACES: u8 = 1 << 2;
pub const APOSTROPHES: u8 = 1 << 1;
pub const SLASHES: u8 = 1;

/// The classes by the low digit.
pub static OF_LOW: [u8; 16] = of_digits(&[
    (EARLY_LETTERS, 0x1, 0xF),
    (LATE_LETTERS, 0x0, 0xA),
    (NUMBERS, 0x0, 0x9),
    (CONTROLS, 0x9, 0xD),
    (NEWLINES, 0xA, 0xA),
    (NEWLINES, 0xD, 0xD),
    (SPACES, 0x0, 0x0),
    (APOSTROPHES, 0x7, 0x7),
    (SLASHES, 0xF, 0xF),
]);

/// The classes by the high digit.
pub static OF_HIGH: [u8; 16] = of_digits(&[
    (EARLY_LETTERS, 4, 4),
    (EARLY_LETTERS, 6, 6),
    (LATE_LETTERS, 5, 5),
    (LATE_LETTERS, 7, 7),
    (NUMBERS, 3, 3),
    (CONTROLS | NEWLINES, 0, 0),
    (SPACES | APOSTROPHES | SLASHES, 2, 2),
]);

/// Takes classes, each with its first and its last digit.
const fn of_digits(ranges: &[(u8, usize, usize)]) -> [u8; 16] {
    let mut classes = [0; 16];
    let mut i = 0;
    while i < ranges.len() {
        let (class, mut digit, last) = ranges[i];
        while digit <= last {
            classes[digit] |= class;
            digit += 1;
        }
        i += 1;
    }
    classes
}
