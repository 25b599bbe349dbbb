"""The rows of an embedding table that another vocabulary keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines import quick_once
from support.vocabularies import vocabulary

from bpetite import Tokenizer
from bpetite._vocabulary import MAX_ID, Pair
from bpetite.analysis import embedding_map

pytestmark = quick_once

SPECIAL = ("<|endoftext|>", "<|pad|>")

texts = st.lists(st.text("ab c", max_size=30), max_size=5)


def trained(documents: Sequence[str], size: int) -> Tokenizer:
    """Train on documents, and allow for an early stop."""
    return Tokenizer.train(documents, size, special_tokens=SPECIAL)


def foreign(tokens: Mapping[int, bytes], merges: list[Pair], **others: Any) -> Tokenizer:
    """Return the tokenizer of a vocabulary from elsewhere; a byte is its own id."""
    return Tokenizer(vocabulary(tokens, merges, **others))


SMALL = trained(["the hen then met the ten men, 你好! ", "then met"], 272)


def with_gaps() -> Tokenizer:
    """Return SMALL with the ids of its merges in another order and with gaps."""
    new = {id: id if id < 256 else 300 + 3 * (id * 7 % 16) for id in SMALL.ids if id < 272}
    tokens = {new[id]: SMALL.token_bytes(id) for id in new if id >= 256}
    merges = [(new[left], new[right]) for left, right in SMALL.merges]
    return foreign(tokens, merges, special_tokens={"<|pad|>": 1000})


def naive_rows(old: Tokenizer, new: Tokenizer) -> list[int]:
    """Return the old id of each new id, from all pairs of ids."""

    def meaning(tokenizer: Tokenizer, id: int) -> tuple[bytes, bool]:
        return tokenizer.token_bytes(id), id in tokenizer.special_tokens.values()

    old_ids = {meaning(old, id): id for id in old.ids}
    rows = [-1] * new.n_vocab
    for id in new.ids:
        rows[id] = old_ids.get(meaning(new, id), -1)
    return rows


@given(old_texts=texts, new_texts=texts)
def test_rows_match_the_naive_way(old_texts: list[str], new_texts: list[str]) -> None:
    old, new = trained(old_texts, 270), trained(new_texts, 280)
    rows, parts = embedding_map(old, new)
    assert rows == naive_rows(old, new)
    assert [*parts] == [id for id in new.ids if rows[id] < 0]
    for id, ids in parts.items():
        assert old.decode_bytes(ids) == new.token_bytes(id)
        assert ids == old.encode(new.token_bytes(id))


def test_pruned_vocabulary_keeps_the_rows_of_its_old_ids() -> None:
    for tokenizer in (SMALL, with_gaps()):
        pruned, old_ids = tokenizer.without_rare({}, 262)
        assert embedding_map(tokenizer, pruned) == (old_ids, {})


def test_gaps_have_neither_rows_nor_parts() -> None:
    rows, parts = embedding_map(SMALL, SMALL.with_special_tokens({"ab": 280}))
    assert rows == [*range(274), *[-1] * 7]
    assert parts == {280: [*b"ab"]}


def test_special_and_ordinary_tokens_differ_in_meaning() -> None:
    ordinary = foreign({256: b"ab"}, [(97, 98)])
    special = foreign({}, [], special_tokens={"ab": 256})
    assert embedding_map(ordinary, special) == ([*range(256), -1], {256: [256]})
    assert embedding_map(special, ordinary) == ([*range(256), -1], {256: [97, 98]})


def test_embedding_map_takes_a_tokenizer_with_few_enough_ids() -> None:
    wrong: Any = "x"
    with pytest.raises(TypeError, match="new must be a Tokenizer, got str"):
        embedding_map(SMALL, wrong)
    with pytest.raises(ValueError, match="too many for a row for each"):
        embedding_map(SMALL, SMALL.with_special_tokens({"x": MAX_ID}))
