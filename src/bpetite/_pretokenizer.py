"""Cut text: special literals out of it, and the rest into pieces."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain
from operator import itemgetter
from types import MappingProxyType
from typing import Literal

import regex

from bpetite._unicode import (
    VERSION,
    differs,
    in_form_c,
    named_characters,
    stretches,
    with_stand_ins,
)

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_SIGNS_AND_SPACES = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_CL100K = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_SIGNS_AND_SPACES}"

PATTERNS = MappingProxyType(
    {
        # openai/gpt-2, src/encoder.py
        "gpt2": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        # openai/tiktoken, tiktoken_ext/openai_public.py
        "cl100k": _CL100K,
        # openai/tiktoken, tiktoken_ext/openai_public.py
        "o200k": (
            rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTIONS}?"
            rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTIONS}?"
            r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        ),
        # meta-llama/llama3, llama/tokenizer.py: that of cl100k
        "llama3": _CL100K,
        # Qwen/Qwen2, tokenizer.json: that of cl100k, but each digit by itself
        "qwen2": rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_SIGNS_AND_SPACES}",
    }
)
"""Patterns by name, in their portable form. Each matches every character of every text."""

GPT2_PATTERN = PATTERNS["gpt2"]

# Places where a text may be cut before the pattern runs, since a piece always ends there: no
# alternative goes on behind them, none looks back, and those that look ahead do so from white
# space that is not cut. With GPT-2's pattern that is before white space that follows anything
# else; with the others, which let line ends follow signs, before other white space, and between
# a line end and what is no white space (nor "/", which o200k lets follow a line end). The native
# core, whose classes are exact, cuts in more places, such as between a letter and a digit: here a
# letter of a later Unicode than the one that counts would be taken for one, and cut from signs.
_BEFORE_SPACE = regex.compile(r"\S(?=\s)")
_BEFORE_SPACE_OR_AFTER_LINE = regex.compile(r"\S(?=[^\S\r\n])|[\r\n](?=[^\s/])")
_SAFE_CUTS = {
    pattern: _BEFORE_SPACE if name == "gpt2" else _BEFORE_SPACE_OR_AFTER_LINE
    for name, pattern in PATTERNS.items()
}

# Characters that are cut at a time. The pieces of one block fit the processor's cache, so they
# are cut and looked up faster than those of a whole text at once (measured: up to twice as fast).
_BLOCK = 4096

# Texts on which a pattern must not match nothing at all, beside some that are made of the
# characters that it names. (Where it does so all the same, no piece is made of it.)
_MOST_PROBED = 100
_PROBES = ("", "a", "A1 b\n", " ", "\n", "'s", "é中🙂", "...")


def slices(text: str) -> Iterator[str]:
    """Cut `text` into slices of some thousand characters, as `Pretokenizer.blocks` takes them."""
    return (text[start : start + _BLOCK] for start in range(0, len(text), _BLOCK))


def pattern_of(name: str) -> str:
    """Return the pattern that has a name, or else what is given, which is a regular expression.

    >>> pattern_of("llama3") == PATTERNS["cl100k"]
    True

    Raises ValueError for a word that is no name: as a regular expression it would leave nearly
    all text in one piece.
    """
    if not isinstance(name, str):
        raise TypeError(f"pattern must be a str, got {type(name).__name__}")
    if name not in PATTERNS and re.fullmatch(r"[A-Za-z][\w-]{2,}", name):
        raise ValueError(f"no pattern has the name {name!r}; these have: {', '.join(PATTERNS)}")
    return PATTERNS.get(name, name)


def portable_pattern(pattern: str) -> str:
    r"""Return a regular expression that may be a pattern, or the one that has this name.

    >>> portable_pattern("qwen2") == PATTERNS["qwen2"], portable_pattern(r"\S+|\s+")
    (True, '\\S+|\\s+')

    Raises ValueError if it does not compile, can match nothing at all, has possessive quantifiers
    or atomic groups, which other engines read differently, or does not go through a text from its
    beginning to its end in the same way everywhere.
    """
    if not isinstance(pattern, str):
        raise TypeError(f"pattern must be a str, got {type(pattern).__name__}")
    pattern = PATTERNS.get(pattern, pattern)
    try:
        pattern.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"the pattern {pattern!r} has a lone surrogate") from None
    _check_items(pattern)
    try:
        compiled = regex.compile(pattern)
    except (regex.error, ValueError, RecursionError, OverflowError) as error:
        raise ValueError(
            f"the pattern {pattern!r} is neither one of {', '.join(PATTERNS)} nor a regular "
            f"expression: {error}"
        ) from None
    if compiled.flags & (regex.REVERSE | regex.LOCALE):
        raise ValueError(
            f"the pattern {pattern!r} goes backwards, by the flag r, or depends on the locale, by L"
        )
    named = named_characters(pattern)
    if differs(named):
        raise ValueError(
            f"the pattern {pattern!r} names a character that Unicode {VERSION} does not have"
        )
    characters = sorted(set(named))[:_MOST_PROBED]
    for probe in (*_PROBES, *characters, *(x + y for x in characters for y in "a1. \n" + x)):
        if any(match.start() == match.end() for match in compiled.finditer(probe)):
            raise ValueError(f"the pattern {pattern!r} can match nothing at all, as in {probe!r}")
    return pattern


# One item of a regular expression: an escape, a set, a quantifier with what makes it possessive,
# the beginning of a group of a kind that is refused, or anything.
_ITEM = re.compile(
    r"\\(?:[pPN]\{[^}]*\}|.)|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]"
    r"|(?:[*+?]|\{\d*,?\d*\})\+?|\(\?(?:>|R|[+-]?\d|&|P>)|.",
    re.DOTALL,
)

# How long a pattern may be when what it has counts of is written out, as the engine does.
_LONGEST = 100_000


def _check_items(pattern: str) -> None:
    """Raise ValueError for what other engines read differently, or for what has no end."""
    lengths = [0]  # of the groups that are open, written out
    last = 0  # of the last item
    for match in _ITEM.finditer(pattern):
        item, place = match.group(), f"at position {match.start()}"
        if item == "(?>" or (len(item) > 1 and item[0] in "*+?{" and item[-1] == "+"):
            raise ValueError(
                f"the pattern {pattern!r} has a possessive quantifier or an atomic group {place}, "
                f"which other engines read differently; write it without"
            )
        if item == r"\K" or (len(item) > 2 and item.startswith("(?")):
            raise ValueError(f"the pattern {pattern!r} goes back, or into itself, {place}")
        if item == "(":
            lengths.append(0)
            continue
        if item == ")" and len(lengths) > 1:
            last = lengths.pop()
        elif item[0] == "{" and len(item) > 2:
            last *= max(int(count or 0) for count in item[1:-1].split(","))
        else:
            last = 1
        lengths[-1] += last
        if lengths[-1] > _LONGEST:
            raise ValueError(
                f"the pattern {pattern!r} is longer than {_LONGEST} items {place}, where the "
                f"counts in it are written out"
            )


def _cut_by(pattern: str) -> Callable[[str], list[str]]:
    """Return what cuts a text by one pattern, gaps included."""
    compiled = regex.compile(pattern)
    if pattern in _SAFE_CUTS:
        return compiled.findall

    def cut(text: str) -> list[str]:
        pieces = []
        end = 0
        for match in compiled.finditer(text):
            start = match.start()
            if end < start:
                pieces.append(text[end:start])
            if start < match.end():
                pieces.append(match.group())
            end = match.end()
        if end < len(text):
            pieces.append(text[end:])
        return pieces

    return cut


def _cut_in_turn(cuts: Iterable[Callable[[str], list[str]]]) -> Callable[[str], list[str]]:
    def cut(text: str) -> list[str]:
        pieces = [text] if text else []
        for cut_piece in cuts:
            pieces = list(chain.from_iterable(map(cut_piece, pieces)))
        return pieces

    return cut


class Pretokenizer:
    """Cut text into pieces by a pattern, which `portable_pattern` returned.

    What the pattern does not match is a piece of its own, so the pieces, joined, are the text.
    If there are more patterns, each cuts the pieces of the one before it, as texts of their own.
    If there is a normalizer, it is the text in that normal form of Unicode that is cut.

    >>> pretokenizer = Pretokenizer(GPT2_PATTERN)
    >>> pretokenizer.cut("Hello world, it's 2026!")
    ['Hello', ' world', ',', ' it', "'s", ' 2026', '!']
    """

    def __init__(
        self,
        pattern: str,
        more_patterns: Iterable[str] = (),
        normalizer: Literal["NFC"] | None = None,
    ) -> None:
        self._compiled = regex.compile(pattern)
        patterns = (pattern, *more_patterns)
        cuts = [_cut_by(each) for each in patterns]
        self._stretches = stretches(patterns)
        self._safe_cut = _SAFE_CUTS.get(pattern) if len(cuts) == 1 else None
        self._normalizer = normalizer
        self.cut: Callable[[str], list[str]] = cuts[0] if len(cuts) == 1 else _cut_in_turn(cuts)
        """Return the pieces of a text in order, by the categories of the installed `regex`."""

    def cut_exactly(self, text: str) -> list[str]:
        """Return the pieces of a text in order, by the categories of one version of Unicode.

        `cut` returns the same, and faster, unless a piece of it is `doubtful`.
        """
        pieces = []
        start = 0
        for piece in self.cut(with_stand_ins(text, self._stretches)):
            end = start + len(piece)
            pieces.append(text[start:end])
            start = end
        return pieces

    def matches_all(self) -> bool:
        """Return whether the first pattern leaves nothing between its matches.

        Each character that there is is tried by itself, and before some of every kind. That is
        no proof, but of the patterns that have names it is known.
        """
        if self._safe_cut is not None:
            return True
        characters = [*map(chr, chain(range(0xD800), range(0xE000, 0x110000)))]
        return all(map(self._compiled.match, characters)) and all(
            sum(map(len, map(itemgetter(0), self._compiled.finditer(text)))) == len(text)
            for text in (behind.join([*characters, ""]) for behind in ("a", "1", ".", " ", "\n"))
        )

    @staticmethod
    def doubtful(piece: str) -> bool:
        """Return whether a text that `cut` cut this piece from must be cut by `cut_exactly`."""
        return differs(piece)

    def texts(self, text: str) -> Iterable[str]:
        """Cut a text into blocks of some thousand characters; their pieces are the text's."""
        if self._normalizer:
            text = in_form_c(text)
        return self.blocks(slices(text)) if len(text) > _BLOCK else (text,)

    def blocks(self, chunks: Iterable[str]) -> Iterator[str]:
        """Cut a text that comes in chunks anew, at places where a piece ends.

        The pieces of the blocks are the pieces of the whole text, which is never held whole:
        what is held is at most two chunks, or the stretch between two such places if that is
        longer.
        Of a pattern that is none of PATTERNS no such places are known: it is held whole.
        """
        held: list[str] = []
        for chunk in chunks:
            match = self._safe_cut.search(chunk) if self._safe_cut else None
            if match is None:
                held.append(chunk)
                continue
            held.append(chunk[: match.end()])
            yield "".join(held)
            held = [chunk[match.end() :]]
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
