"""Learning merges from piece counts. The rule for ties is here."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from bpetite._vocabulary import BYTE_COUNT, Pair

_EDGE = -1  # between two pieces
_MERGED = -2  # where a token began before it became the right part of another


def learn_merges(
    piece_counts: Mapping[str, int],
    limit: int,
    report: Callable[[int], object] | None = None,
    *,
    ids_of: Callable[[str], Sequence[int]] = str.encode,
    first_id: int = BYTE_COUNT,
    takes: Callable[[int, int], bool] | None = None,
    min_count: int = 1,
) -> list[Pair]:
    """Return at most `limit` merges in rank order; fewer if no pair is left.

    Each step merges the pair with the highest count over all pieces. Ties go to the smallest
    (left id, right id).

    To continue a vocabulary, `ids_of` returns the ids that a piece has in it; by default they are
    the bytes of the piece. The merge of rank r makes the id `first_id` + r. Pairs that `takes`
    refuses, and pairs with a count below `min_count`, are not merged.

    >>> learn_merges({"ab": 1, " ab": 2}, 10)
    [(97, 98), (32, 256)]
    >>> learn_merges({"ab": 1, " ab": 2}, 10, min_count=3)
    [(97, 98)]
    """
    if limit == 0:
        return []
    learner = _Learner(_Corpus(piece_counts, ids_of), takes, min_count)
    del piece_counts  # the corpus holds a copy, so free the caller's counts
    return _learn(limit, report, first_id, learner.best_pair, learner.merge)


def learn_balanced(
    languages: Sequence[tuple[Mapping[str, int], Mapping[str, int]]],
    limit: int,
    report: Callable[[int], object] | None = None,
    *,
    ids_of: Callable[[str], Sequence[int]] = str.encode,
    first_id: int = BYTE_COUNT,
    takes: Callable[[int, int], bool] | None = None,
    min_count: int = 1,
) -> list[Pair]:
    """Return merges as `learn_merges`, chosen for one language at a time.

    Each language has the piece counts of its text and of a development text. Each step takes the
    language whose development text has the most ids, the first of several, and merges its most
    frequent pair in all languages. If it has no pair left, the next language follows.

    >>> learn_balanced([({"ab": 9}, {"a": 1}), ({"cd": 1}, {"cd": 1})], 2)
    [(99, 100), (97, 98)]
    """
    if limit == 0:
        return []
    learners = [_Learner(_Corpus(text, ids_of), takes, min_count) for text, _ in languages]
    developments = [_Corpus(development, ids_of) for _, development in languages]
    del languages

    def best_pair() -> Pair | None:
        by_length = sorted(
            zip(developments, learners, strict=True), key=lambda each: -each[0].id_count
        )
        best_pairs = (learner.best_pair() for _, learner in by_length)
        return next((pair for pair in best_pairs if pair is not None), None)

    def merge(pair: Pair, new_id: int) -> None:
        for learner in learners:
            learner.merge(pair, new_id)
        for development in developments:
            development.merge(pair, new_id)

    return _learn(limit, report, first_id, best_pair, merge)


def _learn(
    limit: int,
    report: Callable[[int], object] | None,
    first_id: int,
    best_pair: Callable[[], Pair | None],
    merge: Callable[[Pair, int], object],
) -> list[Pair]:
    """Merge the best pair again and again; return the merges."""
    if report is not None:
        report(0)
    merges: list[Pair] = []
    while len(merges) < limit and (pair := best_pair()) is not None:
        merge(pair, first_id + len(merges))
        merges.append(pair)
        if report is not None:
            report(len(merges))
    return merges


class _Learner:
    def __init__(
        self, corpus: _Corpus, takes: Callable[[int, int], bool] | None, min_count: int
    ) -> None:
        self._corpus = corpus
        self._takes = takes
        self._min_count = min_count
        # After the merge that creates a pair, the pair's count only falls. So each pair needs one
        # entry in the queue: an entry whose count is too high goes back with the current count.
        self._queue = [(-count, pair) for pair, count in corpus.pair_counts.items()]
        heapq.heapify(self._queue)

    def best_pair(self) -> Pair | None:
        """Take the pair to be merged next off the queue; None if no pair is left."""
        queue, counts = self._queue, self._corpus.pair_counts
        while queue:
            negative_count, pair = heapq.heappop(queue)
            count = counts.get(pair, 0)
            if count < self._min_count:
                continue  # a count never rises again
            if count != -negative_count:
                heapq.heappush(queue, (-count, pair))
            elif self._takes is None or self._takes(*pair):
                return pair
        return None

    def merge(self, pair: Pair, new_id: int) -> None:
        """Replace a pair everywhere, and queue the pairs that this makes."""
        for new_pair in self._corpus.merge(pair, new_id):
            heapq.heappush(self._queue, (-self._corpus.pair_counts[new_pair], new_pair))


class _Corpus:
    """All distinct pieces in one flat list of slots, and the slots where each pair begins.

    An id that merges make of n others has n slots. It is in the first and in the last of them, so
    it leads to both neighbours: the list is its own linked list. A merge visits only the slots of
    its pair, and its cost follows their number.
    """

    def __init__(
        self, piece_counts: Mapping[str, int], ids_of: Callable[[str], Sequence[int]]
    ) -> None:
        self._ids = [_EDGE]
        self._weights = [0]  # of each slot: the count of its piece in the corpus
        for piece, count in piece_counts.items():
            ids = ids_of(piece)
            self._ids += ids
            self._ids.append(_EDGE)
            self._weights += [count] * (len(ids) + 1)
        self._length = dict.fromkeys(self._ids, 1)  # of each id, in slots
        self.id_count = sum(
            weight for id, weight in zip(self._ids, self._weights, strict=True) if id != _EDGE
        )
        """The number of ids of the corpus."""

        self.pair_counts: dict[Pair, int] = defaultdict(int)
        # The slots where each pair begins, in ascending order. Slots that merges changed remain.
        self._slots: dict[Pair, list[int]] = defaultdict(list)
        for slot, pair in enumerate(pairwise(self._ids)):
            if _EDGE not in pair:
                self.pair_counts[pair] += self._weights[slot]
                self._slots[pair].append(slot)

    def merge(self, pair: Pair, new_id: int) -> list[Pair]:
        """Replace `pair` by `new_id`, left to right without overlap; return the new pairs."""
        ids, weights, length = self._ids, self._weights, self._length
        left, right = pair
        # A corpus may lack an id that another one has.
        left_length, right_length = length.get(left, 1), length.get(right, 1)
        length[new_id] = left_length + right_length
        change: dict[Pair, int] = defaultdict(int)
        slots: dict[Pair, list[int]] = defaultdict(list)

        for first in self._slots.pop(pair, ()):
            second = first + left_length
            if ids[first] != left or ids[second] != right:
                continue
            last = second + right_length - 1
            ids[second] = _MERGED
            ids[first] = ids[last] = new_id

            weight = weights[first]
            self.id_count -= weight
            before, after = ids[first - 1], ids[last + 1]
            if before != _EDGE:
                change[before, left] -= weight
                change[before, new_id] += weight
                slots[before, new_id].append(first - length[before])
            if after != _EDGE:
                change[right, after] -= weight
                change[new_id, after] += weight
                slots[new_id, after].append(first)

        # No adjacent ids are `pair` any longer: a run such as "aaa" leaves at most one "a".
        self.pair_counts.pop(pair, None)
        change.pop(pair, None)
        for changed, difference in change.items():
            count = self.pair_counts.pop(changed, 0) + difference
            if count > 0:
                self.pair_counts[changed] = count
            else:
                self._slots.pop(changed, None)
                slots.pop(changed, None)
        self._slots.update(slots)
        return list(slots)
