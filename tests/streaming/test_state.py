"""The costs of copies, states as JSON, and errors of streams."""

from __future__ import annotations

import json
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from support.engines import glibc_memory_only
from support.programs import output_of
from support.streams import BYTES, LENIENT, tokenizer_of

from bpetite import DecodeStream, DecodeStreamError, StreamVocabulary

# Several ids in a step


def test_a_list_that_another_thread_clears_counts_as_read() -> None:
    def clear(ids: list[int], begun: threading.Event) -> None:
        begun.wait()
        ids.clear()

    for _ in range(10):  # mostly during the step
        ids, begun = [0xC3] * 50_000, threading.Event()
        stream = BYTES.decode_stream()
        other = threading.Thread(target=clear, args=(ids, begun))
        other.start()
        begun.set()
        text = stream.step(ids)
        other.join()
        assert text == "" or stream.pending == b"\xc3"


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of memory")
@glibc_memory_only
def test_a_step_whose_text_has_no_room_in_memory_is_not_made() -> None:
    program = """
import resource
from bpetite import StreamVocabulary
stream = StreamVocabulary({0: b"a" * 1_000_000, 1: "🙂".encode(), 2: b"\\xf0"}).decode_stream()
ids = [0] * 64 + [1, 2]  # four times as much memory as text as it is as bytes
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 200_000_000, resource.RLIM_INFINITY))
try:
    stream.step(ids)
except MemoryError:
    print({**stream.to_state(), "vocabulary": None})
"""
    assert output_of(program) == "{'version': 1, 'vocabulary': None, 'tokens': 0}\n"


@pytest.mark.parametrize("ids", ["ab", b"ab", bytearray(b"ab")], ids=repr)
def test_a_step_takes_no_text(ids: Any) -> None:
    with pytest.raises(TypeError, match="an id must be an integer"):
        BYTES.decode_stream().step(ids)


# Copies

OPTIONS: dict[str, dict[str, Any]] = {
    "text alone": {},
    "a stop": {"stop": "END!"},
    "strict": {"errors": "strict"},
    "all": {
        "errors": "backslashreplace",
        "skip_special_tokens": True,
        "unknown": "skip",
        "stop": ["END!", "🙂"],
        "include_stop": True,
        "stop_ids": [300],
        "min_tokens": 3,
        "max_tokens": 1_000_000,
        "tags": ["<b>", "</b>"],
    },
}

every_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


@every_option
def test_a_copy_costs_the_same_at_any_length(options: dict[str, Any]) -> None:
    sizes = []
    for count in (10, 10_000):
        stream = BYTES.decode_stream(**options)
        stream.step([97] * count)
        sizes.append(sum(map(sys.getsizeof, (stream, stream.copy()))))
    assert sizes[0] == sizes[1]


def with_options(stream: DecodeStream, **options: Any) -> DecodeStream:
    """Return a stream that goes on from the position of another, with other options."""
    return DecodeStream.from_state(BYTES, {**stream.to_state(), **options})


@pytest.mark.parametrize("errors", LENIENT)
def test_a_strict_stream_goes_on_as_another(errors: str) -> None:
    strict = BYTES.decode_stream([0xE4, 0xBD], errors="strict")
    other = with_options(strict, errors=errors)
    assert other.step([0xA0, 97]) == "你a"


def test_a_stream_goes_on_with_other_stops() -> None:
    one = BYTES.decode_stream(stop="END")
    one.step(list(b"aEN"))
    other = with_options(one, stop=["Nx"])
    assert (other.withheld, other.step(120), other.stop_reason) == ("EN", "E", "Nx")


def test_a_counting_stream_goes_on_as_one_of_text_alone() -> None:
    one = BYTES.decode_stream(stop="END")
    one.step(list(b"aEN"))
    other = with_options(one, stop=[])
    (token,) = other.step_event(120).tokens
    assert (token.start, token.text) == (1, "ENx")


def test_a_stream_that_does_not_count_goes_on_as_none_that_does() -> None:
    stream = BYTES.decode_stream()
    stream.step(97)
    with pytest.raises(ValueError, match="no token counts"):
        with_options(stream, stop=["END"])


# A state that another process continues from


@every_option
def test_a_state_is_small(options: dict[str, Any]) -> None:
    stream = BYTES.decode_stream(**options)
    stream.step([97] * 100_000 + [*b"END", 0xF0, 0x9F, 0x99])
    given = [*options.get("stop", []), *options.get("tags", []), *options.get("stop_ids", [])]
    size = len(json.dumps(stream.to_state()))
    assert size - len(stream.withheld) - sum(len(json.dumps(each)) + 2 for each in given) <= 300


def test_a_state_has_what_differs_from_a_new_stream_alone() -> None:
    state = BYTES.decode_stream().to_state()
    assert len(state.pop("vocabulary")) == 16
    assert state == {"version": 1, "tokens": 0}


@pytest.mark.parametrize("name", ["withheld", "stop_reason", "text_after_stop", "stops_paused"])
def test_a_state_has_the_names_of_the_properties(name: str) -> None:
    stream = StreamVocabulary({0: b"EN", 1: b"END!"}).decode_stream(stop="END")
    stream.step(0 if name in ("withheld", "stops_paused") else 1)
    if name == "stops_paused":
        stream.pause_stops()
    assert stream.to_state()[name] == getattr(stream, name) != ""


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"version": 2}, ValueError),
        ({"version": True}, ValueError),
        ({"version": 1.0}, ValueError),
        ({"other": 1}, ValueError),
        ({"pending": "80"}, ValueError),
        ({"pending": "61c3"}, ValueError),
        ({"pending": "xy"}, ValueError),
        ({"pending": b"\xc3"}, TypeError),
        ({"withheld": 5}, TypeError),
        ({"withheld": "\ud800"}, ValueError),
        ({"tokens": -1}, ValueError),
        ({"tokens": 2**62 + 1}, ValueError),
        ({"tokens": True}, TypeError),
        ({"tokens": 1.0}, TypeError),
        ({"tokens": None}, TypeError),
        ({"characters": -1}, ValueError),
        ({"stop_reason": "x"}, ValueError),
        ({"stop_reason": 98}, ValueError),
        ({"stop_reason": []}, TypeError),
        ({"text_after_stop": None}, TypeError),
        ({"text_after_stop": "behind no stop"}, ValueError),
        ({"stop_reason": "END", "text_after_stop": "\ud800"}, ValueError),
        ({"stop_reason": "END", "failed": True}, ValueError),
        ({"failed": 1}, TypeError),
        ({"stops_paused": "no"}, TypeError),
        ({"errors": "none"}, ValueError),
        ({"stop": [5]}, TypeError),
        ({"stop_ids": ["a"]}, TypeError),
        ({"unknown": 5}, ValueError),
        ({"skip_special_tokens": "no"}, TypeError),
        ({"decoder_state": "x"}, ValueError),
        ({"characters": "1"}, TypeError),
        ({"vocabulary": 5}, ValueError),
        ({"tags": "\ud800"}, UnicodeEncodeError),
        ({"min_tokens": -1}, ValueError),
        ({"max_stop_bytes": -1}, ValueError),
        ({"include_stop": 1}, TypeError),
    ],
    ids=repr,
)
def test_wrong_field_of_a_state_is_named(change: dict[str, Any], error: type[Exception]) -> None:
    state = BYTES.decode_stream(stop="END", stop_ids=97).to_state()
    with pytest.raises(error, match="|".join(change)):
        DecodeStream.from_state(BYTES, state | change)


@pytest.mark.parametrize(
    "more", [{"withheld": "EN"}, {"characters": 2}, {"stops_paused": True}], ids=repr
)
def test_a_state_without_a_count_refuses_what_needs_one(more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"state has '{next(iter(more))}', but no count of tokens"):
        DecodeStream.from_state(BYTES, {"version": 1} | more)


@pytest.mark.parametrize("state", [None, "{}", []], ids=repr)
def test_a_state_is_a_dict(state: Any) -> None:
    with pytest.raises(TypeError, match="state must be a dict"):
        DecodeStream.from_state(BYTES, state)


def test_a_state_without_a_version_is_none() -> None:
    with pytest.raises(KeyError, match="version"):
        DecodeStream.from_state(BYTES, {})


def test_a_state_without_a_needed_count_is_refused() -> None:
    state = BYTES.decode_stream(stop="END").to_state()
    del state["tokens"]
    with pytest.raises(ValueError, match="no token counts"):
        DecodeStream.from_state(BYTES, state)


def test_streams_pickled_together_share_their_vocabulary() -> None:
    tokenizer = tokenizer_of([b"a long token, so that it shows"])
    streams = [tokenizer.decode_stream(stop=stop) for stop in ("a", "b")]
    together = pickle.loads(pickle.dumps([tokenizer, *streams]))
    tokens = together[0]._vocabulary.tokens
    assert [stream._mode.table.tokens is tokens for stream in together[1:]] == [True, True]


# Strict


def failure_of(action: Callable[[], object]) -> DecodeStreamError:
    with pytest.raises(DecodeStreamError) as caught:
        action()
    return caught.value


def test_the_error_is_a_unicode_decode_error_that_says_where() -> None:
    error = failure_of(lambda: BYTES.decode_stream(errors="strict").step([97, 0xFF]))
    assert isinstance(error, UnicodeDecodeError)
    assert str(error) == (
        "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte "
        "(with id 255, after 1 ids)"
    )


def test_the_error_is_pickled() -> None:
    error = failure_of(lambda: BYTES.decode_stream(errors="strict").step([97, 0xFF]))
    twin = pickle.loads(pickle.dumps(error))
    assert (str(twin), twin.id, twin.index, twin.text) == (str(error), 255, 1, "a")
