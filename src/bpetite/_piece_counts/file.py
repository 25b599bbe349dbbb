"""Files of piece counts: a header of one line, then sorted records.

The header is JSON, filled up with spaces to a length that its totals do not change. Equal counts
are equal files. The hash is of the records, then of the header without it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, BinaryIO

from bpetite._piece_records import MAX_COUNT, Totals
from bpetite._pretokenizer import pattern_of, portable_pattern, shown_pattern
from bpetite._unicode.data import VERSION
from bpetite.formats._files import new_file
from bpetite.formats._systems import reachable

_FORMAT = "bpetite piece counts"
_FORMAT_VERSION = 1
_BEGINNING = f'{{"format": "{_FORMAT}", "version": '.encode()
_MAX_HEADER_BYTES = 1 << 24


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a file of piece counts."""

    pattern: str
    """The pattern that split the text: a regular expression."""
    unicode_version: str
    """The version of Unicode whose classes the pattern used."""
    min_count: int
    """The highest `min_count` by which these counts, or a part of them, were pruned; 1 if none."""
    dropped_pieces: int
    """The number of pieces that pruning has dropped, each occurrence counted."""
    distinct_pieces: int
    """The number of different pieces."""
    pieces: int
    """The number of pieces, each occurrence counted."""
    text_bytes: int
    """The number of bytes of these pieces in UTF-8."""

    def checked_pattern(self, pattern: str | None) -> str:
        """Return the pattern of the pieces. Raises ValueError if `pattern` is another one."""
        if pattern is not None and portable_pattern(pattern_of(pattern)) != self.pattern:
            raise ValueError(
                f"the pieces are of the pattern {shown_pattern(self.pattern)}, not of "
                f"{shown_pattern(pattern)}; leave the pattern out, or count the text again"
            )
        return self.pattern

    def check_fits(self, other: Header) -> None:
        """Raise ValueError unless the counts of `other` may be added."""
        if self.pattern != other.pattern:
            raise ValueError(
                f"the pieces are of different patterns, {shown_pattern(self.pattern)} and "
                f"{shown_pattern(other.pattern)}; count all text with one pattern"
            )

    def with_totals(self, totals: Totals) -> Header:
        """Return the header of other records. Raises OverflowError above 64 bits."""
        dropped = self.dropped_pieces + totals.dropped_pieces
        if dropped > MAX_COUNT:
            raise OverflowError("the number of dropped pieces exceeds 64 bits")
        return replace(
            self,
            dropped_pieces=dropped,
            distinct_pieces=totals.distinct_pieces,
            pieces=totals.pieces,
            text_bytes=totals.text_bytes,
        )


def joined_header(headers: Sequence[Header], weights: Sequence[int], min_count: int) -> Header:
    """Return the header of a sum, without its totals. Raises ValueError if two do not fit."""
    first = headers[0]
    for header in headers[1:]:
        first.check_fits(header)
    dropped = sum(h.dropped_pieces * weight for h, weight in zip(headers, weights, strict=True))
    highest = max(min_count, *(header.min_count for header in headers))
    return replace(first, min_count=highest, dropped_pieces=dropped)


class CountsFile:
    """A file of piece counts, open to read."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.name = name
        self._file = file
        line = file.readline(_MAX_HEADER_BYTES)
        self.start = len(line)
        """The offset of the first record."""
        self.header, self._hash = self._read_header(line)

    def _read_header(self, line: bytes) -> tuple[Header, str]:
        if not line.startswith(_BEGINNING):
            raise ValueError(f"{self.name}: not a file of piece counts")
        try:
            fields = json.loads(line)
            hash = fields.pop("sha256")
            version = fields.pop("version")
            del fields["format"]
        except (ValueError, RecursionError, KeyError):
            raise self._damaged("the header is not valid") from None
        if version != _FORMAT_VERSION:
            raise ValueError(
                f"{self.name}: version {version!r} of the format, but this bpetite reads version "
                f"{_FORMAT_VERSION}"
            )
        header = self._checked(fields)
        if header_line(header, hash) != line:
            raise self._damaged("the header is not valid")
        if header.unicode_version != VERSION:
            raise ValueError(
                f"{self.name}: the pieces are of Unicode {header.unicode_version}, but this "
                f"bpetite has Unicode {VERSION}; count the text again"
            )
        return header, hash

    def _checked(self, fields: dict[str, Any]) -> Header:
        try:
            header = Header(**fields)
        except TypeError:
            raise self._damaged("the header is not valid") from None
        for name, value in asdict(header).items():
            if name in ("pattern", "unicode_version"):
                is_right = isinstance(value, str)
            else:
                is_right = type(value) is int and (name == "min_count") <= value <= MAX_COUNT
            if not is_right:
                raise self._damaged(f"{name} is {str(value)[:80]!r}")
        return header

    def records(self) -> bytes:
        """Return the records. Raises ValueError if the hash does not fit them."""
        try:
            records = self._file.read()
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.name) from None
        if _hash(self.header, records) != self._hash:
            raise self._damaged("the hash differs from the content")
        return records

    def check(self, totals: Totals) -> None:
        """Raise ValueError for other totals than the header's, and then for its pattern.

        The pattern comes last, when the file is known to be whole: to try a damaged pattern might
        take long.
        """
        if self.header.with_totals(totals) != self.header:
            raise self._damaged("the totals differ from the content")
        pattern = self.header.pattern
        try:
            is_portable = portable_pattern(pattern) == pattern
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from None
        if not is_portable:
            raise self._damaged(f"the pattern is the name {pattern!r}")

    def _damaged(self, reason: str) -> ValueError:
        return ValueError(f"{self.name}: {reason}; the file is damaged, so write it again")


def is_counts_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a file that begins like a file of piece counts."""
    name = reachable(os.fspath(path))
    if not os.path.isfile(name):
        return False
    with open(name, "rb") as file:
        return file.read(len(_BEGINNING)) == _BEGINNING


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[CountsFile]:
    """Open a file of piece counts. Raises ValueError for a header that does not fit."""
    with open(reachable(os.fspath(path)), "rb") as file:
        yield CountsFile(file, os.fspath(path))


def header_line(header: Header, hash: str) -> bytes:
    """Return the first line of a file; an empty `hash` leaves the hash out."""
    line = _json(header, hash)
    longest = replace(
        header,
        min_count=MAX_COUNT,
        dropped_pieces=MAX_COUNT,
        distinct_pieces=MAX_COUNT,
        pieces=MAX_COUNT,
        text_bytes=MAX_COUNT,
    )
    return line.ljust(len(_json(longest, hash))) + b"\n"


def _json(header: Header, hash: str) -> bytes:
    fields = {"format": _FORMAT, "version": _FORMAT_VERSION, **asdict(header)}
    if hash:
        fields["sha256"] = hash
    return json.dumps(fields).encode()


def _hash(header: Header, records: bytes) -> str:
    import hashlib  # imported here, since few programs need it

    sha256 = hashlib.sha256(records)
    sha256.update(header_line(header, ""))
    return sha256.hexdigest()


def write_counts(
    path: str | os.PathLike[str], overwrite: bool, header: Header, records: bytes
) -> None:
    """Write a file whole or not at all."""
    with new_file(os.fspath(path), overwrite) as file:
        file.write(header_line(header, _hash(header, records)))
        file.write(records)
