//! Ids to bytes, for Python.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyList};

use crate::decode;

/// The bytes of each id, to join.
#[pyclass(frozen, module = "bpetite._native")]
pub struct TokenBytes(decode::TokenBytes);

#[pymethods]
impl TokenBytes {
    #[new]
    fn new(tokens: HashMap<u32, Vec<u8>>) -> TokenBytes {
        TokenBytes(decode::TokenBytes::new(tokens.into_iter().collect()))
    }

    /// Returns the bytes of a list of ids, joined; None if anything in it is not an id that there
    /// is, or no plain int: then the Python engine tells what.
    fn join<'py>(&self, ids: &Bound<'py, PyList>) -> Option<Bound<'py, PyBytes>> {
        let plain = ids.iter().map(|id| {
            id.is_exact_instance_of::<PyInt>().then(|| id.extract::<u32>().ok()).flatten()
        });
        let ids_found: Vec<u32> = plain.collect::<Option<_>>()?;
        let mut bytes = Vec::new();
        match self.0.join(&ids_found, &mut bytes) {
            None => Some(PyBytes::new(ids.py(), &bytes)),
            Some(_) => None,
        }
    }
}
