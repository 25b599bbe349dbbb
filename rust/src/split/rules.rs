//! The rules of the patterns, one character at a time: the reference for `window`.

use std::ops::Range;

use super::unicode::{CodePoints, LETTER, LOWER, NEWLINE, NOT_SYMBOL, NUMBER, UPPER, WHITESPACE};

/// The text to split, which is UTF-8. A method returns where a match that begins at `start` ends.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    pub text: &'a [u8],
    /// The text, and any bytes behind it.
    pub whole: &'a [u8],
    pub classes: &'static CodePoints,
}

impl Rules<'_> {
    /// `'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
    #[inline(always)]
    pub fn gpt2(self, start: usize) -> usize {
        let length = contraction(&self.text[start..]);
        if length > 0 {
            return start + length;
        }
        let (mut class, mut length) = self.classes.at(self.text, start);
        let mut at = start;
        if self.text[start] == b' '
            && let Some((next, next_length)) = self.get(start + 1)
            && next & WHITESPACE == 0
        {
            (class, length, at) = (next, next_length, start + 1);
        }
        if class & WHITESPACE != 0 {
            return self.whitespace(start);
        }
        self.run(at + length, NOT_SYMBOL, class & NOT_SYMBOL)
    }

    /// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,DIGITS}`
    /// `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
    #[inline(always)]
    pub fn cl100k<const DIGITS: usize>(self, start: usize) -> usize {
        let length = contraction_of_any_case(&self.text[start..]);
        if length > 0 {
            return start + length;
        }
        let (class, length) = self.classes.at(self.text, start);
        let second = start + length;
        if class & LETTER != 0 {
            return self.run(second, LETTER, LETTER);
        }
        if class & NUMBER != 0 {
            return self.numbers::<DIGITS>(start);
        }
        if class & NEWLINE == 0
            && let Some((next, next_length)) = self.get(second)
            && next & LETTER != 0
        {
            return self.run(second + next_length, LETTER, LETTER);
        }
        self.symbols::<false>(start).unwrap_or_else(|| self.whitespace_with_newlines(start))
    }

    /// `\s+(?![\s\S])`: returns whether a part of the text is white space.
    #[inline(always)]
    pub fn is_whitespace(self, part: Range<usize>) -> bool {
        let mut at = part.start;
        while at < part.end {
            let (class, length) = self.classes.at(self.text, at);
            if class & WHITESPACE == 0 {
                return false;
            }
            at += length;
        }
        true
    }

    /// Makes the last two pieces one if both are white space, and returns by how many there are fewer.
    #[inline(always)]
    pub fn join_last_whitespace(self, start: usize, ends: &mut [u32]) -> usize {
        let [before @ .., middle, end] = ends else { return 0 };
        let start = before.last().map_or(start, |&end| end as usize);
        let is_joined = self.is_whitespace(*middle as usize..*end as usize)
            && self.is_whitespace(start..*middle as usize);
        if is_joined {
            *middle = *end;
        }
        usize::from(is_joined)
    }

    /// `[^\r\n\p{L}\p{N}]?U*l+(?i:'s|…)?|[^\r\n\p{L}\p{N}]?U+l*(?i:'s|…)?|\p{N}{1,3}`
    /// `| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`, where U is UPPER and l is LOWER
    #[inline(always)]
    pub fn o200k(self, start: usize) -> usize {
        let (class, length) = self.classes.at(self.text, start);
        let second = start + length;
        // A mark may be a prefix or part of the word, so each alternative is tried both ways.
        let may_be_prefix = class & (NEWLINE | LETTER | NUMBER) == 0;
        let behind_prefix = (may_be_prefix && second < self.text.len()).then_some(second);
        let word = behind_prefix
            .and_then(|second| self.word_with_lower(second))
            .or_else(|| self.word_with_lower(start))
            .or_else(|| behind_prefix.and_then(|second| self.word_of_upper(second)))
            .or_else(|| self.word_of_upper(start));
        if let Some(end) = word {
            return end + contraction_of_any_case(&self.text[end..]);
        }
        if class & NUMBER != 0 {
            return self.numbers::<3>(start);
        }
        self.symbols::<true>(start).unwrap_or_else(|| self.whitespace_with_newlines(start))
    }

    /// `U*l+`, if it matches
    #[inline(always)]
    fn word_with_lower(self, start: usize) -> Option<usize> {
        let mut at = start;
        let mut end_of_shared = None; // behind the last character that is both U and l
        while let Some((class, length)) = self.get(at) {
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
        // U* backtracks until l+ matches one character. No l follows that one.
        end_of_shared
    }

    /// `U+l*`, if it matches where `U*l+` does not
    #[inline(always)]
    fn word_of_upper(self, start: usize) -> Option<usize> {
        let end = self.run(start, UPPER, UPPER);
        (end > start).then(|| self.run(end, LOWER, LOWER))
    }

    /// `\p{N}{1,DIGITS}`, at a number
    #[inline(always)]
    fn numbers<const DIGITS: usize>(self, start: usize) -> usize {
        let mut at = start;
        for _ in 0..DIGITS {
            match self.get(at) {
                Some((class, length)) if class & NUMBER != 0 => at += length,
                _ => break,
            }
        }
        at
    }

    /// ` ?[^\s\p{L}\p{N}]+[\r\n]*`, or with `[\r\n/]*` at its end, if it matches
    #[inline(always)]
    fn symbols<const SLASHES: bool>(self, start: usize) -> Option<usize> {
        let first = start + usize::from(self.text[start] == b' ');
        let mut end = self.run(first, NOT_SYMBOL, 0);
        if end == first {
            return None;
        }
        while let Some(&byte) = self.text.get(end)
            && (matches!(byte, b'\r' | b'\n') || SLASHES && byte == b'/')
        {
            end += 1;
        }
        Some(end)
    }

    /// `\s*[\r\n]+|\s+(?!\S)|\s+`, at whitespace
    #[inline(always)]
    fn whitespace_with_newlines(self, start: usize) -> usize {
        let mut at = start;
        let mut end_of_newlines = None;
        while let Some((class, length)) = self.get(at)
            && class & WHITESPACE != 0
        {
            at += length;
            if class & NEWLINE != 0 {
                end_of_newlines = Some(at);
            }
        }
        end_of_newlines.unwrap_or_else(|| self.whitespace(start))
    }

    /// `\s+(?!\S)|\s+`, at whitespace
    #[inline(always)]
    fn whitespace(self, start: usize) -> usize {
        let (mut last, mut at) = (start, start);
        while let Some((class, length)) = self.get(at) {
            if class & WHITESPACE == 0 {
                return if last > start { last } else { at };
            }
            last = at;
            at += length;
        }
        at
    }

    /// Returns the end of the run of characters whose classes in `mask` are exactly `classes`.
    #[inline(always)]
    fn run(self, mut at: usize, mask: u8, classes: u8) -> usize {
        while let Some((class, length)) = self.get(at)
            && class & mask == classes
        {
            at += length;
        }
        at
    }

    /// Returns the classes and the length of the character at `at`, or None at the end.
    #[inline(always)]
    fn get(self, at: usize) -> Option<(u8, usize)> {
        (at < self.text.len()).then(|| self.classes.at(self.text, at))
    }
}

/// `'(?:[sdmt]|ll|ve|re)`: the length of a contraction that a text begins with, or 0.
#[inline(always)]
pub fn contraction(text: &[u8]) -> usize {
    match text {
        [b'\'', b's' | b'd' | b'm' | b't', ..] => 2,
        [b'\'', b'l', b'l', ..] | [b'\'', b'v' | b'r', b'e', ..] => 3,
        _ => 0,
    }
}

/// `(?i:'(?:[sdmt]|ll|ve|re))`: the length, or 0. U+017F, "ſ", is a small "S".
#[inline(always)]
pub fn contraction_of_any_case(text: &[u8]) -> usize {
    match text {
        [b'\'', b's' | b'd' | b'm' | b't' | b'S' | b'D' | b'M' | b'T', ..] => 2,
        [b'\'', b'l' | b'L', b'l' | b'L', ..] => 3,
        [b'\'', b'v' | b'V' | b'r' | b'R', b'e' | b'E', ..] => 3,
        [b'\'', 0xC5, 0xBF, ..] => 3,
        _ => 0,
    }
}
