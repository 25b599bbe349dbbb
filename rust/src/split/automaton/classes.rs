//! Characters by class. All characters of a class are in the same sets, and have equally many
//! bytes.

use std::collections::HashMap;

use super::super::unicode::{CODE_POINT_COUNT, CodePoints};
use crate::mem::growth::filled;
use crate::simd::{Block, Instructions};

/// Ranges of code points, in ascending order: the first and the last of each.
pub type Set = Vec<(u32, u32)>;

/// The most classes.
pub const MAX_CLASSES: usize = 200;

/// The most columns of characters, because `Automaton::safe` has a bit for each.
pub const MAX_COLUMNS: usize = 64;

/// The properties of the characters of a class.
#[derive(Clone)]
pub struct Class {
    /// Whether it is in each set.
    pub is_in: Vec<bool>,
    /// The length of its characters in UTF-8.
    pub length: u8,
    /// The state of `ahead` before a character.
    pub before: u8,
    /// The state of `ahead` after a character; None if any state may come after it.
    pub after: Option<u8>,
    /// Which look-aheads hold before a character.
    pub sees: Vec<bool>,
}

impl Class {
    /// Returns whether a character of this class, or the end of the text, may come in this state.
    pub fn may_follow(&self, state: Option<u8>) -> bool {
        state.is_none_or(|state| state == self.before)
    }
}

/// Returns the class of each code point, and all classes. With `of_bytes`, the characters are
/// bytes.
pub fn classes_of(sets: &[Set], of_bytes: bool) -> Result<(CodePoints, Vec<Class>), String> {
    // The code points at which a set begins or ends, or the length changes.
    let mut borders: Vec<(u32, Option<usize>)> =
        [0, 0x80, 0x800, 0x1_0000, CODE_POINT_COUNT as u32].map(|code| (code, None)).to_vec();
    for (number, set) in sets.iter().enumerate() {
        borders.extend(
            set.iter()
                .flat_map(|&(first, last)| [first, last + 1])
                .map(|code| (code, Some(number))),
        );
    }
    borders.sort_unstable();
    let (mut known, mut classes) = (HashMap::new(), Vec::new());
    let mut is_in = vec![false; sets.len()];
    let mut class_of = filled(0_u8, CODE_POINT_COUNT);
    for pair in borders.windows(2) {
        let ((code, number), (end, _)) = (pair[0], pair[1]);
        if let Some(number) = number {
            is_in[number] ^= true;
        }
        if code >= end {
            continue;
        }
        let in_utf8 = char::from_u32(code).map_or(3, char::len_utf8) as u8;
        let length = if of_bytes { 1 } else { in_utf8 };
        let class = *known.entry((is_in.clone(), length)).or_insert_with(|| {
            classes.push(Class {
                is_in: is_in.clone(),
                length,
                before: 0,
                after: None,
                sees: Vec::new(),
            });
            classes.len() - 1
        });
        class_of[code as usize..end as usize].fill(class as u8);
        if classes.len() > MAX_CLASSES {
            return Err(format!("it tells more than {MAX_CLASSES} classes of characters apart"));
        }
    }
    Ok((CodePoints::new(&class_of), classes))
}

/// The column of a first byte that does not tell the column of its character.
const UNKNOWN: u8 = u8::MAX;

/// Fewer characters in a block are looked up faster one after another.
const MIN_OF_TWO_BYTES: u32 = 8;

/// The column of each character.
pub struct Columns {
    /// The column of each byte, if the byte alone tells it.
    bytes: [u8; 256],
    characters: CodePoints,
    /// Whether each byte is a character.
    of_bytes: bool,
}

impl Columns {
    /// Each class has a column; a byte that continues a character has the column `skip`.
    pub fn new(mut characters: CodePoints, column_of: &[u8], skip: u8, of_bytes: bool) -> Columns {
        let all = characters.blocks.iter_mut().flatten().chain(&mut characters.low);
        all.for_each(|class| *class = column_of[usize::from(*class)]);
        if of_bytes {
            let bytes = *characters.low.first_chunk().expect("256 of them");
            return Columns { bytes, characters, of_bytes };
        }
        let mut bytes = [skip; 256];
        bytes[..0x80].copy_from_slice(&characters.low[..0x80]);
        for (lead, column) in (0..).zip(&mut bytes).take(0xF5).skip(0xC2) {
            let (first, last): (u32, u32) = match lead {
                0xC2..0xE0 => ((lead & 0x1F) << 6, (lead & 0x1F) << 6 | 0x3F),
                0xE0 => (0x800, 0xFFF),
                0xE1..0xF0 => ((lead & 0x0F) << 12, (lead & 0x0F) << 12 | 0xFFF),
                0xF0 => (0x1_0000, 0x3_FFFF),
                _ => ((lead & 7) << 18, ((lead & 7) << 18 | 0x3_FFFF).min(0x10_FFFF)),
            };
            *column = characters.of_all(first, last).unwrap_or(UNKNOWN);
        }
        Columns { bytes, characters, of_bytes }
    }

    /// Returns the column of the character that begins at `at`, and its length in bytes.
    #[inline(always)]
    pub fn at(&self, text: &[u8], at: usize) -> (u8, usize) {
        if self.of_bytes {
            (self.bytes[usize::from(text[at])], 1)
        } else {
            self.characters.at(text, at)
        }
    }

    /// Returns the column of all bytes of a text, if they are characters of one column.
    #[inline(always)]
    pub fn of_all(&self, text: &[u8]) -> Option<u8> {
        let column = self.bytes[usize::from(*text.first()?)];
        let are_alike = text.iter().fold(true, |are_alike, &byte| {
            are_alike & (byte < 0x80 || self.of_bytes) & (self.bytes[usize::from(byte)] == column)
        });
        are_alike.then_some(column)
    }

    /// Returns the start of the character that has the byte at `at`.
    #[inline(always)]
    pub fn start(&self, text: &[u8], mut at: usize) -> usize {
        while !self.of_bytes && text[at] & 0xC0 == 0x80 {
            at -= 1;
        }
        at
    }

    /// Writes the columns of the bytes from `start` on, and anything after the last.
    #[inline(always)]
    pub fn write<I: Instructions>(&self, isa: I, text: &[u8], start: usize, columns: &mut [u8]) {
        let (chunks, rest) = text[start..].as_chunks::<64>();
        let mut last: Block = [0; 64];
        last[..rest.len()].copy_from_slice(rest);
        let mut at = start;
        for (chunk, columns) in chunks.iter().chain([&last]).zip(columns.as_chunks_mut().0) {
            isa.look_up(chunk, &self.bytes, columns);
            let mut unknown = isa.within(isa.load(columns), UNKNOWN, 1);
            let of_two_bytes = unknown & isa.within(isa.load(chunk), 0xC0, 0x20);
            if I::FINDS_WINDOWS
                && of_two_bytes.count_ones() >= MIN_OF_TWO_BYTES
                && let Some(next) = text[at + 1..].first_chunk()
            {
                self.write_of_two_bytes(isa, chunk, next, of_two_bytes, columns);
                unknown &= !of_two_bytes;
            }
            while unknown != 0 {
                let index = unknown.trailing_zeros() as usize;
                unknown &= unknown - 1;
                columns[index] = self.characters.at(text, at + index).0;
            }
            at += 64;
        }
    }

    /// Writes the columns of the two-byte characters at some places of a block. `next` has the byte
    /// after each byte of the block.
    #[inline(always)]
    fn write_of_two_bytes(
        &self,
        isa: impl Instructions,
        block: &Block,
        next: &Block,
        mut places: u64,
        columns: &mut Block,
    ) {
        let (mut index, mut found): (Block, Block) = ([0; 64], [0; 64]);
        for ((index, lead), next) in index.iter_mut().zip(block).zip(next) {
            *index = (lead & 3) << 6 | next & 0x3F;
        }
        // Each table has the characters that begin with one of four bytes.
        let (tables, _) = self.characters.low.as_chunks();
        while places != 0 {
            let first = block[places.trailing_zeros() as usize] & 0xFC;
            isa.look_up(&index, &tables[usize::from(first & 0x1F) / 4], &mut found);
            places &= !isa.within(isa.load(block), first, 4);
            for ((column, lead), found) in columns.iter_mut().zip(block).zip(&found) {
                // Without a branch, so that the compiler uses vectors.
                let is_found = (lead & 0xFC == first) & (*column == UNKNOWN);
                let all = 0_u8.wrapping_sub(is_found.into());
                *column = *column & !all | found & all;
            }
        }
    }
}
