//! The steps of streams, for Python.

use pyo3::exceptions::{PyAttributeError, PyLookupError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyList, PyString, PyTuple};

use super::decode::{Known, token_bytes};
use super::object::{new_bytes_behind, new_decoded, new_text};
use crate::decode::{TokenBytes, copy};
use crate::held::{FEW, Held};

/// What streams need to know of tokens that are UTF-8, wherever it is cut.
#[pyclass(frozen, module = "bpetite._native")]
pub struct StreamTokens {
    /// By id, the text of a token that is whole text by itself, and None of others.
    texts: Py<PyList>,
    bytes: TokenBytes,
}

#[pymethods]
impl StreamTokens {
    #[new]
    fn new(texts: Py<PyList>, tokens: &Bound<'_, PyDict>) -> PyResult<StreamTokens> {
        Ok(StreamTokens { texts, bytes: token_bytes(tokens)? })
    }
}

impl StreamTokens {
    /// Returns the text that an id completes, and what is held then; None if it is unknown.
    fn step<'py>(
        &self,
        py: Python<'py>,
        held: Held,
        id: u32,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Held)>> {
        if held.is_empty()
            && let Some(text) = item(self.texts.bind(py), id)?
        {
            return Ok(Some((text, held)));
        }
        let Some(token) = self.bytes.token(id.into()) else { return Ok(None) };
        if let Some(step) = read_few(py, held, token)? {
            return Ok(Some(step));
        }
        let bytes = new_bytes_behind(py, held.bytes(), token.len(), |place| {
            copy(token, place);
            Ok(true)
        })?;
        bytes.map(|bytes| read(&bytes)).transpose()
    }

    /// Returns the text that several ids complete, and what is held then; None if one is unknown, or
    /// no plain int, or there are none.
    fn steps<'py>(
        &self,
        held: Held,
        ids: &Bound<'py, PyList>,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Held)>> {
        let Some(ids) = Known::of(&self.bytes, ids)? else { return Ok(None) };
        if ids.is_empty() {
            return Ok(None);
        }
        if held.is_empty() && ids.is_ascii() {
            return Ok(ids.ascii()?.map(|text| (text.into_any(), held)));
        }
        ids.bytes_behind(held.bytes())?.map(|bytes| read(&bytes)).transpose()
    }
}

/// Returns the text that a few bytes complete, and what is held then; None if they are more.
fn read_few<'py>(
    py: Python<'py>,
    held: Held,
    bytes: &[u8],
) -> PyResult<Option<(Bound<'py, PyAny>, Held)>> {
    let mut room = ['\0'; FEW];
    let Some((characters, held)) = held.read(bytes, &mut room) else { return Ok(None) };
    Ok(Some((new_text(py, characters)?, held)))
}

/// Returns the text of bytes, and what is held behind them.
fn read<'py>(bytes: &Bound<'py, PyBytes>) -> PyResult<(Bound<'py, PyAny>, Held)> {
    if let Some(step) = read_few(bytes.py(), Held::default(), bytes.as_bytes())? {
        return Ok(step);
    }
    let held = Held::after(bytes.as_bytes());
    let end = bytes.as_bytes().len() - held.bytes().len();
    Ok((new_decoded(bytes.py(), &bytes.as_bytes()[..end])?, held))
}

/// The steps of a stream of text alone, as `bpetite._stream_states.TextSteps`.
///
/// Where tokens are UTF-8, and what is not becomes U+FFFD, a step is made here, and the state that
/// it leads to is looked up when it is asked for. Other steps are made in Python's states.
#[pyclass(subclass, module = "bpetite._native")]
pub struct TextSteps {
    /// Python's state, as it was set: where there are tokens, steps since then changed `held` alone.
    state: Option<Py<PyAny>>,
    /// What steps are made by here; None where they are made in Python's states.
    tokens: Option<Py<StreamTokens>>,
    held: Held,
    /// Whether a step was made since the state was set.
    has_stepped: bool,
}

#[pymethods]
impl TextSteps {
    // What the stream is of, and how it reads, is for the `__init__` of a derived class.
    #[new]
    #[pyo3(signature = (*_args, **_options))]
    fn new(_args: &Bound<'_, PyTuple>, _options: Option<&Bound<'_, PyDict>>) -> TextSteps {
        TextSteps { state: None, tokens: None, held: Held::default(), has_stepped: false }
    }

    #[getter(_state)]
    fn state<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let (state, held, has_stepped) = {
            let steps = slf.try_borrow()?;
            let state = steps.state.as_ref().map(|state| state.clone_ref(py).into_bound(py));
            (state, steps.held, steps.has_stepped)
        };
        let Some(state) = state else {
            let name = slf.get_type().name()?;
            let message = format!("'{name}' object has no attribute '_state'");
            return Err(PyAttributeError::new_err(message));
        };
        if !has_stepped {
            return Ok(state);
        }
        let states = state.getattr(intern!(py, "states"))?;
        let held = PyBytes::new(py, held.bytes());
        let state = states.call_method1(intern!(py, "holding"), (held,))?;
        Self::set_state(slf, state.clone())?;
        Ok(state)
    }

    #[setter(_state)]
    fn set_state(slf: &Bound<'_, Self>, state: Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let core = state.getattr(intern!(py, "core"))?;
        let tokens = core.cast_into::<StreamTokens>().ok();
        let held = match &tokens {
            Some(_) => Held::after(state.getattr(intern!(py, "held"))?.extract()?),
            None => Held::default(),
        };
        let (state, tokens) = (Some(state.unbind()), tokens.map(Bound::unbind));
        let steps = TextSteps { state, tokens, held, has_stepped: false };
        // What was there before is dropped when the stream is borrowed no more.
        let _before = std::mem::replace(&mut *slf.try_borrow_mut()?, steps);
        Ok(())
    }

    /// Return the text that is complete now and was not before; "" if there is none.
    ///
    /// `ids` is an id or several, which equal as many steps: their texts are joined.
    ///
    /// Raises KeyError for an id that the vocabulary lacks, if unknown="raise", and TypeError for
    /// one that is not an integer: the stream is then as it was, before all of several ids. With
    /// errors="strict", raises DecodeStreamError, a UnicodeDecodeError, at the first byte that
    /// cannot be part of a character; the stream then raises ValueError until `reset()` or
    /// `restore()`. After a stop every step returns "" and changes nothing.
    fn step<'py>(slf: &Bound<'py, Self>, ids: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        if let Some(id) = id_of(ids) {
            let mut steps = slf.try_borrow_mut()?;
            if let Some(tokens) = &steps.tokens {
                if let Some((text, held)) = tokens.get().step(py, steps.held, id)? {
                    (steps.held, steps.has_stepped) = (held, true);
                    return Ok(text);
                }
            } else {
                drop(steps); // Python code runs from here on
                let state = Self::state(slf)?;
                if let Some((text, after)) = step_in(&state, ids, id)? {
                    Self::set_state(slf, after)?;
                    return Ok(text);
                }
            }
        }
        if let Ok(several) = ids.cast_exact::<PyList>()
            && let Some(text) = Self::_step_known(slf, several)?
        {
            return Ok(text);
        }
        slf.call_method1(intern!(py, "_step_slowly"), (ids,))
    }

    /// Make the steps of several ids; None, and no step, if one is not that simple.
    ///
    /// So there is nothing that could have to be taken back.
    fn _step_known<'py>(
        slf: &Bound<'py, Self>,
        ids: &Bound<'py, PyList>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = slf.py();
        let (tokens, held) = {
            let steps = slf.try_borrow()?;
            (steps.tokens.as_ref().map(|tokens| tokens.clone_ref(py)), steps.held)
        };
        if let Some(tokens) = tokens {
            let Some((text, held)) = tokens.get().steps(held, ids)? else { return Ok(None) };
            let mut steps = slf.try_borrow_mut()?;
            (steps.held, steps.has_stepped) = (held, true);
            return Ok(Some(text));
        }
        let mut state = Self::state(slf)?;
        let mut texts = Vec::new();
        for id in ids.iter() {
            let step = id_of(&id).map(|number| step_in(&state, &id, number)).transpose()?;
            let Some((text, after)) = step.flatten() else { return Ok(None) };
            texts.push(text);
            state = after;
        }
        let text = PyString::new(py, "").call_method1(intern!(py, "join"), (texts,))?;
        Self::set_state(slf, state)?;
        Ok(Some(text))
    }
}

/// Returns the text of an id in a state that Python has, and the state after it; None if the state
/// knows of none.
fn step_in<'py>(
    state: &Bound<'py, PyAny>,
    id: &Bound<'py, PyAny>,
    number: u32,
) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
    let py = state.py();
    let ready = state.getattr(intern!(py, "ready"))?.cast_into::<PyList>()?;
    if number as usize >= ready.len() {
        return Ok(None);
    }
    if let Some(text) = item(&ready, number)? {
        return Ok(Some((text, state.clone())));
    }
    match state.get_item(id) {
        Ok(step) => step.extract().map(Some),
        Err(error) if error.is_instance_of::<PyLookupError>(py) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the text of an id in a list of texts; None if it has none there.
fn item<'py>(texts: &Bound<'py, PyList>, id: u32) -> PyResult<Option<Bound<'py, PyAny>>> {
    let id = id as usize;
    if id >= texts.len() {
        return Ok(None);
    }
    let text = texts.get_item(id)?;
    Ok(if text.is_none() { None } else { Some(text) })
}

/// Returns the id that a plain int is.
fn id_of(id: &Bound<'_, PyAny>) -> Option<u32> {
    if id.is_exact_instance_of::<PyInt>() { id.extract().ok() } else { None }
}
