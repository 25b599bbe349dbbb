"""The footer of a Parquet file: where each row group has a column, and how large it is.

pyarrow parses footers too, but `RowGroupMetaData.column` of version 26 ends the process if the
statistics of a column contradict each other. https://parquet.apache.org/docs/file-format/metadata/
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from bpetite.corpora._found import DataError

_END = struct.Struct("<I4s")  # the length of the footer, and the magic number

# Types of Thrift's compact protocol. The format has no maps.
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET = range(1, 11)
_STRUCT = 12

_SIZES = {_TRUE: 0, _FALSE: 0, _BYTE: 1, _DOUBLE: 8}


class Chunk(NamedTuple):
    """A column in a row group."""

    encodings: list[int]
    values: int
    size: int  # uncompressed
    data_page: int  # the offset of the first
    dictionary_page: int | None


def text_chunks(stored: Any, groups: int, field: str) -> list[Chunk] | list[None]:
    """Return the text column of each row group of an open file; None if its name is hidden."""
    size = stored.size() - _END.size
    length, _ = _END.unpack(stored.read_at(_END.size, size))
    try:
        found = _chunks(stored.read_at(length, size - length), field)
    except (LookupError, StopIteration, RecursionError):
        raise DataError("corrupt", detail="its footer lacks something") from None
    except ValueError as error:
        raise DataError("corrupt", detail=f"its footer has {error}") from None
    if found is None:
        return [None] * groups
    if len(found) != groups:
        raise DataError("corrupt", detail=f"its footer has {groups} or {len(found)} row groups")
    return found


@lru_cache(maxsize=1)  # the parts of a file follow each other
def _chunks(footer: bytes, field: str) -> list[Chunk] | None:
    whole = {}
    for number, at in _fields(footer, 0):
        whole[number] = at
        if number == 4:  # to go on would skip all row groups
            break
    leaf = _leaf_of(footer, whole[2], field.encode("utf-8", "surrogatepass"))
    if leaf is None:
        return None
    return [_chunk_of(footer, group, leaf) for group in _items(footer, whole[4])]


def _leaf_of(data: bytes, schema: int, name: bytes) -> int | None:
    """Return the number of a column among the leaves. A nested column has several."""
    elements = _items(data, schema)
    next(elements)  # the root
    leaf = inside = 0  # `inside`: how many elements of a nested column are still to come
    for element in elements:
        found = dict(_fields(data, element))
        if not inside:
            length, at = _varint(data, found[4])
            if 1 in found and data[at : at + length] == name:
                return leaf
            inside = 1
        inside += (_number(data, found[5]) if 5 in found else 0) - 1
        leaf += 1 in found  # it has a type
    return None


def _chunk_of(data: bytes, group: int, leaf: int) -> Chunk:
    columns = next(at for field, at in _fields(data, group) if field == 1)
    column = next(at for number, at in enumerate(_items(data, columns)) if number == leaf)
    found = dict(_fields(data, next(at for field, at in _fields(data, column) if field == 3)))
    encodings = [_varint(data, at)[0] >> 1 for at in _items(data, found[2])]
    values, size, data_page = (_number(data, found[field]) for field in (5, 6, 9))
    dictionary = _number(data, found[11]) if 11 in found else None
    return Chunk(encodings, values, size, data_page, dictionary)


def _fields(data: bytes, at: int) -> Iterator[tuple[int, int]]:
    """Yield the number and the place of each field of a struct."""
    field = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            field += head >> 4
        else:
            number, at = _varint(data, at)
            field = number >> 1
        yield field, at
        at = _skip(data, at, head & 15)


def _items(data: bytes, at: int) -> Iterator[int]:
    """Yield the place of each item of a list."""
    kind, length, at = _list_head(data, at)
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
    """Return where a value ends."""
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
