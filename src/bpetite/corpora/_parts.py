"""Which spans of files each part of a plan has: large files are divided, small ones joined."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bpetite.corpora._inputs import LINE_FORMATS, Span
from bpetite.corpora._report import BadDocumentError

if TYPE_CHECKING:
    from bpetite.corpora._corpus import Corpus, CorpusFile


def parts_of(
    corpus: Corpus, part_bytes: int, counts_rows: bool = False
) -> list[list[dict[str, Any]]]:
    """Return the spans of each part in order, each as an entry of the plan.

    A part ends when its spans have `part_bytes`. With `counts_rows`, the rows of divided files
    are counted, so that rows are those of the whole file.

    Raises ValueError for standard input and pipes, which cannot be read twice.
    """
    parts: list[list[dict[str, Any]]] = []
    room = 0
    for entry in _entries(corpus, part_bytes, counts_rows):
        if not parts or entry["bytes"] > room:
            parts.append([])
            room = part_bytes
        parts[-1].append(entry)
        room -= entry["bytes"]
    return parts


def _entries(corpus: Corpus, part_bytes: int, counts_rows: bool) -> Iterator[dict[str, Any]]:
    """Yield the spans of all files. A file that the corpus has twice gives its spans twice."""
    files = {file.path: file for file in corpus.files}
    found: dict[Span, list[dict[str, Any]]] = {}
    for span in corpus.spans:
        if span not in found:
            file = files[span.path]
            spans = _divided(file, part_bytes) if span == Span(span.path) else (span,)
            found[span] = _entries_of(file, spans, counts_rows)
        yield from map(dict, found[span])


def _divided(file: CorpusFile, part_bytes: int) -> tuple[Span, ...]:
    """Return the spans of a file. One that cannot be read is left to the reader, who skips it."""
    try:
        return file.spans(part_bytes)
    except BadDocumentError:
        if not file.skips_bad:
            raise
        return (Span(file.path),)


def _entries_of(
    file: CorpusFile, spans: tuple[Span, ...], counts_rows: bool
) -> list[dict[str, Any]]:
    """Return entries of spans of a file, each with the size of the file and of the span."""
    if file.size is None:
        raise ValueError(
            f"{'standard input' if file.path == '-' else file.path}: a run that goes on after a "
            "kill must read its input again, so it needs files"
        )
    starts = [span.start for span in spans]
    rows = [0] * len(spans)
    if counts_rows and any(starts):
        rows = file.rows_before(starts)
    by_bytes = file.format in LINE_FORMATS and file.compression is None
    return [
        {
            "path": file.path,
            "size": file.size,
            "start": span.start,
            "end": span.end,
            "bytes": span.end - span.start
            if by_bytes and span.end is not None
            else file.size // len(spans),
            "first_row": row,
        }
        for span, row in zip(spans, rows, strict=True)
    ]


def span_of(entry: dict[str, Any]) -> Span:
    """Return the span of an entry of the plan."""
    return Span(entry["path"], entry["start"], entry["end"])
