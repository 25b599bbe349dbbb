//! Counting pieces and learning merges, for Python.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyDict, PyString};

use super::text::{LONG, run};
use crate::scan::Pattern;
use crate::train::{Counts, Learner};

/// Counts pieces.
#[pyclass(frozen, module = "bpetite._native")]
#[derive(Default)]
pub struct PieceCounter(Mutex<Counts>);

impl PieceCounter {
    /// Waits without the interpreter's lock: who has the counts may be waiting for that.
    fn counts(&self, py: Python<'_>) -> MutexGuard<'_, Counts> {
        self.0.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl PieceCounter {
    #[new]
    fn new() -> PieceCounter {
        PieceCounter::default()
    }

    /// Counts the pieces of a text, which ends where a piece ends, by a pattern that has a name.
    fn add_text(&self, text: &Bound<'_, PyString>, pattern: &str) -> PyResult<()> {
        let py = text.py();
        let pattern = Pattern::of_name(pattern)
            .ok_or_else(|| PyValueError::new_err("a pattern that has no scanner"))?;
        let text = text.to_str()?;
        let mut guard = self.counts(py);
        let counts: &mut Counts = &mut guard;
        run(py, text.len() >= LONG, |go_on| counts.add_text(text, pattern, &mut |_| go_on()))
    }

    /// Counts pieces that were cut, and counted, elsewhere.
    fn add_counts(&self, counts: &Bound<'_, PyDict>) -> PyResult<()> {
        let mut all = self.counts(counts.py());
        for (piece, count) in counts {
            all.add_piece(piece.cast::<PyString>()?.to_str()?.as_bytes(), count.extract()?);
        }
        Ok(())
    }
}

/// Learns merges from counted pieces.
#[pyclass(frozen, module = "bpetite._native")]
pub struct MergeLearner(Mutex<Learner>);

#[pymethods]
impl MergeLearner {
    /// Takes the counts out of the counter, which is empty then.
    #[new]
    fn new(py: Python<'_>, counter: &PieceCounter) -> PyResult<MergeLearner> {
        let counts = std::mem::take(&mut *counter.counts(py));
        let learner = py.detach(|| Learner::new(counts));
        let learner = learner.map_err(|_| {
            PyOverflowError::new_err("2 GiB or more of distinct pieces: train on less text")
        })?;
        Ok(MergeLearner(Mutex::new(learner)))
    }

    /// Learns up to so many merges more, and stops after some tens of milliseconds; returns them,
    /// and whether no pair is left.
    fn learn(&self, py: Python<'_>, most: usize) -> (Vec<(u32, u32)>, bool) {
        py.detach(|| {
            let mut learner = self.0.lock().unwrap_or_else(|error| error.into_inner());
            let start = std::time::Instant::now();
            let mut merges = Vec::new();
            while merges.len() < most && start.elapsed().as_millis() < 50 {
                match learner.next_merge() {
                    Some(merge) => merges.push(merge),
                    None => return (merges, true),
                }
            }
            (merges, false)
        })
    }
}
