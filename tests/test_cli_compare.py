"""The verb `compare`: models and texts in, how each model cuts the texts out, side by side."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from cli import RAW, TOKENIZER, Result, failure, in_process, posix_only, run, saved
from cli import folder as folder  # a fixture
from cli import public_ranks as public_ranks  # a fixture

from bpetite import Tokenizer

BYTES = Tokenizer.train("", 256)
AB = Tokenizer.train("ab ab ab", 257)
BC = Tokenizer.train("bc bc bc", 257)


@pytest.fixture(autouse=True)
def _models(folder: Path) -> None:
    BYTES.save(folder / "bytes.json")
    AB.save(folder / "ab.json")
    BC.save(folder / "bc.json")
    (folder / "abc.txt").write_bytes(b"abc")
    (folder / "raw.txt").write_bytes(RAW)


def figures(*arguments: str, stdin: bytes = b"") -> list[list[str]]:
    """Return the cells of the table, without its first line."""
    result = in_process("compare", *arguments, stdin=stdin)
    assert (result.code, result.err) == (0, [])
    return [line.split() for line in result.out.decode().splitlines()[1:]]


# The table


def test_a_model_has_a_line() -> None:
    Path("long.txt").write_bytes(b"ab" * 1000)
    result = in_process("compare", "bytes.json", "ab.json", "long.txt")
    assert result.out.decode().splitlines() == [
        "model       ids  tokens  bytes/token  equal cuts",
        "bytes.json  257   2,000         1.00      100.0%",
        "ab.json     258   1,000         2.00       49.9%",
    ]
    assert (result.code, result.err) == (0, [])


def test_equal_cuts_are_those_of_both_among_those_of_either() -> None:
    """Of "abcabc" one is cut a|b|c|a|b|c, one ab|c|ab|c, one a|bc|a|bc."""
    stdin = b"abcabc"
    assert [row[-1] for row in figures("ab.json", "bytes.json", "bc.json", stdin=stdin)] == [
        "100.0%",
        "60.0%",  # 3 of 5
        "20.0%",  # 1 of 5
    ]


def test_equal_cuts_are_the_same_the_other_way_round() -> None:
    one, other = (
        figures("model.json", "ab.json", "raw.txt"),
        figures("ab.json", "model.json", "raw.txt"),
    )
    assert one[1][-1] == other[1][-1]
    assert one[1][-1] != "100.0%"


def test_equal_cuts_are_of_bytes_and_not_of_ids() -> None:
    """The cuts of "é" are inside a character."""
    assert [row[-1] for row in figures("bytes.json", "ab.json", stdin="éa".encode())] == [
        "100.0%",
        "100.0%",
    ]
    merged = Tokenizer.train("é é é", 257)
    merged.save("merged.json")
    assert figures("bytes.json", "merged.json", stdin="éa".encode())[1][-1] == "50.0%"


def test_where_neither_cuts_all_is_equal() -> None:
    assert [row[-1] for row in figures("ab.json", "bc.json", stdin=b"a")] == ["100.0%", "100.0%"]


def test_only_equal_cuts_are_all_of_them() -> None:
    Path("long.txt").write_bytes(b"~" * 5000 + b"ab")
    assert figures("bytes.json", "ab.json", "long.txt")[1][-1] == "99.9%"


def test_no_text_has_no_bytes_for_a_token() -> None:
    assert figures("bytes.json", "ab.json", stdin=b"") == [
        ["bytes.json", "257", "0", "-", "100.0%"],
        ["ab.json", "258", "0", "-", "100.0%"],
    ]


def test_texts_are_counted_together() -> None:
    Path("more.txt").write_bytes(b"abab")
    assert figures("bytes.json", "ab.json", "abc.txt", "-", "more.txt", stdin=b"~") == [
        ["bytes.json", "257", "8", "1.00", "100.0%"],
        ["ab.json", "258", "5", "1.60", "40.0%"],
    ]


def test_each_text_is_encoded_by_itself() -> None:
    Path("a.txt").write_bytes(b"a")
    Path("b.txt").write_bytes(b"b")
    assert figures("bytes.json", "ab.json", "a.txt", "b.txt")[1] == [
        "ab.json",
        "258",
        "2",
        "1.00",
        "100.0%",
    ]


@pytest.mark.parametrize("arguments", [["raw.txt"], ["-"], []], ids=str)
def test_every_byte_of_a_text_counts(arguments: list[str]) -> None:
    count = len(TOKENIZER.encode(RAW.decode()))
    row = ["model.json", "292", str(count), f"{len(RAW) / count:.2f}", "100.0%"]
    assert figures("model.json", "model.json", *arguments, stdin=RAW) == [row, row]


def test_special_tokens_are_ordinary_text_if_that_is_asked_for() -> None:
    stdin = b"~<|endoftext|>~"
    assert figures("bytes.json", "ab.json", stdin=stdin)[0][2] == "3"
    assert figures("bytes.json", "ab.json", "--ordinary", stdin=stdin)[0][2] == str(len(stdin))


# Models and texts


def test_models_may_have_any_format(public_ranks: str) -> None:
    names = [saved(TOKENIZER, format) for format in ("gpt2", "huggingface", "folder", "bpetite")]
    count = str(len(TOKENIZER.encode(RAW.decode())))
    rows = figures(public_ranks, *names, "model.json", "raw.txt")
    assert [(row[0], row[2], row[4]) for row in rows] == [
        (name, count, "100.0%") for name in (public_ranks, *names, "model.json")
    ]


def test_the_first_two_are_models() -> None:
    result = in_process("compare", "model.json", "abc.txt", "raw.txt")
    assert (result.code, result.out, len(result.err)) == (1, b"", 1)
    assert result.err[0].startswith("bpetite: abc.txt: ")


def test_after_the_first_text_all_are_texts() -> None:
    rows = figures("bytes.json", "ab.json", "abc.txt", "bc.json")
    size = 3 + Path("bc.json").stat().st_size
    assert [row[0] for row in rows] == ["bytes.json", "ab.json"]
    assert rows[0][2] == f"{len(BYTES.encode(Path('bc.json').read_text('utf-8'))) + 3:,}"
    assert float(rows[1][3]) == round(size / int(rows[1][2].replace(",", "")), 2)


def test_a_vocabulary_is_a_text_on_standard_input() -> None:
    data = Path("bc.json").read_bytes()
    assert [row[0] for row in figures("bytes.json", "ab.json", "-", stdin=data)] == [
        "bytes.json",
        "ab.json",
    ]


@pytest.mark.parametrize(
    "text", [b'{"a": 1}', b"[1, 2]", b"Zm9v\n", b"YQ== one\n", b"", b"{", b"# a readme\n"]
)
def test_a_file_that_is_no_vocabulary_is_a_text(text: bytes) -> None:
    Path("text").write_bytes(text)
    assert figures("bytes.json", "ab.json", "text")[0][2] == str(len(text))


@posix_only
def test_a_pipe_is_a_text_that_is_read_once() -> None:
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_bytes(b"abc"))
    writer.start()
    rows = figures("bytes.json", "ab.json", "pipe")
    writer.join()
    assert [row[2] for row in rows] == ["3", "2"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["none.json", "ab.json"], "none.json: No such file or directory"),
        (["ab.json", "none.json"], "none.json: No such file or directory"),
        (["ab.json", "bc.json", "none.txt"], "none.txt: No such file or directory"),
        (["ab.json", "bc.json", "abc.txt", "none.txt"], "none.txt: No such file or directory"),
    ],
)
def test_a_file_that_is_missing_is_named(arguments: list[str], reason: str) -> None:
    assert in_process("compare", *arguments) == failure(reason)


def test_a_byte_that_is_not_utf8_is_placed() -> None:
    Path("bad.txt").write_bytes(b"a\xffb")
    by_name = in_process("compare", "ab.json", "bc.json", "abc.txt", "bad.txt")
    assert by_name == failure("bad.txt is not UTF-8 at byte 1 (0xff: invalid start byte)")
    by_input = in_process("compare", "ab.json", "bc.json", stdin=b"\xff")
    assert by_input == failure("standard input is not UTF-8 at byte 0 (0xff: invalid start byte)")


def test_closed_streams_are_told() -> None:
    models = ("compare", "ab.json", "bc.json")
    assert in_process(*models, stdin=None) == failure("standard input is closed")
    closed = in_process(*models, stdin=b"a", stdout_open=False)
    assert closed == failure("standard output is closed")


# A model that changes the text


@pytest.fixture
def composing() -> str:
    """A model that brings text into Unicode's normal form C, trained on text with an é."""
    document = json.loads(
        Path(saved(Tokenizer.train("é é é", 257), "huggingface")).read_text("utf-8")
    )
    document["normalizer"] = {"type": "NFC"}
    Path("tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    return "tokenizer.json"


def test_a_text_that_a_model_changes_has_no_cuts_to_compare(composing: str) -> None:
    stdin = "e\u0301".encode()
    assert [row[2:] for row in figures("bytes.json", composing, "ab.json", stdin=stdin)] == [
        ["3", "1.00", "100.0%"],
        ["1", "3.00", "-"],
        ["3", "1.00", "100.0%"],
    ]
    first = figures(composing, "bytes.json", stdin=stdin)
    assert [row[-1] for row in first] == ["-", "-"]


def test_a_text_that_a_model_leaves_as_it_is_has_cuts_to_compare(composing: str) -> None:
    rows = figures("bytes.json", composing, stdin="éa".encode())
    assert [row[-1] for row in rows] == ["100.0%", "50.0%"]


# JSON


def test_the_figures_as_json(composing: str) -> None:
    Path("é.json").write_bytes(Path("ab.json").read_bytes())
    models = ("bytes.json", "é.json", composing)
    result = in_process("compare", *models, "--json", stdin="abe\u0301".encode())
    assert (result.code, result.err, result.out.count(b"\n")) == (0, [], 1)
    assert json.loads(result.out) == {
        "bytes": 5,
        "models": [
            {
                "model": "bytes.json",
                "vocab_size": 257,
                "tokens": 5,
                "bytes_per_token": 1.0,
                "equal_cuts": 1.0,
            },
            {
                "model": "é.json",
                "vocab_size": 258,
                "tokens": 4,
                "bytes_per_token": 1.25,
                "equal_cuts": 0.75,
            },
            {
                "model": composing,
                "vocab_size": 258,
                "tokens": 3,
                "bytes_per_token": 5 / 3,
                "equal_cuts": None,
            },
        ],
    }


def test_no_text_as_json() -> None:
    result = in_process("compare", "ab.json", "bc.json", "--json", stdin=b"")
    models = json.loads(result.out)["models"]
    assert [(model["bytes_per_token"], model["equal_cuts"]) for model in models] == [
        (None, 1.0)
    ] * 2


@posix_only
def test_a_file_is_named_as_it_was_given_in_every_locale() -> None:
    Path("é.json").write_bytes(Path("ab.json").read_bytes())
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for options in ([], ["--json"]):
        arguments = ("compare", "é.json", "ab.json", "abc.txt", *options)
        assert run(*arguments, variables=locale) == in_process(*arguments)


# Are they equal


def test_equal_ids_pass() -> None:
    names = ["model.json", *(saved(TOKENIZER, format) for format in ("gpt2", "huggingface"))]
    plain = in_process("compare", *names, "raw.txt")
    assert in_process("compare", *names, "raw.txt", "--assert-equal") == plain
    assert plain.code == 0


def test_equal_ids_pass_whatever_the_vocabularies_are() -> None:
    assert in_process("compare", "ab.json", "bc.json", "--assert-equal", stdin=b"~").code == 0


@pytest.mark.parametrize(
    ("text", "difference"),
    [
        ("ab", "character 0 (line 1, column 1): bc.json has 97 'a', ab.json has 256 'ab'"),
        (
            "é~\n~~\n🙂 ~bc",
            "character 9 (line 3, column 4): bc.json has 256 'bc', ab.json has 98 'b'",
        ),
        ("~\nab", "character 2 (line 2, column 1): bc.json has 97 'a', ab.json has 256 'ab'"),
    ],
)
def test_the_first_difference_is_placed(text: str, difference: str) -> None:
    Path("text.txt").write_text(text, encoding="utf-8", newline="")
    result = in_process("compare", "bc.json", "ab.json", "text.txt", "--assert-equal")
    assert (result.code, result.err) == (1, [f"bpetite: text.txt: {difference}"])


def test_both_ids_are_shown_with_their_own_bytes() -> None:
    """Id 256 is "ab" in one, and "bc" in the other."""
    result = in_process("compare", "ab.json", "bc.json", "--assert-equal", stdin="🙂abc".encode())
    assert result.err == [
        "bpetite: standard input: character 1 (line 1, column 2): "
        "ab.json has 256 'ab', bc.json has 97 'a'"
    ]
    inside = Tokenizer.train("🙂 🙃 🙂 🙃", 257)
    inside.save("inside.json")
    result = in_process(
        "compare", "bytes.json", "inside.json", "--assert-equal", stdin="🙂".encode()
    )
    assert result.err == [
        "bpetite: standard input: character 0 (line 1, column 1): "
        r"bytes.json has 159 '\\x9f', inside.json has 256 '\\x9f\\x99'"
    ]


def test_ids_that_end_early_are_told() -> None:
    """Id 97 is "a" in one, and "ab" in the other."""
    document = json.loads(Path(saved(AB, "huggingface")).read_text("utf-8"))
    document["model"]["vocab"] |= {"a": 256, "ab": 97}
    Path("tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    equal = ("--assert-equal",)
    result = in_process("compare", "bytes.json", "tokenizer.json", *equal, stdin=b"ab")
    assert result.err == [
        "bpetite: standard input: character 1 (line 1, column 2): "
        "bytes.json has 98 'b', tokenizer.json has no more"
    ]
    result = in_process("compare", "tokenizer.json", "bytes.json", *equal, stdin=b"ab")
    assert result.err == [
        "bpetite: standard input: character 2 (line 1, column 3): "
        "tokenizer.json has no more, bytes.json has 98 'b'"
    ]


def test_the_table_goes_out_though_ids_differ() -> None:
    models = ("compare", "ab.json", "bytes.json", "bc.json", "same.txt", "abc.txt", "ab.txt")
    Path("same.txt").write_bytes(b"~")
    Path("ab.txt").write_bytes(b"~ab")
    for options in ([], ["--json"]):
        plain = in_process(*models, *options)
        result = in_process(*models, *options, "--assert-equal")
        assert (result.code, result.out, len(result.err)) == (1, plain.out, 1)
        assert result.err[0].startswith("bpetite: abc.txt: character 0 (line 1, column 1): ")


def test_any_two_models_may_differ() -> None:
    arguments = ("compare", "bytes.json", "bytes.json", "ab.json", "abc.txt", "--assert-equal")
    assert in_process(*arguments).err == [
        "bpetite: abc.txt: character 0 (line 1, column 1): "
        "bytes.json has 97 'a', ab.json has 256 'ab'"
    ]


def test_ordinary_text_is_compared_as_such() -> None:
    Tokenizer.train("ab ab ab", 257, special_tokens=("~",)).save("other.json")
    models = ("compare", "ab.json", "other.json", "--assert-equal")
    assert in_process(*models, stdin=b"~").code == 1
    assert in_process(*models, "--ordinary", stdin=b"~").code == 0


def test_a_difference_is_no_failure_unless_that_is_asked_for() -> None:
    result = in_process("compare", "ab.json", "bc.json", "abc.txt")
    assert result == Result(0, result.out, [])
