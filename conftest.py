"""What is true of all tests: an id ends with the engine, an example runs in its own folder."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import bpetite

ENGINE = "engine_of_the_run"


def pytest_report_header() -> str:
    """Name the engine before the tests begin."""
    return f"bpetite {bpetite.__version__}, {bpetite.engine} engine"


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Put the engine into the id of each test, as its last parameter."""
    metafunc.fixturenames.append(ENGINE)
    metafunc.parametrize(ENGINE, [bpetite.engine], scope="session")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Put the engine into the id of each example, which can have no parameters."""
    report = yield
    report.result = [
        _with_engine(node) if isinstance(node, pytest.DoctestItem) else node
        for node in report.result or ()
    ]
    return report


def _with_engine(item: pytest.DoctestItem) -> pytest.DoctestItem:
    parent: Any = item.parent
    name = f"{item.name}[{bpetite.engine}]"
    return type(item).from_parent(parent, name=name, runner=item.runner, dtest=item.dtest)


@pytest.fixture(autouse=True)
def _folder_of_its_own(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Examples write files."""
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.chdir(tmp_path)
