"""Commands in processes of their own: their time and their peak memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import ALL_CPUS

# The parent of the command is small: a new process has the peak memory of its parent.
_LAUNCHER = """
import json, os, subprocess, sys, time
cpus, command = json.loads(sys.argv[1])
if cpus:
    os.sched_setaffinity(0, cpus)
start = time.perf_counter()
process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
wall = time.perf_counter() - start
unit = 1 if sys.platform == "darwin" else 1024
cpu = usage.ru_utime + usage.ru_stime
print(json.dumps([wall, cpu, usage.ru_maxrss * unit]))
sys.exit(status != 0)
"""


class Usage(NamedTuple):
    """What a process took, with the processes that it waited for."""

    wall: float
    """Seconds."""
    cpu: float
    """Seconds."""
    peak: int
    """The memory of its largest process, in bytes."""


class CommandError(Exception):
    """A command failed; the last line of its standard error says why."""


def run(command: Sequence[str | Path], variables: Mapping[str, str] | None = None) -> Usage:
    """Run a command on one processor. Raises CommandError if it fails."""
    if not hasattr(os, "wait4"):
        raise CommandError("this system does not tell what a process took")
    environment = {**os.environ, "RAYON_NUM_THREADS": "1", **(variables or {})}
    arguments = json.dumps([ALL_CPUS[-1:], [str(part) for part in command]])
    with tempfile.TemporaryFile() as errors:
        result = subprocess.run(
            [sys.executable, "-S", "-E", "-c", _LAUNCHER, arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
        )
        errors.seek(0)
        lines = errors.read().decode("utf-8", "replace").split("\n")
    if result.returncode:
        raise CommandError(next((line for line in reversed(lines) if line.strip()), "no message"))
    return Usage(*json.loads(result.stdout))


def without_start(whole: Usage, start: Usage) -> Usage:
    """Return what the work took, without the start of the process: that of one document."""
    return Usage(whole.wall - start.wall, whole.cpu - start.cpu, whole.peak)
