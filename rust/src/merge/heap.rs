//! Merging a piece with a heap of its pairs, in time that is never quadratic.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::ranks::{NO_RANK, Ranks};
use crate::interrupt::Interrupt;
use crate::mem::growth::{granted, push};
use crate::types::{Rank, TokenIndex};

/// For interrupts, a look at the heap counts as work on this many bytes.
const POP_COST_BYTES: usize = 16;

/// Memory for merging, which is reused from piece to piece.
#[derive(Default)]
pub struct MergeScratch {
    /// The tokens of the piece.
    pub(super) tokens: Vec<TokenIndex>,
    pub(super) window: Vec<TokenIndex>,
    heap: BinaryHeap<Reverse<u64>>,
    parts: Vec<TokenIndex>,
    ranks: Vec<Rank>,
    after: Vec<u32>,
    before: Vec<u32>,
}

impl MergeScratch {
    /// Returns the length in bytes of the longest piece that fits into the memory.
    pub fn room(&self) -> usize {
        self.tokens.capacity().max(self.parts.capacity())
    }
}

/// Appends the tokens of a piece to `tokens`. An interrupt leaves them incomplete.
///
/// The heap has the rank and the position of each pair. An entry is stale if another merge has
/// taken one of its tokens, in which case `ranks` differs at the position.
pub fn merge_long(
    table: &impl Ranks,
    piece: &[u8],
    scratch: &mut MergeScratch,
    tokens: &mut Vec<TokenIndex>,
    interrupt: &mut Interrupt<'_>,
) {
    const TAKEN: TokenIndex = TokenIndex::MAX; // the token is the right part of another by now
    let end = u32::try_from(piece.len()).expect("texts are shorter than 4 GiB");
    let MergeScratch { heap, parts, ranks, after, before, .. } = scratch;
    for list in [&mut *parts, &mut *ranks, &mut *after, &mut *before] {
        list.clear();
        granted(list.try_reserve(piece.len()));
    }
    parts.extend(piece.iter().map(|&byte| table.of_byte(byte)));
    ranks.extend(piece.windows(2).map(|pair| table.byte_pair(pair[0], pair[1])));
    ranks.push(NO_RANK);
    after.extend(1..=end);
    before.extend((0..end).map(|i| i.wrapping_sub(1)));
    if interrupt.check().is_err() {
        return;
    }
    let entry = |rank: u32, at: u32| Reverse(u64::from(rank) << 32 | u64::from(at));
    let mut entries = std::mem::take(heap).into_vec();
    entries.clear();
    granted(entries.try_reserve(piece.len()));
    let present = (0..end).zip(ranks.iter()).filter(|&(_, &rank)| rank != NO_RANK);
    entries.extend(present.map(|(at, &rank)| entry(rank, at)));
    *heap = BinaryHeap::from(entries);

    while let Some(Reverse(top)) = heap.pop() {
        if interrupt.advance(POP_COST_BYTES).is_err() {
            return;
        }
        let (rank, at) = ((top >> 32) as u32, top as u32);
        let here = at as usize;
        if ranks[here] != rank {
            continue;
        }
        let next = after[here] as usize;
        parts[here] = table.made_by(rank, parts[here], parts[next]);
        parts[next] = TAKEN;
        ranks[next] = NO_RANK;
        let following = after[next];
        after[here] = following;
        ranks[here] = NO_RANK;
        if following < end {
            before[following as usize] = at;
            let rank = table.rank(parts[here], parts[following as usize]);
            if rank != NO_RANK {
                ranks[here] = rank;
                granted(heap.try_reserve(1));
                heap.push(entry(rank, at));
            }
        }
        let preceding = before[here];
        if preceding < end {
            let rank = table.rank(parts[preceding as usize], parts[here]);
            ranks[preceding as usize] = rank;
            if rank != NO_RANK {
                granted(heap.try_reserve(1));
                heap.push(entry(rank, preceding));
            }
        }
    }
    parts.iter().filter(|&&token| token != TAKEN).for_each(|&token| push(tokens, token));
}
