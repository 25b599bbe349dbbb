"""Corpora and token files on Windows and macOS, whose rules are simulated on Linux."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import urllib.request
import uuid
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.engines import quick_once
from support.windows import MAX_PATH, needs_proc, windows  # noqa: F401 - a fixture

from bpetite import Tokenizer
from bpetite.corpora import TOKEN_FORMATS, Corpus, plan, tokenize, tokenize_parts, verify
from bpetite.corpora import _run as runs
from bpetite.corpora import _storage as storage
from bpetite.corpora._verify import first_documents

pytestmark = quick_once

TOKENIZER = Tokenizer.train("to be or not to be " * 3, 270)
LINES = "".join(f'{{"text": "to be {number} or 世界"}}\n' for number in range(60)).encode()

as_on_windows = pytest.mark.usefixtures("windows")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Documents as JSON Lines."""
    path = tmp_path / "texts.jsonl"
    path.write_bytes(LINES)
    return path


def contents(folder: str | Path) -> dict[str, bytes]:
    """Return the bytes of all files in a folder and its subfolders, hidden ones too."""
    return {
        os.path.relpath(os.path.join(parent, name), folder): Path(parent, name).read_bytes()
        for parent, _, names in os.walk(folder)
        for name in names
    }


# Open files, folders that cannot be synced, and long paths


@needs_proc
@pytest.mark.parametrize("format", TOKEN_FORMATS)
def test_folder_of_windows_matches_linux(
    source: Path, tmp_path: Path, request: pytest.FixtureRequest, format: str
) -> None:
    settings: dict[str, Any] = {"part_bytes": 600, "validation": 0.1, "shuffle": 1}
    expected = tokenize(Corpus(source), TOKENIZER, tmp_path / "linux", format, **settings)
    request.getfixturevalue("windows")
    folder = tmp_path / "windows"
    assert tokenize(Corpus(source), TOKENIZER, folder, format, **settings) == expected
    assert verify(folder, TOKENIZER, deep=True) == []
    assert len([*first_documents(folder, 3)]) == 3
    assert contents(folder) == contents(tmp_path / "linux")


@needs_proc
@as_on_windows
def test_folders_of_long_paths_are_written_and_read(source: Path, tmp_path: Path) -> None:
    rest = MAX_PATH - len(str(tmp_path)) - 20
    above = tmp_path / ("a" * (rest // 2)) / ("b" * (rest // 2))
    os.makedirs(f"\\\\?\\{above}")
    with open(f"\\\\?\\{above}/a-long-name-of-texts.jsonl", "wb") as file:
        file.write(source.read_bytes())
    for corpus in (Corpus(above), Corpus(above / "a-long-name-of-texts.jsonl")):
        assert len([*corpus]) == 60
    folder = above / "tokens"
    tokenize(corpus, TOKENIZER, folder, "megatron", part_bytes=600)
    assert verify(folder, TOKENIZER, deep=True) == []


@pytest.fixture
def memory() -> Iterator[str]:
    """The URL of an object store that has no files."""
    fsspec = pytest.importorskip("fsspec")
    url = f"memory://{uuid.uuid4().hex}"
    yield url
    if fsspec.filesystem("memory").exists(url):
        fsspec.filesystem("memory").rm(url, recursive=True)


@needs_proc
@as_on_windows
def test_copies_of_remote_files_are_removed(
    source: Path, tmp_path: Path, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their readers map them, and Windows removes no mapped file."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    tokenize(Corpus(source), TOKENIZER, f"{memory}/tokens", "megatron")
    assert verify(f"{memory}/tokens", TOKENIZER) == []
    for document in first_documents(f"{memory}/tokens", 2):
        assert document.startswith("to be ")
    assert contents(scratch) == {}


# Files that the desktop makes


OF_DESKTOPS = (".DS_Store", "._texts.jsonl", "Thumbs.db", "desktop.ini", "Desktop.ini")


def test_files_of_the_desktop_are_no_documents(tmp_path: Path) -> None:
    for name in ("a.txt", *OF_DESKTOPS):
        (tmp_path / name).write_bytes(name.encode())
    assert [*Corpus(tmp_path)] == ["a.txt"]


def test_folder_that_a_desktop_has_shown_counts_as_empty(source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tokens"
    folder.mkdir()
    (folder / ".DS_Store").write_bytes(b"\0")
    tokenize(Corpus(source), TOKENIZER, folder, "megatron")
    for name in OF_DESKTOPS:
        (folder / name).write_bytes(b"\0")
    assert verify(folder, TOKENIZER) == []
    (folder / "other.bin").write_bytes(b"\0")
    assert [problem.partition(": ")[2][:7] for problem in verify(folder)] == ["foreign"]


# Paths


@pytest.mark.parametrize(
    ("path", "is_url"),
    [
        ("C:\\data\\a.jsonl", False),
        ("C:/data/a.jsonl", False),
        ("C://data/a.jsonl", False),
        ("\\\\server\\share\\a.jsonl", False),
        ("//server/share/a.jsonl", False),
        ("s3://bucket/a.jsonl", True),
    ],
)
def test_drives_and_shares_are_no_urls(path: str, is_url: bool) -> None:
    assert storage.is_url(path) == is_url


def test_file_urls_name_this_machine(tmp_path: Path) -> None:
    (tmp_path / "a b.txt").write_bytes(b"a")
    uri = (tmp_path / "a b.txt").as_uri()
    for url in (uri, uri.replace("file://", "file://localhost")):
        assert [*Corpus(url)] == ["a"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows reads files of other machines")
def test_file_urls_of_another_machine_are_refused() -> None:
    with pytest.raises(ValueError, match=r"names the machine 'data'.*write file:///"):
        Corpus("file://data/a.jsonl")


def test_file_urls_of_windows_name_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urllib.request, "url2pathname", lambda path: path.replace("/", "\\"))
    monkeypatch.setattr(os, "name", "nt")
    path = storage._path_of("file://server/share/a.txt")
    monkeypatch.undo()
    assert path == "\\\\server\\share\\a.txt"


# Processes


def test_pool_has_no_more_workers_than_windows_waits_for(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []

    class Pool(ProcessPoolExecutor):
        def __init__(self, workers: int, *arguments: Any) -> None:
            counts.append(workers)
            super().__init__(1, *arguments)

    monkeypatch.setattr(runs, "_MAX_WORKERS", 61)
    monkeypatch.setattr("concurrent.futures.ProcessPoolExecutor", Pool)
    parts = plan(Corpus(source), TOKENIZER, tmp_path / "tokens", "megatron")
    assert tokenize_parts(parts, workers=64)["documents"] == 60
    assert counts == [61]


def test_worker_without_signal_masks_ignores_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """The console of Windows sends Ctrl-C to each process; the first one ends the others."""
    monkeypatch.delattr(signal, "pthread_sigmask", raising=False)
    before = signal.getsignal(signal.SIGINT)
    try:
        runs._begin_worker()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(sys.platform == "win32", reason="the fault needs a name with a colon")
def test_names_with_colons_are_read(tmp_path: Path) -> None:
    (tmp_path / "c:a.txt").write_bytes(b"a")
    assert [*Corpus(tmp_path / "c:a.txt")] == ["a"]
