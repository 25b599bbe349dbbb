"""Run the command: inside this process, or as an installed program if the test needs one."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import BinaryIO
from unittest.mock import patch

import pytest

from bpetite import PATTERNS, Tokenizer, _cli
from bpetite.formats import _tiktoken

TEXT = "Hello hello world, café naïve, 你好你好 🙂🙂 " * 3
TOKENIZER = Tokenizer.train(TEXT, 290, special_tokens=("<|endoftext|>", "<|pad|>"))
"""The tokenizer of model.json in each test's folder; its special tokens are ids 290 and 291."""

RAW = "\ufeffone\r\ntwo\rthree\n\0\x1a\t café <|endoftext|> 你好 🙂👩‍👩‍👧 \n\n no newline".encode()
"""Bytes that a careless program changes: a BOM, CRLF, NUL, no newline at the end."""

SPECIAL = ("--special-token", "<|endoftext|>=290", "--special-token", "<|pad|>=291")
"""The special tokens of TOKENIZER as options, for its .tiktoken file; its pattern is gpt2."""

BOM_WARNING = (
    "begins with a byte order mark (U+FEFF), which is read as text; remove it unless you need it"
)


@dataclass(frozen=True)
class Result:
    """The exit code, standard output, and the lines of standard error of one run."""

    code: int | str | None
    out: bytes
    err: list[str]


def failure(line: str) -> Result:
    """Return the result of a failed run: one line on standard error, no output."""
    return Result(1, b"", [f"bpetite: {line}"])


@cache
def model_json() -> bytes:
    """Return the file of TOKENIZER: to save it for each test would wait for the disk each time."""
    with TemporaryDirectory() as place:
        TOKENIZER.save(Path(place, "model.json"))
        return Path(place, "model.json").read_bytes()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a new folder that has only model.json."""
    (tmp_path / "model.json").write_bytes(model_json())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def saved(tokenizer: Tokenizer, format: str) -> str:
    """Save a tokenizer in a format ("folder" means a model folder) and return the path."""
    names = {
        "bpetite": "saved.json",
        "tiktoken": "saved.tiktoken",
        "gpt2": "vocab.json",
        "huggingface": "tokenizer.json",
        "folder": "model-folder",
    }
    if format == "folder":
        Path(names[format]).mkdir()
    tokenizer.save(names[format])
    return names[format]


@pytest.fixture
def public_ranks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A .tiktoken file of TOKENIZER that bpetite knows as one of a public vocabulary."""
    name = saved(TOKENIZER, "tiktoken")
    digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    known = _tiktoken.Known("x", PATTERNS["gpt2"], dict(TOKENIZER.special_tokens), "")
    monkeypatch.setitem(_tiktoken.KNOWN, digest, known)
    return name


class Input(io.BytesIO):
    """Bytes on standard input."""

    name = "<stdin>"


def in_process(
    *arguments: str,
    stdin: bytes | Input | None = b"",
    stdout_open: bool = True,
    stderr_open: bool = True,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Result:
    """Run the command in this process. As in Python, a closed standard stream is None."""
    source = Input(stdin) if isinstance(stdin, bytes) else stdin
    out, err = io.BytesIO(), io.BytesIO()
    stdout = io.TextIOWrapper(out, encoding="utf-8", newline="") if stdout_open else None
    stderr = io.TextIOWrapper(err, encoding="utf-8", newline="", line_buffering=True)
    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, environment(variables), clear=True))
        stack.enter_context(redirect_stdout(stdout))
        stack.enter_context(redirect_stderr(stderr if stderr_open else None))
        reader = None if source is None else io.TextIOWrapper(io.BufferedReader(source), "utf-8")
        stack.enter_context(patch.object(sys, "stdin", reader))
        code: int | str | None
        try:
            code = _cli.main(arguments)
        except SystemExit as exit:
            code = exit.code
        if stdout is not None:
            stdout.flush()  # as Python does at exit
        if sys.stderr not in (None, stderr):
            sys.stderr.close()  # the replacement that the command opened
    return Result(code, out.getvalue(), err.getvalue().decode("utf-8").splitlines())


def run(
    *arguments: str,
    stdin: bytes = b"",
    command: tuple[str, ...] = (),
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Result:
    """Run the installed command, or `command`, in a process with these environment variables."""
    done = subprocess.run(
        [*(command or (installed(),)), *arguments],
        input=stdin,
        capture_output=True,
        env=environment(variables),
        timeout=60,
    )
    return Result(done.returncode, done.stdout, done.stderr.decode("utf-8").splitlines())


def start(
    *arguments: str,
    command: tuple[str, ...] = (),
    stdin: int | BinaryIO = subprocess.DEVNULL,
    stdout: int | BinaryIO = subprocess.PIPE,
    stderr: int | BinaryIO = subprocess.PIPE,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.Popen[bytes]:
    """Start the installed command, or `command`, with unbuffered streams."""
    return subprocess.Popen(
        [*(command or (installed(),)), *arguments],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=environment(variables),
        bufsize=0,
    )


def installed() -> str:
    """Return the path of this Python's bpetite command."""
    name = "bpetite.exe" if os.name == "nt" else "bpetite"
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which("bpetite")
    assert found, "the command bpetite is not installed"
    return found


def environment(variables: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Return this environment, without settings of Python's output, and with `variables`."""
    dropped = {
        "BPETITE_MODEL",
        "FORCE_COLOR",
        "NO_COLOR",
        "PYTHON_COLORS",
        "PYTHONIOENCODING",
        "PYTHONUNBUFFERED",
        "PYTHONUTF8",
    }
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    path = os.pathsep.join([str(Path(installed()).parent), os.environ.get("PATH", "")])
    return {**kept, "PATH": path, **variables}


def example(verb: str) -> list[str]:
    """Return the command lines at the end of the help of a verb."""
    help = in_process(verb, "--help").out.decode("utf-8")
    return [line.strip() for line in help.partition("example:\n")[2].splitlines()]
