//! Vocabularies, for Python.

use std::collections::HashMap;
use std::fmt::Write;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyList, PyString, PyTuple};

use super::interrupt::{GIL_RELEASE_MIN_SIZE, caught, run};
use super::list::gathered;
use super::object::{copied_bytes, new_decoded, new_int, new_tuple};
use crate::interrupt::Interrupt;
use crate::mem::growth::{collected, filled, granted, push, with_room};
use crate::tokens::Tokens;
use crate::types::TokenIndex;
use crate::vocabulary::{Vocabulary, tiktoken::parse_ranks};

/// The ids and merges of a vocabulary.
///
/// If its input is invalid, too large, or spelled in an unusual way, a constructor returns None,
/// and the Python engine words the error or does the work.
#[pyclass(frozen, module = "bpetite._engine._native")]
pub struct NativeVocabulary(pub Vocabulary);

/// The most bytes of an item of JSON without its token: three ids of ten digits, and punctuation.
const MAX_ITEM_BYTES: usize = 40;

/// The items of an array of tokens, and of an array of merges.
type JsonItems<'py> = (Bound<'py, PyString>, Bound<'py, PyString>);

#[pymethods]
impl NativeVocabulary {
    /// Returns the vocabulary of valid fields. `tokens` has the bytes of the tokens that no merge
    /// makes, or of all tokens if `ignore_merges` is true. `tied` has the merges that share the
    /// rank of the merge before them.
    #[staticmethod]
    #[pyo3(signature = (byte_ids, tokens, merges, merge_ids, ignore_merges, tied = Vec::new()))]
    fn from_fields(
        byte_ids: [u32; 256],
        tokens: &Bound<'_, PyDict>,
        merges: &Bound<'_, PyAny>,
        merge_ids: &Bound<'_, PyAny>,
        ignore_merges: bool,
        tied: Vec<usize>,
    ) -> PyResult<Option<NativeVocabulary>> {
        let (merges, merge_ids) = (extracted(merges)?, extracted(merge_ids)?);
        let Some(entries) = caught(|| entries(tokens))? else { return Ok(None) };
        let entries = borrowed(&entries)?;
        make(tokens.py(), merges.len(), |_| {
            Vocabulary::from_fields(&byte_ids, &entries, &merges, &merge_ids, ignore_merges, &tied)
        })
    }

    /// Returns the vocabulary of a file's merges, which are a flat list of left and right ids.
    /// `merge_ids` has the ids that the merges make, as runs of a first id and a length.
    #[staticmethod]
    fn from_merges(
        py: Python<'_>,
        byte_ids: [u32; 256],
        other_tokens: &Bound<'_, PyDict>,
        merges: &Bound<'_, PyAny>,
        merge_ids: &Bound<'_, PyAny>,
        ignore_merges: bool,
        max_bytes: u64,
    ) -> PyResult<Option<NativeVocabulary>> {
        let given = || {
            let mut runs = Vec::new();
            for run in merge_ids.cast::<PyList>().ok()?.iter() {
                let [first, length] = plain(&run)?[..] else { return None };
                push(&mut runs, (first, length));
            }
            let pairs = plain(merges)?;
            let is_even = pairs.len().is_multiple_of(2);
            is_even.then_some((entries(other_tokens)?, pairs, runs))
        };
        let Some((others, pairs, runs)) = caught(given)? else { return Ok(None) };
        let others = borrowed(&others)?;
        make(py, pairs.len(), |_| {
            Vocabulary::from_merges(&byte_ids, &others, &pairs, &runs, ignore_merges, max_bytes)
        })
    }

    /// Returns the vocabulary with tiktoken's ids for the ranks in a file.
    #[staticmethod]
    fn from_rank_file(
        py: Python<'_>,
        data: &[u8],
        max_rank: u32,
        max_bytes: usize,
    ) -> PyResult<Option<NativeVocabulary>> {
        make(py, data.len(), |interrupt| {
            let (ranks, bytes) = parse_ranks(data)?;
            let ranks = collected(ranks.into_iter().map(|(rank, range)| (rank, &bytes[range])));
            Vocabulary::from_ranks(ranks, max_rank, max_bytes, interrupt)
        })
    }

    /// Returns the vocabulary with tiktoken's ids for a dict of tokens and ranks.
    #[staticmethod]
    fn from_ranks(
        ranks: &Bound<'_, PyAny>,
        max_rank: u32,
        max_bytes: usize,
    ) -> PyResult<Option<NativeVocabulary>> {
        let Ok(dict) = ranks.cast::<PyDict>() else { return Ok(None) };
        // Another thread may change the dict meanwhile, so a copy is read.
        let items = dict.copy()?;
        let pairs = items
            .iter()
            .map(|(token, rank)| Some((plain_integer(&rank)?, token.cast_into::<PyBytes>().ok()?)));
        let Some(pairs) = caught(|| all(pairs))? else { return Ok(None) };
        let pairs = borrowed(&pairs)?;
        make(ranks.py(), pairs.len(), |interrupt| {
            Vocabulary::from_ranks(pairs, max_rank, max_bytes, interrupt)
        })
    }

    /// Returns the vocabulary with more merges, which make the ids from `first_id` on.
    fn extended(
        &self,
        py: Python<'_>,
        merges: &Bound<'_, PyAny>,
        first_id: u32,
    ) -> PyResult<Option<NativeVocabulary>> {
        let merges = extracted::<(u32, u32)>(merges)?;
        make(py, self.0.table.merges.len(), |_| self.0.extended(&merges, first_id))
    }

    /// Whether a whole piece that is a token is that token.
    #[getter]
    fn ignore_merges(&self) -> bool {
        self.0.table.whole_pieces.is_some()
    }

    /// Returns the id of each byte.
    fn byte_ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        new_tuple(
            py,
            self.0.table.token_of_byte.iter().map(|&token| new_int(py, self.id(token).into())),
        )
    }

    /// Returns the merges in rank order, each a pair of ids.
    fn merges<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let integer = |&id: &u32| new_int(py, id.into()).ok_or_else(|| PyErr::fetch(py));
        let integers = gathered(self.0.id_of.len(), self.0.id_of.iter().map(integer))?;
        let integer = |token: TokenIndex| Some(integers[token as usize].clone_ref(py));
        pairs(py, &self.0.table.merges, integer)
    }

    /// Returns the id that each merge makes.
    fn merge_ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let made =
            self.0.table.merges.iter().map(|&(_, _, made)| new_int(py, self.id(made).into()));
        new_tuple(py, made)
    }

    /// Returns the bytes of the tokens that no merge makes, and of tokens that a merge uses before
    /// another makes them.
    fn other_tokens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.dict(py, self.0.others.iter().copied())
    }

    /// Returns the bytes of all tokens, in ascending order of ids.
    fn tokens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.dict(py, 0..self.0.id_of.len() as TokenIndex)
    }

    /// Returns the items of two JSON arrays: for each token its id and its bytes in hexadecimal
    /// digits, and for each merge its left id, its right id and the id that it makes. Returns None
    /// unless the bytes are known and the vocabulary is nested.
    fn json_items<'py>(&self, py: Python<'py>) -> PyResult<Option<JsonItems<'py>>> {
        let Some((tokens, merges)) = caught(|| self.json_texts())? else { return Ok(None) };
        let text = |text: String| new_decoded(py, text.as_bytes(), c"strict");
        Ok(Some((text(tokens)?, text(merges)?)))
    }

    /// Returns the bytes of an id, or None if no token has it.
    fn token<'py>(&self, id: &Bound<'py, PyInt>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let tokens = self.tokens_known()?;
        let token = plain_integer(id).and_then(|id| self.0.token_of(id));
        token.map(|token| copied_bytes(id.py(), tokens.get(token))).transpose()
    }

    /// Returns the highest id, and the number of ids.
    fn span(&self) -> (u32, usize) {
        (self.0.id_of.last().copied().unwrap_or_default(), self.0.id_of.len())
    }
}

impl NativeVocabulary {
    fn id(&self, token: TokenIndex) -> u32 {
        self.0.id_of[token as usize]
    }

    /// Returns each id with its bytes, in ascending order of ids.
    pub fn bytes_by_id(&self) -> PyResult<impl Iterator<Item = (u32, &[u8])>> {
        let bytes_of = self.tokens_known()?;
        Ok(self.0.id_of.iter().zip(0..).map(|(&id, token)| (id, bytes_of.get(token))))
    }

    /// Returns the texts of `json_items`.
    fn json_texts(&self) -> Option<(String, String)> {
        let bytes_of = self.0.bytes_of.as_deref().filter(|_| self.0.is_nested())?;
        let mut tokens = String::new();
        for (&id, token) in self.0.id_of.iter().zip(0..) {
            granted(tokens.try_reserve(MAX_ITEM_BYTES + 2 * bytes_of.get(token).len()));
            let comma = if tokens.is_empty() { "" } else { "," };
            write!(tokens, "{comma}[{id},\"").ok()?;
            tokens.extend(bytes_of.get(token).iter().flat_map(|&byte| hex_digits(byte)));
            tokens.push_str("\"]");
        }
        let mut merges = String::new();
        for &(left, right, made) in &self.0.table.merges {
            granted(merges.try_reserve(MAX_ITEM_BYTES));
            let comma = if merges.is_empty() { "" } else { "," };
            let [left, right, made] = [left, right, made].map(|token| self.id(token));
            write!(merges, "{comma}[{left},{right},{made}]").ok()?;
        }
        Some((tokens, merges))
    }

    fn tokens_known(&self) -> PyResult<&Tokens> {
        let tokens = self.0.bytes_of.as_deref();
        tokens.ok_or_else(|| PyValueError::new_err("a vocabulary of fields has no bytes of tokens"))
    }

    fn dict<'py>(
        &self,
        py: Python<'py>,
        tokens: impl Iterator<Item = TokenIndex>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let bytes_of = self.tokens_known()?;
        let dict = PyDict::new(py);
        for token in tokens {
            let id = new_int(py, self.id(token).into()).ok_or_else(|| PyErr::fetch(py))?;
            dict.set_item(id, copied_bytes(py, bytes_of.get(token))?)?;
        }
        Ok(dict)
    }
}

/// Makes a vocabulary of `size` items, without the GIL if that takes long.
fn make(
    py: Python<'_>,
    size: usize,
    work: impl FnOnce(&mut Interrupt<'_>) -> Option<Vocabulary> + Send,
) -> PyResult<Option<NativeVocabulary>> {
    Ok(run(py, size >= GIL_RELEASE_MIN_SIZE, work)?.map(NativeVocabulary))
}

fn hex_digits(byte: u8) -> [char; 2] {
    [byte >> 4, byte & 15].map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)]))
}

/// Returns an int of 32 bits; None for every other value, a bool included.
fn plain_integer(value: &Bound<'_, PyAny>) -> Option<u32> {
    value.is_exact_instance_of::<PyInt>().then(|| value.extract().ok()).flatten()
}

fn plain(values: &Bound<'_, PyAny>) -> Option<Vec<u32>> {
    all(values.cast::<PyList>().ok()?.iter().map(|value| plain_integer(&value)))
}

/// Three lists of integers of four bytes each.
type Found<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// Returns the ids of merges that are spelled "a b", given the id of each token's text.
///
/// The lists are the left and the right id of each merge; the ids that they make, in runs of a
/// first id and a length; and the ids of the other tokens, which no merge makes before another uses
/// them. Returns None if a merge names an unknown token or is spelled in another way, which Python
/// handles.
#[pyfunction]
pub fn find_merges<'py>(
    vocab: &Bound<'py, PyAny>,
    merges: &Bound<'py, PyAny>,
) -> PyResult<Option<Found<'py>>> {
    let py = vocab.py();
    let (Ok(vocab), Ok(merges)) = (vocab.cast::<PyDict>(), merges.cast::<PyList>()) else {
        return Ok(None);
    };
    let find = || {
        let items = vocab.iter();
        let items =
            all(items.map(|(text, id)| {
                Some((text.cast_into::<PyString>().ok()?, plain_integer(&id)?))
            }))?;
        let merges = all(merges.iter().map(|merge| merge.cast_into::<PyString>().ok()))?;
        let mut index_of = HashMap::new();
        granted(index_of.try_reserve(items.len()));
        for (index, (text, _)) in items.iter().enumerate() {
            index_of.insert(text.to_str().ok()?, index);
        }
        let (mut flat, mut runs) = (with_room(2 * merges.len()), Vec::<u32>::new());
        let (mut is_made, mut is_other) = (filled(false, items.len()), filled(false, items.len()));
        let mut joined = String::new();
        for merge in &merges {
            let merge = merge.to_str().ok()?;
            let (left, right) = merge.split_once(' ').filter(|_| !merge.starts_with("#version"))?;
            joined.clear();
            granted(joined.try_reserve(merge.len()));
            joined.push_str(left);
            joined.push_str(right);
            for part in [left, right] {
                let &index = index_of.get(part)?;
                is_other[index] |= !is_made[index];
                flat.push(items[index].1);
            }
            let &made = index_of.get(joined.as_str())?;
            is_made[made] = true;
            let id = items[made].1;
            match runs.last_chunk_mut() {
                Some([first, length]) if first.checked_add(*length) == Some(id) => *length += 1,
                _ => [id, 1].into_iter().for_each(|item| push(&mut runs, item)),
            }
        }
        let mut others = with_room(items.len());
        for (index, (_, id)) in items.iter().enumerate() {
            if is_other[index] || !is_made[index] {
                others.push(*id);
            }
        }
        Some((flat, runs, others))
    };
    let Some((flat, runs, others)) = caught(find)? else { return Ok(None) };
    let bytes = |list: &[u32]| {
        let mut bytes: Vec<u8> = caught(|| with_room(4 * list.len()))?;
        list.iter().for_each(|item| bytes.extend_from_slice(&item.to_ne_bytes()));
        copied_bytes(py, &bytes)
    };
    Ok(Some((bytes(&flat)?, bytes(&runs)?, bytes(&others)?)))
}

/// Returns the items of a dict of ids and bytes.
fn entries<'py>(tokens: &Bound<'py, PyDict>) -> Option<Vec<(u32, Bound<'py, PyBytes>)>> {
    let entries = tokens.iter();
    all(entries.map(|(id, token)| Some((plain_integer(&id)?, token.cast_into().ok()?))))
}

/// Returns the items of an iterator, or None if an item is None.
fn all<T>(items: impl ExactSizeIterator<Item = Option<T>>) -> Option<Vec<T>> {
    let mut list = with_room(items.len());
    for item in items {
        push(&mut list, item?);
    }
    Some(list)
}

fn extracted<'py, T: FromPyObjectOwned<'py>>(values: &Bound<'py, PyAny>) -> PyResult<Vec<T>> {
    let value = |value: PyResult<Bound<'py, PyAny>>| value?.extract::<T>().map_err(Into::into);
    gathered(values.len()?, values.try_iter()?.map(value))
}

fn borrowed<'a>(tokens: &'a [(u32, Bound<'_, PyBytes>)]) -> PyResult<Vec<(u32, &'a [u8])>> {
    caught(|| collected(tokens.iter().map(|(id, token)| (*id, token.as_bytes()))))
}

/// Returns the left and the right id of each merge.
fn pairs<'py>(
    py: Python<'py>,
    merges: &[(TokenIndex, TokenIndex, TokenIndex)],
    integer: impl Fn(TokenIndex) -> Option<Py<PyInt>>,
) -> PyResult<Bound<'py, PyTuple>> {
    let pair = |&(left, right, _): &(TokenIndex, TokenIndex, TokenIndex)| {
        new_tuple(py, [left, right].into_iter().map(&integer)).map(Bound::unbind)
    };
    let pairs = gathered(merges.len(), merges.iter().map(pair))?;
    new_tuple(py, pairs.into_iter().map(Some))
}
