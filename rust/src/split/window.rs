//! The patterns that have windows, 64 bytes at a time.
//!
//! # Theory of operation
//!
//! A mask is a number of 64 bits with a one for each byte that has some property. Bit 0, drawn at
//! the left, is the first byte. Each alternative of a pattern becomes arithmetic on masks:
//!
//! - `x << 1` are the bytes that follow `x`, and `x >> 1` are the bytes that precede it.
//! - `x & !(x << 1)` are the first bytes of runs of `x`.
//! - `x & !(x + first)` are the runs of `x` that begin at `first`, because adding the first bit of
//!   a run carries through the run, clears it, and sets the bit after it.
//!
//! # Example
//!
//! cl100k splits this line into `We|'ve| |123|45| cats|!⏎| | ok`. A space is drawn as `_`.
//!
//! ```text
//! text                 We've_12345_cats!⏎__ok
//! letters              11.11.......1111....11
//! numbers              ......11111...........
//! symbols              ..1.............1.....
//! whitespace           .....1.....1.....111..
//! newlines             .................1....
//!
//! first of letters     1..1........1.......1.   letters & !(letters << 1)
//! after prefixes       ...1..1.....1....1..11   (first symbols | whitespace & !newlines) << 1
//! words                1.....................   first of letters & !after prefixes
//! numbers              ......1..1............   first of numbers, then each third one
//! symbols              ..1.............1.....   first of symbols, unless a space precedes
//! newlines of symbols  .................1....   newlines & !(newlines + (newlines & symbols << 1))
//! whitespace           .....1.....1......11..   first and last of runs of the other whitespace
//!
//! pieces begin         1.1..11..1.1....1.11..   words | numbers | symbols | whitespace
//! ```
//!
//! `\p{L}+` takes a letter after a letter. `[^\r\n\p{L}\p{N}]?\p{L}+` takes one more character
//! before the first letter, so that "v", "c" and "o" begin no piece. `[\r\n]*` gives the newline to
//! "!". `\s+(?!\S)` leaves the last space to "ok". A contraction such as `'ve` ends by itself, so
//! the bit after it is set, even before a letter.
//!
//! # Why the borders of windows are right
//!
//! 1. No pattern looks back, and a window begins with a piece. So the text before it is irrelevant.
//! 2. A bit depends on the character of its byte, on what precedes it in the window, and on the
//!    next byte. So bit 63 is never used.
//! 3. Where more of the text matters than the window has, the rule sets a bit in `uncertain`.
//!    Rare characters set one too. No bit from the first of these on is used.
//! 4. The next window begins with the last piece that this one found to begin. Without such
//!    a bit, the automaton splits one piece.
//! 5. All bytes of a character have its classes. So characters of several bytes interrupt no run.
//! 6. The bytes after the end of the text count as whitespace, and a piece ends there.

use super::unicode::{CodePoints, LETTER, LOWER, NUMBER, UPPER, WHITESPACE};
use crate::simd::{Block, Instructions, Leads, Masks};

/// A pattern that has windows.
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
    pub const NAMES: [(&str, Pattern); 5] = [
        ("gpt2", Pattern::Gpt2),
        ("cl100k", Pattern::Cl100k),
        ("cl100k_base", Pattern::Cl100kBase),
        ("o200k", Pattern::O200k),
        ("qwen2", Pattern::Qwen2),
    ];

    pub fn of_name(name: &str) -> Option<Pattern> {
        Pattern::NAMES.into_iter().find(|named| named.0 == name).map(|(_, pattern)| pattern)
    }

    pub fn name(self) -> &'static str {
        Pattern::NAMES[self as usize].0
    }
}

/// The masks of 64 bytes of a text.
pub struct Window<'a> {
    text: &'a [u8],
    at: usize,
    /// The masks of all characters, also outside ASCII.
    masks: Masks,
    /// All letters except capitals. Marks and letters without case are in both `upper` and `lower`.
    lower: u64,
    marks: u64,
    /// The first bytes of characters outside ASCII.
    leads: u64,
    other_numbers: u64,
    other_whitespace: u64,
    /// The bit after the end of the text, if the text ends before bit 63.
    end: Option<usize>,
    /// From the first of these bits on, the window does not tell where pieces begin.
    uncertain: u64,
}

impl<'a> Window<'a> {
    /// `whole` has the text, and any bytes after it. The masks of capitals, small letters and marks
    /// are complete only with `has_cases`.
    #[inline(always)]
    pub fn new(
        isa: impl Instructions,
        classes: &CodePoints,
        text: &'a [u8],
        whole: &[u8],
        at: usize,
        has_cases: bool,
    ) -> Window<'a> {
        let rest = &text[at..];
        let mut last_block: Block = [0; 64];
        let (block, end) = match rest.first_chunk() {
            Some(block) => (block, None),
            None => {
                if let Some(block) = whole[at..].first_chunk() {
                    last_block = *block;
                    clear_from(&mut last_block, rest.len() as u8);
                } else {
                    last_block[..rest.len()].copy_from_slice(rest);
                }
                (&last_block, Some(rest.len()))
            }
        };
        let masks = isa.masks(block);
        let mut window = Window {
            text,
            at,
            masks,
            lower: masks.letters & !masks.upper,
            marks: 0,
            leads: 0,
            other_numbers: 0,
            other_whitespace: 0,
            end: end.filter(|&end| end < 63),
            uncertain: 0,
        };
        if masks.non_ascii != 0 {
            let leads = isa.leads(block);
            window.leads = leads.all;
            window.add_non_ascii(classes, leads, has_cases);
        }
        if let Some(end) = end {
            window.masks.whitespace |= u64::MAX << end;
        }
        window
    }

    /// Adds the characters outside ASCII to the masks.
    #[inline(always)]
    fn add_non_ascii(&mut self, classes: &CodePoints, leads: Leads, has_cases: bool) {
        let uncased = leads.uncased | leads.uncased << 1 | leads.uncased << 2;
        self.masks.letters |= uncased;
        let mut unknown = leads.all & !leads.uncased;
        if has_cases {
            self.masks.upper |= uncased;
            self.lower |= uncased;
        } else {
            self.masks.letters |= leads.cased | leads.cased << 1;
            unknown &= !leads.cased;
        }
        for index in ones(unknown) {
            let (class, length) = classes.at(self.text, self.at + index as usize);
            let character = ((1_u64 << length) - 1) << index;
            let bits_if = |classes: u8| if class & classes == 0 { 0 } else { character };
            self.masks.letters |= bits_if(LETTER);
            self.other_numbers |= bits_if(NUMBER);
            self.other_whitespace |= bits_if(WHITESPACE);
            if has_cases {
                self.masks.upper |= bits_if(UPPER);
                self.lower |= bits_if(LOWER);
                self.marks |= bits_if(UPPER) & !bits_if(LETTER);
            }
        }
        self.masks.numbers |= self.other_numbers;
        self.masks.whitespace |= self.other_whitespace;
    }

    /// Returns the bits that may be used, without bit 0, where the window itself begins.
    #[inline(always)]
    pub fn certain(&self) -> u64 {
        let before_uncertain = (self.uncertain & self.uncertain.wrapping_neg()).wrapping_sub(1);
        before_uncertain & (u64::MAX >> 1) & !1
    }

    /// Returns the bit of the end of the text, where a piece ends, if the window has it.
    #[inline(always)]
    fn end(&self) -> u64 {
        self.end.map_or(0, |end| 1 << end)
    }

    /// Calls `add` with the start and the end of each contraction whose apostrophe is a candidate.
    #[inline(always)]
    fn for_each_contraction(
        &self,
        candidates: u64,
        length_of: impl Fn(&[u8]) -> usize,
        mut add: impl FnMut(u32, u32),
    ) {
        for index in ones(candidates & self.masks.apostrophes) {
            let length = length_of(&self.text[self.at + index as usize..]) as u32;
            if length > 0 {
                add(index, index + length);
            }
        }
    }

    /// Returns the bytes after a character with which a word may begin: whitespace except newlines,
    /// and the first symbol of a piece.
    #[inline(always)]
    fn after_prefixes(&self, first_symbols: u64) -> u64 {
        let mut prefixes = first_symbols;
        let continuation_bytes = self.masks.non_ascii & !self.leads;
        if continuation_bytes != 0 {
            for _ in 0..3 {
                prefixes |= prefixes << 1 & continuation_bytes;
            }
        }
        (prefixes | self.masks.whitespace & !self.masks.newlines) << 1
    }

    /// `\p{N}{1,DIGITS}`: where these pieces begin.
    #[inline(always)]
    fn first_numbers<const DIGITS: usize>(&mut self) -> u64 {
        let numbers = self.masks.numbers;
        self.uncertain |= self.other_numbers;
        if DIGITS == 1 {
            return numbers;
        }
        let mut starts = numbers & !(numbers << 1);
        let from_fourth = numbers & numbers << 1 & numbers << 2 & numbers << 3;
        let mut next = starts;
        while next & from_fourth >> DIGITS != 0 {
            next = next << DIGITS & from_fourth;
            starts |= next;
        }
        starts
    }

    /// `\s*[\r\n]+|\s+(?!\S)|\s+`: the starts of pieces that begin with whitespace. Newlines in
    /// `taken` belong to symbols.
    #[inline(always)]
    fn first_whitespace(&mut self, taken: u64) -> u64 {
        let Masks { whitespace, newlines, .. } = self.masks;
        self.uncertain |= self.other_whitespace;
        let free = whitespace & !taken;
        let within_line = whitespace & !newlines;
        let mut starts = free & !(free << 1) | within_line & !(whitespace >> 1);
        // Whitespace after the last newline of a run begins a piece.
        for index in ones(within_line & newlines << 1) {
            let next = index + (within_line >> index).trailing_ones();
            if next >= 64 && self.end.is_none() {
                self.uncertain |= bit(index);
            } else if bit(next) & newlines == 0 {
                starts |= bit(index);
            }
        }
        starts
    }
}

/// `'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
#[inline(always)]
pub fn gpt2(window: &mut Window) -> u64 {
    let Masks { letters, numbers, whitespace, spaces, .. } = window.masks;
    let symbols = !(letters | numbers | whitespace);
    let first_symbols = symbols & !(symbols << 1);
    let first_of_runs = (letters & !(letters << 1)) | (numbers & !(numbers << 1)) | first_symbols;
    let after_spaces = spaces << 1;
    // The last whitespace of a run is not in the piece of the run. If it is a space, it begins the
    // next piece.
    let mut starts =
        (first_of_runs & !after_spaces) | whitespace & !(whitespace << 1 & whitespace >> 1);
    window.uncertain = window.other_whitespace;
    let candidates = first_symbols & !after_spaces & (letters >> 1);
    window.for_each_contraction(candidates, contraction, |begin, end| {
        starts = starts & !bit(begin + 1) | bit(end);
    });
    starts | window.end()
}

/// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,DIGITS}`
/// `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
#[inline(always)]
pub fn cl100k<const DIGITS: usize>(window: &mut Window) -> u64 {
    let Masks { letters, numbers, whitespace, spaces, newlines, .. } = window.masks;
    let symbols = !(letters | numbers | whitespace);
    let taken = newlines & !newlines.wrapping_add(newlines & symbols << 1);
    let first_symbols = symbols & !(symbols << 1) & !(spaces << 1);
    let words = letters & !(letters << 1) & !window.after_prefixes(first_symbols);
    let numbers = window.first_numbers::<DIGITS>();
    let mut starts = words | numbers | first_symbols | window.first_whitespace(taken);
    let candidates = first_symbols & letters >> 1;
    window.for_each_contraction(candidates, contraction_of_any_case, |_, end| starts |= bit(end));
    starts | window.end()
}

/// Like `cl100k`, but white space at the end of the text is one piece.
#[inline(always)]
pub fn cl100k_base(window: &mut Window) -> u64 {
    let starts = cl100k::<3>(window);
    let last = window.end.map_or(64, |end| end as u32);
    let whitespace = (window.masks.whitespace << (64 - last)).leading_ones();
    // The text may end after the whitespace at the end of the window.
    window.uncertain |= if whitespace > 0 { bit(last - whitespace) } else { 0 };
    starts
}

/// `[^\r\n\p{L}\p{N}]?U*l+(?i:'s|…)?|[^\r\n\p{L}\p{N}]?U+l*(?i:'s|…)?|\p{N}{1,3}`
/// `| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`, where U is `upper` and l is `lower`
#[inline(always)]
pub fn o200k(window: &mut Window) -> u64 {
    let Window { lower, marks, .. } = *window;
    let Masks { numbers, whitespace, upper, spaces, newlines, slashes, .. } = window.masks;
    // A mark may be part of a word or a symbol. After a symbol, the automaton decides.
    let letters = upper | lower;
    let all_symbols = !(letters | numbers | whitespace);
    window.uncertain |= marks & all_symbols << 1;
    // `[\r\n/]*` after symbols: a slash is among the symbols too, if no newline precedes it.
    let mut taken = 0;
    let mut first_newlines = newlines & all_symbols << 1;
    while first_newlines != 0 {
        let index = first_newlines.trailing_zeros();
        let run = ((newlines | slashes) >> index).trailing_ones();
        taken |= (bit(run).wrapping_sub(1)) << index;
        first_newlines &= !taken;
    }
    let symbols = all_symbols & !taken;
    let first_symbols = symbols & !(symbols << 1) & !(spaces << 1);
    let words = letters & !(letters << 1) & !window.after_prefixes(first_symbols);
    // A capital after a small letter begins a word. After a letter that is both U and l, the
    // characters that follow decide.
    let capitals = upper & !lower;
    window.uncertain |= capitals & (upper & lower) << 1;
    let mut starts = words | capitals & (lower & !upper) << 1 | first_symbols;
    starts |= window.first_numbers::<3>() | window.first_whitespace(taken);
    let mut last_end = 0;
    window.for_each_contraction(letters << 1, contraction_of_any_case, |begin, end| {
        if begin != last_end {
            last_end = end;
            let inside = bit(end).wrapping_sub(1) & (u64::MAX << begin);
            starts = starts & !inside | bit(end);
        }
    });
    starts | window.end()
}

/// `'(?:[sdmt]|ll|ve|re)`: the length of a contraction at the start of a text, or 0.
#[inline(always)]
fn contraction(text: &[u8]) -> usize {
    match text {
        [b'\'', b's' | b'd' | b'm' | b't', ..] => 2,
        [b'\'', b'l', b'l', ..] | [b'\'', b'v' | b'r', b'e', ..] => 3,
        _ => 0,
    }
}

/// `(?i:'(?:[sdmt]|ll|ve|re))`: the length, or 0. U+017F, "ſ", counts as a small "S".
#[inline(always)]
fn contraction_of_any_case(text: &[u8]) -> usize {
    match text {
        [b'\'', b's' | b'd' | b'm' | b't' | b'S' | b'D' | b'M' | b'T', ..] => 2,
        [b'\'', b'l' | b'L', b'l' | b'L', ..] => 3,
        [b'\'', b'v' | b'V' | b'r' | b'R', b'e' | b'E', ..] => 3,
        [b'\'', 0xC5, 0xBF, ..] => 3,
        _ => 0,
    }
}

/// Clears the bytes from an index on, without a branch, which is faster than copying some bytes.
#[inline(always)]
fn clear_from(block: &mut Block, start: u8) {
    for (index, byte) in (0..).zip(block) {
        *byte = if index < start { *byte } else { 0 };
    }
}

/// Returns the mask of one bit, or 0 if the bit is after the window.
#[inline(always)]
fn bit(index: u32) -> u64 {
    1_u64.checked_shl(index).unwrap_or(0)
}

/// Yields the indices of the bits that are set.
#[inline(always)]
fn ones(mut bits: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let index = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (index < 64).then_some(index)
    })
}

#[cfg(test)]
mod tests {
    use crate::simd::{Instructions, Scalar};
    use crate::split::unicode::{LETTER, LOWER, UPPER, classes};

    #[test]
    fn leads_of_letters_belong_to_letters() {
        for character in ('\u{80}'..=char::MAX).step_by(if cfg!(miri) { 997 } else { 1 }) {
            let mut block = [0; 64];
            character.encode_utf8(&mut block[..4]);
            let leads = Scalar.leads(&block);
            let class = classes().of(character.into());
            if leads.uncased == 1 {
                assert_eq!((class, character.len_utf8()), (LETTER | UPPER | LOWER, 3));
            }
            if leads.cased == 1 {
                assert_eq!((class & LETTER, character.len_utf8()), (LETTER, 2), "{character}");
            }
        }
    }
}
