"""The command line and the page use the public names of bpetite, and nothing below them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import bpetite
import bpetite.analysis
import bpetite.chat
import bpetite.corpora
import bpetite.formats

PACKAGE = Path(bpetite.__file__).parent

PUBLIC = {
    *(f"bpetite.{name}" for name in bpetite.__all__),
    *(f"bpetite.analysis.{name}" for name in bpetite.analysis.__all__),
    *(f"bpetite.chat.{name}" for name in bpetite.chat.__all__),
    *(f"bpetite.corpora.{name}" for name in bpetite.corpora.__all__),
    *(f"bpetite.formats.{name}" for name in bpetite.formats.__all__),
}

UNDERNEATH = {
    "bpetite._arguments.ERRORS",
    "bpetite._corpus.check_document",
    "bpetite._corpus.utf8_fault",
    "bpetite._piece_counts.file.is_counts_file",
    "bpetite._pretokenizer.pattern_end",
    "bpetite.analysis._explain.MAX_PIECE_BYTES",
    "bpetite.analysis._pipeline.pipeline_of",
    "bpetite.analysis._page.MAX_VOCABULARIES",
    "bpetite.analysis._verifier.LIBRARIES",
    "bpetite.corpora._plan.PART_BYTES",
    "bpetite.corpora._storage.public",
    "bpetite.corpora._verify.first_documents",
    "bpetite.formats._files.check_target",
    "bpetite.formats._files.new_file",
    "bpetite.formats._model_names.model_path",
    "bpetite.formats._reference.first_difference",
    "bpetite.formats._systems.file_key",
}
"""What only commands need: bounds and defaults that their help shows, the first documents of a
folder, what else a vocabulary does to texts, and the rules by which all of bpetite writes files,
names them and words their faults."""


def imported(folder: str) -> Iterator[str]:
    """Yield the name of each import from bpetite in a folder of the package."""
    for path in sorted((PACKAGE / folder).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("bpetite"):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize(
    ("folder", "folders"), [("_cli", ("_cli", "_web")), ("_web", ("_web",))], ids=["cli", "web"]
)
def test_only_public_names_are_imported(folder: str, folders: tuple[str, ...]) -> None:
    own = tuple(f"bpetite.{name}." for name in folders)
    names = set(imported(folder))
    assert {name for name in names if not name.startswith(own)} <= PUBLIC | UNDERNEATH
    assert "bpetite.Tokenizer" in names


@pytest.mark.parametrize("folder", ["_cli", "_web"])
def test_no_private_attributes_are_used(folder: str) -> None:
    """Names with an underscore belong to `self`, `_cli` and `_web` alone."""
    private = [
        ast.unparse(node)
        for path in sorted((PACKAGE / folder).glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.endswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    ]
    assert private == []
