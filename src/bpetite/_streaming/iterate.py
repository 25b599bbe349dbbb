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
from bpetite._streaming.options import Ids

R = TypeVar("R")


class Steps(NamedTuple, Generic[R]):
    """The steps of a stream, and the form of their results: texts or events."""

    stopped: Callable[[], bool]
    step: Callable[[Ids], Sequence[R]]
    finish: Callable[[], Sequence[R]]


def results(steps: Steps[R], ids: Iterable[Ids]) -> Generator[R, None, None]:
    """Yield the results of the step for each item of `ids`, then the results of the end."""
    check_order(ids, "ids", "int")
    generator = _results(steps, iter(ids))
    next(generator)  # into its `try`: to close it closes the source, even if nothing was read
    return cast("Generator[R, None, None]", generator)


def _results(steps: Steps[R], source: Iterator[Ids]) -> Generator[R | None, None, None]:
    stopped, step, finish = steps
    last: Sequence[R] = ()
    try:
        yield None
        if not stopped():
            for some in source:
                last = step(some)
                if stopped():
                    break  # close the source before the last results are shown
                yield from last
                last = ()
    finally:
        close = getattr(source, "close", None)
        if close is not None:
            close()
    yield from last
    yield from finish()


def aresults(steps: Steps[R], ids: AsyncIterable[Ids]) -> AsyncGenerator[R, None]:
    """Yield as `results` does, from an asynchronous source."""
    source = aiter(ids)
    return _AsyncResults(_aresults(steps, source), source)


async def _aresults(steps: Steps[R], source: AsyncIterator[Ids]) -> AsyncGenerator[R, None]:
    stopped, step, finish = steps
    last: Sequence[R] = ()
    try:
        if not stopped():
            async for some in source:
                last = step(some)
                if stopped():
                    break
                for result in last:
                    yield result
                last = ()
    finally:
        await _aclose(source)
    for result in (*last, *finish()):
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
