"""The trees of a vocabulary's tokens: the parts of each token, the parts of these, and so on.

A token's parts are what its bytes are just before they become the token. Its bytes merge in every
text as they merge alone: no merge crosses the token's edges before the token exists. So one pair at
most makes a token, however many merges a file lists for it, and each occurrence of an id in a text
is one occurrence of its whole tree.

Therefore ids alone tell how often each merge fires in a text. If every merge has parts of lower
rank, the tokens of the text without the merges from rank r on are the trees, cut where a merge of
rank r or above made a node. Example, with the merges ab and abab: the tokens of "ababab" are abab
and ab. The merge abab fires once. The merge ab fires three times, two of them below abab. So the
text has 6 tokens with bytes alone, 3 with one merge, and 2 with both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import accumulate, repeat
from operator import mul, sub

from bpetite._encoder import merge_ids
from bpetite._vocabulary import Pair, Vocabulary, lazy_property


def token_parts(vocabulary: Vocabulary) -> dict[int, tuple[int, ...]]:
    """Return the parts of each ordinary token that is longer than a byte.

    They are two ids, if a merge makes the token: the pair of that merge. Otherwise they are the ids
    that its bytes merge into.

    >>> token_parts(Vocabulary(((97, 98), (32, 256)), {}, "..."))
    {256: (97, 98), 257: (32, 256)}
    """
    parts: dict[int, tuple[int, ...]] = {}
    if not vocabulary.ignore_merges and len({*vocabulary.merge_ids}) == len(vocabulary.merges):
        parts |= zip(vocabulary.merge_ids, vocabulary.merges, strict=True)
    tokens = vocabulary.ordinary_tokens
    if len(parts) == sum(map((1).__lt__, map(len, tokens.values()))):
        return parts
    longer = {id: token for id, token in tokens.items() if len(token) > 1}
    byte_ids = vocabulary.byte_ids
    rank_of = {pair: rank for rank, pair in enumerate(vocabulary.merges)}
    pairs_of: defaultdict[int, list[Pair]] = defaultdict(list)
    for pair, id in zip(vocabulary.merges, vocabulary.merge_ids, strict=True):
        pairs_of[id].append(pair)
    for id in longer.keys() - parts.keys():
        ranks = [rank_of.pop(pair) for pair in pairs_of[id]]
        ids = [byte_ids[byte] for byte in longer[id]]
        parts[id] = tuple(merge_ids(ids, rank_of, vocabulary.merge_ids))
        rank_of.update(zip(pairs_of[id], ranks, strict=True))
    return parts


class MergeTrees:
    """The trees of all ordinary tokens.

    >>> trees = MergeTrees(Vocabulary(((97, 98), (256, 256)), {}, "..."))
    >>> trees.tokens_by_size({256: 1, 257: 1})
    [6, 3, 2]
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._tokens = vocabulary.ordinary_tokens
        self._parts = token_parts(vocabulary)
        merges = zip(vocabulary.merges, vocabulary.merge_ids, strict=True)
        # The ids that merges make, in rank order. Merges that no text uses are left out.
        self._made = [id for pair, id in merges if self._parts[id] == pair]

    @property
    def merge_count(self) -> int:
        """The number of merges that texts use."""
        return len(self._made)

    def unmade(self) -> set[int]:
        """Return the ids of longer tokens than a byte that no merge makes."""
        return {*self._parts}.difference(self._made)

    def tokens_by_size(self, counts: Mapping[int, int]) -> list[int]:
        """Return the numbers of tokens with no merge, with one, and so on.

        `counts` has how often each id occurs in a text. The list ends before the first merge whose
        parts have higher ranks.
        """
        lengths = map(len, map(self._tokens.__getitem__, counts))
        size = sum(map(mul, counts.values(), lengths))
        saved = map(self._fires(counts).get, self._made[: self._nested], repeat(0))
        return [*accumulate(saved, sub, initial=size)]

    def _fires(self, counts: Mapping[int, int]) -> dict[int, int]:
        """Return how often each id occurs in the trees of counted ids, at the top or below."""
        totals = dict(counts)
        for id in self._top_down:
            if total := totals.get(id):
                for part in self._parts[id]:
                    totals[part] = totals.get(part, 0) + total
        return totals

    @lazy_property
    def _top_down(self) -> list[int]:
        """The ids that have parts, each before its parts."""
        if self._nested == len(self._parts):
            # Ranks are mostly in the order of ids, and memory is read fastest in that order.
            return self._made[::-1]
        # Parts are shorter than their token, whatever the ranks are.
        return sorted(self._parts, key=lambda id: len(self._tokens[id]), reverse=True)

    @lazy_property
    def _nested(self) -> int:
        """How many merges of lowest rank need no token of higher rank."""
        known = {*self._tokens} - {*self._parts}
        for rank, id in enumerate(self._made):
            if not known.issuperset(self._parts[id]):
                return rank
            known.add(id)
        return len(self._made)
