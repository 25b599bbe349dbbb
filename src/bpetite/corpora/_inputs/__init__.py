"""The formats of corpora, one module each, and how a file's format is found."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import get_args

from bpetite._corpus import is_json_line
from bpetite.corpora import _storage as storage
from bpetite.corpora._inputs import arrow, json_values, jsonl, parquet, text
from bpetite.corpora._inputs.compression import without_suffix
from bpetite.corpora._inputs.lines import lines_before
from bpetite.corpora._inputs.settings import Format, Read, Settings, Span, Spans
from bpetite.corpora._inputs.source import Source
from bpetite.corpora._report import DataError

FORMATS: tuple[Format, ...] = get_args(Format)

_READERS: dict[Format, Read] = {
    "text": text.read,
    "lines": text.read,
    "jsonl": jsonl.read,
    "json": json_values.read,
    "parquet": parquet.read,
    "arrow": arrow.read,
}

# The formats whose files can be divided.
_SPANS: dict[Format, Spans] = {
    "text": text.spans,
    "lines": text.spans,
    "jsonl": jsonl.spans,
    "parquet": parquet.spans,
    "arrow": arrow.spans,
}

LINE_FORMATS: tuple[Format, ...] = ("text", "lines", "jsonl")
"""The formats whose spans are bytes. Their readers count lines from the beginning of a span."""

_FORMATS_BY_SUFFIX: dict[str, Format] = {
    ".txt": "text",
    ".text": "text",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}

PEEK_BYTES = 1 << 16


def format_by_name(path: str) -> Format | None:
    """Return the format that a file's name says, apart from its compression.

    >>> format_by_name("data/part-000.jsonl.zst"), format_by_name("README")
    ('jsonl', None)
    """
    suffix = os.path.splitext(without_suffix(storage.public(path)))[1]
    return _FORMATS_BY_SUFFIX.get(suffix.lower())


def format_by_content(source: Source) -> Format:
    """Return the format of an open file: text, unless its beginning is that of another."""
    beginning = source.peek(PEEK_BYTES)
    if beginning.startswith(parquet.MAGIC):
        return "parquet"
    if beginning.startswith((arrow.FILE_MAGIC, arrow.STREAM_MAGIC)):
        return "arrow"
    return "jsonl" if is_json_line(beginning) else "text"


def reader_of(format: Format) -> Read:
    """Return the function that reads a format."""
    return _READERS[format]


def spans(path: str, format: Format, settings: Settings, part_bytes: int) -> list[Span]:
    """Return the spans of a regular file without compression; one if it cannot be divided."""
    divide = _SPANS.get(format)
    return [Span(path)] if divide is None else divide(path, settings, part_bytes)


def rows_before(
    path: str, format: Format | None, settings: Settings, starts: Sequence[int]
) -> list[int]:
    """Return the rows of a file before spans with these starts, if readers do not count them."""
    if format in LINE_FORMATS:
        return lines_before(path, starts)
    if format == "arrow":
        return arrow.rows_before(path, settings, starts)
    return [0] * len(starts)


__all__ = [
    "FORMATS",
    "LINE_FORMATS",
    "DataError",
    "Format",
    "Settings",
    "Span",
    "format_by_content",
    "format_by_name",
    "reader_of",
    "rows_before",
    "spans",
]
