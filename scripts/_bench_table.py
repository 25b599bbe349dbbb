"""Tables in Markdown: rows, targets met or missed, and the page that they are put into."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

MB = 1_000_000

Show = Callable[[float], str]
"""Says seconds in the words of a row: megabytes a second, say."""

Line = Sequence[str]
"""The cells of a row; a row of one cell is a heading within the table."""

HEADER = ("what", "bpetite", "yardstick", "ratio", "target")


def row(
    what: str, bpetite: str = "", yardstick: str = "", ratio: str = "", target: str = ""
) -> Line:
    """Return a row of the plain kind, with a yardstick."""
    return what, bpetite, yardstick, ratio, target


def markdown(header: Line, lines: Sequence[Line]) -> str:
    """Return a table; cells that a row lacks are empty."""
    separator = ["---", *["--:" if len(header) > len(HEADER) else "---"] * (len(header) - 1)]
    rows = [[*line, *[""] * (len(header) - len(line))] for line in lines]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (header, separator, *rows))


@dataclass(frozen=True)
class Target:
    """The range that a value should be in."""

    low: float = -math.inf
    high: float = math.inf
    unit: str = ""

    def verdict(self, value: float) -> str:
        """Say what is wanted, and whether `value` is that."""
        if self.low == -math.inf:
            wanted = f"at most {self.high:,}"
        elif self.high == math.inf:
            wanted = f"at least {self.low:,}"
        else:
            wanted = f"{self.low:,} to {self.high:,}"
        return f"{wanted}{self.unit}: {'ok' if self.low <= value <= self.high else 'MISSED'}"


@dataclass(frozen=True)
class Comparison:
    """Seconds that both sides took, in turns: (bpetite, yardstick)."""

    turns: Sequence[tuple[float, float]]

    def row(
        self,
        what: str,
        show: Show,
        yardstick: str,
        of: Literal["time", "speed"],
        target: Target | None = None,
    ) -> Line:
        """Return a row whose ratio is bpetite's time, or speed, as a part of the yardstick's."""
        ours = statistics.median(ours for ours, _ in self.turns)
        theirs = statistics.median(theirs for _, theirs in self.turns)
        ratios = [us / them if of == "time" else them / us for us, them in self.turns]
        ratio = statistics.median(ratios)
        shown = f"{ratio:.2f} [{min(ratios):.2f} to {max(ratios):.2f}] of its {of}"
        verdict = target.verdict(ratio) if target else ""
        return row(what, show(ours), f"{yardstick}: {show(theirs)}", shown, verdict)


def times_faster(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return how many times faster we were: the median of the ratios of each turn."""
    return statistics.median(them / us for us, them in zip(ours, theirs, strict=True))


def speed(size: int) -> Show:
    """Show seconds as the speed of work on so many bytes."""
    return lambda seconds: f"{bare_speed(size)(seconds)} MB/s"


def bare_speed(size: int) -> Show:
    """Show seconds as the speed of work on so many bytes: the megabytes a second alone."""
    return lambda seconds: three_digits(size / MB / seconds)


def three_digits(value: float) -> str:
    """Show a number by its three first digits, and all that stand before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def nanoseconds(count: int) -> Show:
    """Show seconds as the time of each of so many steps."""
    return lambda seconds: f"{seconds / count * 1e9:,.0f} ns"


def in_seconds(seconds: float) -> str:
    """Show seconds."""
    return f"{seconds:.3g} s"


def in_milliseconds(seconds: float) -> str:
    """Show seconds as milliseconds."""
    return f"{three_digits(seconds * 1e3)} ms"


# A page with tables in it


def put_parts(page: Path, parts: Mapping[str, str]) -> None:
    """Replace the parts of a page between `<!-- bench:NAME -->` and `<!-- /bench:NAME -->`."""
    content = page.read_bytes().decode("utf-8")
    for name, part in parts.items():
        start, end = markers(name)
        before, _, rest = content.partition(start)
        _, _, after = rest.partition(end)
        content = f"{before}{start}\n{part.strip()}\n{end}{after}"
    page.write_bytes(content.encode("utf-8"))


def lacking_parts(page: Path, names: Sequence[str]) -> list[str]:
    """Return which parts the page has no place for."""
    content = page.read_bytes().decode("utf-8")
    return [
        name
        for name in names
        if not re.search(".*?".join(map(re.escape, markers(name))), content, re.DOTALL)
    ]


def markers(name: str) -> tuple[str, str]:
    """Return what stands before and behind a part."""
    return f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
