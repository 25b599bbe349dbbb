"""The verb `serve`: models in, a local page out that shows their tokens while the user types."""

from __future__ import annotations

import argparse
import errno
import os
import signal
import socket
from os import _exit as exit_without_waiting
from typing import NoReturn

from bpetite import Tokenizer
from bpetite._cli.common import MODEL_VARIABLE, add_model, file_names, number, say
from bpetite._cli.errors import fail

_INSTALL = "pip install starlette uvicorn"

HELP = f"""\
show in a browser the tokens of typed text, the merges that made them, and a live stream

The page also browses the vocabulary, and trains a small text step by step.

This verb needs Starlette and uvicorn: {_INSTALL}
The page loads nothing from other machines. Other machines cannot open it
unless --host allows it."""
EXAMPLE = "bpetite serve --model model.json"

_HOST = "127.0.0.1"
_PORT = 8765


def add_options(parser: argparse.ArgumentParser) -> None:
    # The values given would follow a default.
    more = "; give it twice to see two models side by side"
    add_model(parser, more, action="append", default=None)
    parser.add_argument(
        "--port",
        metavar="N",
        type=number(0, 65535),
        default=_PORT,
        help=f"the port to listen at; 0 takes any free port (default: {_PORT})",
    )
    parser.add_argument(
        "--host",
        metavar="ADDRESS",
        default=_HOST,
        help=f"the address to listen at (default: {_HOST}, for this machine only)",
    )


def run(options: argparse.Namespace) -> None:
    try:
        # No other verb needs these packages.
        from bpetite._web.app import Model, application, is_loopback
        from bpetite._web.server import serve
    except ImportError as error:
        raise ValueError(f"serve needs Starlette and uvicorn ({error}): {_INSTALL}") from None
    paths = options.model or [os.environ[MODEL_VARIABLE]]
    names = file_names(paths)
    models = [Model(name, Tokenizer.load(path)) for name, path in zip(names, paths, strict=True)]
    with _listener(options.host, options.port) as listener:
        host, port = listener.getsockname()[:2]
        address = f"[{host}]" if ":" in host else host
        say(f"serving {', '.join(names)} at http://{address}:{port}/")
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _end)
        serve(application(models, loopback=is_loopback(host)), listener)


def _end(*_: object) -> NoReturn:
    """End the process at once: Python would wait for threads, and one may be in a slow pattern."""
    exit_without_waiting(fail(KeyboardInterrupt()))


def _listener(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises OSError with the reason and a remedy."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except (OSError, UnicodeError) as error:
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            raise OSError(f"port {port} is in use; --port 0 takes any free port") from None
        reason = getattr(error, "strerror", None) or error
        raise OSError(f"cannot listen at {host}, port {port}: {reason}") from None
