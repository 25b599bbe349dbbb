"""Learn merges from the counts of pieces."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import pairwise

from bpetite._vocabulary import BYTE_COUNT, Pair

_EDGE = -1  # stands between two pieces
_TAKEN = -2  # stands where a token began that is now the right part of another


def learn_merges(
    piece_counts: Mapping[str, int], limit: int, report: Callable[[int], object] | None = None
) -> list[Pair]:
    """Return up to `limit` merges, in rank order; fewer when no pair is left.

    Each step merges the pair with the highest count over all pieces; of equals, the smallest
    (left id, right id). `report`, if given, is called after each step with the number of merges
    so far.

    >>> learn_merges({"ab": 1, " ab": 2}, 10)
    [(97, 98), (32, 256)]
    """
    if limit == 0:
        return []
    corpus = _Corpus(piece_counts)
    del piece_counts  # the corpus has it all; who called may have let go of it too
    if report is not None:
        report(0)
    # A pair's count only falls once the merge that made it is done. So each pair needs one entry
    # in the queue, and an entry that is too high when it comes up goes back with today's count.
    queue = [(-count, pair) for pair, count in corpus.pair_counts.items()]
    heapq.heapify(queue)
    merges: list[Pair] = []
    while queue and len(merges) < limit:
        negative_count, pair = heapq.heappop(queue)
        count = corpus.pair_counts.get(pair, 0)
        if count == 0:
            continue
        if count != -negative_count:
            heapq.heappush(queue, (-count, pair))
            continue
        for new_pair in corpus.merge(pair, BYTE_COUNT + len(merges)):
            heapq.heappush(queue, (-corpus.pair_counts[new_pair], new_pair))
        merges.append(pair)
        if report is not None:
            report(len(merges))
    return merges


class _Corpus:
    """All distinct pieces in one flat list, and where each pair stands in it.

    A token of n bytes takes n places; its id stands in the first and in the last of them, so both
    neighbours of a token can be found from it: the list is its own linked list. A merge touches
    only the places where its pair stands, and its cost follows their number alone.
    """

    def __init__(self, piece_counts: Mapping[str, int]) -> None:
        self._ids = [_EDGE]
        self._weights = [0]  # how often the piece that a place belongs to occurs in the corpus
        self._length = [1] * BYTE_COUNT  # of each id, in bytes
        for piece, count in piece_counts.items():
            data = piece.encode("utf-8")
            self._ids += data
            self._ids.append(_EDGE)
            self._weights += [count] * (len(data) + 1)

        self.pair_counts: dict[Pair, int] = defaultdict(int)
        # Where each pair begins, in ascending order; places that merges have changed stay listed.
        self._places: dict[Pair, list[int]] = defaultdict(list)
        for place, pair in enumerate(pairwise(self._ids)):
            if _EDGE not in pair:
                self.pair_counts[pair] += self._weights[place]
                self._places[pair].append(place)

    def merge(self, pair: Pair, new_id: int) -> list[Pair]:
        """Replace `pair` by `new_id`, left to right without overlap; return the pairs this made."""
        ids, weights, length = self._ids, self._weights, self._length
        left, right = pair
        left_length, right_length = length[left], length[right]
        length.append(left_length + right_length)
        change: dict[Pair, int] = defaultdict(int)
        places: dict[Pair, list[int]] = defaultdict(list)

        for first in self._places.pop(pair):
            second = first + left_length
            if ids[first] != left or ids[second] != right:
                continue
            last = second + right_length - 1
            ids[second] = _TAKEN
            ids[first] = ids[last] = new_id

            weight = weights[first]
            before, behind = ids[first - 1], ids[last + 1]
            if before != _EDGE:
                change[before, left] -= weight
                change[before, new_id] += weight
                places[before, new_id].append(first - length[before])
            if behind != _EDGE:
                change[right, behind] -= weight
                change[new_id, behind] += weight
                places[new_id, behind].append(first)

        # No two neighbours are `pair` now: of a run such as "aaa", one "a" is left over at most.
        del self.pair_counts[pair]
        change.pop(pair, None)
        for changed, difference in change.items():
            count = self.pair_counts.pop(changed, 0) + difference
            if count > 0:
                self.pair_counts[changed] = count
            else:
                self._places.pop(changed, None)
                places.pop(changed, None)
        self._places.update(places)
        return list(places)
