//! The ids of pieces that were merged before. Exact: a key is the whole piece.
//!
//! There is a table for pieces of up to 8 bytes, one for up to 16 and one for up to 47, each of
//! lines as long as those of the processor's own cache. They grow up to a bound, and then what is
//! new takes the place of something else. In front is a small table for the pieces of up to
//! 8 bytes that came last, which are most of all: it stays in the processor's second cache. The few
//! longer pieces are in a map.

use std::collections::HashMap;

use crate::merge;
use crate::simd::{self, Vectors, WORD_TABLE_BITS, WordTable, place_of_word};
use crate::spans;

/// Pieces of up to so many bytes are kept in lines.
pub const LONGEST: usize = 47;

/// Longer ones are kept in a map, up to so many bytes of all, if they are merged at once: dividing
/// lines come again, and take long to merge.
const MOST_BYTES: usize = 1 << 20;

/// Pieces of up to so many bytes are looked for in front.
pub const WORD: usize = 8;

const PAIR: usize = 16;

/// How many lines of 64 bytes a table begins with, and may grow to.
const WORD_BITS: (u32, u32) = (10, 16); // 64 KB to 4 MB: 262,144 pieces
const PAIR_BITS: (u32, u32) = (9, 17); // 32 KB to 8 MB: 262,144 pieces
const LONG_BITS: (u32, u32) = (8, 17); // 16 KB to 8 MB: 131,072 pieces

/// Ids beyond those in their slots: up to so many (8 MB), then the cache begins anew.
const MOST_IDS: usize = 1 << 21;

/// The ids of a piece as one number: up to three of 20 bits and how many they are, or where they
/// are among those in a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packed(u64);

const ID_BITS: u32 = 20;
const IN_NUMBER: usize = 3;
const ELSEWHERE: u64 = 1 << 63;
const LOOSE: u64 = 1 << 62;

impl Packed {
    /// Puts ids into one number, if they fit.
    #[inline]
    fn of(ids: &[u32]) -> Option<Packed> {
        if ids.len() > IN_NUMBER || ids.iter().any(|&id| id >> ID_BITS != 0) {
            return None;
        }
        let bits = ids.iter().rev().fold(0, |bits, &id| bits << ID_BITS | u64::from(id));
        Some(Packed((ids.len() as u64) << 60 | bits))
    }

    /// Returns what says that ids are in a list. Both numbers fit: a text is shorter than 1 GiB,
    /// and a list has no more ids than that and those of the bounded cache.
    fn elsewhere(place: usize, count: usize, flags: u64) -> Packed {
        Packed(flags | (count as u64) << 32 | place as u64)
    }

    /// Returns where in their list ids begin that are elsewhere.
    fn place(self) -> usize {
        self.0 as u32 as usize
    }

    #[inline(always)]
    pub fn is_elsewhere(self) -> bool {
        self.0 & ELSEWHERE != 0
    }

    /// Returns how many ids there are.
    #[inline(always)]
    pub fn count(self) -> usize {
        if self.is_elsewhere() { (self.0 >> 32) as usize & 0x3FFF_FFFF } else { self.inner_count() }
    }

    /// Returns how many ids are in the number, which is not elsewhere.
    #[inline(always)]
    pub fn inner_count(self) -> usize {
        (self.0 >> 60) as usize
    }

    /// Returns the ids that are in the number, and zeros behind them.
    #[inline(always)]
    pub fn inner_ids(self) -> [u32; 4] {
        const MASK: u64 = (1 << ID_BITS) - 1;
        let Packed(bits) = self;
        [bits & MASK, bits >> ID_BITS & MASK, bits >> (2 * ID_BITS) & MASK, 0].map(|id| id as u32)
    }
}

/// Returns up to eight bytes as a number.
#[inline(always)]
pub fn word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => {
            let mut word = [0; WORD];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        }
    }
}

/// Returns the first `length` bytes of a number, 1 to 8.
#[inline(always)]
fn first_bytes(word: u64, length: usize) -> u64 {
    let others = (64 - 8 * length) as u32;
    word << others >> others
}

#[inline(always)]
fn mixed(key: u64) -> u64 {
    key.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// A line of a table; what is in it is told by its keys, 0 being that of no piece.
trait Line: Copy {
    type Key: Copy + PartialEq;
    const EMPTY: Self;
    const SLOTS: usize;

    fn hash(key: &Self::Key) -> u64;
    /// Returns the ids of a key.
    fn get(&self, key: &Self::Key) -> Option<Packed>;
    /// Returns what is in a slot.
    fn slot(&self, slot: usize) -> Option<(Self::Key, Packed)>;
    fn set(&mut self, slot: usize, key: &Self::Key, ids: Packed);
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct WordLine {
    words: [u64; 4],
    ids: [Packed; 4],
}

impl Line for WordLine {
    type Key = u64;
    const EMPTY: WordLine = WordLine { words: [0; 4], ids: [Packed(0); 4] };
    const SLOTS: usize = 4;

    #[inline(always)]
    fn hash(key: &u64) -> u64 {
        let key = mixed(*key);
        mixed(key ^ key >> 32)
    }

    #[inline(always)]
    fn get(&self, key: &u64) -> Option<Packed> {
        let slot = self.words.iter().position(|word| word == key)?;
        Some(self.ids[slot])
    }

    fn slot(&self, slot: usize) -> Option<(u64, Packed)> {
        (self.words[slot] != 0).then_some((self.words[slot], self.ids[slot]))
    }

    fn set(&mut self, slot: usize, key: &u64, ids: Packed) {
        self.words[slot] = *key;
        self.ids[slot] = ids;
    }
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct PairLine {
    words: [[u64; 2]; 2],
    ids: [Packed; 2],
}

impl Line for PairLine {
    type Key = [u64; 2];
    const EMPTY: PairLine = PairLine { words: [[0; 2]; 2], ids: [Packed(0); 2] };
    const SLOTS: usize = 2;

    #[inline(always)]
    fn hash([first, second]: &[u64; 2]) -> u64 {
        let key = mixed(*first) ^ second.wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
        mixed(key ^ key >> 32)
    }

    #[inline(always)]
    fn get(&self, key: &[u64; 2]) -> Option<Packed> {
        let [first, second] = self.words.map(|words| words == *key);
        (first || second).then(|| self.ids[usize::from(second)])
    }

    fn slot(&self, slot: usize) -> Option<([u64; 2], Packed)> {
        (self.words[slot] != [0; 2]).then_some((self.words[slot], self.ids[slot]))
    }

    fn set(&mut self, slot: usize, key: &[u64; 2], ids: Packed) {
        self.words[slot] = *key;
        self.ids[slot] = ids;
    }
}

/// A piece of 17 to 47 bytes, zeros, and its length in the last byte.
type LongKey = [u64; 6];

#[derive(Clone, Copy)]
#[repr(align(64))]
struct LongLine {
    key: LongKey,
    ids: Packed,
}

impl Line for LongLine {
    type Key = LongKey;
    const EMPTY: LongLine = LongLine { key: [0; 6], ids: Packed(0) };
    const SLOTS: usize = 1;

    #[inline(always)]
    fn hash(key: &LongKey) -> u64 {
        let [a, b, c, d, e, f] = *key;
        let pair = |a: u64, b: u64| {
            let product =
                u128::from(a ^ 0x9E37_79B9_7F4A_7C15) * u128::from(b ^ 0xC2B2_AE3D_27D4_EB4F);
            (product >> 64) as u64 ^ product as u64
        };
        mixed(pair(a, b) ^ pair(c, d).rotate_left(21) ^ pair(e, f).rotate_left(42))
    }

    #[inline(always)]
    fn get(&self, key: &LongKey) -> Option<Packed> {
        (self.key == *key).then_some(self.ids)
    }

    fn slot(&self, _slot: usize) -> Option<(LongKey, Packed)> {
        (self.key != [0; 6]).then_some((self.key, self.ids))
    }

    fn set(&mut self, _slot: usize, key: &LongKey, ids: Packed) {
        *self = LongLine { key: *key, ids };
    }
}

/// How many lines there are that a piece may be in.
const LINES: usize = 4;

struct Table<L> {
    lines: Vec<L>,
    bits: u32,
    most_bits: u32,
    used: usize,
    /// Which slot of a full line is replaced next.
    next: usize,
}

impl<L: Line> Table<L> {
    fn new((bits, most_bits): (u32, u32)) -> Table<L> {
        Table { lines: vec![L::EMPTY; 1 << bits], bits, most_bits, used: 0, next: 0 }
    }

    #[inline(always)]
    fn line(&self, key: &L::Key) -> usize {
        (L::hash(key) >> (64 - self.bits)) as usize & (self.lines.len() - 1)
    }

    #[inline(always)]
    fn prefetch(&self, key: &L::Key) {
        simd::prefetch(&self.lines[self.line(key)]);
    }

    /// What finds its line full is in one of the lines beside it.
    #[inline(always)]
    fn get(&self, key: &L::Key) -> Option<Packed> {
        let first = self.line(key);
        for beside in 0..LINES {
            let line = &self.lines[(first ^ beside) & (self.lines.len() - 1)];
            let found = line.get(key);
            if found.is_some() || line.slot(L::SLOTS - 1).is_none() {
                return found;
            }
        }
        None
    }

    fn put(&mut self, key: &L::Key, ids: Packed) {
        if self.used * 2 > self.lines.len() * L::SLOTS && self.bits < self.most_bits {
            self.grow();
        }
        let first = self.line(key);
        for place in 0..LINES * L::SLOTS {
            let (beside, slot) = (place / L::SLOTS, place % L::SLOTS);
            let line = &mut self.lines[first ^ beside];
            if line.slot(slot).is_none() {
                line.set(slot, key, ids);
                self.used += 1;
                return;
            }
        }
        self.next += 1;
        let replaced = self.next % (LINES * L::SLOTS);
        self.lines[first ^ (replaced / L::SLOTS)].set(replaced % L::SLOTS, key, ids);
    }

    #[cold]
    fn grow(&mut self) {
        self.bits += 1;
        self.used = 0;
        for line in std::mem::replace(&mut self.lines, vec![L::EMPTY; 1 << self.bits]) {
            for (key, ids) in (0..L::SLOTS).filter_map(|slot| line.slot(slot)) {
                self.put(&key, ids);
            }
        }
    }
}

/// A bounded table of pieces and their ids.
pub struct Cache {
    front: Box<WordTable>,
    words: Table<WordLine>,
    pairs: Table<PairLine>,
    longs: Table<LongLine>,
    /// Pieces that are too long for a line, and how many bytes they have.
    others: HashMap<Box<[u8]>, Packed>,
    bytes_of_others: usize,
    /// The ids of the pieces of the tables that have many.
    more_ids: Vec<u32>,
    /// Those of pieces that are in no table, until they are forgotten.
    loose_ids: Vec<u32>,
}

impl Default for Cache {
    fn default() -> Cache {
        let front = vec![[0; 2]; 1 << WORD_TABLE_BITS].into_boxed_slice();
        Cache {
            front: front.try_into().unwrap_or_else(|_| unreachable!("it has this length")),
            words: Table::new(WORD_BITS),
            pairs: Table::new(PAIR_BITS),
            longs: Table::new(LONG_BITS),
            others: HashMap::new(),
            bytes_of_others: 0,
            more_ids: Vec::new(),
            loose_ids: Vec::new(),
        }
    }
}

/// Returns the key of a piece of 1 to 8 bytes that `text` begins with; 0 if its last byte is what
/// keys are filled up with, so that it has none.
#[inline(always)]
fn word_key(text: &[u8], length: usize) -> u64 {
    let key = first_bytes(word(text), length);
    if key >> (8 * (length - 1)) == 0 { 0 } else { key }
}

/// The same of a piece of 9 to 16 bytes.
#[inline(always)]
fn pair_key(text: &[u8], length: usize) -> [u64; 2] {
    [word(text), word_key(&text[WORD..], length - WORD)]
}

/// The same of a piece of 17 to 47 bytes; its length is in the last byte.
#[inline(always)]
fn long_key(text: &[u8], length: usize) -> LongKey {
    let mut bytes = [0; 48];
    bytes[..length].copy_from_slice(&text[..length]);
    bytes[LONGEST] = length as u8;
    let words = bytes.as_chunks::<WORD>().0;
    std::array::from_fn(|i| u64::from_le_bytes(words[i]))
}

/// Returns the bytes of a key. What is kept is merged from them and not from the text, which others
/// may be able to change meanwhile: wrong ids of that are of this call, those in the cache of all.
fn bytes_of(key: &[u64]) -> [u8; LONGEST + 1] {
    let mut bytes = [0; LONGEST + 1];
    for (room, word) in bytes.as_chunks_mut::<WORD>().0.iter_mut().zip(key) {
        *room = word.to_le_bytes();
    }
    bytes
}

/// Returns how many bytes a key has, or the second half of one, that is not 0.
fn length_of(key: u64) -> usize {
    WORD - key.leading_zeros() as usize / 8
}

/// What gives the ids of a piece that is not in the cache.
pub trait Merge {
    /// Puts the ids of a piece behind others; all of them, if it has no more than `merge::LONG`
    /// bytes.
    fn merge(&mut self, piece: &[u8], ids: &mut Vec<u32>);
}

/// How many pieces are looked up together, at most.
pub const BATCH: usize = 512;

/// How many clauses of a batch are few.
pub const FEW: usize = 16;

/// The pieces of a batch that are not in front: their numbers in it.
pub struct NotInFront {
    words: List<u16>,
    longer: List<u16>,
    clauses: List<u16>,
    /// The longer ones again, with their keys.
    pairs: List<(u16, [u64; 2])>,
    longs: List<(u16, LongKey)>,
    others: List<u16>,
}

struct List<T> {
    /// With room for eight more than there may be.
    items: [T; BATCH + 8],
    count: usize,
}

impl List<u16> {
    /// Adds `first` + the place of each bit.
    #[inline(always)]
    fn push_eight(&mut self, vectors: impl Vectors, bits: u8, first: u16) {
        if let Some(room) = self.items[self.count & (BATCH - 1)..].first_chunk_mut() {
            vectors.write_numbers(bits, first, room);
        }
        self.count += bits.count_ones() as usize;
    }
}

impl<T: Copy> List<T> {
    fn new(item: T) -> List<T> {
        List { items: [item; BATCH + 8], count: 0 }
    }

    #[inline(always)]
    fn push(&mut self, item: T) {
        self.push_if(true, item);
    }

    /// Adds an item, or not, without a branch. A batch has no more items than there is room for.
    #[inline(always)]
    fn push_if(&mut self, wanted: bool, item: T) {
        self.items[self.count & (BATCH - 1)] = item;
        self.count += usize::from(wanted);
    }

    #[inline(always)]
    fn all(&self) -> &[T] {
        &self.items[..self.count]
    }
}

impl NotInFront {
    /// Returns the clauses that `sort_longer` has put aside.
    #[inline(always)]
    pub fn clauses(&self) -> &[u16] {
        self.clauses.all()
    }
}

impl Default for NotInFront {
    fn default() -> NotInFront {
        NotInFront {
            words: List::new(0),
            longer: List::new(0),
            clauses: List::new(0),
            pairs: List::new((0, [0; 2])),
            longs: List::new((0, [0; 6])),
            others: List::new(0),
        }
    }
}

impl Cache {
    /// Looks for the ids of each piece of a batch, `text[bounds[i]..bounds[i + 1]]`, in front.
    ///
    /// Eight at a time, without a branch that depends on them.
    #[inline(always)]
    pub fn look_in_front(
        &self,
        vectors: impl Vectors,
        text: &[u8],
        bounds: &[u32],
        ids: &mut [Packed],
        missing: &mut NotInFront,
    ) {
        const EIGHT: usize = 8;
        let count = bounds.len() - 1;
        missing.words.count = 0;
        missing.longer.count = 0;
        let mut done = 0;
        let last_start = text.len().saturating_sub(WORD);
        while done + EIGHT <= count && bounds[done + EIGHT - 1] as usize <= last_start {
            let bounds: &[u32; EIGHT + 1] =
                bounds[done..].first_chunk().unwrap_or_else(|| unreachable!("there are nine"));
            let (mut words, mut lengths) = ([0; EIGHT], [0; EIGHT]);
            for i in 0..EIGHT {
                words[i] = word(&text[bounds[i] as usize..]);
                lengths[i] = bounds[i + 1] - bounds[i];
            }
            let found = vectors.find_words(words, lengths, &self.front);
            if let Some(ids) = ids[done..].first_chunk_mut::<EIGHT>() {
                *ids = found.values.map(Packed);
            }
            missing.words.push_eight(vectors, found.missing & !found.longer, done as u16);
            missing.longer.push_eight(vectors, found.longer, done as u16);
            done += EIGHT;
        }
        for i in done..count {
            let is_longer = bounds[i + 1] - bounds[i] > WORD as u32;
            missing.words.push_if(!is_longer, i as u16);
            missing.longer.push_if(is_longer, i as u16);
        }
    }

    /// Finds where the longer pieces of a batch are to be looked for, and asks for what that needs,
    /// so that it is on its way by then. Clauses are put aside, if they are not to be taken whole;
    /// where they are more than `FEW`, that is the end.
    #[inline(always)]
    pub fn sort_longer(
        &self,
        text: &[u8],
        bounds: &[u32],
        whole_clauses: bool,
        missing: &mut NotInFront,
    ) {
        let NotInFront { longer, clauses, pairs, longs, others, .. } = missing;
        (clauses.count, pairs.count, longs.count, others.count) = (0, 0, 0, 0);
        for &i in longer.all() {
            let i = usize::from(i);
            let (start, end) = (bounds[i] as usize, bounds[i + 1] as usize);
            let rest = &text[start..];
            let is_clause = !whole_clauses && spans::is_clause(&text[start..end]);
            let i = i as u16;
            if is_clause {
                clauses.push(i);
                if clauses.count > FEW {
                    return;
                }
                continue;
            }
            match end - start {
                length @ ..=PAIR => {
                    let key = pair_key(rest, length);
                    self.pairs.prefetch(&key);
                    pairs.push((i, key));
                }
                length @ ..=LONGEST => {
                    let key = long_key(rest, length);
                    self.longs.prefetch(&key);
                    longs.push((i, key));
                }
                _ => others.push(i),
            }
        }
    }

    /// Looks in the tables for what was not in front, after `sort_longer`, and gives to `merger`
    /// what is nowhere.
    #[inline(always)]
    pub fn look_in_tables(
        &mut self,
        text: &[u8],
        bounds: &[u32],
        ids: &mut [Packed],
        missing: &NotInFront,
        merger: &mut impl Merge,
    ) {
        let NotInFront { words, pairs, longs, others, .. } = missing;
        let piece = |i: u16| (bounds[usize::from(i)] as usize, bounds[usize::from(i) + 1] as usize);
        for &i in words.all() {
            let (start, end) = piece(i);
            self.words.prefetch(&word_key(&text[start..], end - start));
        }
        for &i in words.all() {
            let (start, end) = piece(i);
            ids[usize::from(i)] = self.word(&text[start..], end - start, merger);
        }
        for (i, key) in pairs.all() {
            let (start, end) = piece(*i);
            ids[usize::from(*i)] = self.pair(key, &text[start..end], merger);
        }
        for (i, key) in longs.all() {
            ids[usize::from(*i)] = match self.longs.get(key) {
                Some(ids) => ids,
                None => self.put_long(key, merger),
            };
        }
        for &i in others.all() {
            let (start, end) = piece(i);
            ids[usize::from(i)] = self.other(&text[start..end], merger);
        }
    }

    /// Returns the ids of a piece of up to 8 bytes, which `text` begins with, that is not in front.
    #[inline(always)]
    fn word(&mut self, text: &[u8], length: usize, merger: &mut impl Merge) -> Packed {
        let key = word_key(text, length);
        let ids = match self.words.get(&key) {
            Some(ids) if key != 0 => ids,
            _ => self.put_word(key, &text[..length], merger),
        };
        self.front[place_of_word(key)] = [key, ids.0];
        ids
    }

    /// Returns the ids of a piece of 9 to 16 bytes.
    #[inline(always)]
    fn pair(&mut self, key: &[u64; 2], piece: &[u8], merger: &mut impl Merge) -> Packed {
        match self.pairs.get(key) {
            Some(ids) if key[1] != 0 => ids,
            _ => self.put_pair(key, piece, merger),
        }
    }

    /// Returns the ids of a piece that is too long for a line.
    fn other(&mut self, piece: &[u8], merger: &mut impl Merge) -> Packed {
        if piece.len() > merge::LONG {
            return self.loose(piece, merger);
        }
        if let Some(&ids) = self.others.get(piece) {
            return ids;
        }
        self.bytes_of_others += piece.len();
        if self.bytes_of_others > MOST_BYTES {
            self.others = HashMap::new();
            self.bytes_of_others = piece.len();
        }
        let piece: Box<[u8]> = piece.into();
        let ids = self.merged(&piece, merger);
        self.others.insert(piece, ids);
        ids
    }

    /// Merges a piece that is not kept.
    fn loose(&mut self, piece: &[u8], merger: &mut impl Merge) -> Packed {
        let start = self.loose_ids.len();
        merger.merge(piece, &mut self.loose_ids);
        match Packed::of(&self.loose_ids[start..]) {
            Some(packed) => {
                self.loose_ids.truncate(start);
                packed
            }
            None => Packed::elsewhere(start, self.loose_ids.len() - start, ELSEWHERE | LOOSE),
        }
    }

    #[cold]
    fn put_word(&mut self, key: u64, piece: &[u8], merger: &mut impl Merge) -> Packed {
        if key == 0 {
            return self.loose(piece, merger);
        }
        let ids = self.merged(&bytes_of(&[key])[..length_of(key)], merger);
        self.words.put(&key, ids);
        ids
    }

    #[cold]
    fn put_pair(&mut self, key: &[u64; 2], piece: &[u8], merger: &mut impl Merge) -> Packed {
        if key[1] == 0 {
            return self.loose(piece, merger);
        }
        let ids = self.merged(&bytes_of(key)[..WORD + length_of(key[1])], merger);
        self.pairs.put(key, ids);
        ids
    }

    #[cold]
    fn put_long(&mut self, key: &LongKey, merger: &mut impl Merge) -> Packed {
        let bytes = bytes_of(key);
        let ids = self.merged(&bytes[..usize::from(bytes[LONGEST])], merger);
        self.longs.put(key, ids);
        ids
    }

    /// Merges a piece that is kept.
    fn merged(&mut self, piece: &[u8], merger: &mut impl Merge) -> Packed {
        let start = self.more_ids.len();
        merger.merge(piece, &mut self.more_ids);
        match Packed::of(&self.more_ids[start..]) {
            Some(packed) => {
                self.more_ids.truncate(start);
                packed
            }
            None => Packed::elsewhere(start, self.more_ids.len() - start, ELSEWHERE),
        }
    }

    /// Returns the ids that are elsewhere, of pieces that were looked up since `tidy`.
    #[inline]
    pub fn ids_elsewhere(&self, Packed(bits): Packed) -> &[u32] {
        let list = if bits & LOOSE == 0 { &self.more_ids } else { &self.loose_ids };
        &list[Packed(bits).place()..][..Packed(bits).count()]
    }

    /// Forgets what is in no table, and begins anew when that is full.
    #[inline]
    pub fn tidy(&mut self) {
        self.loose_ids.clear();
        self.loose_ids.shrink_to(MOST_IDS);
        if self.more_ids.len() > MOST_IDS {
            *self = Cache::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::Numbers;
    use crate::simd::{Kernel, Work};

    /// Gives ids that depend on nothing but the piece, and tells which pieces it was asked for.
    struct Merger<F> {
        ids_of: F,
        merged: Vec<Vec<u8>>,
    }

    impl<F: Fn(&[u8]) -> Vec<u32>> Merger<F> {
        fn new(ids_of: F) -> Merger<F> {
            Merger { ids_of, merged: Vec::new() }
        }
    }

    impl<F: Fn(&[u8]) -> Vec<u32>> Merge for Merger<F> {
        fn merge(&mut self, piece: &[u8], ids: &mut Vec<u32>) {
            self.merged.push(piece.to_vec());
            ids.extend((self.ids_of)(piece));
        }
    }

    /// Up to six ids, of which one in four has more than 20 bits.
    fn some_ids(piece: &[u8]) -> Vec<u32> {
        let start = piece.len() as u64;
        let hash =
            piece.iter().fold(start, |hash, &byte| mixed(hash ^ u64::from(byte)) ^ hash >> 7);
        let mut numbers = Numbers::new(hash);
        let count = numbers.below(7);
        let bits = if numbers.below(4) == 0 { 30 } else { ID_BITS };
        (0..count).map(|_| numbers.below(1 << bits) as u32).collect()
    }

    /// An id for each byte, so that those of a piece are those of its parts.
    fn ids_of_bytes(piece: &[u8]) -> Vec<u32> {
        piece.iter().map(|&byte| byte.into()).collect()
    }

    struct Look<'a, M> {
        cache: &'a mut Cache,
        merger: &'a mut M,
        pieces: &'a [Vec<u8>],
    }

    impl<M: Merge> Work for Look<'_, M> {
        type Result = Vec<Vec<u32>>;

        fn run<V: Vectors>(self, vectors: V) -> Vec<Vec<u32>> {
            let Look { cache, merger, pieces } = self;
            let text = pieces.concat();
            let mut bounds = vec![0];
            for piece in pieces {
                bounds.push(bounds[bounds.len() - 1] + piece.len() as u32);
            }
            let mut packed = vec![Packed::default(); pieces.len()];
            let mut missing = NotInFront::default();
            cache.tidy();
            cache.look_in_front(vectors, &text, &bounds, &mut packed, &mut missing);
            cache.sort_longer(&text, &bounds, true, &mut missing);
            cache.look_in_tables(&text, &bounds, &mut packed, &missing, merger);
            let ids = |packed: Packed| match packed.is_elsewhere() {
                true => cache.ids_elsewhere(packed).to_vec(),
                false => packed.inner_ids()[..packed.inner_count()].to_vec(),
            };
            packed.into_iter().map(ids).collect()
        }
    }

    /// Returns the ids of pieces, which are looked up together.
    fn look(cache: &mut Cache, merger: &mut impl Merge, pieces: &[Vec<u8>]) -> Vec<Vec<u32>> {
        Kernel::get().run(Look { cache, merger, pieces })
    }

    fn piece(numbers: &mut Numbers, letters: &[u8], most: usize) -> Vec<u8> {
        (0..1 + numbers.below(most)).map(|_| letters[numbers.below(letters.len())]).collect()
    }

    #[test]
    fn ids_are_those_of_the_piece_whatever_came_before() {
        // Of few letters, so that many differ in one byte, in their length, or in bytes of zero.
        for kernel in Kernel::all() {
            let (mut cache, mut numbers) = (Cache::default(), Numbers::new(1));
            let mut merger = Merger::new(some_ids);
            for round in 0..if cfg!(miri) { 3 } else { 300 } {
                let letters: &[u8] = [&b"a\0"[..], b"ab", b"abcdefghijkl", b"\xff\0"][round % 4];
                let most = [8, 9, 16, 17, 47, 48, 100][round % 7];
                let pieces: Vec<_> = (0..numbers.below(BATCH + 1))
                    .map(|_| piece(&mut numbers, letters, most))
                    .collect();
                let work = Look { cache: &mut cache, merger: &mut merger, pieces: &pieces };
                let expected: Vec<_> = pieces.iter().map(|piece| some_ids(piece)).collect();
                assert_eq!(kernel.run(work), expected, "{}, round {round}", kernel.name());
            }
        }
    }

    #[test]
    fn what_is_kept_is_not_merged_again() {
        let mut cache = Cache::default();
        for length in (1..=LONGEST + 2).chain([merge::LONG, merge::LONG + 1]) {
            for last in [b'x', 0] {
                let piece = [vec![b'x'; length - 1], vec![last]].concat();
                let mut merger = Merger::new(some_ids);
                let pieces = vec![piece.clone(); 3];
                for _ in 0..2 {
                    assert_eq!(look(&mut cache, &mut merger, &pieces), vec![some_ids(&piece); 3]);
                }
                // Keys of up to 16 bytes are filled up with zeros, so those that end in one have none.
                let is_kept = length <= merge::LONG && (last != 0 || length > PAIR);
                let times = if is_kept { 1 } else { 6 };
                assert_eq!(merger.merged, vec![piece; times], "{length} bytes");
            }
        }
    }

    #[test]
    fn what_is_kept_are_the_ids_of_its_key_whatever_becomes_of_the_text_meanwhile() {
        let (mut cache, mut missing) = (Cache::default(), NotInFront::default());
        let pieces: Vec<_> = [9, 16, 17, LONGEST].map(|length| vec![b'x'; length]).into();
        let text = pieces.concat();
        let mut bounds = vec![0];
        for (i, piece) in (0..).zip(&pieces) {
            bounds.push(bounds[bounds.len() - 1] + piece.len() as u32);
            missing.longer.push(i);
        }
        let (mut packed, mut merger) = ([Packed::default(); 4], Merger::new(some_ids));
        cache.sort_longer(&text, &bounds, true, &mut missing);
        let changed = vec![b'y'; text.len()];
        cache.look_in_tables(&changed, &bounds, &mut packed, &missing, &mut merger);
        cache.put_word(word_key(b"xxxxxxxx", WORD), b"", &mut merger);
        let pieces = [pieces, vec![b"xxxxxxxx".to_vec()]].concat();
        let expected: Vec<_> = pieces.iter().map(|piece| some_ids(piece)).collect();
        assert_eq!(look(&mut cache, &mut merger, &pieces), expected);
    }

    #[test]
    fn ids_that_are_not_kept_take_no_room() {
        let mut cache = Cache::default();
        let pieces: Vec<_> =
            [1, WORD, 9, PAIR, merge::LONG + 1].map(|length| vec![0; length]).into();
        let mut merger = Merger::new(|_: &[u8]| vec![7; 5]);
        assert_eq!(look(&mut cache, &mut merger, &pieces), vec![vec![7; 5]; 5]);
        assert!(cache.more_ids.is_empty());
    }

    #[test]
    fn pieces_that_want_one_place_are_told_apart() {
        let words = |place: fn(u64) -> usize| {
            let all = (0..2_000_000_u32).map(|number| format!("{number:07}").into_bytes());
            all.filter(move |piece| place(word_key(piece, 7)) == 5).take(60).collect::<Vec<_>>()
        };
        let in_front = words(place_of_word);
        let in_line = words(|key| (WordLine::hash(&key) >> (64 - WORD_BITS.0)) as usize);
        for pieces in [in_front, in_line] {
            assert_eq!(pieces.len(), 60);
            let mut cache = Cache::default();
            let mut merger = Merger::new(some_ids);
            let expected: Vec<_> = pieces.iter().map(|piece| some_ids(piece)).collect();
            for _ in 0..3 {
                assert_eq!(look(&mut cache, &mut merger, &pieces), expected);
            }
        }
    }

    fn check_full_table<L: Line>(key_of: impl Fn(u64) -> L::Key) {
        let mut table: Table<L> = Table::new((2, 5));
        let most = (1 << 5) * L::SLOTS;
        let ids = |number: u64| Packed(number * 3 + 1);
        for number in 1..2000 {
            assert_eq!(table.get(&key_of(number)), None);
            table.put(&key_of(number), ids(number));
            assert_eq!(table.get(&key_of(number)), Some(ids(number)), "what is new is there");
            assert!(table.lines.len() <= 1 << 5);
        }
        let found: Vec<_> =
            (1..2000).filter_map(|number| Some((number, table.get(&key_of(number))?))).collect();
        assert!(found.iter().all(|&(number, packed)| packed == ids(number)));
        assert_eq!((found.len(), table.used), (most, most), "what is old made room, and no more");
    }

    #[test]
    fn in_a_full_table_what_is_new_takes_the_place_of_one_other() {
        check_full_table::<WordLine>(|number| number);
        check_full_table::<PairLine>(|number| [7, number]);
        check_full_table::<LongLine>(|number| [number, 0, 0, 0, 0, 17 << 56]);
    }

    #[test]
    fn a_table_that_grows_forgets_no_ids_of_those_that_it_keeps() {
        let mut table: Table<PairLine> = Table::new((2, 12));
        let mut kept = 0;
        for number in 1..1000 {
            table.put(&[number, number], Packed(number));
        }
        for number in 1..1000 {
            if let Some(ids) = table.get(&[number, number]) {
                assert_eq!(ids, Packed(number));
                kept += 1;
            }
        }
        assert!(kept > 900 && table.used == kept, "{kept} of 999, {} used", table.used);
    }

    #[test]
    fn ids_are_in_the_number_if_they_fit() {
        let last = (1 << ID_BITS) - 1;
        for ids in [vec![], vec![0], vec![last], vec![0, 0], vec![1, last, 2], vec![last; 3]] {
            let packed = Packed::of(&ids).expect("they fit");
            assert!(!packed.is_elsewhere());
            assert_eq!((packed.count(), packed.inner_count()), (ids.len(), ids.len()));
            assert_eq!(packed.inner_ids()[..ids.len()], ids);
        }
        for ids in [vec![last + 1], vec![0, u32::MAX], vec![0; 4]] {
            assert_eq!(Packed::of(&ids), None);
        }
        let packed = Packed::elsewhere(u32::MAX as usize, (1 << 30) - 1, ELSEWHERE | LOOSE);
        assert!(packed.is_elsewhere());
        assert_eq!((packed.place(), packed.count()), (u32::MAX as usize, (1 << 30) - 1));
    }

    #[test]
    fn a_cache_of_too_many_ids_begins_anew() {
        let many = |piece: &[u8]| vec![piece[0].into(); MOST_IDS / 4];
        let mut cache = Cache::default();
        let mut merger = Merger::new(many);
        let pieces: Vec<_> = (b'a'..b'k').map(|byte| vec![byte]).collect();
        for round in 1..=3 {
            for piece in &pieces {
                assert_eq!(
                    look(&mut cache, &mut merger, std::slice::from_ref(piece)),
                    [many(piece)]
                );
            }
            assert!(cache.more_ids.len() <= MOST_IDS + MOST_IDS / 4);
            assert_eq!(merger.merged.len(), round * pieces.len(), "all were forgotten by then");
        }
    }

    #[test]
    fn the_room_of_a_long_piece_is_not_kept() {
        let mut cache = Cache::default();
        let long = vec![b'x'; 2 * MOST_IDS];
        let ids = look(&mut cache, &mut Merger::new(ids_of_bytes), std::slice::from_ref(&long));
        assert_eq!(ids, [ids_of_bytes(&long)]);
        cache.tidy();
        assert!(cache.loose_ids.is_empty() && cache.loose_ids.capacity() <= MOST_IDS);
    }
}
