//! Characters by class: those of one class are in the same sets, and have the same length in bytes.

use std::collections::HashMap;

use super::super::unicode::decode;
use crate::simd::{Block, Instructions};

/// Ranges of code points, in ascending order: the first and the last of each.
pub type Set = Vec<(u32, u32)>;

const CODE_POINT_COUNT: usize = 0x11_0000;
const BLOCK_CODE_POINTS: usize = 128;

/// The most classes: `Automaton::safe` has a bit for each.
pub const MAX_CLASSES: usize = 63;

/// The class of each code point, in blocks. Equal blocks are stored once.
pub struct Classes {
    ascii: [u8; BLOCK_CODE_POINTS],
    block_of: Vec<u16>,
    blocks: Vec<[u8; BLOCK_CODE_POINTS]>,
}

/// What is known of a class.
pub struct Class {
    /// Whether it is in each set.
    pub is_in: Vec<bool>,
    /// The length of its characters in UTF-8.
    pub length: u8,
}

impl Classes {
    /// Returns the table, and all classes.
    pub fn new(sets: &[Set]) -> Result<(Classes, Vec<Class>), String> {
        // Where a set begins or ends, or the length changes.
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
        let mut class_of = vec![0_u8; CODE_POINT_COUNT];
        for pair in borders.windows(2) {
            let ((code, number), (end, _)) = (pair[0], pair[1]);
            if let Some(number) = number {
                is_in[number] ^= true;
            }
            if code >= end {
                continue;
            }
            let length = char::from_u32(code).map_or(3, char::len_utf8) as u8;
            let class = *known.entry((is_in.clone(), length)).or_insert_with(|| {
                classes.push(Class { is_in: is_in.clone(), length });
                classes.len() - 1
            });
            class_of[code as usize..end as usize].fill(class as u8);
            if classes.len() > MAX_CLASSES {
                return Err(format!(
                    "it tells more than {MAX_CLASSES} classes of characters apart"
                ));
            }
        }
        Ok((Classes::of_table(&class_of), classes))
    }

    fn of_table(class_of: &[u8]) -> Classes {
        let (mut block_of, mut blocks, mut known) = (Vec::new(), Vec::new(), HashMap::new());
        for block in class_of.chunks_exact(BLOCK_CODE_POINTS) {
            let block: [u8; BLOCK_CODE_POINTS] = block.try_into().expect("a chunk of one block");
            block_of.push(*known.entry(block).or_insert_with(|| {
                blocks.push(block);
                blocks.len() as u16 - 1
            }));
        }
        Classes { ascii: blocks[0], block_of, blocks }
    }

    /// Returns the columns of all characters. Each class has one; `skip` is that of a byte that
    /// continues a character.
    pub fn columns(mut self, column_of: &[u8], skip: u8) -> Columns {
        let blocks = self.blocks.iter_mut().chain([&mut self.ascii]);
        blocks.flatten().for_each(|class| *class = column_of[usize::from(*class)]);
        let mut bytes = [skip; 256];
        bytes[..BLOCK_CODE_POINTS].copy_from_slice(&self.ascii);
        for (lead, column) in (0..).zip(&mut bytes).take(0xF5).skip(0xC2) {
            let (first, last) = match lead {
                0xC2..0xE0 => ((lead & 0x1F) << 6, (lead & 0x1F) << 6 | 0x3F),
                0xE0..0xF0 => (((lead & 0x0F) << 12).max(0x800), (lead & 0x0F) << 12 | 0xFFF),
                _ => ((lead & 7) << 18, (lead & 7) << 18 | 0x3_FFFF),
            };
            let (first, last) = (if lead == 0xF0 { 0x1_0000 } else { first }, last.min(0x10_FFFF));
            *column = self.only_one(first, last).unwrap_or(UNKNOWN);
        }
        Columns { bytes, characters: self }
    }

    /// Returns what all code points of a range have, if it is the same.
    fn only_one(&self, first: usize, last: usize) -> Option<u8> {
        let (first_block, last_block) = (first / BLOCK_CODE_POINTS, last / BLOCK_CODE_POINTS);
        let block = |number: usize| &self.blocks[usize::from(self.block_of[number])];
        let one = block(first_block)[first % BLOCK_CODE_POINTS];
        let is_one = if first_block == last_block {
            block(first_block)[first % BLOCK_CODE_POINTS..=last % BLOCK_CODE_POINTS]
                .iter()
                .all(|each| *each == one)
        } else {
            // Such a range begins and ends with a block.
            self.block_of[first_block..=last_block]
                .chunk_by(|a, b| a == b)
                .all(|equal| self.blocks[usize::from(equal[0])].iter().all(|each| *each == one))
        };
        is_one.then_some(one)
    }

    /// Returns the class of the character that begins at `at`, and its length in bytes.
    #[inline(always)]
    pub fn at(&self, text: &[u8], at: usize) -> (u8, usize) {
        let lead = text[at];
        if lead < 0x80 {
            return (self.ascii[usize::from(lead)], 1);
        }
        let (code, length) = decode(text, at);
        let code = code as usize;
        let block = &self.blocks[usize::from(self.block_of[code / BLOCK_CODE_POINTS])];
        (block[code % BLOCK_CODE_POINTS], length)
    }
}

/// The first byte of a character does not tell its column.
const UNKNOWN: u8 = u8::MAX;

/// The column of each character.
pub struct Columns {
    /// The column of each byte, where it alone tells.
    bytes: [u8; 256],
    characters: Classes,
}

impl Columns {
    /// Returns the column of the character that begins at `at`, and its length in bytes.
    #[inline(always)]
    pub fn at(&self, text: &[u8], at: usize) -> (u8, usize) {
        self.characters.at(text, at)
    }

    /// Writes the columns of the bytes from `start` on, and anything behind the last.
    #[inline(always)]
    pub fn write(&self, isa: impl Instructions, text: &[u8], start: usize, columns: &mut [u8]) {
        let (chunks, rest) = text[start..].as_chunks::<64>();
        let mut last: Block = [0; 64];
        last[..rest.len()].copy_from_slice(rest);
        let mut at = start;
        for (chunk, columns) in chunks.iter().chain([&last]).zip(columns.as_chunks_mut().0) {
            isa.look_up(chunk, &self.bytes, columns);
            let mut unknown = isa.within(isa.load(columns), UNKNOWN, 1);
            while unknown != 0 {
                let index = unknown.trailing_zeros() as usize;
                unknown &= unknown - 1;
                columns[index] = self.characters.at(text, at + index).0;
            }
            at += 64;
        }
    }
}
