"""Text in normal form C for a native encoder, which normalizes nothing."""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from bpetite._arguments import Frame, Text, as_bytes, as_str, raise_in_whole, view_of
from bpetite._engine import python
from bpetite._engine.documents import documents_in
from bpetite._unicode import Change, is_nfc, nfc, nfc_changes, replaced, spans_without_nfc
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
        if not isinstance(text, str):
            with view_of(text) as view:  # a large file is never a str
                if is_nfc(view):
                    return text
        string = as_str(text)
        changes = nfc_changes(string)
        if not changes:
            return text
        try:
            if ordinary or not any(self._has_literal(string, change) for change in changes):
                return b"".join(map(str.encode, replaced(string, changes)))
            # No literal joins with the text behind it.
            split = self._splitter.split
            segments = [(nfc(segment), literal) for segment, literal in split(string)]
            normal = "".join([segment + (literal or "") for segment, literal in segments])
            return normal.encode() if [*split(normal)] == segments else None
        except UnicodeEncodeError as error:
            raise_in_whole(string, error)

    def _has_literal(self, text: str, change: Change) -> bool:
        """Return whether a literal may be at a change, before it or after."""
        start, end, form = change
        length = self._splitter.max_length
        before, behind = text[max(start - length, 0) : start], text[end : end + length]
        return any(
            self._splitter.first(before + changed + behind) for changed in (text[start:end], form)
        )

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
        run = self._normal_run(data, offsets)
        if run is None:
            return super().encode_offsets(data, offsets, frame, item_size, threads)
        return self._native.encode_offsets(*run, frame, item_size, threads)

    def _normal_run(self, data: memoryview, offsets: memoryview) -> Run | None:
        """Return documents with the same ids in the native encoder, None if `_normal` does."""
        first = max(offsets[0], 0)
        try:
            others = deque(spans_without_nfc(data[first : offsets[-1]]))
        except UnicodeDecodeError:
            others = deque()  # the native encoder finds the document
        if not others:
            return data, offsets
        parts: list[bytes | memoryview] = []
        for text, (start, end) in zip(documents_in(data, offsets), pairwise(offsets), strict=True):
            while others and first + others[0][1] <= start:
                others.popleft()
            part: bytes | memoryview = data[start:end]
            if others and first + others[0][0] < end:
                normal = self._normal(text)
                if normal is None:
                    return None
                part = as_bytes(normal)
            parts.append(part)
        ends = accumulate(map(len, parts), initial=0)
        return memoryview(b"".join(parts)), memoryview(array("Q", ends))

    def count_ids(self, runs: Iterable[Run], threads: int) -> dict[int, int]:
        others: Counter[int] = Counter()

        def normal_runs() -> Iterator[Run]:
            for data, offsets in runs:
                normal = self._normal_run(data, offsets)
                if normal is not None:
                    yield normal
                else:
                    for text in documents_in(data, offsets):
                        others.update(self.encode(text))

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
    return not nfc_changes("".join(parts))
