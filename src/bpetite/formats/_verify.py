"""Compare the ids of a loaded tokenizer with those of its format's reference library."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Protocol

from bpetite.formats._reference import PROBE, Reference, first_difference

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


def _difference(tokenizer: Tokenizer, reference: Reference, text: str) -> str | None:
    theirs = reference.encode(text)
    return first_difference(
        text,
        ("bpetite", tokenizer.encode(text), tokenizer.token_bytes),
        (reference.name, theirs, tokenizer.token_bytes),
    )
