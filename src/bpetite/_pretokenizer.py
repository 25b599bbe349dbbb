"""Text in, pieces out: special literals are split off, and patterns split the rest.

The named patterns are here. `_unicode/patterns.py` reads the syntax of patterns and corrects their
classes.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextvars import ContextVar
from functools import partial
from itertools import accumulate, chain, groupby, islice, pairwise, product, takewhile
from operator import add, itemgetter
from time import process_time
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Literal

from bpetite._automaton import Splits, automaton_of, digest_of, safe_splits_of
from bpetite._pattern_tree import NoTreeError, pattern_tree
from bpetite._unicode import WHITE_SPACE, compile_regex, differing, differs
from bpetite._unicode.byte_characters import to_bytes, to_characters
from bpetite._unicode.patterns import corrected, items, named_characters
from bpetite._vocabulary import Vocabulary, lazy_property

if TYPE_CHECKING:
    import regex

# Parts of several patterns; UPPER and LOWER are the inside of a set.
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}"
LOWER = r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
SYMBOLS_AND_SPACES = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_CL100K = rf"{CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{SYMBOLS_AND_SPACES}"

_BEFORE_WORD = r"[^\r\n\p{L}\p{N}]?"
# Characters of words, without those of Chinese
_UPPER_NOT_HAN = rf"(?:(?!\p{{Han}})[{UPPER}])"
_LOWER_NOT_HAN = rf"(?:(?!\p{{Han}})[{LOWER}])"

PATTERNS = MappingProxyType(
    {
        # openai/gpt-2, src/encoder.py
        "gpt2": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        # openai/tiktoken, tiktoken_ext/openai_public.py
        "cl100k": _CL100K,
        # openai/tiktoken, tiktoken_ext/openai_public.py
        "o200k": (
            rf"[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]*[{LOWER}]+{CONTRACTIONS}?"
            rf"|[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]+[{LOWER}]*{CONTRACTIONS}?"
            r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        ),
        # meta-llama/llama3, llama/tokenizer.py: the pattern of cl100k
        "llama3": _CL100K,
        # Qwen/Qwen2, tokenizer.json: the pattern of cl100k, with each digit a piece
        "qwen2": rf"{CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{SYMBOLS_AND_SPACES}",
        # Qwen/Qwen3.5, tokenizer.json: the pattern of qwen2, with marks in words
        "qwen3.5": (
            rf"{CONTRACTIONS}|{_BEFORE_WORD}[\p{{L}}\p{{M}}]+|\p{{N}}"
            r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        ),
        # moonshotai/Kimi-K2-Instruct, tokenization_kimi.py: o200k's, with Chinese words apart
        "kimi-k2": (
            rf"[\p{{Han}}]+|{_BEFORE_WORD}{_UPPER_NOT_HAN}*{_LOWER_NOT_HAN}+{CONTRACTIONS}?"
            rf"|{_BEFORE_WORD}{_UPPER_NOT_HAN}+{_LOWER_NOT_HAN}*{CONTRACTIONS}?"
            rf"|\p{{N}}{{1,3}}|{SYMBOLS_AND_SPACES}"
        ),
        # For tokens of several words, learnt on top of a vocabulary of another pattern
        "words": rf"\p{{N}}{{1,3}}| ?\p{{L}}+(?: \p{{L}}+)*|{SYMBOLS_AND_SPACES}",
    }
)
"""Patterns by name, in their portable form. Each matches every character of every text."""

GPT2_PATTERN = PATTERNS["gpt2"]

# openai/tiktoken, tiktoken_ext/openai_public.py, made portable. Unlike the pattern "cl100k", it
# takes white space at the end of a text as one piece, even with newlines inside.
TIKTOKEN_CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s+(?![\s\S])|\s*[\r\n]|\s+(?!\S)|\s"
)

Span = tuple[int, int]
"""Where a part of a text begins and ends, in characters."""

MATCH_ALL = r"[\s\S]+"
"""The pattern that leaves a text in one piece."""

_NAMED = frozenset(PATTERNS.values())

_WHITE_SPACE = frozenset(WHITE_SPACE)

# The digests of the automata of named patterns, which need some milliseconds each.
_NAME_OF_DIGEST = {
    "0226bc3370d8194e": "gpt2",
    "42a729865c17bf81": "cl100k",
    "3d48e96de7dd9302": "o200k",
    "04935cf68fef70b0": "qwen2",
    "85d349aff7fac1fd": "qwen3.5",
    "633816d3b2e8893f": "kimi-k2",
    "368c0c741f11dc1f": "words",
}

# The pieces of a block this long fit the processor's cache. Splitting and looking them up is up
# to twice as fast as for a whole text at once (measured).
BLOCK_CHARACTERS = 4096


def chunks_of(text: str, size: int = BLOCK_CHARACTERS) -> Iterator[str]:
    """Yield `text` in chunks of some thousand characters, which `blocks_of_chunks` takes."""
    return (text[start : start + size] for start in range(0, len(text), size))


class Pretokenizer:
    """Split text into pieces by patterns that `portable_pattern` returned.

    Text between two matches is a piece too, so the pieces, joined, are the text. Each further
    pattern splits every piece of the pattern before it, as a text of its own. A normalizer brings
    text into a normal form of Unicode before the first pattern.

    >>> pretokenizer = Pretokenizer(GPT2_PATTERN)
    >>> pretokenizer.split("Hello world, it's 2026!")
    ['Hello', ' world', ',', ' it', "'s", ' 2026', '!']
    """

    def __init__(
        self,
        *patterns: str,
        normalizer: Literal["NFC"] | None = None,
        steps: tuple[str, ...] = (),
        cuts: Cuts | None = None,
    ) -> None:
        """`steps` are those of `Stages`. Pieces are cut by `cuts` at last."""
        self._patterns = patterns
        self._steps = steps
        self._cuts = cuts
        # Of the other steps, some change text, and some join or drop pieces of the first pattern.
        (self._first_pattern, *_), (first, *others) = cuts_of(patterns, steps)
        self._first_cuts = first == "isolated" and {*others} <= {"isolated", "bytes"}
        self._has_splits = self._first_cuts
        self._corrected: tuple[frozenset[str], Callable[[str], list[str]]] | None = None
        self._normalizer = normalizer

    @lazy_property
    def _split(self) -> Callable[[str], list[str]]:
        return self._splitter(self._patterns)

    @lazy_property
    def split(self) -> Callable[[str], list[str]]:
        """Return the pieces of a text in order, by the categories of the installed `regex`."""
        return self.split_exactly if self._steps else self._split

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> Pretokenizer:
        """Return what splits the texts of a vocabulary."""
        normalizers = vocabulary.normalizers
        has_cuts = vocabulary.stages.byte_fallback
        pretokenizer = cls(
            *vocabulary.patterns,
            normalizer="NFC" if normalizers == (("NFC",),) else None,
            steps=vocabulary.stages.steps,
            cuts=Cuts(vocabulary.glued) if has_cuts else None,
        )
        pretokenizer._has_splits &= has_cuts or len(normalizers) == bool(pretokenizer._normalizer)
        return pretokenizer

    def forget_splits(self) -> None:
        """Know no place where a text may be split before it is normalized."""
        self._has_splits = False

    def _splitter(self, patterns: Iterable[str]) -> Callable[[str], list[str]]:
        splits = [_split_by(each) for each in patterns]
        if self._steps:
            splits = [_split_in_steps(self._steps, patterns)]
        if self._cuts:
            splits = [*(splits if self._first_pattern != MATCH_ALL else ()), self._cuts.split]
        return _split_in_turn(splits)

    def split_exactly(self, text: str) -> list[str]:
        """Return the pieces of a text in order, by the categories of one version of Unicode.

        `split` is faster, and returns the same pieces if none of its pieces `needs_resplit`.
        """
        characters = differing(text)
        if not characters:
            return self._split(text)
        known = self._corrected
        if known is None or not characters <= known[0]:
            characters |= known[0] if known else characters
            patterns = [corrected(each, characters) for each in self._patterns]
            known = characters, self._splitter(patterns)
            self._corrected = known
        return known[1](text)

    def traced(
        self, text: str, origins: Sequence[int], spread: Spread
    ) -> Iterator[tuple[bytes, Sequence[int]]]:
        """Yield the bytes of the pieces of a text, and where each byte comes from.

        `origins` tell it of each character.
        """
        if self._steps:
            characters = differing(text)
            patterns = [corrected(each, characters) for each in self._patterns]
            pieces = _trace_in_steps(self._steps, patterns)(text, origins, spread)
        else:
            texts = self.split_exactly(text)
            ends = accumulate(map(len, texts))
            pieces = [
                (each, origins[end - len(each) : end])
                for each, end in zip(texts, ends, strict=True)
            ]
        is_spread = "bytes" in self._steps
        for piece, at in pieces:
            yield piece.encode("utf-8", "surrogateescape"), at if is_spread else spread(piece, at)

    @property
    def safe_splits(self) -> Splits | None:
        """Where a text may be split before the first pattern runs; None if no such place is known.

        The other patterns split each of its pieces by itself.
        """
        if self._cuts and self._first_pattern == MATCH_ALL:
            return self._cuts
        return safe_splits_of(self._first_pattern) if self._first_cuts else None

    @property
    def raw_splits(self) -> Splits | None:
        """Where a text may be split before it is normalized."""
        if not self._has_splits:
            return None
        if self._cuts:
            return self.safe_splits
        return safe_splits_of(self._first_pattern, self._normalizer is not None)

    needs_resplit: ClassVar[staticmethod[[str], bool]] = staticmethod(differs)
    """Return whether the text of a piece has to go through `split_exactly`."""

    def matches_all(self) -> bool:
        """Return whether the first pattern leaves no text between its matches.

        A pattern without an automaton is tried on each character alone, and before one character
        of each kind, which proves nothing but finds the usual gaps.
        """
        if automaton := automaton_of(self._patterns[0]):
            return automaton.matches_all()
        compiled = compile_regex(self._patterns[0])
        characters = [*map(chr, chain(range(0xD800), range(0xE000, 0x110000)))]
        if not all(map(compiled.match, characters)):
            return False
        # In short texts: a pattern may look at all that follows each character.
        blocks = [characters[start : start + 20] for start in range(0, len(characters), 20)]
        return not any(
            compiled.sub("", follower.join([*block, ""]))
            for follower, block in product(("a", "1", ".", " ", "\n"), blocks)
        )

    def blocks(self, text: str) -> Iterable[str]:
        """Split a normalized text at safe splits into blocks of some thousand characters."""
        return self.blocks_of_chunks(chunks_of(text)) if len(text) > BLOCK_CHARACTERS else (text,)

    def blocks_of_chunks(self, chunks: Iterable[str]) -> Iterator[str]:
        """Split a text that comes in chunks at safe splits instead.

        The pieces of the blocks are the pieces of the whole text. At most two chunks are in memory
        at a time, or the text between two safe splits if that is longer. A pattern for which no
        safe split is known makes the whole text one block.
        """
        splits = self.safe_splits
        unsplit: list[str] = []
        for chunk in chunks:
            split = splits.first(chunk, 0, len(chunk)) if splits else len(chunk)
            if split == len(chunk):
                unsplit.append(chunk)
                continue
            unsplit.append(chunk[:split])
            yield "".join(unsplit)
            unsplit = [chunk[split:]]
        yield "".join(unsplit)


class Cuts(Splits):
    """The places between two characters that no merge makes neighbours in a token.

    No merge crosses such a place, because it would make a token that has both characters. So merges
    on one side never depend on the other, whatever the order of their ranks. U+2581 counts as a
    space, which it becomes.

    >>> Cuts({"ab", " a"}).split("ab aba\u2581")
    ['ab', ' ab', 'a', '\u2581']
    """

    def __init__(self, glued: Collection[str]) -> None:
        """`glued` has each two characters in a row of the tokens that merges make."""
        self.glued = glued

    def find(self, text: str) -> Iterator[int]:
        """Yield the cuts of a text."""
        text, glued = text.replace("\u2581", " "), self.glued
        pairs = map(add, text, islice(text, 1, None))
        return (at for at, pair in enumerate(pairs, 1) if pair not in glued)

    def split(self, text: str) -> list[str]:
        """Return the pieces of a text."""
        cuts = [0, *self.find(text), len(text)]
        return [text[start:end] for start, end in pairwise(cuts)] if text else []


pattern_end: ContextVar[float | None] = ContextVar("pattern_end", default=None)
"""When a pattern raises TimeoutError, by `time.process_time`; None for never. Not a named one."""


def _seconds_until(end: float) -> float:
    return max(end - process_time(), 0.001)


def time_left() -> float | None:
    """Return the seconds that a pattern may still take; None if nothing limits them."""
    return None if (end := pattern_end.get()) is None else _seconds_until(end)


def _split_by(pattern: str) -> Callable[[str], list[str]]:
    """Return a function that splits a text by one pattern and keeps the text between matches."""
    compiled = compile_regex(pattern)
    if pattern in _NAMED:
        return compiled.findall

    def split(text: str) -> list[str]:
        pieces: list[str] = []
        end = 0
        for match in compiled.finditer(text, timeout=time_left()):
            pieces += text[end : match.start()], match.group()
            end = match.end()
        pieces.append(text[end:])
        return list(filter(None, pieces))

    return split


def _split_in_turn(splits: list[Callable[[str], list[str]]]) -> Callable[[str], list[str]]:
    if len(splits) == 1:
        return splits[0]

    def split(text: str) -> list[str]:
        pieces = [text] if text else []
        for split_piece in splits:
            pieces = list(chain.from_iterable(map(split_piece, pieces)))
        return pieces

    return split


def _split_in_steps(steps: Iterable[str], patterns: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a function that takes the steps of `Stages`.

    Bytes that are no characters are surrogates in its pieces, as `errors="surrogateescape"` has it.
    """
    trace = _trace_in_steps(steps, patterns)
    return lambda text: [piece for piece, _ in trace(text, (), _no_origins)]


_WITH_PREVIOUS, _WITH_NEXT = "{other}+{one}?|{one}", "{one}{other}+|{one}|{other}+"
_JOINED = {
    "contiguous": "{one}+",
    "not contiguous": "{one}+",
    "merged_with_previous": _WITH_PREVIOUS,
    "not merged_with_next": _WITH_PREVIOUS,
    "merged_with_next": _WITH_NEXT,
    "not merged_with_previous": _WITH_NEXT,
}
"""The pattern that, isolated, makes the pieces of each step of a pattern for one character."""


def cuts_of(
    patterns: tuple[str, ...], steps: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    r"""Return patterns and steps of `Stages`, with the step "isolated" where that makes the pieces.

    >>> cuts_of((r"\p{N}", r"\s+"), ("contiguous", "bytes", "removed"))
    (('(?:\\p{N})+', '\\s+'), ('isolated', 'bytes', 'removed'))
    """
    if not steps:
        return patterns, ("isolated",) * len(patterns)
    waiting = iter(patterns)
    pairs = [("", step) if step in _CHANGES else _isolated(next(waiting), step) for step in steps]
    return tuple(pattern for pattern, _ in pairs if pattern), tuple(step for _, step in pairs)


def _isolated(pattern: str, step: str) -> tuple[str, str]:
    joined = _JOINED.get(step)
    if joined is None or not _is_one_character(pattern):
        return pattern, step
    other = rf"(?:(?!{pattern})[\s\S])"
    return joined.format(one=f"(?:{pattern})", other=other), "isolated"


def _is_one_character(pattern: str) -> bool:
    try:
        return bool(pattern_tree(pattern)[0][0] == "set")
    except NoTreeError:
        return False


Traced = tuple[str, Sequence[int]]
"""A piece, and where each of its characters comes from."""

Spread = Callable[[str, Sequence[int]], Sequence[int]]
"""Returns where the bytes of a piece come from, if it knows it of the characters."""


def _no_origins(_text: str, _origins: Sequence[int]) -> Sequence[int]:
    return ()


def _trace_in_steps(
    steps: Iterable[str], patterns: Iterable[str]
) -> Callable[[str, Sequence[int], Spread], list[Traced]]:
    """Return a function that takes the steps of `Stages` and knows where all characters come from.

    If the vocabulary has the step "bytes", the function returns it of the bytes of pieces.
    """
    waiting = iter(patterns)
    changes = [
        _CHANGES.get(step) or partial(_cut, _marked_by(next(waiting)), step) for step in steps
    ]
    has_bytes = "bytes" in steps

    def trace(text: str, origins: Sequence[int], spread: Spread) -> list[Traced]:
        pieces: list[Traced] = [(text, origins)] if text else []
        for change in changes:
            pieces = [new for piece, at in pieces for new in change(piece, at, spread)]
        if has_bytes:
            return [(to_bytes(each).decode("utf-8", "surrogateescape"), at) for each, at in pieces]
        return pieces

    return trace


def _spaced(text: str, origins: Sequence[int], _: Spread) -> list[Traced]:
    return [(text, origins) if text.startswith(" ") else (" " + text, [*origins[:1], *origins])]


def _in_bytes(text: str, origins: Sequence[int], spread: Spread) -> list[Traced]:
    return [(to_characters(text.encode()), spread(text, origins))]


_CHANGES = {"space": _spaced, "bytes": _in_bytes}
"""The steps that split nothing."""


def _cut(
    mark: Callable[[str], _Marked], step: str, text: str, origins: Sequence[int], _: Spread
) -> list[Traced]:
    return [(text[start:end], origins[start:end]) for start, end in _arranged(mark, step, text)]


_Marked = list[tuple[int, int, bool]]
"""The bounds of the parts of a text, and whether each is a match."""


def _marked_by(pattern: str) -> Callable[[str], _Marked]:
    compiled = compile_regex(pattern)

    def mark(text: str) -> _Marked:
        parts: _Marked = []
        end = 0
        for match in compiled.finditer(text, timeout=time_left()):
            parts += (end, match.start(), False), (*match.span(), True)
            end = match.end()
        parts.append((end, len(text), False))
        return [part for part in parts if part[0] < part[1]]

    return mark


def _arranged(mark: Callable[[str], _Marked], step: str, piece: str) -> list[tuple[int, int]]:
    """Return the bounds of the pieces that a behavior makes of one.

    >>> mark = _marked_by("-+|,")
    >>> _arranged(mark, "merged_with_previous", "a-b,-c"), _arranged(mark, "contiguous", "a-b,-c")
    ([(0, 2), (2, 4), (4, 5), (5, 6)], [(0, 1), (1, 2), (2, 3), (3, 5), (5, 6)])
    """
    parts = mark(piece)
    behavior = step.removeprefix("not ")
    if behavior != step:
        parts = [(start, end, not is_match) for start, end, is_match in parts]
    if behavior in ("isolated", "removed"):
        keeps_all = behavior == "isolated"
        return [(start, end) for start, end, is_match in parts if keeps_all or not is_match]
    if behavior == "contiguous":
        runs = ([*run] for _, run in groupby(parts, itemgetter(2)))
        return [(run[0][0], run[-1][1]) for run in runs]
    # The first match of a row joins the text next to it.
    is_next = behavior == "merged_with_next"
    pieces: list[tuple[int, int]] = []
    was_match = False
    for start, end, is_match in reversed(parts) if is_next else parts:
        if is_match and not was_match and pieces:
            first, last = pieces[-1]
            pieces[-1] = min(first, start), max(last, end)
        else:
            pieces.append((start, end))
        was_match = is_match
    return pieces[::-1] if is_next else pieces


class ChunkSplitter:
    """Finds where a text that arrives in chunks of UTF-8 may be split, whatever text follows.

    The ids of the two sides, joined, are those of the whole text: a piece ends at the split, and
    no literal spans it. A literal that the text has only begun counts too.

    >>> splitter = ChunkSplitter(Pretokenizer(GPT2_PATTERN), ["<|the end|>"])
    >>> splitter.last_split(b"it is"), splitter.last_split(b"it is <|the e")
    (2, 5)
    """

    def __init__(
        self,
        pretokenizer: Pretokenizer,
        literals: Collection[str],
        flags: Collection[str] = (),
        apart: bool = False,
        plain: Collection[str] = (),
        made: Callable[[Splits], Splits] = lambda splits: splits,
    ) -> None:
        """`flags` are those that any of the literals has; `apart` from literals lies each split.

        `plain` literals count in untrusted text too. `made` returns what finds splits faster.
        """
        splits = pretokenizer.raw_splits
        self._splits = made(splits) if splits else None
        self._specials = SpecialSplitter(literals, plain)
        self._has_flags = bool(flags)
        self._apart = apart or self._has_flags
        has_plain, sees_words = bool(self._specials.plain), "single_word" in flags
        self.crosses_segments: bool = has_plain or sees_words
        """Whether literals may depend on what is trusted in the text before a segment."""
        self.looks_around: bool = sees_words or (has_plain and self._has_flags)
        """Whether literals of segments may depend on the text around them, up to a split."""
        # No later text changes such a literal, or the white space that it takes.
        self._has_ends = {*flags} <= {"lstrip"}
        # The most bytes of a literal that begins before a split, and of a character.
        self._context = _MAX_CHARACTER_BYTES * (1 + self._specials.max_length)

    def last_split(self, data: bytes | bytearray, searched: int = 0) -> int:
        """Return the offset of the last split, or 0 without a known one.

        `searched` is the length of `data` at an earlier call that found none. `data` may be any
        bytes: those that are not UTF-8 are found when they are encoded.
        """
        if self._splits is None:
            return 0
        least, size = max(searched - self._context, 0), _SPLIT_WINDOW_BYTES
        while True:
            lower = max(len(data) - size, least)
            start = lower - self._context
            start = character_start(data, start) if start > 0 else 0
            before = len(data[start:lower].decode("utf-8", "ignore")) if lower else 0
            text = data[start:].decode("utf-8", "surrogateescape")
            split = self._last_split_of(text, before, self._splits)
            if split:
                return start + len(text[:split].encode("utf-8", "surrogateescape"))
            if lower == least:
                return 0
            size *= 4

    @property
    def has_splits(self) -> bool:
        """Whether any split is known."""
        return self._splits is not None

    @property
    def max_literal_length(self) -> int:
        """The number of characters of the longest literal."""
        return self._specials.max_length

    def is_split(self, text: str, at: int) -> bool:
        """Return whether a whole text may be split at a position, which is not its end."""
        return (
            at > 0
            and self._splits is not None
            and self._splits.first(text, at - 1, at + 1) == at
            and not self._is_taken(text, at)
        )

    def _is_taken(self, text: str, at: int) -> bool:
        """Return whether a literal spans a position of `text`, or its flags may look across it."""
        if not self._apart:
            return self._specials.spans(text, at)
        follows_space = self._has_flags and text[at - 1] in _WHITE_SPACE
        return follows_space or self._specials.touches(text, at)

    def splits(self, text: str, start: int, end: int) -> Iterator[int]:
        """Yield where `text[start:end]` may be split, and `end`."""
        while self._splits and (start := self._splits.first(text, start, end)) < end:
            if not self._is_taken(text, start):
                yield start
        yield end

    def last(self, text: str, start: int, end: int) -> int:
        """Return the last place where `text[start:end]` may be split, `start` without one."""
        while self._splits and (end := self._splits.last(text, start, end)) > start:
            if not self._is_taken(text, end):
                return end
            if self._has_flags:  # each place in white space is taken
                near = text[max(end - _NEAR_CHARACTERS, start) : end]
                end = min(end - len(near) + len(near.rstrip(WHITE_SPACE)) + 1, end)
        return start

    def begun(self, text: str) -> int:
        """Return the first position where a literal may begin that later text completes.

        Without such a position, it is the length of `text`. It is 0 if that cannot be told.
        """
        return self._specials.begun(text) if self._has_ends else 0

    def last_literal_end(
        self, data: bytearray, searched: int = 0, trusted: Sequence[Span] | None = None
    ) -> tuple[int, int]:
        """Return the end of the last literal that no later text changes, or 0.

        `trusted` has the ascending bounds of trusted bytes, as in `SpecialSplitter.find`.

        `data` is UTF-8 that begins at a split; only its last character may be unfinished. The
        second offset is `searched` of the next call with longer data: between both, no literal
        begins.
        """
        if not self._has_ends:
            return 0, 0
        text = data[searched:].decode("utf-8", "surrogateescape").rstrip(_UNDECODED)

        def place(offset: int) -> int:
            return len(data[searched : max(offset, searched)].decode("utf-8", "ignore"))

        if trusted is not None:
            trusted = [(place(start), place(end)) for start, end in trusted]
        end, begun = self._specials.last_end(text, trusted)
        next_search = searched + len(text[:begun].encode())
        return (searched + len(text[:end].encode()) if end else 0), next_search

    def _last_split_of(self, text: str, least: int, splits: Splits) -> int:
        """Return the position of the last split that is at least `least`, or 0."""
        text = text.rstrip(_UNDECODED)  # the beginning of a character
        start, split, sure = max(least - 1, 0), len(text), -1
        while (split := splits.last(text, start, split)) > start:
            if sure < 0:
                sure = self._specials.begun(text) - self._has_flags
            if split <= sure and not self._is_taken(text, split):
                return split
        return 0


def character_start(data: bytes | bytearray, offset: int) -> int:
    """Return the first offset from `offset` on where a character begins, if the bytes are UTF-8."""
    for start in range(offset, min(offset + _MAX_CHARACTER_BYTES, len(data))):
        if data[start] & 0xC0 != 0x80:
            return start
    return offset


# The last word or two: a text usually has a split there. A longer search costs more than the rest
# of a short step.
_SPLIT_WINDOW_BYTES = 1 << 5
_NEAR_CHARACTERS = 1 << 6
_MAX_CHARACTER_BYTES = 4
_UNDECODED = "".join(map(chr, range(0xDC80, 0xDD00)))


def _common_prefix(first: str, last: str) -> str:
    """Return the longest string with which both begin. Python 3.15 deprecates its own function."""
    pairs = zip(first, last, strict=False)
    return "".join(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


class SpecialSplitter:
    """Split exact literals off text; of several that begin at one position, the longest.

    `re` finds the positions where the first characters of a literal stand. A binary search in the
    sorted literals then finds the longest literal there. So the time is linear in the text, and
    grows with the logarithm of the number of literals.

    >>> list(SpecialSplitter(["<|a|>", "<|b|>"]).split("x<|b|>y"))
    [('x', '<|b|>'), ('y', None)]
    """

    def __init__(self, literals: Collection[str], plain: Collection[str] = ()) -> None:
        """`plain` literals count in all text, the others only in trusted text."""
        self._sorted = sorted(literals)
        self.plain: frozenset[str] = frozenset(plain)
        self.max_length: int = max(map(len, literals), default=0)
        """The number of characters of the longest literal."""
        # For each literal, the literals that it begins with, itself included, shortest first.
        self._prefixes: list[tuple[str, ...]] = []
        prefixes: list[str] = []
        for literal in self._sorted:
            while prefixes and not literal.startswith(prefixes[-1]):
                prefixes.pop()
            prefixes.append(literal)
            self._prefixes.append(tuple(prefixes))
        self._candidates = re.compile(self._beginning()) if literals else None
        firsts = "".join(map(re.escape, sorted({literal[0] for literal in literals})))
        self._firsts = re.compile(f"[{firsts}]") if literals else None

    def _beginning(self) -> str:
        """Return a regular expression for the common prefix and the character after it."""
        prefix = _common_prefix(self._sorted[0], self._sorted[-1])
        pattern = re.escape(prefix)
        if self._sorted[0] != prefix:
            following = sorted({literal[len(prefix)] for literal in self._sorted})
            pattern += f"[{''.join(map(re.escape, following))}]"
        return pattern

    def split(self, text: str, ordinary: bool = False) -> Iterator[tuple[str, str | None]]:
        """Yield each segment of ordinary text with the literal after it; None after the last.

        In `ordinary` text, no literal counts.
        """
        start = 0
        if ordinary:
            yield text, None
            return
        for literal, position in self.find(text):
            yield text[start:position], literal
            start = position + len(literal)
        yield text[start:], None

    def is_plain(self, literal: str) -> bool:
        """Return whether a literal counts in untrusted text."""
        return literal in self.plain

    def split_trusted(
        self, text: str, trusted: Sequence[Span]
    ) -> Iterator[tuple[int, int, str | None]]:
        """Yield the bounds of each segment and the literal after it, as `find` finds literals."""
        start = 0
        for literal, position in self.find(text, trusted):
            yield start, position, literal
            start = position + len(literal)
        yield start, len(text), None

    def normalized(self, text: str) -> str:
        """Return a text as it is; `StagedSplitter` may change it."""
        return text

    def first(self, text: str) -> tuple[str, int] | None:
        """Return the first literal in `text` with its position in characters, None without one."""
        return next(self.find(text), None)

    def spans(self, text: str, at: int) -> bool:
        """Return whether a literal begins before a position of `text` and ends after it."""
        return self._crosses(text, at, 0)

    def touches(self, text: str, at: int) -> bool:
        """Return whether a literal begins or ends at a position of `text`, or spans it."""
        return self._crosses(text, at, 1)

    def _crosses(self, text: str, at: int, reach: int) -> bool:
        if self._candidates is None:
            return False
        length = self.max_length - 1 + reach
        near = text[max(at - length, 0) : at + length]
        before = min(at, length)
        candidate = self._candidates.search(near)
        while candidate and candidate.start() < before + reach:
            prefixes = self._prefixes_of(near[candidate.start() :])
            if prefixes and candidate.start() + len(prefixes[-1]) > before - reach:
                return True
            candidate = self._candidates.search(near, candidate.start() + 1)
        return False

    def begun(self, text: str, start: int = 0) -> int:
        """Return the first position where a literal may begin that more text completes.

        The search begins at `start`. Without such a position, it is the length of `text`.
        """
        start = max(start, len(text) - self.max_length + 1)
        for candidate in self._firsts.finditer(text, start) if self._firsts else ():
            beginning = text[candidate.start() :]
            index = bisect_right(self._sorted, beginning)
            if index < len(self._sorted) and self._sorted[index].startswith(beginning):
                return candidate.start()
        return len(text)

    def last_end(self, text: str, trusted: Sequence[Span] | None = None) -> tuple[int, int]:
        """Return the end of the last literal that no later text changes, or 0.

        `text` begins where a literal may begin, and literals count as in `find`. The second
        position is where a search may go on once there is more text: no literal begins between
        both.

        >>> SpecialSplitter(["<|a|>", "<|a|>b"]).last_end("<|a|>c<|a|>")
        (5, 6)
        """
        end, begun = 0, self.begun(text)
        for literal, position in self.find(text, trusted):
            if begun <= position:
                break
            end = position + len(literal)
            if begun < end:
                begun = self.begun(text, end)
        return end, begun

    def find(self, text: str, trusted: Sequence[Span] | None = None) -> Iterator[tuple[str, int]]:
        """Yield each literal in a text with its position in characters.

        If `trusted` has the ascending bounds of trusted text, a literal that is not plain counts
        only if all of it lies between two of them.

        >>> [*SpecialSplitter(["<a>", "<a>b", "b"], ["b"]).find("<a>b<a>b", [(0, 3)])]
        [('<a>', 0), ('b', 3), ('b', 7)]
        """
        starts = [start for start, _ in trusted or ()]

        def counts(literal: str, position: int) -> bool:
            if trusted is None or literal in self.plain:
                return True
            index = bisect_right(starts, position) - 1
            return index >= 0 and position + len(literal) <= trusted[index][1]

        candidate = self._candidates.search(text) if self._candidates else None
        while self._candidates and candidate:
            position = candidate.start()
            prefixes = self._prefixes_of(text[position : position + self.max_length])
            literal = next((each for each in reversed(prefixes) if counts(each, position)), None)
            if literal is not None:
                yield literal, position
                position += len(literal) - 1
            candidate = self._candidates.search(text, position + 1)

    def _prefixes_of(self, text: str) -> tuple[str, ...]:
        """Return the literals that `text` begins with, the shortest first.

        Every literal that begins `text` sorts before it. So the last literal that sorts before
        `text`, or is equal, has all of them among its prefixes.
        """
        index = bisect_right(self._sorted, text) - 1
        if index < 0:
            return ()
        prefixes = self._prefixes[index]
        if text.startswith(prefixes[-1]):
            return prefixes
        count = bisect_left(prefixes, True, key=lambda literal: not text.startswith(literal))
        return prefixes[:count]


def pattern_of(name: str) -> str:
    """Return the pattern that has this name, or `name` itself if it is a regular expression.

    >>> pattern_of("llama3") == PATTERNS["cl100k"]
    True

    Raises ValueError for a word that is no name. As a regular expression, a word would leave
    nearly all text in one piece.
    """
    if not isinstance(name, str):
        raise TypeError(f"pattern must be a str, got {type(name).__name__}")
    if name not in PATTERNS and re.fullmatch(r"[A-Za-z][\w.-]*[\w-]{2}", name):
        raise ValueError(f"no pattern has the name {name!r}; the names are: {', '.join(PATTERNS)}")
    return PATTERNS.get(name, name)


def shown_pattern(pattern: str) -> str:
    r"""Return a pattern for an error message: its name, or a regular expression, cut short.

    >>> shown_pattern(GPT2_PATTERN), shown_pattern(r"\s+|\S+")
    ('gpt2', "'\\\\s+|\\\\S+'")
    """
    names = (name for name, named in PATTERNS.items() if pattern in (name, named))
    cut = pattern if len(pattern) <= _MAX_SHOWN_CHARACTERS else pattern[:_MAX_SHOWN_CHARACTERS]
    return next(names, repr(cut) + "..." * (cut != pattern))


_MAX_SHOWN_CHARACTERS = 80

# Beside the texts made of the characters that a pattern names, no match may be empty on these.
_PROBES = ("", "a", "A1 b\n", " ", "\n", "'s", "é中🙂", "...")
_MAX_PROBED_CHARACTERS = 100

# Each further character of a run doubles the time of a pattern that backtracks. With this many,
# other patterns need microseconds.
_RUN_CHARACTERS = 40
_RUNS = ("a", "A", "1", " ", "\n", ".", "é", "中", "aA", "a1", "a ", "a.", "a中")
_MAX_PROBE_SECONDS = 0.5


def portable_pattern(pattern: str) -> str:
    r"""Return a pattern by its name, or a regular expression that may be a pattern.

    A regular expression whose matches are those of a named pattern becomes that pattern.

    >>> portable_pattern("qwen2") == PATTERNS["qwen2"], portable_pattern(r"\S+|\s+")
    (True, '\\S+|\\s+')

    Raises ValueError for a regular expression that does not compile, can match the empty string,
    backtracks without bound, has possessive quantifiers or atomic groups (other engines read them
    differently), or does not go through a text from its beginning to its end.
    """
    if not isinstance(pattern, str):
        raise TypeError(f"pattern must be a str, got {type(pattern).__name__}")
    pattern = PATTERNS.get(pattern, pattern)
    if pattern in _NAMED:
        return pattern
    try:
        pattern.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"the pattern {shown_pattern(pattern)} has a lone surrogate") from None
    _check_items(pattern)
    import regex

    try:
        compiled = regex.compile(pattern)
    except (
        *(regex.error, ValueError, RecursionError, OverflowError),
        *(KeyError, AttributeError),
    ) as error:
        reason: object = error
        if isinstance(error, KeyError):  # `regex` 2025.9.18 does not find both flags in a table
            reason = "the flags V0 and V1 are mutually exclusive"
        elif isinstance(error, AttributeError):
            reason = "regex cannot compile a set that has or lacks every character"
        raise ValueError(
            f"the pattern {shown_pattern(pattern)} is neither one of {', '.join(PATTERNS)} nor a "
            f"regular expression: {reason}"
        ) from None
    if compiled.flags & (regex.REVERSE | regex.LOCALE):
        raise ValueError(
            f"the pattern {shown_pattern(pattern)} has the flag r (backwards) or L (locale); "
            f"remove it"
        )
    named = named_characters(pattern)
    _probe(compiled, named)
    return PATTERNS.get(_NAME_OF_DIGEST.get(digest_of(pattern) or "", ""), pattern)


def _probe(compiled: regex.Pattern[str], named: str) -> None:
    """Raise ValueError for a pattern that matches the empty string or backtracks in some probe.

    `named` is the text that the pattern names. `regex` does not even begin to match a text without
    the words that every match has, so `named` follows each run.
    """
    characters = sorted(set(named))[:_MAX_PROBED_CHARACTERS]
    runs = ((run * _RUN_CHARACTERS)[:_RUN_CHARACTERS] for run in (*_RUNS, *characters))
    probes = (
        *_PROBES,
        *characters,
        *(x + y for x in characters for y in "a1. \n" + x),
        *(run + end for run in runs for end in ("", "\0" + named[:_MAX_PROBED_CHARACTERS])),
    )
    end = process_time() + _MAX_PROBE_SECONDS
    for probe in probes:
        try:
            matches = list(compiled.finditer(probe, timeout=_seconds_until(end)))
        except TimeoutError:
            raise ValueError(
                f"the pattern {shown_pattern(compiled.pattern)} backtracks: it needs more than "
                f"{_MAX_PROBE_SECONDS:g} s for the {len(probe)} characters {probe!r}; rewrite it "
                f"so that no repeated part can match a text in two ways"
            ) from None
        if any(match.start() == match.end() for match in matches):
            raise ValueError(
                f"the pattern {shown_pattern(compiled.pattern)} can match the empty string, for "
                f"example in {probe!r}"
            )


# The limit on a pattern's items once its counts are written out, as `regex` does.
_MAX_ITEMS = 100_000


def _check_items(pattern: str) -> None:
    """Raise ValueError for an item that other engines read differently, and for recursion."""
    lengths = [0]  # of the open groups, with counts written out
    last = 0  # the length of the last item
    for item in items(pattern):
        text, position = item.text, f"at position {item.start}"
        if item.kind == "skipped":
            continue
        if text == "(?>" or (item.kind == "repeat" and len(text) > 1 and text[-1] == "+"):
            raise ValueError(
                f"the pattern {shown_pattern(pattern)} has a possessive quantifier or an atomic "
                f"group {position}, which other engines read differently; write it without"
            )
        if item.kind == "recursion":
            raise ValueError(
                f"the pattern {shown_pattern(pattern)} uses \\K or recursion {position}"
            )
        if item.kind == "unclear":
            raise ValueError(
                f"the pattern {shown_pattern(pattern)} has an item {position} that versions of "
                f"regex may read differently: {pattern[item.start : item.start + 20]!r}; write it "
                f"without white space, comments, backslashes and operators inside"
            )
        if item.kind == "open":
            lengths.append(0)
            continue
        if item.kind == "close" and len(lengths) > 1:
            last = lengths.pop()
        elif item.kind == "repeat" and text[0] == "{":
            last *= max(map(_count, re.sub(r"#.*", "", text).split(",")))
        else:
            last = 1
        lengths[-1] += last
        if lengths[-1] > _MAX_ITEMS:
            raise ValueError(
                f"the pattern {shown_pattern(pattern)} is longer than {_MAX_ITEMS} items "
                f"{position}, with its counts written out"
            )


def _count(text: str) -> int:
    return int("".join(re.findall("[0-9]", text)) or 0)
