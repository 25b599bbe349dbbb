"""Iterators over the texts of a stream, which close the source of its ids."""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bpetite._streaming.options import Ids
    from bpetite._streaming.stream import DecodeStream


def texts(stream: DecodeStream, ids: Iterable[Ids]) -> Generator[str, None, None]:
    """Yield the text of each step that has some, and of `flush`."""
    generator = _texts(stream, iter(ids))
    next(generator)  # into its `try`: to close it closes the source, even if no text was read
    return generator


def _texts(stream: DecodeStream, source: Iterator[Ids]) -> Generator[str, None, None]:
    pieces: Sequence[str] = ()
    try:
        yield ""
        if not stream.stopped:
            for some in source:
                pieces = _pieces(stream, some)
                if stream.stopped:
                    break  # close the source before the last pieces are shown
                yield from pieces
                pieces = ()
    finally:
        close = getattr(source, "close", None)
        if close is not None:
            close()
    yield from pieces
    yield from stream.flush_events()


def atexts(stream: DecodeStream, ids: AsyncIterable[Ids]) -> AsyncGenerator[str, None]:
    """Yield as `texts` does, from an asynchronous source."""
    source = aiter(ids)
    return _AsyncTexts(_atexts(stream, source), source)


async def _atexts(stream: DecodeStream, source: AsyncIterator[Ids]) -> AsyncGenerator[str, None]:
    pieces: Sequence[str] = ()
    try:
        if not stream.stopped:
            async for some in source:
                pieces = _pieces(stream, some)
                if stream.stopped:
                    break
                for piece in pieces:
                    yield piece
                pieces = ()
    finally:
        await _aclose(source)
    for piece in (*pieces, *stream.flush_events()):
        yield piece


def _pieces(stream: DecodeStream, ids: Ids) -> Sequence[str]:
    if stream.has_tags:
        return stream.step_events(ids)
    text = stream.step(ids)
    return (text,) if text else ()


class _AsyncTexts(AsyncGenerator[str, None]):
    """Texts whose source is closed with them, even if no text was read.

    A generator that has not begun has no `finally` to run, so its `aclose` would close nothing.
    """

    __slots__ = ("_begun", "_source", "_texts")

    def __init__(self, texts: AsyncGenerator[str, None], source: AsyncIterator[Ids]) -> None:
        self._texts = texts
        self._source = source
        self._begun = False

    def __anext__(self) -> Awaitable[str]:  # type: ignore[override] # no more is promised
        self._begun = True
        return self._texts.__anext__()

    async def asend(self, value: None) -> str:  # noqa: ARG002
        return await self.__anext__()

    async def athrow(self, *error: Any) -> str:
        return await self._texts.athrow(*error)

    async def aclose(self) -> None:
        await self._texts.aclose()
        if not self._begun:
            self._begun = True
            await _aclose(self._source)


async def _aclose(source: object) -> None:
    aclose = getattr(source, "aclose", None)
    if aclose is not None:
        await aclose()
