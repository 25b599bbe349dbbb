"""What a reader finds: batches of documents, and bad documents."""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

from bpetite._corpus import Batch
from bpetite.corpora import _storage as storage


class BadDocument(NamedTuple):
    """A document that cannot be read, or the rest of a file if that cannot."""

    path: str
    """A URL has no user and no query, which may be secrets."""
    unit: Literal["file", "line", "row", "document"]
    """What `row` counts; "file" if the whole file, or its rest, cannot be read."""
    row: int | None
    """The position in the file, from 0. None for a file, and for a line that is skipped in a later
    span: its byte is known, but not its number, for the lines before it are not counted."""
    byte: int | None
    """The offset in the file, after decompression unless the file is cut; None if unknown."""
    reason: str
    detail: str = ""

    def __str__(self) -> str:
        """Return a sentence for people, who count lines from 1."""
        detail = f" ({self.detail})" if self.detail else ""
        name = shown(self.path)
        if self.row is None and self.unit != "file":
            return f"{name}: {self.unit} at byte {self.byte}: {self.reason}{detail}"
        if self.row is None:
            at = "" if self.byte is None else f" at byte {self.byte}"
            return f"{name} is {self.reason}{at}{detail}"
        number = self.row + (self.unit == "line")
        at = "" if self.byte is None else f", byte {self.byte}"
        return f"{name}: {self.unit} {number}{at}: {self.reason}{detail}"

    def to_json(self) -> str:
        """Return a JSON object on one line, as the log of bad documents has it."""
        fields: dict[str, object] = {"file": os.fsencode(self.path).decode("utf-8", "replace")}
        if self.row is not None:
            fields[self.unit] = self.row + (self.unit == "line")
        if self.byte is not None:
            fields["byte"] = self.byte
        fields["reason"] = self.reason + (f" ({self.detail})" if self.detail else "")
        return json.dumps(fields, ensure_ascii=False)


class BadDocumentError(ValueError):
    """A corpus has a document that cannot be read."""

    def __init__(self, document: BadDocument) -> None:
        super().__init__(str(document))
        self.document: BadDocument = document
        """The document."""

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.document,)


class Found(NamedTuple):
    """What a reader found in a span of a file."""

    batch: Batch | None
    """Documents, if there are any."""
    is_complete: bool = True
    """Whether the last document ends with the batch."""
    bad: Sequence[BadDocument] = ()


class DataError(Exception):
    """The rest of a file cannot be read, because its bytes are wrong."""

    def __init__(self, reason: str, byte: int | None = None, detail: str = "") -> None:
        super().__init__(reason, byte, detail)
        self.reason = reason
        self.byte = byte
        self.detail = detail


def bad_file(path: str, error: DataError) -> BadDocument:
    """Return the rest of a file as a bad document."""
    return BadDocument(storage.public(path), "file", None, error.byte, error.reason, error.detail)


def batch_of(documents: Sequence[bytes], rows: Sequence[int]) -> Batch:
    """Return the batch of some documents in UTF-8.

    >>> batch_of([b"ab", b"c"], range(2)).offsets.tolist()
    [0, 2, 3]
    """
    offsets = array("Q", accumulate(map(len, documents), initial=0))
    return Batch(memoryview(b"".join(documents)), memoryview(offsets), rows)


def shown(path: str) -> str:
    """Return the name of a file as messages show it."""
    return "standard input" if path == "-" else storage.public(path)


def without(documents: Iterable[bytes], rows: Sequence[int], bad: set[int]) -> Batch:
    """Return the batch of some documents, without the ones whose numbers are in `bad`."""
    kept = [document for number, document in enumerate(documents) if number not in bad]
    kept_rows = array("Q", (row for number, row in enumerate(rows) if number not in bad))
    return batch_of(kept, memoryview(kept_rows))
