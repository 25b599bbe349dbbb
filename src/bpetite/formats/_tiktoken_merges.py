"""The merge that makes each token of tiktoken's ranks.

tiktoken may join any two neighbours whose bytes are a token, and yet only one pair can make a given
token: as long as nothing is joined across the edges of its bytes, they merge in every text as they
merge alone, so the same two tokens remain before the last step. That pair is the token's merge.

The bytes of some tokens never merge into the token, so no merge makes it. A piece with these bytes
still becomes the token, because tiktoken looks up a whole piece before it joins anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bpetite._encoder import merge_ids
from bpetite._vocabulary import BYTE_COUNT, Pair

# The splits of a token up to this length are tried one by one, before its bytes are merged.
_MAX_TRIED_BYTES = 128


def find_merges(tokens: Mapping[int, bytes]) -> list[Pair]:
    """Return the pairs of ids that make tokens; `tokens` and the pairs are in order of ranks.

    Inside this module tokens have indexes in that order instead of ids: bytes first, no gaps.
    """
    in_order = [bytes([byte]) for byte in range(BYTE_COUNT)]
    in_order += [token for token in tokens.values() if len(token) > 1]
    id_of = {token: id for id, token in tokens.items()}
    ids = [id_of[token] for token in in_order]
    return [(ids[left], ids[right]) for left, right in _Pairs(in_order).find()]


class _Pairs:
    """Finds the pair that makes each token, one token after the other. A byte is its own index."""

    def __init__(self, tokens: Sequence[bytes]) -> None:
        self._tokens = tokens
        # The index of the token that each pair makes, for all pairs found so far.
        self._made: dict[Pair, int] = {}
        # The tokens that are made from tokens of lower indexes alone, and the left and the right
        # token of each. A byte counts as its own left and right. All other tokens do too, although
        # nothing reads theirs.
        self._plain = {token: byte for byte, token in enumerate(tokens[:BYTE_COUNT])}
        self._left_part = list(range(len(tokens)))
        self._right_part = list(range(len(tokens)))

    def find(self) -> list[Pair]:
        index_of = {token: index for index, token in enumerate(self._tokens)}
        same = range(len(self._tokens))  # in `merge_ids` a rank here is the index that it makes
        for index, token in enumerate(self._tokens[BYTE_COUNT:], BYTE_COUNT):
            pair = self._plain_pair(token) if len(token) <= _MAX_TRIED_BYTES else None
            if pair is None:
                del index_of[token]
                parts = merge_ids(list(token), _AnyPair(self._tokens, index_of), same)
                index_of[token] = index
                if len(parts) != 2:
                    continue
                pair = parts[0], parts[1]
            self._made[pair] = index
            left, right = pair
            if self._tokens[left] in self._plain and self._tokens[right] in self._plain:
                self._plain[token] = index
                self._left_part[index], self._right_part[index] = pair
        return list(self._made)

    def _plain_pair(self, token: bytes) -> Pair | None:
        get = self._plain.get
        for i in range(len(token) - 1, 0, -1):
            if (
                (left := get(token[:i])) is not None
                and (right := get(token[i:])) is not None
                and self._meet(left, right)
            ):
                return left, right
        return None

    def _meet(self, left: int, right: int) -> bool:
        """Return whether the bytes of two tokens, side by side, merge into these two tokens.

        They do, unless a right end of the left token and a left end of the right one are joined
        first. The loop goes backwards in time and takes apart the token that was made last. The
        half of it that now touches the other token must not be joined with that one earlier.
        """
        get = self._made.get
        limit = len(self._tokens)
        while get((left, right), limit) >= limit:
            if max(left, right) < BYTE_COUNT:
                return True
            if left > right:
                limit, left = left, self._right_part[left]
            else:  # of two equal tokens, the left one was made first
                limit, right = right + 1, self._left_part[right]
        return False


class _AnyPair(dict[Pair, int]):
    """A mapping for `merge_ids`: from a pair of tokens to the token of their joined bytes."""

    def __init__(self, tokens: Sequence[bytes], index_of: Mapping[bytes, int]) -> None:
        super().__init__()
        self._tokens = tokens
        self._index_of = index_of

    def get(self, pair: Pair, default: Any = None) -> Any:
        left, right = pair
        if left < 0:  # a token that was merged away
            return default
        return self._index_of.get(self._tokens[left] + self._tokens[right], default)
