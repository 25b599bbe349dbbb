"""Files in and out: nothing is read without bound, and no file is ever half written."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

MAX_SIZE = 256 * 1024 * 1024
"""Bytes that a file may have: a vocabulary of a million tokens takes some 40 MB."""


class SourceFile:
    """A file that is read; its errors name the file, the place in it and the value."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)

    def refuse(self, place: str, value: object, wanted: str) -> NoReturn:
        """Raise the ValueError that says what is wrong, where, and what would be right."""
        raise ValueError(f"{self.path}: {place}: expected {wanted}, got {shown(value)}")

    def read(self) -> bytes:
        """Return the whole file. Raises ValueError if it is too large, OSError as it comes."""
        chunks, size = [], 0
        with open(self.path, "rb") as file:
            while chunk := file.read(1 << 20):
                chunks.append(chunk)
                size += len(chunk)
                if size > MAX_SIZE:
                    raise ValueError(
                        f"{self.path}: larger than {MAX_SIZE} bytes, so no vocabulary file"
                    )
        return b"".join(chunks)

    def text(self, data: bytes) -> str:
        """Return the text that `data`, read from this file, is; else raise ValueError."""
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{self.path}: not UTF-8 at byte {error.start} ({error.reason})"
            ) from None

    def parse(self, data: bytes) -> dict[str, Any]:
        """Return the JSON object that `data`, read from this file, is; else raise ValueError."""
        text = self.text(data)
        try:
            document = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
        except json.JSONDecodeError as error:
            raise ValueError(f"{self.path}: not JSON: {error}") from None
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from None
        except RecursionError:
            raise ValueError(f"{self.path}: nested too deeply") from None
        if not isinstance(document, dict):
            self.refuse("the file", document, "a JSON object")
        return document


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {shown(twice)} is given twice")
    return entries


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def shown(value: object) -> str:
    """Return a value of the file as JSON, shortened to what fits into a message."""
    try:
        text = json.dumps(value)
    except RecursionError:
        return "something nested deeply"
    return text if len(text) <= 80 else text[:77] + "..."


def write_files(files: Mapping[str, bytes], overwrite: bool = False) -> None:
    """Write files by their paths; each appears whole or not at all.

    Raises, before any is written, FileExistsError if one of them exists, unless `overwrite`, and
    ValueError for one that is larger than `SourceFile.read` takes; other OSErrors as they come.
    """
    for path, data in files.items():
        if len(data) > MAX_SIZE:
            raise ValueError(f"{path} would take {len(data)} bytes, more than load would read")
        _check_target(path, overwrite)
    for path, data in files.items():
        _write(path, data, overwrite)


def _check_target(path: str, overwrite: bool) -> None:
    """Raise OSError if there is a file of this name that may not, or cannot, be replaced."""
    target = Path(path)
    if target.exists():
        if not overwrite:
            raise OSError(errno.EEXIST, "exists; overwriting it was not asked for", path)
        if not target.is_file():
            code = errno.EISDIR if target.is_dir() else errno.EINVAL
            raise OSError(code, "exists, and is not a file that can be replaced", path)


def _write(path: str, data: bytes, overwrite: bool) -> None:
    # What a symbolic link points to is written, as `open` would; the link stays.
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".bpetite-{os.urandom(8).hex()}.tmp")
    try:
        _write_file(temporary, data)
        if overwrite:
            with contextlib.suppress(FileNotFoundError):
                os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
            os.replace(temporary, target)
        else:
            _rename_if_free(temporary, target)
    except OSError as error:
        # The name that people know is theirs, not that of the temporary file.
        raise OSError(error.errno, error.strerror, path) from None
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(target.parent)


def _write_file(name: Path, data: bytes) -> None:
    """Make a new file that is whole and on disk.

    On Linux it has no name until then: whatever ends the process, nothing is left behind.
    """
    descriptor = _open_nameless(name.parent)
    if descriptor is not None:
        with open(descriptor, "wb") as file:
            _write_to_disk(file, data)
            with contextlib.suppress(OSError, AttributeError):
                # A src_dir_fd, unused here, makes os.link follow the link in /proc.
                os.link(f"/proc/self/fd/{descriptor}", name, src_dir_fd=descriptor)
                return
    with open(name, "xb") as file:
        _write_to_disk(file, data)


def _open_nameless(folder: Path) -> int | None:
    """Open a new file without a name in `folder`; None where the system has no such thing."""
    if hasattr(os, "O_TMPFILE"):
        # Not every file system can; whatever else is wrong, a named file will meet again.
        with contextlib.suppress(OSError):
            return os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o666)
    return None


def _write_to_disk(file: BinaryIO, data: bytes) -> None:
    file.write(data)
    file.flush()
    os.fsync(file.fileno())


def _rename_if_free(temporary: Path, target: Path) -> None:
    """Give a file the name `target`. Raises FileExistsError if that is taken, since when ever."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise
    except (OSError, AttributeError):
        # No links on this system: take the name first, unless it is taken, and then fill it.
        target.touch(exist_ok=False)
        try:
            os.replace(temporary, target)
        except BaseException:
            target.unlink(missing_ok=True)
            raise


def _sync_folder(folder: Path) -> None:
    """Write the folder's entry to disk too, where a folder can be opened for that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
