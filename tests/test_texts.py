"""A str and its UTF-8 in any buffer have the same ids; other types than text are refused."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.peers import as_tiktoken
from support.texts import BUFFERS, CALLS, FORMS, mapped

from bpetite import Tokenizer
from bpetite._vocabulary import Vocabulary

A, END = "<|a|>", "<|endoftext|>"

SMALL = Tokenizer.train("ab ab ab", 258, special_tokens=[END, A])

TIKTOKEN = as_tiktoken(SMALL)

TEXT = f"ab é{END} 🙂 {A}\n  ab 你"

call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
buffer = pytest.mark.parametrize("buffer", BUFFERS.values(), ids=BUFFERS.keys())

# What a buffer is


def test_a_buffer_has_the_ids_of_its_text(tokenizer: Tokenizer, text_case: str) -> None:
    found = {
        (kind, way): form(tokenizer, make(text_case.encode()))
        for kind, make in BUFFERS.items()
        for way, form in FORMS.items()
    }
    assert found == dict.fromkeys(found, tokenizer.encode(text_case))


def test_a_buffer_has_the_count_and_ordinary_ids_of_its_text(
    tokenizer: Tokenizer, text_case: str
) -> None:
    expected = tokenizer.count(text_case), tokenizer.encode_ordinary(text_case)
    for make in BUFFERS.values():
        data = make(text_case.encode())
        assert (tokenizer.count(data), tokenizer.encode_ordinary(data)) == expected


@pytest.mark.parametrize("allowed", ["all", (), {END}, {A}, [A, END]], ids=str)
def test_a_buffer_has_the_special_tokens_of_its_text(allowed: Any) -> None:
    found = {
        (kind, way): form(SMALL, make(TEXT.encode()), allowed_special=allowed)
        for kind, make in BUFFERS.items()
        for way, form in FORMS.items()
    }
    assert found == dict.fromkeys(found, SMALL.encode(TEXT, allowed_special=allowed))


def test_a_buffer_is_normalized() -> None:
    tokenizer = Tokenizer(Vocabulary(((0xC3, 0xA9),), {}, SMALL.patterns[0], normalizer="NFC"))
    assert tokenizer.encode(b"e\xcc\x81") == tokenizer.encode("e\u0301") == [256]


def test_a_byte_order_mark_is_text() -> None:
    assert SMALL.encode(b"\xef\xbb\xbfab") == SMALL.encode("\ufeffab") == [*b"\xef\xbb\xbf", 256]


def test_a_batch_may_have_texts_of_every_kind() -> None:
    texts = [TEXT, *(make(TEXT.encode()) for make in BUFFERS.values())]
    assert SMALL.encode_batch(texts) == [SMALL.encode(TEXT)] * len(texts)


@call
def test_a_buffer_is_free_again_after_the_call(call: Callable[[Tokenizer, Any], object]) -> None:
    data, memory = bytearray(b"ab ab"), mapped(b"ab ab")
    call(SMALL, data)
    call(SMALL, memory)
    data.clear()  # a BufferError, if somebody still looks at it
    memory.close()  # type: ignore[union-attr]
    assert data == b""


@call
def test_a_buffer_is_free_again_after_an_error(call: Callable[[Tokenizer, Any], object]) -> None:
    data = bytearray(b"ab \xff")
    with pytest.raises(UnicodeDecodeError) as caught:
        call(SMALL, data)
    data.clear()
    assert caught.value.object == b"ab \xff"


# What is not UTF-8

BEFORE = {
    "nothing": b"",
    "a letter": b"a",
    "63 bytes": b"a b " * 15 + b"abc",
    "64 bytes": b"a b " * 16,
    "65 bytes": "é".encode() * 32 + b"a",
    "special tokens": f"{END}a{A}".encode(),
    "several blocks": "word 你好 ".encode() * 2000,
    "a long piece": b"a" * 9000,
    "much": b"the hen then met the ten men\n" * 7000,
}

BAD = {
    "no first byte": b"\xff ab",
    "a byte that continues": b"\x80ab",
    "the rest of a character is missing": b"\xc3 ab",
    "an overlong character": b"\xc0\xaf",
    "a surrogate": b"\xed\xa0\x80",
    "two surrogates": b"\xed\xa0\xbd\xed\xb9\x82 ab",
    "above the last character": b"\xf4\x90\x80\x80",
    "two bytes, of which one is there": b"\xc3",
    "three bytes, of which one is there": b"\xe4",
    "three bytes, of which two are there": b"\xe4\xbd",
    "four bytes, of which three are there": b"\xf0\x9f\x99",
}


def decoding_error(function: Callable[[Any], object], data: Any) -> tuple[object, ...]:
    """Return all that the error says which bytes that are not UTF-8 cause."""
    with pytest.raises(UnicodeDecodeError) as caught:
        function(data)
    error = caught.value
    return error.encoding, error.object, error.start, error.end, error.reason


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE.keys())
def test_bytes_not_utf8_have_their_position_in_the_buffer(before: bytes) -> None:
    for bad in BAD.values():
        data = before + bad
        error = decoding_error(bytes.decode, data)
        assert error[2] == len(before)
        found = {way: decoding_error(partial(call, SMALL), data) for way, call in CALLS.items()}
        assert found == dict.fromkeys(CALLS, error)


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE.keys())
def test_a_lone_surrogate_is_placed_in_the_text(before: bytes) -> None:
    for surrogate, call in product(["\udfff", "\ud83d\ude42"], CALLS.values()):
        text = f"{before.decode()}{surrogate} ab{END}"
        with pytest.raises(UnicodeEncodeError) as caught:
            call(SMALL, text)
        assert (caught.value.object, caught.value.start) == (text, len(before.decode()))


@buffer
def test_bytes_not_utf8_are_refused_in_every_buffer(
    buffer: Callable[[bytes], Any],
) -> None:
    data = b"ab \xe4\xbd"
    error = decoding_error(SMALL.encode, buffer(data))
    assert error == ("utf-8", data, 3, 5, "unexpected end of data")


@given(
    st.lists(
        st.binary(max_size=4)
        | st.sampled_from([b"ab", b" ", "é".encode(), "你".encode(), END.encode(), b"\xed\xa0\x80"])
    ).map(b"".join)
)
def test_bytes_have_the_ids_of_their_text_or_its_error(data: bytes) -> None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        error = decoding_error(bytes.decode, data)
        assert decoding_error(SMALL.encode, data) == error
        assert decoding_error(partial(SMALL.encode, dtype="uint32"), data) == error
        assert decoding_error(SMALL.count, data) == error
    else:
        ids = SMALL.encode(text)
        assert (SMALL.encode(data), SMALL.encode(data, dtype="uint32").tolist()) == (ids, ids)
        assert SMALL.count(data) == len(ids)


# What is not Unicode, replaced

REPLACING: dict[str, Callable[..., object]] = {
    **FORMS,
    "encode_ordinary": Tokenizer.encode_ordinary,
    "encode_with_offsets": Tokenizer.encode_with_offsets,
    "encode_with_offsets in bytes": partial(Tokenizer.encode_with_offsets, unit="bytes"),
    "encode_with_offsets to arrays": lambda *args, **options: [
        view.tolist() for view in Tokenizer.encode_with_offsets(*args, dtype="uint32", **options)
    ],
    "encode with a literal allowed": partial(Tokenizer.encode, allowed_special={A}),
    "encode to an array with nothing allowed": lambda *args, **options: Tokenizer.encode(
        *args, dtype="uint32", allowed_special=(), **options
    ).tolist(),
    **{
        f"{name} with a literal allowed": partial(FORMS[name], allowed_special={A})
        for name in ("encode_batch", "encode_batch to arrays")
    },
    "count": Tokenizer.count,
    "fits": lambda tokenizer, text, **options: [
        tokenizer.fits(text, size, **options) for size in range(9)
    ],
    "truncate": lambda tokenizer, text, **options: tokenizer.truncate(text, 4, **options),
    "truncate to the end": lambda tokenizer, text, **options: tokenizer.truncate(
        text, 4, keep="end", **options
    ),
    "chunks": lambda tokenizer, text, **options: [*tokenizer.chunks(text, 4, **options)],
}
"""Every call that takes one text and `errors`."""

replacing = pytest.mark.parametrize("call", REPLACING.values(), ids=REPLACING.keys())

half_as_many_examples = settings(max_examples=settings().max_examples // 2)

bad_strings = st.lists(
    st.sampled_from([A, END, "ab ", "🙂", "é", "\ud83d", "\ude42", "\ud83d\ude42", "\ufeff"])
).map("".join)


@replacing
@half_as_many_examples
@given(text=bad_strings)
@example(text="")
def test_errors_replace_encodes_the_text_after_replacement(
    call: Callable[..., object], text: str
) -> None:
    # tiktoken replaces in this way.
    replaced = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert call(SMALL, text, errors="replace") == call(SMALL, replaced)


@replacing
@half_as_many_examples
@given(data=st.lists(st.binary(max_size=3) | st.sampled_from([b"ab", "🙂".encode()])).map(b"".join))
def test_errors_replace_decodes_bytes_that_are_not_utf8(
    call: Callable[..., object], data: bytes
) -> None:
    expected = call(SMALL, data.decode(errors="replace"))
    assert call(SMALL, data, errors="replace") == expected
    assert call(SMALL, memoryview(data), errors="replace") == expected


@given(text=bad_strings)
def test_replaced_ids_match_a_batch_and_of_tiktoken(text: str) -> None:
    ids = SMALL.encode(text, errors="replace")
    assert [ids] == SMALL.encode_batch([text], errors="replace")
    assert ids == TIKTOKEN.encode(text, allowed_special="all")


@replacing
def test_errors_are_strict_unless_they_are_replaced(call: Callable[..., object]) -> None:
    for bad in ("ab\ud800", b"ab\xff"):
        for options in ({}, {"errors": "strict"}):
            with pytest.raises(UnicodeError):
                call(SMALL, bad, **options)
    with pytest.raises(ValueError, match=r"^errors must be strict or replace, got 'ignore'$"):
        call(SMALL, "ab", errors="ignore")
    with pytest.raises(TypeError, match=r"^errors must be a str, got NoneType$"):
        call(SMALL, "ab", errors=None)
    with pytest.raises(TypeError, match=r"^text must be a str or bytes-like, got int"):
        call(SMALL, 7, errors="replace")


def test_a_disallowed_literal_after_a_surrogate_is_refused() -> None:
    calls: list[Callable[..., object]] = [*FORMS.values(), Tokenizer.count]
    for call in calls:
        with pytest.raises(ValueError, match=r"special token '<\|a\|>' at character 1"):
            call(SMALL, f"\ud800{A}", errors="replace", disallowed_special={A}, allowed_special=())


# What is no text

CHARACTERS = np.array([[97, 98], [32, 97]], np.uint8)

NO_TEXT = {
    "None": (None, "a str or bytes-like, got NoneType"),
    "int": (5, "a str or bytes-like, got int"),
    "list of str": (["ab"], "a str or bytes-like, got list"),
    "list of bytes": ([97], "a str or bytes-like, got list"),
    "type": (str, "a str or bytes-like, got type"),
    "array of two bytes": (
        array("H", [97]),
        "contiguous bytes, got array with items of 2",
    ),
    "empty array of four": (array("I"), "contiguous bytes, got array with items of 4"),
    "memoryview of eight": (
        memoryview(array("Q", [97])),
        "contiguous bytes, got memoryview with items of 8",
    ),
    "memoryview with gaps": (
        memoryview(b"abcd")[::2],
        "contiguous bytes, got memoryview with gaps",
    ),
    "memoryview backwards": (
        memoryview(b"abcd")[::-1],
        "contiguous bytes, got memoryview with gaps",
    ),
    "two dimensions": (CHARACTERS, "contiguous bytes, got ndarray with 2 dimensions"),
    "a column": (CHARACTERS[:, 0], "contiguous bytes, got ndarray with gaps"),
    "one number": (np.uint8(97), "contiguous bytes, got uint8 with 0 dimensions"),
}


@pytest.mark.parametrize(("text", "what"), NO_TEXT.values(), ids=NO_TEXT.keys())
@call
def test_the_type_of_a_value_that_is_no_text_is_named(
    call: Callable[[Tokenizer, Any], object], text: Any, what: str
) -> None:
    with pytest.raises(TypeError) as caught:
        call(SMALL, text)
    assert str(caught.value).removesuffix(" bytes") == f"text must be {what}"


@call
def test_a_buffer_that_is_closed_is_refused(call: Callable[[Tokenizer, Any], object]) -> None:
    memory, view = mapped(b"ab"), memoryview(b"ab")
    memory.close()  # type: ignore[union-attr]
    view.release()
    for closed in (memory, view):
        with pytest.raises(ValueError, match=r"closed|released"):
            call(SMALL, closed)


@pytest.mark.parametrize(
    "bad", [None, b"\xff", "\ud800", memoryview(b"abcd")[::2]], ids=["None", "bytes", "str", "gaps"]
)
@pytest.mark.parametrize("dtype", [None, "uint32"])
@pytest.mark.parametrize("options", [{}, {"allowed_special": {A}}, {"disallowed_special": {A}}])
def test_a_note_names_the_first_text_of_a_batch_that_is_refused(
    dtype: Any, bad: Any, options: dict[str, Any]
) -> None:
    with pytest.raises((TypeError, UnicodeError)) as alone:
        SMALL.encode(bad)
    texts: list[Any] = ["ab", b"ab", bad, 5, bad]
    with pytest.raises(type(alone.value)) as caught:
        SMALL.encode_batch(texts, dtype=dtype, **options)
    assert str(caught.value) == str(alone.value)
    assert caught.value.__notes__ == ["in text 2 of the batch"]


@pytest.mark.parametrize("dtype", [None, "uint32"])
@pytest.mark.parametrize("name", ["allowed_special", "disallowed_special"])
def test_a_bad_text_of_a_batch_hides_no_wrong_argument(dtype: Any, name: str) -> None:
    options: Any = {"dtype": dtype, name: "<b>"}
    with pytest.raises(TypeError, match=f"^{name} must be .* got the str '<b>'"):
        SMALL.encode_batch([b"\xff"], **options)


@call
def test_an_error_leaves_all_as_it_was(call: Callable[[Tokenizer, Any], object]) -> None:
    text = "ab é 你 ab\n" * 3000
    ids = SMALL.encode(text)
    for bad in (None, text.encode() + b"\xff", text + "\ud800", memoryview(b"abcd")[::2]):
        with pytest.raises((TypeError, UnicodeError)):
            call(SMALL, bad)
        assert SMALL.encode(text) == SMALL.encode(text.encode()) == ids


@call
def test_an_error_has_no_other_behind_it(call: Callable[[Tokenizer, Any], object]) -> None:
    """What an engine says is of no use to whoever reads the trace."""
    for bad in (None, b"\xff", "\ud800"):
        with pytest.raises((TypeError, UnicodeError)) as caught:
            call(SMALL, bad)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


# What is disallowed


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("🙂é{}", "character 2"),
        ("🙂é{}".encode(), "byte 6"),
        (bytearray(b"{} ab"), "byte 0"),
        (memoryview("ab 你 {}{}".encode()), "byte 7"),
    ],
    ids=["str", "bytes", "bytearray", "memoryview"],
)
def test_disallowed_literals_have_a_position(
    form: Callable[..., list[int]], text: Any, place: str
) -> None:
    if isinstance(text, str):
        text = text.replace("{}", END)
    else:
        text = type(text)(bytes(text).replace(b"{}", END.encode()))
    with pytest.raises(ValueError, match="special token") as caught:
        form(SMALL, text, allowed_special=(), disallowed_special="all")
    beginning = f"text has the special token '<|endoftext|>' at {place}, which "
    assert str(caught.value)[: len(beginning)] == beginning


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
@buffer
def test_a_buffer_without_disallowed_literals_is_encoded(
    form: Callable[..., list[int]], buffer: Callable[[bytes], Any]
) -> None:
    data = buffer(f"ab <|a {END}".encode())
    ids = form(SMALL, data, disallowed_special={A})
    assert ids == SMALL.encode(f"ab <|a {END}")
