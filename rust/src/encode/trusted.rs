//! A text in parts, some of them trusted: where special literals count, and which id begins each
//! part.
//!
//! Ordinary text between two literals is encoded as one text, so that its ids do not depend on the
//! parts. The bounds of its pieces tell where each part begins among the ids; inside a piece, the
//! lengths of its tokens tell it.

use std::ops::Range;

use super::batch::Job;
use super::encoder::Encoder;
use super::literals::Found;
use super::parallel::{MAX_STRETCH_BYTES, TooLongError};
use super::places::{FAR, Places, TokenLengths};
use super::sink::{Id, IdList, Sink};
use crate::cache::Cache;
use crate::interrupt::{Interrupt, Interrupted};
use crate::mem::growth::{append, push, with_room};
use crate::mem::pool::BufferPool;
use crate::simd::{Instructions, Packed};

static TEXTS: BufferPool<u8> = BufferPool::new();

pub struct PartedText {
    text: Vec<u8>,
    /// Where each part begins.
    starts: Vec<usize>,
    trusted: Vec<Range<usize>>,
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
    /// Returns an empty text with room for parts.
    pub fn with_capacity(bytes: usize, parts: usize) -> PartedText {
        let (starts, trusted) = (with_room(parts), Vec::new());
        PartedText { text: TEXTS.take(bytes), starts, trusted }
    }

    /// Adds a part in UTF-8.
    pub fn push(&mut self, part: &[u8], is_trusted: bool) {
        let start = self.text.len();
        push(&mut self.starts, start);
        append(&mut self.text, part);
        if is_trusted {
            push(&mut self.trusted, start..self.text.len());
        }
    }

    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// Gives the ids to the empty sink. Returns the index of the first id of each part, and the
    /// number of ids.
    pub fn encode<T: Id + Into<u32>>(
        &self,
        encoder: &Encoder,
        job: &mut Job<'_, '_, IdList<T>>,
    ) -> Result<Vec<u64>, Stop> {
        let literals = self.literals(encoder, job.interrupt)?;
        let mut parted = PartedIds {
            ids: &mut *job.sink,
            lengths: encoder.pieces.lengths(),
            starts: &self.starts,
            offsets: with_room(self.starts.len() + 1),
            base: 0,
            places: job.context.places.take().unwrap_or_default(),
        };
        let (context, interrupt) = (&mut *job.context, &mut *job.interrupt);
        let job = &mut Job { context: &mut *context, sink: &mut parted, interrupt };
        let mut start = 0;
        for Found { start: end, end: next, id } in literals {
            encode_segment(encoder, &self.text, start..end, job)?;
            job.sink.take(&[id]);
            job.sink.begin_parts_at(next - 1); // the parts that begin inside the literal
            start = next;
        }
        encode_segment(encoder, &self.text, start..self.len(), job)?;
        job.sink.offsets.push(job.sink.count() as u64);
        let PartedIds { offsets, places, .. } = parted;
        context.places = Some(places);
        Ok(offsets)
    }

    fn literals(
        &self,
        encoder: &Encoder,
        interrupt: &mut Interrupt<'_>,
    ) -> Result<Vec<Found>, Interrupted> {
        let mut all = Vec::new();
        let Some(literals) = &encoder.special else { return Ok(all) };
        if literals.has_plain() {
            literals.for_each_trusted(&self.text, &self.trusted, |found| {
                push(&mut all, found);
                interrupt.advance(found.end - found.start).is_ok()
            });
            interrupt.advance(self.len())?;
            return Ok(all);
        }
        for part in &self.trusted {
            literals.for_each(&self.text[part.clone()], |Found { start, end, id }| {
                let found = Found { start: part.start + start, end: part.start + end, id };
                push(&mut all, found);
                interrupt.advance(end - start).is_ok()
            });
            interrupt.advance(part.len())?;
        }
        Ok(all)
    }
}

impl Drop for PartedText {
    fn drop(&mut self) {
        TEXTS.put_back(std::mem::take(&mut self.text));
    }
}

/// Encodes a range of ordinary text of any length.
fn encode_segment<T: Id + Into<u32>>(
    encoder: &Encoder,
    text: &[u8],
    mut range: Range<usize>,
    job: &mut Job<'_, '_, PartedIds<'_, T>>,
) -> Result<(), Stop> {
    while range.len() > MAX_STRETCH_BYTES {
        let rest = &text[range.clone()];
        let split = encoder.next_safe_split(rest, MAX_STRETCH_BYTES / 2, job.interrupt);
        if split > MAX_STRETCH_BYTES {
            return Err(Stop::TooLong(TooLongError));
        }
        job.sink.base = range.start;
        encoder.encode_ordinary(&rest[..split], job)?;
        range.start += split;
    }
    job.sink.base = range.start;
    encoder.encode_ordinary(&text[range.clone()], job)?;
    job.sink.begin_parts_at(range.end);
    Ok(())
}

/// A list of ids, and the index of the first id of each part.
struct PartedIds<'a, T> {
    ids: &'a mut IdList<T>,
    lengths: &'a TokenLengths,
    /// The starts of the parts that have no index yet.
    starts: &'a [usize],
    offsets: Vec<u64>,
    /// The start of the text to which the bounds of pieces refer.
    base: usize,
    places: Box<Places>,
}

impl<T: Id + Into<u32>> PartedIds<'_, T> {
    /// Returns where the next part begins, if it begins before `end`.
    #[inline(always)]
    fn next_start(&self, end: usize) -> Option<usize> {
        self.starts.first().copied().filter(|&start| start < end)
    }

    #[inline(always)]
    fn begin_part(&mut self, index: usize) {
        self.offsets.push(index as u64);
        self.starts = &self.starts[1..];
    }

    /// Begins the parts at `end` after the ids so far.
    fn begin_parts_at(&mut self, end: usize) {
        while self.next_start(end + 1).is_some() {
            self.begin_part(self.ids.count());
        }
    }

    /// Finds the parts that begin in pieces whose ids begin at `first_id`.
    ///
    /// The search has few branches, because it is hard to predict where a part begins. It does not
    /// depend on the part before, so that a processor searches for several at a time.
    #[inline(always)]
    fn begin_parts(&mut self, packed: &[Packed], bounds: &[u32], first_id: usize) {
        let end = self.base + bounds[packed.len()] as usize;
        // The index of a token in a long piece, and where it begins.
        let mut walked = (0, 0);
        while let Some(start) = self.next_start(end) {
            let at = (start - self.base) as u32;
            let piece = self.places.piece_at(at);
            let (ids, index) = (packed[piece], first_id + self.places.ids_before[piece] as usize);
            let [first, second, ..] = ids.inner_ids().map(|id| self.lengths.in_table(id));
            if ids.is_spilled() || first == FAR || second == FAR {
                if walked.0 < index {
                    walked = (index, self.base + bounds[piece] as usize);
                }
                walked = self.lengths.first_from(start, self.ids.all(), walked);
                self.begin_part(walked.0);
                continue;
            }
            let (at, first, second) = (at - bounds[piece], u32::from(first), u32::from(second));
            let passed = [0, first, first + second].map(|end| usize::from(end < at));
            self.begin_part(index + passed.iter().sum::<usize>());
        }
    }
}

impl<T: Id + Into<u32>> Sink for PartedIds<'_, T> {
    #[inline(always)]
    fn take_packed(
        &mut self,
        isa: impl Instructions,
        packed: &[Packed],
        bounds: &[u32],
        cache: &Cache,
    ) {
        if self.next_start(self.base + bounds[packed.len()] as usize).is_none() {
            self.ids.take_packed(isa, packed, bounds, cache);
            return;
        }
        let (first_id, ids_before) = (self.ids.count(), &mut self.places.ids_before);
        let begin = |piece: usize, index: usize| ids_before[piece] = (index - first_id) as u32;
        self.ids.take_each(isa, packed, cache, begin);
        self.places.set_ends(&bounds[1..=packed.len()]);
        self.begin_parts(packed, bounds, first_id);
    }

    fn take(&mut self, ids: &[u32]) {
        self.ids.take(ids);
    }

    fn count(&self) -> usize {
        self.ids.count()
    }

    fn expect(&mut self, more: usize) {
        self.ids.expect(more);
    }

    #[inline(always)]
    fn expect_pieces(&mut self, count: usize) {
        self.ids.expect_pieces(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::examples::{all_words, encoder, encoders, plain_ids, plain_ids_of_piece};
    use crate::test_inputs::Rng;

    fn encoded(encoder: &Encoder, parts: &[(String, bool)]) -> (Vec<u32>, Vec<u64>) {
        let mut text = PartedText::with_capacity(0, 0);
        parts.iter().for_each(|(part, is_trusted)| text.push(part.as_bytes(), *is_trusted));
        let (context, interrupt) = (&mut encoder.take_context(), &mut Interrupt::never());
        let mut ids = IdList::default();
        let offsets = text.encode(encoder, &mut Job { context, sink: &mut ids, interrupt });
        (ids.into_vec(), offsets.expect("short"))
    }

    #[test]
    fn parts_of_ordinary_text_have_its_ids() {
        let (words, mut rng) = (all_words(), Rng::new(1));
        for encoder in encoders() {
            for _ in 0..if cfg!(miri) { 3 } else { 2000 } {
                // About one round in a hundred fills several batches.
                let most = if rng.below(100) == 0 { 120 } else { 9 };
                let (count, length) = (rng.below(most), 1 + rng.below(most));
                let parts: Vec<_> = (0..count).map(|_| (rng.text(&words, length), false)).collect();
                let whole: String = parts.iter().map(|(part, _)| part.as_str()).collect();
                let (ids, offsets) = encoded(&encoder, &parts);
                assert!(ids == plain_ids(&encoder, &whole, true), "{parts:?}");
                // The tokens of the first ids reach the part; without the last of them, they do
                // not.
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
        for encoder in encoders() {
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
        let encoder = encoder(Vec::new());
        for word in all_words() {
            let ids = plain_ids_of_piece(&encoder, word.as_bytes());
            let lengths = encoder.pieces.lengths();
            assert_eq!(ids.iter().map(|&id| lengths.of(id)).sum::<usize>(), word.len());
        }
    }
}
