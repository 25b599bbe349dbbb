"""The textbook version of byte-level BPE and of streams: slow, and simple enough to be right.

Tests compare the package with it. It is never optimised.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import regex

Pair = tuple[int, int]

PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

NONE: Mapping[str, int] = {}


def split(text: str) -> list[str]:
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


def train(
    documents: Iterable[str],
    vocab_size: int,
    base: Sequence[Pair] = (),
    *,
    split_text: Callable[[str], Iterable[str]] | None = None,
    min_count: int = 1,
    allows: Callable[[bytes], object] = bool,
) -> tuple[Pair, ...]:
    """Return the merges in rank order, with all pairs counted again at each step.

    The merges of `base` come first. `allows` says of bytes whether a merge may make them.
    """
    merges = [*base]
    split_text = split_text or split
    pieces = [encode_piece(piece, base) for text in documents for piece in split_text(text)]
    while 256 + len(merges) < vocab_size:
        counts = Counter(pair for ids in pieces for pair in pairwise(ids))
        bytes_of = tokens(merges)
        known = {*bytes_of.values()} if base else ()
        allowed = {
            pair: count
            for pair, count in counts.items()
            if count >= min_count
            and (token := bytes_of[pair[0]] + bytes_of[pair[1]]) not in known
            and allows(token)
        }
        if not allowed:
            break
        highest = max(allowed.values())
        best = min(pair for pair in allowed if allowed[pair] == highest)
        pieces = [replaced(ids, best, 256 + len(merges)) for ids in pieces]
        merges.append(best)
    return tuple(merges)


def train_balanced(
    languages: Sequence[tuple[str, str]], vocab_size: int, base: Sequence[Pair] = ()
) -> tuple[Pair, ...]:
    """Return merges, each for the language whose development text has the most ids.

    A language is its text and its development text.
    """
    merges = [*base]
    texts, developments = (
        [[encode_piece(piece, base) for piece in split(text)] for text in side]
        for side in zip(*languages, strict=True)
    )
    while 256 + len(merges) < vocab_size:
        counts = [Counter(pair for ids in text for pair in pairwise(ids)) for text in texts]
        lengths = [sum(map(len, development)) for development in developments]
        turns = [turn for turn in range(len(languages)) if counts[turn]]
        if not turns:
            break
        turn = max(turns, key=lambda turn: (lengths[turn], -turn))
        highest = max(counts[turn].values())
        best = min(pair for pair in counts[turn] if counts[turn][pair] == highest)
        for side in (texts, developments):
            side[:] = [[replaced(ids, best, 256 + len(merges)) for ids in text] for text in side]
        merges.append(best)
    return tuple(merges)


def encode(
    text: str, merges: Sequence[Pair], special_tokens: Mapping[str, int] = NONE
) -> list[int]:
    """Return the ids of a text, with the leftmost, longest special literal split off first."""
    found = [(text.find(x), -len(x), x) for x in special_tokens if x in text]
    if not found:
        return [id for piece in split(text) for id in encode_piece(piece, merges)]
    start, _, literal = min(found)
    before, behind = text[:start], text[start + len(literal) :]
    return [
        *encode(before, merges),
        special_tokens[literal],
        *encode(behind, merges, special_tokens),
    ]


def literals_in_parts(
    parts: Sequence[tuple[str, bool]], special: Iterable[str], plain: Iterable[str]
) -> list[tuple[int, str]]:
    """Return where the literals that count in a text in parts begin, and the literals.

    Each part is a text and whether it is trusted. A literal counts if it is plain, or lies in one
    trusted part. From left to right, the longest of those that begin at a place is taken.

    >>> literals_in_parts([("a<x>", True), ("<x> ", False), (" b", True)], ["<x>", "  "], ["  "])
    [(1, '<x>'), (7, '  ')]
    """
    text = "".join(part for part, _ in parts)
    found, at = [], 0
    while at < len(text):
        here = [each for each in special if text.startswith(each, at)]
        counting = [each for each in here if each in plain or _in_trusted(parts, at, len(each))]
        longest = max(counting, key=len, default="")
        if longest:
            found.append((at, longest))
        at += len(longest) or 1
    return found


def _in_trusted(parts: Sequence[tuple[str, bool]], start: int, size: int) -> bool:
    ends = [sum(len(part) for part, _ in parts[: number + 1]) for number in range(len(parts))]
    return any(
        is_trusted and end - len(part) <= start and start + size <= end
        for (part, is_trusted), end in zip(parts, ends, strict=True)
    )


def encode_piece(piece: str, merges: Sequence[Pair]) -> list[int]:
    """Return the ids of one piece: a full pass for each rank, lowest first."""
    ids = list(piece.encode())
    for rank, pair in enumerate(merges):
        ids = replaced(ids, pair, 256 + rank)
    return ids


def merged(ids: Sequence[int], merges: Sequence[Pair], merge_ids: Sequence[int]) -> list[int]:
    """Return the ids after merges in any order: the leftmost of the lowest rank, again and again.

    >>> merged([1, 2, 3], [(7, 3), (1, 2)], [9, 7])
    [9]
    """
    result = list(ids)
    while present := set(merges) & {*pairwise(result)}:
        rank = min(map(merges.index, present))
        position = list(pairwise(result)).index(merges[rank])
        result[position : position + 2] = [merge_ids[rank]]
    return result


def tokens(merges: Sequence[Pair]) -> dict[int, bytes]:
    """Return the bytes of each id."""
    token_of = {byte: bytes([byte]) for byte in range(256)}
    for rank, (left, right) in enumerate(merges):
        token_of[256 + rank] = token_of[left] + token_of[right]
    return token_of


def decode(ids: Iterable[int], merges: Sequence[Pair], special_tokens: Mapping[str, int]) -> str:
    """Return the text of ids."""
    token_of = tokens(merges) | {id: literal.encode() for literal, id in special_tokens.items()}
    return b"".join(token_of[id] for id in ids).decode()


# Chunks

ENDS = {"line": r"\n", "paragraph": r"\n(?:[^\S\n]*\n)+"}


def preferred_end(
    text: str, start: int, after: int, budget: int, count: Callable[[str], int], kind: str
) -> int | None:
    """Return the last end of this kind after `after` up to which the text is within a budget.

    The end of the text is one of every kind. None means that there is no such end.
    """
    ends = [*(match.end() for match in regex.finditer(ENDS[kind], text)), len(text)]
    within = [end for end in ends if end > after and count(text[start:end]) <= budget]
    return max(within, default=None)


# Streams: the result of each step, found in the whole text

# The last byte has 64 values in a row, so every 64th code point shows all prefixes.
UNFINISHED = {
    chr(code).encode()[:end]
    for code in range(0, 0x110000, 64)
    if not 0xD800 <= code < 0xE000
    for end in range(1, len(chr(code).encode()))
}
"""Every proper prefix of every valid character."""


def unfinished(data: bytes) -> bytes:
    """Return the last bytes of `data` if they are an unfinished character, else b""."""
    return next((data[-n:] for n in (3, 2, 1) if data[-n:] in UNFINISHED), b"")


Shown = tuple[str, bool]
"""A piece of what a step returns, and whether it is a tag."""


class Streamed(NamedTuple):
    """The pieces that each step of a stream returns, and at the end the pieces of `flush`.

    `stop_step` is the index of the token that completes the stop, and `error` of the token whose
    bytes are not UTF-8; it is the number of tokens if `flush` finds them. `unreturned` is the valid
    text before these bytes that no step returned.
    """

    steps: list[list[Shown]]
    stopped: str | None = None
    text_after_stop: str = ""
    stop_step: int | None = None
    error: int | None = None
    unreturned: str = ""


def streamed(
    tokens: Sequence[bytes],
    *,
    errors: str = "replace",
    stop: Sequence[str] = (),
    tags: Sequence[str] = (),
    include_stop: bool = False,
    min_tokens: int = 0,
    armed: Sequence[bool] = (),
) -> Streamed:
    """Return the results of a stream of these tokens; `armed` is for each token and for flush.

    A step takes the complete characters of the whole text so far. At each position, in order, it
    looks for a stop or a tag that ends there. Then it withholds the longest end of the text that
    begins a stop or a tag.
    """
    steps: list[list[Shown]] = []
    data = b""
    seen = 0  # characters
    returned = 0
    for step in range(len(tokens) + 1):
        flushing = step == len(tokens)
        if not flushing:
            data += tokens[step]
        complete = data if flushing else data.removesuffix(unfinished(data))
        try:
            text, fails = complete.decode("utf-8", errors), False
        except UnicodeDecodeError as error:
            text, fails = complete[: error.start].decode("utf-8"), True
        stops = stop if armed == () or armed[step] else ()
        counted = len(tokens) if flushing else step + 1
        pieces: list[Shown] = []
        for end in range(seen + 1, len(text) + 1):
            sought = (*stops, *tags) if counted > min_tokens else tags
            ending = [string for string in sought if text.endswith(string, returned, end)]
            if not ending:
                continue
            found = max(ending, key=len)
            start = end - len(found)
            if found in stops and counted > min_tokens:
                pieces.append((text[returned : end if include_stop else start], False))
                nothing: list[list[Shown]] = [[] for _ in tokens[step:]]
                return Streamed([*steps, nonempty(pieces), *nothing], found, text[end:], step)
            pieces += [(text[returned:start], False), (found, True)]
            returned = end
        seen = len(text)
        if fails:
            unreturned = "".join(piece for piece, _ in pieces) + text[returned:]
            return Streamed(steps, error=step, unreturned=unreturned)
        end = returned  # of the text that this step returns
        while end < seen and (flushing or not begins(text[end:], (*stops, *tags))):
            end += 1
        pieces.append((text[returned:end], False))
        returned = end
        steps.append(nonempty(pieces))
    return Streamed(steps)


def begins(text: str, strings: Iterable[str]) -> bool:
    """Return whether a text is a proper prefix of some string."""
    return any(string.startswith(text) and string != text for string in strings)


def nonempty(pieces: Iterable[Shown]) -> list[Shown]:
    """Return the pieces that are not empty."""
    return [(text, is_tag) for text, is_tag in pieces if text]
