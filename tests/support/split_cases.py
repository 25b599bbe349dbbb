"""Texts and tokenizers for splits of a text that does not arrive at once."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from typing import Any

from hypothesis import strategies as st

from bpetite import PATTERNS, Tokenizer
from bpetite._vocabulary import Vocabulary
from support.patterns import MODEL_PATTERNS

CHARACTERS = [
    *" \n\r\t\xa0\u3000/'’.-<|>aSsZé你ʰ𝔘ſ1½Ⅳ٣🙂",
    *("\u0301", "\u093e", "\u20dd", "\u0897", "\U000105c9", "\U0001e5ee", "\ufffd", "\x00"),
    *("\r\n", "'s", "'LL", "<|a b|>", "<|a", "b|>", "aaa"),
]
"""Kinds of text to patterns, marks that join letters, characters of late Unicode, literals."""

LITERALS = ("<|a b|>", "<|a", " \n1", "aa", "<|a b|>1", "你🙂")

texts = st.lists(st.sampled_from(CHARACTERS), max_size=14).map("".join)
"""Short texts in which every two kinds of characters meet."""


ALL_PATTERNS = {**PATTERNS, **MODEL_PATTERNS}


@cache
def tokenizer_of(name: str, literals: tuple[str, ...] = (), normalizer: Any = None) -> Tokenizer:
    """Return a tokenizer whose tokens are as long as the pattern, or the one named, allows."""
    text = " ".join(map("".join, itertools.pairwise(CHARACTERS))) * 3
    pattern = ALL_PATTERNS.get(name, name)
    merges = Tokenizer.train(text, 400, pattern=pattern).merges
    special_tokens = {literal: 256 + len(merges) + i for i, literal in enumerate(literals)}
    return Tokenizer(Vocabulary(merges, special_tokens, pattern, normalizer=normalizer))


@cache
def own(pattern: str, *more_patterns: str) -> Tokenizer:
    """Return a tokenizer whose pieces may end anywhere."""
    merges = Tokenizer.train(" ".join(CHARACTERS) * 3, 350, pattern=pattern).merges
    special_tokens = {literal: 600 + i for i, literal in enumerate(LITERALS)}
    return Tokenizer(Vocabulary(merges, special_tokens, pattern, more_patterns=more_patterns))


TOKENIZERS: dict[str, tuple[Any, ...]] = {
    **{name: (tokenizer_of, name, LITERALS) for name in ALL_PATTERNS},
    "no literals": (tokenizer_of, "cl100k"),
    "NFC, gpt2": (tokenizer_of, "gpt2", LITERALS, "NFC"),
    "NFC, o200k": (tokenizer_of, "o200k", LITERALS, "NFC"),
    "NFC, tekken": (tokenizer_of, "tekken", LITERALS, "NFC"),
    "NFC, bloom": (tokenizer_of, "bloom", LITERALS, "NFC"),
    "a pattern that regex splits": (own, r"\w+|\W"),
    "several patterns": (own, PATTERNS["gpt2"], r"\d", "s+"),
}
"""Functions that return a tokenizer, and their arguments."""


@cache
def framed(name: str) -> Tokenizer:
    """Return one of TOKENIZERS with two ids before a text and one after it."""
    make, *arguments = TOKENIZERS[name]
    vocabulary = make(*arguments)._vocabulary
    return Tokenizer(replace(vocabulary, prefix_ids=(97, 98), suffix_ids=(99,)))
