//! The text that a token completes, and the bytes that stay pending for the next token. Only Python
//! has stop strings and tags: `_streaming/stops.py`.

use std::char::REPLACEMENT_CHARACTER;
use std::str::from_utf8;

/// The most bytes that may be pending: a character of four bytes without its last.
const MAX_PENDING_BYTES: usize = 3;

/// Up to this size, which few tokens exceed, bytes are read without an allocation.
pub const STACK_BYTES: usize = 32;

/// The first bytes of a character that more bytes may complete.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pending {
    bytes: [u8; MAX_PENDING_BYTES],
    length: u8,
}

impl Pending {
    /// Returns the bytes that are pending after these bytes.
    pub fn after(bytes: &[u8]) -> Pending {
        let last = &bytes[bytes.len().saturating_sub(MAX_PENDING_BYTES)..];
        let mut pending = Pending::default();
        // A pending character begins at the last byte that does not continue another.
        if let Some(at) = last.iter().rposition(|byte| byte & 0xC0 != 0x80)
            && is_unfinished(&last[at..])
        {
            pending.length = (last.len() - at) as u8;
            pending.bytes[..last.len() - at].copy_from_slice(&last[at..]);
        }
        pending
    }

    pub fn is_empty(self) -> bool {
        self.length == 0
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length.into()]
    }

    /// Returns the text that a token completes, and the bytes that are pending then.
    ///
    /// If the bytes that begin a character do not go on as one, all of them become one U+FFFD.
    /// Returns None if the text may need more room.
    pub fn read<'a>(
        self,
        token: &[u8],
        room: &'a mut [char; STACK_BYTES],
    ) -> Option<(&'a [char], Pending)> {
        let pending = self.bytes();
        let mut buffer = [0; STACK_BYTES];
        let bytes = buffer.get_mut(..pending.len() + token.len())?;
        bytes[..pending.len()].copy_from_slice(pending);
        bytes[pending.len()..].copy_from_slice(token);
        let pending = Pending::after(bytes);
        let mut count = 0;
        for chunk in bytes[..bytes.len() - pending.bytes().len()].utf8_chunks() {
            let replaced = (!chunk.invalid().is_empty()).then_some(REPLACEMENT_CHARACTER);
            for character in chunk.valid().chars().chain(replaced) {
                room[count] = character;
                count += 1;
            }
        }
        Some((&room[..count], pending))
    }
}

/// Returns whether these bytes are the incomplete beginning of one character.
fn is_unfinished(bytes: &[u8]) -> bool {
    from_utf8(bytes).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text of tokens, and the bytes that are pending after them.
    fn read(tokens: &[&[u8]]) -> (String, Vec<u8>) {
        let mut text = String::new();
        let mut pending = Pending::default();
        for token in tokens {
            let mut room = ['\0'; STACK_BYTES];
            let (some, after) = pending.read(token, &mut room).unwrap();
            text.extend(some);
            pending = after;
        }
        (text, pending.bytes().to_vec())
    }

    /// The first and last bytes of the ranges that define UTF-8.
    const BYTES: [u8; 20] = [
        0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF,
        0xF0, 0xF1, 0xF4, 0xF5, 0xFF,
    ];

    #[test]
    fn splitting_bytes_never_changes_their_text() {
        let length = if cfg!(miri) { 3 } else { 4 };
        for number in 0..BYTES.len().pow(length) {
            let bytes: Vec<u8> =
                (0..length).map(|index| BYTES[number / BYTES.len().pow(index) % 20]).collect();
            let (mut text, pending) = read(&bytes.chunks(1).collect::<Vec<_>>());
            assert_eq!(pending, Pending::after(&bytes).bytes());
            let mut whole = String::from_utf8_lossy(&bytes).into_owned();
            assert_eq!(read(&[&bytes]), (text.clone(), pending.clone()));
            if !pending.is_empty() {
                assert_eq!(whole.pop(), Some(REPLACEMENT_CHARACTER));
                text.truncate(whole.len());
            }
            assert_eq!(text, whole);
        }
    }

    #[test]
    fn pending_bytes_can_become_a_character() {
        let ends: Vec<Vec<u8>> = (1..=MAX_PENDING_BYTES)
            .flat_map(|count| [0x80, 0x90, 0xA0, 0xBF].map(|first| (count, first)))
            .map(|(count, first)| [vec![first], vec![0x80; count - 1]].concat())
            .collect();
        let is_beginning = |bytes: &&[u8]| {
            let mut wholes = ends.iter().map(|end| [bytes, &end[..]].concat());
            wholes.any(|whole| from_utf8(&whole).is_ok_and(|text| text.chars().count() == 1))
        };
        for bytes in BYTES.iter().flat_map(|first| BYTES.map(|second| [*first, second])) {
            let longest = [&bytes[..], &bytes[1..]].into_iter().find(is_beginning);
            assert_eq!(Pending::after(&bytes).bytes(), longest.unwrap_or_default());
        }
    }

    #[test]
    fn bytes_without_room_are_not_read() {
        let pending = Pending::after(&[0xF0, 0x9F]);
        let reads = |count| pending.read(&vec![b'a'; count], &mut ['\0'; STACK_BYTES]).is_some();
        let counts = [0, STACK_BYTES - 2, STACK_BYTES - 1, 2 * STACK_BYTES];
        assert_eq!(counts.map(reads), [true, true, false, false]);
    }
}
