"""Which sources each part of a plan has: large files are divided, small ones put together."""

from __future__ import annotations

from typing import Any

from bpetite.corpora._corpus import Corpus, CorpusFile
from bpetite.corpora._inputs import Span
from bpetite.corpora._inputs.lines import lines_before

BY_LINES = ("jsonl", "text", "lines")
"""The formats whose ranges are bytes, and whose readers count lines from the range's start."""


def parts_of(corpus: Corpus, part_bytes: int, counts_rows: bool) -> list[list[dict[str, Any]]]:
    """Return the sources of each part: paths and ranges of files, in order.

    A part ends when its sources have `part_bytes`. With `counts_rows`, the lines of divided files
    are counted, so that rows are those of the whole file.

    Raises ValueError for standard input and pipes, which cannot be read twice.
    """
    parts: list[list[dict[str, Any]]] = []
    room = 0
    for file in corpus.files:
        for source in _sources(file, part_bytes, counts_rows):
            if not parts or source["bytes"] > room:
                parts.append([])
                room = part_bytes
            parts[-1].append(source)
            room -= source["bytes"]
    return parts


def _sources(file: CorpusFile, part_bytes: int, counts_rows: bool) -> list[dict[str, Any]]:
    if file.size is None:
        raise ValueError(
            f"{'standard input' if file.path == '-' else file.path}: a run that goes on after a "
            "kill must read its input again, so it needs files"
        )
    ranges = file.ranges(part_bytes)
    by_lines = file.format in BY_LINES and len(ranges) > 1
    rows = [0] * len(ranges)
    if by_lines and counts_rows:
        rows = lines_before(file.path, [span.start for span in ranges])
    return [
        {
            "path": file.path,
            "size": file.size,
            "start": span.start,
            "end": span.end,
            "bytes": span.end - span.start
            if by_lines and span.end is not None
            else file.size // len(ranges),
            "first_row": row,
        }
        for span, row in zip(ranges, rows, strict=True)
    ]


def span_of(source: dict[str, Any]) -> Span:
    """Return the range of a source."""
    return Span(source["path"], source["start"], source["end"])
