//! What Python sees of it all: twins of what the Python engine has, with the same results.
//!
//! Errors that users can cause are raised by the Python code that both engines share.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBytes, PyDict, PyInt, PyList, PyString};

use crate::decode;
use crate::encode::Encoder;
use crate::merge::{Merges, Token};
use crate::scan::Pattern;
use crate::simd::Kernel;
use crate::train::{Counts, Learner};

/// Texts of so many bytes or more are worked on without the interpreter's lock.
const LONG: usize = 1 << 14;

/// The integers of so many ids are made ahead; those of higher ids, which few have, when needed.
const READY_MADE: u32 = 1 << 19;

/// Runs `work` without the interpreter's lock if it is long; `work` asks now and then, by the
/// function that it is given, whether Python wants to interrupt it.
fn run<T: Send>(
    py: Python<'_>,
    is_long: bool,
    work: impl FnOnce(&mut dyn FnMut() -> bool) -> T + Send,
) -> PyResult<T> {
    if !is_long {
        return Ok(work(&mut || true));
    }
    let mut error = None;
    let result = py.detach(|| {
        work(&mut || {
            error = Python::attach(|py| py.check_signals()).err();
            error.is_none()
        })
    });
    error.map_or(Ok(result), Err)
}

/// Turns text into ids by a vocabulary.
#[pyclass(frozen, module = "bpetite._native")]
struct TextEncoder {
    encoder: Encoder,
    integers: Vec<Py<PyInt>>,
}

impl TextEncoder {
    fn ids(&self, text: &Bound<'_, PyString>, ordinary: bool) -> PyResult<Vec<u32>> {
        let py = text.py();
        let text = text.to_str()?;
        if u32::try_from(text.len()).is_err() {
            return Err(PyOverflowError::new_err("a text of 4 GiB or more: encode it in parts"));
        }
        let mut context = self.encoder.take_context();
        let result = run(py, text.len() >= LONG, |go_on| {
            let mut ids = Vec::with_capacity(text.len() / 4 + 64);
            if ordinary {
                self.encoder.encode_ordinary(text, &mut context, &mut ids, go_on);
            } else {
                self.encoder.encode(text, &mut context, &mut ids, go_on);
            }
            ids
        });
        self.encoder.put_context(context);
        result
    }

    fn list<'py>(&self, py: Python<'py>, ids: &[u32]) -> PyResult<Bound<'py, PyList>> {
        PyList::new(
            py,
            ids.iter().map(|&id| match self.integers.get(id as usize) {
                Some(integer) => integer.bind(py).clone(),
                None => PyInt::new(py, id),
            }),
        )
    }
}

#[pymethods]
impl TextEncoder {
    /// `tokens` has the ids of all ordinary tokens, and their bytes; `pattern` is the name of one
    /// that has a scanner, or none.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "they are the fields of a vocabulary")]
    fn new(
        py: Python<'_>,
        byte_ids: Vec<u32>,
        merges: Vec<(u32, u32)>,
        merge_ids: Vec<u32>,
        tokens: HashMap<u32, Bound<'_, PyBytes>>,
        ignore_merges: bool,
        special_tokens: HashMap<String, u32>,
        pattern: Option<&str>,
    ) -> PyResult<TextEncoder> {
        let mut id_of: Vec<u32> = tokens.keys().copied().collect();
        id_of.sort_unstable();
        let token_of: HashMap<u32, Token> =
            (0..).zip(&id_of).map(|(token, &id)| (id, token)).collect();
        let find = |id: &u32| {
            token_of.get(id).copied().ok_or_else(|| PyValueError::new_err("an id without a token"))
        };
        let bytes: Vec<Token> = byte_ids.iter().map(find).collect::<PyResult<_>>()?;
        let bytes = bytes.try_into().map_err(|_| PyValueError::new_err("not 256 byte ids"))?;
        let merges = merges
            .iter()
            .zip(&merge_ids)
            .map(|((left, right), id)| Ok((find(left)?, find(right)?, find(id)?)))
            .collect::<PyResult<Vec<_>>>()?;
        let whole_pieces = ignore_merges.then(|| {
            tokens.iter().map(|(id, bytes)| (Box::from(bytes.as_bytes()), token_of[id])).collect()
        });
        let highest = id_of.iter().chain(special_tokens.values()).max();
        let count = highest.map_or(0, |&id| id.saturating_add(1)).min(READY_MADE);
        let integers = (0..count).map(|id| PyInt::new(py, id).unbind()).collect();
        let merges = Merges::new(bytes, &merges, whole_pieces);
        let special: Vec<(String, u32)> = special_tokens.into_iter().collect();
        let encoder = Encoder::new(pattern.and_then(Pattern::of_name), merges, id_of, &special)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(TextEncoder { encoder, integers })
    }

    /// Returns the ids of a text; special literals are their ids, unless it is all ordinary.
    #[pyo3(signature = (text, ordinary = false))]
    fn encode<'py>(
        &self,
        text: &Bound<'py, PyString>,
        ordinary: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        self.list(text.py(), &self.ids(text, ordinary)?)
    }

    /// Returns how many ids `encode` would return.
    #[pyo3(signature = (text, ordinary = false))]
    fn count(&self, text: &Bound<'_, PyString>, ordinary: bool) -> PyResult<usize> {
        Ok(self.ids(text, ordinary)?.len())
    }

    /// Returns the ids of a piece, which was cut elsewhere.
    fn merge<'py>(&self, piece: &Bound<'py, PyBytes>) -> PyResult<Bound<'py, PyList>> {
        let mut context = self.encoder.take_context();
        let mut ids = Vec::new();
        self.encoder.encode_piece(piece.as_bytes(), &mut context, &mut ids);
        self.encoder.put_context(context);
        self.list(piece.py(), &ids)
    }
}

/// The bytes of each id, to join.
#[pyclass(frozen, module = "bpetite._native")]
struct TokenBytes(decode::TokenBytes);

#[pymethods]
impl TokenBytes {
    #[new]
    fn new(tokens: HashMap<u32, Vec<u8>>) -> TokenBytes {
        TokenBytes(decode::TokenBytes::new(tokens.into_iter().collect()))
    }

    /// Returns the bytes of a list of ids, joined; None if anything in it is not an id that there
    /// is, or no plain int: then the Python engine tells what.
    fn join<'py>(&self, ids: &Bound<'py, PyList>) -> Option<Bound<'py, PyBytes>> {
        let plain = ids.iter().map(|id| {
            id.is_exact_instance_of::<PyInt>().then(|| id.extract::<u32>().ok()).flatten()
        });
        let ids_found: Vec<u32> = plain.collect::<Option<_>>()?;
        let mut bytes = Vec::new();
        match self.0.join(&ids_found, &mut bytes) {
            None => Some(PyBytes::new(ids.py(), &bytes)),
            Some(_) => None,
        }
    }
}

/// Counts pieces.
#[pyclass(frozen, module = "bpetite._native")]
#[derive(Default)]
struct PieceCounter(Mutex<Counts>);

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
struct MergeLearner(Mutex<Learner>);

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

/// Returns the name of what makes masks of bytes here: avx512, avx2, neon or scalar.
#[pyfunction]
fn simd() -> &'static str {
    Kernel::get().name
}

#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<TextEncoder>()?;
    module.add_class::<TokenBytes>()?;
    module.add_class::<PieceCounter>()?;
    module.add_class::<MergeLearner>()?;
    module.add_function(wrap_pyfunction!(simd, module)?)
}
