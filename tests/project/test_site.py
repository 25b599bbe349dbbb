"""The pages of the site: the navigation has each document, and links lead to pages of the site."""

from __future__ import annotations

import re

import pytest
from support import ROOT
from support.engines import once
from tools import make_site, public_names
from tools.make_site import NEW_NAMES, RESOURCE
from tools.site_docstrings import fenced, link_targets, linked

pytestmark = once

NAVIGATION = (
    (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2].partition("\ntheme:\n")[0]
)

NAMES = public_names.public_names(public_names.load(ROOT / "src"))


def test_navigation_has_each_page_once() -> None:
    pages = {NEW_NAMES.get(f"docs/{path.name}", path.name) for path in ROOT.glob("docs/*.md")}
    pages |= {new for new in NEW_NAMES.values() if new.endswith(".md")}
    pages |= {f"reference/{name}.md" for name, _ in make_site.reference(NAMES)}
    assert sorted(re.findall(r": (\S+\.md)$", NAVIGATION, re.MULTILINE)) == sorted(pages)


def test_reference_has_each_public_name_once() -> None:
    directives = re.findall(
        r"^::: (\S+)$", "\n".join(text for _, text in make_site.reference(NAMES)), re.MULTILINE
    )
    expected = {name.path for name in NAMES if make_site.is_top(name) or make_site.is_type(name)}
    assert sorted(directives) == sorted({*expected, *public_names.MODULES[1:]})


def test_links_lead_to_the_files_of_the_site() -> None:
    files = {ROOT / "docs" / "a.md": "a.md", ROOT / "README.md": "index.md"}
    text = "[b](a.md#c) ![d](a.md) [e](#f) [g](https://example.org) [h](../README.md)"
    expected = text.replace("../README.md", "index.md")
    assert make_site.with_new_links(text, ROOT / "docs" / "x.md", files) == expected
    with pytest.raises(SystemExit, match=r"a link to missing\.md"):
        make_site.with_new_links("[b](missing.md)", ROOT / "docs" / "x.md", files)


def test_links_with_names_of_files_become_titles() -> None:
    files = {ROOT / "docs" / "training.md": "training.md"}
    text = "[docs/training.md](docs/training.md#a)"
    found = make_site.with_new_links(text, ROOT / "README.md", files)
    title = (ROOT / "docs" / "training.md").read_text("utf-8").partition("\n")[0]
    assert found == f"[{title.removeprefix('# ')}](training.md#a)"


def test_examples_are_fenced() -> None:
    text = "Add.\n\n>>> 1 + 1\n2\n>>> for each in [3]:\n...     each\n3\n\nRaises nothing."
    expected = "Add.\n\n```pycon\n>>> 1 + 1\n2\n>>> for each in [3]:\n...     each\n3\n```\n"
    assert fenced(text) == f"{expected}\nRaises nothing.\n"


def test_names_in_docstrings_become_links() -> None:
    targets = link_targets(NAMES)
    encode = next(name for name in NAMES if name.path == "bpetite.Tokenizer.encode")
    text = "`encode_parts` and `Corpus`, `text`, `encode`\n```\n`Corpus`\n```\n"
    assert linked(text, encode, targets) == text.replace(
        "`encode_parts` and `Corpus`",
        "[`encode_parts`][bpetite.Tokenizer.encode_parts] and [`Corpus`][bpetite.corpora.Corpus]",
    )


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ('<script src="https://example.org/a.js"></script>', True),
        ('<link href="https://example.org/a.css" rel="stylesheet">', True),
        ("@import '//example.org/a.css'", True),
        ("url(https://example.org/font.woff2)", True),
        ("<img src=//example.org/a.png>", True),
        ('<a href="https://example.org">', False),
        ('<script src="assets/a.js"></script>', False),
        ('<link rel="canonical" href="https://example.org">', False),
    ],
)
def test_resources_of_other_servers_are_found(text: str, is_found: bool) -> None:
    assert bool(RESOURCE.search(text)) == is_found
