"""Ids one by one into text: a table of cases, five laws on generated input, and the edges."""

from __future__ import annotations

import copy
import gc
import inspect
import sys
import tracemalloc
import weakref
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from types import FrameType
from typing import Any, overload

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.reference import UNFINISHED, unfinished
from support.stream_cases import CASES, Case, expected, texts_of
from support.streams import (
    BYTES,
    EDGES,
    END,
    END_ID,
    ERRORS,
    LENIENT,
    REPLACED,
    bytes_of,
    cut,
    data_of_all_kinds,
    ids_of,
    run,
    source_of,
    tokenizer_of,
    tokens_of,
    tokens_of_all_kinds,
)

from bpetite import DecodeStream, Tokenizer
from bpetite._streaming.plain import Plain
from bpetite._vocabulary import TokenBytes, TokenTable

table = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


def start(case: Case, errors: str) -> tuple[DecodeStream, list[int], list[bytes]]:
    """Return the stream of a case behind its prompt, the ids, and the bytes of each id."""
    prompt, tokens = tokens_of(case.prompt), tokens_of(case.tokens)
    tokenizer = tokenizer_of(prompt + tokens)
    stream = tokenizer.decode_stream(
        ids_of(tokenizer, prompt), errors=errors, skip_special_tokens=case.skip
    )
    shown = [token or (b"" if case.skip else END.encode()) for token in tokens]
    return stream, ids_of(tokenizer, tokens), shown


@pytest.mark.parametrize("errors", LENIENT)
@table
def test_table(case: Case, errors: str) -> None:
    stream, ids, _ = start(case, errors)
    assert run(stream, ids) == expected(case, errors)


@table
def test_table_strict(case: Case) -> None:
    """Steps return the texts of the table up to the first bad bytes, which raise."""
    stream, ids, tokens = start(case, "strict")
    texts = expected(case, "strict")
    if not case.strict:
        assert run(stream, ids) == texts
        return
    step, _, bad = case.strict.partition(" ")
    good = len(ids) if step == "flush" else int(step) - 1
    assert [stream.step(id) for id in ids[:good]] == texts[:good]
    pending = stream.pending
    with pytest.raises(UnicodeDecodeError) as caught:
        stream.flush() if step == "flush" else stream.step(ids[good])
    error = caught.value
    assert error.object == (pending if step == "flush" else pending + tokens[good])
    assert f"[{error.start}:{error.end}]" == bad
    assert stream.pending == pending


# An independent decoder to compare with, and the possible pending bytes


def whatwg(data: bytes) -> Iterator[tuple[int, str]]:
    """Yield the characters of the UTF-8 decoder in WHATWG's Encoding Standard.

    Each comes with the number of bytes that were read before it; the end counts as a byte.
    """
    code = missing = 0
    lower, upper = 0x80, 0xBF
    for read, byte in enumerate(data, 1):
        if missing:
            if lower <= byte <= upper:
                lower, upper = 0x80, 0xBF
                code = code << 6 | byte & 0x3F
                missing -= 1
                if not missing:
                    yield read, chr(code)
                continue
            yield read, REPLACED
            missing = 0
            lower, upper = 0x80, 0xBF
        if byte < 0x80:
            yield read, chr(byte)
        elif 0xC2 <= byte <= 0xDF:
            missing, code = 1, byte & 0x1F
        elif 0xE0 <= byte <= 0xEF:
            missing, code = 2, byte & 0x0F
            lower = 0xA0 if byte == 0xE0 else 0x80
            upper = 0x9F if byte == 0xED else 0xBF
        elif 0xF0 <= byte <= 0xF4:
            missing, code = 3, byte & 0x07
            lower = 0x90 if byte == 0xF0 else 0x80
            upper = 0x8F if byte == 0xF4 else 0xBF
        else:
            yield read, REPLACED
    if missing:
        yield len(data) + 1, REPLACED


def whatwg_steps(tokens: Sequence[bytes]) -> list[str]:
    """Return the texts of all steps and of the end, by the decoder of WHATWG."""
    ends = list(accumulate(map(len, tokens)))
    texts = [""] * (len(tokens) + 1)
    for read, character in whatwg(b"".join(tokens)):
        texts[bisect_left(ends, read)] += character
    return texts


@table
def test_whatwg_decoder_of_these_tests_agrees_with_the_table(case: Case) -> None:
    _, _, tokens = start(case, "replace")
    before = [b"".join(tokens_of(case.prompt))]
    assert whatwg_steps(before + tokens)[1:] == expected(case, "replace")


def test_unfinished_characters_are_counted_right() -> None:
    """Counts leads, then E0 to EF with a second byte, then F0 to F4 with two and with three."""
    two, three, four = 30, 16, 5
    second_of_three = 14 * 64 + 2 * 32
    second_of_four = 3 * 64 + 48 + 16
    total = two + three + four + second_of_three + second_of_four + second_of_four * 64
    assert len(UNFINISHED) == total


# The laws. Bytes of all kinds, split anywhere into tokens and <|end|>.


def result(action: Callable[[], str]) -> str | tuple[bytes, int, int]:
    """Return the result of `action`, or the bad bytes and position of its UnicodeDecodeError."""
    try:
        return action()
    except UnicodeDecodeError as error:
        return error.object[error.start : error.end], error.start, error.end


@pytest.mark.parametrize("errors", ERRORS)
@given(tokens=tokens_of_all_kinds, skip=st.booleans())
def test_steps_and_flush_are_what_decode_returns(
    tokens: list[bytes], skip: bool, errors: str
) -> None:
    tokenizer = tokenizer_of(tokens)
    ids = ids_of(tokenizer, tokens)
    stream = tokenizer.decode_stream(errors=errors, skip_special_tokens=skip)
    passed = 0  # bytes that are neither pending nor in the token of this step

    def streamed() -> str:
        nonlocal passed
        text = ""
        for id, token in zip(ids, bytes_of(tokens, skip), strict=True):
            pending = stream.pending
            text += stream.step(id)
            passed += len(pending) + len(token) - len(stream.pending)
        return text + stream.flush()

    whole = result(lambda: tokenizer.decode(ids, errors=errors, skip_special_tokens=skip))
    parts = result(streamed)
    if isinstance(parts, tuple):
        bad, begin, end = parts
        parts = (bad, passed + begin, passed + end)
    assert parts == whole


@pytest.mark.parametrize("errors", LENIENT)
@given(tokens=tokens_of_all_kinds, skip=st.booleans())
def test_only_the_beginning_of_a_character_is_held(
    tokens: list[bytes], skip: bool, errors: str
) -> None:
    tokenizer = tokenizer_of(tokens)
    stream = tokenizer.decode_stream(errors=errors, skip_special_tokens=skip)
    data = b""
    text = ""
    for id, token in zip(ids_of(tokenizer, tokens), bytes_of(tokens, skip), strict=True):
        data += token
        text += stream.step(id)
        pending = unfinished(data)
        assert stream.pending == pending
        assert text == data[: len(data) - len(pending)].decode("utf-8", errors)


@given(tokens=tokens_of_all_kinds, skip=st.booleans())
def test_each_character_comes_when_whatwgs_decoder_has_it(tokens: list[bytes], skip: bool) -> None:
    tokenizer = tokenizer_of(tokens)
    stream = tokenizer.decode_stream(skip_special_tokens=skip)
    assert run(stream, ids_of(tokenizer, tokens)) == whatwg_steps(bytes_of(tokens, skip))


def test_three_edge_bytes_come_as_from_whatwgs_decoder() -> None:
    sequences = [[a, b, c] for a in EDGES for b in EDGES for c in EDGES]
    stream = BYTES.decode_stream()
    assert [run(stream, ids) for ids in sequences] == [
        whatwg_steps([bytes([id]) for id in ids]) for ids in sequences
    ]


@pytest.mark.parametrize("errors", LENIENT)
@given(tokens=tokens_of_all_kinds, others=tokens_of_all_kinds)
def test_what_was_returned_holds_whatever_follows(
    tokens: list[bytes], others: list[bytes], errors: str
) -> None:
    tokenizer = tokenizer_of(tokens + others)
    ids = ids_of(tokenizer, tokens)
    stream = tokenizer.decode_stream(errors=errors)
    text = "".join(map(stream.step, ids))
    goes_on = tokenizer.decode(ids + ids_of(tokenizer, others), errors=errors)
    assert goes_on.startswith(text)
    assert tokenizer.decode(ids, errors=errors).startswith(text)


@pytest.mark.parametrize("errors", LENIENT)
@given(prompt=tokens_of_all_kinds, tokens=tokens_of_all_kinds, skip=st.booleans())
def test_prompt_and_stream_are_what_decode_returns(
    prompt: list[bytes], tokens: list[bytes], skip: bool, errors: str
) -> None:
    tokenizer = tokenizer_of(prompt + tokens)
    prompt_ids, ids = ids_of(tokenizer, prompt), ids_of(tokenizer, tokens)
    stream = tokenizer.decode_stream(prompt_ids, errors=errors, skip_special_tokens=skip)
    shown = b"".join(bytes_of(prompt, skip))
    assert stream.pending == unfinished(shown)
    shown = shown[: len(shown) - len(stream.pending)]
    whole = tokenizer.decode(prompt_ids + ids, errors=errors, skip_special_tokens=skip)
    assert shown.decode("utf-8", errors) + "".join(run(stream, ids)) == whole


# The cost of a step, in calls and bytes, since times vary


class CountedBytes(TokenBytes):
    """The bytes of each id, with a count of look-ups."""

    looked_up = 0

    def __getitem__(self, id: int) -> bytes:
        self.looked_up += 1
        return super().__getitem__(id)


class CountedTable(TokenTable):
    bytes_of: CountedBytes

    def __init__(self, tokens: Iterable[bytes]) -> None:
        super().__init__({})
        self.bytes_of = CountedBytes(enumerate(tokens))


def calls_in(action: Callable[[], object]) -> int:
    """Count the calls of `action` to functions in Python and in C."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    gc.disable()  # a collection calls back its observers, such as hypothesis
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(before)
        gc.enable()
    return calls


LONG_STREAMS = {
    "ASCII": [b"a"],
    "Korean": ["한".encode()],
    "an emoji of four tokens": [b"\xf0", b"\x9f", b"\x99", b"\x82"],
    "continuations": [b"\x80"],
    "leads": [b"\xf0\x9f\x99"],
    "dead bytes": [b"\xff"],
    "tokens without bytes": [b""],
}


@pytest.mark.parametrize("tokens", LONG_STREAMS.values(), ids=LONG_STREAMS)
@pytest.mark.parametrize("pending", [b"", b"\xf0\x9f"], ids=["nothing pending", "two pending"])
def test_a_step_costs_the_same_after_ten_thousand_others(
    tokens: list[bytes], pending: bytes
) -> None:
    table = CountedTable([pending, *tokens])
    stream = DecodeStream(source_of(table))
    stream.step(0)
    one_round = range(1, len(table.bytes_of))

    def go_round() -> int:
        longest = 0
        for id in one_round:
            stream.step(id)
            longest = max(longest, len(stream.pending))
        return longest

    for _ in range(3):  # new transitions enter the cache
        go_round()
    calls, pending = calls_in(go_round), stream.pending
    table.bytes_of.looked_up = 0
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    longest = max(go_round() for _ in range(10_000 // len(tokens)))
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert table.bytes_of.looked_up <= 10_000  # each step looks up at most its own token
    assert longest <= 3
    # A list of all steps would take fifty bytes or more a step. Other threads take memory too.
    assert grown < 40_000
    assert stream.pending == pending
    assert calls_in(go_round) == calls


def test_ten_thousand_skipped_specials_leave_what_is_held() -> None:
    stream = BYTES.decode_stream([0xF0, 0x9F], skip_special_tokens=True)
    assert "".join(stream.step(END_ID) for _ in range(10_000)) == ""
    assert [stream.pending, stream.step(0x99), stream.step(0x82)] == [b"\xf0\x9f", "", "🙂"]


class CountedPrompt(Sequence[int]):
    """A long prompt of one id and some last ids, with a count of the ids that are read."""

    def __init__(self, length: int, last: Sequence[int]) -> None:
        self.length = length
        self.last = last
        self.read = 0

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self.length))]
        self.read += 1
        from_end = index - self.length if index >= 0 else index
        return self.last[from_end] if -from_end <= len(self.last) else 97


@pytest.mark.parametrize("length", [10, 1_000_000])
@pytest.mark.parametrize(
    ("last", "read", "pending"),
    [
        ([0xF0, 0x9F, 0x99], 3, b"\xf0\x9f\x99"),
        ([0xF0, 0x9F, 0x99, 0x82], 3, b""),
        ([0xC3], 3, b"\xc3"),
        ([0xF0, 0x9F, END_ID], 1, b""),
    ],
)
def test_only_the_last_ids_of_a_prompt_are_read(
    length: int, last: list[int], read: int, pending: bytes
) -> None:
    """At most three bytes are pending, so ids before the last three do not matter."""
    prompt = CountedPrompt(length, last)
    stream = BYTES.decode_stream(prompt)
    assert (prompt.read, stream.pending) == (read, pending)


def test_a_prompts_skipped_specials_are_looked_past() -> None:
    prompt = CountedPrompt(1_000_000, [0xF0, 0x9F, *[END_ID] * 50])
    stream = BYTES.decode_stream(prompt, skip_special_tokens=True)
    assert (prompt.read, stream.pending) == (53, b"\xf0\x9f")


# Prompts


@pytest.mark.parametrize(
    ("prompt", "pending"),
    [
        pytest.param("", "", id="39-no prompt"),
        pytest.param("80", "", id="39-a continuation"),
        pytest.param("E0 | 80", "", id="39-overlong"),
        pytest.param("F5", "", id="39-a dead byte"),
        pytest.param("ED | A0", "", id="39-half a surrogate"),
        pytest.param("F0 9F 99 82", "", id="39-a character"),
        pytest.param("F0 | 9F | 99 | 82", "", id="39-a character of four tokens"),
        pytest.param("E4 BD A0", "", id="39-a character of three bytes"),
        pytest.param("E4 BD | F0", "F0", id="39-a broken character and a lead"),
        pytest.param("61 62 63 C3", "C3", id="39-a lead at the end of a token"),
        pytest.param("61 | F0 9F | 98", "F0 9F 98", id="39-three of four"),
        pytest.param("F0 9F | <|end|>", "F0 9F", id="39-a skipped special"),
    ],
)
def test_a_prompt_leaves_what_it_ends_inside_of(prompt: str, pending: str) -> None:
    tokens = tokens_of(prompt)
    tokenizer = tokenizer_of(tokens)
    stream = tokenizer.decode_stream(ids_of(tokenizer, tokens), skip_special_tokens=True)
    assert stream.pending == bytes.fromhex(pending)


@pytest.mark.parametrize("errors", ERRORS)
def test_a_prompt_of_bad_bytes_is_no_error(errors: str) -> None:
    assert run(BYTES.decode_stream([0xFF, 0x80, 0xC0], errors=errors), [97]) == ["a", ""]


@pytest.mark.parametrize(
    "prompt",
    [[97, 0xC3], (97, 0xC3), range(0xC2, 0xC4), np.array([97, 0xC3]), CountedPrompt(9, [0xC3])],
    ids=["list", "tuple", "range", "numpy array", "any sequence"],
)
def test_any_sequence_of_ids_is_a_prompt(prompt: Any) -> None:
    assert BYTES.decode_stream(prompt).pending == b"\xc3"


@pytest.mark.parametrize(
    "prompt",
    [
        "ab",
        b"ab",
        bytearray(b"ab"),
        97,
        None,
        {97},
        pytest.param(iter([97]), id="iterator"),
        [97.0],
        [True],
        ["a"],
        [None],
    ],
    ids=repr,
)
def test_a_prompt_of_a_wrong_type_is_refused(prompt: Any) -> None:
    with pytest.raises(TypeError):
        BYTES.decode_stream(prompt)


@pytest.mark.parametrize("id", [257, -1, 1 << 70])
def test_an_unknown_id_at_the_end_of_a_prompt_is_refused(id: int) -> None:
    with pytest.raises(KeyError, match=f"id {id} is not in"):
        BYTES.decode_stream([97, id])


# Values that are not ids


@pytest.mark.parametrize(
    "pending", [[], [0xF0], [0xE4, 0xBD]], ids=["nothing pending", "one pending", "two pending"]
)
@pytest.mark.parametrize("errors", ERRORS)
@pytest.mark.parametrize(
    ("id", "error"),
    [
        (257, KeyError),
        (-1, KeyError),
        (-256, KeyError),
        (1 << 33, KeyError),
        (-(1 << 70), KeyError),
        (np.int64(257), KeyError),
        (np.uint64((1 << 64) - 1), KeyError),
        (True, TypeError),
        (False, TypeError),
        (97.0, TypeError),
        (float("nan"), TypeError),
        ("a", TypeError),
        (b"a", TypeError),
        (None, TypeError),
        ([None, 97], TypeError),
        ([257, 97], KeyError),
        (np.float32(97), TypeError),
        (np.bool_(True), TypeError),
        (np.array([97.0, 98.0]), TypeError),
        ([[97]], TypeError),
    ],
    ids=repr,
)
def test_an_id_that_is_none_leaves_the_stream_as_it_was(
    id: Any, error: type[Exception], pending: list[int], errors: str
) -> None:
    stream = BYTES.decode_stream(pending, errors=errors)
    before = repr(stream), stream.pending
    with pytest.raises(error):
        stream.step(id)
    assert (repr(stream), stream.pending) == before
    rest = {0: [], 1: [0x9F, 0x99, 0x82], 2: [0xA0]}[len(pending)]
    assert "".join(map(stream.step, [*rest, 97])) == ["a", "🙂a", "你a"][len(pending)]


def test_the_error_names_the_id_and_those_that_there_are() -> None:
    with pytest.raises(KeyError, match=r"id 257 is not in this vocabulary .* from 0 to 256"):
        BYTES.decode_stream().step(257)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, np.uint64])
def test_integers_of_numpy_are_ids(dtype: type[np.integer[Any]]) -> None:
    ids = np.array(list("aé🙂!".encode()), dtype=dtype)
    stream = BYTES.decode_stream()
    assert run(stream, ids) == ["a", "", "é", "", "", "", "🙂", "!", ""]


# flush, reset, copy


def test_flush_before_any_step_returns_nothing() -> None:
    assert BYTES.decode_stream(list(b"a prompt")).flush() == ""


def test_a_second_flush_returns_nothing() -> None:
    stream = BYTES.decode_stream([0xF0, 0x9F])
    assert [stream.flush(), stream.pending, stream.flush()] == [REPLACED, b"", ""]


def test_a_step_after_flush_begins_anew() -> None:
    stream = BYTES.decode_stream([0xF0, 0x9F])
    assert run(stream, []) == [REPLACED]
    assert run(stream, [0x99, 0x82, 97]) == [REPLACED, REPLACED, "a", ""]


def test_reset_forgets_what_is_held() -> None:
    stream = BYTES.decode_stream([0xF0, 0x9F])
    stream.reset()
    assert [stream.pending, *run(stream, [0x99, 97])] == [b"", REPLACED, "a", ""]


@pytest.mark.parametrize("make", [DecodeStream.copy, copy.copy], ids=["copy()", "copy.copy"])
@pytest.mark.parametrize("errors", ERRORS)
def test_a_copy_goes_on_by_itself(
    make: Callable[[DecodeStream], DecodeStream], errors: str
) -> None:
    stream = BYTES.decode_stream([0xF0, 0x9F], errors=errors)
    other = make(stream)
    assert run(stream, [0x99, 0x82, 97]) == ["", "🙂", "a", ""]
    assert other.pending == b"\xf0\x9f"
    assert run(other, [0x98, 0x82, 98]) == ["", "😂", "b", ""]


@given(tokens=tokens_of_all_kinds, others=tokens_of_all_kinds, errors=st.sampled_from(LENIENT))
def test_a_copy_goes_on_as_the_stream_does(
    tokens: list[bytes], others: list[bytes], errors: str
) -> None:
    tokenizer = tokenizer_of(tokens + others)
    stream = tokenizer.decode_stream(errors=errors, skip_special_tokens=True)
    for id in ids_of(tokenizer, tokens):
        stream.step(id)
    other = stream.copy()
    ids = ids_of(tokenizer, others)
    assert run(other, ids) == run(stream, ids)


def test_a_copy_reads_no_token() -> None:
    table = CountedTable([b"a", b"\xf0"])
    stream = DecodeStream(source_of(table))
    for id in [0, 1] * 1000:
        stream.step(id)
    table.bytes_of.looked_up = 0
    assert (stream.copy().pending, table.bytes_of.looked_up) == (b"\xf0", 0)


def test_streams_of_one_tokenizer_do_not_disturb_each_other() -> None:
    one, other = BYTES.decode_stream(), BYTES.decode_stream()
    texts = [
        (one.step(a), other.step(b)) for a, b in zip("🙂".encode(), "你a".encode(), strict=True)
    ]
    assert texts == [("", ""), ("", ""), ("", "你"), ("🙂", "a")]


# strict, after the error


def failed_stream(pending: Sequence[int] = (0xE4, 0xBD)) -> DecodeStream:
    stream = BYTES.decode_stream(pending, errors="strict")
    with pytest.raises(UnicodeDecodeError):
        stream.step(0xFF)
    return stream


REFUSED: dict[str, Callable[[DecodeStream], object]] = {
    "a good id": lambda stream: stream.step(97),
    "what would have completed the character": lambda stream: stream.step(0xA0),
    "flush": lambda stream: stream.flush(),
    "a copy's step": lambda stream: stream.copy().step(97),
}


@pytest.mark.parametrize("pending", [b"", b"\xe4\xbd"], ids=["nothing pending", "two pending"])
@pytest.mark.parametrize("use", REFUSED.values(), ids=REFUSED)
def test_a_failed_stream_refuses_to_go_on(
    use: Callable[[DecodeStream], object], pending: bytes
) -> None:
    """A UnicodeDecodeError is a ValueError too, so the type is compared."""
    stream = failed_stream(list(pending))
    for _ in range(2):
        with pytest.raises(ValueError, match=r"reset\(\)") as caught:
            use(stream)
        assert (type(caught.value), stream.pending) == (ValueError, pending)


def test_flush_that_fails_leaves_the_stream_failed() -> None:
    stream = BYTES.decode_stream([0xE4, 0xBD], errors="strict")
    with pytest.raises(UnicodeDecodeError):
        stream.flush()
    with pytest.raises(ValueError, match=r"reset\(\)"):
        stream.flush()
    assert stream.pending == b"\xe4\xbd"


def test_reset_makes_a_failed_stream_usable() -> None:
    stream = failed_stream()
    stream.reset()
    assert run(stream, list("a你".encode())) == ["a", "", "", "你", ""]


def test_a_reset_stream_is_still_strict() -> None:
    stream = failed_stream()
    stream.reset()
    with pytest.raises(UnicodeDecodeError):
        stream.step(0xFF)


def test_a_copy_from_before_the_error_is_still_good() -> None:
    stream = BYTES.decode_stream([0xE4, 0xBD], errors="strict")
    before = stream.copy()
    with pytest.raises(UnicodeDecodeError):
        stream.step(0xF0)
    assert before.step(0xA0) == "你"


def test_text_before_the_error_is_in_the_error() -> None:
    tokenizer = tokenizer_of([b"hi\xff"])
    with pytest.raises(UnicodeDecodeError) as caught:
        tokenizer.decode_stream(errors="strict").step(tokenizer.token_id(b"hi\xff"))
    error = caught.value
    assert (error.encoding, error.object, error.start, error.end) == ("utf-8", b"hi\xff", 2, 3)


# Arguments and words


@pytest.mark.parametrize("errors", ["surrogateescape", "surrogatepass", "Replace", ""])
def test_errors_that_are_not_offered_are_refused(errors: Any) -> None:
    """No client could receive lone surrogates, since UTF-8 lacks them."""
    with pytest.raises(ValueError, match="strict, replace, ignore, backslashreplace"):
        BYTES.decode_stream(errors=errors)


def test_bad_bytes_are_replaced_unless_said_otherwise() -> None:
    assert run(BYTES.decode_stream(), [0xFF, 97]) == [REPLACED, "a", ""]


def test_special_tokens_are_kept_unless_said_otherwise() -> None:
    assert run(BYTES.decode_stream(), [END_ID]) == [END, ""]


def test_pending_is_read_only() -> None:
    with pytest.raises(AttributeError):
        BYTES.decode_stream().pending = b""  # type: ignore[misc]


def test_repr_shows_what_is_held() -> None:
    stream = BYTES.decode_stream([0xE4, 0xBD], errors="strict")
    assert repr(stream) == r"<DecodeStream errors='strict' pending=b'\xe4\xbd'>"


def test_repr_shows_a_failure() -> None:
    assert repr(failed_stream()) == "<DecodeStream errors='strict' failed>"


# Controls: three wrong ways fail these tests


def one_by_one(tokenizer: Tokenizer, _prompt: list[int], ids: list[int]) -> list[str]:
    """Decode each id alone."""
    return [*(tokenizer.decode([id], errors="replace") for id in ids), ""]


def by_window(tokenizer: Tokenizer, prompt: list[int], ids: list[int]) -> list[str]:
    """Return the text that each id adds to the last four; wait while it ends in U+FFFD."""

    def decode(some: list[int]) -> str:
        return tokenizer.decode(some, errors="replace")

    seen = list(prompt)
    shown = len(decode(seen))
    texts = []
    for id in ids:
        seen.append(id)
        before, after = decode(seen[-4:-1]), decode(seen[-4:])
        if after.endswith(REPLACED):
            text = ""
        elif REPLACED in before:
            text = decode(seen)[shown:]
        else:
            text = after[len(before) :]
        shown += len(text)
        texts.append(text)
    return [*texts, decode(seen)[shown:]]


def by_promised_length(tokenizer: Tokenizer, prompt: list[int], ids: list[int]) -> list[str]:
    """Wait for as many bytes as the last lead byte promises."""
    pending = tokenizer.decode_bytes(prompt)
    texts = []
    for id in ids:
        pending += tokenizer.token_bytes(id)
        lead = max(index for index, byte in enumerate(pending) if not 0x80 <= byte < 0xC0)
        promised = (1, 2, 3, 4, 1)[bisect_right([0xC0, 0xE0, 0xF0, 0xF8], pending[lead])]
        end = len(pending) if len(pending) - lead >= promised else lead
        texts.append(pending[:end].decode("utf-8", "replace"))
        pending = pending[end:]
    return [*texts, pending.decode("utf-8", "replace")]


@pytest.mark.parametrize(
    ("way", "prompt", "tokens", "wrong", "right"),
    [
        pytest.param(one_by_one, "", "F0 | 9F 99 82", "R | RRR / _", "_ | 🙂 / _", id="one by one"),
        pytest.param(
            by_window, "48 69 | F0 9F", "99 82 | 21", "_ | ! / _", "🙂 | ! / _",
            id="a window loses a character that begins in the prompt",
        ),
        pytest.param(
            by_window, "", "61 | EF BF BD | EF BF BD", "a | _ | _ / RR", "a | R | R / _",
            id="a window waits for the end of a real U+FFFD",
        ),
        pytest.param(
            by_window, "", "80 | 80 | 80 | 80 | 80", "_ | _ | _ | _ | _ / RRRRR",
            "R | R | R | R | R / _", id="a window waits while there are bad bytes",
        ),
        pytest.param(
            by_promised_length, "", "F5 | 80 | 80", "_ | _ | _ / RRR", "R | R | R / _",
            id="the promised length is waited for by a lead of no character",
        ),
        pytest.param(
            by_promised_length, "", "ED A0 | 41", "_ | RRA / _", "RR | A / _",
            id="the promised length is waited for by half a surrogate",
        ),
    ],
)  # fmt: skip
def test_other_ways_are_wrong(
    way: Callable[[Tokenizer, list[int], list[int]], list[str]],
    prompt: str,
    tokens: str,
    wrong: str,
    right: str,
) -> None:
    tokenizer = tokenizer_of(tokens_of(prompt) + tokens_of(tokens))
    prompt_ids = ids_of(tokenizer, tokens_of(prompt))
    ids = ids_of(tokenizer, tokens_of(tokens))
    assert run(tokenizer.decode_stream(prompt_ids), ids) == texts_of(right, lambda: REPLACED)
    assert way(tokenizer, prompt_ids, ids) == texts_of(wrong, lambda: REPLACED)


@pytest.mark.parametrize("way", [by_window, by_promised_length])
def test_other_ways_are_right_on_plain_text(
    way: Callable[[Tokenizer, list[int], list[int]], list[str]],
) -> None:
    """So the ways fail above because they are wrong, not through slips in this code."""
    ids = list("Héllo, 你好 🙂!".encode())
    assert way(BYTES, [], ids) == run(BYTES.decode_stream(), ids)


# A real tokenizer

SPEECH = (
    "The quick brown fox jumps over the lazy dog, naïvely, at the café. "
    "Съешь же ещё этих мягких французских булок. 天地玄黃,宇宙洪荒。日月盈昃,辰宿列張。"
    "いろはにほへと ちりぬるを 키스의 고유조건은 입술끼리 만나야 하고 "
    "דג סקרן שט בים مرحبا بالعالم नमस्ते दुनिया สวัสดี 🙂🚀👩‍👩‍👧‍👦🇫🇷❤️ 🫨\r\n\t"
)


@pytest.fixture(scope="module")
def trained() -> Tokenizer:
    return Tokenizer.train(SPEECH, 340)


def test_a_text_of_many_scripts_streams_without_a_replacement(trained: Tokenizer) -> None:
    texts = run(trained.decode_stream(), trained.encode(SPEECH))
    assert "".join(texts) == SPEECH
    assert REPLACED not in SPEECH
    # The test needs characters of several tokens, and the text has many.
    assert texts.count("") > 50


def test_each_character_of_many_scripts_comes_with_its_last_byte(trained: Tokenizer) -> None:
    ids = trained.encode(SPEECH)
    tokens = [trained.token_bytes(id) for id in ids]
    assert run(trained.decode_stream(), ids) == whatwg_steps(tokens)


@given(st.data())
def test_any_tokens_stream_as_they_decode(trained: Tokenizer, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, trained.n_vocab - 1), max_size=40))
    errors = data.draw(st.sampled_from(LENIENT))
    stream = trained.decode_stream(errors=errors)
    assert "".join(run(stream, ids)) == trained.decode(ids, errors=errors)


@given(data_of_all_kinds, st.lists(st.integers(10, 80), min_size=1), st.booleans())
def test_long_tokens_stream_as_short_ones_do(data: bytes, sizes: list[int], several: bool) -> None:
    tokens = cut(data * 20, sizes)
    stream = DecodeStream(source_of(TokenTable(dict(enumerate(tokens)) or {0: b""})))
    ids = list(range(len(tokens)))
    texts = [stream.step(ids)] if several else run(stream, ids)
    text = "".join(texts) + stream.flush()
    assert text == (data * 20).decode("utf-8", "replace")


@given(tokens_of_all_kinds, st.lists(st.integers(0, 5), max_size=20), st.sampled_from(LENIENT))
def test_several_ids_are_as_many_steps(tokens: list[bytes], sizes: list[int], errors: str) -> None:
    table = TokenTable(dict(enumerate(tokens)) or {0: b""})
    source = source_of(table)
    stream, other = DecodeStream(source, errors=errors), DecodeStream(source, errors=errors)
    ids = list(range(len(tokens)))
    for size in sizes:
        some, ids = ids[:size], ids[size:]
        assert stream.step(some) == "".join(map(other.step, some))
        assert stream.to_state() == other.to_state()


@given(tokens_of_all_kinds, st.sampled_from(LENIENT))
def test_ids_far_from_each_other_stream_as_near_ones_do(tokens: list[bytes], errors: str) -> None:
    ids = [2**32 - 1 - number * 1_000_003 for number in range(len(tokens))]
    table = TokenTable(dict(zip(ids, tokens, strict=True)) or {0: b""})
    stream = DecodeStream(source_of(table), errors=errors)
    assert "".join(run(stream, ids)) == b"".join(tokens).decode("utf-8", errors)


def test_the_ids_of_a_step_may_be_named() -> None:
    stream = BYTES.decode_stream()
    assert (stream.step(ids=97), stream.step(ids=[98, 99])) == ("a", "bc")


def test_help_documents_step() -> None:
    assert "`ids` is an id or several" in str(inspect.getdoc(vars(DecodeStream)["step"]))


def test_strict_error_gives_the_reason_that_decode_gives() -> None:
    stream = DecodeStream(source_of(TokenTable({0: b"\xe4\xbd", 1: b"\xf0"})), errors="strict")
    stream.step(0)
    with pytest.raises(UnicodeDecodeError) as caught:
        stream.step(1)
    with pytest.raises(UnicodeDecodeError) as whole:
        b"\xe4\xbd\xf0".decode("utf-8")
    assert caught.value.args == whole.value.args


def test_cached_transitions_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bpetite._streaming.tables.MAX_TRANSITIONS", 5)
    table = TokenTable({byte: bytes([byte]) for byte in range(256)})
    text = "é中🙂ж한" * 3
    # With U+FFFD, native streams have no states.
    stream = DecodeStream(source_of(table), errors="ignore")
    assert "".join(map(stream.step, text.encode())) == text
    assert isinstance(stream._mode, Plain)
    automaton = stream._mode._automaton
    known = [*automaton._state_of.values(), *automaton._initial_state_of.values()]
    assert 1 <= sum(map(len, known)) <= 5


class Derived(DecodeStream):
    """A stream with an attribute of its own."""

    name = ""


def test_a_stream_of_a_derived_class_is_copied() -> None:
    stream = Derived(source_of(TokenTable({byte: bytes([byte]) for byte in range(256)})))
    stream.name = "a"
    assert (stream.step((97, 0xC3)), stream.copy().step(0xA9)) == ("a", "é")
    assert (stream.pending, stream.name) == (b"\xc3", "a")


def test_a_stream_that_was_not_made_has_no_step() -> None:
    with pytest.raises(AttributeError, match="step"):
        DecodeStream.__new__(DecodeStream).step(97)


def test_a_stream_leaves_nothing_of_its_class_behind() -> None:
    class Derived(DecodeStream):
        pass

    table = TokenTable({97: b"a"})
    assert Derived(source_of(table)).step(97) == "a"
    known = weakref.ref(Derived)
    del Derived
    gc.collect()
    assert known() is None


@pytest.mark.parametrize("errors", [None, 5, []])
def test_errors_of_another_type_are_named(errors: Any) -> None:
    with pytest.raises(TypeError, match=f"errors must be a str, got {type(errors).__name__}"):
        BYTES.decode_stream(errors=errors)


def test_a_deep_copy_shares_the_vocabulary() -> None:
    stream = BYTES.decode_stream([0xF0, 0x9F])
    twin = copy.deepcopy(stream)
    assert twin.pending == b"\xf0\x9f"
    assert twin._mode.table is stream._mode.table


def test_a_stream_is_made_by_a_tokenizer_alone() -> None:
    with pytest.raises(TypeError, match="decode_stream"):
        DecodeStream(BYTES)  # type: ignore[arg-type]
