"""The model that an argument names: a path, a name of tiktoken's, or ORG/NAME in a cache."""

from __future__ import annotations

import os
import re
from pathlib import Path

from bpetite.formats._tiktoken_names import encoding_of

_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*", re.ASCII)
_NAME = re.compile(rf"[\w-][\w.:-]*|{_HUB_NAME.pattern}", re.ASCII)
_FILES = (".json", ".tiktoken", ".model")
_MAX_COMMIT_BYTES = 200
_COMMIT = re.compile(r"[\w-]+", re.ASCII)


def model_path(name: str) -> str | None:
    """Return the path of the model of this name; None for a name of tiktoken's.

    A path that exists is preferred to a name.

    Raises FileNotFoundError for a name that is neither a path nor in a cache, ValueError for
    several versions in the cache.
    """
    if os.path.lexists(name):
        return name
    is_file = name.endswith(_FILES)
    if not is_file and encoding_of(name) is not None:  # "gpt-5*" is a name
        return None
    if _HUB_NAME.fullmatch(name) and (folder := _hub_folder(name)):
        return str(_snapshot(folder, name))
    if not is_file and _NAME.fullmatch(name):
        raise FileNotFoundError(
            f"{name}: no such path, no name that tiktoken knows (such as gpt-4o), and no ORG/NAME "
            f"in the cache of Hugging Face, {_hub()}; bpetite downloads no model"
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
