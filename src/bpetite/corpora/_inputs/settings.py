"""The settings of a corpus, a part of a file, and the type of all readers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, Protocol

from bpetite.corpora._documents import Found
from bpetite.corpora._inputs.source import Source

Format = Literal["text", "lines", "jsonl", "json", "parquet", "arrow"]


class Settings(NamedTuple):
    """How to read a corpus; all values are checked."""

    format: Format | None = None
    text_field: str = "text"
    separator: bytes | None = None
    skips_bad: bool = False
    batch_bytes: int = 1 << 20
    has_segments: bool = False
    """Whether a document may be found in several parts."""


class Span(NamedTuple):
    """A part of a file: bytes of lines, or numbers of row groups or record batches."""

    path: str
    start: int = 0
    end: int | None = None
    """None for the end of the file."""


class Read(Protocol):
    """The function `read` of each module here that reads a format."""

    def __call__(self, source: Source, span: Span, settings: Settings, /) -> Iterator[Found]:
        """Yield the documents of a part of an open file.

        Raises DataError if the rest of the file is unreadable.
        """
