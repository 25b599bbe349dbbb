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
            let mut ids = if groups.len() == 1 {
                T::kept().take(bytes / 4 + 16)
            } else {
                Vec::with_capacity(bytes.min(PART) / 4 + 16)
            };
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
        all = T::kept().take(bytes / 4);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::examples::{PATTERNS, SPECIAL, encoder, ids_plainly};
    use crate::generated::{Numbers, WORDS};
    use crate::scan::Pattern;

    /// Texts of a few bytes, and of a few parts, in turn.
    fn texts(numbers: &mut Numbers, count: usize) -> Vec<String> {
        let mut words = WORDS.to_vec();
        words.extend(SPECIAL.map(|(literal, _)| literal));
        let text = |i: usize| match i % 4 {
            0 => numbers.text(&words, 3),
            1 => numbers.text(&words, 500).repeat(500),
            2 => numbers.text(&words, 40).repeat(9),
            _ => String::new(),
        };
        (0..count).map(text).collect()
    }

    fn all<T: Id>(
        encoder: &Encoder,
        texts: &[String],
        ordinary: bool,
        threads: usize,
    ) -> (Vec<T>, Vec<u64>) {
        let texts: Vec<_> = texts.iter().map(|text| text.as_bytes()).collect();
        encode_all(encoder, &texts, ordinary, threads, &mut || true).expect("they can be cut")
    }

    #[test]
    fn any_number_of_threads_gives_the_ids_of_each_text() {
        let mut numbers = Numbers::new(1);
        for pattern in PATTERNS {
            let encoder = encoder(Some(pattern));
            let texts = texts(&mut numbers, if cfg!(miri) { 1 } else { 5 });
            for ordinary in [true, false] {
                let (mut ids, mut offsets) = (Vec::new(), vec![0]);
                for text in &texts {
                    ids.extend(ids_plainly(&encoder, text, ordinary));
                    offsets.push(ids.len() as u64);
                }
                for threads in [1, 2, 7] {
                    let found = all(&encoder, &texts, ordinary, threads);
                    assert!(found == (ids.clone(), offsets.clone()), "{threads} threads");
                }
                let short: Vec<u16> = ids.iter().map(|&id| id as u16).collect();
                assert!(all(&encoder, &texts, ordinary, 3) == (short, offsets));
            }
        }
    }

    #[test]
    fn no_text_has_no_ids() {
        let encoder = encoder(Some(Pattern::Gpt2));
        for threads in [1, 4] {
            assert_eq!(all::<u32>(&encoder, &[], false, threads), (vec![], vec![0]));
            let empty = [String::new(), String::new()];
            assert_eq!(all::<u32>(&encoder, &empty, false, threads), (vec![], vec![0, 0, 0]));
        }
    }

    #[test]
    fn parts_are_the_text_and_no_longer_than_the_next_cut_makes_them() {
        let encoder = encoder(Some(Pattern::Cl100k));
        let mut numbers = Numbers::new(2);
        for most in [1, 2, 10, 100] {
            for text in texts(&mut numbers, if cfg!(miri) { 1 } else { 8 }) {
                let text = &text.as_bytes()[..text.floor_char_boundary(5000)];
                let parts = parts_of(&encoder, &[text, text], true, most, &mut || true);
                for of in [0, 1] {
                    let of_text: Vec<_> =
                        parts.iter().filter(|part| part.of == of).map(|part| part.text).collect();
                    assert_eq!(of_text.concat(), text);
                }
                for part in parts {
                    let cut = encoder.next_cut(part.text, most.min(part.text.len()), &mut || true);
                    assert_eq!(cut, part.text.len());
                }
            }
        }
    }

    #[test]
    fn each_part_is_in_one_group_and_short_ones_share_theirs() {
        let mut numbers = Numbers::new(3);
        let text = [b'a'; 300];
        for _ in 0..if cfg!(miri) { 20 } else { 2000 } {
            let (count, longest) = (numbers.below(20), 1 + numbers.below(300));
            let parts: Vec<_> = (0..count)
                .map(|of| Part { text: &text[..numbers.below(longest)], special: None, of })
                .collect();
            let most = 1 + numbers.below(200);
            let groups = groups_of(&parts, most);
            let bytes = |group: &Group| {
                parts[group.first..group.end].iter().map(|part| part.text.len()).sum::<usize>()
            };
            let mut next = 0;
            for (number, group) in groups.iter().enumerate() {
                assert_eq!((group.number, group.first), (number, next));
                assert!(group.end == group.first + 1 || bytes(group) < most);
                next = group.end;
            }
            assert_eq!(next, parts.len());
            for pair in groups.windows(2) {
                let more = parts[pair[1].first].text.len();
                let texts = pair[0].end - pair[0].first - 1;
                assert!(bytes(&pair[0]) + texts + more >= most, "there was room for one more");
            }
            assert!(groups_of(&parts, usize::MAX).len() <= 1);
        }
    }

    #[test]
    fn where_it_is_told_not_to_go_on_it_ends() {
        let encoder = encoder(Some(Pattern::Gpt2));
        let text = "a b<|a|>".repeat(PART / 4);
        for ordinary in [true, false] {
            let (ids, _) = all::<u32>(&encoder, &vec![text.clone(); 3], ordinary, 2);
            for threads in [1, 2, 5] {
                let mut asked = 0;
                let mut go_on = || {
                    asked += 1;
                    asked < 2
                };
                let texts = [text.as_bytes(); 3];
                let (some, offsets) =
                    encode_all::<u32>(&encoder, &texts, ordinary, threads, &mut go_on)
                        .expect("short");
                assert!(some.len() < ids.len() && offsets.len() == 4, "{threads} threads");
            }
        }
    }
}
