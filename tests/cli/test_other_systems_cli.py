"""The command line on Windows and macOS, whose consoles and files are simulated."""

from __future__ import annotations

import errno
import io
import os
import shlex
import stat
import subprocess
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from support.cli import TEXT, TOKENIZER, Result, folder, in_process, run  # noqa: F401 - a fixture
from support.engines import quick_once
from support.windows import needs_proc, windows  # noqa: F401 - a fixture

from bpetite._cli import VERBS, common, main
from bpetite._cli.errors import is_closed_pipe

pytestmark = quick_once


CONSOLE = {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}
"""The encoding of a pipe or a console of Windows in Western Europe."""

WIDE = "naïve 世界 🙂"


# Consoles


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_is_for_every_console(verb: str) -> None:
    out = io.BytesIO()
    with redirect_stdout(io.TextIOWrapper(out, "cp1252", "strict")) as stream:
        assert main([*filter(None, [verb]), "--help"]) == 0
        stream.flush()
    assert out.getvalue().startswith(b"usage: bpetite")


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", "--model", "model.json", "--text", WIDE),
        *(
            pytest.param(arguments, marks=pytest.mark.slow)
            for arguments in (
                ("inspect", "--model", "model.json", "--steps", WIDE),
                ("inspect", "--model", "model.json", "世界.txt"),
                ("report", "model.json", "世界.txt", "--json", "--quiet"),
                ("report", "model.json", "世界.txt", "--quiet"),
                ("count", "--model", "model.json", "世界.txt"),
            )
        ),
        ("decode", "--model", "model.json", "ids.txt"),
    ],
    ids=lambda arguments: " ".join(arguments[:1]),
)
def test_results_are_utf8_on_every_console(arguments: tuple[str, ...]) -> None:
    Path("世界.txt").write_bytes(WIDE.encode())
    Path("ids.txt").write_bytes(" ".join(map(str, TOKENIZER.encode(WIDE))).encode())
    expected = in_process(*arguments)
    assert (expected.code, expected.err) == (0, [])
    assert not expected.out.isascii()
    assert run(*arguments, variables=CONSOLE) == expected


def test_message_escapes_characters_that_a_console_lacks() -> None:
    result = run("count", "--model", "model.json", "世界.txt", variables=CONSOLE)
    assert (result.code, len(result.err)) == (1, 1)
    assert result.err[0].startswith("bpetite: \\u4e16\\u754c.txt: ")


@pytest.mark.parametrize(
    ("variables", "has_colors"),
    [
        ({}, False),
        ({"WT_SESSION": "1"}, True),
        ({"TERM": "xterm"}, True),
        ({"WT_SESSION": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_old_consoles_of_windows_get_no_colors(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], has_colors: bool
) -> None:
    for name in (*common._COLORED_CONSOLES, "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr(os, "name", "nt")
    assert common.shows_colors() == has_colors


# Commands and paths


WORDS = (
    ["C:\\Program Files\\bpetite.exe", "a b\\"],
    ['say "hi"', "", "x \\"],
    ["a|b", "a&b", "(c)"],
)


@pytest.mark.parametrize("words", WORDS, ids=["paths", "quotes", "operators"])
def test_commands_for_windows_have_double_quotes(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "name", "nt")
    command = common.command_line(["bpetite", *words])
    monkeypatch.undo()
    assert command == " ".join(["bpetite", *(f'"{inner(word)}"' for word in words)])


def inner(word: str) -> str:
    """Return a word between quotes, as Python itself does for words with spaces."""
    return subprocess.list2cmdline([f" {word}"])[2:-1]


def test_commands_elsewhere_are_for_a_shell() -> None:
    words = ["bpetite", "a b", "it's", 'say "hi"']
    assert os.name == "nt" or shlex.split(common.command_line(words)) == words


@pytest.mark.parametrize("option", ["--weight", "--balance"])
@pytest.mark.parametrize("path", ["C:\\data\\a=b.txt", "C:/data/a.txt", "\\\\server\\share\\a.txt"])
def test_paths_of_windows_stand_before_an_equals_sign(option: str, path: str) -> None:
    from bpetite._cli import pieces, train

    if option == "--weight":
        assert pieces._weight(f"{path}=2") == (path, 2)
    else:
        assert train._two_files(f"{path}=D:\\dev.txt") == (path, "D:\\dev.txt")


@needs_proc
@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize("verb", ["train", "count-pieces"])
@pytest.mark.parametrize("name", ["aux.json", "new?.json", "model.json"])
def test_output_that_windows_refuses_is_found_before_the_work(verb: str, name: str) -> None:
    os.chmod("model.json", stat.S_IREAD)
    size = ("--vocab-size", "257") if verb == "train" else ()
    result = in_process(verb, "missing.txt", *size, "--output", name, "--force")
    reason = "is read-only" if name == "model.json" else "not a valid file name on Windows"
    assert (result.code, len(result.err)) == (1, 1)
    assert result.err[0].startswith(f"bpetite: {name}: {reason}")


@pytest.mark.parametrize(
    ("error", "is_closed"),
    [
        (OSError(errno.EINVAL, "Invalid argument"), True),
        (OSError(errno.EINVAL, "Invalid argument", "*.txt"), False),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), True),
        (OSError(errno.ENOSPC, "No space"), False),
    ],
    ids=["pipe of windows", "wrong name", "pipe", "full disk"],
)
def test_closed_pipe_of_windows_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, error: OSError, is_closed: bool
) -> None:
    monkeypatch.setattr(os, "name", "nt")
    assert is_closed_pipe(error) == is_closed


def test_carriage_returns_are_text() -> None:
    """No stream and no file translates newlines."""
    Path("dos.txt").write_bytes(b"one\r\ntwo\rthree\n")
    ids = run("encode", "--model", "model.json", "dos.txt", variables=CONSOLE)
    assert ids.code == 0
    decoded = run("decode", "--model", "model.json", stdin=ids.out, variables=CONSOLE)
    assert decoded == Result(0, b"one\r\ntwo\rthree\n", [])
    lines = in_process("encode", "--model", "model.json", "--lines", "dos.txt")
    assert len(lines.out.splitlines()) == 2
