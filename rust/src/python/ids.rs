//! Ids that Python hands over: lists of ints, and buffers of integers.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::slice;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{
    AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
};
use std::time::Instant;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::sync::critical_section::with_critical_section;
use pyo3::types::{PyList, PyMemoryView};

use super::text::INTERVAL;
use crate::decode::{Extent, Integer, TokenBytes};

/// Ids that can be read again and again.
pub enum Ids {
    List(Vec<u32>),
    Buffer(Buffer),
}

impl Ids {
    /// Returns the ids of a list of plain ints, or of a buffer of integers; None of anything else,
    /// and if an int of a list is not from 0 to 2**32 - 1.
    pub fn of(ids: &Bound<'_, PyAny>) -> PyResult<Option<Ids>> {
        match ids.cast_exact::<PyList>() {
            Ok(list) => Ok(of_list(list)?.map(Ids::List)),
            Err(_) => Ok(Buffer::of(ids).map(Ids::Buffer)),
        }
    }

    /// Returns the integers, which can be read without Python.
    pub fn integers(&self) -> Integers<'_> {
        match self {
            Ids::List(ids) => Integers::Plain(ids),
            Ids::Buffer(buffer) => buffer.integers(),
        }
    }
}

/// Integers that stand one behind the other; those of a buffer may be written to meanwhile, by
/// other threads.
pub enum Integers<'a> {
    Plain(&'a [u32]),
    I8(&'a [AtomicI8]),
    U8(&'a [AtomicU8]),
    I16(&'a [AtomicI16]),
    U16(&'a [AtomicU16]),
    I32(&'a [AtomicI32]),
    U32(&'a [AtomicU32]),
    I64(&'a [AtomicI64]),
    U64(&'a [AtomicU64]),
}

/// Does the same with the slice of integers, of whatever type they are.
macro_rules! with_slice {
    ($integers:expr, $slice:ident => $work:expr) => {
        match $integers {
            Integers::Plain($slice) => $work,
            Integers::I8($slice) => $work,
            Integers::U8($slice) => $work,
            Integers::I16($slice) => $work,
            Integers::U16($slice) => $work,
            Integers::I32($slice) => $work,
            Integers::U32($slice) => $work,
            Integers::I64($slice) => $work,
            Integers::U64($slice) => $work,
        }
    };
}

impl Integers<'_> {
    pub fn len(&self) -> usize {
        with_slice!(self, ids => ids.len())
    }

    /// As `TokenBytes::extent`, of the first few, of which there are so many.
    pub fn extent_of_first(&self, count: usize, table: &TokenBytes) -> Option<Extent> {
        with_slice!(self, ids => table.extent(&ids[..count], &mut || true))
    }

    /// As `TokenBytes::extent`.
    pub fn extent(&self, table: &TokenBytes, go_on: &mut dyn FnMut() -> bool) -> Option<Extent> {
        with_slice!(self, ids => table.extent(ids, go_on))
    }

    /// As `TokenBytes::join`.
    pub fn join(
        &self,
        table: &TokenBytes,
        out: &mut [MaybeUninit<u8>],
        go_on: &mut dyn FnMut() -> bool,
    ) -> Option<Extent> {
        with_slice!(self, ids => table.join(ids, out, go_on))
    }
}

macro_rules! integers {
    ($($atomic:ty),*) => {
        $(impl Integer for $atomic {
            fn value(&self) -> u64 {
                self.load(Relaxed) as u64
            }
        })*
    };
}

integers!(AtomicI8, AtomicU8, AtomicI16, AtomicU16, AtomicI32, AtomicU32, AtomicI64, AtomicU64);

/// After how many ids it is asked whether it is time to ask whether Python wants to interrupt.
const SOME: usize = 1 << 18;

/// Returns the ids of a list of plain ints; None too if it gets longer or shorter meanwhile.
fn of_list(list: &Bound<'_, PyList>) -> PyResult<Option<Vec<u32>>> {
    let digits = *DIGITS.get_or_init(list.py(), || Digits::of(list.py()));
    let length = list.len();
    let mut ids = Vec::new();
    if ids.try_reserve_exact(length).is_err() {
        return Ok(None);
    }
    let mut asked = None; // the clock is not looked at for what is short
    while ids.len() < length {
        if !ids.is_empty() && asked.get_or_insert_with(Instant::now).elapsed() >= INTERVAL {
            list.py().check_signals()?;
            list.py().detach(|| ()); // others, who wait for it, have their turn
            asked = None;
        }
        // Of one thread alone while it is read, where there is no lock of the whole interpreter.
        let is_read = with_critical_section(list, || {
            if list.len() != length {
                return false;
            }
            let some = ids.len()..length.min(ids.len() + SOME);
            some.into_iter().all(|index| digits.read(list, index).map(|id| ids.push(id)).is_some())
        });
        if !is_read {
            return Ok(None);
        }
    }
    Ok(Some(ids))
}

/// How an int of one digit is recognised by what stands behind its header.
///
/// Such an int is a word that tells the number of digits and the sign, and the digit: its value.
#[derive(Clone, Copy)]
struct Digits {
    /// The bits of the word that matter.
    mask: usize,
    /// What they are in a positive int of one digit.
    one: usize,
}

static DIGITS: PyOnceLock<Digits> = PyOnceLock::new();

impl Digits {
    fn of(py: Python<'_>) -> Digits {
        let bits = py.import("sys").and_then(|sys| sys.getattr("int_info"));
        let bits = bits.and_then(|info| info.getattr("bits_per_digit")?.extract::<u32>());
        let version = py.version_info();
        match (version.major, version.minor, bits) {
            (3, 11, Ok(30)) => Digits { mask: usize::MAX, one: 1 },
            (3, 12..=14, Ok(30)) => Digits { mask: !4, one: 1 << 3 },
            // Of others nothing is known, and none is recognised.
            _ => Digits { mask: 0, one: 1 },
        }
    }

    /// Returns the id at an index of a list that no other thread can change meanwhile.
    #[inline]
    #[allow(unsafe_code)]
    fn read(self, list: &Bound<'_, PyList>, index: usize) -> Option<u32> {
        #[repr(C)]
        struct Int {
            header: ffi::PyObject,
            word: usize,
            digit: u32,
        }

        // SAFETY: the index is below the length, and the list keeps the item alive: no Python code
        // runs before its value is known. Every int of one digit has a word and a digit, and every
        // int has a word; which it is was looked up for this version of Python.
        unsafe {
            let item = ffi::PyList_GET_ITEM(list.as_ptr(), index as ffi::Py_ssize_t);
            if ffi::PyLong_CheckExact(item) == 0 {
                return None;
            }
            let int = item.cast::<Int>();
            if self.mask != 0 && (*int).word & self.mask == self.one {
                return Some((*int).digit);
            }
            let mut overflow = 0;
            let value = ffi::PyLong_AsLongLongAndOverflow(item, &mut overflow);
            u32::try_from(value).ok().filter(|_| overflow == 0)
        }
    }
}

/// The integers that an object exports one behind the other.
pub struct Buffer {
    /// Where it is, since what an object exports may point into it.
    view: Box<ffi::Py_buffer>,
    format: u8,
}

impl Buffer {
    /// Returns the integers of an array.array, a memoryview or an array of numpy; None of anything
    /// else, and of an array that is not contiguous, not of one dimension or not of integers.
    #[allow(unsafe_code)]
    fn of(ids: &Bound<'_, PyAny>) -> Option<Buffer> {
        if !gives_its_integers(ids) {
            return None;
        }
        let mut buffer = Buffer { view: Box::new(ffi::Py_buffer::new()), format: 0 };
        let view = &mut *buffer.view;
        let flags = ffi::PyBUF_FORMAT | ffi::PyBUF_C_CONTIGUOUS;
        // SAFETY: the interpreter fills the view, which no one else has; where it does not, it
        // leaves one of no object, which may be released.
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
        // An integer must stand where one of the processor's may.
        let is_aligned = view.len == 0 || view.buf.addr().is_multiple_of(view.itemsize as usize);
        (is_known && is_aligned).then_some(buffer)
    }

    fn integers(&self) -> Integers<'_> {
        match (self.format.is_ascii_lowercase(), self.view.itemsize) {
            (true, 1) => Integers::I8(self.slice()),
            (false, 1) => Integers::U8(self.slice()),
            (true, 2) => Integers::I16(self.slice()),
            (false, 2) => Integers::U16(self.slice()),
            (true, 4) => Integers::I32(self.slice()),
            (false, 4) => Integers::U32(self.slice()),
            (true, _) => Integers::I64(self.slice()),
            (false, _) => Integers::U64(self.slice()),
        }
    }

    /// Returns the integers; they have as many bytes as the view tells.
    #[allow(unsafe_code)]
    fn slice<T: Integer>(&self) -> &[T] {
        if self.view.len == 0 || size_of::<T>() != self.view.itemsize as usize {
            return &[];
        }
        // SAFETY: integers of so many bytes stand from the address on, which is aligned for them,
        // until the view is released. They are atomic: others may write to them meanwhile.
        unsafe {
            slice::from_raw_parts(self.view.buf.cast(), self.view.len as usize / size_of::<T>())
        }
    }
}

impl Drop for Buffer {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the view was filled by the interpreter, or is of no object. It is released once,
        // and by a thread that has the interpreter: others have no more than its integers.
        unsafe { ffi::PyBuffer_Release(&mut *self.view) }
    }
}

/// Returns whether iterating over an object gives just the integers that it exports.
///
/// It does not for every type: an mmap gives bytes, a masked array what is not masked.
fn gives_its_integers(ids: &Bound<'_, PyAny>) -> bool {
    if ids.is_exact_instance_of::<PyMemoryView>() {
        return true;
    }
    let kind = ids.get_type();
    let (Ok(module), Ok(name)) = (kind.module(), kind.name()) else { return false };
    let name = (module.to_str().unwrap_or(""), name.to_str().unwrap_or(""));
    matches!(name, ("array", "array") | ("numpy", "ndarray" | "memmap"))
}
