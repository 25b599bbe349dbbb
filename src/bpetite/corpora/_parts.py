"""Which spans of files each part of a plan has: large files are divided, small ones joined."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bpetite.corpora._inputs import LINE_FORMATS, Span
from bpetite.corpora._inputs.lines import lines_before

if TYPE_CHECKING:
    from bpetite.corpora._corpus import Corpus, CorpusFile


def parts_of(
    corpus: Corpus, part_bytes: int, counts_rows: bool = False
) -> list[list[dict[str, Any]]]:
    """Return the spans of each part in order, each as an entry of the plan.

    A part ends when its spans have `part_bytes`. With `counts_rows`, the lines of divided files
    are counted, so that rows are those of the whole file.

    Raises ValueError for standard input and pipes, which cannot be read twice.
    """
    parts: list[list[dict[str, Any]]] = []
    room = 0
    for file in corpus.files:
        for entry in _entries(file, part_bytes, counts_rows):
            if not parts or entry["bytes"] > room:
                parts.append([])
                room = part_bytes
            parts[-1].append(entry)
            room -= entry["bytes"]
    return parts


def _entries(file: CorpusFile, part_bytes: int, counts_rows: bool) -> list[dict[str, Any]]:
    """Return the spans of a file, each with the size of the file and of the span."""
    if file.size is None:
        raise ValueError(
            f"{'standard input' if file.path == '-' else file.path}: a run that goes on after a "
            "kill must read its input again, so it needs files"
        )
    spans = file.spans(part_bytes)
    by_lines = file.format in LINE_FORMATS and len(spans) > 1
    rows = [0] * len(spans)
    if by_lines and counts_rows:
        rows = lines_before(file.path, [span.start for span in spans])
    return [
        {
            "path": file.path,
            "size": file.size,
            "start": span.start,
            "end": span.end,
            "bytes": span.end - span.start
            if by_lines and span.end is not None
            else file.size // len(spans),
            "first_row": row,
        }
        for span, row in zip(spans, rows, strict=True)
    ]


def span_of(entry: dict[str, Any]) -> Span:
    """Return the span of an entry of the plan."""
    return Span(entry["path"], entry["start"], entry["end"])
