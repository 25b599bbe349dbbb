"""Counts of ids, characters and words, natively if possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TYPE_CHECKING

from bpetite._engine.chosen import NATIVE

if TYPE_CHECKING:
    from bpetite._engine.contract import Block


def count_ids_in_python(buffers: Iterable[memoryview]) -> dict[int, int]:
    r"""Return how often each id occurs in buffers of 32 bits an id, in ascending order of ids.

    >>> count_ids_in_python([memoryview(b"\0\0\0\0").cast("I")])
    {0: 1}
    """
    counts: Counter[int] = Counter()
    for ids in buffers:
        counts.update(ids)
    return dict(sorted(counts.items()))


count_ids: Callable[[Iterable[memoryview]], dict[int, int]] = (
    count_ids_in_python if NATIVE is None else NATIVE.count_ids
)

SPACES = b"\t\n\v\f\r "
"""The bytes between words."""

_SPACES_AND_OTHERS = bytes(ord(" ") if byte in SPACES else ord("x") for byte in range(256))
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))


def characters_and_words(data: Block, offsets: memoryview) -> tuple[int, int]:
    """Return how many characters and words the documents `data[offsets[i] : offsets[i + 1]]` have.

    The offsets have the format "Q". They ascend and are in the data. A word is a run of other bytes
    than ASCII white space, in one document. A character begins with each byte that does not
    continue one.
    """
    first = offsets[0]
    text = bytes(memoryview(data)[first : offsets[-1]])
    marks = text.translate(_SPACES_AND_OTHERS)
    words = marks.count(b" x")
    for start, end in pairwise(offsets):
        # Words are counted by the spaces before them.
        begin = max(start - first - 1, 0)
        words += start < end and b" " not in marks[begin : start - first + 1]
    return len(text.translate(None, _CONTINUATION_BYTES)), words
