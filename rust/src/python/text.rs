//! Texts from Python: a `str`, or UTF-8 in a buffer.

use pyo3::buffer::{PyBuffer, PyUntypedBuffer};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use super::ids::{Ids, parts, with_integers};
use super::interrupt::{GIL_RELEASE_MIN_SIZE, run};
use super::object::{new_bytes, new_decoded, new_int, new_tuple};
use crate::interrupt::Interrupt;
use crate::mem::Output;
use crate::split::settled;
use crate::utf8::is_utf8;

/// A text that is kept alive during the work.
pub enum Text<'py> {
    Str(Bound<'py, PyString>),
    Bytes(Bound<'py, PyBytes>),
    Buffer(PyBuffer<u8>),
}

impl<'py> Text<'py> {
    /// Raises the error of `bpetite._arguments.as_str` for other objects.
    pub fn new(object: &Bound<'py, PyAny>) -> PyResult<Text<'py>> {
        if let Ok(text) = object.cast::<PyString>() {
            return Ok(Text::Str(text.clone()));
        }
        let Some(text) = Text::of_bytes(object) else { return Text::decoded(object) };
        let bytes = text.bytes()?;
        let is_utf8 = if bytes.len() < GIL_RELEASE_MIN_SIZE {
            std::str::from_utf8(bytes).is_ok()
        } else {
            let check = |interrupt: &mut Interrupt<'_>| is_utf8(bytes, interrupt);
            run(object.py(), !text.may_change(), check)? == Ok(true)
        };
        if is_utf8 { Ok(text) } else { Text::decoded(object) }
    }

    /// Returns contiguous bytes, which need not be UTF-8; None of any other object.
    pub fn of_bytes(object: &Bound<'py, PyAny>) -> Option<Text<'py>> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Some(Text::Bytes(bytes.clone()));
        }
        let buffer = PyBuffer::get(object).ok()?;
        let is_contiguous = buffer.dimensions() == 1 && buffer.is_c_contiguous();
        is_contiguous.then_some(Text::Buffer(buffer))
    }

    /// Returns the documents between neighbouring offsets; None if one is outside the text or is
    /// not UTF-8.
    pub fn documents(&self, py: Python<'py>, offsets: &Ids) -> PyResult<Option<Vec<&[u8]>>> {
        let bytes = self.bytes()?;
        with_integers!(offsets, offsets => {
            let is_long = bytes.len().max(offsets.len()) >= GIL_RELEASE_MIN_SIZE;
            run(py, is_long && !self.may_change(), |interrupt| {
                parts(bytes, offsets, |text| is_utf8(text, interrupt) == Ok(true))
            })
        })
    }

    /// Lets Python make a `str` of the object, or raise its error.
    fn decoded(object: &Bound<'py, PyAny>) -> PyResult<Text<'py>> {
        let module = object.py().import("bpetite._arguments")?;
        Ok(Text::Str(module.call_method1("as_str", (object,))?.cast_into()?))
    }

    /// Returns the UTF-8; raises UnicodeEncodeError for a lone surrogate.
    pub fn bytes(&self) -> PyResult<&[u8]> {
        match self {
            Text::Str(text) => Ok(text.to_str()?.as_bytes()),
            Text::Bytes(bytes) => Ok(bytes.as_bytes()),
            Text::Buffer(buffer) => Ok(of_buffer(buffer)),
        }
    }

    /// Returns whether Python code may write to the text if the GIL is released.
    pub fn may_change(&self) -> bool {
        matches!(self, Text::Buffer(buffer) if !buffer.readonly())
    }
}

/// Returns the parts of a text that normal form C may change, each with its position in bytes.
/// Normal form C joins no part with the text around it.
#[pyfunction]
pub fn unsettled<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
    let (py, text) = (object.py(), Text::new(object)?);
    let bytes = text.bytes()?;
    let releases = bytes.len() >= GIL_RELEASE_MIN_SIZE && !text.may_change();
    let parts = run(py, releases, |interrupt| settled::unsettled(bytes, interrupt))?;
    let found = PyList::empty(py);
    for (start, end) in parts.unwrap_or_default() {
        let position = new_int(py, start as u64).map(Py::into_any);
        let part = new_decoded(py, &bytes[start..end], c"strict")?.into_any().unbind();
        found.append(new_tuple(py, [position, Some(part)].into_iter())?)?;
    }
    Ok(found)
}

/// Returns the UTF-8 of a text with changes in ascending order: the position, the bytes there, and
/// the bytes that they become.
#[pyfunction]
pub fn changed<'py>(
    object: &Bound<'py, PyAny>,
    changes: &Bound<'py, PyList>,
) -> PyResult<Bound<'py, PyBytes>> {
    let text = Text::new(object)?;
    let bytes = text.bytes()?;
    let mut length = 0;
    take_changed(bytes, changes, |part| length += part.len())?;
    let fill = |output: &mut Output<'_>| take_changed(bytes, changes, |part| _ = output.push(part));
    let changed = new_bytes(object.py(), &[], length, fill)?;
    changed.ok_or_else(|| PyRuntimeError::new_err("the changes of a text changed in this call"))
}

/// Calls `take` for each part of the UTF-8 of a text with changes.
fn take_changed(
    bytes: &[u8],
    changes: &Bound<'_, PyList>,
    mut take: impl FnMut(&[u8]),
) -> PyResult<()> {
    let mut at = 0;
    for change in changes {
        let (start, old, new): (usize, Bound<'_, PyBytes>, Bound<'_, PyBytes>) =
            change.extract()?;
        take(bytes.get(at..start).unwrap_or_default());
        take(new.as_bytes());
        at = start.saturating_add(old.as_bytes().len());
    }
    take(bytes.get(at..).unwrap_or_default());
    Ok(())
}

/// Returns the bytes of a buffer.
///
/// This is a deliberate exception to Rust's rules, by which nobody may write to the bytes of a
/// slice. The GIL keeps other Python threads from a writable buffer, but a free-threaded build has
/// no GIL; besides, another process may write to a mapped file, and an extension module to its own
/// memory. Rust has no type for such text that costs nothing: with a copy, or with atomic bytes,
/// all texts would pay for a few. So the crate reads text only through checked indices, and a text
/// that changes leads to wrong ids or to a RuntimeError, but never to wrong memory access.
#[expect(unsafe_code, reason = "pyo3 has no slice of a buffer that others may write to")]
pub fn of_buffer(buffer: &PyUntypedBuffer) -> &[u8] {
    // SAFETY: callers have checked that the buffer is contiguous and has bytes. It stays in place
    // while `buffer` lives. The comment above is about writes by others.
    unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast(), buffer.len_bytes()) }
}
