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
#[derive(Default)]
pub struct Queue(BinaryHeap<(u64, Reverse<Pair>)>);

impl Queue {
    /// Takes what is given for all that was there.
    pub fn fill(&mut self, pairs: impl Iterator<Item = (Pair, u64)>) {
        self.0 = pairs.map(|(pair, count)| (count, Reverse(pair))).collect();
    }

    pub fn push(&mut self, pair: Pair, count: u64) {
        self.0.push((count, Reverse(pair)));
    }

    /// Takes out the pair that occurs most often now, by `count_now`, if it is `least` times or
    /// more. Counts must not have risen since they were put here.
    pub fn pop(&mut self, least: u64, mut count_now: impl FnMut(Pair) -> u64) -> Option<Pair> {
        loop {
            let mut top = self.0.peek_mut()?;
            let (count, Reverse(pair)) = *top;
            let now = count_now(pair);
            if now < least || now == count {
                PeekMut::pop(top);
                if now >= least {
                    return Some(pair);
                }
            } else {
                top.0 = now;
            }
        }
    }
}

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
        let pairs = [((7, 1), 5), ((2, 9), 5), ((2, 8), 5), ((0, 0), 9), ((1, 1), 2)];
        let mut queue = Queue::default();
        queue.fill(pairs.iter().map(|&((left, right), count)| (Pair::new(left, right), count)));
        // The count of (0, 0) has fallen to 3, that of (1, 1) is below what is asked for.
        let count_now = |pair: Pair| match pair.parts() {
            (0, 0) => 3,
            (1, 1) => 2,
            _ => 5,
        };
        let popped: Vec<_> = std::iter::from_fn(|| queue.pop(3, count_now)).collect();
        assert_eq!(
            popped.into_iter().map(Pair::parts).collect::<Vec<_>>(),
            [(2, 8), (2, 9), (7, 1), (0, 0)]
        );
    }
}
