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

# What pyarrow imports if it is there. It reads and writes files without.
_SPARED = ("numpy", "pyarrow._s3fs")

_spares = False
_lock = Lock()


def spare_imports() -> None:
    """Import pyarrow without what it can do without: 15 MB and 40 ms of a run.

    Its arrays cannot become numpy's then, so only processes that belong to bpetite call this.
    """
    global _spares
    _spares = True


def import_extra(name: str, purpose: str) -> Any:
    """Return a module of the extra `data`. Raises ModuleNotFoundError that says how to get it."""
    try:
        if not _spares or name in sys.modules:
            return import_module(name)
        with _lock, _without(_SPARED):
            return import_module(name)
    except ModuleNotFoundError as error:
        module = name.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != module:
            raise
        package = _PACKAGES.get(module, module)
        raise MissingExtraError(f"{purpose} needs {package}: {_INSTALL}", name=error.name) from None


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
