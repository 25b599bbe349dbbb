"""Imports point down: what each part of the package may import, in one ranked list."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from support.engines import once

import bpetite
from bpetite._cli import VERBS

pytestmark = once

PACKAGE = Path(bpetite.__file__).parent

LAYERS = (
    ("_unicode", "_vocabulary", "_progress", "_piece_records", "_lazy"),
    ("_automaton", "_pattern_tree"),
    ("_pretokenizer", "_stages", "_trainer", "_encoder", "_decoder"),
    ("_arguments", "_corpus", "_merge_rules", "_token_parts", "_tracing"),
    ("_engine", "_budget", "_token_tables", "_derived"),
    ("_streaming", "formats"),
    ("_piece_counts",),
    ("_training", "_encoders", "_vocabulary_view"),
    ("_tokenizer",),
    ("__init__",),
    ("tiktoken", "transformers", "chat"),
    ("corpora", "arrow"),
    ("analysis",),
    ("_cli", "_web", "__main__"),
)
"""From the bottom up. A module imports from its own layer and from those below it."""


def test_imports_point_down() -> None:
    upward = [edge for edge in edges() if rank(edge[1]) > rank(edge[0])]
    assert upward == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports for types count too: such modules cannot be understood one after the other."""
    graph: dict[str, set[str]] = {}
    for source, target in edges():
        graph.setdefault(source, set()).add(module_of(target))
    TopologicalSorter({source: found - {source} for source, found in graph.items()}).prepare()


def test_corpora_uses_public_names_and_what_reads_documents() -> None:
    used = {target for source, target in edges() if source.startswith(("corpora", "arrow"))}
    functions = ("_tokenizer.encode_rest", "_tokenizer.splitter_of", "_tokenizer.vocabulary_of")
    allowed = ("corpora", "_arguments", "_corpus", "_engine", "_lazy", "formats", *functions)
    assert {name for name in used if not name.startswith(allowed)} <= {*bpetite.__all__}


def test_chat_uses_public_names_and_what_reads_files() -> None:
    used = {target for source, target in edges() if source.startswith("chat")}
    allowed = ("chat", "formats._files.SourceFile", "formats._files.file_in_folder")
    assert {name for name in used if not name.startswith(allowed)} <= {*bpetite.__all__}


def test_door_uses_public_names_and_what_reads_ranks() -> None:
    used = {target for source, target in edges() if source.startswith("tiktoken")}
    allowed = ("tiktoken", "_arguments.check_threads", "_pretokenizer.Pretokenizer", "formats")
    assert {name for name in used if not name.startswith(allowed)} <= {*bpetite.__all__}


def test_door_for_transformers_uses_public_names_and_formats() -> None:
    used = {target for source, target in edges() if source.startswith("transformers")}
    tables = ("_pretokenizer.Pretokenizer", "_tokenizer.vocabulary_of")
    allowed = ("transformers", "formats", *tables)
    assert {name for name in used if not name.startswith(allowed)} <= {*bpetite.__all__}


def test_analysis_uses_public_names_and_tables() -> None:
    """The trees of tokens need the tables of a vocabulary, and a verifier its libraries."""
    used = {target for source, target in edges() if rank(source) == rank("analysis")}
    allowed = (
        *("analysis", "corpora", "_arguments", "_corpus", "_engine", "_pretokenizer"),
        *("formats", "_unicode.stand_in", "_unicode.data"),
    )
    tables = {"_vocabulary", "_token_parts", "_token_tables", "_tokenizer.vocabulary_of"}
    tables.add("_encoder.first_ids_of")
    others = {name for name in used if not name.startswith((*allowed, *tables))}
    assert others <= {*bpetite.__all__}


def test_packages_on_top_read_no_private_attribute() -> None:
    """A module reads them only of its own classes; `_replace` is public in a named tuple.

    An override calls the method that it overrides, of a class that is no part of this package.
    """
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        if rank(name) <= rank("__init__"):
            continue
        reads = [
            (ast.unparse(node.value), node.attr)
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.Attribute) and re.match("_[^_]", node.attr)
        ]
        own = {attribute for owner, attribute in reads if owner in ("self", "cls", "super()")} | {
            "_replace"
        }
        found += [f"{name}: {owner}.{attr}" for owner, attr in reads if attr not in own]
    assert found == []


def test_contract_of_engines_has_at_most_38_operations() -> None:
    """Each method and property of a Protocol is one."""
    tree = ast.parse(PACKAGE.joinpath("_engine", "contract.py").read_text("utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    assert sum(isinstance(node, ast.FunctionDef) for each in classes for node in each.body) <= 38


@pytest.mark.parametrize(
    "package", ["corpora", "analysis", "bpetite.tiktoken", "transformers", "bpetite.chat"]
)
def test_public_names_load_no_package_on_top(package: str) -> None:
    assert [name for name in loaded_by("from bpetite import *") if package in name] == []


def test_import_of_bpetite_loads_the_choice_of_engine_alone() -> None:
    parts = ("", "._lazy", "._engine", "._engine.choice", "._engine._native")
    loaded = {name for name in loaded_by("import bpetite") if name.startswith("bpetite")}
    assert loaded - {f"bpetite{part}" for part in parts} == set()


def test_tokenizer_loads_nothing_that_few_programs_use() -> None:
    loaded = loaded_by("from bpetite import Tokenizer")
    ours = {name.removeprefix("bpetite.") for name in loaded if name.startswith("bpetite.")}
    rare = ("formats", "_corpus", "_training", "_piece_counts", "_derived", "_merge_rules")
    streams = ("_streaming.encode_stream", "_streaming.extending", "_streaming.prompt")
    assert sorted(name for name in ours if name.startswith((*rare, *streams))) == []
    slow = {"csv", "decimal", "hashlib", "html", "json", "pathlib", "regex", "tempfile"}
    assert loaded & slow == set()


def test_a_run_of_a_verb_loads_no_other_verb_and_no_regex(tmp_path: Path) -> None:
    model = tmp_path / "model.json"
    bpetite.Tokenizer.train("ab ab", 257).save(model)
    arguments = ["count", "--model", str(model), str(model)]
    program = f"from bpetite._cli import main; sys.stdout = open({os.devnull!r}, 'w'); "
    loaded = loaded_by(f"{program} main({arguments}); sys.stdout = sys.__stdout__")
    verbs = {name for name in loaded if name.replace("_", "-").rpartition(".")[2] in VERBS}
    assert {name for name in verbs if name.startswith("bpetite._cli.")} == {"bpetite._cli.count"}
    slow = {
        "csv",
        "multiprocessing",
        "tempfile",
        *(["regex"] if bpetite.engine == "native" else []),
    }
    assert loaded & slow == set()


def loaded_by(program: str) -> set[str]:
    """Return the names of the modules that a new process has after a program."""
    result = subprocess.run(
        [sys.executable, "-c", f"import sys; {program}; print(*sys.modules)"],
        capture_output=True,
        check=True,
        timeout=60,
    )
    return {*result.stdout.decode().split()}


@cache
def edges() -> list[tuple[str, str]]:
    """Return each import of the package as (importing module, imported name)."""
    return [*found_edges()]


def found_edges() -> Iterator[tuple[str, str]]:
    """Yield the edges of all modules."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith("bpetite."):
                package = f"{node.module}."
                imported = [package + alias.name for alias in node.names]
            elif isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            else:
                continue
            for target in imported:
                if target.startswith("bpetite."):
                    yield name, target.removeprefix("bpetite.")


def module_of(name: str) -> str:
    """Return the module that an imported name is, or else the module that has it."""
    while name:
        path = PACKAGE.joinpath(*name.split("."))
        # A stub stands for a compiled module.
        if any(map(Path.exists, (path / "__init__.py", Path(f"{path}.py"), Path(f"{path}.pyi")))):
            return name
        name = name.rpartition(".")[0]
    return "__init__"


def rank(module: str) -> int:
    """Return the layer of a module, by the longest name in LAYERS at the beginning of its name."""
    found = [
        (len(name), number)
        for number, names in enumerate(LAYERS)
        for name in names
        if f"{module}.".startswith(f"{name}.")
    ]
    return max(found)[1] if found else rank("__init__")
