"""Names of models: a path, a name of tiktoken's, or ORG/NAME in Hugging Face's cache."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from support.cli import TOKENIZER, Result, failure, in_process
from support.cli import folder as folder  # a fixture
from support.cli import public_ranks as public_ranks  # a fixture
from support.engines import quick_once
from support.programs import posix_only

from bpetite import Tokenizer
from bpetite.formats import _tiktoken_names

pytestmark = quick_once

IDS = " ".join(map(str, TOKENIZER.encode("Hello"))).encode()

RANKS = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"


@pytest.fixture
def cache(public_ranks: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The variable of a tiktoken cache in which o200k_base is a small file."""
    data = (folder / public_ranks).read_bytes()
    (folder / "cache").mkdir()
    (folder / "cache" / hashlib.sha1(RANKS.encode()).hexdigest()).write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    monkeypatch.setitem(_tiktoken_names._HASHES, "o200k_base.tiktoken", digest)
    return {"TIKTOKEN_CACHE_DIR": str(folder / "cache")}


def hub(folder: Path, commit: str = "abc123", main: str | None = "abc123") -> dict[str, str]:
    """Write a model into a cache of Hugging Face's, and return its variable."""
    model = folder / "hub" / "models--org--model"
    (model / "snapshots" / commit).mkdir(parents=True)
    TOKENIZER.save(model / "snapshots" / commit, format="huggingface")
    if main is not None:
        (model / "refs").mkdir(exist_ok=True)
        (model / "refs" / "main").write_text(main, "utf-8")
    return {"HF_HUB_CACHE": str(folder / "hub")}


def encoded(name: str, variables: dict[str, str]) -> Result:
    return in_process(
        "encode", "--model", name, "--text", "Hello", "--format", "text", variables=variables
    )


@pytest.mark.parametrize("name", ["o200k_base", "gpt-4o", "gpt-5-mini"])
def test_name_of_tiktokens_is_a_model(name: str, cache: dict[str, str]) -> None:
    result = encoded(name, cache)
    assert (result.code, result.out.split(), result.err) == (0, IDS.split(), [])


def test_names_work_where_models_do(cache: dict[str, str]) -> None:
    result = in_process("report", "gpt-4o", "o200k_base", "model.json", variables=cache)
    assert (result.code, len(result.out.split(b"\n\n")[1].splitlines())) == (0, 4)
    result = in_process("inspect", "--model", "gpt-4o", variables=cache)
    assert b"tiktoken" in result.out
    result = in_process("convert", "gpt-4o", "new.json", variables=cache)
    assert result.code == 0
    assert Path("new.json").exists()
    result = in_process("check", "gpt-4o", "--against", "model.json", variables=cache)
    assert (result.code, result.err) == (0, [])


def test_name_with_what_it_tells_already_is_refused(cache: dict[str, str]) -> None:
    result = in_process("convert", "gpt-4o", "new.json", "--pattern", "gpt2", variables=cache)
    assert result == failure(
        "gpt-4o: tiktoken's name decides the format, the pattern and the special tokens; leave "
        "out --from, --pattern and --special-token"
    )


def test_path_is_preferred_to_a_name(cache: dict[str, str], folder: Path) -> None:
    for name, variables in (("gpt-4o", cache), ("org/model", hub(folder))):
        other = Tokenizer.train("", 256)
        Path(name).parent.mkdir(exist_ok=True)
        other.save(name)
        ids = " ".join(map(str, other.encode("Hello"))).encode()
        assert encoded(name, variables).out.split() == ids.split() != IDS.split()


@pytest.mark.parametrize("name", ["o200k_base", "gpt-4o", "org/model"])
def test_load_finds_what_the_option_finds(
    name: str, cache: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in {**cache, **hub(folder)}.items():
        monkeypatch.setenv(variable, value)
    assert Tokenizer.load(name).encode("Hello") == TOKENIZER.encode("Hello")
    with pytest.raises(FileNotFoundError):
        Tokenizer.load(Path(name))


@pytest.mark.parametrize("argument", [{"pattern": "gpt2"}, {"format": "gpt2"}])
def test_name_of_tiktokens_excludes_other_arguments(
    argument: dict[str, Any], cache: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", cache["TIKTOKEN_CACHE_DIR"])
    with pytest.raises(ValueError, match="gpt-4o: tiktoken's name decides the format"):
        Tokenizer.load("gpt-4o", **argument)


@pytest.mark.parametrize("name", ["gpt-99", "model", "org/model"])
def test_name_that_is_neither_is_told_both_ways(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(folder))
    message = (
        f"{name}: no such path, no name that tiktoken knows (such as gpt-4o), and no ORG/NAME in "
        f"the cache of Hugging Face, {folder}; bpetite downloads no model"
    )
    with pytest.raises(FileNotFoundError) as caught:
        Tokenizer.load(name)
    assert str(caught.value) == message
    assert encoded(name, {"HF_HUB_CACHE": str(folder)}) == failure(message)


def test_file_whose_name_begins_as_a_models_is_a_file() -> None:
    Path("gpt-5.json").write_bytes(Path("model.json").read_bytes())
    assert in_process("count", "--model", "gpt-5.json", "--text", "ab").code == 0


def test_name_that_is_not_in_tiktokens_cache_is_not_downloaded(folder: Path) -> None:
    assert encoded("gpt-4", {"TIKTOKEN_CACHE_DIR": str(folder)}) == failure(
        f"cl100k_base is not in tiktoken's cache, {folder}; tiktoken.get_encoding('cl100k_base') "
        "downloads it once, or Tokenizer.load reads a copy of cl100k_base.tiktoken"
    )


@pytest.mark.parametrize("main", ["abc123", "abc123\n", None, "gone", "../../.."])
def test_model_in_the_cache_of_hugging_face(main: str | None, folder: Path) -> None:
    result = encoded("org/model", hub(folder, main=main))
    assert (result.code, result.out.split(), result.err) == (0, IDS.split(), [])


@posix_only
def test_name_of_the_main_branch_is_read_in_part(folder: Path) -> None:
    cache = hub(folder)
    main = folder / "hub" / "models--org--model" / "refs" / "main"
    main.unlink(missing_ok=True)
    main.symlink_to("/dev/zero")
    assert encoded("org/model", cache).out.split() == IDS.split()


def test_main_branch_counts_among_several_versions(folder: Path) -> None:
    hub(folder, "old", None)
    assert encoded("org/model", hub(folder, "new", "new")).out.split() == IDS.split()
    (folder / "hub" / "models--org--model" / "refs" / "main").unlink()
    snapshots = folder / "hub" / "models--org--model" / "snapshots"
    assert encoded("org/model", {"HF_HUB_CACHE": str(folder / "hub")}) == failure(
        f"org/model: {snapshots} has 2 versions and no main branch; give the path of one version"
    )


def test_cache_folder_follows_hugging_faces_variables(folder: Path) -> None:
    hub(folder)
    (folder / "home").mkdir()
    (folder / "hub").rename(folder / "home" / "hub")
    assert encoded("org/model", {"HF_HOME": str(folder / "home")}).out.split() == IDS.split()
