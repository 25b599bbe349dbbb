//! Where pieces end.
//!
//! For the named patterns, `rules` go one character at a time and are the reference, and `window`
//! does 64 bytes at a time. For any other pattern, `automaton` has one mechanism. Without a pattern,
//! `cuts` follow from the merges.

pub mod automaton;
mod cuts;
mod rules;
pub mod unicode;
mod window;

use std::sync::Arc;

use crate::mem::prefetch;
use crate::simd::{Instructions, Isa, Work};
use automaton::{Automaton, Reading};
use cuts::FindCuts;
pub use cuts::{Character, Cuts, TokenNeighbours};
use rules::Rules;
use unicode::{LETTER, LOWER, NEWLINE, NUMBER, UPPER, WHITESPACE, classes};
use window::Window;

/// A pattern that has rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    Gpt2,
    Cl100k,
    /// As Cl100k, but white space at the end of a text is one piece.
    Cl100kBase,
    O200k,
    Qwen2,
}

impl Pattern {
    /// All patterns by name.
    pub const NAMES: [(&str, Pattern); 6] = [
        ("gpt2", Pattern::Gpt2),
        ("cl100k", Pattern::Cl100k),
        ("cl100k_base", Pattern::Cl100kBase),
        ("o200k", Pattern::O200k),
        ("llama3", Pattern::Cl100k),
        ("qwen2", Pattern::Qwen2),
    ];

    pub fn of_name(name: &str) -> Option<Pattern> {
        Pattern::NAMES.into_iter().find(|named| named.0 == name).map(|(_, pattern)| pattern)
    }
}

/// How texts are split into pieces.
#[derive(Clone)]
pub enum Splitter {
    Named(Pattern),
    Automaton(Arc<Automaton>),
    Cuts(Arc<Cuts>),
}

impl Splitter {
    /// Returns whether a piece may have several words.
    pub fn may_join_words(&self) -> bool {
        match self {
            Splitter::Named(_) => false,
            Splitter::Automaton(automaton) => automaton.may_join_words,
            Splitter::Cuts(cuts) => cuts.may_join_words,
        }
    }
}

/// A splitter that `Pieces` uses.
#[derive(Clone, Copy)]
pub enum Kind<'a> {
    Named(Pattern),
    Automaton(&'a Automaton),
    Cuts(&'a Cuts),
}

impl<'a> From<&'a Splitter> for Kind<'a> {
    fn from(splitter: &'a Splitter) -> Kind<'a> {
        match splitter {
            Splitter::Named(pattern) => Kind::Named(*pattern),
            Splitter::Automaton(automaton) => Kind::Automaton(automaton),
            Splitter::Cuts(cuts) => Kind::Cuts(cuts),
        }
    }
}

impl From<Pattern> for Kind<'_> {
    fn from(pattern: Pattern) -> Self {
        Kind::Named(pattern)
    }
}

/// Makes what all texts share.
///
/// Whoever is about to split texts calls it while it holds Python's lock: later, a forked process
/// could wait for ever for a thread that was making it.
pub fn prepare() {
    let _ = (Isa::get(), classes());
}

/// The least room for the ends of pieces, since some may be taken back until 64 more are found.
const MIN_ROOM: usize = 96;

/// Finds the pieces of a text in order.
pub struct Pieces<'a> {
    kind: Kind<'a>,
    isa: Isa,
    rules: Rules<'a>,
    /// The ends of the next texts, which stand side by side.
    text_ends: &'a [u32],
    at: usize,
    /// The state of an automaton that splits the text.
    reading: Option<Reading>,
    /// The ends of several texts that one reading goes through.
    read_ends: &'a [u32],
}

impl<'a> Pieces<'a> {
    /// The text is UTF-8 and shorter than 4 GiB.
    pub fn new(splitter: impl Into<Kind<'a>>, text: &'a (impl AsRef<[u8]> + ?Sized)) -> Pieces<'a> {
        Pieces::with_isa(splitter, text.as_ref(), Isa::get())
    }

    pub fn with_isa(splitter: impl Into<Kind<'a>>, text: &'a [u8], isa: Isa) -> Pieces<'a> {
        debug_assert!(u32::try_from(text.len()).is_ok());
        let rules = Rules { text, whole: text, classes: classes() };
        let kind = splitter.into();
        Pieces { kind, isa, rules, text_ends: &[], at: 0, reading: None, read_ends: &[] }
    }

    /// Splits adjacent texts in `whole`, which begin at `start` and end at `text_ends`.
    pub fn of_texts(
        splitter: impl Into<Kind<'a>>,
        whole: &'a [u8],
        start: usize,
        text_ends: &'a [u32],
    ) -> Pieces<'a> {
        let pieces = Pieces::new(splitter, whole);
        let rules = Rules { text: &whole[..start], ..pieces.rules };
        Pieces { rules, text_ends, at: start, ..pieces }
    }

    /// Writes where the next pieces end, and returns their count, which is 0 only at the end of the
    /// last text.
    ///
    /// It stops when there is room for fewer than `MIN_ROOM` ends, so it needs at least that room.
    pub fn next_ends(&mut self, ends: &mut [u32]) -> usize {
        let (kind, isa, pieces) = (self.kind, self.isa, self);
        let pattern = match kind {
            Kind::Named(pattern) => pattern,
            Kind::Automaton(automaton) => return pieces.next_ends_by(automaton, ends),
            Kind::Cuts(cuts) => return pieces.next_cuts(cuts, ends),
        };
        match pattern {
            Pattern::Gpt2 => isa.run(FindEnds::<GPT2> { pieces, ends }),
            Pattern::Cl100k => isa.run(FindEnds::<CL100K> { pieces, ends }),
            Pattern::Cl100kBase => isa.run(FindEnds::<CL100K_BASE> { pieces, ends }),
            Pattern::O200k => isa.run(FindEnds::<O200K> { pieces, ends }),
            Pattern::Qwen2 => isa.run(FindEnds::<QWEN2> { pieces, ends }),
        }
    }

    fn next_ends_by(&mut self, automaton: &Automaton, ends: &mut [u32]) -> usize {
        let mut count = 0;
        while ends.len() - count >= MIN_ROOM {
            let (text, room) = (self.rules.text, &mut ends[count..]);
            if self.at >= text.len() {
                let (Some(&first), Some(&last)) = (self.text_ends.first(), self.text_ends.last())
                else {
                    break;
                };
                let length = last as usize - self.at;
                let text_count =
                    if automaton.reads_texts(length) { self.text_ends.len() } else { 1 };
                let end = if text_count > 1 { last } else { first };
                self.rules.text = &self.rules.whole[..end as usize];
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
        let Pieces { isa, ref mut at, rules: Rules { text, whole, .. }, text_ends, .. } = *self;
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
        match self.kind {
            Kind::Named(_) | Kind::Cuts(_) => self.is_safe_split(at),
            Kind::Automaton(automaton) => automaton.is_apart(self.rules.text, at),
        }
    }

    /// Returns whether `at` ends a piece of every text with these two characters around `at`.
    ///
    /// It does if no alternative of the pattern has the two in a row. Then the pieces of the text
    /// are those of its two parts: no alternative looks back, and only `\s+(?!\S)` looks ahead. The
    /// last case therefore allows whitespace before `at` only if it ends in a newline.
    ///
    /// | before `at` | the piece may go on with |
    /// |---|---|
    /// | number | numbers |
    /// | letter | letters; with o200k also marks and contractions |
    /// | symbol | symbols; letters, since it may be a prefix (with GPT-2 only an apostrophe); newlines, but not with GPT-2 |
    /// | newline | newlines and what precedes them; with o200k slashes; with GPT-2 all whitespace |
    pub fn is_safe_split(&self, at: usize) -> bool {
        let Rules { text, classes, .. } = self.rules;
        let pattern = match self.kind {
            Kind::Named(pattern) => pattern,
            Kind::Automaton(automaton) => return automaton.is_safe_split(text, at),
            Kind::Cuts(cuts) => return cuts.is_safe_split(text, at),
        };
        if at == 0 || at >= text.len() || text[at] & 0xC0 == 0x80 {
            return false;
        }
        let mut before_at = at - 1;
        while text[before_at] & 0xC0 == 0x80 {
            before_at -= 1;
        }
        let (before, behind) = (classes.at(text, before_at).0, classes.at(text, at).0);
        let is_gpt2 = pattern == Pattern::Gpt2;
        if before & WHITESPACE != 0 {
            !is_gpt2 && before & NEWLINE != 0 && behind & WHITESPACE == 0 && text[at] != b'/'
        } else if before & NUMBER != 0 {
            behind & NUMBER == 0
        } else if before & LETTER != 0 {
            let is_mark = behind & (UPPER | LOWER) != 0;
            let may_go_on = match pattern {
                Pattern::O200k => is_mark || text[at] == b'\'',
                _ => false,
            };
            behind & LETTER == 0 && !may_go_on
        } else if behind & LETTER != 0 {
            is_gpt2 && text[before_at] != b'\''
        } else {
            behind & NUMBER != 0 || behind & WHITESPACE != 0 && (is_gpt2 || behind & NEWLINE == 0)
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
fn end_of_piece<const PATTERN: u8>(rules: Rules<'_>, start: usize) -> usize {
    match PATTERN {
        GPT2 => rules.gpt2(start),
        CL100K => rules.cl100k::<3>(start),
        CL100K_BASE if rules.is_whitespace(start..rules.text.len()) => rules.text.len(),
        CL100K_BASE => rules.cl100k::<3>(start),
        O200K => rules.o200k(start),
        QWEN2 => rules.cl100k::<1>(start),
        _ => unreachable!(),
    }
}

#[inline(always)]
fn starts_in_window<const PATTERN: u8>(window: &mut Window) -> u64 {
    match PATTERN {
        GPT2 => window::gpt2(window),
        CL100K | CL100K_BASE => window::cl100k::<3>(window),
        O200K => window::o200k(window),
        QWEN2 => window::cl100k::<1>(window),
        _ => unreachable!(),
    }
}

/// The distance from a window to the text that it prefetches for the next call.
const PREFETCH_BYTES: usize = 3072;

/// Writes where pieces end: by windows where they are certain, else by the rules.
struct FindEnds<'a, 'b, const PATTERN: u8> {
    pieces: &'b mut Pieces<'a>,
    ends: &'b mut [u32],
}

impl<const PATTERN: u8> Work for FindEnds<'_, '_, PATTERN> {
    /// How many ends were written.
    type Result = usize;

    #[inline(always)]
    fn run<I: Instructions>(self, isa: I) -> usize {
        let Pieces { mut rules, mut text_ends, mut at, .. } = *self.pieces;
        let mut count = 0;
        // The first piece of the text in this call: its number and its start.
        let mut first = (0, at);
        while let Some((room, _)) = self.ends[count..].split_first_chunk_mut() {
            if at >= rules.text.len() {
                if PATTERN == CL100K_BASE {
                    count -= rules.join_last_whitespace(first.1, &mut self.ends[first.0..count]);
                    first = (count, at);
                }
                let Some((&end, others)) = text_ends.split_first() else { break };
                rules.text = &rules.whole[..end as usize];
                text_ends = others;
                continue;
            }
            let mut starts = 0;
            if I::FINDS_WINDOWS {
                rules.whole.get(at + PREFETCH_BYTES).inspect(|ahead| prefetch(*ahead));
                let mut window = Window::new(isa, rules, at, PATTERN == O200K);
                starts = starts_in_window::<PATTERN>(&mut window) & window.certain();
            }
            if starts == 0 {
                at = end_of_piece::<PATTERN>(rules, at);
                room[0] = at as u32;
                count += 1;
                continue;
            }
            isa.write_offsets(starts, at as u32, room);
            count += starts.count_ones() as usize;
            at += starts.ilog2() as usize;
        }
        if PATTERN == CL100K_BASE && count > first.0 {
            if at >= rules.text.len() {
                count -= rules.join_last_whitespace(first.1, &mut self.ends[first.0..count]);
            } else {
                // The next call does not see the last piece of this one.
                let start =
                    if count - first.0 > 1 { self.ends[count - 2] as usize } else { first.1 };
                if rules.is_whitespace(start..at) && rules.is_whitespace(at..rules.text.len()) {
                    at = rules.text.len();
                    self.ends[count - 1] = at as u32;
                }
            }
        }
        (self.pieces.rules, self.pieces.text_ends, self.pieces.at) = (rules, text_ends, at);
        count
    }
}

/// For tests: all patterns.
#[cfg(test)]
pub const PATTERNS: [Pattern; 5] =
    [Pattern::Gpt2, Pattern::Cl100k, Pattern::Cl100kBase, Pattern::O200k, Pattern::Qwen2];

/// For tests: the pieces of a text that a scanner has not begun.
#[cfg(test)]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_inputs::{Rng, WORDS as TEXT_WORDS};

    fn pieces_by(isa: Isa, pattern: Pattern, text: &str) -> Vec<&str> {
        all_pieces(Pieces::with_isa(pattern, text.as_bytes(), isa), text)
    }

    #[test]
    fn windows_split_as_the_rules_do() {
        let mut rng = Rng::new(1);
        for _ in 0..if cfg!(miri) { 20 } else { 20_000 } {
            let text = rng.text(&TEXT_WORDS, 65);
            for pattern in PATTERNS {
                let expected = pieces_by(Isa::Scalar, pattern, &text);
                for isa in Isa::all() {
                    assert_eq!(pieces_by(isa, pattern, &text), expected, "{text:?}");
                }
            }
        }
    }

    #[test]
    fn adjacent_texts_split_as_they_do_alone() {
        let mut rng = Rng::new(7);
        let isas = Isa::all();
        for round in 0..if cfg!(miri) { 10 } else { 200 } {
            let texts: Vec<_> = (0..6).map(|_| rng.text(&TEXT_WORDS, [2, 40][round % 2])).collect();
            let (mut whole, mut text_ends) = (String::new(), Vec::new());
            for text in &texts {
                whole.push_str(text);
                text_ends.push(whole.len() as u32);
            }
            for (pattern, &isa) in PATTERNS.iter().flat_map(|&p| isas.iter().map(move |i| (p, i))) {
                let mut pieces = Pieces::with_isa(pattern, whole.as_bytes(), isa);
                (pieces.rules.text, pieces.text_ends) = (&[], &text_ends);
                let found = all_pieces(pieces, &whole);
                let alone = texts.iter().flat_map(|text| pieces_by(Isa::Scalar, pattern, text));
                assert!(found.into_iter().eq(alone), "{pattern:?}, {texts:?}");
            }
        }
    }

    /// Returns the safe splits of a text. The pieces of the two parts are those of the text.
    fn safe_splits(pattern: Pattern, text: &str) -> Vec<usize> {
        let pieces = |text| pieces_by(Isa::Scalar, pattern, text);
        let scanner = Pieces::with_isa(pattern, text.as_bytes(), Isa::Scalar);
        let splits: Vec<_> = (0..=text.len()).filter(|&at| scanner.is_safe_split(at)).collect();
        for (head, tail) in splits.iter().map(|&at| text.split_at(at)) {
            let parts = [pieces(head), pieces(tail)].concat();
            assert_eq!(parts, pieces(text), "{pattern:?}, {head:?}, {tail:?}");
        }
        splits
    }

    #[test]
    fn short_texts_of_all_kinds_split_safely() {
        let kinds = [
            "a", "S", "l", "\u{4e2d}", "1", "!", "'", "/", " ", "\n", "\u{a0}", "\u{301}",
            "\u{17f}",
        ];
        let length = if cfg!(miri) { 2 } else { 5 };
        for number in 0..kinds.len().pow(length) {
            let kind = |i| kinds[number / kinds.len().pow(i) % kinds.len()];
            let text: String = (0..length).map(kind).collect();
            PATTERNS.iter().for_each(|&pattern| drop(safe_splits(pattern, &text)));
        }
    }

    #[test]
    fn texts_of_all_words_split_safely() {
        let mut rng = Rng::new(5);
        for _ in 0..if cfg!(miri) { 5 } else { 1000 } {
            let text = rng.text(&TEXT_WORDS, 40);
            PATTERNS.iter().for_each(|&pattern| drop(safe_splits(pattern, &text)));
        }
    }

    #[test]
    fn a_change_of_kind_is_a_safe_split_unless_a_piece_may_go_on() {
        let text = "\u{4f60}\u{597d}\u{ff0c}\u{4e16}12%3a'sb e\u{301} x!\ny/\n z";
        let expected = [
            "\u{4f60}\u{597d}|\u{ff0c}|\u{4e16}|12|%|3|a|'sb| e|\u{301}| x|!|\ny|/|\n z",
            "\u{4f60}\u{597d}|\u{ff0c}\u{4e16}|12|%|3|a|'sb| e|\u{301}| x|!\n|y|/\n z",
            "\u{4f60}\u{597d}|\u{ff0c}\u{4e16}|12|%|3|a|'sb| e|\u{301}| x|!\n|y|/\n z",
            "\u{4f60}\u{597d}|\u{ff0c}\u{4e16}|12|%|3|a'sb| e\u{301}| x|!\n|y|/\n z",
            "\u{4f60}\u{597d}|\u{ff0c}\u{4e16}|12|%|3|a|'sb| e|\u{301}| x|!\n|y|/\n z",
        ];
        for (pattern, expected) in PATTERNS.into_iter().zip(expected) {
            let mut parts = text.to_string();
            safe_splits(pattern, text).iter().rev().for_each(|&at| parts.insert(at, '|'));
            assert_eq!(parts, expected, "{pattern:?}");
        }
    }
}
