"""Turn a text that grows into the ids that are final so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
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
from bpetite._engine.trusted import beginning, trusted_spans, with_space
from bpetite._pretokenizer import ChunkSplitter, Span, SpecialSplitter
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
    untrusted_splitter: Callable[[], ChunkSplitter]
    """Returns a splitter by which only the literals count that do so in untrusted text."""
    segment_splitter: Callable[[], SpecialSplitter | StagedSplitter]
    """Returns what finds the literals of segments."""

    def encode(self, data: bytes, trust: Trust, start: int) -> list[int]:
        """Return the ids of UTF-8 of which some is trusted."""
        encoder = self.encoders[start]
        if not trust.open:
            return encoder.encode(data)
        data.decode()  # an error has its position in all of them
        ids: list[int] = encoder.encode_parts(trust.parts(data), 0)[0]
        return ids


class Trust(NamedTuple):
    """Which bytes of a pending text are trusted."""

    open: int = 0
    """From here on all are, and later text continues them."""
    spans: tuple[Span, ...] = ()
    """The trusted segments before. They are known only if plain literals may continue some."""

    def parts(self, data: bytes) -> list[str]:
        """Return the parts of a text in UTF-8, for `encode_parts`."""
        parts: list[str] = []
        at = 0
        for start, end in (*self.spans, (self.open, len(data))):
            parts += data[at:start].decode(), Trusted(data[start:end].decode())
            at = end
        return parts

    def after(self, end: int) -> Trust:
        """Return the trust of the bytes from `end` on."""
        spans = ((max(start - end, 0), stop - end) for start, stop in self.spans if stop > end)
        return Trust(max(self.open - end, 0), tuple(spans))


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
    only within one `Trusted` segment. Successive steps with a text are one such segment. If a
    literal looks at the text around it (`single_word`, or flags beside plain added tokens), such a
    step keeps back the text after the last safe split that is next to no literal.

    A stream belongs to one thread at a time.

    >>> from bpetite import Tokenizer, Trusted
    >>> stream = Tokenizer.train("ab ab ab", 258).encode_stream()
    >>> stream.step("ab a"), stream.step("b<|endof"), stream.step("text|>"), stream.flush()
    ([256], [257], [258], [])
    >>> stream.step([Trusted("<|endoftext|>ab"), "<|endoftext|>"])[:4], stream.pending
    ([258, 256, 60, 124], b'|>')
    """

    __slots__ = (
        "_literals_searched", "_pending", "_prefix_ids", "_size",
        "_source", "_start", "_trust", "_unfinished",
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
        self._trust = Trust()
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
        trust, start = self._trust, self._start
        ids: list[int] = []
        if end:
            final = bytes(memoryview(pending)[:end])
            ids = self._source.encode(final, trust, start)
            trust = trust.after(end)
            start = SEGMENT if literal_end else INSIDE
        if self._prefix_ids:
            ids = [*self._prefix_ids, *ids]
        rest = pending[end:] if end else pending
        self._keep(rest, len(rest), trust, begun, literals_searched - end, start)
        return ids

    def _keep(
        self,
        rest: bytearray,
        size: int,
        trust: Trust,
        begun: str | bytes,
        searched: int,
        start: int,
    ) -> None:
        """Take a new pending text, which has been searched for literals up to `searched`."""
        # As in `reset`, no call comes between the fields.
        self._prefix_ids = ()
        self._pending = rest
        self._size = size
        self._trust = trust
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
        parts = [*self._trust.parts(text), *segments]
        whole = "".join(parts)
        splitter, space, after = source.segment_splitter(), "", SEGMENT
        if isinstance(splitter, StagedSplitter):
            space, _, after = splitter.begin_parts(start)
        spaced = [*with_space(space, parts)]
        # A literal that has to lie in a trusted segment is final, unless later text may complete a
        # plain one that begins before it or with it.
        untrusted_splitter = source.untrusted_splitter()
        begun = untrusted_splitter.begun(whole) + len(space)
        end, is_final = 0, False
        for begin, at, literal in splitter.split_trusted("".join(spaced), trusted_spans(spaced)):
            end = begin - len(space) if is_final else end
            is_final = literal is not None and not splitter.is_plain(literal) and at < begun
        looks_around = source.splitter.looks_around
        if looks_around:
            end, untrusted_splitter = 0, source.splitter  # each split is far from any literal
        rest = bytearray(whole[end:].encode())
        split = untrusted_splitter.last_split(rest)
        literal_end = 0
        if not split and not looks_around:
            literal_end = untrusted_splitter.last_literal_end(rest, 0, [])[0]
        ids = [*self._prefix_ids]
        if final := end + len(rest[: split + literal_end].decode()):
            ids += source.encoders[start].encode_parts([*beginning(parts, final)], 0)[0]
            start = INSIDE if split else after
        del rest[: split + literal_end]
        size, searched, trust = len(rest), len(rest), Trust(len(rest))
        if source.splitter.crosses_segments:
            done = len(whole[:final].encode())
            sizes = accumulate((len(part.encode()) for part in parts), initial=0)
            spans = zip(parts, pairwise(sizes), strict=True)
            trusted = tuple(span for part, span in spans if part and isinstance(part, Trusted))
            searched, trust = 0, Trust(done + size, trusted).after(done)
        self._keep(rest, size, trust, b"", searched, start)
        return ids

    def _ends(self, pending: bytearray) -> tuple[int, int, int]:
        """Return the last split, the end of a literal after it, and where literals are found up to.

        The first two are 0 if not found.
        """
        splitter = self._source.splitter
        split = splitter.last_split(pending, self._size)
        known, spans = self._trust
        searched = max(split, self._literals_searched, 0 if splitter.crosses_segments else known)
        trusted = [*spans, (known, len(pending))] if searched < known else None
        return split, *splitter.last_literal_end(pending, searched, trusted)

    def flush(self) -> list[int]:
        """Return the ids of the pending text. The stream then begins a new text.

        Raises UnicodeDecodeError for an unfinished character, with its position in `pending`,
        unless the stream replaces it. The stream is then as it was.
        """
        source, pending = self._source, self.pending
        text = replaced(pending).encode() if source.replaces else pending
        ids = source.encode(text, self._trust, self._start)
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
        other._keep(pending, self._size, self._trust, begun, searched, self._start)
        other._prefix_ids = self._prefix_ids
        return other

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> EncodeStream:
        return self.copy()

    def __reduce__(self) -> tuple[object, ...]:
        # The vocabulary is pickled too, but once for all streams that are pickled together.
        source, pending = self._source, bytes(self._pending[: self._size])
        state = self._prefix_ids, pending, self._unfinished, self._trust, self._start
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
    trust: Trust,
    start: int,
) -> EncodeStream:
    stream = make()
    stream._keep(bytearray(pending), len(pending), trust, begun, 0, start)
    stream._prefix_ids = prefix_ids
    return stream
