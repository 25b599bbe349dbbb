//! How often each piece occurs.

use super::{Error, GoOn, ask};
use crate::key::{self, Key};
use crate::scan::{Pattern, Pieces};
use crate::simd;

/// How often each piece occurs.
#[derive(Default)]
pub struct Counts {
    short: ShortCounts,
    long: LongCounts,
}

/// How many pieces are found, and asked for in memory, before they are counted.
const BATCH: usize = 512;

/// After how many bytes it is asked whether to go on.
const QUESTION: usize = 1 << 22;

impl Counts {
    /// Counts the pieces of a text, which must be shorter than 4 GiB.
    pub fn add_text(&mut self, text: &str, pattern: Pattern, go_on: GoOn<'_>) -> Result<(), Error> {
        let mut pieces = Pieces::new(pattern, text);
        let text = text.as_bytes();
        let mut ends = [0; BATCH];
        let (mut start, mut next_question) = (0, QUESTION);
        loop {
            let count = pieces.next_ends(&mut ends);
            if count == 0 {
                return Ok(());
            }
            start = self.add_pieces(text, start, &ends[..count]);
            if start > next_question {
                next_question += QUESTION;
                ask(go_on)?;
            }
        }
    }

    /// Counts pieces that follow one another from `start` on; returns where the last one ends.
    #[inline(always)]
    fn add_pieces(&mut self, text: &[u8], mut start: usize, ends: &[u32]) -> usize {
        // The tables do not fit the processor's caches: all slots are asked for, then used.
        let (mut keys, mut key_count) = ([0; BATCH], 0);
        let (mut longs, mut long_count) = ([(0, 0, 0); BATCH], 0);
        for &end in ends {
            let end = end as usize;
            if end - start <= key::SHORT {
                let key = key::key(text, start, end);
                self.short.prefetch(key);
                keys[key_count] = key;
                key_count += 1;
            } else {
                let hash = hash_long(&text[start..end]);
                self.long.prefetch(hash);
                longs[long_count] = (hash, start, end);
                long_count += 1;
            }
            start = end;
        }
        for &key in &keys[..key_count] {
            self.short.add(key, 1);
        }
        for &(hash, start, end) in &longs[..long_count] {
            self.long.add(hash, &text[start..end], 1);
        }
        start
    }

    /// Counts a piece so many times.
    pub fn add_piece(&mut self, piece: &[u8], count: u64) {
        if piece.len() > key::SHORT {
            self.long.add(hash_long(piece), piece, count);
        } else if !piece.is_empty() {
            self.short.add(key::key(piece, 0, piece.len()), count);
        }
    }

    /// Counts all that the other has counted.
    pub fn absorb(&mut self, mut other: Counts, go_on: GoOn<'_>) -> Result<(), Error> {
        if other.len() > self.len() {
            std::mem::swap(self, &mut other);
        }
        other.for_each(go_on, |piece, count| self.add_piece(piece, count))
    }

    /// Returns how many different pieces there are.
    pub fn len(&self) -> usize {
        self.short.used + self.long.used
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Yields each piece and its count, in no order that means anything.
    pub fn for_each(&self, go_on: GoOn<'_>, mut take: impl FnMut(&[u8], u64)) -> Result<(), Error> {
        for slots in self.short.slots.chunks(QUESTION / size_of::<ShortSlot>()) {
            ask(go_on)?;
            for slot in slots.iter().filter(|slot| slot.key != 0) {
                let bytes = slot.key.to_le_bytes();
                take(&bytes[..usize::from(bytes[key::SHORT])], slot.count);
            }
        }
        let mut next_question = 0;
        for slot in self.long.slots.iter().filter(|slot| slot.length != 0) {
            if slot.length >= next_question {
                next_question = QUESTION;
                ask(go_on)?;
            }
            next_question -= slot.length;
            take(self.long.piece(slot), slot.count);
        }
        Ok(())
    }
}

/// Counts of the pieces that fit a key, which are nearly all: open addressing, half full at most.
struct ShortCounts {
    slots: Vec<ShortSlot>,
    used: usize,
}

#[derive(Clone, Copy)]
struct ShortSlot {
    key: Key, // 0 if it is free
    count: u64,
}

const FREE_SHORT: ShortSlot = ShortSlot { key: 0, count: 0 };

impl Default for ShortCounts {
    fn default() -> ShortCounts {
        ShortCounts { slots: vec![FREE_SHORT; 1 << 12], used: 0 }
    }
}

impl ShortCounts {
    #[inline(always)]
    fn prefetch(&self, key: Key) {
        simd::prefetch(&self.slots[key::hash(key) as usize & (self.slots.len() - 1)]);
    }

    #[inline(always)]
    fn add(&mut self, key: Key, count: u64) {
        let at = self.place(key);
        let slot = &mut self.slots[at];
        slot.count += count;
        if slot.key == 0 {
            slot.key = key;
            self.used += 1;
            if self.used * 2 > self.slots.len() {
                self.grow();
            }
        }
    }

    #[cold]
    fn grow(&mut self) {
        let size = self.slots.len() * 2;
        let slots = std::mem::replace(&mut self.slots, vec![FREE_SHORT; size]);
        for slot in slots.into_iter().filter(|slot| slot.key != 0) {
            let at = self.place(slot.key);
            self.slots[at] = slot;
        }
    }

    /// Returns where a key is, or the free slot where it would be.
    #[inline(always)]
    fn place(&self, key: Key) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = key::hash(key) as usize & mask;
        while self.slots[at].key != key && self.slots[at].key != 0 {
            at = (at + 1) & mask;
        }
        at
    }
}

/// Counts of the other pieces: the same, but a slot says where its piece is among all bytes.
struct LongCounts {
    slots: Vec<LongSlot>,
    used: usize,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy)]
struct LongSlot {
    hash: u64,
    start: usize,
    length: usize, // 0 if it is free
    count: u64,
}

const FREE_LONG: LongSlot = LongSlot { hash: 0, start: 0, length: 0, count: 0 };

impl Default for LongCounts {
    fn default() -> LongCounts {
        LongCounts { slots: vec![FREE_LONG; 1 << 10], used: 0, bytes: Vec::new() }
    }
}

impl LongCounts {
    #[inline(always)]
    fn prefetch(&self, hash: u64) {
        simd::prefetch(&self.slots[hash as usize & (self.slots.len() - 1)]);
    }

    fn add(&mut self, hash: u64, piece: &[u8], count: u64) {
        let at = self.place(hash, piece);
        let slot = &mut self.slots[at];
        slot.count += count;
        if slot.length == 0 {
            (slot.hash, slot.start, slot.length) = (hash, self.bytes.len(), piece.len());
            self.bytes.extend_from_slice(piece);
            self.used += 1;
            if self.used * 2 > self.slots.len() {
                self.grow();
            }
        }
    }

    #[cold]
    fn grow(&mut self) {
        let size = self.slots.len() * 2;
        let slots = std::mem::replace(&mut self.slots, vec![FREE_LONG; size]);
        for slot in slots.into_iter().filter(|slot| slot.length != 0) {
            let mut at = slot.hash as usize & (size - 1);
            while self.slots[at].length != 0 {
                at = (at + 1) & (size - 1);
            }
            self.slots[at] = slot;
        }
    }

    fn piece(&self, slot: &LongSlot) -> &[u8] {
        &self.bytes[slot.start..][..slot.length]
    }

    /// Returns where a piece is, or the free slot where it would be.
    #[inline(always)]
    fn place(&self, hash: u64, piece: &[u8]) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = &self.slots[at];
            if slot.length == 0 || slot.hash == hash && self.piece(slot) == piece {
                return at;
            }
            at = (at + 1) & mask;
        }
    }
}

/// Returns 64 bits of which each depends on the whole of a piece, which does not fit a key.
#[inline(always)]
fn hash_long(piece: &[u8]) -> u64 {
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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn counted(counts: &Counts) -> HashMap<Vec<u8>, u64> {
        let mut all = HashMap::new();
        let result = counts.for_each(&mut || true, |piece, count| {
            assert_eq!(all.insert(piece.to_vec(), count), None);
        });
        assert_eq!(result, Ok(()));
        all
    }

    #[test]
    fn pieces_of_all_lengths_are_counted_through_growth() {
        let text: String = (0..30_000).map(|n| format!(" {}", "7".repeat(n % 40 + 1))).collect();
        let text = text + &(0..20_000).map(|n| format!(" {}", n * 99_991)).collect::<String>();
        let mut expected = HashMap::new();
        for piece in
            text.split_inclusive(|c: char| c.is_ascii_digit()).collect::<String>().split(' ')
        {
            if !piece.is_empty() {
                *expected.entry(format!(" {piece}").into_bytes()).or_insert(0) += 1;
            }
        }
        let mut counts = Counts::default();
        assert_eq!(counts.add_text(&text, Pattern::Gpt2, &mut || true), Ok(()));
        assert_eq!(counted(&counts), expected);
    }

    #[test]
    fn counts_are_of_64_bits() {
        let mut counts = Counts::default();
        for piece in [&b"short"[..], b"longer than a key can hold"] {
            counts.add_piece(piece, 1 << 40);
            counts.add_piece(piece, 1);
        }
        assert!(counted(&counts).values().all(|&count| count == (1 << 40) + 1));
    }

    #[test]
    fn absorbing_adds_up() {
        let (mut one, mut other) = (Counts::default(), Counts::default());
        assert_eq!(
            one.add_text("a b a longer-than-fifteen-bytes", Pattern::Gpt2, &mut || true),
            Ok(())
        );
        assert_eq!(other.add_text(" a c longer", Pattern::Gpt2, &mut || true), Ok(()));
        let mut expected = counted(&one);
        for (piece, count) in counted(&other) {
            *expected.entry(piece).or_insert(0) += count;
        }
        assert_eq!(one.absorb(other, &mut || true), Ok(()));
        assert_eq!(counted(&one), expected);
    }
}
