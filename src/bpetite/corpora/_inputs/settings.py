"""The settings of a corpus, a span of a file, and the types of all readers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, Protocol

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


class Read(Protocol):
    """The function `read` of each module here that reads a format."""

    def __call__(self, source: InputFile, span: Span, settings: ReadSettings, /) -> Iterator[Found]:
        """Yield the documents of a span of an open file.

        Raises DataError if the rest of the file is unreadable.
        """


class Spans(Protocol):
    """The function `spans` of each module here whose files can be divided."""

    def __call__(
        self, path: str, size: int, settings: ReadSettings, part_bytes: int, /
    ) -> list[Span]:
        """Return the spans of a regular file without compression, of about `part_bytes` each."""
