//! Integers that Python sees as a buffer, without a copy.

use std::ffi::{CStr, c_int, c_void};

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

/// An integer of a buffer, and the letter that the modules struct and array have for it.
pub trait Item: Copy + Send + Sync + 'static {
    const FORMAT: &'static CStr;
}

impl Item for u16 {
    const FORMAT: &'static CStr = c"H";
}

impl Item for u32 {
    const FORMAT: &'static CStr = c"I";
}

impl Item for u64 {
    const FORMAT: &'static CStr = c"Q";
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
pub fn memoryview<T: Item>(py: Python<'_>, mut items: Vec<T>) -> PyResult<Bound<'_, PyMemoryView>> {
    items.shrink_to_fit();
    let array = Array {
        start: items.as_mut_ptr() as usize,
        length: items.len() as ffi::Py_ssize_t,
        item_size: size_of::<T>() as ffi::Py_ssize_t,
        format: T::FORMAT,
        _owner: Box::new(items),
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
