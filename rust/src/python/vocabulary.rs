//! Vocabularies, for Python: what takes long to check, and to derive.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyList, PyTuple};

use super::text::{LONG, run};
use crate::merge::Token;
use crate::tokens::Tokens;
use crate::vocabulary::{self, parse_ranks};

/// The ids and merges of a vocabulary. Where one is made of what is in a file, None stands for a
/// file in which something is wrong, or not spelled as usual: the Python engine tells, or reads it.
#[pyclass(frozen, module = "bpetite._native")]
pub struct Vocabulary(pub vocabulary::Vocabulary);

#[pymethods]
impl Vocabulary {
    /// Returns the vocabulary of fields that are known to be right. `tokens` has the bytes of those
    /// that no merge makes; to ignore merges, of all. None if there are too many for the core.
    #[staticmethod]
    fn of_fields(
        byte_ids: [u32; 256],
        tokens: &Bound<'_, PyDict>,
        merges: Vec<(u32, u32)>,
        merge_ids: Vec<u32>,
        ignore_merges: bool,
    ) -> PyResult<Option<Vocabulary>> {
        let Some(entries) = entries(tokens) else { return Ok(None) };
        let entries = borrowed(&entries);
        run(tokens.py(), merges.len() >= LONG, |_| {
            vocabulary::Vocabulary::of_trusted(
                &byte_ids,
                &entries,
                &merges,
                &merge_ids,
                ignore_merges,
            )
            .map(Vocabulary)
        })
    }

    /// Returns the vocabulary of merges that a file has: the ids of two parts, again and again.
    /// `merge_ids` has the ids that they make, in runs.
    #[staticmethod]
    fn of_merges(
        py: Python<'_>,
        byte_ids: [u32; 256],
        other_tokens: &Bound<'_, PyDict>,
        merges: &Bound<'_, PyAny>,
        merge_ids: &Bound<'_, PyAny>,
        ignore_merges: bool,
        most_bytes: u64,
    ) -> PyResult<Option<Vocabulary>> {
        let given = || {
            let runs = merge_ids.cast::<PyList>().ok()?.iter().map(|run| match plain(&run)?[..] {
                [first, length] => Some((first, length)),
                _ => None,
            });
            let pairs = plain(merges)?;
            let is_even = pairs.len().is_multiple_of(2);
            is_even.then_some((entries(other_tokens)?, pairs, runs.collect::<Option<Vec<_>>>()?))
        };
        let Some((others, pairs, runs)) = given() else { return Ok(None) };
        let others = borrowed(&others);
        run(py, pairs.len() >= LONG, |_| {
            vocabulary::Vocabulary::of_merges(
                &byte_ids,
                &others,
                &pairs,
                &runs,
                ignore_merges,
                most_bytes,
            )
            .map(Vocabulary)
        })
    }

    /// Returns the vocabulary that gives the ids which tiktoken gives for the ranks in a file.
    #[staticmethod]
    fn of_rank_file(
        py: Python<'_>,
        data: &[u8],
        highest_rank: u32,
        most_bytes: usize,
    ) -> PyResult<Option<Vocabulary>> {
        run(py, data.len() >= LONG, |go_on| {
            let (ranks, lengths, bytes) = parse_ranks(data)?;
            let mut rest = &bytes[..];
            let tokens = lengths.iter().map(|&length| {
                let (token, behind) = rest.split_at(length);
                rest = behind;
                token
            });
            let ranks = ranks.into_iter().zip(tokens).collect();
            vocabulary::Vocabulary::of_ranks(ranks, highest_rank, most_bytes, go_on).map(Vocabulary)
        })
    }

    /// As `of_rank_file`, for the ranks of tokens in a dict.
    #[staticmethod]
    fn of_ranks(
        ranks: &Bound<'_, PyAny>,
        highest_rank: u32,
        most_bytes: usize,
    ) -> PyResult<Option<Vocabulary>> {
        let Ok(dict) = ranks.cast::<PyDict>() else { return Ok(None) };
        // A copy, since another thread might change it meanwhile.
        let pairs = dict.copy()?;
        let pairs = pairs
            .iter()
            .map(|(token, rank)| Some((plain_integer(&rank)?, token.cast_into::<PyBytes>().ok()?)));
        let Some(pairs) = pairs.collect::<Option<Vec<_>>>() else { return Ok(None) };
        let pairs = borrowed(&pairs);
        run(ranks.py(), pairs.len() >= LONG, |go_on| {
            vocabulary::Vocabulary::of_ranks(pairs, highest_rank, most_bytes, go_on).map(Vocabulary)
        })
    }

    /// Whether a whole piece that is a token is that token.
    #[getter]
    fn ignore_merges(&self) -> bool {
        self.0.ignore_merges
    }

    /// Returns the id of each byte.
    fn byte_ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.token_of_byte.map(|token| self.id(token)))
    }

    /// Returns the merges in rank order, each a pair of ids.
    fn merges<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let integers = self.integers(py);
        let integer = |token: Token| integers[token as usize].clone();
        let pairs = self
            .0
            .merges
            .iter()
            .map(|&(left, right, _)| PyTuple::new(py, [integer(left), integer(right)]));
        PyTuple::new(py, pairs.collect::<PyResult<Vec<_>>>()?)
    }

    /// Returns the id that each merge makes.
    fn merge_ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.merges.iter().map(|&(_, _, made)| self.id(made)))
    }

    /// Returns the bytes of the tokens that no merge makes, or none before it is a part in another.
    fn other_tokens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.dict(py, self.0.others.iter().copied())
    }

    /// Returns the bytes of all tokens, in ascending order of ids.
    fn tokens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.dict(py, 0..self.0.id_of.len() as Token)
    }

    /// Returns the bytes of an id, None of one that no token has.
    fn token<'py>(&self, id: &Bound<'py, PyInt>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let tokens = self.tokens_known()?;
        let token = plain_integer(id).and_then(|id| self.0.token_of(id));
        Ok(token.map(|token| PyBytes::new(id.py(), tokens.get(token))))
    }
}

impl Vocabulary {
    fn id(&self, token: Token) -> u32 {
        self.0.id_of[token as usize]
    }

    fn integers<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyInt>> {
        self.0.id_of.iter().map(|&id| PyInt::new(py, id)).collect()
    }

    fn tokens_known(&self) -> PyResult<&Tokens> {
        let tokens = self.0.bytes_of.as_deref();
        tokens.ok_or_else(|| PyValueError::new_err("a vocabulary of fields has no bytes of tokens"))
    }

    fn dict<'py>(
        &self,
        py: Python<'py>,
        tokens: impl Iterator<Item = Token>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let bytes_of = self.tokens_known()?;
        let dict = PyDict::new(py);
        for token in tokens {
            dict.set_item(self.id(token), PyBytes::new(py, bytes_of.get(token)))?;
        }
        Ok(dict)
    }
}

/// Returns a Python int of 32 bits; None of anything else, a bool too.
fn plain_integer(value: &Bound<'_, PyAny>) -> Option<u32> {
    value.is_exact_instance_of::<PyInt>().then(|| value.extract().ok()).flatten()
}

/// Returns a list of such ints.
fn plain(values: &Bound<'_, PyAny>) -> Option<Vec<u32>> {
    values.cast::<PyList>().ok()?.iter().map(|value| plain_integer(&value)).collect()
}

/// Returns the ids and the bytes in a dict.
fn entries<'py>(tokens: &Bound<'py, PyDict>) -> Option<Vec<(u32, Bound<'py, PyBytes>)>> {
    let entries = tokens.iter();
    entries.map(|(id, token)| Some((plain_integer(&id)?, token.cast_into().ok()?))).collect()
}

fn borrowed<'a>(tokens: &'a [(u32, Bound<'_, PyBytes>)]) -> Vec<(u32, &'a [u8])> {
    tokens.iter().map(|(id, token)| (*id, token.as_bytes())).collect()
}
