"""Tokens of a text and names of a pattern, as the page and a terminal show them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from bpetite import PATTERNS, Tokenizer


@dataclass(frozen=True)
class Group:
    """The tokens of one or more whole characters: one token, unless it splits a character."""

    ids: list[int]
    text: str
    special: bool


def groups(
    tokenizer: Tokenizer, text: str, allowed_special: Literal["all"] | tuple[()] = "all"
) -> Iterator[Group]:
    """Return the tokens of a text in order, with tokens that share a character in one group.

    `allowed_special` is as in `Tokenizer.encode`.

    >>> [(group.ids, group.text) for group in groups(Tokenizer.train("ab ab ab", 257), "abé")]
    [([256], 'ab'), ([195, 169], 'é')]
    """
    return groups_of_ids(tokenizer, tokenizer.encode(text, allowed_special=allowed_special))


def groups_of_ids(tokenizer: Tokenizer, encoded: Iterable[int]) -> Iterator[Group]:
    """Yield these ids in order, with those that share a character in one group."""
    special_ids = set(tokenizer.special_tokens.values())
    stream = tokenizer.decode_stream()
    ids: list[int] = []
    complete = ""
    for id in encoded:
        ids.append(id)
        complete += stream.step(id)
        if not stream.pending:
            yield Group(ids, complete, id in special_ids)
            ids, complete = [], ""


def pattern_names(*patterns: str) -> list[str]:
    r"""Return the names of a pattern; several in turn have none.

    >>> pattern_names(*Tokenizer.train("", 256).patterns), pattern_names(r"\S+|\s+")
    (['gpt2'], [])
    """
    return [name for name, named in PATTERNS.items() if (named,) == patterns]
