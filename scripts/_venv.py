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
    project = str(ROOT) + ("[" + extra + "]" if extra else "")
    try:
        if not list(FOLDER.glob("installed-*")):  # there is none, or one half made
            say("making .venv")
            venv.create(FOLDER, clear=True, symlinks=os.name != "nt", with_pip=True)
        say("installing bpetite" + (" with what the " + extra + " extra needs" if extra else ""))
        command: list[str | Path] = [PYTHON, "-m", "pip", "install", "--quiet"]
        command += ["--disable-pip-version-check", "--editable", project]
        subprocess.run(command, check=True)
    except subprocess.CalledProcessError:
        sys.exit("bpetite: that failed; is there a network, and the package python3-venv?")
    except KeyboardInterrupt:
        sys.exit(130)
    stamp.write_text(wanted)


def run(*command: "str | Path") -> None:
    """Run a command of the environment; end with its code if it fails."""
    program, *arguments = command
    # Its programs can be called by their names, as if it were activated.
    environment = {**os.environ, "PATH": str(BIN) + os.pathsep + os.environ.get("PATH", "")}
    try:
        code = subprocess.run([BIN / program, *arguments], env=environment, check=False).returncode
    except KeyboardInterrupt:  # the program was told so too, and says what there is to say
        code = 130
    if code:
        sys.exit(code)


def say(words: str) -> None:
    """Say on standard error what happens."""
    print("bpetite: " + words, file=sys.stderr, flush=True)
