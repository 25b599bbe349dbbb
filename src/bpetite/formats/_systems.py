"""How Windows and macOS treat files: names, long paths, files in use, and writing to disk."""

from __future__ import annotations

import contextlib
import errno
import ntpath
import os
import re
import sys
import time
import unicodedata
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

IS_WINDOWS = os.name == "nt"
IGNORES_CASE = sys.platform in ("win32", "darwin")

_IN_USE_SECONDS = 1.0
"""How long to try again while another program, such as a virus scanner, has a file open."""

_MAX_PATH = 259
"""The characters that Windows takes in a path, unless the path begins with `_ANY_LENGTH`."""

_ANY_LENGTH = "\\\\?\\"

_ADDED_CHARACTERS = 80
"""At least the length of the longest name that bpetite makes next to or below a given path."""

_DEVICES = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[1-9¹²³]) *(\..*)?", re.I)
_NOT_IN_NAMES = re.compile(r'[<>:"|?*\x00-\x1f]|[. ]$')


def check_name(path: str) -> None:
    """On Windows, raise OSError for a path whose last part cannot be the name of a file."""
    name = ntpath.basename(path)
    if IS_WINDOWS and (_DEVICES.fullmatch(name) or _NOT_IN_NAMES.search(name)):
        reason = (
            "not a valid file name on Windows; avoid device names such as nul and aux, the "
            'characters < > : " | ? *, and a dot or a space at the end'
        )
        raise OSError(errno.EINVAL, reason, path)


def reachable(path: str) -> str:
    """Return a path by which the system reaches a file, and the files that bpetite puts next to it.

    On Windows, a long path begins with a mark, and then is absolute and has no slashes.
    """
    if not IS_WINDOWS or path.startswith(_ANY_LENGTH):
        return path
    full = os.path.abspath(path)
    if len(full) + _ADDED_CHARACTERS <= _MAX_PATH:
        return path
    return f"{_ANY_LENGTH}UNC{full[1:]}" if full.startswith("\\\\") else _ANY_LENGTH + full


def file_key(path: str | os.PathLike[str]) -> str:
    """Return a text that is equal for two paths of one file, whether or not it exists.

    Windows and macOS take two names for one if they differ only in case or in the form of Unicode.
    """
    real = os.path.realpath(path)
    return unicodedata.normalize("NFC", real).casefold() if IGNORES_CASE else real


def replace(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Rename a file in one step; a file of the new name is replaced."""
    repeated(os.replace, source, target)


def repeated(action: Callable[P, R], *arguments: P.args, **options: P.kwargs) -> R:
    """Repeat an action that Windows may refuse for a moment, for a second at most.

    Windows refuses to rename a file that a program has open, and to open one while it is replaced.
    """
    last_attempt = time.monotonic() + _IN_USE_SECONDS
    while True:
        try:
            return action(*arguments, **options)
        except PermissionError:
            if not IS_WINDOWS or time.monotonic() > last_attempt:
                raise
        time.sleep(0.01)


def sync(descriptor: int) -> None:
    if sys.platform == "darwin":
        # fsync would leave the bytes in the cache of the disk, which is all some file systems do.
        with contextlib.suppress(OSError):
            import fcntl

            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)
