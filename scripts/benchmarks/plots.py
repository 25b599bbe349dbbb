"""The plot of encoding speed in README.md."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any


def styled(ink: str) -> AbstractContextManager[None]:
    """Draw text and axes in a colour while the body of the `with` runs."""
    import matplotlib

    style: Any = {
        "svg.fonttype": "none",  # text stays text, for small files and the reader's fonts
        "svg.hashsalt": "bpetite",  # equal data gives equal bytes
        "font.family": "sans-serif",
        "font.size": 10,
        **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor"), ink),
        **dict.fromkeys(("xtick.color", "ytick.color", "grid.color"), ink),
    }
    return matplotlib.rc_context(style)


BARS = "cl100k, english, list, cold"
"""The row that README shows, from the page's table of encoding."""

BAR_LIBRARIES = ("bpetite", "fastokens", "gigatoken", "toktok", "tiktoken", "tokenizers")

BAR_COLOURS = {
    "light": ("#1f2328", "#c2334b", "#b4bcc6"),
    "dark": ("#e6edf3", "#f0637a", "#56606c"),
}
"""The colours of text, of our bar and of the other bars, for each kind of page."""


def write_bars(page: Path) -> None:
    """Draw the speeds of the row `BARS` of a page, for light pages and for dark ones."""
    from matplotlib.figure import Figure

    rows = [line.strip("| \n").split(" | ") for line in page.read_text("utf-8").splitlines()]
    row = next(row for row in rows if row[0] == BARS)
    heads = next(row for row in reversed(rows[: rows.index(row)]) if "bpetite" in row)
    speeds = {name: float(row[heads.index(name)]) for name in BAR_LIBRARIES}
    for kind, (ink, ours, others) in BAR_COLOURS.items():
        with styled(ink):
            figure = Figure(figsize=(7.6, 2.5), layout="constrained")
            axes = figure.add_subplot()
            axes.set_title("Encoding unseen English with cl100k on one thread, MB/s", loc="left")
            colours = [ours if name == "bpetite" else others for name in speeds]
            bars = axes.barh([*speeds], [*speeds.values()], color=colours)
            axes.bar_label(bars, [row[heads.index(name)] for name in speeds], padding=4)
            axes.invert_yaxis()
            axes.xaxis.set_visible(False)
            axes.tick_params(length=0)
            axes.spines[:].set_visible(False)
            path = page.with_name(f"speed-{kind}.svg")
            figure.savefig(path, format="svg", transparent=True, metadata={"Date": None})
