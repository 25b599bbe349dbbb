"""A program can choose the engine, and read its name."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest
from support import ROOT
from support.engines import native_only, quick_once

import bpetite
from bpetite._engine.choice import INSTALL_NATIVE, INSTRUCTION_SETS

pytestmark = quick_once  # each test names the engine of the program that it runs

SAY = "import bpetite; print(bpetite.engine)"

SAY_WITHOUT_NATIVE = f"import sys; sys.modules['bpetite._engine._native'] = None; {SAY}"
"""`SAY` without a native engine."""

BEST = "native" if find_spec("bpetite._engine._native") else "python"

MUST_BE = "BPETITE_ENGINE must be native or python, got {!r}"

MISSING = (
    "BPETITE_ENGINE=native, but this installation has no native engine; install Rust "
    "(https://rustup.rs), then run in a clone: pip install --force-reinstall --no-deps ."
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


def test_the_requested_engine_runs() -> None:
    assert bpetite.engine == (os.environ.get("BPETITE_ENGINE") or BEST)


@pytest.mark.parametrize(
    ("wanted", "engine"), [(None, BEST), ("", BEST), ("python", "python"), (BEST, BEST)]
)
def test_the_native_engine_is_the_default_if_it_exists(wanted: str | None, engine: str) -> None:
    assert run(wanted) == (0, engine)


@pytest.mark.parametrize(
    ("wanted", "program"),
    [("Python", SAY), ("Native", SAY_WITHOUT_NATIVE), (" ", SAY), ("python,native", SAY)],
)
def test_an_unknown_engine_is_an_error(wanted: str, program: str) -> None:
    assert run(wanted, program) == (1, f"ImportError: {MUST_BE.format(wanted)}")


@pytest.mark.parametrize("wanted", [None, "", "python"])
def test_python_is_the_default_without_the_native_engine(wanted: str | None) -> None:
    assert run(wanted, SAY_WITHOUT_NATIVE) == (0, "python")


def test_a_missing_native_engine_is_an_error_if_requested() -> None:
    assert run("native", SAY_WITHOUT_NATIVE) == (1, f"ImportError: {MISSING}")


def test_setup_gives_the_same_advice() -> None:
    setup = (ROOT / "setup.py").read_text("utf-8")
    literals = [each for each in ast.walk(ast.parse(setup)) if isinstance(each, ast.Constant)]
    assert INSTALL_NATIVE in [each.value for each in literals]


def test_a_broken_native_engine_is_an_error() -> None:
    broken = (
        "import sys; from importlib.abc import MetaPathFinder\n"
        "class Broken(MetaPathFinder):\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'bpetite._engine._native': raise ImportError('an undefined symbol')\n"
        f"sys.meta_path.insert(0, Broken())\n{SAY}"
    )
    assert run(None, broken) == (1, "ImportError: an undefined symbol")


USE = """
import warnings
from bpetite import Tokenizer
tokenizer = Tokenizer.train("ab " * 100_000, 257)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        tokenizer.encode("ab cd\\n" * 100_000)
        tokenizer.count("ab cd\\n" * 100_000)
print([(each.category.__name__, str(each.message), each.filename) for each in caught])
"""

WITHOUT_NATIVE = "import sys; sys.modules['bpetite._engine._native'] = None\n"

SLOW = (
    "bpetite works with its Python engine, 20 to 40 times slower than the native one; set "
    f"BPETITE_ENGINE=python to silence this, or {INSTALL_NATIVE}"
)


def test_much_work_warns_once_if_native_is_missing() -> None:
    assert run(None, WITHOUT_NATIVE + USE) == (0, str([("SlowEngineWarning", SLOW, "<string>")]))


def test_a_megabyte_of_training_warns_if_native_is_missing() -> None:
    train = "from bpetite import Tokenizer; Tokenizer.train('ab ' * 400_000, 257); print('done')"
    code, line = run(
        None, f"{WITHOUT_NATIVE}import warnings; warnings.simplefilter('error')\n{train}"
    )
    assert (code, line.partition(": ")[2]) == (1, SLOW)


BY_REGEX = """
import warnings
from bpetite import PieceCounts, Tokenizer
tokenizer = Tokenizer.train("ab ", 256, pattern=r"(?<=a)b|[\\s\\S]")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        tokenizer.encode("ab cd\\n" * 100_000)
    PieceCounts.from_corpus("ab cd\\n" * 200_000, pattern=r"(?<=c)d|[\\s\\S]")
print([(each.category.__name__, str(each.message), each.filename) for each in caught])
"""


@native_only
def test_much_work_warns_once_for_each_reason_that_regex_splits() -> None:
    slow = (
        "bpetite splits text by `regex`, 30 to 140 times slower than by the native engine, because "
        "it looks behind"
    )
    assert run(None, BY_REGEX) == (0, str([("SlowEngineWarning", slow, "<string>")]))


@pytest.mark.parametrize("engine", ["python", BEST])
def test_a_requested_engine_never_warns(engine: str) -> None:
    assert run(engine, USE) == (0, "[]")


SAY_SIMD = "import bpetite._engine._native; print(bpetite._engine._native.instruction_set())"


@native_only
@pytest.mark.parametrize("simd", ["AVX2", "avx-512", " "])
def test_an_unknown_instruction_set_is_an_error(simd: str) -> None:
    message = f"BPETITE_SIMD must be one of avx512, avx2, neon, scalar, got {simd!r}"
    assert run("native", BPETITE_SIMD=simd) == (1, f"ImportError: {message}")


@native_only
def test_a_missing_instruction_set_is_ignored() -> None:
    """No processor has both AVX and NEON."""
    best = run("native", SAY_SIMD, BPETITE_SIMD="")
    used = {name: run("native", SAY_SIMD, BPETITE_SIMD=name) for name in ("avx512", "avx2", "neon")}
    assert best in used.values() or best == (0, "scalar")
    assert all(said in ((0, name), best) for name, said in used.items())
    assert run("native", SAY_SIMD, BPETITE_SIMD="scalar") == (0, "scalar")


@pytest.mark.parametrize(("wanted", "program"), [("python", SAY), (None, SAY_WITHOUT_NATIVE)])
def test_the_python_engine_ignores_the_instruction_set(wanted: str | None, program: str) -> None:
    assert run(wanted, program, BPETITE_SIMD="sse") == (0, "python")


@native_only
def test_both_languages_have_the_same_names() -> None:
    native: Any = importlib.import_module("bpetite._engine._native")
    assert tuple(native.INSTRUCTION_SETS) == INSTRUCTION_SETS
    scanned = {*bpetite.PATTERNS, "cl100k_base"} - {"llama3", "words", "qwen3.5", "kimi-k2"}
    assert sorted(native.PATTERNS) == sorted(scanned)
