//! The bytes of tokens, and tokens by their bytes.

use std::sync::Arc;

use crate::hash::{HashTable, Seeds, Slot};
use crate::mem::growth::{append, collected, copied, filled, granted, lengthen, with_room};
use crate::types::TokenIndex;

/// The bytes of each token, in one buffer.
pub struct Tokens {
    bytes: Vec<u8>,
    /// The offset and the length of each token; the length of an undefined token is 0.
    ranges: Vec<(u32, u32)>,
}

/// The length of a copy that is fast.
const FEW_BYTES: usize = 16;

impl Tokens {
    /// Returns `count` undefined tokens.
    pub fn with_room(count: usize) -> Tokens {
        Tokens { bytes: with_room(count * 8), ranges: filled((0, 0), count) }
    }

    /// Returns these tokens and `count` undefined ones.
    pub fn with_more(&self, count: usize) -> Tokens {
        let mut ranges = copied(&self.ranges);
        lengthen(&mut ranges, self.len() + count, (0, 0));
        Tokens { bytes: copied(&self.bytes), ranges }
    }

    /// Returns the number of all tokens, defined or undefined.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the bytes of a token, or no bytes if it is undefined.
    pub fn get(&self, token: TokenIndex) -> &[u8] {
        self.ranges.get(token as usize).map_or(&[], |&(start, length)| {
            let start = start as usize;
            &self.bytes[start..start + length as usize]
        })
    }

    /// Defines the bytes of a token; returns false if the token or its offset is out of range.
    pub fn define(&mut self, token: TokenIndex, bytes: &[u8]) -> bool {
        if !self.set_range(token, bytes.len()) {
            return false;
        }
        append(&mut self.bytes, bytes);
        true
    }

    /// Gives the next `length` bytes to a token; returns false as `define` does.
    fn set_range(&mut self, token: TokenIndex, length: usize) -> bool {
        let (start, end) = (self.bytes.len(), u32::try_from(self.bytes.len() + length));
        let (Some(range), Ok(_)) = (self.ranges.get_mut(token as usize), end) else { return false };
        *range = (start as u32, length as u32);
        true
    }

    /// Defines a token by the joined bytes of two others; returns false as `define` does.
    pub fn define_joined(
        &mut self,
        token: TokenIndex,
        left: TokenIndex,
        right: TokenIndex,
    ) -> bool {
        let range = |part: TokenIndex| self.ranges.get(part as usize).copied().unwrap_or_default();
        let parts @ [left, right] = [left, right].map(range);
        let (at, length) = (self.bytes.len(), left.1 as usize + right.1 as usize);
        if !self.set_range(token, length) {
            return false;
        }
        granted(self.bytes.try_reserve(length + FEW_BYTES));
        // Most parts are short, and copies of a fixed length are the fastest.
        let few = |(start, length): (u32, u32)| {
            let few = self.bytes[start as usize..].first_chunk::<FEW_BYTES>();
            few.filter(|_| length as usize <= FEW_BYTES).copied()
        };
        if let (Some(first), Some(second)) = (few(left), few(right)) {
            self.bytes.extend_from_slice(&first);
            self.bytes.truncate(at + left.1 as usize);
            self.bytes.extend_from_slice(&second);
            self.bytes.truncate(at + length);
        } else {
            for (start, length) in parts {
                self.bytes.extend_from_within(start as usize..(start + length) as usize);
            }
        }
        true
    }

    /// Returns whether a token has the joined bytes of two others.
    pub fn is_joined(&self, token: TokenIndex, left: TokenIndex, right: TokenIndex) -> bool {
        let (left, right) = (self.get(left), self.get(right));
        self.get(token).strip_prefix(left) == Some(right)
    }
}

/// The bytes of tokens that merges make of bytes.
pub struct MadeTokens {
    tokens: Tokens,
    /// The length of the left part of each token, by the first merge that made it; 0 for others.
    lefts: Vec<u32>,
}

/// The bytes of a token, and the place where a merge joined its parts.
pub type Joint<'a> = (&'a [u8], usize);

impl MadeTokens {
    /// Returns the tokens of bytes, with room for `count` tokens.
    pub fn new(count: usize, token_of_byte: &[TokenIndex; 256]) -> MadeTokens {
        let mut tokens = Tokens::with_room(count);
        for (byte, &token) in (0..=255).zip(token_of_byte) {
            tokens.define(token, &[byte]);
        }
        MadeTokens { tokens, lefts: filled(0, count) }
    }

    /// Adds the token that a merge makes of two others. Returns false if it has other bytes.
    pub fn join(&mut self, left: TokenIndex, right: TokenIndex, made: TokenIndex) -> bool {
        if !self.get(made).is_empty() {
            return self.tokens.is_joined(made, left, right);
        }
        let length = self.get(left).len();
        if !self.tokens.define_joined(made, left, right) {
            return false;
        }
        self.lefts[made as usize] = length as u32;
        true
    }

    /// Returns the bytes of a token, or no bytes if no merge makes it.
    pub fn get(&self, token: TokenIndex) -> &[u8] {
        self.tokens.get(token)
    }

    /// Yields the tokens of several bytes in order, each with its joint.
    pub fn joints(&self) -> impl Iterator<Item = (TokenIndex, Joint<'_>)> {
        let tokens = (0..).zip(&self.lefts).filter(|&(_, &left)| left > 0);
        tokens.map(|(token, &left)| (token, (self.get(token), left as usize)))
    }
}

/// Tokens by their bytes. The hash has random seeds, so no vocabulary file can slow it down.
pub struct WholePieces {
    pub tokens: Arc<Tokens>,
    table: HashTable<TokenSlot>,
    seeds: Seeds,
}

#[derive(Clone, Copy)]
struct TokenSlot {
    /// The upper half of the hash, which differs for most other tokens.
    part: u32,
    token: TokenIndex,
}

impl Slot for TokenSlot {
    fn free() -> TokenSlot {
        TokenSlot { part: 0, token: TokenIndex::MAX }
    }

    #[inline(always)]
    fn is_free(&self) -> bool {
        self.token == TokenIndex::MAX
    }
}

impl WholePieces {
    /// Returns the defined tokens, and whether their bytes all differ. If several tokens have the
    /// same bytes, the first is found.
    pub fn new(tokens: Arc<Tokens>) -> (WholePieces, bool) {
        let seeds = Seeds::random();
        let all = 0..tokens.len() as TokenIndex;
        // The table is larger than the processor's cache. If all hashes are known first, no lookup
        // has to wait for the lookup before.
        let hash_of = |token| seeds.hash_bytes(tokens.get(token));
        let hashes: Vec<u64> = collected(all.clone().map(hash_of));
        let mut table = HashTable::with_room(tokens.len());
        let mut differ = true;
        for (token, hash) in all.zip(hashes) {
            let bytes = tokens.get(token);
            if !bytes.is_empty() {
                let new = TokenSlot { part: part_of(hash), token };
                let is_key = |slot: &TokenSlot| slot.has(hash, bytes, &tokens);
                let found = table.get_or_put(hash, is_key, new, |slot| hash_of(slot.token));
                differ &= found.token == token;
            }
        }
        (WholePieces { tokens, table, seeds }, differ)
    }

    /// Returns the token that has these bytes.
    pub fn find(&self, bytes: &[u8]) -> Option<TokenIndex> {
        let hash = self.seeds.hash_bytes(bytes);
        let slot = self.table.get(hash, |slot| slot.has(hash, bytes, &self.tokens));
        slot.map(|slot| slot.token)
    }
}

impl TokenSlot {
    #[inline(always)]
    fn has(self, hash: u64, bytes: &[u8], tokens: &Tokens) -> bool {
        self.part == part_of(hash) && tokens.get(self.token) == bytes
    }
}

fn part_of(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_keep_their_bytes() {
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
    fn equal_bytes_find_the_first_token() {
        let mut tokens = Tokens::with_room(2);
        assert!(tokens.define(1, b"a") && tokens.define(0, b"a"));
        let (whole, differ) = WholePieces::new(Arc::new(tokens));
        assert_eq!((whole.find(b"a"), differ), (Some(0), false));
    }
}
