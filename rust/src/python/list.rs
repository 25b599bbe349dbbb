//! Lists for Python, which are filled in place, and lists gathered from Python.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList};

use super::interrupt::{SignalClock, caught};
use crate::mem::growth::{push, with_room};
use crate::mem::huge_pages;

/// The number of items between two looks at the clock.
const CLOCK_ITEMS: usize = 1 << 16;

/// Returns the `count` items of an iterator, or its first error.
pub fn gathered<T>(count: usize, mut items: impl Iterator<Item = PyResult<T>>) -> PyResult<Vec<T>> {
    caught(|| {
        let mut list = with_room(count);
        items.try_for_each(|item| item.map(|item| push(&mut list, item)))?;
        Ok(list)
    })?
}

/// Returns the list of items. If memory is short, an item is None, and a MemoryError is set.
///
/// Because a long list takes time, signals are checked meanwhile, and other threads have their
/// turns. They cannot reach the unfinished list, because the garbage collector, from which they
/// could get it, learns of it only when it is whole.
#[expect(unsafe_code, reason = "pyo3 has no list that is hidden from the garbage collector")]
pub fn list_of<'py>(
    py: Python<'py>,
    mut items: impl ExactSizeIterator<Item = Option<Py<PyInt>>>,
) -> PyResult<Bound<'py, PyList>> {
    let length = items.len();
    if length == 0 {
        return Ok(PyList::empty(py));
    }
    // SAFETY: this thread is attached to the interpreter; the length of a `Vec` fits the type.
    let list = unsafe { ffi::PyList_New(length as ffi::Py_ssize_t) };
    // SAFETY: the pointer is a new reference, or null while an exception is set.
    let list = unsafe { Bound::from_owned_ptr_or_err(py, list) }?.cast_into::<PyList>()?;
    // SAFETY: this is an object with a header of the garbage collector. Between its creation and
    // this call the thread neither detaches nor runs Python code, so no other thread has found it.
    unsafe { ffi::PyObject_GC_UnTrack(list.as_ptr().cast()) };
    // SAFETY: the object is a list, and nothing else reads or writes its fields.
    let places = unsafe { (*list.as_ptr().cast::<ffi::PyListObject>()).ob_item };
    // SAFETY: a new list has `length` items, all null. Nothing else reads or writes them, and they
    // stay in place, because only this function has a reference to the list.
    let places = unsafe { std::slice::from_raw_parts_mut(places, length) };
    huge_pages::advise_huge_pages(places.as_ptr() as usize, size_of_val(places));
    let mut clock = SignalClock::default();
    // The inner loop has neither clock nor errors, so that its few values stay in registers.
    for places in places.chunks_mut(CLOCK_ITEMS) {
        for (place, item) in places.iter_mut().zip(&mut items) {
            let Some(item) = item else { return Err(PyErr::fetch(py)) };
            *place = item.into_ptr();
        }
        if places.len() == CLOCK_ITEMS {
            clock.check_signals(py)?;
        }
    }
    // SAFETY: the list is whole, and the garbage collector does not know it yet.
    unsafe { ffi::PyObject_GC_Track(list.as_ptr().cast()) };
    Ok(list)
}
