"""The verb `encode`: text in, ids out."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partialmethod
from pathlib import Path

import numpy as np
import pytest
from support.cli import BOM_WARNING, RAW, TOKENIZER, Result, failure, in_process, saved
from support.cli import folder as folder  # a fixture
from support.engines import quick_once
from support.examples import slow_except
from support.programs import PEAK

import bpetite
from bpetite import PATTERNS, Tokenizer
from bpetite._cli import write_ids
from bpetite.corpora import Corpus

pytestmark = quick_once

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


def test_a_missing_file_is_a_failure_before_the_work() -> None:
    Path("a").write_text("~", encoding="utf-8")
    result = in_process(*ENCODE, "a", "none.txt")
    assert result == failure("none.txt: No such file or directory")


def test_output_before_a_failure_is_whole() -> None:
    Path("a").write_text("~", encoding="utf-8")
    Path("bad.txt").write_bytes(b"~ ab\xffc")
    message = "bpetite: bad.txt is not UTF-8 at byte 4 (0xff: invalid start byte)"
    assert in_process(*ENCODE, "a", "bad.txt") == Result(1, b"[126]\n", [message])


# Documents


def test_each_document_has_its_own_array() -> None:
    Path("a.jsonl").write_bytes(b'{"text": "~"}\n{"text": ""}\n{"text": "!~"}\n')
    Path("b.txt").write_bytes(b"~\n!\n")
    assert in_process(*ENCODE, "a.jsonl") == Result(0, b"[126]\n[]\n[33,126]\n", [])
    text = in_process(*ENCODE, "a.jsonl", "--format", "text")
    assert text == Result(0, b"126\n\n33 126\n", [])
    lines = in_process(*ENCODE, "a.jsonl", "b.txt", "--format", "lines", "--lines")
    assert lines.out.split() == [b"%d" % id for id in TOKENIZER.encode(_without_newlines())]
    parts = in_process(*ENCODE, "b.txt", "a.jsonl", "--separator", r"\n")
    assert parts == Result(0, b"[126]\n[33]\n[126]\n[]\n[33,126]\n", [])


def _without_newlines() -> str:
    return '{"text": "~"}{"text": ""}{"text": "!~"}~!'


def test_documents_of_another_field_are_named_by_the_option() -> None:
    Path("a.jsonl").write_bytes(b'{"body": "~"}\n{"body": 5}\n')
    found = in_process(*ENCODE, "a.jsonl", "--text-field", "body", "--on-bad", "skip", "--bad-log",
                       "log")  # fmt: skip
    assert (found.code, found.out) == (0, b"[126]\n")
    assert found.err[0].startswith("bpetite: skipped 1 bad document: a.jsonl: line 2")
    assert json.loads(Path("log").read_bytes())["line"] == 2
    assert "--text-field names another field" in in_process(*ENCODE, "a.jsonl").err[0]


@pytest.mark.parametrize("source", [["--text", "~!"], ["a.txt"], ["a.jsonl"], []], ids=str)
def test_special_tokens_go_around_each_document(source: list[str]) -> None:
    Path("a.txt").write_bytes(b"~!")
    Path("a.jsonl").write_bytes(b'{"text": "~!"}\n')
    around = ["--begin", "<|pad|>", "--end", "<|endoftext|>"]
    result = in_process(*ENCODE, *around, *source, stdin=b"~!")
    assert result == Result(0, b"[291,126,33,290]\n", [])
    unknown = in_process(*ENCODE, "--end", "<|x|>", *source)
    assert (unknown.code, unknown.out) == (1, b"")
    assert "end is '<|x|>'" in unknown.err[0]


# Binary


def test_binary_ids_are_little_endian_in_a_row() -> None:
    Path("a.jsonl").write_bytes(b'{"text": "~"}\n{"text": ""}\n{"text": "!~"}\n')
    expected = [126, 290, 290, 33, 126, 290]
    for format, dtype in [("u16", "<u2"), ("u32", "<u4")]:
        arguments = [*ENCODE, "a.jsonl", "--end", "<|endoftext|>", "--format", format]
        result = in_process(*arguments)
        assert (result.code, result.err) == (0, [])
        assert np.frombuffer(result.out, dtype).tolist() == expected
        assert in_process(*arguments, "--output", format) == Result(0, b"", [])
        assert Path(format).read_bytes() == result.out


@pytest.mark.parametrize("text", ["", "~!<|endoftext|>", "it is " * 1000], ids=len)
def test_npy_is_an_array_of_numpy(text: str) -> None:
    result = in_process(*ENCODE, "--format", "npy", "-o", "ids.npy", stdin=text.encode())
    assert result == Result(0, b"", [])
    ids = np.load("ids.npy")
    assert (ids.dtype, ids.tolist()) == (np.dtype("<u2"), TOKENIZER.encode(text))


def _large() -> str:
    """Save a vocabulary with an id that 16 bits cannot hold."""
    tokenizer = Tokenizer.load(
        saved(TOKENIZER, "tiktoken"), pattern="gpt2", special_tokens={"<|x|>": 70_000}
    )
    tokenizer.save("large.json")
    return "large.json"


def test_ids_that_do_not_fit_are_refused_before_the_work() -> None:
    arguments = ["encode", "--model", _large(), "--text", "~"]
    line = (
        "--format u16 holds ids up to 65535, but this vocabulary has ids up to 70000; "
        "use --format u32"
    )
    assert in_process(*arguments, "--format", "u16") == failure(line)
    assert in_process(*arguments, "--format", "u16", "-o", "ids") == failure(line)
    assert not Path("ids").exists()
    assert in_process(*arguments, "--format", "npy", "-o", "ids.npy").code == 0
    assert np.load("ids.npy").dtype == np.dtype("<u4")


def test_npy_needs_a_file() -> None:
    result = in_process(*ENCODE, "--text", "~", "--format", "npy")
    assert (result.code, result.out) == (2, b"")
    assert "--format npy needs --output" in result.err[-1]


# The output file


def test_an_output_file_is_replaced_only_by_force() -> None:
    arguments = [*ENCODE, "--text", "~", "--output", "ids.json"]
    assert in_process(*arguments) == Result(0, b"", [])
    assert Path("ids.json").read_bytes() == b"[126]\n"
    assert in_process(*arguments) == failure("ids.json: exists; --force replaces it")
    assert in_process(*arguments, "--force") == Result(0, b"", [])


def test_a_failure_leaves_no_output_file() -> None:
    Path("a.txt").write_bytes(b"~ " * 2_000_000 + b"\xff")
    for old in (None, b"old"):
        if old is not None:
            Path("ids").write_bytes(old)
        result = in_process(*ENCODE, "a.txt", "--output", "ids", "--force")
        assert (result.code, result.out) == (1, b"")
        assert result.err == [
            "bpetite: a.txt is not UTF-8 at byte 4000000 (0xff: invalid start byte)"
        ]
        names = {path.name for path in Path().iterdir()}
        assert names == {"a.txt", "model.json"} | ({"ids"} if old else set())
    assert Path("ids").read_bytes() == b"old"


# Long texts

LONG = RAW.decode() + "".join(f"it's {n} {chr(0x4E00 + n)}\r\n<|endoftext|> " for n in range(500))


@pytest.mark.parametrize("pattern", slow_except([*PATTERNS, r"\S+|\s+"], "gpt2", r"\S+|\s+"))
@pytest.mark.parametrize("segment_bytes", [7, 1000])
def test_a_long_text_has_the_ids_of_the_whole(
    pattern: str, segment_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_segments = partialmethod(Corpus.segments, batch_bytes=segment_bytes)
    monkeypatch.setattr(Corpus, "segments", small_segments)
    monkeypatch.setattr(write_ids, "_IDS_PER_WRITE", 5)
    tokenizer = Tokenizer.train(LONG[:3000], 300, pattern=pattern)
    tokenizer.save("own.json")
    Path("a.txt").write_bytes(LONG.encode())
    for options, allowed in (["--quiet"], "all"), (["--quiet", "--ordinary"], ()):
        ids = tokenizer.encode(LONG, allowed_special=allowed)
        arguments = ["encode", "--model", "own.json", "a.txt", *options]
        json_ids = b"[" + ",".join(map(str, ids)).encode() + b"]\n"
        assert in_process(*arguments) == Result(0, json_ids, [])
        binary = in_process(*arguments, "--format", "u16")
        assert np.frombuffer(binary.out, "<u2").tolist() == ids


MEMORY = """
import sys
from bpetite._cli import main
assert main(["encode", "--model", "model.json", "--text", "it is", "--quiet"]) == 0
before = peak()
assert main(sys.argv[1:]) == 0
print(peak() - before, file=sys.stderr)
"""


@pytest.mark.slow  # 40 MB, through three verbs
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("format", ["json", "u32"])
def test_memory_does_not_grow_with_a_text(format: str) -> None:
    """A whole file in memory, as text or as ids, would take more than the bound."""
    size, bound = (40_000_000 if bpetite.engine == "native" else 10_000_000), 30_000
    if format == "json":
        size //= 2
    Path("a.txt").write_bytes((LONG.encode() * (size // len(LONG.encode()) + 1))[:size])
    encode = ["encode", "--model", "model.json", "a.txt", "--format", format, "-o", "ids"]
    decode = ["decode", "--model", "model.json", "ids", "--format", "u32", "-o", "back.txt"]
    if format == "json":
        decode[4:6] = []
    for verb in (encode, decode, ["count", "--model", "model.json", "a.txt"]):
        command = [sys.executable, "-c", PEAK + MEMORY, *verb]
        done = subprocess.run(command, capture_output=True, timeout=120, check=True)
        assert int(done.stderr.split()[-1]) < bound, verb
    assert Path("back.txt").read_bytes() == Path("a.txt").read_bytes()
