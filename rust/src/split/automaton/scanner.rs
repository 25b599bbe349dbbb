//! The automaton that goes through a text once and never goes back.
//!
//! A match may go on after an end that it has found and then fail, in which case the text after
//! this end is split anew. So that each character is read only once, a state here has both the
//! match that goes on and the state that the text after the end has led to. Whether the end counts
//! may be known only later:
//!
//! - if the next character decides, its step tells the end;
//! - else a step tells it at once, and a later step *takes it back* if the match reaches a later
//!   end.
//!
//! The text between two matches is a *gap*, and a piece too. Where a match begins and fails, a gap
//! begins or goes on. While a match may fail, a state also has the state after its failure. A match
//! in a gap has to tell within `MAX_DISTANCE` bytes whether it fails.

use std::collections::HashMap;

use super::classes::Class;
use super::matcher::{DEAD, Matcher, Way};

/// What a step tells of the places before the character that it reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Told {
    /// Bit n is set if a piece ends n bytes before the character; n is at most `MAX_DISTANCE`.
    pub ends: u8,
    /// How many of the ends that earlier steps told are wrong.
    pub taken_back: u8,
}

/// The most bytes between an end and the character whose step tells it: at least one character.
const MAX_DISTANCE: u8 = 4;

const MAX_TAKEN_BACK: u8 = 5;
const MAX_STATES: usize = 4000;
const MAX_DEPTH: u32 = 12;

#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    /// The state of the match.
    matcher: usize,
    /// The last end that the match has, if it is not sure of a later one.
    found: Option<Box<Found>>,
    gap: Gap,
}

/// Whether a state is in a gap.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Gap {
    /// No gap: the match does not fail.
    None,
    /// In a gap, in which no match has begun so far.
    Inside,
    /// The match has begun, and may fail.
    MayEnd {
        /// If it does not fail, the gap ends this many bytes before; at 0 there was no gap.
        distance: u8,
        /// The state that its characters have led to if it fails.
        failed: Box<State>,
    },
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Found {
    /// The number of ends that were told from this one on; 0 if it was not told.
    told: u8,
    /// The number of bytes after it, if it was not told.
    distance: u8,
    /// The state to which the text after it has led.
    after: State,
}

pub struct Scanner {
    /// The next state and what the step tells, by state and then by class. None where ends are
    /// known too late to tell them, and where the class never follows.
    pub steps: Vec<Vec<Option<(usize, Told)>>>,
    /// Whether some text needs a step that is None.
    pub gives_up: bool,
    /// How many of the last ends may be taken back, by state.
    pub unsure: Vec<u8>,
    /// Whether a match has begun, by state.
    in_match: Vec<bool>,
    /// The state of `ahead` after the last character, if it is known, by state.
    aheads: Vec<Option<u8>>,
}

/// This automaton cannot follow the pattern.
struct TooFar;

impl Scanner {
    /// Returns the scanner of a pattern; None if there would be too many states. The last class is
    /// the end of the text.
    pub fn new(matcher: &Matcher, classes: &[Class]) -> Option<Scanner> {
        let start = (State::of(Matcher::START), None);
        let mut states = vec![start.clone()];
        let mut known = HashMap::from([(start, 0)]);
        let mut in_match = vec![false];
        let (mut steps, mut gives_up) = (Vec::new(), false);
        while let Some((state, ahead)) = states.get(steps.len()).cloned() {
            let mut row = Vec::with_capacity(classes.len());
            for (number, class) in classes.iter().enumerate() {
                let may_follow = class.may_follow(ahead);
                let step = step(matcher, &state, number, class.length, 0);
                let Ok((next, told)) = step else {
                    gives_up |= may_follow;
                    row.push(None);
                    continue;
                };
                let next = next.filter(|_| may_follow).map_or(0, |next| {
                    let begins = next.gap != Gap::Inside;
                    let next = (next, class.after);
                    let number = *known.entry(next).or_insert_with_key(|next| {
                        states.push(next.clone());
                        in_match.push(false);
                        states.len() - 1
                    });
                    in_match[number] |= begins;
                    number
                });
                row.push(may_follow.then_some((next, told)));
            }
            steps.push(row);
            if states.len() > MAX_STATES {
                return None;
            }
        }
        let unsure = states.iter().map(|(state, _)| state.unsure()).collect();
        let aheads = states.into_iter().map(|(_, ahead)| ahead).collect();
        Some(Scanner { steps, gives_up, unsure, in_match, aheads })
    }

    /// Returns the scanner that splits each piece of this one by `inner`, as a text of its own.
    ///
    /// Returns None if the next character does not tell an end of this scanner, if `inner` gives
    /// up, or if `inner` splits a match of this scanner where its state differs from the start.
    pub fn before(&self, inner: &Scanner, classes: &[Class]) -> Option<Scanner> {
        const ONE_END: Told = Told { ends: 1, taken_back: 0 };
        let end_of_text = inner.steps[0].len() - 1;
        let nexts = |row: &[Option<(usize, Told)>]| -> Vec<_> {
            row.iter().map(|step| step.map(|(next, _)| next)).collect()
        };
        let first = nexts(&self.steps[0]);
        let may_restart = self.steps.iter().all(|row| nexts(row) == first);
        let mut states = vec![(0, 0)];
        let mut known = HashMap::from([((0, 0), 0)]);
        let mut steps = Vec::new();
        while let Some(&(outer_state, state)) = states.get(steps.len()) {
            let mut row = Vec::with_capacity(end_of_text + 1);
            for (class, it) in classes.iter().enumerate() {
                if !it.may_follow(self.aheads[outer_state]) {
                    row.push(None);
                    continue;
                }
                let (next_outer, told_outer) = self.steps[outer_state][class]?;
                if told_outer != ONE_END && told_outer != Told::default() {
                    return None;
                }
                let is_end = told_outer == ONE_END;
                let (mut next, told) =
                    inner.steps[state][if is_end { end_of_text } else { class }]?;
                if is_end && class != end_of_text {
                    next = inner.steps[0][class]?.0;
                }
                if self.in_match[outer_state] && told != told_outer && !may_restart {
                    return None;
                }
                let next = if class == end_of_text { (0, 0) } else { (next_outer, next) };
                let number = *known.entry(next).or_insert_with(|| {
                    states.push(next);
                    states.len() - 1
                });
                row.push(Some((number, told)));
            }
            steps.push(row);
            if states.len() > MAX_STATES {
                return None;
            }
        }
        let unsure = states.iter().map(|&(_, state)| inner.unsure[state]).collect();
        let in_match = states
            .iter()
            .map(|&(outer_state, state)| self.in_match[outer_state] || inner.in_match[state])
            .collect();
        let aheads = states.iter().map(|&(outer_state, _)| self.aheads[outer_state]).collect();
        Some(Scanner { steps, gives_up: false, unsure, in_match, aheads })
    }
}

impl State {
    /// Returns the state of a match that does not fail.
    fn of(matcher: usize) -> State {
        State { matcher, found: None, gap: Gap::None }
    }

    /// Returns how many of the last ends may be taken back.
    fn unsure(&self) -> u8 {
        self.found.as_ref().map_or(0, |found| found.told.max(found.after.unsure()))
    }
}

/// Reads a character of a class. After the end of the text there is no state.
fn step(
    matcher: &Matcher,
    state: &State,
    class: usize,
    length: u8,
    depth: u32,
) -> Result<(Option<State>, Told), TooFar> {
    if depth > MAX_DEPTH {
        return Err(TooFar);
    }
    let Way { next, accepts } = matcher.ways[state.matcher][class];
    let is_end_of_text = class + 1 == matcher.ways[0].len();
    let anew = || step(matcher, &State::of(Matcher::START), class, length, depth + 1);
    let inside = State { gap: Gap::Inside, ..State::of(Matcher::START) };
    let told = Told {
        ends: if let Gap::MayEnd { distance: distance @ 1.., .. } = state.gap {
            1 << distance
        } else {
            0
        },
        taken_back: state.found.as_ref().map_or(0, |found| found.told),
    };
    if next == DEAD && accepts {
        let told = Told { ends: told.ends | 1, ..told };
        if is_end_of_text {
            return Ok((None, told));
        }
        let (next, Told { ends: 0, taken_back: 0 }) = anew()? else { return Err(TooFar) };
        return Ok((next, told));
    }
    if next == DEAD {
        if let Some(found) = &state.found {
            // The end that was found counts.
            let (next, told) = step(matcher, &found.after, class, length, depth + 1)?;
            return Ok((next, with_end(told, found)?));
        }
        return match &state.gap {
            Gap::MayEnd { failed, .. } => step(matcher, failed, class, length, depth + 1),
            Gap::Inside if is_end_of_text => Ok((None, Told { ends: 1, taken_back: 0 })),
            Gap::None if state.matcher != Matcher::START => Err(TooFar),
            Gap::None if is_end_of_text => Ok((None, Told::default())), // an empty text
            Gap::None | Gap::Inside => Ok((Some(inside), Told::default())),
        };
    }
    if accepts {
        if matcher.is_sure[next] {
            return Ok((Some(State::of(next)), told));
        }
        let (Some(after), Told { ends: 0, taken_back: 0 }) = anew()? else { return Err(TooFar) };
        let found = Some(Box::new(Found { told: 0, distance: length, after }));
        return Ok((Some(State { found, ..State::of(next) }), told));
    }
    let Some(found) = &state.found else {
        if matcher.is_sure[next] {
            let is_gap = state.gap == Gap::Inside;
            return Ok((
                Some(State::of(next)),
                Told { ends: told.ends | u8::from(is_gap), ..told },
            ));
        }
        let (distance, failed) = match &state.gap {
            Gap::None if state.matcher == Matcher::START => (0, inside),
            Gap::Inside => (length, inside),
            Gap::None => return Err(TooFar),
            Gap::MayEnd { distance, failed } => {
                let failed = step(matcher, failed, class, length, depth + 1)?;
                let (Some(failed), Told { ends: 0, taken_back: 0 }) = failed else {
                    return Err(TooFar);
                };
                (if *distance > 0 { distance + length } else { 0 }, failed)
            }
        };
        if distance > MAX_DISTANCE {
            return Err(TooFar);
        }
        let gap = Gap::MayEnd { distance, failed: failed.into() };
        return Ok((Some(State { gap, ..State::of(next) }), Told::default()));
    };
    let (Some(after), told) = step(matcher, &found.after, class, length, depth + 1)? else {
        return Err(TooFar);
    };
    let told = with_end(told, found)?;
    let count = (found.told + told.ends.count_ones() as u8).checked_sub(told.taken_back);
    let count = count.filter(|&count| count <= MAX_TAKEN_BACK).ok_or(TooFar)?;
    let found = Some(Box::new(Found { told: count, distance: 0, after }));
    Ok((Some(State { found, ..State::of(next) }), told))
}

/// Also tells the end that was found, unless it was told. Ends are taken back before others are
/// told.
fn with_end(told: Told, found: &Found) -> Result<Told, TooFar> {
    let ends = told.ends | if found.told > 0 { 0 } else { 1 << found.distance };
    if told.taken_back > 0 && (found.told == 0 || ends > 1) {
        return Err(TooFar);
    }
    Ok(Told { ends, ..told })
}
