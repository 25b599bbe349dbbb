"""What a stream gives in the table of docs/streaming.md, row by row, and the page's server."""

from __future__ import annotations

import asyncio
import re
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import uvicorn
from starlette.testclient import TestClient

from bpetite import Tokenizer

DOCUMENT = Path(__file__).parents[2] / "docs" / "streaming.md"

BYTES = Tokenizer.train("", 256)
"""Each id is one byte. A token of several bytes becomes several ids in one step."""

SPECIAL = "<|endoftext|>"

STOP = "END"

Tokens = list[bytes | str]
"""The tokens of an answer: bytes, or the literal of a special token."""


class Emitted(NamedTuple):
    """The text of each token, None if it raised, and the text at the end."""

    steps: list[str | None]
    end: str = ""


def streamed(tokens: Tokens, prompt: bytes = b"", **options: Any) -> Emitted:
    """Return the texts of a `DecodeStream`."""
    stream = BYTES.decode_stream(list(prompt), **options)
    steps: list[str | None] = []
    for token in tokens:
        try:
            steps.append(
                stream.step(BYTES.encode(token) if isinstance(token, str) else list(token))
            )
        except ValueError:  # the error, and each step after it
            steps.append(None)
    return Emitted(steps, "" if None in steps else stream.flush())


def bytes_of(token: bytes | str) -> bytes:
    """Return the bytes of a token."""
    return token.encode() if isinstance(token, str) else token


# The table


def rows() -> list[tuple[str, str, str, str]]:
    """Return the rows of the table: a way, tokens, the texts of the way and of a stream."""
    table = DOCUMENT.read_text("utf-8").partition("| the way | ")[2].partition("\n\n")[0]
    found = []
    for line in table.splitlines()[2:]:
        way, tokens, naive, stream, _ = (cell.strip() for cell in line.strip("|").split("|"))
        found.append((way, tokens, naive, stream))
    assert found
    return found


def tokens_of(cell: str) -> Tokens:
    """Return the tokens of a cell: hexadecimal bytes, or a special token."""
    return [
        SPECIAL if token == "special" else bytes.fromhex(token.removeprefix("prompt "))
        for token in cell.split(" · ")
    ]


def cell_of(emitted: Emitted) -> str:
    """Return the cell of the document for emitted texts."""
    steps = " · ".join(
        "raises"
        if text is None
        else text.replace("\ufeff", "U+FEFF").replace(SPECIAL, "special") or "–"
        for text in emitted.steps
    )
    return steps + (f"; end: {emitted.end}" if emitted.end else "")


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_a_stream_does_what_the_table_says(row: tuple[str, str, str, str]) -> None:
    way, cell, naive, expected = row
    tokens = tokens_of(cell)
    prompt = bytes_of(tokens.pop(0)) if cell.startswith("prompt ") else b""
    options: dict[str, Any] = {
        "errors": "strict" if "strict" in way else "replace",
        "skip_special_tokens": "skipped" in way,
        "stop": STOP if "a stop" in way else (),
    }
    assert cell_of(streamed(tokens, prompt, **options)) == expected
    assert naive != expected


# The server


class Generate:
    """A model that answers with certain ids, then repeats one id if it is given."""

    def __init__(self, ids: list[int], for_ever: int | None = None) -> None:
        self.ids = ids
        self.for_ever = for_ever
        self.prompts: list[list[int]] = []
        self.made = 0
        self.closed = threading.Event()

    async def __call__(self, prompt_ids: list[int]) -> AsyncIterator[int]:
        self.prompts.append(prompt_ids)
        try:
            for id in self.ids:
                self.made += 1
                yield id
                await asyncio.sleep(0)
            while self.for_ever is not None:
                yield self.for_ever
                await asyncio.sleep(0.001)
        finally:
            self.closed.set()


def application(generate: Generate, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Any:
    """Return the application of the document, with a model."""
    source = re.search(r"```python\n(import json\n.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    assert source is not None
    BYTES.save(folder / "tokenizer.json")
    monkeypatch.chdir(folder)
    model = ModuleType("model")
    model.generate = generate  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "model", model)
    names: dict[str, Any] = {}
    exec(compile(source[1], str(DOCUMENT), "exec"), names)
    return names["app"]


def asked(app: Any, **query: str | list[str]) -> list[str]:
    """Return the events of an answer."""
    answer = TestClient(app).get("/answer", params=query)
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    return answer.text.split("\n\n")


def test_the_server_sends_each_text_as_an_event(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    end = BYTES.special_tokens[SPECIAL]
    generate = Generate([*"é\n".encode(), end, 0xF0])
    app = application(generate, monkeypatch, tmp_path)
    assert asked(app, question=f"a{SPECIAL}") == [
        'data: "\\u00e9"',
        'data: "\\n"',
        'data: "\\ufffd"',
        "data: [DONE]",
        "",
    ]
    assert generate.prompts == [list(f"a{SPECIAL}".encode())]


def test_the_server_stops_the_model_at_a_stop(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    generate = Generate(list(b"a\nQ: no more"))
    app = application(generate, monkeypatch, tmp_path)
    assert asked(app, stop=["", "\nQ:", "never"]) == ['data: "a"', "data: [DONE]", ""]
    assert (generate.made, generate.closed.is_set()) == (len("a\nQ:"), True)


@pytest.fixture
def port() -> Iterator[tuple[socket.socket, int]]:
    """A socket that listens, and its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # soon full
        yield listener, listener.getsockname()[1]


@pytest.mark.parametrize("reads", [True, False], ids=["reading", "reading no more"])
def test_a_client_that_leaves_ends_the_model(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    port: tuple[socket.socket, int],
    capfd: pytest.CaptureFixture[str],
    reads: bool,
) -> None:
    generate = Generate([97] if reads else [97] * 200_000, for_ever=97)
    app = application(generate, monkeypatch, tmp_path)
    config = uvicorn.Config(app, log_level="warning", lifespan="off", http="h11")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [port[0]]})
    thread.start()
    try:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(10)
            client.connect(("127.0.0.1", port[1]))
            client.sendall(b"GET /answer HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert client.recv(1)
            made = -1
            while not reads and made != generate.made:  # until the server waits for the client
                made = generate.made
                time.sleep(0.1)
        assert generate.closed.wait(timeout=10)
    finally:
        server.should_exit = True
        thread.join(timeout=10)
    assert capfd.readouterr() == ("", "")
