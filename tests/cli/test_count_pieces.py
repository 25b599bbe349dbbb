"""The verb `count-pieces`, and `train` on its files: sums, weights and pruning."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from support.cli import TEXT, Result, failure, in_process
from support.cli import folder as folder  # a fixture
from support.engines import quick_once

import bpetite
from bpetite import PieceCounts, Tokenizer

pytestmark = quick_once

COUNT = ("count-pieces", "--quiet", "--output", "new.counts")
TRAIN = ("train", "--quiet", "--vocab-size", "280", "--output", "new.json")
OTHER = "Other text, ünïcödé,\r\nwith lines\r\n"
DOCUMENTS = ["the ten men", "met the hens"]


@pytest.fixture(autouse=True)
def _files(folder: Path) -> None:
    (folder / "a.txt").write_bytes(TEXT.encode())
    (folder / "b.txt").write_bytes(OTHER.encode())
    lines = "".join(json.dumps({"text": document}) + "\n" for document in DOCUMENTS)
    (folder / "c.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    PieceCounts.from_corpus(TEXT).save("a.counts")
    PieceCounts.from_corpus(OTHER).save("b.counts")


def report(*arguments: str, stdin: bytes = b"") -> dict[str, Any]:
    """Return the report of a successful run."""
    result = in_process(*arguments, stdin=stdin)
    assert (result.code, result.err) == (0, [])
    found: dict[str, Any] = json.loads(result.out)
    return found


def counted(*arguments: str, stdin: bytes = b"") -> PieceCounts:
    report(*COUNT, *arguments, stdin=stdin)
    return PieceCounts.load("new.counts")


def trained(*arguments: str) -> Tokenizer:
    report(*TRAIN, *arguments)
    return Tokenizer.load("new.json")


# count-pieces


def test_counts_of_files_are_written() -> None:
    assert counted("a.txt", "b.txt") == PieceCounts.from_corpus([TEXT, OTHER])


def test_counts_of_compressed_documents_are_written() -> None:
    assert counted("c.jsonl.gz") == PieceCounts.from_corpus(DOCUMENTS)


def test_counts_of_standard_input_are_written() -> None:
    assert counted(stdin=TEXT.encode()) == PieceCounts.from_corpus(TEXT)


def test_count_pieces_reports_totals() -> None:
    found = report(*COUNT, "a.txt", "--min-count", "3")
    counts = PieceCounts.from_corpus(TEXT).prune(3)
    assert found.pop("elapsed_ms") >= 0
    assert found == {
        "text_bytes": counts.text_bytes,
        "pieces": counts.pieces,
        "distinct_pieces": len(counts),
        "exact": False,
        "min_count": 3,
        "dropped_pieces": counts.dropped_pieces,
        "output": "new.counts",
        "engine": bpetite.engine,
    }


def test_options_of_counting_are_used() -> None:
    options = ("--pattern", "qwen2", "--min-count", "2")
    expected = PieceCounts.from_corpus(TEXT, pattern="qwen2").prune(2)
    assert counted("a.txt", *options) == expected


def test_files_of_counts_are_added() -> None:
    weights = ("--weight", "a.counts=3")
    expected = PieceCounts.from_corpus([*[TEXT] * 3, OTHER]).prune(2)
    assert counted("a.counts", "b.counts", *weights, "--min-count", "2") == expected


@pytest.mark.parametrize("count", range(1, 8))
def test_any_number_of_files_of_counts_is_added(count: int) -> None:
    names = [f"{number}.counts" for number in range(count)]
    documents = [" ".join(names[number:]) for number in range(count)]
    for name, document in zip(names, documents, strict=True):
        PieceCounts.from_corpus(document).save(name)
    assert counted(*names) == PieceCounts.from_corpus(documents)


def test_files_of_two_patterns_are_not_added() -> None:
    PieceCounts.from_corpus(OTHER, pattern="qwen2").save("q.counts")
    result = in_process(*COUNT, "a.counts", "q.counts")
    assert (result.code, len(result.err)) == (1, 1)
    assert "the pieces are of the pattern qwen2, not of gpt2" in result.err[0]
    assert not Path("new.counts").exists()


def test_partitions_of_machines_add_up_to_all_counts() -> None:
    report(*COUNT[:3], "a-all.counts", "a.txt", "--partitions", "2")
    report(*COUNT[:3], "b-all.counts", "b.counts", "--partitions", "2")
    assert not Path("a-all.counts").exists()
    for number in (1, 2):
        names = [f"{name}-all-{number}-of-2.counts" for name in "ab"]
        report(*COUNT[:3], f"{number}.counts", *names)
    both = PieceCounts.load("1.counts"), PieceCounts.load("2.counts")
    assert [*both] == PieceCounts.from_corpus([TEXT, OTHER]).partition(2)


def test_an_existing_partition_is_not_replaced() -> None:
    Path("new-2-of-2.counts").write_bytes(b"old")
    result = in_process(*COUNT, "a.txt", "--partitions", "2")
    assert (result.code, result.out) == (1, b"")
    assert "new-2-of-2.counts" in result.err[0]
    assert Path("new-2-of-2.counts").read_bytes() == b"old"
    assert not Path("new-1-of-2.counts").exists()


def test_counts_and_text_are_not_mixed() -> None:
    assert in_process(*COUNT, "a.counts", "b.txt") == failure(
        "a.counts has piece counts, but b.txt has text; count the text first, then add the counts"
    )
    assert not Path("new.counts").exists()


def test_weights_are_for_files_of_counts() -> None:
    result = in_process(*COUNT, "a.txt", "--weight", "a.txt=2")
    assert result == failure("--weight is for files of piece counts; count each source first")


def test_another_pattern_than_that_of_counts_is_refused() -> None:
    for command in (COUNT, TRAIN):
        result = in_process(*command, "a.counts", "--pattern", "qwen2")
        assert (result.code, result.out) == (1, b"")
        assert "the pieces are of the pattern" in result.err[0]
    assert not Path("new.counts").exists()
    assert not Path("new.json").exists()


def test_existing_counts_need_force() -> None:
    arguments = ("count-pieces", "--quiet", "--output", "a.counts", "b.txt")
    assert in_process(*arguments) == failure("a.counts: exists; --force replaces it")
    assert in_process(*arguments, "--force").code == 0
    assert PieceCounts.load("a.counts") == PieceCounts.from_corpus(OTHER)


# train


@pytest.mark.parametrize(
    "names",
    [["a.counts", "b.counts"], ["b.counts", "a.counts"], ["a.counts", "b.txt"]],
    ids=" ".join,
)
def test_training_on_counts_is_training_on_text(names: list[str]) -> None:
    assert trained(*names) == Tokenizer.train([TEXT, OTHER], 280)


def test_files_of_counts_may_have_any_name() -> None:
    Path("a.counts").rename("a.txt")
    assert trained("a.txt") == Tokenizer.train(TEXT, 280)


def test_pattern_comes_from_the_counts() -> None:
    PieceCounts.from_corpus(TEXT, pattern="qwen2").save("q.counts")
    expected = Tokenizer.train([TEXT, OTHER], 280, pattern="qwen2")
    assert trained("q.counts", "b.txt") == expected
    assert trained("q.counts", "b.txt", "--pattern", "qwen2", "--force") == expected
    result = in_process(*TRAIN, "q.counts", "a.counts", "--force")
    assert (result.code, "not of" in result.err[0]) == (1, True)


@pytest.mark.parametrize("names", [["a.counts", "b.counts"], ["a.txt", "b.txt"]], ids=" ".join)
def test_weights_are_copies(names: list[str]) -> None:
    weights = ("--weight", f"{names[0]}=2", "--weight", f"{names[1]}=5")
    assert trained(*names, *weights) == Tokenizer.train([*[TEXT] * 2, *[OTHER] * 5], 280)


@pytest.mark.parametrize("names", [["a.counts", "b.counts"], ["a.txt", "b.txt"]], ids=" ".join)
def test_pruned_training_is_marked_as_not_exact(names: list[str]) -> None:
    counts = PieceCounts.from_corpus([TEXT, OTHER]).prune(4)
    command = ("train", "--vocab-size", "260", "--output", "new.json", "--min-count", "4")
    result = in_process(*command, *names)
    found = json.loads(result.out)
    assert (found["exact"], found["min_count"]) == (False, 4)
    assert found["dropped_pieces"] == counts.dropped_pieces
    assert found["corpus_bytes"] == len((TEXT + OTHER).encode())
    total = counts.pieces + counts.dropped_pieces
    assert (
        f"bpetite: not exact: pruning dropped {counts.dropped_pieces} of {total} pieces, so the "
        "vocabulary is not that of all text"
    ) in result.err
    assert Tokenizer.load("new.json") == Tokenizer.train(counts, 260)


def test_training_on_all_counts_is_exact() -> None:
    found = report(*TRAIN, "a.counts")
    assert (found["exact"], found["min_count"], found["dropped_pieces"]) == (True, 1, 0)


def test_weight_of_no_input_is_refused() -> None:
    assert in_process(*TRAIN, "a.txt", "--weight", "b.txt=2") == failure(
        "--weight b.txt=2: b.txt is not an input"
    )


def test_weight_of_no_input_shows_no_secret() -> None:
    url = "http://me:secret@host/b.txt?sig=secret"
    assert in_process(*TRAIN, "a.txt", "--weight", f"{url}=2") == failure(
        "--weight http://host/b.txt=2: http://host/b.txt is not an input"
    )


@pytest.mark.parametrize("weight", ["a.txt", "a.txt=", "a.txt=0", "a.txt=-1", "a.txt=x", "2"])
def test_wrong_weight_is_wrong_usage(weight: str) -> None:
    result = in_process(*TRAIN, "a.txt", f"--weight={weight}")
    assert (result.code, result.out) == (2, b"")
    assert "must be FILE=N, with an N of at least 1" in result.err[-1]


def test_overflow_is_one_line() -> None:
    result = in_process(*TRAIN, "a.counts", "--weight", f"a.counts={2**64 - 1}")
    assert (result.code, result.out) == (1, b"")
    assert result.err[0].endswith("exceeds 64 bits")


def test_bad_log_needs_one_weight() -> None:
    options = ("--weight", "a.txt=2", "--on-bad", "skip", "--bad-log", "log")
    assert in_process(*TRAIN, "a.txt", "b.txt", *options) == failure(
        "--bad-log needs texts of one weight; count each source by count-pieces"
    )


def test_damaged_counts_are_one_line() -> None:
    data = Path("a.counts").read_bytes()
    Path("a.counts").write_bytes(data[:-1])
    result = in_process(*TRAIN, "a.counts")
    assert isinstance(result, Result)
    assert (result.code, result.out, len(result.err)) == (1, b"", 1)
    assert result.err[0].startswith("bpetite: a.counts: ")


# Shares


@pytest.mark.parametrize("share", ["0.4", "2/5", "4e-1"])
@pytest.mark.parametrize("names", [["a.counts", "b.counts"], ["a.counts", "b.txt"]], ids=" ".join)
def test_a_share_is_one_of_the_bytes(names: list[str], share: str) -> None:
    mixture = PieceCounts.load("a.counts") * 19 + PieceCounts.load("b.counts") * 55
    assert 5 * 55 * len(OTHER.encode()) == 2 * mixture.text_bytes
    expected = Tokenizer.train(mixture, 280)
    assert trained(*names, "--share", f"{names[1]}={share}") == expected
    assert trained(*names, "--share", f"{names[0]}=0.6", "--force") == expected


def test_sums_of_counts_have_shares() -> None:
    counts = [PieceCounts.load(name) for name in ("a.counts", "b.counts")]
    found = counted("a.counts", "b.counts", "--share", "a.counts=0.5", "--share", "b.counts=0.5")
    assert found == PieceCounts.mixture(counts, [0.5, 0.5])


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["--share", "c.txt=0.3"], "--share c.txt=0.3: c.txt is not an input"),
        (["--share", "a.txt=1"], "a share must be above 0 and below 1, such as 0.3 or 1/3, got 1"),
        (["--share", "a.txt=0.7", "--share", "b.txt=0.7"], "shares must add up to 1, got 7/5"),
        (
            ["--share", "a.txt=0.3", "--weight", "b.txt=2"],
            "--share works without --weight and --min-count",
        ),
        (
            ["--share", "a.txt=0.3", "--min-count", "2"],
            "--share works without --weight and --min-count",
        ),
        (
            ["--share", "a.txt=0.3", "--on-bad", "skip", "--bad-log", "log"],
            "--bad-log needs texts of one weight; count each source by count-pieces",
        ),
    ],
)
def test_wrong_shares_are_refused(options: list[str], fault: str) -> None:
    assert in_process(*TRAIN, "a.txt", "b.txt", *options) == failure(fault)


def test_shares_are_for_files_of_counts() -> None:
    result = in_process(*COUNT, "a.txt", "b.txt", "--share", "a.txt=0.3")
    assert result == failure("--share is for files of piece counts; count each source first")


def test_a_share_without_a_file_is_wrong_usage() -> None:
    result = in_process(*TRAIN, "a.txt", "--share", "0.3")
    assert (result.code, "must be FILE=SHARE" in result.err[-1]) == (2, True)
