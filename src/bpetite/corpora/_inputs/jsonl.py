"""JSON Lines: the text field of each line is a document. A line is in the span it begins in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from bpetite._corpus import MARK_BYTES, encoding_hint
from bpetite.corpora._found import BadDocument, Found
from bpetite.corpora._inputs.line_texts import texts_of_lines, whole_lines
from bpetite.corpora._inputs.settings import ReadSettings, Span
from bpetite.corpora._inputs.source import BLOCK_BYTES, InputFile


def read(source: InputFile, span: Span, settings: ReadSettings) -> Iterator[Found]:
    hint = "" if span.start else encoding_hint(source.peek(MARK_BYTES))
    first_row: int | None = None
    begin = -1
    row = byte = 0  # of the next lines, from the beginning of the span
    for lines in whole_lines(line_blocks(source, span, settings.batch_bytes)):
        batch, refused, next_row = texts_of_lines(lines, settings.text_field, row)
        bad = []
        for bad_row, start, reason in refused:
            if begin < 0:
                first_row = first_row_of(span, settings)
                begin = first_line_of(span)
            file_row = None if first_row is None else first_row + bad_row
            at = begin + byte + start
            bad.append(BadDocument(span.path, "line", file_row, at, reason, "" if at else hint))
        if len(batch.rows) or bad:
            yield Found(batch if len(batch.rows) else None, bad=bad)
        row, byte = next_row, byte + len(lines)


def spans(path: str, size: int, _settings: ReadSettings, part_bytes: int) -> list[Span]:
    """Return spans of bytes; a line may cross their ends."""
    return spans_by_bytes(path, size, part_bytes)


# Files of lines


def line_blocks(source: InputFile, span: Span, size: int) -> Iterator[memoryview]:
    """Yield the lines that begin in a span of a file, in blocks, each valid until the next.

    `source` is open at `first_byte(span)`.
    """
    offset = source.offset
    is_inside = span.start == 0
    for block in source.blocks(size):
        begin = 0
        if not is_inside:
            begin = find(block, b"\n", 0) + 1
            is_inside = begin > 0
        end = len(block)
        if span.end is not None and offset + end >= span.end:
            # The byte before the end belongs to the last line.
            end = find(block, b"\n", max(span.end - 1 - offset, 0)) + 1
        if is_inside and begin < (end or len(block)):
            yield block[begin : end or len(block)]
        if end and span.end is not None and offset + end >= span.end:
            return
        offset += len(block)


def first_byte(span: Span) -> int:
    """Return where to begin to read a span: the byte before it tells whether a line begins."""
    return max(span.start - 1, 0)


def lines_before(path: str, starts: Iterable[int]) -> list[int]:
    """Return the number of lines of a file that begin before each of some ascending offsets.

    The file is read once, up to the last offset.
    """
    found = []
    newlines = offset = 0  # newlines before the offset
    with InputFile(path) as source:
        blocks = source.blocks(BLOCK_BYTES)
        block = b""
        for start in starts:
            # A line begins before `start` for each newline before the byte that is before it.
            last = start - 1
            while last > offset + len(block):
                newlines += block.count(b"\n")
                offset += len(block)
                if not (block := bytes(next(blocks, b""))):
                    break
            found.append(newlines + block.count(b"\n", 0, last - offset) + 1 if start else 0)
    return found


def first_row_of(span: Span, settings: ReadSettings) -> int | None:
    """Return the number of lines before a span, for messages; None if counting costs too much.

    A run that skips bad lines may ask in every span, and each time the file would be read again.
    """
    if not span.start:
        return 0
    return None if settings.skips_bad else lines_before(span.path, [span.start])[0]


def first_line_of(span: Span) -> int:
    """Return the offset in the file of the first line that begins in a span."""
    if not span.start:
        return 0
    with InputFile(span.path, first_byte(span)) as source:
        begin = source.offset
        for block in source.blocks(1 << 16):
            data = bytes(block)
            if b"\n" in data:
                return begin + data.index(b"\n") + 1
            begin += len(data)
    return begin


def spans_by_bytes(path: str, size: int, part_bytes: int) -> list[Span]:
    """Return equal spans of a file of `size` bytes, each of at most `part_bytes`.

    >>> [(span.start, span.end) for span in spans_by_bytes("a.jsonl", 10, 4)]
    [(0, 3), (3, 6), (6, 10)]
    """
    count = max(-(-size // part_bytes), 1)
    ends = [size * number // count for number in range(count + 1)]
    return [Span(path, *bounds) for bounds in pairwise(ends)]


def find(block: memoryview, byte: bytes, start: int) -> int:
    """Return the offset of a byte in a block, from an offset on; -1 if it is not there."""
    for at in range(start, len(block), _SEARCH_BYTES):
        found = bytes(block[at : at + _SEARCH_BYTES]).find(byte)
        if found >= 0:
            return at + found
    return -1


_SEARCH_BYTES = 1 << 14
