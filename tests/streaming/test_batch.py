"""Many streams in one call."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import few_examples
from support.streams import BYTES, END_ID, REPLACED

from bpetite import DecodeStreamBatch, DecodeStreamBatchError, DecodeStreamError


def test_each_key_has_a_stream_of_its_own() -> None:
    streams = DecodeStreamBatch[str](BYTES)
    steps = [
        streams.step({"a": a, "b": b}) for a, b in zip(b"\xc3\xa9x", b"y\xc3\xa8", strict=True)
    ]
    assert steps == [{"a": "", "b": "y"}, {"a": "é", "b": ""}, {"a": "x", "b": "è"}]


@pytest.mark.parametrize("ids", [97, [97], (97,), [97, 98], []], ids=repr)
def test_a_step_takes_an_id_or_several(ids: Any) -> None:
    text = "a" if ids == 97 else "".join(map(chr, ids))
    assert DecodeStreamBatch[int](BYTES).step({7: ids}) == {7: text}


def test_a_stream_need_not_be_in_every_step() -> None:
    streams = DecodeStreamBatch[str](BYTES)
    steps = [{"a": 0xC3}, {"b": 97}, {}, {"a": 0xA9}]
    assert [streams.step(step) for step in steps] == [{"a": ""}, {"b": "a"}, {}, {"a": "é"}]


def test_finish_returns_what_is_held_and_forgets_the_stream() -> None:
    streams = DecodeStreamBatch[str](BYTES)
    streams.step({"a": 0xC3, "b": 97})
    assert [streams.finish("a"), streams.finish("a"), list(streams)] == [REPLACED, "", ["b"]]
    assert streams.step({"a": 0xA9}) == {"a": REPLACED}


def test_the_options_are_for_all() -> None:
    streams = DecodeStreamBatch[str](BYTES, stop="!", skip_special_tokens=True)
    assert streams.step({"a": [97, END_ID, 33], "b": 98}) == {"a": "a", "b": "b"}
    assert {key: streams[key].stop_reason for key in streams} == {"a": "!", "b": None}


def test_an_iterator_of_stops_is_for_all() -> None:
    streams = DecodeStreamBatch[str](BYTES, stop=iter("!?"), stop_ids=iter([98]))
    assert streams.step({"a": [*b"a!a"], "b": [*b"c?c"], "c": [*b"cbc"]}) == {
        "a": "a",
        "b": "c",
        "c": "c",
    }


def test_a_stream_may_have_a_prompt_and_options_of_its_own() -> None:
    streams = DecodeStreamBatch[str](BYTES, stop="!")
    streams.add("a", [0xC3], stop="?")
    assert streams.step({"a": [0xA9, 33, 63], "b": [97, 33]}) == {"a": "é!", "b": "a"}


def test_a_key_is_added_once() -> None:
    streams = DecodeStreamBatch[str](BYTES)
    streams.step({"a": 97})
    with pytest.raises(ValueError, match="'a'"):
        streams.add("a")


def test_one_stream_that_fails_does_not_fail_the_others() -> None:
    streams = DecodeStreamBatch[str](BYTES, errors="strict")
    with pytest.raises(DecodeStreamBatchError) as caught:
        streams.step({"a": 97, "b": 500, "c": [98, 0xFF], "d": 99})
    error = caught.value
    assert error.texts == {"a": "a", "d": "c"}
    assert {key: type(each) for key, each in error.errors.items()} == {
        "b": KeyError,
        "c": DecodeStreamError,
    }
    assert error.exceptions == tuple(error.errors.values())
    assert streams.step({"a": 97, "b": 98}) == {"a": "a", "b": "b"}


def test_a_stream_is_forgotten_though_flush_fails() -> None:
    streams = DecodeStreamBatch[str](BYTES, errors="strict")
    streams.step({"a": 0xC3})
    with pytest.raises(DecodeStreamError):
        streams.finish("a")
    assert "a" not in streams


def test_wrong_options_are_told_at_once() -> None:
    with pytest.raises(ValueError, match="errors"):
        DecodeStreamBatch(BYTES, errors="none")


def test_repr_shows_how_many_there_are() -> None:
    streams = DecodeStreamBatch[int](BYTES)
    streams.step({1: 97, 2: 97})
    assert (repr(streams), len(streams)) == ("<DecodeStreamBatch: 2>", 2)


@few_examples
@given(
    st.lists(
        st.dictionaries(
            st.integers(0, 3), st.one_of(st.integers(0, 256), st.lists(st.integers(0, 256)))
        )
    ),
    st.sampled_from([{}, {"stop": ["ab", "\ufffd"]}, {"skip_special_tokens": True}]),
)
def test_many_streams_are_as_many_single_ones(steps: list[Any], options: dict[str, Any]) -> None:
    streams = DecodeStreamBatch[int](BYTES, **options)
    single = {key: BYTES.decode_stream(**options) for key in range(4)}
    for step in steps:
        assert streams.step(step) == {key: single[key].step(ids) for key, ids in step.items()}
    assert [streams.finish(key) for key in single] == [each.flush() for each in single.values()]
