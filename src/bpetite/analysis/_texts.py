"""The sizes of texts, measured in bounded memory while an encoder reads them."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import takewhile

from bpetite._corpus import Batches, segments_of
from bpetite.analysis._counts import SPACES, characters_and_words
from bpetite.analysis._figures import TextFigures
from bpetite.corpora import Batch

_BEGINNING_CHARACTERS = 160
_MAX_CHARACTER_BYTES = 4


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
        data, offsets = batch.data, batch.offsets
        start, end, count = offsets[0], offsets[-1], len(offsets) - 1
        if self._documents == (1 if self._is_open else 0):
            missing = _BEGINNING_CHARACTERS * _MAX_CHARACTER_BYTES - len(self._beginning)
            self._beginning += data[start : min(offsets[1], start + missing)]
        characters, words = characters_and_words(data.toreadonly(), offsets)
        self._documents += count - self._is_open
        self._bytes += end - start
        self._characters += characters
        # A word that continues in the next segment was counted in both.
        self._words += words - (self._in_word and start < offsets[1] and data[start] not in SPACES)
        if offsets[-2] < end:
            self._in_word = data[end - 1] not in SPACES
        elif count > 1:
            self._in_word = False
        self._is_open = not is_complete
        self._in_word &= self._is_open


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


def _batch(data: memoryview, offsets: list[int]) -> Batch:
    return Batch(data, memoryview(array("Q", offsets)), range(len(offsets) - 1))
