"""The verb `stream`: ids in as they arrive, complete text out at once."""

from __future__ import annotations

import queue
import subprocess
import threading
import time

import pytest
from cli import TOKENIZER, Input, Result, in_process, start
from cli import folder as folder  # a fixture

STREAM = ("stream", "--model", "model.json")


@pytest.mark.parametrize(
    "ids",
    [b"72\n105\n", b"72\n105", b"72 105", b"  72\t\r\n\n105 \n", b"72\r\n105\r\n"],
    ids=repr,
)
def test_one_or_more_ids_stand_on_a_line(ids: bytes) -> None:
    assert in_process(*STREAM, stdin=ids) == Result(0, b"Hi", [])


@pytest.mark.parametrize("ids", [b"", b"\n", b" \n\n "], ids=repr)
def test_no_ids_are_no_text(ids: bytes) -> None:
    assert in_process(*STREAM, stdin=ids) == Result(0, b"", [])


def test_the_stream_is_the_text() -> None:
    text = "Hello café\r\n你好<|endoftext|>🙂 \ufffd no newline"
    ids = " ".join(map(str, TOKENIZER.encode(text))).encode()
    assert in_process(*STREAM, stdin=ids) == Result(0, text.encode(), [])


class Arriving(Input):
    """Standard input whose bytes arrive a few at a time."""

    def __init__(self, data: bytes, at_a_time: int) -> None:
        super().__init__(data)
        self._at_a_time = at_a_time

    def read1(self, size: int | None = -1) -> bytes:
        """Read what has arrived."""
        wanted = self._at_a_time if size is None or size < 0 else min(size, self._at_a_time)
        return super().read1(wanted)


@pytest.mark.parametrize("at_a_time", range(1, 9))
def test_an_id_may_arrive_in_parts(at_a_time: int) -> None:
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
def test_errors_says_what_becomes_of_bad_bytes(errors: list[str], out: bytes) -> None:
    assert in_process(*STREAM, *errors, stdin=b"72 255 105 240 159") == Result(0, out, [])


def test_special_tokens_can_be_left_out() -> None:
    """One that is left out does not disturb a character around it."""
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
        (b"72 x", "not an id: 'x'"),
        (b"72 {105}", "not an id: '{105}'"),
        (b"72 true", "not an id: 'true'"),
        ("72 １０５".encode(), "not an id: '１０５'"),
        (b"72 \xff", "not an id: '\ufffd'"),
        (b"72 " + b"1" * 5000, ""),
    ],
    ids=lambda value: repr(value[:20]),
)
def test_the_text_before_what_is_no_id_has_been_written(ids: bytes, reason: str) -> None:
    result = in_process(*STREAM, stdin=ids)
    assert (result.code, result.out, len(result.err)) == (1, b"H", 1)
    assert result.err[0].startswith("bpetite: ")
    assert reason in result.err[0]
    assert len(result.err[0]) < 200


@pytest.mark.parametrize("ids", [b"72 195 105", b"72 195", b"72 255"], ids=repr)
def test_strict_fails_at_bytes_that_are_not_utf8(ids: bytes) -> None:
    result = in_process(*STREAM, "--errors", "strict", stdin=ids)
    assert (result.code, result.out, len(result.err)) == (1, b"H", 1)
    assert "can't decode byte" in result.err[0]


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
"""What a slow producer writes, and the text that must be there before it writes again."""


def test_a_slow_producer_sees_each_character_as_soon_as_it_is_whole() -> None:
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
    """Return a queue of all that a process writes, as it is written."""
    arrived: queue.Queue[bytes] = queue.Queue()

    def watch() -> None:
        assert process.stdout is not None
        while data := process.stdout.read(1 << 16):
            arrived.put(data)

    threading.Thread(target=watch, daemon=True).start()
    return arrived


def read(arrived: queue.Queue[bytes], size: int) -> str:
    """Return what has arrived: at least `size` bytes, unless they do not come for long."""
    data = b""
    deadline = time.monotonic() + 10
    while len(data) < size and time.monotonic() < deadline:
        try:
            data += arrived.get(timeout=0.1)
        except queue.Empty:
            continue
    time.sleep(0.03)  # for what should not come
    while not arrived.empty():
        data += arrived.get()
    return data.decode("utf-8", "backslashreplace")


def test_a_json_array_is_ids_too() -> None:
    result = in_process(*STREAM, stdin=b"[72,105]\n")
    assert (result.code, result.out, result.err) == (0, b"Hi", [])
