//! Something about each pair, and the pair that occurs most often.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::Symbol;
use crate::simd;

/// Two tokens, the left one in the upper half: the smallest number is the smallest pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair(u64);

/// Of no two tokens.
pub const NO_PAIR: Pair = Pair(u64::MAX);

impl Pair {
    #[inline(always)]
    pub fn new(left: Symbol, right: Symbol) -> Pair {
        Pair(u64::from(left) << 32 | u64::from(right))
    }

    pub fn parts(self) -> (Symbol, Symbol) {
        ((self.0 >> 32) as Symbol, self.0 as Symbol)
    }
}

/// Values by pair: open addressing, half full at most.
#[derive(Default)]
pub struct PairMap<T> {
    slots: Vec<Slot<T>>,
    used: usize,
}

#[derive(Clone, Copy)]
struct Slot<T> {
    pair: Pair, // NO_PAIR if it is free
    value: T,
}

const FIRST_SLOTS: usize = 1 << 10;

impl<T: Copy + Default> PairMap<T> {
    /// Asks for the slot of a pair to be brought near.
    #[inline(always)]
    pub fn prefetch(&self, pair: Pair) {
        if !self.slots.is_empty() {
            simd::prefetch(&self.slots[self.first_place(pair)]);
        }
    }

    #[inline(always)]
    pub fn get(&self, pair: Pair) -> Option<&T> {
        if self.slots.is_empty() {
            return None;
        }
        let slot = &self.slots[self.place(pair)];
        (slot.pair == pair).then_some(&slot.value)
    }

    #[inline(always)]
    pub fn get_mut(&mut self, pair: Pair) -> Option<&mut T> {
        if self.slots.is_empty() {
            return None;
        }
        let at = self.place(pair);
        let slot = &mut self.slots[at];
        (slot.pair == pair).then_some(&mut slot.value)
    }

    /// Returns the value of a pair, which is the default if it had none.
    #[inline(always)]
    pub fn get_or_put(&mut self, pair: Pair) -> &mut T {
        if (self.used + 1) * 2 > self.slots.len() {
            self.grow();
        }
        let at = self.place(pair);
        let slot = &mut self.slots[at];
        self.used += usize::from(slot.pair == NO_PAIR);
        slot.pair = pair;
        &mut slot.value
    }

    pub fn iter(&self) -> impl Iterator<Item = (Pair, &T)> {
        let used = self.slots.iter().filter(|slot| slot.pair != NO_PAIR);
        used.map(|slot| (slot.pair, &slot.value))
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let used = self.slots.iter_mut().filter(|slot| slot.pair != NO_PAIR);
        used.map(|slot| &mut slot.value)
    }

    /// Forgets the pairs whose values are not to be kept.
    pub fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        for slot in std::mem::take(self).slots {
            if slot.pair != NO_PAIR && keep(&slot.value) {
                *self.get_or_put(slot.pair) = slot.value;
            }
        }
    }

    #[cold]
    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(FIRST_SLOTS);
        let free = Slot { pair: NO_PAIR, value: T::default() };
        let slots = std::mem::replace(&mut self.slots, vec![free; size]);
        for slot in slots.into_iter().filter(|slot| slot.pair != NO_PAIR) {
            let at = self.place(slot.pair);
            self.slots[at] = slot;
        }
    }

    /// Returns where a pair is, or the free slot where it would be.
    #[inline(always)]
    fn place(&self, pair: Pair) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = self.first_place(pair);
        while self.slots[at].pair != pair && self.slots[at].pair != NO_PAIR {
            at = (at + 1) & mask;
        }
        at
    }

    #[inline(always)]
    fn first_place(&self, pair: Pair) -> usize {
        (pair.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) as usize & (self.slots.len() - 1)
    }
}

/// Pairs by how often they occurred when they were put here: highest count first, and of equals
/// the smallest pair.
///
/// What is put here never occurs more often than what came out last. So counts that are low, which
/// are those of nearly all pairs, need no heap of all: there is a list for each count, and only
/// the one whose turn it is gets in order.
pub struct Queue {
    high: BinaryHeap<(u64, Reverse<Pair>)>,
    /// By count.
    low: Vec<Vec<Pair>>,
    /// The count whose turn it is, and its pairs.
    turn: u64,
    on_turn: BinaryHeap<Reverse<Pair>>,
}

/// Counts below this are low.
const HIGH: u64 = 1 << 10;

impl Default for Queue {
    fn default() -> Queue {
        let low = vec![Vec::new(); HIGH as usize];
        Queue { high: BinaryHeap::new(), low, turn: HIGH, on_turn: BinaryHeap::new() }
    }
}

impl Queue {
    /// Takes what is given for all that was there.
    pub fn fill(&mut self, pairs: impl Iterator<Item = (Pair, u64)>) {
        *self = Queue::default();
        for (pair, count) in pairs {
            self.push(pair, count);
        }
    }

    pub fn push(&mut self, pair: Pair, count: u64) {
        if count >= HIGH {
            self.high.push((count, Reverse(pair)));
        } else if count == self.turn {
            self.on_turn.push(Reverse(pair));
        } else {
            self.low[count as usize].push(pair);
        }
    }

    /// Takes out the pair that occurs most often now, by `count_now`, if it is `least` times or
    /// more. Counts must not have risen since they were put here. `prefetch` is told before.
    pub fn pop(
        &mut self,
        least: u64,
        prefetch: impl Fn(Pair),
        count_now: impl Fn(Pair) -> u64,
    ) -> Option<Pair> {
        while let Some(mut top) = self.high.peek_mut() {
            let (count, Reverse(pair)) = *top;
            let now = count_now(pair);
            if now >= HIGH && now != count {
                top.0 = now;
                continue;
            }
            PeekMut::pop(top);
            if now == count {
                return (now >= least).then_some(pair);
            }
            self.low[now as usize].push(pair);
        }
        loop {
            while let Some(Reverse(pair)) = self.on_turn.pop() {
                let now = count_now(pair);
                if now == self.turn {
                    return Some(pair);
                }
                self.low[now as usize].push(pair);
            }
            if self.turn <= least {
                return None;
            }
            self.turn -= 1;
            let pairs = std::mem::take(&mut self.low[self.turn as usize]);
            for (i, &pair) in pairs.iter().enumerate() {
                if let Some(&ahead) = pairs.get(i + AHEAD) {
                    prefetch(ahead);
                }
                let now = count_now(pair);
                self.push(pair, now);
            }
        }
    }
}

/// How far ahead a pair is told of before its count is asked for.
const AHEAD: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn the_queue_gives_the_highest_count_and_of_equals_the_smallest_pair() {
        let pairs = [
            ((9, 0), HIGH + 7, HIGH + 7),
            ((7, 1), 5, 5),
            ((2, 9), 5, 5),
            ((2, 8), 5, 5),
            // These counts have fallen since they were put there.
            ((8, 0), HIGH + 8, HIGH + 6),
            ((0, 0), 2 * HIGH, 5),
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
                // As often as this one, and less often.
                queue.push(Pair::new(2, 8), 5);
                queue.push(Pair::new(6, 6), 4);
            }
        }
        assert_eq!(
            popped,
            [(9, 0), (8, 0), (0, 0), (2, 8), (2, 9), (2, 8), (7, 1), (6, 6), (0, 1)]
        );
    }
}
