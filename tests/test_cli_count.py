"""The verb `count`: text in, numbers of tokens out."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli import RAW, TOKENIZER, Result, in_process
from cli import folder as folder  # a fixture

COUNT = ("count", "--model", "model.json")


@pytest.fixture(autouse=True)
def _files(folder: Path) -> None:
    (folder / "three.txt").write_bytes(b"~~~")
    (folder / "many.txt").write_bytes(b"~" * 1234)
    (folder / "none.txt").write_bytes(b"")


def test_a_file_is_counted_with_its_name() -> None:
    assert in_process(*COUNT, "three.txt") == Result(0, b"3 three.txt\n", [])


def test_several_files_have_a_total_and_one_width() -> None:
    result = in_process(*COUNT, "three.txt", "many.txt", "none.txt")
    lines = b"   3 three.txt\n1234 many.txt\n   0 none.txt\n1237 total\n"
    assert result == Result(0, lines, [])


def test_the_total_may_be_the_widest() -> None:
    for name in ("a", "b"):
        Path(name).write_bytes(b"~" * 6)
    assert in_process(*COUNT, "a", "b") == Result(0, b" 6 a\n 6 b\n12 total\n", [])


def test_standard_input_has_no_name_unless_it_is_called_by_it() -> None:
    assert in_process(*COUNT, stdin=b"~~") == Result(0, b"2\n", [])
    assert in_process(*COUNT, "-", stdin=b"~~") == Result(0, b"2 -\n", [])
    both = in_process(*COUNT, "three.txt", "-", stdin=b"~~")
    assert both == Result(0, b"3 three.txt\n2 -\n5 total\n", [])


def test_a_text_is_counted_alone() -> None:
    assert in_process(*COUNT, "--text", "~~") == Result(0, b"2\n", [])
    assert in_process(*COUNT, "--text", "") == Result(0, b"0\n", [])


def test_the_count_is_that_of_the_ids() -> None:
    text = RAW.decode()
    special, ordinary = len(TOKENIZER.encode(text)), len(TOKENIZER.encode_ordinary(text))
    assert special < ordinary
    assert in_process(*COUNT, stdin=RAW) == Result(0, b"%d\n" % special, [])
    assert in_process(*COUNT, "--ordinary", stdin=RAW) == Result(0, b"%d\n" % ordinary, [])


def test_a_failure_writes_no_count_at_all() -> None:
    result = in_process(*COUNT, "three.txt", "missing.txt")
    assert (result.code, result.out) == (1, b"")
