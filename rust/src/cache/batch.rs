//! Looking up the pieces of a batch together.
//!
//! The search for one piece mostly waits for memory. So all pieces of a batch, up to 512, go
//! through one stage before the next stage begins, and each stage prefetches the memory that the
//! next one reads:
//!
//! ```text
//! stage                 per piece                                          reads
//!
//! look_up_first_level   up to 8 bytes ──► slot of its word ── found ──►    first level,
//!   8 pieces at a time       │                 └─ missing ──► words        256 KB
//!                       more than 8 ───────────────────────► longer
//!
//! sort_longer           CJK run ───────────────────────────► cjk_runs      the text;
//!   one list for each   9 to 16 bytes ──► key, prefetch ───► keys16        prefetches
//!   length              17 to 47 bytes ─► key, prefetch ───► keys47        lines
//!                       others without a key ──────────────► others
//!
//! look_up_tables        words    prefetch all, then look up each           Table8
//!   list by list        keys16   look up each                              Table16
//!                       keys47   look up each                              Table47
//!                       others   look up each                              a map
//!                                  ├─ found ──►
//!                                  └─ missing ──► merge, and cache ──►
//! ```
//!
//! The arrows without a target lead to `ids[i]`, where `i` is the number of the piece in the batch.
//! For ` the`, ` internationally`, ` 中文中日`, ` cat`, where ` cat` is new, the lists are
//!
//! ```text
//! piece     0 ` the`   1 ` internationally`   2 ` 中文中日`   3 ` cat`
//! lists     words [3]  longer [1, 2]          keys16 [1]      cjk_runs [2]
//! ```
//!
//! The caller splits CJK runs, if the vocabulary allows it, and looks their parts up as a batch.

use super::keys::{Key47, MAX_BYTES_16, MAX_BYTES_47, key16, key47, word_key};
use super::pieces::{Cache, MergePiece};
use crate::merge::cjk;
use crate::simd::{Instructions, Packed};
use crate::types::{BATCH, WORD_BYTES};

/// If a batch has more CJK runs, all of its pieces are looked up in parts.
pub const MAX_FEW_CJK_RUNS: usize = 16;

/// The pieces of a batch that are not in the first level, by their numbers in the batch.
#[derive(Default)]
pub struct Misses {
    words: List<u16>,
    pub(super) longer: List<u16>,
    /// The CJK runs that `sort_longer` has found.
    pub cjk_runs: List<u16>,
    keys16: List<(u16, [u64; 2])>,
    keys47: List<(u16, Key47)>,
    others: List<u16>,
}

pub struct List<T> {
    /// Room for a batch, and for eight items that are written at once.
    items: [T; BATCH + 8],
    count: usize,
}

impl List<u16> {
    /// Appends `first` plus the index of each set bit.
    #[inline(always)]
    fn push_eight(&mut self, isa: impl Instructions, bits: u8, first: u16) {
        if let Some(room) = self.items[self.count & (BATCH - 1)..].first_chunk_mut() {
            isa.write_indices(bits, first, room);
        }
        self.count += bits.count_ones() as usize;
    }
}

impl<T: Copy + Default> Default for List<T> {
    fn default() -> List<T> {
        List { items: [T::default(); BATCH + 8], count: 0 }
    }
}

impl<T: Copy> List<T> {
    /// Appends an item, for which a batch always has room.
    #[inline(always)]
    pub fn push(&mut self, item: T) {
        self.push_if(true, item);
    }

    /// Appends an item if `condition` holds, without a branch.
    #[inline(always)]
    fn push_if(&mut self, condition: bool, item: T) {
        self.items[self.count & (BATCH - 1)] = item;
        self.count += usize::from(condition);
    }

    #[inline(always)]
    pub fn all(&self) -> &[T] {
        &self.items[..self.count]
    }
}

impl Misses {
    pub fn clear(&mut self) {
        self.words.count = 0;
        self.longer.count = 0;
    }

    /// Adds a piece, without a branch.
    #[inline(always)]
    pub fn push(&mut self, i: u16, length: u32) {
        let is_longer = length > WORD_BYTES as u32;
        self.words.push_if(!is_longer, i);
        self.longer.push_if(is_longer, i);
    }
}

impl Cache {
    /// Looks up each piece of a batch, `text[bounds[i]..bounds[i + 1]]`, in the first level.
    ///
    /// No branch depends on the pieces, because none could be predicted.
    #[inline(always)]
    pub fn look_up_first_level(
        &self,
        isa: impl Instructions,
        text: &[u8],
        bounds: &[u32],
        ids: &mut [Packed],
        misses: &mut Misses,
    ) {
        const EIGHT: usize = 8;
        let count = bounds.len() - 1;
        misses.clear();
        let mut done = 0;
        for ids in ids.as_chunks_mut::<EIGHT>().0 {
            let Some(bounds) = bounds[done..].first_chunk::<{ EIGHT + 1 }>() else { break };
            let Some(found) = isa.find_pieces(text, bounds, &self.first_level, ids) else { break };
            misses.words.push_eight(isa, found.missing, done as u16);
            misses.longer.push_eight(isa, found.longer, done as u16);
            done += EIGHT;
        }
        for i in done..count {
            misses.push(i as u16, bounds[i + 1] - bounds[i]);
        }
    }

    /// Sorts the longer pieces of a batch by length, and prefetches their lines. CJK runs are
    /// listed apart, unless they are looked up whole; after too many of them it returns early.
    #[inline(always)]
    pub fn sort_longer(
        &self,
        text: &[u8],
        bounds: &[u32],
        whole_cjk_runs: bool,
        misses: &mut Misses,
    ) {
        let Misses { longer, cjk_runs, keys16, keys47, others, .. } = misses;
        (cjk_runs.count, keys16.count, keys47.count, others.count) = (0, 0, 0, 0);
        for &i in longer.all() {
            let (start, end) = piece_bounds(bounds, i);
            if !whole_cjk_runs && cjk::is_cjk_run(&text[start..end]) {
                cjk_runs.push(i);
                if cjk_runs.count > MAX_FEW_CJK_RUNS {
                    return;
                }
                continue;
            }
            let rest = &text[start..];
            match end - start {
                length @ ..=MAX_BYTES_16 => match key16(rest, length) {
                    [_, 0] => others.push(i),
                    key => {
                        self.table16.prefetch(&key);
                        keys16.push((i, key));
                    }
                },
                length @ ..=MAX_BYTES_47 => {
                    let key = key47(rest, length);
                    self.table47.prefetch(&key);
                    keys47.push((i, key));
                }
                _ => others.push(i),
            }
        }
    }

    /// Looks up the pieces that the first level lacks in the tables, after `sort_longer`. Pieces
    /// that are in no table are merged.
    #[inline(always)]
    pub fn look_up_tables(
        &mut self,
        text: &[u8],
        bounds: &[u32],
        ids: &mut [Packed],
        misses: &Misses,
        merger: &mut impl MergePiece,
    ) {
        let Misses { words, keys16, keys47, others, .. } = misses;
        for &i in words.all() {
            let (start, end) = piece_bounds(bounds, i);
            self.table8.prefetch(&[word_key(&text[start..], end - start)]);
        }
        for &i in words.all() {
            let (start, end) = piece_bounds(bounds, i);
            ids[usize::from(i)] = self.word(&text[start..], end - start, merger);
        }
        for &(i, ref key) in keys16.all() {
            ids[usize::from(i)] = match self.table16.get(key) {
                Some(ids) => ids,
                None => self.put(|cache| &mut cache.table16, key, merger),
            };
        }
        for &(i, ref key) in keys47.all() {
            ids[usize::from(i)] = match self.table47.get(key) {
                Some(ids) => ids,
                None => self.put(|cache| &mut cache.table47, key, merger),
            };
        }
        for &i in others.all() {
            let (start, end) = piece_bounds(bounds, i);
            ids[usize::from(i)] = self.longer(&text[start..end], merger);
        }
    }
}

#[inline(always)]
fn piece_bounds(bounds: &[u32], i: u16) -> (usize, usize) {
    (bounds[usize::from(i)] as usize, bounds[usize::from(i) + 1] as usize)
}
