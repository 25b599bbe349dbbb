//! The characters and words of UTF-8.

use crate::interrupt::Interrupt;

/// Counts of bytes that are added with 8 bits, which compilers turn into vectors.
const COUNTED_TOGETHER: usize = 192;

/// Returns how many characters and words the documents have between neighbouring offsets.
///
/// A word is a run of other bytes than ASCII white space in one document. The offsets ascend, and
/// are in the text. An interrupt leaves the counts incomplete.
pub fn characters_and_words(
    text: &[u8],
    offsets: impl Iterator<Item = usize>,
    interrupt: &mut Interrupt<'_>,
) -> (usize, usize) {
    let mut offsets = offsets.peekable();
    let Some(&first) = offsets.peek() else { return (0, 0) };
    let (mut characters, mut words, mut start) = (0, 0, first);
    for end in offsets {
        let is_word = |at: usize| text.get(at).is_some_and(|&byte| !is_space(byte));
        // Words after a space are counted below.
        let begins_word = start < end && is_word(start);
        words += usize::from(begins_word && (start == first || is_word(start - 1)));
        start = end;
    }
    let text = text.get(first..start).unwrap_or_default();
    for (i, chunk) in text.chunks(COUNTED_TOGETHER).enumerate() {
        let is_first = |&byte: &u8| u8::from(byte & 0xC0 != 0x80);
        characters += usize::from(chunk.iter().map(is_first).sum::<u8>());
        let before = &text[(i * COUNTED_TOGETHER).saturating_sub(1)..];
        let chunk = &chunk[usize::from(i == 0)..];
        let begins_word = |(&before, &byte)| u8::from(is_space(before) & !is_space(byte));
        words += usize::from(before.iter().zip(chunk).map(begins_word).sum::<u8>());
        if interrupt.advance(chunk.len()).is_err() {
            break;
        }
    }
    (characters, words)
}

fn is_space(byte: u8) -> bool {
    (byte == b' ') | (byte.wrapping_sub(b'\t') <= b'\r' - b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_inputs::Rng;

    #[test]
    fn characters_and_words_are_those_of_the_standard_library() {
        let mut rng = Rng::new(1);
        let kinds = [" ", "\t", "\x0B", "\r\n", "a", "\x08", "\u{e9}", "\u{3000}", "\u{1f642}", ""];
        for _ in 0..if cfg!(miri) { 20 } else { 2000 } {
            let count = 1 + rng.below(5);
            let texts: Vec<_> = (0..count).map(|_| rng.text(&kinds, 600)).collect();
            let mut offsets = vec![1];
            offsets.extend(texts.iter().scan(1, |end, text| {
                *end += text.len();
                Some(*end)
            }));
            let words = texts.iter().flat_map(|text| text.split([' ', '\t', '\x0B', '\r', '\n']));
            let expected = (
                texts.iter().map(|text| text.chars().count()).sum(),
                words.filter(|word| !word.is_empty()).count(),
            );
            let text = format!("-{}-", texts.concat());
            let never = &mut Interrupt::never();
            let found = characters_and_words(text.as_bytes(), offsets.into_iter(), never);
            assert_eq!(found, expected);
        }
    }
}
