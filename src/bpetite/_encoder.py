"""Turn pieces of text into ids, lowest merge rank first."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from bpetite._vocabulary import BYTE_COUNT, Pair

# A longer piece (in characters) is merged anew each time: it is unlikely to come again.
_CACHED_LENGTH = 128

# The cache starts over when its pieces and their ids come to this: 200,000 words of two ids, some
# 40 MB, or fewer of more ids. The words of a text repeat so much that those which matter are back
# in it at once.
_CACHE_SIZE = 2_000_000
_PIECE_SIZE = 8  # of a piece, beside the number of its ids

# Up to so many bytes a piece is merged in place, where each merge looks at the whole piece again;
# above, by positions, which costs more to set up but is never quadratic.
_SHORT = 128

_NO_RANK = 1 << 62


class Encoder:
    """Turn pieces into ids by the ranks of `merges`; safe to share between threads.

    >>> encoder, ids = Encoder([(97, 98), (32, 256)]), []
    >>> encoder.extend(ids, ["ab", " ab", "a"])
    >>> ids
    [256, 257, 97]
    """

    def __init__(self, merges: Iterable[Pair]) -> None:
        self._rank_of = {pair: rank for rank, pair in enumerate(merges)}
        self._ids_of = _PieceCache(self._rank_of)

    def extend(self, ids: list[int], pieces: Iterable[str]) -> None:
        """Append the ids of each piece to `ids`.

        Raises UnicodeEncodeError, with its position in the piece, for a lone surrogate.
        """
        ids_of = self._ids_of
        for piece in pieces:
            ids += ids_of[piece]

    def count(self, pieces: Iterable[str]) -> int:
        """Return how many ids the pieces have in all. Raises as `extend` does."""
        return sum(map(len, map(self._ids_of.__getitem__, pieces)))


class _PieceCache(dict[str, Sequence[int]]):
    """The ids of each piece, found when they are first asked for. A bounded dict."""

    def __init__(self, rank_of: dict[Pair, int]) -> None:
        super().__init__()
        self._rank_of = rank_of
        self._size = 0

    def __missing__(self, piece: str) -> Sequence[int]:
        ids = tuple(merge_piece(piece.encode("utf-8"), self._rank_of))
        if len(piece) <= _CACHED_LENGTH:
            if self._size >= _CACHE_SIZE:
                self._size = 0
                self.clear()
            self._size += _PIECE_SIZE + len(ids)
            self[piece] = ids
        return ids


def merge_piece(piece: bytes, rank_of: dict[Pair, int]) -> list[int]:
    """Return the ids of one piece: for each rank that is present, lowest first, one full pass.

    A pass goes from left to right and replaces what does not overlap. A merge makes an id that
    only later ranks use, so "the leftmost pair of the lowest rank, again and again" is the same.

    >>> merge_piece(b"aaab", {(97, 97): 0, (256, 97): 1})
    [257, 98]
    """
    if len(piece) <= _SHORT:
        return _merge_in_place(list(piece), rank_of)
    return _merge_by_position(list(piece), rank_of)


def _merge_in_place(ids: list[int], rank_of: dict[Pair, int]) -> list[int]:
    """Merge by looking for the lowest rank in a list of ranks: quadratic, but in fast steps."""
    get_rank = rank_of.get
    # ranks[i] is the rank of the pair that begins at ids[i].
    ranks = [get_rank(pair, _NO_RANK) for pair in pairwise(ids)]
    while ranks:
        rank = min(ranks)
        if rank == _NO_RANK:
            break
        i = ranks.index(rank)
        ids[i] = BYTE_COUNT + rank
        del ids[i + 1], ranks[i]
        if i > 0:
            ranks[i - 1] = get_rank((ids[i - 1], ids[i]), _NO_RANK)
        if i < len(ranks):
            ranks[i] = get_rank((ids[i], ids[i + 1]), _NO_RANK)
    return ids


def _merge_by_position(ids: list[int], rank_of: dict[Pair, int]) -> list[int]:
    """Merge by keeping, for each rank that is present, the positions where its pair begins.

    Each of the n - 1 merges at the most adds two positions; they are sorted within their rank,
    and ranks wait in a heap: O(n log n) in all, whatever the piece.
    """
    size = len(ids)
    after = list(range(1, size + 1))  # after[i]: where the token behind the one at i begins
    before = list(range(-1, size - 1))
    positions_of = defaultdict(list)
    for i, pair in enumerate(pairwise(ids)):
        if (rank := rank_of.get(pair)) is not None:
            positions_of[rank].append(i)
    waiting = list(positions_of)
    heapq.heapify(waiting)

    def note(position: int, pair: Pair) -> None:
        if (rank := rank_of.get(pair)) is not None:
            if rank not in positions_of:
                heapq.heappush(waiting, rank)
            positions_of[rank].append(position)

    merged = -1  # stands where a token has become the right part of another
    while waiting:
        rank = heapq.heappop(waiting)
        for i in sorted(positions_of.pop(rank)):
            j = after[i]
            # Not this pair any more if an earlier merge has taken one of the two.
            if j == size or rank_of.get((ids[i], ids[j])) != rank:
                continue
            ids[i], ids[j] = BYTE_COUNT + rank, merged
            after[i] = k = after[j]
            if k < size:
                before[k] = i
                note(i, (ids[i], ids[k]))
            if (h := before[i]) >= 0:
                note(h, (ids[h], ids[i]))
    return [id for id in ids if id != merged]
