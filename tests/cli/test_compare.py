"""The verb `compare`: models and texts in, the figures of each model's tokens out."""

from __future__ import annotations

import json
import os
import threading
from itertools import pairwise
from pathlib import Path

import pytest
from support.cli import RAW, TOKENIZER, failure, in_process, run, saved
from support.cli import folder as folder  # a fixture
from support.cli import public_ranks as public_ranks  # a fixture
from support.engines import quick_once
from support.programs import posix_only

from bpetite import Tokenizer

pytestmark = quick_once

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
    """Return the cells of the table for all texts together, without its header."""
    result = in_process("compare", *arguments, stdin=stdin)
    assert (result.code, result.err) == (0, [])
    header, *rows = (line.split() for line in result.out.decode().splitlines())
    return [row[1:] for row in rows if row[0] == "all"] if header[0] == "text" else rows


# The table


def test_each_model_has_a_row() -> None:
    Path("long.txt").write_bytes(b"ab" * 1000)
    result = in_process("compare", "bytes.json", "ab.json", "long.txt")
    assert result.out.decode().splitlines() == [
        "model       ids  tokens  bytes/token  equal cuts",
        "bytes.json  257   2,000         1.00      100.0%",
        "ab.json     258   1,000         2.00       49.9%",
    ]
    assert (result.code, result.err) == (0, [])


def test_equal_cuts_are_a_share_of_all_cuts() -> None:
    """The models split "abcabc" as a|b|c|a|b|c, as ab|c|ab|c and as a|bc|a|bc."""
    stdin = b"abcabc"
    assert [row[-1] for row in figures("ab.json", "bytes.json", "bc.json", stdin=stdin)] == [
        "100.0%",
        "60.0%",  # 3 of 5
        "20.0%",  # 1 of 5
    ]


def test_no_cuts_are_equal_cuts() -> None:
    assert [row[-1] for row in figures("ab.json", "bc.json", stdin=b"a")] == ["100.0%", "100.0%"]


def test_share_is_rounded_down() -> None:
    Path("long.txt").write_bytes(b"~" * 5000 + b"ab")
    assert figures("bytes.json", "ab.json", "long.txt")[1][-1] == "99.9%"


def test_empty_text_has_no_bytes_per_token() -> None:
    assert figures("bytes.json", "ab.json", stdin=b"") == [
        ["bytes.json", "257", "0", "-", "100.0%"],
        ["ab.json", "258", "0", "-", "100.0%"],
    ]


def test_each_of_several_texts_has_rows() -> None:
    Path("more.txt").write_bytes(b"abab")
    result = in_process("compare", "bytes.json", "ab.json", "abc.txt", "-", "more.txt", stdin=b"~")
    assert result.out.decode().splitlines() == [
        "text            model       ids  tokens  bytes/token  equal cuts",
        "abc.txt         bytes.json  257       3         1.00      100.0%",
        "abc.txt         ab.json     258       2         1.50       50.0%",
        "standard input  bytes.json  257       1         1.00      100.0%",
        "standard input  ab.json     258       1         1.00      100.0%",
        "more.txt        bytes.json  257       4         1.00      100.0%",
        "more.txt        ab.json     258       2         2.00       33.3%",
        "all             bytes.json  257       8         1.00      100.0%",
        "all             ab.json     258       5         1.60       40.0%",
    ]


def test_each_text_is_encoded_alone() -> None:
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


def test_ordinary_makes_special_tokens_ordinary() -> None:
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


def test_first_two_arguments_are_models() -> None:
    result = in_process("compare", "model.json", "abc.txt", "raw.txt")
    assert (result.code, result.out, len(result.err)) == (1, b"", 1)
    assert result.err[0].startswith("bpetite: abc.txt: ")


def test_only_texts_follow_the_first_text() -> None:
    rows = figures("bytes.json", "ab.json", "abc.txt", "bc.json")
    size = 3 + Path("bc.json").stat().st_size
    assert [row[0] for row in rows] == ["bytes.json", "ab.json"]
    assert rows[0][2] == f"{len(BYTES.encode(Path('bc.json').read_text('utf-8'))) + 3:,}"
    assert float(rows[1][3]) == round(size / int(rows[1][2].replace(",", "")), 2)


def test_vocabulary_on_stdin_is_a_text() -> None:
    data = Path("bc.json").read_bytes()
    assert [row[0] for row in figures("bytes.json", "ab.json", "-", stdin=data)] == [
        "bytes.json",
        "ab.json",
    ]


@pytest.mark.parametrize(
    "text", [b'{"a": 1}', b"[1, 2]", b"Zm9v\n", b"YQ== one\n", b"", b"{", b"# a readme\n"]
)
def test_any_other_file_is_a_text(text: bytes) -> None:
    Path("text").write_bytes(text)
    assert figures("bytes.json", "ab.json", "text")[0][2] == str(len(text))


@posix_only
def test_pipe_is_a_text_and_read_once() -> None:
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
def test_missing_file_is_named(arguments: list[str], reason: str) -> None:
    assert in_process("compare", *arguments) == failure(reason)


def test_invalid_utf8_is_located() -> None:
    Path("bad.txt").write_bytes(b"a\xffb")
    by_name = in_process("compare", "ab.json", "bc.json", "abc.txt", "bad.txt")
    assert by_name == failure("bad.txt is not UTF-8 at byte 1 (0xff: invalid start byte)")
    by_input = in_process("compare", "ab.json", "bc.json", stdin=b"\xff")
    assert by_input == failure("standard input is not UTF-8 at byte 0 (0xff: invalid start byte)")


def test_closed_streams_are_failures() -> None:
    models = ("compare", "ab.json", "bc.json")
    assert in_process(*models, stdin=None) == failure("standard input is closed")
    closed = in_process(*models, stdin=b"a", stdout_open=False)
    assert closed == failure("standard output is closed")


# A model that changes the text


@pytest.fixture
def composing() -> str:
    """A model with Unicode's normal form C, trained on text with an é."""
    document = json.loads(
        Path(saved(Tokenizer.train("é é é", 257), "huggingface")).read_text("utf-8")
    )
    document["normalizer"] = {"type": "NFC"}
    Path("tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    return "tokenizer.json"


def test_changed_text_has_no_equal_cuts(composing: str) -> None:
    stdin = "e\u0301".encode()
    assert [row[2:] for row in figures("bytes.json", composing, "ab.json", stdin=stdin)] == [
        ["3", "1.00", "100.0%"],
        ["1", "3.00", "-"],
        ["3", "1.00", "100.0%"],
    ]
    first = figures(composing, "bytes.json", stdin=stdin)
    assert [row[-1] for row in first] == ["-", "-"]


def test_text_in_normal_form_has_equal_cuts(composing: str) -> None:
    rows = figures("bytes.json", composing, stdin="éa".encode())
    assert [row[-1] for row in rows] == ["100.0%", "50.0%"]


# JSON


def test_figures_as_json(composing: str) -> None:
    Path("é.json").write_bytes(Path("ab.json").read_bytes())
    models = ("bytes.json", "é.json", composing)
    result = in_process("compare", *models, "--json", stdin="abe\u0301".encode())
    assert (result.code, result.err, result.out.count(b"\n")) == (0, [], 1)
    assert json.loads(result.out) == {
        "bytes": 5,
        "models": [
            {
                "model": "bytes.json",
                "ids": 257,
                "tokens": 5,
                "bytes_per_token": 1.0,
                "equal_cuts": 1.0,
            },
            {
                "model": "é.json",
                "ids": 258,
                "tokens": 4,
                "bytes_per_token": 1.25,
                "equal_cuts": 0.75,
            },
            {
                "model": composing,
                "ids": 258,
                "tokens": 3,
                "bytes_per_token": 5 / 3,
                "equal_cuts": None,
            },
        ],
        "texts": [
            {
                "text": "-",
                "bytes": 5,
                "models": [
                    {"tokens": 5, "bytes_per_token": 1.0, "equal_cuts": 1.0},
                    {"tokens": 4, "bytes_per_token": 1.25, "equal_cuts": 0.75},
                    {"tokens": 3, "bytes_per_token": 5 / 3, "equal_cuts": None},
                ],
            }
        ],
    }


def test_empty_text_as_json() -> None:
    result = in_process("compare", "ab.json", "bc.json", "--json", stdin=b"")
    models = json.loads(result.out)["models"]
    assert [(model["bytes_per_token"], model["equal_cuts"]) for model in models] == [
        (None, 1.0)
    ] * 2


@posix_only
def test_file_names_are_kept_in_every_locale() -> None:
    Path("é.json").write_bytes(Path("ab.json").read_bytes())
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for options in ([], ["--json"]):
        arguments = ("compare", "é.json", "ab.json", "abc.txt", *options)
        assert run(*arguments, variables=locale) == in_process(*arguments)


# Differences


def test_differences_follow_the_table() -> None:
    Path("more.txt").write_bytes("é~abc bc".encode())
    command = ("compare", "ab.json", "bc.json", "bytes.json", "abc.txt", "more.txt")
    plain = in_process(*command).out.decode()
    found = in_process(*command, "--differences", "9").out.decode()
    assert found.startswith(plain)
    assert found[len(plain) :].splitlines() == [
        "",
        "bc.json: 5 shared cuts, 71.4% of its own, 62.5% of ab.json's",
        "  abc.txt, byte 0",
        "    ab.json  'ab' 'c'",
        "    bc.json  'a' 'bc'",
        "  more.txt, byte 3",
        "    ab.json  'ab' 'c'",
        "    bc.json  'a' 'bc'",
        "  more.txt, byte 7",
        "    ab.json  'b' 'c'",
        "    bc.json  'bc'",
        "",
        "bytes.json: 8 shared cuts, 80.0% of its own, 100.0% of ab.json's",
        "  abc.txt, byte 0",
        "    ab.json     'ab'",
        "    bytes.json  'a' 'b'",
        "  more.txt, byte 3",
        "    ab.json     'ab'",
        "    bytes.json  'a' 'b'",
    ]


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_at_most_n_differences_are_shown(count: int) -> None:
    options = ("--differences", str(count), "--json")
    result = in_process("compare", "ab.json", "bc.json", *options, stdin=b"abc abc")
    _, model = json.loads(result.out)["models"]
    stretches = [
        {"text": "-", "byte": byte, "first_ids": [256, 99], "ids": [97, 256]} for byte in (0, 4)
    ]
    assert model == {
        "model": "bc.json",
        "ids": 258,
        "tokens": 5,
        "bytes_per_token": 1.4,
        "equal_cuts": 2 / 6,
        "cuts": 4,
        "shared_cuts": 2,
        "differences": stretches[:count],
    }


def test_bytes_inside_characters_are_shown_as_escapes() -> None:
    Tokenizer.train("é é é", 257).save("é.json")
    result = in_process(
        "compare", "bytes.json", "é.json", "--differences", "1", stdin="~é".encode()
    )
    assert result.out.decode().splitlines()[3:] == [
        "",
        "é.json: 1 shared cuts, 100.0% of its own, 50.0% of bytes.json's",
        "  standard input, byte 1",
        r"    bytes.json  '\\xc3' '\\xa9'",
        "    é.json      'é'",
    ]


def cuts_of(tokenizer: Tokenizer, ids: list[int]) -> set[int]:
    """Return the cuts before, between and after tokens."""
    return {len(tokenizer.decode_bytes(ids[:count])) for count in range(len(ids) + 1)}


@pytest.mark.parametrize("name", ["ab.json", "bytes.json", "words.json", "model.json"])
@pytest.mark.parametrize("text", [RAW.decode(), "abcabc bcab" * 9, "", "é", "🙂🙂 你好<|pad|>"])
def test_differences_match_all_cuts(name: str, text: str) -> None:
    """Compares stretches between two shared cuts, found from the sets of all cuts."""
    Tokenizer.train("abc bca 你好 🙂 <|pad|> the one two three" * 3, 280).save("words.json")
    first, other = Tokenizer.load("words.json"), Tokenizer.load(name)
    found, other_found = first.encode(text), other.encode(text)
    cuts, other_cuts = cuts_of(first, found), cuts_of(other, other_found)
    data = text.encode()
    expected = []
    for start, end in pairwise(sorted(cuts & other_cuts)):
        both = [
            tokenizer.decode_bytes(ids) for tokenizer, ids in ((first, found), (other, other_found))
        ]
        assert both == [data, data]
        before = [[at for at in sorted(each) if start <= at < end] for each in (cuts, other_cuts)]
        if before != [[start], [start]]:
            expected.append((start, [len(each) for each in before], data[start:end]))
    result = in_process("compare", "words.json", name, "--differences", "999", "--json", stdin=data)
    one, two = json.loads(result.out)["models"]
    inner = {0, len(data)}
    assert (one["cuts"], two["cuts"]) == (len(cuts - inner), len(other_cuts - inner))
    assert two["shared_cuts"] == len((cuts & other_cuts) - inner)
    assert [
        (each["byte"], [len(each["first_ids"]), len(each["ids"])], other.decode_bytes(each["ids"]))
        for each in two["differences"]
    ] == expected
    assert [first.decode_bytes(each["first_ids"]) for each in two["differences"]] == [
        data for _, _, data in expected
    ]


def test_changed_text_has_no_differences(composing: str) -> None:
    command = ("compare", "bytes.json", composing, "--differences", "9")
    result = in_process(*command, stdin="e\u0301".encode())
    assert result.out.decode().splitlines()[3:] == [
        "",
        f"{composing}: cuts cannot be compared, since a model changes the text",
    ]
    result = in_process(*command, "--json", stdin="e\u0301".encode())
    _, model = json.loads(result.out)["models"]
    assert (model["cuts"], model["shared_cuts"], model["differences"]) == (None, None, None)


# Are they equal


def test_equal_ids_pass() -> None:
    names = ["model.json", *(saved(TOKENIZER, format) for format in ("gpt2", "huggingface"))]
    plain = in_process("compare", *names, "raw.txt")
    assert in_process("compare", *names, "raw.txt", "--assert-equal") == plain
    assert plain.code == 0


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
def test_first_difference_is_located(text: str, difference: str) -> None:
    Path("text.txt").write_text(text, encoding="utf-8", newline="")
    result = in_process("compare", "bc.json", "ab.json", "text.txt", "--assert-equal")
    assert (result.code, result.err) == (1, [f"bpetite: text.txt: {difference}"])


def test_table_is_written_before_a_difference() -> None:
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


def test_ordinary_applies_to_assert_equal() -> None:
    Tokenizer.train("ab ab ab", 257, special_tokens=("~",)).save("other.json")
    models = ("compare", "ab.json", "other.json", "--assert-equal")
    assert in_process(*models, stdin=b"~").code == 1
    assert in_process(*models, "--ordinary", stdin=b"~").code == 0
