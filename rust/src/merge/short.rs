//! Merging a short piece by scanning all of it for the lowest rank.

use super::{MergeTable, NO_RANK, Ranks};
use crate::types::TokenIndex;

/// A piece of up to this many bytes is merged on the stack.
pub const MAX_STACK_PIECE: usize = 32;

/// Appends the tokens of a piece to `tokens`.
pub fn merge_short(table: &MergeTable, piece: &[u8], tokens: &mut Vec<TokenIndex>) {
    let mut parts = [0; MAX_STACK_PIECE];
    // ranks[i] is the rank of the pair that begins at parts[i].
    let mut ranks = [NO_RANK; MAX_STACK_PIECE];
    for (part, &byte) in parts.iter_mut().zip(piece) {
        *part = table.of_byte(byte);
    }
    for (rank, pair) in ranks.iter_mut().zip(piece.windows(2)) {
        *rank = table.byte_pair(pair[0], pair[1]);
    }
    let mut length = piece.len();
    while length > 1 {
        let (mut lowest, mut at) = (ranks[0], 0);
        for (i, &rank) in ranks[..length - 1].iter().enumerate() {
            if rank < lowest {
                (lowest, at) = (rank, i);
            }
        }
        if lowest == NO_RANK {
            break;
        }
        parts[at] = table.made_by(lowest);
        for i in at + 1..length - 1 {
            parts[i] = parts[i + 1];
            ranks[i - 1] = ranks[i];
        }
        length -= 1;
        if at > 0 {
            ranks[at - 1] = table.rank(parts[at - 1], parts[at]);
        }
        if at + 1 < length {
            ranks[at] = table.rank(parts[at], parts[at + 1]);
        }
    }
    tokens.extend_from_slice(&parts[..length]);
}
