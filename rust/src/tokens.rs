//! The bytes of tokens, and tokens by their bytes.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use crate::merge::Token;

/// The bytes of each token, in one stretch of memory.
pub struct Tokens {
    bytes: Vec<u8>,
    /// Where the bytes of each token begin, and how many they are; none of one that is not defined.
    places: Vec<(u32, u32)>,
}

impl Tokens {
    /// There will be so many tokens; none is defined yet.
    pub fn with_room(count: usize) -> Tokens {
        Tokens { bytes: Vec::with_capacity(count * 8), places: vec![(0, 0); count] }
    }

    /// Returns how many tokens there are, defined or not.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the bytes of a token, none if it is not defined.
    pub fn get(&self, token: Token) -> &[u8] {
        self.places.get(token as usize).map_or(&[], |&(start, length)| {
            let start = start as usize;
            &self.bytes[start..start + length as usize]
        })
    }

    /// Says what bytes a token has; false if there is no such token, or all are too many for it.
    pub fn define(&mut self, token: Token, bytes: &[u8]) -> bool {
        let Some(place) = place_of(&self.bytes, bytes.len()) else { return false };
        let Some(slot) = self.places.get_mut(token as usize) else { return false };
        *slot = place;
        self.bytes.extend_from_slice(bytes);
        true
    }

    /// As `define`, with the bytes of two tokens.
    pub fn define_joined(&mut self, token: Token, left: Token, right: Token) -> bool {
        let length = self.get(left).len() + self.get(right).len();
        let Some(place) = place_of(&self.bytes, length) else { return false };
        let Some(slot) = self.places.get_mut(token as usize) else { return false };
        *slot = place;
        for part in [left, right] {
            let (start, length) = self.places[part as usize];
            self.bytes.extend_from_within(start as usize..(start + length) as usize);
        }
        true
    }

    /// Returns whether a token has the bytes of these two.
    pub fn is_joined(&self, token: Token, left: Token, right: Token) -> bool {
        let (left, right) = (self.get(left), self.get(right));
        self.get(token).strip_prefix(left) == Some(right)
    }
}

/// Returns where so many bytes are once they are put behind others; none if that is too far.
fn place_of(bytes: &[u8], length: usize) -> Option<(u32, u32)> {
    u32::try_from(bytes.len() + length).ok()?;
    Some((bytes.len() as u32, length as u32))
}

/// Tokens by their bytes: open addressing, half full at the most. What a file says cannot slow it
/// down, as its places are drawn by lot.
pub struct WholePieces {
    tokens: Arc<Tokens>,
    /// A part of the hash of each token's bytes, which tells most others apart, and the token.
    slots: Vec<(u32, Token)>,
    state: RandomState,
}

const NO_TOKEN: Token = Token::MAX;

impl WholePieces {
    /// Returns the tokens that are defined by their bytes, and whether no two have the same; of
    /// those that have, the first is found.
    pub fn new(tokens: Arc<Tokens>) -> (WholePieces, bool) {
        let slots = vec![(0, NO_TOKEN); (tokens.len() * 2).next_power_of_two().max(16)];
        let mut whole = WholePieces { tokens, slots, state: RandomState::new() };
        let all = 0..whole.tokens.len() as Token;
        // All hashes before the first look into the table, which is larger than the processor's
        // cache: so it need not wait for one to look for the next.
        let hashes: Vec<u64> =
            all.clone().map(|token| whole.hash(whole.tokens.get(token))).collect();
        let mut differ = true;
        for (token, hash) in all.zip(hashes) {
            let bytes = whole.tokens.get(token);
            let at = whole.place(bytes, hash);
            if whole.slots[at].1 != NO_TOKEN {
                differ = false;
            } else if !bytes.is_empty() {
                whole.slots[at] = (part_of(hash), token);
            }
        }
        (whole, differ)
    }

    /// Returns the token that has these bytes.
    pub fn find(&self, bytes: &[u8]) -> Option<Token> {
        let (_, token) = self.slots[self.place(bytes, self.hash(bytes))];
        (token != NO_TOKEN).then_some(token)
    }

    fn hash(&self, bytes: &[u8]) -> u64 {
        self.state.hash_one(bytes)
    }

    /// Returns the slot where bytes are, or the free one where they would be.
    fn place(&self, bytes: &[u8], hash: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let (part, token) = self.slots[at];
            if token == NO_TOKEN || (part == part_of(hash) && self.tokens.get(token) == bytes) {
                return at;
            }
            at = (at + 1) & mask;
        }
    }
}

fn part_of(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_the_bytes_that_they_were_given() {
        let mut tokens = Tokens::with_room(4);
        assert!(tokens.define(2, b"ab") && tokens.define(0, b"c"));
        assert!(tokens.define_joined(1, 2, 0));
        assert!(!tokens.define(4, b"d"));
        let all: Vec<&[u8]> = (0..5).map(|token| tokens.get(token)).collect();
        assert_eq!(all, [&b"c"[..], b"abc", b"ab", b"", b""]);
        assert!(tokens.is_joined(1, 2, 0));
        assert!(!tokens.is_joined(1, 0, 2) && !tokens.is_joined(1, 2, 2));
    }

    #[test]
    fn tokens_are_found_by_their_bytes() {
        let mut tokens = Tokens::with_room(1000);
        for token in 0..999 {
            assert!(tokens.define(token, token.to_string().as_bytes()));
        }
        let (whole, differ) = WholePieces::new(Arc::new(tokens));
        assert!(differ);
        assert!((0..999).all(|token| whole.find(token.to_string().as_bytes()) == Some(token)));
        assert_eq!([whole.find(b"999"), whole.find(b""), whole.find(b"01")], [None; 3]);
    }

    #[test]
    fn of_two_tokens_with_the_same_bytes_the_first_is_found() {
        let mut tokens = Tokens::with_room(2);
        assert!(tokens.define(1, b"a") && tokens.define(0, b"a"));
        let (whole, differ) = WholePieces::new(Arc::new(tokens));
        assert_eq!((whole.find(b"a"), differ), (Some(0), false));
    }
}
