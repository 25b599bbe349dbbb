"""The page of the verb `serve`, as an ASGI application: tokenizers in, answers to a browser out.

Rule 1: the page loads nothing from other sites, and the pages of other sites cannot use this
server.
Rule 2: every request has bounds on bytes and time, which are checked before the work.
Rule 3: a browser may leave at any moment without an error.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice
from pathlib import PurePath
from typing import Any, ParamSpec, TypeVar

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bpetite import Tokenizer
from bpetite._pretokenizer import pattern_end
from bpetite._web.display import groups_of_ids, pattern_names
from bpetite._web.explained import explained
from bpetite._web.training import MAX_STEPS, MAX_TRAINING_BYTES, learnt, training_steps
from bpetite._web.vocabulary import SHOWS, SORTS, Browser

P = ParamSpec("P")
T = TypeVar("T")

MAX_BYTES = 1 << 21
"""The longest text, in bytes of UTF-8."""

MAX_BODY_SECONDS = 5.0
"""The longest wait for the whole body of a request."""

MAX_PATTERN_SECONDS = 5.0
"""The longest work on a request with a pattern without a name, in time of the processor.

Such a pattern may take hours for some megabytes. A thread cannot be stopped from outside.
"""

MAX_SHOWN = 4000
"""The most tokens of a list or a replay: a browser needs seconds for the layout of many more."""

MAX_EXPLAINED = 16_000
"""The last token that can be explained: all pieces before it are explained too."""

_MAX_FIND_CHARACTERS = 100
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[\w.-]+)(?::\d+)?", re.ASCII | re.IGNORECASE)

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

_MEDIA_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class Model:
    name: str
    tokenizer: Tokenizer


def application(models: Sequence[Model], loopback: bool) -> ASGIApp:
    """Return the application; with `loopback`, it serves only requests to names of this machine.

    An attacker can point the name of another site at this machine. Pages of that site then have the
    same origin as this server, so only the name in the request reveals the attack.
    """
    answers = _Answers(models)
    routes = [
        *(Route(path, file, methods=["GET"]) for path, file in _files()),
        Route("/models", answers.models),
        Route("/tokens", answers.tokens, methods=["POST"]),
        Route("/ids", answers.ids, methods=["POST"]),
        Route("/explain", answers.explain, methods=["POST"]),
        Route("/vocabulary", answers.vocabulary, methods=["POST"]),
        Route("/token", answers.token, methods=["POST"]),
        Route("/training", answers.training, methods=["POST"]),
        Route("/stream", answers.stream, methods=["POST"]),
    ]
    return _Guard(Starlette(routes=routes), loopback)


def is_loopback(host: str) -> bool:
    """Return whether a name or an address always means this machine.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "a.org")]
    [True, True, True, False, False]
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Guard:
    """Refuses requests that the page itself does not make; adds the headers to every answer."""

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
        name = _HOST.fullmatch(host)
        if not name or (self._loopback and not is_loopback(name[1].strip("[]").lower())):
            return PlainTextResponse("this host is not served here\n", 421)
        own_origins = (f"http://{host}", f"https://{host}")  # a proxy may add HTTPS
        origins = headers.getlist("origin")
        if len(origins) > 1 or any(origin not in own_origins for origin in origins):
            return PlainTextResponse("other sites are not served here\n", 403)
        return None


def _files() -> Iterator[tuple[str, Response]]:
    for file in (files("bpetite._web") / "static").iterdir():
        media_type = _MEDIA_TYPES.get(PurePath(file.name).suffix)
        if media_type:
            path = "/" if file.name == "index.html" else f"/{file.name}"
            yield path, Response(file.read_bytes(), media_type=media_type)


class _Answers:
    """The answers to the page, in JSON.

    If a request has a `corpus`, a model that has learnt `merges` from this small text is added.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        self._models = models
        self._browsers: dict[int, Browser] = {}

    async def models(self, _: Request) -> Response:
        described = [
            {
                "name": model.name,
                "ids": len(model.tokenizer.ids),
                "merges": len(model.tokenizer.merges),
                "pattern": " or ".join(pattern_names(*model.tokenizer.patterns)),
            }
            for model in self._models
        ]
        return JSONResponse(
            {
                "models": described,
                "maxBytes": MAX_BYTES,
                "maxTrainingBytes": MAX_TRAINING_BYTES,
                "maxMerges": MAX_STEPS,
            }
        )

    async def tokens(self, request: Request) -> Response:
        """Return the groups of tokens of the body, a text, for each model."""
        tokenizers = self._tokenizers(request)
        text, ordinary = await _text(request), _is_ordinary(request)
        found = await _work(lambda: [_tokens(each, text, ordinary) for each in tokenizers])
        return JSONResponse(found)

    async def ids(self, request: Request) -> Response:
        tokenizer = self._tokenizer(request)
        text, ordinary = await _text(request), _is_ordinary(request)
        return JSONResponse(await _work(_encoded, tokenizer, text, ordinary))

    async def explain(self, request: Request) -> Response:
        """Return the merges of the piece that a token of the body, a text, is in."""
        tokenizer = self._tokenizer(request)
        at = _number(request, "at", MAX_EXPLAINED)
        text, ordinary = await _text(request), _is_ordinary(request)
        found = await _work(explained, tokenizer, text, at, ordinary)
        if found is None:
            raise HTTPException(400, f"at is {at}, but the text has fewer tokens")
        return JSONResponse(found)

    async def vocabulary(self, request: Request) -> Response:
        """Return tokens of a vocabulary, with their uses in the body, a text."""
        tokenizer = self._tokenizer(request)
        find = request.query_params.get("find", "")
        if len(find) > _MAX_FIND_CHARACTERS:
            raise HTTPException(400, f"find may have {_MAX_FIND_CHARACTERS} characters")
        sort, show = _choice(request, "sort", SORTS), _choice(request, "show", SHOWS)
        start = _number(request, "start", 10**8)
        text, ordinary = await _text(request), _is_ordinary(request)

        def rows() -> dict[str, Any]:
            uses = Counter(_encoded(tokenizer, text, ordinary))
            return self._browser(request, tokenizer).rows(find, sort, show, uses, start)

        return JSONResponse(await _work(rows))

    async def token(self, request: Request) -> Response:
        """Return a token of a vocabulary, its parts, and its uses in the body, a text."""
        tokenizer = self._tokenizer(request)
        id = _number(request, "id", 10**9 - 1)
        text, ordinary = await _text(request), _is_ordinary(request)

        def detail() -> dict[str, Any] | None:
            browser = self._browser(request, tokenizer)
            uses = Counter(_encoded(tokenizer, text, ordinary))
            return browser.detail(id, uses) if id in browser else None

        found = await _work(detail)
        if found is None:
            raise HTTPException(400, f"no token has the id {id}")
        return JSONResponse(found)

    async def training(self, request: Request) -> Response:
        text = await _text(request, MAX_TRAINING_BYTES)
        return JSONResponse(await _work(training_steps, text))

    async def stream(self, request: Request) -> Response:
        """Return the decoded text of each id of the body, a text."""
        tokenizer = self._tokenizer(request)
        text, ordinary = await _text(request), _is_ordinary(request)
        return JSONResponse(await _work(_replay, tokenizer, text, ordinary))

    def _tokenizers(self, request: Request) -> list[Tokenizer]:
        found = [model.tokenizer for model in self._models]
        corpus = request.query_params.get("corpus")
        if corpus is not None:
            if len(corpus.encode("utf-8", "replace")) > MAX_TRAINING_BYTES:
                raise HTTPException(400, f"corpus may have {MAX_TRAINING_BYTES} bytes")
            found.append(learnt(corpus, _number(request, "merges", MAX_STEPS)))
        return found

    def _tokenizer(self, request: Request) -> Tokenizer:
        tokenizers = self._tokenizers(request)
        return tokenizers[_number(request, "model", len(tokenizers) - 1)]

    def _browser(self, request: Request, tokenizer: Tokenizer) -> Browser:
        """Return the browser of a model, which is made once unless the page has trained it."""
        number = int(request.query_params.get("model", "0"))
        if number == len(self._models):
            return Browser(tokenizer)
        found = self._browsers.get(number)
        if found is None:
            found = self._browsers[number] = Browser(tokenizer)
        return found


async def _work(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    # The limit counts from here, not from the start of the thread: many slow requests at once end
    # together, so that others wait no longer than for one.
    pattern_end.set(time.process_time() + MAX_PATTERN_SECONDS)
    try:
        return await run_in_threadpool(function, *args, **kwargs)
    except TimeoutError:
        raise HTTPException(400, "the pattern takes too long for this text; shorten it") from None


async def _text(request: Request, max_bytes: int = MAX_BYTES) -> str:
    try:
        too_long = int(request.headers.get("content-length", "0")) > max_bytes
        body = bytearray()
        if not too_long:
            async with asyncio.timeout(MAX_BODY_SECONDS):
                async for data in request.stream():
                    body += data
                    too_long = len(body) > max_bytes
                    if too_long:
                        break
        if too_long:
            raise _closing(413, f"a text may have {max_bytes} bytes")
        return body.decode("utf-8")
    except TimeoutError:
        raise _closing(408, "the body took too long") from None
    except ClientDisconnect:
        raise HTTPException(400, "the body ended early") from None
    except ValueError:
        raise HTTPException(400, "the body is not UTF-8") from None


def _closing(status: int, reason: str) -> HTTPException:
    """Return an error that closes the connection: the unread body would hide the next request."""
    return HTTPException(status, reason, headers={"Connection": "close"})


def _number(request: Request, name: str, largest: int) -> int:
    digits = request.query_params.get(name, "0")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10 and int(digits) <= largest):
        raise HTTPException(400, f"{name} must be a number from 0 to {largest}")
    return int(digits)


def _is_ordinary(request: Request) -> bool:
    return _number(request, "ordinary", 1) == 1


def _choice(request: Request, name: str, choices: Sequence[str]) -> str:
    value = request.query_params.get(name, choices[0])
    if value not in choices:
        raise HTTPException(400, f"{name} must be one of {', '.join(choices)}")
    return value


def _encoded(tokenizer: Tokenizer, text: str, ordinary: bool) -> list[int]:
    return tokenizer.encode(text, allowed_special=() if ordinary else "all")


def _tokens(tokenizer: Tokenizer, text: str, ordinary: bool) -> dict[str, Any]:
    ids = _encoded(tokenizer, text, ordinary)
    found = islice(groups_of_ids(tokenizer, ids), MAX_SHOWN)
    return {
        "tokens": len(ids),
        "bytes": len(text.encode("utf-8")),
        "groups": [
            [group.text, [[id, _hex(tokenizer, id)] for id in group.ids], group.special]
            for group in found
        ],
    }


def _hex(tokenizer: Tokenizer, id: int) -> str:
    return tokenizer.token_bytes(id).hex(" ").upper()


def _replay(tokenizer: Tokenizer, text: str, ordinary: bool) -> dict[str, Any]:
    """Return a step for each id: id, bytes, decoded alone, by a stream, and the bytes it keeps."""
    ids = _encoded(tokenizer, text, ordinary)
    stream = tokenizer.decode_stream()
    steps = [
        (
            id,
            _hex(tokenizer, id),
            tokenizer.decode([id], errors="replace"),
            stream.step(id),
            stream.pending.hex(" ").upper(),
        )
        for id in ids[:MAX_SHOWN]
    ]
    return {"tokens": len(ids), "steps": steps, "rest": stream.flush()}
