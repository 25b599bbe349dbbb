"""Counts calls, which cost the same on every machine, unlike time."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any


def calls_in(work: Callable[[], object], *events: str) -> int:
    """Return the number of calls in some work: "call" counts Python's functions, "c_call" C's."""
    calls = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in events

    before = sys.getprofile()
    gc.disable()  # a collection calls back its observers, such as hypothesis
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
        gc.enable()
    return calls
