//! Ids from Python: lists of ints, and buffers of integers.

use std::ffi::CStr;
use std::slice;
use std::sync::atomic::AtomicU32;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::sync::critical_section::with_critical_section;
use pyo3::types::{PyList, PyMemoryView};

use super::interrupt::SignalClock;
use crate::decode::Integer;
use crate::mem::growth::{push, with_room};

/// Ids that can be read several times.
pub enum Ids {
    List(Vec<AtomicU32>),
    Buffer(Buffer),
}

impl Ids {
    /// Returns the ids of a list of plain ints from 0 to 2**32 - 1, or of a buffer of integers;
    /// None of anything else.
    pub fn of(ids: &Bound<'_, PyAny>) -> PyResult<Option<Ids>> {
        match ids.cast_exact::<PyList>() {
            Ok(list) => Ok(of_list(list)?.map(Ids::List)),
            Err(_) => Ok(Buffer::of(ids).map(Ids::Buffer)),
        }
    }
}

/// Does work with the integers as a slice of their own type, which can be read without the GIL.
macro_rules! with_integers {
    ($ids:expr, $integers:ident => $work:expr) => {
        with_integers!($ids, $integers => $work,
            (true, 1) => AtomicI8, (false, 1) => AtomicU8,
            (true, 2) => AtomicI16, (false, 2) => AtomicU16,
            (true, 4) => AtomicI32, (false, 4) => AtomicU32,
            (true, _) => AtomicI64, (false, _) => AtomicU64)
    };
    ($ids:expr, $integers:ident => $work:expr, $($kind:pat => $type:ident),*) => {
        match $ids {
            Ids::List(list) => {
                let $integers = &list[..];
                $work
            }
            Ids::Buffer(buffer) => match buffer.kind() {
                $($kind => {
                    let $integers = buffer.slice::<std::sync::atomic::$type>();
                    $work
                })*
            },
        }
    };
}
pub(super) use with_integers;

/// Returns the parts of a text between neighbouring offsets. Returns None unless the offsets
/// ascend, are in the text, and split it between characters. `is_utf8` checks the text between the
/// first and the last offset.
pub fn parts<'t>(
    text: &'t [u8],
    offsets: &[impl Integer],
    is_utf8: impl FnOnce(&[u8]) -> bool,
) -> Option<Vec<&'t [u8]>> {
    let mut offsets = offsets.iter().map(|offset| usize::try_from(offset.value()).ok());
    let first = offsets.next()??;
    let mut start = first;
    let mut parts = with_room(offsets.len());
    for end in offsets {
        let part = text.get(start..end?)?;
        if start > first && part.first().is_some_and(|byte| byte & 0xC0 == 0x80) {
            return None;
        }
        push(&mut parts, part);
        start += part.len();
    }
    is_utf8(text.get(first..start)?).then_some(parts)
}

/// The number of ids between two looks at the clock.
const CHUNK_IDS: usize = 1 << 18;

/// Returns the ids of a list of plain ints; None for other items, and if another thread changes the
/// length.
#[expect(unsafe_code, reason = "pyo3 reads an int much more slowly")]
fn of_list(list: &Bound<'_, PyList>) -> PyResult<Option<Vec<AtomicU32>>> {
    let digits = Digits::get(list.py());
    let length = list.len();
    let mut ids = Vec::new();
    if ids.try_reserve_exact(length).is_err() {
        return Ok(None);
    }
    let mut clock = SignalClock::default();
    while ids.len() < length {
        if !ids.is_empty() {
            clock.check_signals(list.py())?;
        }
        // Without a GIL, the critical section keeps other threads away.
        let is_read = with_critical_section(list, || {
            if list.len() != length {
                return false;
            }
            let some = ids.len()..length.min(ids.len() + CHUNK_IDS);
            // SAFETY: the length was checked, and the critical section keeps other threads away.
            let read = |index| unsafe { digits.read(list, index) };
            some.into_iter().all(|index| read(index).map(|id| ids.push(id)).is_some())
        });
        if !is_read {
            return Ok(None);
        }
    }
    // Pushing atomic integers would be slower, while this conversion copies nothing.
    Ok(Some(ids.into_iter().map(AtomicU32::new).collect()))
}

/// Recognises an int of one digit by the word after its header.
///
/// The word has the number of digits and the sign. After it comes the digit, which is the value.
#[derive(Clone, Copy)]
pub struct Digits {
    /// The bits of the word that matter.
    mask: usize,
    /// Their value in a positive int of one digit.
    one: usize,
}

impl Digits {
    /// Returns the word of the running Python, which the first call looks up.
    pub fn get(py: Python<'_>) -> Digits {
        static DIGITS: PyOnceLock<Digits> = PyOnceLock::new();
        *DIGITS.get_or_init(py, || Digits::of(py))
    }

    fn of(py: Python<'_>) -> Digits {
        let bits = py.import("sys").and_then(|sys| sys.getattr("int_info"));
        let bits = bits.and_then(|info| info.getattr("bits_per_digit")?.extract::<u32>());
        let version = py.version_info();
        match (version.major, version.minor, bits) {
            (3, 11, Ok(30)) => Digits { mask: usize::MAX, one: 1 },
            (3, 12..=15, Ok(30)) => Digits { mask: !4, one: 1 << 3 },
            // In an unknown version, the mask 0 recognises no int.
            _ => Digits { mask: 0, one: 1 },
        }
    }

    /// Returns the id at an index of a list; None unless it is an int from 0 to 2**32 - 1.
    ///
    /// # Safety
    ///
    /// The index must be below the length, and no other thread may change the list meanwhile.
    #[inline]
    #[expect(unsafe_code, reason = "pyo3 reads an int much more slowly")]
    unsafe fn read(self, list: &Bound<'_, PyList>, index: usize) -> Option<u32> {
        #[repr(C)]
        struct Int {
            header: ffi::PyObject,
            word: usize,
            digit: u32,
        }

        // SAFETY: the caller keeps the contract above.
        let item = unsafe { ffi::PyList_GET_ITEM(list.as_ptr(), index as ffi::Py_ssize_t) };
        // SAFETY: the list keeps the item alive, because no Python code runs in this function.
        if unsafe { ffi::PyLong_CheckExact(item) } == 0 {
            return None;
        }
        let int = item.cast::<Int>();
        // SAFETY: an int has a word after its header in every version with a mask.
        if self.mask != 0 && unsafe { (*int).word } & self.mask == self.one {
            // SAFETY: the word says that the int has one digit, which comes after the word.
            return Some(unsafe { (*int).digit });
        }
        let mut overflow = 0;
        // SAFETY: the item is an int.
        let value = unsafe { ffi::PyLong_AsLongLongAndOverflow(item, &mut overflow) };
        u32::try_from(value).ok().filter(|_| overflow == 0)
    }
}

/// The integers that an object exports as an array.
pub struct Buffer {
    /// In a box, because the exporter may keep pointers into it.
    view: Box<ffi::Py_buffer>,
    format: u8,
}

impl Buffer {
    /// Returns the integers of an array.array, a memoryview or a NumPy array. The array must be
    /// contiguous, have one dimension and contain integers; returns None of anything else.
    #[expect(unsafe_code, reason = "pyo3 reads buffers of one type at a time")]
    fn of(ids: &Bound<'_, PyAny>) -> Option<Buffer> {
        if !yields_its_integers(ids) {
            return None;
        }
        let mut buffer = Buffer { view: Box::new(ffi::Py_buffer::new()), format: 0 };
        let view = &mut *buffer.view;
        let flags = ffi::PyBUF_FORMAT | ffi::PyBUF_C_CONTIGUOUS;
        // SAFETY: nothing else uses the view. If the call fails, the view has no object, and may
        // be released.
        if unsafe { ffi::PyObject_GetBuffer(ids.as_ptr(), view, flags) } != 0 {
            drop(PyErr::take(ids.py()));
            return None;
        }
        if view.ndim != 1 || view.format.is_null() {
            return None;
        }
        // SAFETY: the format is a string of C, and lives as long as the view.
        let &[format] = unsafe { CStr::from_ptr(view.format) }.to_bytes() else { return None };
        buffer.format = format;
        let is_known = b"bBhHiIlLqQnN".contains(&format) && matches!(view.itemsize, 1 | 2 | 4 | 8);
        // Atomic integers must be aligned.
        let is_aligned = view.len == 0 || view.buf.addr().is_multiple_of(view.itemsize as usize);
        (is_known && is_aligned).then_some(buffer)
    }

    /// Returns whether the integers have signs, and their size in bytes.
    pub fn kind(&self) -> (bool, isize) {
        (self.format.is_ascii_lowercase(), self.view.itemsize)
    }

    /// Returns the integers, or none if the view has integers of another size.
    #[expect(unsafe_code, reason = "pyo3 reads buffers of one type at a time")]
    pub fn slice<T: Integer>(&self) -> &[T] {
        if self.view.len == 0 || size_of::<T>() != self.view.itemsize as usize {
            return &[];
        }
        let count = self.view.len as usize / size_of::<T>();
        // SAFETY: `of` has checked type and alignment, and the memory stays until the view is
        // released. Other threads may write to it, because each `Integer` is atomic.
        unsafe { slice::from_raw_parts(self.view.buf.cast(), count) }
    }
}

impl Drop for Buffer {
    #[expect(unsafe_code, reason = "pyo3 reads buffers of one type at a time")]
    fn drop(&mut self) {
        // SAFETY: the interpreter has filled the view, or it has no object. It is released once, by
        // an attached thread.
        unsafe { ffi::PyBuffer_Release(&mut *self.view) }
    }
}

/// Returns whether iterating over an object gives the integers that it exports, and no others.
///
/// An mmap, for example, yields bytes, and a masked array omits the masked integers.
fn yields_its_integers(ids: &Bound<'_, PyAny>) -> bool {
    if ids.is_exact_instance_of::<PyMemoryView>() {
        return true;
    }
    let kind = ids.get_type();
    let (Ok(module), Ok(name)) = (kind.module(), kind.name()) else { return false };
    let name = (module.to_str().unwrap_or(""), name.to_str().unwrap_or(""));
    matches!(name, ("array", "array") | ("numpy", "ndarray" | "memmap"))
}
