//! What every instruction set provides, and the masks that are computed from it.

use super::packed::Packed;
use super::words::{Found, WordTable, slot_of_word, words_at};

pub type Block = [u8; 64];

/// Bit `i` of each mask tells whether byte `i` of a block is such an ASCII character.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Masks {
    pub letters: u64,
    pub upper: u64,
    pub numbers: u64,
    pub whitespace: u64,
    /// Only U+0020.
    pub spaces: u64,
    pub newlines: u64,
    pub apostrophes: u64,
    pub slashes: u64,
    /// Bytes of characters outside ASCII.
    pub non_ascii: u64,
}

/// Masks of a block: bit `i` is set if byte `i` is the first of a character of the named class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leads {
    /// Any character outside ASCII.
    pub all: u64,
    /// Some letters without case, of three bytes each: U+4E00 to U+9FFF and U+B000 to U+CFFF, which
    /// include most characters of Chinese, Japanese and Korean text.
    pub uncased: u64,
    /// Some letters of two bytes each: U+0100 to U+027F (Latin) and U+0400 to U+047F (Cyrillic).
    pub cased: u64,
}

/// The operations that instruction sets speed up. The defaults, without vectors, are the reference.
pub trait Instructions: Copy {
    /// Whether masks are faster than a look at each character.
    const FINDS_WINDOWS: bool = true;

    type Bytes: Copy;

    fn load(self, block: &Block) -> Self::Bytes;

    /// Returns the bits of the bytes from `first` to `first + count - 1`.
    fn within(self, bytes: Self::Bytes, first: u8, count: u8) -> u64;

    #[inline(always)]
    fn masks(self, block: &Block) -> Masks {
        let bytes = self.load(block);
        let is = |byte| self.within(bytes, byte, 1);
        let (spaces, upper) = (is(b' '), self.within(bytes, b'A', 26));
        Masks {
            letters: upper | self.within(bytes, b'a', 26),
            upper,
            numbers: self.within(bytes, b'0', 10),
            whitespace: self.within(bytes, 0x09, 5) | spaces,
            spaces,
            newlines: is(b'\r') | is(b'\n'),
            apostrophes: is(b'\''),
            slashes: is(b'/'),
            non_ascii: self.within(bytes, 0x80, 0x80),
        }
    }

    #[inline(always)]
    fn leads(self, block: &Block) -> Leads {
        let bytes = self.load(block);
        // U+4E00 is E4 B8 80. Smaller second bytes after E4 belong to symbols.
        let from_4e00 = self.within(bytes, 0xE4, 1) & self.within(bytes, 0xB8, 0x48) >> 1;
        Leads {
            all: self.within(bytes, 0xC0, 0x40),
            uncased: self.within(bytes, 0xE5, 5) | self.within(bytes, 0xEB, 2) | from_4e00,
            cased: self.within(bytes, 0xC4, 6) | self.within(bytes, 0xD0, 2),
        }
    }

    /// Looks up each byte of a block in a table.
    #[inline(always)]
    fn look_up(self, block: &Block, table: &[u8; 256], found: &mut Block) {
        for (found, &byte) in found.iter_mut().zip(block) {
            *found = table[usize::from(byte)];
        }
    }

    /// Looks up the eight pieces that begin at the first eight bounds, each up to the next bound,
    /// and writes their values: for a piece that is not found, anything.
    ///
    /// Returns None if a piece begins where the text has fewer than eight bytes left.
    #[inline(always)]
    fn find_pieces(
        self,
        text: &[u8],
        bounds: &[u32; 9],
        table: &WordTable,
        values: &mut [Packed; 8],
    ) -> Option<Found> {
        let mut found = Found::default();
        let words = words_at(text, bounds)?;
        for i in 0..8 {
            let length = bounds[i + 1] - bounds[i];
            let unused_bits = 64 - 8 * length.min(8);
            let shifted = words[i] << unused_bits;
            let word = shifted >> unused_bits;
            let [known, value] = table[slot_of_word(word)];
            values[i] = Packed(value);
            let is_longer = length > 8;
            found.longer |= u8::from(is_longer) << i;
            let is_missing = (known != word) | (shifted >> 56 == 0);
            found.missing |= u8::from(is_missing & !is_longer) << i;
        }
        Some(found)
    }

    /// Writes `first + i` for each set bit `i`, in order, and anything after the last.
    #[inline(always)]
    fn write_indices(self, bits: u8, first: u16, indices: &mut [u16; 8]) {
        for (index, &i) in indices.iter_mut().zip(&INDICES[usize::from(bits)]) {
            *index = first + u16::from(i);
        }
    }

    /// Writes the ids that are in eight numbers, and anything after the last. Returns how many they
    /// are.
    #[inline(always)]
    fn unpack(self, packed: &[Packed; 8], ids: &mut [u32; 32]) -> usize {
        let mut count = 0;
        for number in packed {
            // Writing all four, however many are valid, is faster than a branch.
            if let Some(room) = ids[count..].first_chunk_mut() {
                *room = number.inner_ids();
            }
            // By the mask the compiler knows that all ids have room, and checks nothing.
            count += number.inner_count() & 3;
        }
        count
    }

    /// Writes `base + i` for each set bit `i`, in order, and anything after the last.
    #[inline(always)]
    fn write_offsets(self, bits: u64, mut base: u32, offsets: &mut [u32; 64]) {
        let mut count = 0;
        for byte in bits.to_le_bytes() {
            for (offset, &i) in offsets[count..].iter_mut().zip(&INDICES[usize::from(byte)]) {
                *offset = base.wrapping_add(i.into());
            }
            count += byte.count_ones() as usize;
            base = base.wrapping_add(8);
        }
    }
}

/// For each byte, the indices of its set bits in ascending order, and zeros.
pub static INDICES: [[u8; 8]; 256] = {
    let mut all = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut i, mut count) = (0, 0);
        while i < 8 {
            if byte >> i & 1 == 1 {
                all[byte][count] = i as u8;
                count += 1;
            }
            i += 1;
        }
        byte += 1;
    }
    all
};

/// Work to be compiled for each instruction set.
///
/// `run` and all functions down to its loops must be `#[inline(always)]`: a function that is not
/// inlined is compiled for every processor, and has no vectors.
pub trait Work {
    type Result;

    fn run<I: Instructions>(self, isa: I) -> Self::Result;
}
