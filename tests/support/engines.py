"""Marks for tests of one engine."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

import bpetite

python_only = pytest.mark.skipif(
    bpetite.engine != "python", reason="tests internals of the Python engine"
)
"""For tests that read or change internals; both engines run the tests of results."""

once = pytest.mark.skipif(
    bpetite.engine == "python" and find_spec("bpetite._engine._native") is not None,
    reason="the run of the native engine tests it",
)
"""For tests of what no engine changes: pages, types and names."""

native_only = pytest.mark.skipif(
    bpetite.engine != "native", reason="tests internals of the native engine"
)
