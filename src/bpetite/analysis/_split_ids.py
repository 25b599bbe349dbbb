"""Alternative ids of the same text, for training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from numbers import Real
from random import Random

from bpetite import Tokenizer
from bpetite._arguments import check_at_least, ids_of
from bpetite._tokenizer import vocabulary_of
from bpetite._vocabulary import Pair


def split_ids(tokenizer: Tokenizer, ids: Iterable[int], share: float, *, seed: int) -> list[int]:
    """Return other ids of the same text: a share of the tokens is split into their parts.

    Each id that a merge makes is replaced by its two parts with the probability `share`, and so
    are the parts. A model that is trained on such ids sees the letters of its tokens, as in
    StochasTok (arXiv:2506.01687). Equal arguments give equal ids in every version of Python.

    >>> tokenizer = Tokenizer.train("ab ab ab", 258)
    >>> split_ids(tokenizer, [257, 257, 257], 0.5, seed=1)
    [32, 256, 257, 32, 97, 98]
    >>> split_ids(tokenizer, [257, 258], 1, seed=1)
    [32, 97, 98, 258]

    Raises KeyError and TypeError for ids as `Tokenizer.decode` does, ValueError for a `share` that
    is not from 0 to 1 or a `seed` below 0, and TypeError for a `seed` that is not an integer.
    """
    if isinstance(share, bool) or not isinstance(share, Real):
        raise TypeError(f"share must be a number, got {type(share).__name__}")
    if not 0 <= float(share) <= 1:
        raise ValueError(f"share must be from 0 to 1, got {share}")
    number = check_at_least(0, seed, "seed")  # `Random` would drop the sign
    plain = ids_of(ids)
    tokenizer.decode_bytes(plain)  # knows the ids
    return [*_split(plain, _parts(tokenizer), share, Random(number).random)]


@lru_cache(maxsize=4)  # callers have many documents
def _parts(tokenizer: Tokenizer) -> dict[int, Pair]:
    """Return the parts of each id that a merge makes. If several make it, the first counts."""
    vocabulary = vocabulary_of(tokenizer)
    return dict(reversed([*zip(vocabulary.merge_ids, vocabulary.merges, strict=True)]))


def _split(
    ids: Iterable[int], parts: dict[int, Pair], share: float, random: Callable[[], float]
) -> Iterator[int]:
    for id in ids:
        waiting = [id]
        while waiting:
            part = waiting.pop()
            if part in parts and random() < share:
                left, right = parts[part]
                waiting += right, left
            else:
                yield part
