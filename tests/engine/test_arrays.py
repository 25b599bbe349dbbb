"""Buffers of ids equal lists of ids, and numpy uses them without a copy."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import few_examples
from support.vocabularies import vocabulary

from bpetite import Tokenizer
from bpetite._vocabulary import Vocabulary

A, END = "<|a|>", "<|endoftext|>"

SMALL = Tokenizer.train("ab ab ab", 258, special_tokens=[END, A])

FRAMED = Tokenizer(
    Vocabulary(
        SMALL.merges,
        SMALL.special_tokens,
        SMALL.patterns[0],
        prefix_ids=(259, 259),
        suffix_ids=(258,),
    )
)
"""SMALL, with ids that go before and after the ids of a text."""

DTYPES = ["uint32", "uint16"]

SWAPPED = np.dtype("uint16").newbyteorder("S")

OPTIONS: list[dict[str, Any]] = [
    {},
    {"allowed_special": ()},
    {"allowed_special": {A}},
    {"add_special_tokens": True},
    {"allowed_special": {END}, "add_special_tokens": True},
    {"allowed_special": (), "disallowed_special": (), "add_special_tokens": True},
]

any_texts = st.lists(
    st.lists(
        st.sampled_from(["ab", " ab", "a", " ", "\n", "é", "🙂", "<|", A, END])
        | st.text(max_size=3).filter(lambda text: text.isprintable())
    ).map("".join),
    max_size=6,
)

# One text


@pytest.mark.parametrize(("dtype", "form", "size"), [("uint32", "I", 4), ("uint16", "H", 2)])
@pytest.mark.parametrize("text", ["", "ab", f"ab {END}{A}", "ab ab\n" * 4_000])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_an_array_is_of_the_type_that_is_asked_for(
    dtype: Any, form: str, size: int, text: str, options: dict[str, Any]
) -> None:
    ids = FRAMED.encode(text, dtype=dtype, **options)
    batch, offsets = FRAMED.encode_batch([text, text], dtype=dtype, **options)
    assert (type(ids), type(batch), type(offsets)) == (memoryview,) * 3
    assert {(view.format, view.itemsize, view.ndim) for view in (ids, batch)} == {(form, size, 1)}
    assert (offsets.format, offsets.itemsize, offsets.ndim) == ("Q", 8, 1)
    assert {view.c_contiguous for view in (ids, batch, offsets)} == {True}
    assert {view.readonly for view in (ids, batch, offsets)} == {False}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("text", ["", "ab ab", "ab ab\n" * 4_000])
def test_numpy_sees_the_ids_without_a_copy(dtype: Any, text: str) -> None:
    view = SMALL.encode(text, dtype=dtype)
    ids = np.asarray(view)
    assert ids.dtype == np.dtype(dtype)
    assert ids.tolist() == SMALL.encode(text)
    ids[:1] = 7
    assert view[:1].tolist() == ids[:1].tolist()
    assert np.shares_memory(ids, np.asarray(view)) == (text != "")


def test_numpy_sees_a_batch_without_a_copy() -> None:
    views = SMALL.encode_batch(["ab", "", "ab ab"], dtype="uint16")
    ids, offsets = map(np.asarray, views)
    assert (ids.dtype, offsets.dtype) == (np.dtype("uint16"), np.dtype("uint64"))
    assert [part.tolist() for part in np.split(ids, offsets[1:-1].astype(int))] == [
        [256],
        [],
        [256, 257],
    ]
    ids[0] = offsets[0] = 5
    assert (views[0][0], views[1][0]) == (5, 5)


def test_ids_outlive_all_that_they_came_from() -> None:
    ids = np.asarray(Tokenizer.train("ab ab", 257).encode(bytearray(b"ab" * 5000), dtype="uint32"))
    assert ids.tolist() == [256] * 5000


def test_results_belong_to_the_caller() -> None:
    first, (batch, _) = (
        SMALL.encode("ab", dtype="uint32"),
        SMALL.encode_batch(["ab"], dtype="uint32"),
    )
    first[0] = batch[0] = 0
    assert SMALL.encode("ab", dtype="uint32").tolist() == SMALL.encode("ab") == [256]


# Many texts


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@few_examples
@given(texts=any_texts)
def test_arrays_have_the_ids_of_lists(
    dtype: Any, options: dict[str, Any], texts: list[str]
) -> None:
    batch = [FRAMED.encode(text, **options) for text in texts]
    ids, offsets = FRAMED.encode_batch(texts, dtype=dtype, **options)
    starts = offsets.tolist()
    assert (starts[0], starts[-1], len(starts)) == (0, len(ids), len(texts) + 1)
    assert [ids[i:j].tolist() for i, j in pairwise(starts)] == batch
    alone = [FRAMED.encode(text, dtype=dtype, **options).tolist() for text in texts]
    assert alone == batch
    assert FRAMED.encode_batch(texts, **options) == batch


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_arrays_of_no_texts_have_one_offset(options: dict[str, Any]) -> None:
    ids, offsets = FRAMED.encode_batch([], dtype="uint32", **options)
    assert (ids.tolist(), offsets.tolist()) == ([], [0])
    assert np.asarray(ids).dtype == np.uint32
    assert FRAMED.encode_batch([], **options) == []


def test_the_arrays_of_empty_texts_have_an_offset_each() -> None:
    ids, offsets = SMALL.encode_batch(["", b"", ""], dtype="uint32")
    assert (ids.tolist(), offsets.tolist()) == ([], [0, 0, 0, 0])


@pytest.mark.parametrize("make", [list, tuple, iter])
def test_a_batch_may_be_any_iterable(make: Any) -> None:
    texts = ["ab", f"a{END}", "", "é"]
    ids, offsets = SMALL.encode_batch(make(texts), dtype="uint32")
    assert (ids.tolist(), offsets.tolist()) == ([256, 97, 258, 195, 169], [0, 1, 3, 3, 5])
    assert SMALL.encode_batch(make(texts)) == [[256], [97, 258], [], [195, 169]]


# Types of arrays


@pytest.mark.parametrize(("highest", "fits"), [(65_535, True), (65_536, False), (2**32 - 1, False)])
def test_two_bytes_hold_ids_up_to_65535(highest: int, fits: bool) -> None:
    tokenizer = Tokenizer(vocabulary({300: b"ab"}, [(97, 98)], special_tokens={END: highest}))
    text = f"ab{END}"
    assert tokenizer.encode(text, dtype="uint32").tolist() == [300, highest]
    if fits:
        assert tokenizer.encode(text, dtype="uint16").tolist() == [300, highest]
        return
    for refused in (tokenizer.encode, tokenizer.encode_batch):
        with pytest.raises(ValueError, match="uint16") as caught:
            refused("", dtype="uint16")
        assert str(caught.value) == (
            f"dtype uint16 holds ids up to 65535, but this vocabulary has ids up to {highest}; "
            f"use uint32"
        )


@pytest.mark.parametrize("dtype", ["int32", "uint8", "I", "", "uint64"])
def test_another_dtype_is_refused(dtype: Any) -> None:
    with pytest.raises(ValueError, match=f"^dtype must be uint32 or uint16, got {dtype!r}$"):
        SMALL.encode("ab", dtype=dtype)
    with pytest.raises(ValueError, match=f"^dtype must be uint32 or uint16, got {dtype!r}$"):
        SMALL.encode_batch(["ab"], dtype=dtype)


@pytest.mark.parametrize("dtype", [4, b"uint32", int, np.uint8, SWAPPED], ids=str)
def test_a_wrong_type_of_dtype_is_refused(dtype: Any) -> None:
    with pytest.raises(TypeError) as caught:
        SMALL.encode("ab", dtype=dtype)
    assert str(caught.value) == f"dtype must be uint32 or uint16, got {dtype!r}"


@pytest.mark.parametrize("name", ["uint16", "uint32"])
def test_a_dtype_may_be_numpys_type_or_dtype(name: str) -> None:
    dtypes: list[Any] = [name, getattr(np, name), np.dtype(name)]
    arrays = [SMALL.encode("ab", dtype=dtype) for dtype in dtypes]
    assert arrays[1:] == [arrays[0]] * 2
    assert {array.itemsize for array in arrays} == {np.dtype(name).itemsize}
