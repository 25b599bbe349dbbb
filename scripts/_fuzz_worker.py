"""One engine at work: answers what `scripts/_fuzz.py` asks, in a process of its own.

Requests and answers are pickled, on standard input and output. A request is a kind, the name of a
vocabulary and a list of inputs; the answer is the list of their results.
"""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import compress, pairwise
from pathlib import Path
from typing import Any

import bpetite
from bpetite import Tokenizer

Text = str | bytes | bytearray | memoryview

MOST_MEMORY = 6 << 30
"""Bytes of address space that a process may have: what input makes it allocate is bounded."""


@dataclass(frozen=True)
class Error:
    """What a call raised."""

    kind: str
    message: str


Result = Any
"""What a call returned, as plain data, or an Error."""


def result_of(call: Callable[[], object]) -> Result:
    """Return what a call returns, or the Error that it raises, a panic of the core's too."""
    try:
        return call()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Error(type(error).__name__, str(error))


def work() -> None:
    """Answer one request after the other, until there are no more."""
    limit_memory()
    tokenizers: dict[str, Tokenizer] = {}
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else is printed is no answer
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
    """Let an allocation fail that input should never lead to, where the system can do that."""
    if sys.platform == "linux" and "ASAN_OPTIONS" not in os.environ:  # which needs far more
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def engine_name() -> str:
    """Return the name of the engine, and of its SIMD instructions."""
    if bpetite.engine == "python":
        return "python"
    from bpetite import _native

    return f"native {_native.simd()}"


def encoded(tokenizer: Tokenizer, text: Text) -> Result:
    """Return what all ways to encode a text make of it."""
    calls: dict[str, Callable[[], object]] = {
        "encode": lambda: tokenizer.encode(text),
        "encode_ordinary": lambda: tokenizer.encode_ordinary(text),
        "count": lambda: tokenizer.count(text),
        "decode": lambda: tokenizer.decode(tokenizer.encode(text)),
        "encode_array": lambda: tokenizer.encode_array(text).tolist(),
        "by threads": lambda: tokenizer.encode(text, threads=3),
    }
    return {name: result_of(call) for name, call in calls.items()}


def in_batch(tokenizer: Tokenizer, texts: Sequence[str]) -> Iterator[Result]:
    """Yield the ids of each text from two batches of all, None for one that is no Unicode."""
    good = [is_unicode(text) for text in texts]
    encodable = list(compress(texts, good))
    ids, offsets = tokenizer.encode_batch_arrays(encodable, threads=2)
    flat = [ids[start:end].tolist() for start, end in pairwise(offsets)]
    both = zip(tokenizer.encode_batch(encodable), flat, strict=True)
    return (next(both) if is_good else None for is_good in good)


def is_unicode(text: str) -> bool:
    """Return whether a text has no lone surrogates."""
    return not isinstance(result_of(text.encode), Error)


def encoded_bytes(tokenizer: Tokenizer, data: bytes) -> Result:
    """Return what encoding makes of bytes that may be UTF-8, whatever holds them."""
    holders: list[Callable[[bytes], Text]] = [bytes, bytearray, memoryview]
    return [encoded(tokenizer, holder(data)) for holder in holders]


def decoded(tokenizer: Tokenizer, ids: list[int]) -> Result:
    """Return what all ways to decode ids make of them."""

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
        "batch": lambda: tokenizer.decode_batch([ids, ids[:1]], errors="ignore"),
        "streamed": lambda: streamed(ids),
        "streamed, skipping": lambda: streamed(ids, skip_special_tokens=True, unknown="skip"),
        "streamed in threes": lambda: streamed([ids[at : at + 3] for at in range(0, len(ids), 3)]),
    }
    return {name: result_of(call) for name, call in calls.items()}


@dataclass(frozen=True)
class Corpus:
    """What to train on."""

    documents: list[str]
    vocab_size: int
    pattern: str


def trained(folder: Path, corpus: Corpus) -> Result:
    """Return the merges that are learnt from documents, and from files that have them."""
    paths = [folder / str(number) for number, _ in enumerate(corpus.documents)]
    with suppress(UnicodeEncodeError):
        for path, document in zip(paths, corpus.documents, strict=True):
            path.write_bytes(document.encode())
    size, pattern = corpus.vocab_size, corpus.pattern
    calls: list[Callable[[], Tokenizer]] = [
        lambda: Tokenizer.train(corpus.documents, size, pattern=pattern)
    ]
    if all(path.exists() for path in paths):
        calls.append(lambda: Tokenizer.train_from_files(paths, size, pattern=pattern, threads=3))
    results = [result_of(lambda call=call: call().merges) for call in calls]  # type: ignore[misc]
    for path in paths:
        path.unlink(missing_ok=True)
    return results


@dataclass(frozen=True)
class File:
    """A file of a vocabulary: its name tells the format."""

    name: str
    content: bytes


PROBE = "The hen's 10 men\r\n\t  don't <|a|> naïve 你好 🙂\x00 <|endoftext|>"


def loaded(folder: Path, file: File) -> Result:
    """Return the ids that a file's vocabulary gives, or why it was refused."""
    path = folder / file.name
    path.write_bytes(file.content)
    options: dict[str, Any] = {}
    if file.name.endswith(".tiktoken"):
        options = {"pattern": "cl100k", "special_tokens": {"<|endoftext|>": 5000}}
    tokenizer = result_of(lambda: Tokenizer.load(path, **options))
    if isinstance(tokenizer, Error):
        return Error(tokenizer.kind, tokenizer.message.replace(str(folder), ""))
    return encoded(tokenizer, PROBE), tokenizer.merges
