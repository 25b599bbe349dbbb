"""The tokens of a text, in groups of whole characters: how they are shown to people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from bpetite import Tokenizer


@dataclass(frozen=True)
class Group:
    """The tokens of one or more whole characters: one token, unless it cuts a character."""

    ids: list[int]
    text: str
    special: bool


def groups(
    tokenizer: Tokenizer, text: str, allowed_special: Literal["all"] | tuple[()] = "all"
) -> Iterator[Group]:
    """Yield the tokens of a text in order, those that share a character in one group.

    `allowed_special` is as in `Tokenizer.encode`.

    >>> [(group.ids, group.text) for group in groups(Tokenizer.train("ab ab ab", 257), "abé")]
    [([256], 'ab'), ([195, 169], 'é')]
    """
    special_ids = set(tokenizer.special_tokens.values())
    stream = tokenizer.decode_stream()
    ids: list[int] = []
    complete = ""
    for id in tokenizer.encode(text, allowed_special=allowed_special):
        ids.append(id)
        complete += stream.step(id)
        if not stream.pending:
            yield Group(ids, complete, id in special_ids)
            ids, complete = [], ""
