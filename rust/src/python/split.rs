//! Patterns, for Python.

use std::ops::Range;
use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::interrupt::caught;
use crate::split::automaton::{Automaton, Node, Set};
use crate::split::{self, Kind, Pattern, Pieces, Splitter};

/// The automaton of a pattern.
#[pyclass(frozen, name = "Automaton", module = "bpetite._engine._native")]
pub struct PatternAutomaton(Arc<Automaton>);

#[pymethods]
impl PatternAutomaton {
    /// Each pattern is a node, as `bpetite._pattern_tree` makes it, and the ranges of code points of
    /// its sets, of bytes if `of_bytes` is true. It splits the pieces of the pattern before. Raises
    /// ValueError with the reason if the patterns have no automaton.
    #[new]
    #[pyo3(signature = (patterns, of_bytes=false))]
    fn new(
        py: Python<'_>,
        patterns: Vec<(Bound<'_, PyTuple>, Vec<Set>)>,
        of_bytes: bool,
    ) -> PyResult<PatternAutomaton> {
        let (mut nodes, mut all_sets) = (Vec::new(), Vec::new());
        for (tree, sets) in patterns {
            let first = all_sets.len();
            all_sets.extend(sets);
            nodes.push(node(&tree, first..all_sets.len(), 0)?);
        }
        let automaton = caught(|| py.detach(|| Automaton::new(&nodes, &all_sets, of_bytes)))?
            .map_err(PyValueError::new_err)?;
        Ok(PatternAutomaton(Arc::new(automaton)))
    }

    /// Returns where the pieces of a text end, in bytes. For tests.
    fn ends(&self, text: &str) -> PyResult<Vec<u32>> {
        caught(|| {
            let mut pieces = Pieces::new(Kind::Automaton(&self.0), text);
            let (mut all, mut ends) = (Vec::new(), [0; 256]);
            loop {
                let count = pieces.next_ends(&mut ends);
                if count == 0 {
                    return all;
                }
                all.extend_from_slice(&ends[..count]);
            }
        })
    }

    /// Returns the safe splits of a text, in bytes, for tests.
    fn safe_splits(&self, text: &str) -> PyResult<Vec<usize>> {
        caught(|| {
            let pieces = Pieces::new(Kind::Automaton(&self.0), text);
            (0..text.len()).filter(|&at| pieces.is_safe_split(at)).collect()
        })
    }
}

/// The cuts of a vocabulary whose merges begin with whole characters.
#[pyclass(frozen, module = "bpetite._engine._native")]
pub struct Cuts(Arc<split::Cuts>);

#[pymethods]
impl Cuts {
    /// `pairs` has every two adjacent characters of the tokens that merges make.
    #[new]
    fn new(pairs: Vec<String>) -> PyResult<Cuts> {
        caught(|| Cuts(Arc::new(split::Cuts::new(pairs.iter().map(String::as_bytes)))))
    }
}

/// Returns a splitter: by the name of a pattern, by an automaton, or by cuts.
pub fn splitter(pattern: &Bound<'_, PyAny>) -> PyResult<Splitter> {
    if let Ok(automaton) = pattern.cast::<PatternAutomaton>() {
        return Ok(Splitter::Automaton(Arc::clone(&automaton.get().0)));
    }
    if let Ok(cuts) = pattern.cast::<Cuts>() {
        return Ok(Splitter::Cuts(Arc::clone(&cuts.get().0)));
    }
    let named = Pattern::of_name(pattern.extract()?).map(Splitter::Named);
    named.ok_or_else(|| PyValueError::new_err("the pattern has no scanner"))
}

/// How deeply nodes may be nested. `regex` has a limit of its own.
const MAX_DEPTH: usize = 200;

/// Returns the node that a tuple describes by the name of its kind and by its content.
fn node(tuple: &Bound<'_, PyTuple>, sets: Range<usize>, depth: usize) -> PyResult<Node> {
    if depth > MAX_DEPTH {
        return Err(PyValueError::new_err("its groups are nested too deeply"));
    }
    let inner = |item: &Bound<'_, PyAny>| node(item.cast()?, sets.clone(), depth + 1);
    let all = |items: &Bound<'_, PyAny>| {
        items.try_iter()?.map(|item| inner(&item?)).collect::<PyResult<Vec<_>>>()
    };
    let set = |number: Bound<'_, PyAny>| {
        let number: usize = number.extract()?;
        sets.clone().nth(number).ok_or_else(|| PyTypeError::new_err("no such set"))
    };
    let kind = tuple.get_item(0)?;
    Ok(match kind.extract::<&str>()? {
        "set" => Node::Set(set(tuple.get_item(1)?)?),
        "sequence" => Node::Sequence(all(&tuple.get_item(1)?)?),
        "either" => Node::Either(all(&tuple.get_item(1)?)?),
        "repeat" => Node::Repeat {
            node: Box::new(inner(&tuple.get_item(1)?)?),
            min: tuple.get_item(2)?.extract()?,
            max: tuple.get_item(3)?.extract()?,
            is_lazy: tuple.get_item(4)?.extract()?,
        },
        "next" => {
            Node::Next { set: set(tuple.get_item(1)?)?, is_negative: tuple.get_item(2)?.extract()? }
        }
        "ahead" => Node::Ahead {
            node: Box::new(inner(&tuple.get_item(1)?)?),
            is_negative: tuple.get_item(2)?.extract()?,
        },
        other => return Err(PyTypeError::new_err(format!("no kind of node: {other}"))),
    })
}
