//! Texts from Python: a `str`, or UTF-8 in a buffer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::buffer::{PyBuffer, PyUntypedBuffer};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBytes, PyString};

use super::ids::{Ids, parts, with_integers};
use crate::decode::Integer;
use crate::interrupt::Interrupt;
use crate::utf8::{self, is_utf8};

/// Work on this many bytes of text, or items of other input, releases the GIL.
pub const GIL_RELEASE_MIN_SIZE: usize = 1 << 14;

/// A text, which stays alive during the work.
pub enum Text<'py> {
    Str(Bound<'py, PyString>),
    Bytes(Bound<'py, PyBytes>),
    Buffer(PyBuffer<u8>),
}

impl<'py> Text<'py> {
    /// Raises the error of `bpetite._arguments.as_str` for other objects.
    pub fn new(object: &Bound<'py, PyAny>) -> PyResult<Text<'py>> {
        if let Ok(text) = object.cast::<PyString>() {
            return Ok(Text::Str(text.clone()));
        }
        let Some(text) = Text::of_bytes(object) else { return Text::decoded(object) };
        let bytes = text.bytes()?;
        let is_utf8 = if bytes.len() < GIL_RELEASE_MIN_SIZE {
            std::str::from_utf8(bytes).is_ok()
        } else {
            let check = |interrupt: &mut Interrupt<'_>| is_utf8(bytes, interrupt);
            run(object.py(), !text.may_change(), check)? == Ok(true)
        };
        if is_utf8 { Ok(text) } else { Text::decoded(object) }
    }

    /// Returns contiguous bytes, which may not be UTF-8; None of any other object.
    pub fn of_bytes(object: &Bound<'py, PyAny>) -> Option<Text<'py>> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Some(Text::Bytes(bytes.clone()));
        }
        let buffer = PyBuffer::get(object).ok()?;
        let is_contiguous = buffer.dimensions() == 1 && buffer.is_c_contiguous();
        is_contiguous.then_some(Text::Buffer(buffer))
    }

    /// Returns the documents that end at all offsets but the first; None if one is not UTF-8 or not
    /// in the text.
    pub fn documents(&self, py: Python<'py>, offsets: &Ids) -> PyResult<Option<Vec<&[u8]>>> {
        let bytes = self.bytes()?;
        with_integers!(offsets, offsets => {
            let is_long = bytes.len().max(offsets.len()) >= GIL_RELEASE_MIN_SIZE;
            run(py, is_long && !self.may_change(), |interrupt| {
                parts(bytes, offsets, |text| is_utf8(text, interrupt) == Ok(true))
            })
        })
    }

    /// Lets Python make a `str` of the object, or raise its error.
    fn decoded(object: &Bound<'py, PyAny>) -> PyResult<Text<'py>> {
        let module = object.py().import("bpetite._arguments")?;
        Ok(Text::Str(module.call_method1("as_str", (object,))?.cast_into()?))
    }

    /// Returns the UTF-8; raises UnicodeEncodeError for a lone surrogate.
    pub fn bytes(&self) -> PyResult<&[u8]> {
        match self {
            Text::Str(text) => Ok(text.to_str()?.as_bytes()),
            Text::Bytes(bytes) => Ok(bytes.as_bytes()),
            Text::Buffer(buffer) => Ok(of_buffer(buffer)),
        }
    }

    /// Returns whether Python code may write to the text if the GIL is released.
    pub fn may_change(&self) -> bool {
        matches!(self, Text::Buffer(buffer) if !buffer.readonly())
    }
}

/// Returns the bytes of a buffer.
///
/// This is a deliberate exception to Rust's rules, by which nobody may write to the bytes of a
/// slice. The GIL keeps other Python threads from a writable buffer, but a free-threaded build has
/// none. Another process may write to a mapped file, and an extension module to its own memory.
/// Rust has no type for such text that costs nothing: with a copy, or with atomic bytes, all texts
/// would pay for a few. So the crate reads text through checked indices alone. A text that changes
/// leads to wrong ids or to a RuntimeError, never to wrong memory access.
#[expect(unsafe_code, reason = "pyo3 has no slice of a buffer that others may write to")]
pub fn of_buffer(buffer: &PyUntypedBuffer) -> &[u8] {
    // SAFETY: callers have checked that the buffer is contiguous and of bytes. It stays in place
    // while `buffer` lives. For writes by others, see above.
    unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast(), buffer.len_bytes()) }
}

/// Returns how many characters and words the documents in `data` have; zeros unless both are buffers.
#[pyfunction]
pub fn characters_and_words(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    offsets: &Bound<'_, PyAny>,
) -> PyResult<(usize, usize)> {
    let (Some(text), Some(offsets)) = (Text::of_bytes(data), Ids::of(offsets)?) else {
        return Ok((0, 0));
    };
    let bytes = text.bytes()?;
    with_integers!(&offsets, offsets => {
        let is_long = bytes.len().max(offsets.len()) >= GIL_RELEASE_MIN_SIZE;
        run(py, is_long && !text.may_change(), |interrupt| {
            let offsets = offsets.iter().map(|offset| offset.value() as usize);
            utf8::characters_and_words(bytes, offsets, interrupt)
        })
    })
}

/// The time between two checks of signals.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Tells when to check signals. Short work does not read the clock.
#[derive(Default)]
pub struct SignalClock(Option<Instant>);

impl SignalClock {
    /// Returns whether the interval has passed since the last check.
    fn is_due(&mut self) -> bool {
        let is_due = self.0.get_or_insert_with(Instant::now).elapsed() >= SIGNAL_CHECK_INTERVAL;
        self.0.take_if(|_| is_due);
        is_due
    }

    /// Checks signals, and lets other threads have their turns, if the interval has passed.
    pub fn check_signals(&mut self, py: Python<'_>) -> PyResult<()> {
        if !self.is_due() {
            return Ok(());
        }
        py.detach(|| ());
        py.check_signals()
    }
}

/// Runs `work`, without the GIL if that is allowed. Its interrupts are Python's signals.
pub fn run<T: Send>(
    py: Python<'_>,
    may_detach: bool,
    work: impl FnOnce(&mut Interrupt<'_>) -> T + Send,
) -> PyResult<T> {
    let mut error = None;
    let error_of = &mut error;
    let mut clock = SignalClock::default();
    let mut is_interrupted = move || {
        if error_of.is_none() && clock.is_due() {
            *error_of = Python::attach(|py| py.check_signals()).err();
        }
        error_of.is_some()
    };
    let work = || caught(|| work(&mut Interrupt::new(&mut is_interrupted)));
    let result = if may_detach { py.detach(work) } else { work() };
    error.map_or(result, Err)
}

/// An object that one thread uses at a time; nothing after it was interrupted or handed over.
pub struct Exclusive<T> {
    object: Mutex<Option<T>>,
    /// The message of the error if there is nothing.
    spent: &'static str,
}

impl<T: Send> Exclusive<T> {
    pub fn new(object: T, spent: &'static str) -> Exclusive<T> {
        Exclusive { object: Mutex::new(Some(object)), spent }
    }

    /// Waits without the GIL, because the thread at work may need it.
    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Option<T>> {
        self.object.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }

    pub fn take(&self, py: Python<'_>) -> PyResult<T> {
        self.lock(py).take().ok_or_else(|| PyRuntimeError::new_err(self.spent))
    }

    /// Does `work` with the object; an error or an interrupt drops it.
    pub fn work<R: Send, E: Send>(
        &self,
        py: Python<'_>,
        is_long: impl FnOnce(&T) -> bool,
        work: impl FnOnce(&mut T, &mut Interrupt<'_>) -> Result<R, E> + Send,
    ) -> PyResult<Result<R, E>> {
        let mut guard = self.lock(py);
        let mut object = guard.take().ok_or_else(|| PyRuntimeError::new_err(self.spent))?;
        let is_long = is_long(&object);
        let (result, object) = run(py, is_long, |interrupt| {
            let result = work(&mut object, interrupt);
            (result, object)
        })?;
        if result.is_ok() {
            *guard = Some(object);
        }
        Ok(result)
    }
}

/// Does `work`, and turns a panic into a RuntimeError.
///
/// A text that changes during the work may fail the check of an index.
pub fn caught<T>(work: impl FnOnce() -> T) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let reason = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("unknown reason");
        PyRuntimeError::new_err(format!(
            "the native engine failed in this call ({reason}); the tokenizer itself is unharmed. Do \
             not change a text in a buffer or in a mapped file while it is encoded. If none was \
             changed, this is an error in bpetite: please report it with the lines on stderr"
        ))
    })
}
