//! The parts of one text, some of them trusted: where special literals count, and which ids begin in
//! which part.
//!
//! Ordinary text between two literals is encoded as one text, so its ids do not depend on the parts.
//! The lengths of their tokens then lead to the beginning of each part.

use std::collections::HashMap;

use super::literals::Found;
use super::parallel::{MAX_PART_BYTES, TooLongError};
use super::{Encoder, Id, IdList, Job, Sink};
use crate::interrupt::{Interrupt, Interrupted};
use crate::merge::MergeTable;

const CHUNK_IDS: usize = 8;

/// Stands for a length that is not in the table.
const FAR: u8 = u8::MAX;

/// The parts of a text.
#[derive(Default)]
pub struct PartedText {
    text: Vec<u8>,
    /// Where each part begins, and whether it is trusted.
    parts: Vec<(usize, bool)>,
}

/// Why there are no ids.
#[derive(Debug)]
pub enum Stop {
    Interrupted,
    TooLong(TooLongError),
}

impl From<Interrupted> for Stop {
    fn from(_: Interrupted) -> Stop {
        Stop::Interrupted
    }
}

impl PartedText {
    /// Returns a text without parts, with room for some.
    pub fn with_capacity(bytes: usize, parts: usize) -> PartedText {
        PartedText { text: Vec::with_capacity(bytes), parts: Vec::with_capacity(parts) }
    }

    /// Adds a part, which is UTF-8.
    pub fn push(&mut self, part: &[u8], is_trusted: bool) {
        self.parts.push((self.text.len(), is_trusted));
        self.text.extend_from_slice(part);
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// Returns the ids, the index of the first id of each part, and the number of ids.
    pub fn encode<T: Id + Into<u32>>(
        &self,
        encoder: &Encoder,
        interrupt: &mut Interrupt<'_>,
    ) -> Result<(Vec<T>, Vec<u64>), Stop> {
        let literals = self.literals(encoder, interrupt)?;
        let mut ids = IdList::within(T::pool().take(self.len() / 4 + 16));
        let mut offsets = Vec::with_capacity(self.parts.len() + 1);
        let mut context = encoder.take_context();
        let lengths = encoder.pieces.lengths();
        let mut starts = self.parts.iter().map(|&(start, _)| start).peekable();
        let mut at = 0;
        for found in literals.iter().map(Some).chain([None]) {
            let end = found.map_or(self.len(), |found| found.start);
            let mut index = ids.count();
            let job = &mut Job { context: &mut context, sink: &mut ids, interrupt };
            encode_segment(encoder, &self.text[at..end], job)?;
            let all = ids.all();
            while let Some(start) = starts.next_if(|&start| start <= end) {
                if start == end {
                    index = all.len();
                }
                (index, at) = lengths.first_from(start, all, index, at);
                offsets.push(index as u64);
            }
            if let Some(found) = found {
                ids.take(&[found.id]);
                at = found.end;
            }
        }
        encoder.put_context(context);
        offsets.push(ids.count() as u64);
        Ok((ids.into_vec(), offsets))
    }

    /// Returns the literals in trusted parts.
    fn literals(
        &self,
        encoder: &Encoder,
        interrupt: &mut Interrupt<'_>,
    ) -> Result<Vec<Found>, Interrupted> {
        let mut all = Vec::new();
        let Some(literals) = &encoder.special else { return Ok(all) };
        let ends = self.parts.iter().skip(1).map(|&(start, _)| start).chain([self.len()]);
        for (&(start, is_trusted), end) in self.parts.iter().zip(ends) {
            if is_trusted {
                literals.for_each(&self.text[start..end], |Found { start: at, end, id }| {
                    all.push(Found { start: start + at, end: start + end, id });
                    interrupt.advance(end - at).is_ok()
                });
                interrupt.advance(end - start)?;
            }
        }
        Ok(all)
    }
}

/// Encodes ordinary text of any length.
fn encode_segment<T: Id>(
    encoder: &Encoder,
    mut text: &[u8],
    job: &mut Job<'_, '_, IdList<T>>,
) -> Result<(), Stop> {
    while text.len() > MAX_PART_BYTES {
        let split = encoder.next_safe_split(text, MAX_PART_BYTES / 2, job.interrupt);
        if split > MAX_PART_BYTES {
            return Err(Stop::TooLong(TooLongError));
        }
        encoder.encode_ordinary(&text[..split], job)?;
        text = &text[split..];
    }
    Ok(encoder.encode_ordinary(text, job)?)
}

/// The lengths of tokens in bytes, by their ids.
pub struct TokenLengths {
    /// One byte for each, so that more of the table stays in the processor's cache.
    by_id: Vec<u8>,
    /// Those of ids that are too high for the table, and of tokens that are too long.
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
                far.insert(id, length);
            }
            if index < max_table {
                by_id.resize(by_id.len().max(index + 1), 0);
                by_id[index] = stored;
            }
        }
        TokenLengths { by_id, far }
    }

    /// Returns the length of the token of an id that merging gives.
    #[inline(always)]
    fn of(&self, id: impl Into<u32>) -> usize {
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

    /// Returns the index of the first id whose token begins at `start` or behind, and where it
    /// begins. The token of `ids[index]` begins at `at`.
    fn first_from<T: Id + Into<u32>>(
        &self,
        start: usize,
        ids: &[T],
        mut index: usize,
        mut at: usize,
    ) -> (usize, usize) {
        // One comparison for several tokens halves the time.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::examples::{all_words, encoder, plain_ids, plain_ids_of_piece};
    use crate::split::PATTERNS;
    use crate::test_inputs::Rng;

    fn encoded(encoder: &Encoder, parts: &[(String, bool)]) -> (Vec<u32>, Vec<u64>) {
        let mut text = PartedText::default();
        parts.iter().for_each(|(part, is_trusted)| text.push(part.as_bytes(), *is_trusted));
        text.encode(encoder, &mut Interrupt::never()).expect("short")
    }

    #[test]
    fn parts_of_ordinary_text_have_its_ids() {
        let (words, mut rng) = (all_words(), Rng::new(1));
        for pattern in PATTERNS {
            let encoder = encoder(Some(pattern));
            for _ in 0..if cfg!(miri) { 3 } else { 2000 } {
                let count = rng.below(9);
                let parts: Vec<_> = (0..count).map(|_| (rng.text(&words, 6), false)).collect();
                let whole: String = parts.iter().map(|(part, _)| part.as_str()).collect();
                let (ids, offsets) = encoded(&encoder, &parts);
                assert!(ids == plain_ids(&encoder, &whole, true), "{parts:?}");
                // The bytes of the first ids, by their lengths, reach the part; one id less do not.
                let lengths = encoder.pieces.lengths();
                let bytes = |ids: &[u32]| ids.iter().map(|&id| lengths.of(id)).sum::<usize>();
                assert_eq!(bytes(&ids), whole.len());
                let mut start = 0;
                for (offset, (part, _)) in offsets.iter().zip(&parts) {
                    let before = &ids[..*offset as usize];
                    assert!(bytes(before) >= start, "{parts:?}");
                    assert!(before.is_empty() || bytes(&before[..before.len() - 1]) < start);
                    start += part.len();
                }
                assert_eq!(offsets.last(), Some(&(ids.len() as u64)));
            }
        }
    }

    #[test]
    fn a_trusted_text_has_the_ids_of_encode() {
        let (words, mut rng) = (all_words(), Rng::new(2));
        for pattern in PATTERNS {
            let encoder = encoder(Some(pattern));
            for _ in 0..if cfg!(miri) { 3 } else { 500 } {
                let text = rng.text(&words, 40);
                let expected = plain_ids(&encoder, &text, false);
                let offsets = vec![0, 0, expected.len() as u64, expected.len() as u64];
                let parts = [String::new(), text, String::new()].map(|part| (part, true));
                assert!(encoded(&encoder, &parts) == (expected, offsets), "{parts:?}");
            }
        }
    }

    #[test]
    fn each_token_has_its_length() {
        let encoder = encoder(None);
        for word in all_words() {
            let ids = plain_ids_of_piece(&encoder, word.as_bytes());
            let lengths = encoder.pieces.lengths();
            assert_eq!(ids.iter().map(|&id| lengths.of(id)).sum::<usize>(), word.len());
        }
    }
}
