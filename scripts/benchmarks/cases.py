"""A case is a row: work that each column does in turns. Targets limit its figures."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from tools.engines import INSTRUCTION_SETS

MB = 1_000_000

# Unlike the wall time, the CPU time of work on one thread hardly depends on other processes, but
# some systems measure it too coarsely.
IS_FINE = time.get_clock_info("process_time").resolution < 1e-6
now = time.process_time if IS_FINE else time.perf_counter

NATIVE, PYTHON = "bpetite", "Python engine"
OURS = (NATIVE, PYTHON, *INSTRUCTION_SETS)
"""The columns of our engines. The first is the engine that `import bpetite` gives."""

FASTEST = "fastest"
"""Stands for the fastest other library of a row."""

UNITS: dict[str, Callable[[float], float]] = {
    "MB/s": lambda seconds: 1 / seconds,  # of seconds for a megabyte
    "ns": lambda seconds: seconds * 1e9,
    "µs": lambda seconds: seconds * 1e6,
    "ms": lambda seconds: seconds * 1e3,
    "MB": lambda size: size / MB,
    "%": lambda share: share * 100,
}
"""How a unit shows seconds, bytes or shares; other units show figures as they are."""


class MissingError(Exception):
    """A library lacks the call or the vocabulary, so that its cell is empty."""


class Job(NamedTuple):
    """What a column does in one turn."""

    calls: Sequence[Callable[[], object] | tuple[Callable[[], object]] | float | None]
    """One for each unit of the case; the last may be left out. None is what the library cannot do.

    A call in a tuple comes between timed ones. Of seconds and of figures, less is better.
    """
    per: float = 1  # megabytes or calls that share the seconds
    right: Callable[[], object] | None = None  # makes the result that the first call must have
    clock: Callable[[], float] = now
    in_brackets: bool = False  # whether the library lacks this call, so that another was measured


Work = Callable[[str, int], Job]
"""Takes the column and the turn. Turn 0 warms up and is checked, and the others are timed.

It is pickled, because each library works in a process of its own.
"""


class Target(NamedTuple):
    """A limit that `scripts/bench --check` tests.

    If `than` names a column, `low` is how many times as fast the column must be at least, and
    `high` how many times as much it may take. Otherwise, both are in the unit of the case.
    """

    low: float = -math.inf
    high: float = math.inf
    than: str = ""
    state: int = 0  # which of the case's figures
    column: str = NATIVE


@dataclass(frozen=True)
class Case:
    """A row of a table."""

    name: str
    work: Work
    columns: Mapping[str, str]  # the columns, and the process that each works in
    units: Sequence[str]
    targets: Sequence[Target] = ()
    is_fresh: bool = False  # whether each turn has a process of its own, which cannot be warm


@dataclass
class Result:
    """What the columns of a case gave in all turns."""

    case: Case
    figures: dict[str, list[Sequence[float]]] = field(default_factory=dict)  # in each turn
    in_brackets: set[str] = field(default_factory=set)
    words: dict[str, str] = field(default_factory=dict)  # what cells say in place of figures

    def turns(self, column: str, state: int) -> list[float]:
        """Return a figure of each turn; none if the column has none that counts."""
        turns = [] if column in self.words else self.figures.get(column, [])
        figures = [turn[state] for turn in turns if len(turn) > state]
        return [] if any(map(math.isnan, figures)) else figures

    def figure(self, column: str, state: int) -> float:
        """Return the median in the case's unit; nan without a turn."""
        turns = self.turns(column, state)
        return UNITS.get(self.case.units[state], float)(median(turns)) if turns else math.nan

    def times(self, ours: str, than: str, state: int) -> tuple[float, str]:
        """Return how many times as fast a column is as another, or as the fastest, and its name.

        It is the median of the turns' ratios. Without a figure to compare with, it is nan.
        """
        if than == FASTEST:
            others = self.figures.keys() - self.in_brackets - {*OURS}
            names = [name for name in others if self.turns(name, state)]
            than = min(names, key=lambda name: median(self.turns(name, state)), default="")
        pairs = zip(self.turns(ours, state), self.turns(than, state), strict=False)
        ratios = [theirs / us for us, theirs in pairs]
        return median(ratios) if ratios else math.nan, than

    def cell(self, column: str) -> str:
        """Return the figures of a column."""
        if column in self.words or column not in self.figures:
            return self.words.get(column, "")
        states = range(len(self.figures[column][0]))
        cell = " / ".join(three_digits(self.figure(column, state)) for state in states)
        return f"({cell})" if column in self.in_brackets else cell

    def ratios(self, ours: str, than: str) -> str:
        """Return how many times as fast a column is as another in each state."""
        found = [self.times(ours, than, state) for state in range(len(self.case.units))]
        shown = [(three_digits(times), name if than == FASTEST else "") for times, name in found]
        cell = " / ".join(f"{times} ({name})" if name else times for times, name in shown)
        return "" if all(math.isnan(times) for times, _ in found) else cell

    def checks(self) -> Iterator[tuple[bool, str, str]]:
        """Yield whether each target is met, and words; none if the yardstick is missing."""
        for low, high, than, state, column in self.case.targets:
            if column not in self.case.columns:
                continue
            value, unit = self.figure(column, state), self.case.units[state]
            if than and not math.isnan(value):
                value, name = self.times(column, than, state)
                value, unit = value if high == math.inf else 1 / value, f"× {name}"
                if math.isnan(value) and not self.words.get(than):
                    continue
            what = self.case.name + ("" if column == NATIVE else f", {column}")
            what += f", figure {state + 1}" if len(self.case.units) > 1 else ""
            limit = f"at least {low:,}" if high == math.inf else f"at most {high:,}"
            yield low <= value <= high, what, f"{three_digits(value)} {unit} ({limit})"


class Table(NamedTuple):
    """How results are shown."""

    head: str
    columns: Sequence[str]
    ratios: Sequence[str] = ()  # the columns that `ours` is compared with
    ours: str = NATIVE
    shows_targets: bool = False  # and the units of figures

    def markdown(self, results: Sequence[Result]) -> str:
        """Return the table; leave out empty columns, as of a missing library."""
        names = [NATIVE if name == self.ours else name for name in self.columns]
        header = [self.head, *names, *(f"× {name}" for name in self.ratios), "target"]
        lines = [header, ["---", *["--:"] * (len(header) - 1)]]
        for result in results:
            has_unit = self.shows_targets and len(result.case.units) == 1
            unit = f" {result.case.units[0]}" * has_unit
            cells = [cell and cell + unit for cell in map(result.cell, self.columns)]
            cells += [result.ratios(self.ours, name) for name in self.ratios]
            checks = [shown for _, _, shown in result.checks() if self.shows_targets]
            lines.append([result.case.name, *cells, "; ".join(checks)])
        shown = [n for n in range(len(header)) if any(line[n] for line in lines[2:])]
        return "".join(f"| {' | '.join(line[n] for n in shown)} |\n" for line in lines)


def three_digits(value: float) -> str:
    """Show a number with three significant digits, and all digits before the point.

    >>> three_digits(1234.5), three_digits(12.345), three_digits(0), three_digits(math.nan)
    ('1,234', '12.3', '0', '–')
    """
    shown = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return "–" if math.isnan(value) else shown
