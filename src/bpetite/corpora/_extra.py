"""Libraries of the extra `data`, imported when a file needs them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from threading import Lock
from typing import Any

_INSTALL = "pip install pyarrow isal zstandard universal-pathlib"
_PACKAGES = {"upath": "universal-pathlib"}

# Modules that pyarrow imports if they exist. It reads and writes files without them.
_SPARED = ("numpy", "pyarrow._s3fs")

_spares = False
_lock = Lock()


def spare_imports() -> None:
    """Let pyarrow be imported without its optional modules, which saves 15 MB and 40 ms.

    Only processes that belong to bpetite call this: if numpy is imported later, converting arrays
    of pyarrow to numpy or pandas crashes the process.
    """
    global _spares
    _spares = True


def import_extra(name: str, purpose: str) -> Any:
    """Return a module of the extra `data`. Raises ModuleNotFoundError that says how to get it."""
    try:
        if not _spares or not name.startswith("pyarrow") or name in sys.modules:
            return import_module(name)
        return _import_spared(name)
    except ModuleNotFoundError as error:
        module = name.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != module:
            raise
        package = _PACKAGES.get(module, module)
        raise MissingExtraError(f"{purpose} needs {package}: {_INSTALL}", name=error.name) from None


def _import_spared(name: str) -> Any:
    """Import a module of pyarrow without its optional modules."""
    with _lock, _without(_SPARED):
        try:
            return import_module(name)
        except ModuleNotFoundError:
            raise
        except ImportError as error:  # before version 18, pyarrow cannot do without numpy
            message = f"pyarrow cannot be imported ({error}): pip install --upgrade pyarrow"
            raise MissingExtraError(message) from error


@contextmanager
def _without(modules: tuple[str, ...]) -> Iterator[None]:
    """Let imports of some modules fail meanwhile, unless they have been imported before."""
    absent = [name for name in modules if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


class MissingExtraError(ModuleNotFoundError, ValueError):
    """A file needs a library that is not installed."""
