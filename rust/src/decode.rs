//! Ids to bytes.

use std::collections::HashMap;

/// The bytes of a token that has no more of them are in its slot, with how many they are.
const IN_SLOT: usize = 15;

/// How many bytes there is room for, whenever more is made.
const ROOM: usize = 1 << 14;

/// The bytes of each id.
pub struct TokenBytes {
    /// The first bytes of each token, and their number; LONG if the slot has not all of them.
    slots: Vec<[u8; IN_SLOT + 1]>,
    long: HashMap<u32, Box<[u8]>>,
    /// The ids that lie too far from the others to have a slot.
    far: HashMap<u32, Box<[u8]>>,
}

const LONG: u8 = 0xFE;
const NO_TOKEN: u8 = 0xFF;

impl TokenBytes {
    pub fn new(tokens: Vec<(u32, Vec<u8>)>) -> TokenBytes {
        let highest = tokens.iter().map(|&(id, _)| id as usize + 1).max().unwrap_or(0);
        let size = highest.min(tokens.len() * 2 + 1024);
        let mut table = TokenBytes {
            slots: vec![[NO_TOKEN; IN_SLOT + 1]; size],
            long: HashMap::new(),
            far: HashMap::new(),
        };
        for (id, bytes) in tokens {
            match table.slots.get_mut(id as usize) {
                None => {
                    table.far.insert(id, bytes.into());
                }
                Some(slot) if bytes.len() <= IN_SLOT => {
                    slot[..bytes.len()].copy_from_slice(&bytes);
                    slot[IN_SLOT] = bytes.len() as u8;
                }
                Some(slot) => {
                    slot[IN_SLOT] = LONG;
                    table.long.insert(id, bytes.into());
                }
            }
        }
        table
    }

    /// Puts the bytes of the ids behind those in `bytes`; returns the first id that is unknown.
    pub fn join(&self, ids: &[u32], bytes: &mut Vec<u8>) -> Option<u32> {
        let mut length = bytes.len();
        for &id in ids {
            if length + IN_SLOT + 1 > bytes.len() {
                bytes.resize(length + ROOM, 0);
            }
            let slot = self.slots.get(id as usize).unwrap_or(&[NO_TOKEN; IN_SLOT + 1]);
            let count = slot[IN_SLOT];
            if count <= IN_SLOT as u8 {
                // The whole slot is copied, whatever is in it: that is faster than to choose.
                bytes[length..length + IN_SLOT + 1].copy_from_slice(slot);
                length += usize::from(count);
                continue;
            }
            bytes.truncate(length);
            let Some(token) = self.long.get(&id).or_else(|| self.far.get(&id)) else {
                return Some(id);
            };
            bytes.extend_from_slice(token);
            length = bytes.len();
        }
        bytes.truncate(length);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_all_lengths_and_ids_are_joined() {
        let tokens = vec![
            (0, b"a".to_vec()),
            (7, vec![b'x'; 15]),
            (8, vec![b'y'; 16]),
            (9, vec![b'z'; 40_000]),
            (u32::MAX, b"far".to_vec()),
            (10, Vec::new()),
        ];
        let table = TokenBytes::new(tokens.clone());
        let ids: Vec<u32> = (0..3000).map(|i| tokens[i % tokens.len()].0).collect();
        let wanted: Vec<u8> = (0..3000).flat_map(|i| tokens[i % tokens.len()].1.clone()).collect();
        let mut bytes = Vec::new();
        assert_eq!(table.join(&ids, &mut bytes), None);
        assert!(bytes == wanted);
        for unknown in [1, 11, 5000, u32::MAX - 1] {
            assert_eq!(table.join(&[0, unknown, 7], &mut Vec::new()), Some(unknown));
        }
    }
}
