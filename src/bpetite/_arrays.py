"""Ids in buffers, which numpy sees without a copy."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Literal

from bpetite._vocabulary import Vocabulary

Dtype = Literal["uint32", "uint16"]
"""What an id in a buffer is, by numpy's name."""

_TYPECODES = {4: "I", 2: "H"}
_ITEM_SIZES = {"uint32": 4, "uint16": 2}


def item_size_of(dtype: Dtype, vocabulary: Vocabulary) -> int:
    """Return how many bytes an id of a vocabulary takes.

    >>> item_size_of("uint16", Vocabulary((), {"<|a|>": 256}, "..."))
    2

    Raises ValueError for a dtype that is not known, or cannot hold the highest id.
    """
    if not isinstance(dtype, str):
        raise TypeError(f"dtype must be a str, got {type(dtype).__name__}")
    if dtype not in _ITEM_SIZES:
        raise ValueError(f"dtype must be uint32 or uint16, got {dtype!r}")
    if dtype == "uint16" and vocabulary.n_vocab > 1 << 16:
        raise ValueError(
            f"dtype uint16 holds ids up to {(1 << 16) - 1}, but those of this vocabulary run to "
            f"{vocabulary.n_vocab - 1}: use uint32"
        )
    return _ITEM_SIZES[dtype]


def as_array(ids: list[int], item_size: int) -> memoryview:
    """Return ids in a buffer of their own.

    >>> ids = as_array([256, 97], 2)
    >>> ids.format, ids.nbytes, ids.tolist()
    ('H', 4, [256, 97])
    """
    return memoryview(array(_TYPECODES[item_size], ids))


def joined(
    batch: Iterable[list[int] | memoryview],
    item_size: int,
    prefix: Sequence[int] = (),
    suffix: Sequence[int] = (),
) -> tuple[memoryview, memoryview]:
    """Return the ids of a batch in one buffer, and the offset of each part, counted in ids.

    Around each part, prefix and suffix are put. There is an offset more than there are parts: the
    number of all ids.

    >>> ids, offsets = joined([[7, 8], []], 4, prefix=[1])
    >>> ids.tolist(), offsets.tolist()
    ([1, 7, 8, 1], [0, 3, 4])
    """
    ids, offsets = array(_TYPECODES[item_size]), array("Q", [0])
    for part in batch:
        ids.extend(prefix)
        if isinstance(part, memoryview):
            ids.frombytes(part.tobytes())
        else:
            ids.fromlist(part)
        ids.extend(suffix)
        offsets.append(len(ids))
    return memoryview(ids), memoryview(offsets)
