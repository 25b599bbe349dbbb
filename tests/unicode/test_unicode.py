"""Pieces follow one version of Unicode with every installed `regex`, as in other libraries."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain
from typing import Any

import pytest
import regex
from support import reference
from support.engines import once, python_only
from support.examples import slow_except
from support.peers import as_tiktoken, split_of

from bpetite import Tokenizer, _encoder, _unicode
from bpetite._pretokenizer import PATTERNS, Pretokenizer
from bpetite._unicode import differs, stand_in
from bpetite._unicode.data import RUNS, VERSION
from bpetite._vocabulary import Vocabulary

CODES = [*range(0xD800), *range(0xE000, 0x110000)]

every_name = pytest.mark.parametrize("name", PATTERNS)
some_names = pytest.mark.parametrize("name", slow_except(PATTERNS, "o200k"))


@cache
def categories() -> list[str]:
    """Return the category of each code point, including surrogates."""
    runs = regex.findall(r"([A-Z][a-z])([0-9]+)", RUNS)
    return list(chain.from_iterable([name] * int(length) for name, length in runs))


@cache
def installed_categories() -> dict[str, str]:
    """Return the category of each character by the installed `regex`."""
    text = "".join(map(chr, CODES))
    return {
        character: name
        for name in sorted({*categories()} - {"Cs"})
        for run in regex.findall(rf"\p{{{name}}}+", text)
        for character in run
    }


@cache
def differing() -> list[str]:
    """Return the characters that the installed `regex` puts into another category."""
    installed = installed_categories()
    return [chr(code) for code in CODES if installed[chr(code)] != categories()[code]]


@cache
def samples() -> list[str]:
    """Return the ends of each run of one category, every 64th code point, and all that differ."""
    category = categories()
    chosen = {
        code
        for code in CODES
        if (code % 64 == 0 and code < 0x40000)
        or {*category[max(0, code - 1) : code + 2]} != {category[code]}
    }
    return [chr(code) for code in sorted(chosen | set(map(ord, differing())))]


def contexts(character: str) -> str:
    return f"a{character}b 1{character}2 {character}!{character}\n"


# The data


@once
def test_the_data_are_of_every_code_point() -> None:
    assert len(categories()) == 0x110000
    assert {code for code, name in enumerate(categories()) if name == "Cs"} == {
        *range(0xD800, 0xE000)
    }
    assert VERSION == "16.0.0"


@once
def test_the_data_match_python() -> None:
    """Compares only characters that both versions have: Unicode rarely changes a category."""
    differing = [
        chr(code)
        for code in CODES
        if "Cn" not in (unicodedata.category(chr(code)), categories()[code])
        and unicodedata.category(chr(code)) != categories()[code]
    ]
    most = 0 if unicodedata.unidata_version == VERSION else 20
    assert len(differing) <= most, list(map(ascii, differing))


@once
def test_a_character_with_another_category_differs() -> None:
    assert list(filter(differs, samples())) == differing()


@once
def test_a_text_differs_where_any_of_its_characters_does() -> None:
    assert not differs("")
    assert not differs("naïve 你好 🙂\n")
    found = [differs(f"aé{character} 你") for character in differing()]
    assert found == [True] * len(differing())


@once
def test_a_stand_in_has_the_category_by_the_installed_regex() -> None:
    text = "".join(samples())
    stand_ins = "".join(map(stand_in, text))
    assert [installed_categories()[c] for c in stand_ins] == [categories()[ord(c)] for c in text]
    assert not differs(stand_ins)


# Two other implementations


def revealing(pattern: str) -> Tokenizer:
    """Return a tokenizer with a merge for all last and first bytes of two neighbour characters.

    So the ids show if the text splits between two characters.
    """
    ends = [*range(0x80, 0xC0), *b"a1 !"]
    begins = [*range(0xC2, 0xF5), *b"b2!a\n"]
    return Tokenizer(Vocabulary(tuple((x, y) for x in ends for y in begins), {}, pattern))


def texts_of(characters: list[str], context: Callable[[str], str], size: int) -> Iterator[str]:
    """Yield texts of `size` characters each, with every character in its context."""
    for start in range(0, len(characters), size):
        yield "".join(map(context, characters[start : start + size]))


@pytest.mark.parametrize("step", slow_except([1, 11], 11))
def test_every_code_point_is_cut_as_by_others(step: int) -> None:
    """Tests each code point next to its neighbours and between letters.

    Neighbours mostly have the same category. tiktoken is slow, so it splits only every 64th code
    point of planes without assigned characters.
    """
    names = ["cl100k", "o200k"]
    tokenizers_of = [revealing(PATTERNS[name]) for name in names]
    encodings = [as_tiktoken(tokenizer) for tokenizer in tokenizers_of]
    cutters = [Pretokenizer(PATTERNS[name]) for name in names]
    for start in range(0, len(CODES), 1000 * step):
        codes = CODES[start : start + 1000]
        text = "".join(map(chr, codes))
        for name, cutter in zip(names, cutters, strict=True):
            assert cutter.split_exactly(text) == split_of(PATTERNS[name])(text), (
                name,
                hex(codes[0]),
            )
        if 0x40000 <= codes[0] < 0xE0000 or codes[0] >= 0xE1000:
            codes = codes[::64]
        apart = "".join(f"a{chr(code)}" for code in codes)
        for tokenizer, encoding in zip(tokenizers_of, encodings, strict=True):
            assert tokenizer.encode(apart) == encoding.encode_ordinary(apart), hex(codes[0])


def half() -> str:
    """Return a text to split first: each new script makes a new pattern for all before it."""
    return "".join(samples()[::2])


@some_names
@pytest.mark.parametrize("step", slow_except([1, 4], 4))
def test_characters_in_every_context_are_cut_as_by_tiktoken(step: int, name: str) -> None:
    tokenizer = revealing(PATTERNS[name])
    encode = as_tiktoken(tokenizer).encode_ordinary
    tokenizer.encode(half())
    for text in texts_of(samples()[::step], contexts, 50):
        assert tokenizer.encode(text) == encode(text), ascii(text)


# A made-up character that needs a resplit, the same for every installed `regex`

DIGIT = "Ж"
"""A letter to the installed `regex`, but a digit in these tests."""


@pytest.fixture
def _another_unicode(monkeypatch: pytest.MonkeyPatch) -> None:
    category = _unicode._category
    monkeypatch.setattr(_unicode, "_category", lambda c: "Nd" if c == DIGIT else category(c))
    monkeypatch.setattr(_unicode, "_differs", _unicode._Differs())


another_unicode = pytest.mark.usefixtures("_another_unicode")

TEXT = f"aяb a{DIGIT}b 1{DIGIT}2 aяb яя "
CORPUS = TEXT * 20


def with_a_true_digit(text: str) -> str:
    """Return the text with a real digit of two bytes instead of DIGIT."""
    return text.replace(DIGIT, "٣")


@another_unicode
def test_a_character_is_cut_by_its_category_in_our_version() -> None:
    cutter = Pretokenizer(PATTERNS["gpt2"])
    assert differs(TEXT)
    assert cutter.split_exactly(f"a{DIGIT}b 1{DIGIT}2") == ["a", DIGIT, "b", f" 1{DIGIT}2"]
    assert cutter.split(f"a{DIGIT}b 1{DIGIT}2") == [f"a{DIGIT}b", " 1", DIGIT, "2"]
    assert cutter.needs_resplit(f"a{DIGIT}b")
    assert not cutter.needs_resplit("aяb")


@another_unicode
@every_name
def test_pieces_match_a_character_of_the_category(name: str) -> None:
    cutter = Pretokenizer(PATTERNS[name])
    for text in (TEXT, CORPUS, DIGIT * 10, f"'{DIGIT}s {DIGIT}\n/"):
        pieces = list(map(with_a_true_digit, cutter.split_exactly(text)))
        assert pieces == cutter.split(with_a_true_digit(text))


@another_unicode
@pytest.mark.parametrize(
    ("pattern", "pieces"),
    [
        ("[Е-З]+", ["ЕЖЗ", "9", "Ж"]),
        ("[ЕЖЗ]+", ["ЕЖЗ", "9", "Ж"]),
        ("ЕЖ", ["ЕЖ", "З9Ж"]),
        ("(?i)еж", ["ЕЖ", "З9Ж"]),
        (r"(?<=\u0416)9*|[ЕЗ9]", ["Е", "Ж", "З", "9", "Ж"]),
        (r"[Е-Ж\d]+", ["ЕЖ", "З", "9Ж"]),
        (r"\d+", ["Е", "Ж", "З", "9Ж"]),
        (r"[^\p{L}]+", ["Е", "Ж", "З", "9Ж"]),
        (r"[^\p{L}Ж]+", ["ЕЖЗ", "9", "Ж"]),
        (r"[^\p{N}Е]+", ["ЕЖ", "З", "9Ж"]),
        (r"(?V1)[\p{N}--[Ж]]+", ["ЕЖЗ", "9", "Ж"]),
        (r"(?x) [\p{L}] + # \p{N}, [Ж", ["Е", "Ж", "З", "9Ж"]),
        (r"(?<=\p{N})\S", ["ЕЖ", "З", "9", "Ж"]),
        (r"\(?x?#?\d+", ["Е", "Ж", "З", "9Ж"]),
        (r"[(?x]?#?\d+", ["Е", "Ж", "З", "9Ж"]),
        (r"(?x: a # b" + "\n)|#?\\d+", ["Е", "Ж", "З", "9Ж"]),
        (r"(?x)(?-x:#?\d)+ # \d, [", ["Е", "Ж", "З", "9Ж"]),
        (r"(?i:\p{Ll}+)", ["Е", "Ж", "З", "9Ж"]),
        (r"(?a:\d+)", ["ЕЖЗ", "9", "Ж"]),
        (r"\d+|(?a)x", ["Е", "Ж", "З", "9Ж"]),
        (r"\p{Cyrillic}+", ["ЕЖЗ", "9", "Ж"]),
        (r"[^\p{Cyrillic}]+", ["ЕЖЗ", "9", "Ж"]),
    ],
)
def test_what_names_a_character_has_it_whatever_its_class(pattern: str, pieces: list[str]) -> None:
    assert Pretokenizer(pattern).split_exactly("ЕЖЗ9Ж") == pieces


@pytest.mark.parametrize("pattern", ["[ʕ-ʯ]+", "[ʔ-ʖ]+", r"[\u0295ʖ]+", "(?i:ʕʖ?)", "ʕ|ʖ"])
def test_a_pattern_may_name_a_character_of_another_category(pattern: str) -> None:
    """U+0295 is Ll in Unicode 16 and Lo in Unicode 17."""
    tokenizer = Tokenizer.train("aʕʖ ʕʖ", 258, pattern=pattern, special_tokens=())
    expected = regex.findall(rf"{pattern}|.", "aʕʖ")
    assert Pretokenizer(pattern).split_exactly("aʕʖ") == expected
    assert tokenizer.decode(tokenizer.encode("aʕʖ")) == "aʕʖ"
    assert Tokenizer.train("ʕ" * 9, 256, pattern=r"\p{Ll}+|\P{Ll}").encode("ʕ") == [*"ʕ".encode()]


@pytest.mark.parametrize("pattern", [r"\p{Latin}+", r"[\p{Script=Latin}]+", r"[^\P{Latin}]+"])
def test_a_script_has_a_character_of_another_category(pattern: str) -> None:
    assert Pretokenizer(pattern).split_exactly("aʕb 1") == ["aʕb", " 1"]


@pytest.mark.parametrize("code", [0x323B0, 0x1E6C0, 0x10940, 0x295])
def test_a_range_has_characters_of_later_versions(code: int) -> None:
    for pattern in (f"[\\U{code - 1:08x}-\\U{code + 1:08x}]+", f"[{chr(code)}-\U0003fffd]+"):
        assert Pretokenizer(pattern).split_exactly(f"a{chr(code)}b") == ["a", chr(code), "b"]


@pytest.fixture
def _textbook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the textbook split by bpetite's version of Unicode."""
    split_installed = reference.split

    def split(text: str) -> list[str]:
        pieces, start = [], 0
        for piece in split_installed(with_a_true_digit(text)):
            pieces.append(text[start : start + len(piece)])
            start += len(piece)
        return pieces

    monkeypatch.setattr(reference, "split", split)


textbook = pytest.mark.usefixtures("_textbook")


@python_only
@another_unicode
@textbook
def test_training_counts_the_pieces_of_our_version() -> None:
    tokenizer = Tokenizer.train([CORPUS, "aяb", TEXT], 285)
    assert tokenizer.merges == reference.train([CORPUS, "aяb", TEXT], 285)


@python_only
@another_unicode
@textbook
@pytest.mark.parametrize("before", ["", "aяb яя 1 a b", f"a{DIGIT}b", f"aяb{DIGIT} ", "a1"])
def test_ids_do_not_depend_on_earlier_texts(before: str) -> None:
    merges = reference.train([CORPUS], 285)
    tokenizer = Tokenizer(Vocabulary(merges, {"<|x|>": 256 + len(merges)}, PATTERNS["gpt2"]))
    tokenizer.encode(before)
    expected = reference.encode(CORPUS, merges)
    for _ in range(2):
        assert tokenizer.encode(CORPUS) == expected
        assert tokenizer.encode_ordinary(CORPUS) == expected
        assert tokenizer.count(CORPUS) == len(expected)
        assert tokenizer.encode_batch([TEXT, before, TEXT]) == [
            reference.encode(text, merges) for text in (TEXT, before, TEXT)
        ]
        special = tokenizer.special_tokens
        text = f"{TEXT}<|x|>{before}<|x|>я"
        assert tokenizer.encode(text) == reference.encode(text, merges, special)
        assert tokenizer.count(text) == len(tokenizer.encode(text))


@python_only
@another_unicode
@textbook
@pytest.mark.parametrize("offset", [0, 1, 4094, 4095, 4096, 4097, 8191, 9000])
def test_ids_are_the_same_in_whichever_block_the_character_is(offset: int) -> None:
    merges = reference.train([TEXT], 270)
    text = ("яb a1 " * 2000)[:offset] + f"a{DIGIT}b" + "яb a1 " * 700
    tokenizer = Tokenizer(Vocabulary(merges, {}, PATTERNS["gpt2"]))
    assert tokenizer.encode(text) == reference.encode(text, merges)
    assert tokenizer.count(text) == len(reference.encode(text, merges))


def cache_of(tokenizer: Tokenizer) -> Any:
    """Return the cached pieces of the Python engine."""
    encoder: Any = tokenizer._encoders.usual
    return encoder._encoder


@python_only
@another_unicode
def test_a_piece_that_needs_a_resplit_is_never_cached() -> None:
    tokenizer = Tokenizer.train(CORPUS, 285)
    for text in (CORPUS, f"a{DIGIT}b", DIGIT, f" {DIGIT}", "яя aяb"):
        tokenizer.encode(text)
        tokenizer.count(text)
    cached = list(cache_of(tokenizer))
    assert "яя" in cached
    assert [piece for piece in cached if DIGIT in piece] == []


@python_only
def test_no_character_of_a_cached_piece_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    tokenizer = Tokenizer.train("яя aяb яя", 270)

    def needs_resplit(piece: str) -> bool:
        asked.append(piece)
        return False

    monkeypatch.setattr(cache_of(tokenizer), "_needs_resplit", needs_resplit)
    for _ in range(3):
        tokenizer.encode("яя aяb яя яя" * 100)
        tokenizer.count("яя aяb яя яя" * 100)
    assert sorted(asked) == sorted(cache_of(tokenizer))
    assert len(asked) == len(set(asked)) < 10


@python_only
def test_training_looks_at_each_distinct_piece_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def needs_resplit(piece: str) -> bool:
        asked.append(piece)
        return False

    monkeypatch.setattr(Pretokenizer, "needs_resplit", staticmethod(needs_resplit))
    Tokenizer.train(["яя aяb яя " * 2000] * 3, 270)
    assert sorted(asked) == sorted({"яя", " aяb", " яя", " "})


@python_only
def test_ascii_pieces_skip_the_cache_of_characters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = _unicode._Differs()
    monkeypatch.setattr(_unicode, "_differs", known)
    tokenizer = Tokenizer.train("ab cd", 258)
    tokenizer.encode("some words, 123!\n")
    assert dict(known) == {}
    tokenizer.encode("naïve")
    assert dict(known) == dict.fromkeys("naïve", False)
    assert len(cache_of(tokenizer)) <= _encoder._MAX_CACHE_UNITS


# Characters that the installed `regex` puts into another category


@some_names
def test_training_on_such_characters_matches_the_textbook(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Takes the pieces from tokenizers."""
    characters = differing()[::50] or ["é"]
    documents = ["aяb я1 " + "".join(map(contexts, characters)), "".join(characters) * 2, "aяb я1 "]
    monkeypatch.setattr(reference, "split", split_of(PATTERNS[name]))
    expected = reference.train(documents, 300)
    assert Tokenizer.train(documents, 300, pattern=name).merges == expected
    assert Tokenizer.train(documents[::-1], 300, pattern=name).merges == expected
