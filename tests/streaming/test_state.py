"""Streams that are copied, restored, saved, or that failed."""

from __future__ import annotations

import copy
import json
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.engines import glibc_memory_only
from support.programs import output_of
from support.streams import BYTES, END_ID, LENIENT, REPLACED, ids_of, tokenizer_of

from bpetite import DecodeStream, DecodeStreamError, StreamVocabulary, Tokenizer

# Several ids in a step


@pytest.mark.parametrize("ids", [[97, 500], [97, -1], [97, None], [97, True], [97, [98]]], ids=repr)
@pytest.mark.parametrize("options", [{}, {"stop": "END"}], ids=["text alone", "a stop"])
@pytest.mark.parametrize("use", ["step", "step_events", "step_tokens"])
def test_a_step_of_several_is_made_whole_or_not_at_all(
    use: str, options: dict[str, Any], ids: Any
) -> None:
    stream = BYTES.decode_stream(**options)
    stream.step_tokens([69, 0xC3])
    before = stream.to_state()
    with pytest.raises((KeyError, TypeError)):
        getattr(stream, use)(ids)
    assert stream.to_state() == before
    assert stream.step([0xA9, 97]).endswith("éa")


@pytest.mark.parametrize("kind", [list, tuple, iter, dict.fromkeys])
def test_a_step_of_no_ids_changes_nothing(kind: Callable[[list[int]], Any]) -> None:
    stream = BYTES.decode_stream([0xF0])
    before = stream.to_state()
    assert (stream.step(kind([])), stream.to_state()) == ("", before)


@pytest.mark.parametrize("kind", [list, tuple, iter, dict.fromkeys, np.array])
def test_a_step_takes_any_iterable_of_ids(kind: Callable[[list[int]], Any]) -> None:
    assert BYTES.decode_stream().step(kind([97, 98])) == "ab"


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
from bpetite import DecodeStream
stream = DecodeStream.from_vocabulary({0: b"a" * 1_000_000, 1: "🙂".encode(), 2: b"\\xf0"})
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


@pytest.mark.parametrize("options", [{}, {"stop": "END"}], ids=["text alone", "a stop"])
@pytest.mark.parametrize("id", [257, 1 << 70, -1])
def test_unknown_ids_may_be_skipped(id: int, options: dict[str, Any]) -> None:
    stream = BYTES.decode_stream(unknown="skip", **options)
    assert [stream.step(each) for each in (97, 0xC3, id, 0xA9)] == ["a", "", "", "é"]


@pytest.mark.parametrize("id", [True, 1.0, "a", None])
def test_only_integers_are_skipped(id: Any) -> None:
    with pytest.raises(TypeError):
        BYTES.decode_stream(unknown="skip").step(id)


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
        "tags": ["<b>", "</b>"],
    },
}

every_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


@every_option
def test_rejected_tokens_are_taken_back(options: dict[str, Any]) -> None:
    stream = BYTES.decode_stream(**options)
    stream.step([*b"EN", 0xF0])
    before = stream.copy()
    rejected = [stream.step(id) for id in (0x9F, 0x99, 0x82, 97)]
    after = before.copy()
    accepted = [after.step(id) for id in (0x9F, 0x98, 0x82, 98)]
    assert "".join(rejected).endswith("🙂a") or stream.stopped
    assert "".join(accepted).endswith("😂b")
    assert before.pending == b"\xf0"


@every_option
def test_a_copy_costs_the_same_at_any_length(options: dict[str, Any]) -> None:
    sizes = []
    for count in (10, 10_000):
        stream = BYTES.decode_stream(**options)
        stream.step([97] * count)
        sizes.append(sum(map(sys.getsizeof, (stream, stream.copy()))))
    assert sizes[0] == sizes[1]


def test_a_copy_takes_a_stop_back() -> None:
    stream = BYTES.decode_stream(stop="!")
    before = stream.copy()
    stream.step(list(b"a!b"))
    assert (before.stop_reason, before.text_after_stop, before.step(98)) == (None, "", "b")


def test_a_copy_takes_a_failure_back() -> None:
    stream = BYTES.decode_stream([0xE4, 0xBD], errors="strict")
    before = stream.copy()
    with pytest.raises(DecodeStreamError):
        stream.step(0xF0)
    assert before.step(0xA0) == "你"


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
    (token,) = other.step_tokens(120)
    assert (token.start, token.text) == (1, "ENx")


def test_a_stream_that_does_not_count_goes_on_as_none_that_does() -> None:
    stream = BYTES.decode_stream()
    stream.step(97)
    with pytest.raises(ValueError, match="not counted"):
        with_options(stream, stop=["END"])


def test_a_stream_that_counts_goes_back_to_when_it_did_not() -> None:
    stream = BYTES.decode_stream()
    begin = stream.copy()
    stream.step_tokens([97, 98])
    assert [begin.step(99), type(begin) is DecodeStream] == ["c", True]


@pytest.mark.parametrize("make", [DecodeStream.copy, copy.copy, copy.deepcopy], ids=["1", "2", "3"])
@every_option
def test_a_copy_goes_on_by_itself(
    make: Callable[[DecodeStream], DecodeStream], options: dict[str, Any]
) -> None:
    stream = BYTES.decode_stream(**options)
    stream.step(list(b"xx xEN"))
    other = make(stream) if make is not DecodeStream.copy else stream.copy()
    texts = [each.step(list(text)) for each, text in ((stream, b"D?"), (other, b"d?"))]
    assert [text[-2:] for text in texts] == ["D?", "d?"]


# A state that another process continues from


@every_option
def test_a_state_is_small(options: dict[str, Any]) -> None:
    stream = BYTES.decode_stream(**options)
    stream.step([97] * 100_000 + [*b"END", 0xF0, 0x9F, 0x99])
    given = [*options.get("stop", []), *options.get("tags", []), *options.get("stop_ids", [])]
    size = len(json.dumps(stream.to_state()))
    assert size - len(stream.withheld) - sum(len(json.dumps(each)) + 2 for each in given) <= 300


@every_option
def test_the_state_of_a_stream_from_a_state_is_the_same(options: dict[str, Any]) -> None:
    stream = BYTES.decode_stream(**options)
    for ids in ([], [*b"a<EN"], [0xE4, 0xBD]):
        stream.step(ids)
        state = stream.to_state()
        assert DecodeStream.from_state(BYTES, json.loads(json.dumps(state))).to_state() == state


def test_a_state_has_what_differs_from_a_new_stream_alone() -> None:
    state = BYTES.decode_stream().to_state()
    assert len(state.pop("vocabulary")) == 16
    assert state == {"version": 1, "tokens": 0}


def test_a_state_goes_on_after_a_stop() -> None:
    tokenizer = tokenizer_of([b"a!b"])
    stream = tokenizer.decode_stream(stop="!")
    stream.step(tokenizer.token_id(b"a!b"))
    other = DecodeStream.from_state(tokenizer, stream.to_state())
    assert (other.step(97), other.stop_reason, other.text_after_stop, other.flush()) == (
        "",
        "!",
        "b",
        "",
    )


def test_a_state_goes_on_after_a_stop_id() -> None:
    stream = BYTES.decode_stream(stop="END", stop_ids=END_ID)
    stream.step([*b"aEN", END_ID])
    other = DecodeStream.from_state(BYTES, stream.to_state())
    assert (other.step(97), other.stop_reason, other.flush()) == ("", END_ID, "EN")


def test_a_state_goes_on_failed() -> None:
    stream = BYTES.decode_stream([0xE4], errors="strict")
    with pytest.raises(DecodeStreamError):
        stream.step(97)
    with pytest.raises(ValueError, match=r"reset\(\)"):
        DecodeStream.from_state(BYTES, stream.to_state()).step(97)


def test_a_state_keeps_stops_paused() -> None:
    stream = BYTES.decode_stream(stop="END")
    stream.step(list(b"EN"))
    stream.pause_stops()
    other = DecodeStream.from_state(BYTES, stream.to_state())
    assert (other.stops_paused, other.step(68), other.stop_reason) == (True, "END", None)


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
    ],
    ids=repr,
)
def test_a_wrong_state_is_refused(change: dict[str, Any], error: type[Exception]) -> None:
    state = BYTES.decode_stream(stop="END", stop_ids=97).to_state()
    with pytest.raises(error):
        DecodeStream.from_state(BYTES, state | change)


@pytest.mark.parametrize(
    "more", [{"withheld": "EN"}, {"characters": 2}, {"stops_paused": True}], ids=repr
)
def test_a_state_without_a_count_refuses_what_needs_one(more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"no count of tokens, but '{next(iter(more))}'"):
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
    with pytest.raises(ValueError, match="not counted"):
        DecodeStream.from_state(BYTES, state)


@every_option
def test_a_pickled_stream_goes_on(options: dict[str, Any]) -> None:
    stream = BYTES.decode_stream(**options)
    stream.step([*b"aEN", 0xF0, 0x9F])
    other = pickle.loads(pickle.dumps(stream))
    ids = [0x98, 0x82, END_ID, 97]
    assert [other.step(id) for id in ids] == [stream.step(id) for id in ids]


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


def test_the_error_has_the_id_its_index_and_the_text_before_it() -> None:
    tokens = [b"a", b"b\xe4\xbd", b"hi"]
    tokenizer = tokenizer_of(tokens)
    stream = tokenizer.decode_stream(errors="strict")
    ids = ids_of(tokenizer, tokens)
    shown = stream.step(ids[0]) + stream.step(ids[1])
    error = failure_of(lambda: stream.step(ids[2]))
    assert (shown, error.id, error.index, error.text) == ("ab", ids[2], 2, "")
    assert (error.object, error.start, error.end) == (b"\xe4\xbdhi", 0, 2)


def test_the_text_of_the_token_before_the_error_is_in_it() -> None:
    tokenizer = tokenizer_of([b"hi\xff"])
    stream = tokenizer.decode_stream(errors="strict", stop="ENDhi!")
    stream.step(list(b"END"))
    error = failure_of(lambda: stream.step(tokenizer.token_id(b"hi\xff")))
    assert (error.index, error.text) == (3, "ENDhi")


@pytest.mark.parametrize("use", ["step", "step_events", "step_tokens"])
def test_the_text_of_the_other_ids_of_the_step_is_in_it(use: str) -> None:
    stream = BYTES.decode_stream(errors="strict")
    error = failure_of(lambda: getattr(stream, use)([97, 98, 0xFF, 99]))
    assert (error.id, error.index, error.text) == (0xFF, 2, "ab")


def test_an_error_of_flush_has_no_id() -> None:
    stream = BYTES.decode_stream(errors="strict", stop="END")
    stream.step([*b"EN", 0xF0])
    error = failure_of(stream.flush)
    assert (error.id, error.index, error.text, error.object) == (None, 3, "EN", b"\xf0")


def test_a_stop_before_bad_bytes_comes_first() -> None:
    tokenizer = tokenizer_of([b"aENDb\xff"])
    stream = tokenizer.decode_stream(errors="strict", stop="END")
    text = stream.step(tokenizer.token_id(b"aENDb\xff"))
    assert (text, stream.stop_reason, stream.text_after_stop) == ("a", "END", "b")


def test_ids_are_counted_that_have_no_text() -> None:
    stream = BYTES.decode_stream(errors="strict", unknown="skip", skip_special_tokens=True)
    error = failure_of(lambda: stream.step([500, END_ID, 97, 0xFF]))
    assert error.index == 3


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


def test_text_that_was_returned_and_the_errors_is_the_valid_text(tokenizer: Tokenizer) -> None:
    text = "The END of it, é🙂"
    stream = tokenizer.decode_stream(errors="strict", stop=["END!", "🙂!"])
    shown = "".join(map(stream.step, tokenizer.encode(text)))
    error = failure_of(lambda: stream.step(tokenizer.token_id(b"\xff")))
    assert (shown + error.text, REPLACED in shown) == (text, False)
