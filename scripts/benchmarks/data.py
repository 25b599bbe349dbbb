"""Texts and vocabularies, by their names."""

from __future__ import annotations

import json
import pickle
import pydoc_data.topics
import sysconfig
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tools.public import PUBLIC

from benchmarks.cases import MB
from bpetite import Tokenizer


class Settings(NamedTuple):
    """What the arguments of the command say, for all processes."""

    folder: Path | None  # of texts and vocabularies
    limit: int | None  # bytes of a text at most
    scratch: Path  # a temporary folder, with the learnt vocabulary


_settings: list[Settings] = []  # of this process


def use(settings: Settings) -> None:
    _settings[:] = [settings]


def settings() -> Settings:
    return _settings[0]


# Texts

MAIN_TEXTS = ("english", "code", "multilingual", "chinese")
"""The order of texts in the tables; others follow."""


@cache
def texts() -> list[str]:
    """Return the names of the texts."""
    folder = settings().folder
    found = {path.stem for path in folder.glob("*.txt")} if folder else {*MAIN_TEXTS[:2]}
    others = sorted(found - {*MAIN_TEXTS, "gpt2_merges"})
    return [*(name for name in MAIN_TEXTS if name in found), *others]


@cache
def text(name: str) -> str:
    """Return a whole text."""
    if (folder := settings().folder) is not None:
        content = (folder / f"{name}.txt").read_bytes().decode("utf-8")
        return content.replace("<unk>", "unk")  # in Phi-3, it is a special token
    if name == "english":
        return "\n".join(pydoc_data.topics.topics.values())
    library = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return "".join(path.read_bytes().decode("utf-8") for path in library)


@cache
def sample(name: str, size: int | None = None) -> str:
    """Return the beginning of a text, at most `size` bytes and as long as the arguments allow."""
    limits = [limit for limit in (size, settings().limit) if limit is not None]
    content = text(name)[: min(limits, default=None)].encode("utf-8")
    return content[: min(limits, default=None)].decode("utf-8", "ignore")


def megabytes(text: str) -> float:
    """Return the millions of bytes in UTF-8."""
    return len(text.encode("utf-8")) / MB


# Vocabularies

LEARNT, LEARNT_IDS = "learnt", 32_000
"""The vocabulary that is learnt from english; fewer ids if the text is short."""

PHI = Path("models", "phi-3-mini", "tokenizer.json")
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""The pattern of Mistral's tekken, which has no name here, so that an automaton splits by it."""


def path_of(name: str) -> Path:
    """Return the file of a vocabulary, which may be missing; tekken has the tokens of o200k."""
    folder = settings().folder or settings().scratch
    if name in (*PUBLIC, "tekken"):
        return folder / PUBLIC["o200k" if name == "tekken" else name][1]
    return folder / PHI if name == "Phi-3" else settings().scratch / "learnt.json"


def main(name: str = "cl100k") -> str:
    """Return the name of a vocabulary, or the learnt one's if the folder lacks it."""
    return name if path_of(name).is_file() else LEARNT


def own() -> Tokenizer:
    return tokenizer(main())


def learn() -> None:
    """Learn a vocabulary from english, and save it for all processes."""
    Tokenizer.train(text("english"), LEARNT_IDS).save(path_of(LEARNT))
    tokenizer(main()).save(ranks())


def ranks() -> Path:
    """Return a file with the tokens of the main vocabulary, for any pattern."""
    return settings().scratch / "ranks.tiktoken"


@cache
def tokenizer(name: str, pattern: str | None = None) -> Tokenizer:
    """Return the tokenizer of a vocabulary; a `pattern` is for the tokens of the main one."""
    path = ranks() if pattern else path_of(name)
    return Tokenizer.load(path, pattern=TEKKEN if name == "tekken" else pattern)


@cache
def pickled(name: str, pattern: str | None = None) -> bytes:
    """Return the pickled tokenizer, from which fresh ones are made."""
    return pickle.dumps(tokenizer(name, pattern))


@cache
def json_of(name: str) -> bytes:
    """Return the tokenizer.json of a vocabulary, for other libraries.

    For cl100k it has the pattern of Hugging Face's files, because the libraries do not know
    tiktoken's. The two differ where spaces after newlines end a text.
    """
    path = path_of(name)
    if path.name == "tokenizer.json":
        return path.read_bytes()
    is_cl100k = name == "cl100k"
    return written(Tokenizer.load(path, pattern=name) if is_cl100k else tokenizer(name))


def written(tokenizer: Tokenizer) -> bytes:
    """Return the tokenizer.json that bpetite writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tokenizer.json")
        tokenizer.save(path)
        return path.read_bytes()


def patterns() -> dict[str, str]:
    """Return the patterns of `patterns.json`, by name, that stand alone and that one can train."""
    path = (settings().folder or settings().scratch) / "patterns.json"
    entries = json.loads(path.read_bytes()) if path.is_file() else []
    alone = {each["name"]: each["patterns"][0] for each in entries if len(each["patterns"]) == 1}
    return {name: pattern for name, pattern in alone.items() if "++" not in pattern}
