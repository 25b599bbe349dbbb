//! Strings of JSON, 64 bytes at a time.
//!
//! A mask is a number of 64 bits with a one for each byte that has some property. Bit 0, drawn at
//! the left, is the first byte. A step takes all bytes before the first that needs a decision:
//!
//! ```text
//! bytes                abc\\\nde\"fg\u0041h",
//! backslashes          ...1111..1...1.......
//! escapes              ...1.1...1...1.......   the backslashes that begin an escape
//! escaped              ....1.1...1...1......   the bytes after them
//! quotes               ..........1........1.
//! stops                .............1.....1.   quotes & !escaped, control characters, and \u
//! kept                 111.1.111.111........   all bytes before the first stop, without `escapes`
//! ```
//!
//! In a run of backslashes, the first, third, fifth and so on begin an escape. `first_of_pairs`
//! finds them by one subtraction, as simdjson does. A step never begins inside an escape, because
//! a backslash at bit 63 that begins an escape is a stop.
//!
//! Instruction sets that move bytes slowly stop at each backslash instead.

use super::reader::{Fault, Reader};
use crate::simd::{Instructions, short_escape};

/// The bits with odd numbers.
const ODD: u64 = 0xAAAA_AAAA_AAAA_AAAA;

/// Returns the first, third, fifth and so on of each run of bits.
#[inline(always)]
fn first_of_pairs(bits: u64) -> u64 {
    // The subtraction leaves the odd bits of a run that begins at an even bit, because it borrows
    // through the run. ODD turns them, so that the bits of a run alternate from its first on.
    ((((bits << 1) | ODD).wrapping_sub(bits)) ^ ODD) & bits
}

pub trait Text {
    /// Appends the first `length` bytes of a slot. It may copy the whole slot, which is faster
    /// because the length is constant.
    fn push_slot<const N: usize>(&mut self, slot: &[u8; N], length: usize);
}

impl Text for Vec<u8> {
    #[inline(always)]
    fn push_slot<const N: usize>(&mut self, slot: &[u8; N], length: usize) {
        let end = self.len() + length.min(N);
        self.extend_from_slice(slot);
        self.truncate(end);
    }
}

/// Counts the bytes of a string that is only skipped.
impl Text for usize {
    #[inline(always)]
    fn push_slot<const N: usize>(&mut self, _slot: &[u8; N], length: usize) {
        *self += length;
    }
}

impl<I: Instructions> Reader<'_, '_, I> {
    /// Reads a string whose first quote is read already, and its last quote.
    ///
    /// Returns whether it has a lone surrogate, in whose place the text has U+FFFD.
    #[inline(always)]
    pub fn read_string(&mut self, text: &mut impl Text) -> Result<bool, Fault> {
        let mut has_lone_surrogate = false;
        loop {
            self.check_interrupt()?;
            let is_at_stop =
                if I::UNESCAPES_BLOCKS { self.read_escaped(text)? } else { self.read_plain(text) };
            if !is_at_stop {
                continue;
            }
            match self.peek() {
                b'"' => {
                    self.at += 1;
                    return Ok(has_lone_surrogate);
                }
                b'\\' if code_unit(self.rest()).is_some() => {
                    has_lone_surrogate |= self.read_code_points(text);
                }
                b'\\' => {
                    let letter = self.data.get(self.at + 1).copied().unwrap_or(0);
                    let character = short_escape(letter);
                    if character == 0 {
                        return Err(Fault::NotJson);
                    }
                    text.push_slot(&[character], 1);
                    self.at += 2;
                }
                _ => return Err(Fault::NotJson),
            }
        }
    }

    /// Skips what `read_string` reads; returns the length of the string in UTF-8.
    #[inline(always)]
    pub fn skip_string(&mut self) -> Result<usize, Fault> {
        // Most names and other values are short, without escapes.
        let mut length = 0;
        self.read_plain(&mut length);
        if self.peek() == b'"' {
            self.at += 1;
        } else {
            self.read_string(&mut length)?;
        }
        Ok(length)
    }

    /// Reads up to 64 bytes that stand for themselves; returns whether another byte follows.
    #[inline(always)]
    fn read_plain(&mut self, text: &mut impl Text) -> bool {
        let length = self.before_end(|ends| ends.plain, |byte| is_plain(**byte));
        text.push_slot(self.block(), length);
        self.at += length;
        length < 64
    }

    /// Reads up to 64 bytes with short escapes; returns whether the next byte needs a decision.
    #[inline(always)]
    fn read_escaped(&mut self, text: &mut impl Text) -> Result<bool, Fault> {
        let block = self.block();
        let bytes = self.isa.load(block);
        let escapes = first_of_pairs(self.isa.within(bytes, b'\\', 1));
        let escaped = escapes << 1;
        let quotes = self.isa.within(bytes, b'"', 1) & !escaped;
        let controls = self.isa.within(bytes, 0, 0x20);
        let code_points = escapes & self.isa.within(bytes, b'u', 1) >> 1;
        let last = escapes & 1 << 63;
        let length = (quotes | controls | code_points | last).trailing_zeros();
        let before = u64::MAX.checked_shl(length).map_or(u64::MAX, |after| !after);
        let kept = before & !escapes;
        let (moved, wrong) = self.isa.unescape(block, escaped, kept);
        if wrong & before != 0 {
            return Err(Fault::NotJson);
        }
        text.push_slot(&moved, kept.count_ones() as usize);
        self.at += length as usize;
        Ok(length < 64)
    }

    /// Reads a run of `\uXXXX`, and single plain characters of ASCII between them, because vectors
    /// would be slower for the space between two words. The caller checks for interrupts.
    #[inline(always)]
    fn read_code_points(&mut self, text: &mut impl Text) -> bool {
        let mut has_lone_surrogate = false;
        while !self.is_check_due() {
            if let Some(mut unit) = code_unit(self.rest()) {
                self.at += 6;
                if unit & 0xF800 == 0xD800 {
                    let low = code_unit(self.rest()).filter(|low| low & 0xFC00 == 0xDC00);
                    if let Some(low) = low.filter(|_| unit < 0xDC00) {
                        unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
                        self.at += 6;
                    } else {
                        has_lone_surrogate = true;
                        unit = 0xFFFD;
                    }
                }
                push_code_point(text, unit);
            } else if let Some(&[plain, b'\\', b'u']) = self.rest().first_chunk()
                && is_plain(plain)
            {
                text.push_slot(&[plain], 1);
                self.at += 1;
            } else {
                break;
            }
        }
        has_lone_surrogate
    }
}

/// Returns whether a byte stands for itself in a string.
#[inline(always)]
fn is_plain(byte: u8) -> bool {
    !matches!(byte, b'"' | b'\\' | 0..0x20)
}

/// The value of each hexadecimal digit; 16 or more for other bytes.
const HEX_DIGITS: [u8; 256] = {
    let mut values = [u8::MAX; 256];
    let mut value = 0;
    while value < 16 {
        values[b"0123456789abcdef"[value] as usize] = value as u8;
        values[b"0123456789ABCDEF"[value] as usize] = value as u8;
        value += 1;
    }
    values
};

/// Returns the number of a `\uXXXX` at the beginning of some bytes.
#[inline(always)]
fn code_unit(bytes: &[u8]) -> Option<u32> {
    let &[b'\\', b'u', a, b, c, d] = bytes.first_chunk()? else { return None };
    let [a, b, c, d] = [a, b, c, d].map(|digit| u32::from(HEX_DIGITS[usize::from(digit)]));
    (a | b | c | d < 16).then_some(a << 12 | b << 8 | c << 4 | d)
}

/// Appends a code point that is no surrogate, in UTF-8.
#[inline(always)]
fn push_code_point(text: &mut impl Text, point: u32) {
    let last = |shift: u32| 0x80 | (point >> shift & 0x3F) as u8;
    match point {
        0..0x80 => text.push_slot(&[point as u8], 1),
        0x80..0x800 => text.push_slot(&[0xC0 | (point >> 6) as u8, last(0)], 2),
        0x800..0x10000 => text.push_slot(&[0xE0 | (point >> 12) as u8, last(6), last(0), 0], 3),
        _ => text.push_slot(&[0xF0 | (point >> 18) as u8, last(12), last(6), last(0)], 4),
    }
}

/// Returns whether a name, given with its closing quote, is `field` once it is unescaped.
///
/// Since few names have escapes, this function is compiled once, without vectors.
#[cold]
#[inline(never)]
pub fn is_escaped_field(name: &[u8], field: &[u8]) -> bool {
    use crate::{interrupt::Interrupt, simd::Scalar};
    let mut unescaped = Vec::new();
    let mut interrupt = Interrupt::never();
    let result = Reader::new(Scalar, name, &mut interrupt).read_string(&mut unescaped);
    result == Ok(false) && unescaped == field
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupt::Interrupt;
    use crate::simd::{Isa, Work};
    use crate::test_inputs::Rng;

    /// Reads a string that ends with its quote.
    struct Read<'a>(&'a [u8]);

    impl Work for Read<'_> {
        type Result = Result<(Vec<u8>, bool, usize), Fault>;

        fn run<I: Instructions>(self, isa: I) -> Self::Result {
            let mut interrupt = Interrupt::never();
            let mut text = Vec::new();
            let mut reader = Reader::new(isa, self.0, &mut interrupt);
            let read = reader.read_string(&mut text).map(|is_lone| (is_lone, reader.at));
            let mut reader = Reader::new(isa, self.0, &mut interrupt);
            let skipped = reader.skip_string().map(|length| (length, reader.at));
            assert_eq!(skipped, read.map(|(_, end)| (text.len(), end)));
            read.map(|(is_lone, end)| (text, is_lone, end))
        }
    }

    /// Reads a string with each instruction set; returns the text if all find the same.
    fn read(string: &str) -> Option<(String, bool)> {
        let mut found = Isa::all().into_iter().map(|isa| isa.run(Read(string.as_bytes())));
        let first = found.next()?;
        assert!(found.all(|other| other == first), "{string}");
        let (text, is_lone, end) = first.ok()?;
        assert_eq!(end, string.len());
        Some((String::from_utf8(text).expect("UTF-8"), is_lone))
    }

    #[test]
    fn escapes_become_their_characters_at_each_offset() {
        for offset in 0..130 {
            let plain = "x".repeat(offset);
            for (string, text) in [
                ("", ""),
                (r#"\"\\\/\b\f\n\r\t"#, "\"\\/\u{8}\u{c}\n\r\t"),
                (r"\u0041\u00e9\u20AC\ud83d\ude42\u0000", "A\u{e9}\u{20ac}\u{1f642}\0"),
                (r"\u0041 \u00e9 \u20AC\n\ud83d\ude42 x", "A \u{e9} \u{20ac}\n\u{1f642} x"),
                (r"\\u0041\\\u0041\\\\n\\\n", "\\u0041\\A\\\\n\\\n"),
                ("\u{e9}\u{4e2d}\u{1f642}\u{7f}", "\u{e9}\u{4e2d}\u{1f642}\u{7f}"),
            ] {
                let found = read(&format!("{plain}{string}{plain}\""));
                assert_eq!(found, Some((format!("{plain}{text}{plain}"), false)));
            }
        }
    }

    #[test]
    fn wrong_strings_are_refused_at_each_offset() {
        for offset in 0..130 {
            let plain = "x".repeat(offset);
            for string in [
                "", "\n\"", "\0\"", "\u{1f}\"", "\\", "\\\"", r#"\x""#, r#"\N""#, "\\\u{e9}\"",
                "\\\n\"", r#"\u004""#, r#"\u00g0""#, r#"\u+123""#, r"\u0041", r"\u", r"\u00",
                r#"\ud83d\u""#, r#"\ud83d\u12g4""#, r#"\\\""#, "\\\u{6e}\\\u{1}\"",
            ] {
                assert_eq!(read(&format!("{plain}{string}")), None, "{string}");
            }
        }
    }

    #[test]
    fn lone_surrogates_are_found() {
        for (string, is_lone) in [
            (r"\ud83d\ude42", false),
            (r"\ud83d", true),
            (r"\ude42", true),
            (r"\ude42\ud83d", true),
            (r"\ud83d\ud83d\ude42", true),
            (r"\ud83d\u0041", true),
            (r"\ud83d \ude42", true),
            (r"\udfff\u0041", true),
            (r"\ud7ff\ue000", false),
        ] {
            let found = read(&format!("ab{string}ab\"")).map(|(_, is_lone)| is_lone);
            assert_eq!(found, Some(is_lone), "{string}");
        }
    }

    #[test]
    fn first_of_pairs_matches_a_loop() {
        let mut rng = Rng::new(7);
        for round in 0..20_000 {
            let word =
                |rng: &mut Rng| (rng.below(1 << 31) as u64) << 33 ^ rng.below(1 << 31) as u64;
            let mut bits = word(&mut rng);
            for _ in 0..round % 4 {
                bits |= word(&mut rng);
            }
            let mut expected = 0;
            for i in 0..64 {
                let before = if i == 0 { 0 } else { expected >> (i - 1) & 1 };
                expected |= (bits >> i & 1 & !before) << i;
            }
            assert_eq!(first_of_pairs(bits), expected, "{bits:b}");
        }
    }

    #[test]
    fn names_are_compared_unescaped() {
        for (name, is_field) in [
            (r#"text""#, true),
            (r#"\u0074e\u0078t""#, true),
            (r#"\u0074e\u0078""#, false),
            (r#"te\"xt""#, false),
            (r#"text\ud800""#, false),
        ] {
            assert_eq!(is_escaped_field(name.as_bytes(), b"text"), is_field, "{name}");
        }
    }
}
