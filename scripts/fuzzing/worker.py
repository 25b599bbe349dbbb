"""A process in which one engine answers requests.

Requests and answers are pickled on standard input and output. A request is a kind, the name of a
vocabulary and a list of inputs; the answer is the list of their results.
"""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
import warnings
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import compress, pairwise
from pathlib import Path
from typing import Any

from tools.engines import instruction_set

import bpetite
from bpetite import CorpusWarning, EncodeStream, Tokenizer, Trusted

Text = str | bytes | bytearray | memoryview

MAX_ADDRESS_SPACE_BYTES = 6 << 30
"""The limit of a process, so that an unbounded allocation fails."""


@dataclass(frozen=True)
class Error:
    """An exception that a call raised."""

    kind: str
    message: str


Result = Any
"""The plain data that a call returned, or an Error."""


def result_of(call: Callable[[], object]) -> Result:
    """Return the result of a call, or an Error; a panic in Rust is one too."""
    try:
        return call()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Error(type(error).__name__, str(error))


def work() -> None:
    """Answer requests until standard input ends."""
    limit_memory()
    warnings.simplefilter("ignore", CorpusWarning)  # small corpora end early
    tokenizers: dict[str, Tokenizer] = {}
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # other output must not mix with answers
    with tempfile.TemporaryDirectory() as folder:
        while True:
            try:
                kind, name, inputs = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            if kind == "open":
                tokenizers[name] = Tokenizer.load(**inputs)
                pickle.dump([engine_name()], answers)
            else:
                pickle.dump(results_for(kind, tokenizers[name], inputs, Path(folder)), answers)
            answers.flush()


def results_for(
    kind: str, tokenizer: Tokenizer, inputs: Sequence[Any], folder: Path
) -> list[Result]:
    """Return the result for each input of a kind: text, bytes, ids, corpus or file."""
    match kind:
        case "text":
            together = in_batch(tokenizer, inputs)
            return [(encoded(tokenizer, text), next(together)) for text in inputs]
        case "bytes":
            return [encoded_bytes(tokenizer, data) for data in inputs]
        case "ids":
            return [decoded(tokenizer, ids) for ids in inputs]
        case "corpus":
            return [trained(folder, corpus) for corpus in inputs]
        case _:
            return [loaded(folder, file) for file in inputs]


def limit_memory() -> None:
    """Limit the address space of this process, if the system can."""
    if (
        sys.platform == "linux" and "ASAN_OPTIONS" not in os.environ
    ):  # AddressSanitizer needs far more
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESS_SPACE_BYTES, MAX_ADDRESS_SPACE_BYTES))


def engine_name() -> str:
    """Return the name of the engine, with its instruction set."""
    return f"{bpetite.engine} {instruction_set()}".strip()


def encoded(tokenizer: Tokenizer, text: Text) -> Result:
    """Return the results of all functions that encode a text."""
    calls: dict[str, Callable[[], object]] = {
        "encode": lambda: tokenizer.encode(text),
        "encode_ordinary": lambda: tokenizer.encode_ordinary(text),
        "count": lambda: tokenizer.count(text),
        "decode": lambda: tokenizer.decode(tokenizer.encode(text)),
        "array": lambda: tokenizer.encode(text, dtype="uint32").tolist(),
        "by threads": lambda: tokenizer.encode(text, threads=3),
        "within a budget": lambda: tokenizer.fits(text, 9),
        "start": lambda: tokenizer.truncate(text, 9),
        "end": lambda: tokenizer.truncate(text, 9, keep="end"),
        "chunks": lambda: list(tokenizer.chunks(text, 60, overlap=9)),
        "in steps": lambda: in_steps(tokenizer.encode_stream(), text[:20], text[20:99], text[99:]),
        "with offsets": lambda: tokenizer.encode_with_offsets(text),
        "with offsets in bytes": lambda: tokenizer.encode_with_offsets(text, unit="bytes"),
        "arrays with offsets": lambda: [
            view.tolist() for view in tokenizer.encode_with_offsets(text, dtype="uint32")
        ],
    }
    if isinstance(text, str):
        calls["in parts"] = lambda: tokenizer.encode_parts(cut(text))
        calls["in parts, ordinary"] = lambda: tokenizer.encode_parts([*map(str, cut(text))])[0]
    return {name: result_of(call) for name, call in calls.items()}


def in_steps(stream: EncodeStream, *parts: Text) -> list[list[int]]:
    """Return the ids of each step that completes any."""
    return [ids for ids in (*map(stream.step, parts), stream.flush()) if ids]


def cut(text: str) -> list[str]:
    """Return a text in parts; every third one is trusted and long."""
    parts: list[str] = []
    at = 0
    while at < len(text):
        is_trusted = len(parts) % 3 == 2
        end = at + (40 if is_trusted else 1 + len(parts) % 7)
        parts.append(Trusted(text[at:end]) if is_trusted else text[at:end])
        at = end
    return parts


def in_batch(tokenizer: Tokenizer, texts: Sequence[str]) -> Iterator[Result]:
    """Yield the ids of each text from two batches, or None for a text with lone surrogates."""
    good = [is_unicode(text) for text in texts]
    encodable = list(compress(texts, good))
    ids, offsets = tokenizer.encode_batch(encodable, threads=2, dtype="uint32")
    flat = [ids[start:end].tolist() for start, end in pairwise(offsets)]
    both = zip(tokenizer.encode_batch(encodable), flat, strict=True)
    return (next(both) if is_good else None for is_good in good)


def is_unicode(text: str) -> bool:
    """Return whether a text has no lone surrogates."""
    return not isinstance(result_of(text.encode), Error)


def encoded_bytes(tokenizer: Tokenizer, data: bytes) -> Result:
    """Return the results of encoding bytes, for each type that can hold them."""
    holders: list[Callable[[bytes], Text]] = [bytes, bytearray, memoryview]
    return [encoded(tokenizer, holder(data)) for holder in holders]


def decoded(tokenizer: Tokenizer, ids: list[int]) -> Result:
    """Return the results of all functions that decode ids."""

    def streamed(steps: Sequence[int | list[int]], **options: Any) -> list[Result]:
        stream = tokenizer.decode_stream(**options)
        texts = [result_of(partial(stream.step, step)) for step in steps]
        return [*texts, stream.to_state(), stream.flush()]

    calls: dict[str, Callable[[], object]] = {
        "decode_bytes": lambda: tokenizer.decode_bytes(ids),
        "of a buffer": lambda: tokenizer.decode_bytes(array("I", ids)),
        "decode": lambda: tokenizer.decode(ids),
        "replaced": lambda: tokenizer.decode(ids, errors="replace"),
        "without special tokens": lambda: tokenizer.decode(
            ids, errors="replace", skip_special_tokens=True
        ),
        "with offsets": lambda: tokenizer.decode_with_offsets(ids),
        "noncanonical": lambda: tokenizer.first_noncanonical(ids),
        "batch": lambda: tokenizer.decode_batch([ids, ids[:1]], errors="ignore"),
        "streamed": lambda: streamed(ids),
        "streamed, skipping": lambda: streamed(ids, skip_special_tokens=True, unknown="skip"),
        "streamed in threes": lambda: streamed([ids[at : at + 3] for at in range(0, len(ids), 3)]),
    }
    return {name: result_of(call) for name, call in calls.items()}


@dataclass(frozen=True)
class Corpus:
    """Documents and options of a training."""

    documents: list[str]
    vocab_size: int
    pattern: str


def trained(folder: Path, corpus: Corpus) -> Result:
    """Return the merges learnt from documents, and from files with the same content."""
    paths = [folder / str(number) for number, _ in enumerate(corpus.documents)]
    with suppress(UnicodeEncodeError):
        for path, document in zip(paths, corpus.documents, strict=True):
            path.write_bytes(document.encode())
    size, pattern = corpus.vocab_size, corpus.pattern
    calls: list[Callable[[], Tokenizer]] = [
        lambda: Tokenizer.train(corpus.documents, size, pattern=pattern)
    ]
    if all(path.exists() for path in paths):
        calls.append(lambda: Tokenizer.train(paths, size, pattern=pattern, threads=3))
    results = [result_of(lambda call=call: call().merges) for call in calls]  # type: ignore[misc]
    for path in paths:
        path.unlink(missing_ok=True)
    return results


@dataclass(frozen=True)
class File:
    """A vocabulary file, whose name gives the format."""

    name: str
    content: bytes


PROBE = "The hen's 10 men\r\n\t  don't <|a|> naïve 你好 🙂\x00 <|endoftext|>"


def loaded(folder: Path, file: File) -> Result:
    """Return the ids and merges of a loaded file, or the error."""
    path = folder / file.name
    path.write_bytes(file.content)
    options: dict[str, Any] = {}
    if file.name.endswith(".tiktoken"):
        options = {"pattern": "cl100k", "special_tokens": {"<|endoftext|>": 5000}}
    tokenizer = result_of(lambda: Tokenizer.load(path, **options))
    if isinstance(tokenizer, Error):
        return Error(tokenizer.kind, tokenizer.message.replace(str(folder), ""))
    return encoded(tokenizer, PROBE), tokenizer.merges
