"""Equal text gives equal files, on every machine and Python and in every release."""

from __future__ import annotations

import runpy
from pathlib import Path

from bpetite import Tokenizer

HERE = Path(__file__).parents[1]
GOLDEN = HERE / "data" / "golden"
MAKE_GOLDEN = runpy.run_path(str(HERE.parent / "scripts" / "tools" / "make_golden.py"))

CORPUS = GOLDEN / "corpus.txt"
VOCABULARY = GOLDEN / "vocabulary.json"

VOCAB_SIZE = 320
SPECIAL_TOKENS = ["<|endoftext|>", "<|é|>"]


def test_training_on_a_text_gives_the_golden_file(tmp_path: Path) -> None:
    text = CORPUS.read_bytes().decode()
    Tokenizer.train(text, VOCAB_SIZE, special_tokens=SPECIAL_TOKENS).save(tmp_path / "new.json")
    assert (tmp_path / "new.json").read_bytes() == VOCABULARY.read_bytes()


def test_the_golden_file_is_loaded_and_saved_unchanged(tmp_path: Path) -> None:
    Tokenizer.load(VOCABULARY).save(tmp_path / "new.json")
    assert (tmp_path / "new.json").read_bytes() == VOCABULARY.read_bytes()


def test_the_script_reproduces_the_files() -> None:
    there = {path.name: path.read_bytes() for path in GOLDEN.iterdir()}
    assert MAKE_GOLDEN["golden_files"]() == there
