"""Importing, loading, and the memory that the engine adds: each in a process of its own."""

from __future__ import annotations

import gc
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from _bench_measure import Bench, first_bytes, memory, new_process, timed
from _bench_table import MB, Line, Target, in_seconds, row

import bpetite
from bpetite import Tokenizer

# In seconds, for a vocabulary in a kind of file
LOAD_LIMITS = {
    "python": {("cl100k", "its own"): 1.5, ("cl100k", "ours"): 0.3, ("o200k", "ours"): 0.5},
    "native": {("cl100k", "its own"): 1.5, ("cl100k", "ours"): 0.06, ("o200k", "ours"): 0.5},
}


def load_rows(bench: Bench) -> Iterator[Line]:
    """Measure loading from each kind of file, in new processes, and the size of ours."""
    limits = LOAD_LIMITS[bpetite.engine]
    for vocabulary, path in bench.public.items():
        tokenizer = Tokenizer.load(path)
        with tempfile.TemporaryDirectory() as folder:
            paths = {"its own": path}
            for kind, name in (("ours", "ours.json"), ("tokenizer.json", "tokenizer.json")):
                paths[kind] = Path(folder, name)
                tokenizer.save(paths[kind])
            for kind, path in paths.items():
                took = bench.measure(partial(load_in_new_process, path))
                limit = limits.get((vocabulary, kind))
                what = f"{vocabulary}, {path.name if kind == 'its own' else kind}"
                verdict = Target(high=limit, unit=" s").verdict(took) if limit else ""
                yield row(what, in_seconds(took), target=verdict)
            size = paths["ours"].stat().st_size / MB
            verdict = Target(high=6, unit=" MB").verdict(size) if vocabulary == "o200k" else ""
            yield row(f"{vocabulary}, ours, size", f"{size:.3g} MB", target=verdict)


def load_in_new_process(path: Path) -> float:
    """Return how long it takes to load a file where nothing is loaded yet."""
    with new_process() as executor:
        return executor.submit(load, path).result()


def load(path: Path) -> float:
    """Return how long it takes to load a file, with what is held against it if installed."""
    return timed(Tokenizer.load, path)()


# Importing, and memory

IMPORT_LIMIT = Target(high=100, unit=" ms")
ENGINE_LIMIT = Target(high=64, unit=" MB")

IMPORT = (
    "import time; start = time.perf_counter(); import bpetite; print(time.perf_counter() - start)"
)


def memory_rows(bench: Bench) -> Iterator[Line]:
    """Measure what an import takes, and what a vocabulary in use adds to the memory."""
    took = statistics.median(import_time() for _ in range(2 * bench.repeats + 1)) * 1e3
    yield row("import bpetite", f"{took:.0f} ms", target=IMPORT_LIMIT.verdict(took))
    for subject in bench.subjects("cl100k"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "vocabulary.json")
            subject.tokenizer.save(path)
            texts = Path(folder, "texts")
            parts = (first_bytes(text, 4 * MB) for text in bench.texts.values())
            texts.write_bytes("".join(parts).encode("utf-8"))
            added = {
                engine: in_use(path, texts, engine) for engine in dict.fromkeys(("python", *NAMES))
            }
        for engine, (loaded, used) in added.items():
            yield row(f"{subject.name} loaded, {engine} engine", f"{loaded / MB:.0f} MB added")
            yield row(
                f"{subject.name} after 4 MB of each text, {engine} engine",
                f"{used / MB:.0f} MB added",
                target=ENGINE_LIMIT.verdict(round(used / MB)) if engine == "native" else "",
            )


NAMES = (bpetite.engine,)


def import_time() -> float:
    """Return the seconds of an import in a new process."""
    command = [sys.executable, "-c", IMPORT]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def in_use(path: Path, texts: Path, engine: str) -> tuple[int, int]:
    """Return the bytes of memory that a vocabulary adds: when loaded, and after many texts."""
    with new_process({"BPETITE_ENGINE": engine}) as executor:
        return executor.submit(held_by, path, texts).result()


def held_by(path: Path, texts: Path) -> tuple[int, int]:
    """Return the bytes of memory that are added by a vocabulary, loaded and in use."""
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
