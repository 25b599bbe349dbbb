"""Streams that only decode: their states, the transitions between these, and their steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bpetite._engine.chosen import ENGINE
from bpetite._streaming import tables
from bpetite._streaming.byte_decoders import Pending, Utf8Decoder, is_cacheable
from bpetite._streaming.mode import Mode
from bpetite._streaming.options import Options
from bpetite._streaming.state import Position
from bpetite._streaming.tables import StreamTable
from bpetite._streaming.watching import Watching

if TYPE_CHECKING:
    from bpetite._engine.python import PlainSteps
else:
    PlainSteps = ENGINE.PlainSteps


@dataclass(eq=False, repr=False, slots=True)
class PlainState(dict[int, "PlainTransition"]):
    """The state of a stream that only decodes: what is pending, mostly bytes.

    `text_of` has the texts of the ids that leave the state unchanged, so none while something is
    pending. `state[id]` is the text of any id and the next state, computed on first use; KeyError
    for an unknown id. A stream is in an initial state until its first step.
    """

    automaton: PlainAutomaton
    pending: Pending
    text_of: list[str | None]
    native_tokens: object | None = None  # if not None, steps are made natively
    is_initial: bool = False
    is_cacheable: bool = True

    def __missing__(self, id: int) -> PlainTransition:
        return self.automaton.transition(self, id)

    def after(self, pending: Pending) -> PlainState:
        """Return the state of the same kind of stream with something else pending."""
        return self.automaton.state(pending)


PlainTransition = tuple[str, PlainState]


class PlainAutomaton:
    """The states of all plain streams over one table with the same `errors`, made when needed."""

    def __init__(self, table: StreamTable, errors: str) -> None:
        self.decoder = table.decoder(errors)
        self._bytes_of = table.tokens.bytes_of
        self._cache = table.cache
        self._text = table.tokens.text
        text_of = table.tokens.text_of
        # Native steps decode UTF-8 only, and replace wrong bytes only by U+FFFD.
        is_native = isinstance(self.decoder, Utf8Decoder) and errors == "replace"
        native_tokens = ENGINE.make_native_tokens(table.tokens) if is_native else None
        self._native_tokens = native_tokens
        self._no_texts: list[str | None] = [None] * len(text_of)
        self._nothing_pending = PlainState(self, b"", text_of, native_tokens)
        self._state_of: dict[Pending, PlainState] = {b"": self._nothing_pending}
        self._initial_state_of: dict[Pending, PlainState] = {}
        self.retired = PlainState(self, b"", [], is_cacheable=False)

    def state(self, pending: Pending, is_initial: bool = False) -> PlainState:
        """Return the state of a stream that has made a step, or none if `is_initial`."""
        states = self._initial_state_of if is_initial else self._state_of
        state = states.get(pending)
        if state is None:
            state = PlainState(
                self,
                pending,
                self._no_texts,
                self._native_tokens,
                is_initial,
                is_cacheable(pending),
            )
            if state.is_cacheable:
                state = states.setdefault(pending, state)
        return state

    def transition(self, state: PlainState, id: int) -> PlainTransition:
        """Return the text of an id and the next state; KeyError if the id is unknown."""
        if state is self._nothing_pending and (whole := self._text(id)) is not None:
            return whole, state
        text, pending = self.decoder.decode(state.pending, id, self._bytes_of[id])
        transition = text, self.state(pending)
        if state.is_cacheable and transition[1].is_cacheable:
            self._cache.make_room()
            state[id] = transition
        return transition

    def clear(self) -> None:
        states = [*self._state_of.values(), *self._initial_state_of.values()]
        if len(self._state_of) > tables.MAX_TRANSITIONS:  # only runs have that many states
            self._state_of = {b"": self._nothing_pending}
        for state in states:
            state.clear()


class Plain(PlainSteps, Mode):
    """A stream that only decodes: it neither counts nor looks for stops or tags.

    A stream that begins to count continues in another mode, its `successor`. A caller that still
    holds the old mode's `step` is passed on to it.
    """

    __slots__ = ("_automaton", "_successor", "options", "table")

    _state: PlainState

    def __init__(
        self, table: StreamTable, options: Options, prompt_ids: Sequence[int] = ()
    ) -> None:
        self._automaton = table.cache.automaton(
            options.errors, lambda: PlainAutomaton(table, options.errors)
        )
        self._successor: Mode | None = None
        super().__init__(table, options, prompt_ids)

    def reset(self) -> None:
        self.start_at(self._automaton.decoder.initial)

    def start_at(self, pending: Pending) -> None:
        self._state = self._automaton.state(pending, is_initial=True)

    def _step_any(self, ids: object) -> str:
        if self._successor is not None:
            return self._successor.step(ids)  # type: ignore[arg-type] # any type, as here
        return self._step_several(ids)

    def _step_one(self, id: int) -> str:
        if self.options.skips(id, self.table):
            self._state = self._automaton.state(self._state.pending)
            return ""
        text, self._state = self._state[id]
        return text

    def advance(self, id: int) -> tuple[str, ...]:
        text = self.step(id)
        return (text,) if text else ()

    def flush_pieces(self) -> list[str]:
        text = self._automaton.decoder.finish(self._state.pending)
        self.reset()
        return [text] if text else []

    def counting(self) -> Watching:
        """Return the mode of a stream that counts from here on.

        Raises ValueError if steps were made, since they were not counted.
        """
        if not self._state.is_initial:
            raise ValueError(
                "this stream has made steps that it did not count; let its first call be "
                "events, step_event, or step_event([])"
            )
        watching = Watching(self.table, self.options)
        watching.start_at(self._state.pending)
        return watching

    def become(self, other: Plain) -> None:
        self.table, self.options = other.table, other.options
        self._automaton, self._state = other._automaton, other._state
        self._successor = None

    def position(self) -> Position:
        data, decoder_state = self._automaton.decoder.to_parts(self._state.pending)
        return Position(data, decoder_state, tokens=0 if self._state.is_initial else None)

    def go_to(self, position: Position) -> None:
        pending = self._automaton.decoder.from_parts(position.pending, position.decoder_state)
        self._state = self._automaton.state(pending, is_initial=position.tokens is not None)
