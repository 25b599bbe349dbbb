//! Bytes that come token by token to text: what is complete now, and what is held for the next.

use std::char::REPLACEMENT_CHARACTER;
use std::str::from_utf8;

/// How many bytes can wait for the rest of a character.
const MOST: usize = 3;

/// So many bytes, more than nearly all tokens have, are read without memory that must be asked for.
pub const FEW: usize = 32;

/// The beginning of a character, which more bytes may complete.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Held {
    bytes: [u8; MOST],
    length: u8,
}

impl Held {
    /// Returns what is held behind these bytes.
    pub fn after(bytes: &[u8]) -> Held {
        let last = &bytes[bytes.len().saturating_sub(MOST)..];
        let mut held = Held::default();
        // It begins with the last byte that does not go on with a character.
        if let Some(at) = last.iter().rposition(|byte| byte & 0xC0 != 0x80)
            && is_unfinished(&last[at..])
        {
            held.length = (last.len() - at) as u8;
            held.bytes[..last.len() - at].copy_from_slice(&last[at..]);
        }
        held
    }

    pub fn is_empty(self) -> bool {
        self.length == 0
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length.into()]
    }

    /// Returns the text that a token completes, U+FFFD for each longest beginning of a character that
    /// nothing can complete, and what is held then; None if there may be no room for the text.
    pub fn read<'a>(self, token: &[u8], room: &'a mut [char; FEW]) -> Option<(&'a [char], Held)> {
        let held = self.bytes();
        let mut few = [0; FEW];
        let bytes = few.get_mut(..held.len() + token.len())?;
        bytes[..held.len()].copy_from_slice(held);
        bytes[held.len()..].copy_from_slice(token);
        let held = Held::after(bytes);
        let mut count = 0;
        for chunk in bytes[..bytes.len() - held.bytes().len()].utf8_chunks() {
            let replaced = (!chunk.invalid().is_empty()).then_some(REPLACEMENT_CHARACTER);
            for character in chunk.valid().chars().chain(replaced) {
                room[count] = character;
                count += 1;
            }
        }
        Some((&room[..count], held))
    }
}

/// Whether all these bytes are the beginning of one character.
fn is_unfinished(bytes: &[u8]) -> bool {
    from_utf8(bytes).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text of tokens, and what is held behind them.
    fn read(tokens: &[&[u8]]) -> (String, Vec<u8>) {
        let mut text = String::new();
        let mut held = Held::default();
        for token in tokens {
            let mut room = ['\0'; FEW];
            let (some, after) = held.read(token, &mut room).unwrap();
            text.extend(some);
            held = after;
        }
        (text, held.bytes().to_vec())
    }

    /// All bytes that matter to where characters begin and end.
    const BYTES: [u8; 20] = [
        0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF,
        0xF0, 0xF1, 0xF4, 0xF5, 0xFF,
    ];

    #[test]
    fn wherever_bytes_are_cut_their_text_is_the_same() {
        let places = if cfg!(miri) { 3 } else { 4 };
        for number in 0..BYTES.len().pow(places) {
            let bytes: Vec<u8> =
                (0..places).map(|place| BYTES[number / BYTES.len().pow(place) % 20]).collect();
            let (mut text, held) = read(&bytes.chunks(1).collect::<Vec<_>>());
            assert_eq!(held, Held::after(&bytes).bytes());
            let mut whole = String::from_utf8_lossy(&bytes).into_owned();
            assert_eq!(read(&[&bytes]), (text.clone(), held.clone()));
            if !held.is_empty() {
                assert_eq!(whole.pop(), Some(REPLACEMENT_CHARACTER));
                text.truncate(whole.len());
            }
            assert_eq!(text, whole);
        }
    }

    #[test]
    fn what_is_held_is_what_can_become_a_character() {
        let ends: Vec<Vec<u8>> = (1..=MOST)
            .flat_map(|count| [0x80, 0x90, 0xA0, 0xBF].map(|first| (count, first)))
            .map(|(count, first)| [vec![first], vec![0x80; count - 1]].concat())
            .collect();
        let is_beginning = |bytes: &&[u8]| {
            let mut wholes = ends.iter().map(|end| [bytes, &end[..]].concat());
            wholes.any(|whole| from_utf8(&whole).is_ok_and(|text| text.chars().count() == 1))
        };
        for bytes in BYTES.iter().flat_map(|first| BYTES.map(|second| [*first, second])) {
            let longest = [&bytes[..], &bytes[1..]].into_iter().find(is_beginning);
            assert_eq!(Held::after(&bytes).bytes(), longest.unwrap_or_default());
        }
    }

    #[test]
    fn what_may_have_no_room_is_not_read() {
        let held = Held::after(&[0xF0, 0x9F]);
        let reads = |count| held.read(&vec![b'a'; count], &mut ['\0'; FEW]).is_some();
        assert_eq!([0, FEW - 2, FEW - 1, 2 * FEW].map(reads), [true, true, false, false]);
    }
}
