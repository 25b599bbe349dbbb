"""The rules of Windows for files, on Linux: names, long paths, open files, folders and newlines."""

from __future__ import annotations

import builtins
import errno
import io
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable
from typing import Any, BinaryIO

import pytest

from bpetite.formats import _files, _systems

MAX_PATH = 259
ANY_LENGTH = "\\\\?\\"

needs_proc = pytest.mark.skipif(
    not os.path.isdir("/proc/self/fd"), reason="the open files of a process are listed in /proc"
)


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the functions of the system follow the rules of Windows."""
    for module in (_files, _systems):
        monkeypatch.setattr(module, "IS_WINDOWS", True)
    monkeypatch.setattr(_systems, "IGNORES_CASE", True)
    monkeypatch.setattr(_systems, "_IN_USE_SECONDS", 0.3)
    for name in ("O_TMPFILE", "fork", "register_at_fork", "sched_getaffinity", "geteuid"):
        monkeypatch.delattr(os, name, raising=False)
    for name in ("fcntl", "resource", "pwd", "grp", "termios"):
        monkeypatch.setitem(sys.modules, name, None)
    names = ("stat", "lstat", "mkdir", "rmdir", "listdir", "chmod", "utime", "access")
    for name in names:
        monkeypatch.setattr(os, name, _by_path(getattr(os, name), _nothing))
    for name in ("replace", "rename", "unlink", "remove"):
        monkeypatch.setattr(os, name, _by_path(getattr(os, name), _refuse_in_use))
    for name, check in (("link", _nothing), ("open", _refuse_folder)):
        monkeypatch.setattr(os, name, _by_path(getattr(os, name), check))
    monkeypatch.setattr(os, "scandir", _Entries)
    opened = _opener(io.open)
    monkeypatch.setattr(builtins, "open", opened)
    monkeypatch.setattr(io, "open", opened)
    abspath = os.path.abspath
    is_absolute = (ANY_LENGTH, "/")
    monkeypatch.setattr(
        os.path,
        "abspath",
        lambda path: path if str(path).startswith(is_absolute) else abspath(path),
    )
    realpath = os.path.realpath

    def with_prefix(path: Any, **options: Any) -> Any:
        name = os.fspath(path)
        is_long = name.startswith(ANY_LENGTH)
        return is_long * ANY_LENGTH + realpath(name.removeprefix(ANY_LENGTH), **options)

    monkeypatch.setattr(os.path, "realpath", with_prefix)
    monkeypatch.setattr(shutil, "_use_fd_functions", False)
    if hasattr(shutil, "_rmtree_impl"):  # since Python 3.14
        monkeypatch.setattr(shutil, "_rmtree_impl", vars(shutil)["_rmtree_unsafe"])
    monkeypatch.setattr(tempfile, "_rmtree_use_dir_fd", False, raising=False)
    monkeypatch.setattr(tempfile, "TemporaryFile", _temporary_file)


def found(path: Any) -> Any:
    """Return the path by which Linux finds a file that Windows would find.

    Raises FileNotFoundError for a path that is too long, and OSError for a wrong name.
    """
    if not isinstance(path, (str, os.PathLike)):
        return path
    name = os.fspath(path)
    if name.startswith(ANY_LENGTH):
        name = name.removeprefix(ANY_LENGTH)
    elif len(os.path.join(os.getcwd(), name)) > MAX_PATH:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    folder, last = os.path.split(name)
    if set(last) & set('<>:"|?*'):
        error: Any = OSError(errno.EINVAL, os.strerror(errno.EINVAL), name)
        error.winerror = 123  # pathlib asks for it
        raise error
    try:
        others = _listdir(folder or ".")
    except OSError:
        return name
    if last in others:
        return name
    return next(
        (os.path.join(folder, each) for each in others if each.casefold() == last.casefold()), name
    )


_listdir, _open, _stat, _unlink = os.listdir, os.open, os.stat, os.unlink
_scandir = os.scandir


class _Entry:
    """An entry of a folder, whose path begins with the folder's path as it was given."""

    def __init__(self, entry: os.DirEntry[str], folder: str) -> None:
        self._entry = entry
        self.path = os.path.join(folder, entry.name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._entry, name)


class _Entries:
    """What `os.scandir` returns."""

    def __init__(self, folder: Any = ".") -> None:
        self._folder = os.fspath(folder)
        self._entries = _scandir(found(folder))

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> _Entries:
        return self

    def __next__(self) -> _Entry:
        return _Entry(next(self._entries), self._folder)

    def close(self) -> None:
        self._entries.close()


def _temporary_file(dir: Any = None) -> BinaryIO:
    """Return a file that no other program sees."""
    path = os.path.join(found(dir), os.urandom(8).hex())
    descriptor = _open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    _unlink(path)
    return os.fdopen(descriptor, "w+b")


def _by_path(function: Callable[..., Any], check: Callable[[Any], None]) -> Callable[..., Any]:
    def called(*arguments: Any, **options: Any) -> Any:
        is_pair = function.__name__ in ("replace", "rename", "link")
        paths = [*map(found, arguments[: 1 + is_pair])]
        for path in paths:
            check(path)
        return function(*paths, *arguments[1 + is_pair :], **options)

    called.__name__ = function.__name__
    return called


def _opener(function: Callable[..., Any]) -> Callable[..., Any]:
    def opened(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if "b" not in mode and not arguments:
            options.setdefault("encoding", "cp1252")
            if "r" not in mode and options.get("newline") is None:
                options["newline"] = "\r\n"
        return function(found(file), mode, *arguments, **options)

    return opened


def _nothing(_path: Any) -> None:
    pass


def _refuse_folder(path: Any) -> None:
    if os.path.isdir(path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


def _refuse_in_use(path: Any) -> None:
    """Raise PermissionError for a file that this process has open or mapped, or is read-only."""
    try:
        status = _stat(path)
    except OSError:
        return
    if stat.S_ISDIR(status.st_mode):
        return
    if is_in_use(status) or not status.st_mode & stat.S_IWRITE:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


def is_in_use(status: os.stat_result) -> bool:
    """Return whether this process has a file open; a mapping keeps a descriptor open too."""
    for descriptor in _listdir("/proc/self/fd"):
        try:
            present = os.fstat(int(descriptor))
        except OSError:
            continue
        if os.path.samestat(present, status):
            return True
    return False
