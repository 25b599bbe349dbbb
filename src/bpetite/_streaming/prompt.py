"""A prompt: a text that grows and changes, with its ids."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, overload

from bpetite._arguments import (
    Dtype,
    Text,
    Trusted,
    as_str,
    raise_in_part,
    raise_in_whole,
    segments_of,
)
from bpetite._engine.arrays import as_array
from bpetite._pretokenizer import ChunkSplitter
from bpetite._stages import INSIDE, TEXT

if TYPE_CHECKING:
    from collections.abc import Callable

    from bpetite._engine.contract import TextEncoder

_BLOCK_CHARACTERS = 8192
"""Neighbours up to this size are joined. So there are few blocks, and each is encoded fast."""

_ID_BYTES = 4

_ON = sys.maxsize

Span = tuple[int, int]
"""Where trusted text begins and ends."""

_ALL: tuple[Span, ...] = ((-1, _ON),)  # the trusted spans of a block that is inside one

_State = tuple[tuple["Block", ...], int, bool]
"""The blocks, the number of their ids, and whether a text would continue the last trusted span."""


class Change(NamedTuple):
    """What a call on a `Prompt` did to its ids.

    >>> from bpetite import Tokenizer
    >>> prompt = Tokenizer.train("ab ab ab", 258).prompt()
    >>> change = prompt.set("ab ab")
    >>> change.first_changed, change.new_ids.tolist()
    (0, [256, 257])
    """

    first_changed: int
    """The index of the first id that changed; the number of ids if none did."""
    new_ids: memoryview
    """The ids from there to the end, as uint32. All ids are `old[:first_changed]`, then these."""


class Block(NamedTuple):
    """A part of the text between two safe splits, so that its ids depend on its text alone.

    If the vocabulary may put a space before a text, the first block of a prompt has it.
    """

    text: str
    trusted: tuple[Span, ...]
    """The trusted spans, in characters. One that goes on before the block begins at -1, and one
    that goes on after it ends at `_ON`."""
    ids: bytes

    def joined(self, other: Block) -> Block:
        """Return this block and the next one as one."""
        size = len(self.text)
        trusted = [*self.trusted]
        for start, end in other.trusted:
            first = trusted.pop()[0] if start < 0 and trusted else size + start
            trusted.append((first, min(size + end, _ON)))
        return Block(self.text + other.text, tuple(trusted), self.ids + other.ids)


class PromptSource(NamedTuple):
    """What all prompts of one tokenizer share."""

    make: Callable[[], Prompt]
    """Makes an empty prompt of the same tokenizer, for pickles."""
    encoders: Sequence[TextEncoder]
    """Of texts that begin as TEXT, SEGMENT and INSIDE say."""
    splitter: ChunkSplitter
    item_size: Callable[[Dtype | None], int]


class Prompt:
    r"""A text that grows and changes, with its ids; `Tokenizer.prompt` makes an empty one.

    After `set(text)` the ids are those of `encode(text)`, and after `set(segments)` those of
    `encode_parts(segments)`: a special literal then counts only within one `Trusted` segment. Each
    call returns a `Change`: the first index that changed, and the ids from there on.

    `set` compares the old text and the new one at the speed of memory, and encodes what changed
    with some thousand characters around it. `append` needs no comparison: it encodes the new text
    and the last word, and copies a reference for each 8,192 characters. `copy` takes the same short
    time for any text, since copies share their text.

    This needs safe splits: places where a token ends in any case. A pattern that only `regex` can
    follow has none, nor has a vocabulary that normalizes in other ways than to form C, unless it
    has byte fallback. There, every call encodes the whole text again. Between two safe splits, the
    text is encoded as a whole.

    If a call raises an error, the prompt stays as it was. A prompt belongs to one thread at a time;
    other threads may use its copies.

    >>> from bpetite import Tokenizer
    >>> prompt = Tokenizer.train("ab ab ab", 258).prompt()
    >>> prompt.append("ab ab<|endoftext|>").first_changed, prompt.append(" ab").first_changed
    (0, 3)
    >>> change = prompt.set("ab ab ab")
    >>> change.first_changed, change.new_ids.tolist(), prompt.ids()
    (2, [257], [256, 257, 257])
    """

    __slots__ = ("_source", "_state")

    def __init__(self, source: PromptSource, /) -> None:
        if not isinstance(source, PromptSource):
            raise TypeError("a Prompt is made by Tokenizer.prompt")
        self._source = source
        # One value, so that Ctrl-C and other threads find all of it old, or all of it new.
        self._state: _State = (), 0, False

    def set(self, text: Text | Iterable[str]) -> Change:
        """Make this the text of the prompt.

        `text` is a text as in `encode`, with its special literals, or segments as in
        `encode_parts`.

        >>> from bpetite import Tokenizer, Trusted
        >>> prompt = Tokenizer.train("ab ab ab", 258).prompt()
        >>> prompt.set([Trusted("<|endoftext|>ab"), " ab"]).new_ids.tolist()
        [258, 256, 257]

        Raises the errors of `encode` for a text, and of `encode_parts` for segments.
        """
        segments, new, spans = _flattened(text)
        trust, is_split = _Trust(spans), self._source.splitter.is_split
        state = self._state
        blocks = state[0]
        first = start = 0
        for block in blocks:
            end = start + len(block.text)
            if new[start:end] != block.text or trust.within(start, end) != block.trusted:
                break
            first, start = first + 1, end
        last, end = len(blocks), len(new)
        for block in reversed(blocks[first:]):
            begin = max(end - len(block.text), start)
            if new[begin:end] != block.text or trust.within(begin, end) != block.trusted:
                break
            last, end = last - 1, begin
        if last < len(blocks) and (last == 0) != (end == 0):  # the text begins elsewhere
            end += len(blocks[last].text)
            last += 1
        # Text that changed may join what was apart.
        while 0 < start < len(new) and not is_split(new, start):
            first -= 1
            start -= len(blocks[first].text)
        while 0 < end < len(new) and not is_split(new, end):
            end += len(blocks[last].text)
            last += 1
        is_last = last == len(blocks)
        parts = self._encoded(new, trust, (start, end), first == 0, is_last, segments, new)
        return self._replace(state, first, last, parts, segments is None and bool(new))

    def append(self, text: Text | Iterable[str]) -> Change:
        """Add text, or segments, at the end of the prompt.

        A text that follows a text continues it, so special literals may span both. After segments,
        a text is a `Trusted` segment of its own.

        >>> from bpetite import Tokenizer
        >>> prompt = Tokenizer.train("ab ab ab", 258).prompt()
        >>> change = prompt.append("ab a")
        >>> change = prompt.append(["b", "<|endoftext|>"])
        >>> change.first_changed, prompt.ids()[:3]
        (1, [256, 257, 60])

        Raises the errors of `set`. A position in an error counts from the added text.
        """
        segments, added, spans = _flattened(text)
        state = self._state
        blocks, count, goes_on = state
        if not added:
            return Change(count, as_array([], _ID_BYTES))
        first = len(blocks)
        region = Block("", (), b"")
        while first:
            first -= 1
            region = blocks[first].joined(region)
            before = self._before(blocks, first)
            if not before or self._source.splitter.is_split(
                before + region.text + added, len(before)
            ):
                break
        shift = len(region.text)
        shifted = [(shift + start, shift + end) for start, end in spans]
        old = [*region.trusted]
        if goes_on and segments is None:
            shifted = [(old.pop()[0], shift + len(added))]
        new = region.text + added
        trust = _Trust([*old, *shifted])
        parts = self._encoded(new, trust, (0, len(new)), first == 0, True, segments, added)
        return self._replace(state, first, len(blocks), parts, segments is None)

    def _before(self, blocks: Sequence[Block], at: int) -> str:
        """Return the end of the text before a block, in which a literal may begin."""
        texts: list[str] = []
        size = self._source.splitter.max_literal_length + 1
        while at and size > 0:
            at -= 1
            texts.append(blocks[at].text[-size:])
            size -= len(texts[-1])
        return "".join(reversed(texts))

    def _encoded(
        self,
        text: str,
        trust: _Trust,
        span: Span,
        is_first: bool,
        is_last: bool,
        segments: list[str] | None,
        given: str,
    ) -> list[Block]:
        """Return the blocks of a span of `text`, from a safe split to a safe split.

        If it `is_first`, the prompt begins with it. If it `is_last`, its last block is short, for
        text to come. Errors are those of the given text, or of its segments.
        """
        encoders, splitter = self._source.encoders, self._source.splitter
        blocks: list[Block] = []
        try:
            for first, last in _cuts(splitter, text, *span, is_last):
                encoder = encoders[TEXT if is_first and not blocks else INSIDE]
                trusted, part = trust.within(first, last), text[first:last]
                parts = [*_segments(part, trusted)]
                if trusted and len(parts) == 1:
                    ids = encoder.encode_array(part, False, _ID_BYTES, 1)
                else:
                    ids, _ = encoder.encode_parts(parts, _ID_BYTES)
                blocks.append(Block(part, trusted, bytes(ids)))
        except UnicodeEncodeError as error:
            if segments is None:
                raise_in_whole(given, error)
            raise_in_part(segments)
            raise
        return blocks

    def _replace(
        self, state: _State, first: int, last: int, parts: list[Block], goes_on: bool
    ) -> Change:
        blocks, count, _ = state
        rest = blocks[last:]
        old, new = _ids_of(blocks[first:last]), _ids_of(parts)
        kept = count * _ID_BYTES - len(old) - sum(len(block.ids) for block in rest)
        common = _common_ids(old, new)
        count += (len(new) - len(old)) // _ID_BYTES
        ids = [new[common:], *(block.ids for block in rest)]
        if rest and common == min(len(old), len(new)):  # the change may be in what follows
            rest_ids = _ids_of(rest)
            common = _common_ids(old + rest_ids, new + rest_ids)
            ids = [(new + rest_ids)[common:]]
        # The last block of the text must stay short, so it is not joined with another one.
        if len(rest) > 1:
            middle, end = [*parts, rest[0]], rest[1:]
        else:
            middle, end = (parts, rest) if rest else (parts[:-1], (*parts[-1:],))
        middle = _merged(middle)
        while first and middle and _fit(blocks[first - 1], middle[0]):
            first -= 1
            middle[0] = blocks[first].joined(middle[0])
        self._state = (*blocks[:first], *middle, *end), count, goes_on
        return Change((kept + common) // _ID_BYTES, memoryview(bytearray().join(ids)).cast("I"))

    @overload
    def ids(self, dtype: None = None) -> list[int]: ...
    @overload
    def ids(self, dtype: Dtype) -> memoryview: ...
    def ids(self, dtype: Dtype | None = None) -> list[int] | memoryview:
        """Return all ids: a new list, or with `dtype` a new buffer, as `encode` does.

        >>> from bpetite import Tokenizer
        >>> prompt = Tokenizer.train("ab ab ab", 258).prompt()
        >>> change = prompt.set("ab ab")
        >>> prompt.ids(), prompt.ids("uint16").nbytes
        ([256, 257], 4)

        Raises ValueError for a `dtype` that cannot hold all ids of the vocabulary.
        """
        item_size = self._source.item_size(dtype)
        ids = memoryview(bytearray(_ids_of(self._state[0]))).cast("I")
        if item_size == _ID_BYTES:
            return ids
        return as_array(ids.tolist(), item_size) if item_size else ids.tolist()

    def __len__(self) -> int:
        """Return the number of ids."""
        return self._state[1]

    @property
    def text(self) -> str:
        """The text of all segments, joined."""
        return "".join(block.text for block in self._state[0])

    def copy(self) -> Prompt:
        """Return a prompt that continues from here on its own, in constant time."""
        other = Prompt(self._source)
        other._state = self._state
        return other

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> Prompt:
        return self.copy()

    def __reduce__(self) -> tuple[object, ...]:
        # The vocabulary is pickled too, but once for all prompts that are pickled together.
        blocks, *others = self._state
        # An array is pickled in a form that machines of either byte order read.
        plain = [(text, trusted, array("I", ids)) for text, trusted, ids in blocks]
        return _unpickled, (self._source.make, plain, *others)

    def __repr__(self) -> str:
        count = len(self)
        return f"<Prompt: {count} id{'s' * (count != 1)}>"


class _Trust:
    def __init__(self, spans: list[Span]) -> None:
        self._spans = spans
        self._starts = [start for start, _ in spans]
        self._ends = [end for _, end in spans]
        self._near = 0, 0  # the last span found: the next block is often inside it too

    def within(self, start: int, end: int) -> tuple[Span, ...]:
        """Return the trusted spans from `start` to `end`, as a `Block` has them."""
        first, last = self._near
        if first < start and end < last:
            return _ALL
        found = self._spans[bisect_right(self._ends, start) : bisect_left(self._starts, end)]
        if found:
            self._near = found[-1]
        return tuple(
            [(a - start if a >= start else -1, b - start if b <= end else _ON) for a, b in found]
        )


def _flattened(text: Text | Iterable[str]) -> tuple[list[str] | None, str, list[Span]]:
    """Return the segments, if there are any, the whole text, and its trusted spans."""
    segments = segments_of(text)
    if segments is None:
        whole = as_str(text)  # type: ignore[arg-type]
        return None, whole, [(0, len(whole))] if whole else []
    try:
        whole = "".join(segments)
    except TypeError:
        raise_in_part(segments)
        raise
    spans, at = [], 0
    for segment in segments:
        end = at + len(segment)
        if segment and isinstance(segment, Trusted):
            spans.append((at, end))
        at = end
    return segments, whole, spans


def _cuts(
    splitter: ChunkSplitter, text: str, start: int, end: int, is_last: bool
) -> Iterator[Span]:
    """Yield the bounds of the blocks of `text[start:end]`, which end at safe splits.

    If it `is_last`, the last block begins at the last safe split.
    """
    stop = splitter.last(text, start, end) if is_last else end
    while start < stop:
        cut = next(splitter.splits(text, min(start + _BLOCK_CHARACTERS, stop), stop))
        yield start, cut
        start = cut
    if stop < end:
        yield stop, end


def _segments(text: str, trusted: tuple[Span, ...]) -> Iterator[str]:
    at = 0
    for start, end in trusted:
        if at < start:
            yield text[at:start]
        at = min(end, len(text))
        yield Trusted(text[max(start, 0) : at])
    if at < len(text):
        yield text[at:]


def _ids_of(blocks: Iterable[Block]) -> bytes:
    return b"".join([block.ids for block in blocks])


def _common_ids(one: bytes, two: bytes) -> int:
    """Return how many bytes the common ids at the beginning of both have, at memory speed."""
    low, high = 0, min(len(one), len(two)) // _ID_BYTES
    while low < high:
        # The first half that may differ; each halving copies half as much.
        middle = (low + high + 1) // 2
        start, end = low * _ID_BYTES, middle * _ID_BYTES
        if one[start:end] == two[start:end]:
            low = middle
        else:
            high = middle - 1
    return low * _ID_BYTES


def _fit(one: Block, other: Block) -> bool:
    """Return whether two neighbours become one block.

    A long block is not copied to add a short one, so copies of a prompt share it. The sizes of
    short blocks in a row at least halve, so there are few of them.
    """
    sizes = len(one.text), len(other.text)
    return sum(sizes) <= _BLOCK_CHARACTERS and sizes[0] <= 2 * sizes[1]


def _merged(blocks: Iterable[Block]) -> list[Block]:
    merged: list[Block] = []
    for block in blocks:
        if merged and _fit(merged[-1], block):
            merged[-1] = merged[-1].joined(block)
        else:
            merged.append(block)
    return merged


def _unpickled(
    make: Callable[[], Prompt],
    blocks: list[tuple[str, tuple[Span, ...], array[int]]],
    count: int,
    goes_on: bool,
) -> Prompt:
    prompt = make()
    restored = tuple(Block(text, trusted, bytes(ids)) for text, trusted, ids in blocks)
    prompt._state = restored, count, goes_on
    return prompt
