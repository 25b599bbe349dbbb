"""The tokens of a vocabulary as streams read them, and the cache that its streams share."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Collection, Hashable
from typing import Any, Protocol, TypeVar
from weakref import WeakValueDictionary

from bpetite._streaming.byte_decoders import ByteDecoder, TextStartDecoder, Utf8Decoder
from bpetite._vocabulary import TokenTable, lazy_property

# The transitions that the streams of one table cache, some 16 MB. Beyond it the cache is cleared.
MAX_TRANSITIONS = 1 << 16

# The automata that are kept for streams to come, one for each set of options.
_MAX_AUTOMATA = 32

_FINGERPRINT_DIGITS = 16


A = TypeVar("A")
"""An automaton. Its method `clear` drops all transitions, which are computed again when needed."""


class TransitionCache:
    """The automata of all streams over one table, and a bound on their transitions.

    It has no lock, since a forked process could find it locked forever. Each access to its
    dictionaries is atomic, and a lost race makes an automaton or clears a transition once more.
    """

    def __init__(self) -> None:
        self._automaton_of: dict[Hashable, Any] = {}
        self._in_use: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self._transitions = 0

    def automaton(self, key: Hashable, make: Callable[[], A]) -> A:
        """Return the automaton of all streams with the same options; make it if it is new."""
        automata = self._automaton_of
        automaton: A | None = automata.get(key)
        if automaton is None:
            made = make()
            self._in_use[id(made)] = made  # first, so that no interrupt leaves it out
            automaton = automata.setdefault(key, made)
        elif len(automata) >= _MAX_AUTOMATA:
            automata[key] = automata.pop(key, automaton)  # the last used is the last
        if len(automata) > _MAX_AUTOMATA:
            for old in list(automata)[:-_MAX_AUTOMATA]:
                automata.pop(old, None)
        return automaton

    def make_room(self) -> None:
        """Count a transition that will be cached; clear all others if they are too many."""
        self._transitions += 1
        if self._transitions > MAX_TRANSITIONS:
            self._transitions = 0
            for reference in self._in_use.valuerefs():
                automaton = reference()
                if automaton is not None:
                    automaton.clear()


class HasTokens(Protocol):
    """A vocabulary: the tokens of its ids."""

    @property
    def tokens(self) -> TokenTable: ...
    @property
    def skipped_ids(self) -> Collection[int]:
        """The ids of the special tokens that can be skipped."""

    def stream_tokens(self, skips: bool) -> TokenTable:
        """Return the tokens for streams; special tokens that are skipped have no bytes."""


MakeDecoder = Callable[[TokenTable, str], ByteDecoder]
"""Returns the byte decoder of a table for a value of `errors`."""


class StreamTable:
    """The data of all streams that treat the special tokens of one vocabulary alike."""

    def __init__(self, vocabulary: HasTokens, make_decoder: MakeDecoder, *, skips: bool) -> None:
        self._vocabulary = vocabulary
        self._make_decoder = make_decoder
        self.tokens: TokenTable = vocabulary.stream_tokens(skips)
        self.cache: TransitionCache = TransitionCache()

    def decoder(self, errors: str) -> ByteDecoder:
        return self._make_decoder(self.tokens, errors)

    @lazy_property
    def fingerprint(self) -> str:
        """A short hash of the bytes of each id: equal for equal tokens, whatever their source."""
        from hashlib import sha256  # slow to import, and rarely needed

        items = sorted(self._vocabulary.tokens.bytes_of.items())
        numbers = array("Q", [number for id, token in items for number in (id, len(token))])
        if sys.byteorder == "big":
            numbers.byteswap()
        digest = sha256(numbers.tobytes())
        digest.update(b"".join([token for _, token in items]))
        return digest.hexdigest()[:_FINGERPRINT_DIGITS]

    @lazy_property
    def skipped_id_of(self) -> dict[bytes, int]:
        """The id of each special token that can be skipped, by its bytes."""
        bytes_of = self._vocabulary.stream_tokens(False).bytes_of
        return {bytes_of[id]: id for id in self._vocabulary.skipped_ids}


def stripping_decoder(table: TokenTable, errors: str) -> ByteDecoder:
    """Return the byte decoder of a vocabulary that strips a space at the start of each text."""
    return TextStartDecoder(Utf8Decoder(table, errors), table.bytes_of, table.skipped, {}, " ", 1)


class TokenSource:
    """A vocabulary whose ids become live text; all its streams share two tables."""

    __slots__ = ("_make_decoder", "_tables", "vocabulary")

    def __init__(self, vocabulary: HasTokens, make_decoder: MakeDecoder = Utf8Decoder) -> None:
        self.vocabulary: HasTokens = vocabulary
        self._make_decoder = make_decoder
        self._tables: dict[bool, StreamTable] = {}

    def table(self, skip_special_tokens: bool) -> StreamTable:
        """Return the table of streams that skip special tokens, or of those that do not."""
        table = self._tables.get(skip_special_tokens)
        if table is None:
            table = StreamTable(self.vocabulary, self._make_decoder, skips=skip_special_tokens)
            table = self._tables.setdefault(skip_special_tokens, table)
        return table

    def __reduce__(self) -> tuple[object, ...]:
        return TokenSource, (self.vocabulary, self._make_decoder)  # the tables are not pickled
