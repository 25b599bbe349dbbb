"""The public names match docs/public-names.txt."""

from __future__ import annotations

import importlib
import inspect
import pydoc
import re
from pathlib import Path
from typing import Any

import griffe
import pytest
from support import ROOT
from support.engines import quick_once
from tools import public_names
from tools.public_names import MODULES, TYPES, Name

import bpetite

pytestmark = quick_once

PACKAGE = public_names.load(Path(bpetite.__file__).parents[1])

NAMES = public_names.public_names(PACKAGE)

OPTIONS = [name.object.name for name in NAMES if name.kind == "option"]

CALLABLE = [
    name for name in NAMES if name.module != TYPES and isinstance(name.object, griffe.Function)
]


def imported(name: Name) -> Any:
    """Return the object that Python imports for a public name."""
    found: Any = importlib.import_module(name.module)
    for attribute in name.path.removeprefix(name.module).split(".")[1:]:
        found = getattr(found, attribute)
    return found


def test_public_names_match_the_listing() -> None:
    """After an intended change, run scripts/tools/public_names.py; design.md has the policy."""
    listing = (ROOT / "docs" / "public-names.txt").read_text("utf-8")
    assert public_names.listing(PACKAGE).splitlines() == listing.splitlines()


@pytest.mark.parametrize("module", MODULES)
def test_modules_export_the_listed_names(module: str) -> None:
    names = {name.path.removeprefix(f"{module}.") for name in NAMES if name.module == module}
    exported = importlib.import_module(module).__all__
    assert {name for name in names if "." not in name} == {*exported}


def test_parameters_are_the_listed_ones() -> None:
    """Both engines take the same arguments, whatever implements a method."""
    differences = {}
    for name in CALLABLE:
        assert isinstance(name.object, griffe.Function)
        listed = [each.name for each in name.object.parameters]
        if "options" in listed:
            listed = [*listed[:-1], *OPTIONS]
        is_bound = name.kind in ("classmethod", "constructor")
        found = [*inspect.signature(imported(name)).parameters]
        if sorted(found) != sorted(listed[is_bound:]):
            differences[name.path] = (found, listed)
    assert differences == {}
    assert len(CALLABLE) > 90


def test_classes_have_no_member_that_is_unlisted() -> None:
    listed = {name.path for name in NAMES} | public_names.FOR_OTHER_MODULES
    unlisted = []
    for name in NAMES:
        if name.kind == "class" and name.module != TYPES:
            members = {
                f"{name.path}.{each}"
                for base in imported(name).__mro__
                if base.__module__.partition(".")[0] == "bpetite"
                for each in [*vars(base), *getattr(base, "__annotations__", ())]
                if not each.startswith("_")
            }
            unlisted += sorted(members - listed)
    assert unlisted == []


def test_the_help_of_tokenizer_names_each_member_by_its_task() -> None:
    members = {name for name in dir(bpetite.Tokenizer) if not name.startswith("_")}
    assert bpetite.Tokenizer.__doc__ is not None
    named = {*re.findall(r"`(\w+)`", bpetite.Tokenizer.__doc__)}
    assert (named, len(members) <= 43) == (members, True)


def test_help_begins_with_what_users_call() -> None:
    shown = pydoc.plain(pydoc.render_doc(bpetite.Tokenizer))
    assert re.findall(r"^ \|  (\w+)\(", shown, re.M)[:3] == ["Tokenizer", "chunks", "count"]


@pytest.mark.parametrize("method", ["decode_stream", "stream", "astream"])
def test_signatures_with_stream_options_show_types_alike(method: str) -> None:
    parameters = inspect.signature(getattr(bpetite.Tokenizer, method)).parameters.values()
    assert [each.name for each in parameters if isinstance(each.annotation, str)] == []


def test_a_stream_has_20_members() -> None:
    members = [name for name in dir(bpetite.DecodeStream) if not name.startswith("_")]
    assert len(members) <= 20
