"""Every kind of text argument, and every call that takes one."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from mmap import mmap
from types import MappingProxyType
from typing import Any

import numpy as np

from bpetite import Tokenizer


def mapped(data: bytes) -> mmap | bytes:
    """Return bytes in an mmap, or the bytes if they are empty: no mmap is."""
    if not data:
        return data
    memory = mmap(-1, len(data))
    memory.write(data)
    return memory


BUFFERS: MappingProxyType[str, Callable[[bytes], Any]] = MappingProxyType(
    {
        "bytes": bytes,
        "bytearray": bytearray,
        "memoryview": memoryview,
        "writable memoryview": lambda data: memoryview(bytearray(data)),
        "memoryview of a part": lambda data: memoryview(b"\xff" + data + b"\xff")[1:-1],
        "memoryview of characters": lambda data: memoryview(data).cast("c"),
        "mmap": mapped,
        "array": lambda data: array("B", data),
        "array of signed bytes": lambda data: array("b", data),
        "numpy's array": lambda data: np.frombuffer(data, np.uint8),
    }
)
"""Kinds of buffers: each function makes one from bytes."""


def _batch_arrays(tokenizer: Tokenizer, text: Any, **options: Any) -> list[int]:
    batch: list[Any] = ["a b", text, text]
    ids, offsets = tokenizer.encode_batch(batch, dtype="uint32", **options)
    first, second, third, fourth = offsets
    assert (first, fourth) == (0, len(ids))
    assert ids[second:third] == ids[third:fourth]
    return ids[second:third].tolist()


def _batch(tokenizer: Tokenizer, text: Any, **options: Any) -> list[int]:
    ids: list[int]
    _, ids, again = tokenizer.encode_batch(["a b", text, text], **options)
    assert ids == again
    return ids


FORMS: MappingProxyType[str, Callable[..., list[int]]] = MappingProxyType(
    {
        "encode": Tokenizer.encode,
        "encode to an array": lambda *args, **options: Tokenizer.encode(
            *args, dtype="uint32", **options
        ).tolist(),
        "encode_batch": _batch,
        "encode_batch to arrays": _batch_arrays,
    }
)
"""Every call that takes all options; each returns the ids of a text as a list."""

CALLS: MappingProxyType[str, Callable[[Tokenizer, Any], object]] = MappingProxyType(
    {
        **FORMS,
        "encode_ordinary": Tokenizer.encode_ordinary,
        "encode_with_offsets": Tokenizer.encode_with_offsets,
        "encode_with_offsets to arrays": lambda tokenizer, text: [
            view.tolist() for view in tokenizer.encode_with_offsets(text, dtype="uint32")
        ],
        "truncate": lambda tokenizer, text: tokenizer.truncate(text, 10**9),
        "chunks": lambda tokenizer, text: [*tokenizer.chunks(text, 100)],
        "count": Tokenizer.count,
        "encode by three threads": lambda tokenizer, text: tokenizer.encode(text, threads=3),
        "encode with nothing allowed": lambda tokenizer, text: tokenizer.encode(
            text, allowed_special=()
        ),
        "encode with something disallowed": lambda tokenizer, text: tokenizer.encode(
            text, allowed_special=(), disallowed_special="all"
        ),
        "encode_batch with one allowed": lambda tokenizer, text: tokenizer.encode_batch(
            [text], allowed_special=[*tokenizer.special_tokens][:1]
        ),
        "count with one allowed": lambda tokenizer, text: tokenizer.count(
            text, allowed_special=[*tokenizer.special_tokens][:1]
        ),
    }
)
"""Every call that takes a text, with each argument that changes the code it runs."""
