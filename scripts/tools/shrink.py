"""Shrink an input that shows a fault."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def shrunk(whole: Any, is_wrong: Callable[[Any], bool], max_tries: float = math.inf) -> Any:
    """Remove ever smaller slices of a sequence while it stays wrong.

    >>> shrunk("abcdefgh", lambda text: "c" in text and "g" in text)
    'cg'
    """
    size = len(whole) // 2
    while size:
        start = 0
        while start < len(whole) and max_tries > 0:
            max_tries -= 1
            less = whole[:start] + whole[start + size :]
            if is_wrong(less):
                whole = less
            else:
                start += size
        size //= 2
    return whole
