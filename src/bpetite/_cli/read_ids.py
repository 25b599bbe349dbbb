"""Ids from input files, chunk by chunk: JSON arrays, words, or binary."""

from __future__ import annotations

import ast
import codecs
import json
import os
import re
import stat
import sys
from array import array
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import accumulate
from operator import countOf
from typing import BinaryIO, NamedTuple

from bpetite._cli.common import STANDARD_INPUT, parse_id, shown, standard_input
from bpetite._corpus import utf8_fault

FORMATS = ("text", "u16", "u32", "npy")

Ids = list[int] | memoryview

_CHUNK_BYTES = 1 << 20
_MAX_ID_CHARACTERS = 1 << 16
_NO_WHITE_SPACE = re.compile(r"\S")

_TYPECODES = {"<u2": "H", "<u4": "I", "<u8": "Q", "<i2": "h", "<i4": "i", "<i8": "q"}
"""The dtypes of numpy that ids may have, and their typecodes of `array`."""

_MAX_NPY_HEADER_BYTES = 1 << 16


class IdReader:
    """Reads the ids of a file or of standard input in chunks.

    `advance` is called with the number of bytes of each chunk. An error in the only chunk of a
    short file comes before its first ids.
    """

    def __init__(self, name: str, format: str, advance: Callable[[int], object]) -> None:
        self._name = name
        self._format = format
        self._advance = advance
        self.size = _size(name)
        """The size of the file in bytes; None for a pipe."""

    def __iter__(self) -> Iterator[Ids]:
        """Yield the ids in lists, or in buffers if they are binary.

        Raises ValueError, with the file, for an id that cannot be read and for a file that is cut.
        """
        is_standard_input = self._name == STANDARD_INPUT
        opened = nullcontext(standard_input()) if is_standard_input else open(self._name, "rb")  # noqa: SIM115 - in `with`
        with opened as file:
            try:
                if self._format == "text":
                    yield from _ids_of_text(self._decoded(self._chunks(file)))
                else:
                    yield from self._binary(file)
            except ValueError as error:
                raise ValueError(f"{shown(self._name)}: {error}") from None

    def _chunks(self, file: BinaryIO) -> Iterator[tuple[bytes, bool]]:
        """Yield the file in chunks, each with whether it is the last."""
        data = file.read(_CHUNK_BYTES)
        while data:
            following = file.read(_CHUNK_BYTES) if len(data) == _CHUNK_BYTES else b""
            yield data, not following
            self._advance(len(data))
            data = following

    def _decoded(self, chunks: Iterator[tuple[bytes, bool]]) -> Iterator[tuple[str, bool]]:
        decoder = codecs.getincrementaldecoder("utf-8")()
        offset = 0
        for data, is_last in chunks:
            pending = len(decoder.getstate()[0])
            try:
                text = decoder.decode(data, is_last)
            except UnicodeDecodeError as error:
                start = offset - pending
                raise ValueError(
                    f"not UTF-8 at byte {start + error.start} ({utf8_fault(error, start)})"
                ) from None
            yield text, is_last
            offset += len(data)

    def _binary(self, file: BinaryIO) -> Iterator[Ids]:
        header_bytes = 0
        if self._format == "npy":
            layout, header_bytes = _read_npy_header(file)
            self._advance(header_bytes)
        else:
            layout = _Layout("H" if self._format == "u16" else "I")
        if self.size is not None:
            layout.check(self.size - header_bytes)
        size = 0
        for data, is_last in self._chunks(file):
            size += len(data)
            if is_last:
                layout.check(size)
            yield layout.ids(data)
        layout.check(size)


def _size(name: str) -> int | None:
    if name == STANDARD_INPUT:
        return None
    status = os.stat(name)
    return status.st_size if stat.S_ISREG(status.st_mode) else None


# Text


def _ids_of_text(chunks: Iterator[tuple[str, bool]]) -> Iterator[list[int]]:
    """Yield the ids of each chunk of a text: JSON arrays, or ids with white space between them.

    >>> list(_ids_of_text(iter([("[1,", False), ("2] [", False), ("3]", True)])))
    [[1], [2], [3]]
    """
    reader: _JsonArrays | _Words | None = None
    characters, lines = 0, 0  # before the first id
    for text, is_last in chunks:
        if reader is None:
            beginning = text.lstrip()[:1]
            if not beginning:
                characters += len(text)
                lines += text.count("\n")
                continue
            reader = _JsonArrays(characters) if beginning == "[" else _Words(lines + 1)
        yield reader.feed(text, is_last)


class _JsonArrays:
    """Takes the ids of JSON arrays from a text that arrives in chunks."""

    def __init__(self, offset: int) -> None:
        self._offset = offset  # the position of `_rest` in the text
        self._rest = ""  # an array without its end. A zero stands for the ids that were taken.
        self._taken = 0  # the ids at the beginning of `_rest` that were taken: 0 or 1
        self._decoder = json.JSONDecoder()

    def feed(self, chunk: str, is_last: bool) -> list[int]:
        """Return the ids that are complete."""
        text, self._rest = self._rest + chunk, ""
        ids: list[int] = []
        at = 0
        while following := _NO_WHITE_SPACE.search(text, at):
            at = following.start()
            if not is_last and text[at] == "[" and text.find("]", at) < 0:
                ids += self._unfinished(text, at)
                return ids
            array, at = self._array(text, at)
            ids += array
        self._offset += len(text)
        return ids

    def _array(self, text: str, at: int) -> tuple[list[int], int]:
        """Return the new ids of the array at a position, and where it ends."""
        try:
            array, end = self._decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            where = self._offset + error.pos
            raise ValueError(
                f"the ids are not a JSON array: {error.msg} at character {where}"
            ) from None
        except RecursionError as error:
            raise ValueError(f"the ids are not a JSON array: {error}") from None
        if not isinstance(array, list):
            raise ValueError(f"the ids must be a JSON array, got {json.dumps(array)[:40]}")
        if countOf(map(type, array), int) != len(array):
            other = next(value for value in array if type(value) is not int)
            raise ValueError(f"an id must be an integer, got {json.dumps(other)[:40]}")
        taken, self._taken = self._taken, 0
        return array[taken:], end

    def _unfinished(self, text: str, at: int) -> list[int]:
        """Return the new ids of an array without its end, and keep the rest."""
        ids: list[int] = []
        rest = text[at:]
        comma = rest.rfind(",", 3 * self._taken)
        if comma >= 0:
            ids, _ = self._array(f"{text[: at + comma]}]", at)
            rest = f"[0,{rest[comma + 1 :]}"
            self._taken = 1
        self._rest = rest.rstrip(" \t\r\n")
        if len(self._rest) < len(rest):
            self._rest += " "
        if len(self._rest) > _MAX_ID_CHARACTERS:
            raise ValueError(f"an id has more than {_MAX_ID_CHARACTERS} characters")
        self._offset += len(text) - len(self._rest)
        return ids


class _Words:
    """Takes ids with white space between them from a text that arrives in chunks."""

    def __init__(self, line: int) -> None:
        self._line = line
        self._rest = ""  # the beginning of an id whose end has not arrived

    def feed(self, chunk: str, is_last: bool) -> list[int]:
        text, self._rest = self._rest + chunk, ""
        if text and not is_last and not text[-1].isspace():
            self._rest = text.rsplit(None, 1)[-1]
            text = text[: len(text) - len(self._rest)]
        ids = self._parsed(text)
        self._line += text.count("\n")
        if len(self._rest) > _MAX_ID_CHARACTERS:
            raise ValueError(f"line {self._line}: not an id: {self._rest[:40]!r}")
        return ids

    def _parsed(self, text: str) -> list[int]:
        # `int` also takes signs, underscores and digits of other scripts.
        if text.isascii() and not any(sign in text for sign in "+-_"):
            try:
                return [*map(int, text.split())]
            except ValueError:
                pass
        return [*parse_words(text, self._line)]


def parse_words(text: str, first_line: int = 1, source: str = "") -> Iterator[int]:
    """Yield the ids of words. A word that is not an id raises ValueError with source and line."""
    for index, word in enumerate(text.split()):
        try:
            id = parse_id(word)
        except ValueError as error:
            ends = accumulate(len(line.split()) for line in text.split("\n"))
            line = next(line for line, end in enumerate(ends, first_line) if end > index)
            raise ValueError(f"{source}line {line}: {error}") from None
        yield id


# Binary


class _Layout(NamedTuple):
    """How a file stores ids as integers."""

    typecode: str  # the typecode of `array`, for integers that are little-endian in the file
    n_ids: int | None = None  # the number of ids, if a header tells

    @property
    def item_size(self) -> int:
        return array(self.typecode).itemsize

    def check(self, size: int) -> None:
        """Raise ValueError if ids cannot have this number of bytes."""
        if self.n_ids is None and size % self.item_size:
            raise ValueError(
                f"has {size} bytes, which is not a multiple of the {self.item_size} bytes of an "
                f"id; the file may be cut, or --format may be wrong"
            )
        if self.n_ids is not None and size != self.n_ids * self.item_size:
            raise ValueError(
                f"has {size} bytes of ids, but its header says {self.n_ids * self.item_size}; "
                f"the file may be cut"
            )

    def ids(self, data: bytes) -> memoryview:
        if sys.byteorder == "little":
            return memoryview(data).cast(self.typecode)  # type: ignore[call-overload, no-any-return]
        ids = array(self.typecode, data)
        ids.byteswap()
        return memoryview(ids)


def _read_npy_header(file: BinaryIO) -> tuple[_Layout, int]:
    """Return the layout of a file of numpy, and the size of its header."""
    beginning = file.read(8)
    if not beginning.startswith(b"\x93NUMPY") or beginning[6:7] not in (b"\1", b"\2", b"\3"):
        raise ValueError(f"not a .npy file: it begins with {beginning!r}; see --format")
    length = file.read(2 if beginning[6] == 1 else 4)
    size = int.from_bytes(length, "little")
    text = file.read(min(size, _MAX_NPY_HEADER_BYTES))
    try:
        header = ast.literal_eval(text.decode("utf-8").strip())
        dtype, shape = header["descr"], header["shape"]
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError):
        raise ValueError("its .npy header cannot be read; the file may be cut") from None
    if not isinstance(dtype, str) or dtype not in _TYPECODES:
        raise ValueError(
            f"its dtype is {dtype!r}, but ids are one of {' '.join(_TYPECODES)}; convert it, for "
            "example by array.astype('<u4')"
        )
    if not isinstance(shape, tuple) or len(shape) != 1 or type(shape[0]) is not int:
        raise ValueError(f"its shape is {shape}, but ids have one dimension; see array.ravel()")
    header_bytes = len(beginning) + len(length) + len(text)
    return _Layout(_TYPECODES[dtype], shape[0]), header_bytes
