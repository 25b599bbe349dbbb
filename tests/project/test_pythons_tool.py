"""`scripts/tools/test_pythons.py` passes arguments and paths on unchanged."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.engines import once
from tools import test_pythons

pytestmark = once


def test_arguments_of_pytest_keep_their_spaces() -> None:
    own = ["--engine", "native", "python3.12"]
    more = ["-k", "a or b", "--", "c"]
    assert test_pythons.halves([*own, "--", *more]) == (own, more)
    assert test_pythons.halves(own) == (own, [])


@pytest.mark.skipif(sys.platform == "win32", reason="links need a permission on Windows")
def test_a_relative_python_works_in_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "bin" / "python"
    link.parent.mkdir()
    link.symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    assert test_pythons.path_of("bin/python") == link
    assert test_pythons.output_of(test_pythons.path_of("bin/python"), "-c", "print(1)") == "1"


def test_a_missing_python_is_an_error() -> None:
    with pytest.raises(SystemExit, match="nowhere/python is not installed"):
        test_pythons.path_of("nowhere/python")
