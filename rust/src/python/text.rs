//! Texts as they come from Python: a `str`, or its UTF-8 in a buffer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// Texts of so many bytes or more are worked on without the interpreter's lock.
pub const LONG: usize = 1 << 14;

/// A text, held for as long as it is worked on.
pub enum Text<'py> {
    Str(Bound<'py, PyString>),
    Bytes(Bound<'py, PyBytes>),
    Buffer(PyBuffer<u8>),
}

impl<'py> Text<'py> {
    /// Raises what `bpetite._text.as_str` does for what is no text.
    pub fn new(object: &Bound<'py, PyAny>) -> PyResult<Text<'py>> {
        if let Ok(text) = object.cast::<PyString>() {
            return Ok(Text::Str(text.clone()));
        }
        let text = if let Ok(bytes) = object.cast::<PyBytes>() {
            Text::Bytes(bytes.clone())
        } else {
            match PyBuffer::get(object) {
                Ok(buffer) if buffer.dimensions() == 1 && buffer.is_c_contiguous() => {
                    Text::Buffer(buffer)
                }
                _ => return Text::decoded(object),
            }
        };
        let bytes = text.bytes()?;
        let is_utf8 = if bytes.len() < LONG {
            std::str::from_utf8(bytes).is_ok()
        } else {
            run(object.py(), !text.may_change(), |go_on| is_utf8(bytes, go_on))?
        };
        if is_utf8 { Ok(text) } else { Text::decoded(object) }
    }

    /// Has Python make a `str` of it, or say what is wrong.
    fn decoded(object: &Bound<'py, PyAny>) -> PyResult<Text<'py>> {
        let module = object.py().import("bpetite._text")?;
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

    /// Returns whether Python code can change it while the interpreter's lock is not held.
    pub fn may_change(&self) -> bool {
        matches!(self, Text::Buffer(buffer) if !buffer.readonly())
    }
}

/// Returns whether a long text is UTF-8, as far as `go_on` lets it be looked at.
fn is_utf8(mut bytes: &[u8], go_on: &mut dyn FnMut() -> bool) -> bool {
    const SOME: usize = 1 << 22;
    while bytes.len() > SOME && go_on() {
        // A character that the first bytes end in belongs to the others.
        let is_first = |&at: &usize| bytes[at] & 0xC0 != 0x80;
        let Some(end) = (SOME - 3..=SOME).rev().find(is_first) else { return false };
        if std::str::from_utf8(&bytes[..end]).is_err() {
            return false;
        }
        bytes = &bytes[end..];
    }
    bytes.len() > SOME || std::str::from_utf8(bytes).is_ok()
}

#[allow(unsafe_code)]
fn of_buffer(buffer: &PyBuffer<u8>) -> &[u8] {
    // SAFETY: the buffer is contiguous and of bytes, which `new` has looked at, and stays where it
    // is while it is held. If Python code may write to it, the interpreter's lock is held too.
    // Nothing relies on bytes staying the same where this is not enough: they are read through
    // checked indices only.
    unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast(), buffer.len_bytes()) }
}

/// How long it may take until Python is asked again whether it wants to interrupt.
pub const INTERVAL: Duration = Duration::from_millis(50);

/// Runs `work`, without the interpreter's lock if that is allowed; `work` asks as often as it can,
/// by the function that it is given, whether to go on: Python may want to interrupt it. Once the
/// answer was no, it is no for ever.
pub fn run<T: Send>(
    py: Python<'_>,
    may_detach: bool,
    work: impl FnOnce(&mut dyn FnMut() -> bool) -> T + Send,
) -> PyResult<T> {
    let mut error = None;
    let error_of = &mut error;
    let mut last = None; // the clock is not looked at for what is short
    let mut ask = move || {
        if error_of.is_none() && last.get_or_insert_with(Instant::now).elapsed() >= INTERVAL {
            *error_of = Python::attach(|py| py.check_signals()).err();
            last = None;
        }
        error_of.is_none()
    };
    let work = || caught(|| work(&mut ask));
    let result = if may_detach { py.detach(work) } else { work() };
    error.map_or(result, Err)
}

/// Does `work`; if it panics, that is a RuntimeError, and the only place where a panic becomes one.
///
/// What is not UTF-8 any more, since another process wrote to a file that is mapped say, may run
/// into a check of an index.
pub fn caught<T>(work: impl FnOnce() -> T) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let reason = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no reason is known");
        PyRuntimeError::new_err(format!(
            "the native core failed in this call, of which there is no result; the tokenizer is as \
             it was. A text in a buffer, or in a file that is mapped, must not be changed while it \
             is worked on. If none was, this is an error in bpetite: please report it with the \
             lines that were written to stderr ({reason})"
        ))
    })
}
