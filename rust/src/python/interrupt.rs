//! Long work for Python: signals, the GIL, and the ways in which work ends early, which are a
//! signal, a panic, and a lack of memory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyMemoryError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;

use crate::interrupt::Interrupt;
use crate::mem::growth::{OutOfMemory, refill_reserve};

/// Work on at least this many bytes of text, or items of other input, releases the GIL.
pub const GIL_RELEASE_MIN_SIZE: usize = 1 << 14;

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
    if may_detach && error.is_none() {
        // Objects for the result may start the garbage collector. Python runs the handlers of
        // signals in the finalizers that it calls, and ignores what they raise.
        error = py.check_signals().err();
    }
    error.map_or(result, Err)
}

/// An object that one thread uses at a time, until it is interrupted or handed over.
pub struct Exclusive<T> {
    object: Mutex<Option<T>>,
    /// The message of the error if the object is gone.
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

/// Does `work`, and turns refused memory into a MemoryError, and a panic into a RuntimeError.
///
/// A panic may have its cause outside: a text that changes during the work fails a check of an
/// index.
pub fn caught<T>(work: impl FnOnce() -> T) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        if panic.is::<OutOfMemory>() {
            refill_reserve();
            return PyMemoryError::new_err("the system has too little memory for this call");
        }
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
