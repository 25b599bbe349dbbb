"""Calls of tiktoken and tokenizers: none changes its meaning in silence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import tiktoken
import tokenizers
from support.engines import quick_once

from bpetite import Tokenizer
from conftest import TEXTS

pytestmark = quick_once

END = "<|endoftext|>"
ALL_TEXTS = [text[:3000] for text in TEXTS.values()]
TEXT = "the men, é 🙂 then"
CHAT = f"{TEXT}{END}"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train([*ALL_TEXTS, "the hen then met the ten men " * 9], 600)


@pytest.fixture(scope="module")
def encoding(tokenizer: Tokenizer) -> Any:
    ordinary = tokenizer.tokens[: tokenizer.special_tokens[END]]
    return tiktoken.Encoding(
        "trained",
        pat_str=tokenizer.patterns[0],
        mergeable_ranks={token: id for id, token in enumerate(ordinary)},
        special_tokens=dict(tokenizer.special_tokens),
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda it: it.name,
        lambda it: it.eot_token,
        lambda it: it.max_token_value,
        lambda it: it.special_tokens_set,
        lambda it: it.encode_ordinary_batch([TEXT]),
        lambda it: it.encode_single_token("he"),
        lambda it: it.encode_to_numpy(TEXT),
        lambda it: it.encode_with_unstable(TEXT),
        lambda it: it.decode_single_token_bytes(97),
        lambda it: it.decode_tokens_bytes([97]),
        lambda it: it.token_byte_values(),
        lambda it: it.encode_batch([TEXT], num_threads=2),
        lambda it: it.encode(TEXT).ids,
        lambda it: it.encode(TEXT, TEXT),
        lambda it: it.encode(TEXT, is_pretokenized=True),
        lambda it: it.get_vocab(),
        lambda it: it.get_vocab_size(),
        lambda it: it.token_to_id("a"),
        lambda it: it.id_to_token(97),
        lambda it: it.add_special_tokens([END]),
        lambda it: it.enable_padding(),
        lambda it: it.decode(97),
    ],
)
def test_a_call_that_does_not_exist_is_an_error(
    tokenizer: Tokenizer, call: Callable[[Any], object]
) -> None:
    with pytest.raises((AttributeError, TypeError)):
        call(tokenizer)


CHANGES: Mapping[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "a special literal is its id": (lambda it: it.encode(CHAT)[-1:], ValueError, [600]),
    "even if nothing is disallowed": (
        lambda it: 600 in it.encode(CHAT, disallowed_special=()),
        False,
        True,
    ),
    "in a batch too": (lambda it: it.encode_batch([CHAT])[0][-1:], ValueError, [600]),
    "bytes that are not UTF-8 raise": (lambda it: it.decode([240]), "�", UnicodeDecodeError),
    "in a batch too, when decoded": (
        lambda it: it.decode_batch([[240]]),
        ["�"],
        UnicodeDecodeError,
    ),
    "a lone surrogate raises": (
        lambda it: it.decode_bytes(it.encode_ordinary("\ud800")),
        b"\xef\xbf\xbd",
        UnicodeEncodeError,
    ),
}
"""What a call gives here instead of tiktoken's result, as docs/moving.md says under "Traps"."""


def outcome(call: Callable[[Any], Any], library: Any) -> Any:
    try:
        return call(library)
    except ValueError as error:
        return type(error)


@pytest.mark.parametrize("name", CHANGES)
def test_a_call_gives_something_else(name: str, tokenizer: Tokenizer, encoding: Any) -> None:
    call, theirs, ours = CHANGES[name]
    assert (outcome(call, encoding), outcome(call, tokenizer)) == (theirs, ours)


SHARED: Mapping[str, Callable[[Any, list[int]], Any]] = {
    "decode": lambda it, ids: it.decode(ids),
    "decode_batch": lambda it, ids: it.decode_batch([ids, []]),
    "decode_bytes": lambda it, ids: it.decode_bytes(ids),
    "decode_with_offsets": lambda it, ids: it.decode_with_offsets(ids),
    "encode": lambda it, _: it.encode(TEXT),
    "encode_batch": lambda it, _: it.encode_batch([TEXT, ""]),
    "encode_ordinary": lambda it, _: it.encode_ordinary(CHAT),
    "n_vocab": lambda it, _: it.n_vocab,
}


def test_shared_names_mean_the_same(tokenizer: Tokenizer, encoding: Any) -> None:
    names = {name for name in {*dir(Tokenizer)} & {*dir(encoding)} if not name.startswith("_")}
    assert names == SHARED.keys()
    ids = tokenizer.encode_ordinary(TEXT)
    for name, call in SHARED.items():
        assert call(tokenizer, ids) == call(encoding, ids), name


def test_tokenizers_leaves_special_tokens_out(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """The other trap of docs/moving.md: `encode` adds ids there, if the vocabulary has them."""
    tokenizer.save(tmp_path, format="huggingface")
    other = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    ids = tokenizer.encode(CHAT)
    assert (other.decode(ids), tokenizer.decode(ids)) == (TEXT, CHAT)


def test_shared_names_of_tokenizers_do_not_pass() -> None:
    """An `Encoding` of tokenizers is no list, so whoever goes on with the old code hears of it."""
    shared = {*dir(Tokenizer)} & {*dir(tokenizers.Tokenizer)}
    assert {name for name in shared if not name.startswith("_")} == {
        "decode", "decode_batch", "encode", "encode_batch", "save", "train",
    }  # fmt: skip
