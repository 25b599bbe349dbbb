"""The scanner of JSON Lines takes the texts that `json.loads` finds, and no others."""

from __future__ import annotations

import json
import os
import pickle
import random
import subprocess
import sys
import time
from array import array
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from fuzzing.json_lines import any_json_lines
from hypothesis import settings
from support.engines import native_only
from support.examples import slow_except
from support.times import best_time

import bpetite
from bpetite._engine.choice import INSTRUCTION_SETS
from bpetite.corpora._inputs.field_scanner import make_field_scanner

Document = tuple[int, bytes]
"""The line of a text, and its UTF-8."""

Refused = tuple[int, int, str]
"""The line, the byte where it begins, and the reason."""

Result = tuple[list[Document], list[Refused]]


def blocks_of(data: bytes, size: int) -> Iterator[bytes]:
    """Yield blocks of a size, at least one."""
    yield data[:size]
    yield from (data[at : at + size] for at in range(size, len(data), size))


def scanned_blocks(scanner: Any, blocks: Iterable[bytes]) -> Result:
    """Return what a scanner finds in blocks."""
    documents: list[Document] = []
    refused: list[Refused] = []
    blocks = list(blocks)
    for number, block in enumerate(blocks):
        data, offsets, rows, some_refused = scanner.feed(block, number == len(blocks) - 1)
        assert (data.format, offsets.format, rows.format) == ("B", "Q", "Q")
        assert (offsets[0], offsets[-1], len(offsets)) == (0, len(data), len(rows) + 1)
        texts = [bytes(data[start:end]) for start, end in pairwise(offsets)]
        documents += zip(rows, texts, strict=True)
        refused += some_refused
    return documents, refused


def scanned(data: bytes, size: int = 1 << 30, field: str = "text") -> Result:
    """Return what a new scanner finds in data that it takes in blocks of a size."""
    return scanned_blocks(make_field_scanner(field), blocks_of(data, size))


def expected(data: bytes, field: str = "text") -> Result:
    """Return what `json.loads` finds in the lines of data."""
    documents: list[Document] = []
    refused: list[Refused] = []
    start = 0
    for row, line in enumerate(data.split(b"\n")):
        found = expected_of_line(line, field)
        if isinstance(found, bytes):
            documents.append((row, found))
        elif found is not None:
            refused.append((row, start, found))
        start += len(line) + 1
    return documents, refused


def expected_of_line(line: bytes, field: str) -> bytes | str | None:
    """Return the text of a line, or the reason to refuse it, or None for a blank line."""
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return "not UTF-8"
    if not line.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r"):
        return None
    if b"\0" in line:
        return "not JSON"  # `json.loads` takes bytes with zeros for UTF-16 or UTF-32
    try:
        value = json.loads(line)
    except ValueError:
        return "not JSON"
    if not isinstance(value, dict) or field not in value:
        return "no field"
    if not isinstance(value[field], str):
        return "not a string"
    try:
        return str(value[field]).encode("utf-8")
    except UnicodeEncodeError:
        return "lone surrogate"


# One line each

TAKEN: dict[str, tuple[bytes, str]] = {
    "a text": (b'{"text": "abc"}', "abc"),
    "an empty text": (b'{"text": ""}', ""),
    "no spaces": (b'{"text":"abc","a":1}', "abc"),
    "all white space": (b' \t\r{ \t\r"text"\t : \r"abc" \t, "a" :[ 1 , 2 ] } \r', "abc"),
    "short escapes": (rb'{"text": "\"\\\/\b\f\n\r\t"}', '"\\/\b\f\n\r\t'),
    "escaped code points": (rb'{"text": "\u0041\u00e9\u20AC\u0000"}', "Aé€\0"),
    "a surrogate pair": (rb'{"text": "\ud83d\ude42\uD83D\uDE42"}', "🙂🙂"),
    "raw UTF-8": ('{"text": "é你🙂\x7f\u2028"}'.encode(), "é你🙂\x7f\u2028"),
    "an escaped name": (rb'{"\u0074e\u0078t": "abc"}', "abc"),
    "the last of equal names": (rb'{"text": "a", "text": 1, "te\u0078t": "c"}', "c"),
    "a lone surrogate in another text": (rb'{"text": "\ud800", "text": "b"}', "b"),
    "lone surrogates elsewhere": (rb'{"\ud800": "\udc00", "text": "b"}', "b"),
    "constants": (b'{"a": NaN, "b": [-Infinity, Infinity, null, true, false], "text": "b"}', "b"),
    "numbers": (b'{"a": [0, -0, -1.5, 10e5, 1E+05, 0.0e-9, 12345678901], "text": "b"}', "b"),
    "nested values": (b'{"a": {"text": "x", "b": [{}, [], [[]]]}, "text": "b"}', "b"),
    "braces in strings": (rb'{"a": "{[\"", "text": "}]\"", "b": "\\"}', '}]"'),
    "a byte order mark": (b'\xef\xbb\xbf{"text": "abc"}', "abc"),
}


@pytest.mark.parametrize(("line", "text"), TAKEN.values(), ids=TAKEN)
def test_a_text_is_taken(line: bytes, text: str) -> None:
    assert scanned(line) == ([(0, text.encode())], []) == expected(line)


REFUSED: dict[str, tuple[bytes, str]] = {
    "an invalid byte": (b'{"text": "a\xff"}', "not UTF-8"),
    "an unfinished character": (b'{"text": "\xe4\xbd"}', "not UTF-8"),
    "a surrogate in UTF-8": (b'{"text": "\xed\xa0\x80"}', "not UTF-8"),
    "an overlong character": (b'{"text": "\xc0\x80"}', "not UTF-8"),
    "an invalid byte in another field": (b'{"a": "\xf5", "text": "a"}', "not UTF-8"),
    "an invalid byte in what is not JSON": (b"{\xff", "not UTF-8"),
    "words": (b"hello", "not JSON"),
    "an open object": (b'{"text": "a"', "not JSON"),
    "an open text": (b'{"text": "a', "not JSON"),
    "an open escape": (b'{"text": "a\\', "not JSON"),
    "an escaped quote at the end": (b'{"text": "a\\"}', "not JSON"),
    "an open array": (b'{"text": "a", "b": [1', "not JSON"),
    "a comma before a brace": (b'{"text": "a",}', "not JSON"),
    "a comma before a bracket": (b'{"text": "a", "b": [1,]}', "not JSON"),
    "two commas": (b'{"text": "a",, "b": 1}', "not JSON"),
    "a comma alone": (b"{,}", "not JSON"),
    "a comma after a bracket": (b'{"text": "a", "b": [,1]}', "not JSON"),
    "a brace alone": (b"}", "not JSON"),
    "no comma": (b'{"text": "a" "b": 1}', "not JSON"),
    "no colon": (b'{"text" "a"}', "not JSON"),
    "no value": (b'{"text":}', "not JSON"),
    "no name": (b'{:"text"}', "not JSON"),
    "a name that is a number": (b'{1: "a", "text": "a"}', "not JSON"),
    "a nested name that is a number": (b'{"a": {1: "a"}, "text": "a"}', "not JSON"),
    "a wrong bracket": (b'{"a": [1}, "text": "a"}', "not JSON"),
    "two values": (b'{"text": "a"} {"text": "b"}', "not JSON"),
    "a word behind the value": (b'{"text": "a"}x', "not JSON"),
    "single quotes": (b"{'text': 'a'}", "not JSON"),
    "a tab in a text": (b'{"text": "a\tb"}', "not JSON"),
    "a zero in a text": (b'{"text": "a\0b"}', "not JSON"),
    "a control character in a name": (b'{"a\x1f": 1, "text": "a"}', "not JSON"),
    "an unknown escape": (rb'{"text": "\x41"}', "not JSON"),
    "an escape of a letter beyond ASCII": ('{"text": "\\é"}'.encode(), "not JSON"),
    "a capital escape": (rb'{"text": "\N"}', "not JSON"),
    "too few digits": (rb'{"text": "\u004"}', "not JSON"),
    "a sign among digits": (rb'{"text": "\u+041"}', "not JSON"),
    "a wrong digit in a low surrogate": (rb'{"text": "\ud83d\ude4g"}', "not JSON"),
    "an unknown escape elsewhere": (rb'{"a": "\a", "text": "a"}', "not JSON"),
    "a zero before a number": (b'{"a": 01, "text": "a"}', "not JSON"),
    "a plus": (b'{"a": +1, "text": "a"}', "not JSON"),
    "a minus alone": (b'{"a": -, "text": "a"}', "not JSON"),
    "a point without digits": (b'{"a": 1., "text": "a"}', "not JSON"),
    "a point before digits": (b'{"a": .5, "text": "a"}', "not JSON"),
    "an exponent after a point": (b'{"a": 1.e5, "text": "a"}', "not JSON"),
    "an exponent alone": (b'{"a": 1e, "text": "a"}', "not JSON"),
    "a second point": (b'{"a": 1.5.5, "text": "a"}', "not JSON"),
    "digits of another script": ('{"a": ١, "text": "a"}'.encode(), "not JSON"),
    "an exponent without digits": (b'{"a": 1e+, "text": "a"}', "not JSON"),
    "a constant in capitals": (b'{"a": True, "text": "a"}', "not JSON"),
    "a longer constant": (b'{"a": nulls, "text": "a"}', "not JSON"),
    "a shorter constant": (b'{"a": tru, "text": "a"}', "not JSON"),
    "minus NaN": (b'{"a": -NaN, "text": "a"}', "not JSON"),
    "a part of infinity": (b'{"a": [-Inf, Inf], "text": "a"}', "not JSON"),
    "white space that JSON lacks": (b'{"text": "a"}\x0b', "not JSON"),
    "a space beyond ASCII": ('{"text":\u00a0"a"}'.encode(), "not JSON"),
    "a form feed alone": (b"\x0c", "not JSON"),
    "two byte order marks": (b'\xef\xbb\xbf\xef\xbb\xbf{"text": "a"}', "not JSON"),
    "a space before a byte order mark": (b' \xef\xbb\xbf{"text": "a"}', "not JSON"),
    "a text and an error": (rb'{"text": 1, "text": "\ud800", "a": }', "not JSON"),
    "an empty object": (b"{}", "no field"),
    "another name": (b'{"Text": "a", "tex": "b", "textt": "c"}', "no field"),
    "a nested name": (b'{"a": {"text": "a"}}', "no field"),
    "an array": (b'["text", "a"]', "no field"),
    "a string": (b'"text"', "no field"),
    "a number": (b"1.5", "no field"),
    "a constant": (b"null", "no field"),
    "null": (b'{"text": null}', "not a string"),
    "a number as text": (b'{"text": 12}', "not a string"),
    "a constant as text": (b'{"text": NaN}', "not a string"),
    "an array as text": (b'{"text": ["a"]}', "not a string"),
    "an object as text": (b'{"text": {"text": "a"}}', "not a string"),
    "a last value that is no text": (b'{"text": "a", "text": false}', "not a string"),
    "a high surrogate": (rb'{"text": "a\ud83d"}', "lone surrogate"),
    "a low surrogate": (rb'{"text": "\ude42 b"}', "lone surrogate"),
    "surrogates in wrong order": (rb'{"text": "\ude42\ud83d"}', "lone surrogate"),
    "two high surrogates": (rb'{"text": "\ud83d\ud83d\ude42"}', "lone surrogate"),
    "a surrogate and a letter": (rb'{"text": "\ud83d\u0041"}', "lone surrogate"),
    "a surrogate and an escape": (rb'{"text": "\ud83d\n\ude42"}', "lone surrogate"),
}


@pytest.mark.parametrize(("line", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_line_is_refused(line: bytes, reason: str) -> None:
    assert scanned(line) == ([], [(0, 0, reason)]) == expected(line)


# Lines

BLANK = [b"", b" ", b"\t", b"\r", b" \t\r \t\r", b"\xef\xbb\xbf", b"\xef\xbb\xbf \r"]


@pytest.mark.parametrize("blank", BLANK)
@pytest.mark.parametrize("end", [b"\n", b""])
def test_blank_lines_are_counted_but_not_refused(blank: bytes, end: bytes) -> None:
    text = b'{"text": "a"}'
    data = b"\n".join([blank, text, blank, blank, b"x", blank]) + end
    start = 3 * len(blank) + len(text) + 4
    assert scanned(data) == ([(1, b"a")], [(4, start, "not JSON")]) == expected(data)


def test_nothing_has_no_lines() -> None:
    scanner = make_field_scanner("text")
    for is_last in (False, True, True):
        data, offsets, rows, refused = scanner.feed(b"", is_last)
        assert (bytes(data), [*offsets], [*rows], refused) == (b"", [0], [], [])


def test_a_newline_ends_a_line_inside_a_text() -> None:
    data = b'{"text": "a\nb"}\n{"text": "c"}'
    assert scanned(data) == ([(2, b"c")], [(0, 0, "not JSON"), (1, 12, "not JSON")])


def test_windows_newlines_belong_to_no_text() -> None:
    data = b'{"text": "a\\r\\n"}\r\n\r\n{"text": "b"}\r\n'
    assert scanned(data) == ([(0, b"a\r\n"), (2, b"b")], [])


@pytest.mark.parametrize("end", ["\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029", "\x1c"])
def test_only_a_newline_ends_a_line(end: str) -> None:
    data = f'{{"text": "a"}}{end}{{"text": "b"}}'.encode()
    assert scanned(data) == ([], [(0, 0, "not JSON")])


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1 << 20])
def test_a_byte_order_mark_may_begin_each_line(size: int) -> None:
    """Then the texts of a part of a file do not depend on where the part begins."""
    line = b'\xef\xbb\xbf{"text": "\xef\xbb\xbfa"}\n'
    text = "\ufeffa".encode()
    assert scanned(line * 3, size) == ([(0, text), (1, text), (2, text)], [])


@pytest.mark.parametrize(
    ("encoding", "refused"),
    # Little-endian, the last byte of the file is the zero byte of the newline, so it is a line.
    [
        ("utf-16-le", [(0, 0, "not UTF-8"), (1, 29, "not JSON")]),
        ("utf-16-be", [(0, 0, "not UTF-8")]),
    ],
)
def test_a_file_in_utf16_is_refused(encoding: str, refused: list[tuple[int, int, str]]) -> None:
    assert scanned('\ufeff{"text": "a"}\n'.encode(encoding)) == ([], refused)


def test_lines_and_bytes_go_on_after_the_last_block() -> None:
    scanner = make_field_scanner("text")
    assert scanned_blocks(scanner, [b"a\nb"]) == ([], [(0, 0, "not JSON"), (1, 2, "not JSON")])
    assert scanned_blocks(scanner, [b'{"text": "a"}\nc\n']) == ([(2, b"a")], [(3, 17, "not JSON")])


def test_a_text_comes_with_the_block_that_ends_its_line() -> None:
    scanner = make_field_scanner("text")
    fed = [b'{"text": "a"', b"}", b'\n{"text": "b"}\n{"te', b'xt": "c"}']
    texts = [bytes(scanner.feed(block, block == fed[-1])[0]) for block in fed]
    assert texts == [b"", b"", b"ab", b"c"]


# Fields


@pytest.mark.parametrize("field", ["", "a", "é", "你好🙂", "a\nb", 'a"b\\', "x" * 200, "\0"])
@pytest.mark.parametrize("is_ascii", [True, False])
def test_a_field_may_have_any_name(field: str, is_ascii: bool) -> None:
    line = json.dumps({f"{field}x": 1, field: "found", "x" + field: 2}, ensure_ascii=is_ascii)
    assert scanned(line.encode(), field=field) == ([(0, b"found")], [])


def test_a_field_with_a_lone_surrogate_is_an_error() -> None:
    with pytest.raises(UnicodeEncodeError):
        make_field_scanner("a\ud800")


# Blocks


LINES = [*TAKEN.values(), *REFUSED.values()]
JOINED = b"\n".join(line for refused, _ in LINES for line in (refused, b'{"text": "next"}'))
JOINED += b"\n" + b"\r\n".join(BLANK)


@pytest.mark.parametrize(
    "size", slow_except([*range(1, 70), 127, 128, 129, 1000], 1, 2, 7, 63, 64, 65, 129)
)
def test_blocks_may_end_anywhere(size: int) -> None:
    assert scanned(JOINED, size) == expected(JOINED)


BLOCKS: dict[str, Any] = {
    "bytes": bytes,
    "bytearray": bytearray,
    "read-only view": lambda data: memoryview(bytearray(data)).toreadonly(),
    "part of a view": lambda data: memoryview(b"x" + data + b"x")[1:-1],
    "array": lambda data: array("B", data),
    "numpy's array": lambda data: np.frombuffer(data, np.uint8),
}


@pytest.mark.parametrize("make", BLOCKS.values(), ids=BLOCKS)
@pytest.mark.parametrize("count", [1, 5000])
def test_a_block_may_be_any_contiguous_bytes(make: Any, count: int) -> None:
    block = make(b'{"text": "a"}\n' * count)
    data, _, rows, refused = make_field_scanner("text").feed(block, False)
    assert (bytes(data), len(rows), refused) == (b"a" * count, count, [])


@pytest.mark.parametrize(
    "block", ["{}", 1, None, array("I", [1]), memoryview(b"abcd")[::2], np.zeros((2, 2), np.uint8)]
)
def test_a_block_of_another_type_is_an_error(block: Any) -> None:
    scanner = make_field_scanner("text")
    with pytest.raises(TypeError) as caught:
        scanner.feed(block, False)
    assert str(caught.value) == f"block must be contiguous bytes, got {type(block).__name__}"
    assert bytes(scanner.feed(b'{"text": "a"}', True)[0]) == b"a"


def test_texts_belong_to_the_caller() -> None:
    scanner = make_field_scanner("text")
    data, offsets, rows, _ = scanner.feed(b'{"text": "abc"}\n', False)
    other = scanner.feed(b'{"text": "xyz"}\n', False)
    data[0], offsets[0], rows[0] = 0, 1, 2
    assert [bytes(other[0]), [*other[1]], [*other[2]]] == [b"xyz", [0, 3], [1]]
    del scanner
    assert bytes(data) == b"\0bc"


# Long and deep lines

DEEP = 50_000 if bpetite.engine == "native" else 5_000
"""Levels of nesting, many more than Python's limit of recursion, or than a stack holds."""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'{"a": ' + b"[" * DEEP + b"]" * DEEP + b', "text": "b"}', b"b"),
        (b'{"text": "b", "a": ' + b'[{"text": ' * DEEP + b"1" + b"}, 2]" * DEEP + b"}", b"b"),
        (b'{"a": {"text": "x"}, "text": "b", "a": ' + b"[" * DEEP, "not JSON"),
        (b'{"text": ' + b"[" * DEEP + b"]" * DEEP + b"}", "not a string"),
        (b'{"text": "b", "text": ' + b"[" * DEEP + b"]" * DEEP + b"}", "not a string"),
        (b"[" * DEEP + b"]" * DEEP, "no field"),
        (b'[{"text": "a"},' * DEEP + b'{"text": "a"}' + b"]" * DEEP, "no field"),
        (b'{"": ' + b"[" * DEEP + b"]" * DEEP + b"}", "no field"),
        (b'{"a": ' + b"[" * DEEP + b"]" * (DEEP - 1) + b"}" + b"}", "not JSON"),
        (b'{"a": ' + b"[" * DEEP + b"]" * DEEP + b"} 1", "not JSON"),
        (b'{"a": ' + b"[" * DEEP + b"]" * DEEP + b",}", "not JSON"),
        (b'{"text": "b", "a": ' + b"[1,{}," * DEEP + b"[]" + b"]" * DEEP + b"}", b"b"),
        (b'{"text": "\\ud800", "a": ' + b"[" * DEEP + b"]" * DEEP + b"}", "lone surrogate"),
        (b'{"a": ' + b"[" * DEEP + b"1 1" + b"]" * DEEP + b"}", "not JSON"),
        (b'{"a": ' + b'{"a":' * DEEP + b"x", "not JSON"),
        (b'{"a": ' + b'{"a":' * DEEP + b"{1", "not JSON"),
        (b'{"a": ' + b'{"a":' * DEEP + b'{"a"1', "not JSON"),
        # Five levels again and again, so that no two words of 64 bits are alike
        (b'{"text": "b", "a": ' + b'[{"":[{"":{"":' * DEEP + b"1" + b"}}]}]" * DEEP + b"}", b"b"),
    ],
    ids=range(18),
)
def test_values_nest_to_any_depth(before: bytes, after: bytes | str) -> None:
    found = scanned(before)
    assert found == (([(0, after)], []) if isinstance(after, bytes) else ([], [(0, 0, after)]))


def test_integers_have_any_number_of_digits() -> None:
    """`json.loads` refuses integers of more than 4,300 digits, which it need not read."""
    line = b'{"text": "a", "b": -' + b"1234567890" * 1000 + b"}"
    assert scanned(line) == ([(0, b"a")], [])


MANY_MEGABYTES = 1000 if bpetite.engine == "native" else 200
"""The Python engine has four copies of a line at once."""


@pytest.mark.parametrize("megabytes", [16, pytest.param(MANY_MEGABYTES, marks=pytest.mark.slow)])
def test_a_line_may_be_long(megabytes: int) -> None:
    """Other lines are around it, so its memory is handed on."""
    scanner = make_field_scanner("text")
    scanner.feed(b'{"text": "a"}\n{"text": "', False)
    million = b"0123456789" * 100_000
    for _ in range(megabytes):
        assert scanner.feed(million, False)[0].nbytes == 0
    data, offsets, rows, refused = scanner.feed(b'"}\n{"text": "b"}\n', False)
    assert ([*offsets], [*rows], refused) == ([0, len(data) - 1, len(data)], [1, 2], [])
    assert len(data) == megabytes * 1_000_000 + 1
    assert data[-1_000_001:] == million + b"b"
    assert bytes(scanner.feed(b'{"text": "c"}', True)[0]) == b"c"


def seconds_for_blocks(n_blocks: int) -> float:
    """Return the time for an unfinished line that comes in blocks of 1 kB."""
    scanner = make_field_scanner("text")
    scanner.feed(b'{"text": "', False)
    block = b"x" * 1000
    start = time.process_time()
    for _ in range(n_blocks):
        scanner.feed(block, False)
    return time.process_time() - start


def test_an_unfinished_line_costs_linear_time() -> None:
    """A search of the whole line for each block would take 64 times as long, not eight."""
    few = min(seconds_for_blocks(2000) for _ in range(5))
    many = min(seconds_for_blocks(16_000) for _ in range(3))
    assert many < 20 * few


@native_only
def test_memory_goes_back_to_the_pool() -> None:
    scanner = make_field_scanner("text")
    block = b'{"text": "' + b"x" * (4 << 20) + b'"}\n'
    addresses = {np.asarray(scanner.feed(block, False)[0]).ctypes.data for _ in range(20)}
    assert len(addresses) < 5


# Interrupts and threads

INTERRUPTED = """
import signal
import bpetite
from bpetite.corpora._inputs.field_scanner import make_field_scanner

block = b'{"text": "a"}\\n' * (10_000_000 if bpetite.engine == "native" else 500_000)
scanner = make_field_scanner("text")

def interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.02)
try:
    scanner.feed(block, True)
except KeyboardInterrupt:
    try:
        scanner.feed(b"", True)
    except RuntimeError as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX timers")
def test_an_interrupt_leaves_the_scanner_unusable() -> None:
    """It would have lost lines."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, check=True, timeout=100, text=True
    )
    assert done.stdout == "the scanner was interrupted and cannot continue; make a new one\n"


LONG_LINE = """
import _thread, signal, threading, time
from bpetite.corpora._inputs.field_scanner import make_field_scanner

block = b"[" + b"1," * 100_000_000
scanner = make_field_scanner("text")
counted = 0

def interrupt():
    global counted, begin
    for counted in range(100):
        time.sleep(0.001)
    begin = time.process_time()
    _thread.interrupt_main()

signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=interrupt, daemon=True).start()
try:
    scanner.feed(block, True)
except KeyboardInterrupt:
    print(counted, time.process_time() - begin)
"""


@native_only
def test_an_interrupt_soon_ends_a_long_line() -> None:
    """Another thread sends it, so the GIL is free meanwhile."""

    def seconds() -> float:
        command = [sys.executable, "-c", LONG_LINE]
        ended = subprocess.run(command, capture_output=True, check=True, timeout=100, text=True)
        counted, taken = ended.stdout.split()
        assert counted == "99"
        return float(taken)

    assert best_time(seconds, enough=0.7) < 0.7


@pytest.mark.usefixtures("switching_often")
def test_threads_take_turns() -> None:
    scanner = make_field_scanner("text")
    block = b'{"text": "abc"}\n' * 2000
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: scanner.feed(block, False), range(20)))
    rows = sorted(row for result in results for row in result[2])
    assert rows == [*range(40_000)]


# Generated lines, compared with `json.loads`

N_SEEDS = 2 * settings().max_examples
"""Each seed gives a few lines; `scripts/fuzz` has many more."""


def generated(seed: int) -> tuple[bytes, int]:
    """Return some lines and a length of blocks, each from 1 to 5,000."""
    rng = random.Random(seed)
    return any_json_lines(rng), int(5000 ** rng.random())


def mutated(real_texts: list[str]) -> Iterator[tuple[bytes, int]]:
    """Yield real texts in lines with other fields, some of them with wrong bytes."""
    rng = random.Random(7)
    for text in real_texts[:20]:
        row = {"id": "<urn:1>", "text": text, "score": 0.5, "tags": [{"a": None}]}
        line = bytearray(json.dumps(row, ensure_ascii=rng.random() < 0.5).encode())
        for _ in range(rng.choice([0, 0, 1, 2])):
            line[rng.randrange(len(line))] = rng.choice(b'"\\{}[],:u\n\x00\xff e')
        yield bytes(line), int(5000 ** rng.random())


def test_generated_lines_have_the_texts_of_json() -> None:
    n_texts = n_refused = 0
    for data, size in map(generated, range(N_SEEDS)):
        documents, refused = expected(data)
        assert scanned(data, size) == (documents, refused), data
        n_texts += len(documents)
        n_refused += len(refused)
    assert min(n_texts, n_refused) > N_SEEDS // 2


def test_real_lines_have_the_texts_of_json(real_texts: list[str]) -> None:
    for data, size in mutated(real_texts):
        assert scanned(data, size) == expected(data), data


PROGRAM = """
import os, pickle, sys
from bpetite._engine import _native

results = []
is_there = _native.instruction_set() == os.environ["BPETITE_SIMD"]
for data, size in pickle.load(sys.stdin.buffer) if is_there else []:
    scanner = _native.FieldScanner("text")
    fed = [scanner.feed(data[at : at + size], False) for at in range(0, len(data), size)]
    fed.append(scanner.feed(b"", True))
    parts = [(bytes(found[0]), found[1].tolist(), found[2].tolist(), found[3]) for found in fed]
    results.append(parts)
pickle.dump((_native.instruction_set(), results), sys.stdout.buffer)
"""


@pytest.fixture(scope="module")
def cases(real_texts: list[str]) -> list[tuple[tuple[bytes, int], Result]]:
    """Lines, the length of blocks, and what `json.loads` finds."""
    tables = [line for line, _ in LINES]
    found = [*map(generated, range(N_SEEDS)), *mutated(real_texts)]
    found += [(JOINED, size) for size in (1, 7, 64, 1000, 1 << 20)]
    # Many offsets of a text in a step of 64 bytes.
    found += [(b" " * spaces + line, 1 << 20) for spaces in range(0, 70, 7) for line in tables]
    return [(case, expected(case[0])) for case in found]


@native_only
@pytest.mark.parametrize("name", INSTRUCTION_SETS)
def test_all_instruction_sets_scan_alike(
    name: str, cases: list[tuple[tuple[bytes, int], Result]]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "BPETITE_ENGINE": "native", "BPETITE_SIMD": name},
        input=pickle.dumps([case for case, _ in cases]),
        capture_output=True,
        check=True,
        timeout=100,
    )
    used, results = pickle.loads(done.stdout)
    if used != name:
        pytest.skip("the processor lacks this instruction set")
    for ((data, _), result), parts in zip(cases, results, strict=True):
        documents: list[Document] = []
        refused: list[Refused] = []
        for text, offsets, rows, some_refused in parts:
            texts = [text[start:end] for start, end in pairwise(offsets)]
            documents += zip(rows, texts, strict=True)
            refused += some_refused
        assert (documents, refused) == result, data
