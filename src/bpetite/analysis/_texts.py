"""Texts in, their sizes and the counts of their ids out: in bounded memory, in one pass."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from itertools import takewhile
from typing import Any

from bpetite import Tokenizer
from bpetite._corpus import Batches, segments_of
from bpetite.analysis._figures import TextFigures
from bpetite.corpora import Batch

_BEGINNING_CHARACTERS = 160
_MAX_CHARACTER_BYTES = 4

_SPACES = b"\t\n\v\f\r "
_OTHER = ord("x")
_SPACES_AND_OTHERS = bytes(ord(" ") if byte in _SPACES else _OTHER for byte in range(256))
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))


class WholeText:
    """A text that is one document, as a corpus.

    >>> [bytes(batch.data) for batch in WholeText("ab").batches()]
    [b'ab']
    """

    def __init__(self, text: str) -> None:
        self._data = text.encode("utf-8")

    def batches(self) -> Iterator[Batch]:
        """Yield one batch."""
        yield _batch(memoryview(self._data), [0, len(self._data)])


class Measured:
    r"""A corpus that measures itself while it is read.

    >>> corpus = Measured(WholeText("né à  la\n"))
    >>> [*corpus.segments()][0][0].data.nbytes
    11
    >>> corpus.figures("x")
    TextFigures(name='x', documents=1, bytes=11, characters=9, words=3, beginning='né à  la\n')
    """

    def __init__(self, corpus: Batches) -> None:
        self._corpus = corpus
        self._documents = self._bytes = self._characters = self._words = 0
        self._beginning = b""
        self._is_open = False  # whether the next segment continues a document
        self._in_word = False  # whether that document's last byte is in a word

    def batches(self) -> Iterator[Batch]:
        """Yield the batches of the corpus, unmeasured."""
        yield from self._corpus.batches()

    def segments(self) -> Iterator[tuple[Batch, bool]]:
        """Yield the segments of the corpus."""
        for batch, is_complete in segments_of(self._corpus):
            if len(batch.offsets) > 1:
                self._add(batch, is_complete)
            yield batch, is_complete

    def figures(self, name: str) -> TextFigures:
        """Return the size of what was read."""
        beginning = self._beginning.decode("utf-8", "ignore")[:_BEGINNING_CHARACTERS]
        return TextFigures(
            name, self._documents, self._bytes, self._characters, self._words, beginning
        )

    def _add(self, batch: Batch, is_complete: bool) -> None:
        start, *inner, end = batch.offsets
        data = bytes(batch.data[start:end])
        if self._documents == (1 if self._is_open else 0):
            missing = _BEGINNING_CHARACTERS * _MAX_CHARACTER_BYTES - len(self._beginning)
            self._beginning += data[: min((inner[0] if inner else end) - start, missing)]
        self._bytes += len(data)
        self._characters += (
            len(data) if data.isascii() else len(data.translate(None, _CONTINUATION_BYTES))
        )
        self._documents += len(inner) + (not self._is_open)
        marks = data.translate(_SPACES_AND_OTHERS)
        starts = {offset - start for offset in inner}
        if not self._is_open:
            starts.add(0)
        self._words += _words_behind_a_space(marks)
        if marks.startswith(b"x") and (0 in starts or not self._in_word):
            self._words += 1
        self._words += sum(
            marks[place - 1] == marks[place] == _OTHER for place in starts if 0 < place < len(marks)
        )
        if marks or inner:
            self._in_word = marks.endswith(b"x") and not (inner and inner[-1] == end)
        self._is_open = not is_complete


class Beginning:
    """The first bytes of a corpus, at most `max_bytes`, cut at a character.

    >>> [batch.offsets.tolist() for batch, _ in Beginning(WholeText("aé"), 2).segments()]
    [[0, 1]]
    """

    def __init__(self, corpus: Batches, max_bytes: int) -> None:
        self._corpus = corpus
        self._max_bytes = max_bytes
        self.read_bytes = 0
        """The length of what was read last."""

    def batches(self) -> Iterator[Batch]:
        """Not for documents in segments; the engine takes `segments`."""
        return (batch for batch, _ in self.segments())

    def segments(self) -> Iterator[tuple[Batch, bool]]:
        """Yield segments until the bytes are used up."""
        self.read_bytes = 0
        for batch, is_complete in segments_of(self._corpus):
            start, end = batch.offsets[0], batch.offsets[-1]
            limit = start + self._max_bytes - self.read_bytes
            if end <= limit:
                self.read_bytes += end - start
                yield batch, is_complete
                continue
            while batch.data[limit] & 0xC0 == 0x80:
                limit -= 1
            self.read_bytes += limit - start
            yield _batch(batch.data, [*takewhile(limit.__gt__, batch.offsets), limit]), True
            return


def count_ids(tokenizer: Tokenizer, corpus: Batches) -> dict[int, int]:
    """Return how often each id occurs in a corpus whose special literals are ordinary text.

    >>> count_ids(Tokenizer.train("ab ab ab", 258), WholeText("ab ab ab"))
    {256: 1, 257: 2}
    """
    np = _numpy()
    if np is None:
        counts: Counter[int] = Counter()
        for ids, _, _ in tokenizer.encode_segments(corpus, threads=None):
            counts.update(ids.tolist())
        return dict(sorted(counts.items()))
    totals = np.zeros(0, np.int64)
    for ids, _, _ in tokenizer.encode_segments(corpus, threads=None):
        found = np.bincount(np.frombuffer(ids, np.uint32), minlength=len(totals))
        found[: len(totals)] += totals
        totals = found
    used = totals.nonzero()[0]
    return dict(zip(used.tolist(), totals[used].tolist(), strict=True))


def _words_behind_a_space(marks: bytes) -> int:
    """Return how often an "x" follows a space in text of both.

    >>> _words_behind_a_space(b"x xx  x")
    2
    """
    np = _numpy()
    if np is None:
        return marks.count(b" x")
    codes = np.frombuffer(marks, np.uint8)
    return int(np.count_nonzero(codes[1:] > codes[:-1]))


def _numpy() -> Any:
    """Return numpy, or None if it is not installed."""
    try:
        return import_module("numpy")
    except ModuleNotFoundError:
        return None


def _batch(data: memoryview, offsets: list[int]) -> Batch:
    return Batch(data, memoryview(array("Q", offsets)), range(len(offsets) - 1))
