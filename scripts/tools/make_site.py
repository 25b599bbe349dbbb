"""Build the documentation site in build/site, without a network: `scripts/docs` runs this.

The pages are README.md, docs/ and others, and a reference from the docstrings. Any warning is an
error, and so is a resource of another server.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import griffe

from tools import public_names
from tools.public_names import MODULES, ROOT, TYPES, Name
from tools.site_docstrings import CODE, link_targets

PAGES = ROOT / "build" / "pages"
SITE = ROOT / "build" / "site"

NEW_NAMES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "LICENSE": "license.txt",
    "docs/README.md": "documents.md",
}
"""Where the site has files that are not in docs, or have another name."""

REFERENCE = {
    "tokenizers": ("Tokenizers", ["Tokenizer", "Trusted", "Chunk", "TrainingProgress"]),
    "streams": (
        "Streams",
        [
            *("DecodeStream", "EncodeStream", "StreamEvent", "TokenText", "Tag", "Snapshot"),
            *("DecodeStreamBatch", "StreamVocabulary"),
            *("DecodeStreamError", "DecodeStreamBatchError"),
        ],
    ),
    "piece-counts": ("Piece counts", ["PieceCounts", "PieceCountsHeader"]),
    "values": (
        "Constants and warnings",
        ["ERRORS", "PATTERNS", "engine", "__version__", "CorpusWarning", "SlowEngineWarning"],
    ),
}
"""The pages on names of the module bpetite: title and names. Any other module has one page."""

CSS = """\
/* Boxes are drawn with characters, which touch only without a gap between lines. */
.md-typeset pre > code { line-height: 1.25; }
.doc-label-module-attribute, .doc-label-class-attribute, .doc-label-instance-attribute {
  display: none; }
.md-grid { max-width: 70rem; }
.md-typeset td:first-child code { word-break: normal; overflow-wrap: normal; }
.doc-contents { margin-left: .2rem; padding-left: .9rem;
  border-left: .05rem solid var(--md-default-fg-color--lightest); }
h3.doc-heading, h2.doc-heading { font-family: var(--md-code-font-family, monospace); }
"""

FENCE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\[\]]*)\]\(([^)#\s:]+)((?:#[^)]*)?)\)")
RESOURCE = re.compile(
    r"<(?:script|img|iframe|source|video|audio|object|embed)\b[^>]*?\b(?:src|data)=\"?((?:https?:)?//[^\s\">]+)"
    r"|<link\b(?=[^>]*\brel=\"?(?:stylesheet|preload|preconnect|icon|modulepreload))"
    r"[^>]*?\bhref=\"?((?:https?:)?//[^\s\">]+)"
    r"|(?:url\(|@import )[\"']?((?:https?:)?//[^\s\"')]+)"
)
"""An address that a browser loads without a click."""


def write_pages() -> None:
    """Write the folder of pages anew."""
    shutil.rmtree(PAGES, ignore_errors=True)
    (PAGES / "reference").mkdir(parents=True)
    names = public_names.public_names(public_names.load(ROOT / "src"))
    targets = link_targets(names)
    files = {ROOT / old: new for old, new in NEW_NAMES.items()}
    for path in sorted((ROOT / "docs").iterdir()):
        files.setdefault(path, path.name)
    for path, new in files.items():
        if path.suffix == ".md":
            text = with_new_links(path.read_text("utf-8"), path, files)
            write(new, with_names_linked(with_prompts(text), targets))
        else:
            shutil.copy(path, PAGES / new)
    for name, text in reference(names):
        write(f"reference/{name}.md", text)
    write("site.css", CSS)


def write(name: str, text: str) -> None:
    """Write a file of the folder of pages."""
    (PAGES / name).write_text(text, encoding="utf-8", newline="\n")


def with_new_links(text: str, page: Path, files: Mapping[Path, str]) -> str:
    """Return a page whose links lead to the files of the site, and are titles, not file names.

    Exits if the site lacks a file.
    """

    def new(found: re.Match[str]) -> str:
        text, path, anchor = found.groups()
        target = (page.parent / path).resolve()
        if target not in files:
            sys.exit(f"bpetite: {page} has a link to {path}, which the site does not have")
        if target.suffix == ".md" and Path(text).name == target.name:
            text = target.read_text("utf-8").partition("\n")[0].removeprefix("# ")
        return f"[{text}]({files[target]}{anchor})"

    return LINK.sub(new, text)


def with_prompts(text: str) -> str:
    """Return a page whose fences with `>>>` are marked as sessions of Python."""
    return re.sub(r"^```python\n(?=>>> )", "```pycon\n", text, flags=re.MULTILINE)


def with_names_linked(text: str, targets: Mapping[str, str]) -> str:
    """Return a page in which the first mention of each public name links to the reference.

    Only `Class.member` and names of a module count, since a bare name may be an argument.
    """
    seen: set[str] = set()

    def link(found: re.Match[str]) -> str:
        path = targets.get(found[1])
        is_clear = "." in found[1] or found[1][:1].isupper()
        if path is None or path in seen or not is_clear:
            return found[0]
        seen.add(path)
        return f"[{found[0]}][{path}]"

    lines = outside_fences(text)
    return "".join(
        each if is_code or each.startswith("#") else CODE.sub(link, each) for is_code, each in lines
    )


def outside_fences(text: str) -> Iterator[tuple[bool, str]]:
    """Yield a page in fences and in lines outside, each with whether it is a fence."""
    end = 0
    for fence in FENCE.finditer(text):
        yield from ((False, line) for line in text[end : fence.start()].splitlines(keepends=True))
        yield True, fence[0]
        end = fence.end()
    yield from ((False, line) for line in text[end:].splitlines(keepends=True))


def reference(names: list[Name]) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each page of the reference. Each public name is on one."""
    tops = [name for name in names if is_top(name)]
    paged = {f"bpetite.{each}" for _, short in REFERENCE.values() for each in short}
    expected = {name.path for name in tops if name.module == "bpetite"}
    if paged != expected:
        sys.exit(f"bpetite: REFERENCE and the public names differ by {sorted(paged ^ expected)}")
    yield "index", overview(tops)
    for page, (title, short_names) in REFERENCE.items():
        entries = [entry(f"bpetite.{each}", names) for each in short_names]
        yield page, "\n".join([f"# {title}\n", *entries])
    for module in MODULES[1:]:
        listed = [name for name in tops if name.module == module]
        # Functions first: they return the objects of most classes.
        paths = [name.path for name in sorted(listed, key=lambda name: name.kind != "function")]
        head = f"# {module}\n\n::: {module}\n    options:\n      members: []\n"
        head += "      show_root_heading: false\n      show_root_toc_entry: false\n"
        yield module.rpartition(".")[2], "\n".join([head, *(entry(path, names) for path in paths)])
    types = [name for name in names if name.module == TYPES and is_type(name)]
    begin = "# Types\n\nSignatures name these types. Callers need not import them.\n"
    yield "types", "\n".join([begin, *(entry(name.path, names) for name in types)])


def is_top(name: Name) -> bool:
    """Whether a name is one of a module, no member and no constructor."""
    is_in_module = name.path.rpartition(".")[0] == name.module
    return is_in_module and name.kind != "constructor"


def is_type(name: Name) -> bool:
    """Whether a name is a type, no member of one."""
    return name.kind in ("type", "class")


def overview(tops: list[Name]) -> str:
    """Return the page with all names, and the first sentence about each."""
    lines = [
        "# All names\n",
        "[public-names.txt](../public-names.txt) lists every member with its signature.",
        "[Design](../design.md#stability) says how a name may change.",
    ]
    for module in MODULES:
        lines += [f"\n## {module}\n", "| name | purpose |", "|---|---|"]
        for name in tops:
            if name.module == module:
                text = name.object.docstring.value if name.object.docstring else ""
                first = " ".join(re.split(r"(?<=\.)\s|\n\n", text)[0].split())
                short = name.path.removeprefix(f"{module}.")
                lines.append(f"| [`{short}`][{name.path}] | {first.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def entry(path: str, names: list[Name]) -> str:
    """Return the directive that shows a name with its public members, and nothing else."""
    found = next(name.object for name in names if name.path == path)
    members = [
        name
        for name in names
        if name.path.startswith(f"{path}.") or (name.path == path and name.kind == "constructor")
    ]
    # In the order of the source, inherited ones last.
    members.sort(key=lambda name: (name.object.parent is not found, name.object.lineno or 0))
    bases = map(str, found.bases) if isinstance(found, griffe.Class) else ()
    options = {
        "members": [name.object.name for name in members],
        "filters": [],
        # Of the others, a reader learns nothing.
        "show_bases": {"MakesStreams", "Protocol", "TypedDict", "Generic[K]"}.isdisjoint(bases),
    }
    lines = [f"      {key}: {json.dumps(value)}\n" for key, value in options.items()]
    return f"::: {path}\n    options:\n{''.join(lines)}"


def foreign_resources() -> list[str]:
    """Return the addresses that a page of the site would load from another server."""
    return [
        f"{path.relative_to(SITE)}: {''.join(found.groups(''))}"
        for path in sorted(SITE.rglob("*"))
        if path.suffix in (".html", ".css", ".svg")
        for found in RESOURCE.finditer(path.read_text("utf-8"))
    ]


def main() -> None:
    """Write the pages and build the site."""
    write_pages()
    shutil.rmtree(SITE, ignore_errors=True)
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    code = subprocess.run([*command, "--config-file", "mkdocs.yml"], cwd=ROOT).returncode
    if code:
        sys.exit(code)
    if found := foreign_resources():
        sys.exit("bpetite: the site needs other servers:\n" + "\n".join(found))
    print(f"bpetite: open {SITE / 'index.html'}")


if __name__ == "__main__":
    main()
