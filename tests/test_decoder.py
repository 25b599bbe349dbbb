"""Ids to bytes, bytes to text, and where in the text each token begins."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from enum import IntEnum
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpetite import Tokenizer
from bpetite._decoder import character_offsets

BYTES = Tokenizer.train("", 256)
"""A tokenizer whose only tokens are the bytes and, with id 256, <|endoftext|>."""

TEXT = "Ünïcödé ñ 你好 🙂🚀 мир שלום a\u0301 \ufffd\r\n" * 400
IDS = list(TEXT.encode())
"""Several times as many ids as are looked up at a time (4096)."""


class Id(IntEnum):
    A = 97


# Joining


def test_a_long_sequence_is_joined_in_order() -> None:
    assert len(IDS) > 4 * 4096
    assert BYTES.decode_bytes(IDS) == TEXT.encode()
    assert BYTES.decode(IDS) == TEXT


@pytest.mark.parametrize("length", [0, 1, 4095, 4096, 4097, 8191, 8192, 8193])
def test_no_id_is_lost_or_doubled_where_a_batch_ends(length: int) -> None:
    assert BYTES.decode_bytes(IDS[:length]) == TEXT.encode()[:length]


@pytest.mark.parametrize(
    "arranged",
    [tuple, deque, iter, lambda ids: (id for id in ids), lambda ids: dict.fromkeys(ids).keys()],
    ids=["tuple", "deque", "iterator", "generator", "keys"],
)
def test_any_iterable_of_ids_will_do(arranged: Callable[[list[int]], Iterable[int]]) -> None:
    assert BYTES.decode_bytes(arranged(IDS)) == bytes(arranged(IDS))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.int64, np.uint64])
def test_a_numpy_array_is_decoded_as_a_list_is(dtype: type[np.integer[Any]]) -> None:
    assert BYTES.decode(np.array(IDS, dtype=dtype)) == TEXT


def test_integers_of_any_type_may_stand_among_ints() -> None:
    ids: list[Any] = [104, np.uint8(105), Id.A] * 2000
    assert BYTES.decode_bytes(ids) == b"hia" * 2000


# Refusing


@pytest.mark.parametrize("position", [0, 4095, 4096, 9999])
@pytest.mark.parametrize("unknown", [257, -1, 1 << 70])
def test_an_unknown_id_is_named_wherever_it_is(position: int, unknown: int) -> None:
    ids = [97] * 10_000
    ids[position] = unknown
    with pytest.raises(KeyError, match=rf"id {unknown} is not in .* from 0 to 256"):
        BYTES.decode(ids)


@pytest.mark.parametrize("position", [0, 4095, 4096, 9999])
@pytest.mark.parametrize(
    "no_id",
    [True, False, 97.0, "a", b"a", None, [97], np.float64(97), np.bool_(True), 97 + 0j],
    ids=repr,
)
def test_what_is_no_integer_is_refused_wherever_it_is(position: int, no_id: Any) -> None:
    """True and 97.0 equal ids, so a look-up alone would take them for 1 and 97."""
    ids: list[Any] = [97] * 10_000
    ids[position] = no_id
    with pytest.raises(TypeError, match="id must be an integer"):
        BYTES.decode(ids)


@pytest.mark.parametrize("no_ids", ["ab", b"ab", bytearray(b"ab"), 97, None])
def test_what_is_no_iterable_of_ids_is_refused(no_ids: Any) -> None:
    with pytest.raises(TypeError, match="ids must be an iterable of int"):
        BYTES.decode(no_ids)


def test_bad_bytes_behind_the_first_batch_are_placed_in_the_whole() -> None:
    ids = [97] * 5000 + [0xE4, 0xBD, 97]
    with pytest.raises(UnicodeDecodeError) as caught:
        BYTES.decode(ids)
    assert (caught.value.object, caught.value.start, caught.value.end) == (bytes(ids), 5000, 5002)


def test_decode_bytes_returns_bytes_that_are_not_utf8() -> None:
    assert BYTES.decode_bytes([0xFF, 0xC0, 0x80]) == b"\xff\xc0\x80"


# What `errors` makes of bytes that are not UTF-8


@pytest.mark.parametrize(
    ("errors", "text"),
    [
        ("replace", "a\ufffd\ufffd\ufffdb"),
        ("ignore", "ab"),
        ("backslashreplace", r"a\xf0\x9f\xff\xc3b"),
    ],
)
def test_errors_says_what_becomes_of_bad_bytes(errors: str, text: str) -> None:
    assert BYTES.decode([97, 0xF0, 0x9F, 0xFF, 0xC3, 98], errors=errors) == text


@pytest.mark.parametrize("errors", ["surrogateescape", "xmlcharrefreplace", ""])
def test_errors_that_are_not_offered_are_refused_even_for_no_ids(errors: Any) -> None:
    with pytest.raises(ValueError, match="strict, replace, ignore, backslashreplace"):
        BYTES.decode([], errors=errors)


@pytest.mark.parametrize("errors", [None, 1])
def test_errors_of_another_type_are_refused_even_for_no_ids(errors: Any) -> None:
    with pytest.raises(TypeError, match=f"errors must be a str, got {type(errors).__name__}"):
        BYTES.decode([], errors=errors)


# Offsets


def character_of_each_byte(text: str) -> list[int]:
    """For each byte of `text` in UTF-8, and for its end, the index of the character it is in."""
    indices = [index for index, character in enumerate(text) for _ in character.encode()]
    return [*indices, len(text)]


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("aé你🙂\u0301\ufffd\n") | st.characters(codec="utf-8")), st.data())
def test_an_offset_is_the_character_of_a_tokens_first_byte(text: str, data: st.DataObject) -> None:
    encoded = text.encode()
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(encoded) - 1)))))
    bounds = [0, *(cut for cut in cuts if cut < len(encoded)), len(encoded)]
    tokens = [encoded[start:end] for start, end in pairwise(bounds)]
    character = character_of_each_byte(text)
    assert character_offsets(tokens) == [character[start] for start in bounds[:-1]]


def test_offsets_count_characters_not_bytes() -> None:
    tokenizer = Tokenizer.train("🙂 🙂 🙂", 258)
    ids = tokenizer.encode("é🙂<|endoftext|>a🙂")
    tokens = [tokenizer.token_bytes(id) for id in ids]
    assert tokens == [
        b"\xc3", b"\xa9", b"\xf0", b"\x9f\x99\x82",
        b"<|endoftext|>", b"a", b"\xf0", b"\x9f\x99\x82",
    ]  # fmt: skip
    text, offsets = tokenizer.decode_with_offsets(ids)
    assert (text, offsets) == ("é🙂<|endoftext|>a🙂", [0, 0, 1, 1, 2, 15, 16, 16])


def test_offsets_of_nothing_are_none() -> None:
    assert BYTES.decode_with_offsets([]) == ("", [])


def test_offsets_are_made_from_ids_that_can_be_read_once() -> None:
    assert BYTES.decode_with_offsets(id for id in "aé".encode()) == ("aé", [0, 1, 1])


def test_offsets_of_bytes_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(UnicodeDecodeError):
        BYTES.decode_with_offsets([97, 0xC3])
