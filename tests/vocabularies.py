"""Vocabularies that several tests make by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bpetite import PATTERNS
from bpetite._vocabulary import Vocabulary


def vocabulary(
    tokens: Mapping[int, bytes], merges: list[tuple[int, int]], **others: Any
) -> Vocabulary:
    """Return a vocabulary of the single bytes, each its own id, and of these tokens."""
    special_tokens = others.pop("special_tokens", {})
    every = {**{byte: bytes([byte]) for byte in range(256)}, **tokens}
    return Vocabulary.from_tokens(
        every, merges, special_tokens, others.pop("pattern", PATTERNS["gpt2"]), **others
    )
