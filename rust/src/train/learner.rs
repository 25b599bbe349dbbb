//! Merges, learnt from counted pieces.
//!
//! All distinct pieces lie one behind the other in one list of places, a byte a place, with a
//! border between two. A token of n bytes takes n places: its number is in the first, and its
//! length in the last, so that the token before a place and the one behind it are found without
//! links. Each pair has the ascending list of the places where it was made; one that has changed
//! since is seen to have, and passed over. A merge costs what its own occurrences cost.

use super::pairs::{NO_PAIR, Pair, PairMap, Queue};
use super::{Counts, Error, GoOn, Symbol, ask};
use crate::pages::use_large_pages;
use crate::simd;

/// What is not the first place of a token has this set; in the last one is the length below it.
const INSIDE: Symbol = 0x8000_0000;

/// What is between two pieces.
const BORDER: Symbol = 0x7FFF_FFFF;

/// Places are numbers below this.
const MOST_PLACES: usize = 1 << 31;

#[derive(Clone, Copy)]
struct Place {
    symbol: Symbol,
    /// How often the piece occurs that this is in; HEAVY if that does not fit.
    weight: u32,
}

const HEAVY: u32 = u32::MAX;
const BETWEEN: Place = Place { symbol: BORDER, weight: 0 };

/// The distinct pieces, as the tokens of which they are made now.
struct Corpus {
    places: Vec<Place>,
    /// Where each piece begins of which the weight is HEAVY, and how often it occurs.
    heavy: Vec<(usize, u64)>,
    /// How many bytes each token has.
    lengths: Vec<u32>,
}

/// After how many places it is asked whether to go on.
const QUESTION: usize = 1 << 18;

impl Corpus {
    fn new(counts: Counts, go_on: GoOn<'_>) -> Result<Corpus, Error> {
        let mut size = 1;
        counts.for_each(go_on, |piece, _| size += piece.len() + 1)?;
        if size > MOST_PLACES {
            return Err(Error::TooLarge);
        }
        let mut places = Vec::with_capacity(size);
        use_large_pages(&places);
        let mut heavy = Vec::new();
        places.push(BETWEEN);
        counts.for_each(go_on, |piece, count| {
            if piece.len() < 2 {
                return;
            }
            let weight = u32::try_from(count).unwrap_or(HEAVY);
            if weight == HEAVY {
                heavy.push((places.len(), count));
            }
            places.extend(piece.iter().map(|&byte| Place { symbol: byte.into(), weight }));
            places.push(BETWEEN);
        })?;
        Ok(Corpus { places, heavy, lengths: vec![1; 256] })
    }

    /// Takes each pair of neighbours, and the first one's place, in ascending order of places.
    #[inline(always)]
    fn for_each_pair(
        &self,
        found: &mut FoundPairs,
        go_on: GoOn<'_>,
        mut take: impl FnMut(&mut FoundPairs, Pair, usize),
    ) -> Result<(), Error> {
        if self.lengths.len() == 256 {
            return self.for_each_pair_of_bytes(found, go_on, take);
        }
        // Each waits for its turn until memory has answered.
        let mut waiting = [(NO_PAIR, 0); AHEAD];
        let (mut at, mut turn, mut next_question) = (1, 0, 0);
        while at < self.places.len() {
            if at >= next_question {
                next_question = at + QUESTION;
                ask(go_on)?;
            }
            let left = self.places[at].symbol;
            if left == BORDER {
                at += 1;
                continue;
            }
            let next = at + self.length(left);
            let right = self.places[next].symbol;
            if right != BORDER {
                let pair = Pair::new(left, right);
                found.prefetch(pair);
                let (pair, at) = std::mem::replace(&mut waiting[turn % AHEAD], (pair, at));
                turn += 1;
                if pair != NO_PAIR {
                    take(found, pair, at);
                }
            }
            at = next;
        }
        for i in turn..turn + AHEAD {
            let (pair, at) = waiting[i % AHEAD];
            if pair != NO_PAIR {
                take(found, pair, at);
            }
        }
        Ok(())
    }

    /// The same, when no token has more than a byte: faster, and most are seen so.
    #[inline(always)]
    fn for_each_pair_of_bytes(
        &self,
        found: &mut FoundPairs,
        go_on: GoOn<'_>,
        mut take: impl FnMut(&mut FoundPairs, Pair, usize),
    ) -> Result<(), Error> {
        for (at, places) in self.places.windows(2).enumerate() {
            if at % QUESTION == 0 {
                ask(go_on)?;
            }
            let (left, right) = (places[0].symbol, places[1].symbol);
            if left != BORDER && right != BORDER {
                take(found, Pair::new(left, right), at);
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn length(&self, symbol: Symbol) -> usize {
        self.lengths[symbol as usize] as usize
    }

    /// Returns how often the piece occurs that a token's first place is in.
    #[inline(always)]
    fn weight(&self, at: usize) -> u64 {
        let weight = self.places[at].weight;
        if weight != HEAVY {
            return weight.into();
        }
        let piece = self.heavy.partition_point(|&(start, _)| start <= at) - 1;
        self.heavy[piece].1
    }

    /// Asks for a place and what is so far behind it to be brought near.
    #[inline(always)]
    fn prefetch(&self, at: u32, length: usize) {
        simd::prefetch(&self.places[at as usize]);
        simd::prefetch(&self.places[at as usize + length]);
    }

    /// Returns the place of the token before a place, and the token, which may be BORDER.
    #[inline(always)]
    fn before(&self, at: usize) -> (usize, Symbol) {
        let last = self.places[at - 1].symbol;
        let length = if last & INSIDE == 0 { 1 } else { last & !INSIDE };
        let first = at - length as usize;
        (first, self.places[first].symbol)
    }

    /// Adds the token that a pair makes; returns its number.
    fn add_token(&mut self, (left, right): (Symbol, Symbol)) -> Symbol {
        self.lengths.push((self.length(left) + self.length(right)) as u32);
        self.lengths.len() as Symbol - 1
    }
}

/// How often a pair occurs, and where its places are in `Learner::places_of_pairs`.
#[derive(Clone, Copy, Default)]
struct Occurrences {
    count: u64,
    start: usize,
    length: u32,
}

/// Learns merges, one after the other.
pub struct Learner {
    corpus: Corpus,
    /// The pairs that occur `threshold` times or more, and some that did.
    pairs: PairMap<Occurrences>,
    places_of_pairs: Vec<u32>,
    /// A count only falls once its pair is there.
    queue: Queue,
    threshold: u64,
    left: Side,
    right: Side,
}

/// Most pairs of a large corpus are rarer than the rarest that is ever merged. They are not kept
/// until the highest count has come down to theirs; each time the threshold falls to a fourth.
const FIRST_THRESHOLD: u64 = 8;

/// How far ahead memory is asked for what will be used: it is slow to answer.
const AHEAD: usize = 16;

impl Learner {
    pub fn new(counts: Counts, go_on: GoOn<'_>) -> Result<Learner, Error> {
        let mut learner = Learner {
            corpus: Corpus::new(counts, go_on)?,
            pairs: PairMap::default(),
            places_of_pairs: Vec::new(),
            queue: Queue::default(),
            threshold: FIRST_THRESHOLD,
            left: Side::default(),
            right: Side::default(),
        };
        learner.find_pairs(go_on)?;
        Ok(learner)
    }

    /// Learns the next merge: the pair with the highest count, of equals the smallest. None if no
    /// pair is left.
    pub fn next_merge(&mut self, go_on: GoOn<'_>) -> Result<Option<(Symbol, Symbol)>, Error> {
        let pair = loop {
            let pairs = &self.pairs;
            let count_now = |pair| pairs.get(pair).map_or(0, |found| found.count);
            match self.queue.pop(self.threshold, |pair| pairs.prefetch(pair), count_now) {
                Some(pair) => break pair,
                None if self.threshold == 1 => return Ok(None),
                None => {
                    self.threshold = (self.threshold / 4).max(1);
                    self.find_pairs(go_on)?;
                }
            }
        };
        let merged = self.corpus.add_token(pair.parts());
        let overlaps = self.merge_places(pair, merged, go_on)?;
        self.count_neighbours(pair, merged, overlaps);
        Ok(Some(pair.parts()))
    }

    /// Finds all pairs that occur `threshold` times or more, and where.
    fn find_pairs(&mut self, go_on: GoOn<'_>) -> Result<(), Error> {
        // What there was is let go of before there is more.
        (self.pairs, self.places_of_pairs) = (PairMap::default(), Vec::new());
        let corpus = &self.corpus;
        let mut found = FoundPairs::new(corpus.places.len());
        corpus.for_each_pair(&mut found, go_on, |found, pair, at| {
            let occurrences = found.get_or_put(pair);
            occurrences.count += corpus.weight(at);
            occurrences.length += 1;
        })?;
        found.keep_frequent(self.threshold);
        let mut total = 0;
        for occurrences in found.values_mut() {
            occurrences.start = total;
            total += occurrences.length as usize;
        }
        // Merges will list about as many again.
        let mut places = Vec::with_capacity(2 * total);
        use_large_pages(&places);
        places.resize(total, 0);
        corpus.for_each_pair(&mut found, go_on, |found, pair, at| {
            if let Some(occurrences) = found.get_mut(pair)
                && occurrences.count > 0
            {
                // Here it is where the next place goes.
                places[occurrences.start] = at as u32;
                occurrences.start += 1;
            }
        })?;
        for occurrences in found.values_mut() {
            occurrences.start -= occurrences.length as usize;
        }
        self.places_of_pairs = places;
        self.pairs = found.into_map();
        self.queue.fill(self.pairs.iter().map(|(pair, occurrences)| (pair, occurrences.count)));
        Ok(())
    }

    /// Makes one token of a pair wherever it stands, and collects the neighbours that it meets.
    ///
    /// Returns how often two of these tokens became neighbours of each other.
    fn merge_places(&mut self, pair: Pair, merged: Symbol, go_on: GoOn<'_>) -> Result<u64, Error> {
        let (left, right) = pair.parts();
        let corpus = &mut self.corpus;
        let (left_length, length) = (corpus.length(left), corpus.length(merged));
        let Some(found) = self.pairs.get_mut(pair) else { return Ok(0) };
        found.count = 0;
        let listed = &self.places_of_pairs[found.start..][..found.length as usize];
        self.left.make_room(merged);
        self.right.make_room(merged);
        let pairs = &self.pairs;
        let mut overlaps = 0;
        for &first in listed.iter().take(AHEAD) {
            corpus.prefetch(first, length);
        }
        for (i, &at) in listed.iter().enumerate() {
            if i % QUESTION == QUESTION - 1 {
                ask(go_on)?;
            }
            if let Some(&ahead) = listed.get(i + AHEAD) {
                corpus.prefetch(ahead, length);
            }
            let at = at as usize;
            let (second, behind) = (at + left_length, at + length);
            // Not this pair any more if another merge, or this one, has taken one of the two.
            if corpus.places[at].symbol != left || corpus.places[second].symbol != right {
                continue;
            }
            let weight = corpus.weight(at);
            let (before_at, before) = corpus.before(at);
            let after = corpus.places[behind].symbol;
            corpus.places[second].symbol = INSIDE;
            corpus.places[behind - 1].symbol = INSIDE | length as Symbol;
            corpus.places[at].symbol = merged;
            if before == merged {
                overlaps += weight;
            }
            if before != BORDER && self.left.meet(before, weight, before_at) {
                pairs.prefetch(Pair::new(before, left));
            }
            if after != BORDER && self.right.meet(after, weight, at) {
                pairs.prefetch(Pair::new(right, after));
            }
        }
        Ok(overlaps)
    }

    /// Counts the pairs anew that the neighbours of a merge are part of.
    ///
    /// With x before it, (x, left) became (x, merged); with x behind it, (right, x) became
    /// (merged, x). Where two of these tokens are neighbours, the first met `left` behind it, and
    /// the second then met `merged` before it: (right, left) became (merged, merged).
    fn count_neighbours(&mut self, pair: Pair, merged: Symbol, overlaps: u64) {
        let (left, right) = pair.parts();
        let mut side = std::mem::take(&mut self.left);
        self.count_side(&mut side, |x| (Pair::new(x, left), Pair::new(x, merged)), |_| 0);
        self.left = side;
        let mut side = std::mem::take(&mut self.right);
        let not_gained = |x| if x == left { overlaps } else { 0 };
        self.count_side(&mut side, |x| (Pair::new(right, x), Pair::new(merged, x)), not_gained);
        self.right = side;
    }

    /// Does so for one side, by the pairs that a neighbour was part of and is part of now, and by
    /// how often it is not part of that.
    #[inline(always)]
    fn count_side(
        &mut self,
        side: &mut Side,
        pairs_of: impl Fn(Symbol) -> (Pair, Pair),
        not_gained: impl Fn(Symbol) -> u64,
    ) {
        for &neighbour in &side.met {
            let (old, new) = pairs_of(neighbour);
            let meetings = &mut side.meetings[neighbour as usize];
            if let Some(found) = self.pairs.get_mut(old) {
                // Of the pair that was merged the count is 0 already.
                found.count = found.count.saturating_sub(meetings.weight);
            }
            let count = meetings.weight - not_gained(neighbour);
            let length = std::mem::replace(&mut meetings.places, NOWHERE);
            if count >= self.threshold {
                let start = self.places_of_pairs.len();
                self.places_of_pairs.resize(start + length, 0);
                *self.pairs.get_or_put(new) = Occurrences { count, start, length: length as u32 };
                self.queue.push(new, count);
                meetings.places = start;
            }
        }
        for &(neighbour, place) in &side.events {
            let next = &mut side.meetings[neighbour as usize].places;
            if *next != NOWHERE {
                self.places_of_pairs[*next] = place;
                *next += 1;
            }
        }
        side.clear();
    }
}

/// The place of what has none.
const NOWHERE: usize = usize::MAX;

/// The neighbours that a merge meets on one side.
#[derive(Default)]
struct Side {
    /// By neighbour.
    meetings: Vec<Meetings>,
    /// The neighbours of which there are any.
    met: Vec<Symbol>,
    /// Each neighbour and the place of the pair that it is part of now, in ascending order.
    events: Vec<(Symbol, u32)>,
}

#[derive(Clone, Copy, Default)]
struct Meetings {
    /// How often this neighbour was met in all of the text.
    weight: u64,
    /// At how many places; then where the next place of the new pair goes.
    places: usize,
}

impl Side {
    fn make_room(&mut self, highest: Symbol) {
        self.meetings.resize(highest as usize + 1, Meetings::default());
    }

    /// Returns whether it is the first meeting with this neighbour.
    #[inline(always)]
    fn meet(&mut self, neighbour: Symbol, weight: u64, place: usize) -> bool {
        let meetings = &mut self.meetings[neighbour as usize];
        let is_first = meetings.places == 0;
        if is_first {
            self.met.push(neighbour);
        }
        meetings.weight += weight;
        meetings.places += 1;
        self.events.push((neighbour, place as u32));
        is_first
    }

    fn clear(&mut self) {
        for &neighbour in &self.met {
            self.meetings[neighbour as usize] = Meetings::default();
        }
        self.met.clear();
        self.events.clear();
    }
}

/// Pairs while they are looked for.
struct FoundPairs {
    /// Pairs of bytes, of which there are few, and at first no others: this is faster than a map.
    /// Nothing for a small corpus.
    of_bytes: Vec<Occurrences>,
    others: PairMap<Occurrences>,
}

const SMALL: usize = 1 << 16;

impl FoundPairs {
    fn new(places: usize) -> FoundPairs {
        let size = if places < SMALL { 0 } else { 1 << 16 };
        FoundPairs { of_bytes: vec![Occurrences::default(); size], others: PairMap::default() }
    }

    #[inline(always)]
    fn prefetch(&self, pair: Pair) {
        if self.of_bytes.get(byte_index(pair)).is_none() {
            self.others.prefetch(pair);
        }
    }

    #[inline(always)]
    fn get_mut(&mut self, pair: Pair) -> Option<&mut Occurrences> {
        self.of_bytes.get_mut(byte_index(pair)).or_else(|| self.others.get_mut(pair))
    }

    #[inline(always)]
    fn get_or_put(&mut self, pair: Pair) -> &mut Occurrences {
        match self.of_bytes.get_mut(byte_index(pair)) {
            Some(occurrences) => occurrences,
            None => self.others.get_or_put(pair),
        }
    }

    /// Forgets the pairs that occur less often: their counts are 0 then, or they are not there.
    fn keep_frequent(&mut self, least: u64) {
        for occurrences in &mut self.of_bytes {
            if occurrences.count < least {
                *occurrences = Occurrences::default();
            }
        }
        self.others.retain(|occurrences| occurrences.count >= least);
    }

    fn values_mut(&mut self) -> impl Iterator<Item = &mut Occurrences> {
        self.of_bytes.iter_mut().chain(self.others.values_mut())
    }

    fn into_map(mut self) -> PairMap<Occurrences> {
        for (index, occurrences) in (0..).zip(self.of_bytes) {
            if occurrences.count > 0 {
                *self.others.get_or_put(Pair::new(index >> 8, index & 0xFF)) = occurrences;
            }
        }
        self.others
    }
}

/// Returns where a pair of bytes is among all of them; more than that for other pairs.
#[inline(always)]
fn byte_index(pair: Pair) -> usize {
    let (left, right) = pair.parts();
    if left < 256 && right < 256 { (left << 8 | right) as usize } else { usize::MAX }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::HashMap;

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

    fn learner_of(pieces: &[(Vec<u8>, u64)]) -> Learner {
        let mut counts = Counts::default();
        for (piece, count) in pieces {
            counts.add_piece(piece, *count);
        }
        Learner::new(counts, &mut || true).expect("a small corpus, and nobody stops it")
    }

    fn learnt(mut learner: Learner, limit: usize) -> Vec<(Symbol, Symbol)> {
        std::iter::from_fn(|| learner.next_merge(&mut || true).expect("nobody stops it"))
            .take(limit)
            .collect()
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
            assert_eq!(learnt(learner_of(&pieces), 60), learnt_plainly(&pieces, 60));
        }
    }

    #[test]
    fn who_says_no_stops_it() {
        let counts = || {
            let mut counts = Counts::default();
            counts.add_piece(b"abcab", 3);
            counts
        };
        // At each time that it asks, one after the other.
        for asked in 0.. {
            let mut left = asked;
            let mut go_on = || {
                left -= 1;
                left >= 0
            };
            let result = Learner::new(counts(), &mut go_on).and_then(|mut learner| {
                while learner.next_merge(&mut go_on)?.is_some() {}
                Ok(())
            });
            if result == Ok(()) {
                assert!(asked > 6);
                break;
            }
            assert_eq!(result, Err(Error::Stopped));
        }
    }
}
