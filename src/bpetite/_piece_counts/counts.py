"""PieceCounts: how often each piece occurs in a text, which is all that training needs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from bpetite._arguments import (
    TextErrors,
    check_at_least,
    check_text_errors,
    check_threads,
    replaced,
)
from bpetite._corpus import Batches, Document, File, corpus_of
from bpetite._engine.chosen import ENGINE
from bpetite._piece_counts.file import Header, joined_header, opened, write_counts
from bpetite._piece_counts.shares import Share, share_weights
from bpetite._piece_records import MAX_COUNT, RecordError, read_records, shown, write_records
from bpetite._pretokenizer import pattern_of, portable_pattern
from bpetite._progress import ProgressCallback, Reporter
from bpetite._unicode.data import VERSION

MAX_PARTITIONS = 1 << 10
"""The most parts that counts are divided into."""

_ITEMS_IN_BLOCK = 1 << 18
"""The items in memory as Python objects, which take ten times as much as sorted bytes."""


class PieceCounts:
    """How often each piece occurs in a text: all that training needs of it.

    `PieceCounts.from_corpus` and `PieceCounts.load` make them. They add up: the counts of the parts
    of a corpus, in any order, give the counts of the whole. So several machines can count, and
    `Tokenizer.train` on the sum gives the vocabulary of all text.

    Piece counts are immutable, and can be pickled. A piece takes some 15 bytes of memory.

    >>> counts = PieceCounts.from_corpus("to be") + PieceCounts.from_corpus("or not to be") * 2
    >>> counts
    <PieceCounts: 5 distinct of 10 pieces, 29 bytes>
    >>> dict(counts.items())
    {' be': 3, ' not': 2, ' to': 2, 'or': 2, 'to': 1}
    """

    __slots__ = (
        *("_header", "_records"),
        *("dropped_pieces", "min_count", "pattern", "pieces", "text_bytes"),
    )

    def __init__(self, header: Header | None = None, records: bytes = b"", /) -> None:
        """Not for users: call `from_corpus`, `from_items` or `load`."""
        if not isinstance(header, Header):
            raise TypeError(
                "PieceCounts is not made by a call; use PieceCounts.from_corpus or PieceCounts.load"
            )
        self._header = header
        self._records = records
        self.pattern: str = header.pattern
        """The pattern that split the text: a regular expression."""
        self.pieces: int = header.pieces
        """The number of pieces, each occurrence counted. `len` gives the distinct ones."""
        self.text_bytes: int = header.text_bytes
        """The number of bytes of these pieces in UTF-8."""
        self.min_count: int = header.min_count
        """The highest `min_count` by which these counts, or parts of them, were pruned, else 1."""
        self.dropped_pieces: int = header.dropped_pieces
        """The number of pieces that pruning has dropped, each occurrence counted."""

    # Counting

    @classmethod
    def from_corpus(
        cls,
        corpus: str | File | Iterable[Document] | Batches,
        *,
        pattern: str = "gpt2",
        errors: TextErrors = "strict",
        progress: ProgressCallback | None = None,
        threads: int | None = None,
    ) -> PieceCounts:
        """Count the pieces of a corpus.

        The arguments are as in `Tokenizer.train`. In the corpus, a special literal is ordinary
        text.

        >>> dict(PieceCounts.from_corpus(["a b", "a"]).items())
        {' b': 1, 'a': 2}

        Raises the errors of `Tokenizer.train`.
        """
        documents = corpus_of(corpus, replaced if check_text_errors(errors) else None)
        threads = check_threads(threads)
        header = _new_header(pattern)
        total = None if progress is None else documents.total_bytes()
        reporter = Reporter(progress, "counting", total)
        counts = [ENGINE.count_pieces(documents, header.pattern, reporter, threads)]
        # `pop` passes on the only reference, so that the engine can free the counts early.
        records = ENGINE.records_of(counts.pop())
        reporter.tell(documents.bytes_read)
        return cls._merged([cls(header, records)], [1], 1)

    @classmethod
    def from_items(cls, items: Iterable[tuple[str, int]], *, pattern: str = "gpt2") -> PieceCounts:
        """Return the counts of pieces that come with their numbers, in any order.

        It is the inverse of `items`, for counts that another system has added up. Numbers of equal
        pieces are added. `pattern` must be the pattern that split the text, which is not checked.

        >>> counts = PieceCounts.from_corpus("to be or not to be")
        >>> PieceCounts.from_items(reversed([*counts.items()])) == counts
        True

        Raises TypeError unless each item has a piece and an integer, ValueError for an empty piece
        or a number below 1, UnicodeEncodeError for a lone surrogate, and OverflowError for a count
        above 64 bits.
        """
        header = _new_header(pattern)
        items = iter(items)
        counts = [cls(header, b"")]
        while block := _sums([*islice(items, _ITEMS_IN_BLOCK)]):
            counts.append(cls(header, write_records(block)))
        return cls._merged(counts, [1] * len(counts), 1)

    # Arithmetic

    def __add__(self, other: PieceCounts) -> PieceCounts:
        """Return the counts of both texts.

        Raises ValueError for counts of another pattern, OverflowError for a count above 64 bits.
        """
        if not isinstance(other, PieceCounts):
            return NotImplemented
        return self._merged([self, other], [1, 1], 1)

    def __mul__(self, weight: int) -> PieceCounts:
        """Return the counts of the text, taken `weight` times: at least once.

        Raises ValueError for a weight below 1, OverflowError for a count above 64 bits.
        """
        try:
            number = check_factor("weight", weight)
        except TypeError:
            return NotImplemented
        return self._merged([self], [number], 1)

    __rmul__ = __mul__

    @classmethod
    def mixture(cls, counts: Sequence[PieceCounts], shares: Sequence[Share | None]) -> PieceCounts:
        """Return the sum of counts, weighted so that each has a share of the bytes of text.

        A share is a number above 0 and below 1, or its digits: 0.3 is three tenths, and "1/3" is a
        third. Texts with the share None divide the rest by their sizes. The weights are whole
        numbers. They are exact if the smallest can be at most 65,536; otherwise it is 65,536, and
        the others are rounded: a share of 0.3 is between 0.299997 and 0.300003.

        >>> english, code = map(PieceCounts.from_corpus, ("to be or not to be", "x = 1"))
        >>> PieceCounts.mixture([english, code], [0.7, 0.3]) == english * 35 + code * 54
        True

        Raises ValueError for shares that do not add up to 1, or leave nothing for the others, for
        counts of an empty text or another pattern, and for lists of different lengths; and
        OverflowError for a count above 64 bits.
        """
        weights = share_weights([each.text_bytes for each in counts], shares)
        return cls._merged(counts, weights, 1)

    def prune(self, min_count: int) -> PieceCounts:
        """Return the counts without pieces that occur less than `min_count` times.

        The result is smaller, but training on it gives another vocabulary than the whole text: rare
        pieces decide merges too, even early ones. So prune once, after all counts are added. The
        header says how much was dropped.

        >>> counts = PieceCounts.from_corpus("a b b b c").prune(2)
        >>> dict(counts.items()), counts.min_count, counts.dropped_pieces
        ({' b': 3}, 2, 2)

        Raises ValueError for a `min_count` below 1.
        """
        min_count = check_factor("min_count", min_count)
        return self._merged([self], [1], min_count)

    def partition(self, count: int) -> list[PieceCounts]:
        """Divide the counts into `count` parts, each with the pieces of certain hashes.

        A piece is in the same part of all counts, and the parts of a sum are the sums of the parts.
        So several machines can add up and prune one part each. The header of the first part has all
        `dropped_pieces` of an earlier pruning.

        >>> counts = PieceCounts.from_corpus("to be or not to be")
        >>> parts = counts.partition(2)
        >>> [dict(part.items()) for part in parts], parts[0] + parts[1] == counts
        ([{' not': 1}, {' be': 2, ' or': 1, ' to': 1, 'to': 1}], True)

        Raises ValueError for a count below 1 or above 1,024.
        """
        count = check_factor("count", count, MAX_PARTITIONS)
        rest = replace(self._header, dropped_pieces=0)
        return [
            type(self)((self._header if number == 0 else rest).with_totals(totals), records)
            for number, (records, totals) in enumerate(
                ENGINE.partition_records(self._records, count)
            )
        ]

    @classmethod
    def _merged(
        cls, counts: Sequence[PieceCounts], weights: Sequence[int], min_count: int
    ) -> PieceCounts:
        header = joined_header([each._header for each in counts], weights, min_count)
        runs = [(each._records, weight) for each, weight in zip(counts, weights, strict=True)]
        records, totals = ENGINE.merge_records(runs, min_count)
        return cls(header.with_totals(totals), records)

    # Files

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the counts to a file. Equal counts write equal bytes.

        A failure leaves no half file. Raises FileExistsError if the file exists, unless
        `overwrite`; other OSErrors of the system.
        """
        write_counts(path, overwrite, self._header, self._records)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PieceCounts:
        """Read counts from a file, and check all of it.

        Raises ValueError for a file that is damaged, that another version of the format or of
        Unicode wrote, or that has no piece counts. Raises the OSErrors of the system.
        """
        with opened(path) as file:
            records = file.records()
            try:
                _, totals = ENGINE.merge_records([(records, 1)], 1)
            except RecordError as error:
                raise ValueError(
                    f"{file.name}: {error} at byte {file.start + error.offset}; the file is damaged"
                ) from None
            file.check(totals)
            return cls(file.header, records)

    @staticmethod
    def read_header(path: str | os.PathLike[str]) -> Header:
        """Return the header of a file of piece counts. The rest of the file is not read.

        It has the fields of the counts, and `distinct_pieces` and `unicode_version`. Raises the
        errors of `load`.
        """
        with opened(path) as file:
            return file.header

    # Looking inside

    def checked_pattern(self, pattern: str | None) -> str:
        """Return the pattern of the pieces. Raises ValueError if `pattern` is another one."""
        return self._header.checked_pattern(pattern)

    def items(self) -> Iterator[tuple[str, int]]:
        """Yield each piece and its count, in the order of the pieces' bytes."""
        return read_records(self._records)

    def __len__(self) -> int:
        """Return the number of distinct pieces."""
        return self._header.distinct_pieces

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PieceCounts):
            return NotImplemented
        return self._header == other._header and self._records == other._records

    def __hash__(self) -> int:
        return hash((self._header, self._records))

    def __repr__(self) -> str:
        header = self._header
        pruned = "" if header.min_count == 1 else f", pruned below {header.min_count}"
        return (
            f"<PieceCounts: {header.distinct_pieces} distinct of {header.pieces} pieces, "
            f"{header.text_bytes} bytes{pruned}>"
        )


def check_factor(name: str, value: object, limit: int | None = None) -> int:
    """Return an integer from 1 to `limit`, or to 2**64 - 1; raise an error for another value."""
    number = check_at_least(1, value, name)
    if limit is not None and number > limit:
        raise ValueError(f"{name} must be at most {limit:,}, got {number}")
    if number > MAX_COUNT:
        raise OverflowError(f"{name} exceeds 64 bits")
    return number


def _sums(items: list[tuple[str, int]]) -> dict[str, int]:
    """Return the sum of the numbers of each piece."""
    sums: dict[str, int] = {}
    for piece, count in items:
        if not isinstance(piece, str):
            raise TypeError(f"a piece must be a str, got {type(piece).__name__}")
        if not piece:
            raise ValueError("a piece must not be empty")
        number = check_factor("a count", count)
        sums[piece] = total = sums.get(piece, 0) + number
        if total > MAX_COUNT:
            raise OverflowError(f"the count of the piece {shown(piece.encode())} exceeds 64 bits")
    return sums


def _new_header(pattern: str) -> Header:
    """Return the header of counts by a pattern, without totals."""
    return Header(portable_pattern(pattern_of(pattern)), VERSION, 1, 0, 0, 0, 0)
