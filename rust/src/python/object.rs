//! New objects of Python that are filled where they are, so that nothing is copied.

use std::mem::MaybeUninit;
use std::{ptr, slice};

use pyo3::exceptions::PyMemoryError;
use pyo3::ffi;
use pyo3::ffi::compat::{
    PyBytesWriter_Create, PyBytesWriter_Discard, PyBytesWriter_FinishWithSize,
    PyBytesWriter_GetData,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::decode::copy;

/// Returns new bytes, which `fill` fills; None if it says that it did not.
#[allow(unsafe_code)]
pub fn new_bytes<'py>(
    py: Python<'py>,
    length: usize,
    fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> PyResult<bool>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    // SAFETY: the object is new and no one else's, and has room for so many bytes.
    unsafe {
        let bytes = ffi::PyBytes_FromStringAndSize(ptr::null(), size(length)?);
        let bytes = Bound::from_owned_ptr_or_err(py, bytes)?;
        let place = ffi::PyBytes_AS_STRING(bytes.as_ptr()) as *mut MaybeUninit<u8>;
        let is_full = fill(slice::from_raw_parts_mut(place, length))?;
        Ok(is_full.then(|| bytes.cast_into_unchecked()))
    }
}

/// Returns new bytes, no more than so many, of which `fill` fills the first and says how many they
/// are; None if it says that it did not, and if memory has no room for so many: all may be fewer.
#[allow(unsafe_code)]
pub fn new_bytes_at_most<'py>(
    py: Python<'py>,
    most: usize,
    fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> PyResult<Option<usize>>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let Ok(size) = size(most) else { return Ok(None) };
    // SAFETY: the writer is new and no one else's, and has room for so many bytes. It is given up,
    // or finished, once; what it gives then is an object, or nothing and an exception.
    unsafe {
        let writer = PyBytesWriter_Create(size);
        if writer.is_null() {
            drop(PyErr::take(py));
            return Ok(None);
        }
        let place = PyBytesWriter_GetData(writer) as *mut MaybeUninit<u8>;
        let filled = fill(slice::from_raw_parts_mut(place, most));
        let Ok(Some(length)) = filled else {
            PyBytesWriter_Discard(writer);
            return filled.map(|_| None);
        };
        let bytes = PyBytesWriter_FinishWithSize(writer, length.min(most) as ffi::Py_ssize_t);
        Ok(Some(Bound::from_owned_ptr_or_err(py, bytes)?.cast_into_unchecked()))
    }
}

/// Returns new bytes: these, and so many behind them, which `fill` fills; None as `new_bytes` does.
pub fn new_bytes_behind<'py>(
    py: Python<'py>,
    first: &[u8],
    length: usize,
    fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> PyResult<bool>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    new_bytes(py, first.len().saturating_add(length), |place| {
        let (start, rest) = place.split_at_mut(first.len());
        copy(first, start);
        fill(rest)
    })
}

/// Returns a new str, which `fill` fills with ASCII; None if it says that it did not.
#[allow(unsafe_code)]
pub fn new_ascii<'py>(
    py: Python<'py>,
    length: usize,
    fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> PyResult<bool>,
) -> PyResult<Option<Bound<'py, PyString>>> {
    // SAFETY: the object is new and no one else's, and has room for so many characters of a byte,
    // since the highest that it may have is U+007F.
    unsafe {
        let text = ffi::PyUnicode_New(size(length)?, 0x7F);
        let text = Bound::from_owned_ptr_or_err(py, text)?;
        let place = ffi::PyUnicode_DATA(text.as_ptr()) as *mut MaybeUninit<u8>;
        let is_full = fill(slice::from_raw_parts_mut(place, length))?;
        Ok(is_full.then(|| text.cast_into_unchecked()))
    }
}

/// Returns a new str of these characters.
#[allow(unsafe_code)]
pub fn new_text<'py>(py: Python<'py>, characters: &[char]) -> PyResult<Bound<'py, PyAny>> {
    let kind = ffi::PyUnicode_4BYTE_KIND as i32;
    // SAFETY: a char is a code point of four bytes, and the interpreter copies so many of them.
    unsafe {
        let data = characters.as_ptr().cast();
        let text = ffi::PyUnicode_FromKindAndData(kind, data, size(characters.len())?);
        Bound::from_owned_ptr_or_err(py, text)
    }
}

/// Returns a new str of UTF-8, with U+FFFD for each longest beginning of a character that is none.
#[allow(unsafe_code)]
pub fn new_decoded<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the interpreter reads so many bytes, and a string of C.
    unsafe {
        let data = bytes.as_ptr().cast();
        let errors = c"replace".as_ptr();
        let text = ffi::PyUnicode_DecodeUTF8(data, size(bytes.len())?, errors);
        Bound::from_owned_ptr_or_err(py, text)
    }
}

fn size(length: usize) -> PyResult<ffi::Py_ssize_t> {
    length.try_into().map_err(|_| PyMemoryError::new_err("more bytes than memory can hold"))
}
