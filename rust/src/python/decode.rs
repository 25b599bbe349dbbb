//! Ids to bytes and to text, for Python.

use std::convert::Infallible;
use std::ffi::CString;
use std::mem::MaybeUninit;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use super::array::memoryview;
use super::ids::{Ids, with_integers};
use super::interrupt::{GIL_RELEASE_MIN_SIZE, caught, run};
use super::list::list_of;
use super::object::{new_ascii, new_bytes, new_bytes_at_most, new_decoded, new_int};
use super::vocabulary::NativeVocabulary;
use crate::decode::{Extent, Integer, TokenBytes as Table};
use crate::interrupt::Interrupt;
use crate::mem::Output;
use crate::mem::growth::{granted, with_room};

/// Joins and decodes the bytes of ids.
#[pyclass(frozen, module = "bpetite._engine._native")]
pub struct TokenBytes(pub Table);

#[pymethods]
impl TokenBytes {
    /// Returns the table of `tokens`, and of the other tokens of `vocabulary` that are not absent.
    #[new]
    #[pyo3(signature = (tokens, vocabulary = None, absent_ids = Vec::new()))]
    fn new(
        tokens: &Bound<'_, PyDict>,
        vocabulary: Option<&NativeVocabulary>,
        absent_ids: Vec<u32>,
    ) -> PyResult<TokenBytes> {
        token_bytes(tokens, vocabulary, absent_ids).map(TokenBytes)
    }

    /// Returns the table without the bytes of these ids. Both tables share all other bytes.
    fn without(&self, ids: Vec<u32>) -> PyResult<TokenBytes> {
        caught(|| self.0.without(&ids)).map(TokenBytes)
    }

    /// Returns the bytes of ids, joined.
    ///
    /// Only known ids are joined, in a list of plain ints or in a contiguous buffer of integers.
    /// For anything else, None tells the Python engine to do the work, or to word the error.
    fn join<'py>(&self, ids: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let py = ids.py();
        let Some(ids) = Ids::of(ids)? else { return Ok(None) };
        if let Some((bytes, _)) = with_integers!(&ids, ids => at_once(py, &self.0, ids))? {
            return Ok(Some(bytes));
        }
        Known::new(py, &self.0, ids)?.map_or(Ok(None), |ids| ids.bytes_after(&[]))
    }

    /// Returns the bytes of ids, joined and decoded with `errors`; returns None as `join` does.
    #[expect(unsafe_code, reason = "a str of ASCII is filled in place")]
    fn text<'py>(
        &self,
        ids: &Bound<'py, PyAny>,
        errors: &str,
    ) -> PyResult<Option<Bound<'py, PyString>>> {
        let py = ids.py();
        let Some(ids) = Ids::of(ids)? else { return Ok(None) };
        let text = |bytes: &[u8], extent: Extent| {
            if extent.is_ascii() {
                // SAFETY: the extent belongs to these bytes, and says that they are ASCII.
                return unsafe { new_ascii(py, bytes.len(), |output| Ok(output.push(bytes))) };
            }
            new_decoded(py, bytes, &CString::new(errors)?).map(Some)
        };
        let mut memory = [MaybeUninit::uninit(); MAX_SHORT_BYTES];
        let mut output = Output::new(&mut memory);
        if let Some(extent) = with_integers!(&ids, ids => short(&self.0, ids, &mut output)) {
            return text(output.bytes(), extent);
        }
        let at_once = with_integers!(&ids, ids => at_once(py, &self.0, ids))?;
        if let Some((bytes, extent)) = at_once {
            return text(bytes.as_bytes(), extent);
        }
        let Some(ids) = Known::new(py, &self.0, ids)? else { return Ok(None) };
        if ids.extent.is_ascii() {
            return ids.ascii();
        }
        let Some(bytes) = ids.bytes_after(&[])? else { return Ok(None) };
        text(bytes.as_bytes(), ids.extent)
    }

    /// Returns the number of characters that begin in the bytes of ids; returns None as `join`
    /// does.
    fn characters(&self, ids: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
        let py = ids.py();
        let Some(ids) = Ids::of(ids)? else { return Ok(None) };
        with_integers!(&ids, ids => {
            work(py, ids.len(), |interrupt| self.0.characters(ids, interrupt))
        })
    }

    /// Returns where each id begins in the bytes of all ids, or in their text. A list gives a list,
    /// and a buffer a buffer; returns None as `join` does.
    fn offsets<'py>(
        &self,
        ids: &Bound<'py, PyAny>,
        in_bytes: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = ids.py();
        let Some(offsets) = self.offsets_of(ids, in_bytes)? else { return Ok(None) };
        Ok(Some(if ids.is_instance_of::<PyList>() {
            list_of(py, offsets.iter().map(|&offset| new_int(py, offset)))?.into_any()
        } else {
            memoryview(py, offsets)?.into_any()
        }))
    }
}

impl TokenBytes {
    fn offsets_of(&self, ids: &Bound<'_, PyAny>, in_bytes: bool) -> PyResult<Option<Vec<u64>>> {
        let py = ids.py();
        let Some(ids) = Ids::of(ids)? else { return Ok(None) };
        let table = &self.0;
        with_integers!(&ids, ids => work(py, ids.len(), |interrupt| {
            if in_bytes {
                table.byte_offsets(ids, interrupt)
            } else {
                table.character_offsets(ids, interrupt)
            }
        }))
    }
}

/// At most this many ids are joined on the stack.
const MAX_SHORT_IDS: usize = 128;
/// Room on the stack for as many tokens of 16 bytes.
const MAX_SHORT_BYTES: usize = MAX_SHORT_IDS * 16;

/// Joins few ids; None for more ids, for an unknown id, and if `output` is too small.
fn short(table: &Table, ids: &[impl Integer], output: &mut Output<'_>) -> Option<Extent> {
    let few = (ids.len() <= MAX_SHORT_IDS).then_some(ids)?;
    table.join(few, output, &mut Interrupt::never())
}

/// Returns the bytes of many ids, and their extent, in one pass.
///
/// The size is predicted from the first ids, with a quarter added. Returns None if the prediction
/// is too small or exceeds the memory, if there are few ids, or if an id is unknown.
fn at_once<'py>(
    py: Python<'py>,
    table: &Table,
    ids: &[impl Integer + Sync],
) -> PyResult<Option<(Bound<'py, PyBytes>, Extent)>> {
    const SAMPLE_IDS: usize = 1 << 12;
    if ids.len() < 4 * SAMPLE_IDS {
        return Ok(None);
    }
    let first = table.extent(&ids[..SAMPLE_IDS], &mut Interrupt::never());
    let Some(first) = first else { return Ok(None) };
    let most = (first.bytes / 4 * 5).saturating_mul(ids.len() / SAMPLE_IDS + 1);
    let mut extent = None;
    let bytes = new_bytes_at_most(py, most, |output| {
        extent = work(py, ids.len(), |interrupt| table.join(ids, output, interrupt))?;
        Ok(extent.is_some())
    })?;
    Ok(bytes.zip(extent))
}

fn token_bytes(
    tokens: &Bound<'_, PyDict>,
    vocabulary: Option<&NativeVocabulary>,
    mut others: Vec<u32>,
) -> PyResult<Table> {
    let mut first = caught(|| with_room(tokens.len()))?;
    for (id, bytes) in tokens {
        let bytes = PyBackedBytes::from(bytes.cast_into::<PyBytes>()?);
        first.push((id.extract::<u32>()?, bytes));
    }
    let Some(vocabulary) = vocabulary else {
        return caught(|| table_of(first.len(), first.iter(), [].into_iter()));
    };
    caught(|| granted(others.try_reserve(first.len())))?;
    others.extend(first.iter().map(|(id, _)| *id));
    others.sort_unstable();
    let mut others = others.into_iter().peekable();
    let rest = vocabulary.bytes_by_id()?.filter(|&(id, _)| {
        while others.next_if(|&other| other < id).is_some() {}
        others.peek() != Some(&id)
    });
    caught(|| table_of(first.len() + vocabulary.0.id_of.len(), first.iter(), rest))
}

fn table_of<'a>(
    count: usize,
    first: impl Iterator<Item = &'a (u32, PyBackedBytes)>,
    rest: impl Iterator<Item = (u32, &'a [u8])>,
) -> Table {
    let first = first.map(|(id, bytes)| (*id, &bytes[..]));
    match Table::new(count, first.chain(rest).map(Ok::<_, Infallible>)) {
        Ok(table) => table,
    }
}

/// Known ids, and their extent.
pub struct Known<'a, 'py> {
    py: Python<'py>,
    table: &'a Table,
    ids: Ids,
    pub extent: Extent,
}

impl<'a, 'py> Known<'a, 'py> {
    pub fn of(table: &'a Table, ids: &Bound<'py, PyAny>) -> PyResult<Option<Known<'a, 'py>>> {
        Ids::of(ids)?.map_or(Ok(None), |found| Known::new(ids.py(), table, found))
    }

    fn new(py: Python<'py>, table: &'a Table, ids: Ids) -> PyResult<Option<Known<'a, 'py>>> {
        let extent = with_integers!(&ids, ids => {
            work(py, ids.len(), |interrupt| table.extent(ids, interrupt))
        })?;
        Ok(extent.map(|extent| Known { py, table, ids, extent }))
    }

    /// Returns `first` and then the bytes of the ids; None if another thread has changed the ids.
    pub fn bytes_after(&self, first: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        new_bytes(self.py, first, self.extent.bytes, |output| self.fill(output).map(|_| ()))
    }

    /// Returns the text if it is all ASCII; None if another thread has changed the ids.
    #[expect(unsafe_code, reason = "a str of ASCII is filled in place")]
    pub fn ascii(&self) -> PyResult<Option<Bound<'py, PyString>>> {
        if !self.extent.is_ascii() {
            return Ok(None);
        }
        // SAFETY: `fill` returns true only if the bytes that it wrote have the extent of `self`,
        // which says that they are ASCII.
        unsafe { new_ascii(self.py, self.extent.bytes, |output| self.fill(output)) }
    }

    /// Appends the bytes of the ids; returns whether they still have the extent of `self`.
    fn fill(&self, output: &mut Output<'_>) -> PyResult<bool> {
        let Known { table, extent, .. } = *self;
        with_integers!(&self.ids, ids => work(self.py, ids.len(), |interrupt| {
            table.join(ids, output, interrupt) == Some(extent)
        }))
    }
}

/// Does work without Python objects, and releases the GIL if the work is long.
fn work<T: Send>(
    py: Python<'_>,
    length: usize,
    work: impl FnOnce(&mut Interrupt<'_>) -> T + Send,
) -> PyResult<T> {
    if length < GIL_RELEASE_MIN_SIZE {
        caught(|| work(&mut Interrupt::never()))
    } else {
        run(py, true, work)
    }
}
