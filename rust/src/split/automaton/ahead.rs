//! Look-aheads at more than one character, such as `(?=(?:\d{3})*\b)`.
//!
//! Whether one holds at a place follows from two things: the next character, and the state at the
//! place after it. So an automaton that reads from right to left can tell, and it has few states.
//! Example, for digits that count from the right:
//!
//! ```text
//! text     1   2   3   4   5
//! state  2   1   0   2   1   0     the number of digits up to the end, modulo 3: it holds at 0
//! ```
//!
//! For most characters, the state before them is the same for every text that follows. The others,
//! such as digits, *depend* on the text after them. Each of their classes becomes several classes,
//! one for each state after it, and the automaton of the pattern reads these classes.
//!
//! `Ahead` fills in the columns of a block, from right to left in each run of characters that
//! depend. If a run is longer than a block, `Run` reads it once, and keeps the states at the ends
//! of blocks.

use std::collections::HashMap;

use super::classes::{Class, Columns, MAX_CLASSES};
use super::program::{Place, Program};
use crate::mem::growth::push;
use crate::simd::Instructions;

/// More states would need more than `MAX_CLASSES` classes.
const MAX_STATES: usize = 64;

/// The most places of look-aheads, which bounds the time.
const MAX_PLACES: usize = 2000;

/// For each look-ahead, the places of its program from which the text that follows leads to a
/// match.
type State = Vec<Vec<bool>>;

/// The automaton from right to left.
pub struct Sights {
    /// By state, which look-aheads hold.
    holds: Vec<Vec<bool>>,
    /// The state before a character, by the state after it and by its class.
    before: Vec<Vec<u8>>,
}

/// The state at the end of the text.
const END: u8 = 0;

impl Sights {
    pub fn new(aheads: &[Program], classes: &[Class]) -> Result<Sights, String> {
        if aheads.iter().map(|ahead| ahead.places.len()).sum::<usize>() > MAX_PLACES {
            return Err("its look-aheads are too long".into());
        }
        let end = aheads.iter().map(|ahead| true_places(ahead, None)).collect();
        let mut states: Vec<State> = vec![end];
        let mut known = HashMap::from([(states[0].clone(), END)]);
        let mut before: Vec<Vec<u8>> = Vec::new();
        while let Some(after) = states.get(before.len()).cloned() {
            let mut row = Vec::with_capacity(classes.len());
            for class in classes {
                let places = |(ahead, after)| true_places(ahead, Some((class, after)));
                let state: State = aheads.iter().zip(&after).map(places).collect();
                row.push(*known.entry(state).or_insert_with_key(|state| {
                    states.push(state.clone());
                    (states.len() - 1) as u8
                }));
            }
            before.push(row);
            if states.len() > MAX_STATES {
                return Err("it looks ahead too far".into());
            }
        }
        let holds = |state: &State| {
            state.iter().zip(aheads).map(|(places, ahead)| places[ahead.start]).collect()
        };
        Ok(Sights { holds: states.iter().map(holds).collect(), before })
    }

    /// Returns the classes that the automaton of a pattern reads, where the last is the end of the
    /// text, and for each the class of its characters.
    pub fn classes(&self, classes: Vec<Class>) -> Result<(Vec<Class>, Vec<usize>), String> {
        let (mut all, mut origins) = (Vec::new(), Vec::new());
        let count = classes.len();
        let set_count = classes.first().map_or(0, |class| class.is_in.len());
        for (number, class) in classes.into_iter().enumerate() {
            let depends = self.depends(number);
            for (after, row) in
                self.before.iter().enumerate().take(if depends { MAX_STATES } else { 1 })
            {
                let before = row[number];
                all.push(Class {
                    before,
                    after: depends.then_some(after as u8),
                    sees: self.holds[usize::from(before)].clone(),
                    ..class.clone()
                });
                origins.push(number);
            }
        }
        if all.len() > MAX_CLASSES {
            return Err(format!("it tells more than {MAX_CLASSES} classes of characters apart"));
        }
        let end = Class {
            is_in: vec![false; set_count],
            length: 0,
            before: END,
            after: None,
            sees: self.holds[usize::from(END)].clone(),
        };
        all.push(end);
        origins.push(count);
        Ok((all, origins))
    }

    /// Returns whether the state before a character of a class depends on the text after it.
    pub fn depends(&self, class: usize) -> bool {
        self.before.iter().any(|row| row[class] != self.before[0][class])
    }
}

/// Returns the places of a program from which a text leads to a match; only places at which the
/// program starts or has just read a character count. The text is given by the class of its next
/// character and the places that hold after it; None is the end of the text.
fn true_places(program: &Program, next: Option<(&Class, &Vec<bool>)>) -> Vec<bool> {
    let is_in = |set: usize| next.is_some_and(|(class, _)| class.is_in[set]);
    let mut is_true = vec![false; program.places.len()];
    let mut has_changed = true;
    while has_changed {
        has_changed = false;
        // A place leads to places before it in the list; only a loop leads to one after it.
        for number in (0..is_true.len()).chain((0..is_true.len()).rev()) {
            let is = match &program.places[number] {
                Place::Read(set, then) => {
                    is_in(*set) && next.is_some_and(|(_, after)| after[*then])
                }
                Place::Next(set, is_negative, then) => {
                    is_in(*set) != *is_negative && is_true[*then]
                }
                Place::Either(places) => places.iter().any(|&place| is_true[place]),
                Place::Match => true,
                Place::Ahead(..) => unreachable!("no look-ahead has another inside"),
            };
            has_changed |= is != is_true[number];
            is_true[number] = is;
        }
    }
    let mut matters = vec![false; is_true.len()];
    matters[program.start] = true;
    for place in &program.places {
        if let Place::Read(_, then) = place {
            matters[*then] = true;
        }
    }
    is_true.into_iter().zip(matters).map(|(is, matters)| is && matters).collect()
}

/// How many characters of one column are filled in at a time, if each is one byte.
const RUN: usize = 64;

/// Fills in the columns of characters that depend on the text after them.
pub struct Ahead {
    /// From this number on, columns belong to characters that depend on the text after them.
    first: u8,
    count: u8,
    /// The state before a character of each other column.
    before: Vec<u8>,
    /// The state before a character that depends, and its column, by the state after it and by its
    /// number.
    steps: Vec<(u8, u8)>,
    /// Like `steps`, for a run of characters that have one column.
    runs: Vec<([u8; RUN], u8)>,
}

impl Ahead {
    /// `columns` has the column of each class that the automaton reads. Also returns the column of
    /// each class of characters; None if no character depends on the text after it.
    pub fn new(
        sights: &Sights,
        classes: &[Class],
        origins: &[usize],
        columns: &[u8],
        first: u8,
    ) -> (Vec<u8>, Option<Ahead>) {
        let count = origins[origins.len() - 1];
        let (mut column_of, mut number) = (vec![0; count + 1], first);
        let mut before = vec![0; usize::from(first)];
        for (origin, column_of) in column_of.iter_mut().enumerate().take(count) {
            let of_origin =
                origins.iter().position(|&each| each == origin).expect("a class of each");
            if sights.depends(origin) {
                *column_of = number;
                number += 1;
            } else {
                *column_of = columns[of_origin];
                before[usize::from(columns[of_origin])] = classes[of_origin].before;
            }
        }
        column_of[count] = columns[columns.len() - 1];
        let depending = number - first;
        let mut steps = vec![(0, 0); sights.before.len() * usize::from(depending)];
        for ((class, &origin), &column) in classes.iter().zip(origins).zip(columns) {
            if let Some(after) = class.after {
                let row = usize::from(after) * usize::from(depending);
                steps[row + usize::from(column_of[origin] - first)] = (class.before, column);
            }
        }
        let mut ahead = Ahead { first, count: depending, before, steps, runs: Vec::new() };
        ahead.runs = (0..ahead.steps.len()).map(|number| ahead.run_of(number)).collect();
        (column_of, (depending > 0).then_some(ahead))
    }

    fn run_of(&self, last: usize) -> ([u8; RUN], u8) {
        let count = usize::from(self.count);
        let (mut state, mut run) = ((last / count) as u8, [0; RUN]);
        for cell in run.iter_mut().rev() {
            (state, *cell) = self.steps[usize::from(state) * count + last % count];
        }
        (run, state)
    }

    #[inline(always)]
    fn depends(&self, column: u8) -> bool {
        column >= self.first
    }

    #[inline(always)]
    fn number(&self, after: u8, column: u8) -> usize {
        usize::from(after) * usize::from(self.count) + usize::from(column - self.first)
    }

    /// Returns the state before a character that depends, and its column.
    #[inline(always)]
    fn step(&self, after: u8, column: u8) -> (u8, u8) {
        self.steps[self.number(after, column)]
    }

    #[inline(always)]
    fn run(&self, after: u8, column: u8) -> &([u8; RUN], u8) {
        &self.runs[self.number(after, column)]
    }

    /// Fills in the columns of the characters that depend on the text after them. `texts` has a bit
    /// for each place where a text begins, and `after` is the state at the end of the block.
    #[inline(always)]
    pub fn fill<I: Instructions>(
        &self,
        isa: I,
        cells: &mut [u8],
        length: usize,
        skip: u8,
        texts: &[u64],
        after: u8,
    ) {
        let (mut next, mut state) = (length, after);
        for chunk in (0..length.div_ceil(64)).rev() {
            let start = 64 * chunk;
            let block = cells[start..].first_chunk().expect("there is room after the text");
            let mut places = isa.within(isa.load(block), self.first, self.count);
            if length - start < 64 {
                places &= (1 << (length - start)) - 1;
            }
            let column = cells[start];
            if places == u64::MAX
                && next == start + RUN
                && next < length
                && texts[chunk] | texts[chunk + 1] & 1 == 0
                && isa.within(isa.load(block), column, 1) == places
            {
                let (columns, before) = self.run(state, column);
                cells[start..next].copy_from_slice(columns);
                (state, next) = (*before, start);
                continue;
            }
            while places != 0 {
                let at = start + places.ilog2() as usize;
                places &= !(1 << (at - start));
                let mut end = at + 1;
                while end < length && cells[end] == skip {
                    end += 1;
                }
                if end < length && texts[end / 64] >> (end % 64) & 1 != 0 {
                    state = END;
                } else if end != next {
                    state = self.before[usize::from(cells[end])];
                }
                (state, cells[at]) = self.step(state, cells[at]);
                next = at;
            }
        }
    }
}

/// The states at the ends of the next blocks, while one run goes through all of them.
#[derive(Default)]
pub struct Run {
    /// The places and the states there. The last belongs to the next block.
    states: Vec<(usize, u8)>,
}

impl Run {
    /// Returns the state at the end of a block. `text` ends where the text of the next character
    /// ends, and `next_end` returns the end of the block that begins at a place.
    pub fn state_at(
        &mut self,
        end: usize,
        ahead: &Ahead,
        columns: &Columns,
        text: &[u8],
        next_end: impl Fn(usize) -> usize,
    ) -> u8 {
        if let Some((_, state)) = self.states.pop_if(|(at, _)| *at == end) {
            return state;
        }
        let mut at = end;
        let mut state = END;
        while at < text.len() {
            let (column, length) = columns.at(text, at);
            if !ahead.depends(column) {
                state = ahead.before[usize::from(column)];
                break;
            }
            at += length;
        }
        let (mut ends, mut next) = (Vec::new(), next_end(end));
        while next < at {
            push(&mut ends, next);
            next = next_end(next);
        }
        self.states.clear();
        while at > end {
            if ends.last() == Some(&at) {
                push(&mut self.states, (at, state));
                ends.pop();
            }
            let next = ends.last().map_or(end, |&end| end);
            if at - next >= RUN
                && let Some(column) = columns.of_all(&text[at - RUN..at])
            {
                (at, state) = (at - RUN, ahead.run(state, column).1);
                continue;
            }
            at = columns.start(text, at - 1);
            state = ahead.step(state, columns.at(text, at).0).0;
        }
        state
    }
}
