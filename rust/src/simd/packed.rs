//! The ids of a piece in 64 bits.

/// The size of each id in a number, and where their count begins.
pub const ID_BITS: u32 = 20;
pub const COUNT_SHIFT: u32 = 3 * ID_BITS;

/// The ids of a piece as one number: up to three ids of 20 bits and their count, or the offset and
/// the count of ids that are spilled into a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Packed(pub u64);

const MAX_INNER_IDS: usize = 3;
pub const SPILLED: u64 = 1 << 63;
/// The list is valid only until the next batch.
pub const TRANSIENT: u64 = 1 << 62;

impl Packed {
    /// Returns ids as one number, if they fit.
    #[inline]
    pub fn of(ids: &[u32]) -> Option<Packed> {
        if ids.len() > MAX_INNER_IDS || ids.iter().any(|&id| id >> ID_BITS != 0) {
            return None;
        }
        let bits = ids.iter().rev().fold(0, |bits, &id| bits << ID_BITS | u64::from(id));
        Some(Packed((ids.len() as u64) << COUNT_SHIFT | bits))
    }

    /// Refers to ids in a list. Offset and count fit, because texts are shorter than 1 GiB, and a
    /// list has at most the ids of one text and the ids of the bounded cache.
    pub fn spilled(offset: usize, count: usize, flags: u64) -> Packed {
        Packed(SPILLED | flags | (count as u64) << 32 | offset as u64)
    }

    /// Returns the offset of spilled ids in their list.
    pub fn offset(self) -> usize {
        self.0 as u32 as usize
    }

    #[inline(always)]
    pub fn is_spilled(self) -> bool {
        self.0 & SPILLED != 0
    }

    #[inline(always)]
    pub fn count(self) -> usize {
        if self.is_spilled() { (self.0 >> 32) as usize & 0x3FFF_FFFF } else { self.inner_count() }
    }

    /// Returns how many ids are in the number itself; they must not be spilled.
    #[inline(always)]
    pub fn inner_count(self) -> usize {
        (self.0 >> COUNT_SHIFT) as usize
    }

    /// Returns the id if there is only one, and it is in the number.
    #[inline(always)]
    pub fn only_id(self) -> Option<u32> {
        let id = self.0 ^ 1 << COUNT_SHIFT;
        (id >> ID_BITS == 0).then_some(id as u32)
    }

    /// Returns the first and the last of the ids in the number; 0 if it has none.
    #[inline(always)]
    pub fn inner_ends(self) -> (u32, u32) {
        const MASK: u64 = (1 << ID_BITS) - 1;
        let last = self.0 >> (ID_BITS * (self.inner_count() as u32).saturating_sub(1));
        ((self.0 & MASK) as u32, (last & MASK) as u32)
    }

    /// Returns the ids in the number; the items after them are arbitrary.
    #[inline(always)]
    pub fn inner_ids(self) -> [u32; 4] {
        const MASK: u32 = (1 << ID_BITS) - 1;
        // Four shifts of one number are a single instruction.
        [0, 1, 2, 3].map(|i| (self.0 >> (i * ID_BITS)) as u32 & MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_fit_are_in_the_number() {
        let last = (1 << ID_BITS) - 1;
        for ids in [vec![], vec![0], vec![last], vec![0, 0], vec![1, last, 2], vec![last; 3]] {
            let packed = Packed::of(&ids).expect("they fit");
            assert!(!packed.is_spilled());
            assert_eq!((packed.count(), packed.inner_count()), (ids.len(), ids.len()));
            assert_eq!(packed.inner_ids()[..ids.len()], ids);
            let ends = ids.first().copied().zip(ids.last().copied());
            assert!(ends.is_none_or(|ends| packed.inner_ends() == ends));
        }
        for ids in [vec![last + 1], vec![0, u32::MAX], vec![0; 4]] {
            assert_eq!(Packed::of(&ids), None);
        }
        let packed = Packed::spilled(u32::MAX as usize, (1 << 30) - 1, TRANSIENT);
        assert!(packed.is_spilled());
        assert_eq!((packed.offset(), packed.count()), (u32::MAX as usize, (1 << 30) - 1));
    }
}
