"""docs/performance.md shows the tables that `scripts/bench` prints, and README.md its figures."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import main as bench
from benchmarks import patterns as patterns_table
from benchmarks import plots
from benchmarks.table import Row, Target
from support import ROOT
from support.engines import once

import bpetite
from bpetite import PATTERNS

pytestmark = once

PAGE = (ROOT / "docs" / bench.PAGE).read_text(encoding="utf-8")

PARTS: dict[tuple[str, str], str] = {
    (engine, name): part
    for engine, name, part in re.findall(
        r"<!-- bench:(native|python)-(\S+) -->\n(.*?)<!-- /bench:\1-\2 -->", PAGE, re.DOTALL
    )
    if name != "conditions"
}
"""The tables of the page, by their engine and section."""

SECTIONS = {"native": bench.NATIVE | bench.LONG, "python": bench.PYTHON}


@pytest.mark.parametrize(("engine", "name"), PARTS)
def test_page_has_the_columns_of_the_script(engine: str, name: str) -> None:
    header, separator, *lines = re.findall(r"^\|.*\|$", PARTS[engine, name], re.MULTILINE)
    columns = [column.strip() for column in header.strip("|").split("|")]
    printed = SECTIONS[engine][name].header
    assert columns == [column for column in printed if column in columns]
    assert len(lines) > 0
    assert {line.count("|") for line in (separator, *lines)} == {header.count("|")}


def output_of(folder: Path, *arguments: str) -> str:
    """Return what the script prints about short texts in a folder."""
    for name in ("english", "code"):
        (folder / f"{name}.txt").write_text("some words of a text\n" * 1000, encoding="utf-8")
    paths = os.pathsep.join(map(str, (ROOT / "scripts", ROOT / "src")))
    command = ["benchmarks", "--repeats", "1", "--data", str(folder), *arguments]
    return subprocess.run(
        [sys.executable, "-m", *command],
        check=True,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": paths, "PYTHONIOENCODING": "utf-8"},
    ).stdout


def test_script_measures_and_writes_the_page(tmp_path: Path) -> None:
    page = tmp_path / bench.PAGE
    name = f"{bpetite.engine}-load"
    page.write_text(f"before\n<!-- bench:{name} -->\nold\n<!-- /bench:{name} -->\n", "utf-8")
    output = output_of(tmp_path, "--only", "decode", "load", "--write", str(tmp_path))
    assert "| learnt, code, text from a list |" in output
    before, written = page.read_text(encoding="utf-8").split(f"<!-- bench:{name} -->")
    assert before == "before\n"
    assert "| learnt, bpetite.json |" in written
    assert "old" not in written


@pytest.mark.skipif(bpetite.engine != "native", reason="the table is the native engine's")
def test_script_compares_patterns_without_a_name(tmp_path: Path) -> None:
    patterns = {
        "qwen2": [PATTERNS["qwen2"]],
        "tekken": [r"\p{L}+|\P{L}+"],
        "tails": [r"(?<=o)\p{L}+"],
        "any": [r"\w+|\W+"],
        "two": [r"\p{N}", r"\p{L}+|\P{L}+"],
    }
    entries = [{"name": name, "patterns": each} for name, each in patterns.items()]
    (tmp_path / patterns_table.FILE).write_text(json.dumps(entries), encoding="utf-8")
    output = output_of(tmp_path, "--only", "patterns")
    rows = {row.partition(" | ")[0]: row for row in re.findall(r"^\| (.*)", output, re.MULTILINE)}
    refused = {what for what, row in rows.items() if " | refused after " in row}
    assert refused == {"tails, automaton", "any, load"}
    encoded = {"qwen2 (scanner)", "tekken (automaton)", "tails (regex)"}
    assert {what.partition(",")[0] for what in rows if what.endswith(", warm")} == encoded
    others = {"training on english", "loading", "40 bytes", "100 bytes", "200 bytes", "500 bytes"}
    assert {f"tekken, {work}" for work in others} < rows.keys()


README_FIGURES = (
    ("english, 16 MB, bpetite", "seconds"),
    ("english, 16 MB, tokenizers", "seconds"),
    ("English, 0", "bpetite"),
    ("cl100k, english, list, cold", "bpetite"),
    ("english, warm", "bpetite"),
    ("english, .jsonl, Megatron 0.16.1, the loop of preprocess_data.py", "bpetite"),
    ("english, .jsonl, Megatron 0.16.1, the loop of preprocess_data.py", "library"),
)
"""The row and the column of each measured figure in README.md, in order."""


def test_readme_figures_match_the_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"([\d,.]+) (?:MB/s|ns|s)\b", readme)
    expected = [figure(row, column) for row, column in README_FIGURES]
    rounded = [
        f"{value:.{len(number.replace('.', '').lstrip('0'))}g}"
        for number, value in zip(found, expected, strict=True)
    ]
    assert [float(number) for number in found] == [float(number) for number in rounded]


@pytest.mark.parametrize("kind", plots.BAR_COLOURS)
def test_bars_of_readme_match_the_page(kind: str) -> None:
    svg = (ROOT / "docs" / f"speed-{kind}.svg").read_text("utf-8")
    drawn = re.findall(r"<text [^>]*>([\d.]+)</text>", svg)
    assert [*map(float, drawn)] == [figure(plots.BARS, name) for name in plots.BAR_LIBRARIES]


def figure(row: str, column: str) -> float:
    """Return the first figure in a cell of the page."""
    header: list[str] = []
    previous: list[str] = []
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ---"):
            header = previous
        elif cells[0] == row and column in header:
            return float(cells[header.index(column)].strip("()").replace(",", "").split()[0])
        previous = cells
    raise LookupError(f"{bench.PAGE} has no row {row!r} with a column {column!r}")


def test_check_fails_if_a_target_is_missed(capsys: pytest.CaptureFixture[str]) -> None:
    target = Target(low=2, unit=" ×")
    assert bench.report({"x": [Row(["a"], [target.check("a", 2)])]}) == 0
    assert bench.report({"x": [Row(["a"], [target.check("a", 2), target.check("b", 1.5)])]}) == 1
    out = capsys.readouterr().out
    assert "x: MISSED b: 1.5 ×, at least 2\n" in out
    assert "1 of 2 targets missed" in out
