//! The ids of pieces that were merged before. Exact: a key is the whole piece.

use crate::simd;

/// How many slots a table begins with, and may grow to. Those of short pieces take 32 bytes, 0.5
/// to 16 MB in all; those of long ones 64, 0.25 to 16 MB.
const SHORT_BITS: (u32, u32) = (14, 19);
const LONG_BITS: (u32, u32) = (12, 18);

/// Pieces of up to so many bytes are short: they fit a key.
pub const SHORT: usize = 15;

/// Pieces of up to so many bytes are kept; longer ones are unlikely to come again.
pub const LONGEST: usize = 47;

/// Ids beyond those in their slots: up to so many (8 MB), then the cache begins anew.
const MOST_IDS: usize = 1 << 21;

/// A short piece as one number: its bytes, and its length above them.
pub type Key = u128;

/// The ids of a piece as one number: up to three of 20 bits and how many they are, or where they
/// are among all ids.
#[derive(Clone, Copy)]
struct Packed(u64);

const ID_BITS: u32 = 20;
const IN_SLOT: usize = 3;

impl Packed {
    /// Puts ids into one number, or behind those in `more_ids`.
    fn new(ids: &[u32], more_ids: &mut Vec<u32>) -> Packed {
        let count = (ids.len() as u64) << 61;
        if ids.len() <= IN_SLOT && ids.iter().all(|&id| id < 1 << ID_BITS) {
            let bits = ids.iter().rev().fold(0, |bits, &id| bits << ID_BITS | u64::from(id));
            return Packed(count | bits);
        }
        let start = more_ids.len() as u64;
        more_ids.extend_from_slice(ids);
        Packed(ELSEWHERE << 61 | (ids.len() as u64) << 32 | start)
    }

    /// Writes the ids from `ids[at]` on, where there must be room for LONGEST; returns how many.
    #[inline(always)]
    fn write(self, more_ids: &[u32], ids: &mut [u32], at: usize) -> usize {
        let Packed(packed) = self;
        let count = (packed >> 61) as usize;
        if count <= IN_SLOT {
            // All three are written, whatever the count: that is faster than to choose.
            let mask = (1 << ID_BITS) - 1;
            let three = [packed, packed >> ID_BITS, packed >> (2 * ID_BITS)];
            ids[at..at + IN_SLOT].copy_from_slice(&three.map(|id| (id & mask) as u32));
            return count;
        }
        let (start, count) = ((packed & 0xFFFF_FFFF) as usize, (packed >> 32 & 0xFFFF) as usize);
        ids[at..at + count].copy_from_slice(&more_ids[start..start + count]);
        count
    }
}

/// The count that says that the ids are among `more_ids`.
const ELSEWHERE: u64 = 7;

#[derive(Clone, Copy)]
#[repr(align(32))]
struct ShortSlot {
    key: Key, // 0 is that of no piece
    ids: Packed,
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct LongSlot {
    hash: u64,
    ids: Packed,
    length: u8, // 0 is that of no piece
    piece: [u8; LONGEST],
}

const NO_SHORT: ShortSlot = ShortSlot { key: 0, ids: Packed(0) };
const NO_LONG: LongSlot = LongSlot { hash: 0, ids: Packed(0), length: 0, piece: [0; LONGEST] };

/// A bounded table of pieces and their ids.
pub struct Cache {
    short: Vec<ShortSlot>,
    long: Vec<LongSlot>,
    short_used: usize,
    long_used: usize,
    more_ids: Vec<u32>,
}

impl Default for Cache {
    fn default() -> Cache {
        Cache {
            short: vec![NO_SHORT; 1 << SHORT_BITS.0],
            long: vec![NO_LONG; 1 << LONG_BITS.0],
            short_used: 0,
            long_used: 0,
            more_ids: Vec::new(),
        }
    }
}

/// The bits of a key that the bytes of a piece take, by its length.
const BYTES_OF_LENGTH: [Key; SHORT + 1] = {
    let mut masks = [0; SHORT + 1];
    let mut length = 0;
    while length <= SHORT {
        masks[length] = (1 << (8 * length)) - 1;
        length += 1;
    }
    masks
};

/// Returns the key of `text[start..end]`, a piece of 1 to SHORT bytes.
#[inline(always)]
pub fn key(text: &[u8], start: usize, end: usize) -> Key {
    let length = end - start;
    // Sixteen bytes are read at once where the text has them, and what is not the piece's is cut.
    let bytes = match text[start..].first_chunk() {
        Some(bytes) => u128::from_le_bytes(*bytes),
        None => {
            let mut bytes = [0; 16];
            bytes[..length].copy_from_slice(&text[start..end]);
            u128::from_le_bytes(bytes)
        }
    };
    bytes & BYTES_OF_LENGTH[length] | (length as u128) << 120
}

/// Returns 64 bits of which each depends on the whole key.
#[inline(always)]
pub fn hash(key: Key) -> u64 {
    let folded = (key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        ^ ((key >> 64) as u64).wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
    let mixed = folded.wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    mixed ^ mixed >> 32
}

/// Returns 64 bits of which each depends on the whole of a piece, which is not short.
#[inline(always)]
pub fn hash_long(piece: &[u8]) -> u64 {
    let word = |at: usize| piece[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    let mut sum = (piece.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut at = 0;
    while at + 8 < piece.len() {
        sum = (sum ^ word(at)).wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
        sum ^= sum >> 29;
        at += 8;
    }
    // The last eight bytes, some of them again.
    sum = (sum ^ word(piece.len() - 8)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    sum ^ sum >> 32
}

impl Cache {
    /// Asks for the place of a short piece to be brought near, since it will be looked up soon.
    #[inline(always)]
    pub fn prefetch_short(&self, key: Key) {
        simd::prefetch(&self.short[hash(key) as usize & (self.short.len() - 1)]);
    }

    /// The same for a long piece, by its hash.
    #[inline(always)]
    pub fn prefetch_long(&self, hash: u64) {
        simd::prefetch(&self.long[hash as usize & (self.long.len() - 1)]);
    }

    /// Writes the ids of a short piece from `ids[at]` on, where there must be room for LONGEST,
    /// and returns how many they are; None if they are not known.
    #[inline(always)]
    pub fn write_short(&self, key: Key, ids: &mut [u32], at: usize) -> Option<usize> {
        let slot = &self.short[self.place_of_short(key)];
        (slot.key == key).then(|| slot.ids.write(&self.more_ids, ids, at))
    }

    /// The same for a long piece.
    #[inline(always)]
    pub fn write_long(&self, hash: u64, piece: &[u8], ids: &mut [u32], at: usize) -> Option<usize> {
        let slot = &self.long[self.place_of_long(hash, piece)];
        (slot.length != 0).then(|| slot.ids.write(&self.more_ids, ids, at))
    }

    /// Remembers the ids of a short piece.
    pub fn put_short(&mut self, key: Key, ids: &[u32]) {
        self.make_room(ids.len());
        if self.short_used * 2 >= self.short.len() {
            if self.short.len() < 1 << SHORT_BITS.1 {
                let size = self.short.len() * 2;
                let slots = std::mem::replace(&mut self.short, vec![NO_SHORT; size]);
                for slot in slots.into_iter().filter(|slot| slot.key != 0) {
                    let at = self.place_of_short(slot.key);
                    self.short[at] = slot;
                }
            } else {
                *self = Cache::default();
            }
        }
        let at = self.place_of_short(key);
        self.short_used += usize::from(self.short[at].key == 0);
        self.short[at] = ShortSlot { key, ids: Packed::new(ids, &mut self.more_ids) };
    }

    /// Remembers the ids of a long piece.
    pub fn put_long(&mut self, hash: u64, piece: &[u8], ids: &[u32]) {
        self.make_room(ids.len());
        if self.long_used * 2 >= self.long.len() {
            if self.long.len() < 1 << LONG_BITS.1 {
                let size = self.long.len() * 2;
                let slots = std::mem::replace(&mut self.long, vec![NO_LONG; size]);
                for slot in slots.into_iter().filter(|slot| slot.length != 0) {
                    let at = self.place_of_long(slot.hash, &slot.piece[..slot.length.into()]);
                    self.long[at] = slot;
                }
            } else {
                *self = Cache::default();
            }
        }
        let at = self.place_of_long(hash, piece);
        self.long_used += usize::from(self.long[at].length == 0);
        let slot = &mut self.long[at];
        *slot = LongSlot { hash, length: piece.len() as u8, ..NO_LONG };
        slot.piece[..piece.len()].copy_from_slice(piece);
        slot.ids = Packed::new(ids, &mut self.more_ids);
    }

    fn make_room(&mut self, ids: usize) {
        if self.more_ids.len() + ids > MOST_IDS {
            *self = Cache::default();
        }
    }

    /// Returns where a short piece is, or the free place where it would be.
    #[inline(always)]
    fn place_of_short(&self, key: Key) -> usize {
        let mask = self.short.len() - 1;
        let mut at = hash(key) as usize & mask;
        while self.short[at].key != key && self.short[at].key != 0 {
            at = (at + 1) & mask;
        }
        at
    }

    /// Returns where a long piece is, or the free place where it would be.
    #[inline(always)]
    fn place_of_long(&self, hash: u64, piece: &[u8]) -> usize {
        let mask = self.long.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = &self.long[at];
            let same = slot.hash == hash && slot.piece.get(..slot.length.into()) == Some(piece);
            if same || slot.length == 0 {
                return at;
            }
            at = (at + 1) & mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_whole_piece() {
        let text = b"ab\0\0abcdefghijklmnop";
        assert_ne!(key(text, 0, 2), key(text, 0, 3));
        assert_eq!(key(text, 0, 2), key(text, 4, 6));
        assert_eq!(key(text, 4, 19), key(b"abcdefghijklmno", 0, 15));
    }

    #[test]
    fn what_was_put_is_found_whole_through_growth() {
        let mut cache = Cache::default();
        let pieces: Vec<Vec<u8>> = (0..40_000_u32)
            .map(|n| [&n.to_le_bytes()[..], &[7; 43][..(n % 44) as usize]].concat())
            .collect();
        let ids = |n: usize| -> Vec<u32> { (0..n as u32 % 6 + 1).map(|i| i << (n % 32)).collect() };
        for (n, piece) in pieces.iter().enumerate() {
            if piece.len() <= SHORT {
                cache.put_short(key(piece, 0, piece.len()), &ids(n));
            } else {
                cache.put_long(hash_long(piece), piece, &ids(n));
            }
        }
        let mut found = [0; LONGEST];
        for (n, piece) in pieces.iter().enumerate() {
            let count = if piece.len() <= SHORT {
                cache.write_short(key(piece, 0, piece.len()), &mut found, 0)
            } else {
                cache.write_long(hash_long(piece), piece, &mut found, 0)
            };
            assert_eq!(&found[..count.expect("it was put")], ids(n));
        }
        assert_eq!(cache.write_short(key(b"absent", 0, 6), &mut found, 0), None);
        assert_eq!(cache.write_long(hash_long(&[1; 20]), &[1; 20], &mut found, 0), None);
    }

    #[test]
    fn a_full_cache_begins_anew() {
        let mut cache = Cache::default();
        for n in 0..1_u32 << 20 {
            let piece = [n.to_le_bytes(); 5].concat();
            cache.put_short(key(&piece, 0, 4), &[n]);
            cache.put_long(hash_long(&piece), &piece, &[n; 5]);
        }
        assert!(cache.short.len() <= 1 << SHORT_BITS.1 && cache.long.len() <= 1 << LONG_BITS.1);
        assert!(cache.more_ids.len() <= MOST_IDS);
    }
}
