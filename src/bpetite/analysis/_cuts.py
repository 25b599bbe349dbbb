"""The cuts that two vocabularies share, and the text between them that both divide differently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise

from bpetite import Tokenizer
from bpetite._corpus import Batches
from bpetite.analysis._figures import Cuts, Difference


class CutCounter:
    """Counts the cuts of the first vocabulary and of another one, and keeps some differences."""

    def __init__(self, first: Tokenizer, other: Tokenizer, limit: int) -> None:
        self._tokenizers = (first, other)
        self._limit = limit
        self._lengths = [
            cache(lambda id, t=each: len(t.token_bytes(id))) for each in (first, other)
        ]
        self.cuts: list[Cuts | None] = []
        """The cuts in each text; None if a vocabulary changes it."""
        self.differences: list[Difference] = []

    def add(self, name: str, corpus: Batches) -> None:
        """Add a text, whose documents are encoded one by one."""
        first_cuts = other_cuts = common = 0
        known = len(self.differences)
        for number, data in enumerate(_documents(corpus)):
            both = [each.encode_ordinary(data.decode("utf-8")) for each in self._tokenizers]
            if not all(
                tokenizer.lossless or tokenizer.decode_bytes(ids) == data
                for tokenizer, ids in zip(self._tokenizers, both, strict=True)
            ):
                del self.differences[known:]
                self.cuts.append(None)
                return
            if not data:
                continue
            ids, other_ids = both
            first_cuts += len(ids) - 1
            other_cuts += len(other_ids) - 1
            common -= 1  # the end of the document is no cut
            for start, stretch, other_stretch in self._stretches(ids, other_ids):
                common += 1
                if len(stretch) + len(other_stretch) > 2 and len(self.differences) < self._limit:
                    found = Difference(name, number, start, (*stretch,), (*other_stretch,))
                    self.differences.append(found)
        self.cuts.append(Cuts(first_cuts, other_cuts, common))

    def _stretches(
        self, ids: Sequence[int], other_ids: Sequence[int]
    ) -> Iterator[tuple[int, Sequence[int], Sequence[int]]]:
        """Yield the text between two shared cuts: its first byte, and its ids on both sides."""
        length, other_length = self._lengths
        start = end = other_end = 0  # in bytes
        begin = other_begin = other_index = 0  # in ids
        for index, id in enumerate(ids, 1):
            end += length(id)
            while other_end < end:
                other_end += other_length(other_ids[other_index])
                other_index += 1
            if other_end == end:
                yield start, ids[begin:index], other_ids[other_begin:other_index]
                start, begin, other_begin = end, index, other_index


def counted_cuts(
    tokenizers: Sequence[Tokenizer], texts: Mapping[str, Batches], limit: int
) -> list[CutCounter]:
    """Return the cuts of the first vocabulary and of each of the others."""
    counters = [CutCounter(tokenizers[0], other, limit) for other in tokenizers[1:]]
    for counter in counters:
        for name, corpus in texts.items():
            counter.add(name, corpus)
    return counters


def _documents(corpus: Batches) -> Iterator[bytes]:
    for batch in corpus.batches():
        for start, end in pairwise(batch.offsets):
            yield bytes(batch.data[start:end])
