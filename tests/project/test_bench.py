"""docs/performance.md shows the tables that `scripts/bench` prints, and README.md its figures."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from benchmarks import main as bench
from benchmarks.cases import PYTHON, Case, Job, Result, Table, Target
from benchmarks.measure import attempt
from support import ROOT
from support.engines import once
from tools import make_picture
from tools.make_picture import figure

pytestmark = once

PAGE = make_picture.PAGE.read_text(encoding="utf-8")

PARTS: dict[str, str] = {
    name: part
    for name, part in re.findall(r"<!-- bench:(\S+) -->\n(.*?)<!-- /bench:\1 -->", PAGE, re.DOTALL)
    if name != "conditions"
}
"""The tables of the page, by name."""


def table_of(name: str) -> Table:
    """Return the table of a part; `encode` has one for each engine."""
    return bench.SECTIONS["encode" if name.startswith("encode-") else name][1]


@pytest.mark.parametrize("name", PARTS)
def test_page_has_the_columns_of_the_script(name: str) -> None:
    header, separator, *lines = re.findall(r"^\|.*\|$", PARTS[name], re.MULTILINE)
    head, *columns = (column.strip() for column in header.strip("|").split("|"))
    table = table_of(name)
    printed = [*table.columns, *(f"× {name}" for name in table.ratios), "target"]
    assert head == table.head
    assert columns == [column for column in printed if column in columns]
    assert len(lines) > 0
    assert {line.count("|") for line in (separator, *lines)} == {header.count("|")}


def test_table_of_each_instruction_set_comes_first() -> None:
    engines = ["avx512", "avx2", "scalar", "python"]
    assert [*PARTS][:5] == [*(f"encode-{engine}" for engine in engines), "calls"]


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
    page.write_text("before\n<!-- bench:decode -->\nold\n<!-- /bench:decode -->\n", "utf-8")
    output = output_of(tmp_path, "--only", "decode", "documents", "--write", str(tmp_path))
    assert "| code, documents of 500 bytes |" in output
    before, written = page.read_text(encoding="utf-8").split("<!-- bench:decode -->")
    assert before == "before\n"
    assert written.startswith("\nAnother run, on ")
    assert "| learnt, code |" in written
    assert "old" not in written


def test_script_compares_patterns_of_the_folder(tmp_path: Path) -> None:
    patterns = {"tekken": [r"\p{L}+|\P{L}+"], "two": [r"\p{N}", r"\p{L}+|\P{L}+"]}
    entries = [{"name": name, "patterns": each} for name, each in patterns.items()]
    (tmp_path / "patterns.json").write_text(json.dumps(entries), encoding="utf-8")
    output = output_of(tmp_path, "--only", "patterns")
    rows = [row.partition(" | ")[0] for row in re.findall(r"^\| (.*)", output, re.MULTILINE)]
    work = ["english", "code", "added to loading", "training on english"]
    assert rows == ["what", "---", *(f"tekken, {each}" for each in work)]


# Checks


def result_of(*targets: Target) -> Result:
    """Return three turns of two columns that take two and six seconds for a megabyte."""
    columns = {"bpetite": "bpetite", "tiktoken": "tiktoken"}
    case = Case("a text", lambda _column, _turn: Job([]), columns, ["MB/s"], targets)
    return Result(case, {"bpetite": [[2.0]] * 3, "tiktoken": [[6.0]] * 3})


def test_check_fails_if_a_target_is_missed(capsys: pytest.CaptureFixture[str]) -> None:
    met, missed = Target(3, than="tiktoken"), Target(high=0.4)
    assert bench.report({"x": [result_of(met)]}) == 0
    assert bench.report({"x": [result_of(met, missed)]}) == 1
    out = capsys.readouterr().out
    assert "x: ok     a text: 3 × tiktoken (at least 3)\n" in out
    assert "x: MISSED a text: 0.5 MB/s (at most 0.4)\n" in out
    assert "1 of 2 targets missed" in out


def test_check_without_a_yardstick_is_left_out() -> None:
    result = result_of(Target(2, than="gigatoken"), Target(2, column=PYTHON))
    assert [*result.checks()] == []


def test_check_against_wrong_ids_fails() -> None:
    result = result_of(Target(2, than="tiktoken"))
    result.words["tiktoken"] = "other ids"
    assert [is_met for is_met, *_ in result.checks()] == [False]


def ids(found: list[int], _column: str, _turn: int) -> Job:
    return Job([lambda: found], right=lambda: [1, 2])


def test_wrong_ids_are_seen_before_they_are_timed() -> None:
    assert attempt(partial(ids, [1, 2]), "tiktoken", 0) == ([], False)
    assert attempt(partial(ids, [1, 3]), "tiktoken", 0) == "other ids"


def test_table_leaves_empty_columns_out() -> None:
    table = Table("MB/s", ("bpetite", "tiktoken", "gigatoken"), ("tiktoken", "fastest"))
    assert table.markdown([result_of()]).splitlines() == [
        "| MB/s | bpetite | tiktoken | × tiktoken | × fastest |",
        "| --- | --: | --: | --: | --: |",
        "| a text | 0.5 | 0.167 | 3 | 3 (tiktoken) |",
    ]


# Figures of README.md

README_FIGURES = (
    ("english, 16 MB", "bpetite"),
    ("english, 16 MB", "tokenizers"),
    ("English, 0", "bpetite"),
    ("cl100k, english, list", "bpetite"),
)
"""The row and the column of each measured figure in README.md, in order."""


def test_readme_figures_match_the_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"([\d,.]+) (?:MB/s|ns|s)\b", readme)
    expected = [float(figure(PAGE, *each).replace(",", "")) for each in README_FIGURES]
    rounded = [
        f"{value:.{len(number.replace('.', '').lstrip('0'))}g}"
        for number, value in zip(found, expected, strict=True)
    ]
    assert [float(number) for number in found] == [float(number) for number in rounded]


@pytest.mark.parametrize("kind", make_picture.COLOURS)
def test_bars_of_readme_match_the_page(kind: str) -> None:
    svg = (ROOT / "docs" / f"speed-{kind}.svg").read_text("utf-8")
    drawn = re.findall(r"<text [^>]*>([\d.]+)</text>", svg)
    bars = [figure(PAGE, make_picture.BARS, name) for name in make_picture.LIBRARIES]
    assert [*map(float, drawn)] == [*map(float, bars)]


def test_readme_names_the_processor_of_its_figures() -> None:
    processor = PAGE.partition("bench:conditions -->\n- ")[2].partition(" (avx512")[0]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert processor.replace("(R)", "").removesuffix(" Processor") in readme
