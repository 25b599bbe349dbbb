//! Where pieces end, for the patterns that have names; each rule is that of one pattern.
//!
//! The scanners here go character by character, and say the rules; `window` follows the same rules
//! for 64 bytes at a time. Text is valid UTF-8.

use crate::simd::Kernel;
use crate::unicode::{Classes, LETTER, LINE_END, LOWER, NOT_SIGN, NUMBER, SPACE, UPPER};
use crate::window::{self, NextEnds, Window};

/// A pattern that has a scanner. Llama 3's is that of cl100k.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    Gpt2,
    Cl100k,
    O200k,
    Qwen2,
}

impl Pattern {
    /// Returns the pattern of a name, if it has a scanner.
    pub fn of_name(name: &str) -> Option<Pattern> {
        match name {
            "gpt2" => Some(Pattern::Gpt2),
            "cl100k" | "llama3" => Some(Pattern::Cl100k),
            "o200k" => Some(Pattern::O200k),
            "qwen2" => Some(Pattern::Qwen2),
            _ => None,
        }
    }
}

/// Finds the pieces of a text, one after the other.
pub struct Pieces<'a> {
    pattern: Pattern,
    kernel: Kernel,
    rules: Rules<'a>,
    at: usize,
}

impl<'a> Pieces<'a> {
    /// The text is UTF-8, and shorter than 4 GiB.
    pub fn new(pattern: Pattern, text: &'a (impl AsRef<[u8]> + ?Sized)) -> Pieces<'a> {
        Pieces::with_kernel(pattern, text.as_ref(), Kernel::get())
    }

    fn with_kernel(pattern: Pattern, text: &'a [u8], kernel: Kernel) -> Pieces<'a> {
        debug_assert!(u32::try_from(text.len()).is_ok());
        let rules = Rules { text, classes: Classes::get() };
        Pieces { pattern, kernel, rules, at: 0 }
    }

    /// Writes where the next pieces end, and returns how many they are: as many as are found
    /// before there is no room for 64 more; none at the end of the text.
    pub fn next_ends(&mut self, ends: &mut [u32]) -> usize {
        match self.pattern {
            Pattern::Gpt2 => self.next_ends_of::<Gpt2>(ends),
            Pattern::Cl100k => self.next_ends_of::<Cl100k<3>>(ends),
            Pattern::Qwen2 => self.next_ends_of::<Cl100k<1>>(ends),
            Pattern::O200k => self.next_ends_of::<O200k>(ends),
        }
    }

    fn next_ends_of<S: Scanner>(&mut self, ends: &mut [u32]) -> usize {
        let (count, at) = if self.kernel.is_scalar() {
            self.rules.next_ends::<S>(self.at, ends)
        } else {
            self.kernel.run(NextEnds::<S>::new(self.rules, self.at, ends))
        };
        self.at = at;
        count
    }

    /// Returns whether a piece of any text ends at `at`, whatever comes before and after.
    ///
    /// It does where no alternative has these two characters behind each other: the piece of the
    /// first ends there, and the next begins there as a text does, since none looks back. Nothing
    /// but `\s+(?!\S)` looks ahead, so what is before the place is cut as a text that ends there,
    /// unless that ends in white space.
    ///
    /// Behind a number there are only numbers. Behind a letter there are only letters, and with
    /// o200k marks and contractions too. A sign goes on with signs, and with letters, since it may
    /// stand before a word (with GPT-2's pattern an apostrophe alone may); and with line ends, but
    /// for GPT-2's. And white space that ends in a line end is cut behind it by all patterns but
    /// GPT-2's, unless a slash follows, which o200k lets go on signs.
    pub fn is_safe_cut(&self, at: usize) -> bool {
        let Rules { text, classes } = self.rules;
        if at == 0 || at >= text.len() || text[at] & 0xC0 == 0x80 {
            return false;
        }
        let mut before_at = at - 1;
        while text[before_at] & 0xC0 == 0x80 {
            before_at -= 1;
        }
        let (before, behind) = (classes.at(text, before_at).0, classes.at(text, at).0);
        let is_gpt2 = self.pattern == Pattern::Gpt2;
        if before & SPACE != 0 {
            !is_gpt2 && before & LINE_END != 0 && behind & SPACE == 0 && text[at] != b'/'
        } else if before & NUMBER != 0 {
            behind & NUMBER == 0
        } else if before & LETTER != 0 {
            let is_mark = behind & (UPPER | LOWER) != 0;
            let may_go_on = self.pattern == Pattern::O200k && (is_mark || text[at] == b'\'');
            behind & LETTER == 0 && !may_go_on
        } else if behind & LETTER != 0 {
            is_gpt2 && text[before_at] != b'\''
        } else {
            behind & NUMBER != 0 || behind & SPACE != 0 && (is_gpt2 || behind & LINE_END == 0)
        }
    }
}

/// What cuts by one pattern, in two ways that must agree.
pub trait Scanner {
    /// Whether it matters which letters are capitals.
    const HAS_CASES: bool = false;

    /// Returns where the piece ends that begins at `start`, which is inside the text.
    fn end_of_piece(rules: Rules<'_>, start: usize) -> usize;

    /// Returns where pieces begin in a window that begins with a piece.
    fn starts(window: &mut Window) -> u64;
}

struct Gpt2;
struct Cl100k<const DIGITS: usize>;
struct O200k;

impl Scanner for Gpt2 {
    #[inline(always)]
    fn end_of_piece(rules: Rules<'_>, start: usize) -> usize {
        rules.gpt2(start)
    }

    #[inline(always)]
    fn starts(window: &mut Window) -> u64 {
        window::gpt2(window)
    }
}

impl<const DIGITS: usize> Scanner for Cl100k<DIGITS> {
    #[inline(always)]
    fn end_of_piece(rules: Rules<'_>, start: usize) -> usize {
        rules.cl100k::<DIGITS>(start)
    }

    #[inline(always)]
    fn starts(window: &mut Window) -> u64 {
        window::cl100k::<DIGITS>(window)
    }
}

impl Scanner for O200k {
    const HAS_CASES: bool = true;

    #[inline(always)]
    fn end_of_piece(rules: Rules<'_>, start: usize) -> usize {
        rules.o200k(start)
    }

    #[inline(always)]
    fn starts(window: &mut Window) -> u64 {
        window::o200k(window)
    }
}

/// The rules of all patterns on a text, character by character.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    pub text: &'a [u8],
    pub classes: &'static Classes,
}

impl Rules<'_> {
    /// As `Pieces::next_ends` from `at` on; returns also where the last of the pieces ends.
    fn next_ends<S: Scanner>(self, mut at: usize, ends: &mut [u32]) -> (usize, usize) {
        let mut count = 0;
        while at < self.text.len() && count + 64 <= ends.len() {
            at = S::end_of_piece(self, at);
            ends[count] = at as u32;
            count += 1;
        }
        (count, at)
    }

    /// `'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
    #[inline(always)]
    fn gpt2(self, start: usize) -> usize {
        let first = self.text[start];
        if first == b'\'' {
            let length = contraction(&self.text[start + 1..]);
            if length > 0 {
                return start + 1 + length;
            }
        }
        let (mut class, mut length) = self.classes.at(self.text, start);
        let mut at = start;
        if first == b' ' && start + 1 < self.text.len() {
            let (next, next_length) = self.classes.at(self.text, start + 1);
            if next & SPACE == 0 {
                (class, length, at) = (next, next_length, start + 1);
            }
        }
        if class & SPACE != 0 {
            return self.spaces(start);
        }
        self.run(at + length, NOT_SIGN, class & NOT_SIGN)
    }

    /// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,DIGITS}`
    /// `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
    #[inline(always)]
    fn cl100k<const DIGITS: usize>(self, start: usize) -> usize {
        if self.text[start] == b'\'' {
            let length = contraction_without_case(&self.text[start + 1..]);
            if length > 0 {
                return start + 1 + length;
            }
        }
        let (class, length) = self.classes.at(self.text, start);
        let second = start + length;
        if class & LETTER != 0 {
            return self.run(second, LETTER, LETTER);
        }
        if class & NUMBER != 0 {
            return self.numbers::<DIGITS>(start);
        }
        if class & LINE_END == 0 && second < self.text.len() {
            let (next, next_length) = self.classes.at(self.text, second);
            if next & LETTER != 0 {
                return self.run(second + next_length, LETTER, LETTER);
            }
        }
        self.signs::<false>(start).unwrap_or_else(|| self.spaces_and_lines(start))
    }

    /// `[^\r\n\p{L}\p{N}]?U*l+(?i:'s|…)?|[^\r\n\p{L}\p{N}]?U+l*(?i:'s|…)?|\p{N}{1,3}`
    /// `| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`, U and l being UPPER and LOWER
    #[inline(always)]
    fn o200k(self, start: usize) -> usize {
        let (class, length) = self.classes.at(self.text, start);
        let second = start + length;
        let may_lead = class & (LINE_END | LETTER | NUMBER) == 0;
        // What may stand before a word is tried with and without being taken for that.
        let after = (may_lead && second < self.text.len()).then_some(second);
        let word = after
            .and_then(|second| self.word_with_lower(second))
            .or_else(|| self.word_with_lower(start))
            .or_else(|| after.and_then(|second| self.word_of_upper(second)))
            .or_else(|| self.word_of_upper(start));
        if let Some(end) = word {
            return match self.text.get(end) {
                Some(b'\'') => {
                    let length = contraction_without_case(&self.text[end + 1..]);
                    if length > 0 { end + 1 + length } else { end }
                }
                _ => end,
            };
        }
        if class & NUMBER != 0 {
            return self.numbers::<3>(start);
        }
        self.signs::<true>(start).unwrap_or_else(|| self.spaces_and_lines(start))
    }

    /// `U*l+`: where it ends, if it matches at `start`.
    #[inline(always)]
    fn word_with_lower(self, start: usize) -> Option<usize> {
        let mut at = start;
        let mut end_of_shared = None; // behind the last character that is both U and l
        while at < self.text.len() {
            let (class, length) = self.classes.at(self.text, at);
            if class & UPPER == 0 {
                if class & LOWER != 0 {
                    return Some(self.run(at + length, LOWER, LOWER));
                }
                break;
            }
            at += length;
            if class & LOWER != 0 {
                end_of_shared = Some(at);
            }
        }
        // U* gives back characters until one is left that is l; what is behind that one is not.
        end_of_shared
    }

    /// `U+l*`: where it ends, if it matches at `start`, where `U*l+` does not.
    #[inline(always)]
    fn word_of_upper(self, start: usize) -> Option<usize> {
        let end = self.run(start, UPPER, UPPER);
        (end > start).then(|| self.run(end, LOWER, LOWER))
    }

    /// Returns where the run ends of characters whose classes, of those in `mask`, are `wanted`.
    #[inline(always)]
    fn run(self, mut at: usize, mask: u8, wanted: u8) -> usize {
        while at < self.text.len() {
            let (class, length) = self.classes.at(self.text, at);
            if class & mask != wanted {
                break;
            }
            at += length;
        }
        at
    }

    /// `\p{N}{1,DIGITS}`
    #[inline(always)]
    fn numbers<const DIGITS: usize>(self, start: usize) -> usize {
        let mut at = start;
        for _ in 0..DIGITS {
            match (at < self.text.len()).then(|| self.classes.at(self.text, at)) {
                Some((class, length)) if class & NUMBER != 0 => at += length,
                _ => break,
            }
        }
        at
    }

    /// ` ?[^\s\p{L}\p{N}]+[\r\n]*`, or `[\r\n/]*` at its end: where it ends, if it matches.
    #[inline(always)]
    fn signs<const SLASHES: bool>(self, start: usize) -> Option<usize> {
        let first = start + usize::from(self.text[start] == b' ');
        let mut end = self.run(first, NOT_SIGN, 0);
        if end == first {
            return None;
        }
        while let Some(b'\r' | b'\n') | Some(b'/') = self.text.get(end) {
            if self.text[end] == b'/' && !SLASHES {
                break;
            }
            end += 1;
        }
        Some(end)
    }

    /// `\s*[\r\n]+|\s+(?!\S)|\s+`, at white space
    #[inline(always)]
    fn spaces_and_lines(self, start: usize) -> usize {
        let mut at = start;
        let mut end_of_line = None;
        while at < self.text.len() {
            let (class, length) = self.classes.at(self.text, at);
            if class & SPACE == 0 {
                break;
            }
            at += length;
            if class & LINE_END != 0 {
                end_of_line = Some(at);
            }
        }
        end_of_line.unwrap_or_else(|| self.spaces(start))
    }

    /// `\s+(?!\S)|\s+`, at white space
    #[inline(always)]
    fn spaces(self, start: usize) -> usize {
        let mut at = start;
        let mut last = start;
        while at < self.text.len() {
            let (class, length) = self.classes.at(self.text, at);
            if class & SPACE == 0 {
                return if last > start { last } else { at };
            }
            last = at;
            at += length;
        }
        at
    }
}

/// `[sdmt]|ll|ve|re`: how many bytes of what follows an apostrophe belong to it, 0 if none.
#[inline(always)]
pub fn contraction(rest: &[u8]) -> usize {
    match rest {
        [b's' | b'd' | b'm' | b't', ..] => 1,
        [b'l', b'l', ..] | [b'v', b'e', ..] | [b'r', b'e', ..] => 2,
        _ => 0,
    }
}

/// The same without case: "ſ" is an "s" then.
#[inline(always)]
pub fn contraction_without_case(rest: &[u8]) -> usize {
    match rest {
        [b's' | b'd' | b'm' | b't' | b'S' | b'D' | b'M' | b'T', ..] => 1,
        [b'l' | b'L', b'l' | b'L', ..] => 2,
        [b'v' | b'V' | b'r' | b'R', b'e' | b'E', ..] => 2,
        [0xC5, 0xBF, ..] => 2,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::{Numbers, WORDS};

    const PATTERNS: [Pattern; 4] = [Pattern::Gpt2, Pattern::Cl100k, Pattern::O200k, Pattern::Qwen2];

    fn pieces_by(kernel: Kernel, pattern: Pattern, text: &str) -> Vec<&str> {
        let mut scanner = Pieces::with_kernel(pattern, text.as_bytes(), kernel);
        let (mut start, mut pieces, mut ends) = (0, Vec::new(), [0; 100]);
        loop {
            let count = scanner.next_ends(&mut ends);
            if count == 0 {
                return pieces;
            }
            for &end in &ends[..count] {
                pieces.push(&text[start..end as usize]);
                start = end as usize;
            }
        }
    }

    fn pieces(pattern: Pattern, text: &str) -> Vec<&str> {
        let cut = |kernel| pieces_by(kernel, pattern, text);
        let all: Vec<_> = Kernel::all().into_iter().map(cut).collect();
        for pieces in &all {
            assert_eq!(pieces, all.last().expect("the scalar one"), "{text:?}");
        }
        all[0].clone()
    }

    #[test]
    fn gpt2_cuts_as_its_pattern_says() {
        assert_eq!(
            pieces(Pattern::Gpt2, "Hello  world, it's 2026!\n\n x'LL"),
            ["Hello", " ", " world", ",", " it", "'s", " 2026", "!", "\n\n", " x", "'", "LL"]
        );
    }

    #[test]
    fn cl100k_cuts_as_its_pattern_says() {
        assert_eq!(
            pieces(Pattern::Cl100k, "x'LL (you) 12345 !\n\n  a\n b"),
            ["x", "'LL", " (", "you", ")", " ", "123", "45", " !\n\n", " ", " a", "\n", " b"]
        );
    }

    #[test]
    fn o200k_cuts_as_its_pattern_says() {
        assert_eq!(
            pieces(Pattern::O200k, "camelCase ABCd'S XY_z //\n"),
            ["camel", "Case", " ABCd'S", " XY", "_z", " //\n"]
        );
    }

    #[test]
    fn windows_cut_as_the_rules_do() {
        let mut numbers = Numbers::new(1);
        for _ in 0..if cfg!(miri) { 20 } else { 20_000 } {
            let text = numbers.text(&WORDS, 65);
            for pattern in PATTERNS {
                pieces(pattern, &text);
            }
        }
    }

    /// Returns the places where a text may be cut, each of which must give the pieces of the whole.
    fn checked_cuts(pattern: Pattern, text: &str) -> Vec<usize> {
        let scalar = *Kernel::all().last().expect("the scalar one");
        let whole = pieces_by(scalar, pattern, text);
        let scanner = Pieces::with_kernel(pattern, text.as_bytes(), scalar);
        let cuts: Vec<_> = (0..=text.len()).filter(|&at| scanner.is_safe_cut(at)).collect();
        for &at in &cuts {
            let (head, tail) = text.split_at(at);
            let mut both = pieces_by(scalar, pattern, head);
            both.extend(pieces_by(scalar, pattern, tail));
            assert_eq!(both, whole, "{pattern:?}, {head:?}, {tail:?}");
        }
        cuts
    }

    #[test]
    fn short_texts_of_all_kinds_may_be_cut_where_it_is_said() {
        let kinds = [
            "a", "S", "l", "\u{4e2d}", "1", "!", "'", "/", " ", "\n", "\u{a0}", "\u{301}",
            "\u{17f}",
        ];
        let length = if cfg!(miri) { 2 } else { 5 };
        let mut text = String::new();
        for number in 0..kinds.len().pow(length) {
            text.clear();
            (0..length).for_each(|i| text += kinds[number / kinds.len().pow(i) % kinds.len()]);
            PATTERNS.iter().for_each(|&pattern| drop(checked_cuts(pattern, &text)));
        }
    }

    #[test]
    fn texts_of_all_words_may_be_cut_where_it_is_said() {
        let mut numbers = Numbers::new(5);
        for _ in 0..if cfg!(miri) { 5 } else { 1000 } {
            let text = numbers.text(&WORDS, 40);
            PATTERNS.iter().for_each(|&pattern| drop(checked_cuts(pattern, &text)));
        }
    }

    #[test]
    fn there_is_a_cut_wherever_the_kind_of_character_changes_but_for_what_may_go_on() {
        let cuts = |pattern, text: &str| {
            let mut parts = text.to_string();
            checked_cuts(pattern, text).iter().rev().for_each(|&at| parts.insert(at, '|'));
            parts
        };
        let text = "\u{4f60}\u{597d}\u{ff0c}\u{4e16}12%3a'sb e\u{301} x!\ny/\n z";
        let expected = [
            "\u{4f60}\u{597d}|\u{ff0c}|\u{4e16}|12|%|3|a|'sb| e|\u{301}| x|!|\ny|/|\n z",
            "\u{4f60}\u{597d}|\u{ff0c}\u{4e16}|12|%|3|a|'sb| e|\u{301}| x|!\n|y|/\n z",
            "\u{4f60}\u{597d}|\u{ff0c}\u{4e16}|12|%|3|a'sb| e\u{301}| x|!\n|y|/\n z",
            "\u{4f60}\u{597d}|\u{ff0c}\u{4e16}|12|%|3|a|'sb| e|\u{301}| x|!\n|y|/\n z",
        ];
        for (pattern, expected) in PATTERNS.into_iter().zip(expected) {
            assert_eq!(cuts(pattern, text), expected, "{pattern:?}");
        }
    }
}
