//! Patterns, for Python.

use std::ops::Range;
use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::string::PyStringData;
use pyo3::types::{PyString, PyTuple};

use super::interrupt::caught;
use super::object::characters;
use crate::simd::Isa;
use crate::split::automaton::{Automaton, Node, Set};
use crate::split::{self, Pairs, Pattern, Pieces, Splitter, joints_of};

/// Calls a method with the characters of a part of a `str`; those that it lacks are left out.
macro_rules! with_characters {
    ($pairs:expr, $method:ident, $text:expr, $part:expr) => {
        match characters($text)? {
            PyStringData::Ucs1(text) => $pairs.$method(text.get($part).unwrap_or_default()),
            PyStringData::Ucs2(text) => $pairs.$method(text.get($part).unwrap_or_default()),
            PyStringData::Ucs4(text) => $pairs.$method(text.get($part).unwrap_or_default()),
        }
    };
}

/// The automaton of a pattern.
#[pyclass(frozen, name = "Automaton", module = "bpetite._engine._native")]
pub struct PatternAutomaton(Splitter);

#[pymethods]
impl PatternAutomaton {
    /// Each pattern is a node, as `bpetite._pattern_tree` makes it, with the ranges of code points
    /// of its sets, or of bytes if `of_bytes` is true. It splits the pieces of the pattern before.
    /// `windows` names a single pattern if it has windows. If the patterns have no automaton,
    /// raises ValueError with the reason.
    #[new]
    #[pyo3(signature = (patterns, of_bytes=false, windows=None))]
    fn new(
        py: Python<'_>,
        patterns: Vec<(Bound<'_, PyTuple>, Vec<Set>)>,
        of_bytes: bool,
        windows: Option<&str>,
    ) -> PyResult<PatternAutomaton> {
        let (mut nodes, mut all_sets) = (Vec::new(), Vec::new());
        for (tree, sets) in patterns {
            let first = all_sets.len();
            all_sets.extend(sets);
            nodes.push(node(&tree, first..all_sets.len(), 0)?);
        }
        let automaton = caught(|| py.detach(|| Automaton::new(&nodes, &all_sets, of_bytes)))?
            .map_err(PyValueError::new_err)?;
        let automaton = automaton.with_windows(windows.and_then(Pattern::of_name));
        Ok(PatternAutomaton(Splitter::Automaton(Arc::new(automaton))))
    }

    /// The name of the pattern if it has windows.
    #[getter]
    fn windows(&self) -> Option<&'static str> {
        let Splitter::Automaton(automaton) = &self.0 else { return None };
        automaton.windows.map(Pattern::name)
    }

    /// Returns where the pieces of adjacent texts end, in bytes, by each instruction set of the
    /// processor, for tests. The texts end at `text_ends`.
    fn ends(&self, text: &str, text_ends: Vec<u32>) -> PyResult<Vec<Vec<u32>>> {
        let ends_by = |isa| {
            let pieces = Pieces::of_texts(&self.0, text.as_bytes(), 0, &text_ends);
            let (mut pieces, mut all, mut ends) = (pieces.with_isa(isa), Vec::new(), [0; 256]);
            loop {
                let count = pieces.next_ends(&mut ends);
                if count == 0 {
                    return all;
                }
                all.extend_from_slice(&ends[..count]);
            }
        };
        caught(|| Isa::all().into_iter().map(ends_by).collect())
    }

    /// Returns the safe splits of a text, in bytes, for tests.
    fn safe_splits(&self, text: &str) -> PyResult<Vec<usize>> {
        caught(|| {
            let pieces = Pieces::new(&self.0, text);
            (0..text.len()).filter(|&at| pieces.is_safe_split(at)).collect()
        })
    }
}

/// The cuts of a vocabulary whose merges begin with whole characters.
#[pyclass(frozen, module = "bpetite._engine._native")]
pub struct Cuts(Splitter);

#[pymethods]
impl Cuts {
    /// `pairs` has every two adjacent characters of the tokens that merges make.
    #[new]
    fn new(pairs: Vec<String>) -> PyResult<Cuts> {
        caught(|| {
            let joints = pairs.iter().flat_map(|pair| joints_of(pair.as_bytes()));
            let cuts = split::Cuts::new(joints, 1);
            Cuts(Splitter::Cuts(Arc::new(cuts)))
        })
    }
}

/// Where texts may be split: the twin of `bpetite._automaton.Splits`.
#[pyclass(frozen, module = "bpetite._engine._native")]
pub struct Splits(Pairs);

#[pymethods]
impl Splits {
    /// Takes a `SafeSplits` or `Cuts` of Python.
    #[new]
    fn new(splits: &Bound<'_, PyAny>) -> PyResult<Splits> {
        let py = splits.py();
        if let Some(glued) = splits.getattr_opt(intern!(py, "glued"))? {
            let mut pairs = Vec::new();
            for pair in glued.try_iter()? {
                let pair: String = pair?.extract()?;
                let mut characters = pair.chars().map(u32::from);
                pairs.extend(characters.next().zip(characters.next()));
            }
            return Ok(Splits(Pairs::of_glued(pairs.into_iter())));
        }
        let firsts: Vec<(u32, u8)> = splits.getattr(intern!(py, "firsts"))?.extract()?;
        let after: Vec<Vec<u8>> = (splits.getattr(intern!(py, "after"))?.try_iter()?)
            .map(|kinds| kinds?.try_iter()?.map(|kind| kind?.extract()).collect())
            .collect::<PyResult<_>>()?;
        Ok(Splits(Pairs::of_kinds(firsts, &after)))
    }

    /// Returns the first place where `text[start:end]` may be split, `end` without one.
    fn first(&self, text: &Bound<'_, PyString>, start: usize, end: usize) -> PyResult<usize> {
        let found = with_characters!(self.0, first, text, start..end);
        Ok(found.map_or(end, |at| start + at))
    }

    /// Returns the last place where `text[start:end]` may be split, `start` without one.
    fn last(&self, text: &Bound<'_, PyString>, start: usize, end: usize) -> PyResult<usize> {
        let found = with_characters!(self.0, last, text, start..end);
        Ok(found.map_or(start, |at| start + at))
    }
}

/// Returns the splitter of an automaton or of cuts.
pub fn splitter(object: &Bound<'_, PyAny>) -> PyResult<Splitter> {
    if let Ok(cuts) = object.cast::<Cuts>() {
        return Ok(cuts.get().0.clone());
    }
    Ok(object.cast::<PatternAutomaton>()?.get().0.clone())
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
