"""Numbers that a vocabulary divides text at, before its pattern splits it."""

from __future__ import annotations

from array import array
from functools import cache
from itertools import accumulate, pairwise

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from support.engines import native_only
from support.split_cases import CHARACTERS, tokenizer_of

from bpetite import PATTERNS, Tokenizer, Trusted
from bpetite._vocabulary import Vocabulary

NUMBERS = [r"\p{N}", r"\p{N}{1,3}", r"\p{N}+"]

CASES = [(numbers, name) for numbers in NUMBERS for name in PATTERNS]

texts = st.lists(st.sampled_from([*CHARACTERS, *"0½٣Ⅳ", " 12", "345 ", "  "]), max_size=20).map(
    "".join
)
longer = st.builds(lambda text, times: text * times, texts, st.sampled_from([1, 2, 300]))


@cache
def dividing(numbers: str, name: str) -> Tokenizer:
    """Return a tokenizer that divides text at numbers."""
    vocabulary = tokenizer_of(name, ("<|a b|>",))._vocabulary
    return Tokenizer(
        Vocabulary(
            vocabulary.merges, vocabulary.special_tokens, numbers, more_patterns=(PATTERNS[name],)
        )
    )


def expected(numbers: str, name: str, text: str) -> list[int]:
    """Return the ids of ordinary text: each number, and each text between, alone."""
    parts = regex.split(f"({numbers})", text)
    return [id for part in parts for id in tokenizer_of(name).encode_ordinary(part)]


@given(st.sampled_from(CASES), longer, st.sampled_from([1, 3]))
def test_numbers_and_the_text_between_are_encoded_alone(
    case: tuple[str, str], text: str, threads: int
) -> None:
    tokenizer, ids = dividing(*case), expected(*case, text)
    assert tokenizer.encode_ordinary(text) == ids
    assert tokenizer.count(text, allowed_special=()) == len(ids)
    assert (
        tokenizer.encode(text, allowed_special=(), threads=threads, dtype="uint32").tolist() == ids
    )
    assert tokenizer.encode_parts([text[:5], text[5:]])[0] == ids
    special = tokenizer.special_tokens["<|a b|>"]
    parts = tokenizer.encode_parts(["12", Trusted("3<|a b|>4"), "5"])
    whole = [*expected(*case, "123"), special, *expected(*case, "45")]
    assert parts[0] == whole == tokenizer.encode("123<|a b|>45")


@given(st.sampled_from(CASES), st.lists(texts, max_size=5), st.sampled_from([1, 3]))
def test_numbers_do_not_span_documents(
    case: tuple[str, str], documents: list[str], threads: int
) -> None:
    tokenizer = dividing(*case)
    ids = [expected(*case, document) for document in documents]
    data = "".join(documents).encode()
    ends = accumulate((len(document.encode()) for document in documents), initial=0)
    found, offsets = tokenizer.encode_buffer(data, array("q", ends), threads=threads)
    assert [found[start:end].tolist() for start, end in pairwise(offsets)] == ids


@native_only
@pytest.mark.parametrize("numbers", NUMBERS)
def test_text_with_numbers_is_not_split_in_python(numbers: str) -> None:
    encoder = dividing(numbers, "gpt2")._encoders.usual
    assert type(encoder) is type(tokenizer_of("gpt2")._encoders.usual)
    assert type(encoder).__module__ == "bpetite._engine._native"
