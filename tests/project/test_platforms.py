"""Scripts and sources work on other systems than Linux: newlines, encodings, programs and types."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support import ROOT
from support.engines import once

from bpetite.formats import _systems
from bpetite.formats._systems import check_name

pytestmark = once

SCRIPTS = [path for path in sorted((ROOT / "scripts").iterdir()) if path.is_file()]

CONSOLE = {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}
"""The encoding of a pipe or a console of Windows in Western Europe."""


def git(*arguments: str, at: Path = ROOT) -> str:
    """Return what git prints; skip the test outside a clone."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=at, capture_output=True, check=True, encoding="utf-8"
        )
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"needs git and a clone: {error}")
    return done.stdout


def test_checkouts_on_windows_keep_newlines(tmp_path: Path) -> None:
    """Documents are compared with what programs write, and examples count their bytes."""
    git("rev-parse", "--git-dir")
    git("init", "--quiet", at=tmp_path)
    files = {".gitattributes": (ROOT / ".gitattributes").read_bytes()}
    files |= {"README.md": b"a\nb\n", "scripts/test": b"a\n", "tests/data/raw": b"a\r\nb\n\0"}
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    git("-c", "core.autocrlf=true", "add", ".", at=tmp_path)
    for name in files:
        (tmp_path / name).unlink()
    git("-c", "core.autocrlf=true", "checkout", "--", ".", at=tmp_path)
    assert {name: (tmp_path / name).read_bytes() for name in files} == files


def test_names_of_files_differ_in_more_than_case() -> None:
    names = git("ls-files").splitlines()
    assert len({name.casefold() for name in names}) == len(names) > 300


def test_windows_can_have_the_files_of_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_systems, "IS_WINDOWS", True)
    names = git("-c", "core.quotePath=false", "ls-files").splitlines()
    for name in names:
        for part in name.split("/"):
            check_name(part)
    assert max(map(len, names)) < 120


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_run_by_the_name_of_python(script: Path) -> None:
    """On Windows nothing reads the first line, so `python` must run the file as it is."""
    source = script.read_bytes()
    assert source.startswith(b"#!/usr/bin/env python3\n")
    compile(source, script.name, "exec")


def test_help_of_scripts_is_for_every_console() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "test", "--help"],
        env={**os.environ, **CONSOLE},
        capture_output=True,
        check=True,
    )
    assert done.stdout.startswith(b"Check everything")


def test_scripts_show_text_that_a_console_lacks() -> None:
    program = "from tools import venv; venv.show('naïve \ufffd 世界'); venv.say('世界')"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **CONSOLE, "PYTHONPATH": str(ROOT / "scripts")},
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode("cp1252").split() == ["naïve", "\\ufffd", "\\u4e16\\u754c"]
    assert done.stderr.decode("cp1252").split() == ["bpetite:", "\\u4e16\\u754c"]


def test_types_belong_to_one_system() -> None:
    """On Windows, typeshed lacks names that code uses only after it has looked for them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert settings["tool"]["mypy"]["platform"] == "linux"


def test_text_files_are_opened_with_an_encoding() -> None:
    """Without one, Windows takes the code page of the user."""
    pytest.importorskip("ruff")
    rule = ("--isolated", "--preview", "--select", "PLW1514")
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", *rule, "src", "tests", *SCRIPTS, "scripts"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
    )
    assert (done.returncode, done.stdout.strip()) == (0, "All checks passed!")
