"""A text that grows: the steps of an `EncodeStream` give the ids of one `encode`."""

from __future__ import annotations

import functools
import itertools
import operator
import pickle
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.split_cases import LITERALS, TOKENIZERS, framed, own, texts, tokenizer_of
from support.times import best_time

from bpetite import EncodeStream, Tokenizer, Trusted
from bpetite._vocabulary import Stages

# Laws


def test_texts_of_all_kinds_in_equal_steps(tokenizer: Tokenizer, text_case: str) -> None:
    data = text_case.encode()
    stream = tokenizer.encode_stream()
    for size in (1, 7, 5000):
        steps = (data[start : start + size] for start in range(0, len(data), size))
        ids = [id for step in steps for id in stream.step(step)]
        assert ids + stream.flush() == tokenizer.encode(text_case)


def test_a_literal_that_takes_space_is_final_at_its_end() -> None:
    vocabulary = Tokenizer.train("ab ab", 257)._vocabulary
    stages = Stages(flags=(("<|endoftext|>", ("lstrip",)),))
    stream = Tokenizer(replace(vocabulary, stages=stages)).encode_stream()
    assert stream.step("ab <|endoftext|>") == [256, 257]


# Segments


steps = st.lists(texts | st.lists(texts | texts.map(Trusted), max_size=4), max_size=6)
"""Texts, and segments."""


@given(
    name=st.sampled_from([*TOKENIZERS]),
    allowed=st.sampled_from([None, (), LITERALS[1:2], LITERALS[:3]]),
    steps=steps,
    copies=st.booleans(),
)
def test_texts_and_segments_are_the_segments_of_one_text(
    name: str, allowed: tuple[str, ...] | None, steps: list[str | list[str]], copies: bool
) -> None:
    tokenizer = framed(name)
    chosen = (
        tokenizer.special_tokens if allowed is None else {*allowed} & {*tokenizer.special_tokens}
    )
    stream = tokenizer.encode_stream(allowed_special=chosen, add_special_tokens=True)
    segments: list[str] = []
    ids: list[int] = []
    was_text = False
    for step in steps:
        ids += stream.step(step)
        if isinstance(step, list):
            segments += step
        elif was_text:
            segments[-1] = Trusted(segments[-1] + step)
        else:
            segments.append(Trusted(step))
        was_text = isinstance(step, str)
        if copies:
            stream = pickle.loads(pickle.dumps(stream.copy()))
    special_tokens = {key: tokenizer.special_tokens[key] for key in chosen}
    vocabulary = replace(tokenizer._vocabulary, special_tokens=special_tokens)
    whole, _ = Tokenizer(vocabulary).encode_parts(segments, add_special_tokens=True)
    assert ids + stream.flush() == whole


def test_a_literal_of_a_trusted_segment_is_final(tokenizer: Tokenizer) -> None:
    end = tokenizer.special_tokens["<|endoftext|>"]
    stream = own(r"\w+|\W").encode_stream()
    assert stream.step([Trusted("<|a b|>"), "<|a b|>"])[-1:] == [600]
    assert stream.pending == b"<|a b|>"
    stream = tokenizer.encode_stream()
    stream.step("<|endof")  # no literal spans a text and a segment
    assert end not in stream.step([Trusted("text|><|endoftext|"), ">"]) + stream.flush()


def test_segments_that_are_not_unicode_change_nothing(tokenizer: Tokenizer) -> None:
    stream = tokenizer.encode_stream()
    ids = stream.step("it is")
    with pytest.raises(UnicodeEncodeError) as caught:
        stream.step([" so", "a\ud800"])
    assert (caught.value.start, caught.value.__notes__) == (1, ["in part 1"])
    ids += stream.step(b"\xe4")
    with pytest.raises(UnicodeDecodeError):
        stream.step([" so"])
    assert ids + stream.step(b"\xbd\xa0") + stream.flush() == tokenizer.encode("it is你")


def test_segments_are_replaced_each_by_itself(tokenizer: Tokenizer) -> None:
    stream = tokenizer.encode_stream(errors="replace")
    ids = stream.step(b"a\xe4") + stream.step(["b\ud83d", "\ude42"]) + stream.flush()
    assert ids == tokenizer.encode("a\ufffdb\ufffd\ufffd")


# Ids around a text, and replacement of what is not Unicode


def test_a_step_that_fails_keeps_the_ids_before_a_text() -> None:
    stream = framed("gpt2").encode_stream(add_special_tokens=True)
    with pytest.raises(UnicodeEncodeError):
        stream.step("a\ud800")
    assert stream.step("")[:2] == [97, 98]


bad_strings = st.lists(
    st.sampled_from(["\ud83d", "\ude42", "🙂", "é", " ", "it", "<|a b|>", "<|a"]), max_size=4
).map("".join)
bad_bytes = st.lists(
    st.sampled_from([*"🙂é a".encode(), 0xE4, 0xED, 0xA0, 0xBD, 0xFF]), max_size=5
).map(bytes)


def replaced(steps: list[str | bytes]) -> str:
    """Return the text of steps: steps of one type are joined, and replaced as one text."""
    texts = []
    for _, group in itertools.groupby(filter(None, steps), type):
        first, *others = group
        joined: Any = functools.reduce(operator.add, others, first)
        if isinstance(joined, str):
            joined = joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        texts.append(joined if isinstance(joined, str) else joined.decode(errors="replace"))
    return "".join(texts)


@pytest.mark.parametrize("make", [TOKENIZERS["gpt2"], TOKENIZERS["NFC, gpt2"]], ids=["gpt2", "NFC"])
@given(steps=st.lists(bad_strings, max_size=6) | st.lists(bad_strings | bad_bytes, max_size=6))
@example(steps=["\ud83d", "", "\ude42"])
@example(steps=["\ud83d", b"", b"\xf0\x9f", b"\x99\x82", "\ude42"])
@example(steps=[b"\xe4", b"\xbd", "\ude42", b"\xed", b"\xa0"])
def test_replaced_steps_and_flush_are_one_encode(make: Any, steps: list[str | bytes]) -> None:
    tokenizer = make[0](*make[1:])
    stream = tokenizer.encode_stream(errors="replace")
    ids: list[int] = []
    for end, step in enumerate(steps, 1):
        ids += stream.step(step)
        so_far = tokenizer.encode(replaced(steps[:end]))
        assert ids + tokenizer.encode(stream.pending, errors="replace") == so_far
        for other in (stream.copy(), pickle.loads(pickle.dumps(stream))):
            assert (other.pending, repr(other)) == (stream.pending, repr(stream))
            assert ids + other.flush() == so_far
            assert other.pending == b""
        stream = pickle.loads(pickle.dumps(stream.copy()))
    ids += stream.flush()
    assert ids == tokenizer.encode(replaced(steps))


def test_a_high_surrogate_waits_for_the_low_one(tokenizer: Tokenizer) -> None:
    stream = tokenizer.encode_stream(errors="replace")
    assert stream.step("\ud83d") == []
    assert stream.pending == "\ufffd".encode()
    assert stream.step("\ude42") + stream.flush() == tokenizer.encode("🙂")
    stream.step("\ud83d")
    stream.reset()
    assert stream.pending == b""
    assert stream.flush() == []


def test_a_stream_refuses_other_errors(tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match=r"^errors must be strict or replace, got 'ignore'$"):
        tokenizer.encode_stream(errors="ignore")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^errors must be a str, got NoneType$"):
        tokenizer.encode_stream(errors=None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^text must be a str or bytes-like, got int$"):
        tokenizer.encode_stream(errors="replace").step(7)  # type: ignore[arg-type]


# What is final


def after_steps(tokenizer: Tokenizer, *steps: str | bytes) -> tuple[list[bytes], bytes]:
    """Return the text that each step made final, and the pending text."""
    stream = tokenizer.encode_stream()
    return [tokenizer.decode_bytes(stream.step(step)) for step in steps], stream.pending


def test_other_patterns_make_text_final_at_literals() -> None:
    tokenizer = own(r"\w+|\W")
    steps = ("it is ", "12 <|a", " b|", ">", "1", " it")
    made = ([b"", b"", b"", b"", b"it is 12 <|a b|>1", b""], b" it")
    assert after_steps(tokenizer, *steps) == made


def test_a_normal_form_is_final_at_white_space() -> None:
    tokenizer = tokenizer_of("gpt2", (), "NFC")
    assert after_steps(tokenizer, "e", "\u0301", " a") == ([b"", b"", "é".encode()], b" a")


# Errors


@pytest.mark.parametrize(
    ("before", "step", "start", "reason", "rest"),
    [
        (b"", "ab\ud800", 2, "surrogates not allowed", b"a"),
        (b"\xe4", "\ud800", 0, "surrogates not allowed", b"\xbd\xa0"),
        (b"", b"ab\xff", 2, "invalid start byte", b"a"),
        (b"", b"\xed\xa0", 0, "invalid continuation byte", b"a"),
        (b"a \xe4\xbd", b"x", 0, "invalid continuation byte", b"\xa0"),
        (b"a \xe4\xbd", "x", 0, "invalid continuation byte", b"\xa0"),
        (b"a \xe4\xbd", b"\xa0\xff", 3, "invalid start byte", b"\xa0"),
        (b"a \xf0", b"\x80", 0, "invalid continuation byte", b"\x9f\x99\x82"),
    ],
)
def test_a_step_that_is_not_unicode_changes_nothing(
    tokenizer: Tokenizer, before: bytes, step: Any, start: int, reason: str, rest: bytes
) -> None:
    stream = tokenizer.encode_stream()
    ids = stream.step(before)
    pending = stream.pending
    with pytest.raises(UnicodeError) as caught:
        stream.step(step)
    error: Any = caught.value
    assert (error.start, error.reason) == (start, reason)
    assert stream.pending == pending
    assert ids + stream.step(rest) + stream.flush() == tokenizer.encode(before + rest)


def test_an_interrupted_step_changes_nothing(tokenizer: Tokenizer) -> None:
    class Interrupted:
        def encode(self, _: bytes) -> list[int]:
            raise KeyboardInterrupt

    stream = tokenizer.encode_stream()
    ids = stream.step("it is")
    source = stream._source
    stream._source = source._replace(encoders=[Interrupted()] * 3)  # type: ignore[list-item]
    with pytest.raises(KeyboardInterrupt):
        stream.step(" not a")
    stream._source = source
    assert ids + stream.step(" so") + stream.flush() == tokenizer.encode("it is so")


def test_values_of_wrong_types_are_refused(tokenizer: Tokenizer) -> None:
    stream = tokenizer.encode_stream()
    for wrong in (None, 1, memoryview(b"abcd").cast("I")):
        with pytest.raises(TypeError, match="text must be"):
            stream.step(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a part must be a str, got int") as caught:
        stream.step(["a", 1])  # type: ignore[list-item]
    assert caught.value.__notes__ == ["in part 1"]
    with pytest.raises(TypeError, match=r"made by Tokenizer\.encode_stream"):
        EncodeStream(tokenizer)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="allowed_special has '<x>', which is not a special token"):
        tokenizer.encode_stream(allowed_special=["<x>"])


# The object


def test_streams_pickled_together_share_their_tokenizer(tokenizer: Tokenizer) -> None:
    allowed = {"<|endoftext|>"}
    streams = [tokenizer.encode_stream(allowed_special=each) for each in ("all", (), allowed)]
    found = pickle.loads(pickle.dumps([tokenizer, *streams]))
    assert [each._source.make.func.__self__ is found[0] for each in found[1:]] == [True] * 3
    text = "a<|endoftext|>"
    lengths = [len(each.step(text) + each.flush()) for each in found[1:]]
    assert lengths == [len(each.step(text) + each.flush()) for each in streams]


def test_a_stream_shows_the_size_of_its_pending_text(tokenizer: Tokenizer) -> None:
    stream = tokenizer.encode_stream()
    assert repr(stream) == "<EncodeStream: 0 bytes pending>"
    stream.step("it is")
    assert repr(stream) == "<EncodeStream: 3 bytes pending>"


# Costs


@pytest.mark.parametrize(
    ("make", "unit"),
    [
        (TOKENIZERS["gpt2"], "b"),
        pytest.param(TOKENIZERS["gpt2"], "<|", marks=pytest.mark.slow),
        pytest.param(TOKENIZERS["NFC, gpt2"], "e\u0301", marks=pytest.mark.slow),
        (TOKENIZERS["a pattern that regex splits"], "it is "),
    ],
)
def test_steps_without_a_split_cost_no_squares(make: Any, unit: str) -> None:
    """20,000 steps; to search all of the pending text each time would take many seconds."""
    tokenizer = make[0](*make[1:])

    def seconds() -> float:
        stream = tokenizer.encode_stream()
        start = time.process_time()
        for _ in range(20_000):
            stream.step(unit)
        taken = time.process_time() - start
        assert stream.pending == unit.encode() * 20_000
        return taken

    assert best_time(seconds, enough=4) < 4


def test_a_step_costs_the_same_after_a_long_text(tokenizer: Tokenizer) -> None:
    """To encode the text again would take a hundred times as long with either engine."""
    stream = tokenizer.encode_stream()
    start = time.process_time()
    stream.step("to be or not to be, " * 50_000)
    enough = (time.process_time() - start) / 3

    def seconds() -> float:
        start = time.process_time()
        for _ in range(5):
            stream.step("that is")
            stream.copy()
        return time.process_time() - start

    assert best_time(seconds, enough) < enough
