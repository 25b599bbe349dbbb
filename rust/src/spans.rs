//! Places in a piece that no token spans, so that what is before and what is behind one is merged
//! apart: the ids of a clause are then those of its parts, which come again more often.
//!
//! In Chinese, Japanese and Korean a piece is a whole clause, but few tokens are of more than a
//! character or two: nearly every place between two characters is such a place.

use crate::cache::{BATCH, WORD};

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

/// Returns whether a piece is long, and begins with a character of those that have three bytes and
/// are many to a piece: Chinese, Japanese and Korean. A blank may come before.
#[inline(always)]
pub fn is_clause(piece: &[u8]) -> bool {
    piece.len() > WORD && matches!(piece[usize::from(piece[0] == b' ')], 0xE3..=0xED)
}

/// The pieces of a batch, clauses taken apart.
pub struct Parts<'a> {
    spans: &'a Spans,
    text: &'a [u8],
    /// Where pieces begin, and the last ends.
    bounds: &'a [u32],
    /// How many bytes, and whole pieces, were given.
    at: usize,
    pieces: usize,
}

impl<'a> Parts<'a> {
    pub fn new(spans: &'a Spans, text: &'a [u8], bounds: &'a [u32]) -> Parts<'a> {
        Parts { spans, text, bounds, at: bounds[0] as usize, pieces: 0 }
    }

    pub fn text(&self) -> &'a [u8] {
        self.text
    }

    /// Writes where the next parts begin, and the last of them ends; returns how many there are, 0
    /// at the end.
    #[inline(always)]
    pub fn next_bounds(&mut self, parts: &mut [u32; BATCH + 1]) -> usize {
        let Parts { spans, text, bounds, mut at, mut pieces } = *self;
        let mut count = 0;
        parts[0] = at as u32;
        while pieces + 1 < bounds.len() && count < BATCH {
            let (start, end) = (bounds[pieces] as usize, bounds[pieces + 1] as usize);
            if is_clause(&text[start..end]) {
                while at < end && count < BATCH {
                    let next = (at + length(text[at])).min(end);
                    let is_end = next == end || spans.are_apart(text, at, next);
                    // It is written in any case, and stays if it is an end.
                    parts[count + 1] = next as u32;
                    count += usize::from(is_end);
                    at = next;
                }
            } else {
                at = end;
                count += 1;
                parts[count] = at as u32;
            }
            pieces += usize::from(at == end);
        }
        (self.at, self.pieces) = (at, pieces);
        count
    }
}

/// Returns how many bytes a character has, by its first.
#[inline(always)]
fn length(lead: u8) -> usize {
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
    use crate::generated::Numbers;

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

    /// Returns the parts of pieces.
    fn parts(spans: &Spans, pieces: &[&str]) -> Vec<String> {
        let text = format!("before{}", pieces.concat()).into_bytes();
        let mut bounds = vec![6];
        for piece in pieces {
            bounds.push(bounds[bounds.len() - 1] + piece.len() as u32);
        }
        let (mut parts, mut some) = (Parts::new(spans, &text, &bounds), [0; BATCH + 1]);
        let mut all = Vec::new();
        loop {
            let count = parts.next_bounds(&mut some);
            if count == 0 {
                assert_eq!(some[0] as usize, text.len());
                return all;
            }
            all.extend(some[..=count].windows(2).map(|bounds| {
                let part = &text[bounds[0] as usize..bounds[1] as usize];
                String::from_utf8(part.to_vec()).expect("whole characters")
            }));
        }
    }

    #[test]
    fn clauses_are_taken_apart_where_no_token_spans() {
        let tokens = ["中文字".as_bytes(), "文a".as_bytes(), " 中".as_bytes()];
        let spans = Spans::new(tokens.into_iter());
        let parts = |text: &str| parts(&spans, &[text]);
        assert_eq!(parts("日本語です"), ["日", "本", "語", "で", "す"]);
        assert_eq!(parts(" 中文字中文"), [" 中文字", "中文"]);
        assert_eq!(parts("日日中文日"), ["日", "日", "中文", "日"]);
        assert_eq!(parts("中文中文"), ["中文"; 2]);
        assert_eq!(parts("日日"), ["日日"], "it is short");
        assert_eq!(parts(" internationally"), [" internationally"]);
    }

    #[test]
    fn parts_are_those_of_each_piece_however_many_there_are() {
        let tokens = ["中文".as_bytes(), "文中".as_bytes(), "文文".as_bytes()];
        let spans = Spans::new(tokens.into_iter());
        let mut numbers = Numbers::new(3);
        for _ in 0..if cfg!(miri) { 2 } else { 300 } {
            let pieces: Vec<String> = (0..1 + numbers.below(200))
                .map(|_| numbers.text(&["中", "文", "日", " ", "a", "🙂"], 40))
                .filter(|piece| !piece.is_empty())
                .collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let each: Vec<_> = pieces.iter().flat_map(|&piece| parts(&spans, &[piece])).collect();
            assert_eq!(parts(&spans, &pieces), each);
            assert_eq!(each.concat(), pieces.concat());
        }
    }
}
