"""Tests of what only one engine has."""

from __future__ import annotations

import pytest

import bpetite

python_only = pytest.mark.skipif(
    bpetite.engine != "python", reason="looks into the engine that is in Python"
)
"""For tests that look at, or change, what is inside that engine; its results are tested on both."""

native_only = pytest.mark.skipif(
    bpetite.engine != "native", reason="looks into the engine that is native"
)
