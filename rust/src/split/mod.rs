//! Where pieces end.
//!
//! `automaton` has one mechanism for any pattern. For some patterns, `window` splits 64 bytes at a
//! time, and the automaton decides where a window is uncertain. Without a pattern, `cuts` follow
//! from the merges.

pub mod automaton;
mod cuts;
mod pairs;
pub mod settled;
pub mod unicode;
mod window;

use std::sync::Arc;

use crate::mem::prefetch;
use crate::simd::{Instructions, Isa, Work};
use automaton::{Automaton, Reading};
use cuts::FindCuts;
pub use cuts::{Character, Cuts, TokenNeighbours, joints_of, three_bytes_each};
pub use pairs::Pairs;
use unicode::classes;
pub use window::Pattern;
use window::Window;

/// How texts are split into pieces.
#[derive(Clone)]
pub enum Splitter {
    Automaton(Arc<Automaton>),
    Cuts(Arc<Cuts>),
}

impl Splitter {
    /// Returns whether a piece may have several words.
    pub fn may_join_words(&self) -> bool {
        match self {
            Splitter::Automaton(automaton) => automaton.may_join_words,
            Splitter::Cuts(_) => false,
        }
    }
}

/// Makes the tables that all texts share.
///
/// Callers make them before they split texts, while they hold Python's lock. If a process forked
/// while another thread was making them later, it could wait for ever.
pub fn prepare() {
    let _ = (Isa::get(), classes());
}

/// The least room for the ends of pieces, since some may be taken back until 64 more are found.
const MIN_ROOM: usize = 96;

/// Finds the pieces of a text in order.
pub struct Pieces<'a> {
    splitter: &'a Splitter,
    isa: Isa,
    text: &'a [u8],
    /// The text, and any bytes after it.
    whole: &'a [u8],
    /// The ends of the next texts, which are adjacent.
    text_ends: &'a [u32],
    at: usize,
    /// The state of an automaton that splits the text.
    reading: Option<Reading>,
    /// The ends of several texts that one reading goes through.
    read_ends: &'a [u32],
}

impl<'a> Pieces<'a> {
    /// The text is UTF-8 and shorter than 4 GiB.
    pub fn new(splitter: &'a Splitter, text: &'a (impl AsRef<[u8]> + ?Sized)) -> Pieces<'a> {
        let text = text.as_ref();
        debug_assert!(u32::try_from(text.len()).is_ok());
        let (isa, text_ends, read_ends) = (Isa::get(), &[], &[]);
        Pieces { splitter, isa, text, whole: text, text_ends, at: 0, reading: None, read_ends }
    }

    /// Returns the same pieces by another instruction set, for tests.
    pub fn with_isa(self, isa: Isa) -> Pieces<'a> {
        Pieces { isa, ..self }
    }

    /// Splits adjacent texts in `whole`, which begin at `start` and end at `text_ends`.
    pub fn of_texts(
        splitter: &'a Splitter,
        whole: &'a [u8],
        start: usize,
        text_ends: &'a [u32],
    ) -> Pieces<'a> {
        let pieces = Pieces::new(splitter, whole);
        Pieces { text: &whole[..start], text_ends, at: start, ..pieces }
    }

    /// Writes where the next pieces end, and returns their count, which is 0 only at the end of the
    /// last text.
    ///
    /// It stops when there is room for fewer than `MIN_ROOM` ends, so it needs at least that room.
    pub fn next_ends(&mut self, ends: &mut [u32]) -> usize {
        let (isa, pieces) = (self.isa, self);
        let automaton = match pieces.splitter {
            Splitter::Automaton(automaton) => &**automaton,
            Splitter::Cuts(cuts) => return pieces.next_cuts(cuts, ends),
        };
        match automaton.windows.filter(|_| isa != Isa::Scalar) {
            None => pieces.next_ends_by(automaton, ends),
            Some(Pattern::Gpt2) => isa.run(FindEnds::<GPT2> { pieces, automaton, ends }),
            Some(Pattern::Cl100k) => isa.run(FindEnds::<CL100K> { pieces, automaton, ends }),
            Some(Pattern::Cl100kBase) => {
                isa.run(FindEnds::<CL100K_BASE> { pieces, automaton, ends })
            }
            Some(Pattern::O200k) => isa.run(FindEnds::<O200K> { pieces, automaton, ends }),
            Some(Pattern::Qwen2) => isa.run(FindEnds::<QWEN2> { pieces, automaton, ends }),
        }
    }

    fn next_ends_by(&mut self, automaton: &Automaton, ends: &mut [u32]) -> usize {
        let mut count = 0;
        while ends.len() - count >= MIN_ROOM {
            let (text, room) = (self.text, &mut ends[count..]);
            if self.at >= text.len() {
                let (Some(&first), Some(&last)) = (self.text_ends.first(), self.text_ends.last())
                else {
                    break;
                };
                let length = last as usize - self.at;
                let text_count =
                    if automaton.reads_texts(length) { self.text_ends.len() } else { 1 };
                let end = if text_count > 1 { last } else { first };
                self.text = &self.whole[..end as usize];
                (self.read_ends, self.text_ends) = self.text_ends.split_at(text_count);
                self.reading = None;
                continue;
            }
            let reading = self.reading.get_or_insert_with(|| automaton.reading(text, self.at));
            let read_ends = self.read_ends;
            count += automaton.next_ends(self.isa, text, read_ends, self.at, room, reading);
            self.at = ends[count - 1] as usize;
        }
        count
    }

    fn next_cuts(&mut self, cuts: &Cuts, ends: &mut [u32]) -> usize {
        let Pieces { isa, ref mut at, text, whole, text_ends, .. } = *self;
        let text = text_ends.last().map_or(text, |&end| &whole[..end as usize]);
        if *at >= text.len() {
            return 0;
        }
        let text_ends = &text_ends[text_ends.partition_point(|&end| end as usize <= *at)..];
        let count = isa.run(FindCuts { cuts, text, text_ends, at: *at, ends });
        *at = ends[count - 1] as usize;
        count
    }

    /// Returns whether no match has these two characters around `at`, or they are a safe split.
    pub fn is_apart(&self, at: usize) -> bool {
        match self.splitter {
            Splitter::Automaton(automaton) => automaton.is_apart(self.text, at),
            Splitter::Cuts(cuts) => cuts.is_safe_split(self.text, at),
        }
    }

    /// Returns whether `at` ends a piece of every text with these two characters around `at`. Then
    /// the text has the pieces of its two sides.
    pub fn is_safe_split(&self, at: usize) -> bool {
        match self.splitter {
            Splitter::Automaton(automaton) => automaton.is_safe_split(self.text, at),
            Splitter::Cuts(cuts) => cuts.is_safe_split(self.text, at),
        }
    }
}

// Patterns as arguments of generic functions, so that a function is compiled for each pattern.
const GPT2: u8 = Pattern::Gpt2 as u8;
const CL100K: u8 = Pattern::Cl100k as u8;
const CL100K_BASE: u8 = Pattern::Cl100kBase as u8;
const O200K: u8 = Pattern::O200k as u8;
const QWEN2: u8 = Pattern::Qwen2 as u8;

#[inline(always)]
fn starts_in_window<const PATTERN: u8>(window: &mut Window) -> u64 {
    match PATTERN {
        GPT2 => window::gpt2(window),
        CL100K => window::cl100k::<3>(window),
        CL100K_BASE => window::cl100k_base(window),
        O200K => window::o200k(window),
        QWEN2 => window::cl100k::<1>(window),
        _ => unreachable!(),
    }
}

/// The distance from a window to the text that it prefetches for the next call.
const PREFETCH_BYTES: usize = 3072;

/// Writes where pieces end, by windows where they are certain, and else by the automaton.
struct FindEnds<'a, 'b, const PATTERN: u8> {
    pieces: &'b mut Pieces<'a>,
    automaton: &'b Automaton,
    ends: &'b mut [u32],
}

impl<const PATTERN: u8> Work for FindEnds<'_, '_, PATTERN> {
    type Result = usize;

    #[inline(always)]
    fn run<I: Instructions>(self, isa: I) -> usize {
        let Pieces { mut text, whole, mut text_ends, mut at, .. } = *self.pieces;
        let (classes, mut count) = (classes(), 0);
        while let Some((room, _)) = self.ends[count..].split_first_chunk_mut() {
            if at >= text.len() {
                let Some((&end, others)) = text_ends.split_first() else { break };
                text = &whole[..end as usize];
                text_ends = others;
                continue;
            }
            whole.get(at + PREFETCH_BYTES).inspect(|ahead| prefetch(*ahead));
            let mut window = Window::new(isa, classes, text, whole, at, PATTERN == O200K);
            let starts = starts_in_window::<PATTERN>(&mut window) & window.certain();
            if starts == 0 {
                at = self.automaton.end_of_match(text, at);
                room[0] = at as u32;
                count += 1;
                continue;
            }
            isa.write_offsets(starts, at as u32, room);
            count += starts.count_ones() as usize;
            at += starts.ilog2() as usize;
        }
        (self.pieces.text, self.pieces.text_ends, self.pieces.at) = (text, text_ends, at);
        count
    }
}

/// Splitters for tests, and all pieces of a text.
#[cfg(test)]
pub mod examples {
    use std::sync::OnceLock;

    use super::automaton::{Node, Set};
    use super::unicode::{CODE_POINT_COUNT, LETTER, NUMBER, WHITESPACE};
    use super::*;

    /// Returns the splitter of GPT-2's pattern:
    /// `'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
    pub fn gpt2() -> Splitter {
        static GPT2: OnceLock<Splitter> = OnceLock::new();
        GPT2.get_or_init(|| {
            let sets = [
                set(|class| class & LETTER != 0),
                set(|class| class & NUMBER != 0),
                set(|class| class & (LETTER | NUMBER | WHITESPACE) == 0),
                set(|class| class & WHITESPACE != 0),
                set(|class| class & WHITESPACE == 0),
            ];
            let letters = [" ", "'", "sdmt", "l", "vr", "e"].map(|letters| {
                letters.bytes().map(|letter| (letter.into(), letter.into())).collect()
            });
            let [space, apostrophe, sdmt, l, vr, e] = [5, 6, 7, 8, 9, 10].map(Node::Set);
            let repeat = |set, min, max| Node::Repeat { node: set, min, max, is_lazy: false };
            let many = |set| repeat(Node::Set(set).into(), 1, None);
            let run =
                |set| Node::Sequence(vec![repeat(space.clone().into(), 0, Some(1)), many(set)]);
            let two = |first: &Node, second| Node::Sequence(vec![first.clone(), second]);
            let pattern = Node::Either(vec![
                two(&apostrophe, Node::Either(vec![sdmt, two(&l, l.clone()), two(&vr, e)])),
                run(0),
                run(1),
                run(2),
                two(&many(3), Node::Next { set: 4, is_negative: true }),
                many(3),
            ]);
            automaton(&[pattern], &[sets.to_vec(), letters.to_vec()].concat(), Some(Pattern::Gpt2))
        })
        .clone()
    }

    fn set(is: fn(u8) -> bool) -> Set {
        let mut ranges = Set::new();
        for code in (0..CODE_POINT_COUNT as u32).filter(|&code| is(classes().of(code))) {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == code => *last = code,
                _ => ranges.push((code, code)),
            }
        }
        ranges
    }

    pub fn automaton(patterns: &[Node], sets: &[Set], windows: Option<Pattern>) -> Splitter {
        let found = Automaton::new(patterns, sets, false).unwrap_or_else(|error| panic!("{error}"));
        Splitter::Automaton(Arc::new(found.with_windows(windows)))
    }

    /// Returns all pieces of a text.
    pub fn all_pieces<'a>(mut pieces: Pieces<'_>, text: &'a str) -> Vec<&'a str> {
        let (mut start, mut found, mut ends) = (0, Vec::new(), [0; 100]);
        loop {
            let count = pieces.next_ends(&mut ends);
            if count == 0 {
                return found;
            }
            for &end in &ends[..count] {
                found.push(&text[start..end as usize]);
                start = end as usize;
            }
        }
    }
}
