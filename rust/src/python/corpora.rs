//! The native part of `bpetite.corpora`: it reads texts from JSON Lines, and checks UTF-8.

use std::ffi::CStr;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

use super::array::{Item, memoryview, memoryview_with_surplus};
use super::ids::Ids;
use super::interrupt::{Exclusive, GIL_RELEASE_MIN_SIZE};
use super::text::{Text, of_buffer};
use crate::corpora;
use crate::interrupt::Interrupt;
use crate::mem::pool::BufferPool;
use crate::simd::Isa;

/// Adds the names of this module to the Python module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<FieldScanner>()?;
    module.add_function(wrap_pyfunction!(are_utf8, module)?)
}

impl Item for u8 {
    const FORMAT: &'static CStr = c"B";

    fn buffer_pool() -> Option<&'static BufferPool<u8>> {
        Some(corpora::buffer_pool())
    }
}

type View<'py> = Bound<'py, PyMemoryView>;
type Refused = Vec<(u64, u64, &'static str)>;

/// Texts move to a shorter buffer if theirs is more than this many times as long as they are.
const MAX_SURPLUS_FACTOR: usize = 2;

/// Takes one text field from JSON Lines. One thread uses it at a time, until an interrupt ends it.
#[pyclass(frozen, module = "bpetite._engine._native")]
pub struct FieldScanner(Exclusive<corpora::FieldScanner>);

const SPENT: &str = "the scanner was interrupted and cannot continue; make a new one";

#[pymethods]
impl FieldScanner {
    #[new]
    fn new(field: &str) -> FieldScanner {
        FieldScanner(Exclusive::new(corpora::FieldScanner::new(field, Isa::get()), SPENT))
    }

    /// Returns the data, offsets and rows of the texts of a block, and the refused lines.
    fn feed<'py>(
        &self,
        py: Python<'py>,
        block: &Bound<'py, PyAny>,
        is_last: bool,
    ) -> PyResult<(View<'py>, View<'py>, View<'py>, Refused)> {
        let buffer = contiguous_bytes(block)?;
        let bytes = of_buffer(&buffer);
        let is_long = |scanner: &corpora::FieldScanner| {
            scanner.pending_bytes() + bytes.len() >= GIL_RELEASE_MIN_SIZE && buffer.readonly()
        };
        let feed = |scanner: &mut corpora::FieldScanner, interrupt: &mut Interrupt<'_>| {
            scanner.feed(bytes, is_last, interrupt)
        };
        let texts = self.0.work(py, is_long, feed)?.map_err(|_| PyRuntimeError::new_err(SPENT))?;
        let refused = texts.refused.iter().map(|line| (line.line, line.byte, line.reason));
        // Readers soon drop the texts, so only a short copy is worth its time.
        let is_short = texts.data.len() < texts.data.capacity() / MAX_SURPLUS_FACTOR;
        let view = if is_short { memoryview } else { memoryview_with_surplus };
        Ok((
            view(py, texts.data)?,
            memoryview(py, texts.offsets)?,
            memoryview(py, texts.rows)?,
            refused.collect(),
        ))
    }
}

/// Returns contiguous bytes; raises the error of the Python engine for other objects.
fn contiguous_bytes(block: &Bound<'_, PyAny>) -> PyResult<PyUntypedBuffer> {
    if let Ok(buffer) = PyUntypedBuffer::get(block)
        && buffer.item_size() == 1
        && buffer.dimensions() == 1
        && buffer.is_c_contiguous()
    {
        return Ok(buffer);
    }
    let kind = block.get_type().name()?;
    Err(PyTypeError::new_err(format!("block must be contiguous bytes, got {kind}")))
}

/// Returns whether each document of `data` is UTF-8.
#[pyfunction]
fn are_utf8(py: Python<'_>, data: &Bound<'_, PyAny>, offsets: &Bound<'_, PyAny>) -> PyResult<bool> {
    match (Text::of_bytes(data), Ids::of(offsets)?) {
        (Some(text), Some(offsets)) => Ok(text.documents(py, &offsets)?.is_some()),
        _ => Ok(false),
    }
}
