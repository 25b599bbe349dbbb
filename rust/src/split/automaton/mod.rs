//! One automaton for any pattern, which finds where pieces end.
//!
//! A pattern comes as a tree over sets of code points ([`Node`], [`Set`]), because Python parses
//! it.
//!
//! 1. `classes`: the sets divide the characters into classes, which the automaton reads.
//! 2. `matcher`: the automaton of one match. Among several matches, it has the match of `regex`.
//! 3. `scanner`: the automaton of the whole text, which reads each character once.
//! 4. `table`: the scanner as a table, and `lanes`: six parts of a long text at a time.
//! 5. `ahead`: look-aheads at more than one character, which divide classes further.
//! 6. `walk`: one match after another. It is used where a window is uncertain, and where the
//!    scanner gives up, because an end is known too late or because a match in a gap may fail late.
//!
//! A pattern without a matcher is refused with the reason.
//!
//! # Why the ends are right
//!
//! 1. A state of the matcher has all ways that a backtracking matcher would try, in its order. A
//!    way after one that matches is dropped, so the last end that a state accepts is its match's
//!    end.
//! 2. Where a match may go on after an end, the scanner follows both the match and the text after
//!    the end. Until one of the two is ruled out, it tells the end as one that may be taken back.
//! 3. A match is never empty, and matches and the gaps between them cover each text. So the state
//!    after an end is the start, and the text before the end does not matter.

mod ahead;
mod classes;
mod lanes;
mod matcher;
mod program;
mod scanner;
mod table;
mod walk;

pub use classes::Set;
pub use program::Node;

use super::window::Pattern;
use crate::simd::Isa;
use ahead::{Ahead, Sights};
use classes::{Class, Columns, MAX_COLUMNS, classes_of};
use lanes::{Lanes, NextEnds, Source};
use matcher::{DEAD, Matcher};
use program::Program;
use scanner::Scanner;
use table::{Table, columns};
use walk::{Memory, Walk};

pub struct Automaton {
    columns: Columns,
    ahead: Option<Ahead>,
    /// The scanner, if the pattern has one.
    table: Option<Table>,
    /// The matches of one pattern without look-aheads.
    walk: Option<Walk>,
    /// The pattern, if `window` has it too.
    pub windows: Option<Pattern>,
    /// By column; bit n is set if no match has a character of the column before a character of
    /// column n.
    apart: Vec<u64>,
    /// By column; bit n is set if a piece always ends between such characters, so that the whole
    /// has the pieces of both sides.
    safe: Vec<u64>,
    /// Whether a piece may have a space between two letters; false if characters are bytes.
    pub may_join_words: bool,
}

/// How a text is read, and what its calls remember.
pub struct Reading {
    way: Way,
    memory: Memory,
}

enum Way {
    OneLane,
    Lanes(Lanes),
    /// One match after another, up to this place.
    Walk(usize),
}

const TOO_MANY: &str = "it tells more than 64 kinds of characters apart";

/// How far a walk goes on where the scanner gave up, since it may soon give up again.
const WALK_BYTES: usize = 1 << 14;

/// The reason why patterns have no automaton together, although each may have one.
const IN_TURN: &str = "they split in turn";

impl Automaton {
    /// Returns the automaton of a pattern, or of several patterns, where each splits the pieces of
    /// the pattern before. With `of_bytes`, the sets are of bytes, and pieces may end inside a
    /// character. If the patterns have no automaton, returns the reason.
    pub fn new(patterns: &[Node], sets: &[Set], of_bytes: bool) -> Result<Automaton, String> {
        let found = Automaton::following(patterns, sets, of_bytes);
        if found.as_ref().is_ok_and(|found| !found.may_give_up()) {
            return found;
        }
        // A match that fails late may be one that never begins, if a look-ahead tells.
        let Some((first, others)) = patterns.split_first() else { return found };
        let ahead = Node::Ahead { node: first.clone().into(), is_negative: false };
        let first = Node::Sequence(vec![ahead, first.clone()]);
        Automaton::following(&[&[first], others].concat(), sets, of_bytes).or(found)
    }

    fn following(patterns: &[Node], sets: &[Set], of_bytes: bool) -> Result<Automaton, String> {
        let (characters, classes) = classes_of(sets, of_bytes)?;
        let programs = patterns.iter().map(Program::new).collect::<Result<Vec<_>, _>>()?;
        let Some((first, others)) = programs.split_first() else {
            return Err("there is no pattern".into());
        };
        if others.iter().any(|program| !program.aheads.is_empty()) {
            // The look-ahead would see text after the piece.
            return Err(IN_TURN.into());
        }
        let sights = Sights::new(&first.aheads, &classes)?;
        let (classes, origins) = sights.classes(classes)?;
        let matchers = programs
            .iter()
            .map(|program| Matcher::new(program, &classes))
            .collect::<Result<Vec<_>, _>>()?;
        let last = &matchers[matchers.len() - 1];
        if matchers.iter().any(|each| each.ways[Matcher::START].iter().any(|way| way.accepts)) {
            return Err("it can match the empty string".into());
        }
        let mut scanners = matchers.iter().rev().map(|each| Scanner::new(each, &classes));
        let scanner = scanners.next().flatten().and_then(|last| {
            scanners.try_fold(last, |inner, outer| outer?.before(&inner, &classes))
        });
        let table = scanner.and_then(|scanner| Table::new(&scanner, last, &classes));
        let may_give_up = table.as_ref().is_none_or(|table| table.gives_up);
        if patterns.len() > 1 && may_give_up {
            return Err(IN_TURN.into());
        }
        if !first.aheads.is_empty() && may_give_up {
            return Err("it looks ahead at more than one character, and finds ends late".into());
        }
        let (column_of, width) = match &table {
            Some(table) => (table.columns.clone(), usize::from(table.skip)),
            None => columns(&classes, &[], &last.ways),
        };
        if width > MAX_COLUMNS {
            return Err(TOO_MANY.into());
        }
        let has_walk = patterns.len() == 1 && first.aheads.is_empty();
        let walk = has_walk.then(|| Walk::new(last, &column_of));
        let skip = width as u8;
        let (column_of, ahead) = Ahead::new(&sights, &classes, &origins, &column_of, skip + 1);
        if column_of.iter().any(|&column| usize::from(column) >= MAX_COLUMNS) {
            return Err(TOO_MANY.into());
        }
        let columns_of_classes: Vec<_> = origins.iter().map(|&origin| column_of[origin]).collect();
        let (apart, safe) = pairs(&matchers, &classes, &columns_of_classes);
        let classes_at = |text: &[u8]| {
            let class = usize::from(characters.at(text, 0).0);
            (0..origins.len()).filter(|&each| origins[each] == class).collect::<Vec<_>>()
        };
        let may_join_words = !of_bytes
            && matchers.iter().all(|each| {
                classes_at(b"a").iter().any(|&letter| {
                    classes_at(b" ").iter().any(|&space| each.may_join(letter, space))
                })
            });
        let columns = Columns::new(characters, &column_of, skip, of_bytes);
        let windows = None;
        Ok(Automaton { columns, ahead, table, walk, windows, apart, safe, may_join_words })
    }

    /// Returns the automaton of a pattern that has windows. It needs a walk where they are
    /// uncertain.
    pub fn with_windows(self, windows: Option<Pattern>) -> Automaton {
        let windows = windows.filter(|_| self.walk.is_some());
        Automaton { windows, ..self }
    }

    /// Returns whether the scanner may give up, or the pattern has none. Then there is a walk.
    fn may_give_up(&self) -> bool {
        self.table.as_ref().is_none_or(|table| table.gives_up)
    }

    /// Returns whether one reading may go through adjacent texts of this many bytes together.
    pub fn reads_texts(&self, length: usize) -> bool {
        length >= lanes::MIN_BYTES && !self.may_give_up()
    }

    /// Begins to read a text. A piece begins at `start`.
    pub fn reading(&self, text: &[u8], start: usize) -> Reading {
        Reading { way: self.way(text, start), memory: Memory::default() }
    }

    fn way(&self, text: &[u8], start: usize) -> Way {
        let is_short = text.len() - start < lanes::MIN_BYTES && self.ahead.is_none();
        match self.table {
            Some(_) if !is_short => Way::Lanes(Lanes::new(text, start)),
            Some(_) if !self.may_give_up() => Way::OneLane,
            _ => Way::Walk(usize::MAX),
        }
    }

    /// Writes where the next pieces of `text` from `start` on end, and returns their count, which
    /// is 0 only at the end of the text. A piece begins at `start`. If `text` has several texts, as
    /// `reads_texts` allows, `text_ends` has their ends.
    pub fn next_ends(
        &self,
        isa: Isa,
        text: &[u8],
        text_ends: &[u32],
        start: usize,
        ends: &mut [u32],
        reading: &mut Reading,
    ) -> usize {
        let Automaton { columns, table, walk, .. } = self;
        let ahead = self.ahead.as_ref();
        if let (Some(table), Way::Lanes(lanes)) = (table, &mut reading.way) {
            let (source, ends) = (Source { columns, ahead, text, text_ends }, &mut *ends);
            let (count, gave_up_at) = isa.run(NextEnds { lanes, table, source, ends });
            let Some(at) = gave_up_at else { return count };
            reading.way = Way::Walk(at + WALK_BYTES);
            if count > 0 {
                return count;
            }
        }
        match (table, walk, &reading.way) {
            (_, Some(walk), &Way::Walk(until)) => {
                let memory = &mut reading.memory;
                let count = walk.next_ends(columns, text, start, until, ends, memory);
                if let Some(&end) = ends[..count].last()
                    && end as usize >= until
                {
                    reading.way = self.way(text, end as usize);
                }
                count
            }
            (Some(table), _, Way::OneLane) => table.next_ends(columns, text, start, ends),
            _ => unreachable!("`way` chose another"),
        }
    }

    /// Returns the end of the match that begins at `start`, for a pattern that has windows.
    pub fn end_of_match(&self, text: &[u8], start: usize) -> usize {
        let memory = &mut Memory::default();
        let walk = self.walk.as_ref();
        let end = walk.and_then(|walk| walk.end_of_match(&self.columns, text, start, memory));
        end.unwrap_or(text.len())
    }

    /// Returns whether `at` ends a piece of every text with these two characters around `at`, so
    /// that the text has the pieces of its two sides.
    pub fn is_safe_split(&self, text: &[u8], at: usize) -> bool {
        self.has_pair(&self.safe, text, at)
    }

    /// Returns whether no match in any text has these two characters around `at`.
    pub fn is_apart(&self, text: &[u8], at: usize) -> bool {
        self.has_pair(&self.apart, text, at)
    }

    fn has_pair(&self, pairs: &[u64], text: &[u8], at: usize) -> bool {
        if at == 0 || at >= text.len() || text[at] & 0xC0 == 0x80 {
            return false;
        }
        let before = self.columns.start(text, at - 1);
        let (before, after) = (self.columns.at(text, before).0, self.columns.at(text, at).0);
        pairs[usize::from(before)] >> after & 1 != 0
    }
}

/// Returns the pairs of columns between which no match goes on, and the safe splits among them,
/// where a pattern ends a piece because it has no gap with both characters.
fn pairs(matchers: &[Matcher], classes: &[Class], columns: &[u8]) -> (Vec<u64>, Vec<u64>) {
    let Some((end, characters)) = classes.split_last() else { return Default::default() };
    let (mut apart, mut safe) = (vec![u64::MAX; MAX_COLUMNS], vec![u64::MAX; MAX_COLUMNS]);
    for before in 0..characters.len() {
        let rows: Vec<_> = matchers.iter().map(|matcher| matcher.rows_after(before)).collect();
        let state = classes[before].after;
        for after in (0..characters.len()).filter(|&each| classes[each].may_follow(state)) {
            let goes_on = |ways: &&Vec<matcher::Way>| {
                let accepts_at_end = ways[characters.len()].accepts;
                ways[after].next != DEAD || ways[after].accepts != accepts_at_end
            };
            // The characters before see the same at the end of the text.
            let (mut is_apart, mut ends) = (end.may_follow(state), false);
            for (matcher, rows) in matchers.iter().zip(&rows) {
                if is_apart && !ends {
                    is_apart = !rows.iter().any(goes_on);
                    ends = is_apart && (matcher.begins(before) || matcher.begins(after));
                }
            }
            // Two columns are apart or safe if all their classes are.
            let bit = 1 << columns[after];
            let row = usize::from(columns[before]);
            apart[row] &= if is_apart { u64::MAX } else { !bit };
            safe[row] &= if ends { u64::MAX } else { !bit };
        }
    }
    (apart, safe)
}
