"""Plain text: a file is a document, or a separator ends each document."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Literal

from bpetite._corpus import Batch
from bpetite.corpora import _storage as storage
from bpetite.corpora._found import BadDocument, DataError, Found, batch_of, without
from bpetite.corpora._inputs.jsonl import first_line_of, first_row_of, line_blocks, spans_by_bytes
from bpetite.corpora._inputs.settings import ReadSettings, Span
from bpetite.corpora._inputs.source import InputFile
from bpetite.corpora._inputs.utf8 import unfinished_bytes, utf8_error


def read(source: InputFile, span: Span, settings: ReadSettings) -> Iterator[Found]:
    if settings.separator is None:
        return _whole(source, span, settings)
    return _separated(source, span, settings, settings.separator)


def _whole(source: InputFile, span: Span, settings: ReadSettings) -> Iterator[Found]:
    is_file = storage.is_file(span.path)
    if not settings.has_segments or (settings.skips_bad and not is_file):
        document = bytearray()  # to join blocks would take twice the memory
        for data in _checked(source, settings):
            document += data
        yield Found(_segment(document))
        return
    if settings.skips_bad:
        # A document that turns out to be bad could not be taken back, so the file is read twice.
        with InputFile(span.path) as first:
            for _ in _checked(first, settings):
                pass
    for data in _checked(source, settings):
        yield Found(_segment(data), is_complete=False)
    yield Found(_segment(b""))


def _segment(data: bytes | bytearray) -> Batch:
    return Batch(memoryview(data), memoryview(array("Q", (0, len(data)))), range(1))


def _checked(source: InputFile, settings: ReadSettings) -> Iterator[bytes]:
    """Yield the bytes of a file in blocks of whole characters."""
    unfinished = b""
    for block in source.blocks(settings.batch_bytes):
        data = unfinished + block
        unfinished = data[len(data) - unfinished_bytes(data) :]
        data = data[: len(data) - len(unfinished)]
        _check(data, source.offset - len(unfinished) - len(data))
        yield data
    _check(unfinished, source.offset - len(unfinished))


def _check(data: bytes, offset: int) -> None:
    if error := utf8_error(data, offset):
        raise DataError("not UTF-8", offset + error[0], error[1])


def _separated(
    source: InputFile, span: Span, settings: ReadSettings, separator: bytes
) -> Iterator[Found]:
    """Yield the documents that a separator ends; the last one may lack it."""
    if separator == b"\n":
        blocks = line_blocks(source, span, settings.batch_bytes)
    else:
        blocks = source.blocks(settings.batch_bytes)
    row = offset = 0  # of `unfinished`, in the span
    unfinished = bytearray()
    for block in blocks:
        searched = max(len(unfinished) - len(separator) + 1, 0)
        unfinished += block
        # `rfind` may take quadratic time where the text nearly repeats a long separator.
        if unfinished.find(separator, searched) < 0:
            continue
        data = bytes(unfinished)
        documents = data.split(separator)
        rest = documents.pop()
        del unfinished[: len(data) - len(rest)]
        yield _found(span, data[: len(data) - len(rest)], documents, settings, row, offset)
        row += len(documents)
        offset += len(data) - len(rest)
    if unfinished:
        data = bytes(unfinished)
        yield _found(span, data, [data], settings, row, offset)


def _found(
    span: Span, data: bytes, documents: list[bytes], settings: ReadSettings, row: int, offset: int
) -> Found:
    rows = range(row, row + len(documents))
    if utf8_error(data) is None:
        return Found(batch_of(documents, rows))
    separator = settings.separator or b""
    unit: Literal["line", "document"] = "line" if separator == b"\n" else "document"
    begin = -1
    first_row: int | None = None
    bad = {}
    for number, document in enumerate(documents):
        if error := utf8_error(document, span.start + offset):
            if begin < 0:
                first_row, begin = first_row_of(span, settings), first_line_of(span)
            at = None if first_row is None else first_row + row + number
            byte = begin + offset + error[0]
            bad[number] = BadDocument(span.path, unit, at, byte, "not UTF-8", error[1])
        offset += len(document) + len(separator)
    return Found(without(documents, rows, {*bad}), bad=[*bad.values()])


def spans(path: str, size: int, settings: ReadSettings, part_bytes: int) -> list[Span]:
    """Return spans of bytes if a newline ends each document, or else the file as one span."""
    if settings.separator != b"\n":
        return [Span(path)]
    return spans_by_bytes(path, size, part_bytes)
