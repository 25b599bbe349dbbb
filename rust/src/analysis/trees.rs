//! The trees of tokens. `analysis/_merge_trees.py` says what they are, and is the specification.

use crate::mem::growth::with_room;
use crate::vocabulary::Vocabulary;

impl Vocabulary {
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
        let byte_ids = std::array::from_fn(|byte| byte as u32);
        Vocabulary::from_fields(&byte_ids, &[], pairs, made, false).unwrap()
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
}
