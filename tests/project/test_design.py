"""The pictures in docs/design.md are the code: layers and paths."""

from __future__ import annotations

import re
import tomllib
from itertools import chain

import pytest
from support import ROOT
from support.engines import once
from test_layers import LAYERS

pytestmark = once

DESIGN = (ROOT / "docs" / "design.md").read_text("utf-8")

RUST = ROOT / "rust" / "src"


def storeys(heading: str) -> list[list[str]]:
    """Return the names in each storey of the picture below a heading, from the top down."""
    section = DESIGN.partition(f"\n{heading}\n")[2]
    return [row.split() for row in re.findall(r"^│ ([^│]*)│", section.partition("└")[0], re.M)]


def test_picture_has_the_layers() -> None:
    drawn = [
        ["__init__" if name == "bpetite" else name for name in row] for row in storeys("## Layers")
    ]
    assert [set(row) for row in drawn] == [set(layer) for layer in reversed(LAYERS)]


TEST_MODULES = {"conformance", "test_inputs"}


def rust_edges() -> list[tuple[str, str]]:
    """Return each use of one module of the crate by another, tests left out."""
    found = set()
    for path in RUST.rglob("*.rs"):
        module = path.relative_to(RUST).parts[0].removesuffix(".rs")
        if module in TEST_MODULES:
            continue
        code = path.read_text("utf-8").partition("#[cfg(test)]")[0]
        names = re.findall(r"\bcrate::(\w+)", code)
        for group in re.findall(r"\bcrate::\{(.*?)\};", code, re.DOTALL):
            names += re.findall(r"(?:^|,)\s*(\w+)", re.sub(r"\{[^{}]*\}", "", group))
        found |= {(module, name) for name in names if name != module}
    return sorted(found)


def test_rust_picture_has_all_modules() -> None:
    modules = {path.name.removesuffix(".rs") for path in RUST.iterdir()}
    drawn = [name for row in storeys("### Rust") for name in row]
    assert sorted(drawn) == sorted(modules - {"lib", *TEST_MODULES})


def test_rust_imports_point_down() -> None:
    rows = storeys("### Rust")
    depth = {name: number for number, row in enumerate(rows) for name in row}
    assert len(rust_edges()) > 10
    assert [edge for edge in rust_edges() if depth[edge[1]] <= depth[edge[0]]] == []


@pytest.mark.parametrize("path", sorted({*re.findall(r"`([\w/]+(?:/|\.(?:py|rs|toml)))`", DESIGN)}))
def test_paths_exist(path: str) -> None:
    folders = (ROOT, ROOT / "src" / "bpetite", RUST)
    assert any((folder / path).exists() for folder in folders)


def test_dependencies_have_a_reason() -> None:
    """Each package in pyproject.toml and each crate in Cargo.toml is named on the page."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    crates = tomllib.loads((ROOT / "rust" / "Cargo.toml").read_text("utf-8"))["dependencies"]
    packages = chain(project["dependencies"], *project["optional-dependencies"].values())
    names = {re.split(r"[^\w-]", package)[0] for package in packages} | {*crates}
    section = DESIGN.partition("\n## Dependencies\n")[2].partition("\n## ")[0]
    assert sorted(names - {"bpetite", *re.findall(r"`([\w-]+)`", section)}) == []
