"""The choice of the engine: native if it was built, else Python.

BPETITE_ENGINE asks for one by its name. BPETITE_SIMD asks for an instruction set of the native one.
"""

from __future__ import annotations

import os
from typing import Final, Literal

INSTALL_NATIVE = (
    "install Rust (https://rustup.rs), then run in a clone: "
    "pip install --force-reinstall --no-deps ."
)
"""What to do if the native engine is missing; `setup.py` gives the same advice."""

INSTRUCTION_SETS = ("avx512", "avx2", "neon", "scalar")


def _choose(requested: str, instruction_set: str) -> Literal["native", "python"]:
    if requested not in ("", "native", "python"):
        raise _error(f"BPETITE_ENGINE must be native or python, got {requested!r}")
    if requested == "python":
        return "python"
    try:
        import bpetite._engine._native  # noqa: F401 - is it there?
    except ModuleNotFoundError as error:
        if error.name != "bpetite._engine._native":
            raise
        if requested:
            raise _error(
                "BPETITE_ENGINE=native, but this installation has no native engine; "
                + INSTALL_NATIVE
            ) from None
        return "python"
    # A misspelt name would go unnoticed. An instruction set that the processor lacks is ignored,
    # so that tools can try all of them.
    if instruction_set not in ("", *INSTRUCTION_SETS):
        names = ", ".join(INSTRUCTION_SETS)
        raise _error(f"BPETITE_SIMD must be one of {names}, got {instruction_set!r}")
    return "native"


def _error(reason: str) -> ImportError:
    # `python -m bpetite` shows an error with this name in one line.
    return ImportError(reason, name="bpetite")


_requested = os.environ.get("BPETITE_ENGINE", "")

engine: Final = _choose(_requested, os.environ.get("BPETITE_SIMD", ""))
"""The name of the engine that does the work: "native" or "python"."""

is_fallback: Final = engine == "python" and not _requested
"""Whether Python does the work only because the native engine is missing."""
