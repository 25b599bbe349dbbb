"""Corpora that come in batches of UTF-8."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import accumulate

from bpetite._corpus import Batch


def batch_of(documents: list[bytes], begin: int = 0) -> Batch:
    """Return a batch of documents, the first of which begins at a byte of its data."""
    ends = accumulate(map(len, documents), initial=begin)
    data = b"x" * begin + b"".join(documents) + b"x"
    return Batch(memoryview(data), memoryview(array("Q", ends)), range(len(documents)))


def batch_of_texts(texts: list[str]) -> Batch:
    """Return texts as a batch that does not begin at the offset 0."""
    return batch_of([text.encode() for text in texts], begin=1)


class Batched:
    """A corpus in batches of two documents."""

    def __init__(self, documents: list[bytes]) -> None:
        self.documents = documents

    def batches(self) -> Iterator[Batch]:
        for start in range(0, len(self.documents), 2):
            yield batch_of(self.documents[start : start + 2], begin=start)


class Segmented(Batched):
    """A corpus in batches of some bytes, whose documents go on in the next batch."""

    def segments(self) -> Iterator[tuple[Batch, bool]]:
        for document in self.documents:
            size = 3 if len(document) < 300 else len(document) // 3
            for start in range(0, len(document), size):
                yield batch_of([document[start : start + size]]), False
            yield batch_of([b""]), True
