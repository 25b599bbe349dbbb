"""Laws for every text: no text is lost, and all ways to the ids agree."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpetite import Tokenizer

END = "<|endoftext|>"

any_character = st.one_of(
    st.sampled_from("ab 'sé你🙂\u0301\n\r\t\u2003\x85\x1c\x00\ufeff\ufffd1٣"),
    st.characters(codec="utf-8"),
)

any_text = st.one_of(
    st.text(any_character, max_size=60),
    st.lists(st.sampled_from([END, "<|", "endoftext", "|>", " ", "the", "\n"]), max_size=12).map(
        "".join
    ),
    st.builds(lambda unit, count: unit * count, any_character, st.integers(0, 300)),
)


def all_characters() -> str:
    """Return every character once: all code points except surrogates."""
    return "".join(map(chr, [*range(0xD800), *range(0xE000, sys.maxunicode + 1)]))


# Round trips


@given(text=any_text)
def test_every_text_comes_back(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode(tokenizer.encode_ordinary(text)) == text


@pytest.mark.parametrize("step", [29, pytest.param(1, marks=pytest.mark.slow)])
def test_every_character_comes_back(tokenizer: Tokenizer, step: int) -> None:
    text = all_characters()[::step]
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(st.lists(any_text, max_size=4), any_text)
def test_every_text_comes_back_whatever_was_trained_on(documents: list[str], text: str) -> None:
    tokenizer = Tokenizer.train(documents, 300)
    assert tokenizer.decode(tokenizer.encode(text)) == text


# All ways agree


@given(text=any_text)
def test_bytes_and_numbers_of_ids_match_the_text(tokenizer: Tokenizer, text: str) -> None:
    ids, ordinary = tokenizer.encode(text), tokenizer.encode_ordinary(text)
    assert tokenizer.decode_bytes(ids) == text.encode()
    assert b"".join(map(tokenizer.token_bytes, ids)) == text.encode()
    assert tokenizer.encode(text, allowed_special=()) == ordinary
    counts = tokenizer.count(text), tokenizer.count(text, allowed_special=())
    assert counts == (len(ids), len(ordinary))


@given(texts=st.lists(any_text, max_size=5))
def test_a_batch_is_each_by_itself(tokenizer: Tokenizer, texts: list[str]) -> None:
    batch = tokenizer.encode_batch(texts)
    assert batch == [tokenizer.encode(text) for text in texts]
    assert tokenizer.decode_batch(batch) == texts


@given(one=any_text, two=any_text)
def test_text_may_be_cut_before_white_space(tokenizer: Tokenizer, one: str, two: str) -> None:
    """A piece ends between a character that is not white space and one that is."""
    one, two = one + "x", " " + two
    assert tokenizer.encode(one + two) == tokenizer.encode(one) + tokenizer.encode(two)


@given(one=any_text, two=any_text)
def test_text_may_be_cut_at_a_special_token(tokenizer: Tokenizer, one: str, two: str) -> None:
    ids = [*tokenizer.encode(one + END), *tokenizer.encode(two)]
    assert tokenizer.encode(one + END + two) == ids
