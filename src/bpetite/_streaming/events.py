"""All that is known about each step of a stream: text, tags, tokens, counts, and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from bpetite._engine.chosen import ENGINE
from bpetite._streaming.mode import DecodeStreamError
from bpetite._streaming.options import Ids, are_several
from bpetite._streaming.watching import TokenText, Watching, join_texts
from bpetite._vocabulary import as_id


@dataclass(slots=True)  # not frozen, as `TokenText`
class StreamEvent:
    """What one push of ids did to a stream: its text, its tokens, and whether the stream ended.

    `pieces` is the text that became complete: each tag is a `Tag` of its own. `tokens` has the ids
    that were read, with the offsets of their text; ids after the end are not read. `ids_read` is
    the number of ids so far.

    Only the last event has a `finish_reason`: "stop" after a stop, and "length" after `max_tokens`
    ids or when the source of the ids ended first. `stop_reason` is then the stop string or the stop
    id, or None. Its pieces end with the text of `flush`, which belongs to no token.

    >>> from bpetite import Tokenizer
    >>> stream = Tokenizer.train("", 256).decode_stream(stop_ids=0)
    >>> first, last = stream.events([[104, 105], 0])
    >>> first.text, first.pieces, [token.start for token in first.tokens]
    ('hi', ('hi',), [0, 1])
    >>> last.text, last.ids_read, last.finish_reason, last.stop_reason
    ('', 3, 'stop', 0)

    It is a dataclass, so `json.dumps(dataclasses.asdict(event), default=list)` is its JSON: the
    bytes of a token become a list of numbers.
    """

    pieces: tuple[str, ...]
    tokens: tuple[TokenText, ...]
    ids_read: int
    finish_reason: Literal["stop", "length"] | None = None
    stop_reason: str | int | None = None

    @property
    def text(self) -> str:
        """The pieces, joined: the text that became complete."""
        return "".join(self.pieces)


event_of_known: Callable[[object, object], StreamEvent | None]
event_of_known = ENGINE.make_events(StreamEvent, TokenText) or (lambda *_: None)
"""Makes a usual step of a stream that counts, and returns its event; None, without a step, else."""


def step_event(mode: Watching, ids: Ids) -> StreamEvent:
    """Make a step for each id up to the end, and return the event; if an id raises, make none."""
    event = event_of_known(mode, ids)
    if event is not None:
        return event
    if type(ids) is list and len(ids) == 1 and type(ids[0]) is int:
        return step_event(mode, ids[0])
    if type(ids) is int:
        start = mode.characters
        pieces = mode.advance_within(ids)
        if pieces is not None:
            return StreamEvent(pieces, (_token(mode, ids, start, pieces),), mode.ids_read)
    several = list(ids) if are_several(ids) else [ids]
    return mode.changed(lambda after: _event_of(after, several))


def _event_of(mode: Watching, ids: list[Any]) -> StreamEvent:
    tokens: list[TokenText] = []
    pieces: list[str] = []
    try:
        for each in ids:
            event = event_of_known(mode, each)
            if event is not None:
                pieces += event.pieces
                tokens += event.tokens
                continue
            id = as_id(each)
            start, has_ended = mode.characters, mode.finish_reason is not None
            step = mode.advance(id)
            pieces += step
            if not has_ended:
                tokens.append(_token(mode, id, start, step))
        ids_read = mode.ids_read
        if mode.finish_reason is not None:
            pieces += mode.flush_pieces()
    except DecodeStreamError as error:
        error.text = "".join(pieces) + error.text
        raise
    return StreamEvent(
        join_texts(pieces), tuple(tokens), ids_read, mode.finish_reason, mode.stop_reason
    )


def _token(mode: Watching, id: int, start: int, pieces: tuple[str, ...]) -> TokenText:
    token = mode.table.tokens.bytes_of.get(id, b"")
    return TokenText(id, token, start, mode.characters, "".join(pieces))


def flush_event(mode: Watching) -> StreamEvent:
    """End the text, and return the event of the end."""
    ids_read = mode.ids_read  # the end of the text resets it
    pieces = tuple(mode.flush_pieces())
    return StreamEvent(pieces, (), ids_read, mode.finish_reason or "length", mode.stop_reason)
