"""The geometry of a page's charts: figures in, coordinates of SVG out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from bpetite.analysis._figures import Use, VocabularyFigures, lorenz

Point = tuple[float, float]

_LABEL_HEIGHT = 11.0
_LABEL_WIDTH = 24.0
_MAX_BYTES_SHOWN = 16  # the length of the longest tokens with a bar of their own


class Tick(NamedTuple):
    """A position on an axis, and its label."""

    at: float
    label: str


class Curve(NamedTuple):
    """A line, its end, and the label there, which keeps away from other ends and labels."""

    place: int
    """The number of the vocabulary."""
    path: str
    end: Point
    label: str
    label_at: Point = (0, 0)


class Plot(NamedTuple):
    """A chart with axes."""

    x_ticks: list[Tick]
    y_ticks: list[Tick]
    curves: list[Curve]


CURVE_BOX = (24.0, 246.0, 172.0, 10.0)
"""Left, right, bottom and top of the chart of a curve."""


def curve_plot(uses: Sequence[Use], max_size: int, max_ratio: float) -> Plot:
    """Return bytes per token over vocabulary size, for one text."""
    left, right, bottom, top = CURVE_BOX
    x = _scale(8, max(math.log2(max_size), 9), left, right)
    y = _scale(0.75, max(max_ratio, 1.75), bottom, top)
    curves = []
    for place, use in enumerate(uses):
        points = [
            (x(math.log2(size)), y(use.text.bytes / tokens)) for size, tokens in use.curve if tokens
        ]
        if points:
            label = f"{use.text.bytes / use.curve[-1][1]:.2f}"
            curves.append(Curve(place, path(points), points[-1], label))
    return Plot(
        [Tick(x(math.log2(size)), _short(size)) for size in _size_ticks(max_size)],
        [Tick(y(value), str(value)) for value in _whole_numbers(max_ratio)],
        _labelled(curves),
    )


def _labelled(curves: list[Curve]) -> list[Curve]:
    """Put each label next to the end of its curve, where it covers no other end or label."""
    taken = [curve.end for curve in curves]
    found = []
    for curve in sorted(curves, key=lambda curve: -curve.end[0]):
        x, y = curve.end
        choices = [
            (x + 8, y + 4.5),
            (x + 8, y + 17),
            (x + 8, y - 8),
            (x - 12, y - 10),
            (x - 12, y + 20),
        ]
        others = [point for point in taken if point != curve.end]
        label = next((choice for choice in choices if not _covers(choice, others)), choices[0])
        taken.append((label[0] + _LABEL_WIDTH / 2, label[1] - 4.5))
        found.append(curve._replace(label_at=label))
    return sorted(found)


def _covers(label: Point, points: list[Point]) -> bool:
    """Return whether a label covers any of the points."""
    x, y = label[0] + _LABEL_WIDTH / 2, label[1] - 4.5
    return any(
        abs(point[0] - x) < _LABEL_WIDTH * 0.75 and abs(point[1] - y) < _LABEL_HEIGHT
        for point in points
    )


class Row(NamedTuple):
    """A language, its position, and the dots of the vocabularies."""

    name: str
    y: float
    dots: list[Tick]


PARITY_BOX = (120.0, 404.0)
"""Left and right of the chart of parity."""
PARITY_ROW = 19.0

_MIN_PARITY = 1 / 64


def parity_plot(
    names: Sequence[str], vocabularies: Sequence[VocabularyFigures], count: int
) -> tuple[list[Tick], list[Row]]:
    """Return the rows of the languages with the highest and the lowest parity, and the axis."""
    values = [
        [max(vocabulary.parity[place], _MIN_PARITY) for vocabulary in vocabularies]
        for place in range(len(names))
    ]
    low = min(min(row) for row in values)
    high = max(max(row) for row in values)
    start, end = math.floor(math.log2(min(low, 1))), math.ceil(math.log2(max(high, 2)))
    x = _scale(start, end, *PARITY_BOX)
    order = sorted(range(len(names)), key=lambda place: -values[place][0])
    step = max(len(order) / count, 1)
    chosen = [order[int(number * step)] for number in range(min(len(order), count))]
    rows = [
        Row(
            names[place],
            30 + number * PARITY_ROW,
            [Tick(x(math.log2(value)), f"{value:.2f}") for value in values[place]],
        )
        for number, place in enumerate(chosen)
    ]
    ticks = [Tick(x(power), f"{2.0**power:g}×") for power in range(start, end + 1)]
    return ticks, rows


LORENZ_BOX = (30.0, 230.0)
"""Left and right of the square of the Lorenz curve; top and bottom are equal to them."""


def lorenz_path(values: tuple[int, ...]) -> str:
    shares = lorenz(values)
    x = _scale(0, len(shares) - 1, *LORENZ_BOX)
    y = _scale(0, 1, LORENZ_BOX[1], LORENZ_BOX[0])
    return path((x(place), y(share)) for place, share in enumerate(shares))


class Bar(NamedTuple):
    """A length in bytes, and the heights of its bars above and below the axis."""

    x: float
    label: str
    above: float
    below: float


BAR_WIDTH = 12.0
_BAR_STEP = 15.0
_BAR_HEIGHT = 78.0


def length_bars(
    ids: Sequence[tuple[int, int]], used: Sequence[tuple[int, int]], top: float
) -> list[Bar]:
    """Return the shares of ids, and of the tokens of a text, by their length in bytes."""
    above, below = _shares(ids), _shares(used)
    return [
        Bar(
            28 + place * _BAR_STEP,
            f"{place + 1}+" if place + 1 == _MAX_BYTES_SHOWN else str(place + 1),
            above[place] / top * _BAR_HEIGHT,
            below[place] / top * _BAR_HEIGHT,
        )
        for place in range(_MAX_BYTES_SHOWN)
    ]


def highest_share(lengths: Iterable[Sequence[tuple[int, int]]]) -> float:
    return max((max(_shares(each)) for each in lengths), default=0.0) or 1.0


def _shares(lengths: Sequence[tuple[int, int]]) -> list[float]:
    counts = [0] * _MAX_BYTES_SHOWN
    for length, count in lengths:
        counts[min(length, _MAX_BYTES_SHOWN) - 1] += count
    total = sum(counts) or 1
    return [count / total for count in counts]


def spark(curve: Sequence[int]) -> tuple[str, str]:
    """Return the line of the tokens that remain, and the area that is saved."""
    step = max(len(curve) // 50, 1)
    kept = [*curve[::step], curve[-1]]
    x = _scale(0, max(len(kept) - 1, 1), 4, 128)
    y = _scale(0, curve[0] or 1, 40, 4)
    points = [(x(place), y(tokens)) for place, tokens in enumerate(kept)]
    return path(points), f"{path([(128, 4), (4, 4), *points])}z"


def path(points: Iterable[Point]) -> str:
    """Return a line through points.

    >>> path([(0, 1.04), (2.25, 3)])
    'M0.0 1.0L2.2 3.0'
    """
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """Return the function that takes `low` to `start` and `high` to `end`.

    >>> _scale(0, 10, 100, 200)(5)
    150.0
    """
    return lambda value: start + (value - low) / ((high - low) or 1) * (end - start)


def _size_ticks(max_size: int) -> list[int]:
    """Return sizes for the ticks of an axis: powers of 4, and the end unless it is too close.

    >>> _size_ticks(1000), _size_ticks(200_000)
    ([256, 1000], [256, 1024, 4096, 16384, 65536, 200000])
    """
    powers = [4**power for power in range(4, 12) if 4**power * 2 < max_size]
    return [*(powers or [256]), max_size]


def _short(size: int) -> str:
    """Return a size as an axis shows it.

    >>> _short(256), _short(32768), _short(199998), _short(1500)
    ('256', '32k', '200k', '1.5k')
    """
    if size < 1000:
        return str(size)
    if size % 1024 == 0:
        return f"{size // 1024}k"
    return f"{size / 1000:.2g}k" if size < 10_000 else f"{size / 1000:.0f}k"


def _whole_numbers(highest: float) -> list[int]:
    """Return at most six numbers for the ticks of an axis from 1.

    >>> _whole_numbers(4.4), _whole_numbers(13.5)
    ([1, 2, 3, 4], [1, 4, 7, 10, 13])
    """
    step = math.ceil(max(highest, 1) / 6)
    return [*range(1, math.floor(max(highest, 1)) + 1, step)]
