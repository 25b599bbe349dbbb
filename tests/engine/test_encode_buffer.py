"""Documents in one buffer have the ids that `encode` gives each of them alone."""

from __future__ import annotations

from array import array
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.examples import few_examples
from support.texts import BUFFERS, mapped
from support.vocabularies import vocabulary

import bpetite
from bpetite import PATTERNS, Tokenizer
from conftest import TEXTS

A, END = "<|a|>", "<|endoftext|>"

NO_OFFSETS = "offsets must have one item more than there are documents, got none"

DTYPES_OF_OFFSETS = ["int32", "int64", "uint64"]

SWAPPED = np.dtype("int64").newbyteorder("S")


@pytest.fixture(scope="module")
def small(tokenizers: dict[str, Tokenizer]) -> Tokenizer:
    """One of the tokenizers, for tests of arguments."""
    return tokenizers["cl100k"]


NAMES = [*PATTERNS, "own", "normal form"]


def joined(
    texts: list[str], dtype: str = "int64", before: bytes = b"", behind: bytes = b""
) -> tuple[bytes, Any]:
    """Return the UTF-8 of texts, between other bytes, and their offsets."""
    encoded = [text.encode() for text in texts]
    offsets = accumulate(map(len, encoded), initial=len(before))
    return before + b"".join(encoded) + behind, np.array([*offsets], dtype)


def parts(result: tuple[memoryview, memoryview]) -> list[list[int]]:
    """Return the ids of each document."""
    ids, offsets = result
    starts = offsets.tolist()
    assert (starts[0], starts[-1], offsets.format) == (0, len(ids), "Q")
    return [ids[start:end].tolist() for start, end in pairwise(starts)]


# The ids of each document

WORDS = [
    *("a", " a", "the", " the", "S", "'s", "'LL", "l", "中文", "你好世界", "日本", "1", "123", "½"),
    *(" ", "  ", "\n", "\r\n", " \n ", "\t", "\u3000", "\xa0", "!", "...", "/", "é", "e\u0301"),
    *("\u0301", "🙂", "’", "<|", A, END, "word " * 12, "中" * 40, "x" * 70, "-" * 66),
]
"""Words whose pieces depend on what follows: a document's end must count as the end of a text."""

any_document = st.lists(st.sampled_from(WORDS), max_size=6).map("".join)


@pytest.mark.parametrize("name", NAMES)
def test_all_texts_have_their_own_ids(tokenizers: dict[str, Tokenizer], name: str) -> None:
    tokenizer, texts = tokenizers[name], [*TEXTS.values()]
    data, offsets = joined(texts)
    found = parts(tokenizer.encode_buffer(data, offsets))
    assert dict(zip(TEXTS, found, strict=True)) == {
        key: tokenizer.encode_ordinary(text) for key, text in TEXTS.items()
    }
    found = parts(tokenizer.encode_buffer(data, offsets, allowed_special="all"))
    assert found == [tokenizer.encode(text) for text in texts]


@pytest.mark.parametrize("name", NAMES)
@few_examples
@given(st.lists(any_document, max_size=40), st.sampled_from(["all", (), {A}]))
@example(["a ", " a", " ", "\n", "\n ", "a"], ())
@example(["'", "s", "a'", "ll", "1", "2", "34"], ())
@example(["e", "\u0301", "!", "\n", "/", "\n"], ())
@example(["<|endof", "text|>"], "all")
def test_neighbours_do_not_change_ids(
    tokenizers: dict[str, Tokenizer], name: str, texts: list[str], allowed: Any
) -> None:
    tokenizer = tokenizers[name]
    expected = [tokenizer.encode(text, allowed_special=allowed) for text in texts]
    found = parts(tokenizer.encode_buffer(*joined(texts), allowed_special=allowed))
    assert found == expected
    assert parts(tokenizer.encode_batch(texts, allowed_special=allowed, dtype="uint32")) == expected
    assert tokenizer.encode_batch(texts, allowed_special=allowed) == expected


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("size", [1, 2, 7, 30, 61, 62, 63, 64, 65, 127, 128, 600])
def test_documents_of_all_sizes_have_their_ids(
    tokenizers: dict[str, Tokenizer], name: str, size: int
) -> None:
    tokenizer, text = tokenizers[name], " ".join(text[:150] for text in TEXTS.values())
    texts = [text[i : i + size] for i in range(0, len(text), size)]
    found = parts(tokenizer.encode_buffer(*joined(texts)))
    assert found == [tokenizer.encode_ordinary(text) for text in texts]


def test_long_documents_stand_between_short_ones(tokenizers: dict[str, Tokenizer]) -> None:
    tokenizer = tokenizers["llama3"]
    long = "the hen 你好 met\n" * 5000
    texts = ["a", "", long, "", "b ", " c", long[:-1], long, ""]
    expected = [tokenizer.encode_ordinary(text) for text in texts]
    for threads in (1, 2, 7, None):
        found = tokenizer.encode_buffer(*joined(texts), threads=threads)
        assert parts(found) == expected


@pytest.mark.parametrize("count", [0, 1, 2, 1000])
@pytest.mark.parametrize("end", [None, END])
def test_empty_documents_have_ranges(small: Tokenizer, count: int, end: str | None) -> None:
    ids = [] if end is None else [small.special_tokens[END]]
    found = small.encode_buffer(b"", array("q", [0] * (count + 1)), end=end)
    assert parts(found) == [ids] * count


def test_many_documents_have_the_same_ids_by_threads(small: Tokenizer) -> None:
    count = 1500 if bpetite.engine == "native" else 100
    texts = [f"Document {i}: the hen's\n" * (i % 50) for i in range(count)]
    data, offsets = joined(texts)
    expected = small.encode_buffer(data, offsets, begin=A, end=END)
    assert parts(expected)[:9] == [
        [small.special_tokens[A], *small.encode(text), small.special_tokens[END]]
        for text in texts[:9]
    ]
    for threads in (2, 3, None):
        assert small.encode_buffer(data, offsets, begin=A, end=END, threads=threads) == expected


# The buffers


@pytest.mark.parametrize("dtype", DTYPES_OF_OFFSETS)
@pytest.mark.parametrize("make", [lambda offsets: offsets, memoryview], ids=["numpy", "view"])
def test_offsets_may_be_of_these_types(small: Tokenizer, dtype: str, make: Any) -> None:
    texts = ["ab ab", "", "é"]
    data, offsets = joined(texts, dtype)
    assert parts(small.encode_buffer(data, make(offsets))) == [*map(small.encode, texts)]


@pytest.mark.parametrize("typecode", "ilqLQ")
def test_offsets_may_be_an_array(small: Tokenizer, typecode: str) -> None:
    assert parts(small.encode_buffer(b"ab c", array(typecode, [0, 2, 4]))) == [
        small.encode("ab"),
        small.encode(" c"),
    ]


@pytest.mark.parametrize("kind", BUFFERS)
def test_data_may_be_any_buffer(small: Tokenizer, kind: str) -> None:
    texts = ["ab é", "", " 你好"]
    data, offsets = joined(texts)
    assert parts(small.encode_buffer(BUFFERS[kind](data), offsets)) == [*map(small.encode, texts)]
    assert parts(small.encode_buffer(BUFFERS[kind](b""), array("i", [0, 0]))) == [[]]


@pytest.mark.parametrize("dtype", DTYPES_OF_OFFSETS)
def test_offsets_need_not_begin_at_zero(small: Tokenizer, dtype: str) -> None:
    """Bytes before the first document and after the last are not read."""
    texts = ["ab", "", "é"]
    data, offsets = joined(texts, dtype, before=b"\xff\xc3", behind=b"\xa9\xff")
    assert parts(small.encode_buffer(data, offsets)) == [*map(small.encode, texts)]
    assert parts(small.encode_buffer(data, offsets[1:])) == [*map(small.encode, texts[1:])]
    assert parts(small.encode_buffer(data, offsets[-1:])) == []


def test_unaligned_offsets_are_read(small: Tokenizer) -> None:
    memory = b"-" + np.array([0, 1, 3], "int64").tobytes()
    offsets = memoryview(memory)[1:].cast("q")
    assert parts(small.encode_buffer(b"abc", offsets)) == [small.encode("a"), small.encode("bc")]


def test_buffers_are_free_after_the_call(small: Tokenizer) -> None:
    data, offsets, memory = bytearray(b"ab"), array("q", [0, 2]), mapped(b"ab")
    small.encode_buffer(data, offsets)
    small.encode_buffer(memory, offsets)
    with pytest.raises(UnicodeDecodeError):
        small.encode_buffer(bytearray(b"\xff"), array("q", [0, 1]))
    data.clear()  # a BufferError, if a view is left
    offsets.pop()
    memory.close()  # type: ignore[union-attr]


@pytest.mark.parametrize(("dtype", "form"), [("uint32", "I"), ("uint16", "H")])
def test_ids_are_of_the_dtype_asked_for(small: Tokenizer, dtype: Any, form: str) -> None:
    ids, offsets = small.encode_buffer(*joined(["ab", "the hen"]), dtype=dtype, end=END)
    assert (ids.format, offsets.format) == (form, "Q")
    assert (ids.readonly, offsets.readonly) == (False, False)
    assert ids.tolist() == small.encode(f"ab{END}") + small.encode(f"the hen{END}")
    assert np.shares_memory(np.asarray(ids), ids)


def test_a_dtype_that_is_too_small_is_refused() -> None:
    tokenizer = Tokenizer(vocabulary({}, [], special_tokens={END: 65_536}))
    with pytest.raises(ValueError, match=r"^dtype uint16 holds ids up to 65535"):
        tokenizer.encode_buffer(b"", array("q", [0]), dtype="uint16")


# Ids around each document


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("by_id", [False, True], ids=["literals", "ids"])
def test_begin_and_end_stand_around_documents(
    tokenizers: dict[str, Tokenizer], name: str, by_id: bool
) -> None:
    tokenizer, texts = tokenizers[name], ["ab", "", f"c{A}d", " é"]
    special = tokenizer.special_tokens
    begin, end = (special[A], np.int64(special[END])) if by_id else (A, END)
    data, offsets = joined(texts)
    for around in ({"begin": begin, "end": end}, {"begin": begin}, {"end": end}):
        prefix = [special[A]] if "begin" in around else []
        suffix = [special[END]] if "end" in around else []
        for allowed in ((), "all"):
            expected = [
                prefix + tokenizer.encode(text, allowed_special=allowed) + suffix for text in texts
            ]
            options: Any = {**around, "allowed_special": allowed}
            assert parts(tokenizer.encode_buffer(data, offsets, **options)) == expected


def test_begin_may_be_the_id_of_any_token(small: Tokenizer) -> None:
    assert parts(small.encode_buffer(*joined(["a", ""]), begin=97, end=0)) == [
        [97, 97, 0],
        [97, 0],
    ]


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ("<|b|>", ValueError, "{} is '<|b|>', which is not a special token of this vocabulary "),
        ("", ValueError, "{} is '', which is not a special token of this vocabulary "),
        (422, ValueError, "{} is 422, which is not an id of this vocabulary"),
        (-1, ValueError, "{} is -1, which is not an id of this vocabulary"),
        (1.0, TypeError, "{} must be a special literal, an id or None, got float"),
        (True, TypeError, "{} must be a special literal, an id or None, got bool"),
        (b"<|a|>", TypeError, "{} must be a special literal, an id or None, got bytes"),
    ],
)
@pytest.mark.parametrize("name", ["begin", "end"])
def test_a_wrong_begin_or_end_is_refused(
    small: Tokenizer, name: str, value: Any, error: type[Exception], message: str
) -> None:
    options = {name: value}
    with pytest.raises(error) as caught:
        small.encode_buffer(b"", array("q", [0]), **options)
    assert str(caught.value).startswith(message.format(name))


# Special literals in the data


def test_special_literals_are_text_by_default(small: Tokenizer) -> None:
    texts = [f"a{END}b", END, A + A, f"{END}\n{A}"]
    data, offsets = joined(texts)
    assert parts(small.encode_buffer(data, offsets)) == [*map(small.encode_ordinary, texts)]
    choices: list[Any] = [(), {A}, [END], "all", frozenset({A, END})]
    for allowed in choices:
        expected = [small.encode(text, allowed_special=allowed) for text in texts]
        found = small.encode_buffer(data, offsets, allowed_special=allowed)
        assert parts(found) == expected


def test_a_literal_across_an_end_is_text(small: Tokenizer) -> None:
    for at in range(1, len(END)):
        texts = [f"a{END[:at]}", f"{END[at:]}b"]
        found = parts(small.encode_buffer(*joined(texts), allowed_special="all"))
        assert found == [*map(small.encode_ordinary, texts)]


def test_an_unknown_special_token_is_refused(small: Tokenizer) -> None:
    with pytest.raises(ValueError, match=r"^allowed_special has '<\|b\|>', which is not"):
        small.encode_buffer(b"", array("q", [0]), allowed_special={"<|b|>"})


# Wrong input


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([0, 3, 2, 7], "offsets[2] is 2, below offsets[1], which is 3: document 1 ends before it "),
        ([7, 0], "offsets[1] is 0, below offsets[0], which is 7: document 0 ends before it begins"),
        ([0, 2, 8], "offsets[2] is 8, but data has 7 bytes: document 1 exceeds it; pass offsets "),
        ([8], "offsets[0] is 8, but data has 7 bytes: document 0 exceeds it"),
        ([-1, 2], "offsets[0] is -1: document 0 begins before the first byte; offsets are "),
        ([0, -1], "offsets[1] is -1, below offsets[0], which is 0: document 0 ends before it "),
        ([0, 2**31 - 1], "offsets[1] is 2147483647, but data has 7 bytes: document 0 exceeds it"),
        ([-(2**31)], "offsets[0] is -2147483648: document 0 begins before the first byte"),
        ([], NO_OFFSETS),
    ],
)
def test_wrong_offsets_name_their_document(
    small: Tokenizer, offsets: list[int], message: str
) -> None:
    for dtype in ("int32", "int64", "uint64"):
        if dtype != "uint64" or min(offsets, default=0) >= 0:
            with pytest.raises(ValueError) as caught:  # noqa: PT011 - compared below
                small.encode_buffer(b"a b c d", np.array(offsets, dtype))
            assert str(caught.value).startswith(message)


def test_offsets_of_64_bits_are_compared_whole(small: Tokenizer) -> None:
    for offset in (2**32, 2**63, 2**64 - 1):
        with pytest.raises(ValueError, match=f"^offsets\\[1\\] is {offset}, but data has 7 bytes"):
            small.encode_buffer(b"a b c d", np.array([0, offset], "uint64"))


@pytest.mark.parametrize("value", [[0, 2], (0, 2), None, 2, "02"], ids=repr)
def test_offsets_that_are_no_buffer_are_refused(small: Tokenizer, value: Any) -> None:
    with pytest.raises(TypeError) as caught:
        small.encode_buffer(b"ab", value)
    assert str(caught.value) == (
        f"offsets must be a buffer of int32, int64 or uint64, got {type(value).__name__}; for a "
        f'list, pass array.array("q", offsets)'
    )


@pytest.mark.parametrize(
    ("offsets", "fault"),
    [
        (np.array([0, 2], "int16"), "ndarray of the format 'h'"),
        (np.array([0, 2], "uint32"), "ndarray of the format 'I'"),
        (np.array([0, 2], "float64"), "ndarray of the format 'd'"),
        (np.array([0, 2], SWAPPED), f"ndarray of the format '{SWAPPED.byteorder}q'"),
        (np.array([0, 2], bool), "ndarray of the format '?'"),
        (np.zeros((2, 1), "int64"), "ndarray with 2 dimensions"),
        (np.array([0, 1, 2], "int64")[::2], "ndarray with gaps"),
        (bytes(8), "bytes of the format 'B'"),
    ],
    ids=["int16", "uint32", "float64", "swapped", "bool", "2d", "gaps", "bytes"],
)
def test_other_buffers_of_offsets_are_refused(small: Tokenizer, offsets: Any, fault: str) -> None:
    with pytest.raises(TypeError) as caught:
        small.encode_buffer(b"ab", offsets)
    assert f"offsets must be a buffer of int32, int64 or uint64, got {fault}; " in str(caught.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("ab", "data must be bytes-like, got str; encode a str as UTF-8"),
        (None, "data must be bytes-like, got NoneType; encode a str as UTF-8"),
        ([97], "data must be bytes-like, got list; encode a str as UTF-8"),
        (array("H", [97]), "data must be bytes, got array with items of 2 bytes; "),
        (np.zeros((1, 2), "uint8"), "data must be bytes-like, got ndarray with 2 dimensions; "),
        (memoryview(b"abab")[::2], "data must be bytes-like, got memoryview with gaps; "),
    ],
)
def test_data_that_is_no_bytes_is_refused(small: Tokenizer, data: Any, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        small.encode_buffer(data, array("q", [0, 2]))
    assert str(caught.value).startswith(message)


class Bad(NamedTuple):
    """Bytes that are not UTF-8, and the error that they cause."""

    data: bytes
    offsets: list[int]
    document: int
    start: int
    reason: str


BAD = {
    "a wrong byte": Bad(b"ab\xffcd", [0, 1, 4, 5], 1, 1, "invalid start byte"),
    "a document that begins inside": Bad("aéb".encode(), [0, 2, 4], 0, 1, "unexpected end of data"),
    "a first one that begins inside": Bad("aéb".encode(), [2, 4], 0, 0, "invalid start byte"),
    "a last one that ends inside": Bad("aé".encode(), [0, 1, 2], 1, 0, "unexpected end of data"),
    "an empty one inside": Bad("é".encode(), [0, 1, 1, 2], 0, 0, "unexpected end of data"),
    "an end inside four bytes": Bad("🙂".encode(), [0, 3, 4], 0, 0, "unexpected end of data"),
    "a surrogate": Bad(b"a \xed\xa0\x80", [0, 0, 5], 1, 2, "invalid continuation byte"),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
@pytest.mark.parametrize("before", [b"", b"the hen " * 9000], ids=["short", "long"])
@pytest.mark.parametrize("threads", [1, 3])
def test_bytes_not_utf8_name_their_document(
    small: Tokenizer, bad: Bad, before: bytes, threads: int
) -> None:
    begin = bad.offsets[0]
    offsets = [0] * bool(before) + [len(before) + offset for offset in bad.offsets]
    data = before + bad.data
    if before and begin:
        offsets[0] = len(before) // 2
        data = before[: len(before) // 2] + bad.data[begin:]
        offsets = [0, len(before) // 2, *(len(before) // 2 + at - begin for at in bad.offsets[1:])]
    with pytest.raises(UnicodeDecodeError) as caught:
        small.encode_buffer(data, array("q", offsets), threads=threads)
    error, number = caught.value, bad.document + bool(before)
    assert (error.start, error.reason) == (bad.start, bad.reason)
    assert error.object == data[offsets[number] : offsets[number + 1]]
    note = f"in document {number}, which begins at byte {offsets[number]} of data"
    assert error.__notes__ == [note]


# Interrupts

# Replacing invalid Unicode
