//! Learns merges from counted pieces.
//!
//! All distinct pieces lie in one array of slots, one slot for each byte, with a border between two
//! pieces. A token of n bytes takes n slots, where the first has its index and the last its length,
//! so that both neighbours of a token are found without links. Example, after (a, b) became token
//! 256:
//!
//! ```text
//! pieces   "abc" "ab"     slots   | 256 2 c | 256 2 |
//! ```
//!
//! If the learner continues a vocabulary, each token of this base has one slot, however long it is.
//!
//! Each pair has an ascending list of the offsets at which it was made. An offset whose slots have
//! changed since is skipped, so a merge takes time for its own occurrences only.
//!
//! `Queue` in `pairs.rs` has the tie rule: which of two pairs with the same count is merged first.

use std::sync::Arc;

use super::error::Error;
use super::pairs::{NO_PAIR, Pair, PairMap, Queue, Sketch};
use super::record::CountedPieces;
use crate::encode::{Context, Encoder, IdList, Job};
use crate::interrupt::Interrupt;
use crate::mem::growth::{append, collected, filled, lengthen, push, with_room};
use crate::mem::huge_pages::use_huge_pages;
use crate::mem::prefetch;
use crate::merge::MergeTable;
use crate::types::{BATCH, TokenIndex};

/// Set in all slots of a token except the first. The last slot has the length in its lower bits.
const INSIDE: TokenIndex = 0x8000_0000;

/// The symbol between two pieces.
const BORDER: TokenIndex = 0x7FFF_FFFF;

const MAX_SLOTS: usize = 1 << 31;

#[derive(Clone, Copy)]
struct Slot {
    symbol: TokenIndex,
    /// The count of the piece; HEAVY if it exceeds 32 bits.
    weight: u32,
}

const HEAVY: u32 = u32::MAX;
const BETWEEN: Slot = Slot { symbol: BORDER, weight: 0 };

/// The distinct pieces, as sequences of tokens.
struct Corpus {
    slots: Vec<Slot>,
    /// The offset and the count of each piece with weight HEAVY.
    heavy: Vec<(usize, u64)>,
    /// The length of each token, in slots.
    lengths: Vec<u32>,
    /// The number of tokens in all text.
    tokens: u64,
}

/// The vocabulary that a learner continues.
pub struct Base {
    encoder: Encoder,
    /// The length of each token, in bytes.
    lengths: Vec<u32>,
}

impl Base {
    pub fn new(table: Arc<MergeTable>, tokens: usize) -> Base {
        let lengths = table.lengths(tokens);
        let ids = collected(0..tokens as TokenIndex);
        Base { encoder: Encoder::new(vec![], table, Arc::new(ids), &[]), lengths }
    }
}

/// Pieces that wait to be encoded together by the base.
struct Pieces<'a> {
    base: &'a Base,
    context: Box<Context>,
    text: Vec<u8>,
    /// The start of each piece, and the end of the last.
    bounds: Vec<u32>,
    counts: Vec<u64>,
    tokens: IdList<u32>,
}

/// More bytes of pieces than these are encoded at once.
const MAX_WAITING_BYTES: usize = 1 << 16;

impl Pieces<'_> {
    fn new(base: &Base) -> Pieces<'_> {
        Pieces {
            base,
            context: base.encoder.take_context(),
            text: Vec::new(),
            bounds: vec![0],
            counts: Vec::new(),
            tokens: IdList::default(),
        }
    }

    fn is_full(&self) -> bool {
        self.counts.len() == BATCH || self.text.len() > MAX_WAITING_BYTES
    }

    fn push(&mut self, piece: &[u8], count: u64) {
        append(&mut self.text, piece);
        self.bounds.push(self.text.len() as u32);
        self.counts.push(count);
    }

    /// Yields the tokens and the count of each piece, and removes the pieces.
    fn take(&mut self, mut take: impl FnMut(&[TokenIndex], u64)) {
        let Pieces { base, context, text, bounds, counts, tokens } = self;
        let (sink, interrupt) = (&mut *tokens, &mut Interrupt::never());
        base.encoder.encode_pieces_at(text, bounds, &mut Job { context, sink, interrupt });
        let mut tokens_left = tokens.all();
        for (bounds, &count) in bounds.windows(2).zip(counts.iter()) {
            let (mut bytes, mut length) = (0, 0);
            while bytes < bounds[1] - bounds[0] {
                bytes += base.lengths[tokens_left[length] as usize];
                length += 1;
            }
            let (piece, others) = tokens_left.split_at(length);
            take(piece, count);
            tokens_left = others;
        }
        text.clear();
        bounds.truncate(1);
        counts.clear();
        tokens.clear();
    }
}

/// The number of slots between two checks for interrupts.
const INTERRUPT_CHECK_SLOTS: usize = 1 << 18;

impl Corpus {
    fn new(
        counts: impl CountedPieces,
        base: Option<&Base>,
        interrupt: &mut Interrupt<'_>,
    ) -> Result<Corpus, Error> {
        let mut size = 1;
        counts.for_each(interrupt, |piece, _| size += piece.len() + 1)?;
        if size > MAX_SLOTS {
            return Err(Error::TooLarge);
        }
        let mut slots = with_room(size);
        use_huge_pages(&slots);
        slots.push(BETWEEN);
        let lengths = filled(1, base.map_or(256, |base| base.lengths.len()));
        let mut corpus = Corpus { slots, heavy: Vec::new(), lengths, tokens: 0 };
        let mut pieces = base.map(Pieces::new);
        counts.consume(interrupt, |piece, count| match &mut pieces {
            _ if piece.len() < 2 => corpus.tokens += count,
            None => corpus.push(piece.iter().map(|&byte| byte.into()), count),
            Some(pieces) => {
                pieces.push(piece, count);
                if pieces.is_full() {
                    pieces.take(|tokens, count| corpus.push_tokens(tokens, count));
                }
            }
        })?;
        if let Some(pieces) = &mut pieces {
            pieces.take(|tokens, count| corpus.push_tokens(tokens, count));
        }
        Ok(corpus)
    }

    fn push_tokens(&mut self, tokens: &[TokenIndex], count: u64) {
        if tokens.len() > 1 {
            self.push(tokens.iter().copied(), count);
        } else {
            self.tokens += count;
        }
    }

    #[inline(always)]
    fn push(&mut self, symbols: impl Iterator<Item = TokenIndex>, count: u64) {
        let weight = u32::try_from(count).unwrap_or(HEAVY);
        if weight == HEAVY {
            push(&mut self.heavy, (self.slots.len(), count));
        }
        let start = self.slots.len();
        self.slots.extend(symbols.map(|symbol| Slot { symbol, weight }));
        self.tokens += count * (self.slots.len() - start) as u64;
        self.slots.push(BETWEEN);
    }

    /// Calls `take` for each pair of neighbours and its offset, in ascending order.
    #[inline(always)]
    fn for_each_pair<F: Prefetch>(
        &self,
        found: &mut F,
        interrupt: &mut Interrupt<'_>,
        mut take: impl FnMut(&mut F, Pair, usize),
    ) -> Result<(), Error> {
        if self.has_only_bytes() {
            return self.for_each_pair_of_bytes(found, interrupt, take);
        }
        // Each pair waits here until its prefetch has arrived.
        let mut waiting = [(NO_PAIR, 0); PREFETCH_DISTANCE];
        let (mut at, mut turn, mut next_check) = (1, 0, 0);
        while at < self.slots.len() {
            if at >= next_check {
                next_check = at + INTERRUPT_CHECK_SLOTS;
                interrupt.check()?;
            }
            let left = self.slots[at].symbol;
            if left == BORDER {
                at += 1;
                continue;
            }
            let next = at + self.length(left);
            let right = self.slots[next].symbol;
            if right != BORDER {
                let pair = Pair::new(left, right);
                found.prefetch(pair);
                let (pair, at) =
                    std::mem::replace(&mut waiting[turn % PREFETCH_DISTANCE], (pair, at));
                turn += 1;
                if pair != NO_PAIR {
                    take(found, pair, at);
                }
            }
            at = next;
        }
        for i in turn..turn + PREFETCH_DISTANCE {
            let (pair, at) = waiting[i % PREFETCH_DISTANCE];
            if pair != NO_PAIR {
                take(found, pair, at);
            }
        }
        Ok(())
    }

    /// Does the same as `for_each_pair`, but faster, while all tokens are bytes.
    #[inline(always)]
    fn for_each_pair_of_bytes<F>(
        &self,
        found: &mut F,
        interrupt: &mut Interrupt<'_>,
        mut take: impl FnMut(&mut F, Pair, usize),
    ) -> Result<(), Error> {
        for (at, slots) in self.slots.windows(2).enumerate() {
            if at % INTERRUPT_CHECK_SLOTS == 0 {
                interrupt.check()?;
            }
            let (left, right) = (slots[0].symbol, slots[1].symbol);
            if left != BORDER && right != BORDER {
                take(found, Pair::new(left, right), at);
            }
        }
        Ok(())
    }

    fn has_only_bytes(&self) -> bool {
        self.lengths.len() == 256
    }

    #[inline(always)]
    fn length(&self, symbol: TokenIndex) -> usize {
        self.lengths[symbol as usize] as usize
    }

    /// Returns the count of the piece at an offset.
    #[inline(always)]
    fn weight(&self, at: usize) -> u64 {
        let weight = self.slots[at].weight;
        if weight != HEAVY {
            return weight.into();
        }
        let piece = self.heavy.partition_point(|&(start, _)| start <= at) - 1;
        self.heavy[piece].1
    }

    /// Prefetches the slot at an offset, and the slot at `length` after it.
    #[inline(always)]
    fn prefetch(&self, at: u32, length: usize) {
        prefetch(&self.slots[at as usize]);
        prefetch(&self.slots[at as usize + length]);
    }

    /// Returns the offset and the symbol of the token before an offset; the symbol may be BORDER.
    #[inline(always)]
    fn before(&self, at: usize) -> (usize, TokenIndex) {
        let last = self.slots[at - 1].symbol;
        let length = if last & INSIDE == 0 { 1 } else { last & !INSIDE };
        let first = at - length as usize;
        (first, self.slots[first].symbol)
    }

    /// Adds the token that a pair makes; returns its index.
    fn add_token(&mut self, (left, right): (TokenIndex, TokenIndex)) -> TokenIndex {
        let length = self.length(left) + self.length(right);
        push(&mut self.lengths, length as u32);
        self.lengths.len() as TokenIndex - 1
    }
}

/// The count of a pair, and the range of its offsets in `Learner::offsets_of_pairs`.
#[derive(Clone, Copy, Default)]
struct Occurrences {
    count: u64,
    start: usize,
    length: u32,
}

pub struct Learner {
    corpus: Corpus,
    /// The pairs with a count of at least `threshold`, and some whose count has fallen below it.
    pairs: PairMap<Occurrences>,
    offsets_of_pairs: Vec<u32>,
    /// The counts of queued pairs can only fall.
    queue: Queue,
    threshold: u64,
    /// The lowest count of a pair that is merged.
    min_count: u64,
    left: Neighbours,
    right: Neighbours,
}

/// Most pairs of a large corpus are too rare ever to be merged. Pairs below the threshold stay out
/// until no pair reaches it any more; then it falls to a fourth.
const FIRST_THRESHOLD: u64 = 8;

/// A corpus with this many slots is sketched before its pairs are counted exactly, because most
/// pairs are too rare for that. Pairs of bytes are too few to need a sketch.
const MIN_SKETCHED_SLOTS: usize = if cfg!(test) { 64 } else { 1 << 20 };

/// About this many pairs are found at first in a large corpus that continues a vocabulary.
const FIRST_PAIRS: usize = if cfg!(test) { 20 } else { 1 << 16 };

/// The number of items between the prefetch of an item and its use.
const PREFETCH_DISTANCE: usize = 16;

impl Learner {
    /// With a `base`, merges are learnt on top of it. A pair must have a count of at least
    /// `min_count` to be merged, and `min_count` is at least 1.
    pub fn new(
        counts: impl CountedPieces,
        base: Option<&Base>,
        min_count: u64,
        interrupt: &mut Interrupt<'_>,
    ) -> Result<Learner, Error> {
        Learner::with_threshold(counts, base, min_count, FIRST_THRESHOLD, interrupt)
    }

    /// Returns a learner that also merges pairs chosen by other learners. Because any pair may be
    /// chosen, however rare, it starts without a threshold.
    pub fn of_several(
        counts: impl CountedPieces,
        base: Option<&Base>,
        min_count: u64,
        interrupt: &mut Interrupt<'_>,
    ) -> Result<Learner, Error> {
        let mut learner = Learner::with_threshold(counts, base, 1, 1, interrupt)?;
        learner.min_count = min_count;
        Ok(learner)
    }

    fn with_threshold(
        counts: impl CountedPieces,
        base: Option<&Base>,
        min_count: u64,
        threshold: u64,
        interrupt: &mut Interrupt<'_>,
    ) -> Result<Learner, Error> {
        let mut learner = Learner {
            corpus: Corpus::new(counts, base, interrupt)?,
            pairs: PairMap::default(),
            offsets_of_pairs: Vec::new(),
            queue: Queue::default(),
            threshold: threshold.max(min_count),
            min_count,
            left: Neighbours::default(),
            right: Neighbours::default(),
        };
        learner.find_pairs(threshold > 1, interrupt)?;
        Ok(learner)
    }

    /// Learns the next merge: the pair with the highest count, and among equal counts the smallest.
    /// Returns None if no pair is left.
    ///
    /// A pair that `takes` refuses is passed over. `takes` may be asked about it again, and must
    /// then refuse it again.
    pub fn next_merge(
        &mut self,
        takes: impl FnMut(TokenIndex, TokenIndex) -> Result<bool, Error>,
        interrupt: &mut Interrupt<'_>,
    ) -> Result<Option<(TokenIndex, TokenIndex)>, Error> {
        let Some(pair) = self.best_pair(takes, interrupt)? else { return Ok(None) };
        self.merge(pair, interrupt)?;
        Ok(Some(pair.parts()))
    }

    /// Takes the pair to be merged next off the queue.
    pub fn best_pair(
        &mut self,
        mut takes: impl FnMut(TokenIndex, TokenIndex) -> Result<bool, Error>,
        interrupt: &mut Interrupt<'_>,
    ) -> Result<Option<Pair>, Error> {
        loop {
            let pairs = &self.pairs;
            let count_now = |pair| pairs.get(pair).map_or(0, |found| found.count);
            let min_count = self.threshold.max(self.min_count);
            match self.queue.pop(min_count, |pair| pairs.prefetch(pair), count_now) {
                Some(pair) => {
                    let (left, right) = pair.parts();
                    if takes(left, right)? {
                        return Ok(Some(pair));
                    }
                }
                None if self.threshold <= self.min_count => return Ok(None),
                None => {
                    self.threshold = (self.threshold / 4).max(self.min_count);
                    self.find_pairs(false, interrupt)?;
                }
            }
        }
    }

    pub fn merge(&mut self, pair: Pair, interrupt: &mut Interrupt<'_>) -> Result<(), Error> {
        let merged = self.corpus.add_token(pair.parts());
        let overlaps = self.merge_everywhere(pair, merged, interrupt)?;
        self.count_neighbours(pair, merged, overlaps);
        Ok(())
    }

    pub fn tokens(&self) -> u64 {
        self.corpus.tokens
    }

    /// Finds all pairs with a count of at least `threshold`, and their offsets. If it `may_raise`
    /// the threshold and the corpus is sketched, this raises it first.
    fn find_pairs(&mut self, may_raise: bool, interrupt: &mut Interrupt<'_>) -> Result<(), Error> {
        // The old lists are freed before new ones are allocated.
        (self.pairs, self.offsets_of_pairs) = (PairMap::default(), Vec::new());
        let corpus = &self.corpus;
        let mut filter = None;
        if corpus.slots.len() >= MIN_SKETCHED_SLOTS && !corpus.has_only_bytes() {
            let mut sketch = Sketch::new();
            corpus.for_each_pair(&mut sketch, interrupt, |sketch, pair, at| {
                sketch.add(pair, corpus.weight(at));
            })?;
            if may_raise {
                self.threshold = self.threshold.max(sketch.count_of_rank(FIRST_PAIRS));
            }
            filter = Some(sketch.into_filter(self.threshold));
        }
        let passes = |pair| filter.as_ref().is_none_or(|filter| filter.passes(pair));
        let mut found = FoundPairs::new(corpus.slots.len());
        corpus.for_each_pair(&mut found, interrupt, |found, pair, at| {
            if passes(pair) {
                let occurrences = found.get_or_put(pair);
                occurrences.count += corpus.weight(at);
                occurrences.length += 1;
            }
        })?;
        found.keep_frequent(self.threshold);
        let mut total = 0;
        for occurrences in found.values_mut() {
            occurrences.start = total;
            total += occurrences.length as usize;
        }
        // Merges will list about as many again.
        let mut offsets = with_room(2 * total);
        use_huge_pages(&offsets);
        offsets.resize(total, 0);
        corpus.for_each_pair(&mut found, interrupt, |found, pair, at| {
            if passes(pair)
                && let Some(occurrences) = found.get_mut(pair)
                && occurrences.count > 0
            {
                // While lists are filled, `start` is the index of the next offset.
                offsets[occurrences.start] = at as u32;
                occurrences.start += 1;
            }
        })?;
        for occurrences in found.values_mut() {
            occurrences.start -= occurrences.length as usize;
        }
        (self.pairs, self.offsets_of_pairs) = (found.into_map(), offsets);
        self.queue.fill(self.pairs.iter().map(|(pair, occurrences)| (pair, occurrences.count)));
        Ok(())
    }

    /// Replaces a pair by its token everywhere, and records the neighbours of each replacement.
    ///
    /// Returns how often two of these tokens became neighbours.
    fn merge_everywhere(
        &mut self,
        pair: Pair,
        merged: TokenIndex,
        interrupt: &mut Interrupt<'_>,
    ) -> Result<u64, Error> {
        let (left, right) = pair.parts();
        let corpus = &mut self.corpus;
        let (left_length, length) = (corpus.length(left), corpus.length(merged));
        let Some(found) = self.pairs.get_mut(pair) else { return Ok(0) };
        found.count = 0;
        let listed = &self.offsets_of_pairs[found.start..][..found.length as usize];
        for side in [&mut self.left, &mut self.right] {
            lengthen(&mut side.stats, merged as usize + 1, NeighbourStats::default());
        }
        let pairs = &self.pairs;
        let mut overlaps = 0;
        for &first in listed.iter().take(PREFETCH_DISTANCE) {
            corpus.prefetch(first, length);
        }
        for (i, &at) in listed.iter().enumerate() {
            if i % INTERRUPT_CHECK_SLOTS == INTERRUPT_CHECK_SLOTS - 1 {
                interrupt.check()?;
            }
            if let Some(&ahead) = listed.get(i + PREFETCH_DISTANCE) {
                corpus.prefetch(ahead, length);
            }
            let at = at as usize;
            let (second, end) = (at + left_length, at + length);
            // Another merge, or this one, may have taken one of the two tokens.
            if corpus.slots[at].symbol != left || corpus.slots[second].symbol != right {
                continue;
            }
            let weight = corpus.weight(at);
            corpus.tokens -= weight;
            let (before_at, before) = corpus.before(at);
            let after = corpus.slots[end].symbol;
            corpus.slots[second].symbol = INSIDE;
            corpus.slots[end - 1].symbol = INSIDE | length as TokenIndex;
            corpus.slots[at].symbol = merged;
            if before == merged {
                overlaps += weight;
            }
            if before != BORDER && self.left.record(before, weight, before_at) {
                pairs.prefetch(Pair::new(before, left));
            }
            if after != BORDER && self.right.record(after, weight, at) {
                pairs.prefetch(Pair::new(right, after));
            }
        }
        Ok(overlaps)
    }

    /// Updates the counts of all pairs that a merge has changed.
    ///
    /// Before the new token, (x, left) became (x, merged); after it, (right, x) became (merged, x).
    ///
    /// If two new tokens are neighbours, (right, left) between them became (merged, merged). But
    /// tokens are replaced from left to right, so the first is recorded with `left` after it, and
    /// the second with `merged` before it. Example: merging (a, b) in "abab" records a after the
    /// first ab, and ab before the second. The pair (merged, left) of the first record was not made
    /// there, so `overlaps` is subtracted from its count.
    fn count_neighbours(&mut self, pair: Pair, merged: TokenIndex, overlaps: u64) {
        let (left, right) = pair.parts();
        let side = std::mem::take(&mut self.left);
        self.left = self.count_side(side, |x| (Pair::new(x, left), Pair::new(x, merged)), |_| 0);
        let side = std::mem::take(&mut self.right);
        let pairs_of = |x| (Pair::new(right, x), Pair::new(merged, x));
        self.right = self.count_side(side, pairs_of, |x| if x == left { overlaps } else { 0 });
    }

    /// Updates the counts for one side, and clears it. `pairs_of` returns the old and the new pair
    /// of a neighbour, `not_gained` how much its record exceeds the count of the new pair.
    #[inline(always)]
    fn count_side(
        &mut self,
        mut neighbours: Neighbours,
        pairs_of: impl Fn(TokenIndex) -> (Pair, Pair),
        not_gained: impl Fn(TokenIndex) -> u64,
    ) -> Neighbours {
        for &neighbour in &neighbours.seen {
            let (old, new) = pairs_of(neighbour);
            let stats = &mut neighbours.stats[neighbour as usize];
            if let Some(found) = self.pairs.get_mut(old) {
                // The old pair may be the merged pair itself, whose count is 0 already.
                found.count = found.count.saturating_sub(stats.weight);
            }
            let count = stats.weight - not_gained(neighbour);
            let length = std::mem::replace(&mut stats.offsets, UNLISTED);
            if count >= self.threshold {
                let start = self.offsets_of_pairs.len();
                lengthen(&mut self.offsets_of_pairs, start + length, 0);
                *self.pairs.get_or_put(new) = Occurrences { count, start, length: length as u32 };
                self.queue.push(new, count);
                stats.offsets = start;
            }
        }
        for &(neighbour, offset) in &neighbours.occurrences {
            let next = &mut neighbours.stats[neighbour as usize].offsets;
            if *next != UNLISTED {
                self.offsets_of_pairs[*next] = offset;
                *next += 1;
            }
        }
        for neighbour in neighbours.seen.drain(..) {
            neighbours.stats[neighbour as usize] = NeighbourStats::default();
        }
        neighbours.occurrences.clear();
        neighbours
    }
}

/// Marks a neighbour without a list of offsets, because its new pair is too rare.
const UNLISTED: usize = usize::MAX;

/// The neighbours of a merge on one side.
#[derive(Default)]
struct Neighbours {
    /// The statistics of each token.
    stats: Vec<NeighbourStats>,
    /// The tokens that were recorded as neighbours.
    seen: Vec<TokenIndex>,
    /// Each neighbour and the offset of its new pair, in ascending order of offsets.
    occurrences: Vec<(TokenIndex, u32)>,
}

#[derive(Clone, Copy, Default)]
struct NeighbourStats {
    /// How often this neighbour was recorded, in all text.
    weight: u64,
    /// First its number of offsets, then the index of the next offset of the new pair.
    offsets: usize,
}

impl Neighbours {
    /// Returns whether this neighbour is new.
    #[inline(always)]
    fn record(&mut self, neighbour: TokenIndex, weight: u64, offset: usize) -> bool {
        let stats = &mut self.stats[neighbour as usize];
        let is_first = stats.offsets == 0;
        if is_first {
            push(&mut self.seen, neighbour);
        }
        stats.weight += weight;
        stats.offsets += 1;
        push(&mut self.occurrences, (neighbour, offset as u32));
        is_first
    }
}

/// A table with an entry for each pair of a corpus.
trait Prefetch {
    fn prefetch(&self, pair: Pair);
}

impl Prefetch for Sketch {
    #[inline(always)]
    fn prefetch(&self, pair: Pair) {
        Sketch::prefetch(self, pair);
    }
}

impl Prefetch for FoundPairs {
    #[inline(always)]
    fn prefetch(&self, pair: Pair) {
        if self.of_bytes.get(byte_index(pair)).is_none() {
            self.others.prefetch(pair);
        }
    }
}

/// The pairs of a corpus, while they are counted and their offsets are listed.
struct FoundPairs {
    /// The pairs of bytes, in an array because it is faster than a map. Empty for a small corpus.
    of_bytes: Vec<Occurrences>,
    others: PairMap<Occurrences>,
}

const SMALL_CORPUS_SLOTS: usize = 1 << 16;

impl FoundPairs {
    fn new(slots: usize) -> FoundPairs {
        let size = if slots < SMALL_CORPUS_SLOTS { 0 } else { 1 << 16 };
        FoundPairs { of_bytes: filled(Occurrences::default(), size), others: PairMap::default() }
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

    /// Removes the pairs with a lower count, or sets their counts to 0.
    fn keep_frequent(&mut self, min_count: u64) {
        for occurrences in &mut self.of_bytes {
            if occurrences.count < min_count {
                *occurrences = Occurrences::default();
            }
        }
        self.others.retain(|occurrences| occurrences.count >= min_count);
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

/// Returns the index of a pair of bytes in `of_bytes`; for other pairs, an index out of range.
#[inline(always)]
fn byte_index(pair: Pair) -> usize {
    let (left, right) = pair.parts();
    if left < 256 && right < 256 { (left << 8 | right) as usize } else { usize::MAX }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::merge::MergeScratch;
    use crate::test_inputs::Rng;
    use crate::train::Counts;

    #[test]
    fn an_interrupt_stops_at_every_check() {
        // At the first check, at the second, and so on.
        for checks in 0.. {
            let mut checks_left = 0..checks;
            let mut is_interrupted = || checks_left.next().is_none();
            let interrupt = &mut Interrupt::new(&mut is_interrupted);
            let mut counts = Counts::default();
            counts.add_piece(b"abcab", 3);
            counts.add_piece(&b"ab".repeat(INTERRUPT_CHECK_SLOTS), 3);
            let result = Learner::new(counts, None, 1, interrupt).and_then(|mut learner| {
                while learner.next_merge(|_, _| Ok(true), interrupt)?.is_some() {}
                Ok(())
            });
            if result == Ok(()) {
                assert!(checks > 6);
                break;
            }
            assert_eq!(result, Err(Error::Interrupted));
        }
    }

    /// Returns the merges of the plain rule, which counts all pairs again for each merge.
    fn learnt_plainly(
        mut pieces: Vec<(Vec<TokenIndex>, u64)>,
        tokens: TokenIndex,
        max_merges: usize,
    ) -> Vec<(TokenIndex, TokenIndex)> {
        let mut merges = Vec::new();
        for made in (tokens..).take(max_merges) {
            let mut counts = BTreeMap::new();
            for (piece, count) in &pieces {
                for pair in piece.windows(2) {
                    *counts.entry((pair[0], pair[1])).or_insert(0) += count;
                }
            }
            let highest = counts.values().copied().max();
            let Some((&(left, right), _)) = counts.iter().find(|&(_, &n)| Some(n) == highest)
            else {
                break;
            };
            merges.push((left, right));
            for (piece, _) in &mut pieces {
                for at in 0..piece.len() {
                    if piece.get(at..at + 2) == Some(&[left, right]) {
                        piece.splice(at..at + 2, [made]);
                    }
                }
            }
        }
        merges
    }

    #[test]
    fn merges_on_top_of_a_base_match_the_plain_rule() {
        let words = [" of", " the", "the", "aa", " a", "a", "thesis", "!", "\n", " 中文", "中"];
        let mut rng = Rng::new(9);
        for round in 0..if cfg!(miri) { 2 } else { 50 } {
            let bytes = std::array::from_fn(|byte| byte as TokenIndex);
            let mut table = MergeTable::with_room(bytes, 400, 60).expect("few");
            let merged = |table: &MergeTable, piece: &[u8]| {
                table.merge(piece, &mut MergeScratch::default(), &mut Interrupt::never()).to_vec()
            };
            let mut tokens = 256;
            for _ in 0..rng.below(60) {
                let row = merged(&table, rng.text(&words, 4).as_bytes());
                if let [left, right, ..] = *row {
                    tokens += TokenIndex::from(table.push(left, right, tokens));
                }
            }
            let mut counts = Counts::default();
            let mut pieces = Vec::new();
            for _ in 0..rng.below(if round % 10 == 0 { 2 * BATCH } else { 40 }) {
                let piece = rng.text(&words, [2, 9, 40][round % 3]);
                let count = 1 + rng.below([1, 9][round % 2]) as u64;
                let count = if rng.below(500) == 0 { count << 32 } else { count };
                counts.add_piece(piece.as_bytes(), count);
                pieces.push((merged(&table, piece.as_bytes()), count));
            }
            let base = Base::new(Arc::new(table), tokens as usize);
            let interrupt = &mut Interrupt::never();
            let mut learner = Learner::new(counts, Some(&base), 1, interrupt).expect("no fault");
            let found = std::iter::from_fn(|| {
                learner.next_merge(|_, _| Ok(true), interrupt).expect("no fault")
            });
            let found: Vec<_> = found.take(40).collect();
            assert_eq!(found, learnt_plainly(pieces, tokens, 40), "round {round}");
        }
    }
}
