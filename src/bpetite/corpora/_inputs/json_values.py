"""A file of JSON: lines, or arrays and objects that follow one another.

Python's `json` reads values that span several lines, so these are slower than JSON Lines.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator

from bpetite._corpus import is_json_line, utf8_fault
from bpetite.corpora._found import BadDocument, DataError, Found, batch_of
from bpetite.corpora._inputs import jsonl
from bpetite.corpora._inputs.settings import ReadSettings, Span
from bpetite.corpora._inputs.source import BLOCK_BYTES, InputFile

_WHITE_SPACE = re.compile(r"[ \t\r\n]*")

# An error this close to the end of the characters read may be due to missing ones.
_MAX_UNFINISHED_CHARACTERS = 16

_BATCH_BAD_ROWS = 1 << 10


def read(source: InputFile, span: Span, settings: ReadSettings) -> Iterator[Found]:
    is_lines = is_json_line(source.peek(BLOCK_BYTES))
    return (jsonl.read if is_lines else _values)(source, span, settings)


def _values(source: InputFile, span: Span, settings: ReadSettings) -> Iterator[Found]:
    documents: list[bytes] = []
    rows: list[int] = []
    bad: list[BadDocument] = []
    size = 0
    most_bad = _BATCH_BAD_ROWS if settings.skips_bad else 1
    try:
        characters = _Characters(source)
        for row, value in enumerate(_elements(characters)):
            text = value.get(settings.text_field) if isinstance(value, dict) else None
            reason = ""
            if not isinstance(value, dict) or settings.text_field not in value:
                reason = "no field"
            elif not isinstance(text, str):
                reason = "not a string"
            else:
                try:
                    documents.append(text.encode())
                    rows.append(row)
                    size += len(documents[-1])
                except UnicodeEncodeError:
                    reason = "lone surrogate"
            if reason:
                byte = characters.byte_of_value()
                bad.append(BadDocument(span.path, "row", row, byte, reason))
            if size >= settings.batch_bytes or len(bad) >= most_bad:
                yield Found(batch_of(documents, rows) if rows else None, bad=bad)
                documents, rows, bad, size = [], [], [], 0
    except DataError:
        yield Found(batch_of(documents, rows) if rows else None, bad=bad)
        raise
    yield Found(batch_of(documents, rows) if rows else None, bad=bad)


def _elements(text: _Characters) -> Iterator[object]:
    """Yield each value of a file, and each element of an array instead of the array."""
    # Of a number, only its kind counts; Python refuses integers of some thousand digits.
    decoder = json.JSONDecoder(parse_int=float)
    while text.skip_white_space():
        if text.peek() != "[":
            yield text.value(decoder)
            continue
        text.skip("[")
        is_first = True
        while text.skip_white_space() and text.peek() != "]":
            if not is_first:
                text.skip(",")
                text.skip_white_space()
            is_first = False
            yield text.value(decoder)
        text.skip("]")


class _Characters:
    def __init__(self, source: InputFile) -> None:
        self._blocks = source.blocks(BLOCK_BYTES)
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._text = ""
        self._at = 0
        self._value_at = 0
        self._is_at_end = False
        self._counted = 0  # characters of `_text`
        self._bytes = 0  # of all characters before, and of these
        self._decoded = 0  # bytes

    def peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def byte_of_value(self) -> int:
        return self._byte(self._value_at)

    def _byte(self, at: int) -> int:
        """Return the offset of a character, which is not before the one of the last call."""
        self._bytes += len(self._text[self._counted : at].encode())
        self._counted = at
        return self._bytes

    def skip(self, character: str) -> None:
        if self.peek() != character:
            raise DataError("not JSON", self._byte(self._at), f"expected {character}")
        self._at += 1

    def skip_white_space(self) -> bool:
        """Return whether another character follows white space."""
        while True:
            found = _WHITE_SPACE.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text):
                return True
            if not self._read():
                return False

    def value(self, decoder: json.JSONDecoder) -> object:
        while True:
            try:
                value, end = decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                may_go_on = (
                    error.msg.startswith("Unterminated string")
                    or error.pos >= len(self._text) - _MAX_UNFINISHED_CHARACTERS
                )
                if may_go_on and self._read_as_much():
                    continue
                raise DataError("not JSON", self._byte(error.pos), error.msg) from None
            except RecursionError:
                raise DataError("not JSON", self._byte(self._at), "values nest too deep") from None
            # A number may continue after the characters read so far.
            if end < len(self._text) or not self._read():
                self._value_at, self._at = self._at, end
                return value

    def _read_as_much(self) -> bool:
        """Read as many characters as there are, so that a long value takes linear time."""
        wanted = 2 * (len(self._text) - self._at)
        has_read = False
        while len(self._text) - self._at < wanted and self._read():
            has_read = True
        return has_read

    def _read(self) -> bool:
        """Read a block; return whether there was one."""
        if self._is_at_end:
            return False
        if self._at and self._text:
            self._byte(self._at)
            self._text = self._text[self._at :]
            self._at = self._counted = 0
        block = bytes(next(self._blocks, b""))
        pending = len(self._decoder.getstate()[0])
        try:
            self._text += self._decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            start = self._decoded - pending
            detail = utf8_fault(error, start)
            raise DataError("not UTF-8", start + error.start, detail) from None
        if not self._decoded and self._text.startswith("\ufeff"):
            self._text = self._text[1:]
            self._bytes = len(codecs.BOM_UTF8)
        self._decoded += len(block)
        self._is_at_end = not block
        return bool(block)
