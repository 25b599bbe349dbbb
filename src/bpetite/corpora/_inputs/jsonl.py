"""JSON Lines: the text field of each line is a document."""

from __future__ import annotations

from collections.abc import Iterator

from bpetite._corpus import MARK_BYTES, Batch, encoding_hint
from bpetite.corpora import _storage as storage
from bpetite.corpora._inputs.field_scanner import make_field_scanner
from bpetite.corpora._inputs.lines import first_line_of, first_row_of, line_blocks, spans_by_bytes
from bpetite.corpora._inputs.settings import Settings, Span
from bpetite.corpora._inputs.source import Source
from bpetite.corpora._report import BadDocument, Found


def read(source: Source, span: Span, settings: Settings) -> Iterator[Found]:
    """Yield the documents of the lines that begin in a span of a file."""
    scanner = make_field_scanner(settings.text_field)
    hint = "" if span.start else encoding_hint(source.peek(MARK_BYTES))
    first_line: int | None = None
    begin = -1
    blocks = line_blocks(source, span, settings.batch_bytes)
    is_last = False
    while not is_last:
        block = next(blocks, None)
        is_last = block is None
        data, offsets, rows, refused = scanner.feed(b"" if block is None else block, is_last)
        bad = []
        for line, byte, reason in refused:
            if begin < 0:
                first_line = first_row_of(span, settings)
                begin = first_line_of(span)
            row = None if first_line is None else first_line + line
            detail = "" if begin + byte else hint
            bad.append(BadDocument(span.path, "line", row, begin + byte, reason, detail))
        if len(rows) or bad:
            yield Found(Batch(data, offsets, rows) if len(rows) else None, bad=bad)


def spans(path: str, _settings: Settings, part_bytes: int) -> list[Span]:
    """Return spans of bytes; a line may cross their ends."""
    return spans_by_bytes(path, storage.size_of(path), part_bytes)
