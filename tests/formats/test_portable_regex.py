"""Patterns of other libraries: which are taken, and that all engines cut alike by those."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest
import regex
import tiktoken
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines import once
from support.examples import slow_except
from tokenizers import pre_tokenizers

from bpetite import Tokenizer, _unicode
from bpetite._pretokenizer import PATTERNS, TIKTOKEN_CL100K, Pretokenizer, portable_pattern
from bpetite._unicode import differs
from bpetite.formats._portable_regex import check_shared, to_portable

pytestmark = once

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
BEFORE = r"[^\r\n\p{L}\p{N}]?"
GPT4 = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|DIGITS"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)

MODELS = {
    **PATTERNS,
    "GPT-2, as it was": (
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    ),
    "Qwen 3.5": (
        rf"{CONTRACTIONS}|{BEFORE}[\p{{L}}\p{{M}}]+|\p{{N}}"
        rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{SPACES}"
    ),
    "Mistral Nemo, Nemotron 3": (
        rf"{BEFORE}[{UPPER}]*[{LOWER}]+|{BEFORE}[{UPPER}]+[{LOWER}]*|\p{{N}}"
        rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{SPACES}"
    ),
    "MiniCPM 5": (
        rf"{CONTRACTIONS}|{BEFORE}\p{{L}}+|\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{SPACES}"
    ),
    "DeepSeek-V3, 1": r"\p{N}{1,3}",
    "DeepSeek-V3, 2": "[一-龥぀-ゟ゠-ヿ]+",
    "DeepSeek-V3, 3": (
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
        "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*"
        "|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
    ),
    "DeepSeek-Coder, 1": "[\r\n]",
    "DeepSeek-Coder, 2": r"\s?\p{L}+",
    "DeepSeek-Coder, 3": r"\s?\p{P}+",
    "DeepSeek-Coder, 4": "[一-龥ࠀ-一가-퟿]+",
    "DeepSeek-Coder-V2, 3": r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
    "Falcon": "[0-9][0-9][0-9]",
    "BLOOM": " ?[^(\\s|[.,!?…。，、।۔،])]+",
    "minbpe": GPT4.replace("DIGITS", r"\p{N}{1,3}"),
    "nanochat": GPT4.replace("DIGITS", r"\p{N}{1,2}"),
    "LLaDA": GPT4.replace("DIGITS", r"\p{N}"),
    "Kimi-K2": (
        rf"[\p{{Han}}]+"
        rf"|{BEFORE}[{UPPER}&&[^\p{{Han}}]]*[{LOWER}&&[^\p{{Han}}]]+{CONTRACTIONS}?"
        rf"|{BEFORE}[{UPPER}&&[^\p{{Han}}]]+[{LOWER}&&[^\p{{Han}}]]*{CONTRACTIONS}?"
        rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{SPACES}"
    ),
    "Surya": ".",
}
"""The regular expressions in the files of models that are in use."""

every_model = pytest.mark.parametrize("pattern", MODELS.values(), ids=MODELS)

ALPHABET = [
    *" \t\n\r\x0b\x85\u2003\u3000\u2028", *"aZéßſKǅʰªя中〆々ぁ゠ヿ가ࠀ𠀀", *"09½٣Ⅷ𝟘",
    *"'’.,!?-_/&~#|^(){}[]<>=+$`@…。，", *"\u0301\u093e\u20dd\u200d\ufeff\x00", *"🙂👩🏽",
    "\r\n", "'s", "'LL", "'ſ", "123", "  ",
]  # fmt: skip
"""What patterns tell apart."""

NEW = [chr(code) for code in range(0x80, 0x40000, 7) if not 0xD800 <= code < 0xE000]
NEW = [character for character in NEW if differs(character)]
"""Some that the installed `regex` classes otherwise: those since our version of Unicode."""

texts = st.lists(st.sampled_from(ALPHABET), max_size=30).map("".join)


def split(pattern: str) -> Callable[[str], list[str]]:
    """Return what cuts a text by a pattern as tokenizers does."""
    cut = pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated").pre_tokenize_str
    return lambda text: [piece for piece, _ in cut(text)]


mixed = random.Random(3)
INPUTS = [
    *("".join(mixed.choices(ALPHABET, k=60)) for _ in range(200)),
    *(character * 300 for character in "a1中 \n-\u0301🙂"),
    "Hello world, it's 2026! WE'LL x=1234567; \r\n\t return 'ſ'\n\n  // naïve 你好。こんにちは",
]
"""Texts of what patterns tell apart, in any order."""


# What is taken


@every_model
def test_model_pattern_splits_as_in_tokenizers(pattern: str) -> None:
    cut, expected = Pretokenizer(to_portable(pattern)).split_exactly, split(pattern)
    assert [text for text in INPUTS if cut(text) != expected(text)] == []


@every_model
def test_portable_pattern_means_the_same_to_tokenizers(pattern: str) -> None:
    taken, given_one = split(to_portable(pattern)), split(pattern)
    assert [text for text in INPUTS if taken(text) != given_one(text)] == []


@every_model
def test_newer_characters_are_split_as_in_tokenizers(pattern: str) -> None:
    cut, expected = Pretokenizer(to_portable(pattern)).split_exactly, split(pattern)
    step = max(1, len(NEW) // settings().max_examples)
    several = [f"a{c}b 1{c}2 {c}。{c}中" for c in NEW[::step]]
    cut("".join(several))  # one pattern for all of them, instead of a new one for each script
    assert [ascii(text) for text in several if cut(text) != expected(text)] == []


def test_letter_unknown_to_regex_is_not_han(monkeypatch: pytest.MonkeyPatch) -> None:
    """No character is that on which versions of Unicode differ, as far back as `regex` is used."""
    category = _unicode._category
    monkeypatch.setattr(_unicode, "_category", lambda c: "Lo" if c == "³" else category(c))
    monkeypatch.setattr(_unicode, "_differs", _unicode._Differs())
    cutter = Pretokenizer(r"\p{Han}+|\p{L}+|.")
    assert cutter.split_exactly("中³中a³") == ["中", "³中a³"]


@pytest.mark.parametrize("name", slow_except(["nanochat", "Kimi-K2", "BLOOM"], "BLOOM"))
def test_model_pattern_splits_as_in_tiktoken(name: str) -> None:
    ends = sorted({character.encode()[-1] for character in "".join(ALPHABET)})
    begins = sorted({character.encode()[0] for character in "".join(ALPHABET)})
    pairs = [bytes([end, begin]) for end in ends for begin in begins]
    ranks = {token: rank for rank, token in enumerate([bytes([b]) for b in range(256)] + pairs)}
    encoding = tiktoken.Encoding(
        "x", pat_str=MODELS[name], mergeable_ranks=ranks, special_tokens={}
    )
    pattern = to_portable(MODELS[name], tiktoken=True)
    # What the pattern does not match is dropped there.
    matched = ["".join(regex.findall(pattern, text)) for text in INPUTS]
    tokenizer = Tokenizer.from_tiktoken(encoding)
    different = [
        text for text in matched if tokenizer.encode(text) != encoding.encode_ordinary(text)
    ]
    assert different == []


ALIKE = [
    "a", "ab", "a|b", "(a|b)c", "(?:ab)+", "a(?=b)", "a(?!b)", "(?<=a)b", "(?<![ab]c)d", ".",
    "a*b", "a+", "a?b", "a*?b", "a+?b", "a??b", "a{2}", "a{1,3}", "a{1,3}?b", "a{2,}", "a{2,}?b",
    r"\s+", r"\S+", r"\d+", r"\D+", r"\r\n", r"\t", r"\.", r"\ ", r"\-", r"\/", r"\^\$", r"\[\]",
    r"\u4e2d", r"[\u4e00-\u9fa5]+", "[a-z]+", "[^a-z]+", "[-a]+", "[a-]+", "[^-]+", "[a^]+",
    r"[\[\]]+", r"[\s\S]+", r"[\n-\r]", r"[^\s\p{L}]+", r"[+\-*/]", "[a&b|c~d-]", "[:alpha:]",
    r"\p{L}+", r"\P{L}+", r"\p{Lu}", r"\p{M}+", r"\p{Han}+", r"[^\p{Han}]+", r"\p{Cn}", r"\p{C}",
    f"{CONTRACTIONS}|a", "'(?i:[sdmt]|ll|ve|re)", " ?a", "é", "一", "#", " ", "<a>", "-", "a&&b",
]  # fmt: skip


@pytest.mark.parametrize("pattern", ALIKE)
def test_portable_pattern_is_taken_unchanged(pattern: str) -> None:
    assert to_portable(pattern) == pattern
    cut, expected = Pretokenizer(pattern).split_exactly, split(pattern)
    several = [*INPUTS, "ab aab bcd abc acd \r\n\t.- /^$[] 中 a&b|c~ :alph: aaab"]
    assert [text for text in several if cut(text) != expected(text)] == []


characters = st.sampled_from([*"ab1 '中é", r"\.", r"\n", r"\u4e2d", "\\-"])
classes = st.sampled_from(
    [r"\s", r"\S", r"\d", r"\D", r"\p{L}", r"\P{L}", r"\p{N}", r"\p{Han}", r"\p{M}", r"\p{P}"]
)
in_sets = st.one_of(characters, classes, st.sampled_from(["a-z", "0-9", "一-龥", " -/"]))
sets = st.builds(
    lambda no, inside: f"[{no}{''.join(inside)}]",
    st.sampled_from(["", "^"]),
    st.lists(in_sets, min_size=1, max_size=3),
)
repeats = st.sampled_from(["", "", "*", "+", "?", "*?", "+?", "{1,3}", "{2}", "{1,2}?", "{2,}"])


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return patterns in which others are parts."""
    group = st.builds("{}{})".format, st.sampled_from(["(", "(?:"]), inner)
    ahead = st.builds("{}{})".format, st.sampled_from(["(?=", "(?!"]), inner)
    behind = st.builds("{}{})".format, st.sampled_from(["(?<=", "(?<!"]), characters)
    item = st.one_of(group, characters, classes, sets, st.just("."), st.just(CONTRACTIONS))
    repeated = st.builds("{}{}".format, item, repeats)
    sequence = st.lists(st.one_of(repeated, repeated, ahead, behind), min_size=1, max_size=3)
    return st.lists(sequence.map("".join), min_size=1, max_size=2).map("|".join)


patterns = st.recursive(st.builds("{}{}".format, classes, repeats), grown, max_leaves=5)


@given(pattern=patterns, several=st.lists(texts, min_size=1, max_size=5))
def test_any_portable_pattern_splits_as_in_tokenizers(pattern: str, several: list[str]) -> None:
    try:
        taken = to_portable(pattern)
    except ValueError:
        return
    cut, expected = Pretokenizer(taken).split_exactly, split(pattern)
    for text in several:
        assert cut(text) == expected(text)


# What is refused

REFUSED = {
    "beginning of a line or the text": ("^a", 0),
    "end of a line or the text": ("a$", 1),
    "beginning of the text": (r"\Aa", 0),
    "end of the text, or before its last line end": (r"a\Z", 1),
    "end of the text": (r"a\z", 1),
    "where the search began": (r"\Ga", 0),
    "word": (r"\w+", 0),
    "no word": (r"\W+", 0),
    "edge of a word": (r"a\b", 1),
    "no edge of a word": (r"a\B", 1),
    "beginning of a word": (r"\<a", 0),
    "hexadecimal digit or space": (r"\h+", 0),
    "vertical space": (r"\v+", 0),
    "line end": (r"a|\R", 2),
    "grapheme": (r"\X", 0),
    "forgetting what was matched": (r"a\Kb", 1),
    "one code unit": (r"\xe9", 0),
    "code point in braces": (r"\x{4e2d}", 0),
    "code point of eight digits": (r"\U00004e2d", 0),
    "code point by name": (r"\N{LATIN SMALL LETTER A}", 0),
    "octal": (r"\012", 0),
    "surrogate": (r"\ud83d\ude42", 0),
    "character that needs no escape": (r"\é", 0),
    "reference": (r"(a)\1", 3),
    "reference by name": (r"(?P<x>a)(?P=x)", 0),
    "group with a name": (r"(?<x>a)", 0),
    "flags for the rest": ("(?i)a", 0),
    "flags for a group": ("(?s:.)", 0),
    "another text without case": ("(?i:ss)", 0),
    "comment": ("(?#no)a", 0),
    "verb": ("(*PRUNE)a", 1),
    "condition": ("(a)?(?(1)b|c)", 4),
    "recursion": ("(a(?R)?b)", 2),
    "bracket of POSIX": ("[[:alpha:]]+", 0),
    "set inside a set": ("[a[bc]]", 0),
    "what two sets have in common": (r"[\p{L}&&[a-z]]", 0),
    "what one set has and the other has not": ("[a-z--b]", 0),
    "what either has, or both": ("[a||b]", 0),
    "what only one of two has": ("[a~~b]", 0),
    "range that ends in a class": (r"[a-\d]", 0),
    "range after a class": (r"[\d-a]", 0),
    "range after a range": ("[a-c-e]", 0),
    "set of nothing": (r"[^\s\S]|a", 0),
    "set of nothing, by properties": (r"[^\p{L}\P{L}]|a", 0),
    "set of nothing, by a class and a property": (r"[^\d\P{Nd}]|a", 0),
    "bracket that is no set": ("a]", 1),
    "brace that is no quantifier": ("a{b", 1),
    "up to, from none": ("a{,3}b", 1),
    "exactly, as few as can be": ("a{2}?b", 1),
    "quantifier of a quantifier": ("a{2}{3}", 1),
    "quantifier of what can match nothing": ("(?:a*)+b", 6),
    "quantifier of an alternative of nothing": ("(?:a|b?)*c", 8),
    "quantifier of a look-ahead": ("(?:(?=a))?b", 9),
    "property of letters": (r"\p{Alphabetic}", 0),
    "property of words": (r"\p{Word}", 0),
    "property of hexadecimal digits": (r"\p{XDigit}", 0),
    "property of pictures": (r"\p{Extended_Pictographic}", 0),
    "script whose characters grow": (r"\p{Latin}", 0),
    "script, said to be one": (r"\p{Script=Han}", 0),
    "property by a long name": (r"\p{Letter}", 0),
    "property by one letter": (r"\pL", 0),
    "no property, in the braces": (r"\p{^L}", 0),
    "look-behind of any length": ("(?<=a+)b", 0),
    "look-behind of alternatives": ("(?<=a|bc)d", 0),
}  # fmt: skip


@pytest.mark.parametrize(("pattern", "position"), REFUSED.values(), ids=REFUSED)
def test_ambiguous_pattern_is_refused_with_its_position(pattern: str, position: int) -> None:
    message = (
        f"the pattern {pattern!r} has a part that engines read differently, "
        f"at position {position}: {pattern[position : position + 20]!r}"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check_shared(pattern)


@pytest.mark.parametrize(
    "pattern", ["", "a*", "a|b?", "(?=a)", "(?<=ab)", "(a|b*)", "(?!a)b{0,2}", "(?:a?(?=b))"]
)
def test_a_pattern_that_can_match_nothing_at_all_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=f"^the pattern {re.escape(repr(pattern))} can match"):
        check_shared(pattern)


def test_a_quantifier_that_is_not_possessive_to_all_is_refused() -> None:
    """As tiktoken spells it, Oniguruma reads one group of digits or more, not one at most."""
    current = (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
        r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
    )
    assert split(current)("1234") == ["1234"]
    assert Pretokenizer(PATTERNS["cl100k"]).split("1234") == ["123", "4"]
    assert to_portable(current, tiktoken=True) == TIKTOKEN_CL100K
    with pytest.raises(ValueError, match="possessive"):
        to_portable(current)


UNLIKE = [
    "beginning of a line or the text", "end of a line or the text", "word", "no word",
    "edge of a word", "no edge of a word", "hexadecimal digit or space",
    "code point of eight digits", "code point by name", "another text without case",
    "set inside a set", "what two sets have in common", "set of nothing",
    "set of nothing, by properties", "set of nothing, by a class and a property",
    "exactly, as few as can be", "property of words", "property of hexadecimal digits",
    "property by one letter", "end of the text, or before its last line end",
]  # fmt: skip


@pytest.mark.parametrize("name", UNLIKE)
def test_refused_pattern_splits_differently_in_tokenizers(name: str) -> None:
    pattern, _ = REFUSED[name]
    cut, other = Pretokenizer(portable_pattern(pattern)).split, split(pattern)
    several = [*INPUTS, "ab abab aab b", "aa aaaa", "a\n", "é中x0", "_a.b", "a-z a&b|~"]
    assert any(cut(text) != other(text) for text in several)
