"""The streams that ours are measured beside: how each is made, and how it makes a step."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from _bench_measure import Subject
from _bench_peers import huggingface_of, is_installed, module, tiktoken_of

from bpetite import DecodeStream, Tokenizer


@dataclass(frozen=True)
class StreamCase:
    """Ids that come one by one behind a prompt."""

    name: str
    tokenizer: Tokenizer
    ids: Sequence[int]
    prompt: Sequence[int] = ()
    skips: bool = False
    """Whether special tokens are skipped."""

    def stream(self, **options: Any) -> DecodeStream:
        """Return a new stream of ours."""
        return self.tokenizer.decode_stream(self.prompt, skip_special_tokens=self.skips, **options)

    @property
    def json(self) -> bytes:
        """The vocabulary as other libraries read it."""
        return Subject(self.name, self.tokenizer, None).json


class Stream(NamedTuple):
    """A new stream of some library, behind its prompt."""

    step: Callable[[int], str | None]
    flush: Callable[[], str]
    steps: Callable[[Sequence[int]], object]
    """Makes the steps of several ids, each by itself, without more around it than a loop."""


@dataclass(frozen=True)
class Streamer:
    """A library with streams, or a way that people take with one that has none."""

    name: str
    package: str
    open: Callable[[StreamCase], Callable[[], Stream]]
    """Loads the vocabulary of a case, and returns what makes new streams."""

    @property
    def is_installed(self) -> bool:
        """Whether it can be measured here."""
        return is_installed(self.package)


def looping(step: Callable[[int], object]) -> Callable[[Sequence[int]], None]:
    """Return what calls `step` for each id."""

    def steps(ids: Sequence[int]) -> None:
        for id in ids:
            step(id)

    return steps


def open_bpetite(case: StreamCase) -> Callable[[], Stream]:
    """Return what makes streams of ours."""

    def make() -> Stream:
        stream = case.stream()
        return Stream(stream.step, stream.flush, looping(stream.step))

    return make


def open_tokenizers(case: StreamCase) -> Callable[[], Stream]:
    """Return what makes tokenizers' DecodeStream, which has nothing for the end."""
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
    """Return what makes splintr's StreamingDecoder; what the prompt gives is thrown away."""
    twin = module("splintr").from_json_bytes(case.json)

    def make() -> Stream:
        open = twin.streaming_decoder if case.skips else twin.streaming_decoder_with_special
        stream = open()
        steps = looping(stream.add_token)
        steps(case.prompt)
        return Stream(stream.add_token, stream.flush, steps)

    return make


def open_transformers(case: StreamCase) -> Callable[[], Stream]:
    """Return what makes transformers' TextIteratorStreamer, without the queue to another thread."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")  # it would tell that torch is absent
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
    """Return what decodes each id alone, with tiktoken's `decode`."""
    decode = tiktoken_of(case.tokenizer).decode
    skipped = special_ids(case) if case.skips else set()

    def step(id: int) -> str:
        return "" if id in skipped else decode([id])

    return lambda: Stream(step, str, looping(step))


def open_codec(case: StreamCase) -> Callable[[], Stream]:
    """Return what puts the bytes of tiktoken's tokens through a codec that is incremental."""
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
"""Those that have streams."""

WAYS = (
    Streamer("each id alone", "tiktoken", open_alone),
    Streamer("a codec", "tiktoken", open_codec),
)
"""What people do where there are none."""
