"""The parts of one text: where special literals count, and which ids begin in which part."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from bpetite._arguments import Trusted
from bpetite._pretokenizer import Span, SpecialSplitter
from bpetite._stages import StagedSplitter


class Segment(NamedTuple):
    """The ordinary text between two special literals, which may have text of several parts."""

    text: str
    starts: list[int]
    """Where parts begin in the text, in characters."""
    literal: str | None
    """The special literal after the text; None after the last text."""


def segments(parts: Iterable[str], splitter: SpecialSplitter | StagedSplitter) -> Iterator[Segment]:
    """Yield the segments of a text in parts. Each literal that counts ends one.

    >>> parts = [Trusted("<|a|>x"), "y<|a|> ", " ", Trusted("z")]
    >>> for segment in segments(parts, SpecialSplitter(["<|a|>", "  "], plain=["  "])):
    ...     print(segment)
    Segment(text='', starts=[0], literal='<|a|>')
    Segment(text='xy<|a|>', starts=[1], literal='  ')
    Segment(text='z', starts=[0, 0], literal=None)
    """
    parts = [*parts]
    text = "".join(parts)
    begins = [*accumulate(map(len, parts), initial=0)]
    first = 0
    for start, end, literal in splitter.split_trusted(text, trusted_spans(parts)):
        last = bisect_right(begins, end, first, len(parts))
        starts = [max(begin - start, 0) for begin in begins[first:last]]
        yield Segment(text[start:end], starts, literal)
        first = last


def trusted_spans(parts: Sequence[str]) -> list[Span]:
    """Return where each trusted part of a text begins and ends in it."""
    bounds = pairwise(accumulate(map(len, parts), initial=0))
    return [span for part, span in zip(parts, bounds, strict=True) if isinstance(part, Trusted)]


def beginning(parts: Iterable[str], size: int) -> Iterator[str]:
    """Yield the parts of a text, up to a number of characters.

    >>> [*beginning(["ab", Trusted("cd"), "e"], 3)]
    ['ab', Trusted('c')]
    """
    for part in parts:
        if size <= 0:
            return
        cut = part[:size]
        yield Trusted(cut) if isinstance(part, Trusted) else cut
        size -= len(part)


def with_space(space: str, parts: Iterable[str]) -> Iterator[str]:
    """Yield the parts of a text with a space, or nothing, before the first that is not empty."""
    for part in parts:
        if space and part:
            yield Trusted(space + part) if isinstance(part, Trusted) else space + part
            space = ""
        else:
            yield part


def first_tokens(text: str, starts: Sequence[int], tokens: Iterable[bytes]) -> list[int]:
    r"""Return, for each start, the index of the first token that begins there or later.

    `starts` are ascending positions in a text, in characters. `tokens` are the text's tokens.

    >>> first_tokens("é ab", [0, 2, 3, 4], [b"\xc3", b"\xa9", b" a", b"b"])
    [0, 3, 3, 4]
    """
    if not starts or not starts[-1]:
        return [0] * len(starts)
    if not text.isascii():
        sizes = (len(text[start:end].encode()) for start, end in pairwise([0, *starts]))
        starts = [*accumulate(sizes)]
    token_starts = [*accumulate(map(len, tokens), initial=0)]
    return [bisect_left(token_starts, start) for start in starts]
