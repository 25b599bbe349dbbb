"""Corpus: files in, documents out, in batches and in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import IO, Any, Literal, NamedTuple

from bpetite._corpus import Batch, warn_of_json_lines
from bpetite.corpora import _inputs as inputs
from bpetite.corpora import _storage as storage
from bpetite.corpora._ahead import read_ahead
from bpetite.corpora._files import Paths, listed
from bpetite.corpora._inputs import FORMATS, Format, Settings, Span
from bpetite.corpora._inputs.compression import compression_by_name
from bpetite.corpora._inputs.lines import first_byte
from bpetite.corpora._inputs.source import BLOCK_BYTES, STANDARD_INPUT, Source
from bpetite.corpora._parts import CorpusFile, parts_of, positive, span_of
from bpetite.corpora._report import (
    BadDocument,
    BadDocumentError,
    DataError,
    Found,
    Report,
    bad_file,
    shown,
)
from bpetite.formats._systems import file_key

OnBad = Literal["raise", "skip"]

BadLog = str | os.PathLike[str] | IO[str] | None
"""Where bad documents are named: a path, or an open text file."""


class Item(NamedTuple):
    """What was found in a file, and how far the corpus is read."""

    found: Found
    number: int
    """Of the span, among those of the corpus."""
    bytes_read: int
    """Of all files up to here, as they are stored."""


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
        on_bad: OnBad = "raise",
        bad_log: BadLog = None,
    ) -> None:
        self._settings = _checked(format, text_field, separator, on_bad)
        if bad_log is not None and on_bad != "skip":
            raise ValueError('bad_log needs on_bad="skip"')
        self.spans: list[Span] = [Span(path) for path in listed(paths, format is not None)]
        """The files, or the spans of files that make up a part."""
        self._bad_log = _checked_log(bad_log, self.spans)
        self.report: Report = Report()
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
        corpus.report = Report()
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
        parts = parts_of(self.files, self.spans, positive(part_bytes, "part_bytes"))
        return [self.part(map(span_of, part)) for part in parts]

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

    def items(self) -> Iterator[Item]:
        """Yield batches with the numbers of their spans, and how far the corpus is read."""
        return self._read(self._settings)

    def _read(self, settings: Settings) -> Iterator[Item]:
        self.report = report = Report()
        log = _Log(self._bad_log)
        # A thread that waits for a pipe could not be stopped.
        can_stop = all(storage.is_file(span.path) for span in self.spans)
        items = read_ahead(lambda: self._found(settings)) if can_stop else self._found(settings)
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

    def _found(self, settings: Settings) -> Generator[Item, None, None]:
        before = 0  # bytes of the files that are done
        for number, span in enumerate(self.spans):
            read_bytes = 0
            try:
                format = self._formats.get(span.path)
                start = first_byte(span) if format in inputs.LINE_FORMATS else 0
                with Source(span.path, start) as source:
                    read = inputs.reader_of(format or inputs.format_by_content(source))
                    if format == "text" and settings.format is None:
                        warn_of_json_lines(shown(span.path), source.peek(inputs.PEEK_BYTES))
                    for found in read(source, span, settings):
                        read_bytes = source.stored_bytes
                        yield Item(found, number, before + read_bytes)
            except MemoryError as error:
                detail = f" ({error})" if error.args else ""
                raise MemoryError(f"{shown(span.path)}: out of memory{detail}") from None
            except OSError as error:
                if error.strerror and error.filename is None:
                    error.filename = shown(span.path)  # as of a thread that pyarrow does not get
                raise
            except DataError as error:
                bad = Found(None, bad=[bad_file(span.path, error)])
                yield Item(bad, number, before + read_bytes)
            before += read_bytes

    @cached_property
    def _formats(self) -> dict[str, Format | None]:
        return {file.path: file.format for file in self.files}

    def _file(self, path: str) -> CorpusFile:
        """Describe a file; leave errors in its content to the reader."""
        format = self._settings.format or inputs.format_by_name(path)
        if not storage.is_file(path):
            if path != STANDARD_INPUT:
                os.stat(path)  # a missing file is an error here, which names the path
            return CorpusFile(path, format, None, None, self._settings)
        compression = compression_by_name(path)
        if compression is None or format is None:
            try:
                with Source(path) as source:
                    compression = source.compression
                    format = format or inputs.format_by_content(source)
            except DataError:
                pass
        return CorpusFile(path, format, compression, storage.size_of(path), self._settings)


def _without_secrets(item: Item) -> Item:
    bad = [document._replace(path=storage.public(document.path)) for document in item.found.bad]
    return item._replace(found=item.found._replace(bad=bad))


def _checked(
    format: Format | None, text_field: str, separator: str | None, on_bad: OnBad
) -> Settings:
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
    return Settings(
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
    """The file that names bad documents, one in each line."""

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
