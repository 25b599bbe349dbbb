"""The programs of docs/clusters.md are short and follow the project's style."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import ROOT
from support.engines import once
from support.pages import faults_of
from support.recipes import RECIPES

pytestmark = once

MAX_LINES = 30


def test_the_page_has_programs() -> None:
    page = (ROOT / "docs" / "clusters.md").read_text("utf-8")
    assert len(RECIPES) == page.count("```python\n#") + page.count("```bash\n") >= 5


@pytest.mark.parametrize("name", RECIPES)
def test_a_program_is_short(name: str) -> None:
    assert len(RECIPES[name].splitlines()) <= MAX_LINES


def test_ruff_accepts_the_programs(tmp_path: Path) -> None:
    assert faults_of(RECIPES, tmp_path) == ""
