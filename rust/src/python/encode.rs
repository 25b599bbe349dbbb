//! Text to ids, for Python.

use std::collections::HashMap;

use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyList, PyString};

use super::{LONG, run};
use crate::encode::{Count, Encoder, Sink};
use crate::merge::{Merges, Token};
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
    fn give(
        &self,
        text: &Bound<'_, PyString>,
        ordinary: bool,
        sink: &mut (impl Sink + Send),
    ) -> PyResult<()> {
        let py = text.py();
        let text = text.to_str()?;
        if u32::try_from(text.len()).is_err() {
            return Err(PyOverflowError::new_err("a text of 4 GiB or more: encode it in parts"));
        }
        let mut context = self.encoder.take_context();
        let result = run(py, text.len() >= LONG, |go_on| {
            if ordinary {
                self.encoder.encode_ordinary(text, &mut context, sink, go_on);
            } else {
                self.encoder.encode(text, &mut context, sink, go_on);
            }
        });
        self.encoder.put_context(context);
        result
    }

    fn ids(&self, text: &Bound<'_, PyString>, ordinary: bool) -> PyResult<Vec<u32>> {
        let mut ids = Vec::with_capacity(text.len()? / 2 + 64);
        self.give(text, ordinary, &mut ids)?;
        Ok(ids)
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
        let merges = Merges::new(bytes, &merges, whole_pieces)
            .map_err(|_| PyValueError::new_err("too many tokens for the native core"))?;
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
        let mut count = Count::default();
        self.give(text, ordinary, &mut count)?;
        Ok(count.0)
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
