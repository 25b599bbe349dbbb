"""A release has its links, the licences of its crates, and a bill of materials."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.metadata import distributions
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from support import ROOT
from support.engines import once, quick_once
from tools import check_release, make_licenses, make_sbom, project_links
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
def test_licences_are_those_of_the_crates() -> None:
    """After a change of the crates, run scripts/tools/make_licenses.py."""
    written = make_licenses.FILE.read_text("utf-8")
    assert make_licenses.third_party_licenses() == written


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


def released(version: str, **changes: Any) -> list[str]:
    """Return the faults of a release whose files are in order, except for changes."""
    files = {
        "src/bpetite/__init__.py": f'__version__ = "{version}"\n',
        "rust/Cargo.toml": f'[package]\nversion = "{version}"\n',
        "CHANGELOG.md": f"# Changelog\n\n## {version} - 2030-01-31\n",
        "README.md": "# bpetite\n",
    }
    return check_release.faults(f"v{version}", {**files, **changes}.__getitem__)


def test_release_in_order_has_no_fault() -> None:
    assert released("1.2.3") == []


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("src/bpetite/__init__.py", '__version__ = "1.2.4"\n'),
        ("rust/Cargo.toml", '[package]\nversion = "1.2.4"\n'),
        ("CHANGELOG.md", "## 1.2.3 - unreleased\n"),
        ("CHANGELOG.md", "## 1.2.4 - 2030-01-31\n"),
        ("README.md", "in a clone: bpetite is not on PyPI\n"),
    ],
)
def test_each_file_of_a_release_is_checked(file: str, text: str) -> None:
    [fault] = released("1.2.3", **{file: text})
    assert fault.startswith(f"{file}: ")


def test_release_check_runs_as_a_command() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "tools" / "check_release.py"), "v0.0.0"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8")
    assert done.returncode == 1
    assert "src/bpetite/__init__.py: " in done.stderr
