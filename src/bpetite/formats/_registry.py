"""Which format a file has, and what reads and writes it."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from bpetite._files import SourceFile, write_files
from bpetite._pretokenizer import Pretokenizer, pattern_of
from bpetite._vocabulary import MAX_ID, Vocabulary, is_encodable
from bpetite._vocabulary_file import read_vocabulary, to_bytes
from bpetite.formats import _gpt2, _huggingface, _tiktoken
from bpetite.formats._home import Home
from bpetite.formats._regular_expressions import from_home

FORMATS = ("bpetite", "tiktoken", "gpt2", "huggingface")

# The file of a model folder that has the vocabulary, in the order in which they are looked for.
_MAIN_FILES = {"tokenizer.json": "huggingface", "vocab.json": "gpt2"}

# What a file of ranks begins with, even if a line or two of it are wrong. No JSON object does.
_RANKS = re.compile(rb"\s*+(?!\{)(?:.*\n){0,9}?[A-Za-z0-9+/]+=* +\d+\s*?(?:\n|$)")

# What every format has of a vocabulary, and what tiktoken's has not, or in another way.
_ALWAYS_SAID = ("byte_ids", "ordinary_tokens", "special_tokens")
_SAID_BY_OTHERS = (
    "merges",
    "merge_ids",
    "ignore_merges",
    "normalizer",
    "kept_special_tokens",
    "prefix_ids",
    "suffix_ids",
)

# The folder in a model folder that has chat templates by their names.
_MORE_TEMPLATES = "additional_chat_templates"

AnyPath = str | os.PathLike[str]


class Loaded(NamedTuple):
    """A vocabulary as it was read, and the library that is home to its format."""

    vocabulary: Vocabulary
    format: str
    home: Home | None
    """None for our own format."""


def read(
    path: AnyPath,
    format: str | None = None,
    pattern: str | None = None,
    special_tokens: Mapping[str, int] | None = None,
    *,
    given: bool = True,
) -> Loaded:
    """Read a vocabulary in the given format, or in the one that its content tells.

    `pattern` and `special_tokens` are for the formats that have none, tiktoken and gpt2; others
    refuse them, unless they are not `given` by anyone, but known from before.

    Raises ValueError for whatever is wrong, naming the file and the place in it; KeyError for a
    missing key of our own format; OSError as it comes.
    """
    _check_format(format)
    if special_tokens is not None:
        special_tokens = _checked_special_tokens(special_tokens)
    path = os.fsdecode(path)
    folder = Path(path) if os.path.isdir(path) else None
    if folder is not None:
        path = folder / _main_file(folder, format)
    file = SourceFile(path)
    data = file.read()
    document: dict[str, Any] = {}
    if format is None and _RANKS.match(data):
        found = "tiktoken"
    elif format == "tiktoken":
        found = format
    else:
        document = file.parse(data)
        found = format or _format_of(document) or _likely_format(document)
    if found in ("tiktoken", "gpt2"):
        if pattern is not None:
            pattern = from_home(pattern_of(pattern), tiktoken=found == "tiktoken")
    elif given:
        for name, value in (("pattern", pattern), ("special_tokens", special_tokens)):
            if value is not None:
                raise ValueError(f"{file.path}: {name} was given, but the file has its own")
    home: Home | None = None
    if found == "tiktoken":
        known = _tiktoken.known_of(data)
        vocabulary = _tiktoken.read(file, data, pattern, special_tokens, known)
        home = _home_of_ranks(
            vocabulary,
            lambda: _tiktoken.home_encode(vocabulary),
            known.probe if known and known.is_of(vocabulary) else None,
        )
    elif found == "gpt2":
        merges_file = SourceFile(_gpt2.merges_path(file.path))
        merges_data = merges_file.read()
        vocabulary = _gpt2.read(file, document, merges_file, merges_data, pattern, special_tokens)
        if folder is not None:
            _check_gpt2_folder(folder, is_pattern_given=pattern is not None)
            vocabulary = replace(vocabulary, settings=_settings(folder, vocabulary))
        home = Home("tokenizers", lambda: _gpt2.home_encode(file.path, vocabulary))
    elif found == "huggingface":
        vocabulary = _huggingface.read(file, document)
        if folder is not None:
            vocabulary = replace(vocabulary, settings=_settings(folder, vocabulary))
        home = Home("tokenizers", lambda: _huggingface.home_encode(data.decode("utf-8")))
    else:
        vocabulary = read_vocabulary(file, document)
    return Loaded(vocabulary, found, home)


def _home_of_ranks(
    vocabulary: Vocabulary,
    make_encode: Callable[[], Callable[[str], list[int]]],
    known_digest: str | None = None,
) -> Home | None:
    if not _matches_all(vocabulary.pattern):
        return None  # tiktoken drops what its pattern does not match: there is nothing to compare
    return Home("tiktoken", make_encode, known_digest)


@lru_cache
def _matches_all(pattern: str) -> bool:
    return Pretokenizer(pattern).matches_all()


def _check_format(format: str | None) -> None:
    if format is not None and format not in FORMATS:
        raise ValueError(f"the format {format!r} is none of {', '.join(FORMATS)}")


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


def _main_file(folder: Path, format: str | None) -> str:
    """Return the name of the file in a folder that has the vocabulary."""
    names = [name for name, its_format in _MAIN_FILES.items() if format in (None, its_format)]
    for name in names:
        if (folder / name).exists():
            return name
    missing = f"no {' and no '.join(names)}" if names else f"nothing has the format {format}"
    raise ValueError(f"{folder}: {missing} in this folder")


def _format_of(document: Mapping[str, Any]) -> str | None:
    """Return the format of a file that is JSON; None if it has none of them, or little of one."""
    if isinstance(document.get("pretokenizer_pattern"), str):
        return "bpetite"
    model = document.get("model")
    if isinstance(model, dict) and "vocab" in model:
        return "huggingface"
    return "gpt2" if _gpt2.seems_to_be(document) else None


def _likely_format(document: Mapping[str, Any]) -> str:
    """Return the format whose error for a file that is none of them will say most."""
    if isinstance(document.get("model"), dict):
        return "huggingface"
    ids = sum(type(value) is int for value in document.values())
    return "gpt2" if ids > len(document) // 2 > 50 else "bpetite"


def _check_gpt2_folder(folder: Path, is_pattern_given: bool) -> None:
    """Refuse a folder whose other files say that GPT-2's two are not all there is to know."""
    if (folder / "added_tokens.json").exists():
        raise ValueError(
            f"{folder}: added_tokens.json has tokens that vocab.json has not; tokenizer.json, as "
            f"Hugging Face's libraries write it, has them all"
        )
    config = folder / "tokenizer_config.json"
    if config.exists() and not is_pattern_given:
        file = SourceFile(config)
        kind = file.parse(file.read()).get("tokenizer_class")
        if kind not in (None, "GPT2Tokenizer", "GPT2TokenizerFast"):
            wanted = "that of GPT-2, or a pattern that is given: the files have none"
            file.refuse("tokenizer_class", kind, wanted)


def _settings(folder: Path, vocabulary: Vocabulary) -> dict[str, str]:
    settings = {}
    config, template = (folder / name for name in ("tokenizer_config.json", "chat_template.jinja"))
    if config.exists():
        file = SourceFile(config)
        settings = _huggingface.read_settings(file, file.parse(file.read()), vocabulary)
    if template.exists():
        file = SourceFile(template)
        settings["chat_template"] = file.text(file.read())
    if not settings.get("chat_template", "none"):
        del settings["chat_template"]  # an empty one is what `write` leaves for none
    for named in sorted((folder / _MORE_TEMPLATES).glob("*.jinja")):
        file = SourceFile(named)
        settings[f"chat_template.{named.stem}"] = file.text(file.read())
    return settings


def recognise(path: AnyPath) -> str | None:
    """Return which of FORMATS a file or a folder has, None if it seems to have none of them.

    Only the content is looked at; that nothing is wrong in it, only `Tokenizer.load` can tell.

    Raises OSError as the system has it.
    """
    if os.path.isdir(path):
        try:
            path = Path(path) / _main_file(Path(path), None)
        except ValueError:
            return None
    file = SourceFile(path)
    try:
        data = file.read()
        if _tiktoken.seems_to_be(data):
            return "tiktoken"
        return _format_of(file.parse(data))
    except ValueError:
        return None


def from_encoding(encoding: object) -> Loaded:
    """Return the vocabulary of a `tiktoken.Encoding`, which is its own home."""
    vocabulary = _tiktoken.from_encoding(encoding)
    home = _home_of_ranks(vocabulary, lambda: _tiktoken.encode_with(encoding))
    return Loaded(vocabulary, "tiktoken", home)


def write(
    vocabulary: Vocabulary, path: AnyPath, overwrite: bool = False, format: str | None = None
) -> None:
    """Write a vocabulary in the given format, or in the one that the path tells.

    Raises ValueError if the format cannot say the vocabulary, or its library would give other ids;
    FileExistsError for a file that is there, unless `overwrite`; other OSErrors as they come.
    """
    _check_format(format)
    name = os.fsdecode(path)
    found = format or format_of_path(name)
    if found == "huggingface" and (os.path.isdir(name) or not name.endswith(".json")):
        files = _model_folder(vocabulary, name)
        os.makedirs(name, exist_ok=True)
    else:
        files = _files(vocabulary, name, found)
    if found == "tiktoken" and not _matches_all(vocabulary.pattern):
        warnings.warn(
            "tiktoken drops the text that a pattern does not match, and this one does not "
            "match all; bpetite keeps it",
            stacklevel=3,
        )
    write_files(files, overwrite)


def _files(vocabulary: Vocabulary, name: str, format: str) -> dict[str, bytes]:
    """Return the files that say a vocabulary, once it is read back from them."""
    if format == "bpetite":
        return {name: to_bytes(vocabulary)}
    file = SourceFile(name)
    if format == "tiktoken":
        data = _tiktoken.to_bytes(vocabulary)
        read_back = _tiktoken.read(file, data, vocabulary.pattern, vocabulary.special_tokens)
        _tiktoken.check_read_back(vocabulary, read_back)
        _check_equal(vocabulary, read_back, name, _ALWAYS_SAID)
        return {name: data}
    if format == "gpt2":
        merges_file = SourceFile(_gpt2.merges_path(name))
        data, merges_data = _gpt2.to_files(vocabulary)
        read_back = _gpt2.read(file, file.parse(data), merges_file, merges_data, None, None)
        files = {name: data, merges_file.path: merges_data}
    else:
        data = _huggingface.json_bytes(vocabulary)
        read_back = _huggingface.read(file, file.parse(data))
        files = {name: data}
    _check_equal(vocabulary, read_back, name, (*_ALWAYS_SAID, *_SAID_BY_OTHERS))
    if _spelled_alike(vocabulary) != _spelled_alike(read_back):
        raise ValueError(f"{name}: this format would have other patterns")
    return files


def _model_folder(vocabulary: Vocabulary, folder: str) -> dict[str, bytes]:
    files = _files(vocabulary, os.path.join(folder, "tokenizer.json"), "huggingface")
    config = SourceFile(os.path.join(folder, "tokenizer_config.json"))
    data = _huggingface.config_bytes(vocabulary)
    if _huggingface.read_settings(config, config.parse(data), vocabulary) != vocabulary.settings:
        raise ValueError(f"{config.path}: it cannot have all of {dict(vocabulary.settings)}")
    files[config.path] = data
    if list(Path(folder, _MORE_TEMPLATES).glob("*.jinja")):
        raise ValueError(f"{folder}: the {_MORE_TEMPLATES} in it would count for this vocabulary")
    template = os.path.join(folder, "chat_template.jinja")
    if os.path.exists(template):  # it would count for more than what the other file says
        files[template] = vocabulary.settings.get("chat_template", "").encode()
    return files


def _check_equal(
    vocabulary: Vocabulary, read_back: Vocabulary, name: str, fields: Iterable[str]
) -> None:
    for field in fields:
        if getattr(vocabulary, field) != getattr(read_back, field):
            raise ValueError(f"{name}: this format would have other {field.replace('_', ' ')}")


def _spelled_alike(vocabulary: Vocabulary) -> list[str]:
    """Return the patterns as they are spelled when they are read, without one that cuts nothing."""
    patterns = (vocabulary.pattern, *vocabulary.more_patterns)
    return [from_home(pattern) for pattern in patterns if pattern != _huggingface.EVERYTHING]


def format_of_path(path: AnyPath) -> str:
    """Return the format that a path to write tells; that of a folder ends in a slash, or is there.

    >>> [format_of_path(name) for name in ("m.json", "m.tiktoken", "tokenizer.json", "vocab.json")]
    ['bpetite', 'tiktoken', 'huggingface', 'gpt2']
    """
    name = Path(path).name
    is_folder = os.path.isdir(path) or os.fspath(path).endswith(("/", os.sep))
    if name.endswith(".tiktoken") and not is_folder:
        return "tiktoken"
    if name == "tokenizer.json" or is_folder:
        return "huggingface"
    return "gpt2" if name == "vocab.json" else "bpetite"
