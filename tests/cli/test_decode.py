"""The verb `decode`: ids in, text out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli import TOKENIZER, Result, failure, in_process
from support.cli import folder as folder  # a fixture

DECODE = ("decode", "--model", "model.json")


@pytest.mark.parametrize(
    "ids",
    [
        b"[72,105]",
        b"[72, 105]\n",
        b" \n[\n  72,\r\n  105\n]\n\n",
        b"[72]\n[105]\n",
        b"[72][][105]",
        b"72 105",
        b"72\n105\n",
        b"72\r\n105\r\n",
        b"\t72\n\n 105 ",
    ],
    ids=repr,
)
def test_ids_are_json_or_separated_by_white_space(ids: bytes) -> None:
    Path("ids").write_bytes(ids)
    assert in_process(*DECODE, stdin=ids) == Result(0, b"Hi", [])
    assert in_process(*DECODE, "-", stdin=ids) == Result(0, b"Hi", [])
    assert in_process(*DECODE, "ids") == Result(0, b"Hi", [])


@pytest.mark.parametrize("ids", [b"", b"\n", b"[]", b"[]\n[]\n"], ids=repr)
def test_no_ids_give_no_text(ids: bytes) -> None:
    assert in_process(*DECODE, stdin=ids) == Result(0, b"", [])


def test_ids_may_be_arguments() -> None:
    assert in_process(*DECODE, "--ids", "72", "105", "33") == Result(0, b"Hi!", [])
    assert in_process("decode", "--ids", "72", "-m", "model.json") == Result(0, b"H", [])


def test_newlines_are_unchanged() -> None:
    text = "é\r\n你好\n🙂 <|pad|>"
    ids = json.dumps(TOKENIZER.encode(text)).encode()
    assert in_process(*DECODE, stdin=ids) == Result(0, text.encode(), [])


def test_special_tokens_can_be_skipped() -> None:
    arguments = ["--ids", "72", "290", "105", "291"]
    assert in_process(*DECODE, *arguments).out == b"H<|endoftext|>i<|pad|>"
    assert in_process(*DECODE, "--skip-special-tokens", *arguments) == Result(0, b"Hi", [])


@pytest.mark.parametrize(
    ("errors", "out"),
    [
        ("replace", "H\ufffd\ufffd".encode()),
        ("ignore", b"H"),
        ("backslashreplace", rb"H\xff\xc3"),
    ],
)
def test_errors_option_handles_invalid_bytes(errors: str, out: bytes) -> None:
    result = in_process(*DECODE, "--errors", errors, "--ids", "72", "255", "195")
    assert result == Result(0, out, [])


@pytest.mark.parametrize("arguments", [[], ["--errors", "strict"]], ids=str)
def test_invalid_bytes_suggest_errors_replace(
    arguments: list[str],
) -> None:
    result = in_process(*DECODE, *arguments, "--ids", "72", "195", "105")
    assert (result.code, result.out, len(result.err)) == (1, b"", 1)
    assert "0xc3 in position 1" in result.err[0]
    assert result.err[0].endswith("; --errors replace writes U+FFFD in place of such bytes")


@pytest.mark.parametrize("stdin", [b"[72,292]", b"72 292", b"[292]"])
def test_unknown_id_is_named(stdin: bytes) -> None:
    line = "id 292 is not in this vocabulary (its ids run from 0 to 291)"
    assert in_process(*DECODE, stdin=stdin) == failure(line)
    assert in_process(*DECODE, "--ids", "72", "292") == failure(line)


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        (b"1.5", "standard input: line 1: not an id: '1.5'"),
        (b"72\n\r\n 105 foo 7", "standard input: line 3: not an id: 'foo'"),
        (b"72 -1", "not an id: '-1'"),
        (b"72 +1", "not an id: '+1'"),
        (b"1_0", "not an id: '1_0'"),
        (b"0x10", "not an id: '0x10'"),
        (b"72, 105", "not an id: '72,'"),
        (b"x" * 1000, "not an id: 'xxxx"),
        ("７２".encode(), "not an id: '７２'"),
        ("²".encode(), "not an id: '²'"),
        ("\u0663".encode(), "not an id: '\u0663'"),
        (b"{}", "not an id: '{}'"),
        (b"true", "not an id: 'true'"),
        (b"1" * 5000, ""),
        (b"[1.5]", "an id must be an integer, got 1.5"),
        (b"[72.0]", "an id must be an integer, got 72.0"),
        (b"[7e1]", "an id must be an integer, got 70.0"),
        (b"[true]", "an id must be an integer, got true"),
        (b"[null]", "an id must be an integer, got null"),
        (b'["72"]', 'an id must be an integer, got "72"'),
        (b'["\\ud800\\n"]', r'an id must be an integer, got "\ud800\n"'),
        (b"[[72]]", "an id must be an integer, got [72]"),
        (b"[NaN]", "an id must be an integer, got NaN"),
        (b'[{"id": 72}]', 'an id must be an integer, got {"id": 72}'),
        (b"[72] 105", "the ids must be a JSON array, got 105"),
        (b"[72", "not a JSON array"),
        (b"[72 105]", "not a JSON array"),
        (b"[72]]", "not a JSON array"),
        (b"[0x10]", "not a JSON array"),
        ("[７２]".encode(), "not a JSON array"),
        (b"[" + b"1" * 5000 + b"]", ""),
        (b"[" * 100_000, ""),
        (b"[72, \xff]", "0xff in position 5"),
    ],
    ids=lambda value: repr(value[:20]),
)
def test_invalid_id_gives_one_line(ids: bytes, reason: str) -> None:
    result = in_process(*DECODE, stdin=ids)
    assert (result.code, result.out, len(result.err)) == (1, b"", 1)
    assert result.err[0].startswith("bpetite: standard input: ")
    assert reason in result.err[0]
    assert len(result.err[0]) < 200


def test_negative_id_in_json_is_unknown() -> None:
    line = "id -1 is not in this vocabulary (its ids run from 0 to 291)"
    assert in_process(*DECODE, stdin=b"[-1]") == failure(line)


def test_file_of_an_invalid_id_is_named() -> None:
    Path("ids.json").write_bytes(b"[true]")
    line = "ids.json: an id must be an integer, got true"
    assert in_process(*DECODE, "ids.json") == failure(line)


@pytest.mark.parametrize("word", ["1.5", "-1", "x", "true", "[72]", "７２", "", " ", "72,"])
def test_argument_that_is_no_id_is_shown(word: str) -> None:
    assert in_process(*DECODE, "--ids", "72", word) == failure(f"not an id: {word!r}")
