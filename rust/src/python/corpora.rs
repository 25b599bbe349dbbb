//! The native part of `bpetite.corpora`: it reads texts from JSON Lines, and checks UTF-8.

use std::ffi::CStr;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

use super::array::{Item, memoryview, memoryview_with_surplus};
use super::ids::Ids;
use super::interrupt::{GIL_RELEASE_MIN_SIZE, run};
use super::text::Text;
use crate::corpora::{self, texts_of_lines as texts_of};
use crate::interrupt::Interrupt;
use crate::mem::pool::BufferPool;

/// Adds the names of this module to the Python module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(texts_of_lines, module)?)?;
    module.add_function(wrap_pyfunction!(are_utf8, module)?)
}

impl Item for u8 {
    const FORMAT: &'static CStr = c"B";

    fn buffer_pool() -> Option<&'static BufferPool<u8>> {
        Some(corpora::buffer_pool())
    }
}

type View<'py> = Bound<'py, PyMemoryView>;

/// A line without a text: its row, its bounds, and whether it is JSON that lacks the field.
type Line = (u64, usize, usize, bool);

/// Texts move to a shorter buffer if theirs is more than this many times as long as they are.
const MAX_SURPLUS_FACTOR: usize = 2;

/// Returns the data, offsets and rows of the texts in some whole lines, the other lines, and the
/// row after the last line.
#[pyfunction]
fn texts_of_lines<'py>(
    py: Python<'py>,
    lines: &Bound<'py, PyAny>,
    field: &str,
    row: u64,
) -> PyResult<(View<'py>, View<'py>, View<'py>, Vec<Line>, u64)> {
    let lines = Text::of_bytes(lines).ok_or_else(|| PyTypeError::new_err("lines must be bytes"))?;
    let bytes = lines.bytes()?;
    let is_long = bytes.len() >= GIL_RELEASE_MIN_SIZE && !lines.may_change();
    let read = |interrupt: &mut Interrupt<'_>| texts_of(bytes, field, row, interrupt);
    let texts = run(py, is_long, read)?.unwrap_or_default();
    // Readers soon drop the texts, so only a short copy is worth its time.
    let is_short = texts.data.len() < texts.data.capacity() / MAX_SURPLUS_FACTOR;
    let view = if is_short { memoryview } else { memoryview_with_surplus };
    let others = texts.others.iter();
    Ok((
        view(py, texts.data)?,
        memoryview(py, texts.offsets)?,
        memoryview(py, texts.rows)?,
        others.map(|line| (line.row, line.start, line.end, line.has_no_field)).collect(),
        texts.next_row,
    ))
}

/// Returns whether each document of `data` is UTF-8.
#[pyfunction]
fn are_utf8(py: Python<'_>, data: &Bound<'_, PyAny>, offsets: &Bound<'_, PyAny>) -> PyResult<bool> {
    match (Text::of_bytes(data), Ids::of(offsets)?) {
        (Some(text), Some(offsets)) => Ok(text.documents(py, &offsets)?.is_some()),
        _ => Ok(false),
    }
}
