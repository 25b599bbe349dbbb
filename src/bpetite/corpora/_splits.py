"""Which split a document is in, and its place there: validation, and an order by a seed."""

from __future__ import annotations

import mmap
import zlib
from array import array
from collections.abc import Callable, Iterator
from itertools import groupby
from random import Random
from typing import Any, Literal

from bpetite.corpora._new_files import NewFiles, path_in_errors
from bpetite.corpora._token_files.token_format import Tokens

TRAINING, VALIDATION = "train", "val"
"""The splits, which shard names begin with."""

_SHUFFLED_IDS = 1 << 18  # the ids that shuffling copies before it writes them


class Shuffler:
    """Collects the documents of a part on disk, then passes them on in an order by a seed."""

    def __init__(self, files: NewFiles, seed: str, give: Callable[[Tokens], None]) -> None:
        self._file = files.scratch()
        self._folder = files.folder
        self._seed = seed
        self._give = give
        self._format: Literal["H", "I"] = "I"
        self._starts = array("Q", [0])
        self._rows = array("Q")
        self._sources: list[str] = []

    def write(self, tokens: Tokens) -> None:
        self._format = "H" if tokens.ids.itemsize == 2 else "I"
        with path_in_errors(self._folder):
            self._file.write(tokens.ids)
        start = self._starts[-1]
        self._starts.extend(start + end for end in tokens.offsets[1:])
        self._rows.extend(tokens.rows)
        self._sources += tokens.sources

    def close(self) -> None:
        """Pass all documents on, in their new order."""
        with path_in_errors(self._folder):
            self._file.flush()
        if self._starts[-1]:
            with mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                self._give_all(mapped)
        elif self._rows:
            self._give_all(b"")

    def _give_all(self, data: Any) -> None:
        with memoryview(data) as view, view.cast(self._format) as ids:
            for group in self._groups():
                collected = array(self._format)
                offsets = [0]
                for document in group:
                    with ids[self._starts[document] : self._starts[document + 1]] as its_ids:
                        collected.frombytes(its_ids.cast("B") if len(its_ids) else b"")
                    offsets.append(len(collected))
                rows = [self._rows[document] for document in group]
                sources = [self._sources[document] for document in group]
                self._give(Tokens(memoryview(collected), offsets, rows, sources))

    def _groups(self) -> Iterator[list[int]]:
        """Yield all documents in their new order, in groups of a bounded number of ids."""
        group: list[int] = []
        ids = 0
        for document in shuffled(len(self._rows), self._seed):
            group.append(document)
            ids += self._starts[document + 1] - self._starts[document] + 1
            if ids >= _SHUFFLED_IDS:
                yield group
                group, ids = [], 0
        if group:
            yield group


def shuffled(count: int, seed: str) -> array[int]:
    """Return the numbers below `count` in an order by the seed, the same for every Python.

    >>> sorted(shuffled(3, "a")), shuffled(9, "a") == shuffled(9, "a")
    ([0, 1, 2], True)
    """
    order = array("Q", range(count))
    random = Random(seed).random  # Random.shuffle may change; this sequence may not
    for last in range(count - 1, 0, -1):
        other = int(random() * (last + 1))
        order[last], order[other] = order[other], order[last]
    return order


class Validation:
    """Chooses the documents of the validation split: a fraction, or the first ones.

    A fraction depends on a document's file and row alone, not on how files are divided.
    """

    def __init__(self, amount: float | int) -> None:
        self._fraction = amount if isinstance(amount, float) else None
        self._left = amount if isinstance(amount, int) else 0

    @property
    def missing(self) -> int:
        """How many validation documents are still missing."""
        return max(self._left, 0)

    def divided(self, tokens: Tokens) -> Iterator[tuple[str, Tokens]]:
        """Yield runs of documents with their split, in order."""
        first = 0
        for is_chosen, run in groupby(self._choices(tokens)):
            count = sum(1 for _ in run)
            yield VALIDATION if is_chosen else TRAINING, tokens.part(first, first + count)
            first += count

    def _choices(self, tokens: Tokens) -> Iterator[bool]:
        if self._fraction is None:
            for _ in tokens.rows:
                self._left -= 1
                yield self._left >= 0
            return
        bound = int(self._fraction * (1 << 64))
        for source, rows in groupby(
            zip(tokens.sources, tokens.rows, strict=True), lambda at: at[0]
        ):
            key = zlib.crc32(source.encode("utf-8", "surrogateescape")) << 40
            for _, row in rows:
                yield mixed(key ^ row) < bound


def mixed(number: int) -> int:
    """Return 64 bits that all depend on all bits of a number (the finalizer of SplitMix64)."""
    mask = (1 << 64) - 1
    number = (number + 0x9E3779B97F4A7C15) & mask
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & mask
    number = (number ^ number >> 27) * 0x94D049BB133111EB & mask
    return number ^ number >> 31
