//! Texts of JSON Lines, for Python.

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

use super::array::{memoryview, memoryview_with_surplus};
use super::interrupt::{Exclusive, GIL_RELEASE_MIN_SIZE};
use super::text::of_buffer;
use crate::interrupt::Interrupt;
use crate::json;
use crate::simd::Isa;

type View<'py> = Bound<'py, PyMemoryView>;
type Refused = Vec<(u64, u64, &'static str)>;

/// Texts in a buffer this many times longer than they are move to a shorter one.
const MAX_SURPLUS_FACTOR: usize = 2;

/// Takes one text field from JSON Lines. One thread uses it at a time, and nobody after an interrupt.
#[pyclass(frozen, module = "bpetite._engine._native")]
pub struct FieldScanner(Exclusive<json::FieldScanner>);

const SPENT: &str = "the scanner was interrupted and cannot continue; make a new one";

#[pymethods]
impl FieldScanner {
    #[new]
    fn new(field: &str) -> FieldScanner {
        FieldScanner(Exclusive::new(json::FieldScanner::new(field, Isa::get()), SPENT))
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
        let is_long = |scanner: &json::FieldScanner| {
            scanner.pending_bytes() + bytes.len() >= GIL_RELEASE_MIN_SIZE && buffer.readonly()
        };
        let feed = |scanner: &mut json::FieldScanner, interrupt: &mut Interrupt<'_>| {
            scanner.feed(bytes, is_last, interrupt)
        };
        let texts = self.0.work(py, is_long, feed)?.map_err(|_| PyRuntimeError::new_err(SPENT))?;
        let refused = texts.refused.iter().map(|line| (line.line, line.byte, line.reason));
        // Readers soon drop the texts. A copy is only worth its time if it is short.
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

/// Returns the bytes of an object; raises the error of the Python engine for other objects.
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
