"""Several files of one vocabulary: no kill, failure or other program leaves a mixture of two."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest
from support.engines import once
from support.examples import slow_except
from support.programs import variables
from support.vocabularies import vocabulary

from bpetite import Tokenizer
from bpetite.formats import _files, _gpt2

pytestmark = once

posix_only = pytest.mark.skipif(os.name != "posix", reason="processes are forked, folders locked")

TIMEOUT_SECONDS = 60

OLD = Tokenizer(vocabulary({256: b"ab", 257: b"bc"}, [(97, 98), (98, 99)]))
NEW = Tokenizer(vocabulary({256: b"bc", 257: b"ab"}, [(98, 99), (97, 98)]))
"""The same tokens in another order: one's vocab.json loads with the other's merges.txt."""

FILES = ["merges.txt", "vocab.json"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a vocab.json of OLD."""
    OLD.save(tmp_path / "vocab.json")
    return tmp_path / "vocab.json"


@pytest.fixture
def new_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a file of NEW in another folder."""
    file = tmp_path_factory.mktemp("new") / "new.json"
    NEW.save(file)
    return file


def names(path: Path) -> list[str]:
    """Return the names of all files in the folder of a path."""
    return sorted(os.listdir(path.parent))


def test_a_mixture_would_load(path: Path, tmp_path: Path) -> None:
    """So the files must never be one of each."""
    merges = (tmp_path / "merges.txt").read_bytes()
    NEW.save(path, overwrite=True)
    (tmp_path / "merges.txt").write_bytes(merges)
    assert Tokenizer.load(path) not in (OLD, NEW)


def at_call(number: int, act: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Act before the given one of all calls that name, rename or remove a file."""
    calls = 0

    def wrapped(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == number:
                act()
            return real(*arguments, **options)

        return call

    for name in ("link", "rename", "replace", "unlink"):
        monkeypatch.setattr(os, name, wrapped(getattr(os, name)))


def run(code: str, *arguments: object) -> int:
    """Return the exit status of a program with these arguments."""
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=variables(),
        timeout=TIMEOUT_SECONDS,
        check=False,
    ).returncode


DIE_BEFORE_A_CALL = """
import os, sys
from bpetite import Tokenizer

def dying(real):
    def call(*arguments, **options):
        global calls_left
        calls_left -= 1
        if calls_left == 0:
            os._exit(9)
        return real(*arguments, **options)
    return call

new = Tokenizer.load(sys.argv[1])
calls_left = int(sys.argv[3])
for name in ("link", "rename", "replace", "unlink"):
    setattr(os, name, dying(getattr(os, name)))
new.save(sys.argv[2], overwrite=True)
"""


@posix_only
@pytest.mark.parametrize("number", slow_except(range(1, 14), *range(1, 14, 4)))
def test_killed_saver_leaves_a_pair_or_none(number: int, path: Path, new_file: Path) -> None:
    assert run(DIE_BEFORE_A_CALL, new_file, path, number) in (0, 9)
    if path.exists():
        assert Tokenizer.load(path) in (OLD, NEW)
    else:
        with pytest.raises(FileNotFoundError):
            Tokenizer.load(path)
        old = [name for name in names(path) if name.endswith(".old")]
        assert 1 <= len(old) <= 2
    NEW.save(path, overwrite=True)
    assert Tokenizer.load(path) == NEW


@pytest.mark.parametrize("number", range(1, 5))
def test_failed_saver_leaves_the_old_pair(
    number: int, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails as it moves either old file aside, and as it names either new one."""

    def fail() -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(_files, "_open_nameless", lambda _: None)
        at_call(number, fail, patch)
        with pytest.raises(OSError, match=re.escape(os.strerror(errno.EIO))) as caught:
            NEW.save(path, overwrite=True)
    assert os.path.basename(caught.value.filename) in FILES
    assert Tokenizer.load(path) == OLD
    assert names(path) == FILES


def results_of(*calls: Callable[[], Any]) -> list[Any]:
    """Return the results of calls that begin together, each in a thread that may hang."""
    barrier = Barrier(len(calls), timeout=TIMEOUT_SECONDS)
    futures: list[Future[Any]] = [Future() for _ in calls]

    def run(call: Callable[[], Any], future: Future[Any]) -> None:
        try:
            barrier.wait()
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    for each in zip(calls, futures, strict=True):
        Thread(target=run, args=each, daemon=True).start()
    return [future.result(TIMEOUT_SECONDS) for future in futures]


@posix_only
def test_savers_of_one_pair_take_turns(path: Path) -> None:
    def save(tokenizer: Tokenizer) -> None:
        for _ in range(10):
            tokenizer.save(path, overwrite=True)

    def load() -> None:
        for _ in range(40):
            try:
                assert Tokenizer.load(path) in (OLD, NEW)
            except FileNotFoundError:
                pass  # between the old pair and the new one
            except ValueError as error:
                if "another program replaced this file" not in str(error):
                    raise

    results_of(partial(save, OLD), partial(save, NEW), partial(save, OLD), load)
    assert Tokenizer.load(path) in (OLD, NEW)
    assert names(path) == FILES


def test_a_pair_that_tokenizers_reads_too_late_is_not_compared(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replaced(*arguments: Any) -> Any:
        NEW.save(path, overwrite=True)
        return encode(*arguments)

    encode = _gpt2.reference_encode
    monkeypatch.setattr(_gpt2, "reference_encode", replaced)
    assert Tokenizer.load(path) == OLD
    assert Tokenizer.load(path) == NEW


FORK_IN_A_SAVE = """
import fcntl, os, sys
from bpetite import Tokenizer

def fork_and_rename(old, new):
    os.rename = rename
    if os.fork() == 0:
        os.close(end_of_parent)
        os.read(end_of_child, 1)
        os._exit(0)
    rename(old, new)

end_of_child, end_of_parent = os.pipe()
rename, os.rename = os.rename, fork_and_rename
Tokenizer.load(sys.argv[1]).save(sys.argv[2], overwrite=True)
assert os.rename is rename
fcntl.flock(os.open(os.path.dirname(sys.argv[2]), os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
"""


@posix_only
def test_child_forked_in_a_save_keeps_no_lock(path: Path, new_file: Path) -> None:
    """A child shares the saver's lock, so the saver must release it, not only close its file."""
    assert run(FORK_IN_A_SAVE, new_file, path) == 0


def test_one_of_many_savers_makes_a_new_pair(tmp_path: Path) -> None:
    path = tmp_path / "vocab.json"

    def save(tokenizer: Tokenizer) -> Tokenizer | None:
        try:
            tokenizer.save(path)
        except FileExistsError:
            return None
        return tokenizer

    saved = results_of(*(partial(save, each) for each in (OLD, NEW) * 3))
    assert [Tokenizer.load(path)] == [each for each in saved if each is not None]
    assert names(path) == FILES


def test_reader_notices_a_new_pair(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pair is replaced after a reader has read vocab.json, before it opens merges.txt."""
    merges_path = _gpt2.merges_path

    with monkeypatch.context() as patch:

        def replaced(vocab_path: str) -> str:
            patch.undo()
            NEW.save(path, overwrite=True)
            return merges_path(vocab_path)

        patch.setattr(_gpt2, "merges_path", replaced)
        message = re.escape(f"{path}: another program replaced this file; load it again")
        with pytest.raises(ValueError, match=f"^{message}$"):
            Tokenizer.load(path)
    assert Tokenizer.load(path) == NEW


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("name", ["new.json", "vocab.json", "new.tiktoken"])
def test_read_only_folder_is_the_systems_error(
    name: str, code: int, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read-only folder forbids to create files, even to root."""
    before = {name: (path.parent / name).read_bytes() for name in names(path)}
    real_open, real_os_open = open, os.open

    def refuse(target: Any) -> None:
        raise OSError(code, os.strerror(code), os.fspath(target))

    def open_to_read(target: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if set(mode) & set("wxa+") and not isinstance(target, int):
            refuse(target)
        return real_open(target, mode, *arguments, **options)

    def os_open_to_read(target: Any, flags: int, *arguments: Any, **options: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            refuse(target)
        return real_os_open(target, flags, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(_files, "open", open_to_read, raising=False)
        patch.setattr(os, "open", os_open_to_read)
        with pytest.raises(OSError, match=re.escape(os.strerror(code))) as caught:
            OLD.save(path.parent / name, overwrite=True)
    assert (caught.value.errno, caught.value.filename) == (code, str(path.parent / name))
    assert {name: (path.parent / name).read_bytes() for name in names(path)} == before
