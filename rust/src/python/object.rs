//! Python objects: new ones, most of them filled in place without a copy, and characters of texts.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::{ptr, slice};

use pyo3::exceptions::PyMemoryError;
use pyo3::ffi;
use pyo3::ffi::compat::{
    PyBytesWriter_Create, PyBytesWriter_Discard, PyBytesWriter_FinishWithSize,
    PyBytesWriter_GetData,
};
use pyo3::prelude::*;
use pyo3::types::string::PyStringData;
use pyo3::types::{PyBytes, PyInt, PyString, PyTuple};

use crate::mem::Output;

/// Returns an int, or sets a MemoryError and returns None.
#[inline]
#[expect(unsafe_code, reason = "pyo3 panics if memory is short")]
pub fn new_int(py: Python<'_>, value: u64) -> Option<Py<PyInt>> {
    // SAFETY: this thread is attached to the interpreter.
    let int = unsafe { ffi::PyLong_FromUnsignedLongLong(value) };
    // SAFETY: the pointer is a new reference, or null.
    let int = unsafe { Bound::from_owned_ptr_or_opt(py, int) }?;
    // SAFETY: the object is an int.
    Some(unsafe { int.cast_into_unchecked() }.unbind())
}

#[expect(unsafe_code, reason = "pyo3 panics if memory is short")]
pub fn copied_bytes<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let size = size(bytes.len())?;
    // SAFETY: this thread is attached, and there are `size` bytes.
    let copy = unsafe { ffi::PyBytes_FromStringAndSize(bytes.as_ptr().cast(), size) };
    // SAFETY: the pointer is a new reference, or null while an exception is set.
    Ok(unsafe { Bound::from_owned_ptr_or_err(py, copy) }?.cast_into()?)
}

/// Returns a tuple of objects. A None among them means that memory was short and that a MemoryError
/// is set.
#[expect(unsafe_code, reason = "pyo3 panics if memory is short")]
pub fn new_tuple<'py, T>(
    py: Python<'py>,
    objects: impl ExactSizeIterator<Item = Option<Py<T>>>,
) -> PyResult<Bound<'py, PyTuple>> {
    // SAFETY: this thread is attached to the interpreter.
    let tuple = unsafe { ffi::PyTuple_New(size(objects.len())?) };
    // SAFETY: the pointer is a new reference, or null while an exception is set.
    let tuple = unsafe { Bound::from_owned_ptr_or_err(py, tuple) }?.cast_into::<PyTuple>()?;
    for (object, index) in objects.zip(0..) {
        let object = object.ok_or_else(|| PyErr::fetch(py))?;
        // SAFETY: nothing else has a reference to the tuple; an index out of range is an error.
        unsafe { ffi::PyTuple_SetItem(tuple.as_ptr(), index, object.into_ptr()) };
    }
    Ok(tuple)
}

/// Returns new bytes: `first`, and `more` bytes that `fill` appends; None if it appends fewer.
#[expect(unsafe_code, reason = "pyo3 clears new bytes before it hands them out")]
pub fn new_bytes<'py>(
    py: Python<'py>,
    first: &[u8],
    more: usize,
    fill: impl FnOnce(&mut Output<'_>) -> PyResult<()>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let length = first.len().saturating_add(more);
    let size = size(length)?;
    // SAFETY: this thread is attached; null asks for bytes that are not initialised.
    let bytes = unsafe { ffi::PyBytes_FromStringAndSize(ptr::null(), size) };
    // SAFETY: the pointer is a new reference, or null while an exception is set.
    let bytes = unsafe { Bound::from_owned_ptr_or_err(py, bytes) }?.cast_into::<PyBytes>()?;
    // SAFETY: the object is of type bytes.
    let memory = unsafe { ffi::PyBytes_AS_STRING(bytes.as_ptr()) };
    // SAFETY: there are `length` bytes, and only this function has a reference to them.
    let mut output = unsafe { output_at(memory.cast_mut().cast(), length) };
    output.push(first);
    fill(&mut output)?;
    Ok((output.filled() == length).then_some(bytes))
}

/// Returns at most `max_length` new bytes that `fill` fills; None if it returns false, or if memory
/// has no room for `max_length` bytes.
#[expect(unsafe_code, reason = "pyo3 has no bytes of unknown length")]
pub fn new_bytes_at_most<'py>(
    py: Python<'py>,
    max_length: usize,
    fill: impl FnOnce(&mut Output<'_>) -> PyResult<bool>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let Ok(size) = size(max_length) else { return Ok(None) };
    // SAFETY: this thread is attached to the interpreter.
    let writer = unsafe { PyBytesWriter_Create(size) };
    if writer.is_null() {
        drop(PyErr::take(py));
        return Ok(None);
    }
    // SAFETY: the writer is neither finished nor discarded.
    let memory = unsafe { PyBytesWriter_GetData(writer) };
    // SAFETY: the writer has room for `max_length` bytes, and only this function uses it.
    let mut output = unsafe { output_at(memory.cast(), max_length) };
    let is_filled = fill(&mut output);
    if !matches!(is_filled, Ok(true)) {
        // SAFETY: the writer is neither finished nor discarded.
        unsafe { PyBytesWriter_Discard(writer) };
        return is_filled.map(|_| None);
    }
    let size = output.filled() as ffi::Py_ssize_t;
    // SAFETY: the writer is neither finished nor discarded, and its first `size` bytes are filled.
    let bytes = unsafe { PyBytesWriter_FinishWithSize(writer, size) };
    // SAFETY: the pointer is a new reference, or null while an exception is set.
    let bytes = unsafe { Bound::from_owned_ptr_or_err(py, bytes) }?;
    Ok(Some(bytes.cast_into()?))
}

/// Returns a new str of this length, or None unless `fill` returns true and fills all of it.
///
/// # Safety
///
/// If `fill` returns true, it must have written only ASCII.
#[expect(unsafe_code, reason = "pyo3 has no str that is filled in place")]
pub unsafe fn new_ascii<'py>(
    py: Python<'py>,
    length: usize,
    fill: impl FnOnce(&mut Output<'_>) -> PyResult<bool>,
) -> PyResult<Option<Bound<'py, PyString>>> {
    let size = size(length)?;
    // SAFETY: this thread is attached; U+007F is a code point.
    let text = unsafe { ffi::PyUnicode_New(size, 0x7F) };
    // SAFETY: the pointer is a new reference, or null while an exception is set.
    let text = unsafe { Bound::from_owned_ptr_or_err(py, text) }?.cast_into::<PyString>()?;
    // SAFETY: the object is a str in its final form.
    let memory = unsafe { ffi::PyUnicode_DATA(text.as_ptr()) };
    // SAFETY: a str up to U+007F has a byte for each of its `length` characters, and only this
    // function has a reference to it.
    let mut output = unsafe { output_at(memory.cast(), length) };
    let is_ascii = fill(&mut output)?;
    Ok((is_ascii && output.filled() == length).then_some(text))
}

/// Returns memory as output that is still empty.
///
/// # Safety
///
/// The `length` bytes from `start` on must be allocated, and used only through the result.
#[expect(unsafe_code, reason = "the memory of new Python objects")]
unsafe fn output_at<'a>(start: *mut MaybeUninit<u8>, length: usize) -> Output<'a> {
    // SAFETY: the caller keeps the contract above. `MaybeUninit` needs no initialised bytes.
    Output::new(unsafe { slice::from_raw_parts_mut(start, length) })
}

/// Returns the characters of a `str`, which has no more UTF-8 afterwards than before.
#[inline]
#[expect(unsafe_code, reason = "pyo3 reads only the UTF-8 of a str")]
pub fn characters<'a>(text: &'a Bound<'_, PyString>) -> PyResult<PyStringData<'a>> {
    // SAFETY: a str never changes, and is little-endian or big-endian as the processor is.
    unsafe { text.data() }
}

#[expect(unsafe_code, reason = "pyo3 makes a str only of UTF-8")]
pub fn new_text<'py>(py: Python<'py>, characters: &[char]) -> PyResult<Bound<'py, PyAny>> {
    let (kind, size) = (ffi::PyUnicode_4BYTE_KIND as i32, size(characters.len())?);
    // SAFETY: a char is a code point of four bytes, and there are `size` of them.
    let text = unsafe { ffi::PyUnicode_FromKindAndData(kind, characters.as_ptr().cast(), size) };
    // SAFETY: the pointer is a new reference, or null while an exception is set.
    unsafe { Bound::from_owned_ptr_or_err(py, text) }
}

/// Returns a new str of UTF-8. Python handles bad bytes as `errors` says.
#[expect(unsafe_code, reason = "pyo3 decodes strictly")]
pub fn new_decoded<'py>(
    py: Python<'py>,
    bytes: &[u8],
    errors: &CStr,
) -> PyResult<Bound<'py, PyString>> {
    let (data, size) = (bytes.as_ptr().cast(), size(bytes.len())?);
    // SAFETY: there are `size` bytes of data.
    let text = unsafe { ffi::PyUnicode_DecodeUTF8(data, size, errors.as_ptr()) };
    // SAFETY: the pointer is a new reference, or null while an exception is set.
    let text = unsafe { Bound::from_owned_ptr_or_err(py, text) }?;
    Ok(text.cast_into()?)
}

fn size(length: usize) -> PyResult<ffi::Py_ssize_t> {
    length.try_into().map_err(|_| PyMemoryError::new_err("more bytes than memory can hold"))
}
