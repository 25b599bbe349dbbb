"""The programs of docs/clusters.md are short and follow the project's style."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT
from support.engines import once
from support.recipes import PAGE, RECIPES

pytestmark = once

MAX_LINES = 30


def test_the_page_has_programs() -> None:
    assert len(RECIPES) == PAGE.count("```python\n#") + PAGE.count("```bash\n") >= 5


@pytest.mark.parametrize("name", RECIPES)
def test_a_program_is_short(name: str) -> None:
    assert len(RECIPES[name].splitlines()) <= MAX_LINES


def test_ruff_accepts_the_programs(tmp_path: Path) -> None:
    names = [name for name in RECIPES if name.endswith(".py")]
    for name in names:
        (tmp_path / name).write_text(RECIPES[name], "utf-8")
    options = ["--config", str(ROOT / "pyproject.toml")]
    # Docstrings are for programs that stay; bpetite is a library like the others there.
    check = ["check", "--ignore=D", "--config=lint.isort.known-third-party=['bpetite']"]
    for command in (check, ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *options, *names],
            cwd=tmp_path,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
