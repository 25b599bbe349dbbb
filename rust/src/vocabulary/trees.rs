//! The trees of tokens. `_merge_trees.py` says what they are, and is the specification.

use std::mem::replace;

use super::Vocabulary;
use crate::mem::growth::{filled, with_room};

impl Vocabulary {
    /// Returns whether each token is a byte or the result of one merge, whose parts are bytes or
    /// results of merges of lower rank.
    pub fn is_nested(&self) -> bool {
        if self.table.whole_pieces.is_some() {
            return false;
        }
        let mut is_known = filled(false, self.id_of.len());
        for &token in &self.token_of_byte {
            is_known[token as usize] = true;
        }
        let are_nested = self.merges.iter().all(|&(left, right, made)| {
            let are_known = is_known[left as usize] && is_known[right as usize];
            are_known && !replace(&mut is_known[made as usize], true)
        });
        are_nested && is_known.iter().all(|&is_known| is_known)
    }

    /// Returns the numbers of tokens of a text with no merge, with one, and so on; None if one is
    /// too large. The vocabulary is nested. `counts` has how often each token occurs in the text.
    pub fn tokens_by_size(&self, mut counts: Vec<u64>) -> Option<Vec<u64>> {
        let mut tokens = counts.iter().try_fold(0_u64, |sum, &count| sum.checked_add(count))?;
        let mut by_size = with_room(self.merges.len() + 1);
        by_size.push(tokens);
        // Each token is counted in whole before its parts.
        for &(left, right, made) in self.merges.iter().rev() {
            let fires = counts[made as usize];
            for part in [left, right] {
                let count = &mut counts[part as usize];
                *count = count.checked_add(fires)?;
            }
            tokens = tokens.checked_add(fires)?;
            by_size.push(tokens);
        }
        by_size.reverse();
        Some(by_size)
    }
}

#[cfg(test)]
mod tests {
    use crate::vocabulary::Vocabulary;

    fn vocabulary(pairs: &[(u32, u32)], made: &[u32]) -> Vocabulary {
        with_others(pairs, made, &[], false)
    }

    fn with_others(
        pairs: &[(u32, u32)],
        made: &[u32],
        others: &[(u32, &[u8])],
        ignore_merges: bool,
    ) -> Vocabulary {
        let byte_ids = std::array::from_fn(|byte| byte as u32);
        Vocabulary::from_fields(&byte_ids, others, pairs, made, ignore_merges).unwrap()
    }

    fn counts(tokens: &[(u32, u64)]) -> Vec<u64> {
        let mut counts = vec![0; 258];
        for &(token, count) in tokens {
            counts[token as usize] = count;
        }
        counts
    }

    #[test]
    fn a_merge_fires_in_its_tokens_and_below_others() {
        let nested = vocabulary(&[(97, 98), (256, 256)], &[256, 257]);
        assert!(nested.is_nested());
        assert_eq!(nested.tokens_by_size(counts(&[(256, 1), (257, 1)])), Some(vec![6, 3, 2]));
        assert_eq!(nested.tokens_by_size(counts(&[])), Some(vec![0, 0, 0]));
    }

    #[test]
    fn numbers_that_are_too_large_are_none() {
        let nested = vocabulary(&[(97, 98), (256, 256)], &[256, 257]);
        let most = u64::MAX / 4;
        assert!(nested.tokens_by_size(counts(&[(257, most)])).is_some());
        assert_eq!(nested.tokens_by_size(counts(&[(257, most + 1)])), None);
        assert_eq!(nested.tokens_by_size(counts(&[(97, u64::MAX), (98, 1)])), None);
    }

    #[test]
    fn other_vocabularies_are_not_nested() {
        let [ab, abc] = [(97, 98), (256, 99)];
        assert!(vocabulary(&[ab, abc], &[256, 257]).is_nested());
        assert!(!vocabulary(&[abc, ab], &[257, 256]).is_nested());
        assert!(!vocabulary(&[ab, (256, 99), (97, 257)], &[256, 257, 257]).is_nested());
        assert!(with_others(&[ab], &[256], &[], false).is_nested());
        assert!(!with_others(&[ab], &[256], &[(300, b"xy")], false).is_nested());
        assert!(!with_others(&[ab], &[256], &[(256, b"ab")], true).is_nested());
    }
}
