"""A small writer of line plots in SVG: logarithmic axes, labels at the lines, light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 44, 52

LABEL_GAP = 15
"""Pixels between the labels of lines that end close together."""

# Told apart by people who see few colours too, on white and on black.
COLOURS = ("#d1495b", "#e08e2b", "#3b7dd8", "#2e9e6b", "#8a63d2", "#7d8590", "#b0803c")

STYLE = """
    text { font: 12px system-ui, sans-serif; fill: #1f2328; }
    .title { font-size: 15px; font-weight: 600; }
    .minor { stroke: #8b949e; stroke-opacity: .14; }
    .grid { stroke: #8b949e; stroke-opacity: .4; }
    .line { fill: none; stroke-width: 2; stroke-linejoin: round; }
    .main { stroke-width: 3; }
    @media (prefers-color-scheme: dark) { text { fill: #e6edf3; } }
"""


@dataclass(frozen=True)
class Series:
    """A line: a name and its points, in ascending order of x."""

    name: str
    points: Sequence[tuple[float, float]]
    is_main: bool = False
    is_dashed: bool = False
    colour: int | None = None
    """Which of COLOURS it has; by default, that of its place among the lines."""


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis: what it tells, from where to where, and the values that are marked."""

    title: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]

    def part(self, value: float) -> float:
        """Return where a value is, from 0 at the low end to 1 at the high end."""
        return math.log(value / self.low) / math.log(self.high / self.low)


def x_of(axis: Axis, value: float) -> float:
    """Return the pixel of a value on the horizontal axis."""
    return LEFT + axis.part(value) * (WIDTH - LEFT - RIGHT)


def y_of(axis: Axis, value: float) -> float:
    """Return the pixel of a value on the vertical axis."""
    return HEIGHT - BOTTOM - axis.part(value) * (HEIGHT - TOP - BOTTOM)


def svg(title: str, across: Axis, up: Axis, lines: Sequence[Series]) -> str:
    """Return a plot.

    >>> axis = Axis("bytes", 1, 100, [(1, "1"), (10, "10"), (100, "100")])
    >>> svg("A plot", axis, axis, [Series("one", [(1, 1), (100, 10)])]).count("<polyline")
    1
    """
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"  <title>{escape(title)}</title>",
        f"  <style>{STYLE}  </style>",
        text(LEFT, 22, title, kind="title"),
        *grid(across, up),
        text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, across.title, anchor="middle"),
        text(LEFT, TOP - 8, up.title, anchor="end"),
    ]
    labels = []
    for number, line in enumerate(lines):
        colour = COLOURS[(number if line.colour is None else line.colour) % len(COLOURS)]
        points = [(x_of(across, x), y_of(up, y)) for x, y in line.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        kind = "line main" if line.is_main else "line"
        dashes = ' stroke-dasharray="5 4"' if line.is_dashed else ""
        parts.append(f'  <polyline class="{kind}" stroke="{colour}"{dashes} points="{path}"/>')
        labels.append((points[-1][1], points[-1][0], line.name, colour))
    parts += end_labels(labels)
    return "\n".join([*parts, "</svg>\n"])


def grid(across: Axis, up: Axis) -> list[str]:
    """Return the lines of the marked values, and the values."""
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = []
    for value, label in across.ticks:
        x = x_of(across, value)
        kind = "grid" if label else "minor"
        parts.append(f'  <line class="{kind}" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}"/>')
        parts.append(text(x, bottom + 18, label, anchor="middle"))
    for value, label in up.ticks:
        y = y_of(up, value)
        kind = "grid" if label else "minor"
        parts.append(f'  <line class="{kind}" x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
        parts.append(text(LEFT - 8, y + 4, label, anchor="end"))
    return [part for part in parts if part]


def end_labels(labels: Sequence[tuple[float, float, str, str]]) -> list[str]:
    """Return the names of lines where these end, moved apart where they would overlap.

    A label is (y of the line's end, its x, the name, the colour).
    """
    parts = []
    free = float(TOP)
    for y, x, name, colour in sorted(labels):
        free = max(free, y)
        parts.append(text(WIDTH - RIGHT + 12, free + 4, name, colour=colour))
        parts.append(
            f'  <line stroke="{colour}" x1="{x:.1f}" y1="{y:.1f}" '
            f'x2="{WIDTH - RIGHT + 9}" y2="{free:.1f}" stroke-opacity=".5"/>'
        )
        free += LABEL_GAP
    return parts


def text(
    x: float, y: float, words: str, *, anchor: str = "start", kind: str = "", colour: str = ""
) -> str:
    """Return some words at a place; nothing if there are none."""
    if not words:
        return ""
    more = f' class="{kind}"' if kind else ""
    more += f' style="fill: {colour}"' if colour else ""
    return f'  <text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(words)}</text>'


def ticks(low: float, high: float, labels: dict[float, str]) -> list[tuple[float, str]]:
    """Return 1, 2 ... 9 times each power of ten between two values; some have a label."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = {digit * 10.0**power for power in powers for digit in range(1, 10)} | labels.keys()
    return [(value, labels.get(value, "")) for value in sorted(values) if low <= value <= high]
