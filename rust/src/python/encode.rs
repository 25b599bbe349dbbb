//! Text to ids, for Python.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyList, PyMemoryView, PyString};

use super::array::memoryview;
use super::list::list_of;
use super::text::{LONG, Text, caught, run};
use super::vocabulary::Vocabulary;
use crate::encode::{Count, Encoder, Id};
use crate::parallel::{self, TooLongError};
use crate::scan::Pattern;

/// The integers of so many ids are made ahead; those of higher ids, which few have, when needed.
const READY_MADE: u32 = 1 << 19;

/// Turns text into ids by a vocabulary.
#[pyclass(frozen, module = "bpetite._native")]
pub struct TextEncoder {
    encoder: Encoder,
    integers: Vec<Py<PyInt>>,
}

impl TextEncoder {
    /// Returns the ids of all texts, one behind the other, and where those of each begin and end.
    fn ids<T: Id>(
        &self,
        py: Python<'_>,
        texts: &[Text<'_>],
        ordinary: bool,
        threads: usize,
    ) -> PyResult<(Vec<T>, Vec<u64>)> {
        let may_change = texts.iter().any(Text::may_change);
        let texts = texts.iter().map(Text::bytes).collect::<PyResult<Vec<_>>>()?;
        let length = texts.iter().map(|text| text.len()).sum::<usize>();
        let encode = |go_on: &mut dyn FnMut() -> bool| {
            parallel::encode_all(&self.encoder, &texts, ordinary, threads, go_on)
        };
        run(py, length >= LONG && !may_change, encode)?.map_err(|TooLongError| {
            PyOverflowError::new_err("a text has 1 GiB in which there is no place to cut it")
        })
    }

    fn list<'py>(&self, py: Python<'py>, ids: &[u32]) -> PyResult<Bound<'py, PyList>> {
        list_of(py, ids.len(), |i| match self.integers.get(ids[i] as usize) {
            Some(integer) => integer.clone_ref(py),
            None => PyInt::new(py, ids[i]).unbind(),
        })
    }

    /// Does `work` with the ids of a text that is not long.
    fn with_ids<R>(
        &self,
        text: &[u8],
        ordinary: bool,
        work: impl FnOnce(&[u32]) -> PyResult<R>,
    ) -> PyResult<R> {
        caught(|| {
            let mut context = self.encoder.take_context();
            let mut ids = std::mem::take(&mut context.ids);
            ids.clear();
            self.encoder.encode(text, ordinary, &mut context, &mut ids, &mut || true);
            let result = work(&ids);
            context.ids = ids;
            self.encoder.put_context(context);
            result
        })?
    }
}

/// Returns the UTF-8 of a `str` that is not long, so that there is nothing to cut and no reason to
/// let others run meanwhile.
#[inline(always)]
fn short<'a>(text: &'a Bound<'_, PyAny>) -> PyResult<Option<&'a [u8]>> {
    let Ok(text) = text.cast::<PyString>() else { return Ok(None) };
    Ok(Some(text.to_str()?.as_bytes()).filter(|bytes| bytes.len() < LONG))
}

#[pymethods]
impl TextEncoder {
    /// `pattern` is the name of one that has a scanner, or none.
    #[new]
    fn new(
        py: Python<'_>,
        vocabulary: &Bound<'_, Vocabulary>,
        special_tokens: HashMap<String, u32>,
        pattern: Option<&str>,
    ) -> PyResult<TextEncoder> {
        let vocabulary = &vocabulary.get().0;
        let highest = vocabulary.id_of.last().into_iter().chain(special_tokens.values()).max();
        let count = highest.map_or(0, |&id| id.saturating_add(1)).min(READY_MADE);
        let integers = (0..count).map(|id| PyInt::new(py, id).unbind()).collect();
        let special: Vec<(String, u32)> = special_tokens.into_iter().collect();
        let encoder = caught(|| {
            Encoder::new(
                pattern.and_then(Pattern::of_name),
                Arc::clone(&vocabulary.table),
                Arc::clone(&vocabulary.id_of),
                &special,
            )
        })?
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(TextEncoder { encoder, integers })
    }

    /// Returns the ids of a text; special literals are their ids, unless it is all ordinary.
    #[pyo3(signature = (text, ordinary = false))]
    fn encode<'py>(
        &self,
        text: &Bound<'py, PyAny>,
        ordinary: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        if let Some(bytes) = short(text)? {
            return self.with_ids(bytes, ordinary, |ids| self.list(text.py(), ids));
        }
        self.encode_list(text, ordinary, 1)
    }

    /// Returns the same, by up to so many threads.
    fn encode_list<'py>(
        &self,
        text: &Bound<'py, PyAny>,
        ordinary: bool,
        threads: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        let py = text.py();
        let ids: Vec<u32> = self.ids(py, &[Text::new(text)?], ordinary, threads)?.0;
        let list = self.list(py, &ids);
        u32::kept().give(ids);
        list
    }

    /// Returns how many ids `encode` would return.
    #[pyo3(signature = (text, ordinary = false))]
    fn count(&self, text: &Bound<'_, PyAny>, ordinary: bool) -> PyResult<usize> {
        let held = Text::new(text)?;
        let bytes = held.bytes()?;
        if bytes.len() > parallel::LONGEST {
            // It has to be cut in parts first.
            return Ok(self.ids::<u32>(text.py(), &[held], ordinary, 1)?.0.len());
        }
        let mut count = Count::default();
        let mut context = self.encoder.take_context();
        let result = run(text.py(), bytes.len() >= LONG && !held.may_change(), |go_on| {
            self.encoder.encode(bytes, ordinary, &mut context, &mut count, go_on);
        });
        self.encoder.put_context(context);
        result.map(|()| count.0)
    }

    /// Returns the ids of a text in a buffer, of items of 4 or 2 bytes.
    #[pyo3(signature = (text, ordinary = false, itemsize = 4, threads = 1))]
    fn encode_array<'py>(
        &self,
        text: &Bound<'py, PyAny>,
        ordinary: bool,
        itemsize: usize,
        threads: usize,
    ) -> PyResult<Bound<'py, PyMemoryView>> {
        let py = text.py();
        if let Some(bytes) = short(text)? {
            return self.with_ids(bytes, ordinary, |ids| match itemsize {
                2 => memoryview(py, ids.iter().map(|&id| u16::of(id)).collect()),
                _ => memoryview(py, ids.to_vec()),
            });
        }
        let texts = [Text::new(text)?];
        if itemsize == 2 {
            memoryview(py, self.ids::<u16>(py, &texts, ordinary, threads)?.0)
        } else {
            memoryview(py, self.ids::<u32>(py, &texts, ordinary, threads)?.0)
        }
    }

    /// Returns the ids of each text.
    fn encode_batch<'py>(
        &self,
        py: Python<'py>,
        texts: Vec<Bound<'py, PyAny>>,
        ordinary: bool,
        threads: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        let texts = texts_of(py, &texts)?;
        let (ids, offsets) = self.ids::<u32>(py, &texts, ordinary, threads)?;
        let batch = PyList::empty(py);
        for bounds in offsets.windows(2) {
            py.check_signals()?;
            batch.append(self.list(py, &ids[bounds[0] as usize..bounds[1] as usize])?)?;
        }
        u32::kept().give(ids);
        Ok(batch)
    }

    /// Returns the ids of all texts in one buffer, and the offset of those of each in another.
    fn encode_batch_arrays<'py>(
        &self,
        py: Python<'py>,
        texts: Vec<Bound<'py, PyAny>>,
        ordinary: bool,
        itemsize: usize,
        threads: usize,
    ) -> PyResult<(Bound<'py, PyMemoryView>, Bound<'py, PyMemoryView>)> {
        let texts = texts_of(py, &texts)?;
        if itemsize == 2 {
            let (ids, offsets) = self.ids::<u16>(py, &texts, ordinary, threads)?;
            return Ok((memoryview(py, ids)?, memoryview(py, offsets)?));
        }
        let (ids, offsets) = self.ids::<u32>(py, &texts, ordinary, threads)?;
        Ok((memoryview(py, ids)?, memoryview(py, offsets)?))
    }

    /// Returns the ids of a piece, which was cut elsewhere.
    fn merge<'py>(&self, piece: &Bound<'py, PyBytes>) -> PyResult<Bound<'py, PyList>> {
        let (py, bytes) = (piece.py(), piece.as_bytes());
        if bytes.len() > parallel::LONGEST {
            return Err(PyOverflowError::new_err("a piece of 1 GiB or more"));
        }
        let mut context = self.encoder.take_context();
        let mut ids: Vec<u32> = Vec::new();
        run(py, bytes.len() >= LONG, |go_on| {
            self.encoder.encode_piece(bytes, &mut context, &mut ids, go_on);
        })?;
        self.encoder.put_context(context);
        self.list(py, &ids)
    }
}

/// Returns the texts of a batch, of which there may be so many that it takes long.
fn texts_of<'py>(py: Python<'py>, texts: &[Bound<'py, PyAny>]) -> PyResult<Vec<Text<'py>>> {
    let text = |text| {
        py.check_signals()?;
        Text::new(text)
    };
    texts.iter().map(text).collect()
}
