"""Imports between the modules of the native engine have no circles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from support import ROOT
from support.engines import once

pytestmark = once

SOURCE = ROOT / "rust" / "src"

Name = tuple[str, ...]
"""A path from the crate's root on, such as ("encode", "sink", "Sink")."""


def test_rust_modules_import_in_no_circle() -> None:
    assert first_circle({module: imports(module) for module in files()}) == []


def test_circle_of_modules_is_found() -> None:
    assert first_circle({("a",): {("b",)}, ("b",): {("c",)}, ("c",): {("b",)}}) != []


def test_imports_lead_to_the_module_with_the_name() -> None:
    assert ("train", "record") in imports(("train", "counts"))
    assert ("simd", "packed") in imports(("encode", "sink"))  # through `pub use` in simd/mod.rs
    assert ("mem",) not in imports(("encode", "sink"))


def first_circle(graph: dict[Name, set[Name]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return ["::".join(module) for module in error.args[1]]
    return []


@cache
def files() -> dict[Name, str]:
    """Return the code of each module, without its tests."""
    found = {}
    for path in sorted(SOURCE.rglob("*.rs")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        module = parts[:-1] if parts[-1] in ("mod", "lib") else parts
        found[module] = without_tests(path)
    return found


def without_tests(path: Path) -> str:
    code = re.sub(r"//.*", "", path.read_text("utf-8"))
    return re.split(r"#\[cfg\(test\)\]\s*(?:pub )?mod ", code)[0]


def imports(module: Name) -> set[Name]:
    """Return the modules whose names a module uses; a name that it only passes on is not used."""
    code = re.sub(r"\bpub use [^;]*;", "", files()[module])
    names = [name for tree in re.findall(r"\buse ([^;]*);", code) for name in names_in(tree)]
    names += re.findall(r"\b(?:crate|super)(?:::\w+)+", re.sub(r"\buse [^;]*;", "", code))
    return {owner for name in names if (owner := owner_of(module, name))} - {module}


def names_in(tree: str) -> Iterator[str]:
    """Yield the paths of a `use`, which may have groups in braces."""
    tree = " ".join(re.sub(r"\bas \w+", "", tree).split())
    first, brace, rest = tree.partition("{")
    if not brace:
        yield tree
        return
    depth, start = 0, 0
    group = rest.rpartition("}")[0] + ","
    for at, character in enumerate(group):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            if group[start:at].strip():
                yield from (first + name for name in names_in(group[start:at].strip()))
            start = at + 1


def owner_of(module: Name, path: str) -> Name | None:
    """Return the module with the last name of a path; None for another crate's."""
    first, *others = path.replace(" ", "").split("::")
    if first == "crate":
        name: Name = tuple(others)
    elif first == "self":
        name = (*module, *others)
    elif first == "super":
        name = (*module[:-1], *others)
        while "super" in name:
            at = name.index("super")
            name = (*name[: at - 1], *name[at + 1 :])
    elif (*module, first) in files():
        name = (*module, first, *others)
    else:
        return None
    name = tuple(each for each in name if each not in ("self", "*"))
    owner = name
    while owner not in files():
        owner = owner[:-1]
    if owner != name and (passed_on := passed(owner, name[len(owner)])):
        return owner_of(owner, passed_on)
    return owner


def passed(module: Name, name: str) -> str | None:
    """Return the path of a name that a module passes on by `pub use`."""
    for tree in re.findall(r"\bpub use ([^;]*);", files()[module]):
        for path in names_in(tree):
            if path.rpartition("::")[2] == name:
                return path if path.startswith(("crate", "super")) else f"self::{path}"
    return None
