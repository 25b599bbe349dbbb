"""tiktoken's ranks, in a .tiktoken file or a `tiktoken.Encoding`, to a vocabulary and back.

tiktoken joins any two neighbours whose bytes, joined, are a token, the lowest rank first. A token
is made from one pair alone nevertheless: as long as nothing is joined across the edges of its
bytes, these are joined in any text as they are by themselves, so it is always the same two parts
that are left in the end. One merge for each token says all, once that pair is found. A token that
its own bytes do not become is made in no text; but tiktoken looks up a piece before it joins
anything, so such a token is found where it is a whole piece.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

from bpetite._encoder import merge_ids
from bpetite._engine import core_of_ranks
from bpetite._files import SourceFile
from bpetite._pretokenizer import PATTERNS
from bpetite._vocabulary import (
    BYTE_COUNT,
    MAX_ID,
    Core,
    Pair,
    Vocabulary,
    check_ids,
    check_special_tokens,
)
from bpetite.formats._regular_expressions import check_shared, from_home

# The public files by their SHA-256: pattern and special tokens, which are not in the file
# (openai/tiktoken, tiktoken_ext/openai_public.py).
_END = "<|endoftext|>"
_KNOWN: dict[str, tuple[str, dict[str, int]]] = {
    # r50k_base, which is GPT-2's
    "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930": ("gpt2", {_END: 50256}),
    # p50k_base
    "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069": ("gpt2", {_END: 50256}),
    # cl100k_base
    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7": (
        "cl100k",
        {
            _END: 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
            "<|fim_suffix|>": 100260,
            "<|endofprompt|>": 100276,
        },
    ),
    # o200k_base
    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d": (
        "o200k",
        {_END: 199999, "<|endofprompt|>": 200018},
    ),
}

# What tiktoken 0.14.0 has for them: `ids_digest` of PROBE and all special tokens, by the same.
_KNOWN_IDS: dict[str, str] = {
    "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930": (
        "482425f87bcd42ea71e5cf56fadc922b2e1620841215581219293c2578293255"
    ),
    "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069": (
        "44bf607286983cfa8c4d18ad033b96d26c2732440ef017ba524ad42e5e1df187"
    ),
    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7": (
        "843b5257388a3600740b78c97ea05a1b2b0229433f3651f6304c5e3b2be8aa36"
    ),
    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d": (
        "ebfa51c39d9cd398c74c32c62449fe83e11d518580f66113a1bea10e153b9776"
    ),
}


class Known(NamedTuple):
    """What is known of a public file, and not in it."""

    pattern: str
    special_tokens: Mapping[str, int]
    probe: str | None
    """The digest of the ids that tiktoken gives, with these two, for the text to try."""

    def is_of(self, vocabulary: Vocabulary) -> bool:
        """Return whether a vocabulary has this pattern and these special tokens."""
        return (self.pattern, self.special_tokens) == (
            vocabulary.pattern,
            vocabulary.special_tokens,
        )


# To tiktoken, the highest id of all is no rank: it never joins two parts to that token.
_MAX_RANK = MAX_ID - 1

# Of one token: how it is made takes a thousand times its bytes to find out.
_MAX_LENGTH = 1 << 20

# Up to so many bytes, the places where a token may have been joined are tried one by one.
_SHORT = 128

_LINES = re.compile(rb"(?:[A-Za-z0-9+/]+={0,2} [0-9]{1,10}\r?\n)*")
_LINE = re.compile(rb"[A-Za-z0-9+/]+={0,2} [0-9]{1,10}\r?\n")
_LINE_OF_BYTE = re.compile(rb"^([A-Za-z0-9+/][AQgw]==) [0-9]", re.MULTILINE)

_from_base64 = partial(binascii.a2b_base64, strict_mode=True)


def seems_to_be(data: bytes) -> bool:
    """Return whether the bytes of a file seem to be ranks: whether most single bytes have one."""
    return bool(_LINE.match(data)) and len(set(_LINE_OF_BYTE.findall(data))) > BYTE_COUNT // 2


def known_of(data: bytes) -> Known | None:
    """Return what is known of a .tiktoken file, whatever its line ends are, if it is public."""
    import hashlib  # here, as few need what takes a while to import

    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
    digest = hashlib.sha256(data).hexdigest()
    if digest not in _KNOWN:
        return None
    pattern, special_tokens = _KNOWN[digest]
    return Known(PATTERNS[pattern], special_tokens, _KNOWN_IDS.get(digest))


def read(
    file: SourceFile,
    data: bytes,
    pattern: str | None,
    special_tokens: Mapping[str, int] | None,
    known: Known | None = None,
) -> Vocabulary:
    """Return the vocabulary of a .tiktoken file; `pattern` is portable.

    Pattern and special tokens are not in the file. If they are None, they are what is `known` of
    it; if nothing is, there are no special tokens.

    Raises ValueError, with the line in the file, for whatever is wrong or not known.
    """
    core = core_of_ranks(data, _MAX_RANK, _MAX_LENGTH)
    ranks = {} if core else _ranks_of_lines(file, data)
    if pattern is None:
        if known is None:
            raise ValueError(
                f"{file.path}: the pattern is not in a .tiktoken file, and this is none of the "
                f"public ones, of which it is known: give the pattern, once "
                f"and for all by `bpetite convert --pattern`"
            )
        pattern = known.pattern
    if special_tokens is None:
        special_tokens = known.special_tokens if known else {}
    try:
        if core:
            return _of_core(core, special_tokens, pattern)
        return _from_ranks(ranks, special_tokens, pattern)
    except ValueError as error:
        raise ValueError(f"{file.path}: {error}") from None


def _ranks_of_lines(file: SourceFile, data: bytes) -> dict[bytes, int]:
    if _LINES.fullmatch(data):
        words = data.split()
        with suppress(binascii.Error):
            tokens = map(_from_base64, words[::2])
            ranks = dict(zip(tokens, map(int, words[1::2]), strict=True))
            if 2 * len(ranks) == len(words):
                return ranks
    # Something is wrong, or spelled otherwise than tiktoken writes it: line by line, to say where.
    ranks = {}
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        place, value = f"line {number}", line[:100].decode("latin-1")
        try:
            encoded, rank = line.split()
            token = _from_base64(encoded)
        except ValueError:
            token, rank = b"", b""
        if not token or not rank.isdigit() or len(rank) > 10:
            file.refuse(place, value, "a token in base64, a space and its rank")
        if token in ranks:
            file.refuse(place, value, "a token that is not given above")
        ranks[token] = int(rank)
    return ranks


def from_encoding(encoding: Any) -> Vocabulary:
    """Return the vocabulary of a `tiktoken.Encoding`. Raises TypeError if it is none."""
    try:
        ranks, special_tokens, pattern = (
            encoding._mergeable_ranks,
            encoding._special_tokens,
            encoding._pat_str,
        )
    except AttributeError:
        raise TypeError(f"expected a tiktoken.Encoding, got {type(encoding).__name__}") from None
    return from_ranks(ranks, special_tokens, from_home(pattern, tiktoken=True))


def from_ranks(
    ranks: Mapping[bytes, int], special_tokens: Mapping[str, int], pattern: str
) -> Vocabulary:
    """Return the vocabulary that gives the ids which tiktoken gives for these ranks.

    >>> ranks = {**{bytes([byte]): byte for byte in range(256)}, b"ab": 256, b"abab": 257}
    >>> from_ranks(ranks, {}, "...").merges
    ((97, 98), (256, 256))

    Raises ValueError if a byte has no rank, two tokens share one, or a special token has that of
    another token or begins another special token.
    """
    if core := core_of_ranks(ranks, _MAX_RANK, _MAX_LENGTH):
        return _of_core(core, special_tokens, pattern)
    return _from_ranks(ranks, special_tokens, pattern)


def _of_core(core: Core, special_tokens: Mapping[str, int], pattern: str) -> Vocabulary:
    _check_literals(special_tokens)
    check_special_tokens(special_tokens, core.token)
    check_ids(special_tokens.values())
    return Vocabulary.of_core(core, special_tokens, pattern)


def _from_ranks(
    ranks: Mapping[bytes, int], special_tokens: Mapping[str, int], pattern: str
) -> Vocabulary:
    tokens = {rank: token for token, rank in sorted(ranks.items(), key=itemgetter(1))}
    if len(tokens) < len(ranks):
        twice = next(rank for token, rank in ranks.items() if tokens[rank] != token)
        raise ValueError(f"two tokens have the rank {twice}")
    if tokens and max(tokens) > _MAX_RANK:
        raise ValueError(f"the rank {max(tokens)} is greater than any may be, {_MAX_RANK}")
    for rank, token in tokens.items():
        if len(token) > _MAX_LENGTH:
            raise ValueError(f"the token of rank {rank} has more than {_MAX_LENGTH} bytes")
    for byte in range(BYTE_COUNT):
        if bytes([byte]) not in ranks:
            raise ValueError(f"the single byte 0x{byte:02x} has no rank")
    _check_literals(special_tokens)
    merges = _merges(tokens)
    every_token_is_merged = BYTE_COUNT + len(merges) == len(tokens)
    return Vocabulary.from_tokens(
        tokens, merges, special_tokens, pattern, ignore_merges=not every_token_is_merged
    )


def _check_literals(special_tokens: Mapping[str, int]) -> None:
    for shorter, longer in pairwise(sorted(special_tokens)):
        if longer.startswith(shorter):
            raise ValueError(
                f"the special token {shorter!r} begins {longer!r}: which of the two tiktoken finds "
                f"in a text is not determined"
            )


def _merges(tokens: Mapping[int, bytes]) -> list[Pair]:
    """Return the pair that makes each token, but for those that none makes, in the order given.

    That is the order of ranks. In it tokens are numbered here without a gap, bytes before all.
    """
    numbered = [bytes([byte]) for byte in range(BYTE_COUNT)]
    numbered += [token for token in tokens.values() if len(token) > 1]
    id_of = {token: id for id, token in tokens.items()}
    ids = [id_of[token] for token in numbered]
    return [(ids[left], ids[right]) for left, right in _Pairs(numbered).find()]


class _Pairs:
    """Finds the pair that makes each token, for one after the other; a byte has its own number."""

    def __init__(self, tokens: Sequence[bytes]) -> None:
        self._tokens = tokens
        # The number that each pair makes, as far as they are found.
        self._made: dict[Pair, int] = {}
        # The tokens that are made with lower numbers alone, and the parts of each; a byte is both
        # its parts, and so is what is none of these, but nothing ever looks at it.
        self._plain = {token: byte for byte, token in enumerate(tokens[:BYTE_COUNT])}
        self._left_part = list(range(len(tokens)))
        self._right_part = list(range(len(tokens)))

    def find(self) -> list[Pair]:
        """Return the pairs."""
        number_of = {token: number for number, token in enumerate(self._tokens)}
        for number, token in enumerate(self._tokens[BYTE_COUNT:], BYTE_COUNT):
            pair = self._plain_pair(token) if len(token) <= _SHORT else None
            if pair is None:
                del number_of[token]
                parts = merge_ids(list(token), _AnyPair(self._tokens, number_of), _SAME)
                number_of[token] = number
                if len(parts) != 2:
                    continue
                pair = parts[0], parts[1]
            self._made[pair] = number
            left, right = pair
            if self._tokens[left] in self._plain and self._tokens[right] in self._plain:
                self._plain[token] = number
                self._left_part[number], self._right_part[number] = pair
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
        """Return whether the bytes of two tokens become these two, if they are joined.

        They do unless two neighbours on the way there, a right end of the one and a left end of
        the other, are joined first. Backwards in time: the part that was made last is taken apart,
        and what stands beside the other part then must not be joined before that time.
        """
        get = self._made.get
        limit = len(self._tokens)
        while get((left, right), limit) >= limit:
            if max(left, right) < BYTE_COUNT:
                return True
            if left > right:
                limit, left = left, self._right_part[left]
            else:  # of equals, the left one was made first
                limit, right = right + 1, self._left_part[right]
        return False


class _AnyPair(dict[Pair, int]):
    """The number that any two tokens make whose bytes, joined, are a token. Made to be asked."""

    def __init__(self, tokens: Sequence[bytes], number_of: Mapping[bytes, int]) -> None:
        super().__init__()
        self._tokens = tokens
        self._number_of = number_of

    def get(self, pair: Pair, default: Any = None) -> Any:
        left, right = pair
        if left < 0:  # no token any more
            return default
        return self._number_of.get(self._tokens[left] + self._tokens[right], default)


class _Same:
    """Every int at its own index: here the rank of a merge is the number that it makes."""

    def __getitem__(self, index: int) -> int:
        return index


_SAME: Any = _Same()


def to_bytes(vocabulary: Vocabulary) -> bytes:
    """Return the .tiktoken file of a vocabulary, which says nothing of pattern and special tokens.

    Raises ValueError if tiktoken cannot have it; `check_read_back` looks at the merges.
    """
    if vocabulary.more_patterns or vocabulary.normalizer:
        what = "a normalizer" if vocabulary.normalizer else "more than one pattern"
        raise ValueError(f"tiktoken cannot have this vocabulary: it has {what}")
    check_shared(vocabulary.pattern)
    tokens = vocabulary.ordinary_tokens
    ids = {token: id for id, token in tokens.items()}
    if len(ids) < len(tokens):
        twice = next(id for id, token in tokens.items() if ids[token] != id)
        raise ValueError(
            f"tiktoken cannot have this vocabulary: ids {twice} and {ids[tokens[twice]]} have "
            f"the same bytes"
        )
    lines = (b"%s %d\n" % (base64.b64encode(token), id) for id, token in tokens.items())
    return b"".join(lines)


def check_read_back(vocabulary: Vocabulary, read_back: Vocabulary) -> None:
    """Raise ValueError if what was read back of `to_bytes` gives other ids than the vocabulary.

    A vocabulary may have more merges than tiktoken makes use of: other pairs that make a token
    never meet. If `read_back` makes every token, the rule `ignore_merges` changes nothing.
    """
    used = set(read_back.merges)
    merges = tuple(pair for pair in vocabulary.merges if pair in used)
    if merges != read_back.merges or (read_back.ignore_merges and not vocabulary.ignore_merges):
        raise ValueError(
            "tiktoken would give other ids: it merges by the ids of tokens, and the merges of "
            "this vocabulary are in another order, or make some token from other parts"
        )


def home_encode(vocabulary: Vocabulary) -> Callable[[str], list[int]]:
    """Return how tiktoken encodes a text. Raises ImportError if it is not installed."""
    import tiktoken

    encoding = tiktoken.Encoding(
        "bpetite",
        pat_str=vocabulary.pattern,
        mergeable_ranks={token: id for id, token in vocabulary.ordinary_tokens.items()},
        special_tokens=dict(vocabulary.special_tokens),
    )
    return encode_with(encoding)


def encode_with(encoding: Any) -> Callable[[str], list[int]]:
    """Return how an Encoding encodes a text, special tokens in it being their ids."""
    return lambda text: encoding.encode(text, allowed_special="all")
