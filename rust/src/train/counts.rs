//! Counts of pieces, in one table for short pieces and one for long pieces.

use super::error::Error;
use super::piece_key::{self, Key};
use super::record::{self, CountedPieces};
use crate::hash::{HashTable, Seeds, Slot};
use crate::interrupt::Interrupt;
use crate::mem::growth::append;
use crate::split::{Pieces, Splitter};
use crate::types::BATCH;

pub struct Counts {
    short: HashTable<ShortSlot>,
    long: HashTable<LongSlot>,
    /// The bytes of long pieces.
    bytes: Vec<u8>,
    seeds: Seeds,
}

impl Default for Counts {
    fn default() -> Counts {
        let (short, long) = (HashTable::with_room(1 << 11), HashTable::with_room(1 << 9));
        Counts { short, long, bytes: Vec::new(), seeds: Seeds::random() }
    }
}

impl Counts {
    /// Counts the pieces of a text, which must be shorter than 4 GiB.
    pub fn add_text(
        &mut self,
        text: &str,
        splitter: &Splitter,
        interrupt: &mut Interrupt<'_>,
    ) -> Result<(), Error> {
        let mut pieces = Pieces::new(splitter, text);
        let text = text.as_bytes();
        let mut ends = [0; BATCH];
        let mut start = 0;
        while start < text.len() {
            let count = pieces.next_ends(&mut ends);
            let end = self.add_pieces(text, start, &ends[..count]);
            interrupt.advance(end - start)?;
            start = end;
        }
        Ok(())
    }

    /// Counts pieces that follow one another from `start` on; returns where the last one ends.
    #[inline(always)]
    fn add_pieces(&mut self, text: &[u8], mut start: usize, ends: &[u32]) -> usize {
        // The tables exceed the processor's caches, so all slots are prefetched before any is used.
        let (mut keys, mut key_count) = ([0; BATCH], 0);
        let (mut longs, mut long_count) = ([(0, 0, 0); BATCH], 0);
        for &end in ends {
            let end = end as usize;
            if end - start <= piece_key::MAX_BYTES {
                let key = piece_key::key(text, start, end);
                self.short.prefetch(piece_key::hash(key, self.seeds));
                keys[key_count] = key;
                key_count += 1;
            } else {
                let hash = self.seeds.hash_bytes(&text[start..end]);
                self.long.prefetch(hash);
                longs[long_count] = (hash, start, end);
                long_count += 1;
            }
            start = end;
        }
        for &key in &keys[..key_count] {
            self.add_short(key, 1);
        }
        for &(hash, start, end) in &longs[..long_count] {
            self.add_long(hash, &text[start..end], 1);
        }
        start
    }

    pub fn add_piece(&mut self, piece: &[u8], count: u64) {
        if piece.len() > piece_key::MAX_BYTES {
            self.add_long(self.seeds.hash_bytes(piece), piece, count);
        } else if !piece.is_empty() {
            self.add_short(piece_key::key(piece, 0, piece.len()), count);
        }
    }

    #[inline(always)]
    fn add_short(&mut self, key: Key, count: u64) {
        let seeds = self.seeds;
        let hash_of = |slot: &ShortSlot| piece_key::hash(slot.key, seeds);
        let new = ShortSlot { key, count: 0 };
        self.short.get_or_put(hash_of(&new), |slot| slot.key == key, new, hash_of).count += count;
    }

    fn add_long(&mut self, hash: u64, piece: &[u8], count: u64) {
        let bytes = &mut self.bytes;
        let length = u32::try_from(piece.len()).expect("pieces are shorter than 4 GiB");
        let new = LongSlot { hash: hash as u32, length, start: bytes.len(), count: 0 };
        let is_key = |slot: &LongSlot| slot.hash == new.hash && slot.piece(bytes) == piece;
        let hash_of = |slot: &LongSlot| u64::from(slot.hash);
        let slot = self.long.get_or_put(hash_of(&new), is_key, new, hash_of);
        slot.count += count;
        if slot.start == new.start {
            append(bytes, piece);
        }
    }

    /// Adds the counts of another, the smaller to the larger.
    pub fn absorb(
        &mut self,
        mut other: Counts,
        interrupt: &mut Interrupt<'_>,
    ) -> Result<(), Error> {
        if other.len() > self.len() {
            std::mem::swap(self, &mut other);
        }
        other.for_each(interrupt, |piece, count| self.add_piece(piece, count))
    }

    pub fn len(&self) -> usize {
        self.short.len() + self.long.len()
    }

    pub fn into_records(self, interrupt: &mut Interrupt<'_>) -> Result<Vec<u8>, Error> {
        let (mut short, mut long) = (self.short.into_used(), self.long.into_used());
        interrupt.check()?;
        // A key has its first byte lowest and its length highest, so a swap gives the order of the
        // bytes, and the length decides between a piece and the same piece with zeros after it.
        short.sort_unstable_by_key(|slot| slot.key.swap_bytes());
        let piece_of = |slot: &LongSlot| slot.piece(&self.bytes);
        long.sort_unstable_by(|one, other| piece_of(one).cmp(piece_of(other)));
        let mut long = long.iter().peekable();
        let mut records = Vec::new();
        for slot in short {
            interrupt.advance(size_of::<ShortSlot>())?;
            let bytes = slot.key.to_le_bytes();
            let piece = piece_key::piece(&bytes);
            while let Some(slot) = long.next_if(|slot| piece_of(slot) < piece) {
                record::push(&mut records, piece_of(slot), slot.count);
            }
            record::push(&mut records, piece, slot.count);
        }
        long.for_each(|slot| record::push(&mut records, piece_of(slot), slot.count));
        Ok(records)
    }
}

impl CountedPieces for Counts {
    fn for_each(
        &self,
        interrupt: &mut Interrupt<'_>,
        mut take: impl FnMut(&[u8], u64),
    ) -> Result<(), Error> {
        for slot in self.short.iter() {
            interrupt.advance(piece_key::MAX_BYTES)?;
            take(piece_key::piece(&slot.key.to_le_bytes()), slot.count);
        }
        for slot in self.long.iter() {
            interrupt.advance(slot.length as usize)?;
            take(slot.piece(&self.bytes), slot.count);
        }
        Ok(())
    }

    fn consume(
        self,
        interrupt: &mut Interrupt<'_>,
        mut take: impl FnMut(&[u8], u64),
    ) -> Result<(), Error> {
        let Counts { short, long, bytes, .. } = self;
        let (short, long) = (short.into_used(), long.into_used());
        for slot in short {
            interrupt.advance(piece_key::MAX_BYTES)?;
            take(piece_key::piece(&slot.key.to_le_bytes()), slot.count);
        }
        for slot in long {
            interrupt.advance(slot.length as usize)?;
            take(slot.piece(&bytes), slot.count);
        }
        Ok(())
    }
}

/// A piece that fits a key, as nearly all pieces do.
#[derive(Clone, Copy)]
struct ShortSlot {
    key: Key, // 0 if it is free
    count: u64,
}

impl Slot for ShortSlot {
    fn free() -> ShortSlot {
        ShortSlot { key: 0, count: 0 }
    }

    #[inline(always)]
    fn is_free(&self) -> bool {
        self.key == 0
    }
}

/// A longer piece: its range in `Counts::bytes`.
#[derive(Clone, Copy)]
struct LongSlot {
    /// The lower half of the hash, which is enough for a table of up to 2**32 slots.
    hash: u32,
    length: u32, // 0 if it is free
    start: usize,
    count: u64,
}

impl LongSlot {
    fn piece(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start..][..self.length as usize]
    }
}

impl Slot for LongSlot {
    fn free() -> LongSlot {
        LongSlot { hash: 0, length: 0, start: 0, count: 0 }
    }

    #[inline(always)]
    fn is_free(&self) -> bool {
        self.length == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_inputs::Rng;

    /// Returns how many slots are looked at to find all pieces once.
    fn probes<P: AsRef<[u8]>>(pieces: impl Iterator<Item = P>) -> usize {
        let mut counts = Counts::default();
        pieces.for_each(|piece| counts.add_piece(piece.as_ref(), 1));
        let Counts { short, long, seeds, .. } = counts;
        short.probes(|slot| piece_key::hash(slot.key, seeds)) + long.probes(|slot| slot.hash.into())
    }

    #[test]
    fn chosen_pieces_cost_at_most_twice_random_ones() {
        const COUNT: u32 = 1 << 12;
        for length in [8, 15, 16, 17, 33] {
            let mut rng = Rng::new(7);
            let random = (0..COUNT).map(|_| (0..length).map(|_| rng.below(256) as u8).collect());
            let limit = 2 * probes(random.collect::<Vec<Vec<u8>>>().iter());
            // Pieces that differ only in two bytes.
            for (first, second) in (0..length).flat_map(|at| (0..at).map(move |other| (other, at)))
            {
                let piece = |n: u32| {
                    let mut piece = vec![b'a'; length];
                    piece[first] = n as u8;
                    piece[second] = (n >> 8) as u8;
                    piece
                };
                assert!(probes((0..COUNT).map(piece)) <= limit, "{length} {first} {second}");
            }
        }
    }
}
