"""Which engine does the work is named, and can be asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
from engines import native_only

import bpetite

SAY = "import bpetite; print(bpetite.engine)"

WITHOUT_CORE = f"import sys; sys.modules['bpetite._native'] = None; {SAY}"
"""What `SAY` is where the core was not built."""

BEST = "native" if find_spec("bpetite._native") else "python"

MUST_BE = "BPETITE_ENGINE must be native or python, got {!r}"

MISSING = (
    "BPETITE_ENGINE asks for native, which this installation is without: install bpetite again "
    "where Rust is, with BPETITE_NATIVE=require, or ask for python"
)


def run(wanted: str | None, program: str = SAY, **variables: str) -> tuple[int, str]:
    """Return the exit code of a program and the last line that it wrote."""
    environment = {**os.environ, **variables}
    environment.pop("BPETITE_ENGINE", None)
    if wanted is not None:
        environment["BPETITE_ENGINE"] = wanted
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, encoding="utf-8"
    )
    return done.returncode, (done.stdout or done.stderr).splitlines()[-1]


def test_the_engine_is_the_one_that_was_asked_for() -> None:
    assert bpetite.engine == (os.environ.get("BPETITE_ENGINE") or BEST)


@pytest.mark.parametrize(
    ("wanted", "engine"), [(None, BEST), ("", BEST), ("python", "python"), (BEST, BEST)]
)
def test_the_native_engine_is_taken_where_it_is_unless_another_is_asked_for(
    wanted: str | None, engine: str
) -> None:
    assert run(wanted) == (0, engine)


@pytest.mark.parametrize("wanted", ["Python", "Native", "rust", " ", "python,native"])
@pytest.mark.parametrize("program", [SAY, WITHOUT_CORE], ids=["here", "without the core"])
def test_an_engine_that_there_is_not_is_an_error(wanted: str, program: str) -> None:
    assert run(wanted, program) == (1, f"ImportError: {MUST_BE.format(wanted)}")


@pytest.mark.parametrize("wanted", [None, "", "python"])
def test_python_does_the_work_where_the_core_was_not_built(wanted: str | None) -> None:
    assert run(wanted, WITHOUT_CORE) == (0, "python")


def test_to_ask_for_native_where_it_was_not_built_is_an_error() -> None:
    assert run("native", WITHOUT_CORE) == (1, f"ImportError: {MISSING}")


def test_a_core_that_cannot_be_loaded_is_told_rather_than_passed_over() -> None:
    broken = (
        "import sys; from importlib.abc import MetaPathFinder\n"
        "class Broken(MetaPathFinder):\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'bpetite._native': raise ImportError('an undefined symbol')\n"
        f"sys.meta_path.insert(0, Broken())\n{SAY}"
    )
    assert run(None, broken) == (1, "ImportError: an undefined symbol")


SAY_SIMD = "import bpetite._native; print(bpetite._native.simd())"


@native_only
@pytest.mark.parametrize("simd", ["AVX2", "avx-512", "sse", " ", "avx2,scalar", "none"])
def test_instructions_that_there_are_not_are_an_error(simd: str) -> None:
    message = f"BPETITE_SIMD must be one of avx512, avx2, neon, scalar, got {simd!r}"
    assert run("native", BPETITE_SIMD=simd) == (1, f"ImportError: {message}")


@native_only
def test_instructions_that_the_processor_lacks_are_passed_over() -> None:
    """No processor has those of both kinds."""
    best = run("native", SAY_SIMD, BPETITE_SIMD="")
    used = {name: run("native", SAY_SIMD, BPETITE_SIMD=name) for name in ("avx512", "avx2", "neon")}
    assert best in used.values() or best == (0, "scalar")
    assert all(said in ((0, name), best) for name, said in used.items())
    assert run("native", SAY_SIMD, BPETITE_SIMD="scalar") == (0, "scalar")


@pytest.mark.parametrize(("wanted", "program"), [("python", SAY), (None, WITHOUT_CORE)])
def test_without_the_core_nobody_asks_which_instructions_it_would_use(
    wanted: str | None, program: str
) -> None:
    assert run(wanted, program, BPETITE_SIMD="sse") == (0, "python")
