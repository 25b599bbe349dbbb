"""A native encoder for texts that are normalized, and for special literals with flags.

The native engine can do neither, but most texts have no such literals and are normal already.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from bpetite._arguments import Frame, Text, as_str, raise_in_whole
from bpetite._corpus import normal_run
from bpetite._engine import _native, python
from bpetite._engine.arrays import as_array
from bpetite._stages import StagedSplitter
from bpetite._unicode import nfc
from bpetite._vocabulary import Vocabulary, is_encodable

_LOOK_AROUND = ("Strip", "Prepend", "Replace")
"""Normalizers that may leave a text as it is, and yet change a part of it."""


_FEW_CHANGES = 64  # around more changes, a search takes as long as through the text
_FIRST_PIECE_CHARACTERS = 64  # the start of a text in which its first piece is searched


class StagedEncoder(python.TextEncoder):
    """A `contract.TextEncoder` of a vocabulary with normalizers, flags, or a space before texts.

    If `_plain` finds no text for the native encoder, Python finds the special literals, and the
    native encoder gets the text between them.
    """

    def __init__(self, vocabulary: Vocabulary, encoder: _native.TextEncoder) -> None:
        """`encoder`, of the same vocabulary, only splits and merges."""
        self._native = encoder
        self._ordinary = encoder.with_special_tokens({})
        self._is_nfc = vocabulary.normalizers == (("NFC",),)
        self._has_space = "space" in vocabulary.stages.steps
        self._has_characters = vocabulary.stages.byte_fallback
        self._drops = vocabulary.stages.drops_unknown
        super().__init__(vocabulary, encoder.merge, None)

    def _use(self, special_tokens: Mapping[str, int], plain: Collection[str]) -> None:
        super()._use(special_tokens, plain)
        assert isinstance(self._splitter, StagedSplitter)
        stages = self._vocabulary.stages
        found = dict(special_tokens)
        for literal, flags in stages.flags:
            if "control" in flags:
                found.pop(literal, None)
        self._native = self._native.with_special_tokens(found, [*found.keys() & plain])
        # Finds whether a text has a literal of any search, or of the native encoder.
        texts = {*found, *self._splitter.searched}
        self._finder = self._native.with_special_tokens(dict.fromkeys(texts, 0))
        self._max_literal_bytes = max(len(each.encode()) for each in ("", *texts))
        # Finds this too, and whether a text has what becomes a space.
        texts.add("\u2581")
        self._first_finder = self._native.with_special_tokens(dict.fromkeys(texts, 0))
        # Whether the native encoder finds the right literals in normal text.
        looks_around = self._has_space or stages.byte_fallback
        looks_around |= any(name in _LOOK_AROUND for name, *_ in stages.normalizers)
        flagged = {literal for literal, _ in stages.flags}
        self._finds_literals = not looks_around and flagged.isdisjoint(special_tokens)

    def _plain(self, text: Text, ordinary: bool = False) -> Text | None:
        """Return a text that has the same ids in the native encoder, or None.

        If that encoder does not find the right literals, the text has none.

        Raises UnicodeEncodeError for a lone surrogate if the text changes.
        """
        if self._is_nfc and not self._has_space and (ordinary or self._finds_literals):
            changes = _nfc_changes(text)
            if not changes:
                return text  # no copy of a large file
            normal = _native.changed(text, changes)
            return normal if ordinary or not self._near_literal(text, normal, changes) else None
        string = as_str(text)
        plain = self._normal(string)
        if ordinary or (plain is string and self._finds_literals):
            return plain
        given = (plain,) if plain is string else (plain, string)
        return plain if not any(map(self._finder.first_special, given)) else None

    def _near_literal(self, text: Text, normal: bytes, changes: Sequence[_Change]) -> bool:
        """Return whether a literal may touch a change of a text, before or after it."""
        find, most = self._finder.first_special, self._max_literal_bytes
        end, shift = -most, 0
        for start, old, new in changes:
            if start - end < most or len(changes) > _FEW_CHANGES:
                return any(map(find, (normal, text)))  # a literal anywhere
            at, end = start + shift, start + len(old)
            shift += len(new) - len(old)
            left, right = normal[max(0, at - most) : at], normal[end + shift : end + shift + most]
            windows = (left + changed + right for changed in (old, new))
            if any(find(window.decode("utf-8", "ignore")) for window in windows):
                return True
        return False

    def _normal(self, text: str) -> str | bytes:
        """Return a text normalized, with its space: the same object if nothing changes."""
        try:
            normal = self._spaced(self._splitter.normalized(text))
            return text if normal == text else normal.encode()
        except UnicodeEncodeError as error:
            raise_in_whole(text, error)

    def _spaced(self, text: str) -> str:
        return " " + text if self._has_space and text and not text.startswith(" ") else text

    def _by_segments(self, text: Text, item_size: int) -> memoryview:
        """Return the ids of a text; only the text between literals goes to the native encoder."""
        string = as_str(text)
        try:
            split = [*self._splitter.split(string)]
        except UnicodeEncodeError as error:
            raise_in_whole(string, error)
        segments = [self._spaced(segment) for segment, _ in split]
        ids, offsets = self._ordinary.encode_batch(segments, ((), ()), item_size, 1)
        data = ids.cast("B")
        special = {
            literal: bytes(as_array([self._special_tokens[literal]], item_size))
            for literal in {literal for _, literal in split if literal}
        }
        ends = [item_size * offset for offset in offsets]
        parts = [
            part
            for (_, literal), start, end in zip(split, ends, ends[1:], strict=False)
            for part in (data[start:end], special[literal] if literal else b"")
        ]
        return memoryview(bytearray().join(parts)).cast(ids.format)

    def _first_piece(self, text: Text, ordinary: bool) -> tuple[str, str] | None:
        """Return the first piece of a text that only gets a space, without it and with it.

        The rest of the text is unchanged, so the native encoder reads it in place. None for other
        texts.
        """
        splits = self._pretokenizer.raw_splits if self._has_characters else None
        if splits is None or not isinstance(text, (str, bytes)):
            return None
        if ordinary:
            has_other = "\u2581" in text if isinstance(text, str) else b"\xe2\x96\x81" in text
        else:
            assert isinstance(self._splitter, StagedSplitter)
            has_other = self._first_finder.first_special(text) is not None
            has_other |= not self._splitter.shows_literals
        if has_other:
            return None
        start = text[:_FIRST_PIECE_CHARACTERS]
        if isinstance(start, bytes):
            start = start.decode("utf-8", "ignore")
        first = start[: splits.first(start, 0, len(start))]
        if len(first) == len(start) or not is_encodable(first):
            return None
        return first, self._splitter.normalized(first)

    def encode(self, text: Text, ordinary: bool = False, threads: int = 1) -> list[int]:
        if (pieces := self._first_piece(text, ordinary)) is not None:
            first, spaced = pieces
            ids = self._native.encode(text, True, threads)
            if first != spaced:
                ids[: self._native.count(first, True)] = self._native.encode(spaced, True)
            return ids
        plain = self._plain(text, ordinary)
        if plain is None:
            return self._by_segments(text, 4).tolist()
        return self._native.encode(plain, ordinary or not self._finds_literals, threads)

    def count(self, text: Text, ordinary: bool = False) -> int:
        if (pieces := self._first_piece(text, ordinary)) is not None:
            count = self._native.count
            first, spaced = pieces
            return count(text, True) - count(first, True) + count(spaced, True)
        plain = self._plain(text, ordinary)
        if plain is None:
            return len(self._by_segments(text, 4))
        return self._native.count(plain, ordinary or not self._finds_literals)

    def encode_array(self, text: Text, ordinary: bool, item_size: int, threads: int) -> memoryview:
        if (pieces := self._first_piece(text, ordinary)) is not None:
            first, spaced = pieces
            ids = self._native.encode_array(text, True, item_size, threads)
            if first == spaced:
                return ids
            new = self._native.encode_array(spaced, True, item_size, 1)
            count = self._native.count(first, True)
            if len(new) == count:  # the usual case needs no copy
                ids[:count] = new
                return ids
            rest = ids[count:]
            found: Any = memoryview(bytearray().join((new, rest)))
            joined: memoryview = found.cast(ids.format)
            return joined
        plain = self._plain(text, ordinary)
        if plain is None:
            return self._by_segments(text, item_size)
        return self._native.encode_array(
            plain, ordinary or not self._finds_literals, item_size, threads
        )

    def encode_batch(
        self, texts: Iterable[Text], frame: Frame, item_size: int, threads: int
    ) -> Any:
        texts = [*texts]
        plain: list[Text] = []
        for text in texts:
            normal = self._plain(text)
            if normal is None:
                return super().encode_batch(texts, frame, item_size, threads)
            plain.append(normal)
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
        # The native encoder locates parts by the lengths of tokens, so no byte may be dropped.
        is_usual = self._is_nfc and self._finds_literals and not self._drops
        if is_usual and not _nfc_changes("".join(parts)):
            return self._native.encode_parts(parts, item_size)
        return super().encode_parts(parts, item_size)


_Change = tuple[int, bytes, bytes]
"""A position in the UTF-8 of a text, the bytes there, and the bytes that they become."""


def _nfc_changes(text: Text) -> list[_Change]:
    """Return the changes that bring a text into normal form C, in ascending order.

    Raises the errors of `as_bytes` and `as_str`.
    """
    if isinstance(text, str) and text.isascii():
        return []
    parts = ((start, part, nfc(part)) for start, part in _native.unsettled(text))
    return [(start, part.encode(), new.encode()) for start, part, new in parts if new != part]
