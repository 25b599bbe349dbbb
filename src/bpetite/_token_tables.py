"""All tokens of a vocabulary, by id and by their first bytes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from bpetite._vocabulary import Vocabulary, lazy_property

# The most rows of `TokenTables.rows`, 128 MB. Ids of public vocabularies are below 300,000.
_MAX_ROWS = 1 << 24


def row_count(vocabulary: Vocabulary) -> int:
    """Return the length of a table with a row for each id.

    Raises ValueError for more than _MAX_ROWS rows.
    """
    count = vocabulary.n_vocab
    if count > _MAX_ROWS:
        raise ValueError(
            f"the ids of this vocabulary run to {count - 1}, which is too many for a row for each; "
            f"call token_bytes for each of `ids`"
        )
    return count


class TokenTables:
    r"""Tables of all tokens of a vocabulary, each made when it is first needed.

    >>> tables = TokenTables(Vocabulary(((0xC3, 0xA9),), {"<|a|>": 257}, "..."))
    >>> tables.ids_with_prefix(b"\xc3"), tables.rows[257]
    ([195, 256], b'<|a|>')
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    @lazy_property
    def rows(self) -> tuple[bytes, ...]:
        """The bytes of each id below `n_vocab`, b"" for a gap.

        Raises ValueError for more than _MAX_ROWS ids.
        """
        token_of = self._vocabulary.tokens.bytes_of.get
        return tuple([token_of(id, b"") for id in range(row_count(self._vocabulary))])

    @lazy_property
    def _sorted(self) -> tuple[list[bytes], list[int]]:
        """The bytes of all ordinary tokens in ascending order, and the id of each."""
        special_ids = set(self._vocabulary.special_tokens.values())
        tokens = self._vocabulary.ordinary_tokens
        ids = sorted(tokens.keys() - special_ids, key=tokens.__getitem__)
        return [tokens[id] for id in ids], ids

    def ids_with_prefix(self, prefix: bytes) -> list[int]:
        """Return the ids, in ascending order, of the ordinary tokens that begin with `prefix`."""
        tokens, ids = self._sorted
        start = bisect_left(tokens, prefix)
        end = bisect_right(tokens, prefix, start, key=lambda token: token[: len(prefix)])
        return sorted(ids[start:end])
