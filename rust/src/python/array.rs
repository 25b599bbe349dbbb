//! Integers that Python sees as a buffer, without a copy.

use std::ffi::{CStr, c_int, c_void};

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

use crate::encode::Id;

/// An integer of a buffer, and the letter that the modules struct and array have for it.
pub trait Item: Copy + Send + Sync + 'static {
    const FORMAT: &'static CStr;

    /// Returns a list with little more memory than it needs.
    fn fitted(items: Vec<Self>) -> Vec<Self>;

    /// Takes back the memory of a list.
    fn give(items: Vec<Self>);
}

impl Item for u16 {
    const FORMAT: &'static CStr = c"H";

    fn fitted(items: Vec<u16>) -> Vec<u16> {
        u16::kept().fitted(items)
    }

    fn give(items: Vec<u16>) {
        u16::kept().give(items);
    }
}

impl Item for u32 {
    const FORMAT: &'static CStr = c"I";

    fn fitted(items: Vec<u32>) -> Vec<u32> {
        u32::kept().fitted(items)
    }

    fn give(items: Vec<u32>) {
        u32::kept().give(items);
    }
}

impl Item for u64 {
    const FORMAT: &'static CStr = c"Q";

    fn fitted(mut items: Vec<u64>) -> Vec<u64> {
        items.shrink_to_fit();
        items
    }

    fn give(_items: Vec<u64>) {}
}

/// Items whose memory is given back in the end.
struct Owned<T: Item>(Vec<T>);

impl<T: Item> Drop for Owned<T> {
    fn drop(&mut self) {
        T::give(std::mem::take(&mut self.0));
    }
}

/// What owns the integers of a memoryview.
#[pyclass(frozen, module = "bpetite._native")]
pub struct Array {
    /// Frees the integers; nothing here reads or writes them.
    _owner: Box<dyn std::any::Any + Send + Sync>,
    start: usize,
    length: ffi::Py_ssize_t,
    item_size: ffi::Py_ssize_t,
    format: &'static CStr,
}

/// Returns a memoryview of integers, which may be written to.
pub fn memoryview<T: Item>(py: Python<'_>, items: Vec<T>) -> PyResult<Bound<'_, PyMemoryView>> {
    let mut items = T::fitted(items);
    let array = Array {
        start: items.as_mut_ptr() as usize,
        length: items.len() as ffi::Py_ssize_t,
        item_size: size_of::<T>() as ffi::Py_ssize_t,
        format: T::FORMAT,
        _owner: Box::new(Owned(items)),
    };
    PyMemoryView::from(Bound::new(py, array)?.as_any())
}

#[pymethods]
#[allow(unsafe_code)]
impl Array {
    /// Fills in what Python asks a buffer for.
    ///
    /// # Safety
    ///
    /// `view` must be what CPython's buffer protocol gives: none, or one that may be written to.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view to fill in"));
        }
        let array = slf.get();
        let asks = |flag: c_int| flags & flag == flag;
        let (length, item_size) = (&raw const array.length, &raw const array.item_size);
        // SAFETY: the caller gives a view that may be written to. What it points to then, the
        // integers and this object's fields, stays where it is while the object lives, and the
        // view has a reference to that. The integers are written to through views alone.
        unsafe {
            (*view).buf = array.start as *mut c_void;
            (*view).len = array.length * array.item_size;
            (*view).readonly = 0;
            (*view).itemsize = array.item_size;
            (*view).format = std::ptr::null_mut();
            if asks(ffi::PyBUF_FORMAT) {
                (*view).format = array.format.as_ptr().cast_mut();
            }
            (*view).ndim = 1;
            (*view).shape = std::ptr::null_mut();
            if asks(ffi::PyBUF_ND) {
                (*view).shape = length.cast_mut();
            }
            (*view).strides = std::ptr::null_mut();
            if asks(ffi::PyBUF_STRIDES) {
                (*view).strides = item_size.cast_mut();
            }
            (*view).suboffsets = std::ptr::null_mut();
            (*view).internal = std::ptr::null_mut();
            (*view).obj = slf.into_ptr();
        }
        Ok(())
    }
}
