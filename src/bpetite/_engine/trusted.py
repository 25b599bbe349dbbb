"""The parts of one text: where special literals count, and which ids begin in which part."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from bpetite._arguments import Trusted
from bpetite._pretokenizer import SpecialSplitter
from bpetite._stages import StagedSplitter


class Segment(NamedTuple):
    """The ordinary text between two special literals, which may have text of several parts."""

    text: str
    starts: list[int]
    """Where parts begin in the text, in characters."""
    literal: str | None
    """The special literal after the text; None after the last text."""


def segments(parts: Iterable[str], splitter: SpecialSplitter | StagedSplitter) -> Iterator[Segment]:
    """Yield the segments of a text in parts. Each literal in a trusted part ends one.

    >>> parts = [Trusted("<|a|>x"), "y<|a|>", Trusted("z")]
    >>> for segment in segments(parts, SpecialSplitter(["<|a|>"])):
    ...     print(*segment)
     [0] <|a|>
    xy<|a|>z [1, 7] None
    """
    texts: list[str] = []
    starts: list[int] = []
    length = 0
    for part in parts:
        starts.append(length)
        for text, literal in splitter.split(part) if isinstance(part, Trusted) else [(part, None)]:
            texts.append(text)
            length += len(text)
            if literal is not None:
                yield Segment("".join(texts), starts, literal)
                texts, starts, length = [], [], 0
    yield Segment("".join(texts), starts, None)


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
