"""Columns of Arrow: the buffers of a string column are a batch, without a copy of the text."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import sub
from typing import Any

from bpetite._corpus import Batch
from bpetite.corpora import _storage as storage
from bpetite.corpora._extra import import_extra
from bpetite.corpora._found import BadDocument, DataError, Found, batch_of, without
from bpetite.corpora._inputs.utf8 import are_utf8, utf8_error

_MAX_ROWS = 1 << 16  # of a batch


def pyarrow(module: str = "") -> Any:
    """Return pyarrow, or a module of it. Raises an error that says how to install it."""
    return import_extra(f"pyarrow{module}", "a Parquet or Arrow file")


@contextmanager
def opened_by_arrow(path: str, is_mapped: bool = False) -> Iterator[Any]:
    if storage.is_url(path):
        stored = storage.opened(path)
        with errors_of_reads(stored), pyarrow().PythonFile(stored, mode="r") as file:
            yield file
        return
    with open(path, "rb"):  # Python's errors name the file
        pass
    name = os.fsencode(path)  # a path need not be UTF-8
    opened = None
    if is_mapped:
        with suppress(OSError):  # no address space is left, or the file system maps no files
            opened = pyarrow().memory_map(name)
    with opened or pyarrow().OSFile(name) as file:
        yield file


@contextmanager
def errors_of_reads(file: Any) -> Iterator[None]:
    """Raise the `error` of a file, if it has one, instead of pyarrow's error about it."""
    try:
        yield
    except DataError:
        error: OSError | None = getattr(file, "error", None)
        if error is not None:
            raise error from error.__cause__
        raise


def check_column(schema: Any, field: str) -> int:
    """Return the number of the text column. Raises DataError unless it holds text."""
    pa = pyarrow()
    number: int = schema.get_field_index(field)
    if number < 0:
        names = ", ".join(schema.names)
        raise DataError("a file without a usable column", detail=f"{field!r} in: {names}")
    if not _is_text(pa, schema.field(number).type):
        kind = schema.field(number).type
        raise DataError("a file without text", detail=f"its column {field!r} holds {kind}")
    return number


def _is_text(pa: Any, kind: Any) -> bool:
    types = pa.types
    if types.is_dictionary(kind):
        return _is_text(pa, kind.value_type)
    return any(
        is_kind(kind)
        for is_kind in (
            types.is_string,
            types.is_large_string,
            types.is_string_view,
            types.is_binary,
            types.is_large_binary,
            types.is_binary_view,
            types.is_null,
        )
    )


def found_in(
    path: str, columns: Iterable[Any], first_row: int, batch_bytes: int
) -> Iterator[Found]:
    """Yield the documents of consecutive text columns in batches of about `batch_bytes`.

    A dictionary may hold a long text once for many rows, and views may share one. So the rows of a
    batch are chosen before their texts are copied.
    """
    cutter = _Cutter(batch_bytes)
    for column in columns:
        for start, end in cutter.cuts(column):
            yield _found(path, _plain(column.slice(start, end - start)), first_row + start)
        first_row += len(column)


class _Cutter:
    """Cuts columns into ranges of rows; it measures a dictionary that columns share once."""

    def __init__(self, batch_bytes: int) -> None:
        self._batch_bytes = batch_bytes
        self._dictionary: Any = None
        self._lengths: Any = None  # of its entries
        self._longest = 0

    def cuts(self, column: Any) -> Iterable[tuple[int, int]]:
        rows = len(column)
        if pyarrow().types.is_dictionary(column.type):
            self._measure(column.dictionary)
            if rows <= _MAX_ROWS and rows * self._longest <= 2 * self._batch_bytes:
                return [(0, rows)] if rows else []
            return self._cuts_by(_numbers(self._lengths.take(column.indices)))
        if is_view(column.type):
            return self._cuts_by(lengths_of(column))
        step = _MAX_ROWS  # nulls have no bytes
        if column.nbytes > 2 * self._batch_bytes:
            step = min(max(rows * self._batch_bytes // column.nbytes, 1), step)
        return ((start, min(start + step, rows)) for start in range(0, rows, step))

    def _measure(self, dictionary: Any) -> None:
        if self._dictionary is None or _place_of(dictionary) != _place_of(self._dictionary):
            pyarrow(".compute")  # for `take`
            lengths = lengths_of(dictionary)
            self._dictionary = dictionary  # kept, so that no other dictionary gets its place
            self._lengths = pyarrow().array(lengths, pyarrow().int64())
            self._longest = max(lengths, default=0)

    def _cuts_by(self, lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
        start = size = 0
        for row, length in enumerate(lengths):
            if row - start == _MAX_ROWS or (size and size + length > self._batch_bytes):
                yield start, row
                start, size = row, 0
            size += max(length, 0)  # the length of a null may be any number
        if start < len(lengths):
            yield start, len(lengths)


def _place_of(column: Any) -> tuple[object, ...]:
    """Return what two columns have in common only if they are the same part of memory."""
    buffers = (buffer and (buffer.address, buffer.size) for buffer in column.buffers())
    return (column.type, column.offset, len(column), *buffers)


def lengths_of(column: Any) -> Sequence[int]:
    pa = pyarrow()
    if pa.types.is_null(column.type) or not len(column):
        return [0] * len(column)
    if is_view(column.type):  # a view has 16 bytes; the length is first
        views = memoryview(column.buffers()[1]).cast("B")  # other bytes may follow
        return views[16 * column.offset : 16 * (column.offset + len(column))].cast("i")[::4]
    offsets = _offsets(column.buffers()[1], _is_large(column.type), column.offset, len(column) + 1)
    return list(map(sub, offsets[1:], offsets))


def _numbers(column: Any) -> Sequence[int]:
    """Return a column of int64 as Python reads it; 0 for a null."""
    if column.null_count:
        column = column.fill_null(0)
    numbers = memoryview(column.buffers()[1]).cast("B").cast("q")
    return numbers[column.offset : column.offset + len(column)]


def _plain(column: Any) -> Any:
    """Return a column as one of strings, or of bytes, with offsets of 32 or 64 bits."""
    pa = pyarrow()
    types = pa.types
    if types.is_dictionary(column.type):
        pyarrow(".compute")
        column = column.dictionary_decode()
    if types.is_null(column.type):
        pyarrow(".compute")
        return column.cast(pa.string())
    if is_view(column.type):
        pyarrow(".compute")
        return column.cast(pa.large_binary())
    return column


def is_view(kind: Any) -> bool:
    types = pyarrow().types
    return bool(types.is_string_view(kind) or types.is_binary_view(kind))


def _is_large(kind: Any) -> bool:
    types = pyarrow().types
    return bool(types.is_large_string(kind) or types.is_large_binary(kind))


def _found(path: str, column: Any, first_row: int) -> Found:
    rows: Sequence[int] = range(first_row, first_row + len(column))
    bad = []
    if column.null_count:
        pyarrow(".compute")
        is_null = column.is_null().to_pylist()
        bad = [
            BadDocument(path, "row", row, None, "null")
            for row, null in zip(rows, is_null, strict=True)
            if null
        ]
        kept = (row for row, null in zip(rows, is_null, strict=True) if not null)
        rows = memoryview(array("Q", kept))
        column = column.drop_null()
    if not len(column):
        return Found(None, bad=bad)
    _, offset_buffer, data_buffer = column.buffers()
    view = _offsets(offset_buffer, _is_large(column.type), column.offset, len(column) + 1)
    data = memoryview(b"" if data_buffer is None else data_buffer).cast("B")
    if are_utf8(data, view):
        return Found(Batch(data, view, rows), bad=bad)
    documents = [bytes(data[view[i] : view[i + 1]]) for i in range(len(column))]
    errors = {number: utf8_error(document) for number, document in enumerate(documents)}
    wrong = {number: error for number, error in errors.items() if error}
    bad += [
        BadDocument(path, "row", rows[number], error[0], "not UTF-8", error[1])
        for number, error in wrong.items()
    ]
    bad.sort(key=lambda document: document.row or 0)
    if len(wrong) == len(documents):
        return Found(None, bad=bad)
    return Found(
        without(documents, rows, {*wrong}) if wrong else batch_of(documents, rows), bad=bad
    )


def _offsets(buffer: Any, is_large: bool, first: int, count: int) -> memoryview:
    """Return some offsets of a column as 64 bits; to import pyarrow.compute would be slower."""
    width = 8 if is_large else 4  # the buffer may be longer, by any number of bytes
    offsets = memoryview(buffer).cast("B")[width * first : width * (first + count)]
    return offsets.cast("Q") if is_large else memoryview(array("Q", offsets.cast("i")))
