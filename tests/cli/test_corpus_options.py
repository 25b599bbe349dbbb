"""The verbs `train` and `count` read all inputs of a corpus, by the same options."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from support.cli import TOKENIZER, Result, in_process
from support.cli import folder as folder  # a fixture
from support.corpora import COMPRESSIONS, TEXTS, arrow, jsonl, parquet
from support.engines import quick_once

from bpetite import Tokenizer

pytestmark = quick_once

COUNT = ("count", "--model", "model.json")
TRAIN = ("train", "--quiet", "--force", "--vocab-size", "280", "--output", "new.json")
IDS = sum(map(TOKENIZER.count, TEXTS))
NO_FIELD = "; --text-field names another field, and --input-format text reads the file as it is"

FILES = {
    "a.jsonl": jsonl(TEXTS),
    "a.json": jsonl(TEXTS),
    "a.parquet": parquet(TEXTS),
    "a.arrow": arrow(TEXTS),
    **{f"b.jsonl{suffix}": compress(jsonl(TEXTS)) for suffix, compress in COMPRESSIONS.items()},
}


@pytest.mark.parametrize("name", FILES)
def test_count_and_train_read_documents(name: str) -> None:
    Path(name).write_bytes(FILES[name])
    assert in_process(*COUNT, name) == Result(0, f"{IDS} {name}\n".encode(), [])
    assert in_process(*TRAIN, name).code == 0
    assert Tokenizer.load("new.json") == Tokenizer.train(TEXTS, 280)


@pytest.mark.parametrize("name", ["a.jsonl", "b.jsonl.gz", "b.jsonl.zst"])
def test_standard_input_holds_documents_too(name: str) -> None:
    assert in_process(*COUNT, stdin=FILES[name]) == Result(0, f"{IDS}\n".encode(), [])
    assert in_process(*TRAIN, stdin=FILES[name]).code == 0
    assert Tokenizer.load("new.json") == Tokenizer.train(TEXTS, 280)


@pytest.mark.parametrize(
    ("options", "documents"),
    [
        (["--lines"], ["ab ", "<e>", " ab<e>ab"]),
        (["--input-format", "lines"], ["ab ", "<e>", " ab<e>ab"]),
        (["--separator", "<e>"], ["ab \n", "\n ab", "ab"]),
        (["--separator", r"\n"], ["ab ", "<e>", " ab<e>ab"]),
        (["--separator", r"<e>\n"], ["ab \n", " ab<e>ab"]),
        ([], ["ab \n<e>\n ab<e>ab"]),
    ],
    ids=str,
)
def test_options_say_where_documents_end(options: list[str], documents: list[str]) -> None:
    Path("a.txt").write_bytes(b"ab \n<e>\n ab<e>ab")
    count = sum(map(TOKENIZER.count, documents))
    assert in_process(*COUNT, "a.txt", *options).out == b"%d a.txt\n" % count
    assert in_process(*TRAIN, "a.txt", *options).code == 0
    assert Tokenizer.load("new.json") == Tokenizer.train(documents, 280)


def test_text_field_names_the_field() -> None:
    Path("a.jsonl").write_bytes(jsonl(TEXTS, "body"))
    assert in_process(*COUNT, "a.jsonl", "--text-field", "body").out == b"%d a.jsonl\n" % IDS
    for command in (COUNT, TRAIN):
        result = in_process(*command, "a.jsonl")
        assert result == Result(1, b"", [f"bpetite: a.jsonl: line 1, byte 0: no field{NO_FIELD}"])


def test_a_folder_is_counted_as_one_input() -> None:
    Path("data").mkdir()
    for name in ("a.jsonl", "b.jsonl"):
        Path("data", name).write_bytes(jsonl(TEXTS))
    assert in_process(*COUNT, "data", "data/*.jsonl").out == (
        b" %d data\n %d data/*.jsonl\n%d total\n" % (2 * IDS, 2 * IDS, 4 * IDS)
    )


def test_skipped_documents_are_said_and_logged() -> None:
    Path("a.jsonl").write_bytes(jsonl(TEXTS) + b"{}\n[\n")
    last = len(TEXTS) + 1
    place = len(jsonl(TEXTS))
    for command in (COUNT, TRAIN):
        result = in_process(*command, "a.jsonl", "--on-bad", "skip", "--bad-log", "bad.log")
        assert result.code == 0
        assert result.err == [
            f"bpetite: skipped 2 bad documents: a.jsonl: line {last}, byte {place}: no field; "
            f"a.jsonl: line {last + 1}, byte {place + 3}: not JSON; bad.log has the list"
        ]
        lines = Path("bad.log").read_text("utf-8").splitlines()
        assert [json.loads(line)["reason"] for line in lines] == ["no field", "not JSON"]


def test_many_skipped_documents_are_named_in_part() -> None:
    Path("a.jsonl").write_bytes(b"{}\n" * 9)
    first = "; ".join(f"a.jsonl: line {line}, byte {3 * line - 3}: no field" for line in (1, 2, 3))
    said = f"bpetite: skipped 9 bad documents: {first}; and 6 more; "
    skip = ("a.jsonl", "--on-bad", "skip")
    assert in_process(*COUNT, *skip).err == [f"{said}--bad-log FILE writes the list"]
    assert in_process(*COUNT, *skip, "--bad-log", "b.log").err == [f"{said}b.log has the list"]
    assert in_process("report", "model.json", *skip).err == [said.removesuffix("; ")]


def test_a_cut_file_is_one_line_on_standard_error() -> None:
    Path("b.jsonl.gz").write_bytes(FILES["b.jsonl.gz"][:-3])
    for command in (COUNT, TRAIN):
        result = in_process(*command, "b.jsonl.gz")
        assert (result.code, result.out, len(result.err)) == (1, b"", 1)
        assert result.err[0].startswith("bpetite: b.jsonl.gz is cut at byte ")


def test_json_lines_in_a_text_file_are_warned_of() -> None:
    Path("a.txt").write_bytes(jsonl(TEXTS))
    for command in (COUNT, TRAIN):
        result = in_process(*command, "a.txt")
        assert result.code == 0
        assert len(result.err) == 1
        assert result.err[0].startswith("bpetite: a.txt looks like JSON Lines")
        assert in_process(*command, "a.txt", "--input-format", "text").err == []


def test_the_option_that_the_warning_names_reads_json_lines() -> None:
    Path("a.txt").write_bytes(jsonl(TEXTS))
    advice = in_process(*COUNT, "a.txt").err[0].rpartition(", or ")[2]
    assert advice == "--input-format jsonl"
    Path("a.jsonl").write_bytes(jsonl(TEXTS))
    expected = in_process(*COUNT, "a.jsonl").out.replace(b"a.jsonl", b"a.txt")
    result = in_process(*COUNT, "a.txt", *advice.split())
    assert (result.code, result.out, result.err) == (0, expected, [])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--separator", ""], "separator must not be empty"),
        (["--separator", "x", "--input-format", "json"], "separator is for text"),
        (["--bad-log", "log"], "bad_log needs on_bad"),
    ],
)
def test_wrong_options_are_one_line(options: list[str], reason: str) -> None:
    Path("a.txt").write_bytes(b"ab")
    result = in_process(*COUNT, "a.txt", *options)
    assert (result.code, len(result.err)) == (1, 1)
    assert reason in result.err[0]


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "--vocab-size", "256", "--output", "new.json"),
        ("count-pieces", "--output", "new.counts"),
        ("tokenize", "--model", "model.json", "--format", "llmc", "--output", "new"),
        ("count", "--model", "model.json"),
        ("encode", "--model", "model.json"),
        ("chunk", "--model", "model.json", "--max-tokens", "9"),
        ("chunk", "--model", "model.json", "--max-tokens", "9", "--keep", "start"),
        ("chunk", "--model", "model.json", "--max-tokens", "9", "--keep", "end"),
        ("inspect", "--model", "model.json"),
        ("check", "--against", "model.json", "model.json"),
        ("report", "model.json"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_no_verb_reads_an_archive(arguments: tuple[str, ...], folder: Path) -> None:
    name = "a.txt"
    with tarfile.open(folder / name, "w") as archive:
        archive.add(folder / "model.json")
    result = in_process(*arguments, name)
    assert result.code == 1
    assert result.err[-1].endswith(
        ("a.txt is a tar archive (unpack it)", "a tar archive; unpack it")
    )
