"""Which ids may change if more text follows, by tiktoken's rules."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise, takewhile
from typing import NamedTuple


class Encoders(NamedTuple):
    """What turns texts and bytes into ids, and ids into bytes."""

    text: Callable[[str], list[int]]
    piece: Callable[[bytes], list[int]]
    ranks: Mapping[bytes, int]
    bytes_of: Callable[[int], bytes]


_SPACES = b" \n\t"

# Python takes them for white space, Unicode does not.
_SEPARATORS = "\x1c\x1d\x1e\x1f"


def spaces_at_end(tokens: Sequence[bytes], count: int) -> int:
    r"""Return how many tokens at the end may change, of which `count` are the last piece.

    A piece of white space may join the white space before it.

    >>> spaces_at_end([b"a", b"\n", b" "], 1), spaces_at_end([b"a", b"\n", b"b"], 1)
    (2, 1)
    """
    if tokens[-count].strip(_SPACES):
        return count
    before = takewhile(lambda token: not token.strip(_SPACES), tokens[-count - 1 :: -1])
    return count + len([*before])


def completions(
    unstable: bytes, sorted_tokens: Sequence[bytes], encoders: Encoders
) -> list[list[int]]:
    """Return the ids of all texts that begin with `unstable` and end in the middle of a token.

    The ids of such a text end with the first that reaches the end of `unstable`.
    """
    found: set[tuple[int, ...]]
    found = {(encoders.ranks[token],) for token in _beginning(unstable, sorted_tokens)}
    for at in range(1, len(unstable)):
        for token in _beginning(unstable[at:], sorted_tokens):
            ids = _encoded(unstable[:at] + token, encoders)
            ends = accumulate(len(encoders.bytes_of(id)) for id in ids)
            count = sum(1 for _ in takewhile(len(unstable).__gt__, ends))
            found.add(tuple(ids[: count + 1]))
    # White space at the end may be split from what is before it.
    head, last = _last_character(unstable)
    if head and last.isspace() and last not in _SEPARATORS:
        parts = head, last.encode()
        found.add(tuple(id for part in parts for id in _merged(part, encoders)))
    return [*map(list, found)]


def _beginning(prefix: bytes, sorted_tokens: Sequence[bytes]) -> Iterator[bytes]:
    start = bisect_left(sorted_tokens, prefix)
    tokens = (sorted_tokens[at] for at in range(start, len(sorted_tokens)))
    return takewhile(lambda token: token.startswith(prefix), tokens)


def _encoded(data: bytes, encoders: Encoders) -> list[int]:
    try:
        return encoders.text(data.decode())
    except UnicodeDecodeError:
        return _merged(data, encoders)


def _merged(data: bytes, encoders: Encoders) -> list[int]:
    """Return the ids of a piece by merges alone, even if the piece is a token."""
    ranks = encoders.ranks
    if data not in ranks:
        return encoders.piece(data)
    parts = [data[at : at + 1] for at in range(len(data))]
    while True:
        joined = [left + right for left, right in pairwise(parts)]
        found = [(ranks[token], at) for at, token in enumerate(joined) if token in ranks]
        if not found:
            return [ranks[part] for part in parts]
        at = min(found)[1]
        parts[at : at + 2] = [joined[at]]


def _last_character(data: bytes) -> tuple[bytes, str]:
    """Return what is before the last character, and that character; "" if it is not whole."""
    for size in range(1, min(4, len(data)) + 1):
        try:
            return data[:-size], data[-size:].decode()
        except UnicodeDecodeError:
            continue
    return data, ""
