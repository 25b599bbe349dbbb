"""Files on Windows and macOS: their rules for names, paths and open files, simulated on Linux."""

from __future__ import annotations

import errno
import ntpath
import os
import stat
import sys
import threading
import types
from pathlib import Path

import pytest
from support.engines import once
from support.windows import MAX_PATH, needs_proc, windows  # noqa: F401 - a fixture

from bpetite import PieceCounts, Tokenizer
from bpetite.formats import _systems
from bpetite.formats._systems import check_name, file_key, reachable, repeated, replace, sync

pytestmark = once

SMALL = Tokenizer.train("abc abc", 259)
OTHER = Tokenizer.train("xyz xyz", 259)

as_on_windows = pytest.mark.usefixtures("windows")


def names(folder: Path) -> list[str]:
    """Return the names in a folder."""
    return sorted(os.listdir(folder))


# Names


@pytest.mark.parametrize(
    "name",
    [
        *("nul", "NUL", "con.json", "aux.tar.gz", "COM1", "lpt9.txt", "com¹", "prn .json"),
        *("ab:c", "a<b", "a|b", 'a"b', "a?", "*", "a\x1f", "end.", "end ", "C:\\data\\nul"),
    ],
)
def test_names_that_windows_lacks_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_systems, "IS_WINDOWS", True)
    with pytest.raises(OSError, match="not a valid file name on Windows") as caught:
        check_name(name)
    assert (caught.value.errno, caught.value.filename) == (errno.EINVAL, name)


@pytest.mark.parametrize(
    "name",
    [
        *("model.json", "C:\\models\\a b.json", "C:model.json", "nullify", "com10", "lpt0"),
        *(".hidden", "naïve 世界.json", "aux\\model.json", "console.log", "a.b.c"),
    ],
)
def test_ordinary_names_are_taken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_systems, "IS_WINDOWS", True)
    check_name(name)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no files of these names")
def test_other_systems_have_files_of_any_name(tmp_path: Path) -> None:
    for name in ("nul", "a:b", "end."):
        SMALL.save(tmp_path / name, format="bpetite")
    assert names(tmp_path) == ["a:b", "end.", "nul"]


@needs_proc
@as_on_windows
def test_save_refuses_the_name_of_a_device(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="not a valid file name on Windows"):
        SMALL.save(tmp_path / "aux.json")
    assert names(tmp_path) == []


@pytest.mark.parametrize("one", ["Model.json", "caf\u00e9.json"])
@pytest.mark.parametrize("ignores_case", [False, True])
def test_paths_of_one_file_have_one_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one: str, ignores_case: bool
) -> None:
    monkeypatch.setattr(_systems, "IGNORES_CASE", ignores_case)
    other = {"Model.json": "model.JSON", "caf\u00e9.json": "cafe\u0301.json"}[one]
    keys = {file_key(tmp_path / one), file_key(tmp_path / other)}
    assert len(keys) == (1 if ignores_case else 2)
    assert file_key(tmp_path / one) == file_key(tmp_path / "." / one)


@needs_proc
@as_on_windows
def test_existing_file_is_refused_in_other_case(tmp_path: Path) -> None:
    SMALL.save(tmp_path / "Model.json")
    with pytest.raises(FileExistsError):
        OTHER.save(tmp_path / "model.json")
    OTHER.save(tmp_path / "model.json", overwrite=True)
    assert Tokenizer.load(tmp_path / "MODEL.JSON") == OTHER


# Long paths


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("C:\\" + "a" * 300, "\\\\?\\C:\\" + "a" * 300),
        ("C:/b/" + "a" * 300, "\\\\?\\C:\\b\\" + "a" * 300),
        ("\\\\server\\share\\" + "a" * 300, "\\\\?\\UNC\\server\\share\\" + "a" * 300),
        ("\\\\?\\C:\\" + "a" * 300, "\\\\?\\C:\\" + "a" * 300),
        ("C:\\a\\model.json", "C:\\a\\model.json"),
    ],
    ids=["drive", "slashes", "server", "marked", "short"],
)
def test_long_paths_begin_with_a_mark(
    path: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_systems, "IS_WINDOWS", True)
    monkeypatch.setattr(os.path, "abspath", ntpath.normpath)
    assert reachable(path) == expected


@needs_proc
@as_on_windows
@pytest.mark.parametrize("room", [10, 0, -20], ids=["longest", "too long for others", "too long"])
def test_save_and_load_take_long_paths(tmp_path: Path, room: int) -> None:
    """A temporary name is longer than the name of the file, which alone would fit."""
    rest = MAX_PATH - len(str(tmp_path)) - len("/v.json") - room - 2
    folder = tmp_path / ("d" * (rest // 2)) / ("e" * (rest - rest // 2))
    os.makedirs(f"\\\\?\\{folder}")
    path = folder / "v.json"
    SMALL.save(path)
    OTHER.save(path, overwrite=True)
    assert Tokenizer.load(path) == OTHER
    with pytest.raises(FileExistsError) as caught:
        SMALL.save(path)
    assert caught.value.filename == str(path)
    assert names(Path(f"\\\\?\\{folder}")) == ["v.json"]


# Files in use


@needs_proc
@as_on_windows
def test_save_waits_for_a_reader_of_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "v.json"
    SMALL.save(path)
    reader = open(path, "rb")  # noqa: SIM115 - the timer closes it
    timer = threading.Timer(0.1, reader.close)
    timer.start()
    OTHER.save(path, overwrite=True)
    timer.join()
    assert Tokenizer.load(path) == OTHER
    assert names(tmp_path) == ["v.json"]


@needs_proc
@as_on_windows
def test_file_that_stays_open_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "v.json"
    SMALL.save(path)
    with open(path, "rb"), pytest.raises(PermissionError) as caught:
        OTHER.save(path, overwrite=True)
    assert caught.value.filename == str(path)
    assert Tokenizer.load(path) == SMALL
    assert names(tmp_path) == ["v.json"]


@needs_proc
@as_on_windows
def test_pair_of_which_a_file_is_open_stays_a_pair(tmp_path: Path) -> None:
    SMALL.save(tmp_path / "vocab.json")
    with open(tmp_path / "merges.txt", "rb"), pytest.raises(PermissionError):
        OTHER.save(tmp_path / "vocab.json", overwrite=True)
    assert Tokenizer.load(tmp_path / "vocab.json", pattern="gpt2") == SMALL
    assert names(tmp_path) == ["merges.txt", "vocab.json"]


def test_file_that_is_just_being_replaced_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = iter(range(3))

    def read() -> bytes:
        if next(attempts) < 2:
            raise PermissionError(errno.EACCES, "refused")
        return b"data"

    monkeypatch.setattr(_systems, "IS_WINDOWS", True)
    assert repeated(read) == b"data"


def test_elsewhere_no_renaming_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = []

    def refuse(*paths: str) -> None:
        attempts.append(paths)
        raise PermissionError(errno.EACCES, "refused")

    monkeypatch.setattr(_systems, "IS_WINDOWS", False)
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(PermissionError):
        replace("a", "b")
    assert attempts == [("a", "b")]


@needs_proc
@as_on_windows
def test_read_only_file_is_refused_before_the_work(tmp_path: Path) -> None:
    path = tmp_path / "v.json"
    SMALL.save(path)
    path.chmod(stat.S_IREAD)
    with pytest.raises(PermissionError, match="is read-only") as caught:
        OTHER.save(path, overwrite=True)
    assert caught.value.filename == str(path)
    assert names(tmp_path) == ["v.json"]


# To disk


def test_macos_writes_through_the_cache_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    fake = types.SimpleNamespace(F_FULLFSYNC=51, fcntl=lambda *call: calls.append(call))
    monkeypatch.setitem(sys.modules, "fcntl", fake)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(os, "fsync", None)
    with open(tmp_path / "file", "wb") as file:
        sync(file.fileno())
        assert calls == [(file.fileno(), 51)]


def test_file_system_that_knows_only_fsync_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: int) -> None:
        raise OSError(errno.ENOTSUP, "unknown")

    synced: list[int] = []
    fake = types.SimpleNamespace(F_FULLFSYNC=51, fcntl=unknown)
    monkeypatch.setitem(sys.modules, "fcntl", fake)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(os, "fsync", synced.append)
    with open(tmp_path / "file", "wb") as file:
        sync(file.fileno())
        assert synced == [file.fileno()]


# All of it together


@needs_proc
@as_on_windows
@pytest.mark.parametrize("format", ["bpetite", "tiktoken", "gpt2", "huggingface"])
def test_saved_files_match_other_systems(tmp_path: Path, format: str) -> None:
    """The bytes on disk have no carriage returns, and are in UTF-8."""
    name = {"gpt2": "vocab.json", "huggingface": "tokenizer.json"}.get(format, "v.model")
    tokenizer = Tokenizer.train("naïve 世界\n 🙂" * 9, 270, special_tokens=["<|x|>"])
    for _ in range(2):
        tokenizer.save(tmp_path / name, format=format, overwrite=True)
    has_pattern = format in ("bpetite", "huggingface")
    loaded = Tokenizer.load(
        tmp_path / name,
        format=format,
        pattern=None if has_pattern else "gpt2",
        special_tokens=tokenizer.special_tokens if format == "tiktoken" else None,
    )
    assert loaded.encode("naïve 世界") == tokenizer.encode("naïve 世界")
    assert not any(b"\r" in path.read_bytes() for path in tmp_path.iterdir())
    assert not [name for name in names(tmp_path) if name.startswith(".")]


@needs_proc
@as_on_windows
def test_piece_counts_are_written_added_and_read(tmp_path: Path) -> None:
    counts = PieceCounts.from_corpus("to be or not to be")
    path = tmp_path / "a.counts"
    counts.save(path)
    (PieceCounts.load(path) * 2).save(path, overwrite=True)
    assert PieceCounts.load(path) == counts + counts
    assert names(tmp_path) == ["a.counts"]
