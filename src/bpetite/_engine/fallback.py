"""One warning per process if much text goes through Python because the native engine is missing."""

from __future__ import annotations

import warnings

from bpetite._engine.choice import INSTALL_NATIVE

MAX_QUIET_CHARACTERS = 1 << 20

_characters = 0


class SlowEngineWarning(RuntimeWarning):
    """The Python engine does much work because the native engine is missing.

    `BPETITE_ENGINE=python` asks for the Python engine, and so silences this warning.
    """


def count_work(n_characters: int) -> None:
    """Count text that the Python engine processes; warn when there is more than a megabyte."""
    global _characters
    before, _characters = _characters, _characters + n_characters
    if before <= MAX_QUIET_CHARACTERS < _characters:
        warnings.warn(
            "bpetite works with its Python engine, 20 to 40 times slower than the native one; "
            f"set BPETITE_ENGINE=python to silence this, or {INSTALL_NATIVE}",
            SlowEngineWarning,
            stacklevel=5,  # the caller of a method of Tokenizer
        )
