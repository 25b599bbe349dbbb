"""`scripts/bench` fills the pages of docs, checks targets, and draws plots in SVG."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from array import array
from pathlib import Path
from random import Random
from string import ascii_lowercase
from typing import Any
from xml.etree import ElementTree

import pytest
from benchmarks import main as bench
from benchmarks.corpora import clusters, files, others, processes, stages
from benchmarks.json_lines import json_lines, scan
from benchmarks.plots import Axis, Series, svg
from benchmarks.stream import STOPS, Times, blocks
from benchmarks.stream_cases import Fate, fate, texts_of
from benchmarks.streamers import OURS, SUBSTITUTES, Stream, Streamer, looping
from benchmarks.table import Row, Target, markdown, missing_parts, put_parts, three_digits
from support import ROOT
from support.engines import once
from support.stream_cases import CASES, Case, expected

from bpetite import Tokenizer
from bpetite.corpora import Corpus

pytestmark = once

DOCS = ROOT / "docs"


@pytest.mark.parametrize(
    ("engine", "sections"), [("native", bench.NATIVE | bench.CORPORA), ("python", bench.PYTHON)]
)
def test_pages_have_markers_for_each_table(engine: str, sections: dict[str, bench.Section]) -> None:
    details = [f"{engine}-{name}" for name in ("conditions", *sections)]
    assert missing_parts(DOCS / bench.DETAILS, details) == []
    chosen = [f"{engine}-{name}" for name in sections if sections[name].chosen is not None]
    assert missing_parts(DOCS / bench.PAGE, chosen) == []


def test_put_parts_changes_only_the_parts(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- bench:x -->\nold\n<!-- /bench:x -->\nb\n", encoding="utf-8")
    put_parts(page, {"x": "new\n"})
    assert page.read_text(encoding="utf-8") == ("a\n<!-- bench:x -->\nnew\n<!-- /bench:x -->\nb\n")


def test_missing_parts_need_both_markers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- bench:x --><!-- /bench:x --><!-- bench:y -->", encoding="utf-8")
    assert missing_parts(page, ["x", "y", "z"]) == ["y", "z"]


def test_write_puts_chosen_rows_into_the_main_page(tmp_path: Path) -> None:
    for page in (bench.PAGE, bench.DETAILS):
        shutil.copy(DOCS / page, tmp_path / page)
    name = "short"
    rows = [Row((f"{vocabulary}, 7 characters, list", "8")) for vocabulary in ("GPT-2", "cl100k")]
    bench.write_pages(tmp_path, {name: rows}, "conditions")
    main, details = (
        (tmp_path / page).read_text(encoding="utf-8") for page in (bench.PAGE, bench.DETAILS)
    )
    assert "| cl100k, 7 characters, list | 8 |" in main
    assert "| GPT-2, 7 characters, list | 8 |" not in main
    assert "| GPT-2, 7 characters, list | 8 |" in details


def test_check_reports_a_missed_target(capsys: pytest.CaptureFixture[str]) -> None:
    target = Target(low=2, unit=" ×")
    assert bench.report({"x": [target.check("a", 2)]}) == 0
    assert bench.report({"x": [target.check("a", 2), target.check("b", 1.5)]}) == 1
    out = capsys.readouterr().out
    assert "x: MISSED b: 1.5 ×, at least 2\n" in out
    assert "1 of 2 targets missed" in out


def test_pages_show_no_targets() -> None:
    for page in (bench.PAGE, bench.DETAILS):
        content = (DOCS / page).read_text(encoding="utf-8").lower()
        assert "missed" not in content
        assert "target" not in content


def test_the_main_page_stays_short() -> None:
    assert len((DOCS / bench.PAGE).read_text(encoding="utf-8").splitlines()) <= 250


README_FIGURES = (
    ("english, 16 MB, bpetite", "seconds"),
    ("english, 16 MB, tokenizers", "seconds"),
    ("cl100k, english, list, cold", "bpetite"),
    ("cl100k, english, list, cold", "tiktoken"),
    ("English, 0", "bpetite"),
    ("english, warm", "bpetite"),
    ("english, .jsonl, Megatron 0.16.1, the loop of preprocess_data.py", "bpetite"),
    ("english, .jsonl, Megatron 0.16.1, the loop of preprocess_data.py", "library"),
)
"""The row and the column of each measured figure in README.md, in order."""


def test_readme_figures_are_those_of_the_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"([\d,.]+) (?:MB/s|ns|s)\b", readme)
    expected = [figure(row, column) for row, column in README_FIGURES]
    rounded = [
        f"{value:.{len(number.replace('.', '').lstrip('0'))}g}"
        for number, value in zip(found, expected, strict=True)
    ]
    assert [float(number) for number in found] == [float(number) for number in rounded]


def figure(row: str, column: str) -> float:
    """Return the first figure in a cell of the main page."""
    header: list[str] = []
    previous: list[str] = []
    for line in (DOCS / bench.PAGE).read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ---"):
            header = previous
        elif cells[0] == row and column in header:
            return float(cells[header.index(column)].strip("()").replace(",", "").split()[0])
        previous = cells
    raise LookupError(f"{bench.PAGE} has no row {row!r} with a column {column!r}")


def test_short_rows_get_empty_cells() -> None:
    assert markdown(("a", "b"), [("1",)]) == "| a | b |\n| --- | --- |\n| 1 |  |\n"


@pytest.mark.parametrize(
    ("value", "shown"), [(0.01234, "0.0123"), (9.876, "9.88"), (123.4, "123"), (1234.5, "1,234")]
)
def test_three_digits(value: float, shown: str) -> None:
    assert three_digits(value) == shown


# Plots

SVG = "{http://www.w3.org/2000/svg}"
AXIS = Axis("bytes & more", {1.0: "1", 10.0: "10", 100.0: "<100>"})


def test_a_plot_is_xml_with_all_names() -> None:
    pytest.importorskip("matplotlib")
    lines = [Series("a & b", [(1, 1), (100, 50)], is_main=True), Series("c", [(10, 2), (90, 2)])]
    root = ElementTree.fromstring(svg("d < e", AXIS, AXIS, lines))
    words = {text.text for text in root.iter(f"{SVG}text")}
    assert words >= {"a & b", "c", "d < e", "bytes & more", "<100>"}


def test_equal_data_gives_equal_plots() -> None:
    pytest.importorskip("matplotlib")
    lines = [Series("a", [(1, 1), (100, 50)])]
    first = svg("title", AXIS, AXIS, lines)
    assert svg("title", AXIS, AXIS, lines) == first
    assert b"dc:date" not in first


def test_lines_may_share_a_colour() -> None:
    pytest.importorskip("matplotlib")
    lines = [Series(name, [(1, 1), (9, 9)], colour=1) for name in ("a", "b")]
    strokes = re.findall(rb"stroke: (#[0-9a-f]{6}); stroke-width: 1.8", svg("", AXIS, AXIS, lines))
    assert len({*strokes}) == 1


# Streams


@pytest.mark.parametrize(
    ("texts", "right", "expected"),
    [
        (["a", "b", ""], ["a", "b", ""], "right"),
        (["", "ab", ""], ["a", "b", ""], "late"),
        (["", "", "ab"], ["a", "b", ""], "late"),
        (["a", "", ""], ["a", "b", ""], "lost"),
        (["", "", ""], ["", "", "a"], "lost"),
        (["a", "c", ""], ["a", "b", ""], "wrong"),
        (["a", "b", "c"], ["a", "b", ""], "wrong"),
    ],
)
def test_the_fate_of_a_text(texts: list[str], right: list[str], expected: Fate) -> None:
    assert fate(texts, right) == expected


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_our_streams_show_each_text_right(case: Case) -> None:
    assert texts_of(OURS, case) == expected(case, "replace")


@pytest.mark.parametrize(
    ("name", "way", "expected"),
    [
        ("01-four bytes", "each id alone", "wrong"),
        ("38-a prompt's character ends", "each id alone", "lost"),
        ("33-a skipped special inside", "incremental codec", "right"),
        ("09-first surrogate", "incremental codec", "late"),
    ],
)
def test_the_fate_of_a_text_without_streams(name: str, way: str, expected: Fate) -> None:
    pytest.importorskip("tiktoken")
    [streamer] = [each for each in SUBSTITUTES if each.name == way]
    assert fate_of(streamer, name) == expected


def fate_of(streamer: Streamer, name: str) -> Fate:
    """Return the fate of a text of the table."""
    [case] = [case for case in CASES if case.name == name]
    return fate(texts_of(streamer, case), expected(case, "replace"))


def test_texts_before_an_error_count(capsys: pytest.CaptureFixture[str]) -> None:
    def fails(_case: object) -> Any:
        def step(id: int) -> str:
            if id >= 0x80:
                raise ValueError("no")
            return chr(id)

        return lambda: Stream(step, lambda: "end", looping(step))

    [case] = [case for case in CASES if case.name == "31-NUL"]
    broken = case._replace(tokens="41 | 80 | 41")
    assert texts_of(Streamer("broken", "none", fails), broken) == ["A", "", "", ""]
    assert "broken: 31-NUL: ValueError('no')" in capsys.readouterr().err


def test_blocks_end_at_the_time_limit() -> None:
    made: list[int] = []
    assert len(blocks(looping(made.append), range(250))) == 3
    assert made == [*range(250)]
    assert len(blocks(looping(made.append), range(250), max_seconds=0)) == 1


def test_percentiles_cover_all_turns() -> None:
    times = Times([array("d", [number * 1e-7 for number in turn]) for turn in ((1, 3), (2, 9))])
    assert [round(times.percentile(part)) for part in (0, 50, 100)] == [1, 2, 9]


def test_last_tenth_is_relative_to_the_first() -> None:
    assert Times([array("d", [2.0] * 10 + [5.0] * 80 + [3.0] * 10)]).last_tenth() == 1.5


def test_there_are_twenty_different_stops() -> None:
    assert len({*STOPS}) == 20


def test_stops_suit_a_stream_that_skips_special_tokens() -> None:
    tokenizer = Tokenizer.train("", 256)  # a stop that equals a skipped literal is an error
    assert not tokenizer.decode_stream(stop=STOPS, skip_special_tokens=True).stopped


@pytest.mark.parametrize("is_ascii", [True, False])
def test_lines_to_scan_have_all_texts(is_ascii: bool) -> None:
    data = json_lines("abc é\n你好 " * 1000, 50_000, is_ascii)
    texts = [json.loads(line)["text"] for line in data.splitlines()]
    assert scan(data) == len("".join(texts).encode())
    assert 50_000 <= len(data) < 100_000


# Corpora


@pytest.mark.parametrize("kind", [*files.KINDS, "txt"])
def test_files_of_a_corpus_have_the_documents(kind: str, tmp_path: Path) -> None:
    for module in ("pyarrow", "zstandard"):
        pytest.importorskip(module)
    text = "abc é\n你好 " * 2000
    made = files.write(tmp_path, text, 40_000, kind)
    expected = [*files.documents(text, 40_000)]
    assert made.text_bytes == sum(len(document.encode()) for document in expected) >= 40_000
    if kind == "txt":
        expected = ["".join(f"{document}\n" for document in expected)]
    assert [*Corpus(made.path)] == expected
    assert len([*Corpus(made.one_document)]) == 1


@pytest.mark.parametrize("kind", files.KINDS)
def test_stages_take_the_whole_file(kind: str, tmp_path: Path) -> None:
    for module in ("isal", "pyarrow", "zstandard"):
        pytest.importorskip(module)
    made = files.write(tmp_path, "some words " * 9_000, 90_000, kind)
    found, corpus = stages.reading(made.path)
    assert "decompress" in found or kind == "jsonl"
    assert sum(batch.offsets[-1] for batch in corpus.batches()) == made.text_bytes
    tokenizer = Tokenizer.train("", 256)
    tokenizer.save(tmp_path / "model.json")
    arguments = (made.path, tmp_path / "model.json", "<|endoftext|>", tmp_path / "ids")
    assert all(seconds.wall > 0 for seconds in stages.tokenizing(*arguments).values())


def test_system_without_figures_of_processes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "wait4", raising=False)
    with pytest.raises(processes.CommandError, match="does not tell what a process took"):
        processes.run([sys.executable, "-c", ""])


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no wait4")
def test_a_process_reports_its_time_and_memory() -> None:
    program = "data = bytearray(b'a') * 100_000_000; sum(range(1_000_000))"
    usage = processes.run([sys.executable, "-c", program])
    assert usage.peak > 100_000_000
    assert 0 < usage.cpu <= usage.wall * 1.5
    with pytest.raises(processes.CommandError, match="ValueError: no"):
        processes.run([sys.executable, "-c", "raise ValueError('no')"])


def test_programs_of_other_libraries_are_python() -> None:
    for other in others.OTHERS:
        _, _, program, *_ = others.command(
            other, Path("python"), Path("a"), Path("b"), Path("c"), ("<end>", 1)
        )
        compile(str(program), other.name, "exec")


# Many workers


@pytest.mark.parametrize(
    ("parts", "workers", "end"),
    [([], 2, 0.0), ([1, 1, 1], 1, 3.0), ([1, 1, 1], 2, 2.0), ([1, 1, 1, 3], 2, 4.0)],
)
def test_a_free_worker_takes_the_next_part(parts: list[float], workers: int, end: float) -> None:
    assert clusters.makespan(parts, workers, 0, Random(1)) == end


def test_a_death_costs_the_part_and_a_restart() -> None:
    parts = [1.0] * 1_000
    longest = clusters.makespan(parts, 4, 0.1, Random(1))
    assert longest > 250 + 0.05 * 250 * clusters.RESTART_SECONDS
    assert longest == clusters.makespan(parts, 4, 0.1, Random(1))


def test_a_growing_corpus_follows_heaps_law() -> None:
    words_of_text = ["".join(Random(seed).choices(ascii_lowercase, k=6)) for seed in range(200)]
    documents = [*clusters.growing(" ".join(words_of_text * 20), 1_000_000, 0.9, 1e9)]
    first = {*" ".join(documents[: len(documents) // 2]).split()}
    words = {*" ".join(documents).split()}
    assert sum(len(document.encode()) for document in documents) == pytest.approx(1e6, rel=0.05)
    assert len(words) == pytest.approx(1e9 * (1e6 / 1e12) ** 0.9, rel=0.3)
    assert len(first) == pytest.approx(len(words) / 2**0.9, rel=0.3)
