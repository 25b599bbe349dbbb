"""Iterators over the steps of a stream, which close the source of its ids."""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from typing import Any, Generic, NamedTuple, TypeVar, cast

from bpetite._arguments import check_order
from bpetite._streaming.mode import Mode
from bpetite._streaming.options import Ids

R = TypeVar("R")


class Steps(NamedTuple, Generic[R]):
    """The steps of a stream, and the form of their results: texts or events.

    A step returns a result, which is left out if it is empty; or a tuple of several, if `several`.
    """

    mode: Mode
    step: Callable[[Ids], Any]
    finish: Callable[[bool], Sequence[R]]
    """Takes whether the last step ended the stream; otherwise the ids ended first."""
    several: bool = False
    can_end: bool = True
    """Whether a step may end the stream."""


def results(steps: Steps[R], ids: Iterable[Ids]) -> Generator[R, None, None]:
    """Yield the results of the step for each item of `ids`, then the results of the end."""
    check_order(ids, "ids", "int")
    generator = _results(steps, iter(ids))
    next(generator)  # into its `try`: to close it closes the source, even if nothing was read
    return cast("Generator[R, None, None]", generator)


def _results(steps: Steps[R], source: Iterator[Ids]) -> Generator[R | None, None, None]:
    mode, step, finish, several, can_end = steps
    last: Any = None
    try:
        yield None
        if not can_end:
            for text in filter(None, map(step, source)):  # noqa: UP028 - a filter has no `send`
                yield text
        elif mode.finish_reason is None:
            for last in map(step, source):  # faster than a loop over `source`
                if mode.finish_reason is not None:
                    break  # close the source before the last results are shown
                if several:
                    yield from last
                elif last:
                    yield last
            else:
                last = None
    finally:
        close = getattr(source, "close", None)
        if close is not None:
            close()
    yield from _shown(last, several)
    yield from finish(last is not None)


def _shown(last: Any, several: bool) -> Iterable[Any]:
    return last or () if several else filter(None, (last,))


def aresults(steps: Steps[R], ids: AsyncIterable[Ids]) -> AsyncGenerator[R, None]:
    """Yield as `results` does, from an asynchronous source."""
    source = aiter(ids)
    return _AsyncResults(_aresults(steps, source), source)


async def _aresults(steps: Steps[R], source: AsyncIterator[Ids]) -> AsyncGenerator[R, None]:
    mode, step, finish, several, _ = steps
    last: Any = None
    try:
        if mode.finish_reason is None:
            async for some in source:
                last = step(some)
                if mode.finish_reason is not None:
                    break
                for result in _shown(last, several):
                    yield result
                last = None
    finally:
        await _aclose(source)
    for result in (*_shown(last, several), *finish(last is not None)):
        yield result


class _AsyncResults(AsyncGenerator[R, None]):
    """Results whose source is closed with them, even if no result was read.

    A generator that has not begun has no `finally` to run, so its `aclose` would close nothing.
    """

    __slots__ = ("_begun", "_results", "_source")

    def __init__(self, results: AsyncGenerator[R, None], source: AsyncIterator[Ids]) -> None:
        self._results = results
        self._source = source
        self._begun = False

    def __anext__(self) -> Awaitable[R]:  # type: ignore[override] # no more is promised
        self._begun = True
        return self._results.__anext__()

    async def asend(self, value: None) -> R:  # noqa: ARG002
        return await self.__anext__()

    async def athrow(self, *error: Any) -> R:
        return await self._results.athrow(*error)

    async def aclose(self) -> None:
        await self._results.aclose()
        if not self._begun:
            self._begun = True
            await _aclose(self._source)


async def _aclose(source: object) -> None:
    aclose = getattr(source, "aclose", None)
    if aclose is not None:
        await aclose()
