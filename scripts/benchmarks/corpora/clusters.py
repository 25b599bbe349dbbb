"""Rows of `scripts/bench corpora` about many workers: engines, a large corpus, and a simulation."""

from __future__ import annotations

import heapq
import math
import os
import random
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.corpora import files
from benchmarks.corpora.rows import END, case_of, texts_of
from benchmarks.measure import ALL_CPUS, Bench, new_process, peak_memory
from benchmarks.peers import is_installed, version_of
from benchmarks.table import MB, Line, Row, Target
from bpetite import PieceCounts, Tokenizer
from bpetite.corpora import Corpus, Part, finish, plan, tokenize_part, tokenize_parts

LARGE_PART = 64 * MB
LARGE_PARTS = 24
SMALL_PARTS = 1_000
SMALL_LINE = b'{"text": "a word"}\n'

PER_WORKER = Target(low=0.9, unit=" × the speed of equally many processes without an engine")

# Engines

RunParts = Callable[[Sequence[Part]], object]

NO_ENGINE = "no engine"


def engine_header() -> Line:
    """Return the column titles."""
    large = f"MB/s with {LARGE_PARTS} parts of {LARGE_PART // MB} MB"
    return ("engine, workers", large, "× no engine", f"seconds for {SMALL_PARTS:,} parts")


def engine_rows(bench: Bench) -> Iterator[Row]:
    """Compare engines with processes that share the parts beforehand, as `--part I/N` does.

    All engines are open all the time and take turns, since the speed of a machine changes.
    """
    [subject] = bench.subjects("cl100k")
    with (
        case_of(subject, bench.texts["english"], LARGE_PART * LARGE_PARTS, "jsonl") as case,
        ExitStack() as stack,
    ):
        small = case.folder / "small.jsonl"
        small.write_bytes(SMALL_LINE * SMALL_PARTS)
        executors = {}
        for engine in (NO_ENGINE, "pool", "dask", "ray"):
            if engine in ("dask", "ray") and not is_installed(engine):
                yield Row((f"{engine}, not installed",))
                continue
            for workers in range(1, min(len(ALL_CPUS), 2) + 1):
                executor = stack.enter_context(new_process())
                stack.callback(lambda process: process.submit(end).result(), executor)
                executor.submit(begin, engine, ALL_CPUS[-workers:], case.model, small).result()
                executors[engine, workers] = executor
        turns = [
            {
                key: executor.submit(turn, case.model, case.input.path, small).result()
                for key, executor in executors.items()
            }
            for _ in range(bench.repeats)
        ]
        for engine, workers in executors:
            key = (engine, workers)
            large_seconds, small_seconds = (
                statistics.median(turn[key][which] for turn in turns) for which in (0, 1)
            )
            share = statistics.median(turn[NO_ENGINE, workers][0] / turn[key][0] for turn in turns)
            title = f"{engine} {version_of(engine)}" if engine in ("dask", "ray") else engine
            what = f"{title}, {workers}"
            speed = f"{case.input.text_bytes / MB / large_seconds:.0f}"
            yield Row(
                (what, speed, f"{share:.2f}", f"{small_seconds:.1f}"),
                [] if engine == NO_ENGINE else [PER_WORKER.check(what, share)],
            )


_OPEN = ExitStack()
"""What `begin` has opened in this process."""

_run: RunParts
"""Does parts by the engine of this process."""


def begin(engine: str, cpus: tuple[int, ...], model: Path, source: Path) -> None:
    """Open an engine. Its first parts start the workers, which load their modules."""
    global _run
    use_cpus(cpus)
    _OPEN.callback(shutil.rmtree, FOLDER, ignore_errors=True)
    _run = _OPEN.enter_context(opened(engine, cpus))
    _run(planned(Tokenizer.load(model), source, len(SMALL_LINE))[: len(cpus)])


def turn(model: Path, large: Path, small: Path) -> tuple[float, float]:
    """Return the seconds for a file in large parts, and for one in parts of one document."""
    tokenizer = Tokenizer.load(model)
    return (
        seconds(_run, planned(tokenizer, large, LARGE_PART)),
        seconds(_run, planned(tokenizer, small, len(SMALL_LINE))),
    )


def end() -> None:
    """Close the engine of this process."""
    _OPEN.close()


FOLDER = Path(tempfile.gettempdir(), f"bpetite-bench-{os.getpid()}")
"""The token files of this process."""


def planned(tokenizer: Tokenizer, source: Path, part_bytes: int) -> list[Part]:
    """Return the parts of a new folder."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    return plan(Corpus(source), tokenizer, FOLDER, "megatron", end=END, part_bytes=part_bytes)


def seconds(run: RunParts, parts: Sequence[Part]) -> float:
    """Return what all parts and the manifest take."""
    start = time.perf_counter()
    run(parts)
    finish(parts[0].folder)
    return time.perf_counter() - start


@contextmanager
def opened(engine: str, cpus: tuple[int, ...]) -> Iterator[RunParts]:
    """Start an engine with a worker for each processor; yield what does parts with it."""
    workers = len(cpus)
    with ExitStack() as stack:
        spawn = get_context("spawn")
        if engine == NO_ENGINE:
            processes = [
                stack.enter_context(ProcessPoolExecutor(1, spawn, use_cpus, ((cpu,),)))
                for cpu in cpus
            ]
            yield partial(shared, processes)
        elif engine == "ray":
            ray: Any = import_module("ray")
            ray.init("local", num_cpus=workers, include_dashboard=False, log_to_driver=False)
            stack.callback(ray.shutdown)
            task = ray.remote(tokenize_part)
            yield lambda parts: ray.get([task.remote(part) for part in parts])
        else:
            executor: Executor
            if engine == "pool":
                executor = stack.enter_context(ProcessPoolExecutor(workers, spawn))
            else:
                # docs/clusters.md says why.
                os.environ["MALLOC_MMAP_THRESHOLD_"] = str(1 << 22)
                distributed: Any = import_module("distributed")
                cluster = stack.enter_context(
                    distributed.LocalCluster(
                        n_workers=workers, threads_per_worker=1, dashboard_address=None
                    )
                )
                executor = stack.enter_context(distributed.Client(cluster)).get_executor()
            yield partial(tokenize_parts, workers=workers, executor=executor)


def shared(processes: Sequence[Executor], parts: Sequence[Part]) -> None:
    """Give each process an equal number of parts, all at once."""
    count = len(processes)
    shares = [
        process.submit(tokenize_parts, parts[first::count])
        for first, process in enumerate(processes)
    ]
    for share in shares:
        share.result()


# A large corpus

SCALES = {"english": (0.55, 3.4e7), "multilingual": (0.9, 4.6e9)}
"""Heaps' law: the exponent, and the distinct pieces of a terabyte."""

SCALE_BYTES = (2_000 * MB, 20_000 * MB)
SCALE_MEMORY = 256 * MB


def scale_header() -> Line:
    """Return the column titles."""
    sizes = [f"{size // MB // 1000} GB" for size in SCALE_BYTES]
    return (
        f"text, {SCALE_MEMORY // MB} MB for counts",
        *(f"{size}: {column}" for size in sizes for column in ("pieces", "memory", "disk", "time")),
        "exponent",
    )


def scale_rows(bench: Bench) -> Iterator[Row]:
    """Count the pieces of a corpus that grows by Heaps' law."""
    sizes = SCALE_BYTES if bench.is_full else [size // 100 for size in SCALE_BYTES]
    for name, text in texts_of(bench):
        cells = [name]
        distinct = []
        for size in sizes:
            with new_process() as executor:
                found = executor.submit(counted, text, size, *SCALES[name]).result()
            pieces, memory, disk, taken = found
            distinct.append(pieces)
            cells += [f"{pieces:,}", f"{memory / MB:,.0f} MB", f"{disk / MB:,.0f} MB"]
            cells.append(f"{taken:.0f} s")
        exponent = math.log(distinct[1] / distinct[0], sizes[1] / sizes[0])
        yield Row((*cells, f"{exponent:.2f}"))


def counted(
    text: str, size: int, exponent: float, of_a_terabyte: float
) -> tuple[int, int, int, float]:
    """Return the distinct pieces of a corpus, the peak memory and disk, and the seconds."""
    before = peak_memory() or 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        peak = Peak(folder)
        start = time.perf_counter()
        with peak:
            header = PieceCounts.count_to_file(
                growing(text, size, exponent, of_a_terabyte),
                folder / "pieces.counts",
                memory_bytes=SCALE_MEMORY,
            )
        taken = time.perf_counter() - start
    return header.distinct_pieces, (peak_memory() or 0) - before, peak.bytes, taken


class Peak:
    """The most bytes on disk that the open files of a folder have while a block runs (Linux)."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.bytes = 0

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.1):
            blocks = 0
            # Runs have no name, so the folder does not list them.
            for path in Path("/proc/self/fd").iterdir():
                with suppress(FileNotFoundError):
                    if os.readlink(path).startswith(self._folder):
                        blocks += path.stat().st_blocks
            self.bytes = max(self.bytes, 512 * blocks)


def growing(text: str, size: int, exponent: float, of_a_terabyte: float) -> Iterator[str]:
    """Yield documents of a text, again and again; in some, other letters make new words.

    Their share is such that the number of distinct pieces follows Heaps' law.
    """
    rng = random.Random(7)
    letters = sorted({character for character in text if character.isalpha()})
    factor = of_a_terabyte / 1e12**exponent
    new = done = 0.0
    for document in files.documents(text, size):
        document = document.rpartition(" ")[0]  # without its random word
        done += len(document.encode())
        if new < factor * done**exponent:
            own = [character for character in sorted({*document}) if character.isalpha()]
            others = rng.choices(letters, k=len(own))
            document = document.translate(dict(zip(map(ord, own), others, strict=True)))
            new += len({*document.split()})
        yield document


# Simulation

WORKERS = (1, 2, 4, 8, 16, 32, 64)
PARTS = 40_000
DEATHS_PER_HOUR = 20
RESTART_SECONDS = 30.0


def simulation_header() -> Line:
    """Return the column titles."""
    return ("parts", *(f"{workers}" for workers in WORKERS))


def simulation_rows(bench: Bench) -> Iterator[Row]:
    """Simulate workers that take one part after another; show the share of the ideal speed."""
    [subject] = bench.subjects("cl100k")
    with (
        case_of(subject, bench.texts["english"], LARGE_PART * LARGE_PARTS, "jsonl") as case,
        new_process() as executor,
    ):
        times = executor.submit(part_times, case.input.path, case.model).result()
    mean = statistics.fmean(times)
    rng = random.Random(7)
    even = [rng.choice(times) for _ in range(PARTS)]
    uneven = [mean * rng.lognormvariate(-0.5, 1) for _ in range(PARTS)]
    deaths = DEATHS_PER_HOUR / 3600
    for what, parts, rate in (
        (f"of {LARGE_PART // MB} MB, {mean:.2f} s each", even, 0.0),
        ("of the same mean size, but uneven", uneven, 0.0),
        ("uneven, the longest first", sorted(uneven, reverse=True), 0.0),
        (
            f"of {LARGE_PART // MB} MB, and each worker dies {DEATHS_PER_HOUR} times an hour",
            even,
            deaths,
        ),
    ):
        shares = [
            sum(parts) / workers / makespan(parts, workers, rate, random.Random(7))
            for workers in WORKERS
        ]
        yield Row((what, *(f"{share:.3f}" for share in shares)))


def use_cpus(cpus: tuple[int, ...]) -> None:
    """Keep this process, and those that it starts, on some processors."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cpus)


def part_times(source: Path, model: Path) -> list[float]:
    """Return the seconds of each part of a file on one core."""
    parts = planned(Tokenizer.load(model), source, LARGE_PART)
    found = []
    for part in parts:
        start = time.perf_counter()
        tokenize_part(part)
        found.append(time.perf_counter() - start)
    shutil.rmtree(FOLDER, ignore_errors=True)
    return found


def makespan(parts: Sequence[float], workers: int, rate: float, rng: random.Random) -> float:
    """Return when the last part is done. A worker that dies loses its part and starts again.

    >>> makespan([1, 1, 1], 2, 0, random.Random(7))
    2.0
    """
    free = [0.0] * workers
    end = 0.0
    for part in parts:
        start = heapq.heappop(free)
        while rate and (life := rng.expovariate(rate)) < part:
            start += life + RESTART_SECONDS
        end = max(end, start + part)
        heapq.heappush(free, start + part)
    return end
