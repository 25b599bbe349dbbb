"""Print the software bill of materials of bpetite, as CycloneDX has it in JSON.

Run it with `python scripts/tools/make_sbom.py`, which needs cargo. It lists the crates in the
native engine and the Python packages that an installation needs. Each build of a wheel with the
native engine puts its own bill into the wheel, as `sboms/bpetite.cdx.json` of its metadata
(PEP 770). Bills of two builds may differ: cargo chooses the versions of indirect crates at a build.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.crates import ROOT, Crate, linked_crates, own_target

NAME = "bpetite.cdx.json"


def bill(version: str) -> str:
    """Return the bill of a version of bpetite for this system and the crates in Cargo.lock.

    Equal sources, tools and files Cargo.lock give equal bytes. So it has no date and no serial
    number, which the format allows. Raises what `linked_crates` raises.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    packages = python_packages(project["dependencies"])
    engine, *crates = linked_crates(own_target())
    purls = {crate.name: purl_of(crate) for crate in crates}
    rust = standard_library()
    root = {
        "type": "library",
        "bom-ref": f"pkg:pypi/bpetite@{version}",
        "name": "bpetite",
        "version": version,
        "licenses": [{"expression": project["license"]}],
        "purl": f"pkg:pypi/bpetite@{version}",
    }
    components = [*packages, *map(crate_component, crates), rust]
    linked = [purls[name] for name in engine.uses]
    direct = [*(each["bom-ref"] for each in packages), *linked, rust["bom-ref"]]
    dependencies = [
        {"ref": root["bom-ref"], "dependsOn": direct},
        *(
            {"ref": purls[crate.name], "dependsOn": [purls[name] for name in crate.uses]}
            for crate in crates
        ),
    ]
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": root},
        "components": components,
        "dependencies": dependencies,
    }
    return json.dumps(document, indent=2) + "\n"


def python_packages(requirements: Iterable[str]) -> list[dict[str, Any]]:
    """Return the components of requirements, whose versions the installer chooses.

    A package may have several requirements, for several Pythons.
    """
    found: dict[str, list[str]] = {}
    for requirement in requirements:
        name = re.match(r"[\w.-]+", requirement)
        assert name
        found.setdefault(name[0], []).append(requirement)
    return [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/{name}",
            "name": name,
            "scope": "required",
            "purl": f"pkg:pypi/{name}",
            "properties": [{"name": "bpetite:requirement", "value": each} for each in its],
        }
        for name, its in found.items()
    ]


def purl_of(crate: Crate) -> str:
    """Return the package URL of a crate."""
    return f"pkg:cargo/{crate.name}@{crate.version}"


def crate_component(crate: Crate) -> dict[str, Any]:
    """Return the component of a crate."""
    return {
        "type": "library",
        "bom-ref": purl_of(crate),
        "name": crate.name,
        "version": crate.version,
        "scope": "required",
        "hashes": [{"alg": "SHA-256", "content": crate.checksum}],
        "licenses": [{"expression": crate.license}],
        "purl": purl_of(crate),
    }


def standard_library() -> dict[str, Any]:
    """Return the component of Rust's standard library, by the version of the compiler."""
    done = subprocess.run(["rustc", "--version"], check=True, capture_output=True, encoding="utf-8")
    version = done.stdout.split()[1]
    return {
        "type": "library",
        "bom-ref": f"pkg:generic/rust-std@{version}",
        "name": "rust-std",
        "version": version,
        "scope": "required",
        "licenses": [{"expression": "MIT OR Apache-2.0"}],
        "purl": f"pkg:generic/rust-std@{version}",
    }


if __name__ == "__main__":
    found = re.search(
        r'__version__ = "(.*)"', (ROOT / "src/bpetite/__init__.py").read_text("utf-8")
    )
    assert found
    print(bill(found[1]), end="")
