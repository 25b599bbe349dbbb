"""Patterns split text into pieces: the named patterns, and a user's own."""

from __future__ import annotations

import importlib
import inspect
import itertools
import os
import random
import re
import signal
import subprocess
import sys
import unicodedata
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from time import process_time
from typing import Any

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from support.engines import once, quick_once
from support.examples import slow_except
from support.peers import as_tiktoken, split_of
from support.programs import variables

from bpetite import Tokenizer
from bpetite._corpus import _READ_BYTES
from bpetite._pretokenizer import PATTERNS, Pretokenizer, portable_pattern
from bpetite._vocabulary import Vocabulary
from conftest import TEXTS

NAMES = list(PATTERNS)

every_name = pytest.mark.parametrize("name", NAMES)
some_names = pytest.mark.parametrize("name", slow_except(NAMES, "gpt2", "o200k"))

ALPHABET = [
    *" \t\n\r\x0b\x0c\x85\xa0\u1680\u2003\u2028\u3000\x1c",
    *"/'’.-_!?,\u200b\ufeff\x00<|",
    *"asStTrReEvVmMlLdDzZ",
    *"éÉßſKﬁǅʰªאعह你日한ა𝔘",
    *"0159½²Ⅳ٣१０𝟘〇一",
    *"\u0301\u093e\u20dd\ufe0f\u200d",
    *"🙂👩🏽🇩©+=$€",
    "\r\n", "  ", "//", "\n/", "'s", "'S", "'ſ", "'re", "'VE", "'Ll", "'d", "'M", "don't", "123",
]  # fmt: skip
"""Kinds of text to patterns: white space, symbols, letters, digits, marks, contractions."""

texts = st.lists(st.sampled_from(ALPHABET), max_size=40).map("".join)

mixed = random.Random(5)
MIXED = ["".join(mixed.choices(ALPHABET, k=length)) for length in range(0, 4000, 100)]
"""Random texts of these characters, the same in each run."""

DIGITS = "".join(
    chr(code) for code in range(sys.maxunicode) if unicodedata.category(chr(code)) == "Nd"
)

RUNS = [
    (character * length)[:length]
    for character in [*" \n\r\t\u2003aZéßʰ你٣1½-/'\u0301🙂\u200b", "\r\n", " \n", "'s", "aB", "a1"]
    for length in (1, 2, 3, 5, 129, 5000)
]

LINES = [
    f"a{end}b {end} c{end * 3}/d.{end}/{end}!{end}"
    for end in [*"\n\r\x85\u2028", "\r\n", "\n\r", "\r\r\n", "\x0b\n", " \n ", "\t\r\n\t"]
]


def shortened(pieces: list[str]) -> list[str]:
    """Return the beginning of some pieces, for a message."""
    return [piece[:20] for piece in pieces[:50]]


@pytest.fixture(scope="session")
def inputs(real_texts: list[str]) -> list[str]:
    """Texts on which implementations are compared."""
    return [*MIXED, *RUNS, *LINES, DIGITS, " ".join(DIGITS), "\n".join(real_texts)[:40_000]]


@cache
def pretokenizer(name: str) -> Pretokenizer:
    return Pretokenizer(portable_pattern(name))


@cache
def trained(pattern: str) -> Tokenizer:
    corpus = [
        inspect.getsource(random)[:9000],
        *MIXED[::2],
        DIGITS,
        "1234 5678 'S 'll\r\n\r\n" * 30,
    ]
    return Tokenizer.train(corpus, 500, pattern=pattern)


# The pieces


@every_name
def test_a_name_stands_for_its_pattern(name: str) -> None:
    assert Tokenizer.train("", 256, pattern=name).patterns[0] == PATTERNS[name]


def split_in_chunks(cutter: Pretokenizer, text: str, cuts: list[int]) -> list[str]:
    """Return the pieces of a text that comes in chunks."""
    bounds = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    chunks = [text[start:end] for start, end in pairwise(bounds)]
    return list(chain.from_iterable(map(cutter.split, cutter.blocks_of_chunks(chunks))))


@once
@every_name
@given(text=texts, cuts=st.lists(st.integers(0, 60), max_size=12))
def test_the_pieces_do_not_depend_on_the_chunks(name: str, text: str, cuts: list[int]) -> None:
    assert split_in_chunks(pretokenizer(name), text, cuts) == pretokenizer(name).split(text)


@once
@some_names
def test_short_texts_have_their_pieces_in_any_two_chunks(name: str) -> None:
    """All texts of four of these characters, in two chunks in every way."""
    cutter = pretokenizer(name)
    for characters in itertools.product(" \n\r/a.1'", repeat=4):
        text = "".join(characters)
        pieces = cutter.split(text)
        for cut in range(5):
            assert split_in_chunks(cutter, text, [cut]) == pieces, (text, cut)


@once
@some_names
def test_a_long_text_is_cut_block_by_block_into_its_pieces(name: str, inputs: list[str]) -> None:
    cutter = pretokenizer(name)
    text = "".join(inputs)
    assert list(chain.from_iterable(map(cutter.split, cutter.blocks(text)))) == cutter.split(text)


# Two other implementations


def tiktokens_pattern(name: str) -> str:
    """Return the pattern that tiktoken makes an Encoding with."""
    module = importlib.import_module("tiktoken_ext.openai_public")
    if name == "gpt2":
        return str(module.r50k_pat_str)
    source = inspect.getsource(getattr(module, f"{name}_base"))
    return "|".join(re.findall(r'r"""(.*?)"""', source, re.DOTALL))


@cache
def tiktoken_of(name: str) -> tiktoken.Encoding:
    return as_tiktoken(trained(name), tiktokens_pattern(name))


def test_comparisons_use_tiktokens_own_patterns() -> None:
    """Tiktoken's patterns have possessive quantifiers, and our portable ones have none."""
    assert "++" in tiktokens_pattern("gpt2")
    assert "++" in tiktokens_pattern("cl100k")
    assert r"[\r\n/]*" in tiktokens_pattern("o200k")


in_tiktoken = pytest.mark.parametrize("name", ["gpt2", "cl100k", "o200k"])


@in_tiktoken
def test_ids_are_tiktokens(name: str, inputs: list[str]) -> None:
    encode = trained(name).encode_ordinary
    theirs = tiktoken_of(name)
    for text in inputs:
        ours = encode(text)
        assert ours == theirs.encode_ordinary(text), ascii(text[:80])


@in_tiktoken
@given(text=texts)
def test_ids_of_any_text_are_tiktokens(name: str, text: str) -> None:
    assert trained(name).encode_ordinary(text) == tiktoken_of(name).encode_ordinary(text)


@once
@pytest.mark.parametrize("name", slow_except(NAMES, "gpt2", "o200k", "words"))
def test_pieces_match_tokenizers(name: str, inputs: list[str]) -> None:
    split = split_of(PATTERNS[name])
    for text in inputs:
        pieces = pretokenizer(name).split_exactly(text)
        assert pieces == split(text), (ascii(text[:80]), shortened(pieces))


@once
@every_name
@given(text=texts)
def test_pieces_of_any_text_match_tokenizers(name: str, text: str) -> None:
    assert pretokenizer(name).split_exactly(text) == split_of(PATTERNS[name])(text)


# One's own

OWN = [
    r"[a-z]+",
    r"\S+|\s+",
    r"(a|b)(c)?",
    r"(?P<word>\w+)|(\W)",
    r".",
    r"\d{1,3}(?=(?:\d{3})*\b)",
    r"(?i)[a-e]+",
    "ab",
]


@pytest.mark.parametrize("pattern", slow_except(OWN, OWN[0], OWN[3], OWN[5]))
def test_texts_come_back_whatever_the_pattern(pattern: str) -> None:
    tokenizer, texts = trained(pattern), [*TEXTS.values()]
    ids = [tokenizer.encode(text) for text in texts]
    assert tokenizer.decode_batch(ids) == texts
    assert [tokenizer.count(text) for text in texts] == [*map(len, ids)]
    assert tokenizer.encode_batch(texts) == ids


@once
@pytest.mark.parametrize("pattern", [OWN[0], OWN[1], OWN[2], OWN[4], OWN[6], OWN[7], "(a)|[b ]{2}"])
def test_pieces_of_ones_own_pattern_match_tokenizers(pattern: str, inputs: list[str]) -> None:
    """Tokenizers keeps unmatched text, too."""
    for text in inputs[:-1]:
        assert Pretokenizer(pattern).split(text) == split_of(pattern)(text), ascii(text[:80])


# Refused


@pytest.mark.parametrize("pattern", ["a(", "[a", "*", "(?P<x", r"\p{Nonsense}", "a{2,1}", "(?<"])
def test_a_pattern_that_does_not_compile_is_refused(pattern: str) -> None:
    with pytest.raises(
        ValueError, match=r"neither one of gpt2, .* nor a regular expression: "
    ) as e:
        Tokenizer.train("ab", 256, pattern=pattern)
    assert repr(pattern) in str(e.value)


@pytest.mark.parametrize("pattern", ["GPT2 (", "cl100k_base["])
def test_a_name_that_is_nearly_one_is_told_the_names(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"gpt2, cl100k, .*, kimi-k2, words"):
        Tokenizer.train("ab", 256, pattern=pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        *("a*", "(?=a)", "", r"\b", "a|", "(?:)", "$", "x?", r"\s*", "^"),
        *("(?=q)|.", r"\d+|(?=q)", r"\w+|(?<=q)1?"),  # at some character
    ],
)
def test_a_pattern_that_matches_the_empty_string_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="can match the empty string") as error:
        Tokenizer.train("ab", 256, pattern=pattern)
    assert repr(pattern) in str(error.value)


@pytest.mark.parametrize(
    ("pattern", "place"),
    [
        ("a++", 1), ("a*+b", 1), ("a?+b", 1), ("ba{2}+", 2), ("ba{2,}+", 2), ("ba{2,3}+", 2),
        ("ba{,3}+c", 2), ("(?>a)", 0), ("x(?>a|b)", 1), (r"\++a++", 4), ("[*+]++", 4),
        (r"\p{L}++", 5), (r"\s++|a", 2), (r"[^\]+]++", 6), ("(?:a)++", 5), (r"a|[\]]*+b", 6),
        (r"\\++", 2), ("[]]++", 3), ("[^]]*+", 4), ("[]a]?+b", 4), (r"[]\]]{2}+", 5),
        ("[]*+]++", 5), ("[[:alpha:]]++", 11),
    ],
)  # fmt: skip
def test_items_that_engines_read_differently_are_refused(pattern: str, place: int) -> None:
    with pytest.raises(ValueError, match=f"atomic group at position {place}, ") as error:
        Tokenizer.train("ab", 256, pattern=pattern)
    assert repr(pattern) in str(error.value)


@pytest.mark.parametrize(
    ("pattern", "place"),
    [
        ("(?x)a+ +", 5), ("(?x)a{2}\n+b", 5), ("(?x)a* # more\n +b", 5), ("(?x)a{2 }+", 5),
        ("(?x:a+ +)b", 5), ("(?ix)a? \t+", 6), ("(?x) # (\n a++", 11),
        ("(?x)(?-x:a+ +)b+ +", 15), ("(?V1x)[[a]#]+ +", 12),
    ],
)  # fmt: skip
def test_skipped_space_does_not_hide_a_possessive_quantifier(pattern: str, place: int) -> None:
    with pytest.raises(ValueError, match=f"atomic group at position {place}, "):
        Tokenizer.train("ab", 256, pattern=pattern)


def test_a_pattern_has_at_most_100000_items() -> None:
    assert portable_pattern("(?:a{998}){99}b{99}") == "(?:a{998}){99}b{99}"
    with pytest.raises(ValueError, match="longer than 100000 items at position 15"):
        portable_pattern("(?:a{998}){99}b{100}")


@pytest.mark.parametrize("count", [" {999}", "{9 99}", "{#1\n999 }"])
def test_skipped_space_does_not_hide_a_large_count(count: str) -> None:
    with pytest.raises(ValueError, match="longer than 100000 items"):
        Tokenizer.train("ab", 256, pattern=f"(?x)(?:(?:a{count}){count})")


@pytest.mark.parametrize(
    ("pattern", "place"),
    [
        ("(?x)(? i:a)", 4), (r"(?x)\p {L}a", 4), ("(?x)a\\p{L#}\n}", 5), ("a(?# \\)[)]", 1),
        ("(?x)(a)(?P >x)", 7), ("(?V1)[a--]]", 5),
    ],
)  # fmt: skip
def test_an_item_that_may_be_read_in_two_ways_is_refused(pattern: str, place: int) -> None:
    with pytest.raises(ValueError, match=f"has an item at position {place} that versions of regex"):
        Tokenizer.train("ab", 256, pattern=pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "[*+]+", r"\++", "a{2}b+", r"\*+", r"\?+", "[a+]+", "[?+]b", r"[\]*+]+", "[]*+]+",
        "[^]*+]+", r"\{2\}+", "[{2}+]", r"a+\+", "a+?", "a{2}?b", r"\(?>", "[(?>]+", "(?:a+)+",
        "[[:alpha:]]+", r"\p{L}+", "a{b}+", "[+*]{1,2}", "[]]+", "[]]{2}|[^]]", "[]++]", "[^]?+]",
        "[]{2}+]+", "[](?>]+", r"[]\]++]",
        "[[:alpha:]*+]", "[+[:digit:]++]+", "(?V1)[[a]++]",
        "a+ +", "(?x)a+ b+", r"(?x)a+\ +", "(?x)[a ]+ ", "(?i)a+ +b", "a+ +(?x)", r"\(?x?a+ +b",
        "[(?x]a+ +b", "(?x:a)b+ +c", "(?x)(?-x:a+ +)", "(b(?x)a)a+ +", "(?x)b(?-x)a+ +",
        "a+ (?#x)+b",
    ],
)  # fmt: skip
def test_items_that_only_look_possessive_are_accepted(pattern: str) -> None:
    assert Tokenizer.train("ab", 256, pattern=pattern).patterns[0] == pattern


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"(?r)\w+", "(?r).", "(?r:ab)|c", "a(?r)b", r"(?=ab\K)a|b", r"\w(?=b\K)"),
        *(r"(?:a(?=b\K)|b)", r"(?L)\w+", r"a|(?L)\w"),
    ],
)
def test_a_pattern_that_goes_back_or_needs_a_locale_is_refused(pattern: str) -> None:
    """Such pieces, joined, are not the text, or depend on the machine."""
    with pytest.raises(ValueError, match="the pattern") as error:
        Tokenizer.train("ab", 256, pattern=pattern)
    assert repr(pattern) in str(error.value)


def test_a_set_that_regex_fails_to_compile_is_refused() -> None:
    with pytest.raises(ValueError, match="nor a regular expression"):
        Tokenizer.train("ab", 256, pattern=r"(?iV1)[[^\s\S]~~a]")


@pytest.mark.parametrize("pattern", ["(?V0)a|(?V1)b", "(?a)(?u)x"])
def test_contradicting_flags_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="mutual") as error:
        Tokenizer.train("ab", 256, pattern=pattern)
    assert repr(pattern) in str(error.value)


# A file may have any of them. (?=a\K) matches the same empty string for ever, (?R) calls itself,
# and `regex` writes out a count of a count of a count.
@pytest.mark.parametrize("pattern", [r"(?=a\K)", "(?R)|a", "(?:(?:a{999}){999}){999}"])
def test_a_pattern_that_has_no_end_is_refused_at_once(pattern: str) -> None:
    program = (
        "import sys\n"
        "from bpetite import Tokenizer\n"
        "try:\n"
        "    import resource\n"
        "    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, resource.RLIM_INFINITY))\n"
        "    resource.setrlimit(resource.RLIMIT_CPU, (10, resource.RLIM_INFINITY))\n"
        "except (ImportError, OSError, ValueError):\n"
        "    pass  # no such limit on this system\n"
        "try:\n"
        "    Tokenizer.train('', 256, pattern=sys.argv[1])\n"
        "except ValueError:\n"
        "    print('refused')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, pattern], capture_output=True, check=False, timeout=100
    )
    assert ended.stdout.decode().strip() == "refused"


@pytest.mark.parametrize("pattern", [1, b"gpt2", re.compile("a"), ["gpt2"]], ids=repr)
def test_a_pattern_of_another_type_is_refused(pattern: Any) -> None:
    with pytest.raises(TypeError, match=f"pattern must be a str, got {type(pattern).__name__}"):
        Tokenizer.train("ab", 256, pattern=pattern)


def test_a_pattern_is_checked_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the empty string"):
        Tokenizer.train([tmp_path / "missing"], 256, pattern="a*")


@pytest.mark.skipif(os.name != "posix", reason="an interrupt cannot be sent to one process alone")
def test_a_pattern_that_blows_up_can_be_interrupted() -> None:
    program = (
        "import signal\n"
        "from bpetite import Tokenizer\n"
        # A test run in the background ignores it, and so would its child processes.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "tokenizer = Tokenizer.train('', 256, pattern='(?:xyz|xyzxyz|(?:xyz)+)+$')\n"
        "print('ready', flush=True)\n"
        "try:\n"
        "    tokenizer.encode('xyz' * 40 + 'b')\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=variables()) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"ready\n"
            with pytest.raises(subprocess.TimeoutExpired):  # it is at it
                process.wait(0.2)
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=100)
        finally:
            process.kill()
    assert out == b"interrupted\n"


@quick_once
@pytest.mark.parametrize(
    "pattern",
    slow_except(
        [r"(?:a|a)+b|[\s\S]", "(?:a|aa)+$", "(?:q|q)+r|.", r"(?:\p{L}|[A-Z])+END|."],
        r"(?:a|a)+b|[\s\S]",
    ),
)
def test_a_pattern_that_backtracks_is_refused(pattern: str) -> None:
    start = process_time()
    with pytest.raises(
        ValueError, match=r"backtracks: it needs more than 0\.5 s for the "
    ) as error:
        Tokenizer.train("ab", 256, pattern=pattern)
    assert repr(pattern) in str(error.value)
    assert process_time() - start < 2


def test_white_space_longer_than_a_window_ends_at_its_newline() -> None:
    tokenizer = Tokenizer(Vocabulary(((10, 32),), {}, PATTERNS["cl100k"]))
    assert tokenizer.encode("\n" + " " * 63 + "\ny") == [256, *[32] * 62, 10, 121]


# Training, saving, loading


@pytest.mark.parametrize("pattern", slow_except([*NAMES, *OWN], "gpt2", "o200k", *OWN[:2]))
def test_training_on_files_is_training_on_their_texts(pattern: str, tmp_path: Path) -> None:
    """Every kind of text is at some end of a chunk."""
    unit = "".join(MIXED[2:6])
    text = (unit + " ") * (2 * _READ_BYTES // len(unit.encode()) + 1)
    paths = []
    for number in range(2):
        paths.append(tmp_path / f"{number}.txt")
        paths[-1].write_bytes(text[number:].encode())
    trained = Tokenizer.train(paths, 280, pattern=pattern)
    assert trained == Tokenizer.train([text, text[1:]], 280, pattern=pattern)


@pytest.mark.parametrize("name", ["cl100k_base", "GPT2", "bogus", "qwen-2"])
def test_a_word_that_is_no_name_is_no_pattern_either(name: str) -> None:
    with pytest.raises(ValueError, match=f"no pattern has the name '{name}'; the names are: gpt2"):
        Tokenizer.train("ab", 256, pattern=name)


def test_a_lone_surrogate_in_a_pattern_is_refused() -> None:
    with pytest.raises(ValueError, match="has a lone surrogate"):
        Tokenizer.train("ab", 256, pattern="\ud800|a")


@pytest.mark.parametrize(
    "pattern",
    [
        "[\U00020000-\U0003ffff]+|a+",
        r"[\U00020000-\U0003FFFF]+|a+",
        r"[\N{CJK UNIFIED IDEOGRAPH-20000}-\U0003FFFF]+|a+",
    ],
)
def test_a_range_is_the_same_however_its_ends_are_written(pattern: str) -> None:
    text = "a\U000323b0\U00020000"
    tokenizer = Tokenizer.train([text] * 2, 300, pattern=pattern, special_tokens=())
    assert tokenizer.decode_bytes(tokenizer.encode(text)[1:]) == text[1:].encode()
    assert len(tokenizer.encode(text)) == 2
