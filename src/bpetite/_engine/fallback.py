"""The warning that much text goes through Python: once per process for each reason."""

from __future__ import annotations

import warnings

from bpetite._engine.choice import INSTALL_NATIVE, is_fallback

MAX_QUIET_CHARACTERS = 1 << 20

NO_NATIVE_ENGINE = (
    "bpetite works with its Python engine, 20 to 40 times slower than the native one; "
    f"set BPETITE_ENGINE=python to silence this, or {INSTALL_NATIVE}"
)

REASON = NO_NATIVE_ENGINE if is_fallback else None
"""Why the Python engine does all work, if nobody asked for it."""

_characters: dict[str, int] = {}


class SlowEngineWarning(RuntimeWarning):
    """Much text goes through Python: the native engine is missing, or cannot split by a pattern.

    `BPETITE_ENGINE=python` asks for the Python engine, and so silences this warning.
    """


def count_work(n_characters: int, reason: str | None) -> None:
    """Count text that goes through Python for a reason; warn when it is more than a megabyte."""
    if reason is None:
        return
    before = _characters.get(reason, 0)
    _characters[reason] = before + n_characters
    if before <= MAX_QUIET_CHARACTERS < _characters[reason]:
        warnings.warn(reason, SlowEngineWarning, stacklevel=5)  # the caller of `Tokenizer.encode`
