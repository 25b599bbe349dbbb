"""The trees of a vocabulary's tokens: how often each merge fires in a text, from its ids alone.

A token's bytes merge in every text as they do alone, so each occurrence of an id is one occurrence
of its whole tree. If every merge has parts of lower rank, the tokens of a text without the merges
from rank r on are the trees, cut where a merge of rank r or above made a node.

Example, with the merges ab and abab: the tokens of "ababab" are abab and ab. The merge abab fires
once. The merge ab fires three times, two of them below abab. So the text has 6 tokens with bytes
alone, 3 with one merge, and 2 with both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property
from itertools import accumulate, chain, repeat
from operator import mul, sub

from bpetite import Tokenizer
from bpetite._token_parts import token_parts


class MergeTrees:
    """The trees of all ordinary tokens.

    >>> tokenizer = Tokenizer.train("abab abab ab c", 258)
    >>> MergeTrees(tokenizer).tokens_by_size({256: 2, 257: 1})
    [7, 4, 3]
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        vocabulary = tokenizer._vocabulary
        self.tokens: Mapping[int, bytes] = vocabulary.ordinary_tokens
        self._parts = token_parts(vocabulary)
        merges = zip(vocabulary.merges, vocabulary.merge_ids, strict=True)
        self.made: list[int] = [id for pair, id in merges if self._parts[id] == pair]
        """The ids that merges make, in rank order; merges that no text uses are left out."""
        self.base_size: int = len({*vocabulary.byte_ids})
        """The number of ids without any merge."""
        by_length: defaultdict[int, list[int]] = defaultdict(list)
        for id, token in self.tokens.items():
            by_length[len(token)].append(id)
        groups = (by_length[length] for length in sorted(by_length, reverse=True))
        self.longest_first: list[int] = [*chain.from_iterable(groups)]
        """All ids, by the length of their tokens; of equal lengths the lower id first."""

    @property
    def size(self) -> int:
        """The number of bytes and of merges that texts use."""
        return self.base_size + len(self.made)

    def unmade(self) -> set[int]:
        """Return the ids of longer tokens than a byte that no merge makes."""
        return {*self._parts}.difference(self.made)

    def fires(self, counts: Mapping[int, int]) -> dict[int, int]:
        """Return how often each id occurs in the trees of counted ids, at the top or below."""
        totals = dict(counts)
        for id in self._top_down:
            if total := totals.get(id):
                for part in self._parts[id]:
                    totals[part] = totals.get(part, 0) + total
        return totals

    def tokens_by_size(self, counts: Mapping[int, int]) -> list[int]:
        """Return the numbers of tokens with no merge, with one, and so on.

        The list ends before the first merge whose parts have higher ranks.
        """
        lengths = map(len, map(self.tokens.__getitem__, counts))
        size = sum(map(mul, counts.values(), lengths))
        saved = map(self.fires(counts).get, self.made[: self._nested], repeat(0))
        return [*accumulate(saved, sub, initial=size)]

    @cached_property
    def _top_down(self) -> list[int]:
        """The ids that have parts, each before its parts."""
        if self._nested == len(self._parts):
            # Ranks are mostly in the order of ids, which memory is read fastest in.
            return self.made[::-1]
        # Parts are shorter than their token, whatever the ranks are.
        return [id for id in self.longest_first if id in self._parts]

    @cached_property
    def _nested(self) -> int:
        """How many merges of lowest rank need no token of higher rank."""
        known = {*self.tokens} - {*self._parts}
        for rank, id in enumerate(self.made):
            if not known.issuperset(self._parts[id]):
                return rank
            known.add(id)
        return len(self.made)
