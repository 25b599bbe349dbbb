//! Merging a very long piece window by window, with the same result as merging it at once.
//!
//! The windows are small, so that all memory of merging stays in the processor's cache. The
//! algorithm:
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
//! In this example two windows disagree. A window has four bytes, the margin is two, and the merges
//! are `d e`, `c d`, `b c`, `a b` in this order:
//!
//! ```text
//! piece      a  b  c  d  e
//! window 1   a──b  c──d           takes `ab`, expects `cd`
//! window 2         c  d──e        begins with `c`: the end of window 1 was wrong
//! window 1   a  b──c  d──e        twice as long, it reaches the end
//! ```
//!
//! With `x` instead of `e`, window 2 is `cd x`, which begins as expected. So `ab cd x` is exact.
//!
//! Why the result is exact for any order of ranks: the rule merges the pair that is first by rank
//! and then by position. Call two tokens *stable* if merging only the bytes of both gives these
//! two.
//!
//! 1. Neighbours in a result are stable. No merge crossed an edge of either, so each merge inside
//!    them would also have been chosen if there had been only their bytes.
//! 2. A row in which all neighbours are stable is the result of merging its bytes. Otherwise, take
//!    the first merge that crosses from a token to the next. Up to it, each merge inside these two
//!    came first among all pairs of the row, and therefore among the pairs of their own bytes. The
//!    same is true of the crossing merge, so it happens in their own bytes too, and the two are not
//!    stable.
//! 3. All neighbours in the row of taken tokens are neighbours in the result of some window. For
//!    the last token taken from a window and the first of the next, the expectation ensures this.
//!
//! The lengths of tokens must be known, because they tell where the next window begins.

use super::heap::{MergeScratch, merge_long};
use super::ranks::Ranks;
use crate::interrupt::Interrupt;
use crate::mem::growth::{append, push};
use crate::types::{MAX_CACHED_PIECE, TokenIndex};

/// The first length of a window, and the least length that it shares with the next window.
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
    let mut known: &[u8] = &[];
    while interrupt.check().is_ok() {
        let Window { start, length, expected, .. } = window;
        let end = piece.len().min(start + length);
        let bytes = &piece[start..end];
        // A run of one character, or of a few in turn, has one window again and again.
        if bytes != known {
            found.clear();
            merge_long(table, bytes, scratch, &mut found, interrupt);
            known = bytes;
        }
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
