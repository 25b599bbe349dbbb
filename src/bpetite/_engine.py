"""Which engine does the work: the native one where it was built, or the one in Python.

The variable BPETITE_ENGINE asks for one of them by its name. Both have the same names and results.
BPETITE_SIMD names the instructions that the native one uses, if the processor has them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

__all__ = [
    "Counts",
    "TextEncoder",
    "TextSteps",
    "TokenJoiner",
    "core_of_merges",
    "core_of_ranks",
    "core_of_tokens",
    "count_pieces",
    "engine",
    "learn_merges",
]


_SIMD = ("avx512", "avx2", "neon", "scalar")


def _choose(wanted: str, simd: str) -> str:
    if wanted not in ("", "native", "python"):
        raise ImportError(f"BPETITE_ENGINE must be native or python, got {wanted!r}")
    if wanted == "python":
        return wanted
    try:
        import bpetite._native  # noqa: F401 - whether it is there
    except ModuleNotFoundError as error:
        if error.name != "bpetite._native":
            raise
        if wanted:
            raise ImportError(
                "BPETITE_ENGINE asks for native, which this installation is without: install "
                "bpetite again where Rust is, with BPETITE_NATIVE=require, or ask for python"
            ) from None
        return "python"
    # Of a misspelt name nobody would notice that it is none; what the processor lacks is passed
    # over, so that tools can try all of them.
    if simd not in ("", *_SIMD):
        raise ImportError(f"BPETITE_SIMD must be one of {', '.join(_SIMD)}, got {simd!r}")
    return "native"


engine = _choose(os.environ.get("BPETITE_ENGINE", ""), os.environ.get("BPETITE_SIMD", ""))
"""The name of the engine that does the work."""

if TYPE_CHECKING or engine == "python":
    from bpetite._python_engine import (
        Counts,
        TextEncoder,
        TextSteps,
        TokenJoiner,
        core_of_merges,
        core_of_ranks,
        core_of_tokens,
        count_pieces,
        learn_merges,
    )
else:
    from bpetite._native_engine import (
        Counts,
        TextEncoder,
        TextSteps,
        TokenJoiner,
        core_of_merges,
        core_of_ranks,
        core_of_tokens,
        count_pieces,
        learn_merges,
    )
