//! Ids to bytes and to text, for Python.

use std::ffi::CString;
use std::mem::MaybeUninit;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use super::ids::Ids;
use super::object::{new_ascii, new_bytes_at_most, new_bytes_behind};
use super::text::{LONG, caught, run};
use crate::decode::{self, Extent, copy};

/// The bytes of each id, to join.
#[pyclass(frozen, module = "bpetite._native")]
pub struct TokenBytes(decode::TokenBytes);

#[pymethods]
impl TokenBytes {
    #[new]
    fn new(tokens: &Bound<'_, PyDict>) -> PyResult<TokenBytes> {
        token_bytes(tokens).map(TokenBytes)
    }

    /// Returns the table in which these ids have no bytes; it shares those of the others.
    fn without(&self, ids: Vec<u32>) -> TokenBytes {
        TokenBytes(self.0.without(&ids))
    }

    /// Returns the bytes of ids, joined.
    ///
    /// Of anything but a list of plain ints and a contiguous buffer of integers, and if one of them
    /// is no id that there is, returns None: then the Python engine tells what.
    fn join<'py>(&self, ids: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let py = ids.py();
        let Some(ids) = Ids::of(ids)? else { return Ok(None) };
        if let Some((bytes, _)) = at_once(py, &self.0, &ids)? {
            return Ok(Some(bytes));
        }
        Known::new(py, &self.0, ids)?.map_or(Ok(None), |ids| ids.bytes())
    }

    /// Returns the text of ids, their bytes joined and decoded with `errors`; None as `join` does.
    fn text<'py>(
        &self,
        ids: &Bound<'py, PyAny>,
        errors: &str,
    ) -> PyResult<Option<Bound<'py, PyString>>> {
        let py = ids.py();
        let Some(ids) = Ids::of(ids)? else { return Ok(None) };
        let bytes = if let Some((bytes, extent)) = at_once(py, &self.0, &ids)? {
            if extent.is_ascii() {
                return new_ascii(py, extent.bytes, |place| {
                    copy(bytes.as_bytes(), place);
                    Ok(true)
                });
            }
            bytes
        } else {
            let Some(ids) = Known::new(py, &self.0, ids)? else { return Ok(None) };
            if ids.is_ascii() {
                return ids.ascii();
            }
            let Some(bytes) = ids.bytes()? else { return Ok(None) };
            bytes
        };
        let errors = CString::new(errors)?;
        PyString::from_encoded_object(&bytes, Some(c"utf-8"), Some(&errors)).map(Some)
    }
}

/// Returns the bytes of many ids, and what they are, without looking at each id twice: in room for a
/// quarter more than if all were as the first. None if that is too little, or more than memory has,
/// and if they are few, or one of them is unknown.
fn at_once<'py>(
    py: Python<'py>,
    table: &decode::TokenBytes,
    ids: &Ids,
) -> PyResult<Option<(Bound<'py, PyBytes>, Extent)>> {
    const FIRST: usize = 1 << 12;
    let integers = ids.integers();
    let count = integers.len();
    if count < 4 * FIRST {
        return Ok(None);
    }
    let Some(first) = integers.extent_of_first(FIRST, table) else { return Ok(None) };
    let most = (first.bytes / 4 * 5).saturating_mul(count / FIRST + 1);
    let mut extent = None;
    let bytes = new_bytes_at_most(py, most, |place| {
        extent = work(py, count, |go_on| integers.join(table, place, go_on))?;
        Ok(extent.map(|extent| extent.bytes))
    })?;
    Ok(bytes.zip(extent))
}

/// Returns the table of a dict of ids and their bytes.
pub fn token_bytes(tokens: &Bound<'_, PyDict>) -> PyResult<decode::TokenBytes> {
    let pairs = tokens.iter().map(|(id, bytes)| {
        Ok::<_, PyErr>((id.extract::<u32>()?, Token(bytes.cast_into::<PyBytes>()?)))
    });
    decode::TokenBytes::new(tokens.len(), pairs)
}

struct Token<'py>(Bound<'py, PyBytes>);

impl AsRef<[u8]> for Token<'_> {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Ids that are all known, and what they are as bytes.
pub struct Known<'a, 'py> {
    py: Python<'py>,
    table: &'a decode::TokenBytes,
    ids: Ids,
    extent: Extent,
}

impl<'a, 'py> Known<'a, 'py> {
    pub fn of(
        table: &'a decode::TokenBytes,
        ids: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Known<'a, 'py>>> {
        Ids::of(ids)?.map_or(Ok(None), |found| Known::new(ids.py(), table, found))
    }

    fn new(
        py: Python<'py>,
        table: &'a decode::TokenBytes,
        ids: Ids,
    ) -> PyResult<Option<Known<'a, 'py>>> {
        let integers = ids.integers();
        let extent = work(py, integers.len(), |go_on| integers.extent(table, go_on))?;
        Ok(extent.map(|extent| Known { py, table, ids, extent }))
    }

    /// Returns whether the text is all ASCII.
    pub fn is_ascii(&self) -> bool {
        self.extent.is_ascii()
    }

    /// Returns whether there are no ids.
    pub fn is_empty(&self) -> bool {
        self.ids.integers().len() == 0
    }

    /// Returns the bytes; None if another thread has changed the ids meanwhile.
    pub fn bytes(&self) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.bytes_behind(&[])
    }

    /// Returns these bytes, and those of the ids behind them; None as `bytes` does.
    pub fn bytes_behind(&self, first: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        new_bytes_behind(self.py, first, self.extent.bytes, |place| self.fill(place))
    }

    /// Returns the text, which is all ASCII; None if another thread has changed the ids meanwhile.
    pub fn ascii(&self) -> PyResult<Option<Bound<'py, PyString>>> {
        new_ascii(self.py, self.extent.bytes, |place| self.fill(place))
    }

    fn fill(&self, place: &mut [MaybeUninit<u8>]) -> PyResult<bool> {
        let Known { table, extent, .. } = *self;
        let integers = self.ids.integers();
        work(self.py, integers.len(), |go_on| integers.join(table, place, go_on) == Some(extent))
    }
}

/// Does what needs no Python, without the interpreter's lock if it is long.
fn work<T: Send>(
    py: Python<'_>,
    length: usize,
    work: impl FnOnce(&mut dyn FnMut() -> bool) -> T + Send,
) -> PyResult<T> {
    if length < LONG { caught(|| work(&mut || true)) } else { run(py, true, work) }
}
