"""Any use of a `DecodeStream`, compared after each call with the textbook on the whole text."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, pairwise
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)
from support.reference import Shown, Streamed, streamed, unfinished
from support.streams import EDGES, END, ERRORS, tokenizer_of

from bpetite import DecodeStream, DecodeStreamError, StreamEvent, Tag, TokenText

TOKENS = [
    b"ab", b"<a", b"a>b", "é".encode(), b"b\xc3", b"\xa9a", "🙂".encode(), b"\xf0\x9f",
    b"\x99\x82", b"\x99\x82<\xe4", b"a\xffb", b"\xe4\xbd", b"\xed\xa0", "a>é🙂".encode() * 4,
]  # fmt: skip
"""Whole characters, halves, bytes of no character, and a token that takes more than 32 bytes."""

TOKENIZER = tokenizer_of(TOKENS)
END_ID = TOKENIZER.special_tokens[END]
UNKNOWN_ID = TOKENIZER.n_vocab + 7
STOP_ID = TOKENIZER.n_vocab + 8
BYTES_OF = {id: TOKENIZER.token_bytes(id) for id in range(END_ID + 1)}

ids_of_tokens = st.sampled_from([TOKENIZER.token_id(token) for token in TOKENS])
known_ids = st.one_of(
    *[st.sampled_from(b"ab<>")] * 3,
    *[ids_of_tokens] * 2,
    st.sampled_from("é🙂".encode()),
    st.sampled_from(EDGES),
    st.sampled_from([END_ID, STOP_ID]),
)
some_ids = st.lists(known_ids, max_size=9)
refused_ids = st.sampled_from([UNKNOWN_ID, None, True, 97.0, "a"])
strings = st.sampled_from(
    ["a", "ab", "<a", "<a>b", "ba", "b<", ">é", "🙂", "🙂a>", "aab", "\ufffd", "a>é🙂a>é"]
)

options_of_all_kinds = st.fixed_dictionaries(
    {"errors": st.sampled_from(ERRORS)},
    optional={
        "skip_special_tokens": st.booleans(),
        "stop": st.lists(strings, min_size=1, max_size=4),
        "include_stop": st.booleans(),
        "stop_ids": st.sampled_from([[STOP_ID], [STOP_ID, END_ID], [ord("a"), 0xC3]]),
        "min_tokens": st.integers(0, 9),
        "max_tokens": st.integers(9, 30),
        "tags": st.lists(strings, min_size=1, max_size=3),
        "unknown": st.sampled_from(["raise", "skip"]),
    },
)

STEPS = ["step", "step_event"]

KINDS: list[Callable[[list[Any]], Any]] = [list, tuple, iter, lambda ids: np.array(ids, object)]

MOVES: list[Callable[[DecodeStream], DecodeStream]] = [
    DecodeStream.copy,
    copy.copy,
    copy.deepcopy,
    lambda stream: pickle.loads(pickle.dumps(stream)),
    lambda stream: DecodeStream.from_state(TOKENIZER, json.loads(json.dumps(stream.to_state()))),
]


def joined(pieces: Iterable[Shown]) -> list[Shown]:
    """Return pieces with neighbouring texts joined."""
    result: list[Shown] = []
    for text, is_tag in pieces:
        if result and not is_tag and not result[-1][1]:
            result[-1] = result[-1][0] + text, False
        else:
            result.append((text, is_tag))
    return result


def text_of(pieces: Iterable[Shown]) -> str:
    return "".join(text for text, _ in pieces)


def shown_of(pieces: Iterable[str]) -> list[Shown]:
    return [(str(piece), isinstance(piece, Tag)) for piece in pieces]


def flushed(stream: DecodeStream) -> str:
    try:
        return stream.flush()
    except DecodeStreamError:
        return "not UTF-8"


class BadBytesError(Exception):
    """Stands for a DecodeStreamError: the id, its index, the text before, and the bad bytes."""


@dataclass
class Followed:
    """A stream, and what its text was made of so far: the bytes and the pause of each step.

    The unfinished character of the prompt is the first step.
    """

    stream: DecodeStream
    options: dict[str, Any]
    read: list[bytes]
    armed: list[bool] = field(default_factory=lambda: [True])
    shown: list[Shown] = field(default_factory=list)
    returned: int = 1  # the number of steps whose pieces are in `shown`
    paused: bool = False
    counts: bool = False  # even after steps
    finish_reason: Literal["stop", "length"] | None = None
    stop_reason: str | int | None = None
    text_after_stop: str = ""
    failed: bool = False
    cut: bool = False  # by a stop string: nothing after it is pending or withheld

    def copied(self, stream: DecodeStream) -> Followed:
        read, armed, shown = [*self.read], [*self.armed], [*self.shown]
        return replace(self, stream=stream, read=read, armed=armed, shown=shown)

    @property
    def looks(self) -> bool:
        """Whether the stream does more than decode, so that it counts from the beginning."""
        lookers = ("stop", "stop_ids", "tags", "max_tokens")
        return self.options["errors"] == "strict" or any(map(self.options.get, lookers))

    @property
    def is_fresh(self) -> bool:
        """Whether no step was made since the text began."""
        return len(self.read) == 1 and self.finish_reason is None

    @property
    def ids_read(self) -> int:
        has_failed_id = self.failed and self.returned < len(self.read)
        return len(self.read) - 1 - has_failed_id

    def begin(self) -> None:
        """Begin a new text."""
        self.read, self.armed, self.shown, self.returned = [b""], [True], [], 1
        self.paused, self.failed, self.cut = False, False, False
        self.finish_reason, self.stop_reason, self.text_after_stop = None, None, ""

    def outcome(self) -> Streamed:
        """Return the pieces of the textbook's steps, the last by flush."""
        options = self.options
        return streamed(
            self.read,
            errors=options["errors"],
            stop=options.get("stop", ()),
            tags=options.get("tags", ()),
            include_stop=options.get("include_stop", False),
            min_tokens=options["min_tokens"] + 1 if options.get("min_tokens") else 0,
            armed=[*self.armed, not self.paused],
        )

    def token(self, id: Any) -> bytes:
        """Return the bytes of an id, none if it has no text; raise if it is unknown."""
        if id in self.options.get("stop_ids", ()) and not self.options.get("include_stop"):
            return b""
        if id == END_ID and self.options.get("skip_special_tokens"):
            return b""
        is_known = id in BYTES_OF or id in self.options.get("stop_ids", ())
        if not is_known and self.options.get("unknown") != "skip":
            raise KeyError
        return BYTES_OF.get(id, b"")

    def shown_bytes(self, id: int) -> bytes:
        """Return the bytes of an id that did not raise."""
        is_skipped = id == END_ID and self.options.get("skip_special_tokens")
        return b"" if is_skipped else BYTES_OF.get(id, b"")

    def step(self, id: Any) -> list[Shown]:
        """Follow a step, and return its pieces."""
        if type(id) is not int:
            raise TypeError
        if self.failed:
            raise ValueError
        if self.finish_reason is not None:
            return []
        token, number = self.token(id), len(self.read)
        self.read.append(token)
        self.armed.append(not self.paused)
        may_stop = number > self.options.get("min_tokens", 0)
        is_stop = may_stop and id in self.options.get("stop_ids", ())
        pieces = self.result_of(number, id)
        if is_stop:
            self.finish_reason, self.stop_reason, self.text_after_stop = "stop", id, ""
        elif self.finish_reason is None and number == self.options.get("max_tokens"):
            self.finish_reason = "length"
        return pieces

    def result_of(self, number: int, id: int | None) -> list[Shown]:
        """Return the pieces of the step with this number, and of steps that showed nothing."""
        result = self.outcome()
        if result.error == number:
            self.failed = True
            raise BadBytesError(id, number - 1, result.unreturned, b"".join(self.read))
        self.cut |= result.stop_step == number
        if result.stop_step == number and self.stop_reason is None:
            self.finish_reason = "stop"
            self.stop_reason, self.text_after_stop = result.stopped, result.text_after_stop
        pieces = [*chain.from_iterable(result.steps[self.returned : number + 1])]
        self.returned = number + 1
        self.shown += pieces
        return joined(pieces)

    def flush(self) -> list[Shown]:
        """Follow a flush, and return its pieces."""
        if self.failed:
            raise ValueError(r"reset\(\)")
        if self.cut or self.returned > len(self.read):
            return []
        pieces = self.result_of(len(self.read), None)
        if self.finish_reason is None:
            self.begin()
        return pieces

    def check(self) -> None:
        """Compare what the stream says of itself."""
        stream = self.stream
        assert MOVES[-1](stream).to_state() == stream.to_state()
        data = b"".join(self.read)
        ended = self.cut or self.returned > len(self.read)
        pending = b"" if ended else unfinished(data)
        if self.failed and self.returned < len(self.read):
            pending = unfinished(b"".join(self.read[:-1]))
        assert stream.pending == pending
        assert (stream.stop_reason, stream.text_after_stop) == (
            self.stop_reason,
            self.text_after_stop,
        )
        assert stream.finish_reason == self.finish_reason
        assert stream.stops_paused == self.paused
        assert ("failed" in repr(stream)) == self.failed
        if not self.failed:
            withheld = ""
            if not ended:
                complete = data.removesuffix(pending).decode("utf-8", self.options["errors"])
                shown = text_of(self.shown)
                assert complete.startswith(shown)
                withheld = complete.removeprefix(shown)
            assert stream.withheld == withheld
            twin = self.copied(stream.copy())
            try:
                expected = text_of(twin.flush())
            except BadBytesError:
                expected = "not UTF-8"
            assert flushed(twin.stream) == expected


class DecodeMachine(RuleBasedStateMachine):
    """Streams that make steps, fail, stop, and are copied."""

    streams = Bundle("streams")

    @initialize(target=streams, options=options_of_all_kinds, prompt=some_ids)
    def start(self, options: dict[str, Any], prompt: list[int]) -> Followed:
        prompt = [id for id in prompt if id != STOP_ID]
        tags, stop = options.get("tags", []), options.get("stop", [])
        options = {**options, "tags": [tag for tag in tags if tag not in stop]}
        stream = TOKENIZER.decode_stream(prompt, **options)
        followed = Followed(stream, options, [])
        followed.read = [unfinished(b"".join(map(followed.shown_bytes, prompt)))]
        followed.counts = followed.looks
        followed.check()
        return followed

    @rule(followed=streams, ids=some_ids, kind=st.sampled_from(KINDS))
    def step(self, followed: Followed, ids: list[Any], kind: Any) -> None:
        self.use(followed, "step", ids, kind(ids))

    @rule(followed=streams, ids=some_ids)
    def step_event(self, followed: Followed, ids: list[Any]) -> None:
        self.use(followed, "step_event", ids, ids)

    @rule(followed=streams, id=known_ids, name=st.sampled_from(STEPS))
    def step_one(self, followed: Followed, id: int, name: str) -> None:
        self.use(followed, name, [id], id)

    @rule(followed=streams, ids=some_ids, last=refused_ids, name=st.sampled_from(STEPS))
    def refuse(self, followed: Followed, ids: list[Any], last: Any, name: str) -> None:
        """If the last of several ids is wrong or unknown, none of them is read."""
        self.use(followed, name, [*ids, last], [*ids, last])

    def use(self, followed: Followed, name: str, several: list[Any], argument: Any) -> None:
        """Make steps by a method of the stream, all of them or none."""
        stream, before = followed.stream, followed.copied(followed.stream)
        state, start = stream.to_state(), len(text_of(followed.shown))
        steps: list[list[Shown]] = []
        read: list[int] = []
        ids_read = 0
        expected: Exception | None = None
        if name == "step_event" and not (followed.counts or followed.is_fresh):
            expected = ValueError()
        else:
            followed.counts |= name == "step_event"
            try:
                for id in several:
                    has_ended = followed.finish_reason is not None
                    steps.append(followed.step(id))
                    read += [] if has_ended else [id]
                ids_read = followed.ids_read
                if name == "step_event" and followed.finish_reason is not None:
                    steps.append(followed.flush())
            except (KeyError, TypeError, ValueError, BadBytesError) as error:
                expected = error
        if isinstance(expected, BadBytesError):
            with pytest.raises(DecodeStreamError) as caught:
                getattr(stream, name)(argument)
            self.check_error(caught.value, expected, steps)
        elif expected is not None:
            with pytest.raises(type(expected)) as refused:
                getattr(stream, name)(argument)
            assert (type(refused.value), stream.to_state()) == (type(expected), state)
            before.counts = followed.counts
            vars(followed).update(vars(before))
        elif name == "step":
            assert getattr(stream, name)(argument) == text_of(chain.from_iterable(steps))
        else:
            event = stream.step_event(argument)
            ends = [*accumulate((len(text_of(step)) for step in steps), initial=start)]
            tokens = [
                TokenText(id, followed.shown_bytes(id), *bounds, text_of(step))
                for id, bounds, step in zip(read, pairwise(ends), steps, strict=False)
            ]
            assert event == StreamEvent(
                event.pieces, tuple(tokens), ids_read, followed.finish_reason, followed.stop_reason
            )
            assert shown_of(event.pieces) == joined(chain.from_iterable(steps))
        followed.check()

    def check_error(
        self, error: DecodeStreamError, expected: BadBytesError, steps: list[list[Shown]]
    ) -> None:
        id, index, text, data = expected.args
        before = text_of(chain.from_iterable(steps))
        assert (error.id, error.index, error.text) == (id, index, before + text)
        with pytest.raises(UnicodeDecodeError) as caught:
            data.decode()
        whole = caught.value
        bad = whole.object[whole.start : whole.end]
        assert (error.object[error.start : error.end], error.reason) == (bad, whole.reason)
        assert data.endswith(error.object)

    @rule(followed=streams, as_event=st.booleans())
    def flush(self, followed: Followed, as_event: bool) -> None:
        stream, ids_read = followed.stream, followed.ids_read
        call = stream.flush_event if as_event else stream.flush
        try:
            if as_event and not (followed.counts or followed.is_fresh):
                raise ValueError("did not count")
            followed.counts |= as_event
            expected = followed.flush()
        except BadBytesError as error:
            with pytest.raises(DecodeStreamError) as caught:
                call()
            self.check_error(caught.value, error, [])
        except ValueError as error:
            with pytest.raises(ValueError, match=f"{error}") as refused:
                call()
            assert type(refused.value) is ValueError
        else:
            found = call()
            if isinstance(found, StreamEvent):
                ending = followed.finish_reason or "length"
                expected_event = StreamEvent(
                    found.pieces, (), ids_read, ending, followed.stop_reason
                )
                assert (shown_of(found.pieces), found) == (expected, expected_event)
            else:
                assert found == text_of(expected)
        followed.check()

    @rule(target=streams, followed=streams, move=st.sampled_from(MOVES))
    def copy(self, followed: Followed, move: Callable[[DecodeStream], DecodeStream]) -> Followed:
        """Go on with a copy too."""
        other = followed.copied(move(followed.stream))
        assert other.stream.to_state() == followed.stream.to_state()
        if other.is_fresh and move in MOVES[3:]:
            other.counts = other.looks  # a state without steps does not say that they count
        other.check()
        return other

    @rule(followed=streams, paused=st.booleans())
    def pause(self, followed: Followed, paused: bool) -> None:
        if followed.options.get("stop"):  # for other streams, a pause has no effect
            followed.stream.pause_stops() if paused else followed.stream.resume_stops()
            followed.paused = paused
        followed.check()

    @rule(followed=streams)
    def reset(self, followed: Followed) -> None:
        followed.stream.reset()
        followed.begin()
        followed.check()


def test_stream_matches_the_textbook() -> None:
    run_state_machine_as_test(
        DecodeMachine,
        settings=settings(max_examples=settings().max_examples * 3, stateful_step_count=25),
    )
