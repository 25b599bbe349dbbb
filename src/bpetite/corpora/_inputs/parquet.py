"""Parquet: the rows of the text column are documents; a span is a range of row groups."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from bpetite.corpora import _storage as storage
from bpetite.corpora._found import DataError, Found
from bpetite.corpora._inputs.columns import (
    check_column,
    found_in,
    lengths_of,
    opened_by_arrow,
    pyarrow,
)
from bpetite.corpora._inputs.parquet_footer import (
    DICTIONARY_PAGE,
    ColumnChunk,
    pages_of,
    text_chunks,
)
from bpetite.corpora._inputs.settings import ReadSettings, Span
from bpetite.corpora._inputs.source import InputFile

MAGIC = b"PAR1"

_MAX_BATCH_ROWS = 1 << 16

# A larger value takes more memory and saves no time.
_READ_BYTES = 1 << 16

# Such a file is read at once. A page that is read from disk takes the memory that its head claims.
_MAX_BYTES_AT_ONCE = 1 << 23

_MAX_DECODED_BYTES = 1 << 29
"""What a batch may decode at worst. A lower bound would make batches smaller even for web texts in
row groups of 1,000, which are all different."""

_MAX_DELTA_ROWS = 128
"""With deltas, a file stores only the end of a text that begins like the one before it, and either
may be long."""

_MAX_WALKED_BYTES_OF_URL = 1 << 18
"""To read all heads of pages of a URL would download the file twice, so most are not checked."""

# Encodings, by their numbers in the format.
_DELTA_BYTE_ARRAY = 7
_DELTAS = {6, _DELTA_BYTE_ARRAY}


def read(source: InputFile, span: Span, settings: ReadSettings) -> Iterator[Found]:
    if source.compression or not storage.is_file(span.path):
        # Its metadata is at its end.
        raise DataError("unreadable", detail="Parquet must be a file and not compressed as a whole")
    with opened_by_arrow(span.path) as opened, arrow_errors():
        stored = opened
        walked = _MAX_WALKED_BYTES_OF_URL if storage.is_url(span.path) else opened.size()
        if not storage.is_url(span.path) and opened.size() <= _MAX_BYTES_AT_ONCE:
            stored = pyarrow().BufferReader(opened.read())
        file = _parquet(stored)
        check_column(file.schema_arrow, settings.text_field)
        metadata = file.metadata
        end = metadata.num_row_groups if span.end is None else span.end
        rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        row = sum(rows[: span.start])
        if min(rows, default=0) < 0 or (not span.start and sum(rows) != metadata.num_rows):
            detail = f"its row groups have {sum(rows)} of its {metadata.num_rows} rows"
            raise DataError("corrupt", detail=detail)
        columns = _columns(stored, file, range(span.start, end), settings, walked)
        yield from found_in(span.path, columns, row, settings.batch_bytes)


def _columns(
    stored: Any, file: Any, groups: range, settings: ReadSettings, walked: int
) -> Iterator[Any]:
    """Yield the text column of some row groups, in batches of one size, whatever the groups are.

    Small batches stay in the cache. The number of rows is computed from the stored size, which
    counts a text of a dictionary once. Rows that repeat texts could therefore make a batch far too
    large. So their column keeps its dictionary, or the batch has fewer rows.
    """
    with_dictionary = None
    chunks = text_chunks(stored, file.metadata.num_row_groups, settings.text_field)
    for group in groups:
        reader, chunk = file, chunks[group]
        count = file.metadata.row_group(group).num_rows
        if chunk and chunk.values != count:
            detail = f"row group {group} has {count} rows, and {chunk.values} texts"
            raise DataError("corrupt", detail=detail)
        size, longest, dictionary, values, encodings = _sizes_of(stored, chunk, walked)
        rows = min(max(settings.batch_bytes * count // max(size, 1), 1), _MAX_BATCH_ROWS)
        # pyarrow cannot keep a dictionary that deltas follow.
        can_keep = dictionary and _DELTAS.isdisjoint(encodings)
        repeats = can_keep and count >= 4 * values and size - dictionary <= 4 * count
        is_large = min(rows, count) * dictionary > _MAX_DECODED_BYTES
        if repeats or (can_keep and is_large):
            with_dictionary = with_dictionary or _parquet(
                stored, metadata=file.metadata, read_dictionary=[settings.text_field]
            )
        if repeats:
            reader, rows = with_dictionary, _MAX_BATCH_ROWS
        elif is_large:
            entry = dictionary
            # The texts are so much larger that reading the dictionary twice costs no time.
            if can_keep and size > 16 * dictionary:
                first = next(_batches(with_dictionary, 1, group, settings))
                entry = max(lengths_of(first.dictionary), default=0)
            longest = max(longest, entry)
        rows = min(rows, max(_MAX_DECODED_BYTES // max(longest, 1), 1))
        if _DELTA_BYTE_ARRAY in encodings:
            rows = min(rows, _MAX_DELTA_ROWS)
        found = 0
        for column in _batches(reader, rows, group, settings):
            found += len(column)
            yield column
        if found != count:  # pyarrow skips a page of an unknown kind
            raise DataError("corrupt", detail=f"row group {group} has {found} of its {count} rows")


def _batches(file: Any, rows: int, group: int, settings: ReadSettings) -> Iterator[Any]:
    field = settings.text_field
    batches = file.iter_batches(rows, row_groups=[group], columns=[field], use_threads=False)
    for batch in batches:  # it has the fields of structs with this path too
        yield batch.column(batch.schema.get_field_index(field))


class _Sizes(NamedTuple):
    size: int = 0
    longest: int = 0  # what a text takes at most, or in a page on average
    dictionary: int = 0
    values: int = 0  # of the dictionary
    encodings: frozenset[int] = frozenset()


def _sizes_of(stored: Any, chunk: ColumnChunk | None, walked: int) -> _Sizes:
    """Return the sizes of a column chunk, from the heads of its pages.

    A text that is stored as its end is not longer than its page, where the first text is whole.
    """
    if chunk is None:
        return _Sizes()
    size = longest = dictionary = values = 0
    encodings = {*chunk.encodings}
    for page in pages_of(stored, chunk, walked):
        size += page.size
        encodings.add(page.encoding)
        if page.kind == DICTIONARY_PAGE:
            dictionary += page.size
            values += page.values
        elif page.encoding == _DELTA_BYTE_ARRAY:
            longest = max(longest, page.size)
        else:
            longest = max(longest, page.size // max(page.values, 1))
    return _Sizes(max(size, chunk.size), longest, dictionary, values, frozenset(encodings))


def spans(path: str, _size: int, settings: ReadSettings, part_bytes: int) -> list[Span]:
    """Return spans whose text column has about `part_bytes`, uncompressed."""
    with opened_by_arrow(path) as stored, arrow_errors():
        file = _parquet(stored)
        check_column(file.schema_arrow, settings.text_field)
        groups = file.metadata.num_row_groups
        chunks = text_chunks(stored, groups, settings.text_field)
    sizes = [chunk.size if chunk else 0 for chunk in chunks]
    found = []
    start = size = 0
    for group in range(groups):
        if size and size + sizes[group] > part_bytes:
            found.append(Span(path, start, group))
            start, size = group, 0
        size += sizes[group]
    return [*found, Span(path, start, groups)]


def _parquet(stored: Any, **options: Any) -> Any:
    """Open a file with little memory: reading ahead and mapping would take more."""
    size = 0 if isinstance(stored, pyarrow().BufferReader) else _READ_BYTES
    parquet = pyarrow(".parquet")
    return parquet.ParquetFile(stored, pre_buffer=False, buffer_size=size, **options)


_MAX_ADDRESSED = 1 << 47


@contextmanager
def arrow_errors() -> Iterator[None]:
    """Turn errors of pyarrow about wrong bytes into DataError, and no others."""
    pa = pyarrow()
    try:
        yield
    except MemoryError as error:  # pyarrow's is an ArrowException too
        size = re.search(r"of size (\d+) failed", str(error))
        if size and int(size[1]) > _MAX_ADDRESSED:  # more than any machine has
            raise DataError("corrupt", detail=f"it claims {size[1]} bytes") from None
        raise MemoryError(*error.args) from None
    except (pa.ArrowException, OSError, EOFError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        detail = " ".join(str(error).split("\n")[0].split())
        if "llocation error" in detail or "bad_alloc" in detail:
            raise MemoryError(detail) from None
        if type(error) is pa.ArrowException:  # of the system, which may have no thread left
            raise OSError(errno.EAGAIN, f"pyarrow: {detail}") from None
        raise DataError("corrupt", detail=detail) from None
    except UnicodeDecodeError as error:  # of the name of a column
        raise DataError("corrupt", detail=f"a name is not UTF-8: {error.object!r}") from None
