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
import bpetite.formats

PACKAGE = Path(bpetite.__file__).parent

LIBRARIES = ["_stream_readers", "_stream_tokens", "_stream_libraries"]
"""The modules by which other libraries' tokenizers are read for streams."""

STREAM = ["_stop", *LIBRARIES, "_stream_states", "_stream_options", "_stream"]
"""The modules of the stage from ids to text; each knows those before it."""

STAGES = ["_pretokenizer", "_trainer", "_encoder", "_decoder", *STREAM]

ENGINES = ["_python_engine", "_native_engine"]
"""What takes the stages together: one engine does so in Python, the other in `CORE`."""

CORE = "_native"
"""The module that is not in Python."""

UNICODE = ["_unicode", "_unicode_data"]
"""What only cutting needs to know: one version of Unicode."""

MODULES = {
    path.relative_to(PACKAGE).with_suffix("").as_posix(): ast.parse(path.read_text("utf-8"))
    for path in PACKAGE.rglob("*.py")
}
"""The source of each module: "_tokenizer", "_cli/_train"."""

CLI = [name for name in MODULES if name.startswith("_cli/")]

FORMATS = [name for name in MODULES if name.startswith("formats/")]

PUBLIC = {"bpetite": bpetite.__all__, "bpetite.formats": bpetite.formats.__all__}
"""What may be used from outside: the names, by the module that has them."""

HOME_LIBRARIES = {
    ("formats/_gpt2", "tokenizers"),
    ("formats/_huggingface", "tokenizers"),
    ("formats/_tiktoken", "tiktoken"),
}
"""Which module asks which other library about its format."""


def imports(name: str) -> Iterator[tuple[str, str | None]]:
    """Yield what a module imports, anywhere in it: a module, and the name taken out of it."""
    for node in ast.walk(MODULES[name]):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from ((module, alias.name) for alias in node.names)


def ours(name: str) -> set[str]:
    """Return which of our modules a module imports: "_tokenizer", "formats._home"."""
    found = set()
    for module, taken in imports(name):
        if module.split(".")[0] == "bpetite":
            inner = f"{module}.{taken}".removeprefix("bpetite.")
            is_module = inner.replace(".", "/") in MODULES or inner == CORE
            found.add(inner if is_module else module.removeprefix("bpetite."))
    return found


def taken(name: str, module: str) -> set[str | None]:
    """Return the names that a module takes out of another of ours."""
    return {taken for imported, taken in imports(name) if imported == f"bpetite.{module}"}


def listed(name: str) -> set[str]:
    """Return the names in a module's `__all__`."""
    for node in MODULES[name].body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    raise AssertionError(f"{name} has no __all__")


def siblings(name: str) -> set[str]:
    """Return which modules of formats/ a module imports."""
    return {module.replace(".", "/") for module in ours(name)} & set(FORMATS)


def only_for_types(name: str) -> Iterator[str]:
    """Yield those of our modules that a module imports for a type checker alone."""
    for node in ast.walk(MODULES[name]):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for inner in node.body:
                if isinstance(inner, ast.ImportFrom) and inner.module:
                    yield inner.module.removeprefix("bpetite.")


def attributes(name: str, module: str) -> set[str]:
    """Return which names of another module a module uses, by the names that it has for that."""
    aliases = {module}
    for node in ast.walk(MODULES[name]):
        if isinstance(node, ast.ImportFrom):
            path = node.module
            aliases |= {
                alias.asname or alias.name
                for alias in node.names
                if f"{path}.{alias.name}" == module
            }
        elif isinstance(node, ast.Import):
            aliases |= {
                alias.asname for alias in node.names if alias.asname and alias.name == module
            }
    return {
        node.attr
        for node in ast.walk(MODULES[name])
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in aliases
    }


@pytest.mark.parametrize("name", MODULES)
def test_imports_are_written_in_full(name: str) -> None:
    assert [module for module, _ in imports(name) if module.startswith(".")] == []


@pytest.mark.parametrize("stage", STAGES[1:])
def test_a_stage_knows_nothing_of_ours_but_the_vocabulary(stage: str) -> None:
    known = STREAM[: STREAM.index(stage)] if stage in STREAM else []
    if stage == "_stream_libraries":
        known = [*known, "formats._byte_characters"]  # how a library writes bytes
    if stage == "_stream":
        known = [*known, "_engine"]  # which has a twin of the steps that most streams make
    assert ours(stage) <= {"_vocabulary", *known}


def test_cutting_knows_unicode_alone() -> None:
    assert ours("_pretokenizer") == {"_unicode"}
    assert ours("_unicode") == {"_unicode_data"}


def test_unicode_is_for_cutting_alone() -> None:
    """But for the number of its version, which a vocabulary file names."""
    found = {(name, module) for name in MODULES for module in ours(name) & set(UNICODE)}
    assert found == {
        ("_pretokenizer", "_unicode"),
        ("_unicode", "_unicode_data"),
        ("_vocabulary_file", "_unicode_data"),
    }
    assert taken("_vocabulary_file", "_unicode_data") == {"VERSION"}


@pytest.mark.parametrize("name", ["_vocabulary", "_progress", "_files", "_unicode_data"])
def test_what_is_shared_imports_nothing_of_ours(name: str) -> None:
    assert ours(name) == set()


def test_only_the_tokenizer_and_the_engines_know_the_stages() -> None:
    """But for plain things: how text is sliced, and what a pattern is."""
    others = set(MODULES) - {"_tokenizer", "__init__", *ENGINES, *STREAM, *FORMATS}
    found = {
        (name, stage): taken(name, stage) for name in others for stage in ours(name) & set(STAGES)
    }
    assert found == {
        ("_corpus", "_pretokenizer"): {"slices"},
        ("_special", "_pretokenizer"): {"SpecialSplitter"},
        ("_vocabulary_file", "_pretokenizer"): {"GPT2_PATTERN", "portable_pattern"},
        ("_streams", "_stream"): {"DecodeStream", "MakesStreams"},
        ("_streams", "_stream_options"): {"Ids", "StreamOptions"},
        ("_stream_vocabulary", "_stream"): {"DecodeStream"},
        ("_stream_vocabulary", "_stream_libraries"): {"Source", "tokens_of"},
        ("_stream_vocabulary", "_stream_options"): {
            "Ids",
            "OptionsBesideTokens",
            "StreamOptions",
        },
    }


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_knows_of_the_stages_what_a_pattern_is_and_how_ids_are_merged(name: str) -> None:
    allowed: dict[str, set[str | None]] = {
        "_pretokenizer": {
            "GPT2_PATTERN",
            "PATTERNS",
            "Pretokenizer",
            "pattern_of",
            "portable_pattern",
        },
        "_encoder": {"merge_ids"},
    }
    assert {
        (stage, one)
        for stage in ours(name) & set(STAGES)
        for one in taken(name, stage) - allowed.get(stage, set())
    } == set()


def test_beside_the_stages_there_are_the_corpus_and_the_formats() -> None:
    assert ours("_corpus") == {"_pretokenizer"}
    assert ours("_streams") == {"_stream", "_stream_options"}
    assert ours("_stream_vocabulary") == {"_stream", "_stream_libraries", "_stream_options"}
    assert ours("_vocabulary_file") == {
        "_engine",
        "_files",
        "_pretokenizer",
        "_unicode_data",
        "_vocabulary",
    }
    assert ours("_tokenizer") == {
        *(set(STREAM) - {"_stop", *LIBRARIES}),
        "_arrays",
        "_corpus",
        "_decoder",
        "_engine",
        "_pretokenizer",
        "_progress",
        "_special",
        "_text",
        "_vocabulary",
        "formats._home",
        "formats._registry",
    }


def test_the_engine_is_picked_in_one_place() -> None:
    assert ours("_engine") == {CORE, *ENGINES}
    assert {name for name in MODULES if ours(name) & set(ENGINES)} == {"_engine", "_native_engine"}
    assert {name for name in MODULES if CORE in ours(name)} == {"_engine", "_native_engine"}


def test_an_engine_takes_the_stages_together() -> None:
    shared = {"_corpus", "_decoder", "_pretokenizer", "_progress", "_vocabulary"}
    assert ours("_python_engine") == shared | {
        "_arrays",
        "_encoder",
        "_stream_states",
        "_text",
        "_trainer",
    }
    assert ours("_native_engine") == shared | {CORE, "_python_engine"}


def test_both_engines_have_the_same_names() -> None:
    assert [listed(name) for name in ENGINES] == [listed("_engine") - {"engine"}] * 2


def test_bytes_and_files_are_for_formats_alone() -> None:
    """Nobody else reads or writes a vocabulary's file."""
    found = {name for name in MODULES if ours(name) & {"_files", "_vocabulary_file"}}
    assert found <= {"_vocabulary_file", *FORMATS}
    users = {name for name in MODULES if "_vocabulary_file" in ours(name)}
    assert users == {"formats/_registry"}


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_knows_what_a_vocabulary_is_and_other_formats(name: str) -> None:
    allowed = {
        "_encoder",
        "_engine",
        "_files",
        "_pretokenizer",
        "_vocabulary",
        "_vocabulary_file",
    }
    known = {module for module in ours(name) if module.split(".")[0] != "formats"}
    assert known - set(only_for_types(name)) <= allowed


def test_formats_do_not_know_each_other_in_a_circle() -> None:
    """One that does at the top of its module could not be imported."""
    left = {name: {each for each in siblings(name) if each != name} for name in FORMATS}
    while free := [name for name, known in left.items() if not known & set(left)]:
        for name in free:
            del left[name]
    assert left == {}


def test_only_the_registry_knows_each_format() -> None:
    kinds = {"formats/_tiktoken", "formats/_gpt2", "formats/_huggingface"}
    found = {(name, kind) for name in MODULES for kind in siblings(name) & kinds}
    assert found == {("formats/_registry", kind) for kind in kinds}


def test_formats_give_public_names_and_nothing_else() -> None:
    assert ours("formats/__init__") == {"formats._home", "formats._registry", "formats._verify"}
    names = {taken for _, taken in imports("formats/__init__")}
    assert names == set(bpetite.formats.__all__)


def test_the_package_gives_public_names_and_nothing_else() -> None:
    assert ours("__init__") == {
        "_engine",
        "_pretokenizer",
        "_progress",
        "_stop",
        "_stream",
        "_stream_vocabulary",
        "_streams",
        "_tokenizer",
    }
    names = {taken for _, taken in imports("__init__")}
    assert names | {"__version__"} == set(bpetite.__all__)


def test_python_m_is_the_command_line() -> None:
    assert ours("__main__") == {"_cli"}


@pytest.mark.parametrize("name", CLI)
def test_the_command_line_imports_only_public_names(name: str) -> None:
    for module, taken in imports(name):
        if module in PUBLIC:
            assert taken is None or taken in PUBLIC[module] or f"{module}.{taken}" in PUBLIC
        elif module.startswith("bpetite."):
            assert module.split(".")[1] == "_cli"


@pytest.mark.parametrize("name", CLI)
def test_the_command_line_uses_only_public_names(name: str) -> None:
    """Of a module that it imported: `bpetite.name`, `bpetite.formats.name`, `formats.name`."""
    assert {
        (module, used)
        for module, names in PUBLIC.items()
        for used in attributes(name, module)
        if used not in names and f"{module}.{used}" not in PUBLIC
    } == set()


def test_what_is_not_ours_is_regex_tqdm_for_a_bar_a_web_server_and_home_libraries() -> None:
    found = {
        (name, module.split(".")[0])
        for name in MODULES
        for module, _ in imports(name)
        if module.split(".")[0] not in {*sys.stdlib_module_names, "bpetite"}
    }
    assert found == {
        ("_pretokenizer", "regex"),
        ("_unicode", "regex"),
        ("_cli/_train", "tqdm"),
        ("_cli/_page", "starlette"),
        ("_cli/_serve", "starlette"),
        ("_cli/_serve", "uvicorn"),
        *HOME_LIBRARIES,
    }


@pytest.mark.parametrize(("name", "library"), sorted(HOME_LIBRARIES))
def test_a_home_library_is_imported_only_where_it_is_asked(name: str, library: str) -> None:
    """In a function, so that whoever does not have it misses nothing else."""
    in_functions = {
        id(node)
        for function in ast.walk(MODULES[name])
        if isinstance(function, (ast.FunctionDef, ast.Lambda))
        for node in ast.walk(function)
    }
    elsewhere = [
        node
        for node in ast.walk(MODULES[name])
        if isinstance(node, (ast.Import, ast.ImportFrom))
        and library in ast.unparse(node)
        and id(node) not in in_functions
    ]
    assert [ast.unparse(node) for node in elsewhere] == []


def imported_with(module: str) -> set[str]:
    """Return what a process that has imported nothing yet gets with a module."""
    program = (
        f"import sys; before = set(sys.modules); import {module}; import json; "
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, encoding="utf-8"
    )
    return set(json.loads(result.stdout))


@pytest.mark.parametrize("module", ["bpetite", "bpetite._cli"])
def test_a_web_server_is_imported_only_to_serve(module: str) -> None:
    assert imported_with(module) & {"starlette", "uvicorn", "asyncio"} == set()


def test_import_is_light() -> None:
    imported = imported_with("bpetite")
    heavy = {"tqdm", "numpy", "argparse", "asyncio", "multiprocessing", "concurrent.futures"}
    assert imported & (heavy | {"tiktoken", "tokenizers", "transformers", "requests"}) == set()
    assert {name for name in imported if name.startswith("bpetite._cli")} == set()
    assert {"bpetite._tokenizer", "regex"} <= imported
