"""Texts, clocks, and processes to measure in."""

from __future__ import annotations

import gc
import itertools
import os
import pickle
import pydoc_data.topics
import re
import statistics
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path
from unittest import mock

from tools.public import PUBLIC

from benchmarks.table import MB
from bpetite import Tokenizer

Clock = Callable[[], float]
"""Does some work and returns the seconds it took."""

MAIN_TEXTS = ("english", "code", "multilingual", "chinese")
"""The order of texts in the tables; others follow."""

NOT_TEXTS = {"gpt2_merges"}

# Unlike the wall time, the CPU time of work on one thread hardly depends on other processes, but
# some systems measure it too coarsely.
CPU_CLOCK = time.get_clock_info("process_time").resolution < 1e-6
now = time.process_time if CPU_CLOCK else time.perf_counter

if hasattr(os, "sched_getaffinity"):
    ALL_CPUS: tuple[int, ...] = tuple(sorted(os.sched_getaffinity(0)))
else:
    ALL_CPUS = ()


def say(words: str) -> None:
    """Print progress on standard error."""
    print(words, file=sys.stderr, flush=True)


# Texts


@dataclass(frozen=True)
class Subject:
    """A vocabulary with which several libraries are measured."""

    name: str
    tokenizer: Tokenizer
    data: Path | None
    """The folder of the public vocabularies, if this is one of them."""
    file: bytes | None = None
    """The tokenizer.json that it was loaded from, if bpetite would write another."""
    model: str = ""
    """The path of the SentencePiece model that it was loaded from."""

    @property
    def public_name(self) -> str | None:
        """The name that tiktoken gives a public vocabulary."""
        return PUBLIC[self.name][0] if self.data is not None else None

    @cached_property
    def json(self) -> bytes:
        """The tokenizer.json for other libraries.

        For cl100k it has the pattern of Hugging Face's files, because the libraries do not know
        tiktoken's. The two differ where spaces after newlines end a text.
        """
        if self.model:
            raise LookupError("it reads no SentencePiece models")
        if self.file is not None:
            return self.file
        tokenizer = self.tokenizer
        if self.data is not None and self.name == "cl100k":
            tokenizer = Tokenizer.load(self.data / PUBLIC[self.name][1], pattern="cl100k")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "tokenizer.json")
            tokenizer.save(path)
            return path.read_bytes()

    @cached_property
    def pickled(self) -> bytes:
        """The pickled tokenizer, from which fresh ones are made."""
        return pickle.dumps(self.tokenizer)


class Bench:
    """The texts and vocabularies of all sections, and the number of turns."""

    def __init__(
        self, folder: Path | None, sample_size: int | None, repeats: int, environments: Path
    ) -> None:
        self.data = folder
        self.environments = environments
        self.texts = texts_of(folder)
        self.sample_size = sample_size
        self.samples = {
            name: text if sample_size is None else first_bytes(text, sample_size)
            for name, text in self.texts.items()
        }
        paths = {name: Path(folder or "", file) for name, (_, file) in PUBLIC.items()}
        self.public = {name: path for name, path in paths.items() if folder and path.is_file()}
        self.repeats = repeats
        self.vocab_size = 32_000 if size_of(self.texts["english"]) >= 8 * MB else 8_000
        self._subjects: dict[str, Subject] = {}

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The vocabulary learnt from english."""
        say(f"learning {self.vocab_size:,} bytes and merges from english")
        return Tokenizer.train(self.texts["english"], self.vocab_size)

    def subject(self, name: str = "cl100k") -> Subject:
        """Return a public vocabulary, or the learnt one if the folder lacks it."""
        if name not in self.public:
            return Subject("learnt", self.tokenizer, None)
        if name not in self._subjects:
            say(f"loading {name}")
            self._subjects[name] = Subject(name, Tokenizer.load(self.public[name]), self.data)
        return self._subjects[name]

    def measure(self, clock: Clock) -> float:
        """Return the median of the turns."""
        return statistics.median(clock() for _ in range(self.repeats))


def texts_of(folder: Path | None) -> dict[str, str]:
    """Return each text by its name, in the order of the tables."""
    if folder is None:
        library = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
        return {
            "english": "\n".join(pydoc_data.topics.topics.values()),
            "code": "".join(path.read_bytes().decode("utf-8") for path in library),
        }
    found = {path.stem for path in folder.glob("*.txt")} - NOT_TEXTS
    order = [name for name in MAIN_TEXTS if name in found] + sorted(found - set(MAIN_TEXTS))
    return {name: (folder / f"{name}.txt").read_bytes().decode("utf-8") for name in order}


def size_of(text: str) -> int:
    """Return the number of bytes in UTF-8."""
    return len(text.encode("utf-8"))


def first_bytes(text: str, size: int) -> str:
    """Return the beginning of `text`, at most `size` bytes of whole characters."""
    return text[:size].encode("utf-8")[:size].decode("utf-8", "ignore")


def cycled(ids: Iterable[int], count: int) -> list[int]:
    """Return `count` ids, which repeat the given ids."""
    return list(itertools.islice(itertools.cycle(ids), count))


# Clocks


def timed(work: Callable[..., object], *arguments: object) -> Clock:
    """Return a clock of `work(*arguments)`."""

    def clock() -> float:
        with without_collector():
            start = now()
            result = work(*arguments)
            stop = now()
        del result
        return stop - start

    return clock


@contextmanager
def without_collector() -> Iterator[None]:
    """Switch the garbage collector off, as timeit does."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def many_times(count: int, work: Callable[..., object], *arguments: object) -> Clock:
    """Return a clock of `count` calls in a row, which gives the seconds of one call."""

    def repeat() -> None:
        for _ in itertools.repeat(None, count):
            work(*arguments)

    clock = timed(repeat)
    return lambda: clock() / count


# Processes


def use_one_cpu() -> None:
    """Restrict this process and its children to one processor, if the system can.

    A library then gains nothing from a second thread.
    """
    os.environ["RAYON_NUM_THREADS"] = "1"
    if ALL_CPUS:
        os.sched_setaffinity(0, ALL_CPUS[-1:])


def use_cpus(cpus: tuple[int, ...]) -> None:
    """Allow this process these processors."""
    if cpus:
        os.sched_setaffinity(0, cpus)


@contextmanager
def new_process(
    environment: Mapping[str, str] | None = None, *, one_cpu: bool = True
) -> Iterator[ProcessPoolExecutor]:
    """Yield a new process to `submit` work to, with these environment variables changed."""
    cpus = ALL_CPUS[-1:] if one_cpu else ALL_CPUS
    threads = 1 if one_cpu else len(ALL_CPUS) or os.cpu_count()
    variables = {"RAYON_NUM_THREADS": f"{threads}", **(environment or {})}
    executor = ProcessPoolExecutor(
        1, mp_context=get_context("spawn"), initializer=use_cpus, initargs=(cpus,)
    )
    with mock.patch.dict(os.environ, variables):
        executor.submit(abs, 0).result()  # starts it with the changed environment
    with executor:
        yield executor


def peak_memory() -> int | None:
    """Return the peak memory of this process in bytes, or None if the system does not report it."""
    # On Linux, getrusage includes the memory of the parent process before the start.
    peak = memory("VmHWM")
    if peak is not None or sys.platform == "win32":
        return peak
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def memory(name: str = "VmRSS") -> int | None:
    """Return the memory of this process in bytes, or None if the system does not report it."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    found = re.search(rf"{name}:\s*(\d+) kB", status.read_text(encoding="utf-8"))
    return int(found[1]) * 1024 if found else None
