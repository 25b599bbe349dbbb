"""What `scripts/bench` prints has its place in docs/performance.md, and its plots are SVG."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "scripts"))

import _bench  # noqa: E402
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
