"""The HTTP server of the page: uvicorn, with bounds on connections and on slow requests."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 100
"""The most connections at a time; uvicorn answers 503 to any other."""

MAX_HEAD_SECONDS = 3.0
"""The longest wait for the head of a request, from the connection or from its first byte on."""


def serve(app: ASGIApp, listener: socket.socket) -> None:
    """Serve until a signal ends the process."""
    config = uvicorn.Config(
        app,
        http=_Connection,
        ws="none",
        loop="asyncio",
        lifespan="off",
        interface="asgi3",
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
    )
    _Server(config).run(sockets=[listener])


class _Connection(H11Protocol):
    """Closes itself if the head of a request takes too long; uvicorn would wait forever."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_watch()

    def _watch_head(self) -> None:
        if self.conn.their_state is not h11.IDLE:  # the head is complete
            self._stop_watch()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(MAX_HEAD_SECONDS, self.transport.close)

    def _stop_watch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the caller: uvicorn would wait for running requests."""
        yield
