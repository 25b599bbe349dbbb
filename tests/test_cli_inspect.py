"""The verb `inspect`: what a vocabulary is made of, and how it cuts a text."""

from __future__ import annotations

import pytest
from cli import RAW, TEXT, TOKENIZER, Result, in_process
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
    assert rows[:8] == [
        "ids in use           262",
        "merges               4",
        "special tokens       <a> = 260, «b» = 261",
        "highest id + 1       262",
        "mean length          1.02 bytes",
        "part of a character  128 tokens (49.2%)",
        f"pattern              {tokenizer.pattern}",
        "longest tokens          3 bytes  ' ab'",
    ]
    assert rows[8:12] == [
        "                        3 bytes  ' é'",
        "                        2 bytes  'ab'",
        "                        2 bytes  'é'",
        "                        1 bytes  '\\x00'",
    ]
    assert len(rows) == 17


def test_the_figures_of_no_more_than_the_bytes() -> None:
    rows = inspected(Tokenizer.train("", 256, special_tokens=())).splitlines()
    assert rows[:4] == [
        "ids in use           256",
        "merges               0",
        "special tokens       none",
        "highest id + 1       256",
    ]


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
