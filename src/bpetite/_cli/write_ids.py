"""Ids in output files: JSON arrays, lines, words, or binary."""

from __future__ import annotations

import sys
from array import array
from itertools import pairwise
from typing import BinaryIO, Protocol

_IDS_PER_WRITE = 1 << 14


class IdWriter(Protocol):
    """Writes the ids of documents, which arrive in segments."""

    def write(self, ids: memoryview, offsets: memoryview, is_complete: bool, /) -> None:
        """Write the ids of some documents. The last one may go on in the next segment."""

    def finish(self) -> None:
        """Complete the file after the last ids."""


class _Text:
    """Writes ids as decimal numbers, with text before, between and after the ids of a document."""

    def __init__(self, file: BinaryIO, before: bytes, between: bytes, after: bytes) -> None:
        self._file = file
        self._before, self._between, self._after = before, between, after
        self._is_open = self._has_ids = False  # of the document that is not complete
        self._words = _Words()

    def write(self, ids: memoryview, offsets: memoryview, is_complete: bool) -> None:
        last = len(offsets) - 2
        for number, (start, end) in enumerate(pairwise(offsets)):
            if not self._is_open:
                self._file.write(self._before)
            for at in range(start, end, _IDS_PER_WRITE):
                if self._has_ids:
                    self._file.write(self._between)
                some = ids[at : min(at + _IDS_PER_WRITE, end)]
                self._file.write(self._between.join(map(self._words.__getitem__, some)))
                self._has_ids = True
            self._is_open = number == last and not is_complete
            if not self._is_open:
                if self._has_ids or self._between != b"\n":  # without ids, there is no line
                    self._file.write(self._after)
                self._has_ids = False

    def finish(self) -> None:
        pass


class _Words(dict[int, bytes]):
    """The decimal digits of ids: a look-up takes half the time of a conversion."""

    def __missing__(self, id: int) -> bytes:
        word = b"%d" % id
        if len(self) < _MAX_WORDS:
            self[id] = word
        return word


_MAX_WORDS = 1 << 16


class _Binary:
    """Writes the ids of all documents in a row, little-endian."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, ids: memoryview, *_: object) -> None:
        if sys.byteorder == "big":
            swapped = array(ids.format, ids)
            swapped.byteswap()
            ids = memoryview(swapped)
        self._file.write(ids)

    def finish(self) -> None:
        pass


class _Npy(_Binary):
    """Writes the file of a numpy array of one dimension; `file` can seek."""

    def __init__(self, file: BinaryIO, item_size: int) -> None:
        super().__init__(file)
        self._item_size = item_size
        self._count = 0
        file.write(_npy_header(item_size, 0))

    def write(self, ids: memoryview, *_: object) -> None:
        self._count += len(ids)
        super().write(ids)

    def finish(self) -> None:
        self._file.seek(0)
        self._file.write(_npy_header(self._item_size, self._count))


def _npy_header(item_size: int, count: int) -> bytes:
    r"""Return a header of 128 bytes, whatever the count.

    >>> header = _npy_header(2, 5)
    >>> header[:10], header[10:].rstrip()
    (b'\x93NUMPY\x01\x00v\x00', b"{'descr': '<u2', 'fortran_order': False, 'shape': (5,), }")
    """
    text = f"{{'descr': '<u{item_size}', 'fortran_order': False, 'shape': ({count},), }}"
    data = text.ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(data).to_bytes(2, "little") + data


FORMATS = ("json", "lines", "text", "u16", "u32", "npy")


def id_writer(format: str, file: BinaryIO, item_size: int) -> IdWriter:
    """Return a writer in one of FORMATS for ids of `item_size` bytes in a buffer."""
    if format == "json":
        return _Text(file, b"[", b",", b"]\n")
    if format == "lines":
        return _Text(file, b"", b"\n", b"\n")
    if format == "text":
        return _Text(file, b"", b" ", b"\n")
    return _Npy(file, item_size) if format == "npy" else _Binary(file)
