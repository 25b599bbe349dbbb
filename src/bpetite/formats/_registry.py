"""The list of formats: which one a file has, and which one a path asks for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path

from bpetite._vocabulary import MAX_ID, Vocabulary, is_encodable
from bpetite.formats._bpetite import Bpetite
from bpetite.formats._files import SourceFile, file_in_folder, write_files
from bpetite.formats._format import Format, Source
from bpetite.formats._gpt2 import Gpt2
from bpetite.formats._huggingface import HuggingFace
from bpetite.formats._others import check_beginning, refuse_object
from bpetite.formats._reference import Reference
from bpetite.formats._sentencepiece import SentencePiece
from bpetite.formats._tekken import Tekken
from bpetite.formats._tiktoken import Tiktoken

# The first is the default. A file, a folder or a path to write is offered to the last one first.
_FORMATS: tuple[Format, ...] = (
    Bpetite(),
    Tiktoken(),
    Gpt2(),
    SentencePiece(),
    Tekken(),
    HuggingFace(),
)
_BY_NAME = {each.name: each for each in _FORMATS}
_JSON = [each for each in reversed(_FORMATS) if each.is_json]
_NOT_JSON = [each for each in reversed(_FORMATS) if not each.is_json]

FORMATS = tuple(_BY_NAME)

_BEGINNING_BYTES = 1 << 16


def read(
    path: str | os.PathLike[str],
    format: str | None = None,
    pattern: str | None = None,
    special_tokens: Mapping[str, int] | None = None,
    *,
    given: bool = True,
) -> tuple[Vocabulary, Reference | None]:
    """Read a vocabulary in the given format, or in the one that the content shows.

    The second value is the library that owns the format; None without one.

    `pattern` and `special_tokens` are for formats whose files lack them. For other formats they
    are an error, unless `given` is false: then they repeat what the file says.

    Raises ValueError for every fault, naming the file and the place in it; KeyError for a missing
    key of our own format; OSError from the system.
    """
    chosen = None if format is None else _chosen(format)
    if special_tokens is not None:
        special_tokens = _checked_special_tokens(special_tokens)
    path = os.fsdecode(path)
    folder = Path(path) if os.path.isdir(path) else None
    file = SourceFile(path) if folder is None else _main_file(folder, format)
    chosen = chosen or _recognised(file)
    if chosen.has_pattern and given:
        for name, value in (("pattern", pattern), ("special_tokens", special_tokens)):
            if value is not None:
                raise ValueError(
                    f"{file.path}: {name} was given, but the file has its own; leave it out"
                )
    return chosen.read(Source(file, folder, pattern, special_tokens))


def _chosen(format: str) -> Format:
    if format not in _BY_NAME:
        raise ValueError(f"the format {format!r} is none of {', '.join(FORMATS)}")
    return _BY_NAME[format]


def _checked_special_tokens(special_tokens: Mapping[str, int]) -> dict[str, int]:
    if not isinstance(special_tokens, Mapping):
        raise TypeError(
            f"special_tokens must be a mapping of literals to ids, got "
            f"{type(special_tokens).__name__}"
        )
    for literal, id in special_tokens.items():
        if not isinstance(literal, str) or not literal or not is_encodable(literal):
            raise ValueError(f"the special token {literal!r} is not a text, or is empty")
        if type(id) is not int or not 0 <= id <= MAX_ID:
            raise ValueError(f"the id {id!r} of {literal!r} is not from 0 to {MAX_ID}")
    return dict(special_tokens)


def _main_file(folder: Path, format: str | None) -> SourceFile:
    formats = (each for each in reversed(_FORMATS) if format in (None, each.name))
    names = [name for each in formats for name in each.folder_files]
    for name in names:
        found = sorted(path for path in folder.glob(name) if not path.is_dir())
        if len(found) > 1:
            shown = " and ".join(path.name for path in found)
            raise ValueError(f"{folder}: {shown} are in this folder; name the one to load")
        if found:
            return file_in_folder(found[0])
    missing = f"no {', no '.join(names)}" if names else f"nothing has the format {format}"
    raise ValueError(f"{folder}: {missing} in this folder")


def _recognised(file: SourceFile) -> Format:
    """Return the format of a file, or the one whose error will help most.

    Raises ValueError for a file of another kind.
    """
    check_beginning(file)
    not_json = (each for each in _NOT_JSON if each.is_likely(file))
    certain = (each for each in _JSON if each.is_certain(file))
    likely = (each for each in _JSON if each.is_likely(file))
    return next(chain(not_json, certain, likely), None) or refuse_object(file)


def recognise(path: str | os.PathLike[str]) -> str | None:
    """Return which of FORMATS a file or a folder seems to have, None if none.

    Only the content counts. Whether the file is valid, only `Tokenizer.load` tells.

    Raises OSError from the system.
    """
    try:
        if os.path.isdir(path):
            path = _main_file(Path(path), None).path
        if _is_plain_text(path):
            return None
        file = SourceFile(path)
        found = _recognised(file)
    except ValueError:
        return None
    return found.name if found.is_certain(file) else None


def _is_plain_text(path: str | os.PathLike[str]) -> bool:
    """Return whether the beginning of a file shows that it has none of FORMATS."""
    if not os.path.isfile(path):
        return False  # a pipe can be read only once
    with open(path, "rb") as file:
        beginning = file.read(_BEGINNING_BYTES)
    start = beginning.lstrip(b" \t\r\n")
    if not start or start.startswith(b"{") or b"\n" not in beginning:
        return False
    return not any(each.is_likely(SourceFile(path, beginning)) for each in _NOT_JSON)


def write(
    vocabulary: Vocabulary,
    path: str | os.PathLike[str],
    overwrite: bool = False,
    format: str | None = None,
) -> None:
    """Write a vocabulary in the given format, or in the one that the path asks for.

    Raises ValueError if the format cannot hold the vocabulary, or its library would give other
    ids; FileExistsError for an existing file, unless `overwrite`; OSError from the system.
    """
    name = os.fsdecode(path)
    files = _chosen(format_of_path(name) if format is None else format).files(vocabulary, name)
    if name not in files:
        os.makedirs(name, exist_ok=True)
    write_files(files, overwrite)


def format_of_path(path: str | os.PathLike[str]) -> str:
    """Return the format that a path to write asks for. A folder exists, or ends in a slash.

    >>> [format_of_path(name) for name in ("m.json", "m.tiktoken", "tokenizer.json", "vocab.json")]
    ['bpetite', 'tiktoken', 'huggingface', 'gpt2']
    """
    path = os.fsdecode(path)
    is_folder = os.path.isdir(path) or path.endswith(("/", os.sep))
    name = Path(path).name
    return next(
        each.name
        for each in reversed(_FORMATS)
        if (each.writes_folders if is_folder else fnmatchcase(name, each.file_name))
    )
