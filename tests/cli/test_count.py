"""The verb `count`: text in, numbers of tokens out."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli import BOM_WARNING, RAW, TOKENIZER, Result, in_process
from support.cli import folder as folder  # a fixture

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


def test_failure_writes_no_count() -> None:
    result = in_process(*COUNT, "three.txt", "missing.txt")
    assert (result.code, result.out) == (1, b"")
