"""Text in normal form C for a native encoder, which normalizes nothing."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from bpetite._arguments import Frame, Text, as_bytes, as_str
from bpetite._engine import python
from bpetite._engine.documents import documents_in
from bpetite._unicode import is_nfc, nfc
from bpetite._vocabulary import Vocabulary

if TYPE_CHECKING:
    from bpetite._engine import _native

Run = tuple[memoryview, memoryview]
"""Documents: their bytes and their offsets."""


class NormalizingEncoder(python.TextEncoder):
    """A `contract.TextEncoder` of a vocabulary that normalizes text.

    Most text is in normal form already, and a look at it costs little beside encoding.
    """

    def __init__(self, vocabulary: Vocabulary, encoder: _native.TextEncoder) -> None:
        """`encoder` is that of the same vocabulary without a normalizer."""
        super().__init__(vocabulary, encoder.merge)
        self._native = encoder

    def _normal(self, text: Text, ordinary: bool = False) -> Text | None:
        """Return a text that has the same ids in the native encoder.

        None if the normal form has a special literal that the text has not.
        """
        string = as_str(text)
        normal = nfc(string)
        if normal == string:
            return text
        string.encode("utf-8")  # a lone surrogate is an error with a position in this text
        if ordinary:
            return normal
        # A literal does not join with the text behind it.
        segments = [(nfc(segment), literal) for segment, literal in self._splitter.split(string)]
        normal = "".join([segment + (literal or "") for segment, literal in segments])
        return normal if [*self._splitter.split(normal)] == segments else None

    def _all_normal(self, texts: Iterable[Text]) -> list[Text] | None:
        """Return `_normal` of each text, None if one of them is None."""
        normal: list[Text] = []
        for text in texts:
            form = self._normal(text)
            if form is None:
                return None
            normal.append(form)
        return normal

    def encode(self, text: Text, ordinary: bool = False, threads: int = 1) -> list[int]:
        normal = self._normal(text, ordinary)
        if normal is None:
            return super().encode(text)
        return self._native.encode(normal, ordinary, threads)

    def count(self, text: Text, ordinary: bool = False) -> int:
        normal = self._normal(text, ordinary)
        return super().count(text) if normal is None else self._native.count(normal, ordinary)

    def encode_array(self, text: Text, ordinary: bool, item_size: int, threads: int) -> memoryview:
        normal = self._normal(text, ordinary)
        if normal is None:
            return super().encode_array(text, ordinary, item_size, threads)
        return self._native.encode_array(normal, ordinary, item_size, threads)

    def encode_batch(self, texts: Sequence[Text], frame: Frame, threads: int) -> list[list[int]]:
        normal = self._all_normal(texts)
        if normal is None:
            return super().encode_batch(texts, frame, threads)
        return self._native.encode_batch(normal, frame, threads)

    def encode_batch_arrays(
        self, texts: Iterable[Text], frame: Frame, item_size: int, threads: int
    ) -> tuple[memoryview, memoryview]:
        texts = [*texts]
        normal = self._all_normal(texts)
        if normal is None:
            return super().encode_batch_arrays(texts, frame, item_size, threads)
        return self._native.encode_batch_arrays(normal, frame, item_size, threads)

    def encode_offsets(
        self, data: memoryview, offsets: memoryview, frame: Frame, item_size: int, threads: int
    ) -> tuple[memoryview, memoryview]:
        if is_nfc(data[max(offsets[0], 0) : offsets[-1]]):
            return self._native.encode_offsets(data, offsets, frame, item_size, threads)
        return super().encode_offsets(data, offsets, frame, item_size, threads)

    def count_ids(self, runs: Iterable[Run], threads: int) -> dict[int, int]:
        others: Counter[int] = Counter()

        def normal_runs() -> Iterator[Run]:
            for data, offsets in runs:
                if is_nfc(data[max(offsets[0], 0) : offsets[-1]]):
                    yield data, offsets
                    continue
                normal = []
                for text in documents_in(data, offsets):
                    form = self._normal(text)
                    if form is None:
                        others.update(self.encode(text))
                    else:
                        normal.append(as_bytes(form))
                ends = accumulate(map(len, normal), initial=0)
                yield memoryview(b"".join(normal)), memoryview(array("Q", ends))

        counts = self._native.count_ids(normal_runs(), threads)
        return dict(sorted((others + Counter(counts)).items())) if others else counts

    def encode_parts(self, parts: Iterable[str]) -> tuple[list[int], list[int]]:
        parts = [*parts]
        if are_normal(parts):
            return self._native.encode_parts(parts)
        return super().encode_parts(parts)

    def encode_parts_arrays(
        self, parts: Iterable[str], item_size: int
    ) -> tuple[memoryview, memoryview]:
        parts = [*parts]
        if are_normal(parts):
            return self._native.encode_parts_arrays(parts, item_size)
        return super().encode_parts_arrays(parts, item_size)

    def with_special_tokens(self, special_tokens: dict[str, int]) -> NormalizingEncoder:
        encoder = super().with_special_tokens(special_tokens)
        assert isinstance(encoder, NormalizingEncoder)
        encoder._native = self._native.with_special_tokens(special_tokens)
        return encoder

    def first_special(self, text: str) -> tuple[str, int] | None:
        return self._native.first_special(text)


def are_normal(parts: Iterable[str]) -> bool:
    """Return whether the text in these parts is in normal form."""
    text = "".join(parts)
    return nfc(text) == text
