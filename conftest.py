"""Run the examples of documents and docstrings in a folder of their own: some write files."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _folder_of_its_own(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.chdir(tmp_path)
