"""Cases of streams: tokens, and the text of each step. Also vocabularies with these tokens.

Tests compare our streams with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bpetite import Tokenizer
from bpetite._pretokenizer import GPT2_PATTERN
from bpetite._vocabulary import BYTE_COUNT, Pair, Vocabulary
from support.conformance import END as END
from support.conformance import cases, token_bytes

REPLACED = "\ufffd"


class Case(NamedTuple):
    """A stream without stops; empty bytes stand for the special token."""

    name: str
    prompt: list[bytes]
    tokens: list[bytes]
    skip: bool
    texts: list[str]
    """The text of each step, then of flush."""


def tokens_of(tokens: Iterable[str]) -> list[bytes]:
    """Return the bytes of tokens; the special token becomes empty bytes."""
    return [b"" if token == END else token_bytes(token) for token in tokens]


CASES = [
    Case(
        case["name"],
        tokens_of(case.get("prompt", [])),
        tokens_of(case["tokens"]),
        case.get("skip_special_tokens", False),
        case["texts"],
    )
    for case in cases("decode_stream")
    if "stop" not in case
]


# Vocabularies


def tokenizer_of(tokens: Iterable[bytes]) -> Tokenizer:
    """Return a tokenizer with each of `tokens` and <|end|>; each merge appends one byte."""
    id_of = {bytes([byte]): byte for byte in range(BYTE_COUNT)}
    merges: list[Pair] = []
    for token in tokens:
        for end in range(2, len(token) + 1):
            if token[:end] not in id_of:
                id_of[token[:end]] = BYTE_COUNT + len(merges)
                merges.append((id_of[token[: end - 1]], token[end - 1]))
    specials = {END: BYTE_COUNT + len(merges)}
    return Tokenizer(Vocabulary(tuple(merges), specials, GPT2_PATTERN))


def ids_of(tokenizer: Tokenizer, tokens: Iterable[bytes]) -> list[int]:
    """Return the id of each token; empty bytes stand for the special token."""
    end_id = tokenizer.special_tokens[END]
    return [tokenizer.token_id(token) if token else end_id for token in tokens]
