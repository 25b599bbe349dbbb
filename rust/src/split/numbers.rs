//! Numbers that divide a text before a pattern splits it.

use super::unicode::{CodePoints, NUMBER, classes};
use crate::mem::growth::push;

/// The most ends that one call finds, so that memory does not grow with the text.
const MAX_ENDS: usize = 1 << 12;

const CHUNK: usize = 32;

/// Finds where the matches of `\p{N}{1,max_digits}` end, and the text between them.
pub struct NumberEnds<'a> {
    whole: &'a [u8],
    /// The ends of the texts that are to be divided, which stand side by side in `whole`.
    text_ends: &'a [u32],
    max_digits: usize,
    classes: &'static CodePoints,
    at: usize,
    /// How many characters of a match precede `at`.
    matched: usize,
    last_end: usize,
}

impl<'a> NumberEnds<'a> {
    pub fn new(whole: &'a [u8], text_ends: &'a [u32], max_digits: usize) -> NumberEnds<'a> {
        let classes = classes();
        NumberEnds { whole, text_ends, max_digits, classes, at: 0, matched: 0, last_end: 0 }
    }

    /// Sets `ends` to the next ends, and returns whether there are any.
    pub fn next_ends(&mut self, ends: &mut Vec<u32>) -> bool {
        ends.clear();
        while let (Some((&end, others)), true) =
            (self.text_ends.split_first(), ends.len() < MAX_ENDS)
        {
            let text = &self.whole[..end as usize];
            if self.at >= text.len() {
                self.end_at(text.len(), ends);
                (self.text_ends, self.matched) = (others, 0);
                continue;
            }
            let (class, length) = self.classes.at(text, self.at);
            if class & NUMBER == 0 {
                if self.matched > 0 {
                    self.end_at(self.at, ends);
                }
                self.matched = 0;
                self.at += length;
                self.at += length_without_numbers(text.get(self.at..).unwrap_or_default());
            } else {
                if self.matched == 0 || self.matched == self.max_digits {
                    self.end_at(self.at, ends);
                    self.matched = 0;
                }
                self.matched += 1;
                self.at += length;
            }
        }
        !ends.is_empty()
    }

    fn end_at(&mut self, at: usize, ends: &mut Vec<u32>) {
        if at > self.last_end {
            push(ends, at as u32);
            self.last_end = at;
        }
    }
}

/// Returns a length of text that has no numbers, and ends at a character.
#[inline(always)]
fn length_without_numbers(text: &[u8]) -> usize {
    let may_be_number = |&byte: &u8| byte.is_ascii_digit() | (byte >= 0x80);
    let mut length = 0;
    while let Some(chunk) = text[length..].first_chunk::<CHUNK>() {
        // Without a branch for each byte, all are compared at once.
        if chunk.iter().fold(false, |any, byte| any | may_be_number(byte)) {
            break;
        }
        length += CHUNK;
    }
    let rest = &text[length..];
    length + rest.iter().position(may_be_number).unwrap_or(rest.len())
}

/// For tests: the texts that numbers divide a text into, by the plainest way.
#[cfg(test)]
pub fn divided(text: &str, max_digits: usize) -> Vec<&str> {
    let is_number = |at: usize| classes().at(text.as_bytes(), at).0 & NUMBER != 0;
    let (mut parts, mut start, mut matched) = (Vec::new(), 0, 0);
    for (at, _) in text.char_indices() {
        let is_edge =
            if is_number(at) { matched == 0 || matched == max_digits } else { matched > 0 };
        if is_edge && at > start {
            parts.push(&text[start..at]);
            start = at;
        }
        matched = match is_number(at) {
            true if is_edge => 1,
            true => matched + 1,
            false => 0,
        };
    }
    parts.extend((start < text.len()).then_some(&text[start..]));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_inputs::{Rng, WORDS};

    #[test]
    fn texts_are_divided_at_numbers() {
        assert_eq!(divided("a12 ½٣345x", 1), ["a", "1", "2", " ", "½", "٣", "3", "4", "5", "x"]);
        assert_eq!(divided("a12 ½٣345x", 3), ["a", "12", " ", "½٣3", "45", "x"]);
        assert_eq!(divided("12", usize::MAX), ["12"]);
        let mut rng = Rng::new(3);
        for round in 0..if cfg!(miri) { 10 } else { 2000 } {
            let letters = if round % 100 == 0 { 9000 } else { 40 };
            let texts: Vec<_> = (0..3).map(|_| rng.text(&WORDS, letters)).collect();
            let whole = texts.concat();
            let text_ends: Vec<_> = texts
                .iter()
                .scan(0, |end, text| {
                    *end += text.len() as u32;
                    Some(*end)
                })
                .collect();
            for max_digits in [1, 2, 3, usize::MAX] {
                let mut numbers = NumberEnds::new(whole.as_bytes(), &text_ends, max_digits);
                let (mut found, mut ends, mut start) = (Vec::new(), Vec::new(), 0);
                while numbers.next_ends(&mut ends) {
                    assert!(ends.len() <= MAX_ENDS);
                    for &end in &ends {
                        found.push(&whole[start..end as usize]);
                        start = end as usize;
                    }
                }
                let expected: Vec<_> =
                    texts.iter().flat_map(|text| divided(text, max_digits)).collect();
                assert_eq!(found, expected, "{texts:?}");
            }
        }
    }
}
