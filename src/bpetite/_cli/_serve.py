"""The verb `serve`: models in, a page that shows their tokens live out, for a browser here."""

from __future__ import annotations

import argparse
import errno
import os
import socket
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bpetite import Tokenizer
from bpetite._cli._common import ANY_MODEL, Verbs, add_verb, say

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_HOST = "127.0.0.1"
_PORT = 8765
_MOST_CONNECTIONS = 100


def add_to(verbs: Verbs) -> None:
    """Add this verb to the parser."""
    parser = add_verb(
        verbs,
        "serve",
        "show the tokens of what you type in a browser, and replay them as a live stream",
        "bpetite train README.md --vocab-size 512 --output model.json --force\n"
        "bpetite serve --model model.json",
        "\nIt needs Starlette and uvicorn: pip install 'bpetite[web]'. The page asks nothing of\n"
        "any other machine, and no other machine can ask for it unless --host says so.",
    )
    parser.add_argument(
        "--model",
        "-m",
        metavar="FILE",
        action="append",
        required=True,
        help=f"{ANY_MODEL}; given twice, two are shown side by side",
    )
    parser.add_argument(
        "--port",
        metavar="N",
        type=_port,
        default=_PORT,
        help=f"where to listen, 0 being any port that is free (default: {_PORT})",
    )
    parser.add_argument(
        "--host",
        metavar="ADDRESS",
        default=_HOST,
        help=f"the address to listen at (default: {_HOST}, which is this machine alone)",
    )
    parser.set_defaults(run=_run)


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError("must be from 0 to 65535")
    return port


_port.__name__ = "number"  # argparse says "invalid number value"


def _run(options: argparse.Namespace) -> None:
    try:
        import uvicorn  # noqa: F401 - imported where they are used: no other verb needs them

        from bpetite._cli._page import Model, application, is_loopback
    except ImportError as error:
        raise ValueError(
            f"serve needs Starlette and uvicorn ({error}): pip install 'bpetite[web]'"
        ) from None
    models = [
        Model(name, Tokenizer.load(path))
        for name, path in zip(_names(options.model), options.model, strict=True)
    ]
    with _listening(options.host, options.port) as listener:
        host, port = listener.getsockname()[:2]
        app = application(models, loopback=is_loopback(host))
        address = f"[{host}]" if ":" in host else host
        say(f"serving {', '.join(_names(options.model))} at http://{address}:{port}/")
        _serve(app, listener)


def _names(paths: Sequence[str]) -> list[str]:
    """Return what to call each model: the name of its file, or all of the path if that is not one.

    >>> _names(["a/model.json", "b/model.json", "c/small.json"])
    ['a/model.json', 'b/model.json', 'small.json']
    """
    shown = [os.fsencode(path).decode("utf-8", "replace") for path in paths]
    ends = [Path(path).name or path for path in shown]
    counts = Counter(ends)
    return [end if counts[end] == 1 else path for end, path in zip(ends, shown, strict=True)]


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises OSError that says what to do instead."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except (OSError, UnicodeError) as error:
        number = getattr(error, "errno", None)
        if number == errno.EADDRINUSE:
            raise OSError(f"port {port} is in use; --port 0 takes one that is free") from None
        reason = getattr(error, "strerror", None) or error
        raise OSError(f"cannot listen at {host}, port {port}: {reason}") from None


def _serve(app: ASGIApp, listener: socket.socket) -> None:
    """Serve until a signal, which is then raised."""
    import uvicorn

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            """Hang up first: a replay that goes on, or a browser that waits, is not waited for."""
            for connection in list(self.server_state.connections):
                connection.transport.abort()
            await super().shutdown(sockets)

    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        loop="asyncio",
        lifespan="off",
        interface="asgi3",
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_MOST_CONNECTIONS,
    )
    Server(config).run(sockets=[listener])
