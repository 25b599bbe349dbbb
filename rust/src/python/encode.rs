//! Text to ids, for Python.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyList, PyMemoryView, PyString};

use super::array::{Item, View, memoryview, memoryview_with_surplus};
use super::ids::Ids;
use super::interrupt::{GIL_RELEASE_MIN_SIZE, caught, run};
use super::list::{gathered, list_of};
use super::object::new_int;
use super::split::splitter;
use super::text::Text;
use super::vocabulary::NativeVocabulary;
use crate::encode::parallel::{self, Frame, TooLongError};
use crate::encode::{Count, Encoder, Id, IdList, Job, PartedText, Stop, Texts};
use crate::interrupt::Interrupt;
use crate::mem::growth::{collected, copied};

/// The number of parts of a text between two checks of signals.
const SIGNAL_CHECK_PARTS: usize = 1 << 8;

/// The room for each part of a text before the text grows.
const PART_BYTES: usize = 128;

/// The most ids whose Python integers are kept, since few vocabularies have higher ids.
const READY_MADE_INTEGERS: u32 = 1 << 19;

type List<'py> = PyResult<Bound<'py, PyList>>;
type PrefixAndSuffix = (Vec<u32>, Vec<u32>);
type Views<'py> = PyResult<(Bound<'py, PyMemoryView>, Bound<'py, PyMemoryView>)>;

#[pyclass(frozen, module = "bpetite._engine._native")]
pub struct TextEncoder {
    encoder: Encoder,
    integers: Arc<Integers>,
}

/// The Python integers of ids. They are made on first use, because arrays need none.
struct Integers {
    count: u32,
    ready: OnceLock<Vec<Py<PyInt>>>,
}

impl Integers {
    /// Returns a function that makes an integer, or sets a MemoryError and returns None.
    fn maker<'a>(
        &'a self,
        py: Python<'a>,
    ) -> PyResult<impl Fn(u64) -> Option<Py<PyInt>> + use<'a>> {
        let integer = |id: u32| new_int(py, id.into()).ok_or_else(|| PyErr::fetch(py));
        if self.ready.get().is_none() {
            // Made before the lock is taken, because a process forked meanwhile would wait for ever
            // for a thread that it does not have.
            let _ = self.ready.set(gathered(self.count as usize, (0..self.count).map(integer))?);
        }
        let ready = self.ready.get().map_or(&[][..], Vec::as_slice);
        Ok(move |value| match ready.get(value as usize) {
            Some(integer) => Some(integer.clone_ref(py)),
            None => new_int(py, value),
        })
    }
}

impl TextEncoder {
    /// Returns the joined ids of all texts, and the bounds of each text among them.
    fn ids<T: Id>(
        &self,
        py: Python<'_>,
        texts: &[Text<'_>],
        ordinary: bool,
        frame: Frame<'_>,
        threads: usize,
    ) -> PyResult<(Vec<T>, Vec<u64>)> {
        let may_change = texts.iter().any(Text::may_change);
        let texts = gathered(texts.len(), texts.iter().map(Text::bytes))?;
        self.ids_of_bytes(py, Texts::from(&texts[..]), may_change, ordinary, frame, threads)
    }

    fn ids_of_bytes<T: Id>(
        &self,
        py: Python<'_>,
        texts: Texts<'_>,
        may_change: bool,
        ordinary: bool,
        frame: Frame<'_>,
        threads: usize,
    ) -> PyResult<(Vec<T>, Vec<u64>)> {
        let length = length_of(texts);
        let encode = |interrupt: &mut Interrupt<'_>| {
            parallel::encode_all(&self.encoder, texts, ordinary, frame, threads, interrupt)
        };
        run(py, length >= GIL_RELEASE_MIN_SIZE && !may_change, encode)?.map_err(too_long)
    }

    /// Returns the ids of a long text in parts, the index of each part's first id, and their
    /// number.
    fn ids_of_parts<T: Id + Into<u32>>(
        &self,
        py: Python<'_>,
        text: &PartedText,
    ) -> PyResult<(Vec<T>, Vec<u64>)> {
        let (result, ids) = run(py, true, |interrupt| {
            let mut ids = IdList::within(T::pool().take(text.len() / 4));
            let mut context = self.encoder.take_context();
            let job = &mut Job { context: &mut context, sink: &mut ids, interrupt };
            let result = text.encode(&self.encoder, job);
            self.encoder.put_context(context);
            (result, ids)
        })?;
        match result {
            // `run` has returned the error of an interrupt.
            Err(Stop::Interrupted) => Ok(Default::default()),
            Err(Stop::TooLong(error)) => Err(too_long(error)),
            Ok(offsets) => Ok((ids.into_vec(), offsets)),
        }
    }

    fn list<'py>(&self, py: Python<'py>, ids: &[u32]) -> List<'py> {
        let integer = self.integers.maker(py)?;
        list_of(py, ids.iter().map(|&id| integer(id.into())))
    }

    /// Does `work` with the ids that `encode` gives to a sink; for short texts.
    fn with_ids<E, R>(
        &self,
        encode: impl FnOnce(&mut Job<'_, '_, IdList<u32>>) -> E,
        work: impl FnOnce(&[u32], E) -> PyResult<R>,
    ) -> PyResult<R> {
        caught(|| {
            let mut context = self.encoder.take_context();
            let mut ids = std::mem::take(&mut context.ids);
            ids.clear();
            let (sink, interrupt) = (&mut ids, &mut Interrupt::never());
            let encoded = encode(&mut Job { context: &mut context, sink, interrupt });
            let result = work(ids.all(), encoded);
            context.ids = ids;
            self.encoder.put_context(context);
            result
        })?
    }
}

/// Returns the UTF-8 of a short `str`, which is encoded whole and without releasing the GIL.
#[inline(always)]
fn short<'a>(text: &'a Bound<'_, PyAny>) -> PyResult<Option<&'a [u8]>> {
    let Ok(text) = text.cast::<PyString>() else { return Ok(None) };
    Ok(Some(text.to_str()?.as_bytes()).filter(|bytes| bytes.len() < GIL_RELEASE_MIN_SIZE))
}

/// Returns special literals and their ids, in the order of the dict.
fn literals(special_tokens: &Bound<'_, PyDict>) -> PyResult<Vec<(String, u32)>> {
    special_tokens.iter().map(|(text, id)| Ok((text.extract()?, id.extract()?))).collect()
}

#[pymethods]
impl TextEncoder {
    /// `splitters` are automata and cuts. Each splits the pieces of the one before. Without any,
    /// the encoder only merges. `partial` has the ids that some ids of the vocabulary become at
    /// last. Bytes that are `dropped` have no ids; then `encode_parts` must not be called.
    #[new]
    #[pyo3(signature = (
        vocabulary, special_tokens, splitters, partial = HashMap::new(), dropped = None
    ))]
    fn new(
        vocabulary: &Bound<'_, NativeVocabulary>,
        special_tokens: &Bound<'_, PyDict>,
        splitters: Vec<Bound<'_, PyAny>>,
        partial: HashMap<u32, Vec<u32>>,
        dropped: Option<&[u8]>,
    ) -> PyResult<TextEncoder> {
        let vocabulary = &vocabulary.get().0;
        let splitters = splitters.iter().map(splitter).collect::<PyResult<_>>()?;
        let special = literals(special_tokens)?;
        let special_ids = special.iter().map(|(_, id)| id);
        let highest = vocabulary.id_of.last().into_iter().chain(special_ids).max();
        let count = highest.map_or(0, |&id| id.saturating_add(1)).min(READY_MADE_INTEGERS);
        let integers = Arc::new(Integers { count, ready: OnceLock::new() });
        let encoder = caught(|| {
            Encoder::new(
                splitters,
                Arc::clone(&vocabulary.table),
                Arc::clone(&vocabulary.id_of),
                &special,
            )
            .expanding(|token| partial.get(&vocabulary.id_of[token as usize]).cloned())
            .dropping(dropped.unwrap_or_default())
        })?;
        Ok(TextEncoder { encoder, integers })
    }

    /// Returns an encoder that differs only in its special literals. The `plain` ones count in all
    /// parts of a text.
    #[pyo3(signature = (special_tokens, plain = Vec::new()))]
    fn with_special_tokens(
        &self,
        special_tokens: &Bound<'_, PyDict>,
        plain: Vec<String>,
    ) -> PyResult<TextEncoder> {
        let special = literals(special_tokens)?;
        let encoder = caught(|| self.encoder.allowing(&special, &plain))?;
        Ok(TextEncoder { encoder, integers: Arc::clone(&self.integers) })
    }

    /// Returns the first special literal in a text and its position in characters, if there is one.
    fn first_special<'py>(
        &self,
        text: &Bound<'py, PyAny>,
    ) -> PyResult<Option<(Bound<'py, PyString>, usize)>> {
        let (py, text) = (text.py(), Text::new(text)?);
        let bytes = text.bytes()?;
        let may_wait = bytes.len() >= GIL_RELEASE_MIN_SIZE && !text.may_change();
        let first = run(py, may_wait, |_| self.encoder.first_special(bytes))?;
        let Some((start, end)) = first else { return Ok(None) };
        let literal = String::from_utf8_lossy(&bytes[start..end]);
        let position = String::from_utf8_lossy(&bytes[..start]).chars().count();
        Ok(Some((PyString::new(py, &literal), position)))
    }

    /// Returns the ids of a text, made by up to `threads` threads. Special literals become their
    /// ids, unless the text is ordinary.
    #[pyo3(signature = (text, ordinary = false, threads = 1))]
    fn encode<'py>(&self, text: &Bound<'py, PyAny>, ordinary: bool, threads: usize) -> List<'py> {
        let py = text.py();
        if let Some(bytes) = short(text)? {
            let encode = |job: &mut Job<'_, '_, _>| self.encoder.encode(bytes, ordinary, job);
            return self.with_ids(encode, |ids, ()| self.list(py, ids));
        }
        let ids: Vec<u32> =
            self.ids(py, &[Text::new(text)?], ordinary, Frame::default(), threads)?.0;
        let list = self.list(py, &ids);
        u32::pool().put_back(ids);
        list
    }

    /// Returns the number of ids that `encode` returns.
    #[pyo3(signature = (text, ordinary = false))]
    fn count(&self, text: &Bound<'_, PyAny>, ordinary: bool) -> PyResult<usize> {
        let held = Text::new(text)?;
        let bytes = held.bytes()?;
        if bytes.len() > parallel::MAX_STRETCH_BYTES {
            // Such a text must be split before it is encoded.
            return Ok(self.ids::<u32>(text.py(), &[held], ordinary, Frame::default(), 1)?.0.len());
        }
        let may_detach = bytes.len() >= GIL_RELEASE_MIN_SIZE && !held.may_change();
        run(text.py(), may_detach, |interrupt| {
            let mut count = Count::default();
            let mut context = self.encoder.take_context();
            let job = &mut Job { context: &mut context, sink: &mut count, interrupt };
            self.encoder.encode(bytes, ordinary, job);
            self.encoder.put_context(context);
            count.0
        })
    }

    /// Returns the ids of a text in a buffer, with items of 4 or 2 bytes.
    #[pyo3(signature = (text, ordinary = false, item_size = 4, threads = 1))]
    fn encode_array<'py>(
        &self,
        text: &Bound<'py, PyAny>,
        ordinary: bool,
        item_size: usize,
        threads: usize,
    ) -> View<'py> {
        let py = text.py();
        if let Some(bytes) = short(text)? {
            let encode = |job: &mut Job<'_, '_, _>| self.encoder.encode(bytes, ordinary, job);
            return self.with_ids(encode, |ids, ()| array(py, ids, item_size));
        }
        let texts = [Text::new(text)?];
        if item_size == 2 {
            memoryview(py, self.ids::<u16>(py, &texts, ordinary, Frame::default(), threads)?.0)
        } else {
            memoryview(py, self.ids::<u32>(py, &texts, ordinary, Frame::default(), threads)?.0)
        }
    }

    /// Returns the ids of each text between its prefix and suffix: lists for an `item_size` of 0,
    /// else one buffer, and the offset of each text in another.
    fn encode_batch<'py>(
        &self,
        py: Python<'py>,
        texts: &Bound<'py, PyAny>,
        frame: PrefixAndSuffix,
        item_size: usize,
        threads: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let texts = texts_of(texts)?;
        let frame = borrowed(&frame);
        if item_size == 2 {
            return views(py, self.ids::<u16>(py, &texts, false, frame, threads)?)?
                .into_bound_py_any(py);
        }
        let (ids, offsets) = self.ids::<u32>(py, &texts, false, frame, threads)?;
        if item_size != 0 {
            return views(py, (ids, offsets))?.into_bound_py_any(py);
        }
        let batch = PyList::empty(py);
        for bounds in offsets.windows(2) {
            py.check_signals()?;
            batch.append(self.list(py, &ids[bounds[0] as usize..bounds[1] as usize])?)?;
        }
        u32::pool().put_back(ids);
        Ok(batch.into_any())
    }

    /// Returns the ids of the documents in `data`, as `encode_batch` does.
    fn encode_buffer<'py>(
        &self,
        py: Python<'py>,
        data: &Bound<'py, PyAny>,
        offsets: &Bound<'py, PyAny>,
        frame: PrefixAndSuffix,
        item_size: usize,
        threads: usize,
    ) -> Views<'py> {
        let frame = borrowed(&frame);
        with_documents(data, offsets, |texts, may_change| {
            if item_size == 2 {
                views(py, self.ids_of_bytes::<u16>(py, texts, may_change, false, frame, threads)?)
            } else {
                views(py, self.ids_of_bytes::<u32>(py, texts, may_change, false, frame, threads)?)
            }
        })
    }

    /// Returns the ids of a text in parts, and the index of each part's first id and their number:
    /// two lists for an `item_size` of 0, else two buffers.
    fn encode_parts<'py>(
        &self,
        py: Python<'py>,
        parts: &Bound<'py, PyList>,
        item_size: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let text = parted(parts)?;
        let is_short = text.len() < GIL_RELEASE_MIN_SIZE;
        let encode = |job: &mut Job<'_, '_, _>| text.encode(&self.encoder, job);
        if item_size == 0 {
            let integer = self.integers.maker(py)?;
            let offsets_list = |offsets: Vec<u64>| list_of(py, offsets.into_iter().map(&integer));
            if is_short {
                return self
                    .with_ids(encode, |ids, offsets| {
                        Ok((self.list(py, ids)?, offsets_list(offsets.unwrap_or_default())?))
                    })?
                    .into_bound_py_any(py);
            }
            let (ids, offsets) = self.ids_of_parts::<u32>(py, &text)?;
            let list = self.list(py, &ids)?;
            u32::pool().put_back(ids);
            return (list, offsets_list(offsets)?).into_bound_py_any(py);
        }
        let found = if is_short {
            self.with_ids(encode, |ids, offsets| {
                Ok((array(py, ids, item_size)?, memoryview(py, offsets.unwrap_or_default())?))
            })?
        } else if item_size == 2 {
            views(py, self.ids_of_parts::<u16>(py, &text)?)?
        } else {
            views(py, self.ids_of_parts::<u32>(py, &text)?)?
        };
        found.into_bound_py_any(py)
    }

    /// Returns the ids of a piece that the caller has split off.
    fn merge<'py>(&self, piece: &Bound<'py, PyBytes>) -> List<'py> {
        let (py, bytes) = (piece.py(), piece.as_bytes());
        if bytes.len() > parallel::MAX_STRETCH_BYTES {
            return Err(PyOverflowError::new_err("a piece of 1 GiB or more"));
        }
        let ids = run(py, bytes.len() >= GIL_RELEASE_MIN_SIZE, |interrupt| {
            let mut context = self.encoder.take_context();
            let mut ids = IdList::default();
            let job = &mut Job { context: &mut context, sink: &mut ids, interrupt };
            self.encoder.encode_piece(bytes, job);
            self.encoder.put_context(context);
            ids
        })?;
        self.list(py, ids.all())
    }
}

/// Does `work` with the documents in `data`, and tells it whether they may change.
fn with_documents<R>(
    data: &Bound<'_, PyAny>,
    offsets: &Bound<'_, PyAny>,
    work: impl FnOnce(Texts<'_>, bool) -> PyResult<R>,
) -> PyResult<R> {
    let py = data.py();
    let text = Text::of_bytes(data);
    let documents = match (&text, Ids::of(offsets)?) {
        (Some(text), Some(offsets)) => text.documents(py, &offsets)?,
        _ => None,
    };
    if let (Some(text), Some(documents)) = (&text, documents) {
        return work(Texts { texts: &documents, buffer: text.bytes()? }, text.may_change());
    }
    // Python raises the error for bad documents, or makes texts of unusual ones.
    let module = py.import("bpetite._engine.documents")?;
    let texts = module.call_method1("documents_in", (data, offsets))?;
    let texts = texts_of(&texts)?;
    let may_change = texts.iter().any(Text::may_change);
    let bytes = gathered(texts.len(), texts.iter().map(Text::bytes))?;
    work(Texts::from(&bytes[..]), may_change)
}

fn length_of(texts: Texts<'_>) -> usize {
    texts.texts.iter().map(|text| text.len()).sum()
}

fn too_long(_: TooLongError) -> PyErr {
    PyOverflowError::new_err("a text has 1 GiB without a safe split; split it before encoding")
}

fn borrowed((prefix, suffix): &PrefixAndSuffix) -> Frame<'_> {
    Frame { prefix, suffix }
}

/// Returns the ids of a short text in a buffer.
fn array<'py>(py: Python<'py>, ids: &[u32], item_size: usize) -> View<'py> {
    match item_size {
        2 => memoryview_with_surplus(py, collected(ids.iter().map(|&id| u16::of(id)))),
        _ => memoryview_with_surplus(py, copied(ids)),
    }
}

/// Joins the parts of a text; checks signals, because there may be many.
fn parted(parts: &Bound<'_, PyList>) -> PyResult<PartedText> {
    let py = parts.py();
    // Not a static: each interpreter of a process has a class of its own.
    let mut trusted: Option<Bound<'_, PyAny>> = None;
    let mut text = caught(|| PartedText::with_capacity(PART_BYTES * parts.len(), parts.len()))?;
    for (index, part) in parts.iter().enumerate() {
        let part = part.cast::<PyString>()?;
        let is_trusted = !part.is_exact_instance_of::<PyString>() && {
            let class = match &trusted {
                Some(class) => class,
                None => trusted.insert(py.import("bpetite._arguments")?.getattr("Trusted")?),
            };
            part.is_instance(class)?
        };
        let bytes = part.to_str()?.as_bytes();
        caught(|| text.push(bytes, is_trusted))?;
        if index % SIGNAL_CHECK_PARTS == SIGNAL_CHECK_PARTS - 1 {
            py.check_signals()?;
        }
    }
    Ok(text)
}

fn views<T: Item>(py: Python<'_>, (ids, offsets): (Vec<T>, Vec<u64>)) -> Views<'_> {
    Ok((memoryview(py, ids)?, memoryview(py, offsets)?))
}

/// Returns the texts of a batch; checks signals, because there may be many.
fn texts_of<'py>(texts: &Bound<'py, PyAny>) -> PyResult<Vec<Text<'py>>> {
    let text = |text: PyResult<Bound<'py, PyAny>>| {
        texts.py().check_signals()?;
        Text::new(&text?)
    };
    gathered(texts.len().unwrap_or(0), texts.try_iter()?.map(text))
}
