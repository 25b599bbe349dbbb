//! Long texts: six parts of a block at a time.
//!
//! Each step needs the row that the step before has found, so a processor that follows one text
//! mostly waits. But it can follow six texts at once, which do not wait for one another: *lanes*.
//!
//! 1. The bytes of a block become columns of the table. A byte that continues a character has the
//!    column `skip`, in which nothing happens. The column of some characters depends on whether a
//!    text ends before them, or on the text after them (`ahead`).
//! 2. The block is divided into lanes where two characters determine the row after them, whatever
//!    came before. Each step writes what it tells at the place of its byte.
//! 3. The told ends become a mask of 64 places, and the mask becomes their offsets.
//!
//! The steps tell the same as in one lane, because each lane begins in the row that one lane would
//! have there. So ends are taken back across lanes and blocks too.
//!
//! # Why 3. is right
//!
//! A step tells places after all places that earlier steps told and that are not taken back. A step
//! that takes ends back tells only its own place, and no gap is open there, so later steps tell no
//! place below. So in a mask, the places below such a step's own are the places that earlier steps
//! told.

use std::ops::Range;

use super::ahead::{Ahead, Run};
use super::classes::Columns;
use super::scanner::Told;
use super::table::{GIVE_UP, RARE, Step, Table};
use crate::mem::growth::filled;
use crate::simd::{Instructions, Work};

/// More lanes would need more registers.
const LANES: usize = 6;

/// How many bytes each lane follows at a time.
const CHUNK: usize = 32;

/// The text, its columns and the told ends fit the first-level cache.
const BLOCK_BYTES: usize = 1 << 13;

/// In a shorter text, one lane is faster.
pub const MIN_BYTES: usize = 256;

/// A window and the four bytes after it, where a step may tell an end in the window.
const WINDOW_BYTES: usize = 64 + 4;

/// The most ends that may be taken back.
const MAX_UNSURE: usize = 16;

/// Finds where the pieces of one text end.
pub struct Lanes {
    /// What each step tells, at the place of its byte. Before the step, its column is there.
    told: Vec<u8>,
    /// The place of `told` in the text.
    start: usize,
    /// From here to `known`, the told ends are not written yet.
    at: usize,
    known: usize,
    /// The row after the block.
    row: u16,
    is_last: bool,
    /// Whether the step at `known` gives up.
    gave_up: bool,
    /// Ends that may still be taken back.
    pending: [u32; MAX_UNSURE],
    pending_count: usize,
    /// How many texts begin before the end of the block.
    text_count: usize,
    run: Run,
}

impl Lanes {
    /// A piece begins at `start`.
    pub fn new(text: &[u8], start: usize) -> Lanes {
        let room = BLOCK_BYTES.min(text.len() - start) + 4 * WINDOW_BYTES;
        Lanes {
            told: filled(0, room),
            start,
            at: 0,
            known: 0,
            row: 0,
            is_last: false,
            gave_up: false,
            pending: [0; MAX_UNSURE],
            pending_count: 0,
            text_count: 0,
            run: Run::default(),
        }
    }
}

/// Writes where the next pieces end. Returns their count and, if a step after them gives up, its
/// place. The count is 0 only in this case, and at the end of the text.
pub struct NextEnds<'a> {
    pub lanes: &'a mut Lanes,
    pub table: &'a Table,
    pub source: Source<'a>,
    pub ends: &'a mut [u32],
}

impl Work for NextEnds<'_> {
    type Result = (usize, Option<usize>);

    #[inline(always)]
    fn run<I: Instructions>(self, isa: I) -> (usize, Option<usize>) {
        let NextEnds { lanes, table, source, ends } = self;
        let mut count = lanes.pending_count;
        ends[..count].copy_from_slice(&lanes.pending[..count]);
        let last = loop {
            if ends.len() - count < 64 + 8 {
                break false;
            }
            let is_whole = lanes.is_last || lanes.gave_up;
            if lanes.at + WINDOW_BYTES <= lanes.known || is_whole && lanes.at < lanes.known {
                count = lanes.write_window(isa, table, ends, count);
            } else if lanes.gave_up {
                // The ends that may be taken back are found again.
                let count = count.saturating_sub(table.max_unsure());
                return (count, Some(lanes.start + lanes.known));
            } else if lanes.is_last {
                break true;
            } else {
                lanes.read_block(isa, table, &source);
            }
        };
        let kept = if last { 0 } else { table.max_unsure().min(count) };
        count -= kept;
        lanes.pending[..kept].copy_from_slice(&ends[count..count + kept]);
        lanes.pending_count = kept;
        (count, None)
    }
}

impl Lanes {
    /// Writes the ends in the next 64 places after the first `count` ends, and returns their
    /// number.
    #[inline(always)]
    fn write_window<I: Instructions>(
        &mut self,
        isa: I,
        table: &Table,
        ends: &mut [u32],
        count: usize,
    ) -> usize {
        let window: &[u8; WINDOW_BYTES] =
            self.told[self.at..].first_chunk().expect("there is room after the told ends");
        let base = (self.start + self.at) as u32;
        self.at += 64;
        if !I::FINDS_WINDOWS {
            return with_each(table, window, base, ends, count);
        }
        let from = |first: usize| isa.load(window[first..].first_chunk::<64>().expect("of 68"));
        let here = from(0);
        let mut mask = isa.within(here, 1, 1);
        for distance in 1..5 {
            mask |= isa.within(from(distance), distance as u8 + 1, 1);
        }
        let rare = isa.within(here, RARE, u8::MAX - RARE);
        let mut count = count;
        if rare != 0 {
            (mask, count) = with_rare(table, window, rare, mask, base, ends, count);
        }
        let room = ends[count..].first_chunk_mut().expect("there is room for 64");
        isa.write_offsets(mask, base, room);
        count + mask.count_ones() as usize
    }

    /// Reads the next block of the text.
    #[inline(always)]
    fn read_block(&mut self, isa: impl Instructions, table: &Table, source: &Source<'_>) {
        let text = source.text;
        // For some places of the last block, the next characters have to tell first.
        self.told.copy_within(self.at..self.known, 0);
        self.known -= self.at;
        self.start += self.at;
        self.at = 0;
        let start = self.start + self.known;
        let end = end_of_block(text, start);
        let length = end - start;
        let told = &mut self.told[self.known..];
        source.columns.write(isa, &text[..end], start, told);
        if source.ahead.is_some() || self.text_count < source.text_ends.len() {
            source.complete(isa, table, start..end, told, &mut self.text_count, &mut self.run);
        }
        self.row = follow(table, &mut told[..length], self.row);
        self.known += length;
        self.is_last = end == text.len();
        if self.is_last {
            told[length..][..WINDOW_BYTES + 64].fill(0);
            told[length] = table.step(self.row, table.end()).told();
            self.known += 1;
        }
        let count = length + usize::from(self.is_last);
        if table.gives_up
            && let Some(at) = memchr::memchr(GIVE_UP, &told[..count])
        {
            self.known -= count - at;
            self.is_last = false;
            self.gave_up = true;
            told[at..][..WINDOW_BYTES + 64].fill(0);
        }
    }
}

/// Returns the end of the block that begins at `start`.
fn end_of_block(text: &[u8], start: usize) -> usize {
    let end = text.len().min(start + BLOCK_BYTES);
    if end == text.len() {
        return end;
    }
    end - text[..=end].iter().rev().take(3).take_while(|&&byte| byte & 0xC0 == 0x80).count()
}

/// Adjacent texts, and how their characters become columns.
pub struct Source<'a> {
    pub columns: &'a Columns,
    pub ahead: Option<&'a Ahead>,
    pub text: &'a [u8],
    /// Where the texts end, in order. The end of the last may be missing.
    pub text_ends: &'a [u32],
}

impl Source<'_> {
    /// Completes the columns of a block, by the text after characters, and by where texts begin.
    #[inline(always)]
    fn complete(
        &self,
        isa: impl Instructions,
        table: &Table,
        block: Range<usize>,
        cells: &mut [u8],
        text_count: &mut usize,
        run: &mut Run,
    ) {
        let mut texts = [0_u64; BLOCK_BYTES / 64];
        let next_text = |count: usize| self.text_ends.get(count).map(|&end| end as usize);
        while let Some(at) = next_text(*text_count).filter(|&at| at < block.end) {
            if let Some(at) = at.checked_sub(block.start) {
                texts[at / 64] |= 1 << (at % 64);
            }
            *text_count += 1;
        }
        if let Some(ahead) = self.ahead {
            let text = &self.text[..next_text(*text_count).unwrap_or(self.text.len())];
            let next_end = |at| end_of_block(self.text, at);
            let state = run.state_at(block.end, ahead, self.columns, text, next_end);
            ahead.fill(isa, cells, block.len(), table.skip, &texts, state);
        }
        for (start, mut bits) in (0..).step_by(64).zip(texts) {
            while bits != 0 {
                cells[start + bits.trailing_zeros() as usize] += table.of_first();
                bits &= bits - 1;
            }
        }
    }
}

/// Follows the columns of a block from a row, replaces them by what the steps tell, and returns the
/// row after them.
#[inline(always)]
fn follow(table: &Table, columns: &mut [u8], row: u16) -> u16 {
    let mut rows = [row; LANES];
    let mut bounds = [columns.len(); LANES + 1];
    bounds[0] = 0;
    for lane in 1..LANES {
        let (least, most) = (columns.len() * lane / LANES, columns.len() * (lane + 1) / LANES);
        // Without such a place, the lane before is empty, and this lane begins where that one
        // would.
        (bounds[lane], rows[lane]) = lane_start(table, columns, least.max(bounds[lane - 1]), most)
            .unwrap_or((bounds[lane - 1], rows[lane - 1]));
    }
    let mut steps = rows.map(Step::at_row);
    let mut lanes: [&mut [u8]; LANES] = Default::default();
    let mut rest = columns;
    for lane in 0..LANES {
        (lanes[lane], rest) = rest.split_at_mut(bounds[lane + 1] - bounds[lane]);
    }
    let table = table.followed();
    let least = lanes.iter().map(|lane| lane.len()).min().unwrap_or(0) / CHUNK * CHUNK;
    for at in (0..least).step_by(CHUNK) {
        let mut chunks = lanes
            .each_mut()
            .map(|lane| lane[at..].first_chunk_mut::<CHUNK>().expect("a part of each"));
        for i in 0..CHUNK {
            for (chunk, step) in chunks.iter_mut().zip(&mut steps) {
                *step = table.step(step.row(), chunk[i]);
                chunk[i] = step.told();
            }
        }
    }
    for (lane, step) in lanes.into_iter().zip(&mut steps) {
        for cell in &mut lane[least..] {
            *step = table.step(step.row(), *cell);
            *cell = step.told();
        }
    }
    steps[LANES - 1].row()
}

/// Returns where a lane may begin, and its row there.
#[inline(always)]
fn lane_start(table: &Table, columns: &[u8], least: usize, most: usize) -> Option<(usize, u16)> {
    let mut before = table.skip;
    for at in least..most {
        let column = columns[at];
        if column == table.skip {
            continue;
        }
        if before != table.skip
            && let Some(row) = table.row_after(before, column)
        {
            // The lane begins after the last byte of the character.
            let length = columns[at + 1..].iter().take_while(|&&next| next == table.skip).count();
            return Some((at + 1 + length, row));
        }
        before = column;
    }
    None
}

/// Writes what 64 steps tell, one after another, and returns the number of ends.
#[inline(always)]
fn with_each(
    table: &Table,
    window: &[u8; WINDOW_BYTES],
    base: u32,
    ends: &mut [u32],
    mut count: usize,
) -> usize {
    for (at, &told) in (base..).zip(&window[..64]) {
        count = table.tell(told, at, ends, count);
    }
    count
}

/// Adds what the steps `rare` tell; returns the mask of the ends, and the number of ends before it.
#[cold]
#[inline(never)]
fn with_rare(
    table: &Table,
    window: &[u8; WINDOW_BYTES],
    mut rare: u64,
    mut mask: u64,
    base: u32,
    ends: &mut [u32],
    mut count: usize,
) -> (u64, usize) {
    while rare != 0 {
        let at = rare.trailing_zeros();
        rare &= rare - 1;
        let Told { ends: told, taken_back } = table.rare(window[at as usize]);
        for _ in 0..taken_back {
            match mask & ((1 << at) - 1) {
                0 => count -= 1,
                below => mask &= !(1 << below.ilog2()),
            }
        }
        for distance in (0..8).rev().filter(|distance| told >> distance & 1 != 0) {
            if distance <= at {
                mask |= 1 << (at - distance);
            } else {
                ends[count] = base - (distance - at);
                count += 1;
            }
        }
    }
    (mask, count)
}

#[cfg(test)]
mod tests {
    use super::super::walk::Memory;
    use super::super::{Automaton, Node, Reading, Set, Way};
    use super::*;
    use crate::simd::Isa;
    use crate::test_inputs::{Rng, WORDS};

    /// Returns the automaton of `a+|\s*b+|\s+(?!\S)|\s+|[\s\S]`, where `\s` has "b" as it has
    /// newlines, and "a" stands for letters. It tells some ends late, and takes some back.
    fn automaton() -> Automaton {
        let space =
            vec![(9, 13), (32, 32), (98, 98), (0xA0, 0xA0), (0x3000, 0x3000), (0x1_0330, 0x1_0330)];
        let between = |pair: &[(u32, u32)]| (pair[0].1 + 1, pair[1].0 - 1);
        let bounds = [&space[..], &[(0x11_0000, 0x11_0000)]].concat();
        let other = [(0, 8)].into_iter().chain(bounds.windows(2).map(between)).collect();
        let letters = vec![(97, 97), (0xE9, 0xE9), (0x4E00, 0x9FFF)];
        let sets: [Set; 5] = [letters, space, vec![(98, 98)], other, vec![(0, 0x10_FFFF)]];
        let repeat =
            |set, min| Node::Repeat { node: Node::Set(set).into(), min, max: None, is_lazy: false };
        let pattern = Node::Either(vec![
            repeat(0, 1),
            Node::Sequence(vec![repeat(1, 0), repeat(2, 1)]),
            Node::Sequence(vec![repeat(1, 1), Node::Next { set: 3, is_negative: true }]),
            repeat(1, 1),
            Node::Set(4),
        ]);
        Automaton::new(&[pattern], &sets, false).unwrap_or_else(|reason| panic!("{reason}"))
    }

    fn ends_of(automaton: &Automaton, isa: Isa, text: &[u8], way: Way) -> Vec<u32> {
        let mut reading = Reading { way, memory: Memory::default() };
        let (mut all, mut ends) = (Vec::new(), [0; 100]);
        let end = |all: &[u32]| all.last().map_or(0, |&end| end as usize);
        while end(&all) < text.len() {
            let count = automaton.next_ends(isa, text, &[], end(&all), &mut ends, &mut reading);
            assert!(count > 0, "{all:?}");
            all.extend_from_slice(&ends[..count]);
        }
        all
    }

    #[test]
    fn lanes_match_one_lane() {
        let (automaton, mut rng) = (automaton(), Rng::new(3));
        let units = ["a", "b", " ", "aaaaab", "\n", "\u{e9}", "\u{4e2d}", "\u{3000}", "\u{10330}"];
        let units: Vec<_> = units.into_iter().chain(WORDS).collect();
        for round in 0..if cfg!(miri) { 2 } else { 300 } {
            // Some texts have few kinds of characters, and so no place where a lane may begin.
            let some = &units[..[2, 3, 9, units.len()][round % 4]];
            let text = rng.text(some, [80, 800, 9000][round % 3]);
            if text.is_empty() {
                continue;
            }
            let text = text.as_bytes();
            let expected = ends_of(&automaton, Isa::get(), text, Way::OneLane);
            for isa in Isa::all() {
                let lanes = Way::Lanes(Lanes::new(text, 0));
                assert!(ends_of(&automaton, isa, text, lanes) == expected, "{isa:?}, {text:?}");
            }
        }
    }
}
