"""The model that an argument names: a path, a name of tiktoken's, or ORG/NAME in a cache."""

from __future__ import annotations

import os
import re
from pathlib import Path

from bpetite import Tokenizer
from bpetite.formats._tiktoken_names import encoding_of

_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*", re.ASCII)
_FILES = (".json", ".tiktoken", ".model")
_MAX_COMMIT_BYTES = 200
_COMMIT = re.compile(r"[\w-]+", re.ASCII)


def load_model(name: str) -> Tokenizer:
    """Load the model of this name. Nothing is downloaded.

    Raises ValueError for a name that is a path too, and what `Tokenizer.load` raises.
    """
    path = model_path(name)
    return Tokenizer.from_tiktoken(name) if path is None else Tokenizer.load(path)


def model_path(name: str) -> str | None:
    """Return the path of the model of this name; None for a name of tiktoken's.

    Raises ValueError for a name that is a path too, FileNotFoundError for one that is neither a
    path nor in the cache.
    """
    encoding = None if name.endswith(_FILES) else encoding_of(name)  # "gpt-5*" is a name
    in_hub = _hub_folder(name) if _HUB_NAME.fullmatch(name) else None
    if os.path.lexists(name):
        other = f"{encoding}, an encoding of tiktoken's" if encoding else in_hub and str(in_hub)
        if other is not None:
            raise ValueError(
                f"{name}: this names a path, and {other}, too; write .{os.sep}{name} for the path, "
                f"or rename it"
            )
        return name
    if encoding is not None:
        return None
    if in_hub is not None:
        return str(_snapshot(in_hub, name))
    if _HUB_NAME.fullmatch(name):
        raise FileNotFoundError(
            f"{name}: no such path, and no such model in {_hub()}; bpetite downloads no model"
        )
    return name


def _hub() -> Path:
    """Return the folder in which Hugging Face's libraries keep what they downloaded."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if given := os.environ.get(variable):
            return Path(os.path.expandvars(given)).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
    home = os.environ.get("HF_HOME") or os.path.join(cache, "huggingface")
    return Path(os.path.expandvars(home)).expanduser() / "hub"


def _hub_folder(name: str) -> Path | None:
    folder = _hub() / f"models--{name.replace('/', '--')}"
    return folder if folder.is_dir() else None


def _snapshot(folder: Path, name: str) -> Path:
    """Return the folder of a model's files: of its main branch, or of its only version."""
    main = folder / "refs" / "main"
    snapshots = folder / "snapshots"
    commit = ""
    if main.is_file():
        with main.open("rb") as file:
            commit = file.read(_MAX_COMMIT_BYTES).decode("ascii", "replace").strip()
    if _COMMIT.fullmatch(commit) and (snapshots / commit).is_dir():
        return snapshots / commit
    found = sorted(snapshots.glob("*"))
    if len(found) != 1:
        raise ValueError(
            f"{name}: {snapshots} has {len(found)} versions and no main branch; give the path of "
            f"one version"
        )
    return found[0]
