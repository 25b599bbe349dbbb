"""The base of the two modes of a stream: `Plain` only decodes; `Watching` also counts and stops."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal, Self, TypeVar

from bpetite._streaming.byte_decoders import Pending
from bpetite._streaming.options import Ids, Options, are_several
from bpetite._streaming.state import Position
from bpetite._streaming.tables import StreamTable
from bpetite._vocabulary import as_id

R = TypeVar("R")


class DecodeStreamError(UnicodeDecodeError):
    """Bytes that are not UTF-8, in a stream with errors="strict".

    `id` is the id whose token revealed them, or None if it was `flush`. `index` is the number of
    ids before it in the stream. `text` is the valid text before them that no step returned.
    `object` is the pending bytes and the token; `object[start:end]` are the wrong bytes.
    """

    id: int | None = None
    index: int = 0
    text: str = ""

    def __str__(self) -> str:
        where = "at the end" if self.id is None else f"with id {self.id}"
        return f"{super().__str__()} ({where}, after {self.index} ids)"


class Mode:
    """How a stream makes its steps, and its position."""

    __slots__ = ()

    table: StreamTable
    options: Options
    _automaton: Any
    _state: Any

    # A plain stream has no others.
    finish_reason: Literal["stop", "length"] | None = None
    stop_reason: str | int | None = None
    text_after_stop: str = ""
    failed: bool = False  # at bytes that are not UTF-8; all further steps raise too
    stops_paused: bool = False

    def __init__(
        self, table: StreamTable, options: Options, prompt_ids: Sequence[int] = ()
    ) -> None:
        self.table, self.options = table, options  # type: ignore[misc] # slots of both modes
        self.reset()
        if len(prompt_ids):
            self.start_at(self._automaton.decoder.after_prompt(prompt_ids))

    @abstractmethod
    def reset(self) -> None:
        """Go to the beginning of a new text."""

    @abstractmethod
    def start_at(self, pending: Pending) -> None:
        """Let text begin with what is pending."""

    @abstractmethod
    def step(self, ids: Ids) -> str:
        """Return the text that the ids completed."""

    def _step_several(self, ids: object) -> str:
        if are_several(ids):
            return "".join(self.pieces(ids))
        return self._step_one(as_id(ids))

    def _step_one(self, id: int) -> str:
        """Make a step whose transition is not cached."""
        return "".join(self.advance(id))

    @abstractmethod
    def advance(self, id: int) -> tuple[str, ...]:
        """Make a step; return its text in pieces."""

    def pieces(self, ids: object) -> list[str]:
        """Make a step for each id; return their text in pieces. If an id raises, none was made."""
        several: list[Any] = list(ids) if are_several(ids) else [ids]
        if len(several) == 1:
            return [*self.advance(as_id(several[0]))]
        return self.changed(lambda after: after._pieces(several))

    def _pieces(self, ids: list[Any]) -> list[str]:
        pieces: list[str] = []
        try:
            for id in ids:
                pieces += self.advance(id if type(id) is int else as_id(id))
        except DecodeStreamError as error:
            error.text = "".join(pieces) + error.text
            raise
        return pieces

    def changed(self, change: Callable[[Self], R]) -> R:
        """Change a copy, then go to its position, so that an interrupt finds no half change."""
        after = self.copy()
        try:
            result = change(after)
        except DecodeStreamError:
            self.become(after)
            raise
        self.become(after)
        return result

    @abstractmethod
    def flush_pieces(self) -> list[str]:
        """End the text; return what was pending and withheld, in pieces."""

    def set_stops_paused(self, paused: bool) -> None:
        """Stop or resume the search for stop strings; a plain stream has none."""

    @property
    def pending(self) -> bytes:
        pending: bytes = self._automaton.decoder.to_parts(self._state.pending)[0]
        return pending

    @property
    def withheld(self) -> str:
        return ""

    def copy(self) -> Self:
        kind = type(self)
        other = kind.__new__(kind)
        other.become(self)
        return other

    @abstractmethod
    def become(self, other: Any) -> None:
        """Go to the position of a mode of the same class and options, without a call in between."""

    @abstractmethod
    def position(self) -> Position:
        """Return the position, for a mode with other options."""

    @abstractmethod
    def go_to(self, position: Position) -> None:
        """Go to a position."""
