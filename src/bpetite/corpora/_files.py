"""Paths, folders and globs in, files in order out."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable

from bpetite.corpora import _storage as storage
from bpetite.corpora._inputs import format_by_name
from bpetite.corpora._inputs.source import STANDARD_INPUT

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def listed(paths: Paths, has_format: bool) -> list[str]:
    """Return the files that paths, folders and globs name.

    The order is that of `paths`. The files of a folder or a glob are sorted. `has_format` says that
    the user has named the format. Raises OSError for a path or a glob without a file.
    """
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    if isinstance(paths, (bytes, bytearray)) or not isinstance(paths, Iterable):
        raise TypeError(f"paths must be a path or several, got {type(paths).__name__}")
    found: list[str] = []
    for path in paths:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"a path must be a str or a path, got {type(path).__name__}")
        name = os.fspath(path)
        if not isinstance(name, str):
            raise TypeError(f"a path must be a str or a path, got {type(name).__name__}")
        found += _named(name, has_format)
    return found


def _named(path: str, has_format: bool) -> list[str]:
    if path == STANDARD_INPUT:
        return [path]
    matches = storage.matching(path)
    files: list[str] = []
    for match in matches:
        if not storage.is_folder(match):
            files.append(match)
        elif "**" not in path or match == path:  # otherwise the files of the folder match too
            files += _in_folder(match, has_format)
    if not files:
        raise FileNotFoundError(errno.ENOENT, "no file matches", storage.public(path))
    return files


def _in_folder(folder: str, has_format: bool) -> list[str]:
    """Return the files of a folder and its folders, sorted, without hidden ones."""
    files = storage.files_below(folder)
    if not files:
        raise FileNotFoundError(errno.ENOENT, "the folder has no files", storage.public(folder))
    formats = {path: format_by_name(path) for path in files}
    structured = {*formats.values()} - {None, "text"}
    unknown = next((path for path, format in formats.items() if format is None), None)
    if structured and unknown and not has_format:
        kinds = "/".join(sorted(map(str, structured)))
        raise ValueError(
            f"{storage.public(unknown)}: the folder {storage.public(folder)} has {kinds} files, "
            f"and the name of this one does not tell its format; name the files, or use a glob"
        )
    return files
