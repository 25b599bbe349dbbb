"""Encodings by name, from tiktoken and from plugins for it."""

from __future__ import annotations

import copyreg
import importlib
import pkgutil
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from bpetite.formats._tiktoken_names import ENCODINGS as PUBLIC
from bpetite.formats._tiktoken_names import read_encoding
from bpetite.tiktoken.core import Encoding

Constructor = Callable[[], dict[str, Any]]
"""Returns the arguments of an `Encoding`."""

ENCODINGS: dict[str, Encoding] = {}
"""The encodings that were made, by name."""

ENCODING_CONSTRUCTORS: dict[str, Constructor] | None = None
"""The constructor of each encoding; None until plugins have been searched."""

_PLUGINS = "tiktoken_ext"
_PUBLIC_PLUGIN = f"{_PLUGINS}.openai_public"

_SECOND_LITERALS = {"o200k_harmony": {"<|reserved_200018|>": 200018}}
"""Literals that share an id with another one, which a vocabulary cannot hold."""

_lock = threading.RLock()


def get_encoding(encoding_name: str) -> Encoding:
    """Return the encoding of a name; it is made once.

    tiktoken's own encodings come from its cache, or, if that lacks the file, from an installed
    tiktoken, which downloads it. Plugins are modules in the namespace package `tiktoken_ext`.

    Raises ValueError for an unknown name, a plugin without `ENCODING_CONSTRUCTORS`, and a name that
    two plugins have. Raises FileNotFoundError without the file and without tiktoken.
    """
    if not isinstance(encoding_name, str):
        raise ValueError(f"encoding_name must be a str, got {type(encoding_name).__name__}")
    with _lock:
        if encoding_name not in ENCODINGS:
            constructors = _constructors()
            if encoding_name not in constructors:
                raise ValueError(
                    f"unknown encoding {encoding_name!r}; known are {', '.join(constructors)}"
                )
            ENCODINGS[encoding_name] = Encoding(**constructors[encoding_name]())
        return ENCODINGS[encoding_name]


def list_encoding_names() -> list[str]:
    """Return the names of all encodings, from plugins too.

    >>> list_encoding_names()[:2]
    ['gpt2', 'r50k_base']
    """
    with _lock:
        return [*_constructors()]


def _constructors() -> dict[str, Constructor]:
    global ENCODING_CONSTRUCTORS
    if ENCODING_CONSTRUCTORS is None:
        found: dict[str, Constructor] = {name: partial(_public, name) for name in PUBLIC}
        for module_name in _plugins():
            module = importlib.import_module(module_name)
            if not hasattr(module, "ENCODING_CONSTRUCTORS"):
                raise ValueError(f"the plugin {module_name} has no ENCODING_CONSTRUCTORS")
            for name, constructor in module.ENCODING_CONSTRUCTORS.items():
                if name in found:
                    raise ValueError(f"the plugin {module_name} has {name!r}, a name in use")
                found[name] = constructor
        ENCODING_CONSTRUCTORS = found
    return ENCODING_CONSTRUCTORS


def _plugins() -> Iterator[str]:
    """Yield the modules of plugins, without tiktoken's own."""
    try:
        package = importlib.import_module(_PLUGINS)
    except ModuleNotFoundError:
        return
    for _, name, _ in pkgutil.iter_modules(package.__path__, f"{_PLUGINS}."):
        if name != _PUBLIC_PLUGIN:
            yield name


def _public(name: str) -> dict[str, Any]:
    try:
        vocabulary = read_encoding(name)[0]
    except FileNotFoundError as error:
        try:
            module = importlib.import_module(_PUBLIC_PLUGIN)
        except ImportError:
            raise error from None
        arguments: dict[str, Any] = module.ENCODING_CONSTRUCTORS[name]()
        return arguments
    return {
        "name": name,
        "pat_str": vocabulary.pattern,
        "mergeable_ranks": {token: id for id, token in vocabulary.ordinary_tokens.items()},
        "special_tokens": {**vocabulary.special_tokens, **_SECOND_LITERALS.get(name, {})},
    }


def _reduced(encoding: Encoding) -> tuple[Any, ...]:
    """Return how to pickle or copy an encoding. If its name is known here, the name is enough."""
    if ENCODINGS.get(encoding.name) is encoding:
        return get_encoding, (encoding.name,)
    return encoding.__reduce__()


copyreg.pickle(Encoding, _reduced)
