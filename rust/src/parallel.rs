//! The same for long texts, and for many, over several threads: with the same ids in the same
//! order, however many threads there are.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::encode::{Encoder, Id};

/// Parts of texts are of about so many bytes: enough work for its thread to be worth waking.
const PART: usize = 1 << 18;

/// After how many parts, when they are looked for, it is asked whether to go on.
const MANY: usize = 1 << 12;

/// The longest stretch of a text that is worked on as one.
pub const LONGEST: usize = (1 << 30) - 1;

/// A text in which there is no place to cut for longer than that.
#[derive(Debug)]
pub struct TooLongError;

/// A part of a text, and the special token behind it, if there is one.
struct Part<'a> {
    text: &'a [u8],
    special: Option<u32>,
    /// Which of the texts it is of.
    of: usize,
}

/// Returns the ids of all texts, one behind the other, and where those of each begin and the last
/// end; some of them, if `go_on` says no.
///
/// `go_on` is asked now and then, on the calling thread, which does its part of the work.
pub fn encode_all<T: Id>(
    encoder: &Encoder,
    texts: &[&[u8]],
    ordinary: bool,
    threads: usize,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(Vec<T>, Vec<u64>), TooLongError> {
    let most = if threads > 1 { PART } else { LONGEST / 2 };
    let parts = parts_of(encoder, texts, ordinary, most, go_on);
    if parts.iter().any(|part| part.text.len() > LONGEST) {
        return Err(TooLongError);
    }
    let bytes: usize = parts.iter().map(|part| part.text.len()).sum();
    // Parts that are next to each other are done together where they are short.
    let groups = groups_of(&parts, if threads > 1 { PART } else { usize::MAX });
    let threads = threads.min(groups.len()).max(1);

    let stop = AtomicBool::new(false);
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<(Vec<T>, Vec<usize>)>> =
        groups.iter().map(|_| Mutex::default()).collect();
    let work = |go_on: &mut dyn FnMut() -> bool| {
        let mut context = encoder.take_context();
        let mut unasked = 0;
        while let Some(group) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
            let place = group.number;
            let parts = &parts[group.first..group.end];
            let bytes: usize = parts.iter().map(|part| part.text.len()).sum();
            let mut ids = Vec::with_capacity(bytes.min(PART) / 4 + 16);
            let mut ends = Vec::with_capacity(parts.len());
            for part in parts {
                encoder.encode_ordinary(part.text, &mut context, &mut ids, go_on);
                ids.extend(part.special.map(T::of));
                ends.push(ids.len());
                unasked += part.text.len() + 1;
                if unasked >= PART {
                    unasked = 0;
                    if !go_on() {
                        break;
                    }
                }
            }
            *results[place].lock().unwrap_or_else(|error| error.into_inner()) = (ids, ends);
            if stop.load(Ordering::Relaxed) || !go_on() {
                stop.store(true, Ordering::Relaxed);
                break;
            }
        }
        encoder.put_context(context);
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // Where the system has no more threads, those that there are do the work.
            let _ = std::thread::Builder::new()
                .spawn_scoped(scope, || work(&mut || !stop.load(Ordering::Relaxed)));
        }
        work(&mut || {
            let goes_on = go_on();
            if !goes_on {
                stop.store(true, Ordering::Relaxed);
            }
            goes_on
        });
    });

    let mut results = results
        .into_iter()
        .map(|result| result.into_inner().unwrap_or_else(|error| error.into_inner()));
    let mut offsets = vec![0_u64; texts.len() + 1];
    let mut all = Vec::new();
    if groups.len() > 1 && go_on() {
        all.reserve(bytes / 4);
    }
    for group in &groups {
        if !go_on() {
            break;
        }
        let Some((ids, ends)) = results.next() else { break };
        for (part, end) in parts[group.first..group.end].iter().zip(ends) {
            offsets[part.of + 1] = (all.len() + end) as u64;
        }
        if groups.len() == 1 {
            all = ids;
        } else {
            all.extend_from_slice(&ids);
        }
    }
    Ok((all, offsets))
}

fn parts_of<'a>(
    encoder: &Encoder,
    texts: &[&'a [u8]],
    ordinary: bool,
    most: usize,
    go_on: &mut dyn FnMut() -> bool,
) -> Vec<Part<'a>> {
    let mut parts = Vec::with_capacity(texts.len());
    for (of, text) in texts.iter().enumerate() {
        encoder.for_each_stretch(text, ordinary, |stretch: &'a [u8], special| {
            let mut rest = stretch;
            while rest.len() > most {
                let (part, others) = rest.split_at(encoder.next_cut(rest, most, go_on));
                parts.push(Part { text: part, special: None, of });
                rest = others;
            }
            parts.push(Part { text: rest, special: special.first().copied(), of });
            !parts.len().is_multiple_of(MANY) || go_on()
        });
    }
    parts
}

struct Group {
    number: usize,
    first: usize,
    end: usize,
}

fn groups_of(parts: &[Part<'_>], most: usize) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut bytes = usize::MAX; // of the last group
    for (i, part) in parts.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if part.text.len() < most.saturating_sub(bytes) => {
                group.end = i + 1;
                bytes += part.text.len() + 1;
            }
            _ => {
                groups.push(Group { number: groups.len(), first: i, end: i + 1 });
                bytes = part.text.len();
            }
        }
    }
    groups
}
