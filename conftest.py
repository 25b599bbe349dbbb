"""Fixtures and hooks of all tests: test ids name the engine, examples run in temporary folders."""

from __future__ import annotations

import contextlib
import gc
import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies

import bpetite

settings.register_profile("fast", max_examples=40, deadline=None, derandomize=True)
# scripts/test core takes it, for a quick answer.
settings.register_profile("core", max_examples=20, deadline=None, derandomize=True)
# scripts/test --all takes it. What must pass before a change lands gives the same result each time.
settings.register_profile("all", max_examples=300, deadline=None, derandomize=True)
settings.register_profile("random", max_examples=300, deadline=None)
settings.load_profile("fast")

ENGINE = "engine_of_the_run"

collect_ignore = ["docs/server.py"]  # it imports a model, which only its test has

LIBRARIES = ("duckdb", "polars", "pyarrow")
"""Libraries of examples that have no wheels for some Pythons and machines."""


def pytest_configure(config: pytest.Config) -> None:
    """Add the examples of the imported package, wherever it is installed.

    A fixed path to the source would import each module twice beside an installed wheel.
    """
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        config.args.append(str(Path(bpetite.__file__).parent))


def pytest_report_header() -> str:
    """Name the engine before the tests begin."""
    return f"bpetite {bpetite.__version__}, {bpetite.engine} engine"


def pytest_collection_finish() -> None:
    """Keep the garbage collector from the collected tests, which would cost a tenth of a run."""
    _do_nothing()  # Hypothesis registers its random numbers, and warns if they are frozen before
    gc.freeze()


@given(strategies.none())
def _do_nothing(_: None) -> None:
    """Accept an example."""


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Append the engine to each test id, as the last parameter."""
    metafunc.fixturenames.append(ENGINE)
    metafunc.parametrize(ENGINE, [bpetite.engine], scope="session")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Append the engine to the id of each example, since examples have no parameters.

    A quick run tests them with the Python engine alone.
    """
    report = yield
    report.result = [
        _with_engine(node) if isinstance(node, pytest.DoctestItem) else node
        for node in report.result or ()
    ]
    return report


def _with_engine(item: pytest.DoctestItem) -> pytest.DoctestItem:
    parent: Any = item.parent
    name = f"{item.name}[{bpetite.engine}]"
    named = type(item).from_parent(parent, name=name, runner=item.runner, dtest=item.dtest)
    if bpetite.engine == "native":
        named.add_marker("once")
        named.add_marker("example")
    return named


@pytest.fixture(autouse=True)
def _temporary_folder(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run each example in a temporary folder, since examples write files."""
    # Only examples ask for the folder: making one takes as long as a small test.
    if isinstance(request.node, pytest.DoctestItem):
        for name in LIBRARIES:
            if any(re.search(rf"\b{name}\b", each.source) for each in request.node.dtest.examples):
                pytest.importorskip(name)
        with contextlib.chdir(request.getfixturevalue("tmp_path")):
            yield
    else:
        yield
