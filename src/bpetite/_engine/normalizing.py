"""Text in normal form C for a native encoder, which normalizes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from bpetite._arguments import Frame, Text, as_str, raise_in_whole, view_of
from bpetite._corpus import normal_run
from bpetite._engine import python
from bpetite._unicode import Change, are_nfc, is_nfc, nfc, nfc_changes, with_changes
from bpetite._vocabulary import Vocabulary

if TYPE_CHECKING:
    from bpetite._engine import _native


class NormalizingEncoder(python.TextEncoder):
    """A `contract.TextEncoder` of a vocabulary that normalizes text.

    Most text is in normal form already, and a look at it costs little beside encoding. Where
    `_normal` has no text for the native encoder, Python encodes.
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
            with view_of(text) as view:  # no copy of a large file, unless it changes
                if are_nfc(view):
                    return text
        string = as_str(text)
        changes = [*nfc_changes(string)]
        if not changes:
            return text
        try:
            literals = [] if ordinary else [*self._splitter.find(string)]
            if literals:
                changes = [*_between(string, changes, literals)]
                normal = "".join(with_changes(string, changes))
                is_same = [*self._splitter.find(normal)] == [*_moved(literals, changes)]
                return normal.encode("utf-8") if is_same else None
            if ordinary or not any(map(self._splitter.first, self._changed(string, changes))):
                return b"".join(map(str.encode, with_changes(string, changes)))
            return None
        except UnicodeEncodeError as error:
            raise_in_whole(string, error)

    def _changed(self, text: str, changes: Iterable[Change]) -> Iterator[str]:
        """Yield the parts of the changed text that a literal may stand in because of a change."""
        length = self._splitter.max_length
        near: list[Change] = []
        for change in changes:
            if near and change[0] - near[-1][1] >= length:
                yield _around(text, near, length)
                near = []
            near.append(change)
        if near:
            yield _around(text, near, length)

    def _all_normal(self, texts: Iterable[Text]) -> list[Text] | None:
        """Return the texts as `_normal` returns them; None if it returns None for one."""
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
        if normal is None:
            return super().count(text)
        return self._native.count(normal, ordinary)

    def encode_array(self, text: Text, ordinary: bool, item_size: int, threads: int) -> memoryview:
        normal = self._normal(text, ordinary)
        if normal is None:
            return super().encode_array(text, ordinary, item_size, threads)
        return self._native.encode_array(normal, ordinary, item_size, threads)

    def encode_batch(
        self, texts: Iterable[Text], frame: Frame, item_size: int, threads: int
    ) -> Any:
        texts = [*texts]
        normal = self._all_normal(texts)
        if normal is None:
            return super().encode_batch(texts, frame, item_size, threads)
        return self._native.encode_batch(normal, frame, item_size, threads)

    def encode_buffer(
        self, data: memoryview, offsets: memoryview, frame: Frame, item_size: int, threads: int
    ) -> tuple[memoryview, memoryview]:
        run = normal_run(data, offsets, self._normal)
        if run is None:
            return super().encode_buffer(data, offsets, frame, item_size, threads)
        return self._native.encode_buffer(*run, frame, item_size, threads)

    def encode_parts(self, parts: Iterable[str], item_size: int) -> tuple[Any, Any]:
        parts = [*parts]
        if are_normal(parts):
            return self._native.encode_parts(parts, item_size)
        return super().encode_parts(parts, item_size)

    def with_special_tokens(self, special_tokens: dict[str, int]) -> NormalizingEncoder:
        encoder = super().with_special_tokens(special_tokens)
        assert isinstance(encoder, NormalizingEncoder)
        encoder._native = self._native.with_special_tokens(special_tokens)
        return encoder

    def first_special(self, text: str) -> tuple[str, int] | None:
        return self._native.first_special(text)


def are_normal(parts: Iterable[str]) -> bool:
    """Return whether the text in these parts is in normal form."""
    return all(map(str.isascii, parts)) or is_nfc("".join(parts))


def _around(text: str, changes: Sequence[Change], length: int) -> str:
    """Return some changed text, with the characters before and behind."""
    start = max(changes[0][0] - length, 0)
    part = text[start : changes[-1][1] + length]
    return "".join(
        with_changes(part, ((at - start, end - start, form) for at, end, form in changes))
    )


Found = tuple[str, int]
"""A literal, and its position in a text."""


def _between(text: str, changes: Iterable[Change], literals: Iterable[Found]) -> Iterator[Change]:
    """Yield changes without the literals in them. The text on each side is normalized alone."""
    bounds = [(at, at + len(literal)) for literal, at in literals]
    first = 0
    for start, end, _ in changes:
        while first < len(bounds) and bounds[first][1] <= start:
            first += 1
        within = first
        while start < end:
            is_within = within < len(bounds) and bounds[within][0] < end
            until, behind = bounds[within] if is_within else (end, end)
            if start < until and not is_nfc(part := text[start:until]):
                yield start, until, nfc(part)
            start = behind
            within += 1


def _moved(literals: Iterable[Found], changes: Iterable[Change]) -> Iterator[Found]:
    """Yield literals where they are in the changed text."""
    others = iter(changes)
    change = next(others, None)
    shift = 0
    for literal, at in literals:
        while change is not None and change[1] <= at:
            start, end, form = change
            shift += len(form) - (end - start)
            change = next(others, None)
        yield literal, at + shift
