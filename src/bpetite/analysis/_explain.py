"""A piece in, every merge of it out: what `encode` did, step by step."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal
from weakref import WeakKeyDictionary

from bpetite import Tokenizer
from bpetite._encoder import first_ids_of
from bpetite._engine.python import TextEncoder
from bpetite._tokenizer import vocabulary_of
from bpetite._vocabulary import Vocabulary

MAX_PIECE_BYTES = 4096
"""The longest piece with steps, in bytes of UTF-8. Each step takes some 300 bytes of memory."""


@dataclass(frozen=True, slots=True)
class MergeStep:
    """One merge of one pair in a piece."""

    pair: tuple[int, int]
    """The two adjacent ids that become one."""
    rank: int
    """The rank of the merge: its index in `Tokenizer.merges`."""
    id: int
    """The id that the merge makes."""
    token: bytes
    """The bytes of this id."""
    parts: tuple[int, int]
    """The two nodes that the merge joins: see `ExplainedPiece.roots`."""
    lost: tuple[int, int] | None
    """The best other pair before the step, None if there was no other pair of a merge."""
    lost_rank: int | None
    """The rank of that pair's merge."""


@dataclass(frozen=True, slots=True)
class ExplainedPiece:
    """A piece of a text, its ids, and the merges that made them."""

    text: str
    """The text of the piece: a special literal, or characters that the pattern keeps together."""
    kind: Literal["merged", "whole", "special", "long"]
    """Where the ids come from; only a "merged" piece has steps.

    A "merged" piece went through its merges, if it has any. A "whole" piece is a token that its
    merges do not make; the vocabulary takes such tokens without a merge. A "special" piece is a
    special literal. A "long" piece has more than MAX_PIECE_BYTES bytes.
    """
    ids: tuple[int, ...]
    """The ids of the piece, as `Tokenizer.encode` returns them."""
    byte_ids: tuple[int, ...]
    """The ids of a "merged" piece before its first step: of its bytes, or with byte fallback of
    its characters, and of the bytes of a character that has no token."""
    steps: tuple[MergeStep, ...]
    """The merges in order."""
    roots: tuple[int, ...]
    """The node of each id in the merge trees of a "merged" piece.

    The first nodes are `byte_ids`. The nodes after them are the steps in order, and each has two
    `parts`, which are nodes too.
    """

    def states(self) -> Iterator[tuple[int, ...]]:
        """Yield the ids before the first step, then those after each step.

        >>> from bpetite.analysis import explain
        >>> tokenizer = Tokenizer.train("ab ab ab", 258)
        >>> [list(piece.states()) for piece in explain(tokenizer, " ab")]
        [[(32, 97, 98), (32, 256), (257,)]]
        """
        nodes = list(range(len(self.byte_ids)))
        ids = list(self.byte_ids)
        yield tuple(ids)
        for number, step in enumerate(self.steps, len(self.byte_ids)):
            at = nodes.index(step.parts[0])
            nodes[at : at + 2] = [number]
            ids[at : at + 2] = [step.id]
            yield tuple(ids)


def merge_ids(tokenizer: Tokenizer) -> list[int]:
    """Return the id that each merge makes, in the order of `Tokenizer.merges`.

    In a trained vocabulary, two merges may make the same bytes and different ids, which follow
    from their ranks. In any other, several merges may make one id.

    >>> merge_ids(Tokenizer.train("ab ab ab", 258))
    [256, 257]
    """
    return [*vocabulary_of(tokenizer).merge_ids]


def pieces_of(
    tokenizer: Tokenizer, text: str, literals: Collection[str]
) -> Iterator[tuple[bytes, str | None]]:
    """Return an iterator over the pieces, or the bytes of a special literal and the literal."""
    special_tokens = {literal: tokenizer.special_tokens[literal] for literal in literals}
    encoder = TextEncoder(vocabulary_of(tokenizer), list, None)  # nothing is merged
    return encoder.with_special_tokens(special_tokens).pieces(text)


def explained(
    tokenizer: Tokenizer, pieces: Iterator[tuple[bytes, str | None]], ids: Sequence[int]
) -> Iterator[ExplainedPiece]:
    """Yield the explanation of each piece; `ids` are those of all pieces."""
    merging = _merging_of(tokenizer)
    start = 0
    for data, literal in pieces:
        text = data.decode("utf-8", "replace")
        kind: Literal["whole", "special", "long"] = "special" if literal else "whole"
        size = 1
        if not literal and len(data) > MAX_PIECE_BYTES:
            kind, size = "long", len(tokenizer.encode_bytes(data))
        elif not literal:
            first_ids, steps, roots, made = merging.run(data)
            if made == tuple(ids[start : start + len(made)]):
                yield ExplainedPiece(text, "merged", made, first_ids, steps, roots)
                start += len(made)
                continue
        yield ExplainedPiece(text, kind, tuple(ids[start : start + size]), (), (), ())
        start += size


class _Merging:
    """The merges of a vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._merges, self._merge_ids = vocabulary.merges, vocabulary.merge_ids
        self._number_of = {pair: number for number, pair in enumerate(self._merges)}
        self._ranks = [*range(len(self._merges))]
        for number in vocabulary.stages.tied:
            self._ranks[number] = self._ranks[number - 1]
        self._bytes_of = vocabulary.tokens.bytes_of
        self._first_ids = first_ids_of(vocabulary)
        self._dropped = vocabulary.absent_bytes if vocabulary.stages.drops_unknown else b""

    def run(
        self, data: bytes
    ) -> tuple[tuple[int, ...], tuple[MergeStep, ...], tuple[int, ...], tuple[int, ...]]:
        """Return the first ids of a piece, the steps, and the last nodes and ids.

        Each merge has a heap of the places where its pairs begin, and the ranks are a heap too. An
        entry is stale, and is dropped, if another merge has taken a part of its pair. There are
        fewer steps than first ids, and each adds at most two entries.
        """
        first_ids = tuple(self._first_ids(data.translate(None, self._dropped)))
        size = len(first_ids)
        ids: list[int | None] = [*first_ids]  # None: a part of the token before it
        nodes = list(range(size))
        after = list(range(1, size + 1))  # the place after the token at each place
        before = list(range(-1, size - 1))  # the place of the token before it
        ranks: list[int] = []
        numbers: dict[int, list[int]] = {}  # the merges of each rank
        places: dict[int, list[int]] = {}  # of each of these merges

        def pair_at(at: int) -> tuple[int | None, int | None]:
            return ids[at], (ids[after[at]] if after[at] < size else None)

        def add(at: int) -> None:
            number = self._number_of.get(pair_at(at))  # type: ignore[arg-type]
            if number is None:
                return
            if number not in places:
                places[number] = []
                rank = self._ranks[number]
                if rank not in numbers:
                    numbers[rank] = []
                    heapq.heappush(ranks, rank)
                numbers[rank].append(number)
            heapq.heappush(places[number], at)

        def first_of(rank: int, besides: int | None = None) -> int | None:
            """Return the merge of a rank that has the first place now, except for one merge."""
            for number in [*numbers[rank]]:
                found = places[number]
                while found and pair_at(found[0]) != self._merges[number]:
                    heapq.heappop(found)
                if not found:
                    del places[number]
                    numbers[rank].remove(number)
            others = (number for number in numbers[rank] if number != besides)
            return min(others, key=lambda number: places[number][0], default=None)

        def best() -> int | None:
            """Return the merge that is next."""
            while ranks:
                if (number := first_of(ranks[0])) is not None:
                    return number
                del numbers[heapq.heappop(ranks)]
            return None

        for at in range(size):
            add(at)
        steps: list[MergeStep] = []
        while (number := best()) is not None:
            rank = heapq.heappop(ranks)
            lost = first_of(rank, number)
            lost = best() if lost is None else lost
            heapq.heappush(ranks, rank)
            at = heapq.heappop(places[number])
            other = after[at]
            id = self._merge_ids[number]
            steps.append(
                MergeStep(
                    self._merges[number],
                    number,
                    id,
                    self._bytes_of[id],
                    (nodes[at], nodes[other]),
                    None if lost is None else self._merges[lost],
                    lost,
                )
            )
            ids[at], ids[other], nodes[at] = id, None, size + len(steps) - 1
            after[at] = end = after[other]
            if end < size:
                before[end] = at
            add(at)
            if before[at] >= 0:
                add(before[at])
        starts = [at for at in range(size) if ids[at] is not None]
        return (
            first_ids,
            tuple(steps),
            tuple(nodes[at] for at in starts),
            tuple(id for id in ids if id is not None),
        )


_MERGING: WeakKeyDictionary[Tokenizer, _Merging] = WeakKeyDictionary()
"""The tables of each tokenizer, which take as long to make as a page of text."""


def _merging_of(tokenizer: Tokenizer) -> _Merging:
    found = _MERGING.get(tokenizer)
    if found is None:
        found = _MERGING[tokenizer] = _Merging(vocabulary_of(tokenizer))
    return found
