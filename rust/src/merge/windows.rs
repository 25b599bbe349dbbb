//! Merging a very long piece window by window, with the result of merging it at once.
//!
//! Small windows keep all that merging needs in the processor's cache. The algorithm:
//!
//! ```text
//! start = 0, length = WINDOW_BYTES
//! loop:
//!     merge piece[start..start + length]
//!     if its first token is not the expected one:
//!         drop the tokens of the window before, and merge that again, twice as long
//!     else if the window reaches the end of the piece:
//!         take all of its tokens, and stop
//!     else:
//!         take its tokens but the last few, of MARGIN_BYTES or more
//!         start the next window there; expect the first token not taken
//! ```
//!
//! Two windows that disagree, with four bytes a window, a margin of two, and the merges `d e`,
//! `c d`, `b c`, `a b` in this order:
//!
//! ```text
//! piece      a  b  c  d  e
//! window 1   a──b  c──d           takes `ab`, expects `cd`
//! window 2         c  d──e        begins with `c`: the end of window 1 was wrong
//! window 1   a  b──c  d──e        twice as long, it reaches the end
//! ```
//!
//! With `x` instead of `e`, window 2 is `cd x`. It begins as expected, so `ab cd x` is exact.
//!
//! Why the result is exact, for any order of ranks. The rule merges the pair that is first by rank
//! and then by position. Call two tokens *stable* if merging the bytes of both, alone, gives these
//! two.
//!
//! 1. Neighbours in a result are stable: no merge crossed an edge of either, so the choice of the
//!    next merge in their bytes was that of their bytes alone.
//! 2. A row of tokens with only stable neighbours is the result of merging its bytes. Otherwise some
//!    merge is the first that crosses from a token to the next. Until then, each merge inside these
//!    two was the first of all pairs of the row, and so the first of the pairs in their bytes alone.
//!    The crossing merge is too, so it happens between their bytes alone: they are not stable.
//! 3. All neighbours in the row of taken tokens are neighbours in the result of some window. The
//!    last token taken from a window and the first of the next are so because of the expectation.
//!
//! The lengths of tokens must be known, since they tell where the next window begins.

use super::heap::{MergeScratch, merge_long};
use super::ranks::Ranks;
use crate::interrupt::Interrupt;
use crate::mem::growth::{append, push};
use crate::types::{MAX_CACHED_PIECE, TokenIndex};

/// The first length of a window, and the least that it shares with the next.
const WINDOW_BYTES: usize = MAX_CACHED_PIECE / 2;
const MARGIN_BYTES: usize = 48;

#[derive(Clone, Copy)]
struct Window {
    start: usize,
    length: usize,
    /// The number of tokens before the window.
    first: usize,
    /// The token that the window must begin with.
    expected: Option<TokenIndex>,
}

/// Appends the tokens of a piece to `tokens`. An interrupt leaves them incomplete.
pub fn merge_in_windows(
    table: &impl Ranks,
    piece: &[u8],
    lengths: &[u32],
    scratch: &mut MergeScratch,
    tokens: &mut Vec<TokenIndex>,
    interrupt: &mut Interrupt<'_>,
) {
    let mut found = std::mem::take(&mut scratch.window);
    let mut windows: Vec<Window> = Vec::new();
    let mut window = Window { start: 0, length: WINDOW_BYTES, first: tokens.len(), expected: None };
    while interrupt.check().is_ok() {
        let Window { start, length, expected, .. } = window;
        let end = piece.len().min(start + length);
        found.clear();
        merge_long(table, &piece[start..end], scratch, &mut found, interrupt);
        if expected.is_some_and(|expected| found.first() != Some(&expected)) {
            let Some(last) = windows.pop() else { break };
            tokens.truncate(last.first);
            window = Window { length: 2 * last.length, ..last };
            continue;
        }
        if end == piece.len() {
            append(tokens, &found);
            break;
        }
        let (mut taken, mut margin) = (found.len(), 0);
        while taken > 0 && margin < MARGIN_BYTES {
            taken -= 1;
            margin += lengths[found[taken] as usize] as usize;
        }
        if taken == 0 {
            window.length *= 2;
            continue;
        }
        push(&mut windows, window);
        append(tokens, &found[..taken]);
        let (first, expected) = (tokens.len(), Some(found[taken]));
        window = Window { start: end - margin, length: WINDOW_BYTES, first, expected };
    }
    scratch.window = found;
}
