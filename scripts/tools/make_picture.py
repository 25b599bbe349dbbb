"""Draw the picture of README.md from the figures of docs/performance.md.

`scripts/bench --write docs` does so too; run this after editing the page.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[1]))

from tools.venv import ROOT

PAGE = ROOT / "docs" / "performance.md"

BARS = "cl100k, english, list"
"""The row of the page's first table of encoding, which begins with the speed of new text."""

LIBRARIES = ("bpetite", "fastokens", "gigatoken", "toktok", "tiktoken", "tokenizers")

# The colours of text, of our bar and of the other bars, for each kind of page.
LIGHT, DARK = ("#1f2328", "#c2334b", "#b4bcc6"), ("#e6edf3", "#f0637a", "#56606c")
COLOURS = {"light": LIGHT, "dark": DARK}


def figure(page: str, row: str, column: str, number: int = 0) -> str:
    """Return a figure of a cell; raises LookupError if the page has no such row and column."""
    header: list[str] = []
    previous: list[str] = []
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ---"):
            header = previous
        elif cells[0] == row and column in header:
            return cells[header.index(column)].strip("()").split(" / ")[number]
        previous = cells
    raise LookupError(f"the page has no row {row!r} with a column {column!r}")


def write_bars(page: Path) -> None:
    """Draw the speeds of the row `BARS` of a page, for light pages and for dark ones."""
    import matplotlib
    from matplotlib.figure import Figure

    shown: dict[str, str] = {}
    for name in LIBRARIES:
        with suppress(LookupError):
            shown[name] = figure(page.read_text("utf-8"), BARS, name)
    for kind, (ink, ours, others) in COLOURS.items():
        style: Any = {
            "svg.fonttype": "none",  # text stays text, for small files and the reader's fonts
            "svg.hashsalt": "bpetite",  # equal data gives equal bytes
            "font.family": "sans-serif",
            "font.size": 10,
            **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor"), ink),
            **dict.fromkeys(("xtick.color", "ytick.color", "grid.color"), ink),
        }
        with matplotlib.rc_context(style):
            plot = Figure(figsize=(7.6, 2.5), layout="constrained")
            axes = plot.add_subplot()
            axes.set_title("Encoding unseen English with cl100k on one thread, MB/s", loc="left")
            colours = [ours if name == "bpetite" else others for name in shown]
            bars = axes.barh([*shown], [*map(float, shown.values())], color=colours)
            axes.bar_label(bars, [*shown.values()], padding=4)
            axes.invert_yaxis()
            axes.xaxis.set_visible(False)
            axes.tick_params(length=0)
            axes.spines[:].set_visible(False)
            path = page.with_name(f"speed-{kind}.svg")
            plot.savefig(path, format="svg", transparent=True, metadata={"Date": None})


if __name__ == "__main__":
    write_bars(PAGE)
