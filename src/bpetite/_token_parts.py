"""The parts of each token: the ids of its bytes just before they become the token.

The bytes of a token merge in every text as they merge alone, since no merge crosses the token's
edges before the token exists. So at most one pair makes a token, however many merges a file lists.
"""

from __future__ import annotations

from collections import defaultdict

from bpetite._encoder import first_ids_of, merge_ids
from bpetite._vocabulary import Pair, Vocabulary


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
    has_characters = vocabulary.stages.byte_fallback
    first_ids = first_ids_of(vocabulary)
    byte_ids = vocabulary.byte_ids
    rank_of = {pair: rank for rank, pair in enumerate(vocabulary.merges)}
    pairs_of: defaultdict[int, list[Pair]] = defaultdict(list)
    for pair, id in zip(vocabulary.merges, vocabulary.merge_ids, strict=True):
        pairs_of[id].append(pair)
    for id in longer.keys() - parts.keys():
        ranks = [rank_of.pop(pair) for pair in pairs_of[id]]
        ids = [byte_ids[byte] for byte in longer[id]]
        if has_characters and [id] != (characters := first_ids(longer[id])):
            ids = characters
        parts[id] = tuple(merge_ids(ids, rank_of, vocabulary.merge_ids))
        rank_of.update(zip(pairs_of[id], ranks, strict=True))
    return parts
