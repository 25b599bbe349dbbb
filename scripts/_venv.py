"""Make the project's virtual environment, so that each script needs Python and a network alone."""

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".venv"
BIN = FOLDER / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")

BUILT_FROM = ("pyproject.toml", "setup.py", "rust/Cargo.toml", "src/bpetite/_unicode_data.py")
"""What an installation depends on, beside the native core's source; the rest is used in place."""


def ensure(extra: str = "", native: str = "") -> None:
    """Install the project, editable, with an extra, unless that was done since it changed.

    `native` is what becomes of the native core, "require" or "never", unless BPETITE_NATIVE says
    it; without either it is built where Rust is.
    """
    if sys.version_info < (3, 11):  # noqa: UP036 - whatever Python runs this script
        sys.exit("bpetite needs Python 3.11 or newer; this is " + sys.version.split()[0])
    environment = dict(os.environ)
    environment["BPETITE_NATIVE"] = environment.get("BPETITE_NATIVE") or native or "auto"
    wanted = digest(environment["BPETITE_NATIVE"])
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
        subprocess.run(command, check=True, env=environment)
    except subprocess.CalledProcessError:
        sys.exit("bpetite: that failed; is there a network, and the package python3-venv?")
    except KeyboardInterrupt:
        sys.exit(130)
    stamp.write_text(wanted)


def digest(native: str) -> str:
    """Return what changes whenever an installation is out of date."""
    paths = [*map(ROOT.joinpath, BUILT_FROM), *sorted(ROOT.glob("rust/src/**/*.rs"))]
    hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
    has_cargo = str(shutil.which("cargo") is not None)
    return hashlib.sha256(" ".join([native, has_cargo, *hashes]).encode()).hexdigest()


def run(*command: "str | Path", variables: "Mapping[str, str] | None" = None) -> None:
    """Run a command, of the environment if it has it; end with its code if it fails."""
    program, *arguments = command
    # Its programs can be called by their names, as if it were activated.
    path = str(BIN) + os.pathsep + os.environ.get("PATH", "")
    environment = {**os.environ, "PATH": path, **(variables or {})}
    found = shutil.which(program, path=path)
    if found is None:
        sys.exit("bpetite: found no " + str(program))
    try:
        code = subprocess.run([found, *arguments], env=environment, check=False).returncode
    except KeyboardInterrupt:  # the program was told so too, and says what there is to say
        code = 130
    if code:
        sys.exit(code)


def say(words: str) -> None:
    """Say on standard error what happens."""
    print("bpetite: " + words, file=sys.stderr, flush=True)
