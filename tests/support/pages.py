"""The programs of the pages in docs: each begins with a comment that has its name."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from support import ROOT


def programs_of(page: str) -> Mapping[str, str]:
    """Return each program of a page by its name."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    found = re.findall(
        r"```(?:python|bash)\n((?:#![^\n]*\n)?# (\w+\.(?:py|sh))\n.*?)```", text, re.DOTALL
    )
    return {name: program for program, name in found}


def faults_of(programs: Mapping[str, str], folder: Path) -> str:
    """Return what ruff says about the style of the Python programs; "" if it accepts them."""
    names = [name for name in programs if name.endswith(".py")]
    for name in names:
        (folder / name).write_text(programs[name], "utf-8")
    options = ["--config", str(ROOT / "pyproject.toml")]
    # Docstrings are for programs that stay. bpetite is a library like the others there, and
    # `model` is the reader's own module.
    check = ["check", "--ignore=D", "--config=lint.isort.known-third-party=['bpetite']"]
    check += ["--config=lint.isort.known-first-party=['model']"]
    faults = ""
    for command in (check, ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *options, *names],
            cwd=folder,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        faults += done.stdout + done.stderr if done.returncode else ""
    return faults
