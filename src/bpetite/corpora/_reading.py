"""Reading files: their formats, their spans, and a thread that reads ahead of the consumer."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from bpetite._corpus import BEGINNING_BYTES, container_of, is_json_line, warn_of_fields
from bpetite.corpora._found import DataError, Found, bad_file, shown
from bpetite.corpora._inputs import FORMATS_BY_SUFFIX, LINE_FORMATS, READERS, SPANS, arrow, parquet
from bpetite.corpora._inputs.compression import Compression
from bpetite.corpora._inputs.jsonl import first_byte, lines_before
from bpetite.corpora._inputs.settings import Format, ReadSettings, Span
from bpetite.corpora._inputs.source import InputFile, compression_by_name, without_suffix

_MAX_WAITING = 2

# Seconds between two looks at the thread. A wait with a limit can be ended by Ctrl-C everywhere.
_WAIT_SECONDS = 0.2


class ReadItem(NamedTuple):
    """What was found in a file, and how far the corpus is read."""

    found: Found
    number: int
    """The number of the span in the corpus."""
    bytes_read: int
    """Of all files up to here, as they are stored."""


def format_by_name(path: str) -> Format | None:
    """Return the format that a file's name says, apart from its compression.

    >>> format_by_name("data/part-000.jsonl.zst"), format_by_name("README")
    ('jsonl', None)
    """
    suffix = os.path.splitext(without_suffix(path))[1]
    return FORMATS_BY_SUFFIX.get(suffix.lower())


def _format_by_content(source: InputFile) -> Format:
    """Return the format of an open file: text, unless it begins like another."""
    beginning = source.peek(BEGINNING_BYTES)
    if beginning.startswith(parquet.MAGIC):
        return "parquet"
    if beginning.startswith((arrow.FILE_MAGIC, arrow.STREAM_MAGIC)):
        return "arrow"
    return "jsonl" if is_json_line(beginning) else "text"


def _check_documents(source: InputFile, format: Format) -> None:
    """Raise DataError if a file of text or JSON is a container, whatever its name says."""
    if format in ("parquet", "arrow"):
        return
    if container := container_of(source.peek(BEGINNING_BYTES)):
        kind, remedy = container
        raise DataError(kind, detail=remedy)


def looked_into(path: str, format: Format | None) -> tuple[Format | None, Compression | None]:
    """Return the format and the compression of a file; leave errors in its content to the reader.

    `format` comes from the user or the name. The file is opened if that is not enough.
    """
    compression = compression_by_name(path)
    if compression is None or format is None:
        try:
            with InputFile(path) as source:
                compression = source.compression
                format = format or _format_by_content(source)
        except DataError:
            pass
    return format, compression


def spans(
    path: str, size: int, format: Format, settings: ReadSettings, part_bytes: int
) -> list[Span]:
    """Return the spans of a regular file without compression; one if it cannot be divided."""
    divide = SPANS.get(format)
    if divide is None:
        return [Span(path)]
    with InputFile(path) as source:
        _check_documents(source, format)
    return divide(path, size, settings, part_bytes)


def rows_before(
    path: str, format: Format | None, settings: ReadSettings, starts: Sequence[int]
) -> list[int]:
    """Return the rows of a file before spans with these starts, if readers do not count them."""
    if format in LINE_FORMATS:
        return lines_before(path, starts)
    if format == "arrow":
        return arrow.rows_before(path, settings, starts)
    return [0] * len(starts)


def read(
    spans: Iterable[Span], formats: Mapping[str, Format | None], settings: ReadSettings
) -> Generator[ReadItem, None, None]:
    """Yield what is found in spans of files, one after the other."""
    before = 0  # bytes of the files that are done
    for number, span in enumerate(spans):
        read_bytes = 0
        try:
            format = formats.get(span.path)
            start = first_byte(span) if format in LINE_FORMATS else 0
            with InputFile(span.path, start) as source:
                format = format or _format_by_content(source)
                if start == 0:
                    _check_documents(source, format)
                if format == "text" and settings.format is None:
                    warn_of_fields(shown(span.path), source.peek(BEGINNING_BYTES))
                for found in READERS[format](source, span, settings):
                    read_bytes = source.stored_bytes
                    yield ReadItem(found, number, before + read_bytes)
        except MemoryError as error:
            detail = f" ({error})" if error.args else ""
            raise MemoryError(f"{shown(span.path)}: out of memory{detail}") from None
        except OSError as error:
            if error.strerror and error.filename is None:
                error.filename = shown(span.path)  # e.g. pyarrow could not start a thread
            raise
        except DataError as error:
            bad = Found(None, bad=[bad_file(span.path, error)])
            yield ReadItem(bad, number, before + read_bytes)
        before += read_bytes


# Ahead of the consumer


Each = TypeVar("Each")


def read_ahead(make: Callable[[], Iterator[Each]]) -> Generator[Each, None, None]:
    """Yield the items of an iterator that another thread runs, at most two items ahead.

    An error of the iterator reaches the consumer after the items before it. If the consumer stops,
    the thread closes the iterator and ends. With one processor or without threads, the iterator
    runs in the caller's thread.
    """
    queue: _Queue[Each] = _Queue()
    thread = threading.Thread(
        target=queue.fill, args=(make,), name="bpetite corpus reader", daemon=True
    )
    if _usable_processors() == 1 or not _has_started(thread):
        yield from make()
        return
    try:
        yield from queue.items(thread)
    finally:
        queue.stop()
        thread.join()


def _has_started(thread: threading.Thread) -> bool:
    """Start a thread; return whether the system has any. WebAssembly, as a rule, has none."""
    try:
        thread.start()
    except RuntimeError:
        return False
    return True


def _usable_processors() -> int:
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Queue(Generic[Each]):
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[Each] = deque()
        self._error: BaseException | None = None
        self._is_filled = self._is_stopped = False

    def fill(self, make: Callable[[], Iterator[Each]]) -> None:
        """Put all items in; the work of the thread."""
        items = make()
        try:
            while not self._is_stopped:
                try:
                    item = next(items)
                except StopIteration:
                    break
                self._put(item)
                del item  # its memory belongs to the consumer
        except BaseException as error:
            self._error = error
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()
            with self._changed:
                self._is_filled = True
                self._changed.notify_all()

    def _put(self, item: Each) -> None:
        with self._changed:
            while len(self._waiting) >= _MAX_WAITING and not self._is_stopped:
                self._changed.wait(_WAIT_SECONDS)
            self._waiting.append(item)
            self._changed.notify_all()

    def items(self, thread: threading.Thread) -> Iterator[Each]:
        """Yield all items, then raise the error of the thread, if there is one."""
        while True:
            with self._changed:
                while not self._waiting and not self._is_filled:
                    self._changed.wait(_WAIT_SECONDS)
                    if not thread.is_alive() and not self._is_filled:
                        raise RuntimeError(
                            "the thread that reads the corpus has ended; do not fork a process "
                            "while a corpus is read"
                        )
                if not self._waiting:
                    break
                item = self._waiting.popleft()
                self._changed.notify_all()
            yield item
            del item
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        with self._changed:
            self._is_stopped = True
            self._waiting.clear()
            self._changed.notify_all()
