"""The verb `inspect`: what a vocabulary is made of, and the tokens of a text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli import RAW, TEXT, TOKENIZER, Result, failure, in_process, run, saved
from support.cli import folder as folder  # a fixture
from support.engines import native_only, quick_once

import bpetite
from bpetite import Tokenizer

pytestmark = quick_once

SPLIT_BY = "split by             " + (
    "the native engine"
    if bpetite.engine == "native"
    else "regex: the Python engine splits all text by it"
)


def inspected(tokenizer: Tokenizer, *arguments: str) -> str:
    """Return the output of the verb for a tokenizer."""
    tokenizer.save("inspected.json", overwrite=True)
    result = in_process("inspect", "--model", "inspected.json", *arguments)
    assert (result.code, result.err) == (0, [])
    return result.out.decode("utf-8")


# Figures


def test_figures_of_a_vocabulary() -> None:
    tokenizer = Tokenizer.train("ab ab ab éé", 260, special_tokens=("<a>", "«b»"))
    assert tokenizer.merges == ((97, 98), (32, 256), (195, 169), (32, 258))
    rows = inspected(tokenizer).splitlines()
    assert rows[:12] == [
        "format               bpetite",
        f"fingerprint          {tokenizer.fingerprint}",
        "ids in use           262",
        "merges               4",
        "special tokens       <a> = 260, «b» = 261",
        "highest id + 1       262",
        "mean length          1.02 bytes",
        "part of a character  128 tokens (49.2%)",
        "pattern              gpt2",
        f"                     {tokenizer.patterns[0]}",
        SPLIT_BY,
        "longest tokens          3 bytes  ' ab'",
    ]
    assert rows[12:16] == [
        "                        3 bytes  ' é'",
        "                        2 bytes  'ab'",
        "                        2 bytes  'é'",
        "                        1 bytes  '\\x00'",
    ]
    assert len(rows) == 21


def test_figures_of_a_vocabulary_without_merges() -> None:
    tokenizer = Tokenizer.train("", 256, special_tokens=())
    rows = inspected(tokenizer).splitlines()
    assert rows[:6] == [
        "format               bpetite",
        f"fingerprint          {tokenizer.fingerprint}",
        "ids in use           256",
        "merges               0",
        "special tokens       none",
        "highest id + 1       256",
    ]


def rows_from(label: str, *arguments: str) -> list[str]:
    """Return the rows from a label to the longest tokens."""
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
def test_pattern_is_shown_with_its_names(pattern: str, name: str) -> None:
    tokenizer = Tokenizer.train(TEXT, 270, pattern=pattern)
    tokenizer.save("other.json")
    assert rows_from("pattern", "--model", "other.json") == [
        f"pattern              {name}",
        f"                     {tokenizer.patterns[0]}",
        SPLIT_BY,
    ]


def test_pattern_without_a_name_is_shown_alone() -> None:
    Tokenizer.train(TEXT, 270, pattern=r"\S+|\s+").save("other.json")
    rows = rows_from("pattern", "--model", "other.json")
    assert rows == [r"pattern              \S+|\s+", SPLIT_BY]


@native_only
@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"(?<=a)b|[\s\S]", "it looks behind"),
        (r"(?:(?:a|b){0,30}a(?:a|b){14}|[\s\S])", "its automaton would be too large"),
    ],
)
def test_reason_that_regex_splits_is_shown(pattern: str, reason: str) -> None:
    Tokenizer.train(TEXT, 270, pattern=pattern).save("other.json")
    assert rows_from("split by", "--model", "other.json") == [
        f"split by             regex: {reason}"
    ]


def test_more_patterns_and_normal_form_are_shown() -> None:
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
        f"                     {TOKENIZER.patterns[0]}",
        SPLIT_BY,
        "normalizers          NFC",
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
def test_format_of_the_file_is_shown(format: str, name: str) -> None:
    figures = in_process("inspect", "--model", "model.json").out
    result = in_process("inspect", "--model", saved(TOKENIZER, format))
    assert result == Result(0, figures.replace(b" bpetite\n", f" {name}\n".encode()), [])


def test_gaps_between_ids_are_no_tokens() -> None:
    document = json.loads(Path(saved(TOKENIZER, "huggingface")).read_text("utf-8"))
    for entry in document["added_tokens"]:
        entry["id"] += 4_000_000_000
        document["model"]["vocab"][entry["content"]] = entry["id"]
    document["model"]["vocab"]["Ġ"] = 1000
    Path("tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    rows = in_process("inspect", "--model", "tokenizer.json").out.decode().splitlines()
    before = in_process("inspect", "--model", "model.json").out.decode().splitlines()
    assert rows[2:6] == [
        "ids in use           292",
        "merges               34",
        "special tokens       <|endoftext|> = 4000000290, <|pad|> = 4000000291",
        "highest id + 1       4,000,000,292",
    ]
    assert rows[6:] == before[6:]


def test_token_that_is_no_text_is_shown_by_its_bytes() -> None:
    tokenizer = Tokenizer.train("🙂 🙃 🙂 🙃", 258)
    assert tokenizer.token_bytes(257) == b"\xf0\x9f\x99"
    assert r"3 bytes  '\\xf0\\x9f\\x99'" in inspected(tokenizer)


# Tokens of a text


def test_tokens_side_by_side_then_a_row_each() -> None:
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
        "11 tokens, 24 bytes, 2.18 bytes per token",
    ]


@pytest.mark.parametrize("name", ["raw.txt", "-"])
def test_file_and_stdin_may_be_the_text(name: str) -> None:
    Path("raw.txt").write_bytes(RAW)
    result = in_process("inspect", "--model", "model.json", name, stdin=RAW)
    assert (result.code, result.err) == (0, [])
    assert result == in_process("inspect", "--model", "model.json", "--text", RAW.decode())


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("none.txt", "none.txt: No such file or directory"),
        ("bad.txt", "bad.txt is not UTF-8 at byte 1 (0xff: invalid start byte)"),
    ],
)
def test_unreadable_text_is_named(name: str, reason: str) -> None:
    Path("bad.txt").write_bytes(b"a\xff")
    assert in_process("inspect", "--model", "model.json", name) == failure(reason)


def test_text_on_stdin_is_not_ignored_silently() -> None:
    result = run("inspect", "--model", "model.json", stdin=b"hello")
    figures = in_process("inspect", "--model", "model.json")
    note = "bpetite: standard input is not read; FILE - shows the tokens of its text"
    assert (result.code, result.err, figures.err) == (0, [note], [])
    assert result.out.splitlines() == figures.out.splitlines()


def test_empty_text_has_no_tokens() -> None:
    assert inspected(TOKENIZER, "--text", "") == "\n\n0 tokens, 0 bytes\n"


def test_replacement_character_of_the_text_is_shown() -> None:
    assert inspected(TOKENIZER, "--text", "a\ufffdb").splitlines()[0] == "a|\ufffd|b"


def test_control_characters_are_escaped() -> None:
    text = "a\x1b[31m\r\0\x07\x9b\u202e\u200b"
    view = inspected(TOKENIZER, "--text", text)
    assert [c for c in view if not c.isprintable()] == ["\n"] * view.count("\n")
    assert view.splitlines()[0].replace("|", "") == r"a\x1b[31m\r\x00\x07\x9b\u202e\u200b"


def test_rows_have_all_ids_and_bytes() -> None:
    text = RAW.decode()
    rows = inspected(TOKENIZER, "--text", text).split("\n")[2:-2]
    ids = [int(id) for row in rows for id in row.split("  (")[0].split("  ")[-2].split()]
    data = bytes.fromhex(" ".join(row.split("(")[-1].rstrip(")") for row in rows))
    assert (ids, data) == (TOKENIZER.encode(text), RAW)


# Steps


def test_steps_of_a_text_are_a_table_a_piece() -> None:
    tokenizer = Tokenizer.train("the hen then met the ten men 你", 262)
    shown = inspected(tokenizer, "--steps", "then then\u00a0你<|endoftext|>你").splitlines()
    assert shown == [
        "'then' = 116 260",
        "  step  pair        rank  id   bytes     best pair that lost  the piece after it",
        "                                                              t|h|e|n",
        "  1     'e' + 'n'   0     256  65 6e     'h' + 'e' (3)        t|h|en",
        "  2     'h' + 'en'  4     260  68 65 6e  none                 t|hen",
        "",
        "' then' = 257 260",
        "  step  pair        rank  id   bytes     best pair that lost  the piece after it",
        "                                                              ' '|t|h|e|n",
        "  1     'e' + 'n'   0     256  65 6e     ' ' + 't' (1)        ' '|t|h|en",
        "  2     ' ' + 't'   1     257  20 74     'h' + 'en' (4)       ' t'|h|en",
        "  3     'h' + 'en'  4     260  68 65 6e  none                 ' t'|hen",
        "",
        "'\\xa0' = 194 160",
        "  step  pair  rank  id  bytes  best pair that lost  the piece after it",
        "                                                    <c2>|<a0>",
        "",
        "'你' = 228 189 160",
        "  step  pair  rank  id  bytes  best pair that lost  the piece after it",
        "                                                    <e4>|<bd>|<a0>",
        "",
        "'<|endoftext|>' = 262: a special token",
        "",
        "'你' = 228 189 160, as above",
    ]


def test_long_piece_has_no_table_of_steps() -> None:
    shown = inspected(TOKENIZER, "--steps", "a" * 4097).splitlines()
    ids = " ".join(map(str, TOKENIZER.encode("a" * 4097)))
    assert shown == [f"'{'a' * 4097}' = {ids}: longer than 4,096 bytes, too long for steps"]


def test_steps_of_an_empty_text_are_empty() -> None:
    assert inspected(TOKENIZER, "--steps", "") == ""


# Lists and JSON


def test_tokens_are_listed_by_id() -> None:
    tokenizer = Tokenizer.train("ab ab ab", 258)
    rows = inspected(tokenizer, "--tokens").splitlines()
    assert len(rows) == 259
    assert rows[0xC3] == "    195  '\\\\xc3'  (c3)"
    assert rows[256:] == [
        "    256  'ab'  (61 62)",
        "    257  ' ab'  (20 61 62)",
        "    258  '<|endoftext|>'  (3c 7c 65 6e 64 6f 66 74 65 78 74 7c 3e)  special",
    ]


def test_merges_are_listed_by_rank() -> None:
    assert inspected(Tokenizer.train("ab ab ab", 258), "--merges").splitlines() == [
        "      0      97      98     256  'ab'  (61 62)",
        "      1      32     256     257  ' ab'  (20 61 62)",
    ]
    assert inspected(Tokenizer.train("", 256), "--merges") == ""


def test_json_lists_tokens_and_merges() -> None:
    tokenizer = Tokenizer.train("ab ab ab", 258)
    tokens = json.loads(inspected(tokenizer, "--tokens", "--json"))["tokens"]
    assert [bytes.fromhex(row["bytes"]) for row in tokens] == [*tokenizer.tokens]
    assert [row["id"] for row in tokens if row["special"]] == [258]
    merges = json.loads(inspected(tokenizer, "--merges", "--json"))["merges"]
    assert [(row["left"], row["right"]) for row in merges] == [*tokenizer.merges]
    assert merges[1] == {
        **{"rank": 1, "left": 32, "right": 256, "id": 257},
        **{"bytes": "206162", "text": " ab"},
    }


def test_json_has_the_figures() -> None:
    tokenizer = Tokenizer.train("ab ab ab", 258)
    found = json.loads(inspected(tokenizer, "--json"))
    assert len(found.pop("longest_tokens")) == 10
    assert found == {
        "format": "bpetite",
        "fingerprint": tokenizer.fingerprint,
        "ids": 259,
        "vocab_size": 258,
        "merges": 2,
        "special_tokens": {"<|endoftext|>": 258},
        "n_vocab": 259,
        "mean_bytes": 261 / 258,
        "partial_tokens": 128,
        "patterns": [*tokenizer.patterns],
        "stages": {},
        "split_by": "native" if bpetite.engine == "native" else "regex",
        "lossless": True,
    }


def test_json_has_the_tokens_of_a_text() -> None:
    tokenizer = Tokenizer.train("ab ab ab", 258)
    assert json.loads(inspected(tokenizer, "--json", "--text", "abé")) == {
        "tokens": 3,
        "bytes": 4,
        "groups": [{"ids": [256], "text": "ab"}, {"ids": [195, 169], "text": "é"}],
    }


def test_json_has_the_steps_of_a_text() -> None:
    tokenizer = Tokenizer.train("ab ab ab", 258)
    assert json.loads(inspected(tokenizer, "--json", "--steps", " ab"))["pieces"] == [
        {
            **{"text": " ab", "kind": "merged", "ids": [257], "byte_ids": [32, 97, 98]},
            "steps": [
                {
                    **{"pair": [97, 98], "rank": 0, "id": 256, "bytes": "6162", "text": "ab"},
                    **{"lost": None, "lost_rank": None},
                },
                {
                    **{"pair": [32, 256], "rank": 1, "id": 257, "bytes": "206162", "text": " ab"},
                    **{"lost": None, "lost_rank": None},
                },
            ],
        }
    ]


def test_lists_and_texts_exclude_each_other() -> None:
    result = in_process("inspect", "--model", "model.json", "--tokens", "--text", "a")
    assert (result.code, result.out) == (2, b"")
