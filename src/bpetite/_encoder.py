"""Pieces of text in, ids out: the pair with the lowest merge rank first."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, pairwise

from bpetite._vocabulary import Pair, Vocabulary

# Longer pieces are not cached, since they are unlikely to occur again.
_MAX_CACHED_CHARACTERS = 128

# The cache is cleared at this many units: 200,000 words of two ids (some 40 MB), or fewer of more
# ids. Words repeat so often that the frequent ones soon are in the cache again.
_MAX_CACHE_UNITS = 2_000_000
_UNITS_PER_PIECE = 8  # in addition to one unit for each id

# Shorter pieces are merged in place: each merge searches the whole piece. Longer pieces take a
# heap, which costs more for each merge but is never quadratic.
_MAX_IN_PLACE_BYTES = 64

_NO_RANK = 1 << 62


class ResplitError(Exception):
    """A piece may end at the wrong position, so its whole text has to be split again."""


class Encoder(dict[str, Sequence[int]]):
    """The ids of each piece, by the ranks of merges; safe to share between threads.

    The first look-up of a piece finds its ids, and a bounded cache keeps them. Only a new piece is
    checked: pieces that need a resplit are never in the cache. `merge`, if given, replaces this
    module's way from the bytes of one piece to its ids.

    >>> encoder = Encoder(Vocabulary(((97, 98), (32, 256)), {}, "..."), lambda piece: False)
    >>> encoder["ab"], encoder[" ab"], encoder["a"]
    ((256,), (257,), (97,))

    A look-up raises UnicodeEncodeError, with its position in the piece, for a lone surrogate, and
    ResplitError for a piece that needs it.
    """

    errors = "strict"
    """How surrogates are encoded."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        needs_resplit: Callable[[str], bool],
        merge: Callable[[bytes], Sequence[int]] | None = None,
    ) -> None:
        super().__init__()
        self.merge = merge or merger_of(vocabulary)
        self._needs_resplit = needs_resplit
        self._units = 0

    def __missing__(self, piece: str) -> Sequence[int]:
        if self._needs_resplit(piece):
            raise ResplitError(piece)
        ids = self.find(piece)
        if len(piece) <= _MAX_CACHED_CHARACTERS:
            if self._units >= _MAX_CACHE_UNITS:
                self._units = 0
                self.clear()
            self._units += _UNITS_PER_PIECE + len(ids)
            self[piece] = ids
        return ids

    def find(self, piece: str) -> Sequence[int]:
        """Return the ids of a piece without a check, and do not cache them."""
        return tuple(self.merge(piece.encode("utf-8", self.errors)))


def merger_of(vocabulary: Vocabulary) -> Callable[[bytes], Sequence[int]]:
    """Return the way from the bytes of one piece to its ids, by the rules of a vocabulary."""
    first_ids, merged = first_ids_of(vocabulary), vocabulary.merge_ids
    rank_of = {pair: rank for rank, pair in enumerate(vocabulary.merges)}
    made_of: dict[Pair, int] | None = None
    if vocabulary.stages.tied:
        made_of = dict(zip(vocabulary.merges, vocabulary.merge_ids, strict=True))
        for number in vocabulary.stages.tied:
            rank_of[vocabulary.merges[number]] = rank_of[vocabulary.merges[number - 1]]
    whole_pieces: dict[bytes, int] = {}
    if vocabulary.ignore_merges:
        whole_pieces = {token: id for id, token in vocabulary.ordinary_tokens.items()}

    dropped = vocabulary.absent_bytes if vocabulary.stages.drops_unknown else b""

    def merge(piece: bytes) -> Sequence[int]:
        if (id := whole_pieces.get(piece)) is not None:
            return (id,)
        if dropped:
            piece = piece.translate(None, dropped)
        return merge_ids(first_ids(piece), rank_of, merged, made_of)

    return merge


def first_ids_of(vocabulary: Vocabulary) -> Callable[[bytes], list[int]]:
    """Return the way from the bytes of one piece to the ids that merges begin with."""
    stages, byte_ids = vocabulary.stages, vocabulary.byte_ids
    if not stages.has_words and not stages.byte_fallback:
        return lambda piece: list(map(byte_ids.__getitem__, piece))
    id_of = {token: id for id, token in vocabulary.ordinary_tokens.items()}
    if stages.byte_fallback:
        characters = _CharacterIds(id_of, byte_ids)
        return lambda piece: [
            *chain.from_iterable(
                map(characters.__getitem__, piece.decode("utf-8", "surrogateescape"))
            )
        ]
    # By whether the byte is the first of a piece, and the last.
    ids_of = {
        (is_first, is_last): [
            id_of.get(stages.prefix * (not is_first) + bytes([byte]) + stages.suffix * is_last)
            for byte in range(256)
        ]
        for is_first in (False, True)
        for is_last in (False, True)
    }

    def first_ids(piece: bytes) -> list[int]:
        ids: list[int] = []
        last = len(piece) - 1
        was_unknown = False
        for place, byte in enumerate(piece):
            id = ids_of[place == 0, place == last][byte]
            if id is not None:
                ids.append(id)
            elif stages.unknown_id is not None and not (was_unknown and stages.fuses_unknown):
                ids.append(stages.unknown_id)
            was_unknown = id is None
        return ids

    return first_ids


class _CharacterIds(dict[str, tuple[int, ...]]):
    """The ids of each character: its token, or those of its bytes."""

    def __init__(self, id_of: Mapping[bytes, int], byte_ids: Sequence[int]) -> None:
        self._id_of = id_of
        self._byte_ids = byte_ids

    def __missing__(self, character: str) -> tuple[int, ...]:
        token = character.encode("utf-8", "surrogateescape")
        id = self._id_of.get(token)
        ids = tuple(map(self._byte_ids.__getitem__, token)) if id is None else (id,)
        return self.setdefault(character, ids)


def merge_ids(
    ids: list[int],
    rank_of: Mapping[Pair, int],
    merged: Sequence[int],
    made_of: Mapping[Pair, int] | None = None,
) -> list[int]:
    """Return the ids that merges make of the ids of one piece's bytes.

    Again and again, the leftmost pair of the lowest present rank becomes the id that `merged` has
    for this rank. With a trained vocabulary, one full pass for each rank gives the same ids,
    because only later ranks use the id that a merge makes. `ids` may be changed. If `made_of` is
    given, pairs may share a rank, and it has the id that each pair becomes.

    >>> merge_ids(list(b"aaab"), {(97, 97): 0, (256, 97): 1}, [256, 257])
    [257, 98]
    """
    merge = _merge_in_place if len(ids) <= _MAX_IN_PLACE_BYTES else _merge_with_heap
    return merge(ids, rank_of, merged, made_of)


def _merge_in_place(
    ids: list[int],
    rank_of: Mapping[Pair, int],
    merged: Sequence[int],
    made_of: Mapping[Pair, int] | None = None,
) -> list[int]:
    """Merge by searching a list of ranks for the lowest: quadratic, but in fast steps."""
    get_rank = rank_of.get
    ranks = [get_rank(pair, _NO_RANK) for pair in pairwise(ids)]  # of the pair at each position
    while ranks:
        rank = min(ranks)
        if rank == _NO_RANK:
            break
        i = ranks.index(rank)
        ids[i] = merged[rank] if made_of is None else made_of[ids[i], ids[i + 1]]
        del ids[i + 1], ranks[i]
        if i > 0:
            ranks[i - 1] = get_rank((ids[i - 1], ids[i]), _NO_RANK)
        if i < len(ranks):
            ranks[i] = get_rank((ids[i], ids[i + 1]), _NO_RANK)
    return ids


def _merge_with_heap(
    ids: list[int],
    rank_of: Mapping[Pair, int],
    merged: Sequence[int],
    made_of: Mapping[Pair, int] | None = None,
) -> list[int]:
    """Merge by a heap of ranks and positions: O(n log n) for every piece of n bytes.

    There are at most n - 1 merges, and each adds at most two entries. An entry is stale, and is
    skipped, if another merge has taken a part of its pair.
    """
    size = len(ids)
    after = list(range(1, size + 1))  # after[i]: the position of the token after the one at i
    before = list(range(-1, size - 1))
    # An entry is rank * size + position: one int, which compares faster than a pair.
    heap = [
        rank * size + i
        for i, pair in enumerate(pairwise(ids))
        if (rank := rank_of.get(pair)) is not None
    ]
    heapq.heapify(heap)
    merged_away = -1  # the id at a position that has become a part of the token before it
    while heap:
        rank, i = divmod(heapq.heappop(heap), size)
        j = after[i]
        if j == size or rank_of.get((ids[i], ids[j])) != rank:
            continue
        ids[i] = merged[rank] if made_of is None else made_of[ids[i], ids[j]]
        ids[j] = merged_away
        after[i] = k = after[j]
        if k < size:
            before[k] = i
            if (rank_after := rank_of.get((ids[i], ids[k]))) is not None:
                heapq.heappush(heap, rank_after * size + i)
        if (h := before[i]) >= 0 and (rank_before := rank_of.get((ids[h], ids[i]))) is not None:
            heapq.heappush(heap, rank_before * size + h)
    return [id for id in ids if id != merged_away]
