"""What streams can be in, and where each id leads from there: found out once, for all streams."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from threading import Lock
from typing import Any, NamedTuple, Protocol, TypeVar, cast
from weakref import WeakSet

from bpetite._stop import Matcher, Node
from bpetite._stream_readers import Held, Utf8, reader_of
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


class State(dict[int, "StateMove"]):
    """What a stream of text alone can be in: what it holds, mostly bytes.

    `ready` has the texts of the ids that lead nowhere else, which there are if nothing is held.
    `state[id]` is the text of any id, with the state after it: found out when it is first asked
    for; KeyError for an id that is unknown. In a fresh one no step was made; each id leads away.
    """

    __slots__ = ("core", "fresh", "held", "is_shared", "ready", "states")

    def __init__(
        self,
        held: Held,
        ready: Sequence[str | None],
        states: States,
        *,
        fresh: bool = False,
        is_shared: bool = True,
        core: object = None,
    ) -> None:
        self.held = held
        self.ready = ready
        self.states = states
        self.core = core  # what finds out without this where an id leads, if there is any
        self.fresh = fresh
        self.is_shared = is_shared  # by all streams that hold this; what leads there is remembered

    def __missing__(self, id: int) -> StateMove:
        return self.states.move(self, id)


StateMove = tuple[str, State]


class States:
    """The states of all streams over one table with the same `errors`, made as they are met.

    `make_core` makes of the table's `text_of` and `bytes_of` what the native core reads tokens by;
    None where there is no core. It is asked where tokens are UTF-8, wherever it is cut, and what
    is not becomes U+FFFD.
    """

    def __init__(
        self,
        table: TokenTable,
        errors: str,
        make_core: Callable[[list[str | None], dict[int, bytes]], object],
    ) -> None:
        self.reader = reader_of(table, errors)
        self._bytes_of = table.bytes_of
        self._memory = memory_of(table)
        is_plain = isinstance(self.reader, Utf8) and errors == "replace"
        self._core = make_core(table.text_of, table.bytes_of) if is_plain else None
        self._nothing_ready = [None] * len(table.text_of)  # while something is held
        self._nothing_held = State(b"", table.text_of, self, core=self._core)
        self._state_of: dict[Held, State] = {b"": self._nothing_held}
        self._fresh_of: dict[Held, State] = {}

    def holding(self, held: Held) -> State:
        """Return the state of a stream that holds this."""
        state = self._state_of.get(held)
        return self._made(held, self._state_of, fresh=False) if state is None else state

    def fresh(self, held: Held) -> State:
        """Return the state of a stream that holds this and has made no step."""
        state = self._fresh_of.get(held)
        return self._made(held, self._fresh_of, fresh=True) if state is None else state

    def _made(self, held: Held, states: dict[Held, State], *, fresh: bool) -> State:
        is_shared = self.reader.is_common(held)
        state = State(
            held, self._nothing_ready, self, fresh=fresh, is_shared=is_shared, core=self._core
        )
        return states.setdefault(held, state) if is_shared else state

    def move(self, state: State, id: int) -> StateMove:
        """Return where an id leads from a state, and with which text; KeyError if it is unknown."""
        text, held = self.reader.read(state.held, id, self._bytes_of[id])
        after = self.holding(held)
        move = text, after
        if state.is_shared and after.is_shared:
            self._memory.make_room()
            state[id] = move
        return move

    def forget(self) -> None:
        """Forget all moves."""
        states = [*self._state_of.values(), *self._fresh_of.values()]
        if len(self._state_of) > _MOVES:  # which there are not of beginnings of characters
            self._state_of = {b"": self._nothing_held}
        for state in states:
            state.clear()


class TextSteps:
    """The steps of a stream of text alone.

    `_state` is what the stream is in. What is not known of ids is for `_step_slowly`.
    """

    __slots__ = ("_state",)

    _state: State

    def step(self, ids: int | Iterable[int]) -> str:
        """Return the text that is complete now and was not before; "" if there is none.

        `ids` is an id or several, which equal as many steps: their texts are joined.

        Raises KeyError for an id that the vocabulary lacks, if unknown="raise", and TypeError for
        one that is not an integer: the stream is then as it was, before all of several ids. With
        errors="strict", raises DecodeStreamError, a UnicodeDecodeError, at the first byte that
        cannot be part of a character; the stream then raises ValueError until `reset()` or
        `restore()`. After a stop every step returns "" and changes nothing.
        """
        # Most tokens are whole text and find nothing held: one look-up, and no bytes touched.
        try:
            if type(ids) is int and ids >= 0:
                state = self._state
                text = state.ready[ids]
                if text is not None:
                    return text
                text, self._state = state[ids]
                return text
        except LookupError:
            pass  # an id beyond the list, or that the vocabulary lacks
        return self._step_slowly(ids)

    def _step_known(self, ids: list[Any]) -> str | None:
        """Make the steps of several ids; None, and no step, if one is not that simple.

        So there is nothing that could have to be taken back.
        """
        state = self._state
        texts = []
        try:
            for id in ids:
                if type(id) is not int or id < 0:
                    return None
                text = state.ready[id]
                if text is None:
                    text, state = state[id]
                texts.append(text)
        except LookupError:
            return None
        joined = "".join(texts)
        self._state = state
        return joined

    @abstractmethod
    def _step_slowly(self, ids: object) -> str:
        """Make the steps of an id, or several, of any type, or raise what is wrong with them."""


class Place:
    """What a stream that looks for stops or counts can be in, and where each id leads from there.

    That is what it holds of tokens, mostly bytes, and the node of its matcher, whose text it holds
    too. `whole` has 1 for each id that is known to be whole text and to lead nowhere else; `moves`
    the text, the next place and the pieces of the text for other ids, as far as streams found them
    out.
    `released` is text that is held no longer and is returned with the next step. A place that no
    id leads away from is where a stream has stopped or failed.
    """

    __slots__ = ("held", "is_shared", "moves", "node", "released", "whole")

    def __init__(
        self,
        held: Held,
        node: Node,
        whole: bytearray = _NOTHING,
        released: str = "",
        *,
        is_shared: bool = False,
    ) -> None:
        self.held = held
        self.node = node
        self.whole = whole
        self.released = released
        self.is_shared = is_shared  # by all streams that are there; what leads there is remembered
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
        self._bytes_of = table.bytes_of
        self._nothing_whole = bytearray(len(self.text_of))
        self._memory = memory_of(table)
        self._place_of: dict[tuple[Held, Node], Place] = {}
        whole = bytearray(len(self.text_of))
        self._begin = Place(b"", matcher.root, whole, is_shared=True)

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
        place = self._place_of.get((held, node))
        if place is not None:
            return place
        if not self.reader.is_common(held):
            return Place(held, node, self._nothing_whole)
        if len(self._place_of) >= _MOVES:
            self.forget()
        place = Place(held, node, self._nothing_whole, is_shared=True)
        return self._place_of.setdefault((held, node), place)

    def move(self, place: Place, id: int) -> Move | None:
        """Return where an id of the vocabulary leads from a place; it is known from then on.

        None if that is no place that streams share, or the end: a stop, or bytes that are refused.
        """
        move = place.moves.get(id)
        if move is not None or not place.is_shared:
            return move
        node, begins = place.node, self.matcher.begins
        if place is self._begin and 0 <= id < len(self.text_of):
            whole = self.text_of[id]
            if whole and begins.isdisjoint(whole):
                place.whole[id] = 1
                return whole, place, (whole,)
        token = self._bytes_of.get(id)
        if token is None:
            return None
        try:
            text, held = self.reader.read(place.held, id, token)
        except UnicodeDecodeError:
            return None
        pieces: tuple[str, ...] = (text,) if text else ()
        if text and not (node is self.matcher.root and begins.isdisjoint(text)):
            pieces, node, stop, _ = self.matcher.scan(node, text)
            if stop is not None:
                return None
            text = "".join(pieces)
        after = self._at(held, node)
        if not after.is_shared:
            return None
        self._memory.make_room()
        place.moves[id] = move = text, after, pieces
        return move

    def step(self, place: Place, id: int, token: bytes) -> Step:
        """Return where a token leads.

        Raises UnicodeDecodeError for bytes that are not UTF-8, if `errors` says so.
        """
        text, held = self.reader.read(place.held, id, token)
        return self.scan(place, text, held)

    def scan(self, place: Place, text: str, held: Held = b"") -> Step:
        """Return where complete text leads, if this is held behind it."""
        pieces, node, stop, rest = self.matcher.scan(place.node, text)
        if place.released:
            pieces = join_texts((place.released, *pieces))
        if stop is not None:
            return Step(pieces, Place(b"", node), stop, rest)
        return Step(pieces, self._at(held, node))

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
