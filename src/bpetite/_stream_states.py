"""What streams can be in, and where each id leads from there: found out once, for all streams."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import NamedTuple, Protocol, TypeVar, cast
from weakref import WeakSet

from bpetite._stop import Matcher, Node
from bpetite._stream_readers import Held, reader_of
from bpetite._vocabulary import TokenTable

ERRORS = ("strict", "replace", "ignore", "backslashreplace")
"""What may be done with bytes that are not UTF-8; the names and results of `bytes.decode`."""

# Steps inside characters, stops and tags that are remembered for each table, some 16 MB; then they
# are found out anew. And for how many sets of stops, tags and other options that is done.
_MOVES = 1 << 16
_SETS = 32

_NOTHING = bytearray()


def check_errors(errors: object) -> None:
    """Raise TypeError or ValueError unless `errors` is one of ERRORS."""
    if not isinstance(errors, str):
        raise TypeError(f"errors must be a str, got {type(errors).__name__}")
    if errors not in ERRORS:
        raise ValueError(f"errors must be one of {', '.join(ERRORS)}, got {errors!r}")


class Remembers(Protocol):
    """What remembers moves, and can forget them."""

    def forget(self) -> None:
        """Forget all moves."""


R = TypeVar("R", bound=Remembers)


class Memory:
    """What all streams over one table have found out, within a bound."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Remembers] = {}
        self._used: WeakSet[Remembers] = WeakSet()  # those that streams still use, too
        self._moves = 0
        self._lock = Lock()  # for the set alone: a dictionary's steps are whole by themselves

    def shared(self, key: Hashable, make: Callable[[], R]) -> R:
        """Return what all streams with the same options share, which is made when it is new.

        That of the last few options is kept.
        """
        known = self._known
        value = known.get(key)
        if value is None:
            value = known.setdefault(key, make())
            with self._lock:
                self._used.add(value)
        elif len(known) >= _SETS:
            known[key] = known.pop(key, value)  # the last used is the last
        if len(known) > _SETS:
            for old in list(known)[:-_SETS]:
                known.pop(old, None)
        return cast(R, value)

    def make_room(self) -> None:
        """Count a move that will be remembered; forget all others if they are too many."""
        self._moves += 1
        if self._moves > _MOVES:
            self._moves = 0
            with self._lock:
                used = list(self._used)
            for value in used:
                value.forget()


def memory_of(table: TokenTable) -> Memory:
    """Return the memory of a table."""
    if table.stream_memory is None:
        table.stream_memory = Memory()
    return cast(Memory, table.stream_memory)


class State:
    """What a stream of text alone can be in: what it holds, mostly bytes.

    `ready` has the texts of the ids that lead nowhere else, which there are if nothing is held;
    `moves` those of the other ids, with the state after them, as far as streams found them out.
    In a fresh one no step was made; each id leads away.
    """

    __slots__ = ("fresh", "held", "moves", "ready")

    def __init__(self, held: Held, ready: Sequence[str | None], *, fresh: bool = False) -> None:
        self.held = held
        self.ready = ready
        self.fresh = fresh
        self.moves: dict[int, tuple[str, State]] = {}


class States:
    """The states of all streams over one table with the same `errors`, made as they are met."""

    def __init__(self, table: TokenTable, errors: str) -> None:
        self.reader = reader_of(table, errors)
        self._bytes_of = table.bytes_of
        self._memory = memory_of(table)
        self._nothing_ready = [None] * len(table.text_of)  # while something is held
        self._nothing_held = State(b"", table.text_of)
        self._state_of: dict[Held, State] = {b"": self._nothing_held}
        self._fresh_of: dict[Held, State] = {}

    def holding(self, held: Held) -> State:
        """Return the state of a stream that holds this."""
        state = self._state_of.get(held)
        if state is None:
            state = State(held, self._nothing_ready)
            if self.reader.is_common(held):
                state = self._state_of.setdefault(held, state)
        return state

    def fresh(self, held: Held) -> State:
        """Return the state of a stream that holds this and has made no step."""
        state = self._fresh_of.get(held)
        if state is None:
            state = State(held, self._nothing_ready, fresh=True)
            if self.reader.is_common(held):
                state = self._fresh_of.setdefault(held, state)
        return state

    def move(self, state: State, id: int) -> tuple[str, State]:
        """Return where an id leads from a state, and with which text; KeyError if it is unknown."""
        text, held = self.reader.read(state.held, id, self._bytes_of[id])
        move = text, self.holding(held)
        if self.reader.is_common(held) and self.reader.is_common(state.held):
            self._memory.make_room()
            state.moves[id] = move
        return move

    def forget(self) -> None:
        """Forget all moves."""
        states = [*self._state_of.values(), *self._fresh_of.values()]
        if len(self._state_of) > _MOVES:  # which there are not of beginnings of characters
            self._state_of = {b"": self._nothing_held}
        for state in states:
            state.moves.clear()


class Place:
    """What a stream that looks for stops or counts can be in, and where each id leads from there.

    That is what it holds of tokens, mostly bytes, and the node of its matcher, whose text it holds
    too. `whole` has 1 for each id that is known to be whole text and to lead nowhere else; `moves`
    the text, the next place and the pieces of the text for other ids, as far as streams found them
    out.
    `released` is text that is held no longer and is returned with the next step. A place that no
    id leads away from is where a stream has stopped or failed.
    """

    __slots__ = ("held", "moves", "node", "released", "whole")

    def __init__(
        self, held: Held, node: Node, whole: bytearray = _NOTHING, released: str = ""
    ) -> None:
        self.held = held
        self.node = node
        self.whole = whole
        self.released = released
        self.moves: dict[int, Move] = {}

    @property
    def text(self) -> str:
        """The text that is held, and what is held no longer but was not returned."""
        return self.released + self.node.text


Move = tuple[str, Place, tuple[str, ...]]


class Step(NamedTuple):
    """Where an id leads, or the end."""

    pieces: tuple[str, ...]
    place: Place
    stop: str | None = None
    rest: str = ""


class Places:
    """The places of all streams over one table with the same stops, tags and other options."""

    def __init__(self, table: TokenTable, errors: str, matcher: Matcher) -> None:
        self.text_of = table.text_of
        self.reader = reader_of(table, errors)
        self.matcher = matcher
        self._nothing_whole = bytearray(len(self.text_of))
        self._memory = memory_of(table)
        self._place_of: dict[tuple[Held, Node], Place] = {}
        self._begin = Place(b"", matcher.root, bytearray(len(self.text_of)))

    def at(self, held: Held, unreturned: str = "") -> Place:
        """Return the place of a stream that holds this, and returned all but this text.

        Of the text, what can be the beginning of a stop or a tag is held, and the rest released.
        """
        node = self.matcher.node_after(unreturned)
        released = unreturned[: len(unreturned) - node.length]
        return Place(held, node, released=released) if released else self._at(held, node)

    def _at(self, held: Held, node: Node) -> Place:
        if not held and node is self.matcher.root:
            return self._begin
        if not self.reader.is_common(held):
            return Place(held, node, self._nothing_whole)
        key = held, node
        place = self._place_of.get(key)
        if place is None and len(self._place_of) >= _MOVES:
            self.forget()
        return place or self._place_of.setdefault(key, Place(held, node, self._nothing_whole))

    def is_whole(self, place: Place, id: int) -> bool:
        """Return whether an id is whole text that leads nowhere from a place; remember if it is.

        Most are at the beginning, and this is the quick way to find it out.
        """
        if place is not self._begin or not 0 <= id < len(self.text_of):
            return False
        if place.whole[id]:
            return True
        text = self.text_of[id]
        if not text or not self.matcher.begins.isdisjoint(text):
            return False
        place.whole[id] = 1
        return True

    def step(self, place: Place, id: int | None, token: bytes) -> Step:
        """Return where a token leads; no id means one that the vocabulary lacks.

        Raises UnicodeDecodeError for bytes that are not UTF-8, if `errors` says so.
        """
        text, held = self.reader.read(place.held, id, token)
        step = self.scan(place, text, held)
        if id is not None and step.stop is None and not place.released:
            self._remember(place, id, step)
        return step

    def scan(self, place: Place, text: str, held: Held = b"") -> Step:
        """Return where complete text leads, if this is held behind it."""
        pieces, node, stop, rest = self.matcher.scan(place.node, text)
        if place.released:
            pieces = join_texts((place.released, *pieces))
        if stop is not None:
            return Step(pieces, Place(b"", node), stop, rest)
        return Step(pieces, self._at(held, node))

    def _remember(self, place: Place, id: int, step: Step) -> None:
        if not (self.reader.is_common(place.held) and self.reader.is_common(step.place.held)):
            return
        self._memory.make_room()
        place.moves[id] = "".join(step.pieces), step.place, step.pieces

    def forget(self) -> None:
        """Forget all places and moves."""
        places = [self._begin, *self._place_of.values()]
        self._place_of.clear()
        for place in places:
            place.moves.clear()


def join_texts(pieces: Sequence[str]) -> tuple[str, ...]:
    """Return pieces with texts that follow each other made one, and tags left alone.

    >>> from bpetite._stop import Tag
    >>> join_texts(("a", "b", Tag("<i>"), "", "c"))
    ('ab', Tag('<i>'), 'c')
    """
    joined: list[str] = []
    for piece in pieces:
        if piece and joined and type(piece) is str and type(joined[-1]) is str:
            joined[-1] += piece
        elif piece:
            joined.append(piece)
    return tuple(joined)
