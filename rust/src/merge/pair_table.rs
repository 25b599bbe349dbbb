//! The ranks of pairs.

use std::hash::{BuildHasher, RandomState};

use super::ranks::NO_RANK;
use crate::mem::growth::filled;
use crate::mem::prefetch;
use crate::types::{Rank, TokenIndex};

/// Ranks of pairs, in lines of 64 bytes, the size of a line of the processor's cache.
///
/// Most pairs that are looked up have no rank. A filter rejects seven of eight of them. Each pair
/// sets one bit of the filter, which has at least eight bits for each pair, and fits the
/// processor's second-level cache.
///
/// The hash has a random factor, so nobody can write a text or a vocabulary file whose pairs
/// collide. Even so, a pair is at most `MAX_PROBED_LINES` from its line, because a table in which
/// it would be farther draws another factor.
pub struct PairTable {
    factor: u64,
    filter: Vec<u64>,
    filter_bits: u32,
    lines: Vec<Line>,
    line_bits: u32,
}

/// Slots of two tokens with 20 bits each, and a rank with 24 bits. A line is filled from its first
/// slot on; a pair whose line is full is in the next one.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u64; 8]);

pub const TOKEN_BITS: u32 = 20;
pub const RANK_BITS: u32 = 24;
const FREE: u64 = u64::MAX;

/// The distance of a pair from its line is at most this. No ordinary vocabulary comes near it.
const MAX_PROBED_LINES: usize = 256;

/// More draws would mean that `RandomState` is not random.
const MAX_DRAWS: u32 = 8;

impl PairTable {
    /// Returns an empty table; None for more tokens or merges than a table can have.
    pub fn with_room(tokens: usize, merges: usize) -> Option<PairTable> {
        // The highest token is excluded, so that no pair equals FREE.
        if merges >= 1 << RANK_BITS || tokens >= 1 << TOKEN_BITS {
            return None;
        }
        let bits = |count: usize| count.next_power_of_two().trailing_zeros();
        let filter_bits = bits(merges * 8).max(6);
        // At most 85 of 100 slots are taken.
        let line_bits = bits(merges * 100 / (8 * 85) + 1).max(1);
        Some(PairTable {
            factor: random_factor(),
            filter: filled(0, 1 << (filter_bits - 6)),
            filter_bits,
            lines: filled(Line([FREE; 8]), 1 << line_bits),
            line_bits,
        })
    }

    /// Adds the rank of a pair. Returns false and changes nothing if the pair has a rank.
    pub fn add(&mut self, left: TokenIndex, right: TokenIndex, rank: Rank) -> bool {
        let key = key(left, right);
        let mut draws = 0;
        loop {
            let Some((line, slot)) = self.free_slot(key) else { return false };
            let probed = line.wrapping_sub(self.line(key)) & (self.lines.len() - 1);
            if probed < MAX_PROBED_LINES || draws == MAX_DRAWS {
                self.put(line, slot, key, rank);
                return true;
            }
            self.redraw();
            draws += 1;
        }
    }

    /// Returns the line and the slot where a new pair belongs; None if the pair is in the table.
    fn free_slot(&self, key: u64) -> Option<(usize, usize)> {
        let mut line = self.line(key);
        loop {
            for (slot, &taken) in self.lines[line].0.iter().enumerate() {
                if taken == FREE {
                    return Some((line, slot));
                }
                if taken >> RANK_BITS == key {
                    return None;
                }
            }
            line = (line + 1) & (self.lines.len() - 1);
        }
    }

    fn put(&mut self, line: usize, slot: usize, key: u64, rank: Rank) {
        self.lines[line].0[slot] = key << RANK_BITS | u64::from(rank);
        let bit = self.bit(key);
        self.filter[bit / 64] |= 1 << (bit % 64);
    }

    #[cold]
    fn redraw(&mut self) {
        let empty = filled(Line([FREE; 8]), self.lines.len());
        self.factor = random_factor();
        self.filter.fill(0);
        let lines = std::mem::replace(&mut self.lines, empty);
        for taken in lines.iter().flat_map(|line| line.0).filter(|&taken| taken != FREE) {
            let key = taken >> RANK_BITS;
            if let Some((line, slot)) = self.free_slot(key) {
                self.put(line, slot, key, rank_of(taken));
            }
        }
    }

    #[inline(always)]
    fn mixed(&self, key: u64) -> u64 {
        key.wrapping_mul(self.factor)
    }

    #[inline(always)]
    fn bit(&self, key: u64) -> usize {
        (self.mixed(key) >> (64 - self.filter_bits)) as usize
    }

    #[inline(always)]
    fn line(&self, key: u64) -> usize {
        (self.mixed(key) >> (64 - self.line_bits)) as usize & (self.lines.len() - 1)
    }

    /// Returns the rank of the merge of two tokens, or NO_RANK.
    #[inline(always)]
    pub fn get(&self, left: TokenIndex, right: TokenIndex) -> Rank {
        if !self.may_have(left, right) {
            return NO_RANK;
        }
        self.get_unfiltered(left, right)
    }

    /// Returns whether a pair may be in the table; false for most that are not.
    #[inline(always)]
    pub fn may_have(&self, left: TokenIndex, right: TokenIndex) -> bool {
        let bit = self.bit(key(left, right));
        self.filter[bit / 64] >> (bit % 64) & 1 == 1
    }

    /// Returns the same as `get`, for a pair that the table may have.
    #[inline(always)]
    pub fn get_unfiltered(&self, left: TokenIndex, right: TokenIndex) -> Rank {
        let key = key(left, right);
        let mut line = self.line(key);
        loop {
            // All slots are compared, because it is unpredictable which of them has the pair.
            let slots = &self.lines[line].0;
            let mut found = FREE;
            for &slot in slots {
                found = if slot >> RANK_BITS == key { slot } else { found };
            }
            if found != FREE {
                return rank_of(found);
            }
            if slots[slots.len() - 1] == FREE {
                return NO_RANK;
            }
            line = (line + 1) & (self.lines.len() - 1);
        }
    }

    /// Prefetches the line of a pair for `get`.
    #[inline(always)]
    pub fn prefetch(&self, left: TokenIndex, right: TokenIndex) {
        prefetch(&self.lines[self.line(key(left, right))]);
    }
}

fn random_factor() -> u64 {
    RandomState::new().hash_one(0) | 1
}

fn key(left: TokenIndex, right: TokenIndex) -> u64 {
    u64::from(left) << TOKEN_BITS | u64::from(right)
}

/// Returns the rank in a slot that is not free.
#[inline(always)]
fn rank_of(slot: u64) -> Rank {
    slot as Rank & ((1 << RANK_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::GOLDEN_RATIO;
    use crate::test_inputs::Rng;

    const TOKENS: usize = 1 << 19;
    const FACTORS: usize = 16;

    fn tokens_of(key: u64) -> (TokenIndex, TokenIndex) {
        ((key >> TOKEN_BITS) as TokenIndex, key as TokenIndex & ((1 << TOKEN_BITS) - 1))
    }

    fn table_of(factor: u64, keys: &[u64]) -> PairTable {
        let table = PairTable::with_room(TOKENS, keys.len()).expect("few");
        let mut table = PairTable { factor, ..table };
        for (rank, (left, right)) in (0..).zip(keys.iter().copied().map(tokens_of)) {
            assert!(table.add(left, right, rank));
        }
        table
    }

    /// Returns how many lines the searches for all keys read.
    fn probes(table: &PairTable, keys: &[u64]) -> usize {
        let probes_of = |&key: &u64| {
            let bit = table.bit(key);
            if table.filter[bit / 64] >> (bit % 64) & 1 == 0 {
                return 0;
            }
            let is_end = |slot: &u64| *slot == FREE || slot >> RANK_BITS == key;
            let mask = table.lines.len() - 1;
            let mut lines = (0..).map(|step| table.lines[(table.line(key) + step) & mask]);
            1 + lines.position(|line| line.0.iter().any(is_end)).expect("one has a free slot")
        };
        keys.iter().map(probes_of).sum()
    }

    fn random_keys(rng: &mut Rng, count: usize) -> Vec<u64> {
        let mut token = || rng.below(TOKENS) as TokenIndex;
        let mut keys: Vec<_> = (0..count).map(|_| key(token(), token())).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    #[test]
    fn too_many_merges_are_refused() {
        assert!(PairTable::with_room(300, 1 << RANK_BITS).is_none());
    }

    /// Returns the probes of the keys in a table of other keys, as the mean over many factors.
    ///
    /// About one factor in a hundred is bad for some keys, so a test with one would fail at times.
    fn mean_probes(added: &[u64], keys: &[u64]) -> usize {
        let mut rng = Rng::new(2);
        let mut bits = || rng.below(1 << 31) as u64;
        let factors = (0..FACTORS).map(|_| bits() << 33 | bits() << 2 | 1);
        factors.map(|factor| probes(&table_of(factor, added), keys)).sum::<usize>() / FACTORS
    }

    #[test]
    #[cfg_attr(miri, ignore)]
    fn chosen_pairs_cost_at_most_twice_random_ones() {
        let mut rng = Rng::new(1);
        let random = random_keys(&mut rng, 1 << 12);
        let limit = 2 * mean_probes(&random, &random);
        let known = table_of(GOLDEN_RATIO, &random);

        // A vocabulary whose pairs collide with a known factor draws another.
        let colliding = (0..1 << 30).step_by(7).filter(|&key| known.line(key) == 0);
        let colliding: Vec<_> = colliding.take(random.len()).collect();
        let table = table_of(GOLDEN_RATIO, &colliding);
        assert_ne!(table.factor, GOLDEN_RATIO);
        for (rank, (left, right)) in (0..).zip(colliding.iter().copied().map(tokens_of)) {
            assert_eq!(table.get(left, right), rank);
        }
        assert!(mean_probes(&colliding, &colliding) <= limit);

        // A text whose pairs cost the most with a known factor costs the usual with a random one.
        let absent = random_keys(&mut rng, 1 << 16);
        let mut chosen = absent.clone();
        chosen.sort_by_key(|&key| std::cmp::Reverse(probes(&known, &[key])));
        chosen.truncate(1 << 12);
        let share = absent.len() / chosen.len();
        assert!(probes(&known, &chosen) > 4 * probes(&known, &absent) / share);
        assert!(mean_probes(&random, &chosen) <= 2 * mean_probes(&random, &absent) / share);
    }
}
