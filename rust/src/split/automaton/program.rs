//! Patterns as trees and as programs: places, and the ways between them.

/// A pattern. Its sets are numbers into a list of sets of code points.
#[derive(Clone, Debug)]
pub enum Node {
    /// A character of a set.
    Set(usize),
    Sequence(Vec<Node>),
    /// The first alternative that leads to a match.
    Either(Vec<Node>),
    /// Repetitions: as many as possible or, if lazy, as few as possible.
    Repeat {
        node: Box<Node>,
        min: u32,
        max: Option<u32>,
        is_lazy: bool,
    },
    /// Reads no character; the next one must be in a set, or must not be.
    Next {
        set: usize,
        is_negative: bool,
    },
    /// Reads no character; the text that follows must match a pattern, or must not.
    Ahead {
        node: Box<Node>,
        is_negative: bool,
    },
}

/// What must be true at a place of a program before the next place is reached.
pub enum Place {
    /// A character of a set, which is read.
    Read(usize, usize),
    /// The next character is in a set; or it is outside or missing.
    Next(usize, bool, usize),
    /// The look-ahead with a number holds, or does not.
    Ahead(usize, bool, usize),
    /// Nothing. Several places follow, the preferred first.
    Either(Vec<usize>),
    /// The pattern matches.
    Match,
}

/// The places of a pattern. The first in the list, `Place::Match`, is the last to be reached.
pub struct Program {
    pub places: Vec<Place>,
    pub start: usize,
    pub aheads: Vec<Program>,
}

const MAX_PLACES: usize = 20_000;

impl Program {
    pub fn new(node: &Node) -> Result<Program, String> {
        let mut program = Program { places: vec![Place::Match], start: 0, aheads: Vec::new() };
        program.start = program.add(node, 0)?;
        Ok(program)
    }

    /// Adds a node, which leads to the place `then`. Returns its first place.
    fn add(&mut self, node: &Node, then: usize) -> Result<usize, String> {
        match node {
            Node::Set(set) => self.push(Place::Read(*set, then)),
            Node::Next { set, is_negative } => self.push(Place::Next(*set, *is_negative, then)),
            Node::Ahead { node, is_negative } => {
                let ahead = Program::new(node)?;
                if !ahead.aheads.is_empty() {
                    return Err("it has a look-ahead within another".into());
                }
                self.aheads.push(ahead);
                self.push(Place::Ahead(self.aheads.len() - 1, *is_negative, then))
            }
            Node::Sequence(nodes) => {
                nodes.iter().rev().try_fold(then, |then, node| self.add(node, then))
            }
            Node::Either(nodes) => {
                let firsts =
                    nodes.iter().map(|node| self.add(node, then)).collect::<Result<_, _>>()?;
                self.push(Place::Either(firsts))
            }
            Node::Repeat { node, min, max, is_lazy } => {
                let either = |go_on, leave| {
                    Place::Either(if *is_lazy { vec![leave, go_on] } else { vec![go_on, leave] })
                };
                let mut first = then;
                if let Some(max) = max {
                    for _ in *min..*max {
                        let go_on = self.add(node, first)?;
                        first = self.push(either(go_on, then))?;
                    }
                } else {
                    first = self.push(Place::Match)?;
                    let go_on = self.add(node, first)?;
                    self.places[first] = either(go_on, then);
                }
                (0..*min).try_fold(first, |first, _| self.add(node, first))
            }
        }
    }

    fn push(&mut self, place: Place) -> Result<usize, String> {
        if self.places.len() >= MAX_PLACES {
            return Err(format!(
                "it has more than {MAX_PLACES} items once its counts are written out"
            ));
        }
        self.places.push(place);
        Ok(self.places.len() - 1)
    }
}
