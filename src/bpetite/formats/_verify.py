"""Compare the ids of a tokenizer with those of a format's reference library."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import islice
from typing import Protocol

from bpetite.formats._reference import PROBE, IncomparableError, Reference, first_difference
from bpetite.formats._registry import AnyPath, read

# Special tokens that the text to compare contains.
_MAX_PROBED_LITERALS = 100


class Tokenizer(Protocol):
    """The part of a `bpetite.Tokenizer` that a comparison needs."""

    @property
    def patterns(self) -> tuple[str, ...]: ...
    @property
    def special_tokens(self) -> Mapping[str, int]: ...
    def encode(self, text: str) -> list[int]: ...
    def token_bytes(self, id: int) -> bytes: ...


def check_loaded(tokenizer: Tokenizer, reference: Reference | None, name: str) -> None:
    """Raise ValueError if a loaded tokenizer and its reference library give different ids.

    Ids on record are compared first. The library is asked only if they differ or are missing; if
    it is not installed, or does not read the file, nothing is compared.
    """
    if reference is None:
        return
    text = "".join([PROBE, *islice(tokenizer.special_tokens, _MAX_PROBED_LITERALS)])
    ids = tokenizer.encode(text)
    if reference.has_recorded_ids(text, ids):
        return
    try:
        difference = _difference(tokenizer, reference.for_ids(ids), text)
    except ImportError:
        return
    if difference:
        raise ValueError(
            f"{name}: {reference.name} gives other ids for a probe text, at {difference}"
        )


class Verifier:
    """Compares the ids of a tokenizer with those of the reference library for the same file.

    `path` is a file or a folder in any of FORMATS. `reference_library` is the name of the library
    that owns the format; None for our own format, which has no other.
    """

    def __init__(self, tokenizer: Tokenizer, path: AnyPath, format: str | None = None) -> None:
        self._tokenizer = tokenizer
        self._path = os.fsdecode(path)
        _, self._reference = read(
            path, format, tokenizer.patterns[0], tokenizer.special_tokens, given=False
        )
        self.reference_library: str | None = self._reference.name if self._reference else None

    def difference(self, text: str) -> str | None:
        """Return where the ids of `text` first differ, and how; None if they are equal.

        Raises ImportError if the library is not installed, ValueError if it refuses the file or
        fails on the text.
        """
        if self._reference is None:
            return None
        try:
            return _difference(self._tokenizer, self._reference, text)
        except IncomparableError as error:
            raise ValueError(f"{self._path}: {error}") from None


def _difference(tokenizer: Tokenizer, reference: Reference, text: str) -> str | None:
    theirs = reference.encode(text)
    return first_difference(
        text,
        ("bpetite", tokenizer.encode(text), tokenizer.token_bytes),
        (reference.name, theirs, tokenizer.token_bytes),
    )
