"""Columns of text in, columns of ids out, for pyarrow, polars, DuckDB, pandas, Ray and Spark.

A column is any object with `__arrow_c_array__` or `__arrow_c_stream__`: an array of pyarrow, a
Series of polars or pandas, a result of DuckDB with one column. An array gives an Array of pyarrow,
a stream a ChunkedArray, and these libraries take both without a copy. Texts are read in place.

The module needs pyarrow: `pip install pyarrow`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple

from bpetite import Tokenizer
from bpetite._arguments import Dtype, item_size_of
from bpetite.corpora._inputs.columns import is_view

__all__ = ["count", "decode", "encode"]

_ENCODED_BYTES = 1 << 30
"""The most bytes of text in one call of the engine, so that 32 bits suffice for offsets of ids."""

_COUNTED_BYTES = 1 << 24  # the most bytes of text whose ids are in memory while they are counted

_ID_FORMATS = {
    **{"uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q"},
    **{"int8": "b", "int16": "h", "int32": "i", "int64": "q"},
}
"""The format of a memoryview by the name of Arrow's type."""


def encode(
    tokenizer: Tokenizer,
    column: Any,
    *,
    dtype: Dtype = "uint32",
    begin: str | int | None = None,
    end: str | int | None = None,
    threads: int | None = 1,
) -> Any:
    """Return a column with the list of ids of each text, and null for null.

    The texts are strings of any of Arrow's types, or binary values in UTF-8. `begin` and `end`,
    special literals or ids, go around each text. Special literals in a text are ordinary text.

    >>> import pyarrow
    >>> tokenizer = Tokenizer.train("ab ab ab", 258)
    >>> encode(tokenizer, pyarrow.array(["ab ab", None, ""]), end="<|endoftext|>").to_pylist()
    [[256, 257, 258], None, [258]]

    Raises TypeError for a column of another type, ModuleNotFoundError without pyarrow, and the
    errors of `Tokenizer.encode_buffer`.
    """
    pa = _pyarrow()
    type = pa.uint16() if item_size_of(dtype, tokenizer) == 2 else pa.uint32()

    def lists(texts: _Texts) -> Any:
        ids, starts = tokenizer.encode_buffer(
            texts.data, texts.offsets, dtype=dtype, begin=begin, end=end, threads=threads
        )
        values = pa.Array.from_buffers(type, len(ids), [None, pa.py_buffer(ids)])
        return pa.ListArray.from_arrays(_int32(starts), values, mask=texts.is_null)

    return _by_slices(column, lists, pa.list_(type), _ENCODED_BYTES)


def count(tokenizer: Tokenizer, column: Any, *, threads: int | None = 1) -> Any:
    """Return a column with the number of ids of each text as int32, and null for null.

    >>> import pyarrow
    >>> tokenizer = Tokenizer.train("ab ab ab", 258)
    >>> count(tokenizer, pyarrow.array(["ab ab", None, ""])).to_pylist()
    [2, None, 0]

    Raises the errors of `encode`.
    """
    pa = _pyarrow()

    def counts(texts: _Texts) -> Any:
        _, starts = tokenizer.encode_buffer(texts.data, texts.offsets, threads=threads)
        ends = _int32(starts)
        found = pa.compute.subtract(ends[1:], ends[:-1])
        if texts.is_null is None:
            return found
        return pa.compute.if_else(texts.is_null, pa.scalar(None, pa.int32()), found)

    return _by_slices(column, counts, pa.int32(), _COUNTED_BYTES)


def decode(
    tokenizer: Tokenizer, column: Any, *, errors: str = "strict", skip_special_tokens: bool = False
) -> Any:
    """Return a column with the text of each list of ids as large_string, and null for null.

    >>> import pyarrow
    >>> tokenizer = Tokenizer.train("ab ab ab", 258)
    >>> decode(tokenizer, pyarrow.array([[256, 257], None, []])).to_pylist()
    ['ab ab', None, '']

    Raises TypeError for a column of another type, and the errors of `Tokenizer.decode`.
    """
    pa = _pyarrow()

    def texts(lists: Any) -> Any:
        ids, spans = _ids_of(lists), _spans(lists)
        found = [
            tokenizer.decode(ids[start:end], errors=errors, skip_special_tokens=skip_special_tokens)
            if is_valid
            else None
            for (start, end), is_valid in zip(spans, lists.is_valid().to_pylist(), strict=True)
        ]
        return pa.array(found, pa.large_string())

    chunks, is_array = _chunks(column)
    return _joined(map(texts, chunks.chunks), pa.large_string(), is_array)


def _pyarrow() -> Any:
    try:
        import_module("pyarrow.compute")
        return import_module("pyarrow")
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "columns need pyarrow, which is not installed: pip install pyarrow", name="pyarrow"
        ) from None


def _chunks(column: Any) -> tuple[Any, bool]:
    """Return a column as a ChunkedArray, and whether it was an Array."""
    pa = _pyarrow()
    if isinstance(column, pa.ChunkedArray):
        return column, False
    is_array = hasattr(column, "__arrow_c_array__")
    if is_array or hasattr(column, "__arrow_c_stream__"):
        chunks = pa.chunked_array([pa.array(column)] if is_array else column)
        if not pa.types.is_struct(chunks.type):
            return chunks, is_array
        if chunks.type.num_fields == 1 and not is_array:
            fields = [chunk.field(0) for chunk in chunks.chunks]
            return pa.chunked_array(fields, chunks.type[0].type), False
        advice = "pass one of its columns"
    else:
        advice = "for a list of texts, pass pyarrow.array(texts)"
    name = type(column).__name__
    raise TypeError(f"the column must be an Arrow array or stream, got {name}; {advice}")


def _joined(arrays: Iterator[Any], type: Any, is_array: bool) -> Any:
    """Return arrays as one column: an Array, for which several are copied, or a ChunkedArray."""
    parts = list(arrays)
    if is_array and len(parts) == 1:
        return parts[0]
    chunks = _pyarrow().chunked_array(parts, type)
    return chunks.combine_chunks() if is_array else chunks


# Texts


class _Texts(NamedTuple):
    """Some texts of a column, as `Tokenizer.encode_buffer` takes them."""

    data: Any
    offsets: Any
    is_null: Any  # an array of bool; None if all are texts


def _by_slices(column: Any, function: Callable[[_Texts], Any], type: Any, max_bytes: int) -> Any:
    """Apply a function to slices of a column of at most `max_bytes`, or of one text."""
    chunks, is_array = _chunks(column)
    slices = (texts for chunk in chunks.chunks for texts in _slices(_plain(chunk), max_bytes))
    return _joined(map(function, slices), type, is_array)


def _plain(chunk: Any) -> Any:
    """Return an array of texts with a buffer of offsets. Raises TypeError for another type."""
    pa, types = _pyarrow(), _pyarrow().types
    if types.is_dictionary(chunk.type):
        if is_view(chunk.type.value_type):  # pyarrow cannot take texts out of a dictionary of views
            chunk = pa.DictionaryArray.from_arrays(chunk.indices, _plain(chunk.dictionary))
        chunk = chunk.dictionary_decode()
    if types.is_string_view(chunk.type) or types.is_null(chunk.type):
        return chunk.cast(pa.large_string())
    if types.is_binary_view(chunk.type):
        return chunk.cast(pa.large_binary())
    if types.is_string(chunk.type) or types.is_binary(chunk.type):
        return chunk
    if types.is_large_string(chunk.type) or types.is_large_binary(chunk.type):
        return chunk
    raise TypeError(f"the column must have strings, got {chunk.type}")


def _slices(chunk: Any, max_bytes: int) -> Iterator[_Texts]:
    """Yield the texts of a chunk in slices: at least one, so that an empty column has a type."""
    is_null = chunk.is_null() if chunk.null_count else None
    if is_null is not None and _null_bytes(chunk):
        chunk = chunk.fill_null("" if "string" in str(chunk.type) else b"")
    offsets, data = _offsets(chunk), chunk.buffers()[2] or b""
    start = 0
    while True:
        fitting = bisect_right(offsets, offsets[start] + max_bytes, start) - 1
        end = max(min(fitting, start + max_bytes // 8), min(start + 1, len(chunk)))
        nulls = None if is_null is None else is_null[start:end]
        yield _Texts(data, offsets[start : end + 1], nulls)
        start = end
        if start == len(chunk):
            return


def _offsets(chunk: Any) -> Any:
    """Return the offsets of an array of texts or lists: a view with one item more than values."""
    buffer = chunk.buffers()[1]
    if buffer is None or not buffer.size:  # an empty array needs none
        return memoryview(array("i", [0]))
    is_large = str(chunk.type).startswith("large_")
    return memoryview(buffer).cast("q" if is_large else "i")[chunk.offset :][: len(chunk) + 1]


def _null_bytes(chunk: Any) -> int:
    pa, offsets = _pyarrow(), _offsets(chunk)
    in_texts = pa.compute.sum(pa.compute.binary_length(chunk).cast("int64")).as_py() or 0
    total: int = offsets[-1] - offsets[0]
    return total - int(in_texts)


def _int32(starts: memoryview) -> Any:
    pa = _pyarrow()
    buffers = [None, pa.py_buffer(starts)]
    return pa.Array.from_buffers(pa.int64(), len(starts), buffers).cast("int32")


def _spans(lists: Any) -> Iterator[tuple[int, int]]:
    """Return where each list begins and ends in `lists.values`."""
    types = _pyarrow().types
    if types.is_fixed_size_list(lists.type):
        size = lists.type.list_size
        first = lists.offset * size
        starts = range(first, first + len(lists) * size, size) if size else [0] * len(lists)
        return ((start, start + size) for start in starts)
    offsets = lists.offsets.to_pylist()
    if types.is_list_view(lists.type) or types.is_large_list_view(lists.type):
        sizes = lists.sizes.to_pylist()
        return ((start, start + size) for start, size in zip(offsets, sizes, strict=True))
    return pairwise(offsets)


def _ids_of(lists: Any) -> Any:
    """Return the ids of all lists. Raises TypeError if a column does not have lists of ids."""
    types = _pyarrow().types
    is_list = any(
        is_kind(lists.type)
        for is_kind in (
            types.is_list,
            types.is_large_list,
            types.is_fixed_size_list,
            types.is_list_view,
            types.is_large_list_view,
        )
    )
    if not is_list or str(lists.type.value_type) not in _ID_FORMATS:
        raise TypeError(f"the column must have lists of ids, got {lists.type}")
    values = lists.values
    if values.null_count and lists.flatten().null_count:  # a null list may have null ids
        raise TypeError("the column has a list with a null in place of an id")
    buffer = values.buffers()[1]
    view: Any = memoryview(buffer if buffer is not None else b"")
    return view.cast(_ID_FORMATS[str(values.type)])[values.offset :]
