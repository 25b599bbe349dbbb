//! The deterministic automaton of a pattern: one match, from its beginning.
//!
//! A state is a list of places, the preferred first. Because a transition sees the class of the
//! *next* character before it is read, it decides look-aheads at this character, and whether a
//! match ends before it.

use std::collections::{HashMap, HashSet};

use super::classes::Class;
use super::program::{Place, Program};

/// The next state of a way that leads nowhere.
pub const DEAD: usize = usize::MAX;

const MAX_STATES: usize = 4000;
/// The most places that are visited, which bounds the time.
const MAX_VISITS: usize = 400_000;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Way {
    /// The state after the character, or DEAD.
    pub next: usize,
    /// Whether a match ends before the character, if the way leads to no later end.
    pub accepts: bool,
}

pub struct Matcher {
    /// The ways by state, and then by class. The last class is the end of the text.
    pub ways: Vec<Vec<Way>>,
    /// The states from which a match ends further on, whatever follows.
    pub is_sure: Vec<bool>,
}

impl Matcher {
    pub const START: usize = 0;

    /// Returns whether each match that begins with a character of a class has an end.
    pub fn begins(&self, class: usize) -> bool {
        let next = self.ways[Matcher::START][class].next;
        next != DEAD && self.is_sure[next]
    }

    /// Returns the ways of each state after a character of a class.
    pub fn rows_after(&self, class: usize) -> Vec<&Vec<Way>> {
        let states = self.ways.iter().map(|ways| ways[class].next);
        states.filter(|&next| next != DEAD).map(|next| &self.ways[next]).collect()
    }

    /// Returns whether a piece may have a space between two letters.
    pub fn may_join(&self, letter: usize, space: usize) -> bool {
        let next =
            |state: usize, class: usize| self.ways.get(state).map_or(DEAD, |ways| ways[class].next);
        !self.begins(letter)
            || (0..self.ways.len())
                .any(|state| next(next(next(state, letter), space), letter) != DEAD)
    }

    /// The last class is the end of the text.
    pub fn new(program: &Program, classes: &[Class]) -> Result<Matcher, String> {
        let mut states = vec![(vec![program.start], None)];
        let mut known = HashMap::from([(states[0].clone(), 0)]);
        let mut ways: Vec<Vec<Way>> = Vec::new();
        let mut visits = 0;
        while ways.len() < states.len() {
            let mut row = Vec::with_capacity(classes.len());
            for class in classes {
                let (places, ahead) = &states[ways.len()];
                let (places, accepts) = if class.may_follow(*ahead) {
                    after(program, places, class, &mut visits)
                } else {
                    (Vec::new(), false)
                };
                let next = if places.is_empty() {
                    DEAD
                } else {
                    *known.entry((places, class.after)).or_insert_with_key(|state| {
                        states.push(state.clone());
                        states.len() - 1
                    })
                };
                row.push(Way { next, accepts });
            }
            ways.push(row);
            if states.len() > MAX_STATES || visits > MAX_VISITS {
                return Err("its automaton would be too large".into());
            }
        }
        let aheads: Vec<_> = states.into_iter().map(|(_, ahead)| ahead).collect();
        drop_hopeless(&mut ways);
        let is_sure = sure_states(&ways, &aheads, classes);
        Ok(Matcher { ways, is_sure })
    }
}

/// Returns the places after a character of a class, and whether a match ends before it.
fn after(
    program: &Program,
    places: &[usize],
    class: &Class,
    visits: &mut usize,
) -> (Vec<usize>, bool) {
    let (mut next, mut seen) = (Vec::new(), HashSet::new());
    let mut waiting: Vec<usize> = places.iter().rev().copied().collect();
    while let Some(place) = waiting.pop() {
        *visits += 1;
        if !seen.insert(place) {
            continue;
        }
        match &program.places[place] {
            Place::Read(set, then) => {
                if class.is_in[*set] && !next.contains(then) {
                    next.push(*then);
                }
            }
            Place::Next(set, is_negative, then) => {
                if class.is_in[*set] != *is_negative {
                    waiting.push(*then);
                }
            }
            Place::Ahead(number, is_negative, then) => {
                if class.sees[*number] != *is_negative {
                    waiting.push(*then);
                }
            }
            Place::Either(places) => waiting.extend(places.iter().rev()),
            Place::Match => return (next, true),
        }
    }
    (next, false)
}

/// Makes ways dead if no text leads them to an end.
fn drop_hopeless(ways: &mut [Vec<Way>]) {
    let mut lives = vec![false; ways.len()];
    let mut has_changed = true;
    while has_changed {
        has_changed = false;
        // Most ways lead to later states.
        for state in (0..ways.len()).rev() {
            let leads_on = |way: &Way| way.accepts || way.next != DEAD && lives[way.next];
            let is = lives[state] || ways[state].iter().any(leads_on);
            has_changed |= is != lives[state];
            lives[state] = is;
        }
    }
    for way in ways.iter_mut().flatten() {
        way.next = if way.next != DEAD && lives[way.next] { way.next } else { DEAD };
    }
}

/// A state is sure if each class that may follow ends a match or leads to a sure state. `aheads`
/// has the state of `ahead` in each state.
fn sure_states(ways: &[Vec<Way>], aheads: &[Option<u8>], classes: &[Class]) -> Vec<bool> {
    let mut is_sure = vec![true; ways.len()];
    loop {
        let mut has_changed = false;
        for state in (0..ways.len()).rev() {
            let goes_on = |way: &Way| way.next != DEAD && is_sure[way.next];
            let is = ways[state].iter().zip(classes).all(|(way, class)| {
                way.accepts || goes_on(way) || !class.may_follow(aheads[state])
            });
            has_changed |= is_sure[state] && !is;
            is_sure[state] &= is;
        }
        if !has_changed {
            return is_sure;
        }
    }
}
