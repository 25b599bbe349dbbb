"""Test names are short claims, and test files have the names that pytest and mypy need."""

import ast
from collections import Counter
from itertools import chain

from support import ROOT
from support.engines import once

pytestmark = once

FILES = [*(ROOT / "tests").rglob("test_*.py")]

MAX_CHARACTERS = 60


def test_names_of_tests_are_short() -> None:
    nodes = chain.from_iterable(ast.walk(ast.parse(path.read_bytes())) for path in FILES)
    names = [
        node.name
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    ]
    assert [name for name in names if len(name) > MAX_CHARACTERS] == []
    assert len(names) > 1000


def test_files_have_different_names() -> None:
    """Folders of tests are not packages, so each file is a module of the top level."""
    counts = Counter(path.name for path in FILES)
    assert [name for name, count in counts.items() if count > 1] == []
