"""The automaton of a pattern tells where texts may be split, and which patterns are equal."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import DATA
from support.engines import native_only, once
from support.examples import few_examples, slow_except
from support.split_cases import ALL_PATTERNS, texts

from bpetite import PATTERNS, Tokenizer
from bpetite._automaton import automaton_of, digest_of, safe_splits_of
from bpetite._pattern_tree import pattern_tree
from bpetite._pretokenizer import TIKTOKEN_CL100K, Cuts, Pretokenizer, portable_pattern
from bpetite.formats._portable_regex import to_portable

OWN = {
    **ALL_PATTERNS,
    "tiktoken's cl100k": TIKTOKEN_CL100K,
    "a match may fail": r"ab|\s+(?!\S)|[^\sa]",
    "lazy": r"[ab]+?|\s*?\n|[\s\S]",
    "a look at what follows": r"a+(?=b)|\p{L}|[^a]",
}
"""Patterns of models, and some of our own."""

by_pattern = pytest.mark.parametrize("pattern", OWN.values(), ids=OWN)


# Safe splits


@once
@by_pattern
@few_examples
@given(text=texts)
def test_pieces_of_both_sides_of_a_safe_split(pattern: str, text: str) -> None:
    split, found = Pretokenizer(pattern).split_exactly, safe_splits_of(pattern)
    assert found is not None
    for at in found.find(text):
        assert split(text[:at]) + split(text[at:]) == split(text), at


@pytest.mark.parametrize("name", slow_except(ALL_PATTERNS, "gpt2", "o200k", "bloom", "exaone-moe"))
@native_only
@few_examples
@given(text=texts)
def test_both_engines_have_the_same_safe_splits(name: str, text: str) -> None:
    from bpetite._engine import _native

    pattern = ALL_PATTERNS[name]
    found = safe_splits_of(pattern)
    assert found is not None
    native = _native.Automaton([pattern_tree(pattern)]).safe_splits(text)
    assert [len(text[:at].encode()) for at in found.find(text)] == native


GLUED = Cuts({"ab", " a", "b ", "你好", "好a", "é\U0001f642"})


@pytest.mark.parametrize("name", ["gpt2", "o200k", "exaone-moe", "normalized", "glued"])
@native_only
@few_examples
@given(text=texts | st.text("ab é你好\u2581\U0001f642\ud800"), places=st.data())
def test_both_engines_find_the_same_first_and_last_split(
    name: str, text: str, places: st.DataObject
) -> None:
    from bpetite._engine import _native

    is_normalized = name == "normalized"
    pattern = ALL_PATTERNS["gpt2" if is_normalized else name] if name != "glued" else ""
    splits = safe_splits_of(pattern, is_normalized) if pattern else GLUED
    assert splits is not None
    native = _native.Splits(splits)
    start = places.draw(st.integers(0, len(text)))
    end = places.draw(st.integers(start, len(text)))
    found = [start + at for at in splits.find(text[start:end])]
    for each in (splits, native):
        assert each.first(text, start, end) == (found[0] if found else end)
        assert each.last(text, start, end) == (found[-1] if found else start)


@pytest.mark.parametrize(
    ("pattern", "text", "splits"),
    [
        ("gpt2", "it's 12 ok", [2, 4, 7]),
        ("cl100k", "a1\n\nb !\n c", [1, 2, 4, 5]),
        ("exaone-moe", "so it is, 12", [8, 9, 11]),
        ("bloom", "so, it", [2]),
    ],
)
def test_safe_splits_of_a_line(pattern: str, text: str, splits: list[int]) -> None:
    found = safe_splits_of(ALL_PATTERNS[pattern])
    assert found is not None
    assert [*found.find(text)] == splits


def test_text_between_matches_is_known() -> None:
    matches_all = {
        name: automaton.matches_all()
        for name, pattern in ALL_PATTERNS.items()
        if (automaton := automaton_of(pattern))
    }
    assert [name for name, matches in matches_all.items() if not matches] == [
        "bloom",
        "deepseek-v3",
    ]


# Equal patterns

EQUAL = {
    "gpt2": [
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
    ],
    "cl100k": [
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
        r"|\s*[\r\n]|\s+(?!\S)|\s",
        PATTERNS["cl100k"].replace("{1,3}", "{1,2}?\\p{N}{0,2}").replace("{1,2}?", "{1}"),
    ],
    "qwen2": [
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"
        r"|\s*[\r\n]|\s+(?!\S)|\s+"
    ],
}
"""Other spellings, by the name of the pattern; tiktoken reads them."""


@pytest.mark.parametrize(
    ("name", "spelling"), [(name, each) for name in EQUAL for each in EQUAL[name]]
)
def test_other_spelling_is_the_named_pattern(name: str, spelling: str) -> None:
    assert to_portable(spelling, tiktoken=True) == PATTERNS[name]


@once
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("'re|'ve", "'re"),  # a contraction less
        (r"\p{N}{1,3}", r"\p{N}{1,2}"),
        (r"\p{N}{1,3}", r"\p{Nd}{1,3}"),
        (r"[^\s\p{L}\p{N}]+", r"[^\s\p{L}\p{N}\u3000-\u3001]+"),  # one symbol less
        (r"\s+(?!\S)|\s+", r"\s+"),
        (r"\s*[\r\n]+|\s+(?!\S)", r"\s+(?!\S)|\s*[\r\n]+"),
        (r"[\r\n]*|", r"[\r\n]*?|"),
    ],
)
def test_near_miss_is_another_pattern(old: str, new: str) -> None:
    changed = PATTERNS["cl100k"].replace(old, new)
    assert changed != PATTERNS["cl100k"]
    assert portable_pattern(changed) == changed
    assert digest_of(changed) != digest_of(PATTERNS["cl100k"])


@pytest.mark.parametrize("name", PATTERNS)
def test_named_pattern_in_a_group_is_recognised(name: str) -> None:
    assert portable_pattern(f"(?:{PATTERNS[name]})") == PATTERNS[name]


def test_vocabulary_with_another_spelling_has_the_named_pattern() -> None:
    tokenizer = Tokenizer.train("ab ab ab", 258, pattern=EQUAL["gpt2"][0])
    assert tokenizer == Tokenizer.train("ab ab ab", 258, pattern="gpt2")


# Patterns of models


def _model_patterns() -> dict[str, Any]:
    path = DATA / "patterns.json"
    return {each["name"]: each["patterns"] for each in json.loads(path.read_text("utf-8"))}


@once
@pytest.mark.skipif(
    not (DATA / "patterns.json").is_file(),
    reason="needs the patterns of models, in a folder next to the repository",
)
def test_patterns_of_models_have_safe_splits() -> None:
    served = {
        name: safe_splits_of(to_portable(patterns[0], tiktoken="tiktoken" in name)) is not None
        for name, patterns in _model_patterns().items()
        if name != "tiny-aya"  # refused: its edge of a word
    }
    assert [name for name, is_served in served.items() if not is_served] == ["chameleon"]
