"""Which rows of an embedding table can be kept when the vocabulary is replaced."""

from __future__ import annotations

from bpetite import Tokenizer
from bpetite._token_tables import row_count
from bpetite._tokenizer import vocabulary_of


def embedding_map(old: Tokenizer, new: Tokenizer) -> tuple[list[int], dict[int, list[int]]]:
    """Return which rows of the embedding table of `old` the table of `new` keeps.

    The first result has an entry for each id from 0 to `new.n_vocab` - 1: the id of `old` that has
    the same meaning, or -1. Two ordinary ids have the same meaning if their bytes are equal, and
    two special ids if their literals are.

    The second result has each token without such an id, and the ids of `old` whose bytes, joined,
    are the token. The mean of their rows is a usual initial value. An id that `new` does not use
    is -1 in the first result and missing in the second.

    >>> old = Tokenizer.train("ab ab ab", 258)
    >>> rows, parts = embedding_map(old, Tokenizer.train("abc abc", 259))
    >>> rows[256:], parts
    ([256, -1, -1, 258], {257: [256, 99], 258: [257, 99]})

    Raises TypeError for a value that is not a Tokenizer, ValueError for ids above 16 million.
    """
    for name, tokenizer in {"old": old, "new": new}.items():
        if not isinstance(tokenizer, Tokenizer):
            raise TypeError(f"{name} must be a Tokenizer, got {type(tokenizer).__name__}")
    before, after = vocabulary_of(old), vocabulary_of(new)
    rows = [-1] * row_count(after)
    special_ids = {*before.special_tokens.values()}
    old_ids = {token: id for id, token in before.ordinary_tokens.items() if id not in special_ids}
    for id, token in after.ordinary_tokens.items():
        rows[id] = old_ids.get(token, -1)
    for literal, id in after.special_tokens.items():
        rows[id] = before.special_tokens.get(literal, -1)
    return rows, {
        id: old.encode_bytes(token)
        for id, token in sorted(after.tokens.bytes_of.items())
        if rows[id] < 0
    }
