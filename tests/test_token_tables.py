"""All tokens of a vocabulary: the bytes of each id, and the ids that begin with some bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.vocabularies import vocabulary

from bpetite import Tokenizer

SMALL = Tokenizer.train("ab ab ab abab", 262)

GAPS = Tokenizer(
    vocabulary(
        {300: b"ab", 302: b"a\xff", 303: b"a\xff\xff", 304: b"\xff\xff", 305: "é".encode()},
        [],
        special_tokens={"<|é|>": 310, "ab|": 308, "ab": 300},
    )
)
"""A tokenizer with gaps between its ids, and a special token that is an ordinary one too."""

FAR = Tokenizer(vocabulary({2**32 - 1: b"ab"}, []))


# The bytes of each id


@pytest.mark.parametrize("tokenizer", [SMALL, GAPS], ids=["trained", "gaps"])
def test_tokens_are_the_bytes_of_each_id(tokenizer: Tokenizer) -> None:
    expected = [b""] * tokenizer.n_vocab
    for id in tokenizer.ids:
        expected[id] = tokenizer.token_bytes(id)
    assert tokenizer.tokens == tuple(expected)


def test_special_tokens_have_the_bytes_of_their_literals() -> None:
    assert GAPS.tokens[307:] == (b"", b"ab|", b"", "<|é|>".encode())


def test_tokens_are_made_once() -> None:
    assert SMALL.tokens is SMALL.tokens


def test_tokens_of_ids_that_run_too_far_are_refused() -> None:
    with pytest.raises(ValueError, match="ids of this vocabulary run to 4294967295, which is too"):
        _ = FAR.tokens
    assert FAR.ids_with_prefix(b"ab") == [2**32 - 1]


# The ids of tokens that begin alike


def with_prefix(tokenizer: Tokenizer, prefix: bytes) -> list[int]:
    special_ids = tokenizer.special_tokens.values()
    return [
        id
        for id in tokenizer.ids
        if id not in special_ids and tokenizer.token_bytes(id).startswith(prefix)
    ]


PREFIXES = [b"", b"a", b"ab", b"aba", b" ", b" a", b"<|", b"\xff", b"\xff\xff", b"a\xff", b"\xc3"]


@pytest.mark.parametrize("tokenizer", [SMALL, GAPS], ids=["trained", "gaps"])
@pytest.mark.parametrize("prefix", PREFIXES, ids=repr)
def test_ids_with_a_prefix(tokenizer: Tokenizer, prefix: bytes) -> None:
    assert tokenizer.ids_with_prefix(prefix) == with_prefix(tokenizer, prefix)


@given(prefix=st.binary(max_size=4))
def test_ids_with_any_prefix(prefix: bytes) -> None:
    assert GAPS.ids_with_prefix(prefix) == with_prefix(GAPS, prefix)


def test_every_token_begins_with_its_prefixes(tokenizer: Tokenizer) -> None:
    for id in tokenizer.ids[:-1]:
        token = tokenizer.token_bytes(id)
        assert all(id in tokenizer.ids_with_prefix(token[:n]) for n in range(len(token) + 1))


@pytest.mark.parametrize("prefix", ["a", None, 97, bytearray(b"a")], ids=repr)
def test_a_prefix_of_another_type_is_refused(prefix: Any) -> None:
    with pytest.raises(TypeError, match=f"prefix must be bytes, got {type(prefix).__name__}"):
        SMALL.ids_with_prefix(prefix)
