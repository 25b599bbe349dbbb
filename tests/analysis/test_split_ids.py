"""Other ids of the same text."""

from __future__ import annotations

from array import array

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines import quick_once

from bpetite import Tokenizer
from bpetite.analysis import split_ids

pytestmark = quick_once

SMALL = Tokenizer.train("the hen then met the ten men <|endoftext|>", 264)


@given(st.text(), st.floats(0, 1), st.integers(0))
def test_split_ids_have_the_same_text(text: str, share: float, seed: int) -> None:
    ids = SMALL.encode(text + "the hen met the ten men<|endoftext|>")
    split = split_ids(SMALL, ids, share, seed=seed)
    assert SMALL.decode(split) == SMALL.decode(ids)
    assert split == split_ids(SMALL, array("I", ids), share, seed=seed)
    assert len(split) >= len(ids)


def test_split_ids_are_a_share_of_the_tokens() -> None:
    tokenizer = Tokenizer.train("ab ab ab", 257)
    ids = tokenizer.encode("ab" * 10_000)
    assert split_ids(tokenizer, ids, 0, seed=1) == ids
    assert split_ids(tokenizer, ids, 1, seed=1) == list(b"ab" * 10_000)
    assert 12_800 < len(split_ids(tokenizer, ids, 0.3, seed=1)) < 13_200
    assert split_ids(tokenizer, ids, 0.3, seed=1) != split_ids(tokenizer, ids, 0.3, seed=2)


def test_split_ids_of_numpy_are_plain() -> None:
    tokenizer = Tokenizer.train("ab ab ab", 257)
    numbers = numpy.array([97, 256, 32])
    share = numpy.float32(0.5)
    found = split_ids(tokenizer, numbers, share, seed=numbers[0])  # type: ignore[arg-type]
    assert found == split_ids(tokenizer, [97, 256, 32], 0.5, seed=97)
    assert {*map(type, found)} == {int}


def test_split_ids_refuse_what_does_not_fit() -> None:
    tokenizer = Tokenizer.train("ab ab ab", 257)
    with pytest.raises(KeyError, match="999"):
        split_ids(tokenizer, [97, 999], 0.5, seed=1)
    with pytest.raises(TypeError, match="seed must be an integer, got NoneType"):
        split_ids(tokenizer, [97], 0.5, seed=None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="seed must be at least 0, got -3"):
        split_ids(tokenizer, [97], 0.5, seed=-3)
    with pytest.raises(ValueError, match=r"share must be from 0 to 1, got 1\.5"):
        split_ids(tokenizer, [97], 1.5, seed=1)
    with pytest.raises(TypeError, match="share must be a number, got str"):
        split_ids(tokenizer, [97], "1", seed=1)  # type: ignore[arg-type]
