"""Which spans of files each part of a plan has: large files are divided, small ones joined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import index
from typing import Any

from bpetite.corpora import _inputs as inputs
from bpetite.corpora import _storage as storage
from bpetite.corpora._inputs import LINE_FORMATS, Format, Settings, Span
from bpetite.corpora._inputs.compression import Compression
from bpetite.corpora._report import BadDocumentError, DataError, bad_file, shown


@dataclass(frozen=True)
class CorpusFile:
    """A file of a corpus. Pipes and standard input are known when they are read."""

    path: str
    format: Format | None
    compression: Compression | None
    size: int | None
    """The size in bytes as stored; None for a pipe."""
    _settings: Settings = field(default_factory=Settings, repr=False)

    @property
    def skips_bad(self) -> bool:
        """Whether a file that cannot be read is counted and not an error."""
        return self._settings.skips_bad

    def rows_before(self, starts: Sequence[int]) -> list[int]:
        """Return the row that each span of this file begins with, if its reader counts from 0."""
        return inputs.rows_before(self.path, self.format, self._settings, starts)

    def spans(self, part_bytes: int) -> tuple[Span, ...]:
        """Return the file as spans of about `part_bytes`, in order, for `Corpus.part`.

        A file of JSON Lines, or of one document a line, is divided by bytes, Parquet by row groups,
        an Arrow file by record batches. Compressed files and other formats are one span.

        Raises ValueError for a Parquet or Arrow file that cannot be read.
        """
        part_bytes = positive(part_bytes, "part_bytes")
        if self.size is None or self.format is None or self.compression is not None:
            return (Span(self.path),)
        try:
            return tuple(inputs.spans(self.path, self.format, self._settings, part_bytes))
        except DataError as error:
            raise BadDocumentError(bad_file(self.path, error)) from None


def parts_of(
    files: Iterable[CorpusFile], spans: Iterable[Span], part_bytes: int, counts_rows: bool = False
) -> list[list[dict[str, Any]]]:
    """Return the spans of each part in order, each as an entry of the plan.

    `spans` are spans of the files; a span of a whole file may be divided.

    A part ends when its spans have `part_bytes`. With `counts_rows`, the rows of divided files
    are counted, so that rows are those of the whole file.

    Raises ValueError for standard input and pipes, which cannot be read twice.
    """
    parts: list[list[dict[str, Any]]] = []
    room = 0
    for entry in _entries(files, spans, part_bytes, counts_rows):
        if not parts or entry["bytes"] > room:
            parts.append([])
            room = part_bytes
        parts[-1].append(entry)
        room -= entry["bytes"]
    return parts


def _entries(
    files: Iterable[CorpusFile], spans: Iterable[Span], part_bytes: int, counts_rows: bool
) -> Iterator[dict[str, Any]]:
    """Yield the spans of all files. A file that the corpus has twice gives its spans twice."""
    file_of = {file.path: file for file in files}
    found: dict[Span, list[dict[str, Any]]] = {}
    for span in spans:
        if span not in found:
            file = file_of[span.path]
            divided = _divided(file, part_bytes) if span == Span(span.path) else (span,)
            found[span] = _entries_of(file, divided, counts_rows)
        yield from map(dict, found[span])


def _divided(file: CorpusFile, part_bytes: int) -> tuple[Span, ...]:
    """Return the spans of a file. One that cannot be read is left to the reader, who skips it."""
    try:
        return file.spans(part_bytes)
    except BadDocumentError:
        if not file.skips_bad:
            raise
        return (Span(file.path),)


def _entries_of(
    file: CorpusFile, spans: tuple[Span, ...], counts_rows: bool
) -> list[dict[str, Any]]:
    """Return entries of spans of a file, each with the size of the file and of the span."""
    if file.size is None:
        raise ValueError(
            f"{shown(file.path)}: a run that goes on after a "
            "kill must read its input again, so it needs files"
        )
    starts = [span.start for span in spans]
    rows = [0] * len(spans)
    if counts_rows and any(starts):
        rows = file.rows_before(starts)
    sample = storage.sample_of(file.path, file.size)
    by_bytes = file.format in LINE_FORMATS and file.compression is None
    return [
        {
            "path": file.path,
            "size": file.size,
            "sample": sample,
            "start": span.start,
            "end": span.end,
            "bytes": span.end - span.start
            if by_bytes and span.end is not None
            else file.size // len(spans),
            "first_row": row,
        }
        for span, row in zip(spans, rows, strict=True)
    ]


def span_of(entry: dict[str, Any]) -> Span:
    """Return the span of an entry of the plan."""
    return Span(entry["path"], entry["start"], entry["end"])


def positive(size: int, name: str) -> int:
    """Return a number of bytes as an int of Python, which no arithmetic overflows."""
    if size < 1:
        raise ValueError(f"{name} must be at least 1, got {size}")
    return index(size)
