"""Which ids may change if more text follows, by tiktoken's rules."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, takewhile
from typing import NamedTuple


class TokensByByte(dict[int, list[bytes]]):
    """Tokens in ascending order, by their first byte; each list is sorted when it is first used.

    >>> TokensByByte([b"ab", b"b", b"a"]).beginning_with(b"a")
    [b'a', b'ab']
    """

    def __init__(self, tokens: Iterable[bytes]) -> None:
        self._unsorted: list[list[bytes]] = [[] for _ in range(256)]
        for token in tokens:
            if token:
                self._unsorted[token[0]].append(token)

    def __missing__(self, byte: int) -> list[bytes]:
        tokens = self[byte] = sorted(self._unsorted[byte])
        return tokens

    def beginning_with(self, prefix: bytes) -> list[bytes]:
        """Return the tokens that begin with a prefix of at least one byte."""
        tokens = self[prefix[0]]
        start = bisect_left(tokens, prefix)
        end = bisect_right(tokens, prefix, start, key=lambda token: token[: len(prefix)])
        return tokens[start:end]


class Encoders(NamedTuple):
    """What turns texts and bytes into ids, and ids into bytes."""

    texts: Callable[[list[str]], list[list[int]]]
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


def completions(unstable: bytes, tokens: TokensByByte, encoders: Encoders) -> list[list[int]]:
    """Return the ids of all texts that begin with `unstable` and end in the middle of a token.

    The ids of such a text end with the first that reaches the end of `unstable`.
    """
    found: set[tuple[int, ...]]
    found = {(encoders.ranks[token],) for token in tokens.beginning_with(unstable)}
    texts = [
        unstable[:at] + token
        for at in range(1, len(unstable))
        for token in tokens.beginning_with(unstable[at:])
    ]
    lengths: dict[int, int] = {}
    for ids in _encoded(texts, encoders):
        end = 0
        for count, id in enumerate(ids, 1):
            if id not in lengths:
                lengths[id] = len(encoders.bytes_of(id))
            end += lengths[id]
            if end >= len(unstable):
                found.add(tuple(ids[:count]))
                break
    # White space at the end may be split from what is before it.
    head, last = _last_character(unstable)
    if head and last.isspace() and last not in _SEPARATORS:
        parts = head, last.encode()
        found.add(tuple(id for part in parts for id in _merged(part, encoders)))
    return [*map(list, found)]


def _encoded(texts: list[bytes], encoders: Encoders) -> Iterator[list[int]]:
    """Yield the ids of each text; one that is not UTF-8 is merged as a piece."""
    decoded: list[str] = []
    for text in texts:
        try:
            decoded.append(text.decode())
        except UnicodeDecodeError:
            yield _merged(text, encoders)
    yield from encoders.texts(decoded)


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
