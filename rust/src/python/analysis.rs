//! What `bpetite.analysis` takes from Rust: counts, and the trees of tokens.

use std::sync::atomic::AtomicU32;

use pyo3::exceptions::{PyKeyError, PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySet, PyTuple};

use super::ids::{Ids, with_integers};
use super::interrupt::{GIL_RELEASE_MIN_SIZE, SignalClock, caught, run};
use super::list::list_of;
use super::object::new_int;
use super::text::Text;
use super::vocabulary::{NativeVocabulary, pairs};
use crate::analysis::{IdCounts, words};
use crate::decode::Integer;
use crate::mem::growth::filled;

/// Adds the names of this module to that of Python.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<MergeTrees>()?;
    module.add_function(wrap_pyfunction!(last_merges, module)?)?;
    module.add_function(wrap_pyfunction!(count_ids, module)?)?;
    module.add_function(wrap_pyfunction!(characters_and_words, module)?)
}

/// Returns how often each id occurs in buffers of 32 bits an id, in ascending order of ids.
#[pyfunction]
fn count_ids<'py>(buffers: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let py = buffers.py();
    let (mut counts, mut clock) = (IdCounts::default(), SignalClock::default());
    for buffer in buffers.try_iter()? {
        match Ids::of(&buffer?)? {
            Some(Ids::Buffer(ids)) if ids.kind().1 == 4 => {
                caught(|| counts.add(ids.slice::<AtomicU32>()))?;
            }
            _ => return Err(PyTypeError::new_err("ids must be in buffers of 32 bits an id")),
        }
        clock.check_signals(py)?;
    }
    let dict = PyDict::new(py);
    for (id, count) in counts.all() {
        dict.set_item(id, count)?;
    }
    Ok(dict)
}

/// Returns how many characters and words the documents in `data` have; zeros unless both are buffers.
#[pyfunction]
fn characters_and_words(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    offsets: &Bound<'_, PyAny>,
) -> PyResult<(usize, usize)> {
    let (Some(text), Some(offsets)) = (Text::of_bytes(data), Ids::of(offsets)?) else {
        return Ok((0, 0));
    };
    let bytes = text.bytes()?;
    with_integers!(&offsets, offsets => {
        let is_long = bytes.len().max(offsets.len()) >= GIL_RELEASE_MIN_SIZE;
        run(py, is_long && !text.may_change(), |interrupt| {
            let offsets = offsets.iter().map(|offset| offset.value() as usize);
            words::characters_and_words(bytes, offsets, interrupt)
        })
    })
}

/// The trees of the tokens of a vocabulary.
#[pyclass(frozen, module = "bpetite._engine._native")]
pub struct MergeTrees(Py<NativeVocabulary>);

#[pymethods]
impl MergeTrees {
    /// Returns the trees of a vocabulary that is nested; None for any other.
    #[staticmethod]
    fn of_nested(vocabulary: Bound<'_, NativeVocabulary>) -> PyResult<Option<MergeTrees>> {
        let is_nested = caught(|| vocabulary.get().0.is_nested())?;
        Ok(is_nested.then(|| MergeTrees(vocabulary.unbind())))
    }

    #[getter]
    fn merge_count(&self) -> usize {
        self.0.get().0.merges.len()
    }

    /// Returns the ids of tokens that no merge makes: none.
    fn unmade<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PySet>> {
        PySet::empty(py)
    }

    /// Returns the numbers of tokens with no merge, with one, and so on.
    fn tokens_by_size<'py>(&self, counts: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyList>> {
        let (py, vocabulary) = (counts.py(), &self.0.get().0);
        let mut by_token = caught(|| filled(0, vocabulary.id_of.len()))?;
        for (id, count) in counts {
            let token = id.extract().ok().and_then(|id| vocabulary.token_of(id));
            let token = token.ok_or_else(|| PyKeyError::new_err(id.unbind()))?;
            by_token[token as usize] = count.extract()?;
        }
        let by_size = caught(|| vocabulary.tokens_by_size(by_token))?
            .ok_or_else(|| PyOverflowError::new_err("the text has more than 2**64 bytes"))?;
        list_of(py, by_size.iter().map(|&size| new_int(py, size)))
    }
}

/// Returns the merges of the highest ranks.
#[pyfunction]
fn last_merges<'py>(
    vocabulary: &Bound<'py, NativeVocabulary>,
    count: usize,
) -> PyResult<Bound<'py, PyTuple>> {
    let (py, vocabulary) = (vocabulary.py(), &vocabulary.get().0);
    let merges = &vocabulary.merges[vocabulary.merges.len().saturating_sub(count)..];
    pairs(py, merges, |token| new_int(py, vocabulary.id_of[token as usize].into()))
}
