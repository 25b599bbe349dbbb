//! One automaton for any pattern, which finds where pieces end.
//!
//! A pattern comes as a tree over sets of code points ([`Node`], [`Set`]): Python has parsed it.
//!
//! 1. `classes`: the sets divide the characters into classes. The automaton reads classes.
//! 2. `matcher`: the automaton of one match. Of several matches, it has the one that `regex` takes.
//! 3. `scanner`: the automaton of the whole text, which reads each character once.
//! 4. `table`: that automaton as a table, and `lanes`: six parts of a long text at a time.
//! 5. `walk`: one match after another. The scanner gives up where an end is known too late, and where a
//!    match fails after its second character, which leaves a gap between matches.
//!
//! A pattern without a matcher is refused with the reason.
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
use table::{Table, columns};
use walk::{Memory, Walk};

pub struct Automaton {
    columns: Columns,
    /// The scanner, if the pattern has one.
    table: Option<Table>,
    /// If the scanner may give up, or the pattern has no scanner.
    walk: Option<Walk>,
    /// Bit n of a column: no match has a character of it and behind it one of column n.
    apart: Vec<u64>,
    /// Bit n of a column: a piece always ends between these two, and the pieces of the two sides are
    /// those of the whole.
    safe: Vec<u64>,
    /// Whether a piece may have a space between two letters.
    pub may_join_words: bool,
}

/// How a text is read, and what the calls for it remember.
pub struct Reading {
    way: Way,
    memory: Memory,
}

enum Way {
    OneLane,
    Lanes(Lanes),
    /// Up to this place.
    Walk(usize),
}

/// How far a walk goes on where the scanner gave up. There, it may soon give up again.
const WALK_BYTES: usize = 1 << 14;

impl Automaton {
    /// Returns the automaton of a pattern, or of several, each of which splits the pieces of the one
    /// before. Else returns the reason that they have none.
    pub fn new(patterns: &[Node], sets: &[Set]) -> Result<Automaton, String> {
        let (characters, classes) = classes_of(sets)?;
        let matchers = patterns
            .iter()
            .map(|pattern| Matcher::new(&Program::new(pattern)?, &classes))
            .collect::<Result<Vec<_>, _>>()?;
        let Some(last) = matchers.last() else { return Err("there is no pattern".into()) };
        if matchers.iter().any(|each| each.ways[Matcher::START].iter().any(|way| way.accepts)) {
            return Err("it can match the empty string".into());
        }
        let mut scanners = matchers.iter().rev().map(|each| Scanner::new(each, &classes));
        let scanner = scanners
            .next()
            .flatten()
            .and_then(|last| scanners.try_fold(last, |inner, outer| outer?.before(&inner)));
        let table = scanner.and_then(|scanner| Table::new(&scanner, last));
        if patterns.len() > 1 && table.as_ref().is_none_or(|table| table.gives_up) {
            return Err("they split in turn".into());
        }
        let (column_of, width) = match &table {
            Some(table) => (table.columns.clone(), usize::from(table.skip)),
            None => columns(last.ways[0].len(), &[], &last.ways),
        };
        let may_give_up = table.as_ref().is_none_or(|table| table.gives_up);
        let walk = may_give_up.then(|| Walk::new(last, &column_of));
        let (apart, safe) = pairs(&matchers, &classes, &column_of);
        let [letter, space] = [b"a", b" "].map(|text| usize::from(characters.at(text, 0).0));
        let may_join_words = matchers.iter().all(|each| each.may_join(letter, space));
        let columns = Columns::new(characters, &column_of, width as u8);
        Ok(Automaton { columns, table, walk, apart, safe, may_join_words })
    }

    /// Begins to read a text. A piece begins at `start`.
    pub fn reading(&self, text: &[u8], start: usize) -> Reading {
        Reading { way: self.way(text, start), memory: Memory::new() }
    }

    fn way(&self, text: &[u8], start: usize) -> Way {
        let is_short = text.len() - start < lanes::MIN_BYTES;
        match (&self.table, &self.walk) {
            (Some(_), None) if is_short => Way::OneLane,
            (Some(_), _) if !is_short => Way::Lanes(Lanes::new(text, start)),
            _ => Way::Walk(usize::MAX),
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
        let Automaton { columns, table, walk, .. } = self;
        if let (Some(table), Way::Lanes(lanes)) = (table, &mut reading.way) {
            let (count, gave_up_at) =
                isa.run(NextEnds { lanes, table, columns, text, ends: &mut *ends });
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
            (Some(table), ..) => table.next_ends(columns, text, start, ends),
            _ => unreachable!("`way` chose another"),
        }
    }

    /// Returns whether `at` ends a piece of every text with these two characters around `at`, and
    /// the pieces of the two parts are those of the text.
    pub fn is_safe_split(&self, text: &[u8], at: usize) -> bool {
        self.has_pair(&self.safe, text, at)
    }

    /// Returns whether no match has these two characters around `at`, in whatever text.
    pub fn is_apart(&self, text: &[u8], at: usize) -> bool {
        self.has_pair(&self.apart, text, at)
    }

    fn has_pair(&self, pairs: &[u64], text: &[u8], at: usize) -> bool {
        if at == 0 || at >= text.len() || text[at] & 0xC0 == 0x80 {
            return false;
        }
        let mut before = at - 1;
        while text[before] & 0xC0 == 0x80 {
            before -= 1;
        }
        let (before, behind) = (self.columns.at(text, before).0, self.columns.at(text, at).0);
        pairs[usize::from(before)] >> behind & 1 != 0
    }
}

/// Returns the pairs of columns between which no match goes on, and the safe splits among them: there, a
/// pattern ends a piece, since it has no gap with both characters.
fn pairs(matchers: &[Matcher], classes: &[Class], columns: &[u8]) -> (Vec<u64>, Vec<u64>) {
    let (mut apart, mut safe) = (vec![u64::MAX; classes.len()], vec![u64::MAX; classes.len()]);
    for before in 0..classes.len() {
        let rows: Vec<_> = matchers.iter().map(|matcher| matcher.rows_behind(before)).collect();
        for behind in 0..classes.len() {
            let goes_on = |ways: &&Vec<matcher::Way>| {
                let accepts_at_end = ways[classes.len()].accepts;
                ways[behind].next != DEAD || ways[behind].accepts != accepts_at_end
            };
            let (mut is_apart, mut ends) = (true, false);
            for (matcher, rows) in matchers.iter().zip(&rows) {
                if is_apart && !ends {
                    is_apart = !rows.iter().any(goes_on);
                    ends = is_apart && (matcher.begins(before) || matcher.begins(behind));
                }
            }
            // Two columns are so if all their classes are.
            let bit = 1 << columns[behind];
            let row = usize::from(columns[before]);
            apart[row] &= if is_apart { u64::MAX } else { !bit };
            safe[row] &= if ends { u64::MAX } else { !bit };
        }
    }
    (apart, safe)
}
