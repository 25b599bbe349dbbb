"""The scanner of one text field of JSON Lines: in Python, and its native twin."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable
from io import BytesIO
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from bpetite._engine.chosen import NATIVE

if TYPE_CHECKING:
    from bpetite._engine._native import FieldScanner as NativeFieldScanner
    from bpetite._engine.contract import Block

Scanned: TypeAlias = tuple[memoryview, memoryview, memoryview, list[tuple[int, int, str]]]
"""The texts of a block as `FieldScanner.feed` returns them: data, offsets, rows, refused lines."""


class FieldScanner:
    r"""Takes one text field from JSON Lines, block by block. A thread waits for another's call.

    A line ends at a newline and nowhere else, and lines are UTF-8. A line has a text if and only if
    `json.loads` takes it, and the last value of the top-level field is a string without lone
    surrogates. Two bounds of `json.loads` do not apply: values nest to any depth, and integers have
    any number of digits.

    Lines of white space alone have no text and are not refused. As in `json.loads`, a UTF-8 byte
    order mark at the beginning of a line is skipped, so each part of a file gives the same texts.

    >>> scanner = FieldScanner("text")
    >>> data, offsets, rows, refused = scanner.feed(b'{"text": "a"}\n\n{"id": 1}\n{"te', False)
    >>> bytes(data), offsets.tolist(), rows.tolist(), refused
    (b'a', [0, 1], [0], [(2, 15, 'no field')])
    >>> data, offsets, rows, refused = scanner.feed(b'xt": "bc"}', True)
    >>> bytes(data), offsets.tolist(), rows.tolist(), refused
    (b'bc', [0, 2], [3], [])
    """

    def __init__(self, field: str) -> None:
        field.encode("utf-8")  # a lone surrogate is an error at once, in both engines
        self._field = field
        self._pending = bytearray()
        self._n_lines = 0
        self._n_bytes = 0
        self._is_usable = True
        self._lock = Lock()

    def feed(self, block: Block, is_last: bool) -> Scanned:
        """Return the texts of the lines that end in a block. The unfinished line waits for more.

        If `is_last`, the unfinished line ends with the block, which may be empty. Lines and bytes
        count from 0 where the scanner was made. The result has four parts:

        - data, of format "B": the texts in UTF-8, joined
        - offsets, of format "Q": text i is `data[offsets[i]:offsets[i + 1]]`
        - rows, of format "Q": the line of each text
        - the refused lines in order: the line, the byte where it begins, and the first reason of
          "not UTF-8", "not JSON", "no field", "not a string" and "lone surrogate" that applies

        The native engine releases the GIL if a long block is read-only. Instead of a `bytearray`,
        pass `memoryview(array).toreadonly()`, and do not write to it during the call.

        An interrupt leaves the scanner unusable: later calls raise RuntimeError. A block of another
        type than contiguous bytes raises TypeError.
        """
        with self._lock:
            if not self._is_usable:
                raise RuntimeError(
                    "the scanner was interrupted and cannot continue; make a new one"
                )
            view = _contiguous_bytes(block)
            self._is_usable = False
            scanned = self._feed(view, is_last)
            self._is_usable = True
            return scanned

    def _feed(self, block: memoryview, is_last: bool) -> Scanned:
        data, offsets, rows = bytearray(), array("Q", [0]), array("Q")
        refused: list[tuple[int, int, str]] = []
        for line in self._take_lines(block, is_last):
            text, reason = _read_line(line, self._field)
            if reason is not None:
                refused.append((self._n_lines, self._n_bytes, reason))
            elif text is not None:
                data += text
                offsets.append(len(data))
                rows.append(self._n_lines)
            self._n_lines += 1
            self._n_bytes += len(line)
        return memoryview(data), memoryview(offsets), memoryview(rows), refused

    def _take_lines(self, block: memoryview, is_last: bool) -> list[bytes]:
        pending = self._pending
        length = len(pending)
        pending += block
        # The unfinished line has no newline. A search of it for each block would be quadratic.
        end = len(pending) if is_last else pending.rfind(b"\n", length) + 1
        with BytesIO(pending[:end]) as whole:
            del pending[:end]
            return whole.readlines()


def _contiguous_bytes(block: Block) -> memoryview:
    try:
        view = memoryview(block)
    except TypeError:
        view = None
    if view is None or view.itemsize != 1 or view.ndim != 1 or not view.c_contiguous:
        raise TypeError(f"block must be contiguous bytes, got {type(block).__name__}")
    return view


class _Line(NamedTuple):
    text: bytes | None = None
    reason: str | None = None


def _read_line(line: bytes, field: str) -> _Line:
    """Return the text of a line, or the first reason to refuse it, or neither for a blank line."""
    try:
        string = str(line, "utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError:
        return _Line(reason="not UTF-8")
    if not string.strip(" \t\r\n"):
        return _Line()
    try:
        value = _parse(string)
    except ValueError:
        return _Line(reason="not JSON")
    if not isinstance(value, dict) or field not in value:
        return _Line(reason="no field")
    text = value[field]
    if not isinstance(text, str):
        return _Line(reason="not a string")
    try:
        return _Line(text.encode("utf-8"))
    except UnicodeEncodeError:
        return _Line(reason="lone surrogate")


def _skip_number(_digits: str) -> None:
    """Take a number of any length: an `int` of thousands of digits would be an error."""


_DECODER = json.JSONDecoder(parse_int=_skip_number, parse_float=_skip_number)


def _parse(string: str) -> object:
    try:
        return _DECODER.decode(string)
    except RecursionError:
        return _parse_deep(string)


_CLOSERS = {"{": "}", "[": "]"}
_SPACES = re.compile(r"[ \t\r\n]*")


def _parse_deep(string: str) -> dict[str, object] | None:
    """Parse JSON of any depth without recursion.

    An object becomes a `dict`, in which arrays and objects are None. Any other value becomes None.

    >>> _parse_deep('{"a": "b", "c": [{"a": 1}], "d": {}}')
    {'a': 'b', 'c': None, 'd': None}

    Raises ValueError for text that is not JSON.
    """
    members: dict[str, object] = {}
    name = ""  # of the current member of the outermost object
    closers: list[str] = []  # of the open arrays and objects
    at = _skip_spaces(string, 0)
    is_object = string.startswith("{", at)
    while True:
        # A value begins here, or a name if the innermost open value is an object.
        if closers and closers[-1] == "}":
            inner_name, at = _read_name(string, at)
            if len(closers) == 1:
                name = inner_name
        value = None
        if closer := _CLOSERS.get(string[at : at + 1]):
            at = _skip_spaces(string, at + 1)
            if not string.startswith(closer, at):
                closers.append(closer)
                continue
            at += 1
        else:
            value, at = _DECODER.raw_decode(string, at)
        # A value ends here.
        while True:
            at = _skip_spaces(string, at)
            if not closers:
                if at < len(string):
                    raise ValueError("text follows the value")
                return members if is_object else None
            if len(closers) == 1:
                members[name] = value
            if string.startswith(",", at):
                at = _skip_spaces(string, at + 1)
                break
            if not string.startswith(closers.pop(), at):
                raise ValueError("a comma or the end of an array or object is missing")
            value, at = None, at + 1


def _read_name(string: str, at: int) -> tuple[str, int]:
    """Return the name at an index, and the index of the value after the colon."""
    if not string.startswith('"', at):
        raise ValueError("a name is missing")
    name, at = _DECODER.raw_decode(string, at)
    at = _skip_spaces(string, at)
    if not string.startswith(":", at):
        raise ValueError("a colon is missing")
    return name, _skip_spaces(string, at + 1)


def _skip_spaces(string: str, at: int) -> int:
    match = _SPACES.match(string, at)
    assert match is not None  # it matches nothing, too
    return match.end()


make_field_scanner: Callable[[str], FieldScanner | NativeFieldScanner] = (
    FieldScanner if NATIVE is None else NATIVE.FieldScanner
)
"""Make what takes the texts of a field from JSON Lines.

Raises UnicodeEncodeError for a field with a lone surrogate.
"""
