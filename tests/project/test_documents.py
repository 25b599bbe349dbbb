"""The documents are right: commands run, links lead somewhere, sentences follow the rules."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT
from support.engines import quick_once

from bpetite.corpora import TOKEN_FORMATS

pytestmark = quick_once

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]

README_MAX_LINES = 130

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")

BANNED = CONTRIBUTING.partition("### Banned phrases")[2].split("```")[1].strip().splitlines()

SOURCES = [
    *sorted((ROOT / "src" / "bpetite").rglob("*.py")),
    *sorted((ROOT / "rust" / "src").rglob("*.rs")),
]


@pytest.mark.slow  # starts many processes
@pytest.mark.skipif(os.name == "nt", reason="the commands are written for a POSIX shell")
def test_readme_commands_run_after_its_python_examples(tmp_path: Path) -> None:
    """Follows README in one folder, without serve, which runs until it is stopped."""
    shutil.copy(ROOT / "README.md", tmp_path)
    doctest = [sys.executable, "-m", "doctest", "README.md"]
    variables = {**os.environ, "PYTHONUTF8": "1"}
    examples = subprocess.run(
        doctest, cwd=tmp_path, env=variables, capture_output=True, encoding="utf-8"
    )
    assert (examples.returncode, examples.stdout) == (0, "")
    assert [*tmp_path.glob("*.json")] != []
    readme = (ROOT / "README.md").read_text("utf-8")
    commands = re.findall(r"^bpetite (?!serve ).*", readme, re.MULTILINE)
    variables["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    failures = {}
    for command in commands:
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env=variables, capture_output=True, encoding="utf-8"
        )
        if done.returncode:
            failures[command] = done.stderr
    assert failures == {}
    assert len(commands) >= 5


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= README_MAX_LINES


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8"))
    files = [link for link in links if "://" not in link]
    assert [link for link in files if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_to_headings(page: Path) -> None:
    links = re.findall(r"\]\(([^):]*)#([^)]+)\)", page.read_text("utf-8"))
    assert [
        (name, anchor)
        for name, anchor in links
        if anchor not in anchors((page.parent / name) if name else page)
    ] == []


def anchors(page: Path) -> list[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)", page.read_text("utf-8"), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings]


def test_page_has_a_row_for_each_token_format() -> None:
    page = (ROOT / "docs" / "corpora.md").read_text("utf-8")
    table = page.partition("| `--format` |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == [*TOKEN_FORMATS]


def test_places_of_changes_exist() -> None:
    """Each path in the table of CONTRIBUTING.md is a file or a folder."""
    section = CONTRIBUTING.partition("## Where a change goes")[2].partition("\n## ")[0]
    rows = [row.split(" | ") for row in section.splitlines() if row.count(" | ") >= 2]
    folders = {1: ROOT / "src" / "bpetite", 2: ROOT / "rust" / "src"}
    paths = [
        folder / path
        for row in rows
        for column, folder in folders.items()
        for path in re.findall(r"`([\w./]+)`", row[column])
    ]
    assert len(paths) > 20
    assert [path for path in paths if not path.exists()] == []


def banned_phrases(text: str) -> list[str]:
    """Return the banned phrases in a text, also those that a line end divides."""
    pattern = rf"\b(?:{'|'.join(BANNED)})\b".replace(" ", r"(?:\s|#|//[/!]?)+")
    return re.findall(pattern, text)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_pages_have_no_banned_phrase(page: Path) -> None:
    text = page.read_text("utf-8")
    assert banned_phrases(text.partition("### Banned phrases")[0]) == []


def test_sources_have_no_banned_phrase() -> None:
    found = {str(path): banned_phrases(path.read_text("utf-8")) for path in SOURCES}
    assert {path: phrases for path, phrases in found.items() if phrases} == {}
