//! The steps of streams, for Python.

use std::str::from_utf8;

use pyo3::exceptions::{PyAttributeError, PyLookupError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyInt, PyList, PyString, PyTuple};

use super::decode::{Known, TokenBytes};
use super::interrupt::caught;
use super::object::{new_bytes, new_decoded, new_text};
use crate::decode::TokenBytes as Table;
use crate::mem::Output;
use crate::stream::{Pending, STACK_BYTES};

type Object<'py> = Bound<'py, PyAny>;

/// The names of attributes and methods of Python's states and streams.
pub struct Names {
    after: Py<PyString>,
    pub join: Py<PyString>,
    native_tokens: Py<PyString>,
    pending: Py<PyString>,
    pub step_any: Py<PyString>,
    text_of: Py<PyString>,
    pub transitions: Py<PyString>,
    pub whole: Py<PyString>,
}

impl Names {
    /// Returns the names, which the first call makes.
    pub fn get(py: Python<'_>) -> &'static Names {
        static NAMES: PyOnceLock<Names> = PyOnceLock::new();
        NAMES.get_or_init(py, || {
            let name = |name| PyString::intern(py, name).unbind();
            Names {
                after: name("after"),
                join: name("join"),
                native_tokens: name("native_tokens"),
                pending: name("pending"),
                step_any: name("_step_any"),
                text_of: name("text_of"),
                transitions: name("transitions"),
                whole: name("whole"),
            }
        })
    }
}

/// The text that ids complete, and the bytes that are pending after them.
type Step<'py> = (Object<'py>, Pending);

/// The tokens of plain streams: UTF-8 that is split anywhere.
#[pyclass(frozen, module = "bpetite._engine._native")]
pub struct StreamTokens {
    /// By id, the text of a token that was met and is complete text by itself; else None.
    texts: Py<PyList>,
    bytes: Table,
}

#[pymethods]
impl StreamTokens {
    #[new]
    fn new(texts: Py<PyList>, tokens: &TokenBytes) -> PyResult<StreamTokens> {
        Ok(StreamTokens { texts, bytes: caught(|| tokens.0.without(&[]))? })
    }
}

impl StreamTokens {
    /// Returns the step of an id; None for an unknown id.
    fn step<'py>(&self, py: Python<'py>, pending: Pending, id: u32) -> PyResult<Option<Step<'py>>> {
        if pending.is_empty()
            && let Some(text) = item(self.texts.bind(py), id)?
        {
            return Ok(Some((text, pending)));
        }
        let Some(token) = self.bytes.token(id.into()) else { return Ok(None) };
        if let Some((text, after)) = read_short(py, pending, token)? {
            let texts = self.texts.bind(py);
            if pending.is_empty() && (id as usize) < texts.len() && from_utf8(token).is_ok() {
                texts.set_item(id as usize, &text)?;
            }
            return Ok(Some((text, after)));
        }
        let push = |output: &mut Output<'_>| Ok(_ = output.push(token));
        let bytes = new_bytes(py, pending.bytes(), token.len(), push)?;
        bytes.map(|bytes| read(&bytes)).transpose()
    }

    /// Returns the step of several known ids, all plain ints; None for other ids, and for no ids.
    fn steps<'py>(
        &self,
        pending: Pending,
        ids: &Bound<'py, PyList>,
    ) -> PyResult<Option<Step<'py>>> {
        let Some(ids) = Known::of(&self.bytes, ids)?.filter(|_| !ids.is_empty()) else {
            return Ok(None);
        };
        if pending.is_empty() && ids.extent.is_ascii() {
            return Ok(ids.ascii()?.map(|text| (text.into_any(), pending)));
        }
        ids.bytes_after(pending.bytes())?.map(|bytes| read(&bytes)).transpose()
    }
}

/// Returns the step of a short token; None for a longer one.
fn read_short<'py>(py: Python<'py>, pending: Pending, bytes: &[u8]) -> PyResult<Option<Step<'py>>> {
    let mut room = ['\0'; STACK_BYTES];
    let Some((characters, pending)) = pending.read(bytes, &mut room) else { return Ok(None) };
    Ok(Some((new_text(py, characters)?, pending)))
}

/// Returns the text of bytes, and the bytes pending after them.
fn read<'py>(bytes: &Bound<'py, PyBytes>) -> PyResult<Step<'py>> {
    if let Some(step) = read_short(bytes.py(), Pending::default(), bytes.as_bytes())? {
        return Ok(step);
    }
    let pending = Pending::after(bytes.as_bytes());
    let end = bytes.as_bytes().len() - pending.bytes().len();
    let text = new_decoded(bytes.py(), &bytes.as_bytes()[..end], c"replace")?;
    Ok((text.into_any(), pending))
}

/// The steps of a plain stream, the twin of `bpetite._engine.python.PlainSteps`.
///
/// If the state has native tokens, steps are made here, and Python's state is looked up only when
/// Python reads `_state`. Otherwise each step is a transition between Python's states, through the
/// attributes that `_engine/contract.py` declares.
#[pyclass(subclass, module = "bpetite._engine._native")]
pub struct PlainSteps {
    /// Python's state as it was set. Native steps change only `pending`.
    state: Option<Py<PyAny>>,
    /// The native tokens of the state; None if Python's states make the steps.
    tokens: Option<Py<StreamTokens>>,
    pending: Pending,
    /// Whether a step was made since the state was set.
    has_stepped: bool,
}

#[pymethods]
impl PlainSteps {
    // The arguments are for the `__init__` of the derived class.
    #[new]
    #[pyo3(signature = (*_args, **_options))]
    fn new(_args: &Bound<'_, PyTuple>, _options: Option<&Bound<'_, PyDict>>) -> PlainSteps {
        PlainSteps { state: None, tokens: None, pending: Pending::default(), has_stepped: false }
    }

    #[getter(_state)]
    fn state<'py>(slf: &Bound<'py, Self>) -> PyResult<Object<'py>> {
        let py = slf.py();
        let (state, pending, has_stepped) = {
            let steps = slf.try_borrow()?;
            let state = steps.state.as_ref().map(|state| state.clone_ref(py).into_bound(py));
            (state, steps.pending, steps.has_stepped)
        };
        let Some(state) = state else {
            let message = format!("'{}' object has no attribute '_state'", slf.get_type().name()?);
            return Err(PyAttributeError::new_err(message));
        };
        if !has_stepped {
            return Ok(state);
        }
        let pending = PyBytes::new(py, pending.bytes());
        let state = state.call_method1(&Names::get(py).after, (pending,))?;
        Self::set_state(slf, state.clone())?;
        Ok(state)
    }

    #[setter(_state)]
    fn set_state(slf: &Bound<'_, Self>, state: Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let tokens = state.getattr(&Names::get(py).native_tokens)?;
        let tokens = tokens.cast_into::<StreamTokens>().ok();
        let pending = match &tokens {
            Some(_) => Pending::after(state.getattr(&Names::get(py).pending)?.extract()?),
            None => Pending::default(),
        };
        let (state, tokens) = (Some(state.unbind()), tokens.map(Bound::unbind));
        let steps = PlainSteps { state, tokens, pending, has_stepped: false };
        // The old fields are dropped only after the borrow, because that may run Python code.
        let _before = std::mem::replace(&mut *slf.try_borrow_mut()?, steps);
        Ok(())
    }

    /// Return the text that became complete.
    fn step<'py>(slf: &Bound<'py, Self>, ids: &Object<'py>) -> PyResult<Object<'py>> {
        let py = slf.py();
        if let Some(id) = id_of(ids) {
            let mut steps = slf.try_borrow_mut()?;
            if let Some(tokens) = &steps.tokens {
                if let Some((text, pending)) = tokens.get().step(py, steps.pending, id)? {
                    (steps.pending, steps.has_stepped) = (pending, true);
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
            && let Some(text) = Self::_step_list(slf, several)?
        {
            return Ok(text);
        }
        slf.call_method1(&Names::get(py).step_any, (ids,))
    }

    /// Make the steps of several ids. If one of them is unusual, make no step and return None.
    fn _step_list<'py>(
        slf: &Bound<'py, Self>,
        ids: &Bound<'py, PyList>,
    ) -> PyResult<Option<Object<'py>>> {
        let py = slf.py();
        let (tokens, pending) = {
            let steps = slf.try_borrow()?;
            (steps.tokens.as_ref().map(|tokens| tokens.clone_ref(py)), steps.pending)
        };
        if let Some(tokens) = tokens {
            let Some((text, pending)) = tokens.get().steps(pending, ids)? else { return Ok(None) };
            let mut steps = slf.try_borrow_mut()?;
            (steps.pending, steps.has_stepped) = (pending, true);
            return Ok(Some(text));
        }
        let mut state = Self::state(slf)?;
        let texts = PyList::empty(py); // memory that a `Vec` lacked would end the process
        for id in ids.iter() {
            let step = id_of(&id).map(|number| step_in(&state, &id, number)).transpose()?;
            let Some((text, after)) = step.flatten() else { return Ok(None) };
            texts.append(text)?;
            state = after;
        }
        let text = PyString::new(py, "").call_method1(&Names::get(py).join, (texts,))?;
        Self::set_state(slf, state)?;
        Ok(Some(text))
    }
}

/// Returns the transition of an id from Python's state; None if the state has none.
fn step_in<'py>(
    state: &Object<'py>,
    id: &Object<'py>,
    number: u32,
) -> PyResult<Option<(Object<'py>, Object<'py>)>> {
    let py = state.py();
    let text_of = state.getattr(&Names::get(py).text_of)?.cast_into::<PyList>()?;
    if number as usize >= text_of.len() {
        return Ok(None);
    }
    if let Some(text) = item(&text_of, number)? {
        return Ok(Some((text, state.clone())));
    }
    match state.get_item(id) {
        Ok(step) => step.extract().map(Some),
        Err(error) if error.is_instance_of::<PyLookupError>(py) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the text of an id in a list of texts; None if the list has none.
fn item<'py>(texts: &Bound<'py, PyList>, id: u32) -> PyResult<Option<Object<'py>>> {
    if id as usize >= texts.len() {
        return Ok(None);
    }
    texts.get_item(id as usize).map(|text| (!text.is_none()).then_some(text))
}

/// Returns the value of a plain int that can be an id.
pub fn id_of(id: &Bound<'_, PyAny>) -> Option<u32> {
    if id.is_exact_instance_of::<PyInt>() { id.extract().ok() } else { None }
}
