//! Counts of ids, for `bpetite.analysis`.

use std::collections::BTreeMap;

use crate::decode::Integer;
use crate::mem::growth::lengthen;

/// Ids below this limit are counted in a list, because few vocabularies have higher ids.
const LOW_IDS: usize = 1 << 20;

/// How often each id occurs.
#[derive(Default)]
pub struct IdCounts {
    low: Vec<u64>,
    high: BTreeMap<u64, u64>,
}

impl IdCounts {
    pub fn add(&mut self, ids: &[impl Integer]) {
        let highest = ids.iter().map(Integer::value).max().unwrap_or(0);
        lengthen(&mut self.low, LOW_IDS.min(highest as usize + 1), 0);
        let (low, high) = (&mut self.low[..], &mut self.high);
        for id in ids.iter().map(Integer::value) {
            match low.get_mut(id as usize) {
                Some(count) => *count += 1,
                None => *high.entry(id).or_default() += 1,
            }
        }
    }

    /// Returns each id that occurs, in ascending order, and its count.
    pub fn all(&self) -> impl Iterator<Item = (u64, u64)> {
        let low = (0..).zip(self.low.iter().copied()).filter(|&(_, count)| count > 0);
        low.chain(self.high.iter().map(|(&id, &count)| (id, count)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn low_and_high_ids_are_counted_in_ascending_order() {
        let mut counts = IdCounts::default();
        let ids = [[7, u32::MAX, 7], [1 << 20, (1 << 20) - 1, u32::MAX]];
        ids.iter().for_each(|ids| counts.add(&ids.map(AtomicU32::new)));
        let expected = [(7, 2), ((1 << 20) - 1, 1), (1 << 20, 1), (u64::from(u32::MAX), 2)];
        assert!(counts.all().eq(expected));
    }
}
