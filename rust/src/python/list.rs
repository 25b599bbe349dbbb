//! Lists that are filled as they are made.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList};

/// Lists of so many items or more are on pages of their own: 4 MB.
const LARGE: usize = 1 << 19;

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
        if length >= LARGE {
            let items = (*list.as_ptr().cast::<ffi::PyListObject>()).ob_item;
            use_large_pages(items.cast(), length * size_of::<*mut ffi::PyObject>());
        }
        for i in 0..length {
            ffi::PyList_SET_ITEM(list.as_ptr(), i as ffi::Py_ssize_t, item(i).into_ptr());
        }
        Ok(list)
    }
}

/// Asks the system for large pages where memory is that is about to be written to: with small ones
/// it would be interrupted for each, which takes as long as filling a list does.
#[allow(unsafe_code)]
unsafe fn use_large_pages(start: *mut u8, length: usize) {
    #[cfg(target_os = "linux")]
    {
        const SMALL: usize = 4096;
        let first = (start as usize).next_multiple_of(SMALL);
        let length = (start as usize + length).saturating_sub(first) / SMALL * SMALL;
        // SAFETY: this is advice on memory that is there, which changes nothing in it.
        unsafe { libc::madvise(first as *mut _, length, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, length);
}
