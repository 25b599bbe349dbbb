"""What `scripts/bench` prints has its place in docs/performance.md, and its plots are SVG."""

from __future__ import annotations

import sys
from array import array
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from stream_cases import CASES, Case, expected

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "scripts"))

import _bench  # noqa: E402
from _bench_stream import STOPS, Times, blocks  # noqa: E402
from _bench_stream_cases import Fate, fate, texts_of  # noqa: E402
from _bench_streamers import OURS, WAYS, Stream, Streamer, looping  # noqa: E402
from _bench_table import lacking_parts, markdown, put_parts, three_digits  # noqa: E402
from _plot import Axis, Series, svg, ticks  # noqa: E402


@pytest.mark.parametrize(
    ("engine", "sections"), [("native", _bench.NATIVE), ("python", _bench.IN_PYTHON)]
)
def test_each_table_has_its_place_in_the_page(
    engine: str, sections: dict[str, _bench.Section]
) -> None:
    names = [f"{engine}-{name}" for name in ("conditions", *sections)]
    assert lacking_parts(ROOT / "docs" / "performance.md", names) == []


def test_a_part_is_put_between_its_marks_and_nothing_else_changes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- bench:x -->\nold\n<!-- /bench:x -->\nb\n", encoding="utf-8")
    put_parts(page, {"x": "new\n"})
    assert page.read_text(encoding="utf-8") == ("a\n<!-- bench:x -->\nnew\n<!-- /bench:x -->\nb\n")


def test_a_page_tells_which_parts_it_lacks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- bench:x --><!-- /bench:x --><!-- bench:y -->", encoding="utf-8")
    assert lacking_parts(page, ["x", "y", "z"]) == ["y", "z"]


def test_a_row_of_a_table_is_filled_up() -> None:
    assert markdown(("a", "b"), [("1",)]) == "| a | b |\n| --- | --- |\n| 1 |  |\n"


@pytest.mark.parametrize(
    ("value", "shown"), [(0.01234, "0.0123"), (9.876, "9.88"), (123.4, "123"), (1234.5, "1,234")]
)
def test_three_digits_are_shown_and_all_before_the_point(value: float, shown: str) -> None:
    assert three_digits(value) == shown


def test_a_plot_is_xml_with_a_line_for_each_series() -> None:
    axis = Axis("bytes & more", 1, 100, ticks(1, 100, {1.0: "1", 10.0: "10", 100.0: "<100>"}))
    lines = [Series("a & b", [(1, 1), (100, 50)], is_main=True), Series("c", [(10, 2), (90, 2)])]
    root = ElementTree.fromstring(svg("a < b", axis, axis, lines))
    assert len(root.findall("{http://www.w3.org/2000/svg}polyline")) == 2


def test_lines_of_a_plot_may_share_a_colour() -> None:
    axis = Axis("", 1, 100, [])
    lines = [Series(name, [(1, 1), (9, 9)], colour=1) for name in ("a", "b")]
    root = ElementTree.fromstring(svg("", axis, axis, lines))
    found = root.findall("{http://www.w3.org/2000/svg}polyline")
    assert len({line.get("stroke") for line in found}) == 1


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
def test_our_streams_get_each_text_of_the_table_right(case: Case) -> None:
    assert texts_of(OURS, case) == expected(case, "replace")


@pytest.mark.parametrize(
    ("name", "way", "expected"),
    [
        ("01-four bytes", "each id alone", "wrong"),
        ("38-a prompt's character ends", "each id alone", "lost"),
        ("33-a skipped special inside", "a codec", "right"),
        ("09-first surrogate", "a codec", "late"),
    ],
)
def test_the_fate_of_a_text_in_a_way_without_streams(name: str, way: str, expected: Fate) -> None:
    pytest.importorskip("tiktoken")
    [streamer] = [each for each in WAYS if each.name == way]
    assert fate_of(streamer, name) == expected


def fate_of(streamer: Streamer, name: str) -> Fate:
    """Return what becomes of a text of the table."""
    [case] = [case for case in CASES if case.name == name]
    return fate(texts_of(streamer, case), expected(case, "replace"))


def test_what_fails_has_shown_what_came_before(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_steps_are_timed_in_blocks_until_patience_ends() -> None:
    made: list[int] = []
    assert len(blocks(looping(made.append), range(250))) == 3
    assert made == [*range(250)]
    assert len(blocks(looping(made.append), range(250), patience=0)) == 1


def test_percentiles_are_of_the_blocks_of_all_turns() -> None:
    times = Times([array("d", [number * 1e-7 for number in turn]) for turn in ((1, 3), (2, 9))])
    assert [round(times.percentile(part)) for part in (0, 50, 100)] == [1, 2, 9]


def test_the_last_tenth_is_compared_with_the_first() -> None:
    assert Times([array("d", [2.0] * 10 + [5.0] * 80 + [3.0] * 10)]).last_tenth() == 1.5


def test_the_stops_of_the_benchmark_are_twenty() -> None:
    assert len({*STOPS}) == 20
