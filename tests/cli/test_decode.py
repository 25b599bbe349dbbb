"""The verb `decode`: ids in, text out."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from support.cli import TOKENIZER, Result, failure, in_process
from support.cli import folder as folder  # a fixture
from support.engines import quick_once

from bpetite._cli import read_ids

pytestmark = quick_once

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


def test_special_tokens_can_be_skipped() -> None:
    arguments = ["--ids", "72", "290", "105", "291"]
    assert in_process(*DECODE, *arguments).out == b"H<|endoftext|>i<|pad|>"
    assert in_process(*DECODE, "--skip-special-tokens", *arguments) == Result(0, b"Hi", [])


@pytest.mark.parametrize(
    ("errors", "out"),
    [("replace", "H\ufffd\ufffd".encode()), ("ignore", b"H"), ("backslashreplace", rb"H\xff\xc3")],
)
def test_errors_option_handles_invalid_bytes(errors: str, out: bytes) -> None:
    result = in_process(*DECODE, "--errors", errors, "--ids", "72", "255", "195")
    assert result == Result(0, out, [])


@pytest.mark.parametrize("arguments", [[], ["--errors", "strict"]], ids=str)
def test_invalid_bytes_suggest_errors_replace(arguments: list[str]) -> None:
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
        (b"[72, \xff]", "at byte 5 (0xff: invalid start byte)"),
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


# Chunks

TEXT = "é\r\n你好 hello world\n🙂 <|pad|> naïve"
IDS = TOKENIZER.encode(TEXT)


@pytest.mark.parametrize("size", [1, 2, 3, 8, 64])
@pytest.mark.parametrize(
    "data",
    [
        json.dumps(IDS),
        json.dumps(IDS, indent=2),
        "\n".join(json.dumps(IDS[i : i + 3]) for i in range(0, len(IDS), 3)),
        "".join(f"[{id}]" for id in IDS),
        f"  \n{json.dumps(IDS)}\n\n",
        "[" + " ,\n ".join(map(str, IDS)) + "  ]",
        " ".join(map(str, IDS)),
        "\n" + "\r\n".join(map(str, IDS)) + "\n ",
        "\xa0".join(map(str, IDS)),
        " \u3000 ".join(map(str, IDS)),
    ],
    ids=lambda data: repr(data[:12]),
)
def test_ids_may_be_in_any_chunks(data: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ids, "_CHUNK_BYTES", size)
    assert in_process(*DECODE, stdin=data.encode()) == Result(0, TEXT.encode(), [])


@pytest.mark.parametrize("errors", ["replace", "ignore", "backslashreplace"])
def test_errors_are_handled_across_chunks(errors: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ids, "_CHUNK_BYTES", 2)
    for data in (
        b"a\xe4\xbdb\xff\xf0\x9f\x99\x82\xed\xa0\x80\xc3",
        b"\xf0\x9f",
        b"\xf0\x90\xf4\x90z",
    ):
        words = " ".join(map(str, data)).encode()
        result = in_process(*DECODE, "--errors", errors, stdin=words)
        assert result == Result(0, data.decode("utf-8", errors).encode(), [])


@pytest.mark.parametrize(
    ("data", "where"),
    [
        (b"ab\xc3c", "byte 0xc3 in position 2"),
        (b"abcd\xf0\x9f\x99", "bytes in position 4-6"),
        (b"\xe4\xbd\xa0\xff", "byte 0xff in position 3"),
    ],
)
def test_position_of_invalid_bytes_counts_from_the_beginning(
    data: bytes, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_ids, "_CHUNK_BYTES", 4)
    result = in_process(*DECODE, stdin=" ".join(map(str, data)).encode())
    with pytest.raises(UnicodeDecodeError) as error:
        data.decode()
    message = f"{error.value}; --errors replace writes U+FFFD in place of such bytes"
    assert where in message
    assert (result.code, result.err) == (1, [f"bpetite: {message}"])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"72 105\n72\n7x5 1", "line 3: not an id: '7x5'"),
        (b"[72, 105, 72, true, 105]", "an id must be an integer, got true"),
        (b"[72, 105, 72, 105,]", "not a JSON array: "),
        (b"[72, 105, 72 105]", "not a JSON array: Expecting ',' delimiter at character 13"),
        (b"[72, 105], [72]", "not a JSON array"),
        (b"[72, 105, 72", "not a JSON array"),
        (b"[72, 105] 105 ", "the ids must be a JSON array, got 1"),
        (b"[72, 105, \xff]", "at byte 10 (0xff: invalid start byte)"),
        (b"[72, 105, " + b"1" * 100_000, "an id has more than 65536 characters"),
        (b"1" * 100_000, "not an id: '1111"),
    ],
    ids=lambda value: repr(value[:20]),
)
@pytest.mark.parametrize("size", [1, 3, 7])
def test_wrong_ids_after_the_first_chunk_give_one_line(
    data: bytes, reason: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_ids, "_CHUNK_BYTES", size if len(data) < 1000 else 5000)
    result = in_process(*DECODE, stdin=data)
    assert (result.code, len(result.err)) == (1, 1)
    assert result.err[0].startswith("bpetite: standard input: ")
    assert reason in result.err[0]


# Binary


def npy(ids: object, dtype: str) -> bytes:
    """Return the file of an array of numpy."""
    file = io.BytesIO()
    np.save(file, np.array(ids, dtype))
    return file.getvalue()


BINARY = {
    "u16": np.array(IDS, "<u2").tobytes(),
    "u32": np.array(IDS, "<u4").tobytes(),
    **{f"npy {dtype}": npy(IDS, dtype) for dtype in ("<u2", "<u4", "<u8", "<i2", "<i4", "<i8")},
}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("size", [8, 16, 1 << 20])
def test_ids_may_be_binary(name: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ids, "_CHUNK_BYTES", size)
    Path("ids").write_bytes(BINARY[name])
    arguments = [*DECODE, "--format", name.split()[0]]
    assert in_process(*arguments, "ids") == Result(0, TEXT.encode(), [])
    assert in_process(*arguments, stdin=BINARY[name]) == Result(0, TEXT.encode(), [])
    skipped = TEXT.replace("<|pad|>", "").encode()
    assert in_process(*arguments, "--skip-special-tokens", "ids") == Result(0, skipped, [])


@pytest.mark.parametrize("format", ["u16", "u32"])
def test_binary_files_may_be_empty(format: str) -> None:
    Path("ids").write_bytes(b"")
    assert in_process(*DECODE, "--format", format, "ids") == Result(0, b"", [])


@pytest.mark.parametrize(
    ("format", "data", "reason"),
    [
        ("u16", BINARY["u16"][:-1], "bytes, which is not a multiple of the 2 bytes of an id"),
        ("u32", BINARY["u32"][:-2], "bytes, which is not a multiple of the 4 bytes of an id"),
        ("npy", BINARY["npy <u2"][:-2], "bytes of ids, but its header says"),
        ("npy", BINARY["npy <u2"][:128], "has 0 bytes of ids, but its header says"),
        ("npy", BINARY["npy <u2"] + b"\0\0", "bytes of ids, but its header says"),
        ("npy", BINARY["npy <u2"][:50], "its .npy header cannot be read; the file may be cut"),
        ("npy", BINARY["u16"], "not a .npy file"),
        ("npy", b"", "not a .npy file"),
        ("npy", npy([1.5], "<f4"), "its dtype is '<f4', but ids are one of"),
        ("npy", npy(IDS, ">u2"), "its dtype is '>u2', but ids are one of"),
        ("npy", npy([[1], [2]], "<u2"), "its shape is (2, 1), but ids have one dimension"),
        ("npy", npy([(1, 2)], "<u2,<u2"), "its dtype is [('f0', '<u2'), ('f1', '<u2')]"),
        ("npy", npy(7, "<u2"), "its shape is (), but ids have one dimension"),
        ("u16", np.array([72, 292], "<u2").tobytes(), "id 292 is not in this vocabulary "),
        ("npy", npy([72, -1], "<i4"), "id -1 is not in this vocabulary "),
    ],
)
def test_wrong_binary_files_give_one_line_before_the_work(
    format: str, data: bytes, reason: str
) -> None:
    Path("ids").write_bytes(data)
    arguments = [*DECODE, "--format", format]
    for name, result in [
        ("ids", in_process(*arguments, "ids")),
        ("standard input", in_process(*arguments, stdin=data)),
    ]:
        assert (result.code, result.out, len(result.err)) == (1, b"", 1)
        assert result.err[0].startswith(f"bpetite: {name}: ")
        assert reason in result.err[0]


def test_unknown_binary_id_has_its_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ids, "_CHUNK_BYTES", 4)
    Path("ids").write_bytes(np.array([72, 105, 33, 292], "<u2").tobytes())
    line = (
        "ids: id 292 is not in this vocabulary (its ids run from 0 to 291); "
        "its index in the file is 3"
    )
    result = in_process(*DECODE, "--format", "u16", "ids", "-o", "text")
    assert result == failure(line)
    assert not Path("text").exists()


# The output file


def test_text_goes_to_a_file_whole_or_not_at_all() -> None:
    arguments = [*DECODE, "--output", "text", "--ids", "72", "105"]
    assert in_process(*arguments) == Result(0, b"", [])
    assert Path("text").read_bytes() == b"Hi"
    assert in_process(*arguments) == failure("text: exists; --force replaces it")
    assert in_process(*arguments, "195", "--force").code == 1
    assert Path("text").read_bytes() == b"Hi"
    assert in_process(*arguments, "33", "--force") == Result(0, b"", [])
    assert Path("text").read_bytes() == b"Hi!"
