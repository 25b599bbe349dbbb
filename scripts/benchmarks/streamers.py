"""Streams of other libraries: how each is made, and how it makes a step."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from benchmarks.measure import Subject
from benchmarks.peers import huggingface_of, is_installed, module, tiktoken_of
from bpetite import DecodeStream, Tokenizer


@dataclass(frozen=True)
class StreamCase:
    """Ids that arrive one by one after a prompt."""

    name: str
    tokenizer: Tokenizer
    ids: Sequence[int]
    prompt: Sequence[int] = ()
    skips: bool = False
    """Whether special tokens are skipped."""

    def stream(self, **options: Any) -> DecodeStream:
        """Return a new stream of bpetite."""
        return self.tokenizer.decode_stream(self.prompt, skip_special_tokens=self.skips, **options)

    @property
    def json(self) -> bytes:
        """The vocabulary as tokenizer.json."""
        return Subject(self.name, self.tokenizer, None).json


class Stream(NamedTuple):
    """A new stream of a library that has read its prompt."""

    step: Callable[[int], str | None]
    flush: Callable[[], str]
    steps: Callable[[Sequence[int]], object]
    """Makes a step for each of several ids, in a bare loop."""


@dataclass(frozen=True)
class Streamer:
    """A library with streams, or a common substitute without one."""

    name: str
    package: str
    open: Callable[[StreamCase], Callable[[], Stream]]
    """Loads the vocabulary of a case, and returns a function that makes streams."""

    @property
    def is_installed(self) -> bool:
        """Whether its package is installed."""
        return is_installed(self.package)


def looping(step: Callable[[int], object]) -> Callable[[Sequence[int]], None]:
    """Return a function that calls `step` for each id."""

    def steps(ids: Sequence[int]) -> None:
        for id in ids:
            step(id)

    return steps


def open_bpetite(case: StreamCase) -> Callable[[], Stream]:
    def make() -> Stream:
        stream = case.stream()
        return Stream(stream.step, stream.flush, looping(stream.step))

    return make


def open_tokenizers(case: StreamCase) -> Callable[[], Stream]:
    """Return a function that makes tokenizers' DecodeStream, which has no flush."""
    from tokenizers.decoders import DecodeStream

    twin = huggingface_of(case.json)
    prompt = list(case.prompt)

    def make() -> Stream:
        step = DecodeStream(ids=prompt, skip_special_tokens=case.skips).step

        def steps(ids: Sequence[int]) -> None:
            for id in ids:
                step(twin, id)

        return Stream(lambda id: step(twin, id), str, steps)

    return make


def open_splintr(case: StreamCase) -> Callable[[], Stream]:
    twin = module("splintr").from_json_bytes(case.json)

    def make() -> Stream:
        open = twin.streaming_decoder if case.skips else twin.streaming_decoder_with_special
        stream = open()
        steps = looping(stream.add_token)
        steps(case.prompt)
        return Stream(stream.add_token, stream.flush, steps)

    return make


def open_transformers(case: StreamCase) -> Callable[[], Stream]:
    """Return a function that makes transformers' TextIteratorStreamer, without its queue."""
    # Otherwise transformers would report that torch is missing.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    numpy = module("numpy")
    transformers = module("transformers")
    twin = transformers.PreTrainedTokenizerFast(
        tokenizer_object=huggingface_of(case.json), clean_up_tokenization_spaces=False
    )

    class Streamer(module("transformers.generation.streamers").TextIteratorStreamer):  # type: ignore[misc]
        text = ""

        def on_finalized_text(self, text: str, stream_end: bool = False) -> None:  # noqa: ARG002
            self.text = text

    def make() -> Stream:
        stream = Streamer(twin, skip_prompt=bool(case.prompt), skip_special_tokens=case.skips)
        put = stream.put
        if case.prompt:
            put(numpy.array(case.prompt))

        def step(id: int) -> str:
            put(numpy.array([id]))
            return str(stream.text)

        def flush() -> str:
            stream.end()
            return str(stream.text)

        def steps(ids: Sequence[int]) -> None:
            for id in numpy.array(ids).reshape(-1, 1):
                put(id)

        return Stream(step, flush, steps)

    return make


def open_alone(case: StreamCase) -> Callable[[], Stream]:
    """Return a function that decodes each id alone, with tiktoken's `decode`."""
    decode = tiktoken_of(case.tokenizer).decode
    skipped = special_ids(case) if case.skips else set()

    def step(id: int) -> str:
        return "" if id in skipped else decode([id])

    return lambda: Stream(step, str, looping(step))


def open_codec(case: StreamCase) -> Callable[[], Stream]:
    """Return a function that feeds tiktoken's tokens to Python's incremental codec."""
    bytes_of = tiktoken_of(case.tokenizer).decode_single_token_bytes
    skipped = special_ids(case) if case.skips else set()

    def make() -> Stream:
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode

        def step(id: int) -> str:
            return "" if id in skipped else decode(bytes_of(id))

        steps = looping(step)
        steps(case.prompt)
        return Stream(step, lambda: decode(b"", True), steps)

    return make


def special_ids(case: StreamCase) -> set[int]:
    """Return the ids of the special tokens."""
    return set(case.tokenizer.special_tokens.values())


OURS = Streamer("bpetite", "bpetite", open_bpetite)

STREAMERS = (
    Streamer("tokenizers", "tokenizers", open_tokenizers),
    Streamer("splintr", "splintr-rs", open_splintr),
    Streamer("transformers", "transformers", open_transformers),
)
"""Libraries with streams."""

SUBSTITUTES = (
    Streamer("each id alone", "tiktoken", open_alone),
    Streamer("incremental codec", "tiktoken", open_codec),
)
"""Common substitutes for streams."""
