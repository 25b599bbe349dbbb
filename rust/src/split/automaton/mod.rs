//! One automaton for any pattern, which finds where pieces end.
//!
//! A pattern comes as a tree over sets of code points ([`Node`], [`Set`]): Python has parsed it.
//!
//! 1. `classes`: the sets divide the characters into classes. The automaton reads classes.
//! 2. `matcher`: the automaton of one match. Of several matches, it has the one that `regex` takes.
//! 3. `scanner`: the automaton of the whole text, which reads each character once.
//! 4. `table`: that automaton as a table, and `lanes`: six parts of a long text at a time.
//! 5. `walk`: one match after another, if a pattern has no scanner.
//!
//! A pattern without a matcher is refused with the reason. Without a scanner are patterns of which ends
//! are known too late, or of which a match fails behind its second character: that leaves a gap between
//! matches.
//!
//! # Why the ends are right
//!
//! 1. The matcher's states are all ways that a backtracking matcher would try, in its order. A way
//!    behind one that matches is dropped, so the last end that a state accepts is its match's end.
//! 2. Where a match may go on behind an end, the scanner has both continuations: that of the match,
//!    and that of the text behind the end. It tells an end only as one that may be taken back, until
//!    one of the two is ruled out.
//! 3. A match never is empty, and matches and the gaps between them cover each text. So the state behind
//!    an end is the start, and nothing before the end matters.

mod classes;
mod lanes;
mod matcher;
mod program;
mod scanner;
mod table;
mod walk;

pub use classes::Set;
pub use program::Node;

use crate::simd::Isa;
use classes::{Class, Columns, classes_of};
use lanes::{Lanes, NextEnds};
use matcher::{DEAD, Matcher};
use program::Program;
use scanner::Scanner;
use table::Table;
use walk::{Failures, Walk};

pub struct Automaton {
    columns: Columns,
    reader: Reader,
    /// Bit n of a column: a piece ends between a character of it and one of column n, and the pieces
    /// of the two sides are those of the whole.
    safe: Vec<u64>,
    /// Whether a piece may have a space between two letters.
    pub may_join_words: bool,
}

enum Reader {
    Scanner(Table),
    Walk(Walk),
}

/// How a text is read, and what the calls for it remember.
pub enum Reading {
    OneLane,
    Lanes(Lanes),
    Walk(Failures),
}

impl Automaton {
    /// Returns the automaton of a pattern, or the reason that it has no automaton.
    pub fn new(pattern: &Node, sets: &[Set]) -> Result<Automaton, String> {
        let (characters, classes) = classes_of(sets)?;
        let matcher = Matcher::new(&Program::new(pattern)?, &classes)?;
        if matcher.ways[Matcher::START].iter().any(|way| way.accepts) {
            return Err("it can match the empty string".into());
        }
        let scanner = Scanner::new(&matcher, &classes);
        let reader = match scanner.and_then(|scanner| Table::new(&scanner)) {
            Some(table) => Reader::Scanner(table),
            None => Reader::Walk(Walk::new(&matcher)),
        };
        let (column_of, skip) = match &reader {
            Reader::Scanner(table) => (&table.columns, table.skip),
            Reader::Walk(walk) => (&walk.columns, walk.skip),
        };
        let safe = safe_pairs(&matcher, &classes, column_of);
        let [letter, space] = [b"a", b" "].map(|text| usize::from(characters.at(text, 0).0));
        let may_join_words = !matcher.begins(letter)
            || (0..matcher.ways.len()).any(|state| {
                let read = |state: usize, class: usize| matcher.ways.get(state)?.get(class);
                let next = |state, class| read(state, class).map_or(DEAD, |way| way.next);
                next(next(next(state, letter), space), letter) != DEAD
            });
        let columns = Columns::new(characters, column_of, skip);
        Ok(Automaton { columns, reader, safe, may_join_words })
    }

    /// Begins to read a text. A piece begins at `start`.
    pub fn reading(&self, text: &[u8], start: usize) -> Reading {
        match self.reader {
            Reader::Walk(_) => Reading::Walk(Failures::new()),
            Reader::Scanner(_) if text.len() - start < lanes::MIN_BYTES => Reading::OneLane,
            Reader::Scanner(_) => Reading::Lanes(Lanes::new(text, start)),
        }
    }

    /// Writes where the next pieces of `text` from `start` on end, and returns their count: 0 only
    /// at the end of the text. A piece begins at `start`.
    pub fn next_ends(
        &self,
        isa: Isa,
        text: &[u8],
        start: usize,
        ends: &mut [u32],
        reading: &mut Reading,
    ) -> usize {
        let columns = &self.columns;
        match (&self.reader, reading) {
            (Reader::Scanner(table), Reading::Lanes(lanes)) => {
                isa.run(NextEnds { lanes, table, columns, text, ends })
            }
            (Reader::Scanner(table), _) => table.next_ends(columns, text, start, ends),
            (Reader::Walk(walk), Reading::Walk(failures)) => {
                walk.next_ends(columns, text, start, ends, failures)
            }
            (Reader::Walk(_), _) => unreachable!("`reading` made another"),
        }
    }

    /// Returns whether `at` ends a piece of every text with these two characters around `at`, and
    /// the pieces of the two parts are those of the text.
    pub fn is_safe_split(&self, text: &[u8], at: usize) -> bool {
        if at == 0 || at >= text.len() || text[at] & 0xC0 == 0x80 {
            return false;
        }
        let mut before = at - 1;
        while text[before] & 0xC0 == 0x80 {
            before -= 1;
        }
        let (before, behind) = (self.columns.at(text, before).0, self.columns.at(text, at).0);
        self.safe[usize::from(before)] >> behind & 1 != 0
    }
}

/// Returns the safe splits: no state behind a character of the first class has a way on with the
/// second, and each accepts there exactly if it accepts at the end of the text. A match always begins
/// with one of the two, if no match before has it; so no gap has both.
fn safe_pairs(matcher: &Matcher, classes: &[Class], columns: &[u8]) -> Vec<u64> {
    let mut safe = vec![u64::MAX; classes.len()];
    for before in 0..classes.len() {
        let states = matcher.ways.iter().map(|ways| ways[before].next).filter(|&next| next != DEAD);
        let states: Vec<_> = states.map(|next| &matcher.ways[next]).collect();
        for behind in 0..classes.len() {
            let ends_in = |ways: &Vec<matcher::Way>| {
                let accepts_at_end = ways[classes.len()].accepts;
                ways[behind].next == DEAD && ways[behind].accepts == accepts_at_end
            };
            // Two columns are safe if all their classes are.
            let has_no_gap = matcher.begins(before) || matcher.begins(behind);
            if !has_no_gap || !states.iter().all(|ways| ends_in(ways)) {
                safe[usize::from(columns[before])] &= !(1 << columns[behind]);
            }
        }
    }
    safe
}
