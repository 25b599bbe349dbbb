"""What the ids of another library's tokenizer mean, as far as streams need to know it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from bpetite._stream_readers import Beginning, ByteRuns, Reader, Utf8
from bpetite._vocabulary import MAX_ID, TokenTable, as_id


@dataclass(frozen=True, eq=False)
class Tokens:
    """The bytes of each id, and how they are read. All streams share the tables made of it.

    >>> Tokens.checked({7: b"a", 8: b"<s>"}, [8]).table(True).bytes_of
    {7: b'a', 8: b''}
    """

    bytes_of: Mapping[int, bytes]
    special_ids: frozenset[int] = frozenset()
    # Ids whose tokens are single bytes, the other tokens being text: those in a row are read whole.
    byte_ids: frozenset[int] = frozenset()
    # The bytes of tokens that are others when the token is the first of all.
    first_of: Mapping[int, bytes] = field(default_factory=dict)
    # Where text begins, up to so many of the character are stripped.
    strips: int = 0
    character: str = " "

    @classmethod
    def checked(cls, bytes_of: Mapping[int, bytes], special_ids: Iterable[int]) -> Tokens:
        """Return what a mapping of ids to bytes means.

        Raises TypeError for an id that is no integer or a token that is not bytes; ValueError if
        there is no token, an id is negative or above MAX_ID, or a special id has no bytes.
        """
        if not bytes_of:
            raise ValueError("a vocabulary must have a token")
        if {*map(type, bytes_of)} != {int}:
            bytes_of = {as_id(id): token for id, token in bytes_of.items()}
        if {*map(type, bytes_of.values())} != {bytes}:
            for id, token in bytes_of.items():
                if type(token) is not bytes:
                    kind = type(token).__name__
                    raise TypeError(f"the token of id {id} must be bytes, got {kind}")
        for id in (min(bytes_of), max(bytes_of)):
            if not 0 <= id <= MAX_ID:
                raise ValueError(f"the id {id} is not from 0 to {MAX_ID}")
        specials = frozenset(map(as_id, special_ids))
        for id in sorted(specials - bytes_of.keys()):
            raise ValueError(
                f"the special id {id} has no bytes in the vocabulary: give it those of its literal"
            )
        return cls(dict(bytes_of), specials)

    def table(self, skip_special_tokens: bool) -> TokenTable:
        """Return what decoding looks up; it is made once."""
        return self.tokens_without_special if skip_special_tokens else self.tokens

    @cached_property
    def tokens(self) -> TokenTable:
        """Every id with its bytes."""
        table = self._table(self.bytes_of, skips=False)
        for id in self.byte_ids:
            if id < len(table.text_of):
                table.text_of[id] = None  # no text before its run has ended
        return table

    @cached_property
    def tokens_without_special(self) -> TokenTable:
        """As `tokens`, but a special token has no bytes: to skip them."""
        silent = dict.fromkeys(self.special_ids, b"")
        table = self._table({**self.bytes_of, **silent}, skips=True)
        text_of = self.tokens.text_of.copy()
        for id in self.special_ids:
            if id < len(text_of):
                text_of[id] = ""
        table.know_texts(text_of)
        return table

    def _table(self, bytes_of: Mapping[int, bytes], *, skips: bool) -> TokenTable:
        is_plain = not (self.byte_ids or self.first_of or self.strips)
        return TokenTable(
            bytes_of,
            self,
            skips_special_tokens=skips,
            reader_of=None if is_plain else self._reader,
        )

    def _reader(self, table: TokenTable, errors: str) -> Reader:
        skipped = self.special_ids if table.skips_special_tokens else frozenset()
        plain = Utf8(table, errors)
        # To replace a whole run is a way to replace; other errors are not treated so.
        in_runs = self.byte_ids and errors == "replace"
        reader: Reader = ByteRuns(plain, self.byte_ids, skipped) if in_runs else plain
        if not (self.first_of or self.strips):
            return reader
        return Beginning(reader, table, skipped, self.first_of, self.character, self.strips)

    def __reduce__(self) -> tuple[object, ...]:
        # None of the tables are pickled.
        return Tokens, (
            self.bytes_of,
            self.special_ids,
            self.byte_ids,
            self.first_of,
            self.strips,
            self.character,
        )
