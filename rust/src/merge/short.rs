//! Merging a short piece by scanning all of it for the lowest rank.
//!
//! A branch that the processor predicts wrongly costs as much as a dozen instructions, and the
//! length of a piece and the place of a merge differ each time. So four ranks are compared and four
//! tokens are moved at once, even beyond the end of the piece, where no pair has a rank.

use super::ranks::{NO_RANK, Ranks};
use crate::mem::growth::append;
use crate::types::{Rank, TokenIndex};

/// A piece of up to this many bytes is merged on the stack.
pub const MAX_STACK_PIECE: usize = 32;

const FOUR: usize = 4;
const ROOM: usize = MAX_STACK_PIECE + FOUR;

/// Appends the tokens of a piece to `tokens`.
pub fn merge_short(table: &impl Ranks, piece: &[u8], tokens: &mut Vec<TokenIndex>) {
    let mut parts = [0; ROOM];
    // ranks[i] is the rank of the pair that begins at parts[i].
    let mut ranks = [NO_RANK; ROOM];
    for (part, &byte) in parts.iter_mut().zip(piece) {
        *part = table.of_byte(byte);
    }
    for (rank, pair) in ranks.iter_mut().zip(piece.windows(2)) {
        *rank = table.byte_pair(pair[0], pair[1]);
    }
    let mut length = piece.len();
    while length > 1 {
        let (lowest, at) = lowest_rank(&ranks, length - 1);
        if lowest == NO_RANK {
            break;
        }
        let made = table.made_by(lowest, parts[at], parts[at + 1]);
        if at > 0 {
            table.prefetch(parts[at - 1], made);
        }
        if at + 2 < length {
            table.prefetch(made, parts[at + 2]);
        }
        parts[at] = made;
        length -= 1;
        for i in (at + 1..length).step_by(FOUR) {
            parts.copy_within(i + 1..i + 1 + FOUR, i);
            ranks.copy_within(i..i + FOUR, i - 1);
        }
        ranks[length - 1] = NO_RANK;
        if at > 0 {
            ranks[at - 1] = table.rank(parts[at - 1], made);
        }
        if at + 1 < length {
            ranks[at] = table.rank(made, parts[at + 1]);
        }
    }
    append(tokens, &parts[..length]);
}

/// Returns the lowest of the first `count` ranks and its first index. The three ranks after them
/// are NO_RANK.
#[inline(always)]
fn lowest_rank(ranks: &[Rank; ROOM], count: usize) -> (Rank, usize) {
    let mut lowest = u64::MAX;
    let fours = ranks.as_chunks::<FOUR>().0;
    for (first, four) in (0..).step_by(FOUR).zip(&fours[..count.div_ceil(FOUR)]) {
        let key = |i: usize| u64::from(four[i]) << 32 | (first + i as u64);
        let (one, other) = (key(0).min(key(1)), key(2).min(key(3)));
        lowest = lowest.min(one.min(other));
    }
    ((lowest >> 32) as Rank, lowest as u32 as usize)
}
