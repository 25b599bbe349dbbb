"""Corpus: files in, documents out, in batches and in bounded memory."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from operator import eq
from typing import IO, Any, Literal

from bpetite._arguments import check_at_least
from bpetite._corpus import Batch
from bpetite.corpora import _reading as reading
from bpetite.corpora import _storage as storage
from bpetite.corpora._found import BadDocument, BadDocumentError, DataError, bad_file, shown
from bpetite.corpora._inputs import FORMATS, LINE_FORMATS
from bpetite.corpora._inputs.compression import Compression
from bpetite.corpora._inputs.settings import Format, ReadSettings, Span
from bpetite.corpora._inputs.source import BLOCK_BYTES, STANDARD_INPUT
from bpetite.corpora._reading import ReadItem
from bpetite.formats._systems import file_key

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


BadLog = str | os.PathLike[str] | IO[str] | None
"""Where bad documents are named: a path, or an open text file."""

MAX_NAMED_BAD = 100
"""The number of bad documents that a report names."""


class Corpus:
    r"""Documents of files, read in order and in bounded memory, as often as asked for.

    `paths` is a path or several: files, folders (all their files, sorted), globs, and "-" for
    standard input. Files may be compressed by gzip or Zstandard. These formats are known:

    - text: a file is a document, or `separator` ends each document; lines: a line is a document
    - jsonl: the field `text_field` of each line; json: lines, or the objects of arrays
    - parquet, arrow (files and streams): the column `text_field`

    Memory is bounded by the size of a batch; one document must fit.

    The format is `format`, or else what the name says, or else what the content says. Bytes stay as
    they are: nothing is stripped, and line ends are not changed.

    A document that cannot be read raises `BadDocumentError` with file, line or row, and byte. With
    `on_bad="skip"`, it is counted in `report`, and a line of JSON in `bad_log` names it. That is a
    new file, or an open text file, which several corpora may share.
    The rest of a file that is cut or corrupt counts as one bad document. A null is a bad document,
    as is a line without the field. An empty text is a document.

    A path may be a URL that fsspec knows, such as s3://bucket/folder.

    Parquet, Arrow, Zstandard and URLs need packages:
    `pip install pyarrow isal zstandard universal-pathlib`.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "part.jsonl").write_text('{"text": "ab"}\n{"id": 1}\n{"text": "c"}\n')
    >>> corpus = Corpus(folder, on_bad="skip")
    >>> list(corpus), corpus.report.bad
    (['ab', 'c'], 1)

    Raises OSError for a path without a file, ValueError and TypeError for a wrong argument.
    """

    def __init__(
        self,
        paths: Paths,
        *,
        format: Format | None = None,
        text_field: str = "text",
        separator: str | None = None,
        on_bad: Literal["raise", "skip"] = "raise",
        bad_log: BadLog = None,
    ) -> None:
        self._settings = _checked(format, text_field, separator, on_bad)
        if bad_log is not None and on_bad != "skip":
            raise ValueError('bad_log needs on_bad="skip"')
        self.spans: list[Span] = [Span(path) for path in listed(paths, format is not None)]
        """The files, or the spans of files that make up a part."""
        self._bad_log = _checked_log(bad_log, self.spans)
        self.report: CorpusReport = CorpusReport()
        """Counts of the last iteration, up to its last batch."""

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that decide how files are read."""
        format, text_field, separator, skips_bad, *_ = self._settings
        if format == "lines":
            separator = None  # the format implies it
        return {
            "format": format,
            "text_field": text_field,
            "separator": None if separator is None else separator.decode(),
            "on_bad": "skip" if skips_bad else "raise",
        }

    @cached_property
    def files(self) -> tuple[CorpusFile, ...]:
        """The files in order."""
        return tuple(map(self._file, dict.fromkeys(span.path for span in self.spans)))

    def part(self, spans: Iterable[Span], *, bad_log: BadLog = None) -> Corpus:
        """Return the corpus of some spans of files (`CorpusFile.spans`), with these settings.

        It can be pickled, unless `bad_log` is an open file. Rows of lines and of record batches
        count from the beginning of a span.
        """
        corpus = Corpus.__new__(Corpus)
        corpus._settings = self._settings
        corpus.spans = [Span(*span) for span in spans]
        corpus._bad_log = _checked_log(bad_log, corpus.spans)
        corpus.report = CorpusReport()
        return corpus

    def parts(self, part_bytes: int) -> list[Corpus]:
        r"""Return corpora of about `part_bytes` of input each, for a scheduler.

        Large files are divided as by `CorpusFile.spans`, small ones are put together. Counts of
        pieces add up over parts.

        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "a.jsonl")
        >>> _ = path.write_text('{"text": "a"}\n' * 5)
        >>> [list(part) for part in Corpus(path).parts(30)]
        [['a', 'a'], ['a', 'a'], ['a']]

        Raises ValueError for standard input and pipes, which cannot be read twice.
        """
        parts = parts_of(self, positive(part_bytes, "part_bytes"))
        return [self.part(Span(each.path, each.start, each.end) for each in part) for part in parts]

    def total_bytes(self) -> int | None:
        """Return the size of all documents in UTF-8; None if only reading tells."""
        sizes = [
            file.size
            for file in self.files
            if file.format == "text" and file.compression is None and file.size is not None
        ]
        is_known = len(sizes) == len(self.spans) and self._settings.separator is None
        return sum(sizes) if is_known else None

    def __iter__(self) -> Iterator[str]:
        """Yield each document."""
        for data, offsets, _ in self.batches():
            for start, end in pairwise(offsets):
                yield str(data[start:end], "utf-8")

    def batches(self, *, batch_bytes: int = BLOCK_BYTES) -> Iterator[Batch]:
        """Yield the documents in batches that are read from about `batch_bytes` of a file.

        No batch spans two files. A thread reads the next batches while the caller works on one.
        """
        settings = self._settings._replace(batch_bytes=positive(batch_bytes, "batch_bytes"))
        return (batch for item in self._read(settings) if (batch := item.found.batch) is not None)

    def segments(self, *, batch_bytes: int = BLOCK_BYTES) -> Iterator[tuple[Batch, bool]]:
        """Yield the documents in batches, each with whether its last document ends there.

        A text file that is one document comes in several batches, each of whole characters. So it
        may be larger than memory.
        """
        settings = self._settings._replace(
            batch_bytes=positive(batch_bytes, "batch_bytes"), has_segments=True
        )
        return (
            (batch, item.found.is_complete)
            for item in self._read(settings)
            if (batch := item.found.batch) is not None
        )

    def items(self) -> Iterator[ReadItem]:
        """Yield batches with the numbers of their spans, and how far the corpus is read."""
        return self._read(self._settings)

    def _read(self, settings: ReadSettings) -> Iterator[ReadItem]:
        self.report = report = CorpusReport()
        log = _Log(self._bad_log)
        # A thread that waits for a pipe could not be stopped.
        can_stop = all(storage.is_file(span.path) for span in self.spans)
        found = partial(reading.read, self.spans, self._formats, settings)
        items = reading.read_ahead(found) if can_stop else found()
        try:
            for item in items:
                if item.found.bad:
                    item = _without_secrets(item)
                batch, is_complete, bad = item.found
                report.stored_bytes = item.bytes_read
                for document in bad:
                    if not settings.skips_bad:
                        raise BadDocumentError(document)
                    log.write(document)
                    report.count_bad(document)
                if batch is not None:
                    report.count(batch, is_complete)
                yield item
        finally:
            items.close()
            log.close()

    @cached_property
    def _formats(self) -> dict[str, Format | None]:
        return {file.path: file.format for file in self.files}

    def _file(self, path: str) -> CorpusFile:
        format = self._settings.format or reading.format_by_name(storage.public(path))
        if not storage.is_file(path):
            if path != STANDARD_INPUT:
                os.stat(path)  # a missing file is an error here, which names the path
            return CorpusFile(path, format, None, None, self._settings)
        known = reading.looked_into(path, format)
        return CorpusFile(path, *known, storage.size_of(path), self._settings)


@dataclass
class CorpusReport:
    """Counts of one iteration over a corpus, up to the last batch."""

    documents: int = 0
    empty: int = 0
    """Documents without text, which count as documents too."""
    bad: int = 0
    """Documents, or rests of files, that could not be read and were skipped."""
    text_bytes: int = 0
    """The size of all documents in UTF-8."""
    stored_bytes: int = 0
    """The bytes of the files that were read, as they are stored: compressed ones are fewer."""
    first_bad: list[BadDocument] = field(default_factory=list)
    """The first bad documents, at most 100."""
    _open_bytes: int | None = None  # of a document that goes on in the next batch

    def count(self, batch: Batch, is_complete: bool) -> None:
        """Count the documents that end in a batch."""
        offsets = batch.offsets
        ended = len(offsets) - 2 + is_complete
        self.documents += ended
        self.text_bytes += offsets[-1] - offsets[0]
        self.empty += sum(map(eq, offsets, offsets[1 : ended + 1]))
        if self._open_bytes and ended and offsets[0] == offsets[1]:
            self.empty -= 1
        if is_complete:
            self._open_bytes = None
        else:
            before = self._open_bytes if self._open_bytes and not ended else 0
            self._open_bytes = before + offsets[-1] - offsets[-2]

    def count_bad(self, document: BadDocument) -> None:
        """Count a bad document, and keep it if it is one of the first."""
        self.bad += 1
        if len(self.first_bad) < MAX_NAMED_BAD:
            self.first_bad.append(document)


@dataclass(frozen=True)
class CorpusFile:
    """A file of a corpus. Pipes and standard input are known when they are read."""

    path: str
    format: Format | None
    compression: Compression | None
    size: int | None
    """The size in bytes as stored; None for a pipe."""
    _settings: ReadSettings = field(default_factory=ReadSettings, repr=False)

    def __repr__(self) -> str:  # without secrets
        return (
            f"CorpusFile(path={storage.public(self.path)!r}, format={self.format!r}, "
            f"compression={self.compression!r}, size={self.size})"
        )

    @property
    def skips_bad(self) -> bool:
        """Whether a file that cannot be read is counted instead of raising an error."""
        return self._settings.skips_bad

    def rows_before(self, starts: Sequence[int]) -> list[int]:
        """Return the row that each span of this file begins with, if its reader counts from 0."""
        return reading.rows_before(self.path, self.format, self._settings, starts)

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
            return tuple(
                reading.spans(self.path, self.size, self.format, self._settings, part_bytes)
            )
        except DataError as error:
            raise BadDocumentError(bad_file(self.path, error)) from None


@dataclass(frozen=True)
class PartSource:
    """A span of a file that belongs to a part, and facts to recognize the file by."""

    path: str
    size: int
    sample: str | None
    start: int
    end: int | None
    bytes: int
    """The approximate size of the span."""
    first_row: int

    @property
    def public(self) -> PartSource:
        """The source as a plan has it: without secrets of its URL."""
        return replace(self, path=storage.public(self.path))

    def check(self) -> None:
        """Raise ValueError if the file has another size, or other bytes, than the plan says.

        Of its bytes, samples are compared: to compare all takes as long as a part. An edit between
        them that keeps the size is found by `verify` with `deep` alone.
        """
        if (present := storage.size_of(self.path)) != self.size:
            raise ValueError(
                f"{storage.public(self.path)}: {present} bytes, but the plan has {self.size}; "
                "restore the file, or write another folder"
            )
        if storage.sample_of(self.path, self.size) != self.sample:
            raise ValueError(
                f"{storage.public(self.path)}: other bytes than the plan's; restore the file, or "
                "write another folder"
            )


# Files


def listed(paths: Paths, has_format: bool) -> list[str]:
    """Return the files that paths, folders and globs name.

    The order is as in `paths`. The files of a folder or a glob are sorted. `has_format` says that
    the user has named the format. Raises OSError for a path or a glob without a file.
    """
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    if isinstance(paths, (bytes, bytearray)) or not isinstance(paths, Iterable):
        raise TypeError(f"paths must be a path or several, got {type(paths).__name__}")
    found: list[str] = []
    for path in paths:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"a path must be a str or a path, got {type(path).__name__}")
        name = os.fspath(path)
        if not isinstance(name, str):
            raise TypeError(f"a path must be a str or a path, got {type(name).__name__}")
        found += _named(name, has_format)
    return found


def _named(path: str, has_format: bool) -> list[str]:
    if path == STANDARD_INPUT:
        return [path]
    matches = storage.matching(path)
    files: list[str] = []
    for match in matches:
        if not storage.is_folder(match):
            files.append(match)
        elif "**" not in path or match == path:  # otherwise the files of the folder match too
            files += _in_folder(match, has_format)
    if not files:
        raise FileNotFoundError(errno.ENOENT, "no file matches", storage.public(path))
    return files


def _in_folder(folder: str, has_format: bool) -> list[str]:
    """Return the files of a folder and its folders, sorted, without hidden ones."""
    files = storage.files_below(folder)
    if not files:
        raise FileNotFoundError(errno.ENOENT, "the folder has no files", storage.public(folder))
    formats = {path: reading.format_by_name(storage.public(path)) for path in files}
    structured = {*formats.values()} - {None, "text"}
    unknown = next((path for path, format in formats.items() if format is None), None)
    if structured and unknown and not has_format:
        kinds = "/".join(sorted(map(str, structured)))
        raise ValueError(
            f"{storage.public(unknown)}: the folder {storage.public(folder)} has {kinds} files, "
            f"but the name of this one does not tell its format; name the files, or use a glob"
        )
    return files


def parts_of(
    corpus: Corpus, part_bytes: int, *, counts_rows: bool = False
) -> list[list[PartSource]]:
    """Return the sources of each part in order: a part ends when its sources have `part_bytes`.

    A span of a whole file may be divided. A file that the corpus has twice gives its sources twice.
    With `counts_rows`, the rows of divided files are counted, so that rows are those of the whole
    file.

    Raises ValueError for standard input and pipes, which cannot be read twice.
    """
    file_of = {file.path: file for file in corpus.files}
    sources: dict[Span, list[PartSource]] = {}
    parts: list[list[PartSource]] = []
    room = 0
    for span in corpus.spans:
        if span not in sources:
            file = file_of[span.path]
            divided = _divided(file, part_bytes) if span == Span(span.path) else (span,)
            sources[span] = _sources_of(file, divided, counts_rows)
        for source in sources[span]:
            if not parts or source.bytes > room:
                parts.append([])
                room = part_bytes
            parts[-1].append(source)
            room -= source.bytes
    return parts


def _divided(file: CorpusFile, part_bytes: int) -> tuple[Span, ...]:
    """Return the spans of a file. One that cannot be read is left to the reader, who skips it."""
    try:
        return file.spans(part_bytes)
    except BadDocumentError:
        if not file.skips_bad:
            raise
        return (Span(file.path),)


def _sources_of(file: CorpusFile, spans: tuple[Span, ...], counts_rows: bool) -> list[PartSource]:
    """Return spans of a file as sources, each with the size of the file and of the span."""
    size = file.size
    if size is None:
        raise ValueError(
            f"{shown(file.path)}: it cannot be read twice, as a run that continues after a kill "
            "must; write it to a file first"
        )
    starts = [span.start for span in spans]
    rows = file.rows_before(starts) if counts_rows and any(starts) else [0] * len(spans)
    sample = storage.sample_of(file.path, size)
    by_bytes = file.format in LINE_FORMATS and file.compression is None
    sizes = [
        end - start if by_bytes and end is not None else size // len(spans)
        for _, start, end in spans
    ]
    return [
        PartSource(span.path, size, sample, span.start, span.end, its_bytes, row)
        for span, its_bytes, row in zip(spans, sizes, rows, strict=True)
    ]


def positive(size: int, name: str) -> int:
    """Return a number of bytes as an int of Python, which no arithmetic overflows."""
    return check_at_least(1, size, name)


# Bad documents


def _without_secrets(item: ReadItem) -> ReadItem:
    bad = [document._replace(path=storage.public(document.path)) for document in item.found.bad]
    return item._replace(found=item.found._replace(bad=bad))


def _checked(
    format: Format | None, text_field: str, separator: str | None, on_bad: Literal["raise", "skip"]
) -> ReadSettings:
    """Return settings for these arguments of `Corpus`. Raises ValueError or TypeError."""
    if format is not None and format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {format!r}")
    if not isinstance(text_field, str):
        raise TypeError(f"text_field must be a str, got {type(text_field).__name__}")
    text_field.encode("utf-8")
    if on_bad not in ("raise", "skip"):
        raise ValueError(f"on_bad must be raise or skip, got {on_bad!r}")
    if separator is not None:
        if not isinstance(separator, str):
            raise TypeError(f"separator must be a str, got {type(separator).__name__}")
        if not separator:
            raise ValueError("separator must not be empty")
        if format not in (None, "text"):
            raise ValueError(f"separator is for text, not for the format {format}")
    elif format == "lines":
        separator = "\n"
    return ReadSettings(
        format, text_field, separator.encode("utf-8") if separator else None, on_bad == "skip"
    )


def _checked_log(log: BadLog, spans: Iterable[Span]) -> str | IO[str] | None:
    """Return a log. Raises ValueError if it is a file of the corpus, which it would replace."""
    if not isinstance(log, (str, os.PathLike)):
        return log
    path = os.fspath(log)
    key = file_key(path)
    if any(file_key(span.path) == key for span in spans):
        raise ValueError(f"{path}: bad_log must not be a file of the corpus")
    return path


class _Log:
    def __init__(self, log: str | IO[str] | None) -> None:
        self._is_own = isinstance(log, str)
        self._file = log if not isinstance(log, str) else _new_log(log)

    def write(self, document: BadDocument) -> None:
        if self._file is not None:
            self._file.write(document.to_json() + "\n")
            self._file.flush()

    def close(self) -> None:
        if self._file is not None and self._is_own:
            self._file.close()


def _new_log(path: str) -> IO[str]:
    return open(path, "w", encoding="utf-8", newline="\n")
