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

/// States and where they were, from which no end is found.
pub type Memory = HashSet<(u32, u32)>;

/// The matcher by columns.
pub struct Walk {
    steps: Vec<Step>,
    /// The column of the end of the text.
    end: u8,
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
    /// `columns` has the column of each class, and behind the last that of the end of the text.
    pub fn new(matcher: &Matcher, columns: &[u8]) -> Walk {
        let end = columns[columns.len() - 1];
        let width = usize::from(columns.iter().copied().max().unwrap_or(0)) + 1;
        let mut steps = filled(Step { next: NONE, accepts: false }, matcher.ways.len() * width);
        for (steps, ways) in steps.chunks_mut(width).zip(&matcher.ways) {
            for (way, &column) in ways.iter().zip(columns) {
                let step = &mut steps[usize::from(column)];
                step.accepts = way.accepts;
                step.next = if way.next == DEAD { NONE } else { (way.next * width) as u32 };
            }
        }
        Walk { steps, end }
    }

    /// Writes where the next pieces of `text` from `start` on end, and returns their count: 0 only
    /// at the end of the text. A piece begins at `start`. It stops behind `until`.
    pub fn next_ends(
        &self,
        columns: &Columns,
        text: &[u8],
        start: usize,
        until: usize,
        ends: &mut [u32],
        memory: &mut Memory,
    ) -> usize {
        let (mut at, mut gap, mut count) = (start, start, 0);
        // The gap and the match behind it.
        while at < text.len() && count + 2 <= ends.len() && gap < until {
            let Some(end) = self.end_of_match(columns, text, at, memory) else {
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
        memory: &mut Memory,
    ) -> Option<usize> {
        let (mut at, mut state, mut end) = (start, 0, None);
        let mut remembered = Vec::new();
        loop {
            let (column, length) =
                if at < text.len() { columns.at(text, at) } else { (self.end, 1) };
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
                if memory.contains(&(at as u32, state)) {
                    break;
                }
                push(&mut remembered, (at as u32, state));
            }
        }
        granted(memory.try_reserve(remembered.len()));
        memory.extend(remembered);
        end
    }
}
