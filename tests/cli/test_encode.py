"""The verb `encode`: text in, ids out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli import BOM_WARNING, RAW, TOKENIZER, Result, failure, in_process
from support.cli import folder as folder  # a fixture

ENCODE = ("encode", "--model", "model.json")


@pytest.mark.parametrize(
    ("arguments", "out"),
    [
        ([], b"[126,33,290]\n"),
        (["--format", "json"], b"[126,33,290]\n"),
        (["--format", "lines"], b"126\n33\n290\n"),
        (["--format", "text"], b"126 33 290\n"),
    ],
)
def test_ids_have_three_formats(arguments: list[str], out: bytes) -> None:
    result = in_process(*ENCODE, "--text", "~!<|endoftext|>", *arguments)
    assert result == Result(0, out, [])


@pytest.mark.parametrize(("format", "out"), [("json", b"[]\n"), ("lines", b""), ("text", b"\n")])
def test_empty_text_has_no_ids(format: str, out: bytes) -> None:
    assert in_process(*ENCODE, "--format", format, "--text", "") == Result(0, out, [])
    assert in_process(*ENCODE, "--format", format, stdin=b"") == Result(0, out, [])


@pytest.mark.parametrize("arguments", [["raw.txt"], ["-"], []], ids=str)
def test_every_byte_of_an_input_is_encoded(arguments: list[str]) -> None:
    Path("raw.txt").write_bytes(RAW)
    result = in_process(*ENCODE, *arguments, stdin=RAW)
    name = "raw.txt" if arguments == ["raw.txt"] else "standard input"
    assert (result.code, result.err) == (0, [f"bpetite: {name} {BOM_WARNING}"])
    assert json.loads(result.out) == TOKENIZER.encode(RAW.decode())


def test_each_input_has_its_own_array() -> None:
    for name in ("a", "b"):
        Path(name).write_text(name, encoding="utf-8")
    assert in_process(*ENCODE, "b", "-", "a", stdin=b"~") == Result(0, b"[98]\n[126]\n[97]\n", [])
    lines = in_process(*ENCODE, "b", "-", "a", "--format", "lines", stdin=b"~")
    assert lines == Result(0, b"98\n126\n97\n", [])


def test_ordinary_makes_special_tokens_ordinary() -> None:
    text = "hello<|pad|><|endoftext|>"
    special = in_process(*ENCODE, "--text", text)
    assert json.loads(special.out) == TOKENIZER.encode(text)
    assert json.loads(special.out)[-2:] == [291, 290]
    ordinary = in_process(*ENCODE, "--text", text, "--ordinary")
    assert json.loads(ordinary.out) == TOKENIZER.encode_ordinary(text)


@pytest.mark.parametrize(
    ("arguments", "out"),
    [
        (["-m", "model.json", "-t", "~"], b"[126]\n"),
        (["-m", "model.json", "-t", "-"], b"[45]\n"),
        (["-m", "model.json", "--text=-~"], b"[45,126]\n"),
        (["-m", "model.json", "--text=--"], b"[45,45]\n"),
    ],
    ids=str,
)
def test_text_may_look_like_an_option(arguments: list[str], out: bytes) -> None:
    assert in_process("encode", *arguments) == Result(0, out, [])


def test_argument_with_invalid_bytes_is_a_failure() -> None:
    """Python passes bytes that are not UTF-8 as lone surrogates."""
    result = in_process(*ENCODE, "--text", "a\udcff")
    assert (result.code, result.out, len(result.err)) == (1, b"", 1)


def test_output_before_a_failure_is_whole() -> None:
    Path("a").write_text("~", encoding="utf-8")
    result = in_process(*ENCODE, "a", "none.txt")
    assert result.err == failure("none.txt: No such file or directory").err
    assert (result.code, result.out) == (1, b"[126]\n")
