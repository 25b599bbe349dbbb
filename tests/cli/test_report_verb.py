"""The verb `report`: models and texts in, tables, JSON or a page out."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

import pytest
from support.cli import TOKENIZER, failure, in_process, run, saved
from support.cli import folder as folder  # a fixture
from support.cli import public_ranks as public_ranks  # a fixture
from support.engines import quick_once
from support.programs import posix_only
from support.vocabularies import composing

from bpetite import Tokenizer
from bpetite._cli import _parser
from bpetite._cli.report import _command
from bpetite.analysis import page, report
from bpetite.corpora import Corpus

pytestmark = quick_once

BYTES = Tokenizer.train("", 256)
AB = Tokenizer.train("ab ab ab", 258)


@pytest.fixture(autouse=True)
def _files(folder: Path) -> None:
    BYTES.save(folder / "bytes.json")
    AB.save(folder / "ab.json")
    (folder / "ab.txt").write_bytes(b"ab ab cd")
    (folder / "cd.txt").write_bytes("cd né".encode())


def test_secrets_of_urls_are_not_in_the_command_of_a_page() -> None:
    url = "https://me:secret@host/a.txt?sig=se/cret"
    words = ["report", "ab.json", url, "--parallel", url, url, "--html", "page.html"]
    options = _parser().parse_args(words)
    public = "https://host/a.txt"
    assert _command(options) == (
        f"bpetite report ab.json {public} --parallel {public} {public} --html page.html"
    )


def test_tables_of_two_models_and_texts() -> None:
    result = in_process(
        "report", "ab.json", "bytes.json", "ab.txt", "cd.txt", "--parallel", "ab.txt", "cd.txt"
    )
    assert (result.code, result.err) == (0, [])
    lines = result.out.decode().splitlines()
    assert [line.split()[2:] for line in lines[1:5]] == [
        ["5", "1.60", "1.60", "0.60", "98.1%", "1.9%", "-40.0%"],
        ["8", "1.00", "1.00", "0.38", "98.0%", "2.0%", "-62.5%"],
        ["6", "1.00", "0.83", "0.33", "97.7%", "2.3%", "-66.7%"],
        ["6", "1.00", "0.83", "0.33", "97.7%", "2.3%", "-66.7%"],
    ]
    assert lines[2].startswith("ab    bytes            8         1.00 ")
    assert lines[5:] == [
        "",
        "vocabulary  ids  never  unreachable  partial  shared  longest",
        "ab          258    250            0      128       -  3 bytes",
        "bytes       256    248            0      128     256  1 bytes",
        "",
        "bytes/token  at ids   256",
        "ab           ab      1.00",
        "ab           bytes   1.00",
        "cd           ab      1.00",
        "cd           bytes   1.00",
        "",
        "parity     ab  bytes",
        "ab       1.00   1.00",
        "cd       1.20   0.75",
        "Gini    0.045  0.071",
    ]


def test_json_has_the_figures_of_the_library() -> None:
    result = in_process("report", "ab.json", "ab.txt", "--json", "--next", "2")
    found = report({"ab": AB}, {"ab": Corpus("ab.txt")}, next_merges=2)
    assert json.loads(result.out) == json.loads(json.dumps(found.to_dict()))
    result = in_process("report", "ab.json", "bytes.json", "ab.txt", "--json", "--differences", "1")
    models = {"ab": AB, "bytes": BYTES}
    found = report(models, {"ab": Corpus("ab.txt")}, differences=1)
    assert json.loads(result.out) == json.loads(json.dumps(found.to_dict()))


def test_differences_follow_the_tables() -> None:
    Tokenizer.train("cd'cd'cd'é'é'é'é", 258).save("other.json")
    Path("more.txt").write_bytes("~né\n".encode())
    command = ("report", "ab.json", "other.json", "ab.txt", "more.txt", "--next", "0")
    plain = in_process(*command).out.decode()
    found = in_process(*command, "--differences", "9").out.decode()
    assert found.startswith(plain)
    assert found[len(plain) :].splitlines() == [
        "",
        "shared cuts  vocabulary  cuts  shared  of its own  of the first's  equal",
        "ab           other          6       3       50.0%           75.0%  42.8%",
        "more         other          3       3      100.0%           75.0%  75.0%",
        "",
        "ab, byte 0",
        "  ab     'ab'",
        "  other  'a' 'b'",
        "ab, byte 2",
        "  ab     ' ab'",
        "  other  ' ' 'a' 'b'",
        "ab, byte 6",
        "  ab     'c' 'd'",
        "  other  'cd'",
        "more, byte 2",
        r"  ab     '\\xc3' '\\xa9'",
        "  other  'é'",
    ]


def test_changed_text_has_no_cuts() -> None:
    composing("tokenizer.json")
    command = ("report", "bytes.json", "tokenizer.json", "--next", "0", "--differences", "9")
    result = in_process(*command, stdin="e\u0301".encode())
    assert result.out.decode().splitlines()[-1].split()[3:] == ["-"] * 5


# Models and texts


def test_models_may_have_any_format(public_ranks: str) -> None:
    names = [saved(TOKENIZER, format) for format in ("gpt2", "huggingface", "folder", "bpetite")]
    result = in_process("report", public_ranks, *names, "ab.txt", "--next", "0")
    assert [line.split()[1:3] for line in result.out.decode().splitlines()[1:6]] == [
        [name, str(TOKENIZER.count("ab ab cd"))] for name in (public_ranks, *names)
    ]


def test_only_texts_follow_the_first_text() -> None:
    data = Path("bytes.json").read_bytes()
    for text, stdin in (("ab.txt", b""), ("-", data)):
        command = ("report", "ab.json", text, "bytes.json", "--json", "--input-format", "text")
        result = in_process(*command, stdin=stdin)
        found = json.loads(result.out)
        assert [each["name"] for each in found["vocabularies"]] == ["ab"]
        assert found["texts"][1]["bytes"] == len(data)


@posix_only
def test_file_names_are_kept_in_every_locale() -> None:
    Path("é.json").write_bytes(Path("ab.json").read_bytes())
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for options in ([], ["--json"]):
        arguments = ("report", "é.json", "ab.json", "ab.txt", *options)
        assert run(*arguments, variables=locale) == in_process(*arguments)


def test_page_matches_the_library() -> None:
    command = ("report", "ab.json", "ab.txt", "--parallel", "cd.txt", "--next", "3")
    result = in_process(*command, "--html", "page.html")
    assert (result.code, result.err) == (0, [])
    found = report(
        {"ab": AB}, {"ab": Corpus("ab.txt")}, parallel={"cd": Corpus("cd.txt")}, next_merges=3
    )
    shown = " ".join(("bpetite", *command, "--html", "page.html"))
    assert Path("page.html").read_text("utf-8") == page(found, shown)


def test_page_is_replaced_only_if_asked() -> None:
    Path("page.html").write_text("mine", encoding="utf-8")
    command = ("report", "ab.json", "ab.txt", "--html", "page.html")
    assert in_process(*command) == failure("page.html: exists; --force replaces it")
    assert Path("page.html").read_text(encoding="utf-8") == "mine"
    assert in_process(*command, "--force").code == 0
    assert Path("page.html").read_text("utf-8").startswith("<!doctype html>")


def test_page_that_cannot_be_made_is_refused_before_the_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = ("ab.json", "bytes.json") * 2
    assert in_process("report", *many, "none.txt", "--html", "page.html") == failure(
        "--html shows at most 3 vocabularies side by side, got 4; leave some out, or use --json"
    )
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert in_process("report", "ab.json", "none.txt", "--html", "page.html") == failure(
        "--html needs Jinja, which is not installed: pip install jinja2"
    )


def test_standard_input_is_read_once() -> None:
    result = in_process("report", "ab.json", "bytes.json", stdin=b"ab ab")
    rows = [line.split()[-8:] for line in result.out.decode().splitlines()[1:3]]
    assert [(row[0], row[1]) for row in rows] == [("ab", "2"), ("bytes", "5")]


@posix_only
def test_pipe_is_read_once() -> None:
    os.mkfifo("pipe")
    writer = threading.Thread(target=Path("pipe").write_bytes, args=(b"ab ab",))
    writer.start()
    result = in_process("report", "ab.json", "bytes.json", "pipe")
    writer.join()
    assert [line.split()[2] for line in result.out.decode().splitlines()[1:3]] == ["2", "5"]


def test_documents_are_read_as_by_other_verbs() -> None:
    Path("two.jsonl").write_text(
        '{"text": "ab"}\n{"id": 1}\n{"text": "ab ab"}\n', "utf-8", newline="\n"
    )
    result = in_process("report", "ab.json", "two.jsonl", "--on-bad", "skip", "--json")
    (text,) = json.loads(result.out)["texts"]
    assert (text["documents"], text["bytes"], text["words"]) == (2, 7, 3)
    assert result.err == ["bpetite: skipped 1 bad document: two.jsonl: line 2, byte 15: no field"]


def test_equal_names_of_files_keep_their_folder() -> None:
    Path("other").mkdir()
    Path("other/ab.txt").write_text("cd", encoding="utf-8")
    result = in_process("report", "ab.json", "ab.txt", "other/ab.txt")
    assert [line.split()[0] for line in result.out.decode().splitlines()[1:3]] == [
        "ab",
        str(Path("other/ab")),
    ]


def test_missing_text_is_named() -> None:
    result = in_process("report", "ab.json", "none.txt")
    assert (result.code, result.out) == (1, b"")
    assert result.err[0].startswith("bpetite: none.txt: ")


def test_parallel_texts_suffice() -> None:
    result = in_process("report", "model.json", "--parallel", "ab.txt", "cd.txt")
    lines = result.out.decode().splitlines()
    tokens = [TOKENIZER.count(Path(name).read_text("utf-8")) for name in ("ab.txt", "cd.txt")]
    assert lines[0].split() == [
        "vocabulary",
        "ids",
        "never",
        "unreachable",
        "partial",
        "shared",
        "longest",
    ]
    assert lines[-2].split() == ["cd", f"{tokens[1] / tokens[0]:.2f}"]
