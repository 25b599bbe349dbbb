"""Cases that pytest and `cargo test` read from `tests/data/conformance.json`.

`scripts/tools/make_conformance.py` writes their results, from `reference.py`.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from bpetite import PATTERNS, Tokenizer
from bpetite._vocabulary import Vocabulary
from support import ROOT

PATH = ROOT / "tests" / "data" / "conformance.json"

END = "<|end|>"
"""The special token of the cases of decode_stream."""

Cases = dict[str, Any]


@cache
def conformance() -> Cases:
    """Return the document: vocabularies, and lists of cases."""
    document: Cases = json.loads(PATH.read_bytes())
    return document


def cases(kind: str) -> list[Any]:
    """Return the cases of one kind."""
    found: list[Any] = conformance()[kind]
    return found


@cache
def tokenizer_named(name: str) -> Tokenizer:
    """Return the tokenizer of a vocabulary in the document."""
    fields = conformance()["vocabularies"][name]
    merges = tuple((left, right) for left, right in fields["merges"])
    return Tokenizer(Vocabulary(merges, fields["special_tokens"], PATTERNS["gpt2"]))


def token_bytes(token: str) -> bytes:
    r"""Return the bytes of a token: its text, or hexadecimal digits after 0x.

    >>> token_bytes("a"), token_bytes("0xC3A9")
    (b'a', b'\xc3\xa9')
    """
    return bytes.fromhex(token[2:]) if token.startswith("0x") else token.encode()
