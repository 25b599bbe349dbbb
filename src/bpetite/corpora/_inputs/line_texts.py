"""The text field of each line of JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeAlias

from bpetite._corpus import Batch
from bpetite._engine.chosen import NATIVE
from bpetite.corpora._found import batch_of


class Texts(NamedTuple):
    """The texts of some lines, and the lines that have none although they are not blank."""

    batch: Batch
    refused: list[tuple[int, int, str]]
    """The row of a line, its first byte, and the first reason that applies.

    The reasons are "not UTF-8", "not JSON", "no field", "not a string" and "lone surrogate".
    """
    next_row: int


def texts_of_lines(lines: memoryview, field: str, first_row: int) -> Texts:
    r"""Return the texts of some whole lines, of which only the last may lack its newline.

    A line ends at a newline and nowhere else. It has a text if and only if `json.loads` takes it,
    and the last value of the top-level field is a string without lone surrogates. Two bounds of
    `json.loads` do not apply: values nest to any depth, and integers have any number of digits.

    Lines of white space alone have no text and are not refused. As in `json.loads`, a UTF-8 byte
    order mark at the beginning of a line is skipped, so each part of a file gives the same texts.

    >>> lines = b'{"text": "a"}\n\n{"id": 1}\n{"text": "bc"}'
    >>> batch, refused, next_row = texts_of_lines(memoryview(lines), "text", 0)
    >>> bytes(batch.data), [*batch.offsets], [*batch.rows], refused, next_row
    (b'abc', [0, 1, 3], [0, 3], [(2, 15, 'no field')], 4)
    """
    if NATIVE is None:
        bounds = pairwise(accumulate(map(len, BytesIO(lines)), initial=0))
        others = [(row, *bound, False) for row, bound in enumerate(bounds, first_row)]
        batch, next_row = batch_of([], []), first_row + len(others)
    else:
        data, offsets, rows, others, next_row = NATIVE.texts_of_lines(lines, field, first_row)
        batch = Batch(data, offsets, rows)
    found: list[tuple[int, bytes]] = []
    refused: list[tuple[int, int, str]] = []
    for row, start, end, has_no_field in others:
        text, reason = _NO_FIELD if has_no_field else _read_line(bytes(lines[start:end]), field)
        if text is not None:
            found.append((row, text))
        elif reason:
            refused.append((row, start, reason))
    if found:
        texts = (bytes(batch.data[start:end]) for start, end in pairwise(batch.offsets))
        found = sorted([*found, *zip(batch.rows, texts, strict=True)])
        batch = batch_of([text for _, text in found], [row for row, _ in found])
    return Texts(batch, refused, next_row)


def whole_lines(blocks: Iterable[memoryview]) -> Iterator[memoryview]:
    r"""Yield the lines of blocks, in parts that end with a newline, except for the last.

    >>> [bytes(lines) for lines in whole_lines(map(memoryview, [b"a", b"b\nc\nd", b"e"]))]
    [b'ab\nc\n', b'de']
    """
    pending = bytearray()
    for block in blocks:
        length = len(pending)
        pending += block
        # The unfinished line has no newline. A search of it for each block would be quadratic.
        if end := pending.rfind(b"\n", length) + 1:
            lines, pending = pending, pending[end:]
            yield memoryview(lines)[:end].toreadonly()
    if pending:
        yield memoryview(pending).toreadonly()


_Verdict: TypeAlias = tuple[bytes | None, str | None]

_NO_FIELD: _Verdict = (None, "no field")


def _read_line(line: bytes, field: str) -> _Verdict:
    """Return the text of a line, or the first reason to refuse it, or neither for a blank line."""
    try:
        string = str(line, "utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError:
        return None, "not UTF-8"
    if not string.strip(" \t\r\n"):
        return None, None
    try:
        value = _parse(string)
    except ValueError:
        return None, "not JSON"
    if not isinstance(value, dict) or field not in value:
        return _NO_FIELD
    text = value[field]
    if not isinstance(text, str):
        return None, "not a string"
    try:
        return text.encode("utf-8"), None
    except UnicodeEncodeError:
        return None, "lone surrogate"


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
