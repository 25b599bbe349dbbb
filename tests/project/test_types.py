"""Users' programs type-check: the public names are typed, and so is each page's program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from doctest import DocTestParser
from importlib.util import find_spec
from pathlib import Path

import pytest
from support import ROOT
from support.engines import once
from support.pages import programs_of

import bpetite

MIN_TYPE_COMPLETENESS = 0.98

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

pytestmark = once

needs_pyright = pytest.mark.skipif(not find_spec("pyright"), reason="pyright is not installed")


def run(tool: str, *arguments: str) -> str:
    """Return what a type checker prints about the imported package and files."""
    command = [sys.executable, "-m", tool, *arguments]
    folder = Path(bpetite.__file__).parents[1]
    # pyright looks there for the Node.js of its package.
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        command,
        # Beside other installed packages, mypy would take them for modules of the program.
        cwd=sys.prefix if (folder / "typing_extensions.py").exists() else folder,
        env={**os.environ, "PATH": programs},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Write the examples of each page into one program; return the paths."""
    folder = tmp_path_factory.mktemp("programs")
    paths = []
    for page in PAGES:
        if examples := DocTestParser().get_examples(page.read_text("utf-8")):
            paths.append(folder / f"{page.stem.lower().replace('-', '_')}.py")
            paths[-1].write_text("".join(example.source for example in examples), "utf-8")
    assert len(paths) >= 6
    return list(map(str, paths))


@pytest.mark.slow  # starts mypy, for 40 s the first time
def test_mypy_accepts_the_programs_of_the_pages(programs: list[str]) -> None:
    pytest.importorskip("polars")
    found = run("mypy", "--strict", "--config-file=", *programs)
    assert found == f"Success: no issues found in {len(programs)} source files\n"


@pytest.mark.slow
@pytest.mark.parametrize("page", ["clusters.md", "serving.md"])
def test_mypy_accepts_the_programs_with_other_packages(page: str, tmp_path: Path) -> None:
    """These packages' own types are left out: the packages may be missing."""
    others = ["dask", "datatrove", "distributed", "fastapi", "model"]
    others += ["pyarrow", "pydantic", "pyspark", "ray"]
    options = ["[mypy]", "check_untyped_defs = True"]
    for package in others:
        options += [f"[mypy-{package}.*]", "follow_imports = skip", "ignore_missing_imports = True"]
    (tmp_path / "mypy.ini").write_text("\n".join(options))
    found = []
    programs = {**programs_of(page)}
    if page == "serving.md":
        programs["server.py"] = (ROOT / "docs" / "server.py").read_text("utf-8")
    for name, program in programs.items():
        if name.endswith(".py"):
            found.append(str(tmp_path / name))
            Path(found[-1]).write_text(program, "utf-8")
    assert len(found) >= 2
    output = run("mypy", f"--config-file={tmp_path / 'mypy.ini'}", *found)
    assert output == f"Success: no issues found in {len(found)} source files\n"


@pytest.mark.slow  # mypy reads the same programs
@needs_pyright
def test_pyright_accepts_the_programs_of_the_pages(programs: list[str]) -> None:
    report = json.loads(run("pyright", "--outputjson", *programs))
    errors = [each for each in report["generalDiagnostics"] if each["severity"] == "error"]
    assert (errors, report["summary"]["filesAnalyzed"]) == ([], len(programs))


@pytest.mark.slow  # mypy --strict refuses names without types
@needs_pyright
def test_public_names_have_known_types() -> None:
    options = ("--verifytypes", "bpetite", "--ignoreexternal", "--outputjson")
    report = json.loads(run("pyright", *options))
    assert report["typeCompleteness"]["completenessScore"] >= MIN_TYPE_COMPLETENESS
