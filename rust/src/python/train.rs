//! Counting of pieces and learning of merges, for Python.

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use pyo3::exceptions::{PyOverflowError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use super::ids::Ids;
use super::interrupt::{Exclusive, caught, run};
use super::list::gathered;
use super::object::copied_bytes;
use super::split::splitter;
use super::text::Text;
use super::vocabulary::NativeVocabulary;
use crate::interrupt::Interrupt;
use crate::train::{
    Balance, Base, CountedPieces, Counter, Counts, Error, Language, Learner, Records, Run,
    Totalled, merge, partition,
};
use crate::types::TokenIndex;

/// An error in UTF-8: the offset in the document, and up to four bytes from there on.
type NotUtf8<'py> = Option<(u64, Bound<'py, PyBytes>)>;

/// Returns an error in UTF-8, and raises any other.
fn not_utf8(py: Python<'_>, result: Result<(), Error>) -> PyResult<NotUtf8<'_>> {
    match result {
        Ok(()) => Ok(None),
        Err(Error::NotUtf8 { offset, bytes }) => Ok(Some((offset, PyBytes::new(py, &bytes)))),
        Err(other) => Err(error(other)),
    }
}

/// Returns the Python error. If a signal stopped the work, the signal's own error replaces it.
fn error(error: Error) -> PyErr {
    match error {
        Error::TooLarge => PyOverflowError::new_err(
            "2 GiB or more of distinct pieces, or of text without a safe split; train on less text",
        ),
        Error::NotUtf8 { .. } | Error::Interrupted => PyRuntimeError::new_err(SPENT),
    }
}

/// The error of an object that can no longer be used.
const SPENT: &str = "training was interrupted and cannot continue; start it again";

/// Counts pieces.
#[pyclass(frozen, module = "bpetite._engine._native")]
pub struct PieceCounter(Exclusive<Counter>);

#[pymethods]
impl PieceCounter {
    /// `threads` is the number of threads, None for one for each core.
    #[new]
    fn new(pattern: &Bound<'_, PyAny>, threads: Option<usize>) -> PyResult<PieceCounter> {
        let splitter = splitter(pattern)?;
        let threads =
            threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
        let counter = caught(|| Counter::new(splitter, threads))?;
        Ok(PieceCounter(Exclusive::new(counter, SPENT)))
    }

    /// Takes the next bytes of a document; returns an error in their UTF-8.
    fn add<'py>(&self, py: Python<'py>, data: &[u8]) -> PyResult<NotUtf8<'py>> {
        let is_long = |counter: &Counter| counter.is_full(data.len());
        not_utf8(py, self.0.work(py, is_long, |counter, interrupt| counter.add(data, interrupt))?)
    }

    /// Takes whole documents of `data`. If one is not UTF-8, takes none and returns false.
    fn add_documents(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        offsets: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let (Some(text), Some(offsets)) = (Text::of_bytes(data), Ids::of(offsets)?) else {
            return Ok(false);
        };
        let Some(documents) = text.documents(py, &offsets)? else { return Ok(false) };
        let add = |counter: &mut Counter, interrupt: &mut Interrupt<'_>| {
            for document in documents {
                counter.add(document, interrupt)?;
                counter.end_document(interrupt)?;
            }
            Ok(())
        };
        self.0.work(py, |_| !text.may_change(), add)?.map_err(error)?;
        Ok(true)
    }

    /// Ends the document; returns an error if it ends inside a character.
    fn end_document<'py>(&self, py: Python<'py>) -> PyResult<NotUtf8<'py>> {
        let is_long = |counter: &Counter| counter.is_full(0);
        not_utf8(py, self.0.work(py, is_long, Counter::end_document)?)
    }

    /// Returns the counts of all documents. The counter cannot be used afterwards.
    fn finish(&self, py: Python<'_>) -> PyResult<PieceCounts> {
        let counter = self.0.take(py)?;
        let counts = run(py, true, |interrupt| counter.finish(interrupt))?;
        Ok(PieceCounts(Exclusive::new(counts.map_err(error)?, SPENT)))
    }
}

/// How often each piece occurs.
#[pyclass(frozen, module = "bpetite._engine._native")]
pub struct PieceCounts(Exclusive<Counts>);

#[pymethods]
impl PieceCounts {
    /// Takes counts from Python.
    #[new]
    fn new(py: Python<'_>, counts: &Bound<'_, PyDict>) -> PyResult<PieceCounts> {
        let mut all = Counts::default();
        for (number, (piece, count)) in counts.iter().enumerate() {
            if number % SIGNAL_CHECK_PIECES == SIGNAL_CHECK_PIECES - 1 {
                py.check_signals()?;
            }
            let (piece, count) = (piece.cast::<PyString>()?.to_str()?, count.extract()?);
            caught(|| all.add_piece(piece.as_bytes(), count))?;
        }
        Ok(PieceCounts(Exclusive::new(all, SPENT)))
    }

    /// Returns the counts as records. The object cannot be used afterwards.
    fn records<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let counts = self.0.take(py)?;
        let records = run(py, true, |interrupt| counts.into_records(interrupt))?.map_err(error)?;
        copied_bytes(py, &records)
    }
}

type PyRecords<'py> = (Bound<'py, PyBytes>, (u64, u64, u64, u64));

fn py_records<'py>(py: Python<'py>, all: &Totalled) -> PyResult<PyRecords<'py>> {
    let totals = (all.distinct_pieces, all.pieces, all.text_bytes, all.dropped_pieces);
    Ok((copied_bytes(py, &all.records)?, totals))
}

/// Merges runs of records, each with a weight. Returns None for records in which Python finds an
/// error.
#[pyfunction]
pub fn merge_records<'py>(
    py: Python<'py>,
    runs: Vec<(Bound<'py, PyBytes>, u64)>,
    min_count: u64,
) -> PyResult<Option<PyRecords<'py>>> {
    let runs: Vec<_> = runs
        .iter()
        .map(|(records, weight)| Run { records: records.as_bytes(), weight: *weight })
        .collect();
    let merged = run(py, true, |interrupt| merge(&runs, min_count, interrupt))?.map_err(error)?;
    merged.map(|merged| py_records(py, &merged)).transpose()
}

/// Divides valid records into partitions, by a hash of their pieces.
#[pyfunction]
pub fn partition_records<'py>(
    py: Python<'py>,
    records: &Bound<'py, PyBytes>,
    count: usize,
) -> PyResult<Vec<PyRecords<'py>>> {
    let records = records.as_bytes();
    let partitions = run(py, true, |interrupt| partition(records, count, interrupt))?;
    let partitions = partitions.map_err(error)?;
    gathered(count, partitions.into_iter().map(|part| py_records(py, &part)))
}

/// The number of pieces between two checks of signals.
const SIGNAL_CHECK_PIECES: usize = 1 << 18;

/// Learns merges from counted pieces.
#[pyclass(frozen, module = "bpetite._engine._native")]
pub struct MergeLearner {
    learner: Exclusive<Learners>,
    /// The ids of the tokens of the base; empty without a base.
    base_ids: Arc<Vec<u32>>,
    /// The id that the first merge makes.
    first_id: u32,
    /// Returns whether a pair of ids may be merged.
    takes: Option<Py<PyAny>>,
}

enum Learners {
    OfAll(Box<Learner>),
    OfLanguages(Balance),
}

impl Learners {
    fn next_merge(
        &mut self,
        takes: impl FnMut(TokenIndex, TokenIndex) -> Result<bool, Error>,
        interrupt: &mut Interrupt<'_>,
    ) -> Result<Option<(TokenIndex, TokenIndex)>, Error> {
        match self {
            Learners::OfAll(learner) => learner.next_merge(takes, interrupt),
            Learners::OfLanguages(balance) => balance.next_merge(takes, interrupt),
        }
    }
}

/// Returns the learner for some counts, which are for all text or for one language of several.
fn learner_of(
    py: Python<'_>,
    counts: &Bound<'_, PyAny>,
    base: Option<&Base>,
    min_count: u64,
    is_of_all: bool,
) -> PyResult<Learner> {
    fn make(
        counts: impl CountedPieces,
        base: Option<&Base>,
        min_count: u64,
        is_of_all: bool,
        interrupt: &mut Interrupt<'_>,
    ) -> Result<Learner, Error> {
        let new = if is_of_all { Learner::new } else { Learner::of_several };
        new(counts, base, min_count, interrupt)
    }
    let learner = if let Ok(records) = counts.cast::<PyBytes>() {
        let records = Records(records.as_bytes());
        run(py, true, |interrupt| make(records, base, min_count, is_of_all, interrupt))?
    } else {
        let counts = counts.cast::<PieceCounts>()?.get().0.take(py)?;
        run(py, true, |interrupt| make(counts, base, min_count, is_of_all, interrupt))?
    };
    learner.map_err(error)
}

impl MergeLearner {
    fn id_of(&self, token: TokenIndex) -> u32 {
        let base = self.base_ids.len() as TokenIndex;
        match self.base_ids.get(token as usize) {
            Some(&id) => id,
            None if base == 0 => token,
            None => self.first_id + (token - base),
        }
    }
}

#[pymethods]
impl MergeLearner {
    /// Takes counts, which cannot be used afterwards, or reads valid records. For several
    /// languages, `developments` has the counts of each language's development text.
    ///
    /// With a `base`, merges are learnt on top of it, and the first merge makes the id `first_id`.
    /// A pair is merged if its count is at least `min_count` and `takes` does not refuse it.
    #[new]
    fn new(
        py: Python<'_>,
        counts: Vec<Bound<'_, PyAny>>,
        developments: Vec<Bound<'_, PyAny>>,
        base: Option<&NativeVocabulary>,
        first_id: u32,
        takes: Option<Py<PyAny>>,
        min_count: u64,
    ) -> PyResult<MergeLearner> {
        let base_ids = base.map(|base| Arc::clone(&base.0.id_of)).unwrap_or_default();
        let base = base.map(|base| Base::new(Arc::clone(&base.0.table), base.0.id_of.len()));
        let base = base.as_ref();
        let learner = if developments.is_empty() {
            let [counts] = &counts[..] else { return Err(PyValueError::new_err("one text")) };
            Learners::OfAll(learner_of(py, counts, base, min_count, true)?.into())
        } else {
            let languages = counts.iter().zip(&developments).map(|(text, development)| {
                let learner = |counts| learner_of(py, counts, base, min_count, false);
                Ok(Language { text: learner(text)?, development: learner(development)? })
            });
            Learners::OfLanguages(Balance::new(languages.collect::<PyResult<_>>()?))
        };
        Ok(MergeLearner { learner: Exclusive::new(learner, SPENT), base_ids, first_id, takes })
    }

    /// Learns up to `max_merges` merges for about `seconds`, at least one if a pair is left.
    /// Returns the merges, and whether the pairs are used up.
    fn learn(
        &self,
        py: Python<'_>,
        max_merges: usize,
        seconds: f64,
    ) -> PyResult<(Vec<(u32, u32)>, bool)> {
        let mut raised = None;
        let mut takes = |left, right| match &self.takes {
            None => Ok(true),
            Some(takes) => Python::attach(|py| {
                let ids = (self.id_of(left), self.id_of(right));
                takes.call1(py, ids)?.extract(py)
            })
            .map_err(|error| {
                raised = Some(error);
                Error::Interrupted
            }),
        };
        let learn = |learner: &mut Learners, interrupt: &mut Interrupt<'_>| {
            let start = Instant::now();
            let mut merges = Vec::new();
            while merges.len() < max_merges {
                match learner.next_merge(&mut takes, interrupt)? {
                    Some((left, right)) => merges.push((self.id_of(left), self.id_of(right))),
                    None => return Ok((merges, true)),
                }
                if start.elapsed().as_secs_f64() >= seconds {
                    break;
                }
            }
            Ok((merges, false))
        };
        let learnt = self.learner.work(py, |_| true, learn)?;
        learnt.map_err(|fault| raised.take().unwrap_or_else(|| error(fault)))
    }
}
