"""Iterators of text yield texts, and close their source."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, closing
from typing import Any

import pytest
from support.streams import BYTES, END_ID, REPLACED

from bpetite import DecodeStreamError, Tag


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


both = pytest.mark.parametrize("collect", [listed, alisted], ids=["stream", "astream"])
Collect = Callable[..., None]


@both
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


@both
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


@both
def test_bad_bytes_at_the_end_are_told_if_strict(collect: Collect) -> None:
    source, shown = Source([97, 0xF0]), list[str]()
    with pytest.raises(DecodeStreamError):
        collect(source, shown, errors="strict")
    assert (shown, source.closed) == (["a"], 1)


def test_the_source_is_closed_before_the_last_text_is_shown() -> None:
    source = Source([[*b"a!b"]])
    texts = BYTES.stream(source, stop="!")
    assert (next(texts), source.closed) == ("a", 1)


def test_a_loop_that_is_left_closes_the_source() -> None:
    source = Source(b"abc")
    for _ in BYTES.stream(source):
        break
    assert (source.read, source.closed) == (1, 1)


def test_an_asynchronous_loop_that_is_left_closes_the_source() -> None:
    source = Source(b"abc")

    async def leave() -> None:
        async with aclosing(BYTES.astream(source)) as texts:
            async for _ in texts:
                break

    asyncio.run(leave())
    assert (source.read, source.closed) == (1, 1)


def test_an_iterator_that_was_not_begun_closes_the_source() -> None:
    source = Source(b"abc")
    with closing(BYTES.stream(source)):
        pass
    assert (source.read, source.closed) == (0, 1)


def test_an_async_iterator_that_was_not_begun_closes_the_source() -> None:
    source = Source(b"abc")

    async def leave() -> None:
        async with aclosing(BYTES.astream(source)):
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


def test_cancellation_closes_the_source_and_goes_on() -> None:
    class Slow(Source):
        async def __anext__(self) -> Any:
            if self.read == 1:
                await asyncio.sleep(60)
            return await super().__anext__()

    source, shown = Slow(b"abc"), list[str]()

    async def collect() -> None:
        async for text in BYTES.astream(source):
            shown.append(text)

    async def main() -> None:
        await asyncio.wait_for(collect(), 0.05)

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert (shown, source.closed) == (["a"], 1)


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
