"""A native encoder for texts that are normalized, and for special literals with flags.

The native engine knows neither, but most texts have no such literals and are normal already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bpetite._arguments import Frame, Text, as_str, raise_in_whole, view_of
from bpetite._corpus import normal_run
from bpetite._engine import python
from bpetite._engine.python import Join, T
from bpetite._stages import StagedSplitter
from bpetite._unicode import are_nfc, is_nfc
from bpetite._vocabulary import Vocabulary

if TYPE_CHECKING:
    from bpetite._engine import _native


class StagedEncoder(python.TextEncoder):
    """A `contract.TextEncoder` of a vocabulary with normalizers, flags, or a space before texts.

    Where `_plain` has no text for the native encoder, Python finds the special literals, and the
    native encoder gets the text between them.
    """

    def __init__(self, vocabulary: Vocabulary, encoder: _native.TextEncoder) -> None:
        """`encoder` is that of the same vocabulary, and only splits and merges."""
        self._native = encoder
        self._is_nfc = vocabulary.normalizers == (("NFC",),)
        self._has_space = "space" in vocabulary.stages.steps
        super().__init__(vocabulary, encoder.merge, None)

    def _use(self, special_tokens: Mapping[str, int]) -> None:
        super()._use(special_tokens)
        self._native = self._native.with_special_tokens(dict(special_tokens))
        assert isinstance(self._splitter, StagedSplitter)
        # Tells whether a text has a literal of any search, or of the native encoder's.
        texts = {*special_tokens, *self._splitter.searched}
        self._finder = self._native.with_special_tokens(dict.fromkeys(texts, 0))
        # Whether the native encoder finds literals in normal text as they are to be found.
        flags = dict(self._vocabulary.stages.flags)
        self._finds_literals = not self._has_space and flags.keys().isdisjoint(special_tokens)

    def _spaced(self, text: str) -> str:
        return " " + text if self._has_space and text and not text.startswith(" ") else text

    def _plain(self, text: Text, ordinary: bool = False) -> Text | None:
        """Return a text that has the same ids in the native encoder, or None."""
        if self._is_nfc and not isinstance(text, str) and (ordinary or self._finds_literals):
            with view_of(text) as view:  # no copy of a large file, unless it changes
                if are_nfc(view):
                    return text
        string = as_str(text)
        plain = self._spaced(self._splitter.normalized(string))
        if plain is not string:
            string.encode("utf-8")  # finds a lone surrogate where it is in the text
        if ordinary or (plain is string and self._finds_literals):
            return plain
        has_literal = map(self._finder.first_special, {string, plain})
        return None if any(found is not None for found in has_literal) else plain

    def encode(self, text: Text, ordinary: bool = False, threads: int = 1) -> list[int]:
        plain = self._checked(text, ordinary)
        if plain is None:
            return super().encode(text, ordinary)
        return self._native.encode(plain, ordinary, threads)

    def _checked(self, text: Text, ordinary: bool = False) -> Text | None:
        """Return `_plain` of a text; raise the error of a lone surrogate in it."""
        try:
            return self._plain(text, ordinary)
        except UnicodeEncodeError as error:
            raise_in_whole(as_str(text), error)

    def count(self, text: Text, ordinary: bool = False) -> int:
        plain = self._checked(text, ordinary)
        if plain is None:
            return super().count(text, ordinary)
        return self._native.count(plain, ordinary)

    def encode_array(self, text: Text, ordinary: bool, item_size: int, threads: int) -> memoryview:
        plain = self._checked(text, ordinary)
        if plain is None:
            return super().encode_array(text, ordinary, item_size, threads)
        return self._native.encode_array(plain, ordinary, item_size, threads)

    def encode_batch(
        self, texts: Iterable[Text], frame: Frame, item_size: int, threads: int
    ) -> Any:
        texts = [*texts]
        plain: list[Text] = []
        for text in texts:
            checked = self._checked(text)
            if checked is None:
                return super().encode_batch(texts, frame, item_size, threads)
            plain.append(checked)
        return self._native.encode_batch(plain, frame, item_size, threads)

    def encode_buffer(
        self, data: memoryview, offsets: memoryview, frame: Frame, item_size: int, threads: int
    ) -> tuple[memoryview, memoryview]:
        if self._is_nfc and self._finds_literals:
            run = normal_run(data, offsets, self._plain)
            if run is not None:
                return self._native.encode_buffer(*run, frame, item_size, threads)
        return super().encode_buffer(data, offsets, frame, item_size, threads)

    def encode_parts(self, parts: Iterable[str], item_size: int) -> tuple[Any, Any]:
        parts = [*parts]
        if self._is_nfc and self._finds_literals and are_normal(parts):
            return self._native.encode_parts(parts, item_size)
        return super().encode_parts(parts, item_size)

    def _segment(self, segment: str, join: Join[T]) -> Iterator[T]:
        yield join([self._native.encode(self._spaced(segment), True)])


def are_normal(parts: Iterable[str]) -> bool:
    """Return whether the text in these parts is in normal form C."""
    return all(map(str.isascii, parts)) or is_nfc("".join(parts))
