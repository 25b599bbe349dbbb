//! Lists for Python, filled in place, and lists of what Python gives.

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

/// Returns the list of `item(0)` to `item(length - 1)`. An item is None if memory is short.
///
/// A long list takes time, so signals are checked meanwhile, and other threads have their turns.
/// They cannot reach the list: the garbage collector, which knows all other lists, does not know
/// this one until it is whole.
#[expect(unsafe_code, reason = "pyo3 has no list that is hidden from the garbage collector")]
pub fn list_of<'py>(
    py: Python<'py>,
    length: usize,
    item: impl Fn(usize) -> Option<Py<PyInt>>,
) -> PyResult<Bound<'py, PyList>> {
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
    let items = unsafe { (*list.as_ptr().cast::<ffi::PyListObject>()).ob_item };
    // SAFETY: a new list has `length` items, all null. Nothing else reads or writes them, and they
    // stay in place, because only this function has a reference to the list.
    let items = unsafe { std::slice::from_raw_parts_mut(items, length) };
    huge_pages::advise_huge_pages(items.as_ptr() as usize, size_of_val(items));
    let mut clock = SignalClock::default();
    for (index, place) in items.iter_mut().enumerate() {
        *place = item(index).ok_or_else(|| PyErr::fetch(py))?.into_ptr();
        if index % CLOCK_ITEMS == CLOCK_ITEMS - 1 {
            clock.check_signals(py)?;
        }
    }
    // SAFETY: the list is whole, and the garbage collector does not know it.
    unsafe { ffi::PyObject_GC_Track(list.as_ptr().cast()) };
    Ok(list)
}
