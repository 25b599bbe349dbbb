"""Texts cut to a number of ids: prefixes, suffixes and chunks that fit a budget.

The number of ids does not always grow with the text: "toke" may have more ids than "token". But at
a safe split, where a piece ends in any case, the ids of both sides add up. So the last safe split
within the budget and the next one are found by adding up ids, and only the few characters between
these two are tried one by one.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Literal, NamedTuple

from bpetite._arguments import raise_in_whole
from bpetite._decoder import characters_in
from bpetite._pretokenizer import ChunkSplitter
from bpetite._vocabulary import TokenBytes


@dataclass(init=False)
class Chunk:
    """A part of a text, `whole[start:end]`, and its ids, which `len` counts. It is a dataclass.

    >>> import dataclasses
    >>> chunk = Chunk("ab", 3, 5, [256])
    >>> len(chunk), dataclasses.asdict(chunk)
    (1, {'text': 'ab', 'start': 3, 'end': 5, 'ids': [256]})
    """

    __slots__ = ("_ids", "end", "start", "text")

    text: str
    start: int
    """Where the part begins in the whole text, in characters."""
    end: int
    ids: list[int]

    def __init__(self, text: str, start: int, end: int, ids: Sequence[int] | memoryview) -> None:
        self.text = text
        self.start = start
        self.end = end
        self._ids = ids

    @property  # type: ignore[no-redef] # a field that is made when it is read
    def ids(self) -> list[int]:
        """The ids that `encode` returns for the part alone, in a new list."""
        # To make a list takes longer than to encode the part, and many users only want the text.
        return self._ids.tolist() if isinstance(self._ids, memoryview) else [*self._ids]

    def __len__(self) -> int:
        return len(self._ids)

    def __reduce__(self) -> tuple[type[Chunk], tuple[str, int, int, list[int]]]:
        return Chunk, (self.text, self.start, self.end, self.ids)  # no memoryview can be pickled


class _Cut(NamedTuple):
    """A safe split that fits a budget, and the next one, which does not."""

    fits: int  # the number of characters within the budget
    ids: int  # the number of their ids
    exceeds: int  # the number of characters up to the next split. It is `fits` if all text fits.


# The first window for a budget has room for long tokens, so that few texts need a second one.
_CHARACTERS_PER_ID = 8
_WINDOW_CHARACTERS = 1 << 16

# The most characters at the start of a chunk whose ids a space before them may change.
_MAX_START = 64

# How often a chunk is cut shorter until its own ids are within the budget.
_MAX_TRIES = 3

# Between two safe splits, every cut is tried, up to this number.
_MAX_TRIED_CUTS = 512
_ANCHOR_DISTANCE = 128
_MAX_ANCHORS = 64
_ANCHOR_SLACK = 2

# Cuts of up to this length are counted from the safe split, without an anchor.
_MAX_UNANCHORED = 2048

# The most ends of lines that are tried if they may exceed the budget.
_MAX_TRIED_ENDS = 32

ChunkEnd = Literal["line", "paragraph"]

# The ends that a chunk prefers, best first. A paragraph ends after the blank lines that follow it.
_LINE_END = re.compile(r"\n")
_PARAGRAPH_END = re.compile(r"\n(?:[^\S\n]*+\n)++")
PREFERRED_ENDS: Final = {"line": (_LINE_END,), "paragraph": (_PARAGRAPH_END, _LINE_END)}

# Unicode Standard Annex 15 names the worst case of NFKD. For NFD, it is 4, which fits too.
_MAX_DECOMPOSITION = 18


class TextCutter:
    """Cuts texts by the ids of `encode`, in a buffer. `count` returns the number of these ids.

    `bytes_of` has the bytes of each id, and `characters` returns the number of characters that
    begin in the bytes of several. `is_unchanged` returns whether the normalizer leaves a text
    unchanged, so that its ids have the bytes of the text; None means that there is no normalizer.
    If text may be `dropped`, its length says nothing about the number of its ids.
    """

    def __init__(
        self,
        encode: Callable[[str], memoryview],
        count: Callable[[str], int],
        bytes_of: TokenBytes,
        characters: Callable[[memoryview], int],
        splitter: ChunkSplitter,
        is_unchanged: Callable[[str], bool] | None,
        dropped: bool,
    ) -> None:
        self.encode = encode
        self.count = count
        self._bytes_of = bytes_of
        self.characters = characters
        self._splitter = splitter
        self._is_unchanged = is_unchanged
        self._dropped = dropped

    def fits(self, text: str, budget: int) -> bool:
        with positions_in(text):
            search = _SplitSearch(self._splitter, text)
            return self.prefix_cut(text, 0, budget, search).fits == len(text)

    def prefix(self, text: str, budget: int) -> int:
        """Return the length of the longest prefix with at most `budget` ids."""
        with positions_in(text):
            cut = self.prefix_cut(text, 0, budget, _SplitSearch(self._splitter, text))
            return self._longest_prefix(text, 0, budget, cut)

    def suffix(self, text: str, budget: int) -> int:
        """Return the length of the longest suffix with at most `budget` ids."""
        with positions_in(text):
            cut = self._suffix(text, 0, len(text), budget)
            return self._longest_suffix(text, len(text), budget, cut)

    def chunks(
        self, text: str, budget: int, overlap: int, at: ChunkEnd | None = None
    ) -> Iterator[Chunk]:
        """Yield parts of at most `budget` ids, in order, that end at safe splits if they can.

        With `at`, they end where a line or a paragraph does if they can. A part begins with at most
        `overlap` ids of the part before. Raises ValueError for a character with more than `budget`
        ids.
        """
        with positions_in(text):
            yield from self._chunks(text, budget, overlap, at)

    def _chunks(self, text: str, budget: int, overlap: int, at: ChunkEnd | None) -> Iterator[Chunk]:
        search = _SplitSearch(self._splitter, text)
        lines = _LineSearch(self, text, budget, search, at) if at else None
        has_window = lines is None and self.inside.has_measure(text)
        window = _Window(self, text, budget) if has_window else None
        start = last_end = 0
        while start < len(text):
            if window is not None:
                end, ids = window.chunk(start)
            elif lines is not None:
                start, end = lines.chunk(start, last_end)
                ids = self.encode(text[start:end])
            else:
                cut = self.prefix_cut(text, start, budget, search)
                end = start + (cut.fits or self.near_prefix(text, start, budget, cut))
                ids = self.encode(text[start:end])
            if end == start:
                count = self.count(text[start])
                raise ValueError(
                    f"the character {text[start]!r} at position {start} has {count} ids, more "
                    f"than the {budget} that max_tokens leaves for text"
                )
            if end <= last_end:
                start = last_end  # the overlap leaves no room for more text
                continue
            yield Chunk(text[start:end], start, end, ids)
            last_end = end
            if end == len(text):
                return
            if not overlap:
                start = end
            else:
                known = window.overlap_start(start, end, ids, overlap) if window else None
                start = known or self._overlap_start(text, start, end, overlap)

    def _overlap_start(self, text: str, start: int, end: int, overlap: int) -> int:
        """Return where the chunk after `text[start:end]` begins; never at `start` again."""
        cut = self._suffix(text, start, end, overlap)
        new_start = end - (cut.fits or self._near_suffix(text, end, overlap, cut))
        return new_start if new_start > start else next(self._splitter.splits(text, start, end))

    @property
    def inside(self) -> TextCutter:
        """What cuts text that is not at the start of a text."""
        return self

    @property
    def max_token(self) -> int:
        """A number of characters that no token exceeds."""
        return self._bytes_of.max_length

    def first_split(self, text: str, start: int, end: int) -> int:
        """Return the first safe split of `text[start:end]`, `end` without one."""
        return next(self._splitter.splits(text, start, end))

    def last_split(self, text: str, start: int, end: int) -> int:
        """Return the last safe split of `text[start:end]`, `start` without one."""
        return self._splitter.last(text, start, end)

    def splits_at(self, text: str, at: int) -> bool:
        """Return whether a text may be split at a position, which is not its end."""
        return self._splitter.is_split(text, at)

    def has_measure(self, text: str) -> bool:
        """Return whether safe splits of a text can be found from its ids."""
        if not self._splitter.has_splits:
            return False
        return self._is_unchanged is None or self._is_unchanged(text)

    # The last safe split that fits

    def prefix_cut(self, text: str, start: int, budget: int, search: _SplitSearch) -> _Cut:
        """Return the cut of `text[start:]`; `start` is the start of a text or a safe split."""
        size = first_characters(budget)
        while True:
            part = text[start : start + size]
            if not self.has_measure(part):
                return self.prefix_by_counts(text, start, budget, search)
            ids = self.encode(part)
            if start + size >= len(text) and len(ids) <= budget:
                return _Cut(len(text) - start, len(ids), len(text) - start)
            if len(ids) > budget:
                number, at = self.split_before(text, start, ids, 0, budget)
                above = self._split_after(text, start, ids, budget)
                if above is not None:
                    return _Cut(at - start, number, above - start)
                rest = self.prefix_by_counts(text, at, budget - number, search)
                before = at - start
                return _Cut(before + rest.fits, number + rest.ids, before + rest.exceeds)
            size *= 2

    def _suffix(self, text: str, start: int, end: int, budget: int) -> _Cut:
        """Return the cut of `text[start:end]` from its end."""
        size = first_characters(budget)
        while True:
            first = max(end - size, start)
            part = text[first:end]
            if not self.has_measure(part):
                return self._suffix_by_counts(text, start, end, budget)
            ids = self.encode(part)
            if first == start and len(ids) <= budget:
                return _Cut(end - start, len(ids), end - start)
            if len(ids) > budget:
                within = len(ids) - budget
                number, above = self.split_before(text, first, ids, 0, within - 1)
                at = end - self.characters(ids[within:])
                while within < len(ids) and not self.is_split(text, at, ids, within):
                    at += characters_in(self._bytes_of[ids[within]])
                    within += 1
                fits, used = end - at, len(ids) - within
                if number or first == start:
                    return _Cut(fits, used, end - above)
                rest = self._suffix_by_counts(text, start, at, budget - used)
                return _Cut(fits + rest.fits, used + rest.ids, fits + rest.exceeds)
            size *= 2

    def split_before(
        self, text: str, start: int, ids: memoryview, first: int, number: int
    ) -> tuple[int, int]:
        """Return the last safe split after at most `number` ids from `ids[first]` on.

        `start` is the position of the text of `ids[first]`. The result is the number of ids before
        the split, and its position; without a split, 0 and `start`.
        """
        bytes_of, is_split = self._bytes_of, self._splitter.is_split
        at = start + self.characters(ids[first : first + number])
        token = bytes_of[ids[first + number]]
        # `self.is_split`, inlined: a call for each id would be slow.
        while number > 0 and (token[0] & 0xC0 == 0x80 or not is_split(text, at)):
            number -= 1
            token = bytes_of[ids[first + number]]
            at -= characters_in(token)
        return number, (at if number else start)

    def _split_after(self, text: str, start: int, ids: memoryview, number: int) -> int | None:
        """Return the first safe split after more than `number` ids, None without one."""
        at = start + self.characters(ids[:number])
        for index in range(number, len(ids) - 1):
            at += characters_in(self._bytes_of[ids[index]])
            if self.is_split(text, at, ids, index + 1):
                return at
        return None

    def is_split(self, text: str, at: int, ids: memoryview, index: int) -> bool:
        """Return whether the text may be split before `ids[index]`, whose text begins at `at`."""
        return self.is_boundary(ids, index) and self._splitter.is_split(text, at)

    def is_boundary(self, ids: memoryview, index: int) -> bool:
        """Return whether `ids[index]` begins at the start of a character."""
        return self._bytes_of[ids[index]][0] & 0xC0 != 0x80

    # The text between two safe splits is counted if the ids of a window lead to no safe split above
    # the budget. Texts that a normalizer changes have no such windows, and patterns that only
    # `regex` can follow have no safe splits.

    def prefix_by_counts(self, text: str, start: int, budget: int, search: _SplitSearch) -> _Cut:
        fits, ids = start, 0
        last = min(start + self.exceeding_characters(budget), len(text))
        for at in search.splits(start, last):
            count = self._count_up_to(text, fits, at, budget - ids)
            if count is None:
                return _Cut(fits - start, ids, at - start)
            fits, ids = at, ids + count
        return _Cut(last - start, ids, last - start)

    def _suffix_by_counts(self, text: str, start: int, end: int, budget: int) -> _Cut:
        fits, ids = end, 0
        start = max(end - self.exceeding_characters(budget), start)
        for at in reversed([start, *self._splitter.splits(text, start, end)][:-1]):
            count = self._count_up_to(text, at, fits, budget - ids)
            if count is None:
                return _Cut(end - fits, ids, end - at)
            fits, ids = at, ids + count
        return _Cut(end - start, ids, end - start)

    def _count_up_to(self, text: str, start: int, end: int, budget: int) -> int | None:
        """Return the number of ids of `text[start:end]`, None if it exceeds a budget."""
        if end - start > first_characters(budget) and self._exceeds(text, start, end, budget):
            return None  # so no long text is encoded for a small budget
        count = self.count(text[start:end])
        return count if count <= budget else None

    def _exceeds(self, text: str, start: int, end: int, budget: int) -> bool:
        """Return whether the length of `text[start:end]` shows that it exceeds a budget."""
        if self._dropped:
            return False
        length, is_unchanged = end - start, self._is_unchanged
        # ǖ has two bytes in form C, and is decomposed to three characters: the most for its bytes.
        least_bytes = length if is_unchanged is None else length * 2 // 3
        if least_bytes > budget * self._bytes_of.max_length:
            return True
        part = text[start:end]
        if is_unchanged is not None and not is_unchanged(part):
            return False
        data = part.encode("utf-8")
        lengths = self._bytes_of.max_lengths
        return len(data) > budget * max(lengths[byte] for byte in set(data))

    def exceeding_characters(self, budget: int) -> int:
        """Return a number of characters that exceeds every text within a budget."""
        if self._dropped:
            return sys.maxsize
        per_byte = _MAX_DECOMPOSITION if self._is_unchanged else 1
        return budget * per_byte * self._bytes_of.max_length + 1

    # Between two safe splits

    def _longest_prefix(self, text: str, start: int, budget: int, cut: _Cut) -> int:
        """Return the length of the longest prefix of `text[start:]` that fits."""
        fits = start + cut.fits

        def count(near: int, far: int) -> int:
            return self.count(text[fits + near : fits + far])

        return cut.fits + _longest(count, cut.exceeds - cut.fits, budget - cut.ids)

    def _longest_suffix(self, text: str, end: int, budget: int, cut: _Cut) -> int:
        """Return the length of the longest suffix of `text[:end]` that fits."""
        fits = end - cut.fits

        def count(near: int, far: int) -> int:
            return self.count(text[fits - far : fits - near])

        return cut.fits + _longest(count, cut.exceeds - cut.fits, budget - cut.ids)

    def near_prefix(self, text: str, start: int, budget: int, cut: _Cut) -> int:
        """Return the length of a long prefix of `text[start:]` that fits."""
        return _near(lambda _, far: self.count(text[start : start + far]), cut.exceeds, budget)

    def _near_suffix(self, text: str, end: int, budget: int, cut: _Cut) -> int:
        """Return the length of a long suffix of `text[:end]` that fits."""
        return _near(lambda _, far: self.count(text[end - far : end]), cut.exceeds, budget)


class StartCutter(TextCutter):
    """A `TextCutter` for a vocabulary that may put a space before a text.

    Up to the first safe split, a text has the ids of `encode`. `inside` cuts the rest, which has
    the ids that it would have inside a text.
    """

    def __init__(self, inside: TextCutter, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._inside = inside

    @property
    def inside(self) -> TextCutter:
        return self._inside

    def has_measure(self, text: str) -> bool:  # noqa: ARG002
        return False  # the ids have a space that the text lacks

    def prefix_cut(self, text: str, start: int, budget: int, search: _SplitSearch) -> _Cut:
        first = search.first(start, min(start + self.exceeding_characters(budget), len(text)))
        count = self._count_up_to(text, start, first, budget)
        if count is None:
            return _Cut(0, 0, first - start)
        rest = self.inside.prefix_cut(text, first, budget - count, search)
        size = first - start
        return _Cut(size + rest.fits, count + rest.ids, size + rest.exceeds)

    def _longest_prefix(self, text: str, start: int, budget: int, cut: _Cut) -> int:
        if cut.fits:
            return self.inside._longest_prefix(text, start, budget, cut)
        return super()._longest_prefix(text, start, budget, cut)

    def suffix(self, text: str, budget: int) -> int:
        end = len(text)
        with positions_in(text):
            cut = self.inside._suffix(text, 0, end, budget)
            while (longest := self._longest_suffix(text, end, budget, cut)) == cut.fits:
                if self.count(text[end - cut.fits :]) <= budget:
                    break
                cut = self._shorter(text, end, cut)
            return longest

    def _suffix(self, text: str, start: int, end: int, budget: int) -> _Cut:
        cut = self.inside._suffix(text, start, end, budget)
        while (count := self.count(text[end - cut.fits : end])) > budget:
            cut = self._shorter(text, end, cut)
        return cut._replace(ids=count)

    def _shorter(self, text: str, end: int, cut: _Cut) -> _Cut:
        """Return a cut of a suffix of `text[:end]` without the first piece of what fits."""
        at = next(self._splitter.splits(text, end - cut.fits, end))
        return _Cut(end - at, self.inside.count(text[at:end]), cut.fits)


class _SplitSearch:
    """Finds the safe splits of a text, and searches each long stretch without one only once.

    There is no split between `_start` and `_end`. There may be one at `_end`.
    """

    def __init__(self, splitter: ChunkSplitter, text: str) -> None:
        self._splitter = splitter
        self._text = text
        self._start = self._end = 0

    def first(self, start: int, end: int) -> int:
        """Return the first place where `text[start:end]` may be split, `end` without one."""
        if start < self._start:  # a chunk that overlaps the one before
            limit = min(self._start + 1, end)
            at = self._found(start, limit)
            if at < limit or limit == end:
                return at
        elif start >= self._end:
            self._start, self._end = start, self._found(start, end)
        if self._end < end:
            self._end = self._found(self._end - 1, end)
        return min(self._end, end)

    def splits(self, start: int, end: int) -> Iterator[int]:
        """Yield where `text[start:end]` may be split, and `end`."""
        while start < end:
            start = self.first(start, end)
            yield start

    def _found(self, start: int, end: int) -> int:
        return next(self._splitter.splits(self._text, start, end))


class _Window:
    """The ids of a long part of a text, which show where chunks may end.

    A chunk between safe splits has them. Any other chunk is encoded by itself, and hardly ever has
    other ids: what no token spans, no merge spanned.
    """

    def __init__(self, cutter: TextCutter, text: str, budget: int) -> None:
        self._cutter = cutter
        self._text = text
        self._budget = budget
        self._least = self._size = first_characters(budget) + cutter.max_token
        self._ids = memoryview(b"")
        self._start = self._end = 0
        # Where a chunk and the next one begin, with the numbers of their first ids.
        self._chunk = self._next = 0, 0
        self._most = 0  # the ids that a chunk may have

    def chunk(self, start: int) -> tuple[int, memoryview]:
        """Return the end of a chunk that begins at `start`, and its ids. The end may be `start`."""
        cutter, text, budget = self._cutter, self._text, self._budget
        first = self._first_id(start)
        self._chunk = start, first
        is_sure = cutter is cutter.inside and (
            start == self._start or cutter.splits_at(text, start)
        )
        most = len(self._ids) - first - (self._end < len(text))
        number = self._most = min(budget + self._surplus(start), most)
        for _ in range(_MAX_TRIES):
            number, end, is_split = self._cut(start, first, number)
            self._next = end, first + number
            if is_sure and is_split:
                return end, self._ids[first : first + number]
            ids = cutter.encode(text[start:end])
            if len(ids) <= budget:
                return end, ids
            number = max(number - (len(ids) - budget), 0)
        end = start + cutter.near_prefix(text, start, budget, _Cut(0, 0, end - start))
        return end, cutter.encode(text[start:end])

    def _surplus(self, start: int) -> int:
        """Return how many more ids the first piece has inside a text than at its start."""
        cutter = self._cutter
        if cutter.inside is cutter:
            return 0
        end = min(start + _MAX_START, len(self._text))
        head = self._text[start : cutter.first_split(self._text, start, end)]
        return cutter.inside.count(head) - cutter.count(head)

    def overlap_start(self, start: int, end: int, ids: memoryview, overlap: int) -> int | None:
        """Return where the chunk after `text[start:end]` begins; None if its ids do not show it."""
        cutter, text = self._cutter, self._text
        for number in (overlap, overlap - 1):  # with a space at the start, there may be one more
            at = end - cutter.characters(ids[len(ids) - number :]) if number < len(ids) else start
            if at > start:
                split = cutter.first_split(text, at - 1, end)
                new_start = split if split < end else at
                if cutter.count(text[new_start:end]) <= overlap:
                    at, last = self._next
                    first = last - number
                    count = cutter.characters(self._ids[first:last])
                    if (at, count) == (end, end - new_start) and cutter.is_boundary(
                        self._ids, first
                    ):
                        self._next = new_start, first  # bisection takes longer
                    return new_start
        return None

    def _cut(self, start: int, first: int, number: int) -> tuple[int, int, bool]:
        """Return the last safe split after at most `number` ids: their number, and its position.

        Without one, return the last place between two characters, and False. It is not `start`.
        """
        cutter, text, ids = self._cutter, self._text, self._ids
        end = start + cutter.characters(ids[first : first + number])
        if first + number == len(ids):
            return number, end, True  # the end of the text
        split = cutter.last_split(text, start, end + cutter.is_boundary(ids, first + number))
        if split > start:
            return (number if split == end else self._count(split)), split, True
        while number and not cutter.is_boundary(ids, first + number):
            number -= 1
        end = start + cutter.characters(ids[first : first + number])
        return number, max(end, start + 1), False

    def _count(self, at: int) -> int:
        """Return the number of ids from the start of the last chunk up to `at`, which is in it."""
        start, first = self._chunk
        ids, characters = self._ids[first : first + self._most + 1], self._cutter.characters
        numbers = range(len(ids) + 1)
        return bisect_right(numbers, at - start, key=lambda number: characters(ids[:number])) - 1

    def _first_id(self, start: int) -> int:
        """Return the number of the first id of a chunk, in a window that shows where it ends."""
        text, encode = self._text, self._cutter.inside.encode
        first = self._known_id(start)
        if first is not None and self._reaches(start, first):
            return first
        size = self._least if first is None else self._size
        while True:
            self._start, self._end = start, min(start + size, len(text))
            self._ids = encode(text[start : self._end])
            self._size = max(size, min(2 * size, _WINDOW_CHARACTERS))
            if self._reaches(start, 0):
                return 0
            size *= 2

    def _known_id(self, start: int) -> int | None:
        """Return the number of the first id of a chunk; None if no id begins there."""
        at, first = self._next
        if at != start:
            at, first = self._chunk
            number = self._count(start)
            at += self._cutter.characters(self._ids[first : first + number])
            first += number
        is_known = (
            at == start and first < len(self._ids) and self._cutter.is_boundary(self._ids, first)
        )
        return first if is_known else None

    def _reaches(self, start: int, first: int) -> bool:
        """Return whether the window goes on after the budget, or up to the end of the text."""
        if self._end == len(self._text):
            return True
        past = first + self._budget
        if past >= len(self._ids):
            return False
        end = start + self._cutter.characters(self._ids[first:past])
        return end + self._cutter.max_token <= self._end  # a window may end inside a token


class _LineSearch:
    """Finds chunks of a text that end where a line or a paragraph does, if one can.

    Such an end need not be a safe split, so the text up to it is counted by itself.
    """

    def __init__(
        self, cutter: TextCutter, text: str, budget: int, search: _SplitSearch, at: ChunkEnd
    ) -> None:
        self._cutter = cutter
        self._text = text
        self._budget = budget
        self._search = search
        self._kinds = [_Ends(text, pattern) for pattern in PREFERRED_ENDS[at]]

    def chunk(self, start: int, last_end: int) -> tuple[int, int]:
        """Return the start and the end of a chunk that continues after `last_end`.

        It begins at `start`, or at `last_end`, without an overlap, if it can only end as preferred
        that way.
        """
        starts = (start,) if start == last_end else (start, last_end)
        reaches = [(each, *self._reach(each)) for each in starts]
        for ends in self._kinds:
            for each, _, limit in reaches:
                end = self._last_end(each, ends.between(last_end, limit))
                if end:
                    return each, end
        return reaches[0][:2]

    def _reach(self, start: int) -> tuple[int, int]:
        """Return where a chunk without preferred ends would end, and where any chunk must end."""
        cutter, text, budget = self._cutter, self._text, self._budget
        cut = cutter.prefix_cut(text, start, budget, self._search)
        if cut.exceeds == cut.fits:
            return start + cut.fits, start + cut.fits
        limit = cut.exceeds - 1
        near = 0
        if not cut.fits or limit - cut.fits > first_characters(budget):
            near = limit = cutter.near_prefix(text, start, budget, cut)
        return start + (cut.fits or near), start + max(cut.fits, limit)

    def _last_end(self, start: int, ends: Sequence[int]) -> int:
        """Return the last of some ends that is within the budget, 0 without one."""
        low, high = 0, len(ends)
        while high - low > _MAX_TRIED_ENDS:
            middle = (low + high) // 2  # a longer text hardly ever has fewer ids
            low, high = (middle, high) if self._fits(start, ends[middle]) else (low, middle)
        return next((end for end in reversed(ends[low:high]) if self._fits(start, end)), 0)

    def _fits(self, start: int, end: int) -> bool:
        return self._cutter.count(self._text[start:end]) <= self._budget


class _Ends:
    """The ends of the matches of a pattern in a text, and the end of the text.

    They are found once, and dropped when `start` has passed them.
    """

    def __init__(self, text: str, pattern: re.Pattern[str]) -> None:
        self._found = chain((match.end() for match in pattern.finditer(text)), [len(text)])
        self._known: list[int] = []

    def between(self, start: int, end: int) -> list[int]:
        """Return the ends after `start`, which never falls, up to `end`."""
        known = self._known
        del known[: bisect_right(known, start)]
        while (not known or known[-1] <= end) and (found := next(self._found, 0)):
            if found > start:
                known.append(found)
        return known[: bisect_right(known, end)]


@contextmanager
def positions_in(text: str) -> Iterator[None]:
    """Raise the error of a lone surrogate with its position in the whole text."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise_in_whole(text, error)


def first_characters(budget: int) -> int:
    """Return the number of characters that a first window for a budget has."""
    return _CHARACTERS_PER_ID * (budget + _CHARACTERS_PER_ID)


def _longest(count: Callable[[int, int], int], length: int, budget: int) -> int:
    """Return the most characters next to a safe split, at most `length`, that fit a budget.

    `count(near, far)` is the number of ids of the characters from one distance to another. In a
    long text, only the last `_MAX_TRIED_CUTS` cuts after one that fits are tried.
    """
    if budget <= 0:
        return 0
    low, anchor, anchor_ids = 0, 0, 0
    if length > _MAX_TRIED_CUTS:
        low = _near(count, length, budget)
        length = min(length, low + _MAX_TRIED_CUTS)
        anchor = _anchor(count, low) if low > _MAX_UNANCHORED else 0
        anchor_ids = count(0, anchor)
    for far in range(length, low, -1):
        # A token that spans the anchor may save some ids.
        is_near = not anchor or anchor_ids + count(anchor, far) <= budget + _ANCHOR_SLACK
        if is_near and count(0, far) <= budget:
            return far
    return low


def _near(count: Callable[[int, int], int], length: int, budget: int) -> int:
    """Return a number of characters that fit, close to the most, by bisection."""
    low, high = 0, min(first_characters(budget), length)
    while count(0, high) <= budget:
        if high == length:
            return length
        low, high = high, min(2 * high, length)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(0, middle) <= budget else (low, middle)
    return low


def _anchor(count: Callable[[int, int], int], low: int) -> int:
    """Return an offset before `low` where the ids of both sides add up, 0 without a near one.

    To try a later cut then costs only the few characters from there.
    """
    ids = count(0, low)
    for anchor in range(low - _ANCHOR_DISTANCE, max(low - _ANCHOR_DISTANCE - _MAX_ANCHORS, 0), -1):
        if count(0, anchor) + count(anchor, low) == ids:
            return anchor
    return 0
