"""All that is known about each step of a stream: text, tags, tokens, counts, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bpetite._streaming.options import Ids
from bpetite._streaming.watching import TokenText, Watching, join_texts


@dataclass(slots=True)  # not frozen, as `TokenText`
class StreamEvent:
    """A step of a stream, or its end: `DecodeStream.events` yields both.

    `pieces` is the text of the step as `step_events` returns it: each tag is a `Tag` of its own.
    `tokens` has the ids of the step with their offsets, as `step_tokens` returns them. A step that
    stops the stream has no tokens behind the stop. `ids_read` is the number of ids so far, the
    last of them a stop id or the end of a stop string.

    Only the last event has a `finish_reason`: "stop" after a stop, or "length" if the source ended
    first. `stop_reason` is then the stop string or stop id, or None. The last event has no tokens;
    its pieces are the text of `flush`.

    >>> from bpetite import Tokenizer
    >>> stream = Tokenizer.train("", 256).decode_stream(stop_ids=0)
    >>> first, _, last = stream.events([[104, 105], 0])
    >>> first.text, first.pieces, [token.start for token in first.tokens]
    ('hi', ('hi',), [0, 1])
    >>> last
    StreamEvent(pieces=(), tokens=(), ids_read=3, finish_reason='stop', stop_reason=0)

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


def step_event(mode: Watching, ids: Ids) -> StreamEvent:
    """Make a step for each id up to a stop, and return the event."""
    if type(ids) is int:
        token, pieces = mode.token_pieces(ids)
        return StreamEvent(pieces, (token,), mode.ids_read)
    before = mode.ids_read
    steps = mode.each(ids, Watching.token_pieces, lambda step: step[0].text)
    del steps[mode.ids_read - before :]  # steps after a stop read nothing
    pieces = join_texts([piece for _, pieces in steps for piece in pieces])
    return StreamEvent(pieces, tuple(token for token, _ in steps), mode.ids_read)


def last_event(mode: Watching) -> StreamEvent:
    """End the text, and return the last event."""
    ids_read = mode.ids_read  # before the text ends, which resets it
    pieces = tuple(mode.flush_events())
    stop = mode.stop_reason  # behind it, since replaced bytes may be a stop
    return StreamEvent(pieces, (), ids_read, "length" if stop is None else "stop", stop)
