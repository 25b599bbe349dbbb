//! Vocabularies: the index, the bytes and the merge of each token.
//!
//! For invalid input, and for input that is too large for the tables here, every constructor
//! returns None, and the Python engine words the error or does the work.

mod ids;
pub mod tiktoken;

use std::mem::replace;
use std::sync::Arc;

use crate::mem::growth::{append, copied, filled, push, with_room};
use crate::merge::MergeTable;
use crate::tokens::{Tokens, WholePieces};
use crate::types::TokenIndex;
use ids::IdIndex;

/// The ordinary tokens of a vocabulary, in the order of their ids, and its merges.
pub struct Vocabulary {
    pub id_of: Arc<Vec<u32>>,
    /// The merges.
    pub table: Arc<MergeTable>,
    /// The bytes of each token, if the constructor needed them.
    pub bytes_of: Option<Arc<Tokens>>,
    /// Tokens that no merge makes, or that a merge uses before another makes them; not bytes.
    pub others: Vec<TokenIndex>,
}

impl Vocabulary {
    /// Returns the vocabulary of valid merges, or None if they are too many.
    ///
    /// `bytes_of` has the ids and the bytes of the tokens that no merge makes, or of all tokens if
    /// `ignore_merges` is true. `tied` has the merges that share the rank of the merge before them,
    /// in ascending order.
    pub fn from_fields(
        byte_ids: &[u32; 256],
        bytes_of: &[(u32, &[u8])],
        pairs: &[(u32, u32)],
        made: &[u32],
        ignore_merges: bool,
        tied: &[usize],
    ) -> Option<Vocabulary> {
        let index = IdIndex::new(all_ids(byte_ids, made, bytes_of));
        let token_of_byte = index.tokens_of(byte_ids)?;
        let mut table = MergeTable::with_room(token_of_byte, index.id_of.len(), pairs.len())?;
        let mut tied = tied.iter().peekable();
        for (merge, (&(left, right), &id)) in pairs.iter().zip(made).enumerate() {
            let [left, right, made] = index.tokens_of(&[left, right, id])?;
            let is_tied = tied.next_if_eq(&&merge).is_some();
            let push = if is_tied { MergeTable::push_tied } else { MergeTable::push };
            push(&mut table, left, right, made).then_some(())?;
        }
        if ignore_merges {
            let mut tokens = Tokens::with_room(index.id_of.len());
            for &(id, bytes) in bytes_of {
                tokens.define(index.token_of(id)?, bytes).then_some(())?;
            }
            table.whole_pieces = Some(WholePieces::new(Arc::new(tokens)).0);
        }
        Some(Vocabulary {
            id_of: Arc::new(index.id_of),
            table: Arc::new(table),
            bytes_of: None,
            others: Vec::new(),
        })
    }

    /// Returns the vocabulary of a file's merges, or None if they are invalid.
    ///
    /// `others` has ids and the bytes of their tokens, in ascending order. `pairs` has the left and
    /// the right id of each merge in turn. `made` has the ids that the merges make, as runs of a
    /// first id and a length. The tokens that merges make may have `max_bytes` in all.
    pub fn from_merges(
        byte_ids: &[u32; 256],
        others: &[(u32, &[u8])],
        pairs: &[u32],
        made: &[(u32, u32)],
        ignore_merges: bool,
        max_bytes: u64,
    ) -> Option<Vocabulary> {
        let made = ids_of_runs(made, pairs.len() / 2)?;
        let index = IdIndex::new(all_ids(byte_ids, &made, others));
        let token_of_byte = index.tokens_of(byte_ids)?;
        let mut tokens = Tokens::with_room(index.id_of.len());
        for (&token, byte) in token_of_byte.iter().zip(0..=255) {
            tokens.define(token, &[byte]).then_some(())?;
        }
        let mut other_tokens = with_room(others.len());
        for &(id, bytes) in others {
            let token = index.token_of(id)?;
            tokens.define(token, bytes).then_some(())?;
            other_tokens.push(token);
        }
        let mut merges = with_room(made.len());
        let mut total = 0;
        for (pair, &id) in pairs.chunks_exact(2).zip(&made) {
            let [left, right, made] = index.tokens_of(&[pair[0], pair[1], id])?;
            let lengths = [left, right].map(|part| tokens.get(part).len() as u64);
            total += lengths[0] + lengths[1];
            if lengths.contains(&0) || total > max_bytes {
                return None;
            }
            if tokens.get(made).is_empty() {
                tokens.define_joined(made, left, right).then_some(())?;
            } else if !tokens.is_joined(made, left, right) {
                return None;
            }
            merges.push((left, right, made));
        }
        // A separate loop is faster, because the table is larger than the processor's cache.
        let mut table = MergeTable::with_room(token_of_byte, tokens.len(), merges.len())?;
        if !merges.iter().all(|&(left, right, made)| table.push(left, right, made)) {
            return None;
        }
        let tokens = Arc::new(tokens);
        let (whole_pieces, differ) = WholePieces::new(Arc::clone(&tokens));
        if !differ {
            return None;
        }
        table.whole_pieces = ignore_merges.then_some(whole_pieces);
        Some(Vocabulary {
            id_of: Arc::new(index.id_of),
            table: Arc::new(table),
            bytes_of: Some(tokens),
            others: other_tokens,
        })
    }

    /// Returns the vocabulary with more merges, or None if they are invalid or too many. They make
    /// the ids from `first_id` on, which are above all others.
    pub fn extended(&self, pairs: &[(u32, u32)], first_id: u32) -> Option<Vocabulary> {
        let made = ids_of_runs(&[(first_id, pairs.len().try_into().ok()?)], pairs.len())?;
        let old = self.id_of.len() as TokenIndex;
        self.id_of.last().is_some_and(|&last| last < first_id).then_some(())?;
        let mut merges = copied(&self.table.merges);
        for (&(left, right), made) in pairs.iter().zip(old..) {
            let part = |id: u32| match id.checked_sub(first_id) {
                Some(place) => Some(old + place).filter(|&token| token < made),
                None => self.token_of(id),
            };
            push(&mut merges, (part(left)?, part(right)?, made));
        }
        let mut id_of = copied(&self.id_of);
        append(&mut id_of, &made);
        let size = id_of.len();
        let mut table = MergeTable::with_room(self.table.token_of_byte, size, merges.len())?;
        if !merges.iter().all(|&(left, right, made)| table.push(left, right, made)) {
            return None;
        }
        let mut bytes_of = None;
        if let Some(tokens) = &self.bytes_of {
            let mut tokens = tokens.with_more(made.len());
            for &(left, right, made) in &merges[self.table.merges.len()..] {
                tokens.define_joined(made, left, right).then_some(())?;
            }
            bytes_of = Some(Arc::new(tokens));
        }
        if self.table.whole_pieces.is_some() {
            table.whole_pieces = Some(WholePieces::new(Arc::clone(bytes_of.as_ref()?)).0);
        }
        Some(Vocabulary {
            id_of: Arc::new(id_of),
            table: Arc::new(table),
            bytes_of,
            others: copied(&self.others),
        })
    }

    pub fn token_of(&self, id: u32) -> Option<TokenIndex> {
        // Without gaps, ids are indices.
        match self.id_of.get(id as usize) {
            Some(&same) if same == id => Some(id),
            _ => self.id_of.binary_search(&id).ok().map(|token| token as TokenIndex),
        }
    }

    /// Returns whether each token is a byte or the result of one merge, which joins bytes or
    /// results of merges with lower ranks.
    pub fn is_nested(&self) -> bool {
        if self.table.whole_pieces.is_some() {
            return false;
        }
        let mut is_known = filled(false, self.id_of.len());
        for &token in &self.table.token_of_byte {
            is_known[token as usize] = true;
        }
        let are_nested = self.table.merges.iter().all(|&(left, right, made)| {
            let are_known = is_known[left as usize] && is_known[right as usize];
            are_known && !replace(&mut is_known[made as usize], true)
        });
        are_nested && is_known.iter().all(|&is_known| is_known)
    }
}

/// Returns the ids of bytes, of merges and of other tokens.
fn all_ids(byte_ids: &[u32; 256], made: &[u32], others: &[(u32, &[u8])]) -> Vec<u32> {
    let mut ids = with_room(byte_ids.len() + made.len() + others.len());
    ids.extend(byte_ids.iter().chain(made).copied().chain(others.iter().map(|&(id, _)| id)));
    ids
}

/// Returns the ids of runs; None unless they are `count` ids of 32 bits.
fn ids_of_runs(runs: &[(u32, u32)], count: usize) -> Option<Vec<u32>> {
    let total: u64 = runs.iter().map(|&(_, length)| u64::from(length)).sum();
    if total != count as u64 {
        return None;
    }
    let mut ids = with_room(count);
    for &(first, length) in runs {
        let last = first.checked_add(length.checked_sub(1)?)?;
        ids.extend(first..=last);
    }
    Some(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Runs<'a> = &'a [(u32, u32)];

    fn from_merges(others: &[(u32, &[u8])], pairs: &[u32], made: Runs<'_>) -> Option<Vocabulary> {
        let byte_ids = std::array::from_fn(|byte| byte as u32);
        Vocabulary::from_merges(&byte_ids, others, pairs, made, false, 100)
    }

    fn bytes_of(vocabulary: &Vocabulary, id: u32) -> &[u8] {
        let token = vocabulary.token_of(id).unwrap();
        vocabulary.bytes_of.as_ref().unwrap().get(token)
    }

    #[test]
    fn tokens_have_the_bytes_that_merges_make() {
        let vocabulary = from_merges(
            &[(4_000_000_000, b"bc")],
            &[97, 4_000_000_000, 97, 98, 256, 99],
            &[(300, 1), (256, 1), (300, 1)],
        );
        let vocabulary = vocabulary.unwrap();
        assert_eq!(bytes_of(&vocabulary, 300), b"abc");
        assert_eq!(bytes_of(&vocabulary, 256), b"ab");
        assert_eq!(vocabulary.id_of[256..], [256, 300, 4_000_000_000]);
        assert_eq!(vocabulary.table.merges, [(97, 258, 257), (97, 98, 256), (256, 99, 257)]);
    }

    #[test]
    fn invalid_merges_make_no_vocabulary() {
        let right: [&[u32]; 2] = [&[97, 98], &[97, 98, 256, 256]];
        assert!(from_merges(&[], right[0], &[(256, 1)]).is_some());
        assert!(from_merges(&[], right[1], &[(256, 2)]).is_some());
        let wrong: [(&[u32], Runs<'_>); 10] = [
            (&[97, 256], &[(256, 1)]),                  // the merge makes its own part
            (&[97, 999], &[(256, 1)]),                  // an unknown part
            (&[97, 98, 97, 98], &[(256, 2)]),           // a pair given twice
            (&[97, 98, 97, 98], &[(256, 1), (256, 1)]), // a pair given twice, of one token
            (&[97, 98, 98, 97], &[(256, 1), (256, 1)]), // another token of the same id
            (&[97, 98], &[(98, 1)]),                    // a merge that makes a byte
            (&[97, 98], &[(256, 2)]),                   // too many ids
            (&[97, 98], &[(u32::MAX, 2), (0, u32::MAX)]), // far too many
            (&[97, 98, 98, 99], &[(u32::MAX, 2)]),      // an id above 32 bits
            (&[97, 98, 256, 99, 98, 99, 97, 258], &[(256, 4)]), // two ids of the same bytes
        ];
        for (pairs, made) in wrong {
            assert!(from_merges(&[], pairs, made).is_none(), "{pairs:?}");
        }
    }

    #[test]
    fn an_extended_vocabulary_equals_the_vocabulary_of_all_merges() {
        let base = from_merges(&[(300, b"xy")], &[97, 98], &[(256, 1)]).unwrap();
        let extended = base.extended(&[(256, 99), (300, 301)], 301).unwrap();
        let pairs = [97, 98, 256, 99, 300, 301];
        let whole = from_merges(&[(300, b"xy")], &pairs, &[(256, 1), (301, 2)]).unwrap();
        assert_eq!(extended.id_of, whole.id_of);
        assert_eq!(extended.table.merges, whole.table.merges);
        assert_eq!(extended.others, whole.others);
        assert_eq!(bytes_of(&extended, 302), b"xyabc");
        for wrong in [&[(97, 98)][..], &[(97, 999)], &[(97, 301)], &[(302, 97), (97, 99)], &[]] {
            assert!(base.extended(wrong, 301).is_none(), "{wrong:?}");
        }
        for first_id in [300, u32::MAX] {
            assert!(base.extended(&[(97, 99), (98, 99)], first_id).is_none());
        }
    }

    #[test]
    fn merges_that_double_a_token_are_bounded() {
        let pairs: Vec<u32> =
            [97, 97].into_iter().chain((256..290).flat_map(|id| [id, id])).collect();
        assert!(from_merges(&[], &pairs, &[(256, 35)]).is_none());
        assert!(from_merges(&[], &pairs[..8], &[(256, 4)]).is_some());
    }

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
        Vocabulary::from_fields(&byte_ids, others, pairs, made, ignore_merges, &[]).unwrap()
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
