"""Runs the programs of docs/clusters.md as a user does; a worker dies in the middle."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import pytest

import bpetite
from bpetite import Tokenizer
from bpetite.corpora import Corpus, tokenize
from support.engines import once
from support.pages import programs_of

RECIPES = programs_of("clusters.md")
"""Each program of the page by its name."""

PART_BYTES = 40_000
"""The size of a part in these tests."""

SMALLER = {
    "1 << 28": f"{PART_BYTES}",
    'end="<|endoftext|>")': f'end="<|endoftext|>", part_bytes={PART_BYTES})',
    "end=end": f"end=end, part_bytes={PART_BYTES}",
    "--end '<|endoftext|>'": f"--end '<|endoftext|>' --part-bytes {PART_BYTES}",
    "workers=8": "workers=2",
}
"""What the tests replace in a program."""

VOCAB_SIZE = 300
"""The size of a vocabulary that a program of the page trains."""

END_SECONDS = 40
"""The time that the processes of a cluster have to end, before the tests kill them."""

TIMEOUT_SECONDS = 200
"""The time that a program has on a busy machine: less than a test has (`faulthandler_timeout`)."""

DYING = """
import functools, os, signal
import bpetite, bpetite.corpora._part

def dying(function):
    @functools.wraps(function)
    def wrapper(*arguments, **options):
        try:
            os.remove(os.environ["BPETITE_TEST_FUSE"])
        except FileNotFoundError:
            return function(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)
    return wrapper

work = bpetite.corpora._part.PartWork
work.placed = dying(work.placed)
bpetite.PieceCounts.from_corpus = dying(bpetite.PieceCounts.from_corpus)
try:
    import bpetite.arrow
    bpetite.arrow.encode = dying(bpetite.arrow.encode)
except ImportError:
    pass
"""
"""The start of each Python process. A file is the fuse: the process that removes it dies.

A worker then dies between the writing of a part's files and their renaming, or before it returns
counts or ids.
"""


def needs(*packages: str) -> list[pytest.MarkDecorator]:
    """Return the marks of tests that start processes with some packages."""
    missing = [package for package in packages if find_spec(package) is None]
    return [
        once,
        pytest.mark.slow,
        pytest.mark.skipif(os.name == "nt", reason="kills processes by POSIX signals"),
        pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}"),
    ]


class Corpora:
    """A folder with a corpus, a vocabulary, and the results of one process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines = folder / "texts.jsonl"
        self.model = folder / "model.json"
        self.texts = [*topics.values()]
        self.lines.write_text("".join(json.dumps({"text": text}) + "\n" for text in self.texts))
        tokenizer = Tokenizer.train(self.texts, 500)
        tokenizer.save(self.model)
        serial = folder / "serial"
        end, part_bytes = "<|endoftext|>", PART_BYTES
        lines = Corpus(self.lines)
        manifest = tokenize(lines, tokenizer, serial, "megatron", end=end, part_bytes=part_bytes)
        assert len(manifest["parts"]) > 8
        self.tokens = contents(serial)
        self.ids = tokenizer.encode_batch(self.texts, allowed_special=())
        trained = folder / "trained.json"
        Tokenizer.train(self.texts, VOCAB_SIZE).save(trained)
        self.trained = trained.read_bytes()

    def parquet(self) -> Path:
        """Return a folder of Parquet files with the texts and their numbers."""
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        folder = self.folder / "parquet"
        if not folder.exists():
            folder.mkdir()
            table = pyarrow.table({"number": range(len(self.texts)), "text": self.texts})
            for number in range(4):
                rows = table.slice(number * 20, 20 if number < 3 else None)
                parquet.write_table(rows, folder / f"{number}.parquet")
        return folder

    def ids_in(self, folder: Path) -> list[list[int]]:
        """Return the ids of each text in Parquet files that a program has written."""
        dataset = pytest.importorskip("pyarrow.dataset")
        table = dataset.dataset(folder, format="parquet").to_table().sort_by("number")
        assert table["number"].to_pylist() == [*range(len(self.texts))]
        ids: list[list[int]] = table["ids"].to_pylist()
        return ids


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Corpora:
    """A corpus for the tests of a module."""
    return Corpora(tmp_path_factory.mktemp("corpora"))


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of every file that a reader of token files sees."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def program(name: str, folder: Path) -> Path:
    """Write a program of the page to a folder, with small parts and few workers."""
    source = RECIPES[name]
    for large, small in SMALLER.items():
        source = source.replace(large, small)
    path = folder / name
    path.write_text(source, "utf-8")
    return path


def environment(folder: Path, **variables: str) -> dict[str, str]:
    """Return the variables of processes that die at a fuse in a folder."""
    start = folder / "start"
    start.mkdir(exist_ok=True)
    (start / "sitecustomize.py").write_text(DYING, "utf-8")
    return {
        **os.environ,
        "BPETITE_ENGINE": bpetite.engine,
        "BPETITE_TEST_FUSE": str(folder / "fuse"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(start),
        **variables,
    }


@contextlib.contextmanager
def one_death(folder: Path) -> Iterator[None]:
    """Let one process die in the block. Fails if none did."""
    fuse = folder / "fuse"
    fuse.touch()
    try:
        yield
        assert not fuse.exists(), "no worker has died"
    finally:
        fuse.unlink(missing_ok=True)


def run(*command: str | Path, variables: dict[str, str], code: int = 0) -> None:
    """Run a program in a session of its own. A program that succeeds leaves no process behind."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            list(map(str, command)),
            cwd=Path(variables["BPETITE_TEST_FUSE"]).parent,  # datatrove writes logs there
            env=variables,
            stdin=subprocess.DEVNULL,
            # A process that is left behind would keep a pipe open.
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        with process, ended_session(process, may_leave_processes=code != 0):
            process.wait(TIMEOUT_SECONDS)
        output.seek(0)
        assert process.returncode == code, output.read().decode("utf-8", "replace")


def run_twice_at_once(*command: str | Path, variables: dict[str, str]) -> None:
    """Run a program in two processes that begin together."""
    with ThreadPoolExecutor(2) as threads:
        runs = [threads.submit(run, *command, variables=variables) for _ in range(2)]
    for each in runs:
        each.result()


def check_tokens(name: str, corpora: Corpora, variables: dict[str, str], folder: Path) -> None:
    """Check that a program writes the token files of one process, although a worker dies."""
    tokens = folder / "tokens"
    command = (sys.executable, program(name, folder), corpora.lines, corpora.model, tokens)
    with one_death(corpora.folder):
        run_twice_at_once(*command, variables=variables)
    assert contents(tokens) == corpora.tokens


def check_counts(name: str, corpora: Corpora, variables: dict[str, str], folder: Path) -> None:
    """Check that a program trains the vocabulary of one process, although a worker dies."""
    model = folder / "model.json"
    with one_death(corpora.folder):
        run(sys.executable, program(name, folder), corpora.lines, model, variables=variables)
    assert model.read_bytes() == corpora.trained


@contextlib.contextmanager
def cluster(start: str, variables: dict[str, str], line: str = "") -> Iterator[str]:
    """Run a program that starts a cluster, prints its address, and ends it at the end of input.

    The program gets a line of input before.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", start],
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        encoding="utf-8",
    )
    with process, ended_session(process):
        assert process.stdin is not None
        assert process.stdout is not None
        print(line, file=process.stdin, flush=True)
        address = process.stdout.readline().strip()
        assert address, "the cluster did not start"
        yield address
        process.stdin.close()
        assert process.wait(END_SECONDS) == 0


@contextlib.contextmanager
def ended_session(
    process: subprocess.Popen[Any], may_leave_processes: bool = False
) -> Iterator[None]:
    """Kill the processes of a session that are left after the block.

    Fails if there are any, unless the block has failed, or a killed program may leave them.
    """
    seconds = 0
    try:
        yield
        seconds = 0 if may_leave_processes else END_SECONDS
    finally:
        deadline = time.monotonic() + seconds
        while (left := session(process.pid)) and time.monotonic() < deadline:
            time.sleep(0.1)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert may_leave_processes or not left, f"processes left behind: {left}"


def session(number: int) -> list[int]:
    """Return the processes of a session that have not ended."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,stat="], capture_output=True, encoding="ascii", check=True
    )
    found = []
    for line in listed.stdout.splitlines():
        pid, state = line.split()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if not state.startswith("Z") and os.getsid(int(pid)) == number:
                found.append(int(pid))
    return found
