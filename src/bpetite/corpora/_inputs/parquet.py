"""Parquet: the rows of the text column are documents; a span is a range of row groups."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bpetite.corpora import _storage as storage
from bpetite.corpora._inputs.columns import check_column, found_in, opened_by_arrow, pyarrow
from bpetite.corpora._inputs.settings import Settings, Span
from bpetite.corpora._inputs.source import Source
from bpetite.corpora._report import DataError, Found

MAGIC = b"PAR1"

_MAX_BATCH_ROWS = 1 << 16

# More takes more memory, and no less time.
_READ_BYTES = 1 << 16


def read(source: Source, span: Span, settings: Settings) -> Iterator[Found]:
    """Yield the documents of a range of row groups."""
    if source.compression or not storage.is_file(span.path):
        # Its metadata is at its end.
        raise DataError("unreadable", detail="Parquet must be a file and not compressed as a whole")
    with _opened(span.path) as file, arrow_errors():
        check_column(file.schema_arrow, settings.text_field)
        metadata = file.metadata
        end = metadata.num_row_groups if span.end is None else span.end
        row = sum(metadata.row_group(group).num_rows for group in range(span.start))
        for group in range(span.start, end):
            # Batches of one size, whatever the row groups are: small ones stay in the cache.
            batches = file.iter_batches(
                _batch_rows(metadata.row_group(group), settings),
                row_groups=[group],
                columns=[settings.text_field],
                use_threads=False,
            )
            for batch in batches:
                yield from found_in(span.path, batch.column(0), row, settings.batch_bytes)
                row += len(batch)


def _batch_rows(group: Any, settings: Settings) -> int:
    """Return the number of rows of a row group that have about `batch_bytes` of text."""
    rows: int = group.num_rows
    size = _text_bytes(group, settings.text_field)
    return min(max(settings.batch_bytes * rows // max(size, 1), 1), _MAX_BATCH_ROWS)


def _text_bytes(group: Any, field: str) -> int:
    """Return the uncompressed size of a text column in a row group."""
    # Nested columns have several leaves; the leaf of a text column has its name alone.
    for leaf in range(group.num_columns):
        if group.column(leaf).path_in_schema == field:
            size: int = group.column(leaf).total_uncompressed_size
            return size
    return 0


def spans(path: str, settings: Settings, part_bytes: int) -> list[Span]:
    """Return spans whose text column has about `part_bytes`, uncompressed."""
    with _opened(path) as file, arrow_errors():
        check_column(file.schema_arrow, settings.text_field)
        metadata = file.metadata
        groups = metadata.num_row_groups
        sizes = [
            _text_bytes(metadata.row_group(group), settings.text_field) for group in range(groups)
        ]
    found = []
    start = size = 0
    for group in range(groups):
        if size and size + sizes[group] > part_bytes:
            found.append(Span(path, start, group))
            start, size = group, 0
        size += sizes[group]
    return [*found, Span(path, start, groups)]


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    """Open a file with little memory: reading ahead and mapping would take more."""
    parquet = pyarrow(".parquet")
    with opened_by_arrow(path) as stored:
        with arrow_errors():
            file = parquet.ParquetFile(stored, pre_buffer=False, buffer_size=_READ_BYTES)
        with file:
            yield file


@contextmanager
def arrow_errors() -> Iterator[None]:
    """Turn errors of pyarrow about wrong bytes into DataError."""
    pa = pyarrow()
    try:
        yield
    except (pa.ArrowException, OSError, EOFError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        detail = " ".join(str(error).split("\n")[0].split())
        raise DataError("corrupt", detail=detail) from None
