//! What Python sees of it all: twins of what the Python engine has, with the same results.
//!
//! Errors that users can cause are raised by the Python code that both engines share.

use pyo3::prelude::*;

use crate::simd::Kernel;

mod array;
mod decode;
mod encode;
mod ids;
mod list;
mod object;
mod stream;
mod text;
mod train;
mod vocabulary;

/// Returns the name of what makes masks of bytes here: avx512, avx2, neon or scalar.
#[pyfunction]
fn simd() -> &'static str {
    Kernel::get().name()
}

#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<encode::TextEncoder>()?;
    module.add_class::<decode::TokenBytes>()?;
    module.add_class::<stream::StreamTokens>()?;
    module.add_class::<stream::TextSteps>()?;
    module.add_class::<vocabulary::Vocabulary>()?;
    module.add_class::<train::PieceCounter>()?;
    module.add_class::<train::PieceCounts>()?;
    module.add_class::<train::MergeLearner>()?;
    module.add_function(wrap_pyfunction!(simd, module)?)
}
