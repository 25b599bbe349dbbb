"""Mistral's tekken.json: special tokens first, then ranks up to the size; honoured or refused."""

from __future__ import annotations

import base64
import copy
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiktoken
import tokenizers
from support.engines import quick_once
from support.patterns import MODEL_PATTERNS
from support.refusals import refusal

from bpetite import Tokenizer
from bpetite.analysis import Verifier
from bpetite.formats import recognise
from conftest import TEXTS

pytestmark = quick_once

Document = dict[str, Any]

COUNT = 40
"""The special tokens. In a file of version v3, the first 20 have names."""

SIZE = 512


def entry(rank: int, token: bytes) -> Document:
    try:
        text = token.decode()
    except UnicodeDecodeError:
        text = None
    return {"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": text}


@pytest.fixture(scope="module")
def document(tokenizer: Tokenizer) -> Document:
    """A file of version v3 with more tokens than its vocabulary has."""
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += [tokenizer.token_bytes(256 + rank) for rank in range(len(tokenizer.merges))]
    assert len(tokens) > SIZE
    return {
        "config": {
            "pattern": MODEL_PATTERNS["tekken"],
            "num_vocab_tokens": len(tokens),
            "default_vocab_size": SIZE + COUNT,
            "default_num_special_tokens": COUNT,
            "version": "v3",
        },
        "vocab": [entry(rank, token) for rank, token in enumerate(tokens)],
    }


def written(document: Document, folder: Path) -> Path:
    path = folder / "tekken.json"
    path.write_text(json.dumps(document), "utf-8")
    return path


def library_of(document: Document) -> tiktoken.Encoding:
    """Return the encoding inside mistral-common's tokenizer, whose ids are ranks."""
    ranks = {base64.b64decode(each["token_bytes"]): each["rank"] for each in document["vocab"]}
    return tiktoken.Encoding(
        "tekken",
        pat_str=document["config"]["pattern"],
        mergeable_ranks={token: rank for token, rank in ranks.items() if rank < SIZE},
        special_tokens={},
    )


def test_ids_are_ranks_after_the_special_tokens(document: Document, tmp_path: Path) -> None:
    path = written(document, tmp_path)
    tokenizer = Tokenizer.load(path)
    library = library_of(document)
    expected = [[rank + COUNT for rank in library.encode(text)] for text in TEXTS.values()]
    assert [tokenizer.encode_ordinary(text) for text in TEXTS.values()] == expected
    assert (recognise(path), tokenizer.n_vocab) == ("tekken", SIZE + COUNT)
    assert tokenizer.token_bytes(COUNT) == b"\0"
    assert Tokenizer.load(tmp_path) == tokenizer  # the folder


def test_special_tokens_without_a_list_match_version_7(document: Document, tmp_path: Path) -> None:
    special_tokens = Tokenizer.load(written(document, tmp_path)).special_tokens
    assert [*special_tokens.items()][17:22] == [
        ("[SYSTEM_PROMPT]", 17),
        ("[/SYSTEM_PROMPT]", 18),
        ("[TOOL_CONTENT]", 19),
        ("<SPECIAL_20>", 20),
        ("<SPECIAL_21>", 21),
    ]
    assert len(special_tokens) == COUNT


def test_special_tokens_keep_their_flags(document: Document, tmp_path: Path) -> None:
    tokens = [
        {"rank": 0, "token_str": "<unk>", "is_control": True},
        {"rank": 1, "token_str": "[THINK]", "is_control": False},
    ]
    tokenizer = Tokenizer.load(written({**document, "special_tokens": tokens}, tmp_path))
    ids = tokenizer.encode("<unk>[THINK]<SPECIAL_2>[INST]")
    assert ids[:3] == [0, 1, 2]
    assert tokenizer.decode(ids, skip_special_tokens=True) == "[THINK][INST]"


def test_saved_tokenizer_json_has_equal_ids_in_tokenizers(
    document: Document, tmp_path: Path
) -> None:
    tokenizer = Tokenizer.load(written(document, tmp_path))
    tokenizer.save(tmp_path / "tokenizer.json")
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    texts = [*TEXTS.values(), "[INST]a[/INST] <SPECIAL_30></s>"]
    assert [library.encode(text).ids for text in texts] == [*map(tokenizer.encode, texts)]
    assert Tokenizer.load(tmp_path / "tokenizer.json") == tokenizer


def test_ids_match_mistral_common(document: Document, tmp_path: Path) -> None:
    tekken = pytest.importorskip("mistral_common.tokens.tokenizers.tekken")
    path = written(document, tmp_path)
    library = tekken.Tekkenizer.from_file(path)
    tokenizer = Tokenizer.load(path)
    for text in TEXTS.values():
        ids = library.encode(text, bos=False, eos=False)
        assert tokenizer.encode_ordinary(text) == ids
        assert tokenizer.decode(ids) == library.decode(ids)
    literals = [library.id_to_piece(id) for id in range(COUNT)]
    assert [*tokenizer.special_tokens] == literals
    verifier = Verifier(tokenizer, path)
    assert verifier.reference_library == "mistral-common"
    assert verifier.difference("[INST]".join(TEXTS.values())) is None


def test_verifier_without_mistral_common_says_so(
    document: Document, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(document, tmp_path)
    monkeypatch.setitem(sys.modules, "mistral_common.tokens.tokenizers.tekken", None)
    with pytest.raises(ImportError):
        Verifier(Tokenizer.load(path), path).difference("a")


def test_no_tekken_json_is_written(document: Document, tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(written(document, tmp_path))
    (tmp_path / "new").mkdir()
    path = tmp_path / "new" / "tekken.json"
    assert refusal(tokenizer.save, path) == (
        f"{path}: no tekken.json is written; save a tokenizer.json, which gives the same ids"
    )
    assert not path.exists()


def put(*path: str | int, to: object) -> Callable[[Document], None]:
    """Return what puts a value at a path."""

    def change(document: Document) -> None:
        *parents, last = path
        target: Any = document
        for key in parents:
            target = target[key]
        target[last] = to

    return change


def special(*items: object) -> Callable[[Document], None]:
    return put("special_tokens", to=[*items])


def token(rank: object = 0, literal: object = "<a>", **others: object) -> Document:
    return {"rank": rank, "token_str": literal, "is_control": True, **others}


ENTRY = "expected rank, token_bytes, token_str, with the rank 300, got "

REFUSED: dict[str, tuple[Callable[[Document], None], str]] = {
    "version unknown": (
        put("config", "version", to="v99"),
        'config.version: expected "v1" or "v2" or "v3" or "v7" or "v11" or "v13" or "v15", got '
        '"v99"',
    ),
    "version needs a list": (
        put("config", "version", to="v11"),
        "special_tokens: expected a list, which the version v11 needs, got null",
    ),
    "too many special tokens": (
        put("config", "default_num_special_tokens", to=10**9),
        "config.default_num_special_tokens: expected a number from 0 to 65536, got 1000000000",
    ),
    "true special tokens": (
        put("config", "default_num_special_tokens", to=True),
        "config.default_num_special_tokens: expected a number from 0 to 65536, got true",
    ),
    "fewer special tokens than in the list": (
        put("config", "default_num_special_tokens", to=5),
        "config.default_num_special_tokens: expected at least the 20 in special_tokens, got 5",
    ),
    "vocabulary too small": (
        put("config", "default_vocab_size", to=255 + COUNT),
        "config.default_vocab_size: expected a number from 296 to ",
    ),
    "vocabulary larger than the file": (
        put("config", "default_vocab_size", to=10**6),
        "config.default_vocab_size: expected a number from 296 to ",
    ),
    "size in words": (
        put("config", "default_vocab_size", to="131072"),
        "config.default_vocab_size: expected a number from 296 to ",
    ),
    "special token of another rank": (
        special(token(1)),
        "special_tokens[0].rank: expected 0, got 1",
    ),
    "special token given twice": (
        special(token(0), token(1)),
        'special_tokens[1].token_str: expected a token that no other entry has, got "<a>"',
    ),
    "special token that fills the list": (
        special(token(0, "<SPECIAL_7>")),
        "special_tokens: expected other tokens than <SPECIAL_7>, which stands for the id 7, got "
        '"<SPECIAL_7>"',
    ),
    "special token that is no text": (
        special(token(0, 7)),
        "special_tokens[0].token_str: expected a string in Unicode, got 7",
    ),
    "flag that is no truth value": (
        special(token(is_control=1)),
        "special_tokens[0].is_control: expected true or false, got 1",
    ),
    "special tokens that are no list": (
        put("special_tokens", to={}),
        "special_tokens: expected a list, got {}",
    ),
    "token of another rank": (put("vocab", 300, "rank", to=301), f"vocab[300]: {ENTRY}"),
    "token with another field": (put("vocab", 300, "score", to=1), f"vocab[300]: {ENTRY}"),
    "token that is no object": (put("vocab", 300, to=[]), f"vocab[300]: {ENTRY}[]"),
    "token that is no base64": (
        put("vocab", 300, "token_bytes", to="Y"),
        "vocab[300].token_bytes: expected a token in base64 that no entry before has, got ",
    ),
    "token given twice": (
        put("vocab", 300, "token_bytes", to="YQ=="),
        'vocab[300].token_bytes: expected a token in base64 that no entry before has, got "YQ=="',
    ),
    "byte in another place": (
        put("vocab", 7, "token_bytes", to="YQ=="),
        "vocab[7].token_bytes: expected the byte 7 in base64, since bytes come first, got ",
    ),
    "pattern that engines read differently": (
        put("config", "pattern", to=r"\w+|\W+"),
        "config.pattern: expected a portable pattern (it has a part that engines read differently",
    ),
    "pattern that is no text": (
        put("config", "pattern", to=["a"]),
        'config.pattern: expected a string in Unicode, got ["a"]',
    ),
}


@pytest.mark.parametrize(("change", "reason"), REFUSED.values(), ids=[*REFUSED])
def test_wrong_value_is_refused_with_its_path(
    change: Callable[[Document], None], reason: str, document: Document, tmp_path: Path
) -> None:
    changed = copy.deepcopy(document)
    change(changed)
    path = written(changed, tmp_path)
    assert refusal(Tokenizer.load, path).startswith(f"{path}: {reason}")


@pytest.mark.parametrize("argument", ["pattern", "special_tokens"])
def test_what_the_file_has_is_not_taken_from_arguments(
    argument: str, document: Document, tmp_path: Path
) -> None:
    path = written(document, tmp_path)
    value: Any = {"pattern": "gpt2", "special_tokens": {}}[argument]
    assert refusal(Tokenizer.load, path, **{argument: value}) == (
        f"{path}: {argument} was given, but the file has its own; leave it out"
    )


def reason_of(path: Path) -> str:
    """Return why a file is refused; "" if it loads."""
    try:
        Tokenizer.load(path)
    except (ValueError, KeyError) as error:
        return str(error)
    return ""


def test_mutated_file_loads_or_is_refused_in_one_line(document: Document, tmp_path: Path) -> None:
    """A changed byte, a cut and a doubled stretch, in a small file of valid tokens."""
    small = {**document, "vocab": document["vocab"][:270]}
    small["config"] = {**document["config"], "default_vocab_size": 270 + COUNT}
    data = json.dumps(small).encode()
    path = tmp_path / "tekken.json"
    rng = random.Random(32)
    n_refused = 0
    for _ in range(150):
        start, end = sorted(rng.choices(range(len(data)), k=2))
        changed = rng.choice(
            [
                data[:end],
                data[:start] + bytes([rng.randrange(256)]) + data[start + 1 :],
                data[:end] + data[start:],
                data[:start] + rng.choice([b"null", b"-1", b"{}", b'""', b"1e9"]) + data[end:],
            ]
        )
        path.write_bytes(changed)
        if reason := reason_of(path):
            n_refused += 1
            assert str(path) in reason
            assert "\n" not in reason
    assert n_refused > 50
