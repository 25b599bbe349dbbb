"""Byte-level BPE as a textbook has it: slow, and plain enough to be right at a glance.

The package is held against this. Nobody optimises it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import regex

Pair = tuple[int, int]

PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

NONE: Mapping[str, int] = {}


def cut(text: str) -> list[str]:
    """Return the pieces of a text."""
    return regex.findall(PATTERN, text)


def replaced(ids: Sequence[int], pair: Pair, new_id: int) -> list[int]:
    """Return `ids` with each `pair` replaced, from left to right and without overlap.

    >>> replaced([7, 7, 7, 8], (7, 7), 300)
    [300, 7, 8]
    """
    result = []
    position = 0
    while position < len(ids):
        if tuple(ids[position : position + 2]) == pair:
            result.append(new_id)
            position += 2
        else:
            result.append(ids[position])
            position += 1
    return result


def train(documents: Iterable[str], vocab_size: int) -> tuple[Pair, ...]:
    """Return the merges that are learnt, counting every pair anew at each step."""
    pieces = [list(piece.encode()) for document in documents for piece in cut(document)]
    merges: list[Pair] = []
    while 256 + len(merges) < vocab_size:
        counts = Counter(pair for ids in pieces for pair in pairwise(ids))
        if not counts:
            break
        highest = max(counts.values())
        best = min(pair for pair in counts if counts[pair] == highest)
        pieces = [replaced(ids, best, 256 + len(merges)) for ids in pieces]
        merges.append(best)
    return tuple(merges)


def encode(
    text: str, merges: Sequence[Pair], special_tokens: Mapping[str, int] = NONE
) -> list[int]:
    """Return the ids of a text, the leftmost special literal (of those, the longest) first cut."""
    found = [(text.find(x), -len(x), x) for x in special_tokens if x in text]
    if not found:
        return [id for piece in cut(text) for id in encode_piece(piece, merges)]
    start, _, literal = min(found)
    before, behind = text[:start], text[start + len(literal) :]
    return [
        *encode(before, merges),
        special_tokens[literal],
        *encode(behind, merges, special_tokens),
    ]


def encode_piece(piece: str, merges: Sequence[Pair]) -> list[int]:
    """Return the ids of one piece: a full pass for each rank, lowest first."""
    ids = list(piece.encode())
    for rank, pair in enumerate(merges):
        ids = replaced(ids, pair, 256 + rank)
    return ids


def merged(ids: Sequence[int], merges: Sequence[Pair], merge_ids: Sequence[int]) -> list[int]:
    """Return what merges in any order make of ids: of the lowest rank the leftmost, over and over.

    >>> merged([1, 2, 3], [(7, 3), (1, 2)], [9, 7])
    [9]
    """
    result = list(ids)
    while present := set(merges) & {*pairwise(result)}:
        rank = min(map(merges.index, present))
        place = list(pairwise(result)).index(merges[rank])
        result[place : place + 2] = [merge_ids[rank]]
    return result


def decode(ids: Iterable[int], merges: Sequence[Pair], special_tokens: Mapping[str, int]) -> str:
    """Return the text of ids."""
    token_of = {byte: bytes([byte]) for byte in range(256)}
    for rank, (left, right) in enumerate(merges):
        token_of[256 + rank] = token_of[left] + token_of[right]
    token_of |= {id: literal.encode() for literal, id in special_tokens.items()}
    return b"".join(token_of[id] for id in ids).decode()
