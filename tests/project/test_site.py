"""The site has each document, and its reference has each public name."""

from __future__ import annotations

import re

from support import ROOT
from support.engines import once
from tools import make_command_line, public_names
from tools.public_names import TYPES

pytestmark = once

MADE = ROOT / "docs" / "command-line.md"
"""`scripts/docs` makes this page."""

PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), MADE]


def test_navigation_has_each_page_once() -> None:
    found = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    assert sorted(found) == sorted(path.relative_to(ROOT).as_posix() for path in PAGES)


def test_command_line_page_has_each_verb() -> None:
    assert make_command_line.PAGE.relative_to(ROOT / "build" / "pages") == MADE.relative_to(ROOT)
    verbs = re.findall(r"^    ([\w-]+)\b", make_command_line.help_of(), re.MULTILINE)
    sections = make_command_line.page().split("\n## ")[1:]
    assert len(sections) == len(verbs) == 14
    assert all(re.match(r"\S+\n\n```sh\nbpetite (.|\n)*\n- `", each) for each in sections)


def test_reference_has_each_public_name_once() -> None:
    """A page names an object, with its members, or a module, with all that it exports."""
    text = "".join(path.read_text("utf-8") for path in ROOT.glob("docs/reference/*.md"))
    found = re.findall(r"^::: (\S+)$", text, re.MULTILINE)
    whole = {path for path in found if path in public_names.MODULES}
    tops = {
        name.path
        for name in public_names.public_names(public_names.load(ROOT / "src"))
        if name.kind in ("class", "function", "value", "type")
        and (name.module == TYPES or name.path.count(".") == name.module.count(".") + 1)
    }
    excluded = set(re.findall(r"!\^\(?([A-Z]\w+)", text))
    covered = {
        name
        for name in tops
        if name.rpartition(".")[0] in whole and name.rpartition(".")[2] not in excluded
    }
    assert sorted(path for path in found if path not in whole) == sorted(tops - covered)
