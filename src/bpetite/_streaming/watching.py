"""Streams that count, stop or find tags: their states, the transitions, and their steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import countOf
from typing import TYPE_CHECKING

from bpetite._engine.chosen import ENGINE
from bpetite._streaming import tables
from bpetite._streaming.byte_decoders import Pending, is_cacheable
from bpetite._streaming.mode import DecodeStreamError, Mode
from bpetite._streaming.state import MAX_COUNT, Position
from bpetite._streaming.stops import Matcher, Node, Scan, matcher_of
from bpetite._streaming.tables import StreamTable

if TYPE_CHECKING:
    from bpetite._engine.python import WatchSteps
else:
    WatchSteps = ENGINE.WatchSteps


@dataclass(eq=False, slots=True)
class WatchState:
    """The state of a watching stream: what is pending, and the matcher's node.

    The stream withholds the text of the node. `whole[id]` is 1 once the id is known to be complete
    text that leaves the state unchanged; `transitions` has the other ids that streams have met.
    `released` is text that is no longer withheld and comes with the next step. A stopped or failed
    stream is in a dead end, a state without transitions.
    """

    pending: Pending
    node: Node
    whole: bytearray
    released: str = ""
    is_cacheable: bool = False
    transitions: dict[int, WatchTransition] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return self.released + self.node.text


WatchTransition = tuple[str, WatchState, tuple[str, ...]]
"""The text of an id, the next state, and the pieces of the text."""


class WatchAutomaton:
    """The states of all watching streams over one table with the same options."""

    def __init__(self, table: StreamTable, errors: str, matcher: Matcher) -> None:
        self.decoder = table.decoder(errors)
        self.matcher = matcher
        self.text_of = table.tokens.text_of
        self._text = table.tokens.text
        self._bytes_of = table.tokens.bytes_of
        self._cache = table.cache
        self._none_whole = bytearray(len(self.text_of))
        self._state_of: dict[tuple[Pending, Node], WatchState] = {}
        whole = bytearray(len(self.text_of))
        self._root = WatchState(b"", matcher.root, whole, is_cacheable=True)

    def state(
        self, pending: Pending, unreturned: str = "", *, is_dead_end: bool = False
    ) -> WatchState:
        """Return the state of a stream that has returned all text but `unreturned`.

        The end of it that may become a stop or a tag is withheld, and the rest released. A stream
        that has stopped or failed is in a dead end.
        """
        node = self.matcher.node_after(unreturned) if unreturned else self.matcher.root
        released = unreturned[: len(unreturned) - node.length]
        if released or is_dead_end:
            return WatchState(pending, node, self._none_whole, released)
        return self._state(pending, node)

    def _state(self, pending: Pending, node: Node) -> WatchState:
        if not pending and node is self.matcher.root:
            return self._root
        state = self._state_of.get((pending, node))
        if state is not None:
            return state
        if not is_cacheable(pending):
            return WatchState(pending, node, self._none_whole)
        if len(self._state_of) >= tables.MAX_TRANSITIONS:
            self.clear()
        state = WatchState(pending, node, self._none_whole, is_cacheable=True)
        return self._state_of.setdefault((pending, node), state)

    def transition(self, state: WatchState, id: int) -> WatchTransition | None:
        """Return the transition of an id from a state; it is cached from then on.

        None if the state is not cacheable, or if the id is unknown, stops or is refused.
        """
        transition = state.transitions.get(id)
        if transition is not None or not state.is_cacheable:
            return transition
        if state is self._root and 0 <= id < len(self.text_of) and id in self._bytes_of:
            whole = self._text(id)
            if whole and self.matcher.first_characters.isdisjoint(whole):
                state.whole[id] = 1
                return whole, state, (whole,)
        try:
            text, pending = self.decoder.decode(state.pending, id, self._bytes_of[id])
        except (KeyError, UnicodeDecodeError):
            return None
        pieces, node, stop, _ = self.matcher.scan(state.node, text)
        if stop is not None:
            return None
        after = self._state(pending, node)
        if not after.is_cacheable:
            return None
        self._cache.make_room()
        state.transitions[id] = transition = "".join(pieces), after, pieces
        return transition

    def scan(self, state: WatchState, text: str, pending: Pending = b"") -> tuple[Scan, WatchState]:
        """Return the scan of complete text, and the next state, in which `pending` is pending."""
        scan = self.matcher.scan(state.node, text)
        if state.released:
            scan = scan._replace(pieces=join_texts((state.released, *scan.pieces)))
        if scan.stop is not None:
            return scan, self.state(b"", is_dead_end=True)
        return scan, self._state(pending, scan.node)

    def clear(self) -> None:
        states = [self._root, *self._state_of.values()]
        self._state_of.clear()
        for state in states:
            state.transitions.clear()


_FAILED = (
    "this stream met bytes that are not UTF-8 at an earlier step; reset() makes it usable again"
)


@dataclass(slots=True)  # a frozen one would take three times as long to make
class TokenText:
    """A token of a stream, and the text that was returned for it.

    `bytes` are the token's, b"" for a skipped token. `text` is the characters from `start` to `end`
    of the stream's text. It is "", at the offset of the text to come, for a token that completes
    nothing: its bytes or characters come with a later token. It is "", too, for a skipped special
    token, a stop id, and text that a stop removes.
    """

    id: int
    bytes: bytes
    start: int
    end: int
    text: str


class Watching(WatchSteps, Mode):
    """A stream that counts, and looks for stops and tags.

    The step of a whole token is one look-up here too. Python interrupts only where a function is
    called or returns, or where a loop begins again. So code that changes several fields stores them
    one after the other, without a call in between; longer changes are made to a copy, by `changed`.
    """

    __slots__ = (
        "_automaton", "failed", "finish_reason", "options", "stop_reason", "stops_paused", "table",
        "text_after_stop",
    )  # fmt: skip

    _automaton: WatchAutomaton
    _state: WatchState

    def reset(self) -> None:
        automaton = self._automaton_after(0, False)
        state, due = automaton.state(automaton.decoder.initial), self._due_after(0)
        self.stops_paused = self.failed = False
        self.finish_reason = self.stop_reason = None
        self.text_after_stop = ""
        self._due = self._until_due = due
        self.characters = 0
        self._automaton, self._state, self._texts = automaton, state, automaton.text_of
        self._bytes_of = self.table.tokens.bytes_of

    def start_at(self, pending: Pending) -> None:
        self._state = self._automaton.state(pending)

    def _due_after(self, tokens: int) -> int:
        min_tokens, max_tokens = self.options.min_tokens, self.options.max_tokens
        due = min_tokens if tokens < min_tokens else max_tokens or 0
        return min(due, MAX_COUNT)

    def _count(self, tokens: int) -> None:
        self._due = self._due_after(tokens)
        self._until_due = self._due - tokens

    def _automaton_after(self, tokens: int, stops_paused: bool) -> WatchAutomaton:
        """Return the automaton that finds the stops that count after a number of tokens."""
        table, options = self.table, self.options
        stops = () if stops_paused else options.stop
        finds_stops = tokens >= options.min_tokens or not stops
        matcher = matcher_of(stops, options.tags, finds_stops)
        # Stop ids have no transitions, so streams with other stop ids need another automaton.
        return table.cache.automaton(
            (options.errors, matcher, options.stop_ids),
            lambda: WatchAutomaton(table, options.errors, matcher),
        )

    def _step_any(self, ids: object) -> str:
        if type(ids) is int:
            return "".join(self.advance(ids))
        has_ended = (
            self.finish_reason is not None and not self.failed
        )  # so that steps change nothing
        if has_ended and type(ids) is list and countOf(map(type, ids), int) == len(ids):
            return ""
        return self._step_several(ids)

    @property
    def ids_read(self) -> int:
        return self._due - self._until_due

    def advance(self, id: int) -> tuple[str, ...]:
        if self.failed:
            raise ValueError(_FAILED)
        if self.finish_reason is not None:
            return ()
        pieces = self.advance_within(id)
        return self.changed(lambda after: after._advance(id)) if pieces is None else pieces

    def advance_within(self, id: int) -> tuple[str, ...] | None:
        """Make a step; return None, without a step, if it may end the stream."""
        state, until_due = self._state, self._until_due - 1
        if id in self.options.stop_ids or not until_due:
            return None
        if 0 <= id < len(state.whole) and state.whole[id]:
            text: str = self._texts[id]  # type: ignore[assignment] # it is whole text
            pieces: tuple[str, ...] = (text,)
        else:
            transition = self._automaton.transition(state, id)
            if transition is None:
                return None
            text, state, pieces = transition
        length = len(text)
        self._state = state
        self._until_due = until_due
        self.characters += length
        return pieces

    def _advance(self, id: int) -> tuple[str, ...]:
        state, options, automaton = self._state, self.options, self._automaton
        token = self.table.tokens.bytes_of.get(id)
        is_stop = id in options.stop_ids
        if token is None and not is_stop and options.unknown == "raise":
            token = self.table.tokens.bytes_of[id]  # raises the KeyError
        if token is None or (is_stop and not options.include_stop):
            scan, self._state = automaton.scan(state, "", state.pending)
        else:
            try:
                text, pending = automaton.decoder.decode(state.pending, id, token)
                scan, self._state = automaton.scan(state, text, pending)
            except UnicodeDecodeError as error:
                scan = self._before(error, id)
        if is_stop and self.ids_read >= options.min_tokens:
            self.finish_reason, self.stop_reason = "stop", id
        pieces = self._settle(scan)
        self.characters += sum(map(len, pieces))
        self._until_due -= 1
        if self.finish_reason is None and not self._until_due:
            tokens = self.ids_read
            if tokens == options.max_tokens:
                self.finish_reason = "length"
            else:
                self._count(tokens)
                self._switch(tokens)
        if self.finish_reason is not None:
            state = self._state
            self._state = automaton.state(state.pending, state.text, is_dead_end=True)
        return pieces

    def _settle(self, scan: Scan) -> tuple[str, ...]:
        """Return the text of a scan in pieces; note its stop."""
        if scan.stop is None:
            return scan.pieces
        if self.stop_reason is None:  # a stop id that came before remains the reason
            self.finish_reason = "stop"
            self.stop_reason, self.text_after_stop = scan.stop, scan.text_after_stop
        return join_texts((*scan.pieces, scan.stop)) if self.options.include_stop else scan.pieces

    def _before(self, error: UnicodeDecodeError, id: int | None) -> Scan:
        """Go to a stop in the text before bad bytes; raise without a stop."""
        good = error.object[: error.start].decode("utf-8")
        before = self._state
        scan, self._state = self._automaton.scan(before, good)
        if scan.stop is not None:
            return scan
        failure = DecodeStreamError(*error.args)
        failure.id, failure.index = id, self.ids_read
        failure.text = "".join(scan.pieces) + self._state.text
        self._state = self._automaton.state(before.pending, is_dead_end=True)
        self.failed = True
        raise failure from None

    def flush_pieces(self) -> list[str]:
        if self.failed:
            raise ValueError(_FAILED)
        if isinstance(self.stop_reason, str):
            return []
        return self.changed(Watching._flush_pieces)

    def _flush_pieces(self) -> list[str]:
        if self.ids_read == self.options.min_tokens > 0 and self.stop_reason is None:
            self._switch(self.ids_read - 1)  # stops that end here are within the min_tokens
        automaton = self._automaton
        try:
            text = automaton.decoder.finish(self._state.pending)
            scan, self._state = automaton.scan(self._state, text)
        except UnicodeDecodeError as error:
            scan = self._before(error, None)
        pieces = self._settle(scan)
        if scan.stop is None:
            pieces = join_texts((*pieces, self._state.text))
        self.characters += sum(map(len, pieces))
        if self.finish_reason is None:
            self.reset()
        else:
            self._state = automaton.state(b"", is_dead_end=True)
        return list(pieces)

    def set_stops_paused(self, paused: bool) -> None:
        if self.options.stop and paused != self.stops_paused:
            self.changed(lambda after: after._set_stops_paused(paused))

    def _set_stops_paused(self, paused: bool) -> None:
        self.stops_paused = paused
        if not isinstance(self.stop_reason, str) and not self.failed:
            self._switch(self.ids_read)

    def _switch(self, tokens: int) -> None:
        """Continue with the automaton that is due after `tokens` tokens."""
        self._automaton = self._automaton_after(tokens, self.stops_paused)
        has_ended = self.failed or self.finish_reason is not None
        pending, unreturned = self._state.pending, self._state.text
        self._state = self._automaton.state(pending, unreturned, is_dead_end=has_ended)

    @property
    def withheld(self) -> str:
        return self._state.text

    def become(self, other: Watching) -> None:
        self.table, self.options = other.table, other.options
        self._automaton, self._state = other._automaton, other._state
        self._texts, self._bytes_of = other._texts, other._bytes_of
        self._due, self._until_due = other._due, other._until_due
        self.characters, self.stops_paused = other.characters, other.stops_paused
        self.finish_reason, self.stop_reason = other.finish_reason, other.stop_reason
        self.text_after_stop = other.text_after_stop
        self.failed = other.failed

    def position(self) -> Position:
        data, decoder_state = self._automaton.decoder.to_parts(self._state.pending)
        return Position(
            data, decoder_state, self.withheld, self.ids_read, self.characters,
            self.stop_reason, self.text_after_stop, self.failed, self.stops_paused,
        )  # fmt: skip

    def go_to(self, position: Position) -> None:
        tokens = position.tokens
        if tokens is None:
            raise ValueError(
                "the state has no token counts, but this stream needs them; take the state of a "
                "stream that counts"
            )
        self.changed(lambda after: after._go_to(position, tokens))

    def _go_to(self, position: Position, tokens: int) -> None:
        pending = self._automaton.decoder.from_parts(position.pending, position.decoder_state)
        limit = self.options.max_tokens
        if limit is not None and tokens > limit:
            raise ValueError(f"state has {tokens} 'tokens', more than its 'max_tokens', {limit}")
        self.characters, self.failed = position.characters, position.failed
        self.stop_reason, self.text_after_stop = position.stop_reason, position.text_after_stop
        if position.stop_reason is not None:
            self.finish_reason = "stop"
        elif tokens == limit:
            self.finish_reason = "length"
        self.stops_paused = position.stops_paused and bool(self.options.stop)
        self._count(tokens)
        self._state = self._automaton.state(pending, position.withheld)
        self._switch(tokens)


def join_texts(pieces: Sequence[str]) -> tuple[str, ...]:
    """Return pieces with neighbouring texts joined, and tags left alone.

    >>> from bpetite._streaming.stops import Tag
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
