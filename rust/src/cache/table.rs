//! Bounded tables of pieces, in lines of 64 bytes, the size of a line of the processor's cache.

use crate::hash::{GOLDEN_RATIO, XXHASH_PRIME};
use crate::mem::growth::filled;
use crate::mem::prefetch;
use crate::simd::Packed;

/// Tables by the longest piece. Each has at least 2^`bits` lines, and at most 2^`max_bits`.
pub type Table8 = Table<1, 4>;
pub type Table16 = Table<2, 2>;
pub type Table47 = Table<6, 1>;
pub const BITS_8: (u32, u32) = (10, 16); // 64 KB to 4 MB: 262,144 pieces
pub const BITS_16: (u32, u32) = (9, 17); // 32 KB to 8 MB: 262,144 pieces
pub const BITS_47: (u32, u32) = (8, 17); // 16 KB to 8 MB: 131,072 pieces

#[inline(always)]
pub fn mixed(key: u64) -> u64 {
    key.wrapping_mul(GOLDEN_RATIO)
}

/// A key of zeros, which no piece has, marks a free slot.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line<const WORDS: usize, const SLOTS: usize> {
    keys: [[u64; WORDS]; SLOTS],
    ids: [Packed; SLOTS],
}

/// The number of lines in which a piece may be. With fewer, many pieces of a text would replace
/// some that come again.
const MAX_PROBED_LINES: usize = 8;

/// Keys of `WORDS` words, and the ids of each.
///
/// A piece whose line is full goes into one of the seven lines next to it, or replaces another
/// piece. So a search reads at most eight lines, whatever pieces a text has. Pieces chosen to
/// collide replace each other, and cost as much as new pieces: a lookup and a merge each.
pub struct Table<const WORDS: usize, const SLOTS: usize> {
    lines: Vec<Line<WORDS, SLOTS>>,
    bits: u32,
    max_bits: u32,
    used: usize,
    /// Chooses the slot whose piece is replaced next.
    next: usize,
}

impl<const WORDS: usize, const SLOTS: usize> Table<WORDS, SLOTS> {
    const FREE: [u64; WORDS] = [0; WORDS];
    const EMPTY: Line<WORDS, SLOTS> = Line { keys: [Self::FREE; SLOTS], ids: [Packed(0); SLOTS] };

    pub fn new((bits, max_bits): (u32, u32)) -> Self {
        Table { lines: filled(Self::EMPTY, 1 << bits), bits, max_bits, used: 0, next: 0 }
    }

    #[inline(always)]
    pub fn hash(key: &[u64; WORDS]) -> u64 {
        if let [a, b, c, d, e, f] = *key.as_slice() {
            let pair = |a: u64, b: u64| {
                let product = u128::from(a ^ GOLDEN_RATIO) * u128::from(b ^ XXHASH_PRIME);
                (product >> 64) as u64 ^ product as u64
            };
            return mixed(pair(a, b) ^ pair(c, d).rotate_left(21) ^ pair(e, f).rotate_left(42));
        }
        let second = key.get(1).map_or(0, |second| second.wrapping_mul(XXHASH_PRIME));
        let sum = mixed(key[0]) ^ second;
        mixed(sum ^ sum >> 32)
    }

    #[inline(always)]
    fn line(&self, key: &[u64; WORDS]) -> usize {
        (Self::hash(key) >> (64 - self.bits)) as usize & (self.lines.len() - 1)
    }

    #[inline(always)]
    pub fn prefetch(&self, key: &[u64; WORDS]) {
        prefetch(&self.lines[self.line(key)]);
    }

    #[inline(always)]
    pub fn get(&self, key: &[u64; WORDS]) -> Option<Packed> {
        let first = self.line(key);
        for distance in 0..MAX_PROBED_LINES {
            let line = &self.lines[(first ^ distance) & (self.lines.len() - 1)];
            if let Some(slot) = line.keys.iter().position(|other| other == key) {
                return Some(line.ids[slot]);
            }
            if line.keys[SLOTS - 1] == Self::FREE {
                return None;
            }
        }
        None
    }

    /// Adds a key that the table does not have.
    pub fn put(&mut self, key: &[u64; WORDS], ids: Packed) {
        if self.used * 2 > self.lines.len() * SLOTS && self.bits < self.max_bits {
            self.grow();
        }
        let first = self.line(key);
        let place = |i: usize| (first ^ (i / SLOTS), i % SLOTS);
        let mut places = (0..MAX_PROBED_LINES * SLOTS).map(place);
        let free = places.find(|&(line, slot)| self.lines[line].keys[slot] == Self::FREE);
        self.used += usize::from(free.is_some());
        let (line, slot) = free.unwrap_or_else(|| {
            self.next += 1;
            place(self.next % (MAX_PROBED_LINES * SLOTS))
        });
        self.lines[line].keys[slot] = *key;
        self.lines[line].ids[slot] = ids;
    }

    #[cold]
    fn grow(&mut self) {
        let larger = filled(Self::EMPTY, 2 * self.lines.len());
        self.bits += 1;
        self.used = 0;
        for line in std::mem::replace(&mut self.lines, larger) {
            let taken = line.keys.iter().zip(line.ids).filter(|(key, _)| **key != Self::FREE);
            taken.for_each(|(key, ids)| self.put(key, ids));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_full<const WORDS: usize, const SLOTS: usize>(key_of: impl Fn(u64) -> [u64; WORDS]) {
        let mut table = Table::<WORDS, SLOTS>::new((2, 5));
        let ids = |number: u64| Packed(number * 3 + 1);
        for number in 1..2000 {
            assert_eq!(table.get(&key_of(number)), None);
            table.put(&key_of(number), ids(number));
            assert_eq!(table.get(&key_of(number)), Some(ids(number)));
            assert!(table.lines.len() <= 1 << 5);
        }
        let found: Vec<_> =
            (1..2000).filter_map(|number| Some((number, table.get(&key_of(number))?))).collect();
        assert!(found.iter().all(|&(number, packed)| packed == ids(number)));
        assert_eq!((found.len(), table.used), ((1 << 5) * SLOTS, (1 << 5) * SLOTS));
    }

    #[test]
    fn a_new_piece_replaces_one_of_a_full_table() {
        check_full::<1, 4>(|number| [number]);
        check_full::<2, 2>(|number| [7, number]);
        check_full::<6, 1>(|number| [number, 0, 0, 0, 0, 17 << 56]);
    }

    /// Pieces of one line use eight lines. So a search reads eight, and other pieces stay.
    fn check_colliding<const WORDS: usize, const SLOTS: usize>(key_of: fn(u64) -> [u64; WORDS]) {
        let mut table = Table::<WORDS, SLOTS>::new((8, 8));
        let colliding = (1..).map(key_of).filter(|key| Table::<WORDS, SLOTS>::hash(key) >> 56 == 7);
        for key in colliding.take(200) {
            table.put(&key, Packed(9));
            assert_eq!(table.get(&key), Some(Packed(9)));
        }
        let is_used = |line: &Line<WORDS, SLOTS>| line.keys != Table::<WORDS, SLOTS>::EMPTY.keys;
        assert_eq!(table.lines.iter().filter(|line| is_used(line)).count(), MAX_PROBED_LINES);
        assert_eq!(table.used, MAX_PROBED_LINES * SLOTS);
    }

    #[test]
    fn colliding_pieces_use_eight_lines() {
        check_colliding::<1, 4>(|number| [number]);
        check_colliding::<2, 2>(|number| [number, 7]);
        check_colliding::<6, 1>(|number| [0, number, 0, 0, 0, 17 << 56]);
    }

    #[test]
    fn a_growing_table_keeps_most_pieces() {
        let mut table = Table16::new((2, 12));
        (1..1000).for_each(|number| table.put(&[number, number], Packed(number)));
        let found = (1..1000).filter_map(|number| Some((number, table.get(&[number, number])?)));
        let found: Vec<_> = found.collect();
        assert!(found.iter().all(|&(number, ids)| ids == Packed(number)));
        assert!(found.len() > 900 && found.len() == table.used, "{} of 999", found.len());
    }
}
