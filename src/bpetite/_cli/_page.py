"""The page of the verb `serve`, as an ASGI application: tokenizers in, answers to a browser out.

Rule 1: nothing comes from elsewhere, and no other site's page can use this one.
Rule 2: what is asked for is bounded before it is read.
Rule 3: a browser that leaves is no error.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bpetite import Tokenizer
from bpetite._cli._common import pattern_names
from bpetite._cli._groups import groups

MOST_BYTES = 1 << 16
"""How long a text may be, in bytes of UTF-8."""

MOST_PAUSE = 1000
"""How long a replay may wait between two tokens, in milliseconds."""

_MOST_GROUPS = 4000  # of tokens that are shown: a browser takes seconds to lay out many more
_TOGETHER = 256  # tokens that a replay without a pause sends at a time

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_FILES = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}


@dataclass(frozen=True)
class Model:
    """A tokenizer, and what the page calls it."""

    name: str
    tokenizer: Tokenizer


def application(models: Sequence[Model], loopback: bool) -> ASGIApp:
    """Return the application; with `loopback`, only requests to a name of this machine are served.

    Another site's name may be made to lead to this machine; its pages are of that site's origin.
    """
    answers = _Answers(models)
    routes = [
        *(Route(path, _file(*file)) for path, file in _FILES.items()),
        Route("/models", answers.models),
        Route("/tokens", answers.tokens, methods=["POST"]),
        Route("/stream", answers.stream, methods=["POST"]),
    ]
    return _Guard(Starlette(routes=routes), loopback)


def is_loopback(host: str) -> bool:
    """Tell whether a name or an address can only be this machine.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "a.org")]
    [True, True, True, False, False]
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Guard:
    """Lets in what the page itself asks for, and puts the headers on every answer."""

    def __init__(self, app: ASGIApp, loopback: bool) -> None:
        self._app = app
        self._loopback = loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        if scope["type"] == "http":
            app = self._refusal(Headers(scope=scope)) or self._app
            await app(scope, receive, send_with_headers)

    def _refusal(self, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        if self._loopback and not is_loopback(_hostname(f"//{host}")):
            return PlainTextResponse("this host is not served here\n", 421)
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return PlainTextResponse("other sites are not served here\n", 403)
        return None


def _hostname(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _file(name: str, media_type: str) -> Any:
    content = (files("bpetite._cli") / "page" / name).read_bytes()

    async def answer(_: Request) -> Response:
        return Response(content, media_type=media_type)

    return answer


class _Answers:
    """What the page asks for: JSON, and events."""

    def __init__(self, models: Sequence[Model]) -> None:
        self._models = models

    async def models(self, _: Request) -> Response:
        described = [
            {
                "name": model.name,
                "ids": model.tokenizer.vocab_size,
                "pattern": " or ".join(pattern_names(model.tokenizer.pattern)),
            }
            for model in self._models
        ]
        return JSONResponse({"models": described, "most_bytes": MOST_BYTES})

    async def tokens(self, request: Request) -> Response:
        """Return for each model the groups of tokens of the text that is the body."""
        text = await _text(request)
        ordinary = _is_ordinary(request)
        return _json(
            await run_in_threadpool(
                lambda: [_tokens(model.tokenizer, text, ordinary) for model in self._models]
            )
        )

    async def stream(self, request: Request) -> Response:
        """Return as events the ids of the text that is the body, and what becomes of each."""
        tokenizer = self._models[_number(request, "model", len(self._models) - 1)].tokenizer
        pause = _number(request, "pause", MOST_PAUSE)
        text = await _text(request)
        allowed: Any = () if _is_ordinary(request) else "all"
        ids = await run_in_threadpool(tokenizer.encode, text, allowed_special=allowed)
        return _Events(_paced(_replay(tokenizer, ids), pause), media_type="text/event-stream")


async def _text(request: Request) -> str:
    try:
        too_long = int(request.headers.get("content-length", "0")) > MOST_BYTES
        body = b""
        if not too_long:
            async for data in request.stream():
                body += data
                too_long = len(body) > MOST_BYTES
                if too_long:
                    break
        if too_long:
            # The rest of the body is not read, so no further request can follow it.
            raise HTTPException(
                413, f"a text may have {MOST_BYTES} bytes", headers={"Connection": "close"}
            )
        return body.decode("utf-8")
    except ClientDisconnect:
        raise HTTPException(400, "the body ended early") from None
    except ValueError:
        raise HTTPException(400, "the body is not UTF-8") from None


def _number(request: Request, name: str, most: int) -> int:
    digits = request.query_params.get(name, "0")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10 and int(digits) <= most):
        raise HTTPException(400, f"{name} must be a number from 0 to {most}")
    return int(digits)


def _is_ordinary(request: Request) -> bool:
    return _number(request, "ordinary", 1) == 1


def _json(value: object) -> Response:
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Response(data, media_type="application/json")


def _tokens(tokenizer: Tokenizer, text: str, ordinary: bool) -> dict[str, Any]:
    found = list(groups(tokenizer, text, () if ordinary else "all"))
    return {
        "tokens": sum(len(group.ids) for group in found),
        "bytes": len(text.encode("utf-8")),
        "groups": [
            [group.text, [[id, _hex(tokenizer, id)] for id in group.ids], group.special]
            for group in found[:_MOST_GROUPS]
        ],
    }


def _hex(tokenizer: Tokenizer, id: int) -> str:
    return tokenizer.token_bytes(id).hex(" ")


def _replay(tokenizer: Tokenizer, ids: Sequence[int]) -> Iterator[str]:
    """Yield an event for each id: decoded alone, and by a stream. The last says what was held."""
    stream = tokenizer.decode_stream()
    for id in ids:
        held_text = stream.step(id)
        step = {
            "id": id,
            "bytes": _hex(tokenizer, id),
            "alone": tokenizer.decode([id], errors="replace"),
            "held": held_text,
            "pending": stream.pending.hex(" "),
        }
        yield f"data: {json.dumps(step)}\n\n"
    yield f"event: end\ndata: {json.dumps({'held': stream.flush()})}\n\n"


async def _paced(events: Iterator[str], pause: int) -> AsyncIterator[str]:
    """Yield events with a pause in milliseconds after each, or many at a time without one."""
    while some := "".join(islice(events, 1 if pause else _TOGETHER)):
        yield some
        await asyncio.sleep(pause / 1000)


class _Events(StreamingResponse):
    """A response whose generator is closed as soon as it ends, however it does."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self.body_iterator):  # type: ignore[type-var]
            await super().__call__(scope, receive, send)
