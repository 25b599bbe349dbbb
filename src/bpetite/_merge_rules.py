"""Which merges training may learn: required tokens first, and forbidden ones never."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from bpetite._encoder import merge_ids
from bpetite._pretokenizer import PATTERNS, Pretokenizer
from bpetite._unicode import nfc
from bpetite._vocabulary import Pair, Vocabulary

Forbidden = Callable[[bytes], object] | Collection[str | bytes] | re.Pattern[bytes]
"""The tokens that no merge may make: a function of their bytes, a list, or a search in them."""

_MAX_CHARACTER_BYTES = 4

_MORE_THAN_FOUR_WORDS = re.compile(rb"([^ ]+ +){4}[^ ]")
"""The limit of the published superwords (arXiv:2503.13423)."""

_FORBIDDEN_BY_PATTERN = {PATTERNS["words"]: _MORE_THAN_FOUR_WORDS}


@dataclass(frozen=True)
class MergeOptions:
    """The arguments of training that decide which merges to learn."""

    base: Vocabulary | None = None
    min_count: int = 1
    max_token_bytes: int | None = None
    require: Sequence[str] = ()
    forbid: Forbidden | None = None
    whole_characters: bool = False

    def for_pattern(self, pattern: str) -> MergeOptions:
        """Return these options; without a `forbid`, with the tokens that the pattern forbids.

        >>> MergeOptions().for_pattern(PATTERNS["words"]).forbid
        re.compile(b'([^ ]+ +){4}[^ ]')
        """
        if self.forbid is not None:
            return self
        return replace(self, forbid=_FORBIDDEN_BY_PATTERN.get(pattern))

    def base_pattern(self, given: str | None) -> str | None:
        """Return the pattern of the base; None without a base, or if a pattern is given.

        Raises ValueError for a base that has several, unless one is given, and for a base that has
        other stages before texts are merged.
        """
        if self.base is None:
            return None
        stages = self.base.stages
        if stages.byte_fallback:
            raise ValueError(
                "the base cannot be trained further: it has byte fallback, so its merges begin "
                "with characters, and training begins with bytes"
            )
        if stages.change_pieces:
            raise ValueError(
                "the base cannot be trained further: its tokenizer.json has stages that training "
                "does not know; bpetite inspect shows them"
            )
        if given is not None:
            return None
        if self.base.more_patterns:
            raise ValueError(
                "the base splits text by several patterns in turn, and training by one; give the "
                "pattern to learn with"
            )
        return self.base.pattern

    def start(self, pattern: str) -> Vocabulary:
        """Return the vocabulary to continue: the base, and then the required tokens.

        Raises ValueError for a required token that the pattern splits or the base normalizes.
        """
        base = Vocabulary((), {}, pattern) if self.base is None else self.base
        if base.patterns != (pattern,):
            # An unchanged base keeps the tables that it has derived.
            base = replace(base, pattern=pattern, more_patterns=())
        if not self.require:
            return base
        split = Pretokenizer(pattern).split_exactly
        for token in self.require:
            if base.normalizer and nfc(token) != token:
                raise ValueError(
                    f"the required token {token!r} can never be used: the base normalizes it to "
                    f"{nfc(token)!r}"
                )
            if (pieces := split(token)) != [token]:
                raise ValueError(
                    f"the required token {token!r} can never be used: the pattern splits it into "
                    f"{pieces!r}"
                )
        return with_required(base, [token.encode() for token in self.require])

    def rules(self, start: Vocabulary) -> MergeRules | None:
        """Return the rules for merges on top of a vocabulary; None if every pair may be merged."""
        is_free = self.max_token_bytes is None and not self.whole_characters
        if self.base is None and is_free and not callable(self.forbid) and not self.forbid:
            return None
        return MergeRules(start, self)


class MergeRules:
    """Decides which pairs training may merge. Training must merge each pair that `takes` accepts.

    >>> rules = MergeRules(Vocabulary((), {}, "..."), MergeOptions(max_token_bytes=2))
    >>> rules.takes(97, 98), rules.takes(256, 99), rules.takes(98, 99)
    (True, False, True)
    """

    def __init__(self, start: Vocabulary, options: MergeOptions) -> None:
        self._next_id = start.n_vocab
        self._bytes_of = dict(start.ordinary_tokens)
        self._known = {*self._bytes_of.values()}
        self._max_token_bytes = options.max_token_bytes
        self._forbids = _forbids(options.forbid)
        self._whole_characters = options.whole_characters

    def takes(self, left: int, right: int) -> bool:
        """Return whether a pair may be merged, and give its token the next id if so."""
        token = self._bytes_of[left] + self._bytes_of[right]
        # A base from elsewhere may make the token by other merges, and ids may not share bytes.
        if token in self._known or not self._allows(token):
            return False
        self._bytes_of[self._next_id] = token
        self._known.add(token)
        self._next_id += 1
        return True

    def _allows(self, token: bytes) -> bool:
        if self._max_token_bytes is not None and len(token) > self._max_token_bytes:
            return False
        if self._whole_characters and not is_whole(token):
            return False
        return not self._forbids(token)


def extended(base: Vocabulary, merges: Iterable[Pair]) -> Vocabulary:
    """Return a vocabulary with more merges, whose ids follow the highest.

    >>> extended(Vocabulary(((97, 98),), {"<|a|>": 300}, "..."), [(256, 99)]).merge_ids
    (256, 301)
    """
    merges, first_id = tuple(merges), base.n_vocab
    native = None if base.native is None else base.native.extended(merges, first_id)
    if native is not None:
        return replace(base, native=native)
    return _with_merges(base, merges, range(first_id, first_id + len(merges)))


def _with_merges(base: Vocabulary, merges: Sequence[Pair], ids: Iterable[int]) -> Vocabulary:
    all_merges, all_ids = (*base.merges, *merges), (*base.merge_ids, *ids)
    return replace(base, _merges=all_merges, _merge_ids=all_ids, native=None)


def with_required(base: Vocabulary, tokens: Iterable[bytes]) -> Vocabulary:
    """Return a vocabulary in which each of these pieces is one token.

    Missing tokens are merged from left to right, on top of the merges so far, so that later tokens
    leave earlier ones unchanged.

    >>> with_required(Vocabulary(((98, 99),), {}, "..."), [b"abc", b"abcd"]).merges
    ((98, 99), (97, 256), (257, 100))
    """
    rank_of = {pair: rank for rank, pair in enumerate(base.merges)}
    made = [*base.merge_ids]
    bytes_of = dict(base.ordinary_tokens)
    id_of = {token: id for id, token in bytes_of.items()}
    next_id = base.n_vocab
    for token in tokens:
        if base.ignore_merges and token in id_of:
            continue
        ids = merge_ids([base.byte_ids[byte] for byte in token], rank_of, made)
        while len(ids) > 1:
            left, right = pair = ids[0], ids[1]
            joined = bytes_of[left] + bytes_of[right]
            is_new = joined not in id_of
            if is_new:
                id_of[joined], bytes_of[next_id] = next_id, joined
                next_id += 1
            rank_of[pair] = len(made)
            made.append(id_of[joined])
            # No other merge applies to these ids, and none has a new id as a part.
            ids = _merged(ids, pair, made[-1]) if is_new else merge_ids(ids, rank_of, made)
    n_before = len(base.merges)
    return _with_merges(base, [*rank_of][n_before:], made[n_before:])


def _merged(ids: list[int], pair: Pair, id: int) -> list[int]:
    """Return ids with one merge done, from left to right.

    To search for the left id is faster than to look at each pair.

    >>> _merged([1, 1, 2, 1, 3, 1, 2, 1], (1, 2), 9)
    [1, 9, 1, 3, 9, 1]
    """
    left, right = pair
    merged: list[int] = []
    start = at = 0
    with suppress(ValueError):  # no left id is left
        while True:
            at = ids.index(left, at, -1)
            if ids[at + 1] == right:
                merged += [*ids[start:at], id]
                start = at + 2
                at += 1
            at += 1
    return merged + ids[start:]


def is_whole(token: bytes) -> bool:
    r"""Return whether a token is whole characters, or a part of one character only.

    >>> is_whole("né".encode()), is_whole(b"\xa9"), is_whole(b"n\xc3"), is_whole(b"\xa9n")
    (True, True, False, False)
    """
    try:
        token.decode()
    except UnicodeDecodeError:
        are_inside = all(byte & 0xC0 == 0x80 for byte in token[1:])
        return token[0] >= 0x80 and are_inside and len(token) < _MAX_CHARACTER_BYTES
    return True


def _forbids(forbid: Forbidden | None) -> Callable[[bytes], object]:
    if callable(forbid):
        return forbid
    if isinstance(forbid, re.Pattern):
        return forbid.search
    return {*map(_as_bytes, forbid or ())}.__contains__


def _as_bytes(token: str | bytes) -> bytes:
    return token.encode() if isinstance(token, str) else bytes(token)
