//! Counting pieces and learning merges, for Python.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use pyo3::exceptions::{PyOverflowError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBytes, PyDict, PyString};

use super::text::run;
use crate::scan::Pattern;
use crate::train::{Counter, Counts, Error, GoOn, Learner, Symbol};

/// Where bytes are not UTF-8: the offset in their document, and up to four of them from there on.
type NotUtf8<'py> = Option<(u64, Bound<'py, PyBytes>)>;

/// Returns where it is not UTF-8, if that is the error; raises any other.
fn not_utf8(py: Python<'_>, result: Result<(), Error>) -> PyResult<NotUtf8<'_>> {
    match result {
        Ok(()) => Ok(None),
        Err(Error::NotUtf8 { offset, bytes }) => Ok(Some((offset, PyBytes::new(py, &bytes)))),
        Err(other) => Err(error(other)),
    }
}

/// Who stops it raises an error that comes before this one.
fn error(error: Error) -> PyErr {
    match error {
        Error::TooLarge => PyOverflowError::new_err(
            "2 GiB or more of distinct pieces, or of text without a place to cut it: train on less text",
        ),
        Error::NotUtf8 { .. } | Error::Stopped => spent(),
    }
}

fn spent() -> PyErr {
    PyRuntimeError::new_err("training was interrupted, and cannot go on")
}

/// Holds what is at work; nothing any more once that has been interrupted, or handed over.
struct AtWork<T>(Mutex<Option<T>>);

impl<T: Send> AtWork<T> {
    fn new(worker: T) -> AtWork<T> {
        AtWork(Mutex::new(Some(worker)))
    }

    /// Waits without the interpreter's lock: who has it may be waiting for that.
    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Option<T>> {
        self.0.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets it work, by `run`; after an error it is not there any more.
    fn work<R: Send>(
        &self,
        py: Python<'_>,
        is_long: impl FnOnce(&T) -> bool,
        work: impl FnOnce(&mut T, GoOn<'_>) -> Result<R, Error> + Send,
    ) -> PyResult<Result<R, Error>> {
        let mut guard = self.lock(py);
        let mut worker = guard.take().ok_or_else(spent)?;
        let is_long = is_long(&worker);
        let (result, worker) = run(py, is_long, move |go_on| {
            let result = work(&mut worker, go_on);
            (result, worker)
        })?;
        if result.is_ok() {
            *guard = Some(worker);
        }
        Ok(result)
    }
}

/// Counts pieces.
#[pyclass(frozen, module = "bpetite._native")]
pub struct PieceCounter(AtWork<Counter>);

#[pymethods]
impl PieceCounter {
    /// The pattern has a name; `threads` is how many count, None for as many as there are cores.
    #[new]
    fn new(pattern: &str, threads: Option<usize>) -> PyResult<PieceCounter> {
        let pattern = Pattern::of_name(pattern)
            .ok_or_else(|| PyValueError::new_err("a pattern that has no scanner"))?;
        let threads =
            threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
        Ok(PieceCounter(AtWork::new(Counter::new(pattern, threads))))
    }

    /// Takes the next bytes of a document; returns where they are not UTF-8, if so.
    fn add<'py>(&self, py: Python<'py>, data: &[u8]) -> PyResult<NotUtf8<'py>> {
        let is_long = |counter: &Counter| counter.is_full(data.len());
        not_utf8(py, self.0.work(py, is_long, |counter, go_on| counter.add(data, go_on))?)
    }

    /// The document ends here; returns where it is not UTF-8, if it ends inside a character.
    fn end_document<'py>(&self, py: Python<'py>) -> PyResult<NotUtf8<'py>> {
        let is_long = |counter: &Counter| counter.is_full(0);
        not_utf8(py, self.0.work(py, is_long, |counter, go_on| counter.end_document(go_on))?)
    }

    /// Returns the counts, when all documents are counted; there is nothing more to add then.
    fn finish(&self, py: Python<'_>) -> PyResult<PieceCounts> {
        let counter = self.0.lock(py).take().ok_or_else(spent)?;
        let counts = run(py, true, |go_on| counter.finish(go_on))?;
        Ok(PieceCounts(AtWork::new(counts.map_err(error)?)))
    }
}

/// How often each piece occurs.
#[pyclass(frozen, module = "bpetite._native")]
pub struct PieceCounts(AtWork<Counts>);

#[pymethods]
impl PieceCounts {
    /// Takes what was counted elsewhere.
    #[new]
    fn new(py: Python<'_>, counts: &Bound<'_, PyDict>) -> PyResult<PieceCounts> {
        let mut all = Counts::default();
        for (number, (piece, count)) in counts.iter().enumerate() {
            if number % SOME == SOME - 1 {
                py.check_signals()?;
            }
            all.add_piece(piece.cast::<PyString>()?.to_str()?.as_bytes(), count.extract()?);
        }
        Ok(PieceCounts(AtWork::new(all)))
    }
}

/// After how many pieces it is asked whether to go on.
const SOME: usize = 1 << 18;

/// Learns merges from counted pieces.
#[pyclass(frozen, module = "bpetite._native")]
pub struct MergeLearner(AtWork<Learner>);

#[pymethods]
impl MergeLearner {
    /// Takes the counts for itself: they are gone then.
    #[new]
    fn new(py: Python<'_>, counts: &PieceCounts) -> PyResult<MergeLearner> {
        let counts = counts.0.lock(py).take().ok_or_else(spent)?;
        let learner = run(py, true, |go_on| Learner::new(counts, go_on))?;
        Ok(MergeLearner(AtWork::new(learner.map_err(error)?)))
    }

    /// Learns up to so many merges more, one at least, for so many seconds; returns them, and
    /// whether no pair is left.
    fn learn(
        &self,
        py: Python<'_>,
        most: usize,
        seconds: f64,
    ) -> PyResult<(Vec<(Symbol, Symbol)>, bool)> {
        let learnt = self.0.work(
            py,
            |_| true,
            |learner, go_on| {
                let start = Instant::now();
                let mut merges = Vec::new();
                while merges.len() < most {
                    match learner.next_merge(go_on)? {
                        Some(merge) => merges.push(merge),
                        None => return Ok((merges, true)),
                    }
                    if start.elapsed().as_secs_f64() >= seconds {
                        break;
                    }
                }
                Ok((merges, false))
            },
        )?;
        learnt.map_err(error)
    }
}
