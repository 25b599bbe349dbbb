//! Values by pair, and a queue of pairs by the tie rule: highest count first, then smallest pair.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use crate::hash::{HashTable, Seeds, Slot};
use crate::mem::growth::{collected, copied, filled, granted, push};
use crate::mem::prefetch;
use crate::types::TokenIndex;

/// Two tokens as one number. The left token is in the upper half, so that numbers sort as pairs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair(u64);

/// No pair has this value.
pub const NO_PAIR: Pair = Pair(u64::MAX);

impl Pair {
    #[inline(always)]
    pub fn new(left: TokenIndex, right: TokenIndex) -> Pair {
        Pair(u64::from(left) << 32 | u64::from(right))
    }

    #[inline(always)]
    fn hash(self, seeds: Seeds) -> u64 {
        seeds.hash(self.0, 0)
    }

    pub fn parts(self) -> (TokenIndex, TokenIndex) {
        ((self.0 >> 32) as TokenIndex, self.0 as TokenIndex)
    }
}

pub struct PairMap<T> {
    table: HashTable<PairSlot<T>>,
    seeds: Seeds,
}

#[derive(Clone, Copy)]
struct PairSlot<T> {
    pair: Pair, // NO_PAIR if it is free
    value: T,
}

impl<T: Copy + Default> Slot for PairSlot<T> {
    fn free() -> PairSlot<T> {
        PairSlot { pair: NO_PAIR, value: T::default() }
    }

    #[inline(always)]
    fn is_free(&self) -> bool {
        self.pair == NO_PAIR
    }
}

const INITIAL_PAIRS: usize = 1 << 9;

impl<T: Copy + Default> Default for PairMap<T> {
    fn default() -> PairMap<T> {
        PairMap { table: HashTable::with_room(INITIAL_PAIRS), seeds: Seeds::random() }
    }
}

impl<T: Copy + Default> PairMap<T> {
    #[inline(always)]
    pub fn prefetch(&self, pair: Pair) {
        self.table.prefetch(pair.hash(self.seeds));
    }

    #[inline(always)]
    pub fn get(&self, pair: Pair) -> Option<&T> {
        self.table.get(pair.hash(self.seeds), |slot| slot.pair == pair).map(|slot| &slot.value)
    }

    #[inline(always)]
    pub fn get_mut(&mut self, pair: Pair) -> Option<&mut T> {
        let hash = pair.hash(self.seeds);
        self.table.get_mut(hash, |slot| slot.pair == pair).map(|slot| &mut slot.value)
    }

    /// Returns the value of a pair, which is the default for a new pair.
    #[inline(always)]
    pub fn get_or_put(&mut self, pair: Pair) -> &mut T {
        let seeds = self.seeds;
        let hash_of = |slot: &PairSlot<T>| slot.pair.hash(seeds);
        let new = PairSlot { pair, value: T::default() };
        &mut self.table.get_or_put(hash_of(&new), |slot| slot.pair == pair, new, hash_of).value
    }

    pub fn iter(&self) -> impl Iterator<Item = (Pair, &T)> {
        self.table.iter().map(|slot| (slot.pair, &slot.value))
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.table.iter_mut().map(|slot| &mut slot.value)
    }

    /// Removes the pairs for whose values `keep` returns false.
    pub fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        for (pair, value) in std::mem::take(self).iter().filter(|(_, value)| keep(value)) {
            *self.get_or_put(pair) = *value;
        }
    }
}

/// Upper bounds of counts. Pairs with the same hash share a count, so it may be too high for each.
pub struct Sketch {
    counts: Vec<u32>,
    seeds: Seeds,
}

/// The pairs that may have reached a count, as one bit for each hash.
pub struct PairFilter {
    bits: Vec<u64>,
    seeds: Seeds,
}

const SKETCH_BITS: u32 = if cfg!(test) { 12 } else { 22 };

impl Sketch {
    pub fn new() -> Sketch {
        Sketch { counts: filled(0, 1 << SKETCH_BITS), seeds: Seeds::random() }
    }

    #[inline(always)]
    pub fn prefetch(&self, pair: Pair) {
        prefetch(&self.counts[sketch_index(pair, self.seeds)]);
    }

    #[inline(always)]
    pub fn add(&mut self, pair: Pair, count: u64) {
        let total = &mut self.counts[sketch_index(pair, self.seeds)];
        *total = total.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
    }

    /// Returns the highest count that at least `pairs` of the shared counts reach.
    pub fn count_of_rank(&self, pairs: usize) -> u64 {
        let mut counts = copied(&self.counts);
        let at = counts.len() - pairs;
        u64::from(*counts.select_nth_unstable(at).1)
    }

    /// Returns a filter that every pair with at least this count passes.
    pub fn into_filter(self, min_count: u64) -> PairFilter {
        let bits = collected(self.counts.chunks(64).map(|counts| {
            let is_frequent =
                |&count: &u32| u64::from(u64::from(count) >= min_count || count == u32::MAX);
            counts.iter().rev().fold(0, |bits, count| bits << 1 | is_frequent(count))
        }));
        PairFilter { bits, seeds: self.seeds }
    }
}

impl PairFilter {
    #[inline(always)]
    pub fn passes(&self, pair: Pair) -> bool {
        let index = sketch_index(pair, self.seeds);
        self.bits[index / 64] >> (index % 64) & 1 == 1
    }
}

#[inline(always)]
fn sketch_index(pair: Pair, seeds: Seeds) -> usize {
    (pair.hash(seeds) >> (64 - SKETCH_BITS)) as usize
}

/// Pairs by the count that they had when they were pushed: highest count first, then smallest pair.
///
/// A pushed count never exceeds the count that was popped last. Because nearly all pairs have low
/// counts, each low count has a list of its own, and only the list of the current count is a heap.
pub struct Queue {
    high: BinaryHeap<(u64, Reverse<Pair>)>,
    /// The pairs of each low count that is still to come.
    low: Vec<Vec<Pair>>,
    /// The current low count; `on_turn` has its pairs.
    turn: u64,
    on_turn: BinaryHeap<Reverse<Pair>>,
}

/// Counts below this are low.
const MIN_HIGH_COUNT: u64 = 1 << 10;

impl Default for Queue {
    fn default() -> Queue {
        let low = vec![Vec::new(); MIN_HIGH_COUNT as usize];
        Queue { high: BinaryHeap::new(), low, turn: MIN_HIGH_COUNT, on_turn: BinaryHeap::new() }
    }
}

impl Queue {
    /// Replaces all pairs.
    pub fn fill(&mut self, pairs: impl Iterator<Item = (Pair, u64)>) {
        *self = Queue::default();
        for (pair, count) in pairs {
            self.push(pair, count);
        }
    }

    pub fn push(&mut self, pair: Pair, count: u64) {
        if count >= MIN_HIGH_COUNT {
            granted(self.high.try_reserve(1));
            self.high.push((count, Reverse(pair)));
        } else if count == self.turn {
            granted(self.on_turn.try_reserve(1));
            self.on_turn.push(Reverse(pair));
        } else {
            push(&mut self.low[count as usize], pair);
        }
    }

    /// Pops the pair with the highest count by `count_now`, if it has at least `min_count`.
    ///
    /// Counts may only have fallen since the push. Most calls of `count_now` follow a `prefetch` of
    /// the same pair.
    pub fn pop(
        &mut self,
        min_count: u64,
        prefetch: impl Fn(Pair),
        count_now: impl Fn(Pair) -> u64,
    ) -> Option<Pair> {
        while let Some(mut top) = self.high.peek_mut() {
            let (count, Reverse(pair)) = *top;
            let now = count_now(pair);
            if now >= MIN_HIGH_COUNT && now != count {
                top.0 = now;
                continue;
            }
            PeekMut::pop(top);
            if now == count {
                return (now >= min_count).then_some(pair);
            }
            push(&mut self.low[now as usize], pair);
        }
        loop {
            while let Some(Reverse(pair)) = self.on_turn.pop() {
                let now = count_now(pair);
                if now == self.turn {
                    return Some(pair);
                }
                push(&mut self.low[now as usize], pair);
            }
            if self.turn <= min_count {
                return None;
            }
            self.turn -= 1;
            let pairs = std::mem::take(&mut self.low[self.turn as usize]);
            for (i, &pair) in pairs.iter().enumerate() {
                if let Some(&ahead) = pairs.get(i + PREFETCH_DISTANCE) {
                    prefetch(ahead);
                }
                let now = count_now(pair);
                self.push(pair, now);
            }
        }
    }
}

/// The number of pairs between the prefetch of a pair and its use.
const PREFETCH_DISTANCE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_inputs::Rng;

    #[test]
    fn a_sketch_never_counts_too_little() {
        let mut sketch = Sketch::new();
        let pair = |n: u32| Pair::new(n % 70, n);
        (0..5000).for_each(|n| sketch.add(pair(n), u64::from(n) + 1));
        sketch.add(pair(7), u64::MAX);
        sketch.add(pair(7), 1);
        let count = sketch.count_of_rank(1000);
        assert!(count >= 4000, "{count}");
        let filter = sketch.into_filter(count);
        assert!((count as u32 - 1..5000).chain([7]).all(|n| filter.passes(pair(n))));
        let passing = (0..5000).filter(|&n| filter.passes(pair(n))).count();
        assert!(passing < 3000, "{passing}");
    }

    #[test]
    fn values_are_found_through_growth() {
        let mut map = PairMap::<u32>::default();
        assert_eq!(map.get_mut(Pair::new(1, 2)), None);
        for n in 0..5000 {
            *map.get_or_put(Pair::new(n % 70, n)) += n;
        }
        for n in 0..5000 {
            assert_eq!(map.get_mut(Pair::new(n % 70, n)), Some(&mut { n }));
            assert_eq!(map.get_mut(Pair::new(n % 70 + 1, n)), None);
        }
    }

    /// Returns how many slots are looked at to find all pairs once.
    fn probes(pairs: impl Iterator<Item = Pair>) -> usize {
        let mut map = PairMap::<u32>::default();
        pairs.for_each(|pair| *map.get_or_put(pair) += 1);
        map.table.probes(|slot| slot.pair.hash(map.seeds))
    }

    #[test]
    fn chosen_pairs_cost_at_most_twice_random_ones() {
        const COUNT: u32 = 1 << 12;
        let mut rng = Rng::new(7);
        let mut token = || rng.below(1 << 20) as TokenIndex;
        let limit = 2 * probes((0..COUNT).map(|_| Pair::new(token(), token())));
        // Few tokens on one side, and tokens at equal distances on the other.
        for (few_bits, step_bits) in (0..12).flat_map(|few| (0..20).map(move |step| (few, step))) {
            let few = |n: u32| n & ((1 << few_bits) - 1);
            let step = |n: u32| (n >> few_bits) << step_bits;
            for pair in [|few, step| Pair::new(few, step), |few, step| Pair::new(step, few)] {
                let cost = probes((0..COUNT).map(|n| pair(few(n), step(n))));
                assert!(cost <= limit, "{few_bits} {step_bits}: {cost} of {limit}");
            }
        }
    }

    #[test]
    fn the_queue_pops_by_count_then_by_pair() {
        let pairs = [
            ((9, 0), MIN_HIGH_COUNT + 7, MIN_HIGH_COUNT + 7),
            ((7, 1), 5, 5),
            ((2, 9), 5, 5),
            ((2, 8), 5, 5),
            // These counts have fallen since the push.
            ((8, 0), MIN_HIGH_COUNT + 8, MIN_HIGH_COUNT + 6),
            ((0, 0), 2 * MIN_HIGH_COUNT, 5),
            ((0, 1), 9, 3),
            ((1, 1), 4, 2),
        ];
        let pair_of = |(left, right)| Pair::new(left, right);
        let count_now =
            |pair| pairs.iter().find(|known| pair_of(known.0) == pair).map_or(4, |known| known.2);
        let mut queue = Queue::default();
        queue.fill(pairs.iter().map(|&(parts, count, _)| (pair_of(parts), count)));
        let mut popped = Vec::new();
        while let Some(pair) = queue.pop(3, |_| (), count_now) {
            popped.push(pair.parts());
            if pair.parts() == (2, 9) {
                // One pair is as frequent as the popped pair, one less frequent.
                queue.push(Pair::new(2, 8), 5);
                queue.push(Pair::new(6, 6), 4);
            }
        }
        let expected = [(9, 0), (8, 0), (0, 0), (2, 8), (2, 9), (2, 8), (7, 1), (6, 6), (0, 1)];
        assert_eq!(popped, expected);
    }
}
