"""The verb `chunk`: text in, what fits a budget out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.cli import TEXT, TOKENIZER, Result, failure, in_process
from support.cli import folder as folder  # a fixture
from support.engines import quick_once

from bpetite._cli import chunk

pytestmark = quick_once

START = ("chunk", "--keep", "start", "--model", "model.json", "--max-tokens")
END = ("chunk", "--keep", "end", "--model", "model.json", "--max-tokens")
CHUNK = ("chunk", "--quiet", "--model", "model.json", "--max-tokens")


@pytest.fixture(autouse=True)
def _files(folder: Path) -> None:
    (folder / "text.txt").write_bytes(TEXT.encode())


def lines(*arguments: str, stdin: bytes = b"") -> list[dict[str, Any]]:
    """Return the objects that a successful run of `chunk` writes."""
    result = in_process(*CHUNK, *arguments, stdin=stdin)
    assert (result.code, result.err) == (0, [])
    return [json.loads(line) for line in result.out.splitlines()]


@pytest.mark.parametrize("first_bytes", [1, 1 << 16])
@pytest.mark.parametrize("budget", [0, 3, 10, 10_000])
def test_kept_side_is_the_result_of_truncate(
    budget: int, first_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk, "_FIRST_BYTES", first_bytes)
    number = str(budget)
    start = Result(0, TOKENIZER.truncate(TEXT, budget).encode(), [])
    assert in_process(*START, number, "text.txt") == start
    assert in_process(*START, number, stdin=TEXT.encode()) == start
    assert in_process(*START, number, "--text", TEXT) == start
    end = Result(0, TOKENIZER.truncate(TEXT, budget, keep="end").encode(), [])
    assert in_process(*END, number, "text.txt") == end
    assert in_process(*END, number, stdin=TEXT.encode()) == end


def test_kept_start_reads_no_more_than_it_needs(folder: Path) -> None:
    (folder / "long.txt").write_bytes(b"~ " * 500_000 + b"\xff")
    assert in_process(*START, "3", "long.txt") == Result(0, b"~ ~", [])
    (folder / "bad.txt").write_bytes(b"~ \xff")
    expected = failure("bad.txt is not UTF-8 at byte 2 (0xff: invalid start byte)")
    assert in_process(*START, "3", "bad.txt") == expected


@pytest.mark.parametrize("keep", [START, END], ids=["start", "end"])
def test_kept_text_names_a_byte_that_is_not_utf_8(folder: Path, keep: tuple[str, ...]) -> None:
    (folder / "bad.txt").write_bytes(b"~" * (2**16 - 1) + b"\xc3~~")
    expected = failure("bad.txt is not UTF-8 at byte 65535 (0xc3: invalid continuation byte)")
    assert in_process(*keep, "99999", "bad.txt") == expected


def test_special_tokens_may_be_ordinary_text() -> None:
    literal = "<|endoftext|>"
    assert in_process(*START, "1", "--text", literal) == Result(0, literal.encode(), [])
    ordinary = TOKENIZER.truncate(literal, 1, allowed_special=())
    result = in_process(*START, "1", "--ordinary", "--text", literal)
    assert result == Result(0, ordinary.encode(), [])
    assert ordinary != literal


def test_chunks_of_a_text_have_their_places() -> None:
    found = [
        {"text": chunk.text, "start": chunk.start, "end": chunk.end, "tokens": len(chunk.ids)}
        for chunk in TOKENIZER.chunks(TEXT, 12, overlap=3)
    ]
    assert lines("12", "--overlap", "3", "text.txt") == found
    assert lines("12", "--overlap", "3", "--text", TEXT) == found
    assert lines("12", "--overlap", "3", stdin=TEXT.encode()) == found


@pytest.mark.parametrize("at", ["line", "paragraph"])
def test_chunks_end_where_lines_do_on_request(at: Any) -> None:
    text = f"{TEXT}\n{TEXT}\n\n{TEXT}"
    found = [line["text"] for line in lines("60", "--at", at, "--text", text)]
    assert found == [chunk.text for chunk in TOKENIZER.chunks(text, 60, at=at)]
    assert found != [line["text"] for line in lines("60", "--text", text)]


def test_chunks_have_ids_on_request() -> None:
    ids = [chunk.ids for chunk in TOKENIZER.chunks(TEXT, 12)]
    assert [line["ids"] for line in lines("12", "--with-ids", "text.txt")] == ids


def test_chunks_name_their_documents(folder: Path) -> None:
    documents = ["", TEXT, "~~"]
    text = "".join(json.dumps({"text": document}) + "\n" for document in documents)
    (folder / "three.jsonl").write_text(text)
    found = lines("12", "three.jsonl")
    assert {line["document"] for line in found} == {1, 2}
    for number, document in enumerate(documents):
        assert "".join(line["text"] for line in found if line["document"] == number) == document


def test_an_overlap_as_long_as_a_chunk_is_wrong_usage() -> None:
    result = in_process(*CHUNK, "3", "--overlap", "3", "--text", "~")
    assert (result.code, result.out) == (2, b"")
    assert result.err[-1].endswith("error: --max-tokens must exceed --overlap")


@pytest.mark.parametrize(
    "more",
    [
        ["--at", "line"],
        ["--with-ids"],
        ["--overlap", "1"],
        ["b.txt"],
        ["--lines"],
        ["--on-bad", "skip"],
    ],
)
def test_keep_takes_one_text_and_no_option_of_chunks(more: list[str]) -> None:
    result = in_process(*START, "3", "text.txt", *more)
    assert (result.code, result.out) == (2, b"")
    assert result.err[-1].endswith(
        "--keep takes one plain text, and none of --overlap, --at, --with-ids, --input-format, "
        "--separator, --text-field, --on-bad, --bad-log"
    )


def test_a_character_larger_than_a_chunk_fails() -> None:
    result = in_process(*CHUNK, "1", "--text", "\U00010f00")
    assert (result.code, result.out) == (1, b"")
    assert "at position 0 has 4 ids, more than the 1 that max_tokens leaves" in result.err[0]
    Path("bad.jsonl").write_text('{"text": "a"}\n{"text": "\U00010f00"}\n', "utf-8")
    result = in_process(*CHUNK, "1", "bad.jsonl")
    assert result.code == 1
    assert result.err[0].startswith("bpetite: document 1: the character ")
