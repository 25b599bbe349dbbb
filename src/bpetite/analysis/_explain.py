"""A piece in, every merge of it out: what `encode` did, step by step."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal
from weakref import WeakKeyDictionary

from bpetite import Tokenizer
from bpetite._engine.python import TextEncoder
from bpetite._tokenizer import vocabulary_of

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
    """The ids of the single bytes of a "merged" piece, before its first step."""
    steps: tuple[MergeStep, ...]
    """The merges in order."""
    roots: tuple[int, ...]
    """The node of each id in the merge trees of a "merged" piece.

    Node n is the byte n of the piece. The nodes behind the last byte are the steps in order, and
    each has two `parts`, which are nodes too.
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
    token = {id: tokenizer.token_bytes(id) for id in tokenizer.ids}
    id_of = _ids_by_bytes(tokenizer)
    made: list[int] = []
    for usual, (left, right) in enumerate(tokenizer.merges, 256):
        data = token[left] + token[right]
        made.append(usual if token.get(usual) == data else id_of[data])
    return made


def _ids_by_bytes(tokenizer: Tokenizer) -> dict[bytes, int]:
    """Return the id of each token's bytes; a special token may share those of an ordinary one."""
    special = {*tokenizer.special_tokens.values()}
    ids = sorted(tokenizer.ids, key=lambda id: (id not in special, -id))
    return {tokenizer.token_bytes(id): id for id in ids}


def pieces_of(
    tokenizer: Tokenizer, text: str, literals: Collection[str]
) -> Iterator[tuple[bytes, str | None]]:
    """Return an iterator over the pieces, or the bytes of a special literal and the literal."""
    vocabulary = vocabulary_of(tokenizer)
    if vocabulary.stages.has_words:
        raise ValueError(
            "the merges of this vocabulary cannot be explained: the tokens of its bytes depend on "
            "their place in a word (end_of_word_suffix, continuing_subword_prefix or unk_token)"
        )
    if vocabulary.stages.byte_fallback:
        raise ValueError(
            "the merges of this vocabulary cannot be explained: it has byte fallback, so they "
            "begin with characters, and not with bytes"
        )
    special_tokens = {literal: tokenizer.special_tokens[literal] for literal in literals}
    encoder = TextEncoder(vocabulary, list, None)  # nothing is merged
    return encoder.with_special_tokens(special_tokens).pieces(text)


def explained(
    tokenizer: Tokenizer, pieces: Iterator[tuple[bytes, str | None]], ids: Sequence[int]
) -> Iterator[ExplainedPiece]:
    """Yield the explanation of each piece; `ids` are those of all pieces."""
    merging = _merging_of(tokenizer)
    start = 0
    for data, literal in pieces:
        text = data.decode("utf-8", "replace")
        end, size = start, 0
        while size < len(data):
            size += len(data) if literal else len(tokenizer.token_bytes(ids[end]))
            end += 1
        own = tuple(ids[start:end])
        start = end
        if literal:
            yield ExplainedPiece(text, "special", own, (), (), ())
        elif len(data) > MAX_PIECE_BYTES:
            yield ExplainedPiece(text, "long", own, (), (), ())
        else:
            byte_ids, steps, roots, made = merging.run(data)
            if made == own:
                yield ExplainedPiece(text, "merged", own, byte_ids, steps, roots)
            else:
                yield ExplainedPiece(text, "whole", own, (), (), ())


class _Merging:
    """The merges of a tokenizer, by its public names."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._merges = tokenizer.merges
        self._rank_of = {pair: rank for rank, pair in enumerate(self._merges)}
        self._made_by = merge_ids(tokenizer)
        self._token = tokenizer.token_bytes
        id_of = _ids_by_bytes(tokenizer)
        # No text has a byte without a token.
        self._byte_ids = [id_of.get(bytes([byte]), -1) for byte in range(256)]

    def run(
        self, data: bytes
    ) -> tuple[tuple[int, ...], tuple[MergeStep, ...], tuple[int, ...], tuple[int, ...]]:
        """Return the ids of the bytes, the steps, and the last nodes and ids of a piece.

        Each rank has a heap of the bytes where its pairs begin, and the ranks are a heap too. An
        entry is stale, and is dropped, if another merge has taken a part of its pair. There are
        fewer steps than bytes, and each adds at most two entries.
        """
        size = len(data)
        byte_ids = tuple(map(self._byte_ids.__getitem__, data))
        ids: list[int | None] = [*byte_ids]  # None: a part of the token before it
        nodes = list(range(size))
        after = list(range(1, size + 1))  # the byte behind the token that begins at each byte
        before = list(range(-1, size - 1))  # where the token before it begins
        ranks: list[int] = []
        places: dict[int, list[int]] = {}

        def add(at: int) -> None:
            rank = self._rank_of.get((ids[at], ids[after[at]]))  # type: ignore[arg-type]
            if rank is None:
                return
            if rank not in places:
                places[rank] = []
                heapq.heappush(ranks, rank)
            heapq.heappush(places[rank], at)

        def lowest() -> int | None:
            """Return the lowest rank that a pair has now; its first place is such a pair's."""
            while ranks:
                found = places[ranks[0]]
                pair = self._merges[ranks[0]]
                while found:
                    at = found[0]
                    if after[at] < size and (ids[at], ids[after[at]]) == pair:
                        return ranks[0]
                    heapq.heappop(found)
                del places[heapq.heappop(ranks)]
            return None

        for at in range(size - 1):
            add(at)
        steps: list[MergeStep] = []
        while (rank := lowest()) is not None:
            heapq.heappop(ranks)
            lost_rank = lowest()
            heapq.heappush(ranks, rank)
            at = heapq.heappop(places[rank])
            other = after[at]
            pair = self._merges[rank]
            id = self._made_by[rank]
            steps.append(
                MergeStep(
                    pair,
                    rank,
                    id,
                    self._token(id),
                    (nodes[at], nodes[other]),
                    None if lost_rank is None else self._merges[lost_rank],
                    lost_rank,
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
            byte_ids,
            tuple(steps),
            tuple(nodes[at] for at in starts),
            tuple(id for id in ids if id is not None),
        )


_MERGING: WeakKeyDictionary[Tokenizer, _Merging] = WeakKeyDictionary()
"""The tables of each tokenizer, which take as long to make as a page of text."""


def _merging_of(tokenizer: Tokenizer) -> _Merging:
    found = _MERGING.get(tokenizer)
    if found is None:
        found = _MERGING[tokenizer] = _Merging(tokenizer)
    return found
