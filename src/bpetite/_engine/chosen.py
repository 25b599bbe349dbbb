"""The engine that does the work."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bpetite._engine.choice import engine

if TYPE_CHECKING:
    from bpetite._engine.contract import Engine

ENGINE: Engine[Any]

NATIVE: Any = import_module("bpetite._engine._native") if engine == "native" else None
"""Rust's module, for packages that have native twins of functions; None without it."""

if TYPE_CHECKING:
    from bpetite._engine import native, python

    # mypy checks both engines here.
    _both: tuple[Engine[native.Counts], Engine[python.Counts]] = (native, python)
else:
    ENGINE = import_module(f"bpetite._engine.{engine}")
