"""Libraries of the extra `data`, imported when a file needs them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_INSTALL = "pip install pyarrow isal zstandard universal-pathlib"
_PACKAGES = {"upath": "universal-pathlib"}


def import_extra(name: str, purpose: str) -> Any:
    """Return a module of the extra `data`. Raises ModuleNotFoundError that says how to get it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        module = name.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != module:
            raise
        package = _PACKAGES.get(module, module)
        raise MissingExtraError(f"{purpose} needs {package}: {_INSTALL}", name=error.name) from None


class MissingExtraError(ModuleNotFoundError, ValueError):
    """A file needs a library that is not installed."""
