//! The classes of characters that patterns name, in one fixed version of Unicode.
//!
//! Both engines share one table: this module includes the Python engine's `_unicode/data.py`.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::mem::growth::filled;

const DATA: &str = include_str!("../../../src/bpetite/_unicode/data.py");

/// `\p{L}`
pub const LETTER: u8 = 1;
/// `\p{N}`
pub const NUMBER: u8 = 2;
/// `\s`, the property White_Space
pub const WHITESPACE: u8 = 4;
/// The first characters of a word in o200k's pattern: `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
pub const UPPER: u8 = 8;
/// The last characters of a word in o200k's pattern: `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
pub const LOWER: u8 = 16;

pub const CODE_POINT_COUNT: usize = 0x11_0000;
const BLOCK_CODE_POINTS: usize = 128;
/// The number of code points with one or two bytes in UTF-8.
const LOW_COUNT: usize = 0x800;

/// A byte for each code point, in blocks, where equal blocks are stored once.
pub struct CodePoints {
    block_of: Vec<u16>,
    pub blocks: Vec<[u8; BLOCK_CODE_POINTS]>,
    /// The bytes of the code points that have one or two bytes in UTF-8.
    pub low: [u8; LOW_COUNT],
}

impl CodePoints {
    /// `bytes` has one for each code point.
    pub fn new(bytes: &[u8]) -> CodePoints {
        assert_eq!(bytes.len(), CODE_POINT_COUNT, "all code points");
        let (mut block_of, mut blocks, mut known) = (Vec::new(), Vec::new(), HashMap::new());
        for block in bytes.as_chunks::<BLOCK_CODE_POINTS>().0 {
            block_of.push(*known.entry(*block).or_insert_with(|| {
                blocks.push(*block);
                u16::try_from(blocks.len() - 1).expect("fewer blocks than 65,536")
            }));
        }
        let low = *bytes.first_chunk().expect("more code points");
        CodePoints { low, block_of, blocks }
    }

    /// Returns the byte of a code point.
    #[inline(always)]
    pub fn of(&self, code: u32) -> u8 {
        let code = code as usize;
        self.blocks[usize::from(self.block_of[code / BLOCK_CODE_POINTS])][code % BLOCK_CODE_POINTS]
    }

    /// Returns the byte of the character that begins at `at`, and its length in bytes.
    #[inline(always)]
    pub fn at(&self, text: &[u8], at: usize) -> (u8, usize) {
        let lead = text[at];
        if lead < 0x80 {
            return (self.low[usize::from(lead)], 1);
        }
        if lead < 0xE0 {
            return (self.low[usize::from(lead & 31) << 6 | usize::from(text[at + 1] & 63)], 2);
        }
        let (code, length) = decode(text, at);
        (self.of(code), length)
    }

    /// Returns the byte of the code points in a range, if they all have the same.
    pub fn of_all(&self, first: u32, last: u32) -> Option<u8> {
        let one = self.of(first);
        let mut code = first;
        while code <= last {
            let block = &self.blocks[usize::from(self.block_of[code as usize / BLOCK_CODE_POINTS])];
            let start = code as usize % BLOCK_CODE_POINTS;
            let count = (BLOCK_CODE_POINTS - start).min((last - code) as usize + 1);
            if block[start..start + count].iter().any(|&byte| byte != one) {
                return None;
            }
            code += count as u32;
        }
        Some(one)
    }
}

pub fn classes() -> &'static CodePoints {
    static TABLE: OnceLock<CodePoints> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut class_of = filled(0, CODE_POINT_COUNT);
        let mut start = 0;
        for (class, length) in runs(DATA) {
            class_of[start..start + length].fill(class);
            start += length;
        }
        assert_eq!(start, CODE_POINT_COUNT, "the runs cover all code points");
        let whitespace = [0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000];
        for code in whitespace.into_iter().chain(0x09..=0x0D).chain(0x2000..=0x200A) {
            class_of[code] |= WHITESPACE;
        }
        CodePoints::new(&class_of)
    })
}

/// Returns the code point outside ASCII that begins at `at`, and its length in bytes.
#[inline(always)]
pub fn decode(text: &[u8], at: usize) -> (u32, usize) {
    let byte = |offset: usize| u32::from(text[at + offset] & 0x3F);
    let lead = u32::from(text[at]);
    match lead {
        0xC0..=0xDF => ((lead & 0x1F) << 6 | byte(1), 2),
        0xE0..=0xEF => ((lead & 0x0F) << 12 | byte(1) << 6 | byte(2), 3),
        _ => ((lead & 0x07) << 18 | byte(1) << 12 | byte(2) << 6 | byte(3), 4),
    }
}

/// Yields the classes and the length of each run of code points of one general category.
fn runs(data: &str) -> impl Iterator<Item = (u8, usize)> {
    let runs = data.split("\"\"\"").nth(3).expect("the table is the second text in triple quotes");
    runs.split_ascii_whitespace().map(|run| {
        let (category, length) = run.split_at(2);
        (classes_of(category), length.parse().expect("a length"))
    })
}

fn classes_of(category: &str) -> u8 {
    match category {
        "Lu" | "Lt" => LETTER | UPPER,
        "Ll" => LETTER | LOWER,
        "Lm" | "Lo" => LETTER | UPPER | LOWER,
        "Mn" | "Mc" | "Me" => UPPER | LOWER,
        "Nd" | "Nl" | "No" => NUMBER,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_decoded_from_their_bytes() {
        let mut buffer = [0; 4];
        for character in ('\u{80}'..=char::MAX).step_by(7) {
            let text = character.encode_utf8(&mut buffer).as_bytes();
            assert_eq!(decode(text, 0), (character.into(), text.len()));
        }
    }

    #[test]
    fn white_space_is_the_standard_librarys() {
        for character in '\0'..='\u{ffff}' {
            let is = classes().of(character.into()) & WHITESPACE != 0;
            assert_eq!(is, character.is_whitespace(), "{character:?}");
        }
    }
}
