"""The training of a small vocabulary, step by step, as the page plays it."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import pairwise
from typing import Any

from bpetite import Tokenizer
from bpetite.analysis import explain

MAX_TRAINING_BYTES = 1000
"""The longest text to learn from, in bytes of UTF-8."""

MAX_STEPS = 100

_MAX_PAIRS = 9  # of each step's table
_BYTES = Tokenizer.train("", 256)


def training_steps(text: str) -> dict[str, Any]:
    """Return the pieces of a text with their counts, and the states before and after each merge.

    A state has the ids of each piece, the number of pairs, of ties with the winner, and of tokens,
    and the pairs with the highest counts, winner first. The winner of state r makes id 256 + r.

    >>> found = training_steps("ab ab")
    >>> found["counts"], found["states"][0]["ids"], found["states"][0]["pairs"]
    ([1, 1], [[97, 98], [32, 97, 98]], [[97, 98, 2], [32, 97, 1]])
    >>> found["tokens"]
    {256: '61 62', 257: '20 61 62'}
    """
    counts = Counter(piece.text for piece in explain(_BYTES, text, allowed_special=()))
    ids = [list(piece.encode("utf-8")) for piece in counts]
    tokens = {byte: bytes([byte]) for byte in range(256)}
    states: list[dict[str, Any]] = []
    while True:
        pairs: Counter[tuple[int, int]] = Counter()
        for piece, count in zip(ids, counts.values(), strict=True):
            for pair in pairwise(piece):
                pairs[pair] += count
        order = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
        states.append(
            {
                "ids": ids,
                "tokens": sum(
                    len(each) * count for each, count in zip(ids, counts.values(), strict=True)
                ),
                "pairs": [[*pair, count] for pair, count in order[:_MAX_PAIRS]],
                "all_pairs": len(order),
                "ties": sum(count == order[0][1] for _, count in order) - 1 if order else 0,
            }
        )
        if not order or len(states) > MAX_STEPS:
            break
        winner, new_id = order[0][0], 256 + len(states) - 1
        tokens[new_id] = tokens[winner[0]] + tokens[winner[1]]
        ids = [_replaced(piece, winner, new_id) for piece in ids]
    return {
        "counts": list(counts.values()),
        "states": states,
        "tokens": {id: token.hex(" ").upper() for id, token in tokens.items() if id >= 256},
    }


@lru_cache(maxsize=8)
def learnt(text: str, merges: int) -> Tokenizer:
    """Return the tokenizer that has learnt at most `merges` merges from a text.

    >>> learnt("ab ab", 1).merges
    ((97, 98),)
    """
    return Tokenizer.train(text, 256 + merges)


def _replaced(ids: list[int], pair: tuple[int, int], new_id: int) -> list[int]:
    result: list[int] = []
    for id in ids:
        if result and (result[-1], id) == pair:
            result[-1] = new_id
        else:
            result.append(id)
    return result
