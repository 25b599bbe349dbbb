"""The crates that are linked into the native engine, by `cargo metadata`."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]

RUST = ROOT / "rust"


class Crate(NamedTuple):
    """A crate, as its author and the registry describe it."""

    name: str
    version: str
    license: str
    """An SPDX expression."""
    folder: Path
    checksum: str
    """The SHA-256 of the archive in the registry."""
    uses: tuple[str, ...]
    """The names of the crates that it links."""


def own_target() -> str:
    """Return the target triple that cargo builds for: CARGO_BUILD_TARGET, or else this machine.

    Raises what `linked_crates` raises.
    """
    if wanted := os.environ.get("CARGO_BUILD_TARGET"):
        return wanted
    done = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, encoding="utf-8")
    [host] = [line[6:] for line in done.stdout.splitlines() if line.startswith("host: ")]
    return host


def linked_crates(target: str | None) -> list[Crate]:
    """Return the engine's own crate, then all others by name.

    `target` is a triple such as x86_64-unknown-linux-gnu. None means all targets. Procedural macros
    and build scripts run at build time and are left out. Raises CalledProcessError if cargo fails,
    and FileNotFoundError if it is missing.
    """
    command = ["cargo", "metadata", "--format-version", "1", "--features", "extension-module"]
    if target is not None:
        command += ["--filter-platform", target]
    done = subprocess.run(command, cwd=RUST, check=True, capture_output=True, encoding="utf-8")
    metadata: dict[str, Any] = json.loads(done.stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    lock = tomllib.loads((RUST / "Cargo.lock").read_text("utf-8"))
    checksums = {(each["name"], each["version"]): each.get("checksum") for each in lock["package"]}

    def uses(id: str) -> list[str]:
        return [
            each["pkg"]
            for each in nodes[id]["deps"]
            if any(kind["kind"] is None for kind in each["dep_kinds"])
            and not is_macro(packages[each["pkg"]])
        ]

    root = metadata["resolve"]["root"]
    found: dict[str, Crate] = {}
    waiting = [root]
    while waiting:
        id = waiting.pop()
        if id not in found:
            package, linked = packages[id], uses(id)
            found[id] = Crate(
                package["name"],
                package["version"],
                # An old spelling of OR.
                (package["license"] or "").replace("/", " OR "),
                Path(package["manifest_path"]).parent,
                checksums[package["name"], package["version"]] or "",
                tuple(sorted(packages[each]["name"] for each in linked)),
            )
            waiting += linked
    return [found.pop(root), *sorted(found.values())]


def is_macro(package: dict[str, Any]) -> bool:
    """Whether a package is procedural macros."""
    return any("proc-macro" in target["kind"] for target in package["targets"])
