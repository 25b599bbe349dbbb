"""The speed of documents of several sizes in one buffer, beside one text of all their bytes."""

from __future__ import annotations

import statistics
from array import array
from collections.abc import Iterator

from benchmarks.measure import Bench, first_bytes, timed
from benchmarks.table import MB, Line, Row, Target, bare_speed

SIZES = {
    100: Target(low=0.75, unit=" × one text"),
    500: Target(low=0.85, unit=" × one text"),
    2_500: Target(low=0.95, unit=" × one text"),
}
"""Bytes of a document, and limits for its speed."""


def document_header() -> Line:
    """Return the column titles."""
    return ("MB/s: vocabulary, text, bytes of a document", "one text", "documents", "ratio")


def document_rows(bench: Bench) -> Iterator[Row]:
    """Compare `encode_offsets` of documents with that of one text, in turns, warm."""
    for subject in bench.subjects("cl100k"):
        encode = subject.tokenizer.encode_offsets
        for name in ("english", "code"):
            data = first_bytes(bench.samples[name], MB).encode()
            one_text = timed(encode, data, array("q", [0, len(data)]))
            for size, target in SIZES.items():
                documents = timed(encode, data, offsets_of(data, size))
                one_text(), documents()
                turns = [(one_text(), documents()) for _ in range(bench.repeats)]
                one, many = (statistics.median(turn[side] for turn in turns) for side in (0, 1))
                ratio = statistics.median(one / many for one, many in turns)
                what = f"{subject.name}, {name}, {size:,}"
                show = bare_speed(len(data))
                cells = (what, show(one), show(many), f"{ratio:.2f}")
                yield Row(cells, [target.check(what, ratio)])


def offsets_of(data: bytes, size: int) -> array[int]:
    """Return the offsets of documents that end at the first space from `size` bytes on.

    >>> offsets_of(b"abc d ef", 2).tolist()
    [0, 3, 5, 8]
    """
    offsets = array("q", [0])
    while offsets[-1] < len(data):
        space = data.find(b" ", offsets[-1] + size)
        offsets.append(len(data) if space < 0 else space)
    return offsets
