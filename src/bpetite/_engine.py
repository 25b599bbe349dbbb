"""Which engine does the work: the native one where it was built, or the one in Python.

BPETITE_ENGINE asks for one of them by its name. Both have the same names and results.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

_wanted = os.environ.get("BPETITE_ENGINE", "")
if _wanted not in ("", "native", "python"):
    raise ImportError(
        f"BPETITE_ENGINE asks for the engine {_wanted!r}; there are native and python"
    )

engine = "python"
"""The name of the engine that does the work."""

if not TYPE_CHECKING and _wanted != "python":
    try:
        from bpetite._native_engine import (
            Counts,
            TextEncoder,
            TokenJoiner,
            core_of_merges,
            core_of_ranks,
            count_pieces,
            learn_merges,
        )

        engine = "native"
    except ModuleNotFoundError as error:
        if error.name != "bpetite._native" or _wanted:
            raise ImportError(
                "BPETITE_ENGINE asks for the engine 'native', which was not built here"
            ) from error

if TYPE_CHECKING or engine == "python":
    from bpetite._python_engine import (
        Counts,
        TextEncoder,
        TokenJoiner,
        core_of_merges,
        core_of_ranks,
        count_pieces,
        learn_merges,
    )

__all__ = [
    "Counts",
    "TextEncoder",
    "TokenJoiner",
    "core_of_merges",
    "core_of_ranks",
    "count_pieces",
    "engine",
    "learn_merges",
]
