"""The trees of a vocabulary's tokens: the parts of each token, the parts of these, and so on.

A token has the same parts in every text, so each occurrence of an id is one occurrence of its whole
tree. Therefore the ids of a text tell how often each merge fires in it. If every merge has parts of
lower rank, a vocabulary without the merges from rank r on gives the nodes that are left when the
trees are cut at each node that a merge of rank r or above made. Example, with the merges ab and
abab: the tokens of "ababab" are abab and ab. The merge abab fires once. The merge ab fires three
times, two of them below abab. So the text has 6 tokens with bytes alone, 3 with one merge, and 2
with both.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, repeat
from operator import mul, sub

from bpetite._token_parts import token_parts
from bpetite._vocabulary import Vocabulary, lazy_property


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
        """Return the ids of tokens of several bytes that no merge makes."""
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
        """How many of the first merges need only tokens of lower rank."""
        known = {*self._tokens} - {*self._parts}
        for rank, id in enumerate(self._made):
            if not known.issuperset(self._parts[id]):
                return rank
            known.add(id)
        return len(self._made)
