"""Parquet: the rows of the text column are documents; a span is a range of row groups."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bpetite.corpora import _storage as storage
from bpetite.corpora._found import DataError, Found
from bpetite.corpora._inputs.columns import check_column, found_in, opened_by_arrow, pyarrow
from bpetite.corpora._inputs.settings import ReadSettings, Span
from bpetite.corpora._inputs.source import InputFile

MAGIC = b"PAR1"

_MAX_BATCH_ROWS = 1 << 10

# A larger value takes more memory and saves no time.
_READ_BYTES = 1 << 16


def read(source: InputFile, span: Span, settings: ReadSettings) -> Iterator[Found]:
    if source.compression or not storage.is_file(span.path):
        # Its metadata is at its end.
        raise DataError("unreadable", detail="Parquet must be a file and not compressed as a whole")
    with _opened(span.path, settings.text_field) as file:
        metadata = file.metadata
        end = metadata.num_row_groups if span.end is None else span.end
        rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        row = sum(rows[: span.start])
        if min(rows, default=0) < 0 or (not span.start and sum(rows) != metadata.num_rows):
            detail = f"its row groups have {sum(rows)} of its {metadata.num_rows} rows"
            raise DataError("corrupt", detail=detail)
        columns = _columns(file, range(span.start, end), settings)
        yield from found_in(span.path, columns, row, settings.batch_bytes)


def _columns(file: Any, groups: range, settings: ReadSettings) -> Iterator[Any]:
    """Yield the text column of some row groups, in batches that are small enough for the cache."""
    field = settings.text_field
    for number in groups:
        group = file.metadata.row_group(number)
        rows = settings.batch_bytes * group.num_rows // max(group.total_byte_size, 1)
        rows = min(max(rows, 1), _MAX_BATCH_ROWS)
        found = 0
        for batch in file.iter_batches(
            rows, row_groups=[number], columns=[field], use_threads=False
        ):
            found += len(batch)
            # The batch has the fields of structs with this path too.
            yield batch.column(batch.schema.get_field_index(field))
        if found != group.num_rows:  # pyarrow skips a page of an unknown kind
            detail = f"row group {number} has {found} of its {group.num_rows} rows"
            raise DataError("corrupt", detail=detail)


def spans(path: str, _size: int, settings: ReadSettings, part_bytes: int) -> list[Span]:
    """Return spans of about `part_bytes` of all columns, uncompressed."""
    with _opened(path, settings.text_field) as file:
        groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
        sizes = [group.total_byte_size for group in groups]
    found = []
    start = total = 0
    for number, size in enumerate(sizes):
        if total and total + size > part_bytes:
            found.append(Span(path, start, number))
            start, total = number, 0
        total += size
    return [*found, Span(path, start, len(sizes))]


@contextmanager
def _opened(path: str, field: str) -> Iterator[Any]:
    """Open a file with little memory: reading ahead and mapping would take more."""
    with opened_by_arrow(path) as stored, arrow_errors():
        parquet = pyarrow(".parquet")
        file = parquet.ParquetFile(stored, pre_buffer=False, buffer_size=_READ_BYTES)
        check_column(file.schema_arrow, field)
        yield file


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
