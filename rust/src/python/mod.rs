//! The Python module: twins of the Python engine, with the same results.
//!
//! Errors that users cause are worded by the Python code that both engines share.

use pyo3::prelude::*;

use crate::mem::growth::refill_reserve;
use crate::simd::{INSTRUCTION_SETS, Isa};
use crate::split::Pattern;

mod analysis;
mod array;
mod corpora;
mod decode;
mod encode;
mod ids;
mod interrupt;
mod list;
mod object;
mod split;
mod stream;
mod text;
mod train;
mod vocabulary;
mod watch;

/// Returns the name of the instruction set in use.
#[pyfunction]
fn instruction_set() -> &'static str {
    Isa::get().name()
}

#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    refill_reserve();
    // Made at import: if a process forked while another thread made them, it would wait for ever.
    stream::Names::get(module.py());
    ids::Digits::get(module.py());
    module.add_class::<encode::TextEncoder>()?;
    module.add_class::<decode::TokenBytes>()?;
    module.add_class::<stream::StreamTokens>()?;
    module.add_class::<stream::PlainSteps>()?;
    module.add_class::<watch::WatchSteps>()?;
    module.add_class::<watch::EventMaker>()?;
    module.add_class::<split::PatternAutomaton>()?;
    module.add_class::<split::Cuts>()?;
    module.add_class::<split::Splits>()?;
    module.add_class::<vocabulary::NativeVocabulary>()?;
    module.add_class::<train::PieceCounter>()?;
    module.add_class::<train::PieceCounts>()?;
    module.add_class::<train::MergeLearner>()?;
    module.add_function(wrap_pyfunction!(text::unsettled, module)?)?;
    module.add_function(wrap_pyfunction!(text::changed, module)?)?;
    module.add_function(wrap_pyfunction!(vocabulary::find_merges, module)?)?;
    module.add_function(wrap_pyfunction!(train::merge_records, module)?)?;
    module.add_function(wrap_pyfunction!(train::partition_records, module)?)?;
    module.add_function(wrap_pyfunction!(instruction_set, module)?)?;
    analysis::add_to(module)?;
    corpora::add_to(module)?;
    // All instruction sets, even if the processor lacks them, and the patterns with a scanner.
    module.add("INSTRUCTION_SETS", INSTRUCTION_SETS)?;
    module.add("PATTERNS", Pattern::NAMES.map(|(name, _)| name))
}
