"""The verb `inspect`: what a vocabulary is made of, and how it cuts a text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli import RAW, TEXT, TOKENIZER, Result, in_process, saved
from cli import folder as folder  # a fixture

from bpetite import Tokenizer


def inspected(tokenizer: Tokenizer, *arguments: str) -> str:
    """Return what the verb shows of a tokenizer."""
    tokenizer.save("inspected.json")
    result = in_process("inspect", "--model", "inspected.json", *arguments)
    assert (result.code, result.err) == (0, [])
    return result.out.decode("utf-8")


# Figures


def test_the_figures_of_a_vocabulary() -> None:
    tokenizer = Tokenizer.train("ab ab ab éé", 260, special_tokens=("<a>", "«b»"))
    assert tokenizer.merges == ((97, 98), (32, 256), (195, 169), (32, 258))
    rows = inspected(tokenizer).splitlines()
    assert rows[:10] == [
        "format               bpetite",
        "ids in use           262",
        "merges               4",
        "special tokens       <a> = 260, «b» = 261",
        "highest id + 1       262",
        "mean length          1.02 bytes",
        "part of a character  128 tokens (49.2%)",
        "pattern              gpt2",
        f"                     {tokenizer.pattern}",
        "longest tokens          3 bytes  ' ab'",
    ]
    assert rows[10:14] == [
        "                        3 bytes  ' é'",
        "                        2 bytes  'ab'",
        "                        2 bytes  'é'",
        "                        1 bytes  '\\x00'",
    ]
    assert len(rows) == 19


def test_the_figures_of_no_more_than_the_bytes() -> None:
    rows = inspected(Tokenizer.train("", 256, special_tokens=())).splitlines()
    assert rows[:5] == [
        "format               bpetite",
        "ids in use           256",
        "merges               0",
        "special tokens       none",
        "highest id + 1       256",
    ]


def rows_from(label: str, *arguments: str) -> list[str]:
    """Return the rows from one label to that of the tokens."""
    rows = in_process("inspect", *arguments).out.decode("utf-8").splitlines()
    labels = [row[:20].rstrip() for row in rows]
    return rows[labels.index(label) : labels.index("longest tokens")]


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("gpt2", "gpt2"),
        ("cl100k", "cl100k or llama3"),
        ("o200k", "o200k"),
        ("llama3", "cl100k or llama3"),
        ("qwen2", "qwen2"),
    ],
)
def test_a_pattern_is_shown_with_its_name(pattern: str, name: str) -> None:
    tokenizer = Tokenizer.train(TEXT, 270, pattern=pattern)
    tokenizer.save("other.json")
    assert rows_from("pattern", "--model", "other.json") == [
        f"pattern              {name}",
        f"                     {tokenizer.pattern}",
    ]


def test_a_pattern_without_a_name_is_shown_alone() -> None:
    Tokenizer.train(TEXT, 270, pattern=r"\S+|\s+").save("other.json")
    rows = rows_from("pattern", "--model", "other.json")
    assert rows == [r"pattern              \S+|\s+"]


def test_what_more_is_done_to_a_text_is_shown() -> None:
    document = json.loads(Path(saved(TOKENIZER, "huggingface")).read_text("utf-8"))
    digits = {"type": "Digits", "individual_digits": True}
    document["pre_tokenizer"] = {
        "type": "Sequence",
        "pretokenizers": [digits, document["pre_tokenizer"]],
    }
    document["normalizer"] = {"type": "NFC"}
    Path("tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    assert rows_from("pattern", "--model", "tokenizer.json") == [
        r"pattern              \p{N}",
        "then by              gpt2",
        f"                     {TOKENIZER.pattern}",
        "normal form          C, of the text that is cut",
    ]


@pytest.mark.parametrize(
    ("format", "name"),
    [
        ("bpetite", "bpetite"),
        ("gpt2", "gpt2"),
        ("huggingface", "huggingface"),
        ("folder", "huggingface"),
    ],
)
def test_the_format_of_the_file_is_shown(format: str, name: str) -> None:
    figures = in_process("inspect", "--model", "model.json").out
    result = in_process("inspect", "--model", saved(TOKENIZER, format))
    assert result == Result(0, figures.replace(b" bpetite\n", f" {name}\n".encode()), [])


def test_ids_that_are_not_in_use_are_no_tokens() -> None:
    document = json.loads(Path(saved(TOKENIZER, "huggingface")).read_text("utf-8"))
    for entry in document["added_tokens"]:
        entry["id"] += 4_000_000_000
        document["model"]["vocab"][entry["content"]] = entry["id"]
    document["model"]["vocab"]["Ġ"] = 1000
    Path("tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    rows = in_process("inspect", "--model", "tokenizer.json").out.decode().splitlines()
    before = in_process("inspect", "--model", "model.json").out.decode().splitlines()
    assert rows[1:5] == [
        "ids in use           292",
        "merges               34",
        "special tokens       <|endoftext|> = 4000000290, <|pad|> = 4000000291",
        "highest id + 1       4,000,000,292",
    ]
    assert rows[5:] == before[5:]


def test_a_long_token_that_is_no_text_is_shown_by_its_bytes() -> None:
    tokenizer = Tokenizer.train("🙂 🙃 🙂 🙃", 258)
    assert tokenizer.token_bytes(257) == b"\xf0\x9f\x99"
    assert r"3 bytes  '\\xf0\\x9f\\x99'" in inspected(tokenizer)


# Tokens of a text


def test_tokens_stand_side_by_side_and_then_a_line_each() -> None:
    view = inspected(Tokenizer.train("ab ab ab", 257), "--text", "ab é🙂\n<|endoftext|>a")
    assert view.splitlines() == [
        r"ab| |é|🙂|\n|<|endoftext|>|a",
        "",
        "     256  ab  (61 62)",
        "      32     (20)",
        " 195 169  é  (c3 a9)",
        "240 159 153 130  🙂  (f0 9f 99 82)",
        r"      10  \n  (0a)",
        "     257  <|endoftext|>  (3c 7c 65 6e 64 6f 66 74 65 78 74 7c 3e)",
        "      97  a  (61)",
        "11 tokens, 24 bytes, 2.18 bytes a token",
    ]


def test_no_text_has_no_tokens() -> None:
    assert inspected(TOKENIZER, "--text", "") == "\n\n0 tokens, 0 bytes\n"


@pytest.mark.parametrize("tokenizer", [TOKENIZER, Tokenizer.train("", 256)], ids=repr)
@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        "🙂🙃👩‍👩‍👧🇫🇷",
        "नमस्ते दुनिया",
        "Привет שלום 안녕",
        "a\u0301\U0010ffff",
        "𝕳ello\u3000世界",
    ],
)
def test_no_part_of_a_character_is_shown_alone(tokenizer: Tokenizer, text: str) -> None:
    view = inspected(tokenizer, "--text", text)
    tokens = view.splitlines()[0].split("|")
    assert "\ufffd" not in view
    assert len(tokens) > 1
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    assert "".join(tokens) == shown


def test_a_replacement_character_of_the_text_is_shown() -> None:
    assert inspected(TOKENIZER, "--text", "a\ufffdb").splitlines()[0] == "a|\ufffd|b"


def test_what_a_terminal_would_obey_is_shown_by_its_escape() -> None:
    text = "a\x1b[31m\r\0\x07\x9b\u202e\u200b"
    view = inspected(TOKENIZER, "--text", text)
    assert [c for c in view if not c.isprintable()] == ["\n"] * view.count("\n")
    assert view.splitlines()[0].replace("|", "") == r"a\x1b[31m\r\x00\x07\x9b\u202e\u200b"


def test_the_rows_have_the_ids_and_the_bytes_of_the_text() -> None:
    text = RAW.decode()
    rows = inspected(TOKENIZER, "--text", text).split("\n")[2:-2]
    ids = [int(id) for row in rows for id in row.split("  (")[0].split("  ")[-2].split()]
    data = bytes.fromhex(" ".join(row.split("(")[-1].rstrip(")") for row in rows))
    assert (ids, data) == (TOKENIZER.encode(text), RAW)


def test_a_pipe_is_never_coloured() -> None:
    plain = in_process("inspect", "--model", "model.json", "--text", "hello")
    assert plain.code == 0
    assert b"\x1b" not in plain.out
    assert plain == Result(0, plain.out, [])
