//! Counts of pieces, and the merges that are learnt from them.
//!
//! All distinct pieces lie one behind the other in one list of places, a byte a place, with a
//! border between two. A token of n bytes takes n places: its number is in the first, and its
//! length in the last, so that the token before a place and the one behind it are found without
//! links. Each pair has the ascending list of the places where it was made; one that has changed
//! since is seen to have, and passed over. A merge costs what its own occurrences cost.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::key;
use crate::scan::{Pattern, Pieces};

/// How often each piece occurs.
#[derive(Default)]
pub struct Counts {
    short: ShortCounts,
    long: HashMap<Box<[u8]>, u64>,
}

/// Counts of the pieces that fit a key, which are nearly all.
struct ShortCounts {
    slots: Vec<(key::Key, u64)>, // the key 0 is that of no piece
    used: usize,
}

impl Default for ShortCounts {
    fn default() -> ShortCounts {
        ShortCounts { slots: vec![(0, 0); 1 << 12], used: 0 }
    }
}

impl ShortCounts {
    #[inline(always)]
    fn add(&mut self, key: key::Key, count: u64) {
        let at = self.place(key);
        if self.slots[at].0 == 0 {
            self.slots[at].0 = key;
            self.used += 1;
            if self.used * 2 > self.slots.len() {
                self.slots[at].1 += count;
                self.grow();
                return;
            }
        }
        self.slots[at].1 += count;
    }

    fn grow(&mut self) {
        let size = self.slots.len() * 2;
        let slots = std::mem::replace(&mut self.slots, vec![(0, 0); size]);
        for slot in slots.into_iter().filter(|slot| slot.0 != 0) {
            let at = self.place(slot.0);
            self.slots[at] = slot;
        }
    }

    #[inline(always)]
    fn place(&self, key: key::Key) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = key::hash(key) as usize & mask;
        while self.slots[at].0 != key && self.slots[at].0 != 0 {
            at = (at + 1) & mask;
        }
        at
    }
}

impl Counts {
    /// Counts the pieces of a text; `go_on` is asked now and then, and ends it by saying no.
    pub fn add_text(&mut self, text: &str, pattern: Pattern, go_on: &mut dyn FnMut(usize) -> bool) {
        let mut pieces = Pieces::new(pattern, text);
        let bytes = text.as_bytes();
        let (mut start, mut next_question, mut ends) = (0, QUESTION, [0; 512]);
        loop {
            let count = pieces.next_ends(&mut ends);
            if count == 0 {
                return;
            }
            for &end in &ends[..count] {
                let end = end as usize;
                if end - start <= key::SHORT {
                    self.short.add(key::key(bytes, start, end), 1);
                } else {
                    self.add_long(&bytes[start..end], 1);
                }
                start = end;
            }
            if start > next_question {
                next_question += QUESTION;
                if !go_on(start) {
                    return;
                }
            }
        }
    }

    /// Counts a piece so many times.
    pub fn add_piece(&mut self, piece: &[u8], count: u64) {
        if (1..=key::SHORT).contains(&piece.len()) {
            self.short.add(key::key(piece, 0, piece.len()), count);
        } else if !piece.is_empty() {
            self.add_long(piece, count);
        }
    }

    fn add_long(&mut self, piece: &[u8], count: u64) {
        match self.long.get_mut(piece) {
            Some(known) => *known += count,
            None => {
                self.long.insert(piece.into(), count);
            }
        }
    }

    pub fn len(&self) -> usize {
        self.short.used + self.long.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Yields each piece and its count, in no order that means anything.
    pub fn for_each(&self, mut take: impl FnMut(&[u8], u64)) {
        for &(key, count) in self.short.slots.iter().filter(|slot| slot.0 != 0) {
            let bytes = key.to_le_bytes();
            take(&bytes[..usize::from(bytes[15])], count);
        }
        for (piece, &count) in &self.long {
            take(piece, count);
        }
    }
}

/// After how many bytes it is asked whether to go on.
const QUESTION: usize = 1 << 22;

/// A token's number in a place; BORDER and what has INSIDE set are none.
type Symbol = u32;

const BORDER: Symbol = 0x7FFF_FFFF;
/// Set in the places of a token but the first; the last has its length below.
const INSIDE: Symbol = 0x8000_0000;

#[derive(Clone, Copy)]
struct Place {
    symbol: Symbol,
    /// How often the piece occurs that this is in; HEAVY if that does not fit.
    weight: u32,
}

const HEAVY: u32 = u32::MAX;

/// A pair, how often it occurs, and where its places are in `Learner::places_of_pairs`.
struct PairCount {
    pair: (Symbol, Symbol),
    count: u64,
    start: usize,
    length: usize,
}

/// The count of a pair at some time, the pair, and its number.
type Waiting = (u64, Reverse<(Symbol, Symbol)>, u32);

/// Too many bytes in distinct pieces to number their places.
#[derive(Debug)]
pub struct TooLarge;

/// Learns merges, one after the other.
pub struct Learner {
    places: Vec<Place>,
    /// The first place of each piece of which the weight is HEAVY, and its count.
    heavy: Vec<(usize, u64)>,
    /// Of each token.
    lengths: Vec<u32>,
    pairs: Vec<PairCount>,
    number_of: PairNumbers,
    places_of_pairs: Vec<u32>,
    /// The count, at some time, and the pair: highest count first, then the smallest pair. A
    /// count only falls once its pair is there, so one that is not true any more is put back.
    waiting: BinaryHeap<Waiting>,
    /// Pairs that occur less often are not among `pairs`.
    threshold: u64,
    left: Neighbours,
    right: Neighbours,
}

/// Most pairs of a large corpus are rarer than the rarest that is ever merged.
const FIRST_THRESHOLD: u64 = 16;

/// The place of what has none.
const NOWHERE: usize = usize::MAX;

/// What a merge does to the pairs on one side of it, by the neighbour's token.
#[derive(Default)]
struct Neighbours {
    /// How often the old pair with this neighbour is gone, and the new one is there.
    lost: Vec<u64>,
    gained: Vec<u64>,
    /// How many places the new pair has; then where the next of them goes.
    number: Vec<usize>,
    /// Which neighbours have anything in the three above.
    met: Vec<Symbol>,
    /// The neighbour and the place of the new pair, in ascending order of places.
    events: Vec<(Symbol, u32)>,
}

impl Neighbours {
    #[inline(always)]
    fn meet(&mut self, neighbour: Symbol, weight: u64, is_lost: bool, place: u32) {
        let at = neighbour as usize;
        if self.number[at] == 0 && self.lost[at] == 0 {
            self.met.push(neighbour);
        }
        if is_lost {
            self.lost[at] += weight;
        }
        self.gained[at] += weight;
        self.number[at] += 1;
        self.events.push((neighbour, place));
    }
}

impl Learner {
    /// Raises TooLarge for 2^31 bytes of distinct pieces or more.
    pub fn new(counts: Counts) -> Result<Learner, TooLarge> {
        let mut places = vec![Place { symbol: BORDER, weight: 0 }];
        let mut heavy = Vec::new();
        counts.for_each(|piece, count| {
            if piece.len() < 2 {
                return;
            }
            let weight = u32::try_from(count).unwrap_or(HEAVY);
            if weight == HEAVY {
                heavy.push((places.len(), count));
            }
            places.extend(piece.iter().map(|&byte| Place { symbol: byte.into(), weight }));
            places.push(Place { symbol: BORDER, weight: 0 });
        });
        drop(counts);
        if places.len() >= INSIDE as usize {
            return Err(TooLarge);
        }
        let mut learner = Learner {
            places,
            heavy,
            lengths: vec![1; 256],
            pairs: Vec::new(),
            number_of: PairNumbers::default(),
            places_of_pairs: Vec::new(),
            waiting: BinaryHeap::new(),
            threshold: FIRST_THRESHOLD,
            left: Neighbours::default(),
            right: Neighbours::default(),
        };
        learner.find_pairs();
        Ok(learner)
    }

    /// Finds all pairs that occur `threshold` times or more. The others need no places until the
    /// highest count has come down to theirs; a count never rises.
    fn find_pairs(&mut self) {
        self.pairs.clear();
        self.waiting.clear();
        self.places_of_pairs.clear();
        self.number_of = PairNumbers::default();
        let mut numbers = PairNumbers::default();
        let mut found: Vec<((Symbol, Symbol), u64, usize)> = Vec::new();
        self.for_each_pair(|pair, weight, _| {
            let number = numbers.get_or_put(pair, found.len() as u32) as usize;
            if number == found.len() {
                found.push((pair, 0, 0));
            }
            found[number].1 += weight;
            found[number].2 += 1;
        });
        let mut total = 0;
        for (pair, count, length) in &mut found {
            if *count >= self.threshold {
                self.add_pair(*pair, *count, total, *length);
                // From here on it says where the next place of the pair goes.
                (total, *length) = (total + *length, total);
            } else {
                *length = NOWHERE;
            }
        }
        let mut places = vec![0; total];
        self.for_each_pair(|pair, _, at| {
            let next = &mut found[numbers.get(pair).expect("it was put") as usize].2;
            if *next != NOWHERE {
                places[*next] = at as u32;
                *next += 1;
            }
        });
        self.places_of_pairs = places;
    }

    fn for_each_pair(&self, mut take: impl FnMut((Symbol, Symbol), u64, usize)) {
        let mut at = 1;
        while at < self.places.len() {
            let left = self.places[at].symbol;
            if left == BORDER {
                at += 1;
                continue;
            }
            let next = at + self.lengths[left as usize] as usize;
            let right = self.places[next].symbol;
            if right != BORDER {
                take((left, right), self.weight(at), at);
            }
            at = next;
        }
    }

    fn add_pair(&mut self, pair: (Symbol, Symbol), count: u64, start: usize, length: usize) {
        let number = self.pairs.len() as u32;
        self.pairs.push(PairCount { pair, count, start, length });
        self.number_of.put(pair, number);
        self.waiting.push((count, Reverse(pair), number));
    }

    #[inline(always)]
    fn weight(&self, at: usize) -> u64 {
        let weight = self.places[at].weight;
        if weight != HEAVY {
            return weight.into();
        }
        let piece = self.heavy.partition_point(|&(start, _)| start <= at) - 1;
        self.heavy[piece].1
    }

    /// Learns the next merge: the pair with the highest count, of equals the smallest. None if no
    /// pair is left.
    pub fn next_merge(&mut self) -> Option<(Symbol, Symbol)> {
        let number = loop {
            let Some((count, Reverse(pair), number)) = self.waiting.pop() else {
                if self.threshold == 1 {
                    return None;
                }
                self.threshold /= 4;
                self.find_pairs();
                continue;
            };
            let now = self.pairs[number as usize].count;
            if now == count {
                break number as usize;
            }
            if now >= self.threshold {
                self.waiting.push((now, Reverse(pair), number));
            }
        };
        let PairCount { pair: (left, right), start, length, .. } = self.pairs[number];
        self.pairs[number].count = 0;
        let (left_length, right_length) =
            (self.lengths[left as usize] as usize, self.lengths[right as usize] as usize);
        let merged = self.lengths.len() as Symbol;
        self.lengths.push((left_length + right_length) as u32);
        for side in [&mut self.left, &mut self.right] {
            side.lost.resize(merged as usize + 1, 0);
            side.gained.resize(merged as usize + 1, 0);
            side.number.resize(merged as usize + 1, 0);
        }

        for i in start..start + length {
            let at = self.places_of_pairs[i] as usize;
            let second = at + left_length;
            // Not this pair any more if another merge, or this one, has taken one of the two.
            if self.places[at].symbol != left || self.places[second].symbol != right {
                continue;
            }
            let weight = self.weight(at);
            let before = self.places[at - 1].symbol;
            let behind = second + right_length;
            let (before_at, before) = if before & INSIDE == 0 {
                (at - 1, before)
            } else {
                let first = at - (before & !INSIDE) as usize;
                (first, self.places[first].symbol)
            };
            let after = self.places[behind].symbol;
            self.places[second].symbol = INSIDE;
            self.places[behind - 1].symbol = INSIDE | (left_length + right_length) as u32;
            self.places[at].symbol = merged;
            if before == merged {
                // The pair before was made by this merge: what stood behind it then is gone.
                self.right.gained[left as usize] -= weight;
                self.left.meet(merged, weight, false, before_at as u32);
            } else if before != BORDER {
                self.left.meet(before, weight, true, before_at as u32);
            }
            if after != BORDER {
                self.right.meet(after, weight, true, at as u32);
            }
        }
        self.count_neighbours((left, right), merged);
        Some((left, right))
    }

    /// Takes what the merge of a pair does to the counts of others from what it met.
    fn count_neighbours(&mut self, (left, right): (Symbol, Symbol), merged: Symbol) {
        for is_left in [true, false] {
            let mut side = std::mem::take(if is_left { &mut self.left } else { &mut self.right });
            for &neighbour in &side.met {
                let at = neighbour as usize;
                let old = if is_left { (neighbour, left) } else { (right, neighbour) };
                let new = if is_left { (neighbour, merged) } else { (merged, neighbour) };
                if side.lost[at] > 0
                    && let Some(number) = self.number_of.get(old)
                {
                    // 0 is the count of the pair that was merged.
                    let pair = &mut self.pairs[number as usize];
                    pair.count = pair.count.saturating_sub(side.lost[at]);
                }
                let number = side.number[at];
                side.number[at] = NOWHERE;
                if side.gained[at] >= self.threshold {
                    let start = self.places_of_pairs.len();
                    self.places_of_pairs.resize(start + number, 0);
                    self.add_pair(new, side.gained[at], start, number);
                    side.number[at] = start;
                }
                (side.lost[at], side.gained[at]) = (0, 0);
            }
            for &(neighbour, place) in &side.events {
                let next = &mut side.number[neighbour as usize];
                if *next != NOWHERE {
                    self.places_of_pairs[*next] = place;
                    *next += 1;
                }
            }
            for &neighbour in &side.met {
                side.number[neighbour as usize] = 0;
            }
            side.met.clear();
            side.events.clear();
            *(if is_left { &mut self.left } else { &mut self.right }) = side;
        }
    }
}

/// The number of each pair: open addressing, half full at the most.
#[derive(Default)]
struct PairNumbers {
    slots: Vec<(u64, u32)>, // the key u64::MAX is that of no pair
    used: usize,
}

const NO_PAIR: u64 = u64::MAX;

impl PairNumbers {
    fn put(&mut self, pair: (Symbol, Symbol), number: u32) {
        if (self.used + 1) * 2 > self.slots.len() {
            let size = (self.slots.len() * 2).max(1 << 12);
            let slots = std::mem::replace(&mut self.slots, vec![(NO_PAIR, 0); size]);
            for slot in slots.into_iter().filter(|slot| slot.0 != NO_PAIR) {
                let at = self.place(slot.0);
                self.slots[at] = slot;
            }
        }
        let key = pair_key(pair);
        let at = self.place(key);
        self.used += usize::from(self.slots[at].0 == NO_PAIR);
        self.slots[at] = (key, number);
    }

    /// Returns the number of a pair, which is `number` if it had none.
    fn get_or_put(&mut self, pair: (Symbol, Symbol), number: u32) -> u32 {
        match self.get(pair) {
            Some(known) => known,
            None => {
                self.put(pair, number);
                number
            }
        }
    }

    fn get(&self, pair: (Symbol, Symbol)) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        let key = pair_key(pair);
        let slot = self.slots[self.place(key)];
        (slot.0 == key).then_some(slot.1)
    }

    #[inline(always)]
    fn place(&self, key: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) as usize & mask;
        while self.slots[at].0 != key && self.slots[at].0 != NO_PAIR {
            at = (at + 1) & mask;
        }
        at
    }
}

fn pair_key((left, right): (Symbol, Symbol)) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts every pair anew at each step.
    fn learnt_plainly(pieces: &[(Vec<u8>, u64)], limit: usize) -> Vec<(Symbol, Symbol)> {
        let mut pieces: Vec<(Vec<Symbol>, u64)> = pieces
            .iter()
            .map(|(piece, count)| (piece.iter().map(|&byte| byte.into()).collect(), *count))
            .collect();
        let mut merges = Vec::new();
        while merges.len() < limit {
            let mut counts: HashMap<(Symbol, Symbol), u64> = HashMap::new();
            for (piece, count) in &pieces {
                for pair in piece.windows(2) {
                    *counts.entry((pair[0], pair[1])).or_default() += count;
                }
            }
            let best = counts.into_iter().max_by_key(|&(pair, count)| (count, Reverse(pair)));
            let Some((pair, _)) = best else { break };
            let merged = 256 + merges.len() as Symbol;
            merges.push(pair);
            for (piece, _) in &mut pieces {
                let mut at = 0;
                while at + 1 < piece.len() {
                    if (piece[at], piece[at + 1]) == pair {
                        piece.splice(at..at + 2, [merged]);
                    }
                    at += 1;
                }
            }
        }
        merges
    }

    #[test]
    fn merges_are_those_of_counting_anew() {
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for round in 0..200 {
            let letters = 1 + round % 4;
            let mut counts = HashMap::new();
            for _ in 0..20 {
                let piece: Vec<u8> =
                    (0..1 + random(24)).map(|_| b'a' + random(letters) as u8).collect();
                let huge = if random(9) == 0 { 1 << 33 } else { 0 };
                *counts.entry(piece).or_insert(0) +=
                    random(if round % 2 == 0 { 3 } else { 40 }) + 1 + huge;
            }
            let pieces: Vec<_> = counts.into_iter().collect();
            let mut all = Counts::default();
            for (piece, count) in &pieces {
                all.add_piece(piece, *count);
            }
            let mut learner = Learner::new(all).expect("a small corpus");
            let merges: Vec<_> = std::iter::from_fn(|| learner.next_merge()).take(60).collect();
            assert_eq!(merges, learnt_plainly(&pieces, 60));
        }
    }
}
