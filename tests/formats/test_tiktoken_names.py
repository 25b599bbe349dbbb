"""tiktoken's names, from its own tables and its own cache; nothing is downloaded."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiktoken
import tiktoken.load
from tiktoken import model as tiktoken_model
from tiktoken_ext import openai_public  # type: ignore[import-untyped]

from bpetite import PATTERNS, Tokenizer
from bpetite._pretokenizer import TIKTOKEN_CL100K
from bpetite.formats import _tiktoken, _tiktoken_names
from bpetite.formats._tiktoken_names import ENCODINGS, encoding_of

SMALL = Tokenizer.train("the hen then met the ten men", 264, special_tokens=[])

STORE = "https://openaipublic.blob.core.windows.net"

NAMES = [
    *tiktoken_model.MODEL_TO_ENCODING,
    *(f"{beginning}x" for beginning in tiktoken_model.MODEL_PREFIX_TO_ENCODING),
    *tiktoken_model.MODEL_PREFIX_TO_ENCODING,
]


def cached(folder: Path, address: str, data: bytes) -> Path:
    """Write a file where tiktoken would keep it."""
    path = folder / hashlib.sha1(address.encode()).hexdigest()
    path.write_bytes(data)
    return path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return what puts small ranks into tiktoken's cache, under the name of a public file."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    SMALL.save(tmp_path / "small.tiktoken")
    data = (tmp_path / "small.tiktoken").read_bytes()

    def put(name: str) -> Path:
        digest = hashlib.sha256(data).hexdigest()
        known = next(each for each in _tiktoken.KNOWN.values() if each.name == name)
        small = {literal: 300 + place for place, literal in enumerate(known.special_tokens)}
        monkeypatch.setitem(
            _tiktoken.KNOWN, digest, known._replace(special_tokens=small, digest="")
        )
        monkeypatch.setitem(_tiktoken_names._HASHES, f"{name}.tiktoken", digest)
        return cached(tmp_path, f"{STORE}/encodings/{name}.tiktoken", data)

    return put


@pytest.mark.parametrize("name", NAMES)
def test_encoding_of_a_model_is_tiktokens(name: str) -> None:
    assert encoding_of(name) == tiktoken_model.encoding_name_for_model(name)


def test_encodings_are_tiktokens() -> None:
    assert [*ENCODINGS] == tiktoken.list_encoding_names()
    assert [encoding_of(name) for name in ENCODINGS] == [*ENCODINGS]
    assert [encoding_of(name) for name in ("llama3", "", "gpt-", "cl100k", "o200k_base ")] == (
        [None] * 5
    )


@pytest.mark.parametrize("name", ENCODINGS)
def test_file_and_special_tokens_are_tiktokens(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def load(address: str, expected_hash: str) -> dict[bytes, int]:
        asked.append((address, expected_hash))
        return {}

    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", load)
    monkeypatch.setattr(openai_public, "data_gym_to_mergeable_bpe_ranks", lambda **_: {})
    definition: dict[str, Any] = openai_public.ENCODING_CONSTRUCTORS[name]()
    definition["special_tokens"].pop("<|reserved_200018|>", None)
    file, _, special_tokens = ENCODINGS[name]
    digest, known = next(item for item in _tiktoken.KNOWN.items() if item[1].name == file)
    assert {**(special_tokens or known.special_tokens)} == definition["special_tokens"]
    if name != "gpt2":
        assert asked == [(f"{STORE}/encodings/{file}.tiktoken", digest)]


@pytest.mark.parametrize("name", ["cl100k_base", "gpt-4", "ft:gpt-4:x", "text-embedding-3-small"])
def test_name_is_read_from_the_cache_without_tiktoken(
    name: str, cache: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache("cl100k_base")
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    tokenizer = Tokenizer.from_tiktoken(name)
    assert tokenizer.token_bytes(260) == SMALL.token_bytes(260)
    assert tokenizer.patterns == (TIKTOKEN_CL100K,)
    assert [*tokenizer.special_tokens.values()] == [300, 301, 302, 303, 304]


def test_p50k_edit_has_more_special_tokens_than_its_file(cache: Callable[[str], Path]) -> None:
    cache("p50k_base")
    tokenizer = Tokenizer.from_tiktoken("text-davinci-edit-001")
    assert dict(tokenizer.special_tokens) == {
        "<|endoftext|>": 50256,
        "<|fim_prefix|>": 50281,
        "<|fim_middle|>": 50282,
        "<|fim_suffix|>": 50283,
    }
    assert tokenizer.patterns == (PATTERNS["gpt2"],)


def test_harmony_warns_of_the_literal_that_shares_an_id(cache: Callable[[str], Path]) -> None:
    cache("o200k_base")
    with pytest.warns(UserWarning, match=r"^o200k_harmony has two literals of the id 200018: "):
        tokenizer = Tokenizer.from_tiktoken("gpt-oss-120b")
    assert tokenizer.encode("<|start|>a<|endofprompt|>") == [200006, 97, 200018]
    assert tokenizer.decode([200018]) == "<|endofprompt|>"
    assert len(tokenizer.encode("<|reserved_200018|>")) > 1


def test_gpt2_is_read_from_either_of_its_files(
    cache: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two files of GPT-2 itself, or r50k_base, which has the same ranks."""
    tokenizer = Tokenizer.train("the hen", 260)
    tokenizer.save(tmp_path / "vocab.json")
    for name, file in (("encoder.json", "vocab.json"), ("vocab.bpe", "merges.txt")):
        data = (tmp_path / file).read_bytes()
        cached(tmp_path, f"{STORE}/gpt-2/encodings/main/{name}", data)
        monkeypatch.setitem(_tiktoken_names._HASHES, name, hashlib.sha256(data).hexdigest())
    assert Tokenizer.from_tiktoken("gpt2") == tokenizer
    cache("r50k_base")
    assert Tokenizer.from_tiktoken("gpt2").merges == SMALL.merges


def test_missing_file_is_named_and_not_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tiktoken.load, "read_file", None)
    with pytest.raises(FileNotFoundError) as caught:
        Tokenizer.from_tiktoken("gpt-4o")
    assert str(caught.value) == (
        f"o200k_base is not in tiktoken's cache, {tmp_path}; "
        "tiktoken.get_encoding('o200k_base') downloads it once, or Tokenizer.load reads a copy of "
        "o200k_base.tiktoken"
    )
    assert [*tmp_path.iterdir()] == []


def test_changed_file_in_the_cache_is_refused_and_kept(cache: Callable[[str], Path]) -> None:
    path = cache("o200k_base")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"this should be o200k_base\.tiktoken, and its SHA-256"):
        Tokenizer.from_tiktoken("o200k_base")
    assert path.exists()


@pytest.mark.parametrize("name", ["no_such", "gpt-6", "", "./gpt2", "org/model"])
def test_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"^tiktoken has no encoding and no model ") as caught:
        Tokenizer.from_tiktoken(name)
    assert repr(name) in str(caught.value)
