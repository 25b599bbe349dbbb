"""The positions in a text where its ids begin, if normalizers or other stages change the text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate, compress

from bpetite._pretokenizer import Pretokenizer
from bpetite._stages import TEXT, StagedSplitter
from bpetite._vocabulary import Vocabulary


class Tracer:
    """Finds the offsets of ids that a vocabulary with normalizers or other stages gives.

    Only the literals of `special_tokens` are special.

    >>> vocabulary = Vocabulary((), {}, "[a-z]+", normalizer="NFC")
    >>> Tracer(vocabulary, ()).offsets("e\u0301a", [195, 169, 97], in_bytes=False)
    [0, 0, 2]
    """

    def __init__(self, vocabulary: Vocabulary, special_tokens: Collection[str]) -> None:
        stages = self._stages = vocabulary.stages
        self._dropped = vocabulary.absent_bytes if stages.drops_unknown else b""
        self._bytes_of = vocabulary.tokens.bytes_of
        has_unknown = stages.unknown_id is not None
        self._tokens = {*vocabulary.ordinary_tokens.values()} if has_unknown else set()
        self._splits = bool(stages.steps) or stages.has_words
        self._pretokenizer = Pretokenizer.of(vocabulary)
        self._splitter = StagedSplitter(vocabulary, special_tokens)

    def offsets(
        self, text: str, ids: Collection[int], in_bytes: bool, start: int = TEXT
    ) -> list[int]:
        """Return the position of the first character, or byte, of each id in a text.

        A replacement has the position of the text that it replaces. `start` says how the text
        begins, as in `_stages`.

        Raises ValueError if a merge takes the token of an unknown byte, which may be several bytes.
        """
        starts: Sequence[int] = range(len(text) + 1)
        if in_bytes and not text.isascii():
            starts = [*accumulate((len(each.encode()) for each in text), initial=0)]

        def spread(piece: str, origins: Sequence[int]) -> Sequence[int]:
            """Return the origins of the bytes of a piece."""
            if piece.isascii():
                return origins if not in_bytes else [starts[at] for at in origins]
            if not in_bytes:
                return [at for each, at in zip(piece, origins, strict=True) for _ in each.encode()]
            return [
                starts[at] + (place if text[at] == each else 0)
                for each, at in zip(piece, origins, strict=True)
                for place in range(len(each.encode()))
            ]

        rest = iter(ids)
        offsets: list[int] = []
        for segment, origins, literal_at in self._splitter.starting(start).traced(text):
            pieces: Iterable[tuple[bytes, Sequence[int]]]
            if self._splits:
                pieces = self._pretokenizer.traced(segment, origins, spread)
            else:
                pieces = [(segment.encode(), spread(segment, origins))]
            for piece, byte_origins in pieces:
                if self._dropped:
                    byte_origins = [*compress(byte_origins, map(self._is_kept, piece))]
                    piece = piece.translate(None, self._dropped)
                offsets += map(byte_origins.__getitem__, self._starts(piece, rest))
            if literal_at is not None and next(rest, None) is not None:
                offsets.append(starts[literal_at])
        if len(offsets) != len(ids):
            raise _unknown_offsets()
        return offsets

    def _is_kept(self, byte: int) -> bool:
        return byte not in self._dropped

    def _starts(self, piece: bytes, ids: Iterator[int]) -> Iterator[int]:
        """Yield where the bytes of each id begin in a piece, and take its ids."""
        prefix, suffix = self._stages.prefix, self._stages.suffix
        at, size = 0, len(piece)
        while at < size:
            if (id := next(ids, None)) is None:
                return
            yield at
            if id == self._stages.unknown_id and self._is_unknown(piece, at):
                at += 1
                while self._stages.fuses_unknown and at < size and self._is_unknown(piece, at):
                    at += 1
            else:
                at += len(self._bytes_of[id]) - len(prefix if at else b"")
        if at not in (size, size + len(suffix)):
            raise _unknown_offsets()

    def _is_unknown(self, piece: bytes, at: int) -> bool:
        prefix = self._stages.prefix if at else b""
        suffix = self._stages.suffix if at == len(piece) - 1 else b""
        return prefix + piece[at : at + 1] + suffix not in self._tokens


def _unknown_offsets() -> ValueError:
    return ValueError("a merge takes the token of an unknown byte, so offsets are unknown")
