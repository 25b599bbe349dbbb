//! The native part of `bpetite.analysis`: counts of ids.

use std::sync::atomic::AtomicU32;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::ids::Ids;
use super::interrupt::{SignalClock, caught};
use crate::analysis::IdCounts;

/// Adds the names of this module to the Python module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(count_ids, module)?)
}

/// Counts ids in buffers with 32 bits for each id. The ids of the dict ascend.
#[pyfunction]
fn count_ids<'py>(buffers: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let py = buffers.py();
    let (mut counts, mut clock) = (IdCounts::default(), SignalClock::default());
    for buffer in buffers.try_iter()? {
        match Ids::of(&buffer?)? {
            Some(Ids::Buffer(ids)) if ids.kind().1 == 4 => {
                caught(|| counts.add(ids.slice::<AtomicU32>()))?;
            }
            _ => return Err(PyTypeError::new_err("ids must be in buffers of 32 bits an id")),
        }
        clock.check_signals(py)?;
    }
    let dict = PyDict::new(py);
    for (id, count) in counts.all() {
        dict.set_item(id, count)?;
    }
    Ok(dict)
}
