"""first_noncanonical: where ids differ from the ids of their text."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.vocabularies import vocabulary

from bpetite import Tokenizer
from bpetite._vocabulary import Vocabulary

END = "<|endoftext|>"

SMALL = Tokenizer.train("ab ab ab 🙂 🙂", 262)
AB, SPACE_AB, END_ID = SMALL.token_id(b"ab"), SMALL.token_id(b" ab"), SMALL.token_id(END.encode())

NORMALIZING = Tokenizer(
    Vocabulary(((0xC3, 0xA9),), {END: 257}, SMALL.patterns[0], normalizer="NFC")
)


def first_difference(tokenizer: Tokenizer, ids: list[int]) -> int | None:
    """Return the result by its definition, for ids that are UTF-8."""
    canonical = tokenizer.encode(tokenizer.decode(ids))
    if canonical == ids:
        return None
    return [one == two for one, two in zip(ids, canonical, strict=False)].index(False)


@pytest.mark.parametrize(
    ("ids", "index"),
    [
        ([], None),
        ([AB, SPACE_AB, END_ID, AB], None),
        ([END_ID, END_ID], None),
        ([97, 98], 0),
        ([AB, 32, AB], 1),
        ([AB, SPACE_AB, 97, 98, AB], 2),
        ([AB, *END.encode()], 1),
        ([0xC3], 0),
        ([AB, 0xC3], 1),
        ([97, 98, 0xC3], 0),
        ([AB, 0xC3, 97, 98], 1),
        ([AB, *"\ufffd".encode()[:2]], 1),
        ([AB, *"\ufffd".encode()[:2], 97], 1),
        ([AB, *"\ufffd".encode()], None),
    ],
)
def test_the_first_id_that_differs_is_found(ids: list[int], index: int | None) -> None:
    assert SMALL.first_noncanonical(ids) == index


@given(text=st.text() | st.lists(st.sampled_from([END, "<|", " ab", "ab", "🙂", "é"])).map("".join))
def test_the_ids_of_a_text_are_canonical(text: str) -> None:
    for tokenizer in (SMALL, NORMALIZING):
        assert tokenizer.first_noncanonical(tokenizer.encode(text)) is None


@given(ids=st.lists(st.integers(0, SMALL.n_vocab - 1) | st.sampled_from([97, 98, 32, AB, END_ID])))
def test_any_ids_differ_where_their_text_has_others(ids: list[int]) -> None:
    found = SMALL.first_noncanonical(ids)
    data = SMALL.decode_bytes(ids)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        ends = [*accumulate(len(SMALL.token_bytes(id)) for id in ids)]
        bad = next(index for index, end in enumerate(ends) if end > error.start)
        assert found is not None
        assert found <= bad
    else:
        assert found == first_difference(SMALL, ids)


@given(ids=st.lists(st.sampled_from([*"ab é🙂\ufffd".encode(), AB, SPACE_AB]), max_size=8))
def test_ids_around_characters(ids: list[int]) -> None:
    test_any_ids_differ_where_their_text_has_others.hypothesis.inner_test(ids)  # type: ignore[attr-defined]


def test_an_id_that_ends_inside_a_character_differs() -> None:
    tokenizer = Tokenizer(vocabulary({300: b"\xef\xbf", 301: b" \xf0\x9f"}, [(0xEF, 0xBF)]))
    assert tokenizer.first_noncanonical([300]) == 0
    assert tokenizer.first_noncanonical([97, 300, 98]) == 1
    assert tokenizer.first_noncanonical([97, 301]) == 1
    assert tokenizer.first_noncanonical([300, 0xBD]) is None


def test_text_that_would_be_normalized_differs() -> None:
    assert NORMALIZING.first_noncanonical([97, *"e\u0301".encode()]) == 1
    # Form C of this character is longer.
    assert NORMALIZING.first_noncanonical([97, *"\u0958".encode()]) == 2


@pytest.mark.parametrize("make", [array, np.array], ids=["array", "numpy"])
def test_ids_may_be_a_buffer(make: Callable[..., Any]) -> None:
    def buffer(ids: list[int]) -> Any:
        return array("I", ids) if make is array else np.array(ids, np.uint32)

    assert SMALL.first_noncanonical(buffer([AB, SPACE_AB])) is None
    assert SMALL.first_noncanonical(buffer([AB, 32, AB])) == 1
    assert SMALL.first_noncanonical(buffer([AB, 0xC3])) == 1


def test_ids_may_be_read_once() -> None:
    assert SMALL.first_noncanonical(id for id in [AB, 97, 98]) == 1


def test_bad_ids_raise_the_errors_of_decode() -> None:
    with pytest.raises(KeyError, match="id 1000 is not in this vocabulary"):
        SMALL.first_noncanonical([97, 1000])
    with pytest.raises(TypeError, match="got the bool True"):
        SMALL.first_noncanonical([True])
    with pytest.raises(TypeError, match="ids must be an iterable of int, got str"):
        SMALL.first_noncanonical("ab")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="ids must have an order, got set"):
        SMALL.first_noncanonical({97})
