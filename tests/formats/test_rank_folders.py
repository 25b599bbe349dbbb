"""Model folders with tiktoken's ranks: other files name special tokens, or are refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from support.engines import quick_once

from bpetite import PATTERNS, Tokenizer
from bpetite.analysis import Verifier
from bpetite.formats import recognise
from conftest import TEXTS

pytestmark = quick_once

SMALL = Tokenizer.train("the hen then met the ten men", 264, pattern="qwen3.5", special_tokens=[])

TOKENS = {"<|im_end|>": 265, "<think>": 270}

DECODER = {
    "265": {"content": "<|im_end|>", "special": True, "lstrip": False},
    "270": {"content": "<think>", "special": False, "normalized": False},
}


def refusal(folder: Path, **options: Any) -> str:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the caller looks at all it says
        Tokenizer.load(folder, **options)
    return str(caught.value)


def folder_of(folder: Path, name: str = "tiktoken.model", **files: object) -> Path:
    """Write ranks, and JSON files next to them."""
    SMALL.save(folder / name, overwrite=True, format="tiktoken")
    for stem, value in files.items():
        (folder / f"{stem}.json").write_text(json.dumps(value), "utf-8")
    return folder


@pytest.mark.parametrize("name", ["tiktoken.model", "tokenizer.model", "qwen.tiktoken"])
def test_folder_names_its_special_tokens(name: str, tmp_path: Path) -> None:
    config = {
        "added_tokens_decoder": DECODER,
        "eos_token": "<|im_end|>",
        "chat_template": "{{ 1 }}",
        "tokenizer_class": "TikTokenTokenizer",
    }
    folder = folder_of(tmp_path, name, tokenizer_config=config)
    tokenizer = Tokenizer.load(folder, pattern="qwen3.5")
    assert recognise(folder) == "tiktoken"
    assert dict(tokenizer.special_tokens) == TOKENS
    assert dict(tokenizer.settings) == {"eos_token": "<|im_end|>", "chat_template": "{{ 1 }}"}
    assert tokenizer.decode([265, 97, 270], skip_special_tokens=True) == "a<think>"
    library = tiktoken.Encoding(
        "model",
        pat_str=PATTERNS["qwen3.5"],
        mergeable_ranks={SMALL.token_bytes(id): id for id in SMALL.ids},
        special_tokens=TOKENS,
    )
    for text in [*TEXTS.values(), "then<|im_end|><think> hen"]:
        assert tokenizer.encode(text) == library.encode(text, allowed_special="all")
    assert Verifier(tokenizer, folder).difference("then<think> hen") is None


def test_ids_of_special_tokens_in_a_file_of_their_own(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "tokenizer.tiktoken", special_tokens=TOKENS)
    assert dict(Tokenizer.load(folder, pattern="qwen3.5").special_tokens) == TOKENS


def test_pattern_in_the_config_of_a_folder(tmp_path: Path) -> None:
    config = {"pat_str": PATTERNS["qwen3.5"]}
    folder = folder_of(tmp_path, tokenizer_config=config, special_tokens=TOKENS)
    assert Tokenizer.load(folder).patterns == (PATTERNS["qwen3.5"],)
    assert Tokenizer.load(folder, pattern="qwen3.5") == Tokenizer.load(folder)
    tokenizer = Tokenizer.load(folder)
    config["pat_str"] = config["pat_str"].replace("[\\r\\n]+|", "[\\r\\n]++|")
    folder_of(folder, tokenizer_config=config)
    assert Tokenizer.load(folder) == tokenizer
    assert Verifier(tokenizer, folder).difference("then\n\n") is None
    assert refusal(folder, pattern="gpt2").startswith(
        f"{folder / 'tokenizer_config.json'}: pat_str: expected the pattern that was given, or "
        "none given, got "
    )


def test_more_special_tokens_may_be_given(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, special_tokens=TOKENS)
    more = {**TOKENS, "<|reserved|>": 266}
    loaded = Tokenizer.load(folder, pattern="qwen3.5", special_tokens=more)
    assert dict(loaded.special_tokens) == more
    assert refusal(folder, pattern="qwen3.5", special_tokens={"<think>": 270}) == (
        f"{folder}: the files of this folder give '<|im_end|>' the id 265, but the given "
        "special_tokens do not; leave special_tokens out, or give all of them"
    )


def test_tokenizer_json_of_a_folder_with_ranks_counts(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    other = Tokenizer.train("", 256)
    other.save(folder / "tokenizer.json")
    assert Tokenizer.load(folder) == other


def test_folder_with_ranks_of_two_models_is_refused(tmp_path: Path) -> None:
    folder_of(tmp_path, "a.tiktoken")
    folder = folder_of(tmp_path, "b.tiktoken")
    assert refusal(folder, pattern="gpt2") == (
        f"{folder}: a.tiktoken and b.tiktoken are in this folder; name the one to load"
    )


def test_tokenizer_model_of_sentencepiece_is_named(tmp_path: Path) -> None:
    data = b"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02"
    (tmp_path / "tokenizer.model").write_bytes(data)
    assert refusal(tmp_path).startswith(f"{tmp_path / 'tokenizer.model'}: this is a SentencePiece")


CONFIG = "tokenizer_config.json: added_tokens_decoder"

REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "white space that a token would swallow": (
        {"tokenizer_config": {"added_tokens_decoder": {"265": {"content": "a", "lstrip": True}}}},
        f'{CONFIG}["265"].lstrip: expected false, got true',
    ),
    "id that is no number": (
        {"tokenizer_config": {"added_tokens_decoder": {"x": {"content": "a"}}}},
        f'{CONFIG}["x"]: expected a token with its id as the key, got {{"content": "a"}}',
    ),
    "id of a thousand digits": (
        {"tokenizer_config": {"added_tokens_decoder": {"9" * 5000: {"content": "a"}}}},
        f'{CONFIG}["999',
    ),
    "two ids of one literal": (
        {"tokenizer_config": {"added_tokens_decoder": DECODER}, "special_tokens": {"<think>": 266}},
        'special_tokens.json: ["<think>"]: expected 270, its id in tokenizer_config.json, got 266',
    ),
    "one id of two literals": (
        {"special_tokens": {"<a>": 265, "<b>": 265}},
        'special_tokens.json: ["<b>"]: expected an id of its own; "<a>" has it too, got 265',
    ),
    "id of an ordinary token": (
        {"special_tokens": {"<a>": 97}},
        "tiktoken.model: the id 97 of '<a>' is also the id of b'a'",
    ),
    "id in words": (
        {"special_tokens": {"<a>": "265"}},
        'special_tokens.json: ["<a>"]: expected an id from 0 to 4294967295, got "265"',
    ),
    "pattern that is no text": (
        {"tokenizer_config": {"pat_str": 7}},
        "tokenizer_config.json: pat_str: expected a string in Unicode, got 7",
    ),
}


@pytest.mark.parametrize(("files", "reason"), REFUSED.values(), ids=[*REFUSED])
def test_wrong_data_next_to_ranks_is_refused(
    files: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    folder = folder_of(tmp_path, **files)
    assert refusal(folder, pattern="qwen3.5").startswith(f"{folder}{os.sep}{reason}")
