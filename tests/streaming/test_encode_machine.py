"""Any use of an `EncodeStream`, compared after each call with one `encode` of the whole text."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

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
from support.reference import unfinished
from support.split_cases import LITERALS, TOKENIZERS, framed, texts

from bpetite import EncodeStream, Tokenizer

MOVES: list[Callable[[EncodeStream], EncodeStream]] = [
    EncodeStream.copy,
    copy.copy,
    copy.deepcopy,
    lambda stream: pickle.loads(pickle.dumps(stream)),
]


crossing = st.sampled_from(["<|a b|>1", "it's <|a b", "a \n1 aa", "  \n é\u0301 "])
"""Texts with a space in a literal, or more than one before a word."""


@dataclass
class Followed:
    """A stream, its text so far, the ids that it returned, and the rest of a character."""

    stream: EncodeStream
    tokenizer: Tokenizer
    options: dict[str, Any]
    data: bytes = b""
    rest: bytes = b""
    ids: list[int] = field(default_factory=list)

    def moved(self, move: Callable[[EncodeStream], EncodeStream]) -> Followed:
        return replace(self, stream=move(self.stream), ids=[*self.ids])

    def begin(self) -> None:
        """Begin a new text."""
        self.data, self.rest, self.ids = b"", b"", []

    def step(self, text: str | bytes) -> None:
        self.ids += self.stream.step(text)
        self.data += text.encode() if isinstance(text, str) else text

    def check(self) -> None:
        pending = self.stream.pending
        assert self.data.endswith(pending)
        assert pending.endswith(unfinished(self.data))
        if self.tokenizer.lossless and not self.options["add_special_tokens"]:
            assert self.tokenizer.decode_bytes(self.ids) + pending == self.data
        if self.rest:
            ids = [move(self.stream).step(self.rest) for move in MOVES]
            assert ids == [ids[0]] * len(MOVES)
        else:
            whole = self.tokenizer.encode(self.data.decode(), **self.options)
            assert self.ids + self.stream.copy().flush() == whole
            for more in ("|>", "1", " a", "\n1", "'s", "\u0301", "aa"):
                longer = self.tokenizer.encode(self.data.decode() + more, **self.options)
                assert longer[: len(self.ids)] == self.ids


class EncodeMachine(RuleBasedStateMachine):
    """Streams whose text comes in steps that end anywhere, and which are copied."""

    streams = Bundle("streams")

    @initialize(
        target=streams,
        name=st.sampled_from([*TOKENIZERS]),
        allowed=st.sampled_from([None, (), LITERALS[1:2], LITERALS[:3]]),
        frames=st.booleans(),
    )
    def start(self, name: str, allowed: tuple[str, ...] | None, frames: bool) -> Followed:
        tokenizer = framed(name)
        options: dict[str, Any] = {"allowed_special": "all", "add_special_tokens": frames}
        if allowed is not None:
            options["allowed_special"] = {*allowed} & {*tokenizer.special_tokens}
        return Followed(tokenizer.encode_stream(**options), tokenizer, options)

    @rule(followed=streams, text=texts | crossing, in_bytes=st.booleans(), kept=st.integers(1, 3))
    def step(self, followed: Followed, text: str, in_bytes: bool, kept: int) -> None:
        """Make a step, which may end inside a character, after the rest of the one before."""
        followed.step(followed.rest)
        followed.rest = b""
        if in_bytes:
            data = text.encode()
            end = len(data) - min(kept, len(data))
            followed.rest = data[end:] if unfinished(data[:end]) else b""
            followed.step(data[:end] if followed.rest else data)
        else:
            followed.step(text)
        followed.check()

    @rule(followed=streams, first=texts, then=texts | crossing)
    def step_by_character(self, followed: Followed, first: str, then: str) -> None:
        """Make a step with each character, so that text ends everywhere."""
        followed.step(followed.rest)
        followed.rest = b""
        for character in first + then:
            followed.step(character)
        followed.check()

    @rule(followed=streams, text=texts, bad=st.sampled_from([b"\xff", b"a\xed\xa0", "\ud800"]))
    def fail(self, followed: Followed, text: str, bad: Any) -> None:
        """A step that is not Unicode changes nothing."""
        pending = followed.stream.pending
        with pytest.raises(UnicodeError):
            followed.stream.step(text + bad if isinstance(bad, str) else text.encode() + bad)
        assert followed.stream.pending == pending
        followed.check()

    @rule(followed=streams, text=texts)
    def go_on(self, followed: Followed, text: str) -> None:
        """Returned ids are the first, whatever follows."""
        whole = followed.data + followed.rest + text.encode()
        ids = followed.tokenizer.encode(whole.decode(), **followed.options)
        assert ids[: len(followed.ids)] == followed.ids

    @rule(followed=streams)
    def flush(self, followed: Followed) -> None:
        if followed.rest:
            pending = followed.stream.pending
            with pytest.raises(UnicodeDecodeError) as caught:
                followed.stream.flush()
            assert pending[caught.value.start :] == unfinished(followed.data)
            assert followed.stream.pending == pending
        else:
            whole = followed.tokenizer.encode(followed.data.decode(), **followed.options)
            assert followed.ids + followed.stream.flush() == whole
            followed.begin()
        followed.check()

    @rule(followed=streams)
    def reset(self, followed: Followed) -> None:
        followed.stream.reset()
        followed.begin()
        followed.check()

    @rule(target=streams, followed=streams, move=st.sampled_from(MOVES))
    def copy(self, followed: Followed, move: Callable[[EncodeStream], EncodeStream]) -> Followed:
        """Go on with a copy too."""
        other = followed.moved(move)
        assert other.stream.pending == followed.stream.pending
        other.check()
        return other


def test_steps_and_flush_are_one_encode() -> None:
    run_state_machine_as_test(
        EncodeMachine,
        settings=settings(max_examples=settings().max_examples * 2, stateful_step_count=20),
    )
