"""The verb `train`: files in, a vocabulary file, a report and progress out."""

from __future__ import annotations

import json
import os
import re
import threading
from pathlib import Path
from typing import NoReturn

import pytest
from support.cli import BOM_WARNING, TEXT, failure, in_process
from support.cli import folder as folder  # a fixture
from support.engines import python_only
from support.programs import posix_only

import bpetite
from bpetite import Tokenizer

TRAIN = ("train", "--vocab-size", "280", "--output", "new.json")
OTHER = "Other text, ünïcödé,\r\nwith lines\r\n"


@pytest.fixture(autouse=True)
def _corpus(folder: Path) -> None:
    (folder / "a.txt").write_bytes(TEXT.encode())
    (folder / "b.txt").write_bytes(OTHER.encode())


def trained(*arguments: str, stdin: bytes = b"") -> Tokenizer:
    """Train with these arguments and return the saved tokenizer."""
    result = in_process(*TRAIN, *arguments, stdin=stdin)
    assert (result.code, result.out[:1]) == (0, b"{")
    return Tokenizer.load("new.json")


# Input


@pytest.mark.parametrize(
    "arguments",
    [
        ["a.txt", "b.txt"],
        ["a.txt", "--input", "b.txt"],
        ["--input", "a.txt", "--input", "b.txt"],
        ["--input", "b.txt", "--input", "a.txt"],
    ],
    ids=" ".join,
)
def test_files_are_documents_in_any_order(arguments: list[str]) -> None:
    assert trained(*arguments) == Tokenizer.train([TEXT, OTHER], 280)


def test_pieces_do_not_span_files() -> None:
    for name in ("1.txt", "2.txt"):
        Path(name).write_text("a" if name == "1.txt" else "b", encoding="utf-8")
    assert trained("1.txt", "2.txt").merges == ()


@pytest.mark.parametrize("arguments", [[], ["-"], ["--input", "-"]], ids=str)
def test_stdin_is_a_document(arguments: list[str]) -> None:
    assert trained(*arguments, stdin=OTHER.encode()) == Tokenizer.train(OTHER, 280)


def test_byte_order_mark_of_a_corpus_is_warned_of() -> None:
    Path("bom.txt").write_bytes(b"\xef\xbb\xbfab ab")
    result = in_process(*TRAIN, "a.txt", "bom.txt", "-", stdin=b"\xef\xbb\xbfab ab")
    assert result.code == 0
    names = ("bom.txt", "standard input")
    assert result.err[:2] == [f"bpetite: {name} {BOM_WARNING}" for name in names]
    assert Tokenizer.load("new.json") == Tokenizer.train([TEXT, *["\ufeffab ab"] * 2], 280)


@posix_only
def test_named_pipe_is_read_once() -> None:
    os.mkfifo("pipe")
    writer = threading.Thread(target=Path("pipe").write_bytes, args=[OTHER.encode()], daemon=True)
    writer.start()
    tokenizer = trained("pipe")
    writer.join()
    assert tokenizer == Tokenizer.train(OTHER, 280)


def test_empty_corpus_gives_the_bytes() -> None:
    assert trained() == Tokenizer.train("", 256)


@pytest.mark.parametrize(
    ("arguments", "literals"),
    [
        ([], ["<|endoftext|>"]),
        (["--special-token", "<|end|>"], ["<|end|>"]),
        (["--special-token", "«b»", "--special-token", "a b"], ["«b»", "a b"]),
    ],
)
def test_special_tokens_follow_the_merges_in_order(
    arguments: list[str], literals: list[str]
) -> None:
    special_tokens = trained("a.txt", *arguments).special_tokens
    assert list(special_tokens.items()) == [(name, 280 + i) for i, name in enumerate(literals)]


# The report


def test_report_is_one_json_object_on_one_line() -> None:
    result = in_process(*TRAIN, "a.txt", "b.txt")
    assert result.code == 0
    assert result.out.count(b"\n") == 1
    report = json.loads(result.out)
    times = [report.pop(name) for name in ("elapsed_ms", "counting_ms", "merging_ms")]
    assert report == {
        "corpus_bytes": len((TEXT + OTHER).encode()),
        "requested_vocab_size": 280,
        "actual_mergeable_vocab_size": 280,
        "special_token_count": 1,
        "stopped_early": False,
        "exact": True,
        "min_count": 1,
        "dropped_pieces": 0,
        "output": "new.json",
        "engine": bpetite.engine,
    }
    assert {type(time) for time in times} == {int}
    assert 0 <= sum(times[1:]) <= times[0] + 1


def test_early_stop_is_reported() -> None:
    Path("a.txt").write_bytes(b"abcd abcd")
    result = in_process(*TRAIN, "a.txt", "--special-token", "x", "--special-token", "y")
    report = json.loads(result.out)
    assert result.code == 0
    assert result.err[-1] == "bpetite: stopped at 260 of 280 ids: no pair is left to merge"
    assert {name: report[name] for name in list(report)[:5]} == {
        "corpus_bytes": 9,
        "requested_vocab_size": 280,
        "actual_mergeable_vocab_size": 260,
        "special_token_count": 2,
        "stopped_early": True,
    }


def test_quiet_leaves_stderr_empty() -> None:
    result = in_process("train", "--quiet", "--vocab-size", "9999", "--output", "new.json", "a.txt")
    assert (result.code, result.err) == (0, [])
    assert json.loads(result.out)["stopped_early"] is True


def test_largest_vocab_size_is_accepted() -> None:
    result = in_process("train", "--vocab-size", str(2**32), "--output", "new.json", "a.txt")
    assert result.code == 0
    assert json.loads(result.out)["requested_vocab_size"] == 2**32


@pytest.mark.parametrize("arguments", [[], ["--quiet"]])
def test_closed_stderr_leaves_the_report(arguments: list[str]) -> None:
    result = in_process(
        "train", "--vocab-size", "9999", "--output", "new.json", "a.txt", *arguments,
        stderr_open=False,
    )  # fmt: skip
    assert (result.code, result.err) == (0, [])
    assert json.loads(result.out)["stopped_early"] is True


# Progress


def test_progress_has_a_line_per_stage_without_a_terminal() -> None:
    size = Path("a.txt").stat().st_size
    result = in_process(*TRAIN, "a.txt")
    assert [re.sub(r"[\d,]+(\.\d)? ([kM]?B|merges?)/s", "R", line) for line in result.err] == [
        f"bpetite: counting: {size} B of {size} B, R",
        "bpetite: merging: 24 of 24 merges, R",
    ]


def test_progress_of_a_pipe_has_no_total() -> None:
    result = in_process(*TRAIN, stdin=TEXT.encode())
    assert re.fullmatch(r"bpetite: counting: \d+ B, \d+(\.\d)? [kM]?B/s", result.err[0])


@python_only
def test_progress_of_a_long_stage_has_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bpetite._cli.progress._LINE_INTERVAL", 0.0)
    monkeypatch.setattr("bpetite._progress.INTERVAL", 0.0)
    result = in_process(*TRAIN, "a.txt")
    merging = [line for line in result.err if line.startswith("bpetite: merging: ")]
    shape = r"bpetite: merging: (\d+) of 24 merges, [\d,]+ merges?/s(, \d+ s left)?"
    matches = [re.fullmatch(shape, line) for line in merging]
    shown = [(int(match[1]), match[2] is not None) for match in matches if match]
    assert shown[:25] == [(done, 0 < done < 24) for done in range(25)]
    assert set(shown[25:]) == {(24, False)}
    assert result.err[-len(merging) :] == merging


# Refusals before the work


@pytest.fixture
def _no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def train(*_: object, **__: object) -> None:
        raise AssertionError("training began")

    monkeypatch.setattr(Tokenizer, "train", train)


@pytest.mark.usefixtures("_no_training")
@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("model.json", "model.json: exists; --force replaces it"),
        ("none/new.json", f"{Path('none/new.json')}: the folder none does not exist"),
        ("a.txt/new.json", f"{Path('a.txt/new.json')}: the folder a.txt does not exist"),
        ("inner", "inner: only a file can be replaced"),
    ],
)
def test_unwritable_output_is_refused_early(output: str, reason: str) -> None:
    Path("inner").mkdir()
    before = Path("model.json").read_bytes()
    result = in_process("train", "a.txt", "--vocab-size", "280", "--output", output)
    assert result == failure(reason)
    assert Path("model.json").read_bytes() == before
    assert sorted(os.listdir()) == ["a.txt", "b.txt", "inner", "model.json"]


@posix_only
@pytest.mark.usefixtures("_no_training")
def test_pipe_as_output_is_refused_early() -> None:
    os.mkfifo("new.json")
    result = in_process(*TRAIN, "a.txt", "--force")
    assert (result.code, result.out, len(result.err)) == (1, b"", 1)
    assert result.err[0].startswith("bpetite: new.json: ")


@pytest.mark.usefixtures("_no_training")
def test_read_only_folder_is_refused_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """The superuser may write everywhere, so the test replaces the system's answer."""

    def refuse(dir: Path) -> NoReturn:
        raise PermissionError(f"no writing in {dir}")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    assert in_process(*TRAIN, "a.txt") == failure("new.json: the folder . is not writable")


@pytest.mark.usefixtures("_no_training")
def test_unreadable_input_is_refused_early() -> None:
    Path("inner").mkdir()
    missing = in_process(*TRAIN, "a.txt", "none.txt")
    assert missing == failure("none.txt: No such file or directory")
    folder = in_process(*TRAIN, "a.txt", "--input", "inner")
    assert folder == failure("inner: the folder has no files")
    assert in_process(*TRAIN, "a.txt", "-", stdin=None) == failure("standard input is closed")


@pytest.mark.parametrize(
    ("literals", "reason"),
    [
        (["x", "y", "x"], "the special token 'x' is given twice"),
        ([""], "a special token must not be empty"),
    ],
)
def test_special_tokens_are_checked_first(literals: list[str], reason: str) -> None:
    Path("a.txt").write_bytes(b"\xff")
    options = [argument for literal in literals for argument in ("--special-token", literal)]
    assert in_process(*TRAIN, "a.txt", *options) == failure(reason)
    assert sorted(os.listdir()) == ["a.txt", "b.txt", "model.json"]


# Failures during the work


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"a\xffb", "byte 1 (0xff: invalid start byte)"),
        (b"\xe4\xbd\xa0 \xe4\xbd", "byte 4 (0xe4: unexpected end of data)"),
        (b"x" * 65_535 + b"\xe4\xbdx", "byte 65535 (0xe4: invalid continuation byte)"),
        (b" x" * 100_000 + b"\x80", "byte 200000 (0x80: invalid start byte)"),
    ],
    ids=["start", "end", "between two reads", "far"],
)
def test_invalid_utf8_is_located_and_nothing_written(data: bytes, place: str) -> None:
    Path("bad.txt").write_bytes(data)
    assert in_process(*TRAIN, "a.txt", "bad.txt") == failure(f"bad.txt is not UTF-8 at {place}")
    by_input = in_process(*TRAIN, "a.txt", "-", stdin=data)
    assert by_input == failure(f"standard input is not UTF-8 at {place}")
    assert sorted(os.listdir()) == ["a.txt", "b.txt", "bad.txt", "model.json"]


def test_force_replaces_only_after_training() -> None:
    Path("new.json").write_bytes(b"old")
    Path("bad.txt").write_bytes(b"\xff")
    assert in_process(*TRAIN, "bad.txt", "--force").code == 1
    assert Path("new.json").read_bytes() == b"old"
    assert trained("a.txt", "--force") == Tokenizer.train(TEXT, 280)


# The pattern


@pytest.mark.parametrize(
    "pattern", ["gpt2", "cl100k", "o200k", "llama3", "qwen2", r"[a-zü]+", "(a)"]
)
def test_pattern_option_sets_the_pattern(pattern: str) -> None:
    expected = Tokenizer.train([TEXT, OTHER], 280, pattern=pattern)
    assert trained("a.txt", "b.txt", "--pattern", pattern) == expected


WITHOUT_NAME = "bpetite: llama.cpp supports named patterns only and cannot load this vocabulary"


@pytest.mark.parametrize(
    ("options", "is_warned_of"),
    [
        ((), False),
        (("--pattern", "qwen2"), False),
        (("--pattern", r"\S+|\s+"), True),
        (("--pattern", r"\S+|\s+", "--quiet"), False),
    ],
)
def test_pattern_without_a_name_gets_a_note(options: tuple[str, ...], is_warned_of: bool) -> None:
    assert (WITHOUT_NAME in in_process(*TRAIN, "a.txt", *options).err) == is_warned_of


@pytest.mark.parametrize("pattern", ["a*", "a(", "", "a++", "(?>a)"])
def test_invalid_pattern_is_shown_and_nothing_written(pattern: str) -> None:
    result = in_process(*TRAIN, "a.txt", f"--pattern={pattern}", "--quiet")
    assert (result.code, result.out) == (1, b"")
    assert repr(pattern) in result.err[0]
    assert not Path("new.json").exists()


# Which merges to learn


def test_rules_match_python() -> None:
    base = trained("a.txt", "--vocab-size", "265")
    Path("new.json").rename("base.json")
    result = trained(
        "b.txt", "--base", "base.json", "--min-pair-count", "2", "--max-token-bytes", "3",
        "--require", "lin", "--forbid", "th|x$", "--whole-characters", "--pattern", "words",
    )  # fmt: skip
    expected = Tokenizer.train(
        OTHER,
        280,
        base=base,
        pattern="words",
        min_pair_count=2,
        max_token_bytes=3,
        require=["lin"],
        forbid=re.compile(b"th|x$"),
        whole_characters=True,
    )
    assert result == expected


def test_steps_without_special_tokens_equal_one_go() -> None:
    trained("a.txt", "--vocab-size", "265", "--no-special-tokens")
    Path("new.json").rename("base.json")
    trained("a.txt", "--vocab-size", "275", "--base", "base.json")
    in_steps = Path("new.json").read_bytes()
    trained("a.txt", "--vocab-size", "275", "--force")
    assert Path("new.json").read_bytes() == in_steps


def test_piece_counts_are_continued_by_the_pattern_of_the_base() -> None:
    base = trained("a.txt", "--vocab-size", "265", "--pattern", "cl100k")
    Path("new.json").rename("base.json")
    result = trained("b.txt", "--base", "base.json", "--weight", "b.txt=2")
    assert result == Tokenizer.train([OTHER] * 2, 280, base=base)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--base", "missing.json"), "missing.json"),
        (("--require", "a b"), "the pattern splits it"),
        (("--require", "abcdefghijklmnopqrstuvwxyzabcdefg"), "vocab_size must be at least"),
    ],
)
def test_wrong_rules_are_found_before_the_work(arguments: tuple[str, ...], error: str) -> None:
    result = in_process(*TRAIN, "a.txt", *arguments)
    assert (result.code, result.out, len(result.err)) == (1, b"", 1)
    assert error in result.err[0]
    assert not Path("new.json").exists()


def test_wrong_rules_are_found_before_weighted_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    def count(*_: object, **__: object) -> None:
        raise AssertionError("the corpus is counted")

    monkeypatch.setattr(bpetite.PieceCounts, "from_corpus", count)
    result = in_process(*TRAIN, "b.txt", "--weight", "b.txt=2", "--require", "a b")
    assert (result.code, len(result.err)) == (1, 1)
    assert "the pattern splits it" in result.err[0]


def test_a_wrong_expression_is_wrong_usage() -> None:
    result = in_process(*TRAIN, "a.txt", "--forbid", "(")
    assert result.code == 2
    assert "'(' is not a regular expression" in result.err[-1]


def test_languages_are_inputs_with_development_texts() -> None:
    Path("a.dev").write_text("a development text", "utf-8")
    Path("b.dev").write_text("Oeffne die ünïcödé", "utf-8")
    result = trained("a.txt", "b.txt", "--balance", "b.txt=b.dev", "--balance", "a.txt=a.dev")
    expected = Tokenizer.train(
        {"a": TEXT, "b": OTHER}, 280, balance={"a": "a development text", "b": "Oeffne die ünïcödé"}
    )
    assert result == expected
    bpetite.PieceCounts.from_corpus(OTHER).save("b.counts")
    with_counts = ("a.txt", "b.counts", "--balance", "b.counts=b.dev", "--balance", "a.txt=a.dev")
    assert trained(*with_counts, "--force") == expected


def test_development_texts_are_no_part_of_the_corpus() -> None:
    Path("dev.txt").write_text("a development text", "utf-8")
    bpetite.PieceCounts.from_corpus(OTHER).save("b.counts")
    balance = ("--balance", "b.counts=dev.txt", "--balance", "a.txt=dev.txt")
    result = in_process(*TRAIN, "a.txt", "b.counts", *balance)
    assert json.loads(result.out)["corpus_bytes"] == len((TEXT + OTHER).encode())


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("a.txt", "--balance", "a.txt=b.txt", "--balance", "b.txt=a.txt"), "must be given once"),
        (("--balance", "a.txt=b.txt"), "--balance must be given once for each input"),
        (
            ("--balance", "a.txt=b.txt", "--balance", "c.txt=b.txt"),
            "; given on one side only: b.txt, c.txt",
        ),
        (("--balance", "a.txt=b.txt", "--weight", "a.txt=2"), "--balance works without --weight"),
    ],
)
def test_every_input_needs_its_development_text(arguments: tuple[str, ...], error: str) -> None:
    result = in_process(*TRAIN, "a.txt", "b.txt", *arguments)
    assert (result.code, result.out, len(result.err)) == (1, b"", 1)
    assert error in result.err[0]
