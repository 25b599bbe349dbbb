"""Compare the ids of a loaded tokenizer with the ids of its format's reference library."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Protocol

from bpetite.formats._reference import PROBE, Reference, first_difference

_MAX_PROBED_LITERALS = 100


class Encodes(Protocol):
    @property
    def special_tokens(self) -> Mapping[str, int]: ...
    def encode(self, text: str) -> list[int]: ...
    def token_bytes(self, id: int) -> bytes: ...


def check_loaded(tokenizer: Encodes, reference: Reference | None, name: str) -> None:
    """Raise ValueError if a loaded tokenizer and its reference library give different ids.

    If the library's ids are on record and equal ours, the library is not asked. If it is not
    installed, or does not read the file, nothing is compared.
    """
    if reference is None:
        return
    text = "".join([PROBE, *islice(tokenizer.special_tokens, _MAX_PROBED_LITERALS)])
    ids = tokenizer.encode(text)
    if reference.has_recorded_ids(text, ids):
        return
    try:
        theirs = reference.for_ids(ids).encode(text)
    except ImportError:
        return
    token_bytes = tokenizer.token_bytes
    difference = first_difference(
        text, ("bpetite", ids, token_bytes), (reference.name, theirs, token_bytes)
    )
    if difference:
        raise ValueError(
            f"{name}: {reference.name} gives other ids for a probe text, at {difference}"
        )
