"""Files of one vocabulary have one fingerprint; whatever decides ids changes it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from support.engines import quick_once
from support.examples import slow_except
from support.vocabularies import vocabulary

import bpetite
from bpetite import PATTERNS, Tokenizer
from bpetite._vocabulary import Vocabulary
from bpetite.formats import _fingerprint
from conftest import TEXTS

pytestmark = quick_once

END = "<|endoftext|>"

CORPUS = [*TEXTS.values()] * 3

TRAINED = Tokenizer.train(CORPUS, 400, special_tokens=[END, "<|a|>"])

AB, ABC = {256: b"ab"}, {256: b"ab", 257: b"abc"}

# Equal


@pytest.mark.parametrize("name", ["model.json", "vocab.json", "tokenizer.json"])
def test_files_of_all_formats_have_one_fingerprint(tmp_path: Path, name: str) -> None:
    TRAINED.save(tmp_path / name)
    assert Tokenizer.load(tmp_path / name).fingerprint == TRAINED.fingerprint


def test_a_name_and_a_file_keep_no_tables(tmp_path: Path) -> None:
    if bpetite.engine != "native":
        pytest.skip("the Python engine needs the tables")
    trained = Tokenizer.train(CORPUS, 400, pattern="cl100k", special_tokens=[END])
    trained.save(tmp_path / "model.json")
    tokenizer = Tokenizer.load(tmp_path / "model.json")
    assert tokenizer.fingerprint == trained.fingerprint
    tokenizer.save(tmp_path / "copy.json")
    assert tokenizer.n_vocab == max(trained.ids) + 1
    assert not {"merges", "ordinary_tokens", "tokens"} & {*vars(tokenizer._vocabulary)}


@pytest.mark.parametrize("pattern", slow_except([*PATTERNS, r"\p{L}+|\P{L}"], *PATTERNS))
def test_a_ranks_file_with_its_pattern_has_it_too(tmp_path: Path, pattern: str) -> None:
    trained = Tokenizer.train(CORPUS, 400, pattern=pattern, special_tokens=[END])
    for name in ("x.tiktoken", "x.json", "tokenizer.json"):
        path, options = tmp_path / name, {}
        trained.save(path)
        if name == "x.tiktoken":
            options = {"pattern": pattern, "special_tokens": trained.special_tokens}
        assert Tokenizer.load(path, **options).fingerprint == trained.fingerprint  # type: ignore[arg-type]


def test_merges_that_no_text_uses_change_nothing(tmp_path: Path) -> None:
    """Llama 3's tokenizer.json has all pairs that make a token, and asks to ignore merges."""
    pairs = [(97, 98), (98, 99), (256, 99), (97, 257), (99, 97), (258, 259)]
    tokens = {256: b"ab", 257: b"bc", 258: b"abc", 259: b"ca", 260: b"abca", 261: b"abcca"}
    pairs.insert(5, (258, 97))
    many = Tokenizer(vocabulary(tokens, pairs))
    many.save(tmp_path / "x.tiktoken")
    few = Tokenizer.load(tmp_path / "x.tiktoken", pattern="gpt2", special_tokens={})
    assert len(few.merges) < len(many.merges)
    assert few.fingerprint == many.fingerprint
    document = _written(many, tmp_path)
    document["model"]["ignore_merges"] = True
    assert _read(document, tmp_path).fingerprint == many.fingerprint


def _written(tokenizer: Tokenizer, folder: Path) -> dict[str, Any]:
    tokenizer.save(folder / "tokenizer.json")
    document: dict[str, Any] = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    return document


def _read(document: dict[str, Any], folder: Path) -> Tokenizer:
    (folder / "tokenizer.json").write_text(json.dumps(document), "utf-8")
    return Tokenizer.load(folder / "tokenizer.json")


def test_settings_and_skipped_tokens_change_nothing() -> None:
    plain = Vocabulary(TRAINED.merges, TRAINED.special_tokens, TRAINED.patterns[0])
    other = Vocabulary(
        TRAINED.merges,
        dict(reversed([*TRAINED.special_tokens.items()])),
        TRAINED.patterns[0],
        kept_special_tokens=frozenset([END]),
        settings={"bos_token": END},
    )
    assert Tokenizer(plain).fingerprint == Tokenizer(other).fingerprint


# Different

DIFFERENT = {
    "plain": vocabulary(AB, [(97, 98)]),
    "another pattern": vocabulary(AB, [(97, 98)], pattern=PATTERNS["cl100k"]),
    "another id": vocabulary({257: b"ab"}, [(97, 98)]),
    "another merge": vocabulary({256: b"ac"}, [(97, 99)]),
    "two merges": vocabulary({256: b"ab", 257: b"cd"}, [(97, 98), (99, 100)]),
    "in another order": vocabulary({256: b"ab", 257: b"cd"}, [(99, 100), (97, 98)]),
    "other parts": vocabulary({**AB, 257: b"bc", 258: b"abc"}, [(97, 98), (98, 99), (256, 99)]),
    "still others": vocabulary({**AB, 257: b"bc", 258: b"abc"}, [(98, 99), (97, 98), (97, 257)]),
    "a special token": vocabulary(AB, [(97, 98)], special_tokens={END: 257}),
    "another special id": vocabulary(AB, [(97, 98)], special_tokens={END: 258}),
    "another literal": vocabulary(AB, [(97, 98)], special_tokens={"<|end|>": 257}),
    "a token without a merge": vocabulary(ABC, [(97, 98)]),
    "a token of whole pieces": vocabulary(ABC, [(97, 98)], ignore_merges=True),
    "a second pattern": vocabulary(AB, [(97, 98)], more_patterns=(r"\p{N}|\P{N}+",)),
    "a normal form": vocabulary(AB, [(97, 98)], normalizer="NFC"),
    "a prefix": vocabulary(AB, [(97, 98)], prefix_ids=(97,)),
    "a suffix": vocabulary(AB, [(97, 98)], suffix_ids=(97,)),
}


def test_all_that_decides_ids_changes_the_fingerprint() -> None:
    found = {name: Tokenizer(each).fingerprint for name, each in DIFFERENT.items()}
    assert len(set(found.values())) == len(DIFFERENT)
    for each in found.values():
        assert each.startswith("sha256:")
        assert len(each) == len("sha256:") + 64


def test_another_version_of_unicode_changes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fingerprint, "UNICODE_VERSION", "17.0.0")
    assert Tokenizer(DIFFERENT["plain"]).fingerprint != _fingerprint_before(monkeypatch)


def _fingerprint_before(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.undo()
    return Tokenizer(DIFFERENT["plain"]).fingerprint


# The same tomorrow


def test_fingerprints_stay_the_same() -> None:
    """Manifests store them: a change of the document needs a new version of it."""
    tokenizer = Tokenizer.train("ab ab ab", 258)
    assert tokenizer.fingerprint == (
        "sha256:68d8980e2115207c5947568a2f61f31b0556d305ce07676fd87e5b264db09a95"
    )


def test_a_fingerprint_is_found_once() -> None:
    tokenizer = Tokenizer(Vocabulary(TRAINED.merges, TRAINED.special_tokens, TRAINED.patterns[0]))
    first = tokenizer.fingerprint
    begin = time.process_time()
    for _ in range(1000):
        assert tokenizer.fingerprint is first
    assert time.process_time() - begin < 0.5
