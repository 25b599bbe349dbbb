"""Vocabularies from their tokens, and the characters of their bytes in files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bpetite import PATTERNS, Tokenizer
from bpetite._vocabulary import Vocabulary


def vocabulary(
    tokens: Mapping[int, bytes], merges: list[tuple[int, int]], **others: Any
) -> Vocabulary:
    """Return a vocabulary of the single bytes, each with itself as id, and of these tokens."""
    special_tokens = others.pop("special_tokens", {})
    every = {**{byte: bytes([byte]) for byte in range(256)}, **tokens}
    return Vocabulary.from_tokens(
        every, merges, special_tokens, others.pop("pattern", PATTERNS["gpt2"]), **others
    )


def composing(path: str | Path) -> Tokenizer:
    """Write and load a tokenizer.json with the normal form C, trained on text with an é."""
    Tokenizer.train("é é é", 257).save(path)
    document = json.loads(Path(path).read_text("utf-8"))
    Path(path).write_text(json.dumps({**document, "normalizer": {"type": "NFC"}}), "utf-8")
    return Tokenizer.load(path)


def gpt2_characters() -> list[str]:
    """Return the printable character that stands for each byte in GPT-2's files."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return [
        chr(byte) if byte in printable else chr(256 + others.index(byte)) for byte in range(256)
    ]
