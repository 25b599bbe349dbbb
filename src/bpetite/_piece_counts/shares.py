"""Shares of a mixture as whole weights."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from math import lcm

Share = str | float | Decimal | Fraction

_SCALE = 1 << 16
"""The smallest weight if there are no exact ones, so shares are right to one part in 131,072."""


def exact_share(share: Share) -> Fraction:
    """Return a share as the fraction that its digits say. Raises ValueError unless 0 < share < 1.

    >>> exact_share(0.3)
    Fraction(3, 10)
    """
    try:
        fraction = Fraction(str(share))
    except (ValueError, ZeroDivisionError):
        fraction = Fraction(0)
    if not 0 < fraction < 1:
        raise ValueError(f"a share must be above 0 and below 1, such as 0.3 or 1/3, got {share}")
    return fraction


def share_weights(sizes: Sequence[int], shares: Sequence[Share | None]) -> list[int]:
    """Return how often to take texts of these sizes, so that they have these shares of the whole.

    Texts without a share divide the rest by their sizes. The weights are exact if the smallest can
    be at most 65,536; otherwise it is 65,536, and the others are rounded.

    >>> share_weights([100, 300, 300], [0.4, None, None])
    [4, 1, 1]
    >>> share_weights([1_000_003, 900_001], [0.5, 0.5])
    [65536, 72818]

    Raises ValueError for shares that do not add up to 1, or leave nothing for the others, for an
    empty text, without a text, and unless each text has a share.
    """
    if not sizes or len(shares) != len(sizes):
        raise ValueError(
            f"a mixture needs texts and a share for each, got {len(sizes)} and {len(shares)}"
        )
    exact = [None if share is None else exact_share(share) for share in shares]
    total = sum((share for share in exact if share is not None), Fraction(0))
    rest = sum(size for size, share in zip(sizes, exact, strict=True) if share is None)
    if min(sizes) == 0:
        raise ValueError("a text of a mixture is empty, so it cannot have a share")
    if (total != 1) if rest == 0 else (total >= 1):
        must = "less than 1, since other texts divide the rest" if rest else "1"
        raise ValueError(f"shares must add up to {must}, got {total}")
    ratios = [
        (1 - total) / rest if share is None else share / size
        for size, share in zip(sizes, exact, strict=True)
    ]
    smallest = min(ratios)
    factors = [ratio / smallest for ratio in ratios]
    scale = min(lcm(*(factor.denominator for factor in factors)), _SCALE)
    return [int(factor * scale + Fraction(1, 2)) for factor in factors]
