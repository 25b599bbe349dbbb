"""What a stream gives in the table of docs/streaming.md, row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

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
