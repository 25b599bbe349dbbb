"""New files that appear whole: they are written under other names, then renamed together."""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from bpetite.formats._files import sync_folder
from bpetite.formats._systems import replace, sync

try:
    from isal.isal_zlib import crc32  # four times as fast
except ImportError:
    from zlib import crc32

TEMPORARY_FOLDER = ".bpetite/new"
"""Below the output folder: the same file system, so a rename is one step."""


_READ_BYTES = 1 << 20


@contextmanager
def path_in_errors(path: Path) -> Iterator[None]:
    """Put a path into an error of the system that lacks one, such as a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None


@dataclass(frozen=True)
class FileFacts:
    """What a manifest says of a file."""

    name: str
    bytes: int
    crc32: str


class NewFile:
    """A file on its way to its place."""

    def __init__(self, name: str, temporary: Path, place: Path) -> None:
        self.name = name
        self._place = place  # for errors
        self.temporary = temporary
        self.bytes = 0
        self._file = open(temporary, "xb", buffering=0)  # noqa: SIM115 - see close
        self._crc32: int | None = 0

    def write(self, data: bytes | memoryview | array[int]) -> None:
        """Append bytes, or integers in the byte order of files: all of them, or an OSError."""
        view = in_file_order(data).cast("B")
        if self._crc32 is not None:
            self._crc32 = crc32(view, self._crc32)
        self.bytes += len(view)
        with path_in_errors(self._place):
            while len(view):
                view = view[self._file.write(view) :]

    def append_file(self, path: Path) -> None:
        with path.open("rb") as file:
            while data := file.read(_READ_BYTES):
                self.write(data)

    def replace_start(self, data: bytes) -> None:
        """Write over the first bytes, for example with a header that was not known before."""
        self._file.seek(0)
        with path_in_errors(self._place):
            self._file.write(data)
        self._file.seek(0, os.SEEK_END)
        self._crc32 = None

    def sync(self) -> None:
        """Write everything to disk, and close the file."""
        if self._file.closed:
            self._file = open(self.temporary, "r+b", buffering=0)  # noqa: SIM115 - closed below
        with path_in_errors(self._place):
            sync(self._file.fileno())
            self._file.close()

    def close(self) -> None:
        """Close the file when it is complete: a part may have more files than may be open."""
        self._file.close()

    @property
    def facts(self) -> FileFacts:
        """The name, the size and the CRC-32 of the content, in hexadecimal."""
        crc = crc32_of(self.temporary) if self._crc32 is None else self._crc32
        return FileFacts(self.name, self.bytes, f"{crc:08x}")


class FileObject(io.RawIOBase):
    """A new file, for libraries that write to a file object."""

    def __init__(self, file: NewFile) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.bytes

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._file.write(view)
        return view.nbytes


class NewFiles:
    """The files of one part, which get their names together, in `put_in_place`.

    Until then they are in `TEMPORARY_FOLDER`, where a killed process leaves them. When a folder is
    finished, all files there are removed, so a worker whose part others have done meanwhile gets a
    FileNotFoundError.

    With `upload`, files are written to the system's folder for temporary files, then uploaded in
    order. A process that is killed between two uploads leaves the first ones, and the next run
    writes over them. Only the receipt, which comes last, makes them count.
    """

    def __init__(self, folder: Path, upload: Callable[[Path, Path], None] | None = None) -> None:
        self.folder = folder
        self._upload = upload
        self._files: list[NewFile] = []
        self._scratch: list[BinaryIO] = []
        self._local: Path | None = None

    def create(self, name: str) -> NewFile:
        """Return a new empty file, which `put_in_place` will name `name`."""
        temporary = self._temporary() / f"{Path(name).name}-{os.urandom(8).hex()}"
        # The files of a URL need room on this machine.
        place = self.folder / name if self._upload is None else temporary
        file = NewFile(name, temporary, place)
        self._files.append(file)
        return file

    def scratch(self) -> BinaryIO:
        """Return a file without a name, for what outgrows memory."""
        file = tempfile.TemporaryFile(dir=self._temporary())  # noqa: SIM115 - see discard
        self._scratch.append(file)
        return file

    def _temporary(self) -> Path:
        if self._upload is not None:
            self._local = self._local or Path(tempfile.mkdtemp(prefix="bpetite-"))
            return self._local
        folder = self.folder / TEMPORARY_FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def put_in_place(self) -> list[FileFacts]:
        """Write all files to disk, then name them in order of their creation; discard the rest."""
        try:
            facts = [file.facts for file in self._files]
            for file in self._files:
                if self._upload is None:
                    file.sync()
                else:
                    file.close()
                    self._upload(file.temporary, self.folder / file.name)
            if self._upload is None:
                self._rename()
        finally:
            self.discard()
        return facts

    def _rename(self) -> None:
        for file in self._files:
            target = self.folder / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            replace(file.temporary, target)
        for folder in {(self.folder / file.name).parent for file in self._files}:
            sync_folder(folder)
        self._files.clear()

    def discard(self) -> None:
        """Remove the files that are not in place, and scratch files."""
        for scratch in self._scratch:
            scratch.close()
        for file in self._files:
            file.close()
            file.temporary.unlink(missing_ok=True)
        self._files.clear()
        if self._local is not None:
            shutil.rmtree(self._local, ignore_errors=True)
            self._local = None


def crc32_joined(first: int, second: int, second_bytes: int) -> int:
    """Return the CRC-32 of two files as one, from the CRC-32 of each and the second one's size.

    >>> crc32_joined(crc32(b"ab"), crc32(b"cd"), 2) == crc32(b"abcd")
    True
    """
    # A CRC-32 is linear: what `first` adds to it does not depend on the bytes that follow.
    zeros = bytes(min(second_bytes, _READ_BYTES))
    with_first, without = first, 0
    for start in range(0, second_bytes, _READ_BYTES):
        block = memoryview(zeros)[: second_bytes - start]
        with_first, without = crc32(block, with_first), crc32(block, without)
    return with_first ^ without ^ second


def crc32_of(path: Path) -> int:
    total = 0
    with path.open("rb") as file:
        while data := file.read(_READ_BYTES):
            total = crc32(data, total)
    return total


def in_file_order(numbers: bytes | memoryview | array[int]) -> memoryview:
    """Swap the bytes of integers on a big-endian machine, for files are little-endian everywhere.

    It serves both ways: from the machine to a file and back.
    """
    view = memoryview(numbers)
    if sys.byteorder == "little" or view.itemsize == 1:
        return view
    swapped = array(view.format)
    swapped.frombytes(view.cast("B") if len(view) else b"")
    swapped.byteswap()
    return memoryview(swapped)
