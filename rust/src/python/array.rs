//! Integers as a Python buffer, without a copy.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

use super::interrupt::caught;
use crate::encode::Id;
use crate::mem::pool::BufferPool;

/// An integer of a buffer; `FORMAT` is its code in the modules struct and array.
pub trait Item: Copy + Send + Sync + 'static {
    const FORMAT: &'static CStr;

    /// Returns the pool of spare buffers, if the type has one.
    fn buffer_pool() -> Option<&'static BufferPool<Self>>;
}

macro_rules! items {
    ($($type:ty: $format:literal, $pool:expr;)*) => {
        $(impl Item for $type {
            const FORMAT: &'static CStr = $format;

            fn buffer_pool() -> Option<&'static BufferPool<$type>> {
                $pool
            }
        })*
    };
}

items! {
    u16: c"H", Some(u16::pool());
    u32: c"I", Some(u32::pool());
    u64: c"Q", None;
}

/// Items whose memory returns to the pool when they are dropped.
struct Owned<T: Item>(Vec<T>);

impl<T: Item> Drop for Owned<T> {
    fn drop(&mut self) {
        T::buffer_pool().inspect(|pool| pool.put_back(std::mem::take(&mut self.0)));
    }
}

/// The owner of the integers of a memoryview.
#[pyclass(frozen, module = "bpetite._engine._native")]
pub struct Array {
    /// Frees the integers in the end. Only views read and write them.
    _owner: Box<dyn std::any::Any + Send + Sync>,
    start: usize,
    length: ffi::Py_ssize_t,
    item_size: ffi::Py_ssize_t,
    format: &'static CStr,
}

pub type View<'py> = PyResult<Bound<'py, PyMemoryView>>;

/// Returns a writable memoryview of integers; a much longer buffer is first replaced by a copy.
pub fn memoryview<T: Item>(py: Python<'_>, mut items: Vec<T>) -> View<'_> {
    match T::buffer_pool() {
        Some(pool) => items = caught(|| pool.shrunk(items))?,
        None => items.shrink_to_fit(),
    }
    memoryview_with_surplus(py, items)
}

/// Returns a writable memoryview of integers in the buffer that they have.
pub fn memoryview_with_surplus<T: Item>(py: Python<'_>, mut items: Vec<T>) -> View<'_> {
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
#[expect(unsafe_code, reason = "Python's buffer protocol")]
impl Array {
    /// Fills in a view, as the buffer protocol asks.
    ///
    /// # Safety
    ///
    /// `view` must be null or writable, as the buffer protocol says.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view to fill in"));
        }
        let array = slf.get();
        let is_requested = |flag: c_int| flags & flag == flag;
        let pointer = |flag, field: &ffi::Py_ssize_t| {
            if is_requested(flag) { ptr::from_ref(field).cast_mut() } else { ptr::null_mut() }
        };
        let format = is_requested(ffi::PyBUF_FORMAT).then_some(array.format.as_ptr().cast_mut());
        let filled = ffi::Py_buffer {
            buf: array.start as *mut c_void,
            len: array.length * array.item_size,
            itemsize: array.item_size,
            readonly: 0,
            ndim: 1,
            format: format.unwrap_or(ptr::null_mut()),
            shape: pointer(ffi::PyBUF_ND, &array.length),
            strides: pointer(ffi::PyBUF_STRIDES, &array.item_size),
            obj: slf.into_ptr(),
            ..ffi::Py_buffer::new()
        };
        // SAFETY: the caller gives a view that may be written to. Its reference to `self` keeps
        // the integers, and the fields that it points to, in place.
        unsafe { view.write(filled) };
        Ok(())
    }
}
