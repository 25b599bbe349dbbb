"""Packages that import each public name when it is first used: a program uses few of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module


def lazy_names(
    package: str, places: dict[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a package.

    `places` has the place of each name in the package, such as "_tokenizer.Tokenizer".
    """

    def get(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, attribute = places[name].rpartition(".")
        value = getattr(import_module(f"{package}.{module}"), attribute)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: ["__all__", *sys.modules[package].__all__]
