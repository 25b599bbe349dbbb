//! Where pieces end, for the patterns that have names; each rule is that of one pattern.
//!
//! The scanners here go character by character, and say the rules. Text is valid UTF-8.

use crate::simd::{Kernel, Masks};
use crate::unicode::{Classes, LETTER, LINE_END, LOWER, NOT_SIGN, NUMBER, SPACE, UPPER};

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
    classes: &'static Classes,
    kernel: Kernel,
    text: &'a [u8],
    /// Which block of 64 bytes `masks` are of.
    block: usize,
    masks: Masks,
}

const NO_BLOCK: usize = usize::MAX;

impl<'a> Pieces<'a> {
    pub fn new(pattern: Pattern, text: &'a str) -> Pieces<'a> {
        Pieces::with_kernel(pattern, text, Kernel::get())
    }

    fn with_kernel(pattern: Pattern, text: &'a str, kernel: Kernel) -> Pieces<'a> {
        Pieces {
            pattern,
            classes: Classes::get(),
            kernel,
            text: text.as_bytes(),
            block: NO_BLOCK,
            masks: Masks::default(),
        }
    }

    /// Returns where the piece ends that begins at `start`, which is inside the text.
    #[inline(always)]
    pub fn end_of_piece(&mut self, start: usize) -> usize {
        match self.pattern {
            Pattern::Gpt2 => self.gpt2(start),
            Pattern::Cl100k => self.cl100k::<3>(start),
            Pattern::Qwen2 => self.cl100k::<1>(start),
            Pattern::O200k => self.o200k(start),
        }
    }

    /// Returns the masks of the block that `at` is in.
    #[inline(always)]
    fn masks_at(&mut self, at: usize) -> Masks {
        let block = at / 64;
        if block != self.block {
            self.load(block);
        }
        self.masks
    }

    fn load(&mut self, block: usize) {
        let rest = &self.text[block * 64..];
        self.masks = match rest.first_chunk() {
            Some(bytes) => self.kernel.masks(bytes),
            None => {
                let mut bytes = [0; 64];
                bytes[..rest.len()].copy_from_slice(rest);
                self.kernel.masks(&bytes)
            }
        };
        self.block = block;
    }

    /// Returns whether a piece of any text ends at `at`, whatever comes before and after.
    ///
    /// With GPT-2's pattern that is before white space after anything else: no alternative has
    /// white space behind anything else, none looks back, and the look-ahead begins in white
    /// space. The others let line ends follow signs: there, before other white space.
    pub fn is_safe_cut(&self, at: usize) -> bool {
        let text = self.text;
        if at == 0 || at >= text.len() || text[at] & 0xC0 == 0x80 {
            return false;
        }
        let mut before = at - 1;
        while text[before] & 0xC0 == 0x80 {
            before -= 1;
        }
        let class = self.classes.at(text, at).0;
        self.classes.at(text, before).0 & SPACE == 0
            && class & SPACE != 0
            && (self.pattern == Pattern::Gpt2 || class & LINE_END == 0)
    }

    /// `'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
    #[inline(always)]
    fn gpt2(&mut self, start: usize) -> usize {
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
    fn cl100k<const DIGITS: usize>(&mut self, start: usize) -> usize {
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
    fn o200k(&mut self, start: usize) -> usize {
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
    fn word_with_lower(&mut self, start: usize) -> Option<usize> {
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
    fn word_of_upper(&mut self, start: usize) -> Option<usize> {
        let end = self.run(start, UPPER, UPPER);
        (end > start).then(|| self.run(end, LOWER, LOWER))
    }

    /// Returns where the run ends of characters whose classes, of those in `mask`, are `wanted`.
    #[inline(always)]
    fn run(&mut self, mut at: usize, mask: u8, wanted: u8) -> usize {
        loop {
            if at >= self.text.len() {
                return self.text.len();
            }
            // Of ASCII, 64 bytes are looked at together.
            let masks = self.masks_at(at);
            let same = match wanted {
                LETTER => masks.letters,
                NUMBER => masks.numbers,
                UPPER => masks.upper,
                LOWER => masks.letters & !masks.upper,
                _ => !(masks.letters | masks.numbers | masks.spaces | masks.high),
            };
            let inside = at % 64;
            let length = (same >> inside).trailing_ones() as usize;
            at += length;
            if inside + length == 64 {
                continue;
            }
            if masks.high >> (inside + length) & 1 == 0 {
                return at.min(self.text.len());
            }
            let (class, length) = self.classes.at(self.text, at);
            if class & mask != wanted {
                return at;
            }
            at += length;
        }
    }

    /// `\p{N}{1,DIGITS}`
    #[inline(always)]
    fn numbers<const DIGITS: usize>(&mut self, start: usize) -> usize {
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
    fn signs<const SLASHES: bool>(&mut self, start: usize) -> Option<usize> {
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
    fn spaces_and_lines(&mut self, start: usize) -> usize {
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
    fn spaces(&mut self, start: usize) -> usize {
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
fn contraction(rest: &[u8]) -> usize {
    match rest {
        [b's' | b'd' | b'm' | b't', ..] => 1,
        [b'l', b'l', ..] | [b'v', b'e', ..] | [b'r', b'e', ..] => 2,
        _ => 0,
    }
}

/// The same without case: "ſ" is an "s" then.
#[inline(always)]
fn contraction_without_case(rest: &[u8]) -> usize {
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

    fn pieces(pattern: Pattern, text: &str) -> Vec<&str> {
        let cut = |kernel| {
            let mut scanner = Pieces::with_kernel(pattern, text, kernel);
            let (mut start, mut pieces) = (0, Vec::new());
            while start < text.len() {
                let end = scanner.end_of_piece(start);
                pieces.push(&text[start..end]);
                start = end;
            }
            pieces
        };
        let all: Vec<_> = Kernel::all().into_iter().map(cut).collect();
        assert!(all.iter().all(|pieces| *pieces == all[0]));
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
}
