"""Two other implementations return our ids, given our vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from support.peers import as_tiktoken
from support.vocabularies import gpt2_characters
from tokenizers import decoders, models, pre_tokenizers

from bpetite import Tokenizer

Oracle = Callable[[str], list[int]]
"""Turns text into ids."""


def as_hugging_face(tokenizer: Tokenizer) -> tokenizers.Tokenizer:
    """Return a tokenizers.Tokenizer with the same vocabulary."""
    characters = gpt2_characters()

    def written(id: int) -> str:
        return "".join(characters[byte] for byte in tokenizer.token_bytes(id))

    vocab = {written(id): id for id in range(256 + len(tokenizer.merges))}
    merges = [(written(left), written(right)) for left, right in tokenizer.merges]
    other = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges))
    other.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    other.decoder = decoders.ByteLevel()
    other.add_special_tokens(
        [tokenizers.AddedToken(literal, normalized=False) for literal in tokenizer.special_tokens]
    )
    return other


def oracle(name: str, tokenizer: Tokenizer) -> Oracle:
    """Return the encoder of one library, with special tokens as ids."""
    if name == "tiktoken":
        encoding = as_tiktoken(tokenizer)
        return lambda text: encoding.encode(text, allowed_special="all")
    other = as_hugging_face(tokenizer)
    return lambda text: other.encode(text).ids


@pytest.fixture(scope="module", params=["tiktoken", "tokenizers"])
def encode(request: pytest.FixtureRequest, tokenizer: Tokenizer) -> Oracle:
    """Return the encoder of one library, with the vocabulary of the shared tokenizer."""
    return oracle(request.param, tokenizer)


def test_every_kind_of_text(tokenizer: Tokenizer, encode: Oracle, text_case: str) -> None:
    assert tokenizer.encode(text_case) == encode(text_case)


@given(data=st.data())
def test_text_from_tokens(tokenizer: Tokenizer, encode: Oracle, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, tokenizer.n_vocab - 1), max_size=40))
    text = tokenizer.decode(ids, errors="ignore")
    assert tokenizer.encode(text) == encode(text)


any_character = st.characters(codec="utf-8")


@given(
    text=st.text(st.one_of(st.sampled_from(" \n\t'sae1é你🙂\u0301"), any_character), max_size=40)
)
def test_noise(tokenizer: Tokenizer, encode: Oracle, text: str) -> None:
    assert tokenizer.encode(text) == encode(text)


# Special tokens

A, B = "<|a|>", "<|b|>"

SPECIAL = Tokenizer.train("the hen then met the ten men", 262, special_tokens=[A, B])

SPECIAL_TEXTS = [
    "", "the", A, B, f"{A}{A}", f"{A} {B}", f"the{A}hen", f" {B} ", "<|a", "<|a|", f"<{A}>",
    f"it{A}'s", f"  {B}  x\n{A}\n\n{B}", f"🙂{B}é{A}", "<|a|b|>", "<|<|a|>", f"<|a{A}|>",
]  # fmt: skip


TIKTOKEN = as_tiktoken(SPECIAL)


SPECIALS = ["all", "none", "a", "b", "a and b"]


def result(function: Callable[..., list[int]], *args: Any, **options: Any) -> object:
    """Return the result of a function, or the type of its ValueError."""
    try:
        return function(*args, **options)
    except ValueError as error:
        return type(error)


@pytest.mark.parametrize("allowed", ["all", set(), {A}, {B}, {A, B}], ids=SPECIALS)
@pytest.mark.parametrize("disallowed", ["all", (), {A}, {B}, {A, B}], ids=SPECIALS)
def test_allowing_and_disallowing_is_tiktokens(allowed: Any, disallowed: Any) -> None:
    """Gives both arguments, since the defaults differ."""
    options = {"allowed_special": allowed, "disallowed_special": disallowed}
    ours = [result(SPECIAL.encode, text, **options) for text in SPECIAL_TEXTS]
    assert ours == [result(TIKTOKEN.encode, text, **options) for text in SPECIAL_TEXTS]


def test_encode_ordinary_is_tiktokens() -> None:
    ours = [SPECIAL.encode_ordinary(text) for text in SPECIAL_TEXTS]
    assert ours == [TIKTOKEN.encode_ordinary(text) for text in SPECIAL_TEXTS]


def test_offsets_of_text_are_hugging_faces(tokenizer: Tokenizer, text_case: str) -> None:
    encoding = as_hugging_face(tokenizer).encode(text_case)
    starts = [start for start, _ in encoding.offsets]
    assert tokenizer.encode_with_offsets(text_case) == (encoding.ids, starts)


@given(text=st.text(st.one_of(st.sampled_from(" \n'sé你🙂\u0301"), any_character), max_size=40))
def test_offsets_of_noise_are_hugging_faces(tokenizer: Tokenizer, text: str) -> None:
    encoding = as_hugging_face(tokenizer).encode(text)
    starts = [start for start, _ in encoding.offsets]
    assert tokenizer.encode_with_offsets(text) == (encoding.ids, starts)
