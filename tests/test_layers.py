"""Who imports whom: the arrows of docs/design.md, read from the source."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import bpetite

PACKAGE = Path(bpetite.__file__).parent

STAGES = ["_pretokenizer", "_trainer", "_encoder", "_decoder", "_stream"]

MODULES = {
    path.relative_to(PACKAGE).with_suffix("").as_posix(): ast.parse(path.read_text("utf-8"))
    for path in PACKAGE.rglob("*.py")
}
"""The source of each module: "_tokenizer", "_cli/_train"."""

CLI = [name for name in MODULES if name.startswith("_cli/")]


def imports(name: str) -> Iterator[tuple[str, str | None]]:
    """Yield what a module imports, anywhere in it: a module, and the name taken out of it."""
    for node in ast.walk(MODULES[name]):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from ((module, alias.name) for alias in node.names)


def ours(name: str) -> set[str]:
    """Return which of our modules a module imports."""
    return {
        module.removeprefix("bpetite.")
        for module, _ in imports(name)
        if module.split(".")[0] == "bpetite"
    }


def taken(name: str, module: str) -> set[str | None]:
    """Return the names that a module takes out of another of ours."""
    return {taken for imported, taken in imports(name) if imported == f"bpetite.{module}"}


@pytest.mark.parametrize("name", MODULES)
def test_imports_are_written_in_full(name: str) -> None:
    assert [module for module, _ in imports(name) if module.startswith(".")] == []


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_knows_nothing_of_ours_but_the_vocabulary(stage: str) -> None:
    assert ours(stage) <= {"_vocabulary"}


@pytest.mark.parametrize("name", ["_vocabulary", "_progress", "_engine"])
def test_what_is_shared_imports_nothing_of_ours(name: str) -> None:
    assert ours(name) == set()


def test_only_the_tokenizer_knows_the_stages() -> None:
    """But for two plain things: how text is sliced, and what the pattern is."""
    others = set(MODULES) - {"_tokenizer", "__init__"}
    found = {(name, stage) for name in others for stage in ours(name) & set(STAGES)}
    assert found == {("_corpus", "_pretokenizer"), ("_vocabulary_file", "_pretokenizer")}
    assert taken("_corpus", "_pretokenizer") == {"slices"}
    assert taken("_vocabulary_file", "_pretokenizer") == {"GPT2_PATTERN"}


def test_beside_the_stages_there_are_the_corpus_and_the_file() -> None:
    assert ours("_corpus") == {"_pretokenizer"}
    assert ours("_vocabulary_file") == {"_pretokenizer", "_vocabulary"}
    assert ours("_tokenizer") == {
        *STAGES,
        "_corpus",
        "_progress",
        "_vocabulary",
        "_vocabulary_file",
    }


def test_the_package_gives_public_names_and_nothing_else() -> None:
    assert ours("__init__") == {"_engine", "_progress", "_stream", "_tokenizer"}
    names = {taken for _, taken in imports("__init__")}
    assert names | {"__version__"} == set(bpetite.__all__)


def test_python_m_is_the_command_line() -> None:
    assert ours("__main__") == {"_cli"}


@pytest.mark.parametrize("name", CLI)
def test_the_command_line_imports_only_public_names(name: str) -> None:
    for module, taken in imports(name):
        if module == "bpetite":
            assert taken is None or taken in bpetite.__all__
        elif module.startswith("bpetite."):
            assert module.split(".")[1] == "_cli"


@pytest.mark.parametrize("name", CLI)
def test_the_command_line_uses_only_public_names(name: str) -> None:
    used = {
        node.attr
        for node in ast.walk(MODULES[name])
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "bpetite"
    }
    assert used <= set(bpetite.__all__)


def test_what_is_not_ours_is_regex_and_tqdm_and_each_in_one_place() -> None:
    found = {
        (name, module.split(".")[0])
        for name in MODULES
        for module, _ in imports(name)
        if module.split(".")[0] not in {*sys.stdlib_module_names, "bpetite"}
    }
    assert found == {("_pretokenizer", "regex"), ("_cli/_train", "tqdm")}


def test_import_is_light() -> None:
    """What a process that has imported nothing yet gets with `import bpetite`."""
    program = (
        "import sys; before = set(sys.modules); import bpetite; import json; "
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, encoding="utf-8"
    )
    imported = set(json.loads(result.stdout))
    heavy = {"tqdm", "numpy", "argparse", "asyncio", "multiprocessing", "concurrent.futures"}
    assert imported & heavy == set()
    assert {name for name in imported if name.startswith("bpetite._cli")} == set()
    assert {"bpetite._tokenizer", "regex"} <= imported
