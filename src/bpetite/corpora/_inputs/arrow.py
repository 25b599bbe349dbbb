"""Arrow IPC, files and streams: the rows of the text column are documents.

A span of a file is a range of record batches. Streams are compressed as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate, pairwise
from typing import Any

from bpetite.corpora import _storage as storage
from bpetite.corpora._found import DataError, Found
from bpetite.corpora._inputs.columns import (
    check_column,
    errors_of_reads,
    found_in,
    is_view,
    opened_by_arrow,
    pyarrow,
)
from bpetite.corpora._inputs.parquet import arrow_errors
from bpetite.corpora._inputs.settings import ReadSettings, Span
from bpetite.corpora._inputs.source import InputFile

FILE_MAGIC = b"ARROW1"
STREAM_MAGIC = b"\xff\xff\xff\xff"

# A file begins with its magic and two zeros. A stream follows.
_HEAD_BYTES = 8

# The end of a stream: a message of no bytes.
_STREAM_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def read(source: InputFile, span: Span, settings: ReadSettings) -> Iterator[Found]:
    is_file = source.peek(len(FILE_MAGIC)) == FILE_MAGIC
    if not is_file or source.compression or not storage.is_file(span.path):
        yield from _read_stream(source, is_file, settings, span.path)
        return
    with _opened(span.path, settings.text_field) as file:
        if not span.start and not storage.is_url(span.path):
            _check_batches(span.path, file.num_record_batches)
        end = file.num_record_batches if span.end is None else span.end
        columns = (_checked(file.get_batch(number).column(0)) for number in range(span.start, end))
        before: int | None = None
        for found in found_in(span.path, columns, 0, settings.batch_bytes):
            if found.bad and before is None:
                before = rows_before(span.path, settings, [span.start])[0]
            yield found._replace(
                bad=[bad._replace(row=(before or 0) + (bad.row or 0)) for bad in found.bad]
            )


def _check_batches(path: str, count: int) -> None:
    """Raise DataError if a file has more batches than its footer names: pyarrow ignores them."""
    found = 0
    with opened_by_arrow(path, is_mapped=True) as file:
        file.seek(_HEAD_BYTES)
        # Some writers set no end mark, so the footer follows, which is not a message.
        with suppress(pyarrow().ArrowInvalid, OSError):
            for message in pyarrow(".ipc").MessageReader.open_stream(file):
                found += message.type == "record batch"
    if found > count:
        raise DataError("corrupt", detail=f"its footer has {count} of its {found} record batches")


def rows_before(path: str, settings: ReadSettings, starts: Sequence[int]) -> list[int]:
    """Return the number of rows of a file before each of some record batches."""
    with _opened(path, settings.text_field, is_mapped=True) as file:
        batches = (file.get_batch(number) for number in range(max(starts)))
        rows = [*accumulate((batch.num_rows for batch in batches), initial=0)]
    return [rows[start] for start in starts]


def _read_stream(
    source: InputFile, is_file: bool, settings: ReadSettings, path: str
) -> Iterator[Found]:
    ipc = pyarrow(".ipc")
    if is_file:
        source.read(_HEAD_BYTES)
    recorded = _Recorded(source)
    with errors_of_reads(recorded), arrow_errors():
        if not source.peek(1):
            raise DataError("cut", source.offset, "it is empty")
        reader = ipc.open_stream(pyarrow().PythonFile(recorded, mode="r"))
        number = check_column(reader.schema, settings.text_field)
        columns = (_checked(batch.column(number)) for batch in reader)
        yield from found_in(path, columns, 0, settings.batch_bytes)
    if recorded.last != _STREAM_END:
        raise DataError("cut", source.offset, "the Arrow stream has no end mark")
    rest = _last_bytes(source)  # the end of a compressed stream is checked if it is read
    if is_file and rest != FILE_MAGIC:
        raise DataError("cut", source.offset, "the Arrow file has no end mark")
    if rest and not is_file:
        raise DataError("corrupt", source.offset, "other bytes follow the Arrow stream")


def _checked(column: Any) -> Any:
    """Return a text column; raise pyarrow's error if it points outside its own buffers.

    Bytes need not be UTF-8: a bad document is found later, and by its row.
    """
    pa = pyarrow()
    texts, indices = column, None
    if pa.types.is_dictionary(column.type):
        texts, indices = column.dictionary, column.indices
    for kind, as_bytes in (
        (pa.string(), pa.binary()),
        (pa.large_string(), pa.large_binary()),
        (pa.string_view(), pa.binary_view()),
    ):
        if texts.type == kind:
            texts = texts.view(as_bytes)
    texts.validate(full=True)
    if indices is not None:
        indices.validate(full=True)
        pa.DictionaryArray.from_arrays(indices, texts)  # checks the indices
        if is_view(texts.type):  # pyarrow cannot take texts out of a dictionary of views
            texts = _with_empty_nulls(texts).cast(pa.large_binary())
            return pa.DictionaryArray.from_arrays(indices, texts)
    return _with_empty_nulls(column) if is_view(column.type) and column.null_count else column


def _with_empty_nulls(column: Any) -> Any:
    """Empty the views of nulls: they may point anywhere, and pyarrow follows them unchecked."""
    compute = pyarrow(".compute")
    validity, views, *texts = column.buffers()
    views = bytearray(views)
    for row in compute.indices_nonzero(column.is_null()).to_pylist():
        at = 16 * (column.offset + row)  # the bytes of a view
        views[at : at + 16] = bytes(16)
    buffers = [validity, pyarrow().py_buffer(views), *texts]
    return type(column).from_buffers(column.type, len(column), buffers, offset=column.offset)


def _last_bytes(source: InputFile) -> bytes:
    """Return the last bytes of a file, after reading all of it."""
    last = b""
    for block in source.blocks(1 << 16):
        last = (last + block)[-len(FILE_MAGIC) :]
    return last


class _Recorded:
    """A file for pyarrow that records the last bytes read, and an error of the system."""

    closed = False

    def __init__(self, source: InputFile) -> None:
        self._source = source
        self.last = b""
        self.error: OSError | None = None

    def read(self, size: int = -1) -> bytes:
        try:
            data = self._source.read(size)
        except OSError as error:
            self.error = error
            raise
        self.last = (self.last + data[-len(_STREAM_END) :])[-len(_STREAM_END) :]
        return data

    def close(self) -> None:
        """Leave the source open: its owner closes it."""

    def flush(self) -> None:
        """Do nothing: a file that is read has nothing to flush."""


def spans(path: str, size: int, settings: ReadSettings, part_bytes: int) -> list[Span]:
    """Return spans of about `part_bytes`, if all batches are of one size."""
    with storage.opened(path) as file:
        if file.read(len(FILE_MAGIC)) != FILE_MAGIC:
            return [Span(path)]
    with _opened(path, settings.text_field) as reader:
        batches = reader.num_record_batches
    count = max(min(-(-size // part_bytes), batches), 1)
    ends = [batches * number // count for number in range(count + 1)]
    return [Span(path, *bounds) for bounds in pairwise(ends)]


@contextmanager
def _opened(path: str, field: str, is_mapped: bool = False) -> Iterator[Any]:
    """Open a file; its batches have the text column alone. A mapped one loads no text yet."""
    ipc = pyarrow(".ipc")
    with opened_by_arrow(path, is_mapped) as file, arrow_errors():
        number = check_column(ipc.open_file(file).schema, field)
        options = ipc.IpcReadOptions(included_fields=[number], use_threads=False)
        yield ipc.open_file(file, options=options)
