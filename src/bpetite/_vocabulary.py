"""The shared nouns: what a vocabulary is, and which bytes each of its ids stands for.

Every other module imports from here; this one imports nothing of ours.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

Pair = tuple[int, int]
"""Two adjacent ids in a piece."""

BYTE_COUNT = 256
"""Ids 0 to 255 are the single bytes; the merge of rank r has the id BYTE_COUNT + r."""


def as_id(value: object) -> int:
    """Return `value` as a plain int id; any integer type will do (numpy's too), a bool will not.

    >>> as_id(97)
    97

    Raises TypeError for everything that is not an integer.
    """
    if isinstance(value, bool):
        raise TypeError(f"an id must be an integer, got the bool {value}")
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"an id must be an integer, got {type(value).__name__} {value!r}") from None


class TokenBytes(dict[int, bytes]):
    """The bytes of each id. A plain dict, but an unknown id is told what would be right."""

    def __missing__(self, id: int) -> bytes:
        raise KeyError(f"id {id} is not in this vocabulary (its ids run from 0 to {self._last})")

    @cached_property
    def _last(self) -> int:
        return max(self)


class TokenTable:
    r"""What decoding looks up: the bytes of each id, and the text of those that are whole text.

    >>> table = TokenTable({0: b"a", 1: b"\xc3", 2: b"\xc3\xa9"})
    >>> table.bytes_of[1], table.text_of
    (b'\xc3', ['a', None, 'é'])
    """

    def __init__(self, bytes_of: Mapping[int, bytes]) -> None:
        self.bytes_of = TokenBytes(bytes_of)
        # What the streams over this table have found out, by `errors`: theirs to fill.
        self.stream_states: dict[str, Any] = {}

    @cached_property
    def text_of(self) -> list[str | None]:
        """The text of each id whose bytes are valid UTF-8 by themselves; None for the others.

        It ends before ids that lie far beyond the number of tokens, if there are any.
        """
        text_of: list[str | None] = [None] * min(max(self.bytes_of) + 1, 2 * len(self.bytes_of))
        for id, token in self.bytes_of.items():
            if id < len(text_of):
                with suppress(UnicodeDecodeError):
                    text_of[id] = token.decode("utf-8")
        return text_of


@dataclass(frozen=True)
class Vocabulary:
    """Merges in rank order, special tokens and their ids, and the pattern that cuts pieces.

    The ids of `special_tokens` follow the last merge, without a gap, in the order of the mapping.
    Everything else about a vocabulary is derived from these three, once, when it is first needed.

    >>> vocabulary = Vocabulary(((97, 98),), {"<|end|>": 257}, pattern="...")
    >>> vocabulary.tokens.bytes_of[256], vocabulary.tokens.bytes_of[257]
    (b'ab', b'<|end|>')
    """

    merges: tuple[Pair, ...]
    special_tokens: Mapping[str, int]
    pattern: str

    def __post_init__(self) -> None:
        frozen = MappingProxyType(dict(self.special_tokens))
        object.__setattr__(self, "special_tokens", frozen)

    def __len__(self) -> int:
        """The number of ids in use: bytes, merges and special tokens."""
        return BYTE_COUNT + len(self.merges) + len(self.special_tokens)

    @cached_property
    def n_vocab(self) -> int:
        """The highest id plus one."""
        return max(self.tokens.bytes_of) + 1

    def __hash__(self) -> int:
        # Equal vocabularies hash alike; the last merges tell unequal ones apart well enough.
        return hash((len(self.merges), self.merges[-8:], frozenset(self.special_tokens.items())))

    def __reduce__(self) -> tuple[object, ...]:
        # Only what it was made from is pickled, none of what is derived.
        return Vocabulary, (self.merges, dict(self.special_tokens), self.pattern)

    @cached_property
    def tokens(self) -> TokenTable:
        """Every id with its bytes; a special token's are its literal in UTF-8."""
        token_of = [bytes([byte]) for byte in range(BYTE_COUNT)]
        for left, right in self.merges:
            token_of.append(token_of[left] + token_of[right])
        bytes_of = dict(enumerate(token_of))
        for literal, id in self.special_tokens.items():
            bytes_of[id] = literal.encode("utf-8")
        return TokenTable(bytes_of)

    @cached_property
    def tokens_without_special(self) -> TokenTable:
        """As `tokens`, but a special token has no bytes: what decoding looks up to skip them."""
        silent = dict.fromkeys(self.special_tokens.values(), b"")
        return TokenTable({**self.tokens.bytes_of, **silent})

    @cached_property
    def id_of(self) -> dict[bytes, int]:
        """The id of each token's bytes; where several ids share them, the lowest."""
        return {token: id for id, token in reversed(self.tokens.bytes_of.items())}
