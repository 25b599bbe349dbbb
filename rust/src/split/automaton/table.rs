//! The scanner as a table that a loop can follow in a few instructions for each byte.
//!
//! States that no text tells apart share a row, and classes with equal steps share a column.

use std::collections::HashMap;

use super::classes::{Class, Columns, MAX_COLUMNS};
use super::matcher::{Matcher, Way};
use super::scanner::{Scanner, Told};
use crate::mem::growth::filled;

/// A step in 32 bits: the first index of the next row, and in the lowest byte what it tells.
///
/// 0 tells nothing, and n from 1 to 5 tells that a piece ends n - 1 bytes before the character. A
/// greater number is rare, and stands for an item of `Table::rare`.
#[derive(Clone, Copy)]
pub struct Step(u32);

impl Step {
    #[inline(always)]
    pub fn at_row(row: u16) -> Step {
        Step::new(row, 0)
    }

    #[inline(always)]
    fn new(row: u16, told: u8) -> Step {
        Step(u32::from(row) << 16 | u32::from(told))
    }

    #[inline(always)]
    pub fn row(self) -> u16 {
        (self.0 >> 16) as u16
    }

    #[inline(always)]
    pub fn told(self) -> u8 {
        self.0 as u8
    }
}

/// From this number on, what a step tells is rare.
pub const RARE: u8 = 6;

/// Tells that a step gives up. Then the row to which it leads means nothing.
pub const GIVE_UP: u8 = u8::MAX;

/// The absence of a row.
pub const NONE: u16 = u16::MAX;

/// The sum of a row and a column is below this, so that the loop needs no check of bounds.
const STEP_COUNT: usize = (1 << 16) + (1 << 8);

/// The most steps that are compared to find equal states, which bounds the time.
const MAX_VISITS: usize = 10_000_000;

/// The steps of a table, for loops.
#[derive(Clone, Copy)]
pub struct Steps<'a>(&'a [Step; STEP_COUNT]);

impl Steps<'_> {
    #[inline(always)]
    pub fn step(self, row: u16, column: u8) -> Step {
        self.0[usize::from(row) + usize::from(column)]
    }
}

pub struct Table {
    steps: Box<[Step; STEP_COUNT]>,
    /// The column of each class. The last class is the end of the text.
    pub columns: Vec<u8>,
    /// The column of a byte that continues a character: the row stays, and no end follows.
    pub skip: u8,
    /// The number of columns: up to `skip`, and as many for characters that begin a text.
    width: usize,
    /// Whether some steps give up.
    pub gives_up: bool,
    rare: Vec<Told>,
    /// How many of the last ends may be taken back, by the number of the row.
    unsure: Vec<u8>,
    /// The row after two columns, if it is the same from all rows; else NONE.
    same: Vec<u16>,
}

impl Table {
    /// Returns the table of a scanner, unless it would be too large.
    pub fn new(scanner: &Scanner, matcher: &Matcher, classes: &[Class]) -> Option<Table> {
        let (mut rare, mut numbers) = (Vec::new(), HashMap::new());
        let mut number_of = |told: Told| match (told.ends, told.taken_back) {
            (0, 0) => 0,
            (ends, 0) if ends.is_power_of_two() && ends < 32 => ends.trailing_zeros() as u8 + 1,
            _ => *numbers.entry(told).or_insert_with(|| {
                rare.push(told);
                RARE + rare.len() as u8 - 1
            }),
        };
        let mut step = |step: &Option<(usize, Told)>| {
            step.map_or((0, GIVE_UP), |(next, told)| (next, number_of(told)))
        };
        let rows: Vec<Vec<(usize, u8)>> =
            scanner.steps.iter().map(|row| row.iter().map(&mut step).collect()).collect();
        let gives_up = scanner.gives_up;
        let (rows, unsure) = merged(rows, &scanner.unsure)?;
        // A walk reads the same columns. If the scanner never gives up, it may take any class of a
        // column for another: their steps are equal, so no end of any text moves.
        let (columns, width) = columns(classes, &rows, if gives_up { &matcher.ways } else { &[] });
        if width > MAX_COLUMNS {
            return None;
        }
        let skip = width as u8;
        let end = columns.len() - 1;
        let width = 2 * (width + 1);
        if rows.len() * width >= usize::from(NONE) || rare.len() > usize::from(GIVE_UP - RARE) {
            return None;
        }
        let mut steps = filled(Step(0), STEP_COUNT);
        for (number, row) in rows.iter().enumerate() {
            let steps = &mut steps[number * width..][..width];
            for (class, (&(next, told), &column)) in row.iter().zip(&columns).enumerate() {
                steps[usize::from(column)] = Step::new((next * width) as u16, told);
                let (first, is_known) = (rows[0][class].0, rows[0][class].1 != GIVE_UP);
                let told = if is_known { row[end].1 } else { GIVE_UP };
                steps[usize::from(column) + width / 2] = Step::new((first * width) as u16, told);
            }
            steps[usize::from(skip)] = Step::at_row((number * width) as u16);
        }
        let steps = steps.into_boxed_slice().try_into().ok().expect("of this length");
        let same = Vec::new();
        let mut table = Table { steps, columns, skip, width, rare, unsure, same, gives_up };
        table.same = table.rows_after_two();
        Some(table)
    }

    #[inline(always)]
    pub fn followed(&self) -> Steps<'_> {
        Steps(&self.steps)
    }

    #[inline(always)]
    pub fn step(&self, row: u16, column: u8) -> Step {
        self.followed().step(row, column)
    }

    /// Returns the number that is added to the column of a character that begins a text after
    /// another. Its step also tells the last ends of that other text.
    pub fn of_first(&self) -> u8 {
        (self.width / 2) as u8
    }

    /// Returns the column of the end of the text.
    #[inline(always)]
    pub fn end(&self) -> u8 {
        self.columns[self.columns.len() - 1]
    }

    /// Returns what a number of at least RARE stands for.
    #[inline(always)]
    pub fn rare(&self, number: u8) -> Told {
        self.rare[usize::from(number - RARE)]
    }

    /// Writes where the next pieces of `text` from `start` on end, and returns their count, which
    /// is 0 only at the end of the text. A piece begins at `start`.
    pub fn next_ends(
        &self,
        columns: &Columns,
        text: &[u8],
        start: usize,
        ends: &mut [u32],
    ) -> usize {
        let (mut at, mut row, mut count) = (start, 0, 0);
        // A step tells at most 5 ends.
        while at < text.len() && count + 5 < ends.len() {
            let (column, length) = columns.at(text, at);
            let step = self.step(row, column);
            count = self.tell(step.told(), at as u32, ends, count);
            row = step.row();
            at += length;
        }
        if at < text.len() {
            // The next call begins at the last sure end.
            return count - self.unsure(row);
        }
        if start < text.len() {
            let step = self.step(row, self.end());
            count = self.tell(step.told(), at as u32, ends, count);
        }
        count
    }

    /// Writes the ends that the step of the character at `at` tells after the first `count` ends,
    /// and returns their number.
    #[inline(always)]
    pub fn tell(&self, told: u8, at: u32, ends: &mut [u32], count: usize) -> usize {
        if told >= RARE {
            return self.tell_rare(told, at, ends, count);
        }
        ends[count] = (at + 1).wrapping_sub(u32::from(told));
        count + usize::from(told != 0)
    }

    #[cold]
    #[inline(never)]
    fn tell_rare(&self, told: u8, at: u32, ends: &mut [u32], mut count: usize) -> usize {
        let Told { ends: told, taken_back } = self.rare(told);
        count -= usize::from(taken_back);
        for distance in (0..8).rev().filter(|distance| told >> distance & 1 != 0) {
            ends[count] = at - distance;
            count += 1;
        }
        count
    }

    /// Returns how many of the last ends may be taken back.
    #[inline(always)]
    pub fn unsure(&self, row: u16) -> usize {
        usize::from(self.unsure[usize::from(row) / self.width])
    }

    /// Returns the most ends that may be taken back.
    pub fn max_unsure(&self) -> usize {
        self.unsure.iter().copied().max().map_or(0, usize::from)
    }

    /// Returns the row after two characters of these columns, if every text that ends in them leads
    /// to it. Texts in which a step gives up do not count.
    #[inline(always)]
    pub fn row_after(&self, before: u8, last: u8) -> Option<u16> {
        let row = self.same[usize::from(before) * self.width + usize::from(last)];
        (row != NONE).then_some(row)
    }

    fn rows_after_two(&self) -> Vec<u16> {
        let mut same = vec![NONE; self.width * self.width];
        let rows = || (0..self.unsure.len()).map(|number| (number * self.width) as u16);
        let is_character = |column: &u8| {
            let column = *column % self.of_first();
            column != self.skip && column != self.end()
        };
        for before in (0..self.width as u8).filter(is_character) {
            let known = |row: u16, column: u8| {
                let step = self.step(row, column);
                (step.told() != GIVE_UP).then_some(step.row())
            };
            let mut reached: Vec<u16> = rows().filter_map(|row| known(row, before)).collect();
            reached.sort_unstable();
            reached.dedup();
            for last in (0..self.width as u8).filter(is_character) {
                let mut ends = reached.iter().filter_map(|&row| known(row, last));
                let Some(first) = ends.next() else { continue };
                if ends.all(|row| row == first) {
                    same[usize::from(before) * self.width + usize::from(last)] = first;
                }
            }
        }
        same
    }
}

type Rows = Vec<Vec<(usize, u8)>>;

/// Joins rows that no text tells apart; None if that takes too long. The first row stays the first.
fn merged(rows: Rows, unsure: &[u8]) -> Option<(Rows, Vec<u8>)> {
    let mut group_of: Vec<usize> = unsure.iter().copied().map(usize::from).collect();
    let (mut count, mut visits) = (0, 0);
    loop {
        visits += rows.iter().map(Vec::len).sum::<usize>();
        if visits > MAX_VISITS {
            return None;
        }
        let mut known = HashMap::new();
        let next: Vec<usize> = (0..rows.len())
            .map(|state| {
                let steps: Vec<_> =
                    rows[state].iter().map(|&(next, told)| (group_of[next], told)).collect();
                let number = known.len();
                *known.entry((group_of[state], steps)).or_insert(number)
            })
            .collect();
        let is_done = known.len() == count;
        (count, group_of) = (known.len(), next);
        if is_done {
            break;
        }
    }
    let first_of = |group| group_of.iter().position(|&each| each == group).expect("of a state");
    let firsts: Vec<usize> = (0..count).map(first_of).collect();
    let row =
        |&state: &usize| rows[state].iter().map(|&(next, told)| (group_of[next], told)).collect();
    Some((firsts.iter().map(row).collect(), firsts.iter().map(|&state| unsure[state]).collect()))
}

/// Returns the column of each class, and the number of columns. Classes with equal steps, and equal
/// `ways` if any are given, share a column if look-aheads see the same before them. The last class,
/// the end of the text, has a column of its own.
pub fn columns(
    classes: &[Class],
    rows: &[Vec<(usize, u8)>],
    ways: &[Vec<Way>],
) -> (Vec<u8>, usize) {
    let mut known = HashMap::new();
    let column = |(number, class): (usize, &Class)| {
        let steps: Vec<_> = rows.iter().map(|row| row[number]).collect();
        let ways: Vec<_> = ways.iter().map(|ways| ways[number]).collect();
        let next = known.len() as u8;
        *known.entry((number + 1 == classes.len(), class.before, steps, ways)).or_insert(next)
    };
    let columns = classes.iter().enumerate().map(column).collect();
    (columns, known.len())
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::super::{Automaton, Node, Set};
    use super::*;
    use crate::simd::Isa;
    use crate::test_inputs::Rng;

    const LETTERS: &[u8] = b"ab \n!x";

    fn set(number: usize) -> Node {
        Node::Set(number)
    }

    fn repeat(node: Node, min: u32) -> Node {
        Node::Repeat { node: node.into(), min, max: None, is_lazy: false }
    }

    /// Returns the sets "a", "b", `[ab]`, `[ \n]`, `\n`, `[^ \n]`, `[!']` and " ".
    fn sets() -> Vec<Set> {
        let not_space = vec![(0, 9), (11, 31), (33, 0x10_FFFF)];
        vec![
            vec![(97, 97)],
            vec![(98, 98)],
            vec![(97, 98)],
            vec![(10, 10), (32, 32)],
            vec![(10, 10)],
            not_space,
            vec![(33, 33), (39, 39)],
            vec![(32, 32)],
        ]
    }

    /// Returns patterns that tell ends late, take ends back, leave gaps, and match as little as
    /// they can.
    fn patterns() -> Vec<Node> {
        let spaces = || {
            let ahead = Node::Next { set: 5, is_negative: true };
            [Node::Sequence(vec![repeat(set(3), 1), ahead]), repeat(set(3), 1)]
        };
        let newlines = Node::Sequence(vec![repeat(set(3), 0), repeat(set(4), 1)]);
        let optional =
            |node: Node| Node::Repeat { node: node.into(), min: 0, max: Some(1), is_lazy: false };
        let word = |first: usize| Node::Sequence(vec![optional(set(first)), repeat(set(2), 1)]);
        let lazy = Node::Repeat { node: set(0).into(), min: 1, max: Some(2), is_lazy: true };
        vec![
            Node::Either([vec![word(6), set(6), newlines], spaces().to_vec()].concat()),
            Node::Either(vec![word(7)]),
            Node::Either(vec![Node::Sequence(vec![set(6), set(1)]), repeat(set(2), 1)]),
            Node::Either([vec![lazy, repeat(set(1), 1), set(6)], spaces().to_vec()].concat()),
        ]
    }

    /// Returns patterns in turn that have one table: each match of the first is a character, up to
    /// three, or a run.
    fn in_turn() -> Vec<Vec<Node>> {
        let few = Node::Repeat { node: set(6).into(), min: 1, max: Some(3), is_lazy: false };
        let firsts = [set(6), few, repeat(set(2), 1), repeat(set(4), 1)];
        let pairs = firsts
            .iter()
            .flat_map(|first| patterns().into_iter().map(|inner| vec![first.clone(), inner]));
        let all = pairs.chain([vec![set(4), set(6), patterns()[0].clone()]]);
        all.filter(|patterns| Automaton::new(patterns, &sets(), false).is_ok()).collect()
    }

    /// Returns the ends that calls with some rooms find. One with little room leaves out the last
    /// ends if they may be taken back.
    fn found(automaton: &Automaton, text: &[u8], rooms: &[usize]) -> Vec<u32> {
        let (mut all, mut reading) = (Vec::<u32>::new(), automaton.reading(text, 0));
        for &room in rooms {
            let (start, mut ends) = (all.last().map_or(0, |&end| end as usize), [0; 100]);
            let room = &mut ends[..room];
            let count = automaton.next_ends(Isa::get(), text, &[], start, room, &mut reading);
            all.extend_from_slice(&ends[..count]);
        }
        all
    }

    /// Returns the ends of a text that one call and that several calls find.
    fn ends(automaton: &Automaton, text: &[u8]) -> [Vec<u32>; 2] {
        [found(automaton, text, &[100]), found(automaton, text, &[8, 8, 8, 100])]
    }

    fn table(automaton: &mut Automaton) -> &mut Table {
        automaton.table.as_mut().expect("a scanner")
    }

    /// Returns all short texts of a few letters, and some longer ones.
    fn texts() -> Vec<Vec<u8>> {
        let mut texts = vec![Vec::new()];
        for number in 0..LETTERS.len().pow(4) {
            let next = |letter: &u8| [&texts[number][..], &[*letter]].concat();
            let longer: Vec<_> = LETTERS.iter().map(next).collect();
            texts.extend(longer);
        }
        let mut rng = Rng::new(11);
        for _ in 0..2000 {
            let (length, few) =
                (5 + rng.below(8), [0; 2].map(|_| LETTERS[rng.below(LETTERS.len())]));
            let letters = if rng.below(2) == 0 { LETTERS } else { &few };
            texts.push((0..length).map(|_| letters[rng.below(letters.len())]).collect());
        }
        texts
    }

    #[test]
    fn each_change_of_a_step_changes_an_end() {
        for pattern in patterns().into_iter().map(|each| vec![each]).chain(in_turn()) {
            let mut automaton =
                Automaton::new(&pattern, &sets(), false).unwrap_or_else(|e| panic!("{e}"));
            // The tests of Python compare these ends with `regex`.
            let cases: Vec<_> =
                texts().into_iter().map(|text| (ends(&automaton, &text), text)).collect();
            let steps = table(&mut automaton).steps.clone();
            let Table { width, skip, .. } = *table(&mut automaton);
            let (end, rows) = (table(&mut automaton).end(), table(&mut automaton).unsure.len());
            for (row, column) in (0..rows).flat_map(|row| (0..skip).map(move |c| (row, c))) {
                let place = row * width + usize::from(column);
                let step = steps[place];
                let is_end = column == end;
                let mut changes = vec![Step::new(step.row(), u8::from(step.told() == 0))];
                let others = (0..rows).map(|other| (other * width) as u16);
                let others = others.filter(|&other| other != step.row() && !is_end);
                changes.extend(others.map(|other| Step::new(other, step.told())));
                // The empty text has no end, whatever the first row tells.
                changes.truncate(if is_end && row == 0 { 0 } else { changes.len() });
                for change in changes {
                    table(&mut automaton).steps[place] = change;
                    let is_found = cases.iter().any(|(wanted, text)| {
                        catch_unwind(|| ends(&automaton, text)).ok().as_ref() != Some(wanted)
                    });
                    assert!(is_found, "row {row}, column {column}: {:x}", change.0);
                }
                table(&mut automaton).steps[place] = step;
            }
        }
    }
}
