"""Equal text gives equal files, on every machine and Python and in every release."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
from support import reference

from bpetite import Tokenizer

HERE = Path(__file__).parents[1]
GOLDEN = HERE / "data" / "golden"
MAKE_GOLDEN = runpy.run_path(str(HERE.parent / "scripts" / "tools" / "make_golden.py"))

CORPUS = GOLDEN / "corpus.txt"
VOCABULARY = GOLDEN / "vocabulary.json"

VOCAB_SIZE = 320
SPECIAL_TOKENS = ["<|endoftext|>", "<|é|>"]

LINES = [json.loads(line) for line in (GOLDEN / "ids.jsonl").read_bytes().splitlines()]
"""Texts and their ids."""

every_text = pytest.mark.parametrize(
    ("text", "ids"),
    [(line["text"], line["ids"]) for line in LINES],
    ids=[ascii(line["text"]) for line in LINES],
)


def test_training_on_a_text_gives_the_golden_file(tmp_path: Path) -> None:
    text = CORPUS.read_bytes().decode()
    Tokenizer.train(text, VOCAB_SIZE, special_tokens=SPECIAL_TOKENS).save(tmp_path / "new.json")
    assert (tmp_path / "new.json").read_bytes() == VOCABULARY.read_bytes()


def test_training_on_a_file_gives_the_golden_file(tmp_path: Path) -> None:
    trained = Tokenizer.train_from_files([CORPUS], VOCAB_SIZE, special_tokens=SPECIAL_TOKENS)
    trained.save(tmp_path / "new.json")
    assert (tmp_path / "new.json").read_bytes() == VOCABULARY.read_bytes()


def test_the_golden_file_is_loaded_and_saved_unchanged(tmp_path: Path) -> None:
    Tokenizer.load(VOCABULARY).save(tmp_path / "new.json")
    assert (tmp_path / "new.json").read_bytes() == VOCABULARY.read_bytes()


def test_the_golden_merges_are_those_of_the_textbook() -> None:
    text = CORPUS.read_bytes().decode()
    assert Tokenizer.load(VOCABULARY).merges == reference.train([text], VOCAB_SIZE)


@every_text
def test_a_golden_text_has_its_ids(text: str, ids: list[int]) -> None:
    tokenizer = Tokenizer.load(VOCABULARY)
    assert tokenizer.encode(text) == ids
    assert reference.encode(text, tokenizer.merges, tokenizer.special_tokens) == ids


@every_text
def test_golden_ids_have_their_text(text: str, ids: list[int]) -> None:
    tokenizer = Tokenizer.load(VOCABULARY)
    assert tokenizer.decode(ids) == text
    assert reference.decode(ids, tokenizer.merges, tokenizer.special_tokens) == text


def test_the_script_writes_what_is_there() -> None:
    there = {path.name: path.read_bytes() for path in GOLDEN.iterdir()}
    assert MAKE_GOLDEN["golden_files"]() == there
