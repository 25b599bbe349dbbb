"""Files in and out: reading is bounded, and no file is ever half written."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from support.engines import once
from support.programs import output_of

from bpetite import Tokenizer
from bpetite.formats import _files
from bpetite.formats._files import SourceFile, write_files

pytestmark = once

SMALL = Tokenizer.train("abc abc", 259, special_tokens=["<|a|>", "<|b|>"])
OTHER = Tokenizer.train("xyz xyz", 259, special_tokens=["<|z|>"])

posix_only = pytest.mark.skipif(os.name != "posix", reason="POSIX permissions and links")
not_as_root = pytest.mark.skipif(
    os.name != "posix" or os.geteuid() == 0, reason="nothing is forbidden to root"
)


def saved(tokenizer: Tokenizer, path: Path) -> bytes:
    """Return the bytes of a tokenizer's file."""
    tokenizer.save(path, overwrite=True)
    return path.read_bytes()


def files(folder: Path) -> dict[str, bytes]:
    """Return the bytes of all files in a folder, hidden ones too."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return one folder for the files that tests read and leave as they are."""
    return tmp_path_factory.mktemp("vocabularies")


# How a file is read


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    """Longer than one request to the system, and every byte stays."""
    data = bytes(range(256)) * 10_000 + b"\r\n\x1a\x00"
    (tmp_path / "file").write_bytes(data)
    assert SourceFile(tmp_path / "file").data == data


@not_as_root
def test_an_unreadable_file_is_the_systems_error(tmp_path: Path) -> None:
    SMALL.save(tmp_path / "small.json")
    (tmp_path / "small.json").chmod(0)
    with pytest.raises(PermissionError):
        Tokenizer.load(tmp_path / "small.json")


def test_a_file_of_the_greatest_size_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = len(saved(SMALL, tmp_path / "small.json"))
    monkeypatch.setattr(_files, "MAX_FILE_BYTES", size)
    assert Tokenizer.load(tmp_path / "small.json") == SMALL


def test_a_larger_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "small.json"
    size = len(saved(SMALL, path))
    monkeypatch.setattr(_files, "MAX_FILE_BYTES", size - 1)
    with pytest.raises(ValueError, match="larger than") as caught:
        Tokenizer.load(path)
    reason = f"larger than {size - 1} bytes, so this is not a vocabulary file"
    assert caught.value.args == (f"{path}: {reason}",)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs a file without an end")
def test_a_file_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_files, "MAX_FILE_BYTES", 1000)
    with pytest.raises(ValueError, match="larger than 1000 bytes"):
        _ = SourceFile("/dev/zero").data


@posix_only
@pytest.mark.parametrize(
    "name", ["tokenizer.json", "tokenizer_config.json", "added_tokens.json", "chat_template.jinja"]
)
def test_a_pipe_in_a_folder_is_refused(name: str, tmp_path: Path) -> None:
    """Nobody may ever write to it."""
    SMALL.save(tmp_path / "tokenizer.json")
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    program = f"""
from bpetite import Tokenizer
try:
    Tokenizer.load({os.fspath(tmp_path)!r})
except ValueError as error:
    print(error)
"""
    expected = f"{tmp_path / name}: not a file but a pipe or a device; replace it by a file\n"
    assert output_of(program, timeout=20) == expected


CACHED = hashlib.sha1(b"https://a/b").hexdigest()


@posix_only
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("chat_template.jinja", "bpetite.chat.ChatTemplate.load(folder)"),
        ("tokenizer_config.json", "bpetite.chat.ChatTemplate.load(folder)"),
        ("special_tokens_map.json", "bpetite.chat.ChatTemplate.load(folder)"),
        ("additional_chat_templates/a.jinja", "bpetite.chat.ChatTemplate.load(folder)"),
        ("a/b.txt", "[*bpetite.corpora.Corpus(folder)]"),
        ("a/b.txt", "[*bpetite.corpora.Corpus(folder + '/*/*.txt')]"),
        ("manifest.json", "bpetite.corpora.open(folder)"),
        ("vocabulary.json", "bpetite.corpora._folder.Folder(folder).load_tokenizer()"),
        (CACHED, "bpetite.tiktoken.load.load_tiktoken_bpe('https://a/b')"),
    ],
)
def test_a_pipe_that_is_found_is_refused(name: str, call: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    program = f"""
import os
import bpetite.chat, bpetite.corpora._folder, bpetite.tiktoken.load
folder = os.environ["TIKTOKEN_CACHE_DIR"] = {os.fspath(tmp_path)!r}
try:
    {call}
except ValueError as error:
    print(error)
"""
    expected = f"{path}: not a file but a pipe or a device; replace it by a file\n"
    assert output_of(program, timeout=20) == expected


@posix_only
def test_a_pipe_that_is_named_is_read(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with ThreadPoolExecutor() as pool:
        written = pool.submit(path.write_bytes, b"abc")
        assert SourceFile(path).data == b"abc"
        assert written.result() == 3


def test_position_of_a_byte_outside_utf_8_is_named() -> None:
    with pytest.raises(ValueError, match="not UTF-8") as caught:
        SourceFile("some.json", "é".encode() + b"\xff").text()
    assert caught.value.args == ("some.json: not UTF-8 at byte 2 (invalid start byte)",)


# How a file is written


def no_nameless_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_files, "_open_nameless", lambda _folder: None)


def refuse_link(*_args: object, **_keywords: object) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


@pytest.fixture(params=["system", "named", "links refused", "no links"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Save as this system can, and as systems do that can less."""
    if request.param != "system":
        no_nameless_files(monkeypatch)
    if request.param == "links refused":
        monkeypatch.setattr(os, "link", refuse_link)
    if request.param == "no links":
        monkeypatch.delattr(os, "link", raising=False)


in_every_way = pytest.mark.usefixtures("way")


@pytest.fixture(scope="module")
def small_bytes(folder: Path) -> bytes:
    """Return the file of SMALL."""
    return saved(SMALL, folder / "small.json")


@in_every_way
def test_save_refuses_an_existing_file(tmp_path: Path) -> None:
    path = tmp_path / "v.json"
    path.write_bytes(b"old")
    with pytest.raises(FileExistsError) as caught:
        SMALL.save(path)
    assert (caught.value.errno, caught.value.filename) == (errno.EEXIST, str(path))
    assert files(tmp_path) == {"v.json": b"old"}


def test_existing_file_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written_already(_descriptor: int) -> None:
        raise AssertionError("the vocabulary was written to disk before the refusal")

    (tmp_path / "v.json").write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", written_already)
    with pytest.raises(FileExistsError):
        SMALL.save(tmp_path / "v.json")


@in_every_way
def test_save_overwrites_when_asked(tmp_path: Path, small_bytes: bytes) -> None:
    (tmp_path / "v.json").write_bytes(b"old" * 10_000)
    SMALL.save(tmp_path / "v.json", overwrite=True)
    assert files(tmp_path) == {"v.json": small_bytes}


@in_every_way
def test_save_refuses_a_file_that_appears_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "v.json"
    monkeypatch.setattr(os, "fsync", lambda _descriptor: path.write_bytes(b"theirs"))
    with pytest.raises(FileExistsError) as caught:
        SMALL.save(path)
    assert caught.value.filename == str(path)
    assert files(tmp_path) == {"v.json": b"theirs"}


@in_every_way
def test_save_as_a_file_to_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "v.json").mkdir()
    with pytest.raises(FileExistsError):
        SMALL.save(tmp_path / "v.json", format="bpetite")
    with pytest.raises((IsADirectoryError, PermissionError)):
        SMALL.save(tmp_path / "v.json", overwrite=True, format="bpetite")
    assert [(path.name, path.is_dir()) for path in tmp_path.iterdir()] == [("v.json", True)]


@in_every_way
@pytest.mark.parametrize("overwrite", [False, True])
def test_save_to_a_missing_folder_is_refused(tmp_path: Path, overwrite: bool) -> None:
    with pytest.raises(FileNotFoundError):
        SMALL.save(tmp_path / "missing" / "v.json", overwrite=overwrite)
    assert files(tmp_path) == {}


@not_as_root
@in_every_way
@pytest.mark.parametrize("overwrite", [False, True])
def test_save_to_a_read_only_folder_is_refused(tmp_path: Path, overwrite: bool) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "old.json").write_bytes(b"old")
    inner.chmod(0o500)
    with pytest.raises(PermissionError):
        SMALL.save(inner / ("old.json" if overwrite else "new.json"), overwrite=overwrite)
    assert files(inner) == {"old.json": b"old"}
    inner.chmod(0o700)


@posix_only
@in_every_way
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o444])
def test_overwriting_keeps_the_permissions(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "v.json"
    path.write_bytes(b"old")
    path.chmod(mode)
    SMALL.save(path, overwrite=True)
    assert stat.S_IMODE(path.stat().st_mode) == mode


@posix_only
@in_every_way
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0, 0o666)])
def test_new_file_has_the_permissions_of_any_new_file(
    tmp_path: Path, overwrite: bool, umask: int, mode: int
) -> None:
    before = os.umask(umask)
    try:
        SMALL.save(tmp_path / "v.json", overwrite=overwrite)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "v.json").stat().st_mode) == mode


@posix_only
@in_every_way
@pytest.mark.parametrize("overwrite", [False, True])
def test_save_through_a_link_to_nothing_makes_the_target(
    tmp_path: Path, overwrite: bool, small_bytes: bytes
) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "link").symlink_to(Path("inner", "v.json"))
    SMALL.save(tmp_path / "link", overwrite=overwrite)
    assert (tmp_path / "link").readlink() == Path("inner", "v.json")
    assert files(tmp_path / "inner") == {"v.json": small_bytes}


@posix_only
@in_every_way
def test_save_through_a_link_overwrites_the_target(tmp_path: Path, small_bytes: bytes) -> None:
    (tmp_path / "v.json").write_bytes(b"old")
    (tmp_path / "link").symlink_to("v.json")
    SMALL.save(tmp_path / "link", overwrite=True)
    assert (tmp_path / "link").readlink() == Path("v.json")
    assert files(tmp_path) == {"v.json": small_bytes, "link": small_bytes}


@posix_only
@in_every_way
def test_save_through_a_link_refuses_an_existing_target(tmp_path: Path) -> None:
    (tmp_path / "v.json").write_bytes(b"old")
    (tmp_path / "link").symlink_to("v.json")
    with pytest.raises(FileExistsError) as caught:
        SMALL.save(tmp_path / "link")
    assert caught.value.filename == str(tmp_path / "link")
    assert files(tmp_path) == {"v.json": b"old", "link": b"old"}


@pytest.mark.parametrize("gone", [False, True], ids=["links refused", "no links"])
def test_save_needs_no_links_where_files_can_be_nameless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: bool, small_bytes: bytes
) -> None:
    if gone:
        monkeypatch.delattr(os, "link", raising=False)
    else:
        monkeypatch.setattr(os, "link", refuse_link)
    SMALL.save(tmp_path / "new.json")
    (tmp_path / "old.json").write_bytes(b"old")
    SMALL.save(tmp_path / "old.json", overwrite=True)
    assert files(tmp_path) == {"new.json": small_bytes, "old.json": small_bytes}


@in_every_way
@pytest.mark.parametrize("overwrite", [False, True])
def test_all_bytes_are_on_disk_before_the_file_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool, small_bytes: bytes
) -> None:
    real = os.fsync
    synced = []

    def fsync(descriptor: int) -> None:
        real(descriptor)
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            synced.append((status.st_size, (tmp_path / "v.json").exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    SMALL.save(tmp_path / "v.json", overwrite=overwrite)
    assert synced == [(len(small_bytes), False)]


@posix_only
@in_every_way
@pytest.mark.parametrize("overwrite", [False, True])
def test_name_is_on_disk_when_save_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool
) -> None:
    """The folder is put to disk too, after the file has its name."""
    real = os.fsync
    synced = []

    def fsync(descriptor: int) -> None:
        real(descriptor)
        if os.path.samestat(os.fstat(descriptor), tmp_path.stat()):
            synced.append((tmp_path / "v.json").exists())

    monkeypatch.setattr(os, "fsync", fsync)
    SMALL.save(tmp_path / "v.json", overwrite=overwrite)
    assert synced == [True]


@in_every_way
def test_save_succeeds_where_a_folder_cannot_be_put_to_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_bytes: bytes
) -> None:
    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "fsync", fsync)
    SMALL.save(tmp_path / "v.json")
    assert files(tmp_path) == {"v.json": small_bytes}


# Whatever goes wrong on the way


@in_every_way
@pytest.mark.parametrize("old", [{}, {"v.json": b"old"}], ids=["new", "overwrite"])
def test_full_disk_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: dict[str, bytes]
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name, data in old.items():
        (tmp_path / name).write_bytes(data)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=re.escape(os.strerror(errno.ENOSPC))) as caught:
        SMALL.save(tmp_path / "v.json", overwrite=bool(old))
    assert caught.value.errno == errno.ENOSPC
    assert files(tmp_path) == old


STEPS = ["fsync", "link", "chmod", "replace"]


@in_every_way
@pytest.mark.parametrize("old", [{}, {"v.json": b"old"}], ids=["new", "overwrite"])
@pytest.mark.parametrize("ending", ["error", "interrupt before", "interrupt after"])
@pytest.mark.parametrize("step", STEPS)
def test_save_that_ends_early_leaves_a_whole_file_and_no_other(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    ending: str,
    old: dict[str, bytes],
    small_bytes: bytes,
) -> None:
    real: Any = getattr(os, step, None)

    def end_early(*args: Any, **keywords: Any) -> None:
        if ending == "error":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if ending == "interrupt after":
            real(*args, **keywords)
        raise KeyboardInterrupt

    for name, data in old.items():
        (tmp_path / name).write_bytes(data)
    if real is not None:
        monkeypatch.setattr(os, step, end_early)
    with suppress(OSError, KeyboardInterrupt):
        SMALL.save(tmp_path / "v.json", overwrite=bool(old))
    assert files(tmp_path) in (old, {"v.json": small_bytes})


SAVE_IN_A_PROCESS = """
import os, signal, sys
from bpetite import Tokenizer
from bpetite.formats import _files

if sys.argv[3] == "named":
    _files._open_nameless = lambda folder: None
tokenizer = Tokenizer.load(sys.argv[1])
"""

KILLED = """
os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)
tokenizer.save(sys.argv[2], overwrite=True)
"""

NO_ROOM = """
import resource

limits = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
try:
    tokenizer.save(sys.argv[2], overwrite=True)
except OSError as error:
    print(error.errno)
resource.setrlimit(resource.RLIMIT_FSIZE, limits)
"""

SAVE_MANY = """
print("ready", flush=True)
sys.stdin.readline()
count = 0
for n in range(40):
    try:
        tokenizer.save(os.path.join(sys.argv[2], f"{n}.json"))
    except FileExistsError:
        continue
    count += 1
print(count)
"""


def command(code: str, *arguments: str | Path) -> list[str]:
    """Return what runs code in a process: the file to load, where to save, and the way."""
    return [sys.executable, "-c", SAVE_IN_A_PROCESS + code, *map(str, arguments)]


def can_open_nameless_files() -> bool:
    """Tell whether this system can, without asking bpetite."""
    if not hasattr(os, "O_TMPFILE") or not os.path.isdir("/proc/self/fd"):
        return False
    try:
        os.close(os.open(tempfile.gettempdir(), os.O_TMPFILE | os.O_WRONLY))
    except OSError:
        return False
    return True


@pytest.fixture
def small_path(folder: Path, small_bytes: bytes) -> Path:
    """Return where a file of SMALL is."""
    path = folder / "given.json"
    path.write_bytes(small_bytes)
    return path


@pytest.mark.skipif(not can_open_nameless_files(), reason="no nameless files on this system")
def test_killed_save_leaves_the_old_file_and_no_other(tmp_path: Path, small_path: Path) -> None:
    path = tmp_path / "v.json"
    path.write_bytes(b"old")
    ended = subprocess.run(command(KILLED, small_path, path, "system"), check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    assert files(tmp_path) == {"v.json": b"old"}


@posix_only
def test_killed_save_with_named_files_leaves_the_old_file(tmp_path: Path, small_path: Path) -> None:
    path = tmp_path / "v.json"
    path.write_bytes(b"old")
    ended = subprocess.run(command(KILLED, small_path, path, "named"), check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"


@posix_only
@pytest.mark.parametrize("how", ["system", "named"])
@pytest.mark.parametrize("old", [{}, {"v.json": b"old"}], ids=["new", "overwrite"])
def test_save_that_finds_no_room_leaves_the_old_file_alone(
    tmp_path: Path, small_path: Path, how: str, old: dict[str, bytes]
) -> None:
    for name, data in old.items():
        (tmp_path / name).write_bytes(data)
    ended = subprocess.run(
        command(NO_ROOM, small_path, tmp_path / "v.json", how),
        check=True,
        timeout=60,
        capture_output=True,
    )
    assert int(ended.stdout) == errno.EFBIG
    assert files(tmp_path) == old


@in_every_way
def test_one_of_many_threads_saves_a_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All have found that there is no such file when the first of them names its own."""
    names = [f"<|{n}|>" for n in range(6)]
    barrier = threading.Barrier(len(names), timeout=60)
    thread = threading.local()
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if not hasattr(thread, "waited"):
            thread.waited = True
            barrier.wait()
        real(descriptor)

    def save(name: str) -> str | None:
        try:
            Tokenizer.train("", 256, special_tokens=[name]).save(tmp_path / "v.json")
        except FileExistsError:
            return None
        return name

    monkeypatch.setattr(os, "fsync", fsync)
    with ThreadPoolExecutor(len(names)) as executor:
        winners = [name for name in executor.map(save, names) if name is not None]
    assert [dict(Tokenizer.load(path).special_tokens) for path in tmp_path.iterdir()] == [
        {name: 256} for name in winners
    ]


@contextmanager
def killed_after_a_minute(*processes: subprocess.Popen[str]) -> Iterator[None]:
    """Kill processes that hang, so that every wait for one of them ends."""
    timers = [threading.Timer(60, process.kill) for process in processes]
    for timer in timers:
        timer.start()
    yield
    for timer in timers:  # after a failure they go on: to leave `Popen` waits too
        timer.cancel()


def test_one_of_two_processes_saves_each_new_file(
    tmp_path: Path, small_path: Path, small_bytes: bytes
) -> None:
    start = command(SAVE_MANY, small_path, tmp_path, "system")
    with (
        subprocess.Popen(start, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as one,
        subprocess.Popen(start, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other,
        killed_after_a_minute(one, other),
    ):
        for process in (one, other):
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in (one, other):
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        counts = [int(process.communicate()[0]) for process in (one, other)]
    assert sum(counts) == 40
    assert files(tmp_path) == {f"{n}.json": small_bytes for n in range(40)}


@pytest.mark.skipif(os.name == "nt", reason="Windows does not replace an open file")
@in_every_way
def test_reader_never_meets_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "v.json"
    SMALL.save(path)

    def save_many() -> None:
        for _ in range(20):
            OTHER.save(path, overwrite=True)
            SMALL.save(path, overwrite=True)

    seen = set()
    with ThreadPoolExecutor(1) as executor:
        saving = executor.submit(save_many)
        while not saving.done():
            seen.add(Tokenizer.load(path))
        saving.result()
    assert seen <= {SMALL, OTHER}
    assert len(seen) > 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a named pipe")
def test_save_replaces_only_files(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="not a file that can be replaced"):
        Tokenizer.train("", 256).save(pipe, overwrite=True)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_save_refuses_a_file_too_large_to_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_files, "MAX_FILE_BYTES", 1000)
    with pytest.raises(ValueError, match="more than load would read"):
        Tokenizer.train("", 256).save(tmp_path / "v.json")
    assert list(tmp_path.iterdir()) == []


# Several files


@pytest.mark.parametrize("there", ["one", "two", "three"])
def test_none_of_several_files_is_written_if_one_exists(tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_bytes(b"old")
    with pytest.raises(FileExistsError) as caught:
        write_files({str(tmp_path / name): b"new" for name in ("one", "two", "three")})
    assert caught.value.filename == str(tmp_path / there)
    assert files(tmp_path) == {there: b"old"}


def test_none_of_several_files_is_written_if_one_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_files, "MAX_FILE_BYTES", 3)
    path = str(tmp_path / "two")
    with pytest.raises(ValueError, match="would take 4 bytes") as caught:
        write_files({str(tmp_path / "one"): b"123", path: b"1234"})
    assert caught.value.args == (f"{path} would take 4 bytes, more than load would read",)
    assert files(tmp_path) == {}


def test_none_of_several_files_is_written_if_one_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "two").mkdir()
    with pytest.raises((IsADirectoryError, PermissionError)):
        write_files({str(tmp_path / "one"): b"1", str(tmp_path / "two"): b"2"}, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["two"]


@in_every_way
@pytest.mark.parametrize("fails", [0, 1, 2])
def test_several_files_all_stay_old_if_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: int
) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / name).write_bytes(b"old")
    real = os.fsync
    synced = 0

    def fsync(descriptor: int) -> None:
        nonlocal synced
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            if synced == fails:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            synced += 1
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    names = ["one", "two", "three"]
    with pytest.raises(OSError, match=re.escape(os.strerror(errno.ENOSPC))) as caught:
        write_files({str(tmp_path / name): b"new" for name in names}, overwrite=True)
    assert caught.value.filename == str(tmp_path / names[fails])
    assert files(tmp_path) == dict.fromkeys(names, b"old")
