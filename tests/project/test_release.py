"""A release has its links."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from support import ROOT
from support.engines import once

ADDRESS = "https://example.org/owner/bpetite"

pytestmark = once


@pytest.fixture
def setup_arguments(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, Any]]:
    """Return a function that returns what setup.py gives to setuptools, by the address."""

    def arguments(address: str) -> dict[str, Any]:
        given: dict[str, Any] = {}
        setuptools: Any = ModuleType("setuptools")
        setuptools.setup = given.update
        monkeypatch.setitem(sys.modules, "setuptools", setuptools)
        monkeypatch.setenv("BPETITE_NATIVE", "never")
        monkeypatch.setenv("BPETITE_URL", address)
        runpy.run_path(str(ROOT / "setup.py"))
        return given

    return arguments


def test_links_begin_with_the_address(setup_arguments: Callable[[str], dict[str, Any]]) -> None:
    links = setup_arguments(f"{ADDRESS}/")["project_urls"]
    assert links["Source"] == ADDRESS
    files = [link.partition("/blob/HEAD/")[2] for link in links.values()]
    assert [file for file in files if file and not (ROOT / file).is_file()] == []
    assert setup_arguments("")["project_urls"] == {}
    with pytest.raises(SystemExit, match="BPETITE_URL must be"):
        setup_arguments("owner/bpetite")


def test_links_of_readme_are_absolute(setup_arguments: Callable[[str], dict[str, Any]]) -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert setup_arguments("")["long_description"] == readme
    found = setup_arguments(ADDRESS)["long_description"]
    links = re.findall(r"\]\(([^)]+)\)", found)
    pictures = re.findall(r' src(?:set)?="([^"]+)"', found)
    assert pictures == [f"{ADDRESS}/raw/HEAD/docs/speed-{kind}.svg" for kind in ("dark", "light")]
    assert f"{ADDRESS}/blob/HEAD/docs/training.md" in links
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
