"""The verb `check`: a model and texts in, the first id that another library or model has not."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import tokenizers
from support.cli import RAW, TOKENIZER, Result, failure, in_process, saved
from support.cli import folder as folder  # a fixture
from support.engines import quick_once

from bpetite import Tokenizer

pytestmark = quick_once

OTHER = Tokenizer.train("ab ab ab", 257)


def test_equal_ids_are_one_line_of_output() -> None:
    Path("raw.txt").write_bytes(RAW)
    result = in_process("check", saved(TOKENIZER, "huggingface"), "raw.txt")
    assert (result.code, result.err) == (0, [])
    line = result.out.decode()
    assert line.startswith(f"equal to tokenizers {tokenizers.__version__}: ")
    assert line.endswith(" ids\n")


@pytest.mark.parametrize("against", ["tokenizers", "tiktoken"])
def test_our_own_file_is_checked_against_a_library(against: str) -> None:
    result = in_process("check", "model.json", "--against", against)
    assert (result.code, result.err) == (0, [])
    assert result.out.decode().startswith(f"equal to {against} ")


def test_other_model_is_named_in_the_output() -> None:
    path = saved(TOKENIZER, "huggingface")
    result = in_process("check", "model.json", "-", "--against", path, stdin=b"Hello")
    assert (result.code, result.err) == (0, [])
    assert result.out.decode().startswith(f"equal to {path}: ")


def test_texts_alone_are_compared_on_request() -> None:
    OTHER.save("other.json")
    command = ("check", "model.json", "-", "--against", "other.json", "--only-texts")
    equal = "equal to other.json: 1 texts, 1 ids\n"
    assert in_process(*command, stdin=b"~") == Result(0, equal.encode(), [])
    assert in_process(*command, stdin=b"~ab").err == [
        "bpetite: standard input: character 1 (line 1, column 2): bpetite has 97 'a', "
        "the other model has 256 'ab'"
    ]


def test_difference_is_a_failure() -> None:
    OTHER.save("other.json")
    result = in_process("check", "model.json", "--against", "other.json")
    assert (result.code, result.out, len(result.err)) == (1, b"", 1)
    assert result.err[0].startswith("bpetite: model.json: in '")


def test_place_of_a_difference_in_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bpetite.analysis._verifier._probe_texts", lambda _: iter(()))
    Tokenizer.train("", 256, special_tokens=["<|x|>"]).save("x.json")
    Tokenizer.train("", 256, special_tokens=["<|y|>"]).save("y.json")
    Path("text.txt").write_text("a\nb<|x|>", "utf-8")
    assert in_process("check", "x.json", "text.txt", "--against", "y.json") == failure(
        "text.txt: character 3 (line 2, column 2): bpetite has 256 '<|x|>', the other model has 60 "
        "'<'; the added token '<|x|>' has the id 256 in the file, and is no token there"
    )


def test_own_format_needs_to_be_told_what_to_compare_with() -> None:
    assert in_process("check", "model.json") == failure(
        "model.json: no other library owns this format, or it leaves text out; say what to "
        "compare with, for example --against tokenizers"
    )


def test_library_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    result = in_process("check", "model.json", "--against", "tiktoken")
    assert (result.code, result.out, len(result.err)) == (1, b"", 1)
    assert result.err[0].startswith("bpetite: tiktoken is not installed (")
    assert result.err[0].endswith("): pip install tiktoken")


def test_class_of_transformers_that_overrides_the_file_is_found() -> None:
    """GPT2Tokenizer of version 5 splits by GPT-2's pattern whatever tokenizer.json says."""
    pytest.importorskip("transformers", exc_type=ImportError)
    path = Path(saved(Tokenizer.train("hi!\n\n" * 9, 300, pattern="cl100k"), "folder"))
    equal = in_process("check", str(path), "--against", "transformers")
    assert (equal.code, equal.err) == (0, [])
    config = json.loads((path / "tokenizer_config.json").read_text("utf-8"))
    changed = {**config, "tokenizer_class": "GPT2Tokenizer", "add_prefix_space": False}
    (path / "tokenizer_config.json").write_text(json.dumps(changed), "utf-8")
    result = in_process("check", str(path), "--against", "transformers")
    assert (result.code, result.out, len(result.err)) == (1, b"", 1)
    assert "; the class GPT2Tokenizer of transformers replaces the file's " in result.err[0]


def test_missing_other_model_is_the_systems_error() -> None:
    assert in_process("check", "model.json", "--against", "other.json") == failure(
        "other.json: No such file or directory"
    )
