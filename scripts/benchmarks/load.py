"""Importing, loading, and the memory of a vocabulary, each in a process of its own."""

from __future__ import annotations

import gc
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import bpetite
from benchmarks.measure import Bench, first_bytes, memory, new_process, timed
from benchmarks.table import MB, Row, Target, in_seconds, plain_row
from bpetite import Tokenizer

LOAD_LIMIT_SECONDS = {
    "python": {"cl100k_base.tiktoken": 1.5, "bpetite.json": 0.3},
    "native": {"cl100k_base.tiktoken": 1.5, "bpetite.json": 0.06},
}
"""The limits in seconds, by engine and by file."""


def load_rows(bench: Bench) -> Iterator[Row]:
    """Measure loading from each kind of file in new processes."""
    subject = bench.subject()
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("bpetite.json", "tokenizer.json")]
        for path in paths:
            subject.tokenizer.save(path)
        for path in [*filter(None, [bench.public.get(subject.name)]), *paths]:
            seconds = bench.measure(lambda path=path: load_in_new_process(path))  # type: ignore[misc]
            limit = LOAD_LIMIT_SECONDS[bpetite.engine].get(path.name)
            target = Target(high=limit, unit=" s") if limit else None
            yield plain_row(f"{subject.name}, {path.name}", in_seconds(seconds), target, seconds)


def load_in_new_process(path: Path) -> float:
    """Return the seconds to load a file in a process that has loaded nothing else."""
    with new_process() as executor:
        return executor.submit(load, path).result()


def load(path: Path) -> float:
    """Return the seconds to load a file, with the check against its reference library."""
    return timed(Tokenizer.load, path)()


# Importing, and memory

IMPORT_LIMIT = Target(high=100, unit=" ms")
MEMORY_LIMIT = {"native": Target(high=64, unit=" MB"), "python": None}

IMPORT = (
    "import time; start = time.perf_counter(); import bpetite; print(time.perf_counter() - start)"
)


def memory_rows(bench: Bench) -> Iterator[Row]:
    """Measure the time of an import, and the memory that a vocabulary in use adds."""
    milliseconds = statistics.median(import_time() for _ in range(2 * bench.repeats + 1)) * 1e3
    yield plain_row("import bpetite", f"{milliseconds:.0f} ms", IMPORT_LIMIT, milliseconds)
    subject = bench.subject()
    with tempfile.TemporaryDirectory() as folder:
        path, texts = Path(folder, "vocabulary.json"), Path(folder, "texts")
        subject.tokenizer.save(path)
        parts = (first_bytes(text, 4 * MB) for text in bench.texts.values())
        texts.write_bytes("".join(parts).encode("utf-8"))
        with new_process() as executor:
            loaded, used = executor.submit(memory_added, path, texts).result()
    name = f"{subject.name}, {bpetite.engine} engine"
    yield plain_row(f"{name}, loaded", f"{loaded / MB:.0f} MB added")
    what = f"{name}, after 4 MB of each text"
    yield plain_row(what, f"{used / MB:.0f} MB added", MEMORY_LIMIT[bpetite.engine], used / MB)


def import_time() -> float:
    """Return the seconds of an import in a new process."""
    command = [sys.executable, "-c", IMPORT]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def memory_added(path: Path, texts: Path) -> tuple[int, int]:
    """Return the bytes of memory that a vocabulary adds, when loaded and after many texts."""
    gc.collect()
    before = memory() or 0
    tokenizer = Tokenizer.load(path)
    gc.collect()
    loaded = memory() or 0
    with texts.open(encoding="utf-8", newline="") as file:
        while text := file.read(10_000):
            tokenizer.count(text)
    gc.collect()
    return loaded - before, (memory() or 0) - before
