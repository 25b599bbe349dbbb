"""The time of a report on a long file, beside that of a count of its ids."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Bench, timed
from benchmarks.table import MB, Row, Target, in_seconds
from bpetite.analysis import report
from bpetite.corpora import Corpus

FILE_BYTES = 1000 * MB
"""The length of the file, which repeats a text."""

TARGET = Target(high=2)
"""A report needs the counts of all ids, and the sizes of the text, in one pass."""


def report_rows(bench: Bench) -> Iterator[Row]:
    """Compare `report` with `count_documents`, warm, on one document."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "long.txt")
        for name in (name for name in ("english", "multilingual") if name in bench.samples):
            data = bench.samples[name].encode()
            with path.open("wb") as file:
                for _ in range(FILE_BYTES // len(data) + 1):
                    file.write(data)
            corpus, size = Corpus(path), path.stat().st_size
            for subject in bench.subjects("cl100k"):
                tokenizer = subject.tokenizer
                count = timed(tokenizer.count_documents, corpus)
                count()
                ours = timed(report, {subject.name: tokenizer}, {name: corpus})
                what = f"report: {subject.name}, {name}, {size / MB:,.0f} MB"
                yield bench.compare(ours, count).row(what, in_seconds, "count", "time", TARGET)
