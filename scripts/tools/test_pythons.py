#!/usr/bin/env python3
"""Test bpetite with several Pythons, and print a table of the results.

scripts/tools/test_pythons.py [--engine native | python] PYTHON... [-- pytest arguments]

Each PYTHON is a command, such as python3.12 or the path of a free-threaded Python. Each gets an
environment, the test libraries that have a wheel for it, and a build of the native engine.
Tests of missing libraries are skipped, and the table names these libraries.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ROOT / ".venv" / "pythons"
EXTRAS = ("test", "data", "report", "web")

VERSION = """
import sys, sysconfig
name = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
print(sys.version.split()[0] + name)
"""

GIL = """
import sys, bpetite, regex
assert bpetite.engine == "native"
print("on" if getattr(sys, "_is_gil_enabled", lambda: True)() else "off")
"""


class Row(NamedTuple):
    """One line of the table."""

    version: str
    engine: str
    gil: str
    result: str
    missing: str


def main() -> None:
    """Test each Python of the command line; exit with 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=RAW)
    parser.add_argument("pythons", nargs="+", metavar="PYTHON")
    parser.add_argument("--engine", choices=("native", "python"), help="default: both")
    own, more = halves(sys.argv[1:])
    arguments = parser.parse_args(own)
    engines = [arguments.engine] if arguments.engine else ["native", "python"]
    rows = [Row("Python", "engine", "GIL", "result", "missing libraries")]
    failed = False
    for name in arguments.pythons:
        python, version, missing = environment(name)
        gil = output_of(python, "-c", GIL, BPETITE_ENGINE="native")
        for engine in engines:
            code, result = tested(python, engine, more)
            failed |= code != 0
            rows.append(Row(version, engine, gil, result, ", ".join(missing) or "–"))
            print(" | ".join(rows[-1]), flush=True)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(map(str.ljust, row, widths)).rstrip())
    sys.exit(failed)


RAW = argparse.RawDescriptionHelpFormatter


def halves(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Return the arguments before the first `--`, and those of pytest behind it."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:end], arguments[end + 1 :]


def path_of(name: str) -> Path:
    """Return the absolute path of a Python. The link that makes a virtual environment is kept."""
    found = shutil.which(name)
    if found is None:
        sys.exit(f"{name} is not installed")
    return Path(found).absolute()


def environment(name: str) -> tuple[Path, str, list[str]]:
    """Return the Python of an environment with bpetite, its version, and the missing libraries."""
    found = path_of(name)
    version = output_of(found, "-c", VERSION)
    folder = ENVIRONMENTS / version
    subprocess.run([found, "-m", "venv", folder], check=True)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    pip: list[str | Path] = [python, "-m", "pip", "install", "--quiet"]
    wheels = [*pip, "--only-binary", ":all:"]
    missing: list[str] = []
    if not succeeds(*wheels, *requirements()):
        absent = [each for each in requirements() if not succeeds(*wheels, each)]
        missing = [re.split(r"[<>=;\[]", each)[0] for each in absent]
    own = [*pip, "--force-reinstall", "--no-deps", ROOT]
    subprocess.run(own, check=True, env={**os.environ, "BPETITE_NATIVE": "require"})
    return python, version, missing


def succeeds(*command: str | Path) -> bool:
    """Run a command without its errors, and return whether it succeeds."""
    return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0


def requirements() -> list[str]:
    """Return the requirements of the package and of its tests."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [each for extra in EXTRAS for each in project["optional-dependencies"][extra]]
    return [*project["dependencies"], *(each for each in extras if not each.startswith("bpetite"))]


def tested(python: Path, engine: str, arguments: list[str]) -> tuple[int, str]:
    """Run the suite, print the failed tests, and return pytest's code and its last line."""
    command: list[str | Path] = [python, "-m", "pytest", "-q", "--tb=short", *arguments]
    command += ["-p", "no:cacheprovider"]
    run = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "BPETITE_ENGINE": engine, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    if run.returncode:
        print(run.stdout, flush=True)
    return run.returncode, run.stdout.strip().splitlines()[-1].strip("= ")


def output_of(program: str | Path, *arguments: str, **variables: str) -> str:
    """Return what a program prints. A folder outside the source shows the installed package."""
    command = [program, *arguments]
    environment = {**os.environ, **variables}
    run = subprocess.run(
        command, check=True, env=environment, cwd=ENVIRONMENTS.anchor, capture_output=True
    )
    return run.stdout.decode().strip()


if __name__ == "__main__":
    main()
