"""The verbs tokenize and verify: folders of token files from the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.cli import in_process
from support.engines import quick_once

from bpetite import Tokenizer
from bpetite.corpora import Corpus, tokenize

pytestmark = quick_once

TOKENIZE = ("tokenize", "a.jsonl", "--model", "model.json", "--output", "tokens", "--format")
TEXTS = ["the hen", "", "ten men"]


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = (json.dumps({"text": text}) + "\n" for text in TEXTS)
    Path("a.jsonl").write_text("".join(lines), encoding="utf-8")
    Tokenizer.train(TEXTS, 260).save("model.json")


def test_summary_is_one_object_of_json() -> None:
    result = in_process(*TOKENIZE, "megatron", "--end", "<|endoftext|>")
    summary = json.loads(result.out)
    assert (result.code, result.err) == (0, [])
    assert summary.pop("seconds") > 0
    tokenizer = Tokenizer.load("model.json")
    ids = sum(len(tokenizer.encode(text)) + 1 for text in TEXTS)
    assert summary == {
        "output": "tokens",
        "format": "megatron",
        "dtype": "uint16",
        "tokenizer": tokenizer.fingerprint,
        "documents": 3,
        "empty": 1,
        "bad": 0,
        "text_bytes": 14,
        "ids": ids,
        "parts": 1,
        "files": 2,
    }


def test_all_options_reach_the_call() -> None:
    options = ["--begin", "<|endoftext|>", "--shard-tokens", "9", "--validation", "1"]
    options += ["--shuffle", "3", "--part-bytes", "1000", "--workers", "2"]
    assert in_process(*TOKENIZE, "llmc", *options).code == 0
    tokenize(
        Corpus("a.jsonl"),
        Tokenizer.load("model.json"),
        "called",
        "llmc",
        begin="<|endoftext|>",
        shard_tokens=9,
        validation=1,
        shuffle=3,
        part_bytes=1000,
    )
    assert contents("tokens") == contents("called")


def contents(folder: str) -> dict[str, bytes]:
    """Return the bytes of each file of a folder by its name."""
    return {path.name: path.read_bytes() for path in Path(folder).glob("*.*") if path.is_file()}


def test_skipped_documents_are_counted() -> None:
    with open("a.jsonl", "a", encoding="utf-8") as file:
        file.write("[]\n")
    result = in_process(*TOKENIZE, "megatron")
    assert result.code == 1
    assert "a.jsonl: line 4, byte" in result.err[0]
    result = in_process(*TOKENIZE, "megatron", "--on-bad", "skip", "--output", "skipped")
    assert result.code == 0
    assert result.err[0].startswith("bpetite: skipped 1 bad document; the files in skipped")
    log = Path("skipped/.bpetite/bad/00000.jsonl").read_text(encoding="utf-8")
    assert json.loads(log)["line"] == 4


def test_verify_prints_the_first_documents() -> None:
    in_process(*TOKENIZE, "nanogpt")
    result = in_process("verify", "tokens", "--model", "model.json", "--deep", "--head", "5")
    assert (result.code, result.err) == (0, [])
    assert result.out == b'"the hen<|endoftext|>"\n"ten men<|endoftext|>"\n'


def test_verify_prints_the_summary_of_a_good_folder() -> None:
    written = json.loads(in_process(*TOKENIZE, "nanogpt").out)
    result = in_process("verify", "tokens")
    assert (result.code, result.err, result.out.count(b"\n")) == (0, [], 1)
    summary = json.loads(result.out)
    assert summary.pop("seconds") >= 0
    assert summary == {key: value for key, value in written.items() if key != "seconds"}


def test_verify_exits_with_1_for_a_problem() -> None:
    in_process(*TOKENIZE, "nanogpt")
    Path("tokens/train.bin").write_bytes(b"\0\0")
    result = in_process("verify", "tokens")
    assert (result.code, result.out) == (1, b"")
    assert [line.partition(": ")[2] for line in result.err] == [
        "tokens/train.bin: 2 bytes, not 20",
        "tokens: 1 problem",
    ]


def test_standard_input_is_refused_and_not_promised() -> None:
    """A run that goes on after a kill must read its input again."""
    assert "standard input" not in in_process("tokenize", "--help").out.decode()
    result = in_process("tokenize", "-", "--model=model.json", "-o=tokens", "-f=megatron")
    assert (result.code, result.out, len(result.err)) == (1, b"", 1)
    assert "standard input: " in result.err[0]


def test_a_wrong_amount_of_validation_is_explained() -> None:
    result = in_process(*TOKENIZE, "megatron", "--validation", "some")
    assert result.code == 2
    assert "a fraction such as 0.01, or a number of first documents" in result.err[-1]


def test_verify_says_what_a_folder_is_not() -> None:
    Path("other").mkdir()
    result = in_process("verify", "other")
    assert result.err[0] == "bpetite: other: not a folder of token files"


def test_a_log_gets_lines_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bpetite._cli.progress._TOKENIZE_LINE_INTERVAL", 0)
    result = in_process(*TOKENIZE, "megatron")
    assert result.code == 0
    size = Path("a.jsonl").stat().st_size
    assert result.err[-1].startswith(f"bpetite: tokenizing: {size / 1e6:.1f} MB of ")
    assert in_process(*TOKENIZE, "datatrove", "--output", "quiet", "--quiet").err == []


TELLING_WORKERS = """
import pathlib, signal, sys
if "--multiprocessing-fork" in sys.orig_argv:
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    pathlib.Path("blocked").write_text(str(signal.SIGINT in blocked))
"""


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="needs POSIX signals")
def test_workers_leave_interrupts_to_the_command() -> None:
    """A terminal sends Ctrl-C to the workers too, and each would print a traceback."""
    Path("sitecustomize.py").write_text(TELLING_WORKERS, encoding="utf-8")
    subprocess.run(
        [sys.executable, "-m", "bpetite", *TOKENIZE, "megatron", "--workers=2"],
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert Path("blocked").read_text(encoding="utf-8") == "True"
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_a_repair_lists_what_it_removes() -> None:
    assert in_process(*TOKENIZE, "megatron").code == 0
    before = contents("tokens")
    Path("tokens/train_00000.bin").write_bytes(b"")
    path = Path("tokens/train_00000.bin")
    result = in_process("verify", "tokens", "--repair")
    removed = ["manifest.json", ".bpetite/receipts/00000.json"]
    removed += ["train_00000.bin", "train_00000.idx"]
    assert (result.code, json.loads(result.out)) == (0, {"output": "tokens", "removed": removed})
    size = len(before[path.name])
    assert result.err == [
        f"bpetite: {path}: 0 bytes, not {size}",
        "bpetite: run the same `bpetite tokenize` again: it writes what is missing",
    ]
    assert in_process(*TOKENIZE, "megatron").code == 0
    assert contents("tokens") == before


def test_a_repair_leaves_foreign_files_and_fails() -> None:
    assert in_process(*TOKENIZE, "megatron").code == 0
    Path("tokens/notes.txt").write_text("notes", encoding="utf-8")
    result = in_process("verify", "tokens", "--repair")
    assert (result.code, result.err) == (
        1,
        [
            f"bpetite: {Path('tokens/notes.txt')}: foreign: the manifest does not name it",
            "bpetite: tokens: 1 problem is left",
        ],
    )
