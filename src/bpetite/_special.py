"""Which special literals of a text become ids, and which it must not have."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from bpetite._pretokenizer import SpecialSplitter
from bpetite._text import Text, as_str

Specials = Literal["all"] | Collection[str]
"""Some special tokens, or all of them."""


@dataclass(frozen=True)
class Choice:
    """What becomes of the special literals in a text.

    If `ordinary`, all of them are ordinary text. If there is a `splitter`, only what it cuts out
    is not; if there is none, all become ids.
    """

    ordinary: bool = False
    splitter: SpecialSplitter | None = None
    refused: SpecialSplitter | None = None

    def checked(self, text: Text) -> Text:
        """Return a text, once no literal that is refused is found in it.

        Raises ValueError for one that is, and what `as_str` does.
        """
        if self.refused is None:
            return text
        string = as_str(text)
        if found := self.refused.first(string):
            literal, position = found
            place = f"character {position}"
            if not isinstance(text, str):
                place = f"byte {len(string[:position].encode())}"
            raise ValueError(
                f"text has the special token {literal!r} at {place}, which "
                f"disallowed_special refuses; to encode it as its id, pass "
                f"allowed_special={{{literal!r}}} and leave it out of disallowed_special; "
                f"to encode it as ordinary text, leave it out of both, or use encode_ordinary"
            )
        return string

    def checked_batch(self, texts: list[Text]) -> list[Text]:
        """Return some texts, once each is as `checked` returns it."""
        return texts if self.refused is None else list(map(self.checked, texts))


_EVERY_ID = Choice()
_ORDINARY = Choice(ordinary=True)


def choose(
    special_tokens: Mapping[str, int], allowed_special: Specials, disallowed_special: Specials
) -> Choice:
    """Return what the two arguments of `Tokenizer.encode` mean for these special tokens.

    >>> choose({"<|a|>": 256}, allowed_special=(), disallowed_special=()).ordinary
    True

    Raises ValueError for a name that is none of them, TypeError for a wrong type.
    """
    if disallowed_special == ():
        if allowed_special == "all":
            return _EVERY_ID
        if allowed_special == ():
            return _ORDINARY
    allowed = _literals(special_tokens, allowed_special, "allowed_special")
    refused = _literals(special_tokens, disallowed_special, "disallowed_special")
    if disallowed_special == "all":
        refused -= allowed
    return _choice(allowed, refused, len(allowed) == len(special_tokens))


@lru_cache(maxsize=64)
def _choice(allowed: frozenset[str], refused: frozenset[str], all_are_allowed: bool) -> Choice:
    return Choice(
        ordinary=not allowed,
        splitter=SpecialSplitter(allowed) if allowed and not all_are_allowed else None,
        refused=SpecialSplitter(refused) if refused else None,
    )


def _literals(special_tokens: Mapping[str, int], specials: Specials, name: str) -> frozenset[str]:
    """Return the literals that an argument means."""
    if isinstance(specials, str):
        if specials == "all":
            return frozenset(special_tokens)
        raise TypeError(
            f'{name} must be "all" or a collection of special tokens, got the str '
            f"{specials!r}; for one, pass {{{specials!r}}}"
        )
    if not isinstance(specials, Iterable):
        raise TypeError(
            f'{name} must be "all" or a collection of special tokens, got {type(specials).__name__}'
        )
    literals = frozenset(specials)
    for literal in literals - special_tokens.keys():
        raise ValueError(
            f"{name} has {literal!r}, which is not a special token of this vocabulary "
            f"(these are: {', '.join(map(repr, special_tokens)) or 'none'})"
        )
    return literals
