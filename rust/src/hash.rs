//! The hash table, its hashes, and the factors of other hashes.

use std::hash::{BuildHasher, RandomState};

use crate::mem::growth::{filled, with_room};
use crate::mem::huge_pages::use_huge_pages;
use crate::mem::prefetch;

/// Odd factors with bits that look random: 2**64 over the golden ratio, and one of xxHash.
pub const GOLDEN_RATIO: u64 = 0x9E37_79B9_7F4A_7C15;
pub const XXHASH_PRIME: u64 = 0xC2B2_AE3D_27D4_EB4F;

/// The random part of a hash, without which nobody can choose keys that collide.
///
/// A hash is a product of two words in 128 bits, folded to 64 by exclusive or, twice. A product in
/// 64 bits would be too weak, because its lower bits, where the search begins, depend only on the
/// lower bits of the words. A single product would be too weak too, because words at equal
/// distances come close together.
#[derive(Clone, Copy)]
pub struct Seeds(u64, u64);

impl Seeds {
    /// Returns seeds that differ from table to table.
    pub fn random() -> Seeds {
        let state = RandomState::new();
        Seeds(state.hash_one(0), state.hash_one(1))
    }

    #[inline(always)]
    pub fn hash(self, low: u64, high: u64) -> u64 {
        folded_product(folded_product(low ^ self.0, high ^ self.1), GOLDEN_RATIO)
    }

    #[inline(always)]
    pub fn hash_bytes(self, bytes: &[u8]) -> u64 {
        let mut sum = bytes.len() as u64;
        let mut add = |sixteen: u128| {
            let (low, high) = (sixteen as u64, (sixteen >> 64) as u64);
            sum = folded_product(sum ^ low ^ self.0, high ^ self.1);
        };
        let (chunks, rest) = bytes.as_chunks::<16>();
        chunks.iter().for_each(|sixteen| add(u128::from_le_bytes(*sixteen)));
        if !rest.is_empty() {
            // The last sixteen bytes, which may overlap the bytes before.
            add(bytes.last_chunk().map_or_else(|| ends(bytes), |last| u128::from_le_bytes(*last)));
        }
        folded_product(sum, GOLDEN_RATIO)
    }
}

/// Returns fewer than sixteen bytes as a number, which may contain some of them twice. Different
/// bytes of the same length give different numbers; different lengths may give the same number.
#[inline(always)]
fn ends(bytes: &[u8]) -> u128 {
    if let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        return u128::from(u64::from_le_bytes(*first)) << 64
            | u128::from(u64::from_le_bytes(*last));
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        return u128::from(u32::from_le_bytes(*first)) << 64
            | u128::from(u32::from_le_bytes(*last));
    }
    bytes.iter().fold(0, |number, &byte| number << 8 | u128::from(byte))
}

#[inline(always)]
fn folded_product(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

/// A slot of a table, which is free or has a key and its value.
pub trait Slot: Copy {
    fn free() -> Self;

    fn is_free(&self) -> bool;
}

/// A hash table with open addressing, at most half full.
///
/// The caller hashes keys and compares them with the slots, so a slot may refer to a key that is
/// stored elsewhere. The lowest bits of a hash decide where the search begins.
pub struct HashTable<S> {
    /// Their number is a power of two.
    slots: Vec<S>,
    used: usize,
}

impl<S: Slot> HashTable<S> {
    /// Returns an empty table with room for at least `count` keys before it grows.
    pub fn with_room(count: usize) -> HashTable<S> {
        let slots = filled(S::free(), (2 * count).next_power_of_two().max(16));
        HashTable { slots, used: 0 }
    }

    pub fn len(&self) -> usize {
        self.used
    }

    /// Yields the used slots.
    pub fn iter(&self) -> impl Iterator<Item = &S> {
        self.slots.iter().filter(|slot| !slot.is_free())
    }

    /// Yields the used slots; the caller must not change their keys.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut S> {
        self.slots.iter_mut().filter(|slot| !slot.is_free())
    }

    /// Returns the used slots, and frees the memory of the others.
    pub fn into_used(mut self) -> Vec<S> {
        self.slots.retain(|slot| !slot.is_free());
        self.slots.shrink_to_fit();
        self.slots
    }

    /// Prefetches the slot where the search for a key begins.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        prefetch(&self.slots[self.first(hash)]);
    }

    #[inline(always)]
    pub fn get(&self, hash: u64, is_key: impl Fn(&S) -> bool) -> Option<&S> {
        let slot = &self.slots[self.find(hash, is_key)];
        (!slot.is_free()).then_some(slot)
    }

    /// Returns the slot of a key; the caller must not change the key in it.
    #[inline(always)]
    pub fn get_mut(&mut self, hash: u64, is_key: impl Fn(&S) -> bool) -> Option<&mut S> {
        let at = self.find(hash, is_key);
        let slot = &mut self.slots[at];
        (!slot.is_free()).then_some(slot)
    }

    /// Returns the slot of a key, which is `new` if the key is new. `hash_of` returns the hash of
    /// any slot's key.
    #[inline(always)]
    pub fn get_or_put(
        &mut self,
        hash: u64,
        is_key: impl Fn(&S) -> bool,
        new: S,
        hash_of: impl Fn(&S) -> u64,
    ) -> &mut S {
        let mut at = self.find(hash, is_key);
        if self.slots[at].is_free() {
            if (self.used + 1) * 2 > self.slots.len() {
                self.grow(hash_of);
                at = self.find(hash, |_| false);
            }
            self.used += 1;
            self.slots[at] = new;
        }
        &mut self.slots[at]
    }

    #[cold]
    fn grow(&mut self, hash_of: impl Fn(&S) -> u64) {
        let size = self.slots.len() * 2;
        let mut larger = with_room(size);
        use_huge_pages(&larger);
        larger.resize(size, S::free());
        let slots = std::mem::replace(&mut self.slots, larger);
        for slot in slots.into_iter().filter(|slot| !slot.is_free()) {
            let at = self.find(hash_of(&slot), |_| false);
            self.slots[at] = slot;
        }
    }

    #[inline(always)]
    fn first(&self, hash: u64) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    /// Returns the index of a key, or of the free slot where it would be.
    #[inline(always)]
    fn find(&self, hash: u64, is_key: impl Fn(&S) -> bool) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = self.first(hash);
        while !self.slots[at].is_free() && !is_key(&self.slots[at]) {
            at = (at + 1) & mask;
        }
        at
    }
}

#[cfg(test)]
impl<S: Slot> HashTable<S> {
    /// Returns the number of slots that are looked at to find every key once.
    pub fn probes(&self, hash_of: impl Fn(&S) -> u64) -> usize {
        let mask = self.slots.len() - 1;
        let taken = self.slots.iter().enumerate().filter(|(_, slot)| !slot.is_free());
        taken.map(|(at, slot)| (at.wrapping_sub(self.first(hash_of(slot))) & mask) + 1).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Number(u64);

    impl Slot for Number {
        fn free() -> Number {
            Number(0)
        }

        fn is_free(&self) -> bool {
            self.0 == 0
        }
    }

    #[test]
    fn keys_with_equal_hashes_stay_distinct_through_growth() {
        for hash_of in [|slot: &Number| slot.0, |_: &Number| 7, |slot: &Number| slot.0 % 3] {
            let mut table = HashTable::with_room(8);
            for round in 0..2 {
                for number in (1..300).map(Number) {
                    let is_key = |slot: &Number| *slot == number;
                    let hash = hash_of(&number);
                    assert_eq!(table.get(hash, is_key).is_some(), round == 1);
                    assert_eq!(*table.get_or_put(hash, is_key, number, hash_of), number);
                    assert_eq!(table.get_mut(hash, is_key).copied(), Some(number));
                }
                assert_eq!((table.len(), table.iter().count()), (299, 299));
            }
            assert_eq!(table.slots.len(), 1024);
        }
    }
}
