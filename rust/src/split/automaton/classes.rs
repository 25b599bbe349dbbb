//! Characters by class: those of one class are in the same sets, and have the same length in bytes.

use std::collections::HashMap;

use super::super::unicode::decode;

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
