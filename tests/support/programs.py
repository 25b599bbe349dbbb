"""Runs a program in a process of its own."""

import os
import subprocess
import sys

import pytest

import bpetite

posix_only = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals, files or shell")

PEAK = """
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
"""
"""A function for programs on Linux: the most memory that the process has had, in kilobytes.

`ru_maxrss` is no substitute, because a new process begins with the value of its parent.
"""


def variables() -> dict[str, str]:
    """Return the environment of a program that tests the engine of this process."""
    return {**os.environ, "BPETITE_ENGINE": bpetite.engine}


def output_of(program: str, timeout: float = 120) -> str:
    """Return what a Python program writes, with the engine of this process. It must not fail."""
    ended = subprocess.run(
        # Forks of a process with threads are deprecated.
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program],
        env=variables(),
        capture_output=True,
        encoding="utf-8",
        timeout=timeout,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout
