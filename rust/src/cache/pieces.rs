//! The cache, one piece at a time.

use std::collections::HashMap;

use super::keys::{piece_of, word_key};
use super::table::{BITS_8, BITS_16, BITS_47, Table, Table8, Table16, Table47};
use crate::mem::growth::{append as extend, filled, granted};
use crate::simd::{Packed, TRANSIENT, WORD_TABLE_BITS, WordTable, slot_of_word};
use crate::types::MAX_CACHED_PIECE;

/// The most bytes of pieces in the map.
const MAX_LONGER_BYTES: usize = 1 << 20;

/// If it has more spilled ids (8 MB), the cache begins anew.
pub const MAX_SPILLED_IDS: usize = 1 << 21;

pub struct Cache {
    pub(super) first_level: Box<WordTable>,
    pub(super) table8: Table8,
    pub(super) table16: Table16,
    pub(super) table47: Table47,
    /// Pieces of up to 1,024 bytes without a key, such as lines of dashes, which are few but slow
    /// to merge. The map hashes with random seeds, so nobody can choose pieces that collide.
    longer: HashMap<Box<[u8]>, Packed>,
    longer_bytes: usize,
    /// Ids of cached pieces that do not fit a `Packed`.
    pub(super) spilled_ids: Vec<u32>,
    /// Ids of pieces of this batch that are not cached.
    pub(super) transient_ids: Vec<u32>,
}

impl Default for Cache {
    fn default() -> Cache {
        let first_level = filled([0; 2], 1 << WORD_TABLE_BITS).into_boxed_slice();
        Cache {
            first_level: first_level.try_into().unwrap_or_else(|_| unreachable!("equal lengths")),
            table8: Table8::new(BITS_8),
            table16: Table16::new(BITS_16),
            table47: Table47::new(BITS_47),
            longer: HashMap::new(),
            longer_bytes: 0,
            spilled_ids: Vec::new(),
            transient_ids: Vec::new(),
        }
    }
}

/// Merges pieces that are not in the cache.
pub trait MergePiece {
    /// Appends the ids of a piece. An interrupt may cut them short only if the piece has more than
    /// `MAX_CACHED_PIECE` bytes.
    fn merge(&mut self, piece: &[u8], ids: &mut Vec<u32>);
}

impl Cache {
    /// Returns the ids of the piece of up to 8 bytes at the start of `text`, and puts it into the
    /// first level.
    #[inline(always)]
    pub(super) fn word(
        &mut self,
        text: &[u8],
        length: usize,
        merger: &mut impl MergePiece,
    ) -> Packed {
        let key = word_key(text, length);
        let ids = match self.table8.get(&[key]) {
            _ if key == 0 => self.transient(&text[..length], merger),
            Some(ids) => ids,
            None => self.put(|cache| &mut cache.table8, &[key], merger),
        };
        self.first_level[slot_of_word(key)] = [key, ids.0];
        ids
    }

    /// Returns the ids of a piece without a key.
    pub(super) fn longer(&mut self, piece: &[u8], merger: &mut impl MergePiece) -> Packed {
        if piece.len() > MAX_CACHED_PIECE {
            return self.transient(piece, merger);
        }
        if let Some(&ids) = self.longer.get(piece) {
            return ids;
        }
        self.longer_bytes += piece.len();
        if self.longer_bytes > MAX_LONGER_BYTES {
            self.longer = HashMap::new();
            self.longer_bytes = piece.len();
        }
        granted(self.longer.try_reserve(1));
        let piece: Box<[u8]> = piece.into();
        let ids = append(&mut self.spilled_ids, 0, &piece, merger);
        self.longer.insert(piece, ids);
        ids
    }

    /// Merges a piece, and puts it into a table.
    ///
    /// The piece is read from its key, because another thread may change the text: then wrong ids
    /// affect only this call, and never get into the cache.
    #[cold]
    pub(super) fn put<const WORDS: usize, const SLOTS: usize>(
        &mut self,
        table: fn(&mut Cache) -> &mut Table<WORDS, SLOTS>,
        key: &[u64; WORDS],
        merger: &mut impl MergePiece,
    ) -> Packed {
        let (piece, length) = piece_of(key);
        let ids = append(&mut self.spilled_ids, 0, &piece[..length], merger);
        table(self).put(key, ids);
        ids
    }

    /// Merges a piece that is not cached.
    #[cold]
    pub(super) fn transient(&mut self, piece: &[u8], merger: &mut impl MergePiece) -> Packed {
        append(&mut self.transient_ids, TRANSIENT, piece, merger)
    }

    /// Keeps ids until the next batch.
    #[inline(always)]
    pub fn keep(&mut self, ids: &[u32]) -> Packed {
        Packed::of(ids).unwrap_or_else(|| {
            let start = self.transient_ids.len();
            extend(&mut self.transient_ids, ids);
            Packed::spilled(start, ids.len(), TRANSIENT)
        })
    }

    /// Returns the spilled ids of a piece of this batch.
    #[inline]
    pub fn spilled(&self, packed: Packed) -> &[u32] {
        let is_transient = packed.0 & TRANSIENT != 0;
        let list = if is_transient { &self.transient_ids } else { &self.spilled_ids };
        &list[packed.offset()..][..packed.count()]
    }

    /// Returns the first and the last id of a piece of this batch; 0 if it has none.
    #[inline(always)]
    pub fn ends(&self, packed: Packed) -> (u32, u32) {
        if !packed.is_spilled() {
            return packed.inner_ends();
        }
        match *self.spilled(packed) {
            [only] => (only, only),
            [first, .., last] => (first, last),
            [] => (0, 0),
        }
    }

    /// Returns whether a condition holds for each id of a piece of this batch.
    #[inline(always)]
    pub fn all_ids(&self, packed: Packed, mut holds: impl FnMut(u32) -> bool) -> bool {
        if packed.is_spilled() {
            return self.spilled(packed).iter().all(|&id| holds(id));
        }
        packed.inner_ids()[..packed.inner_count()].iter().all(|&id| holds(id))
    }

    /// Drops the transient ids, and all pieces if there are too many spilled ids.
    #[inline]
    pub fn begin_batch(&mut self) {
        self.transient_ids.clear();
        self.transient_ids.shrink_to(MAX_SPILLED_IDS);
        if self.spilled_ids.len() > MAX_SPILLED_IDS {
            *self = Cache::default();
        }
    }
}

/// Merges a piece. Its ids stay in the list only if they do not fit a `Packed`.
fn append(ids: &mut Vec<u32>, flags: u64, piece: &[u8], merger: &mut impl MergePiece) -> Packed {
    let start = ids.len();
    merger.merge(piece, ids);
    match Packed::of(&ids[start..]) {
        Some(packed) => {
            ids.truncate(start);
            packed
        }
        None => Packed::spilled(start, ids.len() - start, flags),
    }
}
