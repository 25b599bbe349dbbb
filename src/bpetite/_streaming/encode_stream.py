"""Turn a text that grows into the ids that are final so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from bpetite._arguments import (
    Frame,
    Text,
    Trusted,
    as_bytes,
    parts_of,
    raise_in_part,
    replaced,
    segments_of,
)
from bpetite._engine.trusted import with_space
from bpetite._pretokenizer import ChunkSplitter, SpecialSplitter
from bpetite._stages import INSIDE, SEGMENT, TEXT, StagedSplitter
from bpetite._streaming.byte_decoders import unfinished

if TYPE_CHECKING:
    from bpetite._engine.contract import TextEncoder


class TextSource(NamedTuple):
    """The data that all streams of one tokenizer with the same options share."""

    make: Callable[[], EncodeStream]
    """Makes a stream of the same tokenizer and options, for pickles."""
    encoders: Sequence[TextEncoder]
    """Of texts that begin as TEXT, SEGMENT and INSIDE say."""
    splitter: ChunkSplitter
    frame: Frame
    replaces: bool
    id_of: Mapping[str, int]
    """The special tokens."""
    ordinary_splitter: Callable[[], ChunkSplitter]
    """Returns a splitter by which no literal is special."""
    segment_splitter: Callable[[], SpecialSplitter | StagedSplitter]
    """Returns what finds the literals of a trusted segment."""

    def encode(self, data: bytes, ordinary: int, start: int) -> list[int]:
        """Return the ids of UTF-8 in whose first `ordinary` bytes no literal counts."""
        encoder = self.encoders[start]
        if not ordinary:
            return encoder.encode(data)
        data.decode()  # an error has its position in all of them
        segments = [data[:ordinary].decode(), Trusted(data[ordinary:].decode())]
        ids: list[int] = encoder.encode_parts(segments, 0)[0]
        return ids


class EncodeStream:
    r"""Ids of a text that grows: each step returns the ids that became final with it.

    `Tokenizer.encode_stream` makes a stream. All steps and `flush()`, joined, are the result of
    `encode` for the joined text. Returned ids never change, whatever text follows. The stream
    keeps back the text after the last safe split, a place where a token ends in any case: usually
    it keeps back a word. A step costs as much as its own text and the pending text, however long
    the text before is.

    Where safe splits are depends on the pattern. With a pattern that only `regex` can follow, or a
    vocabulary that normalizes text otherwise than to form C, unless it has byte fallback, they are
    the ends of special literals alone, so `pending` may grow to the whole text. With a vocabulary
    that normalizes text to form C, `pending` begins at white space or after a special literal.

    A step with segments is for prompts with untrusted text, as in `encode_parts`: a literal counts
    only within one `Trusted` segment. Successive steps with a text are one such segment.

    A stream belongs to one thread at a time.

    >>> from bpetite import Tokenizer, Trusted
    >>> stream = Tokenizer.train("ab ab ab", 258).encode_stream()
    >>> stream.step("ab a"), stream.step("b<|endof"), stream.step("text|>"), stream.flush()
    ([256], [257], [258], [])
    >>> stream.step([Trusted("<|endoftext|>ab"), "<|endoftext|>"])[:4], stream.pending
    ([258, 256, 60, 124], b'|>')
    """

    __slots__ = (
        "_literals_searched", "_ordinary", "_pending", "_prefix_ids",
        "_size", "_source", "_start", "_unfinished",
    )  # fmt: skip

    def __init__(self, source: TextSource, /) -> None:
        if not isinstance(source, TextSource):
            raise TypeError("an EncodeStream is made by Tokenizer.encode_stream")
        self._source = source
        self.reset()

    def reset(self) -> None:
        """Drop the pending text: as a new stream."""
        prefix_ids, pending = self._source.frame[0], bytearray()
        # Ctrl-C comes at calls, and here are none: it finds all fields old, or all new.
        self._prefix_ids = prefix_ids  # none after the first step
        self._pending = pending  # after `_size`, it may have bytes of a step that Ctrl-C ended
        self._size = 0  # the pending text has no split up to here
        self._ordinary = 0  # up to here, no literal counts
        self._literals_searched = 0  # up to here, no literal is complete
        # The bytes at its end that begin a character. If the stream replaces what is not Unicode,
        # they follow the pending text instead, and may be a high surrogate, which is a `str`.
        self._unfinished: Any = b""
        self._start = TEXT  # where the pending text begins

    def step(self, text: Text | Iterable[str]) -> list[int]:
        """Return the ids that are final now and were not before.

        `text` is a `str`, or UTF-8 in a buffer of bytes, which may end inside a character. Or it is
        segments as in `encode_parts`, whose literals count if `allowed_special` has them.

        Raises the errors of `encode`, or of `encode_parts` for segments. The position in a
        UnicodeDecodeError counts from the first byte of the step, or of the character that an
        earlier step has begun. The stream is then as it was before the step.
        """
        if not isinstance(text, str):
            segments = segments_of(text)
            if segments is not None:
                return self._step_segments(segments)
        begun = self._unfinished
        if self._source.replaces:
            data, begun = _replaced_start(begun, text)  # type: ignore[arg-type]
        else:
            data = as_bytes(text)  # type: ignore[arg-type]
            if begun or not isinstance(text, str):
                begun = _checked_end(begun + data if data else begun)
        pending = self._pending
        del pending[self._size :]
        pending += data
        split, literal_end, literals_searched = self._ends(pending)
        end = max(split, literal_end)
        ordinary, start = self._ordinary, self._start
        ids: list[int] = []
        if end:
            final = bytes(memoryview(pending)[:end])
            ids = self._source.encode(final, ordinary, start)
            ordinary = max(ordinary - end, 0)
            start = SEGMENT if literal_end else INSIDE
        if self._prefix_ids:
            ids = [*self._prefix_ids, *ids]
        rest = pending[end:] if end else pending
        self._keep(rest, len(rest), ordinary, begun, literals_searched - end, start)
        return ids

    def _keep(
        self,
        rest: bytearray,
        size: int,
        ordinary: int,
        begun: str | bytes,
        searched: int,
        start: int,
    ) -> None:
        """Take a new pending text, which has been searched for literals up to `searched`."""
        # As in `reset`, no call comes between the fields.
        self._prefix_ids = ()
        self._pending = rest
        self._size = size
        self._ordinary = ordinary
        self._unfinished = begun
        self._literals_searched = searched
        self._start = start

    def _step_segments(self, segments: list[str]) -> list[int]:
        source, start = self._source, self._start
        if source.replaces:
            segments = parts_of(segments, "replace")
        raise_in_part(segments)
        pending = self.pending
        text = (replaced(pending) if source.replaces else pending.decode()).encode()
        # No literal begins in the text before and ends in the segments.
        ordinary, trusted = text[: self._ordinary].decode(), text[self._ordinary :].decode()
        splitter, space, after = source.segment_splitter(), "", SEGMENT
        if isinstance(splitter, StagedSplitter):
            space, start, after = splitter.begin_parts(start)
        texts: list[str] = []
        ids = [*self._prefix_ids]
        for segment in with_space(space, (ordinary, Trusted(trusted), *segments)):
            is_trusted = isinstance(segment, Trusted)
            for before, literal in splitter.split(segment) if is_trusted else [(segment, None)]:
                texts.append(before)
                if literal is not None:
                    ids += source.encoders[start].encode("".join(texts), True)
                    ids.append(source.id_of[literal])
                    texts, start, space = [], after, ""
        data = "".join(texts).encode()
        end = source.ordinary_splitter().last_split(data)
        ids += source.encoders[start].encode(data[:end], True)
        if end:
            start = INSIDE
        elif space:
            start, end = TEXT, min(len(space), len(data))  # the space is put before again
        rest = bytearray(data[end:])
        size = len(rest)
        self._keep(rest, size, size, b"", size, start)
        return ids

    def _ends(self, pending: bytearray) -> tuple[int, int, int]:
        """Return the last split, the end of a literal after it, and where literals are found up to.

        The first two are 0 if not found.
        """
        splitter = self._source.splitter
        split = splitter.last_split(pending, self._size)
        searched = max(split, self._literals_searched, self._ordinary)
        return split, *splitter.last_literal_end(pending, searched)

    def flush(self) -> list[int]:
        """Return the ids of the pending text. The stream then begins a new text.

        Raises UnicodeDecodeError for an unfinished character, with its position in `pending`,
        unless the stream replaces it. The stream is then as it was.
        """
        source, pending = self._source, self.pending
        text = replaced(pending).encode() if source.replaces else pending
        ids = source.encode(text, self._ordinary, self._start)
        ids = [*self._prefix_ids, *ids, *source.frame[1]]
        self.reset()
        return ids

    @property
    def pending(self) -> bytes:
        """The text that is not final yet, in UTF-8; its end may be inside a character.

        U+FFFD stands for a high surrogate at its end, if the stream replaces what is not Unicode.
        """
        pending, begun = bytes(self._pending[: self._size]), self._unfinished
        if not self._source.replaces:
            return pending
        return pending + (replaced(begun).encode() if isinstance(begun, str) else begun)

    def copy(self) -> EncodeStream:
        """Return a stream that continues from here on its own. `pending` is copied."""
        other, searched = EncodeStream(self._source), self._literals_searched
        pending, begun = self._pending[: self._size], self._unfinished
        other._keep(pending, self._size, self._ordinary, begun, searched, self._start)
        other._prefix_ids = self._prefix_ids
        return other

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> EncodeStream:
        return self.copy()

    def __reduce__(self) -> tuple[object, ...]:
        # The vocabulary is pickled too, but once for all streams that are pickled together.
        source, pending = self._source, bytes(self._pending[: self._size])
        state = self._prefix_ids, pending, self._unfinished, self._ordinary, self._start
        return _unpickled, (source.make, *state)

    def __repr__(self) -> str:
        size = len(self.pending)
        return f"<EncodeStream: {size} byte{'s' * (size != 1)} pending>"


def _checked_end(data: bytes) -> bytes:
    """Return the bytes at the end of UTF-8 that begin a character.

    Raises UnicodeDecodeError if `data` is not the beginning of UTF-8.
    """
    try:
        data.decode()
    except UnicodeDecodeError as error:
        begun = unfinished(data)
        if error.start != len(data) - len(begun):
            raise
        return begun
    return b""


def _replaced_start(begun: str | bytes, text: Text) -> tuple[bytes, str | bytes]:
    """Return the UTF-8 of what waited and of a text, as `replaced` has it, and what waits now.

    Either a high surrogate or bytes that begin a character may wait.
    """
    end: str | bytes
    if isinstance(text, str):
        if not text:
            return b"", begun
        text = (begun if isinstance(begun, str) else replaced(begun)) + text
        end = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
        return replaced(text[: len(text) - len(end)]).encode(), end
    data = as_bytes(text)
    if not data:
        return b"", begun
    before = ""
    if isinstance(begun, str):
        before = replaced(begun)
    else:
        data = begun + data
    end = unfinished(data)
    return (before + replaced(data[: len(data) - len(end)])).encode(), end


def _unpickled(
    make: Callable[[], EncodeStream],
    prefix_ids: tuple[int, ...],
    pending: bytes,
    begun: str | bytes,
    ordinary: int,
    start: int,
) -> EncodeStream:
    stream = make()
    stream._keep(bytearray(pending), len(pending), ordinary, begun, 0, start)
    stream._prefix_ids = prefix_ids
    return stream
