//! Encoding long texts, and many texts, on several threads. The ids and their order are the same
//! for any number of threads.
//!
//! Texts are divided into stretches, after special literals and at the safe splits that
//! `Encoder::next_safe_split` finds.

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::batch::{Context, Job};
use super::encoder::Encoder;
use super::sink::{Id, IdList, Sink};
use crate::cache::Cache;
use crate::interrupt::Interrupt;
use crate::mem::growth::{
    THREAD_BYTES, append, collected, granted, has_room, lengthen, push, with_room,
};
use crate::simd::{Instructions, Packed};

/// The length of a stretch, which is worth waking a thread.
const STRETCH_BYTES: usize = 1 << 18;

/// For interrupts, dividing off a stretch counts as work on this many bytes.
const STRETCH_COST_BYTES: usize = 64;

/// The longest stretch of a text.
pub const MAX_STRETCH_BYTES: usize = (1 << 30) - 1;

/// A text has more than `MAX_STRETCH_BYTES` without a safe split.
#[derive(Debug)]
pub struct TooLongError;

/// The most bytes of short stretches that are encoded together, so that batches span them.
const RUN_BYTES: usize = 1 << 16;

/// The ids before and after the ids of each text.
#[derive(Clone, Copy, Default)]
pub struct Frame<'a> {
    pub prefix: &'a [u32],
    pub suffix: &'a [u32],
}

#[derive(Clone, Copy)]
pub struct Texts<'a> {
    pub texts: &'a [&'a [u8]],
    /// A buffer in which the texts may be adjacent. Then they are not copied.
    pub buffer: &'a [u8],
}

impl<'a> From<&'a [&'a [u8]]> for Texts<'a> {
    fn from(texts: &'a [&'a [u8]]) -> Texts<'a> {
        Texts { texts, buffer: &[] }
    }
}

/// A stretch of a text, and the special token after it, if there is one.
struct Stretch<'a> {
    bytes: &'a [u8],
    special: Option<u32>,
    /// Whether the text ends here.
    is_last: bool,
}

/// Returns the ids of all texts, and the offsets of each text's first id and of the end. An
/// interrupt leaves the ids incomplete.
pub fn encode_all<T: Id>(
    encoder: &Encoder,
    Texts { texts, buffer }: Texts<'_>,
    ordinary: bool,
    frame: Frame<'_>,
    threads: usize,
    interrupt: &mut Interrupt<'_>,
) -> Result<(Vec<T>, Vec<u64>), TooLongError> {
    let (stretches, groups) = divided(encoder, texts, ordinary, threads, interrupt)?;
    let results: Vec<OnceLock<(Vec<T>, Vec<u64>)>> =
        collected(groups.iter().map(|_| OnceLock::new()));
    for_each(encoder, groups.len(), threads, interrupt, |number, context, interrupt| {
        let group = groups[number].clone();
        let bytes = length_of(&stretches[group.clone()]);
        let ids = if groups.len() == 1 {
            T::pool().take(bytes / 4 + 16)
        } else {
            with_room(bytes.min(STRETCH_BYTES) / 4 + 16)
        };
        let mut sink = GroupSink::new(IdList::within(ids), &stretches, group, frame);
        encode_group(encoder, buffer, &mut Job { context, sink: &mut sink, interrupt });
        let _ = results[number].set((sink.ids.into_vec(), sink.offsets));
    });

    let mut results = results.into_iter().map(OnceLock::into_inner);
    let (mut all, mut offsets) = (Vec::new(), vec![0]);
    if groups.len() == 1 {
        (all, offsets) = results.next().flatten().unwrap_or_default();
    } else if interrupt.check().is_ok() {
        all = T::pool().take(length_of(&stretches) / 4);
        granted(offsets.try_reserve_exact(texts.len()));
    }
    for result in results {
        let (Ok(()), Some((ids, ends))) = (interrupt.check(), result) else { break };
        granted(offsets.try_reserve(ends.len()));
        offsets.extend(ends[1..].iter().map(|end| all.len() as u64 + end));
        append(&mut all, &ids);
    }
    // An interrupt leaves fewer offsets.
    lengthen(&mut offsets, texts.len() + 1, all.len() as u64);
    Ok((all, offsets))
}

/// Divides texts into stretches, and the stretches into groups that threads encode.
fn divided<'a>(
    encoder: &Encoder,
    texts: &[&'a [u8]],
    ordinary: bool,
    threads: usize,
    interrupt: &mut Interrupt<'_>,
) -> Result<(Vec<Stretch<'a>>, Vec<Range<usize>>), TooLongError> {
    let max_bytes = if threads > 1 { STRETCH_BYTES } else { MAX_STRETCH_BYTES / 2 };
    let stretches = stretches_of(encoder, texts, ordinary, max_bytes, interrupt);
    if stretches.iter().any(|stretch| stretch.bytes.len() > MAX_STRETCH_BYTES) {
        return Err(TooLongError);
    }
    // A thread encodes short stretches group by group.
    let groups = groups_of(&stretches, if threads > 1 { STRETCH_BYTES } else { usize::MAX });
    Ok((stretches, groups))
}

/// Calls `encode` with each number below `count`, on several threads, until an interrupt.
///
/// The calling thread takes part in the work, and checks for interrupts.
fn for_each(
    encoder: &Encoder,
    count: usize,
    threads: usize,
    interrupt: &mut Interrupt<'_>,
    encode: impl Fn(usize, &mut Context, &mut Interrupt<'_>) + Sync,
) {
    let stop = AtomicBool::new(false);
    let next = AtomicUsize::new(0);
    let work = |interrupt: &mut Interrupt<'_>| {
        let mut context = encoder.take_context();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                break;
            }
            encode(number, &mut context, interrupt);
            if stop.load(Ordering::Relaxed) || interrupt.check().is_err() {
                stop.store(true, Ordering::Relaxed);
                break;
            }
        }
        encoder.put_context(context);
    };
    std::thread::scope(|scope| {
        let mut others = with_room(threads.min(count));
        for _ in 1..threads.min(count) {
            // If the system has no more threads or memory, the other threads do the work.
            if !has_room(THREAD_BYTES) {
                break;
            }
            others.extend(std::thread::Builder::new().spawn_scoped(scope, || {
                work(&mut Interrupt::new(&mut || stop.load(Ordering::Relaxed)));
            }));
        }
        work(&mut Interrupt::new(&mut || {
            let is_interrupted = interrupt.check().is_err();
            if is_interrupted {
                stop.store(true, Ordering::Relaxed);
            }
            is_interrupted
        }));
        // Without this, the scope would unwind with its own reason instead of the thread's.
        for thread in others {
            thread.join().unwrap_or_else(|reason| resume_unwind(reason));
        }
    });
}

/// Takes the ids of a group of stretches.
struct GroupSink<'a, S> {
    ids: S,
    /// 0, and the end of each text's ids.
    offsets: Vec<u64>,
    frame: Frame<'a>,
    /// The stretches of the group whose end is not reached yet.
    stretches: &'a [Stretch<'a>],
    /// The end of the first of these stretches, in the bytes that are encoded.
    end: usize,
}

impl<'a, S: Sink> GroupSink<'a, S> {
    fn new(
        mut ids: S,
        all: &'a [Stretch<'a>],
        group: Range<usize>,
        frame: Frame<'a>,
    ) -> GroupSink<'a, S> {
        let begins_text = group.start == 0 || all[group.start - 1].is_last;
        ids.take(if begins_text { frame.prefix } else { &[] });
        let offsets = with_room(group.len() + 1);
        let mut sink = GroupSink { ids, offsets, frame, stretches: &all[group], end: 0 };
        sink.offsets.push(0);
        sink
    }

    /// Ends the first of the remaining stretches.
    #[inline(always)]
    fn end_stretch(&mut self) {
        let Some((stretch, others)) = self.stretches.split_first() else { return };
        self.ids.take(stretch.special.as_slice());
        if stretch.is_last {
            self.ids.take(self.frame.suffix);
            push(&mut self.offsets, self.ids.count() as u64);
            self.ids.take(if others.is_empty() { &[] } else { self.frame.prefix });
        }
        self.stretches = others;
        self.end += others.first().map_or(0, |next| next.bytes.len());
    }
}

impl<S: Sink> Sink for GroupSink<'_, S> {
    #[inline(always)]
    fn take_packed(
        &mut self,
        isa: impl Instructions,
        packed: &[Packed],
        bounds: &[u32],
        cache: &Cache,
    ) {
        let (mut packed, mut bounds) = (packed, &bounds[..=packed.len()]);
        self.ids.expect_pieces(packed.len());
        while !self.stretches.is_empty() && self.end <= bounds[packed.len()] as usize {
            let count = count_below(bounds, self.end as u32);
            self.ids.take_packed(isa, &packed[..count], bounds, cache);
            (packed, bounds) = (&packed[count..], &bounds[count..]);
            self.end_stretch();
        }
        self.ids.take_packed(isa, packed, bounds, cache);
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
}

/// Returns how many ascending numbers are below a limit. The first numbers are compared without a
/// branch for each.
#[inline(always)]
fn count_below(numbers: &[u32], limit: u32) -> usize {
    const CHUNK: usize = 16;
    let mut count = 0;
    for chunk in numbers.chunks_exact(CHUNK).take(4) {
        let below = chunk.iter().map(|&number| u32::from(number < limit)).sum::<u32>() as usize;
        count += below;
        if below < CHUNK {
            return count;
        }
    }
    count + numbers[count..].partition_point(|&number| number < limit)
}

/// Encodes the stretches of the sink. Short stretches are copied unless they are adjacent in
/// `buffer`.
fn encode_group<S: Sink>(
    encoder: &Encoder,
    buffer: &[u8],
    job: &mut Job<'_, '_, GroupSink<'_, S>>,
) {
    let (mut copy, mut ends) = (Vec::new(), Vec::new());
    while let Some(first) = job.sink.stretches.first() {
        let stretches = job.sink.stretches;
        let (address, mut length, mut is_in_row) = (first.bytes.as_ptr().addr(), 0, true);
        ends.clear();
        for stretch in stretches {
            if length + stretch.bytes.len() > RUN_BYTES && !ends.is_empty() {
                break;
            }
            is_in_row &= stretch.bytes.as_ptr().addr() == address + length;
            length += stretch.bytes.len();
            push(&mut ends, length as u32);
        }
        let count = ends.len();
        let start = address.wrapping_sub(buffer.as_ptr().addr());
        let text = match buffer.get(start..start.saturating_add(length)) {
            _ if count == 1 => first.bytes,
            Some(text) if is_in_row => text,
            _ => {
                copy.clear();
                stretches[..count].iter().for_each(|stretch| append(&mut copy, stretch.bytes));
                &copy
            }
        };
        job.sink.end = first.bytes.len();
        let result = encoder.encode_adjacent(text, &ends, job);
        // Empty stretches at the end have no pieces.
        while job.sink.stretches.len() > stretches.len() - count {
            job.sink.end_stretch();
        }
        if result.and_then(|()| job.interrupt.advance(count)).is_err() {
            return;
        }
    }
}

fn length_of(stretches: &[Stretch<'_>]) -> usize {
    stretches.iter().map(|stretch| stretch.bytes.len()).sum()
}

/// Divides texts into stretches. A stretch of more than `max_bytes` ends at the first safe split
/// from there on.
fn stretches_of<'a>(
    encoder: &Encoder,
    texts: &[&'a [u8]],
    ordinary: bool,
    max_bytes: usize,
    interrupt: &mut Interrupt<'_>,
) -> Vec<Stretch<'a>> {
    let mut stretches = with_room(texts.len());
    let has_literals = !ordinary && encoder.has_special();
    for bytes in texts {
        if !has_literals && bytes.len() <= max_bytes {
            push(&mut stretches, Stretch { bytes, special: None, is_last: true });
            continue;
        }
        encoder.for_each_segment(bytes, ordinary, |segment: &'a [u8], special| {
            let mut rest = segment;
            while rest.len() > max_bytes {
                let split = encoder.next_safe_split(rest, max_bytes, interrupt);
                let (stretch, others) = rest.split_at(split);
                push(&mut stretches, Stretch { bytes: stretch, special: None, is_last: false });
                rest = others;
            }
            let is_last = special.is_empty();
            let special = special.first().copied();
            push(&mut stretches, Stretch { bytes: rest, special, is_last });
            interrupt.advance(STRETCH_COST_BYTES).is_ok()
        });
    }
    stretches
}

/// Groups neighbouring stretches while they have fewer than `max_bytes` together.
fn groups_of(stretches: &[Stretch<'_>], max_bytes: usize) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    let mut bytes = usize::MAX; // of the last group
    for (i, stretch) in stretches.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if stretch.bytes.len() < max_bytes.saturating_sub(bytes) => {
                group.end = i + 1;
                bytes += stretch.bytes.len() + 1;
            }
            _ => {
                push(&mut groups, i..i + 1);
                bytes = stretch.bytes.len();
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::examples::{all_words, encoder, encoders, plain_ids};
    use crate::split::examples::gpt2;
    use crate::test_inputs::Rng;

    /// Texts with a few bytes and texts with a few stretches, in turn.
    fn texts(rng: &mut Rng, count: usize) -> Vec<String> {
        let words = all_words();
        let text = |i: usize| match i % 4 {
            0 => rng.text(&words, 3),
            1 => rng.text(&words, 500).repeat(500),
            2 => rng.text(&words, 40).repeat(9),
            _ => String::new(),
        };
        (0..count).map(text).collect()
    }

    fn check(encoder: &Encoder, texts: &[String], frame: Frame<'_>, threads: &[usize]) {
        let never = &mut Interrupt::never();
        for ordinary in [true, false] {
            let (mut ids, mut offsets) = (Vec::new(), vec![0]);
            for text in texts {
                ids.extend_from_slice(frame.prefix);
                ids.extend(plain_ids(encoder, text, ordinary));
                ids.extend_from_slice(frame.suffix);
                offsets.push(ids.len() as u64);
            }
            let short: Vec<u16> = ids.iter().map(|&id| id as u16).collect();
            let alone: Vec<_> = texts.iter().map(|text| text.as_bytes()).collect();
            let (buffer, mut start) = (alone.concat(), 0);
            let in_buffer = texts.iter().map(|text| {
                start += text.len();
                &buffer[start - text.len()..start]
            });
            let in_buffer = &in_buffer.collect::<Vec<_>>()[..];
            for texts in [Texts::from(&alone[..]), Texts { texts: in_buffer, buffer: &buffer }] {
                for &threads in threads {
                    let found = encode_all(encoder, texts, ordinary, frame, threads, never);
                    assert!(found.unwrap() == (ids.clone(), offsets.clone()), "{threads} threads");
                }
                let found = encode_all(encoder, texts, ordinary, frame, 3, never);
                assert!(found.unwrap() == (short.clone(), offsets.clone()));
            }
        }
    }

    #[test]
    fn ids_do_not_depend_on_the_number_of_threads() {
        let mut rng = Rng::new(1);
        for encoder in encoders() {
            let texts = texts(&mut rng, if cfg!(miri) { 1 } else { 5 });
            check(&encoder, &texts, Frame::default(), &[1, 2, 7]);
        }
    }

    #[test]
    fn a_batch_of_pieces_spans_texts_in_their_frames() {
        let mut rng = Rng::new(4);
        let (words, frame) = (all_words(), Frame { prefix: &[8000, 8001], suffix: &[8002] });
        for encoder in encoders() {
            for max_words in [2, 20, 600] {
                let count = if cfg!(miri) { 10 } else { 300 };
                let mut texts: Vec<_> = (0..count).map(|_| rng.text(&words, max_words)).collect();
                texts[count / 2] = rng.text(&words, 100).repeat(RUN_BYTES / 200);
                check(&encoder, &texts, frame, &[1, 3]);
            }
        }
    }

    #[test]
    fn numbers_below_a_limit_are_counted() {
        let numbers: Vec<u32> = (0..200).map(|number| number / 2 * 3).collect();
        for length in [0, 1, 15, 16, 17, 63, 64, 65, 200] {
            for limit in 0..310 {
                let numbers = &numbers[..length];
                let count = numbers.iter().filter(|&&number| number < limit).count();
                assert_eq!(count_below(numbers, limit), count);
            }
        }
    }

    #[test]
    fn stretches_end_at_the_next_safe_split() {
        let encoder = encoder(vec![gpt2()]);
        let mut rng = Rng::new(2);
        for max_bytes in [1, 2, 10, 100] {
            for text in texts(&mut rng, if cfg!(miri) { 1 } else { 8 }) {
                let text = &text.as_bytes()[..text.floor_char_boundary(5000)];
                let never = &mut Interrupt::never();
                let stretches = stretches_of(&encoder, &[text, text], true, max_bytes, never);
                let texts: Vec<_> = stretches.split_inclusive(|stretch| stretch.is_last).collect();
                assert_eq!(texts.len(), 2);
                for stretches in texts {
                    assert_eq!(
                        stretches.iter().map(|stretch| stretch.bytes).collect::<Vec<_>>().concat(),
                        text
                    );
                }
                for Stretch { bytes, .. } in stretches {
                    let from = max_bytes.min(bytes.len());
                    assert_eq!(encoder.next_safe_split(bytes, from, never), bytes.len());
                }
            }
        }
    }

    #[test]
    fn short_stretches_share_a_group() {
        let mut rng = Rng::new(3);
        let text = [b'a'; 300];
        for _ in 0..if cfg!(miri) { 20 } else { 2000 } {
            let (count, max_length) = (rng.below(20), 1 + rng.below(300));
            let mut stretch =
                |_| Stretch { bytes: &text[..rng.below(max_length)], special: None, is_last: true };
            let stretches: Vec<_> = (0..count).map(&mut stretch).collect();
            let max_bytes = 1 + rng.below(200);
            let groups = groups_of(&stretches, max_bytes);
            assert!(groups.iter().cloned().flatten().eq(0..stretches.len()), "all, in order");
            let bytes = |group: &Range<usize>| length_of(&stretches[group.clone()]);
            assert!(groups.iter().all(|group| group.len() == 1 || bytes(group) < max_bytes));
            for pair in groups.windows(2) {
                let next = stretches[pair[1].start].bytes.len();
                assert!(bytes(&pair[0]) + pair[0].len() - 1 + next >= max_bytes, "no room for one");
            }
            assert!(groups_of(&stretches, usize::MAX).len() <= 1);
        }
    }
}
