//! What Python sees of it all: twins of what the Python engine has, with the same results.
//!
//! Errors that users can cause are raised by the Python code that both engines share.

use pyo3::prelude::*;

use crate::simd::Kernel;

mod decode;
mod encode;
mod train;

/// Texts of so many bytes or more are worked on without the interpreter's lock.
pub const LONG: usize = 1 << 14;

/// Runs `work` without the interpreter's lock if it is long; `work` asks now and then, by the
/// function that it is given, whether Python wants to interrupt it.
pub fn run<T: Send>(
    py: Python<'_>,
    is_long: bool,
    work: impl FnOnce(&mut dyn FnMut() -> bool) -> T + Send,
) -> PyResult<T> {
    if !is_long {
        return Ok(work(&mut || true));
    }
    let mut error = None;
    let result = py.detach(|| {
        work(&mut || {
            error = Python::attach(|py| py.check_signals()).err();
            error.is_none()
        })
    });
    error.map_or(Ok(result), Err)
}

/// Returns the name of what makes masks of bytes here: avx512, avx2, neon or scalar.
#[pyfunction]
fn simd() -> &'static str {
    Kernel::get().name()
}

#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<encode::TextEncoder>()?;
    module.add_class::<decode::TokenBytes>()?;
    module.add_class::<train::PieceCounter>()?;
    module.add_class::<train::MergeLearner>()?;
    module.add_function(wrap_pyfunction!(simd, module)?)
}
