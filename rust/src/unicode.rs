//! The classes of characters that patterns speak of, in one fixed version of Unicode.
//!
//! The table is the one that the Python engine has: `_unicode_data.py` is read as text, so that
//! there is no second copy that could be another version.

use std::sync::OnceLock;

const DATA: &str = include_str!("../../src/bpetite/_unicode_data.py");

/// `\p{L}`
pub const LETTER: u8 = 1;
/// `\p{N}`
pub const NUMBER: u8 = 2;
/// `\s`, the property White_Space
pub const SPACE: u8 = 4;
/// What a word may begin with in o200k's pattern: `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
pub const UPPER: u8 = 8;
/// What a word may go on with in o200k's pattern: `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
pub const LOWER: u8 = 16;
/// `[\r\n]`
pub const LINE_END: u8 = 32;

/// What a piece of signs is made of: `[^\s\p{L}\p{N}]` has none of these.
pub const NOT_SIGN: u8 = LETTER | NUMBER | SPACE;

const CODE_POINTS: usize = 0x11_0000;
const BLOCK: usize = 128;

/// The classes of every code point, in blocks of which equal ones are kept once.
pub struct Classes {
    block_of: Vec<u16>,
    blocks: Vec<[u8; BLOCK]>,
    /// Of the bytes that are characters by themselves.
    ascii: [u8; BLOCK],
}

impl Classes {
    /// Returns the table, which is made once.
    pub fn get() -> &'static Classes {
        static TABLE: OnceLock<Classes> = OnceLock::new();
        TABLE.get_or_init(|| Classes::from_runs(runs(DATA)))
    }

    fn from_runs(runs: impl Iterator<Item = (u8, usize)>) -> Classes {
        let mut class_of = vec![0_u8; CODE_POINTS];
        let mut start = 0;
        for (class, length) in runs {
            class_of[start..start + length].fill(class);
            start += length;
        }
        assert_eq!(start, CODE_POINTS, "the runs are those of all code points");
        let spaces = [0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000];
        for space in spaces.into_iter().chain(0x09..=0x0D).chain(0x2000..=0x200A) {
            class_of[space] |= SPACE;
        }
        class_of[usize::from(b'\r')] |= LINE_END;
        class_of[usize::from(b'\n')] |= LINE_END;

        let mut blocks: Vec<[u8; BLOCK]> = Vec::new();
        let mut block_of = Vec::with_capacity(CODE_POINTS / BLOCK);
        for block in class_of.chunks_exact(BLOCK) {
            let number = blocks.iter().rposition(|known| known == block).unwrap_or_else(|| {
                blocks.push(block.try_into().expect("a chunk of this size"));
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
        self.blocks[usize::from(self.block_of[code / BLOCK])][code % BLOCK]
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

/// Returns the code point that begins at `at` in valid UTF-8, beyond ASCII, and its length.
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
    let runs = data.split("\"\"\"").nth(3).expect("the table is the second text in quotes");
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
    fn classes_are_those_of_known_characters() {
        let classes = Classes::get();
        for (character, class) in [
            ('a', LETTER | LOWER),
            ('A', LETTER | UPPER),
            ('中', LETTER | UPPER | LOWER),
            ('\u{301}', UPPER | LOWER),
            ('5', NUMBER),
            ('Ⅷ', NUMBER),
            ('\n', SPACE | LINE_END),
            ('\u{3000}', SPACE),
            ('!', 0),
            ('\u{378}', 0),
        ] {
            assert_eq!(classes.of(character.into()), class, "{character:?}");
        }
    }

    #[test]
    fn every_character_is_decoded_from_its_bytes() {
        let mut buffer = [0; 4];
        for character in ('\u{80}'..=char::MAX).step_by(7) {
            let text = character.encode_utf8(&mut buffer).as_bytes();
            assert_eq!(decode(text, 0), (character.into(), text.len()));
        }
    }
}
