"""What is true of all tests: an id ends with the engine, an example runs in its own folder."""

from __future__ import annotations

from pathlib import Path

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


def pytest_itemcollected(item: pytest.Item) -> None:
    """Put the engine into the id of each example, which can have no parameters."""
    if isinstance(item, pytest.DoctestItem):
        item._nodeid += f"[{bpetite.engine}]"


@pytest.fixture(autouse=True)
def _folder_of_its_own(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Examples write files."""
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.chdir(tmp_path)
