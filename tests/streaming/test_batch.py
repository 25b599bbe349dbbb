"""Many streams in one call."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from types import MappingProxyType
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import few_examples
from support.streams import BYTES, REPLACED

from bpetite import DecodeStreamBatch, DecodeStreamBatchError, DecodeStreamError

K = TypeVar("K", bound=Hashable)


def batch_of(keys: Iterable[K], **options: Any) -> DecodeStreamBatch[K]:
    """Return a batch that has a stream for each key."""
    streams = DecodeStreamBatch[K](BYTES, **options)
    for key in keys:
        streams.add(key)
    return streams


def test_finish_returns_what_is_held_and_forgets_the_stream() -> None:
    streams = batch_of("ab")
    streams.step({"a": 0xC3, "b": 97})
    assert [streams.finish("a"), streams.finish("a"), list(streams)] == [REPLACED, "", ["b"]]
    streams.add("a")
    assert streams.step({"a": 0xA9}) == {"a": REPLACED}


def test_a_late_step_of_a_finished_stream_is_an_error() -> None:
    streams = batch_of("a", stop="X")
    streams.finish("a")
    with pytest.raises(KeyError, match="the key 'a' has no stream"):
        streams.step({"a": [*b"late X"]})
    assert "a" not in streams


@pytest.mark.parametrize("order", ["abc", "cab"])
def test_a_step_with_an_unknown_key_changes_no_stream(order: str) -> None:
    streams = batch_of("ab", stop="xy")
    streams.step({"a": [*b"x"], "b": 0xC3})
    before = {key: streams[key].to_state() for key in streams}
    with pytest.raises(KeyError, match="the key 'c' has no stream, so no stream made this step"):
        streams.step(dict.fromkeys(order, 97))
    assert {key: streams[key].to_state() for key in streams} == before
    assert streams.step({"a": ord("y"), "b": 0xA9}) == {"a": "", "b": "é"}


def test_a_step_takes_any_mapping() -> None:
    streams = batch_of("ab")
    assert streams.step(MappingProxyType({"a": 97})) == {"a": "a"}
    with pytest.raises(KeyError, match="'c'"):
        streams.step(MappingProxyType({"c": 97}))


def test_an_iterator_of_stops_is_for_all() -> None:
    streams = batch_of("abc", stop=iter("!?"), stop_ids=iter([98]))
    assert streams.step({"a": [*b"a!a"], "b": [*b"c?c"], "c": [*b"cbc"]}) == {
        "a": "a",
        "b": "c",
        "c": "c",
    }


def test_a_stream_may_have_a_prompt_and_options_of_its_own() -> None:
    streams = batch_of("b", stop="!")
    streams.add("a", [0xC3], stop="?")
    assert streams.step({"a": [0xA9, 33, 63], "b": [97, 33]}) == {"a": "é!", "b": "a"}


def test_a_key_is_added_once() -> None:
    streams = batch_of("a")
    with pytest.raises(ValueError, match="'a'"):
        streams.add("a")


def test_one_stream_that_fails_does_not_fail_the_others() -> None:
    streams = batch_of("abcd", errors="strict")
    with pytest.raises(DecodeStreamBatchError) as caught:
        streams.step({"a": 97, "b": 500, "c": [98, 0xFF], "d": 99})
    error = caught.value
    assert error.results == {"a": "a", "d": "c"}
    assert {key: type(each) for key, each in error.errors.items()} == {
        "b": KeyError,
        "c": DecodeStreamError,
    }
    assert error.exceptions == tuple(error.errors.values())
    assert streams.step({"a": 97, "b": 98}) == {"a": "a", "b": "b"}


def test_events_of_a_batch_match_its_streams() -> None:
    streams = batch_of("ab", stop="!", max_tokens=3)
    alone = {key: BYTES.decode_stream(stop="!", max_tokens=3) for key in "ab"}
    steps: list[dict[str, Any]] = [
        {"a": 97, "b": [0xC3, 0xA9]},
        {"a": [33, 98], "b": [99]},
        {"b": 100},
    ]
    for step in steps:
        events = streams.step_event(step)
        assert events == {key: alone[key].step_event(ids) for key, ids in step.items()}
    assert {key: streams[key].finish_reason for key in streams} == {"a": "stop", "b": "length"}


def test_a_stream_is_forgotten_though_flush_fails() -> None:
    streams = batch_of("a", errors="strict")
    streams.step({"a": 0xC3})
    with pytest.raises(DecodeStreamError):
        streams.finish("a")
    assert "a" not in streams


def test_wrong_options_are_told_at_once() -> None:
    with pytest.raises(ValueError, match="errors"):
        DecodeStreamBatch(BYTES, errors="none")


def test_repr_shows_how_many_there_are() -> None:
    streams = batch_of([1, 2])
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
    streams = batch_of(range(4), **options)
    single = {key: BYTES.decode_stream(**options) for key in range(4)}
    for step in steps:
        assert streams.step(step) == {key: single[key].step(ids) for key, ids in step.items()}
    assert [streams.finish(key) for key in single] == [each.flush() for each in single.values()]
