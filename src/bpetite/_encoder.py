"""Turn pieces of text into ids, lowest merge rank first."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from bpetite._vocabulary import Pair, Vocabulary

# A longer piece (in characters) is merged anew each time: it is unlikely to come again.
_CACHED_LENGTH = 128

# The cache starts over when its pieces and their ids come to this: 200,000 words of two ids, some
# 40 MB, or fewer of more ids. The words of a text repeat so much that those which matter are back
# in it at once.
_CACHE_SIZE = 2_000_000
_PIECE_SIZE = 8  # of a piece, beside the number of its ids

# Up to so many bytes a piece is merged in place, where each merge looks at the whole piece again;
# above, with a heap, which costs more for each merge but is never quadratic.
_SHORT = 64

_NO_RANK = 1 << 62


class DoubtfulPieceError(Exception):
    """A piece that may have been cut at the wrong place, so that all must be cut anew."""


class Encoder:
    """Turn pieces into ids by the ranks of merges; safe to share between threads.

    `merge`, if given, does what a vocabulary's merges do to the bytes of one piece.

    >>> vocabulary = Vocabulary(((97, 98), (32, 256)), {}, "...")
    >>> encoder, ids = Encoder(vocabulary, lambda piece: False), []
    >>> encoder.extend(ids, ["ab", " ab", "a"])
    >>> ids
    [256, 257, 97]
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        doubtful: Callable[[str], bool],
        merge: Callable[[bytes], Sequence[int]] | None = None,
    ) -> None:
        self._ids_of = _PieceCache(merge or _PieceMerger(vocabulary).merge, doubtful)

    def extend(self, ids: list[int], pieces: Iterable[str]) -> None:
        """Append the ids of each piece to `ids`.

        Raises UnicodeEncodeError, with its position in the piece, for a lone surrogate, and
        DoubtfulPieceError for a piece that is doubtful; some ids may have been appended by then.
        """
        ids_of = self._ids_of
        for piece in pieces:
            ids += ids_of[piece]

    def extend_without_doubt(self, ids: list[int], pieces: Iterable[str]) -> None:
        """Append the ids of each piece to `ids`, even if a piece is doubtful."""
        for piece in pieces:
            ids += self._ids_of.find(piece)

    def count(self, pieces: Iterable[str]) -> int:
        """Return how many ids the pieces have in all. Raises as `extend` does."""
        return sum(map(len, map(self._ids_of.__getitem__, pieces)))


class _PieceCache(dict[str, Sequence[int]]):
    """The ids of each piece, found when they are first asked for. A bounded dict.

    No doubtful piece is ever in it. So what is in it costs no doubt: only a new piece does.
    """

    def __init__(
        self, merge: Callable[[bytes], Sequence[int]], doubtful: Callable[[str], bool]
    ) -> None:
        super().__init__()
        self._merge = merge
        self._doubtful = doubtful
        self._size = 0

    def __missing__(self, piece: str) -> Sequence[int]:
        if self._doubtful(piece):
            raise DoubtfulPieceError(piece)
        ids = self.find(piece)
        if len(piece) <= _CACHED_LENGTH:
            if self._size >= _CACHE_SIZE:
                self._size = 0
                self.clear()
            self._size += _PIECE_SIZE + len(ids)
            self[piece] = ids
        return ids

    def find(self, piece: str) -> Sequence[int]:
        """Return the ids of a piece."""
        return tuple(self._merge(piece.encode("utf-8")))


class _PieceMerger:
    """Merge the bytes of one piece by the rules of a vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._byte_ids = vocabulary.byte_ids
        self._merge_ids = vocabulary.merge_ids
        self._rank_of = {pair: rank for rank, pair in enumerate(vocabulary.merges)}
        self._whole_pieces: dict[bytes, int] = {}
        if vocabulary.ignore_merges:
            self._whole_pieces = {token: id for id, token in vocabulary.ordinary_tokens.items()}

    def merge(self, piece: bytes) -> Sequence[int]:
        """Return the ids of a piece."""
        if (id := self._whole_pieces.get(piece)) is not None:
            return (id,)
        ids = list(map(self._byte_ids.__getitem__, piece))
        return merge_ids(ids, self._rank_of, self._merge_ids)


def merge_ids(ids: list[int], rank_of: Mapping[Pair, int], merged: Sequence[int]) -> list[int]:
    """Return what the merges make of the ids of one piece's bytes.

    For each rank that is present, lowest first, one full pass from left to right replaces what
    does not overlap; `merged` has the id for each rank. That is the same as merging the leftmost
    pair of the lowest rank that is present, again and again, since in a vocabulary that was
    trained a merge makes an id which only later ranks use; in one where it is not so, the latter
    is what counts. `ids` may be changed.

    >>> merge_ids(list(b"aaab"), {(97, 97): 0, (256, 97): 1}, [256, 257])
    [257, 98]
    """
    merge = _merge_in_place if len(ids) <= _SHORT else _merge_with_heap
    return merge(ids, rank_of, merged)


def _merge_in_place(
    ids: list[int], rank_of: Mapping[Pair, int], merged: Sequence[int]
) -> list[int]:
    """Merge by looking for the lowest rank in a list of ranks: quadratic, but in fast steps."""
    get_rank = rank_of.get
    # ranks[i] is the rank of the pair that begins at ids[i].
    ranks = [get_rank(pair, _NO_RANK) for pair in pairwise(ids)]
    while ranks:
        rank = min(ranks)
        if rank == _NO_RANK:
            break
        i = ranks.index(rank)
        ids[i] = merged[rank]
        del ids[i + 1], ranks[i]
        if i > 0:
            ranks[i - 1] = get_rank((ids[i - 1], ids[i]), _NO_RANK)
        if i < len(ranks):
            ranks[i] = get_rank((ids[i], ids[i + 1]), _NO_RANK)
    return ids


def _merge_with_heap(
    ids: list[int], rank_of: Mapping[Pair, int], merged: Sequence[int]
) -> list[int]:
    """Merge by a heap of ranks and positions: O(n log n), whatever the piece.

    Each of the n - 1 merges at the most adds two entries. One that is not so any more when it
    comes up, since another merge has taken a part of its pair, is passed over.
    """
    size = len(ids)
    after = list(range(1, size + 1))  # after[i]: where the token behind the one at i begins
    before = list(range(-1, size - 1))
    # An entry is rank * size + position: one int, which compares faster than a pair.
    heap = [
        rank * size + i
        for i, pair in enumerate(pairwise(ids))
        if (rank := rank_of.get(pair)) is not None
    ]
    heapq.heapify(heap)
    taken = -1  # stands where a token has become the right part of another
    while heap:
        rank, i = divmod(heapq.heappop(heap), size)
        j = after[i]
        if j == size or rank_of.get((ids[i], ids[j])) != rank:
            continue
        ids[i], ids[j] = merged[rank], taken
        after[i] = k = after[j]
        if k < size:
            before[k] = i
            if (rank_behind := rank_of.get((ids[i], ids[k]))) is not None:
                heapq.heappush(heap, rank_behind * size + i)
        if (h := before[i]) >= 0 and (rank_before := rank_of.get((ids[h], ids[i]))) is not None:
            heapq.heappush(heap, rank_before * size + h)
    return [id for id in ids if id != taken]
