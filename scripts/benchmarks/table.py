"""Tables in Markdown, the page that holds them, and targets for measured values."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

MB = 1_000_000

Show = Callable[[float], str]
"""Formats seconds in the unit of a row, such as megabytes a second."""

Line = Sequence[str]
"""The cells of a table row."""

HEADER = ("what", "bpetite", "yardstick", "ratio")
SHORT_HEADER = HEADER[:2]


class Target(NamedTuple):
    """A limit that `scripts/bench --check` tests: a minimum or a maximum."""

    low: float = -math.inf
    high: float = math.inf
    unit: str = ""

    def check(self, what: str, value: float) -> Check:
        """Return the check of a measured value."""
        return Check(what, value, self)


class Check(NamedTuple):
    """A measured value and the range that it must be in."""

    what: str
    value: float
    target: Target

    @property
    def is_met(self) -> bool:
        """Whether the value is in the range."""
        return self.target.low <= self.value <= self.target.high

    def __str__(self) -> str:
        low, high, unit = self.target
        limit = f"at least {low:,}" if high == math.inf else f"at most {high:,}"
        verdict = "ok    " if self.is_met else "MISSED"
        return f"{verdict} {self.what}: {self.value:,.4g}{unit}, {limit}"


class Row(NamedTuple):
    """A table row with the checks of its values."""

    cells: Line
    checks: Sequence[Check] = ()


def plain_row(what: str, shown: str, target: Target | None = None, value: float = 0) -> Row:
    """Return a row without a yardstick, whose value is checked if there is a target."""
    return Row((what, shown), [target.check(what, value)] if target else ())


def markdown(header: Line, lines: Iterable[Line]) -> str:
    """Return a table without empty columns, such as the columns of missing libraries.

    >>> print(markdown(("a", "b", "c"), [("1", "", "2")]), end="")
    | a | c |
    | --- | --- |
    | 1 | 2 |
    """
    rows = [[*line, *[""] * (len(header) - len(line))] for line in lines]
    columns = [column for column in range(len(header)) if any(row[column] for row in rows)]
    is_plain = len(header) <= len(HEADER)
    separator = ["---", *["---" if is_plain else "--:"] * (len(header) - 1)]
    return "".join(
        f"| {' | '.join(cells[column] for column in columns)} |\n"
        for cells in (header, separator, *rows)
    )


def times_faster(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return how many times as fast bpetite is: the median over turns of the ratio in a turn."""
    return statistics.median(them / us for us, them in zip(ours, theirs, strict=True))


def bare_speed(size: int) -> Show:
    """Show seconds as megabytes a second, without the unit."""
    return lambda seconds: three_digits(size / MB / seconds)


def three_digits(value: float) -> str:
    """Show a number with three significant digits, and all digits before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def in_seconds(seconds: float) -> str:
    """Show seconds."""
    return f"{seconds:.3g} s"


def in_milliseconds(seconds: float) -> str:
    """Show seconds as milliseconds."""
    return f"{three_digits(seconds * 1e3)} ms"


# The page with tables in it


def put_parts(page: Path, parts: Mapping[str, str]) -> None:
    """Replace the parts of a page between `<!-- bench:NAME -->` and `<!-- /bench:NAME -->`.

    A part without markers in the page is left out.
    """
    content = page.read_bytes().decode("utf-8")
    for name, part in parts.items():
        start, end = f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
        before, found, rest = content.partition(start)
        if found:
            content = f"{before}{start}\n{part.strip()}\n{end}{rest.partition(end)[2]}"
    page.write_bytes(content.encode("utf-8"))
