"""Ids in buffers, which numpy reads without a copy."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

_TYPECODES = {8: "Q", 4: "I", 2: "H"}


def as_array(ids: list[int], item_size: int) -> memoryview:
    """Return ids, or offsets, in a new buffer of `item_size` bytes an item.

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
    """Return the ids of a batch in one buffer, and the offset of each part in ids.

    `prefix` and `suffix` go around each part. The last offset is the number of all ids.

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
