"""The time of the command `bpetite report`, beside that of `bpetite count` on the same file."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Bench, Clock
from benchmarks.table import MB, Row, Target, in_seconds

FILES = (("english", 16), ("english", 100), ("english", 1000), ("multilingual", 100))
"""The text that a file repeats, and the megabytes of the file."""

TARGET = Target(high=2)
"""A report needs the counts of all ids, and the sizes of the text, in one pass."""


def report_rows(bench: Bench) -> Iterator[Row]:
    """Compare the commands, with the file in the system's cache."""
    with tempfile.TemporaryDirectory() as folder:
        path, model = Path(folder, "long.txt"), Path(folder, "model.json")
        for name, megabytes in ((name, size) for name, size in FILES if name in bench.samples):
            data = bench.samples[name].encode()
            with path.open("wb") as file:
                for _ in range(max(megabytes * MB // len(data), 1)):
                    file.write(data)
            for subject in bench.subjects("cl100k"):
                subject.tokenizer.save(model, overwrite=True)
                count = command("count", "--model", str(model), str(path))
                count()
                ours = command("report", str(model), str(path))
                what = f"report: {subject.name}, {name}, {path.stat().st_size / MB:,.0f} MB"
                yield bench.compare(ours, count).row(what, in_seconds, "count", "time", TARGET)


def command(*arguments: str) -> Clock:
    """Return a clock of a command in a new process."""

    def clock() -> float:
        start = time.perf_counter()
        program = [sys.executable, "-m", "bpetite", *arguments]
        subprocess.run(program, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - start

    return clock
