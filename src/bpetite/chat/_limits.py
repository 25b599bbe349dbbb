"""The limits of a rendering: a template is a stranger's program."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from time import monotonic
from typing import Any

from jinja2.exceptions import SecurityError

_STRING_COST = 64
"""The cost of a string in addition to its characters, so that many short ones are bounded too."""

_MADE_PER_OUTPUT = 32
"""All strings of a rendering together may have this many times `Limits.characters`."""

_CLOCK_STEPS = 256  # the steps between two looks at the clock

_LONG = 1 << 16  # the length of a string after which the clock is looked at

_MAX_INTEGER_BITS = 1 << 14  # the most bits of a product or a power: what Python can still print


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one rendering may use before it fails.

    `turns` bounds turns of loops and calls. `characters` bounds the output and any other string,
    and all strings of a rendering together may have 32 times as many. `seconds` is checked between
    operations, each of which takes some milliseconds at most.

    >>> Limits(seconds=1)
    Limits(turns=1000000, characters=16777216, seconds=1)
    """

    turns: int = 1_000_000
    characters: int = 1 << 24
    seconds: float = 10.0


class LimitError(SecurityError):
    """A template exceeds its limits. Jinja's own code does not catch a `SecurityError`."""


class Work:
    """What a rendering has used so far."""

    __slots__ = ("_deadline", "_made", "_most", "_steps", "_turns", "limits")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._deadline = monotonic() + limits.seconds
        self._turns = self._made = self._steps = 0
        self._most = limits.characters * _MADE_PER_OUTPUT

    def turn(self) -> None:
        """Count a turn of a loop, or a call."""
        self._turns += 1
        if self._turns > self.limits.turns:
            raise LimitError(f"the template takes more than {self.limits.turns:,} turns and calls")
        if not self._turns % _CLOCK_STEPS:
            self._look_at_clock()

    def check(self, characters: int) -> None:
        """Refuse a string, or a list of as many items, before it is made."""
        if characters > self.limits.characters:
            most = self.limits.characters
            raise LimitError(f"the template makes a value of more than {most:,} characters")

    def make(self, characters: int) -> None:
        """Count a new string, or a list of as many items."""
        self.check(characters)
        self._made += characters + _STRING_COST
        if self._made > self._most:
            raise LimitError(f"the template makes more than {self._most:,} characters in all")
        self._steps += 1
        if characters > _LONG or not self._steps % _CLOCK_STEPS:
            self._look_at_clock()

    def _look_at_clock(self) -> None:
        if monotonic() > self._deadline:
            raise LimitError(f"the template takes more than {self.limits.seconds:g} s")


_UNBOUNDED = Work(Limits(turns=1 << 62, characters=1 << 55, seconds=float("inf")))

WORK: ContextVar[Work] = ContextVar("WORK", default=_UNBOUNDED)
"""The work of the rendering that runs; without one, nothing is bounded."""


def check_product(left: Any, right: Any) -> None:
    """Refuse `left * right` if the result is too long."""
    for one, other in ((left, right), (right, left)):
        if isinstance(other, int):
            if isinstance(one, int):
                _check_bits(one.bit_length() + other.bit_length())
                return
            if hasattr(one, "__len__"):
                WORK.get().check(len(one) * other)


def check_power(base: Any, exponent: Any) -> None:
    """Refuse `base ** exponent` if the result is too long."""
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0:
        _check_bits(base.bit_length() * exponent)


def _check_bits(bits: int) -> None:
    if bits > _MAX_INTEGER_BITS:
        raise LimitError(f"the template makes a number of more than {_MAX_INTEGER_BITS:,} bits")
