"""The automaton of a pattern finds the pieces that `regex` finds, or refuses the pattern."""

from __future__ import annotations

import random
import time
from array import array
from collections import Counter
from functools import cache, partial
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.engines import native_only
from support.examples import few_at_first, few_examples, slow_except
from support.patterns import MODEL_PATTERNS
from support.times import best_time

from bpetite import PATTERNS, PieceCounts, Tokenizer
from bpetite._automaton import automaton_of
from bpetite._pattern_tree import NoTreeError, byte_tree, pattern_tree
from bpetite._pretokenizer import TIKTOKEN_CL100K, Pretokenizer
from bpetite._unicode.byte_characters import to_characters
from bpetite._vocabulary import Vocabulary
from bpetite.analysis._pipeline import pipeline_of
from bpetite.formats._portable_regex import to_portable
from conftest import TEXTS

pytestmark = native_only

QWEN_35 = MODEL_PATTERNS["qwen3.5"]

# CohereLabs/tiny-aya-base, tokenizer.json: digits in threes from the right, where no word follows
TINY_AYA = (
    to_portable(r"\d{1,3}(?=(?:\d{3})*\b)"),
    PATTERNS["o200k"],
)

# The second stage of SuperBPE: a piece ends between digits, before each three of the last ones.
BETWEEN_DIGITS = r"[\s\S](?:(?!(?:\d{3})+(?!\d))[\s\S])*"

SERVED = {
    **PATTERNS,
    "tiktoken's cl100k": TIKTOKEN_CL100K,
    **MODEL_PATTERNS,
    "digits": r"\p{N}+",
    "lines": r"[^\n]+|[\n]+",
    "three digits": "[0-9][0-9][0-9]",
    "fails at its third character": r"[ab]{2}\s|b\d\d|中文",
    "counted": r"\p{Lu}{2,3}?|\w{0}[a-z]{2}|[\s\S]".replace(r"\w{0}", ""),
    # One match after another: the text after a match or a gap is read again.
    "far after an end": r"a+b|a|\s+'|[^a]",
    "far after a beginning": r"[a-z]{2}\p{Lu}+s|\s{3}\S|\p{N}+[.,]",
    # A place sees what follows from the text after it.
    "digits from the right": TINY_AYA[0],
    "between digits": BETWEEN_DIGITS,
    "letters that are not all a": r"(?![aA]+\s)\p{L}+|[\s\S]",
}

QUICKLY = (
    *("gpt2", "o200k", "qwen3.5", "bloom", "counted", "far after an end"),
    *("far after a beginning", "digits from the right", "between digits"),
)
"""The patterns of a quick run where each pattern takes long."""

by_pattern = pytest.mark.parametrize("pattern", SERVED.values(), ids=SERVED)

CHARACTERS = (
    "aAbBsStTlLdDzZéÉßǅʰªıſK\u0301\u0903中文カ한'’ \t\r\n\u00a0\u0085\u2028\u3000\u200b\ufeff"
    "09٣²½Ⅻ.,;!?/\\-_#🙂𝐀𐐀𐐨\U000e0100\ue000\u0378\x00\x1c"
)

nasty_texts = st.text(st.sampled_from(CHARACTERS), max_size=40)


@cache
def automaton(pattern: str) -> Any:
    from bpetite._engine import _native, native

    return _native.Automaton([pattern_tree(pattern)], False, native._NAME_OF_PATTERN.get(pattern))


def ends_of(automaton: Any, *texts: str) -> list[int]:
    """Return where the pieces of texts side by side end, in bytes, by all instruction sets."""
    text_ends = [*accumulate(len(text.encode()) for text in texts)]
    first, *others = automaton.ends("".join(texts), text_ends)
    assert others == len(others) * [first]
    return [*first]


def pieces(pattern: str, text: str) -> list[str]:
    """Return the pieces that the automaton finds."""
    data, ends = text.encode(), ends_of(automaton(pattern), text)
    return [data[start:end].decode() for start, end in pairwise([0, *ends])]


def expected(pattern: str, text: str) -> list[str]:
    return Pretokenizer(pattern).split_exactly(text)


@cache
def several(*patterns: str) -> Any:
    """Return the one automaton of patterns in turn."""
    from bpetite._engine import _native

    return _native.Automaton([*map(pattern_tree, patterns)])


def ends_by_regex(patterns: tuple[str, ...], text: str) -> list[int]:
    """Return where pieces end, in bytes."""
    found = Pretokenizer(*patterns).split_exactly(text)
    return [*accumulate(len(piece.encode()) for piece in found)]


@by_pattern
@given(text=nasty_texts)
def test_pieces_match_regex(pattern: str, text: str) -> None:
    assert pieces(pattern, text) == expected(pattern, text)


@by_pattern
def test_pieces_of_texts_match_regex(pattern: str) -> None:
    for text in TEXTS.values():
        assert pieces(pattern, text) == expected(pattern, text)


def long_text(seed: int, kinds: str) -> str:
    """Return a text in which several parts are followed at a time."""
    rng = random.Random(seed)
    return "".join(
        kind * rng.choice([1, 1, 2, rng.randrange(40)]) for kind in rng.choices(kinds, k=900)
    )


long_texts = st.builds(
    long_text, st.integers(0, 1 << 32), st.text(CHARACTERS, min_size=1, max_size=9)
)


@by_pattern
@few_examples
@given(text=long_texts)
def test_pieces_of_long_texts_match_regex(pattern: str, text: str) -> None:
    if r"\d{3})" in pattern:
        text = text[:900]  # `regex` reads all digits after each
    assert pieces(pattern, text) == expected(pattern, text)


@by_pattern
@pytest.mark.parametrize(("before", "behind"), [("", ""), ("a", "b"), (" ", "1"), ("'", "\n")])
@pytest.mark.slow
def test_pieces_with_each_character_match_regex(pattern: str, before: str, behind: str) -> None:
    codes = [*range(0xD800), *range(0xE000, 0x32000), *range(0xE0000, 0xE0200), 0x10FFFF]
    text = "".join(f"{before}{chr(code)}{behind}" for code in codes)
    assert pieces(pattern, text) == expected(pattern, text)


# Patterns of all kinds

sets = st.sampled_from(
    ["a", "b", r"\n", " ", "'", r"\s", r"\S", r"\p{L}", r"\p{Lu}", r"\P{L}", r"\p{N}", r"\d",
     "[ab]", r"[^\s\p{L}]", r"[^\r\n]", r"[\p{Ll}\p{M}]", r"[a-z]", r"[^a]", "é", "中", r"\p{M}"]
)  # fmt: skip
far_looks = st.builds("{}{}{}".format, sets, st.sampled_from(["*", "+", "{3}", ""]), sets)
looks = st.builds("(?{}{})".format, st.sampled_from("=!"), sets | far_looks)
suffixes = st.sampled_from(["", "*", "+", "?", "{2}", "{1,3}", "{2,}", "*?", "+?", "??", "{0,2}?"])


def combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    group = st.lists(inner, min_size=1, max_size=3).map("|".join).map("(?:{})".format)
    atoms = st.one_of(sets, sets, group)
    return st.lists(
        st.one_of(st.builds("{}{}".format, atoms, suffixes), looks), min_size=1, max_size=4
    ).map("".join)


patterns = st.lists(st.recursive(sets, combined, max_leaves=12), min_size=1, max_size=4)
any_pattern = patterns.map("|".join)

FIRSTS = [r"\p{N}", r"\p{N}{1,3}", r"\p{N}+", r"[\r\n]", r"\p{L}+", r"\s+", r"[^\n]+|\n+"]
"""Patterns that often come before others."""


@given(patterns, st.booleans(), st.lists(nasty_texts, min_size=1, max_size=8))
def test_any_pattern_is_followed_exactly_or_refused(
    alternatives: list[str], has_rest: bool, texts: list[str]
) -> None:
    pattern = "|".join(alternatives + [r"[\s\S]"] * has_rest)
    try:
        automaton(pattern)
    except ValueError:
        assume(False)
    for text in texts:
        assert pieces(pattern, text) == expected(pattern, text)


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 128, 200, 8_190, 8_191, 8_192, 30_000])
def test_digits_are_counted_from_the_end_of_a_long_run(count: int) -> None:
    """The run goes through many blocks of the text."""
    threes = [count % 3 * "7"] * (count % 3 > 0) + count // 3 * ["777"]
    find = partial(pieces, TINY_AYA[0])
    assert find(count * "7") == threes
    assert find("x " + count * "7" + " a") == ["x ", *threes, " a"]
    assert find(count * "7" + "a") == [count * "7" + "a"]
    assert find(count * "7" + ", " + count * "7") == [*threes, ", ", *threes]
    assert find((count - 1) * "7" + "٣") == [*threes[:-1], threes[-1][:-1] + "٣"]


# Several patterns in turn

CJK = "[一-龥\u3040-ゟ゠-ヿ]+"
IN_TURN = {
    "DeepSeek V3": (r"\p{N}{1,3}", CJK, MODEL_PATTERNS["deepseek-v3"]),
    "StarCoder": (r"\p{N}", PATTERNS["gpt2"]),
    "MiniCPM": (r"\p{N}{1,3}", PATTERNS["cl100k"]),
    "Laguna": (r"[^\n]+|[\n]+", PATTERNS["qwen2"]),
    "numbers of any length": (r"\p{N}+", PATTERNS["o200k"]),
    "Tiny Aya": TINY_AYA,
    "Falcon's digits": (r"\p{N}+", "[0-9][0-9][0-9]"),
    "runs that a later pattern splits": (r"[ab]+", r"\p{L}", r"\s+"),
    "DeepSeek Coder": (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK, r"\p{N}"),
    "Viking": (MODEL_PATTERNS["bloom"], r"\p{N}"),
    "SuperBPE": (r"\p{N}+", BETWEEN_DIGITS),
    "numbers that are split again": (r"\p{N}{1,3}", r"[0-2]|\p{L}+", r"\s?\p{L}"),
}
"""Patterns of models, and hard ones. Those from DeepSeek Coder on need several automata."""


def in_turn(patterns: tuple[str, ...]) -> Tokenizer:
    """Return a tokenizer with a token for each pair of bytes, so that each end of a piece shows."""
    pairs = [(left, right) for left in range(256) for right in b"aA 19.\n\xb8"]
    return Tokenizer(Vocabulary(tuple(pairs), {}, patterns[0], more_patterns=patterns[1:]))


def ids_by_regex(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the ids of the pieces that `regex` finds."""
    encoder = tokenizer._encoders.usual
    found = Pretokenizer(*tokenizer.patterns).split_exactly(text)
    return [id for piece in found for id in encoder.merge(piece.encode())]


@pytest.mark.parametrize("name", IN_TURN)
@few_examples
@given(text=nasty_texts | long_texts)
def test_patterns_in_turn_split_as_regex_does(name: str, text: str) -> None:
    tokenizer = in_turn(IN_TURN[name])
    if name in ("Tiny Aya", "SuperBPE"):
        text = text[:30]  # `regex` reads all digits after each
    assert type(tokenizer._encoders.usual).__module__ == "bpetite._engine._native"
    ids = ids_by_regex(tokenizer, text)
    assert tokenizer.encode_ordinary(text) == ids
    text = (text * 40)[:10_000]
    ids = ids_by_regex(tokenizer, text)
    assert tokenizer.encode(text, dtype="uint32", threads=3).tolist() == ids
    assert tokenizer.count(text) == len(ids)
    halves = [text[:77], text[77:]]
    assert tokenizer.encode_parts(halves)[0] == ids
    ends = array("q", accumulate((len(half.encode()) for half in halves), initial=0))
    found = tokenizer.encode_buffer(text.encode(), ends)[0].tolist()
    assert found == [id for half in halves for id in ids_by_regex(tokenizer, half)]


@pytest.mark.parametrize("name", [*IN_TURN][:8])
@few_examples
@given(text=nasty_texts)
def test_patterns_of_one_automaton_split_safely(name: str, text: str) -> None:
    found = several(*IN_TURN[name])
    assert ends_of(found, text) == ends_by_regex(IN_TURN[name], text)
    data = text.encode()
    for at in found.safe_splits(text):
        sides = (ends_by_regex(IN_TURN[name], each.decode()) for each in (data[:at], data[at:]))
        head, tail = sides
        assert [*head, *(at + end for end in tail)] == ends_by_regex(IN_TURN[name], text)


WORDS = ["the", "Then", " of", "'s", "'ll", "'LL", "12345", "  ", "    ", "!\n\n/", "\n "]


@pytest.mark.parametrize(
    "patterns",
    [*((each,) for each in SERVED.values()), *[*IN_TURN.values()][:7]],
    ids=[*SERVED, *[*IN_TURN][:7]],
)
def test_texts_side_by_side_have_the_pieces_of_each(patterns: tuple[str, ...]) -> None:
    found = automaton(*patterns) if len(patterns) == 1 else several(*patterns)
    rng = random.Random(len(patterns[0]))
    for most in [*30 * [2, 40], 3_000]:
        texts = [
            "".join(rng.choices([*CHARACTERS, *WORDS], k=rng.randrange(most))) for _ in range(6)
        ]
        if any(r"\d{3})" in pattern for pattern in patterns):
            texts = [text[:30] for text in texts]  # `regex` reads all digits behind each
        ends, start = list[int](), 0
        for text in texts:
            ends += (start + end for end in ends_by_regex(patterns, text))
            start += len(text.encode())
        assert ends_of(found, *texts) == ends


@few_at_first
@given(st.lists(st.sampled_from(FIRSTS) | any_pattern, min_size=2, max_size=3), nasty_texts)
def test_any_patterns_in_turn_have_one_automaton_or_are_refused(each: list[str], text: str) -> None:
    try:
        found = several(*each)
    except ValueError:
        assume(False)
    assert ends_of(found, text) == ends_by_regex(tuple(each), text)


@given(any_pattern | st.just("[0-9][0-9][0-9]"), nasty_texts)
def test_bytes_are_split_as_regex_splits_their_characters(pattern: str, text: str) -> None:
    from bpetite._engine import _native

    try:
        found = _native.Automaton([byte_tree(pattern)], of_bytes=True)
    except ValueError:
        assume(False)
    characters = to_characters(text.encode())
    lengths = map(len, Pretokenizer(pattern).split_exactly(characters))
    assert ends_of(found, text) == [*accumulate(lengths)]


def test_words_before_numbers_are_split_safely_too() -> None:
    found = several(*IN_TURN["StarCoder"])
    assert len(found.safe_splits("some words\nand 12 more")) >= 4


# Safe splits


@by_pattern
@few_examples
@given(text=nasty_texts)
def test_both_sides_of_a_safe_split_have_the_pieces_of_the_whole(pattern: str, text: str) -> None:
    whole, data = pieces(pattern, text), text.encode()
    for at in automaton(pattern).safe_splits(text):
        head, tail = data[:at].decode(), data[at:].decode()
        assert pieces(pattern, head) + pieces(pattern, tail) == whole


# Refusals


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"\w+|\W", "engines read differently"),
        (r"(?<=a)b|[\s\S]", "it looks behind"),
        (r"[ab](?<=a)b|[\s\S]", "it looks behind"),
        (r"a(?<=ba)b|[\s\S]", "it looks behind at more than one character"),
        (r"^a|[\s\S]", "it has \\^"),
        (r"a\b|[\s\S]", r"it has \\b"),
        (r"(a)\1|[\s\S]", r"it has \\1"),
        (r"\p{Greek}+|[\s\S]", "no general category"),
        (r"(?i:[a-z])|[\s\S]", "i, without case"),
        (r"(?i:[é])|[\s\S]", "other letters than those of ASCII"),
        (r"(?:ab)++|[\s\S]", "possessive quantifier of more than one"),
        (r"(?s:.)+", "it has a group"),
        (r"(?:a*)*b|[\s\S]", "repeats what may be empty"),
        (r"[^\s\S]|b|\s", "a set of nothing"),
        (r"a{2000}|[\s\S]", "more than 1000 times"),
        (r"a{2,1}+|[\s\S]", "at least 2 and at most 1"),
    ],
)
def test_a_tree_is_refused_with_the_reason(pattern: str, reason: str) -> None:
    with pytest.raises(NoTreeError, match=reason):
        pattern_tree(pattern)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"a*", "match the empty string"),
        (r"a(?=b(?=c)d(?=ef))|[\s\S]", "a look-ahead within another"),
        (r"a+b(?=cc)|[\s\S]", "finds ends late"),
        (r"c(?=[ab]{9}a)|[\s\S]", "looks ahead too far"),
        (r"(?:a|b){0,30}a(?:a|b){14}|[\s\S]", "too large"),
        (r"(?:a{1,20}){1,25}b|[\s\S]", "too large"),
        ("|".join(f"{chr(code)}{chr(code + 1)}" for code in range(0x4E00, 0x4E50, 2)), "64 kinds"),
    ],
)
def test_an_automaton_is_refused_with_the_reason(pattern: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        automaton(pattern)


def test_too_many_patterns_in_turn_are_split_by_regex() -> None:
    patterns = tuple(f"{chr(97 + number)}+" for number in range(17))
    tokenizer = Tokenizer(Vocabulary((), {}, patterns[0], more_patterns=patterns[1:]))
    assert pipeline_of(tokenizer).regex_reason == "it has more than 16 patterns in turn"
    assert tokenizer.encode("aab") == [97, 97, 98]


# Time


UNITS = ("a", "A", " ", "\n", "1", "é", "\r \n", " \n", "a ", "A\u0301", "'s", ".", "中", "/\n")


@pytest.mark.parametrize("name", slow_except(SERVED, *QUICKLY))
def test_time_is_linear_in_the_text(name: str) -> None:
    find = partial(ends_of, automaton(SERVED[name]))

    def seconds(unit: str, size: int, enough: float) -> float:
        text = unit * (size // len(unit.encode()))

        def once() -> float:
            begin = time.process_time()
            find(text)
            return time.process_time() - begin

        return best_time(once, enough)

    # The list of ends grows a little faster than the text. Squares would take 256 times as long.
    for unit in UNITS:
        limit = 96 * max(seconds(unit, 8_000, 0), 1e-4)
        assert seconds(unit, 128_000, limit) < limit, unit


def test_time_is_linear_in_the_patterns() -> None:
    """A file may have many patterns, although no automaton takes two of them."""
    from bpetite._engine import native

    others = "".join(f"{chr(0x4E00 + 3 * number)}|" for number in range(20))

    def seconds(count: int) -> float:
        patterns = [f"{others}a{{{200 - number}}}b{{200}}|[\\s\\S]" for number in range(count)]
        begin = time.process_time()
        assert len(native.native_splitters_of.__wrapped__(*patterns)[0]) == count
        return time.process_time() - begin

    limit = 9 * best_time(lambda: seconds(3), 0)
    assert best_time(lambda: seconds(12), limit) < limit


def test_time_is_linear_in_the_characters_of_a_pattern() -> None:
    def seconds(count: int) -> float:
        pattern = "|".join(chr(0x4E00 + number) for number in range(count)) + r"|[\s\S]"
        begin = time.process_time()
        assert automaton_of.__wrapped__(pattern, 200) is None
        return time.process_time() - begin

    limit = 9 * best_time(lambda: seconds(2000), 0)
    assert best_time(lambda: seconds(8000), limit) < limit


@pytest.mark.parametrize("empty", ["|", "a{0}"])
def test_parts_without_a_character_count_too(empty: str) -> None:
    begin = time.process_time()
    assert automaton_of(f"c|(?:(?:{11_000 * empty})b){{999}}|[\\s\\S]") is None
    assert time.process_time() - begin < 5


def test_a_long_chain_of_states_becomes_no_table() -> None:
    """Its states are compared as often as it is long."""
    any = "[^a]{999}"
    chains = (3 * any + "[^a]{1,903}", 2 * any + "[^a]{1,999}", any + "[^a]{1,999}", "[^a]{1,999}")
    begin = time.process_time()
    automaton("|".join(["b|c|d|e|f|g|h|i", *chains, r"[\s\S]"]))
    assert time.process_time() - begin < 3


def test_time_of_a_tree_is_linear_in_the_depth_of_its_groups() -> None:
    begin = time.process_time()
    pattern_tree("b(?<=b)" + 60 * "(?:" + "a" + 60 * "b)+")
    assert time.process_time() - begin < 1  # twice the time for each group would be years


# Vocabularies


def test_pieces_counted_by_an_automaton_match_regex() -> None:
    counted = PieceCounts.from_corpus([*TEXTS.values()], pattern=QWEN_35)
    pieces_of_all = (piece for text in TEXTS.values() for piece in expected(QWEN_35, text))
    assert dict(counted.items()) == Counter(pieces_of_all)
