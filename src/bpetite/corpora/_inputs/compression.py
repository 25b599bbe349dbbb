"""Compressed bytes in, decompressed bytes out; a stream that is cut or corrupt is an error."""

from __future__ import annotations

import io
import sys
import zlib
from importlib import import_module
from typing import IO, Any, Literal, cast

from bpetite.corpora._extra import import_extra
from bpetite.corpora._found import DataError

Compression = Literal["gzip", "zstd"]

ZSTD_MAGIC = 0xFD2FB528
ZSTD_SKIPPABLE_MAGICS = range(0x184D2A50, 0x184D2A60)

_READ_BYTES = 1 << 18
_MAX_ZSTD_WINDOW_LOG = 31  # of `zstd --long=31`; libraries refuse more than 27 by default
_GZIP_WINDOW_BITS = 31  # zlib's number for a gzip header and any window


class Decompressed:
    """The decompressed bytes of a binary file: several gzip members or zstd frames are one text."""

    def __init__(self, file: io.RawIOBase, compression: Compression) -> None:
        self._compression = compression
        self._offset = 0
        self._frames = _ZstdFrames(file) if compression == "zstd" else None
        self._file = file
        self._stream = _zstd_stream(self._frames) if self._frames else _GzipStream(file)

    def readinto(self, buffer: memoryview) -> int:
        """Read up to a buffer full; 0 is the end. Raises DataError for wrong bytes."""
        try:
            count: int = self._stream.readinto(buffer)
        except EOFError:
            raise self._cut() from None
        except DataError:
            raise
        except Exception as error:
            if not is_data_error(error):
                raise
            if _is_of_memory(error):
                raise MemoryError(f"{self._compression}: {error}") from None
            if "too much memory" in str(error):  # by the header; how much there is does not matter
                detail = "its zstd window is above 2 GiB; compress it with --long=31 at most"
                raise DataError("unreadable", self._file.tell(), detail) from None
            detail = f"{self._compression}: {error}"
            raise DataError("corrupt", self._file.tell(), detail) from None
        if not count and self._frames is not None and self._frames.is_inside:
            raise self._cut()
        return count

    def _cut(self) -> DataError:
        return DataError("cut", self._file.tell(), f"the {self._compression} stream has no end")


def is_data_error(error: Exception) -> bool:
    """Return whether an error of a decompressor says that the bytes are wrong.

    The names stand for classes of libraries that may not be installed.
    """
    return isinstance(error, zlib.error) or type(error).__name__ in ("IsalError", "ZstdError")


def _is_of_memory(error: Exception) -> bool:
    if type(error) is zlib.error:  # for isal, which needs no more memory, -4 means wrong bytes
        return str(error).startswith("Error -4 ")
    return "Allocation error" in str(error)


class _GzipStream:
    """The members of a gzip file, decompressed and joined. Zeros may stand between them."""

    def __init__(self, file: io.RawIOBase) -> None:
        self._file = file
        self._input = b""
        try:
            library: Any = import_module("isal.isal_zlib")
        except ModuleNotFoundError:  # the standard library takes three times as long
            library = zlib
        self._new = library.decompressobj
        self._member: Any = self._new(wbits=_GZIP_WINDOW_BITS)

    def readinto(self, buffer: memoryview) -> int:
        """Read some bytes; 0 is the end. Raises EOFError if a member is cut."""
        while self._member is not None:
            data = self._member.decompress(self._input, len(buffer))
            self._input = self._member.unconsumed_tail
            if self._member.eof:
                self._next_member()
            elif not data and not self._input:
                self._input = self._file.read(_READ_BYTES) or b""
                if not self._input:
                    raise EOFError
            if data:
                buffer[: len(data)] = data
                return len(data)
        return 0

    def _next_member(self) -> None:
        self._input = self._member.unused_data.lstrip(b"\0")
        while not self._input and (data := self._file.read(_READ_BYTES)):
            self._input = data.lstrip(b"\0")
        self._member = self._new(wbits=_GZIP_WINDOW_BITS) if self._input else None


def _zstd_stream(source: _ZstdFrames) -> Any:
    """Return a stream with `readinto`. It may end before its source without an error."""
    if sys.version_info >= (3, 14):
        from compression import zstd

        options = {int(zstd.DecompressionParameter.window_log_max): _MAX_ZSTD_WINDOW_LOG}
        return zstd.ZstdFile(cast(IO[bytes], source), options=options)
    zstandard = import_extra("zstandard", "a .zst file")
    return zstandard.ZstdDecompressor(max_window_size=1 << _MAX_ZSTD_WINDOW_LOG).stream_reader(
        source, read_size=_READ_BYTES, read_across_frames=True
    )


class _ZstdFrames:
    """Passes the bytes of zstd frames on, and knows from their headers whether one is unfinished.

    The stream of `zstandard` does not tell the end of a frame from the end of a cut file.
    """

    def __init__(self, file: io.RawIOBase) -> None:
        self._file = file
        self._parse = self._magic
        self._needed = 4  # bytes of the next header
        self._header = bytearray()
        self._skipped = 0  # bytes before the next header
        self._has_checksum = False

    @property
    def is_inside(self) -> bool:
        """Whether more bytes of a frame must follow."""
        return bool(self._header or self._skipped or self._parse != self._magic)

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size) or b""
        at = 0
        while at < len(data):
            step = min(self._skipped, len(data) - at)
            self._skipped -= step
            at += step
            header = data[at : at + self._needed - len(self._header)]
            self._header += header
            at += len(header)
            if len(self._header) == self._needed:
                self._needed, self._skipped = self._parse(bytes(self._header))
                self._header.clear()
        return data

    # Each parser sets the next one. It returns the bytes of the next header, and those before it.

    def _magic(self, header: bytes) -> tuple[int, int]:
        magic = int.from_bytes(header, "little")
        if magic in ZSTD_SKIPPABLE_MAGICS:
            self._parse = self._skippable
            return 4, 0
        if magic != ZSTD_MAGIC:
            raise DataError("corrupt", self._file.tell(), "zstd: other bytes follow a frame")
        self._parse = self._descriptor
        return 1, 0

    def _skippable(self, header: bytes) -> tuple[int, int]:
        self._parse = self._magic
        return 4, int.from_bytes(header, "little")

    def _descriptor(self, header: bytes) -> tuple[int, int]:
        (flags,) = header
        is_single_segment = flags >> 5 & 1
        self._has_checksum = bool(flags >> 2 & 1)
        dictionary_bytes = (0, 1, 2, 4)[flags & 3]
        size_bytes = (is_single_segment, 2, 4, 8)[flags >> 6]
        self._parse = self._block
        return 3, 1 - is_single_segment + dictionary_bytes + size_bytes

    def _block(self, header: bytes) -> tuple[int, int]:
        bits = int.from_bytes(header, "little")
        is_last, kind, size = bits & 1, bits >> 1 & 3, bits >> 3
        stored = 1 if kind == 1 else size  # of a run, one byte is stored
        if not is_last:
            return 3, stored
        self._parse = self._magic
        return 4, stored + (4 if self._has_checksum else 0)
