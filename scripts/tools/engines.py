"""The engines and instruction sets that one machine can compare."""

from __future__ import annotations

from importlib import import_module

import bpetite

INSTRUCTION_SETS = ("avx512", "avx2", "neon", "scalar")
"""The values of BPETITE_SIMD, from the fastest to the reference."""


def instruction_set() -> str:
    """Return the instruction set of this process; "" with the Python engine."""
    # No public name tells the instruction set, because results do not depend on it.
    if bpetite.engine == "python":
        return ""
    name: str = import_module("bpetite._engine._native").instruction_set()
    return name
