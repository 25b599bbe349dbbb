"""PieceCounts: how often each piece occurs in a text. Training needs nothing else of the text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

from bpetite._arguments import TextErrors, check_text_errors, check_threads, replaced
from bpetite._corpus import (
    BatchCorpus,
    Batches,
    Document,
    DocumentCorpus,
    FileCorpus,
    Source,
    TextCorpus,
    corpus_of,
)
from bpetite._engine import ENGINE
from bpetite._piece_counts.file import (
    PieceCountsHeader,
    is_counts_file,
    joined_header,
    new_counts_file,
    opened,
)
from bpetite._piece_counts.runs import (
    MemoryRun,
    OpenRun,
    add_run,
    few_runs,
    in_one_block,
    merge_all,
    merge_runs,
)
from bpetite._piece_records import (
    MAX_COUNT,
    NO_TOTALS,
    RecordBlock,
    Totals,
    read_records,
    shown,
    sum_totals,
    write_records,
)
from bpetite._pretokenizer import pattern_of, portable_pattern, shown_pattern
from bpetite._progress import ProgressCallback, Reporter
from bpetite._unicode.data import VERSION
from bpetite.formats._systems import file_key

_MEMORY_BYTES = 1 << 30

Output = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""The path of a file of piece counts, or the paths of its partitions."""

MAX_PARTITIONS = 1 << 10
"""The most parts that counts are divided into."""

_ITEMS_IN_BLOCK = 1 << 18
"""The items in memory as Python objects, which take ten times as much as sorted bytes."""


class PieceCounts:
    """How often each piece occurs in a text: all that training needs of it.

    Make them with `PieceCounts.from_corpus`, `PieceCounts.from_files` or `PieceCounts.load`. They
    add up: the counts of the parts of a corpus, in any order, give the counts of the whole. So
    several machines can count, and `Tokenizer.train` on the sum gives the vocabulary of all text.

    Piece counts are immutable, and can be pickled. A piece takes some 15 bytes of memory.

    >>> counts = PieceCounts.from_corpus("to be") + PieceCounts.from_corpus("or not to be") * 2
    >>> counts
    <PieceCounts: 5 distinct of 10 pieces, 29 bytes>
    >>> dict(counts.items())
    {' be': 3, ' not': 2, ' to': 2, 'or': 2, 'to': 1}
    """

    __slots__ = ("_header", "_records")

    def __init__(self, header: PieceCountsHeader | None = None, records: bytes = b"", /) -> None:
        """Not for users: call `from_corpus`, `from_files`, `from_items` or `load`."""
        if not isinstance(header, PieceCountsHeader):
            raise TypeError(
                "PieceCounts is not made by a call; use PieceCounts.from_corpus, "
                "PieceCounts.from_files or PieceCounts.load"
            )
        self._header = header
        self._records = records

    # Counting

    @classmethod
    def from_corpus(
        cls,
        corpus: str | Iterable[Document] | Batches,
        *,
        pattern: str = "gpt2",
        errors: TextErrors = "strict",
        progress: ProgressCallback | None = None,
        threads: int | None = None,
    ) -> PieceCounts:
        """Count the pieces of a corpus in memory.

        The arguments are those of `Tokenizer.train`. In the corpus, a special literal is ordinary
        text.

        >>> dict(PieceCounts.from_corpus(["a b", "a"]).items())
        {' b': 1, 'a': 2}

        Raises the errors of `Tokenizer.train`.
        """
        return cls._count(_documents(corpus, errors), pattern, progress, threads)

    @classmethod
    def from_files(
        cls,
        paths: Iterable[Source],
        *,
        pattern: str = "gpt2",
        progress: ProgressCallback | None = None,
        threads: int | None = None,
    ) -> PieceCounts:
        """Count the pieces of files in UTF-8 in memory. Each file is one document.

        >>> import io
        >>> dict(PieceCounts.from_files([io.BytesIO(b"a b a")]).items())
        {' a': 1, ' b': 1, 'a': 1}

        Raises the errors of `Tokenizer.train_from_files`.
        """
        return cls._count(FileCorpus(paths), pattern, progress, threads)

    @classmethod
    def _count(
        cls,
        corpus: DocumentCorpus,
        pattern: str,
        progress: ProgressCallback | None,
        threads: int | None,
    ) -> PieceCounts:
        threads = check_threads(threads)
        header = _new_header(pattern)
        reporter = _reporter(progress, corpus)
        counts = [ENGINE.count_pieces(corpus, header.pattern, reporter, threads)]
        # `pop` gives the only reference away, so that the engine can free the counts early.
        records = ENGINE.records_of(counts.pop())
        reporter.tell(corpus.bytes_read)
        return cls._merged([cls(header, records)], [1], 1)

    @staticmethod
    def count_to_file(
        corpus: str | Iterable[Document] | Batches,
        output: Output,
        *,
        pattern: str = "gpt2",
        errors: TextErrors = "strict",
        min_count: int = 1,
        memory_bytes: int = _MEMORY_BYTES,
        progress: ProgressCallback | None = None,
        threads: int | None = None,
        overwrite: bool = False,
    ) -> PieceCountsHeader:
        """Count the pieces of a corpus of any size, and write them to a file.

        If the counts take more than about `memory_bytes`, they go to disk as sorted runs, in the
        folder of `output`. At the end the runs are merged. The file is that of `from_corpus` and
        `save`. With a `min_count`, it is that of `prune` too.

        `output` may be several paths: the counts are divided among them as `partition` does.

        Returns the header of all counts. Raises the errors of `from_corpus` and `save`.
        """
        threads = check_threads(threads)
        check_factor("min_count", min_count)
        check_factor("memory_bytes", memory_bytes)
        paths = _paths_of(output)
        documents = _documents(corpus, errors)
        header = _new_header(pattern)
        reporter = _reporter(progress, documents)
        with ExitStack() as stack:
            runs: list[OpenRun] = []

            def take_part(counts: Any) -> None:
                write = in_one_block(ENGINE.records_of(counts))
                runs[:] = add_run(runs, write, paths[0], stack)

            spill = (memory_bytes, take_part)
            last = ENGINE.records_of(
                ENGINE.count_pieces(documents, header.pattern, reporter, threads, spill)
            )
            runs.append(partial(MemoryRun, last))
            reporter.tell(documents.bytes_read)
            return _merge_to_files(runs, header, min_count, paths, overwrite)

    @classmethod
    def from_items(cls, items: Iterable[tuple[str, int]], *, pattern: str = "gpt2") -> PieceCounts:
        """Return the counts of pieces that come with their numbers, in any order.

        This is the way back from `items`, for counts that another system has added up. Numbers of
        equal pieces are added. `pattern` must be the one that split the text: bpetite does not
        check that.

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
        if isinstance(weight, bool) or not isinstance(weight, int):
            return NotImplemented
        check_factor("weight", weight)
        return self._merged([self], [weight], 1)

    __rmul__ = __mul__

    def prune(self, min_count: int) -> PieceCounts:
        """Return the counts without pieces that occur less than `min_count` times.

        The result is smaller, but a vocabulary trained on it is not that of the whole text: rare
        pieces decide merges too, even early ones. So prune once, after all counts are added. The
        header says how much was dropped.

        >>> counts = PieceCounts.from_corpus("a b b b c").prune(2)
        >>> dict(counts.items()), counts.header.min_count, counts.header.dropped_pieces
        ({' b': 3}, 2, 2)

        Raises ValueError for a `min_count` below 1.
        """
        check_factor("min_count", min_count)
        return self._merged([self], [1], min_count)

    def partition(self, count: int) -> list[PieceCounts]:
        """Divide the counts into `count` parts, each with the pieces of certain hashes.

        A piece has the same part in all counts, and the parts of a sum are the sums of the parts.
        So several machines can add up and prune, each one part. The header of the first part has
        all `dropped_pieces` of an earlier pruning.

        >>> counts = PieceCounts.from_corpus("to be or not to be")
        >>> parts = counts.partition(2)
        >>> [dict(part.items()) for part in parts], parts[0] + parts[1] == counts
        ([{' not': 1}, {' be': 2, ' or': 1, ' to': 1, 'to': 1}], True)

        Raises ValueError for a count below 1 or above 1,024.
        """
        check_factor("count", count, MAX_PARTITIONS)
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
        blocks = [
            RecordBlock(each._records, 0, True, weight)
            for each, weight in zip(counts, weights, strict=True)
        ]
        merged = ENGINE.merge_records(blocks, min_count, b"", 0)
        return cls(header.with_totals(merged.totals), merged.records)

    # Files

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the counts to a file. Equal counts write equal bytes.

        A failure leaves no half file. Raises FileExistsError if the file exists, unless
        `overwrite`; other OSErrors of the system.
        """
        header = self._header
        with new_counts_file(path, overwrite, header) as file:
            file.write(self._records)
            file.finish(Totals(header.distinct_pieces, header.pieces, header.text_bytes, 0))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PieceCounts:
        """Read counts from a file, and check all of it.

        Raises ValueError, with the position, for a file that is damaged, that another version of
        the format or of Unicode wrote, or that has no piece counts. Raises the OSErrors of the
        system.
        """
        with opened(path) as file:
            blocks: list[bytes] = []
            file.check(merge_runs([file], 1, blocks.append))
            return cls(file.header, b"".join(blocks))

    @staticmethod
    def read_header(path: str | os.PathLike[str]) -> PieceCountsHeader:
        """Return the header of a file of piece counts. The rest of the file is not read.

        Raises the errors of `load`.
        """
        with opened(path) as file:
            return file.header

    @staticmethod
    def is_counts_file(path: str | os.PathLike[str]) -> bool:
        """Return whether a path is a file that begins as files of piece counts do."""
        return is_counts_file(path)

    @staticmethod
    def merge(
        files: Iterable[str | os.PathLike[str]],
        output: Output,
        *,
        weights: Iterable[int] | None = None,
        min_count: int = 1,
        overwrite: bool = False,
    ) -> PieceCountsHeader:
        """Add up files of piece counts of any size and number, and write the sum to a file.

        Memory is bounded: files are read and written in blocks. The result is that of `load`, `*`,
        `+`, `prune` and `save`. `weights` has one weight for each file; without it, all are 1.

        `output` may be several paths: the sum is divided among them as `partition` does.

        Returns the header of the sum. Raises the errors of these methods, and ValueError
        for no file.
        """
        if isinstance(files, (str, bytes, os.PathLike)) or not isinstance(files, Iterable):
            raise TypeError(f"files must be an iterable of paths, got {type(files).__name__}")
        paths = list(files)
        outputs = _paths_of(output)
        factors = [1] * len(paths) if weights is None else list(weights)
        if not paths:
            raise ValueError("no file of piece counts to merge")
        if len(factors) != len(paths):
            raise ValueError(f"{len(paths)} files need as many weights, got {len(factors)}")
        check_factor("min_count", min_count)
        for weight in factors:
            check_factor("weight", weight)
        headers = [PieceCounts.read_header(path) for path in paths]
        for path, header in zip(paths, headers, strict=True):
            if header.pattern != headers[0].pattern:
                raise ValueError(
                    f"{os.fspath(path)}: pieces of the pattern {shown_pattern(header.pattern)}, "
                    f"but the pieces of {os.fspath(paths[0])} are of "
                    f"{shown_pattern(headers[0].pattern)}; count all text with one pattern"
                )
        header = joined_header(headers, factors, 1)
        runs = [partial(opened, path, weight) for path, weight in zip(paths, factors, strict=True)]
        with ExitStack() as stack:
            few = few_runs(runs, outputs[0], stack)
            return _merge_to_files(few, header, min_count, outputs, overwrite)

    # Looking inside

    @property
    def header(self) -> PieceCountsHeader:
        """The pattern, the totals, and whether the counts were pruned."""
        return self._header

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


def check_factor(name: str, value: object, limit: int | None = None) -> None:
    """Raise an error unless a number is an integer from 1 to `limit`, or to 2**64 - 1."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    if limit is not None and value > limit:
        raise ValueError(f"{name} must be at most {limit:,}, got {value}")
    if value > MAX_COUNT:
        raise OverflowError(f"{name} exceeds 64 bits")


def _sums(items: list[tuple[str, int]]) -> dict[str, int]:
    """Return the sum of the numbers of each piece."""
    sums: dict[str, int] = {}
    for piece, count in items:
        if not isinstance(piece, str):
            raise TypeError(f"a piece must be a str, got {type(piece).__name__}")
        if not piece:
            raise ValueError("a piece must not be empty")
        check_factor("a count", count)
        sums[piece] = total = sums.get(piece, 0) + count
        if total > MAX_COUNT:
            raise OverflowError(f"the count of the piece {shown(piece.encode())} exceeds 64 bits")
    return sums


def _documents(
    corpus: str | Iterable[Document] | Batches, errors: TextErrors
) -> TextCorpus | BatchCorpus:
    return corpus_of(corpus, replaced if check_text_errors(errors) else None)


def _new_header(pattern: str) -> PieceCountsHeader:
    """Return the header of counts by a pattern, without totals."""
    return PieceCountsHeader(portable_pattern(pattern_of(pattern)), VERSION, 1, 0, 0, 0, 0)


def _reporter(progress: ProgressCallback | None, corpus: DocumentCorpus) -> Reporter:
    return Reporter(progress, "counting", None if progress is None else corpus.total_bytes())


def _paths_of(output: Output) -> list[str | os.PathLike[str]]:
    """Return the files to write. Raises ValueError for none, and for one that is named twice."""
    paths = [output] if isinstance(output, (str, os.PathLike)) else list(output)
    if not paths:
        raise ValueError("no output; name at least one file")
    if len({*map(file_key, paths)}) < len(paths):
        raise ValueError("an output is named twice; name a file for each partition")
    return paths


def _merge_to_files(
    runs: Sequence[OpenRun],
    header: PieceCountsHeader,
    min_count: int,
    paths: Sequence[str | os.PathLike[str]],
    overwrite: bool,
) -> PieceCountsHeader:
    """Write the sum of runs, divided among files; return the header of the sum."""
    header = replace(header, min_count=max(header.min_count, min_count))
    with ExitStack() as stack:
        # The first file alone has all dropped pieces, so that the files add up.
        headers = [header, *[replace(header, dropped_pieces=0)] * (len(paths) - 1)]
        files = [
            stack.enter_context(new_counts_file(path, overwrite, each))
            for path, each in zip(paths, headers, strict=True)
        ]
        sums = [NO_TOTALS] * len(files)

        def write(records: bytes) -> None:
            parts = ENGINE.partition_records(records, len(files))
            for number, (file, (part, totals)) in enumerate(zip(files, parts, strict=True)):
                file.write(part)
                sums[number] = sum_totals(sums[number], totals)

        totals = merge_all(runs, min_count, files[0].write if len(files) == 1 else write)
        if len(files) == 1:
            return files[0].finish(totals)
        sums[0] = sums[0]._replace(dropped_pieces=totals.dropped_pieces)
        for file, each in zip(files, sums, strict=True):
            file.finish(each)
        return header.with_totals(totals)
