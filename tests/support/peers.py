"""Other libraries with our vocabulary or pattern."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import tiktoken
import tokenizers
from tokenizers import pre_tokenizers

from bpetite import Tokenizer


def as_tiktoken(tokenizer: Tokenizer, pattern: str = "") -> tiktoken.Encoding:
    """Return a tiktoken Encoding with the same vocabulary, and with a pattern of its own."""
    special_ids = {*tokenizer.special_tokens.values()}
    ids = [id for id in tokenizer.ids if id not in special_ids]
    ranks = {tokenizer.token_bytes(id): id for id in ids}
    assert len(ranks) == len(ids)  # it has one id for each token's bytes, unlike us
    return tiktoken.Encoding(
        "bpetite",
        pat_str=pattern or tokenizer.patterns[0],
        mergeable_ranks=ranks,
        special_tokens=dict(tokenizer.special_tokens),
    )


@cache
def split_of(pattern: str) -> Callable[[str], list[str]]:
    """Return a function that splits text by a pattern as tokenizers does."""
    split = pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
    return lambda text: [piece for piece, _ in split.pre_tokenize_str(text)]
