//! Lists that are filled as they are made.

use std::time::Instant;

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList};

use super::text::INTERVAL;
use crate::pages;

/// After how many items it is asked whether Python wants to interrupt.
const SOME: usize = 1 << 16;

/// Returns a list of so many integers, `item` giving each by its place.
///
/// Where it takes long, signals are looked at and other threads have their turns now and then.
#[allow(unsafe_code)]
pub fn list_of<'py>(
    py: Python<'py>,
    length: usize,
    item: impl Fn(usize) -> Py<PyInt>,
) -> PyResult<Bound<'py, PyList>> {
    // SAFETY: a list of this length is made, and each of its items, which are null at first, is set
    // once. It takes over the references to them. Nobody else is given it before; but code that
    // runs meanwhile could find it among all objects, so it is no longer than what has been set
    // then, and is given up if its items are not where they were.
    unsafe {
        let list: Bound<'py, PyList> =
            Bound::from_owned_ptr_or_err(py, ffi::PyList_New(length as ffi::Py_ssize_t))?
                .cast_into_unchecked();
        let items = (*list.as_ptr().cast::<ffi::PyListObject>()).ob_item;
        pages::advise(items as usize, length * size_of::<*mut ffi::PyObject>());
        let mut last = None;
        for i in 0..length {
            ffi::PyList_SET_ITEM(list.as_ptr(), i as ffi::Py_ssize_t, item(i).into_ptr());
            let done = i + 1;
            if !done.is_multiple_of(SOME) {
                continue;
            }
            if last.get_or_insert_with(Instant::now).elapsed() < INTERVAL {
                continue;
            }
            let object = list.as_ptr().cast::<ffi::PyListObject>();
            (*object).ob_base.ob_size = done as ffi::Py_ssize_t;
            py.detach(|| ());
            py.check_signals()?;
            if list.len() != done || (*object).ob_item != items {
                return Err(PyRuntimeError::new_err("a list was changed before it was made"));
            }
            (*object).ob_base.ob_size = length as ffi::Py_ssize_t;
            last = None;
        }
        Ok(list)
    }
}
