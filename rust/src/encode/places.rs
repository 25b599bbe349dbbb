//! Where the parts of a text begin among its ids, by the ends of pieces and the lengths of tokens.

use std::collections::HashMap;

use super::sink::Id;
use crate::mem::growth::{granted, lengthen};
use crate::merge::MergeTable;
use crate::types::BATCH;

const CHUNK_IDS: usize = 8;

/// Marks a length that is not in the table.
pub const FAR: u8 = u8::MAX;

/// Where the pieces of a batch end, and which ids they have.
pub struct Places {
    ends: [u32; BATCH + GROUP],
    /// The end of each full group of pieces.
    group_ends: [u32; BATCH / GROUP],
    /// How many ids of the batch come before each piece.
    pub ids_before: [u32; BATCH],
}

/// The number of ends that are compared with a position at once.
const GROUP: usize = 16;

impl Default for Places {
    fn default() -> Places {
        Places { ends: [0; BATCH + GROUP], group_ends: [0; BATCH / GROUP], ids_before: [0; BATCH] }
    }
}

impl Places {
    /// Sets the ends of pieces, and after them ends that no position reaches.
    #[inline(always)]
    pub fn set_ends(&mut self, ends: &[u32]) {
        self.ends[..ends.len()].copy_from_slice(ends);
        self.ends[ends.len()..][..GROUP].fill(u32::MAX >> 1);
        let full = ends.len() / GROUP;
        for (group_end, ends) in self.group_ends.iter_mut().zip(ends.chunks_exact(GROUP)) {
            *group_end = ends[GROUP - 1];
        }
        self.group_ends[full..].fill(u32::MAX >> 1);
    }

    /// Returns the first piece that ends after a position.
    #[inline(always)]
    pub fn piece_at(&self, at: u32) -> usize {
        let first = GROUP * count_until(at, &self.group_ends);
        match self.ends[first..].first_chunk::<GROUP>() {
            Some(ends) => first + count_until(at, ends),
            None => first,
        }
    }
}

/// Returns how many of the ends are at or before a position.
#[inline(always)]
fn count_until<const COUNT: usize>(at: u32, ends: &[u32; COUNT]) -> usize {
    ends.iter().map(|end| end.wrapping_sub(at + 1) >> 31).sum::<u32>() as usize
}

/// The lengths of tokens in bytes, by their ids.
pub struct TokenLengths {
    /// Each has one byte, so that more of the table stays in the processor's cache.
    by_id: Vec<u8>,
    /// The lengths for ids that are too high for the table, and of tokens that are too long.
    far: HashMap<u32, u32>,
}

impl TokenLengths {
    pub fn new(merges: &MergeTable, id_of: &[u32]) -> TokenLengths {
        let max_table = 2 * id_of.len() + 1024;
        let (mut by_id, mut far) = (Vec::new(), HashMap::new());
        for (&id, length) in id_of.iter().zip(merges.lengths(id_of.len())) {
            let index = id as usize;
            let stored = u8::try_from(length).unwrap_or(FAR);
            if index >= max_table || stored == FAR {
                granted(far.try_reserve(1));
                far.insert(id, length);
            }
            if index < max_table {
                lengthen(&mut by_id, index + 1, 0);
                by_id[index] = stored;
            }
        }
        TokenLengths { by_id, far }
    }

    /// Returns the length of the token of an id, or `FAR`.
    #[inline(always)]
    pub fn in_table(&self, id: u32) -> u8 {
        self.by_id.get(id as usize).copied().unwrap_or(FAR)
    }

    /// Returns the length of the token of an id that merging gives.
    #[inline(always)]
    pub fn of(&self, id: impl Into<u32>) -> usize {
        let id = id.into();
        match self.by_id.get(id as usize) {
            Some(&length) if length != FAR => length.into(),
            _ => self.far_of(id),
        }
    }

    #[cold]
    fn far_of(&self, id: u32) -> usize {
        self.far.get(&id).map_or(0, |&length| length as usize)
    }

    /// Returns the index of the first id whose token begins at `start` or later, and where it
    /// begins. The search starts at `ids[index]`, whose token begins at `at`.
    pub fn first_from<T: Id + Into<u32>>(
        &self,
        start: usize,
        ids: &[T],
        (mut index, mut at): (usize, usize),
    ) -> (usize, usize) {
        // Comparing once for several tokens halves the time.
        while let Some(chunk) = ids.get(index..index + CHUNK_IDS) {
            let end = at + chunk.iter().map(|&id| self.of(id)).sum::<usize>();
            if end >= start {
                break;
            }
            (index, at) = (index + CHUNK_IDS, end);
        }
        while at < start && index < ids.len() {
            at += self.of(ids[index]);
            index += 1;
        }
        (index, at)
    }
}
