//! Lists that are filled as they are made.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList};

use crate::pages;

/// Returns a list of so many integers, `item` giving each by its place.
#[allow(unsafe_code)]
pub fn list_of<'py>(
    py: Python<'py>,
    length: usize,
    item: impl Fn(usize) -> Py<PyInt>,
) -> PyResult<Bound<'py, PyList>> {
    // SAFETY: a list of this length is made, and nobody else has it until all its items, which
    // are null at first, have been set, once each. It takes over the references to them.
    unsafe {
        let list: Bound<'py, PyList> =
            Bound::from_owned_ptr_or_err(py, ffi::PyList_New(length as ffi::Py_ssize_t))?
                .cast_into_unchecked();
        let items = (*list.as_ptr().cast::<ffi::PyListObject>()).ob_item;
        pages::advise(items as usize, length * size_of::<*mut ffi::PyObject>());
        for i in 0..length {
            ffi::PyList_SET_ITEM(list.as_ptr(), i as ffi::Py_ssize_t, item(i).into_ptr());
        }
        Ok(list)
    }
}
