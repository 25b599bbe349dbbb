"""Paths, folders and globs name the files of a corpus, in one order on every machine."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
from support.engines import once
from support.programs import posix_only

from bpetite.corpora import Corpus

pytestmark = once

LINE = b'{"text": "%s"}\n'

INSTALL = "pip install pyarrow isal zstandard universal-pathlib"


def names(corpus: Corpus) -> list[str]:
    return [os.path.basename(file.path) for file in corpus.files]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of JSON Lines whose texts are the names of their files."""
    for name in ("b/z.jsonl", "b/c/a.jsonl", "a.jsonl", "_SUCCESS", ".hidden.jsonl", "b/_logs/x"):
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(LINE % name.encode())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_folder_is_read_sorted_and_without_hidden_files(folder: Path) -> None:
    assert list(Corpus("data")) == ["a.jsonl", "b/c/a.jsonl", "b/z.jsonl"]
    assert list(Corpus(folder / "data")) == list(Corpus(["data"]))


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ("data/*.jsonl", ["a.jsonl"]),
        ("data/**/*.jsonl", ["a.jsonl", "b/c/a.jsonl", "b/z.jsonl"]),
        ("data/b*", ["b/c/a.jsonl", "b/z.jsonl"]),
        (["data/b/z.jsonl", "data/a.jsonl"], ["b/z.jsonl", "a.jsonl"]),
        (["data/a.jsonl"] * 2, ["a.jsonl"] * 2),
    ],
)
@pytest.mark.usefixtures("folder")
def test_globs_are_sorted_and_paths_keep_their_order(paths: Any, expected: list[str]) -> None:
    assert list(Corpus(paths)) == expected


@pytest.mark.usefixtures("folder")
def test_a_path_with_the_characters_of_a_glob_is_a_path() -> None:
    Path("a[1].jsonl").write_bytes(LINE % b"x")
    assert list(Corpus("a[1].jsonl")) == ["x"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("none.txt", "No such file"),
        ("none/*.txt", "no file matches"),
        ("empty", "the folder has no files"),
    ],
)
def test_a_path_without_files_is_an_error(path: str, reason: str) -> None:
    Path("empty").mkdir()
    with pytest.raises(FileNotFoundError, match=reason):
        Corpus(path)


@pytest.mark.usefixtures("folder")
def test_an_unknown_file_among_data_files_is_an_error() -> None:
    """A README in a folder of Parquet must not become a document."""
    Path("data/README.md").write_text("words", "utf-8")
    with pytest.raises(ValueError, match=r"README\.md: the folder data has jsonl files"):
        Corpus("data")
    assert len(list(Corpus("data", format="text"))) == 4


@pytest.mark.usefixtures("folder")
def test_a_folder_of_sources_is_text() -> None:
    Path("src").mkdir()
    Path("src/a.py").write_text("print()", "utf-8")
    Path("src/b.md").write_text("# B", "utf-8")
    assert list(Corpus("src")) == ["print()", "# B"]


@posix_only
@pytest.mark.usefixtures("folder")
def test_links_that_lead_back_are_followed_once() -> None:
    Path("data/b/up").symlink_to("..")
    assert sorted(set(Corpus("data"))) == ["a.jsonl", "b/c/a.jsonl", "b/z.jsonl"]


@posix_only
def test_a_file_name_that_is_not_utf8_is_read(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.jsonl"
    with open(path, "wb") as file:
        file.write(LINE % b"x")
    corpus = Corpus(tmp_path)
    assert list(corpus) == ["x"]


@pytest.mark.parametrize("paths", [5, None, b"a", [b"a"], [None]])
def test_paths_of_another_type_are_refused(paths: Any) -> None:
    with pytest.raises(TypeError, match="path"):
        Corpus(paths)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"format": "csv"}, "format must be one of text, lines"),
        ({"separator": ""}, "separator must not be empty"),
        ({"separator": "a", "format": "jsonl"}, "separator is for text"),
        ({"on_bad": "ignore"}, "on_bad must be raise or skip"),
        ({"bad_log": "log"}, "bad_log needs on_bad"),
        ({"text_field": "\ud800"}, "surrogates not allowed"),
    ],
)
def test_wrong_settings_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Corpus([], **options)


def test_no_paths_are_no_documents() -> None:
    assert list(Corpus([])) == []


@pytest.mark.usefixtures("folder")
def test_a_corpus_can_be_read_again_and_pickled() -> None:
    corpus = Corpus("data")
    assert list(corpus) == list(corpus) == list(pickle.loads(pickle.dumps(corpus)))
    assert corpus.report.documents == 3
    part = pickle.loads(pickle.dumps(corpus.part(corpus.files[1].spans(1))))
    assert list(part) == ["b/c/a.jsonl"]


@posix_only
@pytest.mark.usefixtures("folder")
def test_a_named_pipe_is_read_once() -> None:
    os.mkfifo("pipe")
    program = "import sys; open('pipe', 'wb').write(sys.argv[1].encode())"
    with subprocess.Popen([sys.executable, "-c", program, '{"text": "ab"}']) as writer:
        assert list(Corpus("pipe")) == ["ab"]
        assert writer.wait(60) == 0


def test_total_is_known_for_plain_text_alone(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"12345")
    (tmp_path / "b.txt").write_bytes(b"678")
    assert Corpus(tmp_path).total_bytes() == 8
    assert Corpus(tmp_path, separator="\n").total_bytes() is None
    assert Corpus([tmp_path, "-"]).total_bytes() is None
    (tmp_path / "c.jsonl").write_bytes(LINE)
    assert Corpus(tmp_path).total_bytes() is None


@pytest.mark.parametrize(
    ("module", "name", "data"),
    [
        pytest.param(
            *("zstandard", "a.txt.zst", b"\x28\xb5\x2f\xfd"),
            marks=pytest.mark.skipif(
                sys.version_info >= (3, 14), reason="this Python reads Zstandard by itself"
            ),
        ),
        ("pyarrow", "a.parquet", b"PAR1"),
        ("pyarrow", "a.arrow", b"ARROW1"),
    ],
)
def test_a_missing_library_is_named_with_its_installation(
    module: str, name: str, data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_bytes(data)
    for loaded in [each for each in sys.modules if each.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ValueError, match=rf"needs {module}: {INSTALL}$"):
        list(Corpus(tmp_path / name))


def test_errors_and_docstring_name_all_packages_of_the_extra() -> None:
    """The extra's own name does not work from a clone: bpetite may not be on PyPI."""
    extra = [line for line in requires("bpetite") or [] if 'extra == "data"' in line]
    names = re.findall(r"^[\w-]+", "\n".join(extra), re.MULTILINE)
    assert f"pip install {' '.join(names)}" == INSTALL
    assert f"`{INSTALL}`" in (Corpus.__doc__ or "")


def test_gzip_needs_no_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gz = pytest.importorskip("support.corpora").gz
    monkeypatch.setitem(sys.modules, "isal", None)
    monkeypatch.delitem(sys.modules, "isal.isal_zlib", raising=False)
    (tmp_path / "a.jsonl.gz").write_bytes(gz(LINE * 100))
    assert len(list(Corpus(tmp_path))) == 100
