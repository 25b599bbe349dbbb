"""Special tokens have a bound in bytes, wherever they come from."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from support.engines import quick_once

from bpetite import Tokenizer, _vocabulary
from bpetite._vocabulary import MAX_LITERAL_BYTES

pytestmark = quick_once

SMALL = Tokenizer.train("ab ab", 257, special_tokens=["<a>", "<b>"])

RANKS = {bytes([byte]): byte for byte in range(256)}


def train(literal: str, _: Path) -> Tokenizer:
    """Give the literal to `train`."""
    return Tokenizer.train("ab", 256, special_tokens=["<a>", literal])


def load_version_1(literal: str, folder: Path) -> Tokenizer:
    """Put the literal into a file of schema version 1."""
    path = folder / "x.json"
    SMALL.save(path, overwrite=True)
    document = json.loads(path.read_bytes())
    document["special_tokens"] = {"<a>": 257, literal: 258}
    document["vocab"]["258"] = list(literal.encode())
    path.write_text(json.dumps(document), encoding="utf-8")
    return Tokenizer.load(path)


def load_version_2(literal: str, folder: Path) -> Tokenizer:
    """Put the literal into a file of schema version 2."""
    path = folder / "x.json"
    Tokenizer.train("ab ab", 257, pattern="cl100k").save(path, overwrite=True)
    document = json.loads(path.read_bytes())
    document["special_tokens"] = {"<a>": 900, literal: 901}
    path.write_text(json.dumps(document), encoding="utf-8")
    return Tokenizer.load(path)


def load_ranks(literal: str, folder: Path) -> Tokenizer:
    """Give the literal to `load`, for a .tiktoken file."""
    path = folder / "x.tiktoken"
    SMALL.save(path, overwrite=True)
    return Tokenizer.load(path, pattern="gpt2", special_tokens={"<a>": 257, literal: 258})


def load_gpt2(literal: str, folder: Path) -> Tokenizer:
    """Put the literal into a vocab.json."""
    path = folder / "vocab.json"
    SMALL.save(path, overwrite=True)
    vocab = json.loads(path.read_bytes())
    vocab[literal] = vocab.pop("<b>")
    path.write_text(json.dumps(vocab), encoding="utf-8")
    return Tokenizer.load(path)


def load_hugging_face(literal: str, folder: Path) -> Tokenizer:
    """Put the literal into a tokenizer.json."""
    path = folder / "tokenizer.json"
    SMALL.save(path, overwrite=True)
    path.write_text(path.read_text("utf-8").replace("<b>", literal), encoding="utf-8")
    return Tokenizer.load(path)


def from_encoding(literal: str, _: Path) -> Tokenizer:
    """Put the literal into an Encoding."""
    special_tokens = {"<a>": 300, literal: 301}
    return Tokenizer.from_tiktoken(
        tiktoken.Encoding(
            "x", pat_str=r"[\s\S]", mergeable_ranks=RANKS, special_tokens=special_tokens
        )
    )


SOURCES = [
    train,
    load_version_1,
    load_version_2,
    load_ranks,
    load_gpt2,
    load_hugging_face,
    from_encoding,
]

every_source = pytest.mark.parametrize("make", SOURCES)

Make = Callable[[str, Path], Any]


@pytest.mark.parametrize(
    "make", [*SOURCES[:-1], pytest.param(from_encoding, marks=pytest.mark.slow)]
)
def test_the_longest_special_token_is_taken(make: Make, tmp_path: Path) -> None:
    literal = "é" * (MAX_LITERAL_BYTES // 2)
    if make is load_hugging_face:
        literal = "~" * MAX_LITERAL_BYTES  # it refuses literals made of byte characters
    if make is load_gpt2:
        literal = "-" * MAX_LITERAL_BYTES
    tokenizer = make(literal, tmp_path)
    assert tokenizer.encode(f"a{literal}b")[1] == tokenizer.special_tokens[literal]


@every_source
def test_a_longer_special_token_is_refused(make: Make, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="special token") as caught:
        make("-" * (MAX_LITERAL_BYTES + 1), tmp_path)
    reason = "the special token '--------------------...' has 4,097 bytes, more than 4,096; "
    assert f"{reason}shorten it or leave it out" in str(caught.value)
    if make.__name__.startswith("load"):
        assert str(caught.value).startswith(str(tmp_path))


@every_source
def test_special_tokens_have_a_bound_together(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_vocabulary, "MAX_LITERALS_BYTES", 13)
    make("-" * 10, tmp_path)
    with pytest.raises(ValueError, match="have 14 bytes in all, more than 13; leave some of them"):
        make("-" * 11, tmp_path)


def test_many_special_tokens_take_one_pass(tmp_path: Path) -> None:
    """No work for each literal but what reading needs: no message for one that is right."""
    path = tmp_path / "x.json"
    Tokenizer.train("ab ab", 257, pattern="cl100k").save(path)
    document = json.loads(path.read_bytes())
    document["special_tokens"] = {f"<|{id}|>": id for id in range(1000, 3000)}
    path.write_text(json.dumps(document), encoding="utf-8")
    calls = 0

    def count(frame: Any, event: str, _: Any) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code.co_name in ("shown", "dumps")

    sys.setprofile(count)
    try:
        tokenizer = Tokenizer.load(path)
    finally:
        sys.setprofile(None)
    assert len(tokenizer.special_tokens) == 2000
    assert calls < 100
