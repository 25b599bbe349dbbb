"""A release has its links, and a bill of materials."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.metadata import distributions

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from support import ROOT
from support.engines import once, quick_once
from tools import make_sbom, project_links
from tools.crates import RUST, linked_crates, own_target

import bpetite

ADDRESS = "https://example.org/owner/bpetite"

pytestmark = once

needs_cargo = pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not installed")


def test_links_begin_with_the_address() -> None:
    links = project_links.links(f"{ADDRESS}/")
    assert links["Source"] == ADDRESS
    files = [link.partition("/blob/HEAD/")[2] for link in links.values()]
    assert [file for file in files if file and not (ROOT / file).is_file()] == []
    assert project_links.links("") == {}
    with pytest.raises(SystemExit, match="BPETITE_URL must be"):
        project_links.links("owner/bpetite")


def test_links_of_readme_are_absolute() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert project_links.description("") == readme
    links = re.findall(r"\]\(([^)]+)\)", project_links.description(ADDRESS))
    assert f"{ADDRESS}/raw/HEAD/docs/encode-speed.svg" in links
    assert f"{ADDRESS}/blob/HEAD/docs/training.md" in links
    assert [link for link in links if not link.startswith("https://")] == []


@needs_cargo
def test_bill_of_materials_is_valid() -> None:
    bill = make_sbom.bill(bpetite.__version__)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill) is None
    assert bill == make_sbom.bill(bpetite.__version__)


@needs_cargo
def test_crates_are_those_of_the_manifest() -> None:
    command = ["cargo", "tree", "--edges", "normal,no-proc-macro", "--prefix", "none"]
    command += ["--features", "extension-module", "--target", own_target(), "--format", "{p}"]
    tree = subprocess.check_output(command, cwd=RUST, encoding="utf-8")
    engine, *crates = linked_crates(own_target())
    assert {"aho-corasick", "memchr", "pyo3"} <= set(engine.uses)
    named = [line.split()[0] for line in tree.splitlines()]
    assert {each.name for each in (engine, *crates)} == {*named}
    assert [crate for crate in crates if len(crate.checksum) != 64 or not crate.license] == []


@needs_cargo
def test_crates_of_other_targets_are_not_linked() -> None:
    # It has no atomic integers of 64 bits.
    small = {crate.name for crate in linked_crates("powerpc-unknown-linux-gnu")}
    large = {crate.name for crate in linked_crates("x86_64-unknown-linux-gnu")}
    assert small - large == {"portable-atomic"}
    assert {crate.name for crate in linked_crates(None)} >= small | large


@quick_once  # a quick run tests the rest of this module with the Python engine
@pytest.mark.skipif(bpetite.engine != "native", reason="only the native engine has crates")
def test_installation_has_its_bill_of_materials() -> None:
    # A clone has the metadata of a build too, in src.
    texts = [each.read_text(f"sboms/{make_sbom.NAME}") for each in distributions(name="bpetite")]
    bills = [text for text in texts if text and f"pkg:pypi/bpetite@{bpetite.__version__}" in text]
    assert bills
    assert all("pkg:cargo/pyo3@" in bill for bill in bills)
