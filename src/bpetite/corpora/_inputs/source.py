"""The bytes of one file, decompressed: a regular file, a pipe or standard input."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from bpetite.corpora import _storage as storage
from bpetite.corpora._found import DataError
from bpetite.corpora._inputs.compression import (
    ZSTD_MAGIC,
    ZSTD_SKIPPABLE_MAGICS,
    Compression,
    Decompressed,
)

STANDARD_INPUT = "-"

BLOCK_BYTES = 1 << 19
"""The size of a block. Smaller ones cost more calls, larger ones leave the processor's cache."""

_SUFFIXES: dict[str, Compression] = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}

_GZIP_MAGIC = b"\x1f\x8b"

MAGIC_BYTES = 4


class InputFile:
    """An open file, decompressed. `start` is an offset in a file without compression."""

    def __init__(self, path: str, start: int = 0) -> None:
        self._start = start
        self._raw = _RawFile(path, start)
        try:
            self.compression = None if start else _compression(path, self._raw)
            self._stream = (
                self._raw if self.compression is None else Decompressed(self._raw, self.compression)
            )
        except BaseException:
            self._raw.close()
            raise
        self._beginning = b""
        self._error: DataError | None = None
        self.offset: int = start
        """The offset of the next byte, after decompression."""

    def __enter__(self) -> InputFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._raw.close()

    @property
    def stored_bytes(self) -> int:
        """The bytes of the file that were read, as they are stored."""
        return self._raw.tell() - self._start

    def peek(self, size: int) -> bytes:
        """Return the next bytes: `size` of them, or fewer at the end of the file."""
        buffer = bytearray(size)
        while len(self._beginning) < size:
            view = memoryview(buffer)[: size - len(self._beginning)]
            if not (count := self._read(view, bool(self._beginning))):
                break
            self._beginning += view[:count]
        return self._beginning[:size]

    def readinto(self, buffer: memoryview, has_more: bool = False) -> int:
        """Fill a buffer; return the number of bytes, which is less at the end of the file.

        An error waits for the next call if there are bytes before it, or if the caller `has_more`.
        """
        taken = min(len(self._beginning), len(buffer))
        buffer[:taken] = self._beginning[:taken]
        self._beginning = self._beginning[taken:]
        while taken < len(buffer) and (count := self._read(buffer[taken:], has_more or taken > 0)):
            taken += count
        self.offset += taken
        return taken

    def _read(self, buffer: memoryview, has_more: bool) -> int:
        if self._error is None:
            try:
                return self._stream.readinto(buffer)
            except DataError as error:
                self._error = error
        if not has_more:
            raise self._error
        return 0

    def read(self, size: int = -1) -> bytes:
        if size < 0:
            return b"".join(map(bytes, self.blocks(BLOCK_BYTES)))
        block = next(self.blocks(size), b"") if size else b""
        return bytes(block)

    def blocks(self, size: int) -> Iterator[memoryview]:
        """Yield the file in blocks, each valid until the next.

        A buffer larger than the file would only cost memory, so it grows as it fills.
        """
        view = memoryview(bytearray(min(size, BLOCK_BYTES)))
        while count := self.readinto(view):
            while count == len(view) < size:
                larger = memoryview(bytearray(min(2 * len(view), size)))
                larger[:count] = view
                view = larger
                count += self.readinto(view[count:], has_more=True)
            yield view[:count].toreadonly()


def _compression(path: str, raw: _RawFile) -> Compression | None:
    """Return the compression of an open file. Raises DataError if its name is wrong."""
    found = compression_of(raw.peek(MAGIC_BYTES))
    named = compression_by_name(path)
    if named not in (None, found):
        raise DataError(f"no {named} file", 0, "its first bytes do not fit its name; rename it")
    return found


def compression_of(beginning: bytes) -> Compression | None:
    r"""Return the compression of a file with this beginning. No text in UTF-8 begins so.

    >>> compression_of(b"\x1f\x8b\x08\0"), compression_of(b"text")
    ('gzip', None)
    """
    if beginning.startswith(_GZIP_MAGIC):
        return "gzip"
    magic = int.from_bytes(beginning[:4], "little")
    if magic == ZSTD_MAGIC or magic in ZSTD_SKIPPABLE_MAGICS:
        return "zstd"
    return None


def compression_by_name(path: str) -> Compression | None:
    """Return the compression that a file's name says.

    >>> compression_by_name("part.jsonl.ZST")
    'zstd'
    """
    return _SUFFIXES.get(os.path.splitext(storage.public(path))[1].lower())


def without_suffix(path: str) -> str:
    """Return a file's name without the end that says its compression."""
    return path if compression_by_name(path) is None else os.path.splitext(path)[0]


class _RawFile(io.RawIOBase):
    def __init__(self, path: str, start: int) -> None:
        self._path = path
        self._is_standard_input = path == STANDARD_INPUT
        self._file: Any = None  # Python closes the object even if no file could be opened
        if self._is_standard_input:
            if sys.stdin is None:
                raise OSError("standard input is closed")
            # A read that returns early lets Python handle Ctrl-C.
            self._file = sys.stdin.buffer
            self._readinto = self._file.readinto1
        else:
            self._file = storage.opened(path)
            self._readinto = self._file.readinto
        if start:
            self._file.seek(start)
        self._beginning = b""
        self._position = start

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def peek(self, size: int) -> bytes:
        while len(self._beginning) < size:
            buffer = bytearray(size - len(self._beginning))
            if not (count := self._filled(memoryview(buffer))):
                break
            self._beginning += buffer[:count]
        return self._beginning[:size]

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        if self._beginning:
            count = min(len(self._beginning), len(view))
            view[:count] = self._beginning[:count]
            self._beginning = self._beginning[count:]
        else:
            count = self._filled(view)
        self._position += count
        return count

    def _filled(self, view: memoryview) -> int:
        try:
            return self._readinto(view) or 0
        except OSError as error:
            if error.strerror and error.filename is None and not self._is_standard_input:
                error.filename = self._path  # the system names no file in an error of a read
            raise

    def close(self) -> None:
        if self._file is not None and not self._is_standard_input and not self.closed:
            self._file.close()
        super().close()
