"""Ids one by one into text: costs, values that are not ids, and the edges."""

from __future__ import annotations

import copy
import gc
import inspect
import tracemalloc
import weakref
from collections import UserList
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.calls import calls_in
from support.engines import native_only
from support.reference import UNFINISHED, streamed
from support.streams import (
    BYTES,
    EDGES,
    END,
    END_ID,
    ERRORS,
    cut,
    data_of_all_kinds,
    run,
    source_of,
)

from bpetite import DecodeStream, Tokenizer
from bpetite._streaming.plain import Plain
from bpetite._vocabulary import TokenBytes, TokenTable

# Every sequence of three bytes at the edges of their classes


def test_unfinished_characters_are_counted_right() -> None:
    """Counts leads, then E0 to EF with a second byte, then F0 to F4 with two and with three."""
    two, three, four = 30, 16, 5
    second_of_three = 14 * 64 + 2 * 32
    second_of_four = 3 * 64 + 48 + 16
    total = two + three + four + second_of_three + second_of_four + second_of_four * 64
    assert len(UNFINISHED) == total


def test_three_edge_bytes_come_as_in_the_textbook() -> None:
    stream = BYTES.decode_stream()
    for ids in product(EDGES, repeat=3):
        steps = streamed([bytes([id]) for id in ids]).steps
        assert run(stream, ids) == ["".join(text for text, _ in step) for step in steps]


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
    calls, pending = calls_in(go_round, "call", "c_call"), stream.pending
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
    assert calls_in(go_round, "call", "c_call") == calls


class CountedPrompt(UserList[int]):
    """A prompt that counts the ids that are read."""

    read = 0

    def __getitem__(self, index: Any) -> Any:
        self.read += 1
        return super().__getitem__(index)


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
    prompt = CountedPrompt([97] * length + last)
    stream = BYTES.decode_stream(prompt)
    assert (prompt.read, stream.pending) == (read, pending)


def test_a_prompts_skipped_specials_are_looked_past() -> None:
    prompt = CountedPrompt([97] * 1_000_000 + [0xF0, 0x9F] + [END_ID] * 50)
    stream = BYTES.decode_stream(prompt, skip_special_tokens=True)
    assert (prompt.read, stream.pending) == (53, b"\xf0\x9f")


# Prompts


@pytest.mark.parametrize(
    "prompt",
    [[97, 0xC3], (97, 0xC3), range(0xC2, 0xC4), np.array([97, 0xC3]), CountedPrompt([97, 0xC3])],
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
def test_an_id_that_is_none_leaves_the_stream_as_it_was(id: Any, error: type[Exception]) -> None:
    stream = BYTES.decode_stream([0xE4, 0xBD])
    before = repr(stream), stream.pending
    with pytest.raises(error):
        stream.step(id)
    assert (repr(stream), stream.pending) == before
    assert stream.step([0xA0, 97]) == "你a"


def test_the_error_names_the_id_and_the_known_ids() -> None:
    with pytest.raises(KeyError, match=r"id 257 is not in this vocabulary .* from 0 to 256"):
        BYTES.decode_stream().step(257)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, np.uint64])
def test_integers_of_numpy_are_ids(dtype: type[np.integer[Any]]) -> None:
    ids = np.array(list("aé🙂!".encode()), dtype=dtype)
    stream = BYTES.decode_stream()
    assert run(stream, ids) == ["a", "", "é", "", "", "", "🙂", "!", ""]


# Copies


# Arguments and words


def test_pending_is_read_only() -> None:
    with pytest.raises(AttributeError):
        BYTES.decode_stream().pending = b""  # type: ignore[misc]


def test_repr_shows_what_is_held() -> None:
    stream = BYTES.decode_stream([0xE4, 0xBD], errors="strict")
    assert repr(stream) == r"<DecodeStream errors='strict' pending=b'\xe4\xbd'>"


# Other vocabularies


@given(data_of_all_kinds, st.lists(st.integers(10, 80), min_size=1), st.booleans())
def test_long_tokens_stream_like_short_ones(data: bytes, sizes: list[int], several: bool) -> None:
    tokens = cut(data * 20, sizes)
    stream = DecodeStream(source_of(TokenTable(dict(enumerate(tokens)) or {0: b""})))
    ids = list(range(len(tokens)))
    texts = [stream.step(ids)] if several else run(stream, ids)
    text = "".join(texts) + stream.flush()
    assert text == (data * 20).decode("utf-8", "replace")


def by_ranks(tokenizer: Tokenizer, folder: Path) -> Tokenizer:
    """Return the tokenizer after a trip through a file that the native engine reads by itself."""
    path = folder / "model.tiktoken"
    tokenizer.save(path)
    return Tokenizer.load(path, pattern="gpt2", special_tokens=tokenizer.special_tokens)


@pytest.mark.parametrize("errors", ERRORS)
@pytest.mark.parametrize("skips", [False, True])
def test_each_id_of_a_loaded_vocabulary_streams_as_decoded(
    errors: str, skips: bool, tmp_path: Path
) -> None:
    trained = Tokenizer.train("né né 한 🙂 🙂", 270, special_tokens=[END, "<|a|>"])
    loaded = by_ranks(trained, tmp_path)
    options = {"errors": errors, "skip_special_tokens": skips}
    for id in loaded.ids:
        try:
            text = loaded.decode([id], **options)  # type: ignore[arg-type]
        except UnicodeDecodeError:
            continue
        streams = loaded.decode_stream(**options), loaded.decode_stream(stop_ids=9999, **options)  # type: ignore[arg-type]
        for stream in streams:
            assert [stream.step(id) + stream.flush() for _ in range(2)] == [text, text]
    for stream in (loaded.decode_stream(), loaded.decode_stream(stop="!")):
        with pytest.raises(
            KeyError, match=r"id 272 is not in this vocabulary \(its ids run from 0 to"
        ):
            stream.step(272)


@native_only
def test_streams_of_a_loaded_vocabulary_copy_what_they_meet(tmp_path: Path) -> None:
    loaded = by_ranks(Tokenizer.train("ab ab ab", 258), tmp_path)
    for options in ({}, {"stop": "!"}, {"skip_special_tokens": True, "max_tokens": 9}):
        stream = loaded.decode_stream([97], **options)
        assert [stream.step(id) for id in (256, 0xC3, 0xA9, 258)][:3] == ["ab", "", "é"]
    assert (loaded.decode([256]), loaded.token_bytes(257)) == ("ab", b" ab")
    assert {*vars(loaded._vocabulary)}.isdisjoint(("ordinary_tokens", "tokens"))


def test_the_ids_of_a_step_may_be_named() -> None:
    stream = BYTES.decode_stream()
    assert (stream.step(ids=97), stream.step(ids=[98, 99])) == ("a", "bc")


def test_help_documents_step() -> None:
    assert "`ids` is an id or several" in str(inspect.getdoc(vars(DecodeStream)["step"]))


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


def test_a_deep_copy_shares_the_vocabulary() -> None:
    stream = BYTES.decode_stream([0xF0, 0x9F])
    twin = copy.deepcopy(stream)
    assert twin.pending == b"\xf0\x9f"
    assert twin._mode.table is stream._mode.table


def test_a_stream_is_made_by_a_tokenizer_alone() -> None:
    with pytest.raises(TypeError, match="decode_stream"):
        DecodeStream(BYTES)  # type: ignore[arg-type]
