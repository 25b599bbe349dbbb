"""The command as users run it: pipes, signals, terminals, locales, wrong usage."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time
import types
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, BinaryIO, NamedTuple, NoReturn, cast

import pytest
from support.cli import (
    BOM_WARNING,
    RAW,
    TOKENIZER,
    Result,
    environment,
    example,
    failure,
    in_process,
    installed,
    run,
    saved,
    start,
)
from support.cli import folder as folder  # a fixture
from support.engines import native_only, quick_once
from support.examples import slow_except
from support.programs import output_of, posix_only

import _bpetite_command
import bpetite
from bpetite import Tokenizer

pytestmark = quick_once

VERBS = (
    *("train", "convert", "inspect", "check", "report"),
    *("encode", "decode", "count", "chunk", "chat"),
    *("tokenize", "verify", "count-pieces", "serve"),
)

STREAM = ("decode", "--stream", "--model", "model.json")

TRAIN_ON_MODEL = ("train", "model.json", "--input-format", "text")
"""The only file of each folder, as text."""

IS_A_FOLDER = "Permission denied" if os.name == "nt" else "Is a directory"

# Name, version, help


def test_version_names_the_engine() -> None:
    line = f"bpetite {bpetite.__version__} ({bpetite.engine} engine)"
    as_command = run("--version")
    as_module = run("--version", command=(sys.executable, "-m", "bpetite"))
    assert as_command == as_module == Result(0, f"{line}{os.linesep}".encode(), [])


def test_help_lists_every_verb() -> None:
    help = in_process("--help")
    listed = re.findall(r"^    ([\w-]+)\b", help.out.decode(), re.MULTILINE)
    assert (help.code, help.err, tuple(listed)) == (0, [], VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_ends_with_its_example(verb: str) -> None:
    assert example(verb)[-1].startswith("bpetite ")
    assert any(f"bpetite {verb} " in line for line in example(verb))


@pytest.mark.parametrize(
    "verb",
    slow_except([verb for verb in VERBS if verb not in ("chat", "serve")], "encode"),
)
def test_example_of_the_help_works(verb: str) -> None:
    """The tests of `serve` run its example; `chat` needs a model folder."""
    Path("model.json").unlink()
    Path("README.md").write_text("Hello world, this is a readme.\n" * 20, encoding="utf-8")
    done = [
        subprocess.run(line, shell=True, capture_output=True, env=environment(), timeout=60)
        for line in example(verb)
    ]
    assert [process.returncode for process in done] == [0] * len(done)
    assert done[-1].stdout + done[-1].stderr != b""
    assert Tokenizer.load("model.json").special_tokens.keys() == {"<|endoftext|>"}


# Wrong usage: exit code 2


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["unknown"],
        ["--unknown"],
        ["encode", "--text", "x"],
        ["decode"],
        ["count"],
        ["inspect"],
        ["encode", "--model", "model.json", "--text", "x", "model.json"],
        ["encode", "--model", "model.json", "--text", "x", "-"],
        ["encode", "--model", "model.json", "--text", "x", "--format", "xml"],
        ["count", "--model", "model.json", "--text", "x", "model.json"],
        ["decode", "--model", "model.json", "model.json", "--ids", "72"],
        ["decode", "--model", "model.json", "--ids"],
        ["decode", "--model", "model.json", "--errors", "surrogateescape"],
        ["decode", "--model", "model.json", "--stream", "model.json"],
        ["decode", "--model", "model.json", "--stream", "--ids", "72"],
        ["decode", "--model", "model.json", "--stream", "--format", "u16"],
        ["decode", "--model", "model.json", "--stream", "--output", "new.txt"],
        ["check", "model.json", "--only-texts"],
        ["inspect", "--model", "model.json", "--text", "x", "model.json"],
        ["train", "model.json", "--output", "new.json"],
        ["train", "model.json", "--vocab-size", "300"],
        ["train", "model.json", "--output", "new.json", "--vocab-size", ""],
        ["train", "model.json", "--output", "new.json", "--vocab-size", "1" * 5000],
        ["convert", "model.json"],
        ["convert", "model.json", "new.json", "more.json"],
        ["convert", "model.json", "new.json", "--to", "unknown"],
        ["convert", "model.json", "new.json", "--from", "unknown"],
        ["convert", "model.json", "new.json", "--verify"],
        ["convert", "model.json", "new.json", "--special-token", "<a>"],
        ["convert", "model.json", "new.json", "--special-token", "=7"],
        ["convert", "model.json", "new.json", "--special-token", "<a>="],
        ["convert", "model.json", "new.json", "--add-special-token", "=7"],
        ["convert", "model.json", "new.json", "--special-token", "<a>=-7"],
        ["convert", "model.json", "new.json", "--special-token", "<a>=0x7"],
        ["convert", "model.json", "new.json", "--special-token", "<a>=" + "1" * 5000],
        ["report"],
        ["serve"],
        ["serve", "model.json"],
        ["serve", "--model", "model.json", "--port", "-1"],
        ["serve", "--model", "model.json", "--port", "65536"],
        ["serve", "--model", "model.json", "--port", "http"],
    ],
    ids=lambda arguments: " ".join(arguments)[:60] or "nothing",
)
def test_wrong_usage_exits_2_with_the_reason(arguments: list[str]) -> None:
    result = in_process(*arguments, stdin=b"72")
    assert (result.code, result.out) == (2, b"")
    assert result.err[0].startswith("usage: bpetite")
    assert re.match(r"bpetite( \w+)?: error: ", result.err[-1])
    assert os.listdir() == ["model.json"]


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        ("255", "must be from 256 to 4294967296"),
        ("4294967297", "must be from 256 to 4294967296"),
        ("x", "invalid number value"),
    ],
)
def test_wrong_vocab_size_names_the_range(size: str, reason: str) -> None:
    result = in_process("train", "model.json", "--output", "new.json", "--vocab-size", size)
    assert reason in result.err[-1]


def test_wrong_option_of_a_verb_shows_its_usage() -> None:
    for arguments in (["--merges"], ["--merges", "x.json"], ["x.json", "--merges", "-x"]):
        result = in_process("encode", "--model", "model.json", *arguments)
        assert (result.code, result.out) == (2, b"")
        assert result.err[0].startswith("usage: bpetite encode [-h] --model FILE")
        assert result.err[-1].startswith("bpetite encode: error: unrecognized arguments: --merges")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["encode", "--model", "model.json", "-t", "--help"], "-t=VALUE"),
        (["encode", "--model", "model.json", "--text", "--model"], "-t=VALUE"),
        (["train", "model.json", "--vocab-size", "--quiet"], "--vocab-size=VALUE"),
    ],
)
def test_value_like_an_option_gets_a_hint(arguments: list[str], hint: str) -> None:
    result = in_process(*arguments)
    assert (result.code, result.out) == (2, b"")
    assert result.err[-1].endswith(
        f": expected one argument; write {hint} if the value begins with a hyphen"
    )


# Failures: exit code 1, one line


@pytest.mark.parametrize(
    "arguments",
    [["encode", "--text", "x"], ["decode"], ["count"], ["inspect"], ["serve"]],
)
def test_missing_model_is_named(arguments: list[str]) -> None:
    result = in_process(*arguments, "--model", "none.json", stdin=b"72")
    assert result == failure("none.json: No such file or directory")


def test_folder_without_a_model_is_named() -> None:
    Path("inner").mkdir()
    result = in_process("encode", "--model", "inner", "--text", "x")
    assert result == failure(
        "inner: no tokenizer.json, no tekken.json, no vocab.json, no tiktoken.model, no "
        "tokenizer.model, no *.tiktoken in this folder"
    )


# Models in any format

IDS = " ".join(map(str, TOKENIZER.encode(RAW.decode())))

WITH_A_MODEL = pytest.mark.parametrize(
    ("verb", "stdin"),
    [
        (["encode"], RAW),
        (["count"], RAW),
        (["decode"], IDS.encode()),
        (["decode", "--stream"], IDS.encode()),
        (["inspect", "--text", RAW.decode()], b""),
    ],
    ids=lambda value: value[-1][:8] if isinstance(value, list) else "",
)


def notes(stdin: bytes) -> list[str]:
    """Return the lines that standard error has for this input."""
    return [f"bpetite: standard input {BOM_WARNING}"] if stdin == RAW else []


@WITH_A_MODEL
def test_model_may_be_a_folder(verb: list[str], stdin: bytes) -> None:
    expected = in_process(*verb, "--model", "model.json", stdin=stdin)
    assert (expected.code, expected.err) == (0, notes(stdin))
    assert in_process(*verb, "--model", saved(TOKENIZER, "folder"), stdin=stdin) == expected


def test_ranks_without_a_known_pattern_are_refused() -> None:
    result = in_process("encode", "--model", saved(TOKENIZER, "tiktoken"), stdin=RAW)
    assert (result.code, result.out, len(result.err)) == (1, b"", 1)
    assert result.err[0].startswith("bpetite: saved.tiktoken: a .tiktoken file lacks the pattern")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"no model", "not JSON"),
        (b"\xff", "UTF-8"),
        (b'{"schema_version": 1}', "the key 'mergeable_vocab_size' is missing"),
        (b'{"schema_version":\n\n3}', "schema_version"),
        (b"[" * 100_000, "m.json"),
        (b"", "m.json"),
    ],
    ids=lambda value: repr(value[:30]),
)
def test_refused_model_gives_one_line(content: bytes, reason: str) -> None:
    Path("m.json").write_bytes(content)
    result = in_process("encode", "--model", "m.json", "--text", "x")
    assert (result.code, result.out, len(result.err)) == (1, b"", 1)
    assert result.err[0].startswith("bpetite: m.json: ")
    assert reason in result.err[0]


WITH_MODEL = {
    "encode": ("--text", "~"),
    "decode": ("--ids", "72"),
    "count": ("--text", "~"),
    "chunk": ("--max-tokens", "1", "--text", "~"),
    "inspect": ("--text", "~"),
}
"""Verbs that need a model, with the rest of a command."""


@pytest.mark.parametrize("verb", WITH_MODEL)
def test_variable_names_the_model_unless_the_option_does(verb: str) -> None:
    command = (verb, *WITH_MODEL[verb])
    by_option = in_process(*command, "--model", "model.json", stdin=b"72 ")
    assert by_option.code == 0
    for arguments, model in ((command, "model.json"), ((*command, "-m", "model.json"), "none")):
        variables = {"BPETITE_MODEL": model}
        assert in_process(*arguments, stdin=b"72 ", variables=variables) == by_option
    broken = in_process(*command, variables={"BPETITE_MODEL": "none.json"})
    assert broken == failure("none.json: No such file or directory")


@pytest.mark.parametrize("verb", [*WITH_MODEL, "tokenize", "serve"])
@pytest.mark.parametrize("variables", [{}, {"BPETITE_MODEL": ""}], ids=["unset", "empty"])
def test_missing_model_names_option_and_variable(verb: str, variables: dict[str, str]) -> None:
    result = in_process(verb, *WITH_MODEL.get(verb, ()), variables=variables)
    assert (result.code, result.out) == (2, b"")
    assert "are required: " in result.err[-1]
    assert "--model/-m" in result.err[-1]
    assert result.err[-1].endswith("; the variable BPETITE_MODEL may name the model instead")


@pytest.mark.parametrize("verb", WITH_MODEL)
def test_failed_allocation_is_one_line(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: object, **__: object) -> NoReturn:
        raise MemoryError

    monkeypatch.setattr(Tokenizer, "load", load)
    result = in_process(verb, "--model", "model.json", *WITH_MODEL[verb])
    assert result == failure("out of memory")


@pytest.mark.parametrize("verb", ["count", "encode"])
def test_too_little_memory_for_the_ids_names_the_file(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def encode_buffer(_: object, data: bytes, *__: object, **___: object) -> None:
        if data:
            raise MemoryError

    Path("texts.jsonl").write_bytes(b'{"text": "abc"}\n')
    monkeypatch.setattr(Tokenizer, "encode_buffer", encode_buffer)
    result = in_process(verb, "--model", "model.json", "texts.jsonl")
    assert result == failure("texts.jsonl: out of memory")


def test_tokenize_takes_the_model_of_the_variable() -> None:
    Path("a.txt").write_bytes(b"~")
    command = ("tokenize", "a.txt", "--format", "megatron", "--output", "out")
    assert in_process(*command, variables={"BPETITE_MODEL": "model.json"}).code == 0


@pytest.mark.parametrize("verb", ["encode", "count", "decode"])
def test_unreadable_input_is_named(verb: str) -> None:
    Path("inner").mkdir()
    missing = in_process(verb, "--model", "model.json", "none.txt")
    assert missing == failure("none.txt: No such file or directory")
    reason = IS_A_FOLDER if verb == "decode" else "the folder has no files"
    assert in_process(verb, "--model", "model.json", "inner") == failure(f"inner: {reason}")


@pytest.mark.parametrize("verb", ["encode", "count"])
@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"a\xffb", "byte 1 (0xff: invalid start byte)"),
        (b"\xe4\xbd\xa0 \xe4\xbd", "byte 4 (0xe4: unexpected end of data)"),
        (b"x" * 100_000 + b"\xed\xa0\x80", "byte 100000 (0xed: invalid continuation byte)"),
    ],
    ids=["start", "end", "surrogate"],
)
def test_invalid_utf8_is_located(verb: str, data: bytes, place: str) -> None:
    Path("bad.txt").write_bytes(data)
    by_name = in_process(verb, "--model", "model.json", "bad.txt")
    assert by_name == failure(f"bad.txt is not UTF-8 at {place}")
    by_input = in_process(verb, "--model", "model.json", stdin=data)
    assert by_input == failure(f"standard input is not UTF-8 at {place}")


@pytest.mark.parametrize(
    ("encoding", "mark", "fault"),
    [
        ("UTF-16", b"\xff\xfe", "byte 0 (0xff: invalid start byte; "),
        ("UTF-16", b"\xfe\xff", "byte 0 (0xfe: invalid start byte; "),
        ("UTF-32", b"\xff\xfe\0\0", "byte 0 (0xff: invalid start byte; "),
        ("UTF-32", b"\0\0\xfe\xff", "byte 2 (0xfe: invalid start byte; "),
    ],
    ids=["UTF-16-LE", "UTF-16-BE", "UTF-32-LE", "UTF-32-BE"],
)
def test_utf16_and_utf32_are_recognised(encoding: str, mark: bytes, fault: str) -> None:
    Path("notes.txt").write_bytes(mark + b"\0h\0i")
    hint = f"it looks like {encoding}, so convert it: iconv -f {encoding} -t UTF-8)"
    for verb, *options in (
        *(["count"], ["encode"], ["chunk", "--max-tokens", "9"], ["inspect"]),
        *(["chunk", "--max-tokens", "9", "--keep", side] for side in ("start", "end")),
    ):
        result = in_process(verb, "--model", "model.json", *options, "notes.txt")
        assert result == failure(f"notes.txt is not UTF-8 at {fault}{hint}")
    ids = in_process("decode", "--model", "model.json", "notes.txt")
    assert ids == failure(f"notes.txt: not UTF-8 at {fault}{hint}")


def test_newline_in_a_file_name_keeps_one_line() -> None:
    result = in_process("encode", "--model", "no\nsuch.json", "--text", "x")
    assert (result.code, result.out, len(result.err)) == (1, b"", 1)


# An engine that is missing, and memory that is short


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ("native", "BPETITE_ENGINE=native, but this installation has no native engine; "),
        ("rust", "BPETITE_ENGINE must be native or python, got 'rust'"),
    ],
)
def test_a_missing_engine_gives_one_line(wanted: str, reason: str, tmp_path: Path) -> None:
    site = "import sys\nsys.modules['bpetite._engine._native'] = None\n"
    (tmp_path / "sitecustomize.py").write_text(site)
    variables = {"BPETITE_ENGINE": wanted, "PYTHONPATH": str(tmp_path)}
    for command, line in (((), f"bpetite: {reason}"), ((sys.executable, "-m", "bpetite"), reason)):
        result = run("--version", command=command, variables=variables)
        assert (result.code, result.out, len(result.err)) == (1, b"", 1)
        assert line in result.err[0]


LITTLE_MEMORY = """
import contextlib, io, resource
from bpetite._cli import main

with open("numbers.txt", "w") as file:
    file.write(" ".join(map(str, range(1 << 18))))
with open("/proc/self/statm") as sizes:
    used = int(sizes.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (5 << 20), resource.RLIM_INFINITY))
with contextlib.redirect_stderr(io.StringIO()) as errors:
    code = main(["train", "numbers.txt", "--vocab-size", "900", "--output", "new.json", "--quiet"])
print(code, errors.getvalue())
"""


@native_only
@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory as Linux does")
def test_command_says_that_memory_is_short() -> None:
    # The file or the engine may be the first to need more.
    assert output_of(LITTLE_MEMORY) in (
        "1 bpetite: numbers.txt: out of memory\n\n",
        "1 bpetite: the system has too little memory for this call\n\n",
    )


# Standard streams that are closed


READERS = pytest.mark.parametrize(
    "verb", [["encode"], ["decode"], ["decode", "--stream"], ["count"]], ids=" ".join
)


@READERS
def test_closed_stdin_is_a_failure(verb: list[str]) -> None:
    result = in_process(*verb, "--model", "model.json", stdin=None)
    assert result == failure("standard input is closed")


def test_closed_stdin_is_fine_if_unread() -> None:
    result = in_process("encode", "--model", "model.json", "--text", "~", stdin=None)
    assert result == Result(0, b"[126]\n", [])


@READERS
def test_closed_stdout_is_a_failure(verb: list[str]) -> None:
    result = in_process(*verb, "--model", "model.json", stdin=b"72", stdout_open=False)
    assert result == failure("standard output is closed")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["encode", "--model", "none.json", "--text", "x"], 1),
        (["train", "model.json", "--vocab-size", "9999", "--output", "none/m.json"], 1),
        (["encode", "--text", "x"], 2),
    ],
)
def test_closed_stderr_leaves_the_exit_code(arguments: list[str], code: int) -> None:
    assert in_process(*arguments, stderr_open=False) == Result(code, b"", [])


@posix_only
@pytest.mark.parametrize(
    ("redirection", "result"),
    [
        pytest.param("<&-", failure("standard input is closed"), marks=pytest.mark.slow),
        (">&-", failure("standard output is closed")),
        pytest.param("2>&-", Result(0, b"[126]\n", []), marks=pytest.mark.slow),
    ],
)
def test_closed_streams_in_a_process(redirection: str, result: Result) -> None:
    shell = ("sh", "-c", f'exec "$@" {redirection}', "sh", installed())
    assert run("encode", "--model", "model.json", stdin=b"~", command=shell) == result


# Warnings


@pytest.mark.parametrize("category", [UserWarning, RuntimeWarning])
def test_warning_of_the_library_is_one_line(
    monkeypatch: pytest.MonkeyPatch, category: type[Warning]
) -> None:
    def count(*_: object, **__: object) -> int:
        warnings.warn("first\nsecond", category, stacklevel=1)
        return 7

    monkeypatch.setattr(Tokenizer, "count", count)
    result = in_process("count", "--model", "model.json", "--text", "x")
    assert result == Result(0, b"7\n", ["bpetite: first second"])


def test_keep_warns_of_a_byte_order_mark() -> None:
    Path("bom.txt").write_bytes(b"\xef\xbb\xbf~")
    arguments = ("chunk", "--model", "model.json", "--max-tokens", "9")
    for keep in ("start", "end"):
        by_name = in_process(*arguments, "--keep", keep, "bom.txt")
        assert (by_name.code, by_name.err) == (0, [f"bpetite: bom.txt {BOM_WARNING}"])
        by_input = in_process(*arguments, "--keep", keep, stdin=b"\xef\xbb\xbf~")
        expected = (0, by_name.out, [f"bpetite: standard input {BOM_WARNING}"])
        assert (by_input.code, by_input.out, by_input.err) == expected


@pytest.mark.parametrize("verb", ["encode", "count"])
def test_byte_order_mark_is_warned_of(verb: str) -> None:
    Path("bom.txt").write_bytes(b"\xef\xbb\xbf~")
    Path("bom in the middle.txt").write_bytes(b"~\xef\xbb\xbf")
    arguments = (verb, "--model", "model.json")
    result = in_process(*arguments, "bom.txt", "bom in the middle.txt")
    assert (result.code, result.err) == (0, [f"bpetite: bom.txt {BOM_WARNING}"])
    plain = in_process(*arguments, "--text", "\ufeff~")
    assert (plain.code, plain.err) == (0, [])
    assert in_process(*arguments, stdin=b"\xef\xbb\xbf~").out == plain.out


# Pipes


@pytest.mark.parametrize("format", ["json", "lines", "text"])
def test_decode_reverses_encode(format: str) -> None:
    ids = in_process("encode", "--model", "model.json", "--format", format, stdin=RAW)
    assert (ids.code, ids.err) == (0, notes(RAW))
    assert in_process("decode", "--model", "model.json", stdin=ids.out) == Result(0, RAW, [])


def pipe(stream: IO[bytes] | None) -> BinaryIO:
    """Return a stream of a process that has a pipe for it."""
    assert stream is not None
    return cast(BinaryIO, stream)


@pytest.fixture
def closed_pipe() -> Iterator[int]:
    """The writable end of a pipe without a reader."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@posix_only
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["--help"], id="help", marks=pytest.mark.slow),
        pytest.param(["encode", "--model", "model.json", "ids.txt"], id="encode"),
        pytest.param(["decode", "--stream", "--model", "model.json"], id="stream"),
    ],
)
def test_absent_reader_is_no_failure(arguments: list[str], closed_pipe: int) -> None:
    Path("ids.txt").write_bytes(b"72 " * 100_000)
    with open("ids.txt", "rb") as ids, start(*arguments, stdin=ids, stdout=closed_pipe) as process:
        assert pipe(process.stderr).read() == b""
    assert process.returncode == 0


@posix_only
def test_convert_finishes_without_a_reader(closed_pipe: int) -> None:
    with start("convert", "model.json", "new.json", stderr=closed_pipe) as process:
        assert pipe(process.stdout).read() == b""
    assert process.returncode == 0
    assert Path("new.json").read_bytes() == Path("model.json").read_bytes()


@posix_only
def test_train_finishes_without_a_reader_of_its_report(closed_pipe: int) -> None:
    train = (*TRAIN_ON_MODEL, "--vocab-size", "300", "--quiet", "--output", "new.json")
    with start(*train, stdout=closed_pipe) as process:
        assert pipe(process.stderr).read() == b""
    assert (process.returncode, sorted(os.listdir())) == (0, ["model.json", "new.json"])


@posix_only
def test_train_finishes_without_a_reader_of_progress(closed_pipe: int) -> None:
    train = (*TRAIN_ON_MODEL, "--vocab-size", "300", "--output", "new.json")
    with start(*train, stderr=closed_pipe) as process:
        report = pipe(process.stdout).read()
    assert (process.returncode, sorted(os.listdir())) == (0, ["model.json", "new.json"])
    assert report.startswith(b"{")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize(
    "arguments",
    [["encode", "--model", "model.json", "--text", "hello"], ["--version"]],
    ids=" ".join,
)
def test_full_disk_gives_one_line(arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full, start(*arguments, stdout=full) as process:
        words = pipe(process.stderr).read()
    assert (process.returncode, words) == (1, b"bpetite: No space left on device\n")


# Ctrl-C


@pytest.fixture
def _sigint_reaches_children() -> Iterator[None]:
    """Handle SIGINT: children of a process that ignores it would ignore it too."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bool]:
    """Send Ctrl-C; return the exit code, the rest of standard error, and if it was prompt.

    Processor time tells if it was prompt, since other processes may run meanwhile.
    """
    import resource

    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    before = processor_seconds(process)
    process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
    code = process.wait()
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = ended.ru_utime + ended.ru_stime - children.ru_utime - children.ru_stime
    return code, pipe(process.stderr).read(), used - before < 1


def processor_seconds(process: subprocess.Popen[bytes]) -> float:
    """Return the processor time of a running child; 0 if the system does not tell."""
    if sys.platform != "linux":
        return 0
    return time.clock_gettime(~process.pid << 3 | 2)  # Linux's number of the clock of a process


def write_corpus(words: int) -> None:
    """Write corpus.txt: random words, so that training has many merges to learn."""
    letters, generator = "abcdefghijklmnopqrstuvwxyz", random.Random(1)
    corpus = " ".join("".join(generator.choices(letters, k=12)) for _ in range(words))
    Path("corpus.txt").write_text(corpus, encoding="utf-8")


@posix_only
@pytest.mark.usefixtures("_sigint_reaches_children")
@pytest.mark.parametrize("stage", ["counting", "merging"])
def test_ctrl_c_in_training_keeps_the_old_output(stage: str) -> None:
    before = Path("model.json").read_bytes()
    write_corpus(words=50_000)
    source = "-" if stage == "counting" else "corpus.txt"
    train = ("train", source, "--vocab-size", "999999", "--output", "model.json", "--force")
    with start(*train, stdin=subprocess.PIPE) as process:
        if stage == "counting":
            pipe(process.stdin).write(b"ab " * (1 << 19))  # more than a pipe holds
        else:
            counting = pipe(process.stderr).readline()  # printed after the start of merging
            assert counting.startswith(b"bpetite: counting: ")
        assert interrupted(process) == (130, b"bpetite: interrupted\n", True)
        assert pipe(process.stdout).read() == b""
    assert sorted(os.listdir()) == ["corpus.txt", "model.json"]
    assert Path("model.json").read_bytes() == before


TRAIN_AGAIN = ("train", "corpus.txt", "--vocab-size", "400", "--output", "model.json", "--force")


class Trained(NamedTuple):
    """A run of TRAIN_AGAIN to its end."""

    corpus: bytes
    output: bytes
    seconds: float


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """The corpus and the output of a run, and its time."""
    with contextlib.chdir(tmp_path_factory.mktemp("trained")):
        write_corpus(words=2000)
        started = time.monotonic()
        assert run(*TRAIN_AGAIN).code == 0
        seconds = time.monotonic() - started
        return Trained(Path("corpus.txt").read_bytes(), Path("model.json").read_bytes(), seconds)


@posix_only
@pytest.mark.usefixtures("_sigint_reaches_children")
def test_ctrl_c_ends_a_wait_for_input() -> None:
    with start(*STREAM, stdin=subprocess.PIPE) as process:
        pipe(process.stdin).write(b"72\n")
        assert pipe(process.stdout).read(1) == b"H"
        assert interrupted(process) == (130, b"bpetite: interrupted\n", True)


@posix_only
@pytest.mark.usefixtures("_sigint_reaches_children")
@pytest.mark.parametrize(
    "arguments",
    [
        ["report", "model.json", "model.json", "-"],
        ["convert", "model.json", "new.json", "--verify", "-"],
    ],
    ids=["report", "convert"],
)
def test_ctrl_c_ends_a_comparison_without_litter(arguments: list[str]) -> None:
    with start(*arguments, stdin=subprocess.PIPE) as process:
        pipe(process.stdin).write(b"x" * (1 << 20))  # more than a pipe holds
        assert interrupted(process) == (130, b"bpetite: interrupted\n", True)
        assert pipe(process.stdout).read() == b""
    assert os.listdir() == ["model.json"]


@posix_only
@pytest.mark.usefixtures("_sigint_reaches_children")
def test_ctrl_c_ends_a_wait_for_a_reader() -> None:
    """The end must not wait for a reader that does not read the buffered output."""
    Path("ids.txt").write_bytes(b"72\n" * 200_000)
    with (
        open("ids.txt", "rb") as ids,
        start(*STREAM, stdin=ids) as process,
    ):
        wait_until_full(pipe(process.stdout).fileno())
        assert interrupted(process) == (130, b"bpetite: interrupted\n", True)


def wait_until_full(reading: int) -> None:
    """Wait until the amount of data in a pipe no longer grows."""
    import fcntl
    import termios

    waiting, before = b"", b"\0" * 4
    while waiting != before or waiting == b"\0" * 4:
        before = waiting
        time.sleep(0.1)
        waiting = fcntl.ioctl(reading, termios.FIONREAD, b"\0" * 4)


@posix_only
@pytest.mark.parametrize(
    "fraction",
    [
        0.85,
        *(
            pytest.param(x, marks=pytest.mark.slow)
            for x in (0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
        ),
    ],
)
def test_kill_in_training_leaves_a_whole_output(fraction: float, trained: Trained) -> None:
    """The output is the old file or the new one; docs/vocabulary-file.md names the litter."""
    Path("corpus.txt").write_bytes(trained.corpus)
    before = Path("model.json").read_bytes()
    with start(*TRAIN_AGAIN) as process:
        time.sleep(fraction * trained.seconds)
        process.kill()
    assert Path("model.json").read_bytes() in (before, trained.output)
    litter = set(os.listdir()) - {"corpus.txt", "model.json"}
    assert all(re.fullmatch(r"\.bpetite-.*\.tmp", name) for name in litter)
    assert len(litter) <= 1


# Terminals


def on_a_terminal(*arguments: str, variables: Mapping[str, str]) -> tuple[int, str]:
    """Run the command on a terminal; return its exit code and the terminal's input."""
    import pty
    import termios

    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    sent = b""
    with (
        open(ours, "rb", buffering=0) as screen,
        start(*arguments, stdout=theirs, stderr=theirs, variables=variables) as process,
    ):
        os.close(theirs)
        # Linux raises an error after the process closes its end.
        with contextlib.suppress(OSError):
            while data := screen.read(1 << 16):
                sent += data
    return process.returncode, sent.decode("utf-8").replace("\r\n", "\n")


@posix_only
def test_train_shows_a_bar_per_stage_on_a_terminal() -> None:
    train = (*TRAIN_ON_MODEL, "--vocab-size", "300", "--output", "new.json")
    code, sent = on_a_terminal(*train, variables={"TERM": "xterm"})
    *stages, report, end = sent.split("\n")
    bars = [stage.split("\r")[-1] for stage in stages]
    size = f"{os.path.getsize('model.json') / 1000:.2f}k"
    assert (code, report[0], end) == (0, "{", "")
    assert [re.sub(r"\|█+\|", "", bar).split(" [")[0] for bar in bars] == [
        f"counting: 100% {size}/{size}",
        "merging: 100% 44/44",
    ]
    rate_and_time_left = r"\[\d\d:\d\d<00:00, +[\d.]+[kM]?(B| merges)/s\]"
    assert all(re.search(rate_and_time_left, bar) for bar in bars)


COLOUR = re.compile(r"\x1b\[[\d;]*m")


@posix_only
def test_colours_on_a_terminal_unless_no_color_is_set() -> None:
    inspect = ("inspect", "--model", "model.json", "--text", "hello café 🙂<|endoftext|>!")
    _, coloured = on_a_terminal(*inspect, variables={"TERM": "xterm"})
    _, plain = on_a_terminal(*inspect, variables={"TERM": "xterm", "NO_COLOR": "1"})
    assert in_process(*inspect) == Result(0, plain.encode(), [])

    view, _, rows = plain.partition("\n")
    tokens = [*view.removesuffix("|<|endoftext|>|!").split("|"), "<|endoftext|>", "!"]
    coloured_view, _, coloured_rows = coloured.partition("\n")
    assert COLOUR.sub("", coloured_view) == "".join(tokens) == "hello café 🙂<|endoftext|>!"
    assert len(COLOUR.findall(coloured_view)) == 2 * len(tokens)
    assert coloured_rows == rows
    assert "\x1b" not in plain


# Locales


C_LOCALE = {
    "LC_ALL": "C",
    "PYTHONUTF8": "0",
    "PYTHONCOERCECLOCALE": "0",
    "PYTHONIOENCODING": "ascii",
}


def test_files_and_pipes_are_utf8_in_every_locale() -> None:
    Path("raw.txt").write_bytes(RAW)
    ids = run("encode", "--model", "model.json", "raw.txt", variables=C_LOCALE)
    assert ids == in_process("encode", "--model", "model.json", "raw.txt")
    assert run("decode", "--model", "model.json", stdin=ids.out, variables=C_LOCALE).out == RAW


@posix_only
def test_text_argument_is_utf8_in_every_locale() -> None:
    text = "café 你好 🙂"
    result = run("encode", "--model", "model.json", "--text", text, variables=C_LOCALE)
    assert result == in_process("encode", "--model", "model.json", "--text", text)


@posix_only
def test_special_token_and_file_name_are_utf8_in_every_locale() -> None:
    train = (*TRAIN_ON_MODEL, "--vocab-size", "256", "--quiet", "--output", "é.json")
    result = run(*train, "--special-token", "«fin»", variables=C_LOCALE)
    assert (result.code, result.err) == (0, [])
    assert '"output": "é.json"' in result.out.decode("utf-8")
    assert sorted(os.listdir()) == ["model.json", "é.json"]
    assert Tokenizer.load("é.json").special_tokens == {"«fin»": 256}


@posix_only
def test_count_keeps_the_file_name_in_every_locale() -> None:
    Path("é.txt").write_bytes(b"~~")
    result = run("count", "--model", "model.json", "é.txt", variables=C_LOCALE)
    assert result == Result(0, "2 é.txt\n".encode(), [])


def test_an_interrupt_of_the_imports_has_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "bpetite._cli")
    monkeypatch.setattr(sys, "meta_path", [types.SimpleNamespace(find_spec=interrupted)])
    with pytest.raises(SystemExit) as exit:
        _bpetite_command.main()
    assert (exit.value.code, capsys.readouterr().err) == (130, "bpetite: interrupted\n")


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="a file whose reads fail")
@pytest.mark.parametrize(
    "arguments",
    [
        ("count", "--model", "model.json", "/proc/self/mem"),
        ("encode", "--model", "model.json", "/proc/self/mem"),
        ("inspect", "--model", "/proc/self/mem"),
    ],
)
def test_a_file_whose_reads_fail_is_named(arguments: tuple[str, ...]) -> None:
    TOKENIZER.save("model.json", overwrite=True)
    result = in_process(*arguments)
    assert (result.code, result.err) == (1, ["bpetite: /proc/self/mem: Input/output error"])
