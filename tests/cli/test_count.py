"""The verb `count`: text in, numbers of tokens out."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from support.cli import BOM_WARNING, RAW, TOKENIZER, Result, failure, in_process
from support.cli import folder as folder  # a fixture
from support.engines import quick_once
from support.programs import posix_only

from bpetite import Tokenizer, corpora
from bpetite._cli import count as count_command
from bpetite._cli import main, progress

pytestmark = quick_once


COUNT = ("count", "--model", "model.json")


@pytest.fixture(autouse=True)
def _files(folder: Path) -> None:
    (folder / "three.txt").write_bytes(b"~~~")
    (folder / "many.txt").write_bytes(b"~" * 1234)
    (folder / "none.txt").write_bytes(b"")


def test_count_has_the_file_name() -> None:
    assert in_process(*COUNT, "three.txt") == Result(0, b"3 three.txt\n", [])


def test_several_files_have_a_total() -> None:
    result = in_process(*COUNT, "three.txt", "many.txt", "none.txt")
    lines = b"   3 three.txt\n1234 many.txt\n   0 none.txt\n1237 total\n"
    assert result == Result(0, lines, [])


def test_columns_are_as_wide_as_the_total() -> None:
    for name in ("a", "b"):
        Path(name).write_bytes(b"~" * 6)
    assert in_process(*COUNT, "a", "b") == Result(0, b" 6 a\n 6 b\n12 total\n", [])


def test_stdin_has_a_name_only_if_given() -> None:
    assert in_process(*COUNT, stdin=b"~~") == Result(0, b"2\n", [])
    assert in_process(*COUNT, "-", stdin=b"~~") == Result(0, b"2 -\n", [])
    both = in_process(*COUNT, "three.txt", "-", stdin=b"~~")
    assert both == Result(0, b"3 three.txt\n2 -\n5 total\n", [])


def test_more_tokens_than_the_maximum_fail() -> None:
    assert in_process(*COUNT, "three.txt", "--max-tokens", "3") == Result(0, b"3 three.txt\n", [])
    result = in_process(*COUNT, "three.txt", "many.txt", "--max-tokens", "1233")
    lines = b"   3 three.txt\n1234 many.txt\n1237 total\n"
    error = "bpetite: many.txt has 1234 tokens, more than --max-tokens 1233; chunk cuts it"
    assert result == Result(1, lines, [error])
    error = "bpetite: the text has 2 tokens, more than --max-tokens 1; chunk cuts it"
    assert in_process(*COUNT, "--text", "~~", "--max-tokens", "1") == Result(1, b"2\n", [error])


def test_text_option_is_counted() -> None:
    assert in_process(*COUNT, "--text", "~~") == Result(0, b"2\n", [])
    assert in_process(*COUNT, "--text", "") == Result(0, b"0\n", [])


def test_count_equals_the_number_of_ids() -> None:
    text = RAW.decode()
    special, ordinary = len(TOKENIZER.encode(text)), len(TOKENIZER.encode_ordinary(text))
    assert special < ordinary
    warning = [f"bpetite: standard input {BOM_WARNING}"]
    assert in_process(*COUNT, stdin=RAW) == Result(0, b"%d\n" % special, warning)
    assert in_process(*COUNT, "--ordinary", stdin=RAW) == Result(0, b"%d\n" % ordinary, warning)


def test_one_log_names_the_bad_documents_of_all_files() -> None:
    for name in ("a.jsonl", "b.jsonl", "c.jsonl"):
        Path(name).write_text('{"text": "ab"}\n{"id": 1}\n', "utf-8")
    names = ("a.jsonl", "b.jsonl", "c.jsonl")
    result = in_process(*COUNT, *names, "--on-bad", "skip", "--bad-log", "bad.log")
    assert result.code == 0
    logged = [json.loads(line) for line in Path("bad.log").read_text("utf-8").splitlines()]
    assert [(each["file"], each["line"]) for each in logged] == [(name, 2) for name in names]
    assert [line.endswith("; bad.log has the list") for line in result.err] == [True] * 3


def test_log_has_the_bad_documents_before_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a.jsonl").write_text('{"text": "ab"}\n{"id": 1}\n', "utf-8")
    count = corpora.count

    def failing(*arguments: Any, **options: Any) -> NoReturn:
        count(*arguments, **options)
        raise OSError("no disk")

    monkeypatch.setattr(count_command, "count_documents", failing)
    options = ("--on-bad", "skip", "--bad-log", "bad.log")
    assert in_process(*COUNT, "a.jsonl", "three.txt", *options).code != 0
    assert len(Path("bad.log").read_text("utf-8").splitlines()) == 1


BAD = "bpetite: bad.txt is not UTF-8 at byte 2 (0xff: invalid start byte)"


def test_files_after_a_bad_one_are_counted() -> None:
    Path("bad.txt").write_bytes(b"ab\xff")
    Path("cut.jsonl.gz").write_bytes(gzip.compress(b'{"text": "~"}\n')[:-3])
    result = in_process(
        *COUNT, "missing.txt", "three.txt", "bad.txt", "cut.jsonl.gz", "many.txt", "*.md"
    )
    assert (result.code, result.out) == (1, b"   3 three.txt\n1234 many.txt\n1237 total\n")
    missing = ["missing.txt: No such file or directory", "*.md: no file matches"]
    assert result.err[:3] == [*(f"bpetite: {line}" for line in missing), BAD]
    assert len(result.err) == 4
    assert result.err[3].startswith("bpetite: cut.jsonl.gz is cut at byte ")


def test_files_after_a_url_without_its_library_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "upath", None)
    result = in_process(*COUNT, "http://host/a.txt", "three.txt")
    assert (result.code, result.out, len(result.err)) == (1, b"3 three.txt\n3 total\n", 1)
    assert "pip install" in result.err[0]


def test_a_count_shows_no_secret_of_its_url() -> None:
    fsspec = pytest.importorskip("fsspec")
    pytest.importorskip("upath")
    fsspec.filesystem("memory").pipe("/count/a.txt?sig=secret", b"ab ab")
    result = in_process(*COUNT, "memory://count/a.txt?sig=secret")
    assert result == Result(0, b"5 memory://count/a.txt\n", [])


def test_an_empty_name_is_named() -> None:
    result = in_process(*COUNT, "", "three.txt")
    error = "bpetite: '': No such file or directory"
    assert result == Result(1, b"3 three.txt\n3 total\n", [error])


@posix_only
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads all files")
def test_an_unreadable_file_ends_no_count_of_others() -> None:
    Path("secret.txt").write_bytes(b"~")
    Path("secret.txt").chmod(0)
    result = in_process(*COUNT, "secret.txt", "three.txt")
    error = "bpetite: secret.txt: Permission denied"
    assert result == Result(1, b"3 three.txt\n3 total\n", [error])


def test_bad_files_alone_have_no_total() -> None:
    Path("bad.txt").write_bytes(b"ab\xff")
    assert in_process(*COUNT, "bad.txt", "bad.txt") == Result(1, b"", [BAD, BAD])


def test_a_bad_file_hides_no_excess_of_tokens() -> None:
    Path("bad.txt").write_bytes(b"ab\xff")
    excess = "bpetite: three.txt has 3 tokens, more than --max-tokens 2; chunk cuts it"
    result = in_process(*COUNT, "bad.txt", "three.txt", "--max-tokens", "2")
    assert result == Result(1, b"3 three.txt\n3 total\n", [BAD, excess])


def test_a_file_that_is_skipped_whole_has_no_count() -> None:
    Path("bad.txt").write_bytes(b"ab\xff")
    Path("half.jsonl").write_bytes(b'{"text": "~"}\n{}\n')
    skip = ("--on-bad", "skip", "--max-tokens", "5")
    skipped = BAD.replace(": ", ": skipped 1 bad document: ", 1)
    assert in_process(*COUNT, "bad.txt", *skip) == Result(0, b"- bad.txt\n", [skipped])
    result = in_process(*COUNT, "three.txt", "bad.txt", "half.jsonl", *skip)
    assert result.code == 0
    assert result.out == b"3 three.txt\n- bad.txt\n1 half.jsonl\n4 total\n"
    assert result.err == [
        skipped,
        "bpetite: skipped 1 bad document: half.jsonl: line 2, byte 14: no field",
    ]


def test_memory_that_runs_out_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    count: Callable[..., int] = corpora.count
    files: list[int] = []

    def failing(*arguments: Any, **options: Any) -> int:
        files.append(1)
        if len(files) == 2:
            raise MemoryError
        return count(*arguments, **options)

    monkeypatch.setattr(count_command, "count_documents", failing)
    result = in_process(*COUNT, "three.txt", "many.txt", "none.txt")
    assert result == Result(1, b"3 three.txt\n", ["bpetite: many.txt: out of memory"])


# Progress


class Terminal(io.StringIO):
    """Standard error on a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


@pytest.mark.parametrize("verb", ["count", "encode", "decode"])
@pytest.mark.parametrize("quiet", [False, True])
def test_a_bar_shows_the_bytes_of_long_work_on_a_terminal(
    verb: str, quiet: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_BAR_DELAY", 0.0)
    names = ["many.txt", "three.txt"]
    if verb == "decode":
        Path("ids").write_bytes(b"72 " * 400)
        names = ["ids"]
    terminal, out = Terminal(), io.BytesIO()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, "utf-8"))
    assert main([verb, "--model", "model.json", *names, *["--quiet"] * quiet]) == 0
    shown = terminal.getvalue()
    total = "1.20k/1.20k" if verb == "decode" else "1.24k/1.24k"
    assert (total in shown) is not quiet
    assert (shown == "") is quiet


def test_short_work_shows_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "utf-8"))
    assert main([*COUNT, "many.txt"]) == 0
    assert terminal.getvalue() == ""


def test_results_on_a_terminal_have_no_bar_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_BAR_DELAY", 0.0)
    terminal = Terminal()
    stdout = io.TextIOWrapper(io.BytesIO(), "utf-8")
    monkeypatch.setattr(stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "stdout", stdout)
    arguments = ["encode", "--model", "model.json", "many.txt"]
    assert main(arguments) == 0
    assert terminal.getvalue() == ""
    assert main([*arguments, "--output", "ids"]) == 0
    assert "1.23k/1.23k" in terminal.getvalue()


def test_each_bad_document_is_in_the_log_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed run leaves the log of all that it has read."""
    for name in ("a.jsonl", "b.jsonl"):
        Path(name).write_text('{"text": "a"}\nno JSON\n', encoding="utf-8")
    logged = []

    def count(_tokenizer: Tokenizer, documents: Any, **_: Any) -> int:
        for _batch in documents.segments():
            pass
        logged.append(len(Path("bad.log").read_text("utf-8").splitlines()))
        return 0

    monkeypatch.setattr(count_command, "count_documents", count)
    in_process(*COUNT, "a.jsonl", "b.jsonl", "--on-bad", "skip", "--bad-log", "bad.log")
    assert logged == [1, 2]


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("a.jsonl", "bad_log must not be a file of the corpus"),
        ("./b.jsonl", "bad_log must not be a file of the corpus"),
        ("model.json", "--bad-log and --model must be two files"),
    ],
)
def test_a_log_replaces_no_file_of_the_command(name: str, fault: str) -> None:
    for source in ("a.jsonl", "b.jsonl"):
        Path(source).write_text('{"text": "a"}\nno JSON\n', encoding="utf-8")
    before = Path(name).read_bytes()
    options = ("--on-bad", "skip", "--bad-log", name)
    assert in_process(*COUNT, "a.jsonl", "b.jsonl", *options) == failure(f"{name}: {fault}")
    assert Path(name).read_bytes() == before
