"""Columns of Arrow: the buffers of a string column are a batch, without a copy of the text."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bpetite._corpus import Batch
from bpetite._engine import ENGINE
from bpetite.corpora import _storage as storage
from bpetite.corpora._extra import import_extra
from bpetite.corpora._inputs.utf8 import utf8_error
from bpetite.corpora._report import BadDocument, DataError, Found, batch_of, without


def pyarrow(module: str = "") -> Any:
    """Return pyarrow, or a module of it. Raises an error that says how to install it."""
    return import_extra(f"pyarrow{module}", "a Parquet or Arrow file")


@contextmanager
def opened_by_arrow(path: str, is_mapped: bool = False) -> Iterator[Any]:
    """Open a file for pyarrow."""
    if storage.is_url(path):
        stored = storage.opened(path)
        with errors_of_reads(stored), pyarrow().PythonFile(stored, mode="r") as file:
            yield file
        return
    with open(path, "rb"):  # Python's errors name the file
        pass
    opened = pyarrow().memory_map if is_mapped else pyarrow().OSFile
    with opened(os.fsencode(path)) as file:  # a path need not be UTF-8
        yield file


@contextmanager
def errors_of_reads(file: Any) -> Iterator[None]:
    """Raise the `error` of a file, if it has one, in place of what pyarrow makes of it."""
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


def found_in(path: str, column: Any, first_row: int, batch_bytes: int) -> Iterator[Found]:
    """Yield the documents of a text column in batches of about `batch_bytes`."""
    column = _plain(column)
    step = len(column)
    if column.nbytes > 2 * batch_bytes:
        step = max(len(column) * batch_bytes // column.nbytes, 1)
    for start in range(0, len(column), max(step, 1)):
        yield _found(path, column.slice(start, step), first_row + start)


def _plain(column: Any) -> Any:
    """Return a column as one of strings, or of bytes, with offsets of 32 or 64 bits."""
    pa = pyarrow()
    types = pa.types
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_null(column.type):
        return column.cast(pa.string())
    if types.is_string_view(column.type) or types.is_binary_view(column.type):
        return column.cast(pa.large_binary())
    return column


def _found(path: str, column: Any, first_row: int) -> Found:
    pa = pyarrow()
    rows: Sequence[int] = range(first_row, first_row + len(column))
    bad = []
    if column.null_count:
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
    is_large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    view = _offsets(offset_buffer, is_large, column.offset, len(column) + 1)
    data = memoryview(b"" if data_buffer is None else data_buffer).cast("B")
    if ENGINE.are_utf8(data, view):
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
    """Return some offsets of a column as 64 bits, without pyarrow.compute, which takes a while."""
    offsets = memoryview(buffer).cast("B")
    if is_large:
        return offsets.cast("Q")[first : first + count]
    return memoryview(array("Q", offsets.cast("i")[first : first + count]))
