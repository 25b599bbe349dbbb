"""Make the project's virtual environment, so that each script needs Python and a network alone."""

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".venv"
BIN = FOLDER / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")


def ensure(extra: str = "") -> None:
    """Install the project, editable, with an extra, unless that was done since it changed."""
    if sys.version_info < (3, 11):  # noqa: UP036 - whatever Python runs this script
        sys.exit("bpetite needs Python 3.11 or newer; this is " + sys.version.split()[0])
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    stamp = FOLDER / ("installed-" + (extra or "plain"))
    if PYTHON.exists() and stamp.exists() and stamp.read_text() == wanted:
        return
    if not PYTHON.exists():
        say("making .venv")
        venv.create(FOLDER, with_pip=True)
    say("installing bpetite" + (" with what the " + extra + " extra needs" if extra else ""))
    project = str(ROOT) + ("[" + extra + "]" if extra else "")
    command: list[str | Path] = [
        PYTHON,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
    subprocess.run([*command, "--editable", project], check=True)
    stamp.write_text(wanted)


def run(*command: "str | Path") -> None:
    """Run a command of the environment; end with its code if it fails."""
    program, *arguments = command
    code = subprocess.run([BIN / program, *arguments], check=False).returncode
    if code:
        sys.exit(code)


def say(words: str) -> None:
    """Say on standard error what happens."""
    print("bpetite: " + words, file=sys.stderr, flush=True)
