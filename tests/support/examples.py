"""The number of examples and cases of a run; conftest.py has the profiles of hypothesis."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st

few_examples = settings(max_examples=settings().max_examples // 4)
"""For tests with slow examples."""

few_at_first = settings() if settings().max_examples > 100 else few_examples
"""For tests that leave most of their examples to `scripts/test --all`."""

randoms = st.randoms(use_true_random=True)
"""Sources of random choices for input that has too many of them to draw each one."""


def slow_except(cases: Iterable[Any], *quick: Any) -> list[Any]:
    """Return the cases of a parameter, each marked slow unless it is a quick one."""
    every = [*cases]
    missing = [case for case in quick if case not in every]
    if missing or not quick:
        raise ValueError(f"not a case: {missing}; name at least one of {every}")
    return [case if case in quick else pytest.param(case, marks=pytest.mark.slow) for case in every]
