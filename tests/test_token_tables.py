"""All tokens of a vocabulary: the bytes of each id, and the ids that begin with some bytes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT
from support.vocabularies import vocabulary

from bpetite import Tokenizer

END = "<|endoftext|>"

SMALL = Tokenizer.train("ab ab ab abab", 262)

GAPS = Tokenizer(
    vocabulary(
        {300: b"ab", 302: b"a\xff", 303: b"a\xff\xff", 304: b"\xff\xff", 305: "é".encode()},
        [],
        special_tokens={"<|é|>": 310, "ab|": 308, "ab": 300},
    )
)
"""A tokenizer with gaps between its ids, and a special token that is an ordinary one too."""

FAR = Tokenizer(vocabulary({2**32 - 1: b"ab"}, []))


# The bytes of each id


@pytest.mark.parametrize("tokenizer", [SMALL, GAPS], ids=["trained", "gaps"])
def test_tokens_are_the_bytes_of_each_id(tokenizer: Tokenizer) -> None:
    expected = [b""] * tokenizer.n_vocab
    for id in tokenizer.ids:
        expected[id] = tokenizer.token_bytes(id)
    assert tokenizer.tokens == tuple(expected)


def test_special_tokens_have_the_bytes_of_their_literals() -> None:
    assert GAPS.tokens[307:] == (b"", b"ab|", b"", "<|é|>".encode())


def test_tokens_are_made_once() -> None:
    assert SMALL.tokens is SMALL.tokens


def test_tokens_of_ids_that_run_too_far_are_refused() -> None:
    with pytest.raises(ValueError, match="ids of this vocabulary run to 4294967295, too far"):
        _ = FAR.tokens
    assert FAR.ids_with_prefix(b"ab") == [2**32 - 1]


class Wrapped:
    """A tokenizer as `llguidance.TokenizerWrapper` reads it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokens = tokenizer.tokens
        self.eos_token_id = tokenizer.special_tokens[END]
        self.bos_token_id = None
        self.special_token_ids = list(tokenizer.special_tokens.values())
        self._tokenizer = tokenizer

    def __call__(self, text: bytes) -> list[int]:
        return self._tokenizer.encode_ordinary(text)


def test_llguidance_takes_tokens() -> None:
    """Allows exactly the ids whose bytes a grammar of two letters takes."""
    import llguidance  # here, since the other tests run without it

    wrapper = llguidance.TokenizerWrapper(Wrapped(SMALL))
    twin = llguidance.LLTokenizer(wrapper, n_vocab=SMALL.n_vocab)
    assert twin.tokenize_str("ab abab") == SMALL.encode("ab abab")
    assert twin.decode_str(SMALL.encode("ab abab")) == "ab abab"
    matcher = llguidance.LLMatcher(twin, llguidance.LLMatcher.grammar_from_regex("[ab]+"))
    mask = matcher.compute_logit_bias()
    allowed = [id for id in range(SMALL.n_vocab) if mask[id]]
    assert allowed == [id for id in SMALL.ids if {*SMALL.token_bytes(id)} <= {*b"ab"}]


def test_xgrammar_takes_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Allows exactly the ids whose bytes go on with one of some strings, and the end behind one."""
    xgrammar = pytest.importorskip("xgrammar")
    monkeypatch.chdir(tmp_path)
    tokenizer = Tokenizer.train("ab abab é é 🙂 🙂", 266, special_tokens=[END, "<|a|>"])
    tokenizer.save("model.json")
    page = (ROOT / "docs" / "encoding.md").read_text("utf-8")
    [program] = re.findall(r"```python\n(# needs: pip install xgrammar\n.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(program, names)
    tokens, end, info = names["tokens"], names["end"], names["info"]
    strings = ["ab", "abab é", "é🙂 ab", "<|a|>"]
    grammar = "root ::= " + " | ".join(f'"{string}"' for string in strings)
    compiled = xgrammar.GrammarCompiler(info).compile_grammar(grammar)
    encoded = [string.encode() for string in strings]
    for string in strings:
        matcher = xgrammar.GrammarMatcher(compiled)
        before = b""
        for id in [*tokenizer.encode_ordinary(string), end]:
            mask = xgrammar.allocate_token_bitmask(1, tokenizer.n_vocab)
            matcher.fill_next_token_bitmask(mask)
            words = mask[0].tolist()
            allowed = [id for id in range(tokenizer.n_vocab) if words[id // 32] >> id % 32 & 1]
            assert allowed == [
                id
                for id, token in enumerate(tokens)
                if (token and any(whole.startswith(before + token) for whole in encoded))
                or (id == end and before in encoded)
            ]
            assert matcher.accept_token(id)
            before += tokens[id]


# The ids of tokens that begin alike


def with_prefix(tokenizer: Tokenizer, prefix: bytes) -> list[int]:
    special_ids = tokenizer.special_tokens.values()
    return [
        id
        for id in tokenizer.ids
        if id not in special_ids and tokenizer.token_bytes(id).startswith(prefix)
    ]


PREFIXES = [b"", b"a", b"ab", b"aba", b" ", b" a", b"<|", b"\xff", b"\xff\xff", b"a\xff", b"\xc3"]


@pytest.mark.parametrize("tokenizer", [SMALL, GAPS], ids=["trained", "gaps"])
@pytest.mark.parametrize("prefix", PREFIXES, ids=repr)
def test_ids_with_a_prefix(tokenizer: Tokenizer, prefix: bytes) -> None:
    assert tokenizer.ids_with_prefix(prefix) == with_prefix(tokenizer, prefix)


@given(prefix=st.binary(max_size=4))
def test_ids_with_any_prefix(prefix: bytes) -> None:
    assert GAPS.ids_with_prefix(prefix) == with_prefix(GAPS, prefix)


def test_every_token_begins_with_its_prefixes(tokenizer: Tokenizer) -> None:
    for id in tokenizer.ids[:-1]:
        token = tokenizer.token_bytes(id)
        assert all(id in tokenizer.ids_with_prefix(token[:n]) for n in range(len(token) + 1))


@pytest.mark.parametrize("prefix", ["a", None, 97, bytearray(b"a")], ids=repr)
def test_a_prefix_of_another_type_is_refused(prefix: Any) -> None:
    with pytest.raises(TypeError, match=f"prefix must be bytes, got {type(prefix).__name__}"):
        SMALL.ids_with_prefix(prefix)
