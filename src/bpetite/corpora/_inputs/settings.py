"""The settings of a corpus, a span of a file, and the types of all readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from bpetite.corpora._found import Found
from bpetite.corpora._inputs.source import BLOCK_BYTES, InputFile
from bpetite.corpora._storage import public

Format = Literal["text", "lines", "jsonl", "json", "parquet", "arrow"]


class ReadSettings(NamedTuple):
    """How to read a corpus; all values are checked."""

    format: Format | None = None
    text_field: str = "text"
    separator: bytes | None = None
    skips_bad: bool = False
    batch_bytes: int = BLOCK_BYTES
    has_segments: bool = False
    """Whether a document may be found in several segments."""


class Span(NamedTuple):
    """A range of a file: bytes of lines, or numbers of row groups or record batches."""

    path: str
    start: int = 0
    end: int | None = None
    """None for the end of the file."""

    def __repr__(self) -> str:  # without secrets: programs log their tasks
        return f"Span(path={public(self.path)!r}, start={self.start}, end={self.end})"


Read = Callable[[InputFile, Span, ReadSettings], Iterator[Found]]
"""Yields the documents of a span of an open file: the function `read` of each format's module.
Raises DataError if the rest of the file is unreadable."""

Spans = Callable[[str, int, ReadSettings, int], list[Span]]
"""Returns the spans of a regular file by its path, its size, the settings and the bytes of a span:
the function `spans` of each module whose files can be divided."""
