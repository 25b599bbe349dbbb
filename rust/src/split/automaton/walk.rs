//! The matches of a text one after another, for patterns that have no scanner.
//!
//! A match may read far behind its end. If the next matches read the same text again, the time is
//! quadratic. But where one came to a place in a state and found no end from there on, none will that
//! comes to this place in this state. So such places are remembered, one in each 32 bytes, and a match
//! goes no further there.

use std::collections::HashSet;

use super::classes::Columns;
use super::matcher::{DEAD, Matcher};
use crate::mem::growth::{filled, granted, push};

/// A state and where it was, from which no end is found.
pub type Failures = HashSet<(u32, u32)>;

/// The matcher by columns: classes with equal ways have one.
pub struct Walk {
    steps: Vec<Step>,
    /// The column of each class, and behind the last that of the end of the text.
    pub columns: Vec<u8>,
    /// Of a byte that continues a character. A walk reads none.
    pub skip: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Step {
    /// The first index of the next state, or NONE.
    next: u32,
    /// Whether a match ends before the character.
    accepts: bool,
}

const NONE: u32 = u32::MAX;

/// A match that reads no further behind its end remembers nothing.
const NEAR_BYTES: usize = 32;

impl Walk {
    pub fn new(matcher: &Matcher) -> Walk {
        let mut firsts: Vec<usize> = Vec::new();
        let column = |class: usize| matcher.ways.iter().map(move |ways| ways[class]);
        let mut columns = Vec::new();
        let count = matcher.ways[Matcher::START].len();
        for class in 0..count {
            // The end of the text has a column of its own.
            let known = firsts
                .iter()
                .position(|&first| class + 1 < count && column(first).eq(column(class)));
            columns.push(known.unwrap_or(firsts.len()) as u8);
            if known.is_none() {
                firsts.push(class);
            }
        }
        let width = firsts.len();
        let mut steps = filled(Step { next: NONE, accepts: false }, matcher.ways.len() * width);
        for (steps, ways) in steps.chunks_mut(width).zip(&matcher.ways) {
            for (step, &class) in steps.iter_mut().zip(&firsts) {
                step.accepts = ways[class].accepts;
                if ways[class].next != DEAD {
                    step.next = (ways[class].next * width) as u32;
                }
            }
        }
        Walk { steps, columns, skip: width as u8 }
    }

    /// Writes where the next pieces of `text` from `start` on end, and returns their count: 0 only
    /// at the end of the text. A piece begins at `start`.
    pub fn next_ends(
        &self,
        columns: &Columns,
        text: &[u8],
        start: usize,
        ends: &mut [u32],
        failures: &mut Failures,
    ) -> usize {
        let (mut at, mut gap, mut count) = (start, start, 0);
        // The gap and the match behind it.
        while at < text.len() && count + 2 <= ends.len() {
            let Some(end) = self.end_of_match(columns, text, at, failures) else {
                at += columns.at(text, at).1;
                continue;
            };
            if gap < at {
                ends[count] = at as u32;
                count += 1;
            }
            ends[count] = end as u32;
            count += 1;
            (at, gap) = (end, end);
        }
        if gap < at && at == text.len() {
            ends[count] = at as u32;
            count += 1;
        }
        count
    }

    /// Returns where the match ends that begins at `start`.
    fn end_of_match(
        &self,
        columns: &Columns,
        text: &[u8],
        start: usize,
        failures: &mut Failures,
    ) -> Option<usize> {
        let (mut at, mut state, mut end) = (start, 0, None);
        let mut remembered = Vec::new();
        loop {
            let (column, length) = if at < text.len() {
                columns.at(text, at)
            } else {
                (self.columns[self.columns.len() - 1], 1)
            };
            let Step { next, accepts } = self.steps[state as usize + usize::from(column)];
            if accepts {
                end = Some(at);
                remembered.clear();
            }
            if next == NONE || at >= text.len() {
                break;
            }
            (at, state) = (at + length, next);
            let is_far = at - end.unwrap_or(start) > NEAR_BYTES;
            if is_far && at / NEAR_BYTES > (at - length) / NEAR_BYTES {
                if failures.contains(&(at as u32, state)) {
                    break;
                }
                push(&mut remembered, (at as u32, state));
            }
        }
        granted(failures.try_reserve(remembered.len()));
        failures.extend(remembered);
        end
    }
}
