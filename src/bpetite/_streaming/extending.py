"""Text added to ids that must stay as they are, such as ids that a model has sampled."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from bpetite._arguments import ids_of
from bpetite._pretokenizer import ChunkSplitter, Pretokenizer, SpecialSplitter, character_start
from bpetite._stages import INSIDE, SEGMENT, TEXT
from bpetite._vocabulary import Vocabulary

if TYPE_CHECKING:
    from bpetite._engine.contract import TextEncoder, TokenJoiner

_FIRST_TAIL_IDS = 16


class ExtendIdsError(ValueError):
    """Ids cannot stay as they are before an added text; `Tokenizer.extend_ids` raises this.

    `position` is the index of the first id that would change.
    """

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(position, reason)
        self.position = position

    def __str__(self) -> str:
        return (
            f"the id at position {self.position} {self.args[1]}; to keep it, pass apart=True, "
            f"which encodes the added text by itself"
        )


class _Tail(NamedTuple):
    """The last ids, which are ordinary, from a place where text may be split."""

    first: int  # the index of the first of them
    ids: list[int]
    data: bytes
    start: int  # where text may be split in these bytes, or the text between special tokens begins


class Extender:
    """Finds the ids of a text that is added to ids of one vocabulary.

    `splitter` finds splits of text in which no literal is special.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        encoders: Sequence[TextEncoder],
        joiner: TokenJoiner,
        splitter: ChunkSplitter,
        plain: Collection[str],
    ) -> None:
        """`encoders` are of texts that begin as TEXT, SEGMENT and INSIDE say.

        `plain` are the special literals that count in any text, and across segments.
        """
        self._vocabulary = vocabulary
        self._encoders = encoders
        self._joiner = joiner
        self._splitter = splitter
        self._plain = SpecialSplitter(plain)
        ids = vocabulary.special_tokens.items()
        self._special_ids = frozenset(id for literal, id in ids if literal not in plain)
        self._control_ids = {
            vocabulary.special_tokens[literal]
            for literal, flags in vocabulary.stages.flags
            if "control" in flags
        }

    def ids_after(self, ids: Sequence[int], segments: list[str]) -> list[int]:
        """Return the ids of segments in the context of the text of `ids`.

        Raises ExtendIdsError if the last piece of that text would have other ids, and after a
        special token that is found in no text, if only a whole text gets a space.
        """
        first, tail, data, start = self._tail(ids)
        if not tail:
            is_put = ("Prefix", " ") in self._vocabulary.normalizers
            if first and is_put and ids[first - 1] in self._control_ids:
                raise ExtendIdsError(
                    first - 1, "is a special token, after which only a text of its own has a space"
                )
            return self._encoded(segments, SEGMENT if first else TEXT)
        offsets = self._joiner.offsets(tail, True)
        try:
            text = data[start:].decode()
        except UnicodeDecodeError as error:
            index = bisect_right(offsets, start + error.start) - 1
            raise ExtendIdsError(first + index, "has bytes that are not UTF-8") from None
        canonical = self._encoded([text, *segments], INSIDE)
        index = bisect_left(offsets, start)
        if offsets[index:] and offsets[index] == start:
            given = tail[index:]
            if canonical[: len(given)] == given:
                return canonical[len(given) :]
        # The ids before the last piece may differ from those that `encode` would give.
        before, size = self._before_last_piece(canonical, data[start:])
        index = bisect_left(offsets, start + size)
        if not offsets[index:] or offsets[index] > start + size:
            raise ExtendIdsError(first + index - 1, "spans two pieces of the joined text")
        given, expected = tail[index:], canonical[before:]
        if expected[: len(given)] == given:
            return expected[len(given) :]
        pairs = enumerate(zip(given, expected, strict=False))
        same = next((number for number, (one, two) in pairs if one != two), len(expected))
        raise ExtendIdsError(first + index + same, "would change with the added text")

    def _encoded(self, segments: list[str], start: int) -> list[int]:
        ids: list[int] = self._encoders[start].encode_parts(segments, 0)[0]
        return ids

    def _tail(self, ids: Sequence[int]) -> _Tail:
        """Return the last ids from the last split on, or from the last special token on."""
        size = _FIRST_TAIL_IDS
        while True:
            first = max(len(ids) - size, 0)
            tail = ids_of(ids[first:])
            special = [index for index, id in enumerate(tail) if id in self._special_ids]
            ordinary = special[-1] + 1 if special else 0
            data = self._joiner.join(tail[ordinary:])
            is_start = bool(special) or not first
            start = 0 if is_start else character_start(data, 0)
            split = self._splitter.last_split(data[start:])
            if split or is_start:
                return _Tail(first + ordinary, tail[ordinary:], data, start + split)
            size *= 4

    def _before_last_piece(self, ids: list[int], data: bytes) -> tuple[int, int]:
        """Return how many ids, and how many bytes, come before the last piece of `data`.

        The text of `ids` begins with `data`. If pieces are not parts of this text, both are 0.
        """
        ordinary = [*takewhile(lambda id: id not in self._special_ids, ids)]
        whole = self._joiner.join(ordinary)
        start = 0
        for piece in self._pieces(whole.decode()):
            end = start + len(piece.encode("utf-8", "surrogateescape"))
            if whole[start:end].decode("utf-8", "surrogateescape") != piece:
                return 0, 0
            if end >= len(data):
                return bisect_left(self._joiner.offsets(ordinary, True), start), start
            start = end
        return 0, 0

    def _pieces(self, text: str) -> Iterator[str]:
        pretokenizer = Pretokenizer.of(self._vocabulary)
        for segment, literal in self._plain.split(text):
            for block in pretokenizer.blocks(segment):
                yield from pretokenizer.split_exactly(block)
            if literal is not None:
                yield literal
