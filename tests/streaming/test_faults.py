"""Streams at their edges: failures after a stop id, other options, bounds, other vocabularies."""

from __future__ import annotations

import contextlib
import gc
import inspect
import itertools
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.examples import slow_except
from support.programs import output_of, posix_only
from support.streams import BYTES, END, END_ID, tokenizer_of
from support.vocabularies import vocabulary

from bpetite import DecodeStream, DecodeStreamError, StreamVocabulary, Tag, Tokenizer
from bpetite._streaming.options import OPTIONS, Options

# Stops


def test_flush_after_a_stop_id_heeds_a_pause() -> None:
    vocabulary = StreamVocabulary({1: b"a", 3: b"\xf0\x9f"})
    stream = vocabulary.decode_stream(errors="backslashreplace", stop="x", stop_ids=[1])
    stream.step([3, 1])
    stream.pause_stops()
    assert (stream.flush(), stream.stop_reason) == ("\\xf0\\x9f", 1)


def test_flush_keeps_the_first_stop_reason() -> None:
    vocabulary = StreamVocabulary({1: b"a", 3: b"\xf0\x9f"})
    stream = vocabulary.decode_stream(errors="backslashreplace", stop="x", stop_ids=[1])
    stream.step([3, 1])
    assert (stream.flush(), stream.stop_reason, stream.text_after_stop) == ("\\", 1, "")
    assert (stream.flush(), stream.step(1)) == ("", "")


def test_flush_counts_the_characters_it_returns() -> None:
    vocabulary = StreamVocabulary({0: b">", 1: b"\xe0"})
    stream = vocabulary.decode_stream(stop="\ufffd", include_stop=True)
    text = stream.step([0, 1]) + stream.flush()
    assert (text, stream.to_state()["characters"]) == (">\ufffd", 2)


def test_a_state_after_a_stop_of_another_stream_is_refused() -> None:
    stream = BYTES.decode_stream(stop="a")
    stream.step(97)
    with pytest.raises(ValueError, match="is 'a', which this stream does not stop at"):
        DecodeStream.from_state(BYTES, {**stream.to_state(), "stop": ["zz"]})


# Interrupts


def is_interrupted(call: Callable[[], object], event: int) -> bool:
    """Return whether a call was interrupted: where Python calls or returns for the nth time."""
    events = itertools.count()

    def interrupt(*_: object) -> None:
        if next(events) == event:
            raise KeyboardInterrupt

    gc.disable()  # nothing else is interrupted
    with contextlib.suppress(DecodeStreamError, KeyError):
        try:
            sys.setprofile(interrupt)  # a function that raises is taken off by itself
            try:
                call()
            finally:
                sys.setprofile(None)
        except KeyboardInterrupt:
            return True
        finally:
            gc.enable()
    return False


def outcome(stream: DecodeStream) -> object:
    """Return all that a stream does with a text, as far as it comes."""
    stream, texts = stream.copy(), list[str]()
    with contextlib.suppress(ValueError):
        texts += map(stream.step, [*"é END <b>".encode(), 0xFF])
        texts.append(stream.flush())
    return texts, stream.stop_reason


CALLS: dict[str, Callable[[DecodeStream], object]] = {
    "step": lambda stream: stream.step(ord("N")),
    "step to a stop": lambda stream: stream.step([*b"ND!"]),
    "step with an unfinished character": lambda stream: stream.step([0xC3]),
    "step with bad bytes": lambda stream: stream.step(0xFF),
    "step_event": lambda stream: stream.step_event([*b"<b>N"]),
    "step_event of an id": lambda stream: stream.step_event(ord("N")),
    "step_event to an end": lambda stream: stream.step_event([0xC3, *b"NDEN!"]),
    "flush_event": DecodeStream.flush_event,
    "flush": DecodeStream.flush,
    "reset": DecodeStream.reset,
    "pause_stops": DecodeStream.pause_stops,
    "resume_stops": DecodeStream.resume_stops,
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stop": "END"},
        {"stop": "END", "tags": "<b>", "min_tokens": 3},
        {"stop_ids": ord("N"), "stop": "END", "errors": "strict"},
        {"stop_ids": ord("N"), "include_stop": True, "max_tokens": 5},
    ],
    ids=["plain", "stop", "tags and min_tokens", "strict", "max_tokens"],
)
def test_an_interrupt_leaves_a_stream_before_or_after(options: dict[str, Any], call: str) -> None:
    start = BYTES.decode_stream(**options)
    start.step_event([*b"aE"] if call != "step to a stop" else [*b"baE"])
    if call == "resume_stops":
        start.pause_stops()
    after = start.copy()
    with contextlib.suppress(DecodeStreamError):
        CALLS[call](after)
    expected = [(each.to_state(), outcome(each)) for each in (start, after)]
    for event in itertools.count():
        stream = start.copy()
        came = is_interrupted(lambda: CALLS[call](stream), event)  # noqa: B023
        assert (stream.to_state(), outcome(stream)) in expected
        if not came:
            break
    assert event > 1


@pytest.mark.parametrize("options", [{}, {"stop": "END"}], ids=["plain", "stop"])
@pytest.mark.parametrize("method", ["step", "step_event"])
def test_an_interrupt_leaves_no_steps_before_an_unknown_id(
    options: dict[str, Any], method: str
) -> None:
    start = BYTES.decode_stream(**options)
    if method == "step_event":
        start.step_event([])
    start.step(0xC3)
    for event in itertools.count():
        stream = start.copy()
        step = getattr(stream, method)
        came = is_interrupted(lambda: step([0xA9, *b" EN", 0xC3, 10**6]), event)  # noqa: B023
        assert (stream.to_state(), outcome(stream)) == (start.to_state(), outcome(start))
        if not came:
            break
    assert event > 1


def test_an_interrupt_leaves_a_stream_counting_or_not() -> None:
    for event in itertools.count():
        stream = BYTES.decode_stream([0xC3])
        came = is_interrupted(lambda: stream.step_event([]), event)  # noqa: B023
        assert (stream.pending, stream.step_event([0xA9]).text) == (b"\xc3", "é")
        if not came:
            break
    assert event > 1


TIMED = """
import random, signal, time
from bpetite import Tokenizer

tokenizer = Tokenizer.load("framed.json")
a, b = (tokenizer.encode(text, add_special_tokens=True) for text in (" x", "a b x"))
signal.signal(signal.SIGALRM, signal.default_int_handler)
rng, end = random.Random(1), time.monotonic() + SECONDS
while time.monotonic() < end:
    stream = tokenizer.encode_stream(add_special_tokens=True)
    stream.step("a b")
    try:
        signal.setitimer(signal.ITIMER_REAL, rng.uniform(3e-6, 40e-6))
        for _ in range(40):
            stream.reset()
            stream.step("a b")
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        pass
    rest = [*stream.step(" x"), *stream.flush()]
    assert rest in (a, b[2:]), rest
"""


@posix_only
@pytest.mark.parametrize("seconds", slow_except([0.5, 5], 0.5))
def test_an_interrupt_leaves_an_encode_stream_whole(seconds: float, tmp_path: Path) -> None:
    """The ids before a text come once. Only signals interrupt between two fields."""
    framed = vocabulary({}, [], prefix_ids=(1,), suffix_ids=(2,))
    Tokenizer(framed).save(tmp_path / "framed.json")
    with contextlib.chdir(tmp_path):
        output_of(TIMED.replace("SECONDS", str(seconds)))


# The cost after a stop


@pytest.mark.parametrize(
    "stop", [{"stop": "!"}, {"stop_ids": 33}, {"max_tokens": 2}], ids=["string", "id", "length"]
)
@pytest.mark.parametrize("ids", [97, [97, 98, 33, 0xF0]], ids=repr)
def test_a_step_after_a_stop_costs_no_more(stop: dict[str, Any], ids: Any) -> None:
    stream = BYTES.decode_stream(**stop)
    stream.step([97, 33])
    functions: list[str] = []

    def note(frame: Any, event: str, _argument: object) -> None:
        if event in ("call", "exception"):
            functions.append(f"{event} {frame.f_code.co_name}")

    tracer = sys.gettrace()  # coverage's, if it is measured
    sys.setprofile(note)
    sys.settrace(note)
    try:
        text = stream.step(ids)
    finally:
        sys.settrace(tracer)
        sys.setprofile(None)
    assert text == ""
    assert stream.finish_reason is not None
    assert [name for name in functions if name.startswith("exception")] == []
    assert len({*functions}) <= 3, functions


# Bounds, and stops that are never found


def test_stops_and_tags_have_64_kib_together() -> None:
    half = "é" * 16_384  # 32 KiB
    BYTES.decode_stream(stop=half, tags="b" * 32_768)
    with pytest.raises(ValueError, match=r"65,537 bytes together, more than 65,536; give shorter"):
        BYTES.decode_stream(stop=half, tags="b" * 32_769)


def test_max_stop_bytes_sets_the_bound() -> None:
    with pytest.raises(ValueError, match="max_stop_bytes"):
        BYTES.decode_stream(stop="END", max_stop_bytes=2)
    stream = BYTES.decode_stream(stop="a" * 70_000, max_stop_bytes=70_000)
    assert DecodeStream.from_state(BYTES, stream.to_state()).step(97) == ""


def test_a_stop_that_is_skipped_names_its_id() -> None:
    with pytest.raises(ValueError, match=rf"skip_special_tokens .* use stop_ids=\[{END_ID}\]"):
        BYTES.decode_stream(stop=END, skip_special_tokens=True)
    vocabulary = StreamVocabulary({7: b"a", 9: b"</s>"}, [9])
    with pytest.raises(ValueError, match=r"use stop_ids=\[9\]"):
        vocabulary.decode_stream(stop=["x", "</s>"], skip_special_tokens=True)


@pytest.mark.parametrize("options", [{}, {"stop_ids": END_ID}], ids=["alone", "a stop id"])
def test_a_tag_that_is_skipped_is_refused(options: dict[str, Any]) -> None:
    expected = rf"tags has '{re.escape(END)}', .* use skip_special_tokens=False"
    with pytest.raises(ValueError, match=expected):
        BYTES.decode_stream(tags=["<b>", END], skip_special_tokens=True, **options)
    stream = BYTES.decode_stream(tags=["<b>", END], **options)
    assert stream.step_event(END_ID).pieces == (() if options else (Tag(END),))


@pytest.mark.parametrize(
    "options",
    [{"skip_special_tokens": True, "stop_ids": END_ID}, {}],
    ids=["its id", "not skipped"],
)
def test_a_special_token_may_be_a_stop(options: dict[str, Any]) -> None:
    stream = BYTES.decode_stream(stop=END, **options)
    assert (stream.step([97, END_ID, 98]), stream.finish_reason) == ("a", "stop")


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'stops'"):
        BYTES.decode_stream(stops="a")  # type: ignore[call-arg]


# States


def test_a_state_of_another_vocabulary_is_refused() -> None:
    other = tokenizer_of([b"another"])
    state = BYTES.decode_stream(stop="END").to_state()
    with pytest.raises(ValueError, match="state is of another vocabulary: its 'vocabulary' is"):
        DecodeStream.from_state(other, state)


def test_a_state_goes_on_in_an_equal_vocabulary() -> None:
    same = StreamVocabulary({id: BYTES.token_bytes(id) for id in reversed(range(257))})
    state = BYTES.decode_stream([0xC3]).to_state()
    assert DecodeStream.from_state(same, state).step(0xA9) == "é"


def test_a_state_without_a_vocabulary_goes_on() -> None:
    state = {"version": 1, "pending": "c3"}
    assert DecodeStream.from_state(BYTES, state).step(0xA9) == "é"


# Options are declared once


def test_options_are_the_same_in_both_declarations() -> None:
    assert [*OPTIONS] == [*Options._fields]


@pytest.mark.parametrize(
    "method",
    [
        Tokenizer.decode_stream,
        Tokenizer.stream,
        Tokenizer.astream,
        StreamVocabulary.decode_stream,
        StreamVocabulary.stream,
        StreamVocabulary.astream,
    ],
)
def test_each_method_has_all_options(method: Callable[..., object]) -> None:
    parameters = inspect.signature(method).parameters
    assert {*OPTIONS} <= {*parameters}
    assert parameters["stop"].default is None


def test_help_documents_each_option() -> None:
    documentation = str(Tokenizer.decode_stream.__doc__)
    assert [name for name in OPTIONS if f"    {name}: " not in documentation] == []


# Forks

FORKS = """
import os, signal, threading, time
from bpetite import StreamVocabulary, Tokenizer

ended = threading.Event()

def make_streams(number):
    count = 0
    while not ended.is_set():
        count += 1
        tokenizer = Tokenizer.train("ab ab", 257)
        shared.decode_stream(stop=f"{number} {count}").step([97, 98])
        tokenizer.decode_stream(stop="x", skip_special_tokens=True).step([97, 98])
        StreamVocabulary({7: b"a", 8: b"\\xc3"}).decode_stream([8]).step(7)

shared = Tokenizer.train("ab ab", 257)
threads = [threading.Thread(target=make_streams, args=(number,)) for number in range(3)]
for thread in threads:
    thread.start()
statuses = []
for number in range(60):
    child = os.fork()
    if child == 0:
        text = shared.decode_stream(stop=f"child {number}").step([97, 98])
        own = Tokenizer.train("ab ab", 257)
        text += own.decode_stream(skip_special_tokens=True).step(97)
        text += StreamVocabulary({7: b"a"}).decode_stream().step(7)
        os._exit(0 if text == "abaa" else 1)
    end = time.monotonic() + 10
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            statuses.append("hangs")
            break
        time.sleep(0.001)
    if "hangs" in statuses:
        break
ended.set()
for thread in threads:
    thread.join()
print(statuses)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_makes_streams_while_threads_do() -> None:
    assert output_of(FORKS, timeout=60) == "[]\n"
