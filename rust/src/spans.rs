//! Places in a piece that no token spans, so that what is before and what is behind one is merged
//! apart: the ids of a long piece are then those of its parts, which come again more often.
//!
//! In Chinese, Japanese and Korean a piece is a whole clause, but few tokens are of more than a
//! character or two: nearly every place between two characters is such a place.

/// Which neighbours are in some token. Exact when it says that two are apart; when it says that
/// they may be together, that may come of two pairs with one hash.
pub struct Spans {
    /// Hashes of two whole characters that are neighbours in a token.
    characters: Box<[u64; 1 << (HASH_BITS - 6)]>,
    /// Neighbouring bytes of two characters of which a token has not the whole.
    bytes: Box<[u64; 1 << 10]>,
}

const HASH_BITS: u32 = 18;

impl Spans {
    /// Takes the bytes of all tokens.
    pub fn new<'a>(tokens: impl Iterator<Item = &'a [u8]>) -> Spans {
        let mut spans = Spans { characters: Box::new([0; _]), bytes: Box::new([0; _]) };
        // Of two characters of ASCII nothing is kept, as they are never apart.
        for token in tokens.filter(|token| !token.is_ascii()) {
            spans.add(token);
        }
        spans
    }

    fn add(&mut self, token: &[u8]) {
        let mut before = None; // where the character begins that ends here, if that is in the token
        for (at, &byte) in token.iter().enumerate() {
            if byte & 0xC0 == 0x80 {
                continue;
            }
            if at > 0 {
                let end = at + length(byte);
                match before {
                    Some(start) if start + length(token[start]) == at && end <= token.len() => {
                        let hash = hash(&token[start..at], &token[at..end]);
                        self.characters[hash / 64] |= 1 << (hash % 64);
                    }
                    _ => {
                        let pair = usize::from(token[at - 1]) << 8 | usize::from(byte);
                        self.bytes[pair / 64] |= 1 << (pair % 64);
                    }
                }
            }
            before = Some(at);
        }
    }

    /// Returns whether no token spans the place between two characters, `text[start..middle]` and
    /// the one that begins at `middle`. Those of ASCII are taken to be together.
    #[inline(always)]
    pub fn are_apart(&self, text: &[u8], start: usize, middle: usize) -> bool {
        if text[middle - 1] | text[middle] < 0x80 {
            return false;
        }
        let pair = usize::from(text[middle - 1]) << 8 | usize::from(text[middle]);
        let second = &text[middle..middle + length(text[middle])];
        let hash = hash(&text[start..middle], second);
        (self.bytes[pair / 64] >> (pair % 64) | self.characters[hash / 64] >> (hash % 64)) & 1 == 0
    }
}

/// Returns how many bytes a character has, by its first.
#[inline(always)]
pub fn length(lead: u8) -> usize {
    match lead {
        ..0xC0 => 1,
        0xC0..0xE0 => 2,
        0xE0..0xF0 => 3,
        0xF0.. => 4,
    }
}

#[inline(always)]
fn hash(first: &[u8], second: &[u8]) -> usize {
    let number = |bytes: &[u8]| match *bytes {
        [a, b, c] => u32::from_le_bytes([a, b, c, 0]),
        [a, b] => u32::from_le_bytes([a, b, 0, 0]),
        [a] => a.into(),
        [a, b, c, d, ..] => u32::from_le_bytes([a, b, c, d]),
        [] => 0,
    };
    let both = u64::from(number(first)) << 32 | u64::from(number(second));
    (both.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - HASH_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_some_token_spans_is_not_apart() {
        let tokens = ["中文".as_bytes(), "文".as_bytes(), " 日".as_bytes(), b"\xad\xe6"];
        let spans = Spans::new(tokens.into_iter());
        let text = "中文中日 日本".as_bytes(); // the last bytes of "中" and "本" are AD and AC
        let apart: Vec<bool> = [(0, 3), (3, 6), (6, 9), (9, 12), (12, 13), (13, 16)]
            .map(|(start, middle)| spans.are_apart(text, start, middle))
            .to_vec();
        assert_eq!(apart, [false, true, false, true, false, true]);
    }
}
