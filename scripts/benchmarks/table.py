"""Tables in Markdown, the pages that hold them, and targets for measured values."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

MB = 1_000_000

Show = Callable[[float], str]
"""Formats seconds in the unit of a row, such as megabytes a second."""

Line = Sequence[str]
"""The cells of a table row."""

HEADER = ("what", "bpetite", "yardstick", "ratio")
SHORT_HEADER = HEADER[:2]


@dataclass(frozen=True)
class Check:
    """A measured value and the range that it must be in."""

    what: str
    value: float
    low: float
    high: float
    unit: str

    @property
    def is_met(self) -> bool:
        """Whether the value is in the range."""
        return self.low <= self.value <= self.high

    def __str__(self) -> str:
        is_minimum = self.high == math.inf
        limit = f"at least {self.low:,}" if is_minimum else f"at most {self.high:,}"
        verdict = "ok    " if self.is_met else "MISSED"
        return f"{verdict} {self.what}: {self.value:,.4g}{self.unit}, {limit}"


@dataclass(frozen=True)
class Target:
    """A limit that `scripts/bench --check` tests: a minimum or a maximum."""

    low: float = -math.inf
    high: float = math.inf
    unit: str = ""

    def check(self, what: str, value: float) -> Check:
        """Return the check of a measured value."""
        return Check(what, value, self.low, self.high, self.unit)


class Row(NamedTuple):
    """A table row, and the checks of its values."""

    cells: Line
    checks: Sequence[Check] = ()


def plain_row(what: str, shown: str, target: Target | None = None, value: float = 0) -> Row:
    """Return a row without a yardstick, whose value is checked if there is a target."""
    return Row((what, shown), [target.check(what, value)] if target else ())


def markdown(header: Line, lines: Iterable[Line]) -> str:
    """Return a table, with empty cells at the end of short rows."""
    is_plain = len(header) <= len(HEADER)
    separator = ["---", *["---" if is_plain else "--:"] * (len(header) - 1)]
    rows = [[*line, *[""] * (len(header) - len(line))] for line in lines]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (header, separator, *rows))


@dataclass(frozen=True)
class Comparison:
    """Seconds that both sides took in each turn: (bpetite, yardstick)."""

    turns: Sequence[tuple[float, float]]

    def row(
        self,
        what: str,
        show: Show,
        yardstick: str,
        of: Literal["time", "speed"],
        target: Target | None = None,
    ) -> Row:
        """Return a row whose ratio is bpetite's time or speed, divided by the yardstick's."""
        ours = statistics.median(ours for ours, _ in self.turns)
        theirs = statistics.median(theirs for _, theirs in self.turns)
        ratios = [us / them if of == "time" else them / us for us, them in self.turns]
        ratio = statistics.median(ratios)
        shown = f"{ratio:.2f} [{min(ratios):.2f} to {max(ratios):.2f}] of its {of}"
        checks = [target.check(f"{what}, {of} / {yardstick}'s", ratio)] if target else ()
        return Row((what, show(ours), f"{yardstick}: {show(theirs)}", shown), checks)


def times_faster(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return how many times as fast bpetite is: the median over turns of the ratio in a turn."""
    return statistics.median(them / us for us, them in zip(ours, theirs, strict=True))


def speed(size: int) -> Show:
    """Show seconds as megabytes a second, for work on `size` bytes."""
    return lambda seconds: f"{bare_speed(size)(seconds)} MB/s"


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


# Pages with tables in them


def put_parts(page: Path, parts: Mapping[str, str]) -> None:
    """Replace the parts of a page between `<!-- bench:NAME -->` and `<!-- /bench:NAME -->`."""
    content = page.read_bytes().decode("utf-8")
    for name, part in parts.items():
        start, end = markers(name)
        before, _, rest = content.partition(start)
        _, _, after = rest.partition(end)
        content = f"{before}{start}\n{part.strip()}\n{end}{after}"
    page.write_bytes(content.encode("utf-8"))


def missing_parts(page: Path, names: Iterable[str]) -> list[str]:
    """Return the parts that a page has no markers for."""
    content = page.read_bytes().decode("utf-8")
    return [
        name
        for name in names
        if not re.search(".*?".join(map(re.escape, markers(name))), content, re.DOTALL)
    ]


def markers(name: str) -> tuple[str, str]:
    """Return the comments before and after a part."""
    return f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
