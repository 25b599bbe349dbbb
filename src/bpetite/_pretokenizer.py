"""Cut text: special literals out of it, and the rest into pieces."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

import regex

GPT2_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""GPT-2's pattern: contractions, words, numbers, other signs, white space.

Every character falls under one of its alternatives, so the pieces, joined, are the text.
"""

# Between a character that is not white space and one that is, GPT-2's pattern always cuts: no
# alternative has white space after anything else, none looks back, and the one that looks ahead
# does so from white space. So text may be cut there first, and each part on its own.
_SAFE_CUT = regex.compile(r"\S\s")

# Characters that are cut at a time. The pieces of one block fit the processor's cache, so they
# are cut and looked up faster than those of a whole text at once (measured: up to twice as fast).
_BLOCK = 4096


def slices(text: str) -> Iterator[str]:
    """Cut `text` into slices of some thousand characters, as `Pretokenizer.blocks` takes them."""
    return (text[start : start + _BLOCK] for start in range(0, len(text), _BLOCK))


class Pretokenizer:
    """Cut text into pieces by GPT-2's pattern.

    >>> list(Pretokenizer(GPT2_PATTERN).pieces("Hello world, it's 2026!"))
    [['Hello', ' world', ',', ' it', "'s", ' 2026', '!']]
    """

    def __init__(self, pattern: str) -> None:
        self.cut = regex.compile(pattern).findall

    def pieces(self, text: str) -> Iterator[list[str]]:
        """Yield the pieces of `text` in order, some thousand characters' worth at a time."""
        return map(self.cut, self.blocks(slices(text)) if len(text) > _BLOCK else (text,))

    def blocks(self, chunks: Iterable[str]) -> Iterator[str]:
        """Cut a text that comes in chunks anew, at places where a piece ends.

        The pieces of the blocks are the pieces of the whole text, which is never held whole:
        what is held is at most two chunks, or the stretch between two such places if that is
        longer.
        """
        held: list[str] = []
        for chunk in chunks:
            match = _SAFE_CUT.search(chunk)
            if match is None:
                held.append(chunk)
                continue
            cut = match.start() + 1
            held.append(chunk[:cut])
            yield "".join(held)
            held = [chunk[cut:]]
        yield "".join(held)


class SpecialSplitter:
    """Cut exact literals out of text; where one begins another, the longest counts.

    >>> list(SpecialSplitter(["<|a|>", "<|b|>"]).split("x<|b|>y"))
    [('x', '<|b|>'), ('y', None)]
    """

    def __init__(self, literals: Collection[str]) -> None:
        longest_first = sorted(literals, key=len, reverse=True)
        self._literals = re.compile("|".join(map(re.escape, longest_first))) if literals else None

    def split(self, text: str) -> Iterator[tuple[str, str | None]]:
        """Yield each stretch of ordinary text with the literal after it; None after the last."""
        start = 0
        for match in self._literals.finditer(text) if self._literals else ():
            yield text[start : match.start()], match.group()
            start = match.end()
        yield text[start:], None

    def first(self, text: str) -> tuple[str, int] | None:
        """Return the first literal in `text` and its position in characters, None if none is."""
        match = self._literals.search(text) if self._literals else None
        return (match.group(), match.start()) if match else None
