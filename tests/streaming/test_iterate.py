"""Iterators over a stream yield texts or events, and close their source."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.streams import BYTES, END, END_ID, REPLACED

from bpetite import DecodeStreamError, StreamEvent, Tag, TokenText


class Source:
    """A source of ids for both kinds of loop, with counts of the ids read and of closings.

    If an exception is among the ids, the source raises it.
    """

    def __init__(self, ids: Any) -> None:
        self.ids = list(ids)
        self.read = 0
        self.closed = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self.read == len(self.ids):
            raise StopIteration
        self.read += 1
        value = self.ids[self.read - 1]
        if isinstance(value, BaseException):
            raise value
        return value

    def close(self) -> None:
        self.closed += 1

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        await asyncio.sleep(0)
        try:
            return next(self)
        except StopIteration:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        self.closed += 1


def listed(source: Source, texts: list[str], **options: Any) -> None:
    texts.extend(BYTES.stream(source, **options))


def alisted(source: Source, texts: list[str], **options: Any) -> None:
    async def collect() -> None:
        async for text in BYTES.astream(source, **options):
            texts.append(text)  # noqa: PERF401 - texts before an error stay

    asyncio.run(collect())


def listed_events(source: Source, texts: list[str], **options: Any) -> None:
    for event in BYTES.decode_stream(**options).events(source):
        texts.extend(event.pieces)


def alisted_events(source: Source, texts: list[str], **options: Any) -> None:
    async def collect() -> None:
        async for event in BYTES.decode_stream(**options).aevents(source):
            texts.extend(event.pieces)

    asyncio.run(collect())


each_way = pytest.mark.parametrize(
    "collect",
    [listed, alisted, listed_events, alisted_events],
    ids=["stream", "astream", "events", "aevents"],
)
Collect = Callable[..., None]


@each_way
@pytest.mark.parametrize(
    ("ids", "options", "texts", "read"),
    [
        pytest.param([], {}, [], 0, id="no ids"),
        pytest.param([97, 0xC3, 0xA9], {}, ["a", "é"], 3, id="no empty text"),
        pytest.param([97, 0xF0], {}, ["a", REPLACED], 2, id="flushed"),
        pytest.param([[97, 98], [], 99], {}, ["ab", "c"], 3, id="several at a time"),
        pytest.param([*b"aEN"], {"stop": "END"}, ["a", "EN"], 3, id="withheld text is flushed"),
        pytest.param([*b"aENDbc"], {"stop": "END"}, ["a"], 4, id="a stop"),
        pytest.param([97, END_ID, 98], {"stop_ids": END_ID}, ["a"], 2, id="a stop id"),
        pytest.param(
            [*b"E", END_ID, 98],
            {"stop_ids": END_ID, "stop": "END"},
            ["E"],
            2,
            id="withheld at a stop id",
        ),
        pytest.param(
            [[*b"a!b"], 98], {"stop": "!", "include_stop": True}, ["a!"], 1, id="included"
        ),
        pytest.param([*b"a<b>"], {"tags": "<b>"}, ["a", Tag("<b>")], 4, id="tags"),
        pytest.param([0xA9], {"prompt_ids": [0xC3]}, ["é"], 1, id="a prompt"),
    ],
)
def test_texts_come_and_the_source_is_closed(
    ids: Any, options: dict[str, Any], texts: list[str], read: int, collect: Collect
) -> None:
    source, shown = Source(ids), list[str]()
    collect(source, shown, **options)
    assert (shown, [*map(type, shown)]) == (texts, [*map(type, texts)])
    assert (source.read, source.closed) == (read, 1)


@each_way
@pytest.mark.parametrize(
    ("ids", "options", "error"),
    [
        pytest.param([97, TimeoutError("late")], {}, TimeoutError, id="of the source"),
        pytest.param([97, KeyboardInterrupt()], {}, KeyboardInterrupt, id="an interrupt"),
        pytest.param([97, 500], {}, KeyError, id="an unknown id"),
        pytest.param([97, 0xFF], {"errors": "strict"}, DecodeStreamError, id="bad bytes"),
        pytest.param([97, "b"], {}, TypeError, id="no id"),
    ],
)
def test_an_error_closes_the_source_and_goes_on(
    ids: Any, options: dict[str, Any], error: type[BaseException], collect: Collect
) -> None:
    source, shown = Source(ids), list[str]()
    with pytest.raises(error):
        collect(source, shown, **options)
    assert (shown, source.read, source.closed) == (["a"], 2, 1)


@each_way
def test_bad_bytes_at_the_end_are_told_if_strict(collect: Collect) -> None:
    source, shown = Source([97, 0xF0]), list[str]()
    with pytest.raises(DecodeStreamError):
        collect(source, shown, errors="strict")
    assert (shown, source.closed) == (["a"], 1)


def test_the_source_is_closed_before_the_last_text_is_shown() -> None:
    source = Source([[*b"a!b"]])
    texts = BYTES.stream(source, stop="!")
    assert (next(texts), source.closed) == ("a", 1)
    source = Source([[*b"a!b"]])
    events = BYTES.decode_stream(stop="!").events(source)
    assert (next(events).text, source.closed) == ("a", 1)


def test_a_loop_that_is_left_closes_the_source() -> None:
    source = Source(b"abc")
    for _ in BYTES.stream(source):
        break
    assert (source.read, source.closed) == (1, 1)


AITERATORS: dict[str, Callable[[Source], AsyncGenerator[Any, None]]] = {
    "astream": lambda source: BYTES.astream(source),
    "aevents": lambda source: BYTES.decode_stream().aevents(source),
}

each_aiterator = pytest.mark.parametrize("aiterator", AITERATORS.values(), ids=AITERATORS)


@each_aiterator
def test_an_asynchronous_loop_that_is_left_closes_the_source(aiterator: Any) -> None:
    source = Source(b"abc")

    async def leave() -> None:
        async with aclosing(aiterator(source)) as results:
            async for _ in results:
                break

    asyncio.run(leave())
    assert (source.read, source.closed) == (1, 1)


def test_an_iterator_that_was_not_begun_closes_the_source() -> None:
    source = Source(b"abc")
    with closing(BYTES.stream(source)):
        pass
    assert (source.read, source.closed) == (0, 1)


@each_aiterator
def test_an_async_iterator_that_was_not_begun_closes_the_source(aiterator: Any) -> None:
    source = Source(b"abc")

    async def leave() -> None:
        async with aclosing(aiterator(source)):
            pass

    asyncio.run(leave())
    assert (source.read, source.closed) == (0, 1)


def test_an_asynchronous_iterator_is_a_generator() -> None:
    source = Source(b"abc")

    async def use() -> tuple[str, str, bool]:
        texts = BYTES.astream(source)
        first, second = await anext(texts), await texts.asend(None)
        with pytest.raises(TimeoutError):
            await texts.athrow(TimeoutError("late"))
        await texts.aclose()
        return first, second, [*[text async for text in texts]] == []

    assert (asyncio.run(use()), source.closed) == (("a", "b", True), 1)


@each_aiterator
def test_cancellation_closes_the_source_and_goes_on(aiterator: Any) -> None:
    class Slow(Source):
        async def __anext__(self) -> Any:
            if self.read == 1:
                await asyncio.sleep(60)
            return await super().__anext__()

    source, shown = Slow(b"abc"), list[Any]()

    async def collect() -> None:
        async for result in aiterator(source):
            shown.append(result)

    async def main() -> None:
        await asyncio.wait_for(collect(), 0.05)

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert (len(shown), source.closed) == (1, 1)


def test_a_source_may_be_a_generator() -> None:
    closed = []

    def ids() -> Iterator[int]:
        try:
            yield from b"a!b"
        finally:
            closed.append(True)

    assert ([*BYTES.stream(ids(), stop="!")], closed) == (["a"], [True])


def test_a_source_may_be_a_list() -> None:
    assert [*BYTES.stream([97, 98])] == ["a", "b"]


def test_wrong_arguments_are_told_at_once() -> None:
    with pytest.raises(ValueError, match="errors"):
        BYTES.stream([97], errors="none")
    with pytest.raises(ValueError, match="errors"):
        BYTES.astream(Source([97]), errors="none")
    not_several: Any = 97
    with pytest.raises(TypeError, match="int"):
        BYTES.stream(not_several)
    with pytest.raises(TypeError, match="int"):
        BYTES.astream(not_several)


def test_a_stream_of_ones_own_tells_what_stopped_it() -> None:
    stream = BYTES.decode_stream(stop=["!", "?"])
    assert ([*stream.texts(b"ab?c")], stream.stop_reason) == (["a", "b"], "?")


def test_a_stream_that_has_stopped_reads_nothing() -> None:
    stream = BYTES.decode_stream(stop="!")
    stream.step(33)
    source = Source(b"ab")
    assert ([*stream.texts(source)], source.read, source.closed) == ([], 0, 1)


# Events


def events_of(items: Any, **options: Any) -> list[StreamEvent]:
    """Return the events of a stream, which are the same from both kinds of source."""
    events = [*BYTES.decode_stream(**options).events(items)]

    async def collect() -> list[StreamEvent]:
        source = Source(items)
        return [event async for event in BYTES.decode_stream(**options).aevents(source)]

    assert asyncio.run(collect()) == events
    return events


def test_an_event_is_json() -> None:
    stream = BYTES.decode_stream(tags="<b>", stop_ids=END_ID)
    step, last = stream.events([[97, *b"<b>", 0xC3], END_ID])
    token = {"id": 0xC3, "bytes": [0xC3], "start": 4, "end": 4, "text": ""}
    form = json.loads(json.dumps(dataclasses.asdict(step), default=list))
    assert (form["pieces"], form["tokens"][-1], form["ids_read"]) == (["a", "<b>"], token, 5)
    encoders = pytest.importorskip("fastapi.encoders")
    assert encoders.jsonable_encoder(step, custom_encoder={bytes: list}) == form
    assert json.loads(json.dumps(dataclasses.asdict(last), default=list)) == {
        "pieces": [REPLACED],
        "tokens": [{"id": END_ID, "bytes": [*END.encode()], "start": 4, "end": 4, "text": ""}],
        "ids_read": 6,
        "finish_reason": "stop",
        "stop_reason": END_ID,
    }


items_of_all_kinds = st.lists(
    st.one_of(
        st.sampled_from([*b"ab<!>", *"é🙂".encode(), 0xFF, END_ID]),
        st.lists(st.sampled_from([*b"ab<!>", *"é".encode(), END_ID]), max_size=6),
    ),
    max_size=20,
)

options_of_all_kinds = st.fixed_dictionaries(
    {},
    optional={
        "errors": st.sampled_from(["replace", "ignore", "backslashreplace"]),
        "skip_special_tokens": st.booleans(),
        "stop": st.sampled_from(["!", ["ab!", "b<"], REPLACED, "éa"]),
        "include_stop": st.booleans(),
        "stop_ids": st.just(END_ID),
        "min_tokens": st.integers(0, 9),
        "tags": st.sampled_from(["<", ["<a>", "é"]]),
        "prompt_ids": st.sampled_from([[], [0xC3], [97, 0xF0, 0x9F]]),
    },
)


@given(items_of_all_kinds, options_of_all_kinds)
def test_events_are_the_texts_the_steps_and_the_offsets(items: Any, options: Any) -> None:
    """Compares events with a stream that makes the same steps one by one."""
    events = events_of(items, **options)
    assert "".join(event.text for event in events) == "".join(BYTES.stream(items, **options))
    pushed = BYTES.decode_stream(**options)
    expected = list[StreamEvent]()
    for item in items:
        if pushed.finish_reason is None:
            expected.append(pushed.step_event(item))
    if pushed.finish_reason is None:
        expected.append(pushed.flush_event())
    assert events == expected
    assert [event.finish_reason is None for event in events] == [True] * (len(events) - 1) + [False]


def test_events_count_on_from_earlier_steps() -> None:
    stream = BYTES.decode_stream(stop="!")
    stream.step([*b"ab"])
    assert [*stream.events([99])] == [
        StreamEvent(("c",), (TokenText(99, b"c", 2, 3, "c"),), 3),
        StreamEvent((), (), 3, "length"),
    ]


@pytest.mark.parametrize("bound", [{}, {"max_tokens": 10**30}, {"min_tokens": 10**30}])
@pytest.mark.parametrize("skips", [False, True])
def test_a_known_step_has_the_event_of_the_first(bound: Any, skips: bool) -> None:
    """The engine makes the events of steps that it knows."""
    ids = [97, 0xC3, 0xA9, END_ID, 0xFF, 98]
    stream = BYTES.decode_stream(skip_special_tokens=skips, **bound)
    first = [stream.step_event(id) for id in ids]
    stream.reset()
    assert [stream.step_event(id) for id in ids] == first
    stream.reset()
    assert [stream.step_event([id]) for id in ids] == first
    stream.reset()
    tokens = tuple(token for event in first for token in event.tokens)
    text = "".join(event.text for event in first)
    assert stream.step_event(ids) == StreamEvent((text,), tokens, 6)
    assert (stream.step(ids), stream.step_event([]).ids_read) == (text, 12)


def test_an_iterator_over_texts_may_be_sent_values() -> None:
    texts = BYTES.decode_stream().texts(b"abc")
    assert (next(texts), texts.send(None), [*texts]) == ("a", "b", ["c"])
    with pytest.raises(StopIteration):
        texts.send(None)


def test_events_of_a_stream_that_has_stopped_are_the_last_one() -> None:
    stream = BYTES.decode_stream(stop="!")
    stream.step([97, 33])
    source = Source(b"ab")
    assert [*stream.events(source)] == [StreamEvent((), (), 2, "stop", "!")]
    assert (source.read, source.closed) == (0, 1)


def test_events_of_steps_that_were_not_counted_are_refused() -> None:
    stream = BYTES.decode_stream()
    stream.step(97)
    with pytest.raises(ValueError, match="did not count"):
        stream.events([98])
    with pytest.raises(ValueError, match="did not count"):
        stream.aevents(Source([98]))


def test_stops_may_be_paused_between_events() -> None:
    stream = BYTES.decode_stream(tags=["<", ">"], stop="!")
    texts = []
    for event in stream.events(b"<a!>b!c"):
        texts.append(event.text)
        for piece in event.pieces:
            if isinstance(piece, Tag):
                stream.pause_stops() if piece == "<" else stream.resume_stops()
    assert (texts, stream.stop_reason) == (["<", "a", "!", ">", "b", ""], "!")
