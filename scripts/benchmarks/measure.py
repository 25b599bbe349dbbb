"""Clocks, and the processes in which the columns of a case take turns."""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import cache
from itertools import chain
from math import nan
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from tools.engines import INSTRUCTION_SETS, instruction_set

from benchmarks import data
from benchmarks.cases import OURS, PYTHON, Case, MissingError, Result, Work, now


def say(words: str) -> None:
    """Print progress on standard error."""
    print(words, file=sys.stderr, flush=True)


def seconds_of(work: Callable[[], object], clock: Callable[[], float] = now) -> float:
    """Return the seconds of some work, without the garbage collector, as timeit does."""
    gc.disable()
    start = clock()
    result = work()
    seconds = clock() - start
    gc.enable()
    del result
    return seconds


def memory(name: str = "VmRSS") -> int:
    """Return the memory of this process in bytes; 0 if the system does not report it."""
    # On Linux, the peak of getrusage would include the parent's memory before the start.
    status = Path("/proc/self/status")
    text = status.read_text(encoding="utf-8") if status.exists() else ""
    found = re.search(rf"{name}:\s*(\d+) kB", text)
    return int(found[1]) * 1024 if found else 0


def plain(result: Any) -> Any:
    """Return text as text, and ids as a list, without the limits of texts in a batch."""
    if isinstance(result, tuple):  # an array of a batch, and offsets
        result = result[0]
    if isinstance(result, Mapping):  # of transformers
        result = result["input_ids"]
    if isinstance(result, bytes):
        return result.decode("utf-8")
    if hasattr(result, "to_list"):  # of awkward
        result = result.to_list()
    if not isinstance(result, (str, list)):
        buffer = memoryview(result)
        result = (buffer.cast("I") if buffer.itemsize == 1 else buffer).tolist()
    if isinstance(result, list) and result and not isinstance(result[0], (int, str)):
        return [*chain(*map(plain, result))]
    return result


# Commands

# A small parent starts the command, because a new process begins with its parent's peak memory.
_LAUNCHER = """
import json, os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
unit = 1 if sys.platform == "darwin" else 1024
print(json.dumps([usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit]))
sys.exit(status != 0)
"""


class Usage(NamedTuple):
    """The CPU seconds of a process and those that it waited for, and the largest one's bytes."""

    cpu: float
    peak: int


def run(*command: str | Path) -> Usage:
    """Run a command on the processors of this process. Raises RuntimeError if it fails."""
    launcher = [sys.executable, "-S", "-E", "-c", _LAUNCHER, *map(str, command)]
    result = subprocess.run(launcher, capture_output=True, encoding="utf-8", errors="replace")
    if result.returncode:
        raise RuntimeError((result.stderr.strip() or "no message").split("\n")[-1])
    return Usage(*json.loads(result.stdout))


def bpetite(*arguments: str | Path) -> Usage:
    script = "import sys; from _bpetite_command import main; sys.exit(main())"
    return run(sys.executable, "-c", script, *arguments)


# Processes

TWO_CPUS = "two processors"  # all other processes have one, so that threads gain nothing
ALL_CPUS = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []

# The environment variables of all processes, which keep compiled modules as usual, and of some.
OF_ALL = {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
OF_ALL["PYTHONDONTWRITEBYTECODE"] = ""
VARIABLES = {
    **{name: {"BPETITE_SIMD": name} for name in INSTRUCTION_SETS},
    PYTHON: {"BPETITE_ENGINE": "python"},
    TWO_CPUS: {"RAYON_NUM_THREADS": "2"},
}


def new_process(name: str) -> ProcessPoolExecutor:
    """Return a process with the variables and processors of its name."""
    cpus = ALL_CPUS[-2:] if name == TWO_CPUS else ALL_CPUS[-1:]
    process = ProcessPoolExecutor(1, get_context("spawn"), begin, (cpus, data.settings()))
    with mock.patch.dict(os.environ, {**OF_ALL, **VARIABLES.get(name, {})}):
        process.submit(abs, 0).result()  # starts it with the changed environment
    return process


def begin(cpus: Iterable[int], settings: data.Settings) -> None:
    """Restrict a new process to some processors, if the system can."""
    if cpus:
        os.sched_setaffinity(0, cpus)
    data.use(settings)


@cache
def instruction_sets() -> list[str]:
    """Return the instruction sets that the native engine can use here; none without it."""
    found = []
    for name in INSTRUCTION_SETS:
        with new_process(name) as process:
            found.append(process.submit(instruction_set).result())
    return [name for name in INSTRUCTION_SETS if name in found]


class Runner(ExitStack):
    """Measures cases. Each column works in a process of its own, which goes on to the next case."""

    def __init__(self, repeats: int) -> None:
        super().__init__()
        self._repeats = repeats
        self._process = cache(lambda name: self.enter_context(new_process(name)))

    def result(self, case: Case) -> Result:
        """Let all columns of a case take turns."""
        result = Result(case)
        for turn in range(1 if case.is_fresh else 0, self._repeats + 1):
            for column, name in case.columns.items():
                if column in result.words:
                    continue
                with ExitStack() as stack:
                    new = case.is_fresh and stack.enter_context(new_process(name))
                    process = new or self._process(name)
                    found = process.submit(attempt, case.work, column, turn).result()
                if isinstance(found, str):
                    if found and name in OURS:
                        raise RuntimeError(f"{case.name}, {column}: {found}")
                    result.words[column] = found.partition("\n")[0].replace("|", r"\|")
                elif turn:
                    result.figures.setdefault(column, []).append(found[0])
                    result.in_brackets |= {column} if found[1] else set()
        return result


def attempt(work: Work, column: str, turn: int) -> tuple[Sequence[float], bool] | str:
    """Return the figures, and whether they are in brackets; or the words for a cell without any."""
    try:
        calls, per, right, clock, in_brackets = work(column, turn)
        if not turn and right is not None:
            first = next(call for call in calls if callable(call))
            return ([], False) if plain(first()) == plain(right()) else "other ids"
        figures: list[float] = []
        for call in calls:
            if isinstance(call, tuple):
                call[0]()
            elif callable(call):
                figures.append(seconds_of(call, clock) / per)
            else:
                figures.append(nan if call is None else call)
        return figures, in_brackets
    except MissingError:
        return ""
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # because a panic in Rust is not an Exception
        return f"fails: {type(error).__name__} {str(error)[:200]}"
