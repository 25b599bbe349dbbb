"""Files in and out: reading has a bound, and no file is ever half written."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from bpetite._pretokenizer import portable_pattern, shown_pattern
from bpetite._unicode.byte_characters import to_bytes
from bpetite._vocabulary import MAX_ID, is_encodable, lazy_property
from bpetite.formats._systems import IS_WINDOWS, check_name, reachable, repeated, replace, sync

MAX_FILE_BYTES = 256 * 1024 * 1024
"""The bytes that a file may have. A vocabulary of a million tokens takes some 40 MB."""

_CHUNK_BYTES = 1 << 20

ALL_IDS = range(MAX_ID + 1)

MISSING = object()
"""The value of a field that a file lacks, for `SourceFile.refuse`."""


class SourceFile:
    """A file to read; `data` gives its content. Errors name file, path of the value, and value."""

    def __init__(self, path: str | os.PathLike[str], data: bytes | None = None) -> None:
        self.path = os.fspath(path)
        self._version: tuple[int, ...] = ()
        if data is not None:
            self.data = data

    def refuse(self, path: str, value: object, wanted: str) -> NoReturn:
        """Raise a ValueError that says where the fault is, what is right, and what is there."""
        given = "but it is missing" if value is MISSING else f"got {shown(value)}"
        raise ValueError(f"{self.path}: {path}: expected {wanted}, {given}")

    def checked_object(self, value: object, path: str, wanted: str = "an object") -> dict[str, Any]:
        """Return a JSON object, or refuse any other value."""
        if not isinstance(value, dict):
            self.refuse(path, value, wanted)
        return value

    def checked_list(self, value: object, path: str) -> list[Any]:
        """Return a list, or refuse any other value."""
        if not isinstance(value, list):
            self.refuse(path, value, "a list")
        return value

    def checked_string(self, value: object, path: str, wanted: str = "a string in Unicode") -> str:
        """Return a string without lone surrogates, or refuse any other value."""
        if not isinstance(value, str) or not is_encodable(value):
            self.refuse(path, value, wanted)
        return value

    def checked_pattern(self, value: object, path: str) -> str:
        """Return a portable pattern, or refuse any other value."""
        pattern = self.checked_string(value, path)
        try:
            portable = portable_pattern(pattern)
        except ValueError as error:
            reason = str(error).replace(f"the pattern {shown_pattern(pattern)}", "it")
            self.refuse(path, pattern, f"a portable pattern ({reason[:160]})")
        if portable != pattern:
            self.refuse(path, pattern, "the pattern itself, not its name")
        return pattern

    def check_value(self, value: object, path: str, *allowed: object) -> None:
        """Refuse any value but `allowed`; unlike in Python, true is not 1."""
        if value not in allowed or type(value) not in map(type, allowed):
            self.refuse(path, value, " or ".join(map(json.dumps, allowed)))

    def check_fields(
        self, given: dict[str, Any], path: str, others: str, **allowed: tuple[object, ...]
    ) -> None:
        """Refuse an unknown field, which may change ids, and a value that is not allowed.

        `others` names the fields with a check of their own. A missing field is null.
        """
        for field in given:
            if field not in allowed and field not in others.split():
                known = " ".join([others, *allowed])
                self.refuse(path or "the file", field, f"no other fields than {known}")
        prefix = path and f"{path}."
        for field, values in allowed.items():
            value = given.get(field, None if None in values else MISSING)
            self.check_value(value, f"{prefix}{field}", *values)

    def check_ids(self, ids: Mapping[Any, Any], path: str = "", allowed: range = ALL_IDS) -> None:
        """Refuse a value outside `allowed`, and one that two keys have."""
        values = ids.values()
        are_ids = set(map(type, values)) == {int} and min(values) in allowed
        if are_ids and max(values) in allowed and len(set(values)) == len(values):
            return
        first_of: dict[int, object] = {}
        for key, id in ids.items():
            id_path = f"{path}[{shown(key)}]"
            if type(id) is not int or id not in allowed:
                self.refuse(id_path, id, f"an id from {allowed.start} to {allowed.stop - 1}")
            if (first := first_of.setdefault(id, key)) != key:
                self.refuse(id_path, id, f"an id of its own; {shown(first)} has it too")

    def token_bytes(self, text: str, path: str = "") -> bytes:
        """Return the bytes that the characters of a token, a key at `path`, stand for."""
        try:
            return to_bytes(text)
        except ValueError as error:
            raise ValueError(f"{self.path}: {path}[{shown(text)}]: {error}") from None

    @contextlib.contextmanager
    def path_in_errors(self, part: str = "") -> Iterator[None]:
        """Put the path, and the path of a part of the file, before a ValueError's message."""
        try:
            yield
        except ValueError as error:
            raise ValueError(f"{self.path}: {part}{error}") from None

    @lazy_property
    def data(self) -> bytes:
        """The whole file, read once. ValueError if it is too large, OSErrors from the system."""
        with open(reachable(self.path), "rb") as file:
            self._version = _version(os.fstat(file.fileno()))
            chunks = iter(partial(file.read, _CHUNK_BYTES), b"")
            try:
                data = b"".join(islice(chunks, MAX_FILE_BYTES // _CHUNK_BYTES + 1))
            except OSError as error:
                error.filename = self.path  # the system names no file in an error of a read
                raise
        if len(data) > MAX_FILE_BYTES:
            reason = f"larger than {MAX_FILE_BYTES} bytes, so this is not a vocabulary file"
            raise ValueError(f"{self.path}: {reason}")
        return data

    def check_unchanged(self) -> None:
        """Raise ValueError if the file was replaced since: other files may be new too."""
        with contextlib.suppress(FileNotFoundError):
            if _version(os.stat(reachable(self.path))) == self._version:
                return
        raise ValueError(f"{self.path}: another program replaced this file; load it again")

    def text(self) -> str:
        """Return the content as text; raise ValueError if it is not UTF-8."""
        try:
            return self.data.decode("utf-8")
        except UnicodeDecodeError as error:
            reason = f"not UTF-8 at byte {error.start} ({error.reason})"
            raise ValueError(f"{self.path}: {reason}") from None

    @lazy_property
    def document(self) -> dict[str, Any]:
        """The content as a JSON object; ValueError if it is not one."""
        text = self.text()
        if text.startswith("\ufeff"):
            reason = "it begins with a byte order mark, so save it as UTF-8 without one"
            raise ValueError(f"{self.path}: not JSON: {reason}")
        try:
            document = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
        except RecursionError:
            raise ValueError(f"{self.path}: nested too deeply") from None
        except ValueError as error:
            reason = "not JSON: " if isinstance(error, json.JSONDecodeError) else ""
            raise ValueError(f"{self.path}: {reason}{error}") from None
        return self.checked_object(document, "the file", "a JSON object")


def file_in_folder(path: Path) -> SourceFile:
    """Return a file that was found in a folder, and that no user named.

    Raises ValueError for a pipe or a device, because reading it might never end.
    """
    check_found(path)
    return SourceFile(path)


def check_found(path: Path) -> None:
    """Raise ValueError for a pipe or a device that no user named, as in `file_in_folder`."""
    try:
        mode = path.stat().st_mode  # asked once, because another process may replace the file
    except OSError:
        return  # whoever reads it raises this error
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise ValueError(f"{path}: not a file but a pipe or a device; replace it by a file")


def _version(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {shown(twice)} is given twice")
    return entries


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def shown(value: object) -> str:
    """Return a value as JSON, cut short for an error message."""
    try:
        text = json.dumps(value)
    except RecursionError:
        return "something nested deeply"
    return text if len(text) <= 80 else text[:77] + "..."


def write_files(files: Mapping[str, bytes], overwrite: bool = False) -> None:
    """Write files, given by their paths: all of them or, after an error, none.

    The first is the main file, which readers open first. Two savers of the same files take turns.

    Raises FileExistsError if a file exists, unless `overwrite`; ValueError if a file is larger
    than `SourceFile` accepts; other OSErrors from the system, with the caller's path.
    """
    for path, data in files.items():
        if len(data) > MAX_FILE_BYTES:
            raise ValueError(f"{path} would take {len(data)} bytes, more than load would read")
        check_target(path, overwrite)
    new_files = [_NewFile(path, overwrite) for path in files]
    with contextlib.ExitStack() as cleanup:
        for new_file, data in zip(new_files, files.values(), strict=True):
            cleanup.callback(new_file.temporary.unlink, missing_ok=True)
            with new_file.writer() as file:
                file.write(data)
        if len(new_files) == 1:
            new_files[0].put_in_place()
        else:
            with _locked(new_files[0].target.parent):
                _put_in_place_together(*new_files)


@contextlib.contextmanager
def new_file(path: str, overwrite: bool = False) -> Iterator[BinaryIO]:
    """Open a file of any size to write. It appears whole at the end, or not at all after an error.

    >>> import pathlib, tempfile
    >>> path = str(pathlib.Path(tempfile.mkdtemp()) / "ids.bin")
    >>> with new_file(path) as file:
    ...     file.write(b"ids")
    3
    >>> pathlib.Path(path).read_bytes()
    b'ids'

    Raises FileExistsError if the file exists, unless `overwrite`; other OSErrors from the system,
    with the caller's path.
    """
    check_target(path, overwrite)
    new = _NewFile(path, overwrite)
    try:
        with new.writer() as file:
            yield file
        new.put_in_place()
    finally:
        new.temporary.unlink(missing_ok=True)


def check_target(path: str, overwrite: bool) -> None:
    """Raise OSError if a file of this name exists that must not be replaced, or cannot be.

    On Windows, OSError also for a name that no file can have.
    """
    check_name(path)
    try:
        mode = os.stat(reachable(path)).st_mode
    except OSError:
        return  # no such file, or an error that the new file meets again
    if not overwrite:
        raise OSError(errno.EEXIST, "exists; overwriting it was not asked for", path)
    if not stat.S_ISREG(mode):
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(code, "exists, and is not a file that can be replaced", path)
    if IS_WINDOWS and not mode & stat.S_IWRITE:
        raise OSError(errno.EACCES, "is read-only; choose another path, or allow writing", path)


class _NewFile:
    """A file on its way to its place; its errors have the caller's path."""

    def __init__(self, path: str, overwrite: bool) -> None:
        self._path = path
        self._overwrite = overwrite
        # Write through a symbolic link, as `open` would; the link stays.
        self.target = Path(reachable(os.path.realpath(path)))
        prefix = f".bpetite-{os.urandom(8).hex()}"
        self.temporary = self.target.with_name(f"{prefix}.tmp")
        self.old = self.target.with_name(f"{prefix}.old")

    @contextlib.contextmanager
    def writer(self) -> Iterator[BinaryIO]:
        """Open the file under its temporary name; at the end, it is on disk as a whole.

        An error of the caller stays as it is, unless it is an OSError without a path.
        """
        try:
            with _created(self.temporary) as file:
                yield file
            # Keep the mode of the file that this one replaces. On Windows, all have one mode.
            if self._overwrite and not IS_WINDOWS:
                with contextlib.suppress(FileNotFoundError):
                    os.chmod(self.temporary, stat.S_IMODE(self.target.stat().st_mode))
        except OSError as error:
            if error.filename not in (None, str(self.temporary), str(self.target)):
                raise
            raise OSError(error.errno, error.strerror, self._path) from None

    def put_in_place(self) -> None:
        """Give the file its name, in one step."""
        with self._caller_path_in_errors():
            if self._overwrite:
                replace(self.temporary, self.target)
            else:
                _rename_if_free(self.temporary, self.target)
        sync_folder(self.target.parent)

    def move_old_aside(self) -> None:
        """Rename the file to replace, if there is one."""
        if self._overwrite:
            with self._caller_path_in_errors(), contextlib.suppress(FileNotFoundError):
                repeated(os.rename, self.target, self.old)
                sync_folder(self.target.parent)

    def move_old_back(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            replace(self.old, self.target)

    @contextlib.contextmanager
    def _caller_path_in_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._path) from None


def _put_in_place_together(main: _NewFile, *others: _NewFile) -> None:
    """Replace several files so that no reader takes an old file and a new one for a pair.

    The old main file disappears first, and the new one appears last:

        vocab.json   old  -    -    new     A killed saver leaves a pair or no vocab.json; a reader
        merges.txt   old  old  new  new     checks at the end that its vocab.json is still there.
    """
    with contextlib.ExitStack() as undo:  # after an error, backwards
        for each in (main, *others):
            undo.callback(each.move_old_back)
            each.move_old_aside()
        for each in (*others, main):
            each.put_in_place()
            undo.callback(each.target.unlink, missing_ok=True)
        undo.pop_all()
    for each in (main, *others):
        with contextlib.suppress(OSError):  # the new files are in place: no reason to fail
            each.old.unlink()


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other savers of several files out of a folder, on systems that can lock one."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            descriptor = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Closing it is not enough, since a child that was forked meanwhile shares the lock.
            stack.callback(fcntl.flock, descriptor, fcntl.LOCK_UN)
        yield


@contextlib.contextmanager
def _created(name: Path) -> Iterator[BinaryIO]:
    """Create a file to write; at the end, it is on disk as a whole.

    On Linux it has no name until then, so that even a killed process leaves no file.
    """
    descriptor = _open_nameless(name.parent)
    if descriptor is None:
        with open(name, "xb") as file:
            yield file
            _sync_file(file)
        return
    with open(descriptor, "w+b") as nameless:
        yield nameless
        _sync_file(nameless)
        with contextlib.suppress(OSError, AttributeError):
            # An unused src_dir_fd makes os.link follow the link in /proc.
            os.link(f"/proc/self/fd/{descriptor}", name, src_dir_fd=descriptor)
            return
        nameless.seek(0)
        with open(name, "xb") as file:
            import shutil  # imported here, since few programs need it

            shutil.copyfileobj(nameless, file)
            _sync_file(file)


def _open_nameless(folder: Path) -> int | None:
    """Open a new file without a name in `folder`; None if the system cannot."""
    # Not every file system can. A named file meets any other error again.
    with contextlib.suppress(OSError, AttributeError):
        return os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o666)
    return None


def _sync_file(file: BinaryIO) -> None:
    file.flush()
    sync(file.fileno())


def _rename_if_free(temporary: Path, target: Path) -> None:
    """Give a file the name `target`.

    Raises FileExistsError if `target` exists, even if it was created a moment ago.
    """
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise
    except (OSError, AttributeError):
        # Without hard links: create an empty file of that name, if it is free, and replace it.
        target.touch(exist_ok=False)
        try:
            replace(temporary, target)
        except BaseException:
            target.unlink(missing_ok=True)
            raise


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to disk, if the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
