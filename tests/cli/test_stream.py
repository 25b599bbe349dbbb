"""The option `decode --stream`: ids in as they arrive, complete text out at once."""

from __future__ import annotations

import queue
import subprocess
import threading
import time
from typing import TYPE_CHECKING

import pytest
from support.cli import TOKENIZER, Input, Result, in_process, start
from support.cli import folder as folder  # a fixture
from support.engines import quick_once

pytestmark = quick_once


if TYPE_CHECKING:
    from typing_extensions import Buffer

STREAM = ("decode", "--stream", "--model", "model.json")


@pytest.mark.parametrize(
    "ids", [b"72\n105\n", b"72\n105", b"72 105", b"  72\t\r\n\n105 \n", b"72\r\n105\r\n"], ids=repr
)
def test_one_or_more_ids_on_each_line(ids: bytes) -> None:
    assert in_process(*STREAM, stdin=ids) == Result(0, b"Hi", [])


@pytest.mark.parametrize("ids", [b"", b"\n", b" \n\n "], ids=repr)
def test_no_ids_give_no_text(ids: bytes) -> None:
    assert in_process(*STREAM, stdin=ids) == Result(0, b"", [])


def test_stream_equals_the_text() -> None:
    text = "Hello café\r\n你好<|endoftext|>🙂 \ufffd no newline"
    ids = " ".join(map(str, TOKENIZER.encode(text))).encode()
    assert in_process(*STREAM, stdin=ids) == Result(0, text.encode(), [])


class Arriving(Input):
    """Standard input with a few bytes at a time."""

    def __init__(self, data: bytes, at_a_time: int) -> None:
        super().__init__(data)
        self._at_a_time = at_a_time

    def readinto(self, buffer: Buffer) -> int:
        """Read the bytes that have arrived."""
        return super().readinto(memoryview(buffer)[: self._at_a_time])


@pytest.mark.parametrize("at_a_time", range(1, 9))
def test_id_may_arrive_in_parts(at_a_time: int) -> None:
    ids = b"72 240 159\n\n153 130\r\n291 105\n240 159"
    result = in_process(*STREAM, stdin=Arriving(ids, at_a_time))
    assert result == Result(0, "H🙂<|pad|>i\ufffd".encode(), [])


@pytest.mark.parametrize(
    ("errors", "out"),
    [
        ([], "H\ufffdi\ufffd".encode()),
        (["--errors", "replace"], "H\ufffdi\ufffd".encode()),
        (["--errors", "ignore"], b"Hi"),
        (["--errors", "backslashreplace"], rb"H\xffi\xf0\x9f"),
    ],
    ids=str,
)
def test_errors_option_handles_invalid_bytes(errors: list[str], out: bytes) -> None:
    assert in_process(*STREAM, *errors, stdin=b"72 255 105 240 159") == Result(0, out, [])


def test_special_tokens_can_be_skipped() -> None:
    """A skipped token does not interrupt the character around it."""
    ids = b"72 290 195 291 169"
    result = in_process(*STREAM, "--skip-special-tokens", stdin=ids)
    assert result == Result(0, "Hé".encode(), [])
    assert in_process(*STREAM, stdin=ids).out == "H<|endoftext|>\ufffd<|pad|>\ufffd".encode()


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        (b"72 292", "id 292 is not in this vocabulary (its ids run from 0 to 291)"),
        (b"72 -1", "not an id: '-1'"),
        (b"72 1.5 105", "not an id: '1.5'"),
        (b"72 x", "standard input: line 1: not an id: 'x'"),
        (b"\n72\n\r\n  foo\n", "standard input: line 4: not an id: 'foo'"),
        (b"72 {105}", "not an id: '{105}'"),
        (b"72 true", "not an id: 'true'"),
        ("72 １０５".encode(), "not an id: '１０５'"),
        (b"72 \xff", "not an id: '\ufffd'"),
        (b"72 " + b"1" * 5000, ""),
    ],
    ids=lambda value: repr(value[:20]),
)
def test_text_before_an_invalid_id_is_written(ids: bytes, reason: str) -> None:
    result = in_process(*STREAM, stdin=ids)
    assert (result.code, result.out, len(result.err)) == (1, b"H", 1)
    assert result.err[0].startswith("bpetite: ")
    assert reason in result.err[0]
    assert len(result.err[0]) < 200


@pytest.mark.parametrize("ids", [b"72 195 105", b"72 195", b"72 255"], ids=repr)
def test_strict_fails_and_suggests_errors_replace(ids: bytes) -> None:
    result = in_process(*STREAM, "--errors", "strict", stdin=ids)
    assert (result.code, result.out, len(result.err)) == (1, b"H", 1)
    assert "can't decode byte" in result.err[0]
    assert result.err[0].endswith("; --errors replace writes U+FFFD in place of such bytes")


SLOWLY = [
    (b"7", ""),
    (b"2", ""),
    (b"\n", "H"),
    (b"105 ", "i"),
    (b"240 159\n", ""),
    (b"153", ""),
    (b" 13", ""),
    (b"0", ""),
    (b"\r\n", "🙂"),
    (b"\n\n", ""),
    (b"290 33 9", "<|endoftext|>!"),
    (b"7\n195\n", "a"),
]
"""The writes of a slow producer, and the text that must arrive before the next write."""


def test_slow_producer_sees_each_complete_character_at_once() -> None:
    with start(*STREAM, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        arrived = watched(process)
        seen = []
        for data, text in SLOWLY:
            process.stdin.write(data)
            seen.append(read(arrived, len(text.encode())))
        process.stdin.close()
        seen.append(read(arrived, len("\ufffd".encode())))
        assert [text for text in seen if text] == ["H", "i", "🙂", "<|endoftext|>!", "a", "\ufffd"]
        assert seen == [text for _, text in SLOWLY] + ["\ufffd"]
        assert process.stderr.read() == b""
    assert process.returncode == 0


def watched(process: subprocess.Popen[bytes]) -> queue.Queue[bytes]:
    """Return a queue that receives the output of a process at once."""
    arrived: queue.Queue[bytes] = queue.Queue()

    def watch() -> None:
        assert process.stdout is not None
        while data := process.stdout.read(1 << 16):
            arrived.put(data)

    threading.Thread(target=watch, daemon=True).start()
    return arrived


def read(arrived: queue.Queue[bytes], size: int) -> str:
    """Return the arrived text; wait up to ten seconds for `size` bytes."""
    data = b""
    deadline = time.monotonic() + 10
    while len(data) < size and time.monotonic() < deadline:
        try:
            data += arrived.get(timeout=0.1)
        except queue.Empty:
            continue
    time.sleep(0.03)  # for bytes that should not come
    while not arrived.empty():
        data += arrived.get()
    return data.decode("utf-8", "backslashreplace")


@pytest.mark.parametrize("at_a_time", [1, 3, 1000])
def test_invalid_id_is_located_in_every_chunk(at_a_time: int) -> None:
    result = in_process(*STREAM, stdin=Arriving(b"72 72\n72\n\n72 foo", at_a_time))
    assert result == Result(1, b"HHHH", ["bpetite: standard input: line 4: not an id: 'foo'"])


def test_json_array_is_accepted() -> None:
    result = in_process(*STREAM, stdin=b"[72,105]\n")
    assert (result.code, result.out, result.err) == (0, b"Hi", [])
