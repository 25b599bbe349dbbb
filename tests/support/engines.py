"""Marks for tests of one engine."""

from __future__ import annotations

import sysconfig

import pytest

import bpetite

python_only = pytest.mark.skipif(
    bpetite.engine != "python", reason="tests internals of the Python engine"
)
"""For tests that read or change internals; both engines run the tests of results."""

once = pytest.mark.once
"""For tests of pages, types, names, files, normal forms and patterns, which no engine changes."""

quick_once = pytest.mark.quick_once
"""For tests of code above the engines: commands, files and corpora."""

glibc_memory_only = pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    reason="free-threaded Python has an allocator of its own",
)
"""For tests of the memory that a process takes."""

native_only = pytest.mark.skipif(
    bpetite.engine != "native", reason="tests internals of the native engine"
)
