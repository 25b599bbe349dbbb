"""Make the project's virtual environment, so that each script needs only Python and a network."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import threading
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".venv"
BIN = FOLDER / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")

# An old pip takes twice as long to choose versions, and may try hundreds of them.
NEW: Any = {"symlinks": os.name != "nt", "with_pip": True, "upgrade_deps": True}

# Compiling all modules would take pip as long as the rest, while Python compiles only its imports.
INSTALL = ("-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check")

BUILT_FROM = (
    "pyproject.toml",
    "setup.py",
    "rust/Cargo.toml",
    "rust/Cargo.lock",
    "src/bpetite/_unicode/data.py",
)
"""Files that an installation depends on, besides the Rust source. Python code runs in place."""


def ensure(extra: str = "", native: str = "") -> None:
    """Install the project, editable and with an extra, if its build has changed.

    `native` is "require" or "never", and BPETITE_NATIVE overrides it. By default the native engine
    is built if Rust is installed.
    """
    if sys.version_info < (3, 11):  # noqa: UP036 - any Python may run this script
        sys.exit(f"bpetite needs Python 3.11 or newer; this is {sys.version.split()[0]}")
    environment = dict(os.environ)
    environment["BPETITE_NATIVE"] = environment.get("BPETITE_NATIVE") or native or "auto"
    expected = digest(environment["BPETITE_NATIVE"])
    stamp = FOLDER / f"installed-{extra or 'plain'}"
    if PYTHON.exists() and stamp.exists() and stamp.read_text() == expected:
        return
    project = f"{ROOT}[{extra}]" if extra else str(ROOT)
    try:
        if not list(FOLDER.glob("installed-*")):  # missing, unfinished, or made by someone else
            say("making .venv")
            venv.create(FOLDER, **NEW)
        say("installing bpetite" + (f" with the {extra} extra" if extra else ""))
        subprocess.run([PYTHON, *INSTALL, "--editable", project], check=True, env=environment)
    except subprocess.CalledProcessError:
        sys.exit("bpetite: the installation failed; check the network and the package python3-venv")
    except KeyboardInterrupt:
        sys.exit(130)
    stamp.write_text(expected)


def environment(folder: Path, *installs: Sequence[str]) -> Path:
    """Return the Python of an environment for other libraries; make it if it lacks one of them.

    Each of `installs` has the arguments of a `pip install`. Raises CalledProcessError if one fails.
    """
    python = folder / PYTHON.relative_to(FOLDER)
    stamp, wanted = folder / "installed", " ".join(chain(*installs))
    if not stamp.exists() or stamp.read_text() != wanted:
        say(f"installing in {folder}: {wanted}")
        if not python.exists():
            venv.create(folder, **NEW)
        for packages in installs:
            subprocess.run([python, *INSTALL, *packages], check=True)
        stamp.write_text(wanted)
    return python


def digest(native: str) -> str:
    """Return a hash that changes whenever an installation is out of date."""
    paths = [*map(ROOT.joinpath, BUILT_FROM), *sorted(ROOT.glob("rust/src/**/*.rs"))]
    hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
    has_cargo = str(shutil.which("cargo") is not None)
    return hashlib.sha256(" ".join([native, has_cargo, *hashes]).encode()).hexdigest()


def run(*command: str | Path, variables: Mapping[str, str] | None = None) -> None:
    """Run a command; exit with its code if it fails."""
    try:
        code = result_of(command, variables).returncode
    except KeyboardInterrupt:  # the program gets the signal as well, and reports it
        code = 130
    if code:
        sys.exit(code)


def run_module(name: str, *arguments: str, variables: Mapping[str, str] | None = None) -> None:
    """Run a module of this folder's packages, with the packages on PYTHONPATH."""
    variables = dict(variables or {})
    others = variables.get("PYTHONPATH") or os.environ.get("PYTHONPATH")
    variables["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT / "scripts"), *([others] if others else [])]
    )
    # The console of Windows may lack characters that a program prints.
    variables.setdefault("PYTHONIOENCODING", ":backslashreplace")
    run("python", "-m", name, *arguments, variables=variables)


@contextmanager
def in_background(*commands: Sequence[str]) -> Iterator[None]:
    """Run commands, one after the other, while the block runs; print the output of each failure.

    Exits with 1 after the block if a command has failed.
    """
    failed: list[str] = []

    def run_all() -> None:
        for command in commands:
            name = " ".join(command[:2])
            result = result_of(
                command, stdout=PIPE, stderr=STDOUT, encoding="utf-8", errors="replace"
            )
            if result.returncode:
                failed.append(name)
                say(f"{name} failed:\n{result.stdout}")
            else:
                say(f"{name} passed")

    thread = threading.Thread(target=run_all, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        if failed:
            say(f"failed: {', '.join(failed)}")
    if failed:
        sys.exit(1)


def result_of(
    command: Sequence[str | Path], variables: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command as if the virtual environment were activated, and return the result."""
    program, *arguments = command
    path = str(BIN) + os.pathsep + os.environ.get("PATH", "")
    environment = {**os.environ, "PATH": path, **(variables or {})}
    found = shutil.which(program, path=path)
    if found is None:
        sys.exit(f"bpetite: {program} is not installed")
    return subprocess.run([found, *arguments], env=environment, check=False, **options)


def show(words: str) -> None:
    """Print lines on standard output, with escapes for characters that its encoding lacks."""
    encoding = sys.stdout.encoding
    print(words.encode(encoding, "backslashreplace").decode(encoding), flush=True)


def say(words: str) -> None:
    """Print a line on standard error."""
    print(f"bpetite: {words}", file=sys.stderr, flush=True)
