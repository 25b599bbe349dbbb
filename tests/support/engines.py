"""Marks for tests of one engine."""

from __future__ import annotations

import pytest

import bpetite

python_only = pytest.mark.skipif(
    bpetite.engine != "python", reason="tests internals of the Python engine"
)
"""For tests that read or change internals; both engines run the tests of results."""

native_only = pytest.mark.skipif(
    bpetite.engine != "native", reason="tests internals of the native engine"
)
