//! The classes of characters that patterns name, in one fixed version of Unicode.
//!
//! Both engines share one table: this module includes the Python engine's `_unicode/data.py`.

use std::sync::OnceLock;

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
/// `[\r\n]`
pub const NEWLINE: u8 = 32;

/// A symbol, `[^\s\p{L}\p{N}]`, has none of these classes.
pub const NOT_SYMBOL: u8 = LETTER | NUMBER | WHITESPACE;

const CODE_POINT_COUNT: usize = 0x11_0000;
const BLOCK_CODE_POINTS: usize = 128;

/// The classes of all code points, in blocks. Equal blocks are stored once.
pub struct Classes {
    block_of: Vec<u16>,
    blocks: Vec<[u8; BLOCK_CODE_POINTS]>,
    /// The block of ASCII.
    ascii: [u8; BLOCK_CODE_POINTS],
}

impl Classes {
    /// Returns the table. The first call makes it.
    pub fn get() -> &'static Classes {
        static TABLE: OnceLock<Classes> = OnceLock::new();
        TABLE.get_or_init(|| Classes::from_runs(runs(DATA)))
    }

    fn from_runs(runs: impl Iterator<Item = (u8, usize)>) -> Classes {
        let mut class_of = vec![0_u8; CODE_POINT_COUNT];
        let mut start = 0;
        for (class, length) in runs {
            class_of[start..start + length].fill(class);
            start += length;
        }
        assert_eq!(start, CODE_POINT_COUNT, "the runs cover all code points");
        let whitespace = [0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000];
        for code in whitespace.into_iter().chain(0x09..=0x0D).chain(0x2000..=0x200A) {
            class_of[code] |= WHITESPACE;
        }
        class_of[usize::from(b'\r')] |= NEWLINE;
        class_of[usize::from(b'\n')] |= NEWLINE;

        let mut blocks: Vec<[u8; BLOCK_CODE_POINTS]> = Vec::new();
        let mut block_of = Vec::with_capacity(CODE_POINT_COUNT / BLOCK_CODE_POINTS);
        for block in class_of.chunks_exact(BLOCK_CODE_POINTS) {
            let number = blocks.iter().rposition(|known| known == block).unwrap_or_else(|| {
                blocks.push(block.try_into().expect("a chunk of one block"));
                blocks.len() - 1
            });
            block_of.push(u16::try_from(number).expect("fewer blocks than 65,536"));
        }
        let ascii = blocks[0];
        Classes { block_of, blocks, ascii }
    }

    /// Returns the classes of a code point.
    #[inline(always)]
    pub fn of(&self, code: u32) -> u8 {
        let code = code as usize;
        self.blocks[usize::from(self.block_of[code / BLOCK_CODE_POINTS])][code % BLOCK_CODE_POINTS]
    }

    /// Returns the classes of the character that begins at `at`, and its length in bytes.
    #[inline(always)]
    pub fn at(&self, text: &[u8], at: usize) -> (u8, usize) {
        let lead = text[at];
        if lead < 0x80 {
            return (self.ascii[usize::from(lead)], 1);
        }
        let (code, length) = decode(text, at);
        (self.of(code), length)
    }
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
}
