//! Finds one match after another, where the scanner or a window gives up.
//!
//! A match may have to read far beyond its end before it is sure of this end. If each of the next
//! matches read the same text again, the time would be quadratic. So a match that passes a place in
//! some state and finds no end from there on remembers place and state, about once in 32 bytes. A
//! later match that comes to this place in this state stops, because it would find no end either.

use std::collections::HashSet;

use super::classes::Columns;
use super::matcher::{DEAD, Matcher};
use crate::mem::growth::{filled, granted, push};

/// Places, and the states in which a match passes them and finds no end.
#[derive(Default)]
pub struct Memory {
    known: HashSet<(u32, u32)>,
    /// If there are more, the places that no later match passes are forgotten.
    limit: usize,
}

impl Memory {
    fn add(&mut self, places: Vec<(u32, u32)>, start: usize) {
        granted(self.known.try_reserve(places.len()));
        self.known.extend(places);
        if self.known.len() > self.limit {
            self.known.retain(|&(place, _)| place as usize >= start);
            self.limit = 2 * self.known.len() + MIN_LIMIT;
        }
    }
}

const MIN_LIMIT: usize = 1 << 12;

/// The matcher by columns.
pub struct Walk {
    steps: Vec<Step>,
    /// The column of the end of the text.
    end: u8,
}

#[derive(Clone, Copy)]
struct Step {
    /// The first index of the next state, or NONE.
    next: u32,
    /// Whether a match ends before the character.
    accepts: bool,
}

const NONE: u32 = u32::MAX;

/// A match remembers nothing of this many bytes after its last end, because reading them again is
/// cheap.
const NEAR_BYTES: usize = 32;

impl Walk {
    /// `columns` has the column of each class, and at its end the column of the end of the text.
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

    /// Writes where the next pieces of `text` from `start` on end, and returns their count, which
    /// is 0 only at the end of the text. A piece begins at `start`. The first piece to reach
    /// `until` is the last.
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
        // Each match, and the gap before it.
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

    /// Returns the end of the match that begins at `start`.
    pub fn end_of_match(
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
                if memory.known.contains(&(at as u32, state)) {
                    break;
                }
                push(&mut remembered, (at as u32, state));
            }
        }
        memory.add(remembered, start);
        end
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Automaton, Node};
    use crate::simd::Isa;

    #[test]
    fn places_that_no_match_passes_again_are_forgotten() {
        let few =
            Node::Repeat { node: Node::Set(0).into(), min: 1, max: Some(900), is_lazy: false };
        let far = Node::Sequence(vec![few, Node::Set(1)]);
        let pattern = Node::Either(vec![far, Node::Set(0)]);
        let sets = [vec![(97, 98)], vec![(99, 99)]];
        let automaton =
            Automaton::new(&[pattern], &sets, false).unwrap_or_else(|reason| panic!("{reason}"));
        let text = b"ab".repeat(if cfg!(miri) { 1_000 } else { 30_000 });
        let (mut reading, mut ends, mut at) = (automaton.reading(&text, 0), [0; 200], 0);
        while at < text.len() {
            let count = automaton.next_ends(Isa::get(), &text, &[], at, &mut ends, &mut reading);
            at = ends[count - 1] as usize;
            // A match passes 28 places within its reach, each in a state of its own.
            assert!(reading.memory.known.len() < 2 * 28 * 900 + 2 * super::MIN_LIMIT, "at {at}");
        }
    }
}
