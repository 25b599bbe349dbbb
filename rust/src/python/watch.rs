//! The steps of streams that count, and the events of steps, for Python.

use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyDict, PyList, PyString, PyTuple, PyType};

use super::object::{new_int, new_tuple};
use super::stream::{Names, id_of};

type Object<'py> = Bound<'py, PyAny>;

/// A state in Python, with the attributes that steps read.
struct State {
    state: Py<PyAny>,
    /// By id, whether it is whole text that leaves the state unchanged.
    whole: Py<PyByteArray>,
    /// By id, the text, the next state, and the pieces of the text.
    transitions: Py<PyDict>,
}

impl State {
    fn of(state: &Object<'_>) -> PyResult<State> {
        let names = Names::get(state.py());
        let whole = state.getattr(&names.whole)?.cast_into::<PyByteArray>()?.unbind();
        let transitions = state.getattr(&names.transitions)?.cast_into::<PyDict>()?.unbind();
        Ok(State { state: state.clone().unbind(), whole, transitions })
    }

    /// Returns the step of an id; None if this state has none.
    fn step<'py>(
        &self,
        py: Python<'py>,
        texts: &Py<PyList>,
        ids: &Object<'py>,
        id: u32,
    ) -> PyResult<Option<Step<'py>>> {
        let (index, whole) = (id as usize, self.whole.bind(py));
        if index < whole.len() && whole.as_any().get_item(ids)?.is_truthy()? {
            let text = texts.bind(py).get_item(index)?.cast_into()?;
            return Ok(Some(Step { text, pieces: None, after: None }));
        }
        let Some(transition) = self.transitions.bind(py).get_item(ids)? else { return Ok(None) };
        let transition = transition.cast_into::<PyTuple>()?;
        let (text, after) = (transition.get_item(0)?.cast_into()?, transition.get_item(1)?);
        let pieces = Some(transition.get_item(2)?);
        let after = (!after.is(&self.state)).then(|| State::of(&after)).transpose()?;
        Ok(Some(Step { text, pieces, after }))
    }
}

/// What an id does in a state.
struct Step<'py> {
    text: Bound<'py, PyString>,
    /// The pieces of the text; None if it is one.
    pieces: Option<Object<'py>>,
    /// The next state; None if it is the same.
    after: Option<State>,
}

/// The steps of a stream that counts, the twin of `bpetite._engine.python.WatchSteps`.
///
/// A step is made here if the state knows the id, and nothing is due. Python makes all others.
#[pyclass(subclass, module = "bpetite._engine._native")]
pub struct WatchSteps {
    state: Option<State>,
    #[pyo3(get, set, name = "_texts")]
    texts: Option<Py<PyList>>,
    #[pyo3(get, set, name = "_bytes_of")]
    bytes_of: Option<Py<PyDict>>,
    #[pyo3(get, set, name = "_due")]
    due: i64,
    #[pyo3(get, set, name = "_until_due")]
    until_due: i64,
    #[pyo3(get, set)]
    characters: i64,
}

#[pymethods]
impl WatchSteps {
    // The arguments are for the `__init__` of the derived class.
    #[new]
    #[pyo3(signature = (*_args, **_options))]
    fn new(_args: &Bound<'_, PyTuple>, _options: Option<&Bound<'_, PyDict>>) -> WatchSteps {
        WatchSteps { state: None, texts: None, bytes_of: None, due: 0, until_due: 0, characters: 0 }
    }

    #[getter(_state)]
    fn state(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let steps = slf.try_borrow()?;
        let state = steps.state.as_ref().map(|state| state.state.clone_ref(slf.py()));
        state.ok_or_else(|| PyAttributeError::new_err("a stream that was not made has no _state"))
    }

    #[setter(_state)]
    fn set_state(slf: &Bound<'_, Self>, state: Object<'_>) -> PyResult<()> {
        let state = State::of(&state)?;
        // The old state is dropped only after the borrow, because that may run Python code.
        let _before = slf.try_borrow_mut()?.state.replace(state);
        Ok(())
    }

    /// Return the text that became complete.
    fn step<'py>(slf: &Bound<'py, Self>, ids: &Object<'py>) -> PyResult<Object<'py>> {
        let py = slf.py();
        if let Some(id) = id_of(ids) {
            if let Some(made) = Self::advance(slf, ids, id)? {
                return Ok(made.text.into_any());
            }
        } else if let Ok(several) = ids.cast_exact::<PyList>()
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
        let steps = slf.try_borrow()?;
        let (Some(first), Some(texts_of)) = (&steps.state, &steps.texts) else { return Ok(None) };
        let count = ids.len() as i64;
        if 0 < steps.until_due && steps.until_due <= count {
            return Ok(None);
        }
        let mut after: Option<State> = None;
        let (texts, mut read) = (PyList::empty(py), 0);
        for id in ids.iter() {
            let state = after.as_ref().unwrap_or(first);
            let number = id_of(&id);
            let step = number.map(|number| state.step(py, texts_of, &id, number)).transpose()?;
            let Some(step) = step.flatten() else { return Ok(None) };
            texts.append(step.text)?;
            after = step.after.or(after);
            read += 1;
        }
        drop(steps);
        let text = PyString::new(py, "").call_method1(&Names::get(py).join, (texts,))?;
        let length = text.len()? as i64;
        let mut steps = slf.try_borrow_mut()?;
        steps.until_due -= read;
        steps.characters += length;
        let _before = after.map(|after| steps.state.replace(after));
        drop(steps);
        Ok(Some(text))
    }
}

/// A step that was made.
struct Made<'py> {
    text: Bound<'py, PyString>,
    pieces: Option<Object<'py>>,
    start: i64,
    end: i64,
    ids_read: i64,
}

impl WatchSteps {
    /// Makes the step of an id; returns None, without a step, if Python has to make it.
    fn advance<'py>(
        slf: &Bound<'py, Self>,
        ids: &Object<'py>,
        id: u32,
    ) -> PyResult<Option<Made<'py>>> {
        let mut steps = slf.try_borrow_mut()?;
        let until_due = steps.until_due - 1;
        let (Some(state), Some(texts)) = (&steps.state, &steps.texts) else { return Ok(None) };
        if until_due == 0 {
            return Ok(None);
        }
        let Some(step) = state.step(slf.py(), texts, ids, id)? else { return Ok(None) };
        let start = steps.characters;
        let end = start + step.text.len()? as i64;
        steps.until_due = until_due;
        steps.characters = end;
        let ids_read = steps.due - until_due;
        let _before = step.after.map(|after| steps.state.replace(after));
        drop(steps);
        Ok(Some(Made { text: step.text, pieces: step.pieces, start, end, ids_read }))
    }
}

/// Makes objects of a dataclass with slots, without its `__init__`.
struct Maker {
    class: Py<PyType>,
    /// The descriptor of each slot, and the function that sets it.
    slots: Vec<(Py<PyAny>, ffi::descrsetfunc)>,
}

impl Maker {
    #[expect(unsafe_code, reason = "pyo3 has no functions of slots")]
    fn new(class: &Bound<'_, PyType>) -> PyResult<Maker> {
        let names: Vec<String> = class.getattr("__slots__")?.extract()?;
        let slot = |name: &String| {
            let slot = class.getattr(name.as_str())?;
            // SAFETY: the pointer belongs to a living object.
            let kind = unsafe { ffi::Py_TYPE(slot.as_ptr()) };
            // SAFETY: the type of an object is initialised, and lives as long as the object.
            let set = unsafe { &*kind }.tp_descr_set;
            let set = set.ok_or_else(|| PyTypeError::new_err(format!("{name} is no slot")))?;
            Ok((slot.unbind(), set))
        };
        let slots = names.iter().map(slot).collect::<PyResult<_>>()?;
        Ok(Maker { class: class.clone().unbind(), slots })
    }

    /// Returns an object with these values in its slots.
    #[expect(unsafe_code, reason = "pyo3 makes objects by `__init__`, which takes longer")]
    fn make<'py>(&self, py: Python<'py>, values: [Object<'py>; 5]) -> PyResult<Object<'py>> {
        // SAFETY: the pointer belongs to a class, which a `class` statement made.
        let made = unsafe { ffi::PyType_GenericAlloc(self.class.as_ptr().cast(), 0) };
        // SAFETY: the pointer is a new reference, or null while an exception is set.
        let made = unsafe { Bound::from_owned_ptr_or_err(py, made) }?;
        for ((slot, set), value) in self.slots.iter().zip(values) {
            // SAFETY: the function belongs to the type of the slot, and all are objects.
            if unsafe { set(slot.as_ptr(), made.as_ptr(), value.as_ptr()) } != 0 {
                return Err(PyErr::fetch(py));
            }
        }
        Ok(made)
    }
}

/// Makes the events of steps.
#[pyclass(frozen, module = "bpetite._engine._native")]
pub struct EventMaker {
    event: Maker,
    token: Maker,
}

#[pymethods]
impl EventMaker {
    #[new]
    fn new(
        event_class: &Bound<'_, PyType>,
        token_class: &Bound<'_, PyType>,
    ) -> PyResult<EventMaker> {
        let (event, token) = (Maker::new(event_class)?, Maker::new(token_class)?);
        Ok(EventMaker { event, token })
    }

    /// Make the step of an id, and return its event. If the step is unusual, make none and return
    /// None.
    fn make<'py>(&self, steps: &Object<'py>, ids: &Object<'py>) -> PyResult<Option<Object<'py>>> {
        let py = steps.py();
        let (Some(id), Ok(steps)) = (id_of(ids), steps.cast::<WatchSteps>()) else {
            return Ok(None);
        };
        let Some(bytes) = self.bytes(steps, ids)? else { return Ok(None) };
        let Some(made) = WatchSteps::advance(steps, ids, id)? else { return Ok(None) };
        let integer = |value: i64| {
            let integer = new_int(py, value as u64).ok_or_else(|| PyErr::fetch(py))?;
            Ok::<_, PyErr>(integer.into_bound(py).into_any())
        };
        let one = |object: Object<'py>| {
            let objects = [Some(object.unbind())].into_iter();
            new_tuple(py, objects).map(Bound::into_any)
        };
        let text = made.text.into_any();
        let pieces = made.pieces.map_or_else(|| one(text.clone()), Ok)?;
        let (start, end) = (integer(made.start)?, integer(made.end)?);
        let token = self.token.make(py, [ids.clone(), bytes, start, end, text])?;
        let none = || py.None().into_bound(py);
        let read = integer(made.ids_read)?;
        self.event.make(py, [pieces, one(token)?, read, none(), none()]).map(Some)
    }
}

impl EventMaker {
    /// Returns the bytes of an id; None if Python has to look them up.
    fn bytes<'py>(
        &self,
        steps: &Bound<'py, WatchSteps>,
        ids: &Object<'py>,
    ) -> PyResult<Option<Object<'py>>> {
        let steps = steps.try_borrow()?;
        let Some(bytes_of) = &steps.bytes_of else { return Ok(None) };
        bytes_of.bind(ids.py()).get_item(ids)
    }
}
