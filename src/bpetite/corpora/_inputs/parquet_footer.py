"""The footer of a Parquet file, and the heads of its pages: where a column is, and how large.

pyarrow parses footers too, but `RowGroupMetaData.column` of version 26 ends the process if the
statistics of a column contradict each other. https://parquet.apache.org/docs/file-format/metadata/
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

from bpetite.corpora._found import DataError

_END = struct.Struct("<I4s")  # the length of the footer, and the magic number

# Types of Thrift's compact protocol. The format has no maps.
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET = range(1, 11)
_STRUCT = 12

_SIZES = {_TRUE: 0, _FALSE: 0, _BYTE: 1, _DOUBLE: 8}


class ColumnChunk(NamedTuple):
    encodings: list[int]
    values: int
    size: int  # uncompressed
    stored: int  # compressed
    start: int  # the offset of the first page


class Page(NamedTuple):
    """The head of a page, which limits what pyarrow decodes; the footer only informs."""

    kind: int
    size: int  # uncompressed
    values: int
    encoding: int


DICTIONARY_PAGE = 2

_HEADS = {0: (5, 2), DICTIONARY_PAGE: (7, 2), 3: (8, 4)}
"""For each kind of page: the field that holds its own head, and in it the field of the encoding."""

_MIN_HEAD_BYTES, _MAX_HEAD_BYTES = 1 << 10, 1 << 24  # no more than pyarrow reads


def text_chunks(stored: Any, groups: int, field: str) -> list[ColumnChunk] | list[None]:
    """Return the text column of each row group of an open file; None if its name is hidden."""
    size = stored.size() - _END.size
    length, _ = _END.unpack(stored.read_at(_END.size, size))
    with _errors_in("its footer"):
        found = _chunks(stored.read_at(length, size - length), field)
    if found is None:
        return [None] * groups
    if len(found) != groups:
        raise DataError("corrupt", detail=f"its footer has {groups} or {len(found)} row groups")
    return found


def pages_of(stored: Any, chunk: ColumnChunk, limit: int) -> Iterator[Page]:
    """Yield the pages that pyarrow would read of a column chunk, if they begin before a limit."""
    at, end = chunk.start, chunk.start + min(chunk.stored, limit)
    count = values = 0
    while values < chunk.values and at < end:
        with _errors_in(f"the head of its page at byte {at}"):
            page, length = _page_at(stored, at)
        yield page
        at += length
        values += page.values if page.kind != DICTIONARY_PAGE else 0
        count += 1
        if count > 2 * chunk.values + 9:  # pyarrow skips pages far faster than this does
            raise DataError("corrupt", detail=f"it has {count} pages for {chunk.values} texts")


def _page_at(stored: Any, at: int) -> tuple[Page, int]:
    size = _MIN_HEAD_BYTES
    while True:  # the head of a page has texts of its statistics
        data = stored.read_at(size, at)
        try:
            return _page_of(data)
        except IndexError:
            if len(data) < size or size >= _MAX_HEAD_BYTES:
                raise
        size <<= 4


def _page_of(data: bytes) -> tuple[Page, int]:
    found = dict(_fields(data, 0))
    end = _skip(data, 0, _STRUCT)
    kind, size, stored = numbers = [_number(data, found[field, _I32]) for field in (1, 2, 3)]
    values = encoding = 0
    if kind in _HEADS:  # pyarrow skips others
        field, number = _HEADS[kind]
        own = dict(_fields(data, found[field, _STRUCT]))
        values, encoding = (_number(data, own[each, _I32]) for each in (1, number))
    for each in (*numbers, values, encoding):
        if each not in range(1 << 31):
            raise ValueError(f"the number {each}")
    return Page(kind, max(size, stored), values, encoding), end + stored


@contextmanager
def _errors_in(what: str) -> Iterator[None]:
    try:
        yield
    except (LookupError, StopIteration, RecursionError):
        raise DataError("corrupt", detail=f"{what} lacks something") from None
    except ValueError as error:
        raise DataError("corrupt", detail=f"{what} has {error}") from None


@lru_cache(maxsize=1)  # the parts of a file follow each other
def _chunks(footer: bytes, field: str) -> list[ColumnChunk] | None:
    whole = {}
    for key, at in _fields(footer, 0):
        whole[key] = at
        if key == (4, _LIST):  # to go on would skip all row groups
            break
    leaf = _leaf_of(footer, whole[2, _LIST], field.encode("utf-8", "surrogatepass"))
    if leaf is None:
        return None
    return [_chunk_of(footer, group, leaf) for group in _items(footer, whole[4, _LIST])]


def _leaf_of(data: bytes, schema: int, name: bytes) -> int | None:
    """Return the number of a column among the leaves. A nested column has several."""
    elements = _items(data, schema)
    next(elements)  # the root
    leaf = inside = 0  # `inside`: how many elements of a nested column are still to come
    for element in elements:
        found = dict(_fields(data, element))
        if not inside:
            length, at = _varint(data, found[4, _BINARY])
            if (1, _I32) in found and data[at : at + length] == name:
                return leaf
            inside = 1
        inside += (_number(data, found[5, _I32]) if (5, _I32) in found else 0) - 1
        leaf += (1, _I32) in found  # it has a type
    return None


def _chunk_of(data: bytes, group: int, leaf: int) -> ColumnChunk:
    columns = next(at for key, at in _fields(data, group) if key == (1, _LIST))
    column = next(at for number, at in enumerate(_items(data, columns)) if number == leaf)
    found = dict(_fields(data, dict(_fields(data, column))[3, _STRUCT]))
    encodings = [_varint(data, at)[0] >> 1 for at in _items(data, found[2, _LIST], _I32)]
    values, size, stored, start = (_number(data, found[field, _I64]) for field in (5, 6, 7, 9))
    dictionary = _number(data, found[11, _I64]) if (11, _I64) in found else 0
    # Some writers give 0 for no dictionary.
    return ColumnChunk(
        encodings, values, size, stored, dictionary if 0 < dictionary < start else start
    )


def _fields(data: bytes, at: int) -> Iterator[tuple[tuple[int, int], int]]:
    """Yield the number and the type of each field of a struct, and its place.

    Readers skip a field of a wrong type. Of fields that are there twice, they might take others.
    """
    field = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            field += head >> 4
        else:
            last, field = field, _number(data, at)
            _, at = _varint(data, at)
            if field >> 15 or 0 < last >= field:
                raise ValueError(f"the field {field} after {last}")
        yield (field, head & 15), at
        at = _skip(data, at, head & 15)


def _items(data: bytes, at: int, wanted: int = _STRUCT) -> Iterator[int]:
    """Yield the place of each item of a list. Readers ignore the type that it gives."""
    kind, length, at = _list_head(data, at)
    if length and kind != wanted:
        raise ValueError(f"items of the type {kind} at byte {at}")
    for _ in range(length):
        yield at
        at = _skip(data, at, kind)


def _list_head(data: bytes, at: int) -> tuple[int, int, int]:
    head = data[at]
    kind, length, at = head & 15, head >> 4, at + 1
    if length == 15:
        length, at = _varint(data, at)
    if length > len(data) - at:
        raise ValueError(f"a list of {length} items at byte {at}")
    return _BYTE if kind in (_TRUE, _FALSE) else kind, length, at


def _skip(data: bytes, at: int, kind: int) -> int:
    if _I16 <= kind <= _I64:
        while data[at] > 127:
            at += 1
        return at + 1
    if kind == _BINARY:
        length, at = _varint(data, at)
        return at + length
    if kind == _STRUCT:
        while head := data[at]:
            at += 1
            if not head >> 4:
                _, at = _varint(data, at)
            at = _skip(data, at, head & 15)
        return at + 1
    if kind in (_LIST, _SET):
        kind, length, at = _list_head(data, at)
        for _ in range(length):
            at = _skip(data, at, kind)
        return at
    if kind not in _SIZES:
        raise ValueError(f"a value of the type {kind} at byte {at}")
    return at + _SIZES[kind]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number, seven bits in a byte and the lowest first, and where it ends."""
    value = shift = 0
    while (byte := data[at]) > 127:
        value |= (byte & 127) << shift
        shift += 7
        at += 1
        if shift > 63:
            break
    value |= byte << shift
    if value >> 64:
        raise ValueError(f"a number of more than 64 bits at byte {at}")
    return value, at + 1


def _number(data: bytes, at: int) -> int:
    """Return a number with a sign, which is the lowest bit."""
    value, _ = _varint(data, at)
    return (value >> 1) ^ -(value & 1)
