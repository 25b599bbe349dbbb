"""tiktoken's ranks: files and Encodings give exactly tiktoken's ids, and go back as they came."""

from __future__ import annotations

import base64
import hashlib
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import tiktoken
import tiktoken.load
from hypothesis import given
from hypothesis import strategies as st
from support import DATA
from support.examples import few_examples, slow_except
from support.refusals import refusal
from support.vocabularies import vocabulary
from tiktoken_ext import openai_public  # type: ignore[import-untyped]

from bpetite import Tokenizer
from bpetite._engine import python
from bpetite._pretokenizer import PATTERNS, TIKTOKEN_CL100K, Pretokenizer
from bpetite._vocabulary import MAX_ID, Vocabulary
from bpetite.formats import _reference, _registry, _tiktoken
from conftest import TEXTS

BYTES = {bytes([byte]): byte for byte in range(256)}

WHOLE = r"[\s\S]+"
"""The pattern of a text that is one piece."""

WORDS = r"[^ ]+| +"


def encoding(
    ranks: Mapping[bytes, int],
    pattern: str = WHOLE,
    special_tokens: Mapping[str, int] | None = None,
) -> tiktoken.Encoding:
    """Return a tiktoken Encoding."""
    return tiktoken.Encoding(
        "test",
        pat_str=pattern,
        mergeable_ranks=dict(ranks),
        special_tokens=dict(special_tokens or {}),
    )


def line(token: bytes, rank: object) -> bytes:
    """Return the line of a token in a .tiktoken file."""
    return base64.b64encode(token) + f" {rank}\n".encode()


def written(path: Path, ranks: Mapping[bytes, int]) -> Path:
    """Write a .tiktoken file, and return its path."""
    path.write_bytes(b"".join(line(token, rank) for token, rank in ranks.items()))
    return path


def ranks_of(tokenizer: Tokenizer, shift: int = 0) -> dict[bytes, int]:
    """Return the tokens of a trained tokenizer as ranks."""
    count = 256 + len(tokenizer.merges)
    return {tokenizer.token_bytes(id): id + shift for id in range(count)}


def read_by_tiktoken(path: Path) -> dict[bytes, int]:
    """Return the ranks that tiktoken reads in a file, which it does not keep for another time."""

    def read(name: str, *_: object) -> bytes:
        return Path(name).read_bytes()

    with patch("tiktoken.load.read_file_cached", read):
        return tiktoken.load.load_tiktoken_bpe(str(path))


SMALL = Tokenizer.train("the hen then met the ten men", 264, special_tokens=["<a>", "<b>"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return one folder for all examples of a property."""
    return tmp_path_factory.mktemp("ranks")


# Ranks and merges


def pieces_of(alphabet: str) -> list[bytes]:
    """Return the single bytes of an alphabet."""
    return [bytes([byte]) for byte in sorted(set(alphabet.encode()))]


@st.composite
def rank_tables(draw: st.DrawFn) -> tuple[dict[bytes, int], list[bytes]]:
    """Return ranks in any order, with tokens that are made of others or not; and the tokens.

    Bytes have ranks below, above or among the others, in any order, with gaps or without.
    """
    pool = pieces_of(draw(st.sampled_from(["a", "ab", "ab ", "aé", "abc", "1a ", "é中"])))
    few = len(pool)
    places = st.integers(0, 99)
    for left, right in draw(st.lists(st.tuples(places, places), max_size=14)):
        token = pool[left % len(pool)] + pool[right % len(pool)]
        if len(token) <= 40 and token not in pool:
            pool.append(token)
    any_bytes = st.lists(st.sampled_from(pool[:few]), min_size=2, max_size=7).map(b"".join)
    pool += [
        token for token in draw(st.lists(any_bytes, max_size=4, unique=True)) if token not in pool
    ]
    lot = random.Random(draw(st.integers(0, 999)))
    tokens = [token for token in pool if len(token) > 1]
    if draw(st.booleans()):
        lot.shuffle(tokens)
    single = list(BYTES)
    if draw(st.booleans()):
        lot.shuffle(single)
    order = draw(st.sampled_from([[*single, *tokens], [*tokens, *single], None]))
    if order is None:
        order = [*single, *tokens]
        lot.shuffle(order)
    highest = draw(st.sampled_from([len(order), 5000, MAX_ID]))
    ids = sorted(lot.sample(range(highest), len(order)))
    return dict(zip(order, ids, strict=True)), pool


@few_examples
@given(
    table=rank_tables(),
    pattern=st.sampled_from([*PATTERNS.values(), WHOLE, WHOLE, WORDS]),
    data=st.data(),
)
def test_ids_are_tiktokens_for_any_ranks(
    table: tuple[dict[bytes, int], list[bytes]], pattern: str, data: st.DataObject
) -> None:
    ranks, pool = table
    library = encoding(ranks, pattern)
    tokenizer = Tokenizer.from_tiktoken(library)
    lists = st.lists(st.lists(st.sampled_from(pool), max_size=12), min_size=1, max_size=8)
    joined = [*map(b"".join, data.draw(lists)), *pool]
    texts = [each.decode("utf-8", "ignore") for each in joined]
    assert tokenizer.encode_batch(texts) == library.encode_batch(texts)


@few_examples
@given(table=rank_tables())
def test_ranks_come_back_as_they_were(table: tuple[dict[bytes, int], list[bytes]]) -> None:
    ranks, _ = table
    tokenizer = Tokenizer(_tiktoken.from_ranks(ranks, {}, WHOLE))
    data = _tiktoken.to_bytes(tokenizer._vocabulary)
    expected = sorted(ranks.items(), key=lambda item: item[1])
    assert data == b"".join(line(token, rank) for token, rank in expected)


def made_of(vocabulary: Vocabulary) -> object:
    """Return all that is known of a vocabulary, in its order."""
    return vocabulary, list(vocabulary.other_tokens), list(vocabulary.ordinary_tokens.items())


@given(table=rank_tables())
def test_ranks_are_read_as_by_the_python_engine(
    table: tuple[dict[bytes, int], list[bytes]],
) -> None:
    ranks, _ = table
    expected = made_of(_tiktoken._from_ranks(ranks, {}, WHOLE))
    assert made_of(_tiktoken.from_ranks(ranks, {}, WHOLE)) == expected


def outcome(path: Path) -> object:
    """Return what a file with WHOLE as its pattern is, or why it is refused."""
    try:
        return made_of(
            Tokenizer.load(path, pattern=WHOLE, special_tokens={}, format="tiktoken")._vocabulary
        )
    except ValueError as error:
        return str(error)


@given(
    table=rank_tables(),
    places=st.lists(st.integers(0, 99), max_size=3),
    others=st.lists(
        st.binary(max_size=3)
        | st.sampled_from([b"\n", b"\r\n", b"=", b" ", b"1", b"YQ== 7\n", b"4294967295", b"99999"]),
        max_size=3,
    ),
)
def test_file_is_read_as_by_the_python_engine(
    folder: Path,
    table: tuple[dict[bytes, int], list[bytes]],
    places: list[int],
    others: list[bytes],
) -> None:
    """Also if some bytes in it are others."""
    path = written(folder / "x.tiktoken", table[0])
    data = path.read_bytes()
    for place, other in zip(places, others, strict=False):
        at = len(data) - min(place, len(data))
        data = data[:at] + other + data[at + len(other) // 2 :]
    path.write_bytes(data)
    with patch.object(_reference.Reference, "encode", side_effect=ImportError):
        found = outcome(path)
        with patch.object(_tiktoken, "ENGINE", python):
            assert found == outcome(path)


@pytest.mark.parametrize(
    ("tokens", "merges", "unmade"),
    [
        ({b"ab": 300, b"abc": 301}, [(b"a", b"b"), (b"ab", b"c")], []),
        # made by what has a higher rank than itself
        ({b"abc": 300, b"ab": 301}, [(b"ab", b"c"), (b"a", b"b")], []),
        ({b"abcd": 300, b"cd": 301, b"ab": 302}, [(b"ab", b"cd"), (b"c", b"d"), (b"a", b"b")], []),
        # in which a part of it has a higher rank, and is in another token
        (
            {b"bcd": 300, b"abcde": 301, b"cd": 302, b"abcd": 303},
            [(b"b", b"cd"), (b"abcd", b"e"), (b"c", b"d"), (b"a", b"bcd")],
            [],
        ),
        # never made: the bytes become something else before
        ({b"bc": 300, b"abcd": 301}, [(b"b", b"c")], [b"abcd"]),
        ({b"bc": 300, b"ab": 301, b"abc": 302}, [(b"b", b"c"), (b"a", b"b"), (b"a", b"bc")], []),
        ({b"bc": 300, b"cd": 301, b"abcd": 302}, [(b"b", b"c"), (b"c", b"d")], [b"abcd"]),
        # nor a token that has an unmade one in it, but one that has the same bytes in it is
        ({b"abc": 300, b"abcd": 301}, [], [b"abc", b"abcd"]),
        (
            {b"bc": 300, b"abcd": 301, b"abc": 302, b"xabcd": 303, b"xa": 304, b"xabc": 305},
            [
                (b"b", b"c"), (b"abc", b"d"), (b"a", b"bc"),
                (b"x", b"abcd"), (b"x", b"a"), (b"x", b"abc"),
            ],
            [],
        ),
        # of one byte, again and again
        (
            {b"aa": 300, b"aaa": 301, b"aaaa": 302},
            [(b"a", b"a"), (b"aa", b"a"), (b"aa", b"aa")],
            [],
        ),
        ({b"aaa": 300, b"aa": 301}, [(b"aa", b"a"), (b"a", b"a")], []),
        # two equal halves; the left is made first, and is in another token by then
        (
            {b"aba": 300, b"ab": 301, b"abab": 302},
            [(b"ab", b"a"), (b"a", b"b"), (b"aba", b"b")],
            [],
        ),
        ({b"aa": 300, b"aaaaa": 301}, [(b"a", b"a")], [b"aaaaa"]),
    ],
)  # fmt: skip
def test_each_token_has_the_one_pair_that_makes_it(
    tokens: dict[bytes, int], merges: list[tuple[bytes, bytes]], unmade: list[bytes]
) -> None:
    library = encoding({**BYTES, **tokens})
    tokenizer = Tokenizer.from_tiktoken(library)
    found = [tuple(map(tokenizer.token_bytes, pair)) for pair in tokenizer.merges]
    assert found == merges
    assert [token for token in tokens if token not in map(b"".join, merges)] == unmade
    texts = ["".join(lot.choices("abcdex", k=30)) for lot in map(random.Random, range(40))]
    texts += ["aaaaaaa", "abcdabcd", "xabcd", *(token.decode() for token in tokens)]
    assert tokenizer.encode_batch(texts) == library.encode_batch(texts)


@pytest.mark.parametrize("length", [128, 129, 499, 500, 501, 5000])
def test_long_tokens_and_long_pieces(length: int) -> None:
    """Where tiktoken, and the search for pairs, do it in another way."""
    runs = {b"a" * size: 300 + size for size in (2, 3, 4, 7, 8, 100, 127, 128, 129, 256, 300)}
    others = {b"ab" * 70: 700, b"ab": 701, b"ba" * 64: 702, b"abab": 703, b"ba": 704}
    library = encoding({**BYTES, **runs, **others})
    tokenizer = Tokenizer.from_tiktoken(library)
    lot = random.Random(length)
    texts = [each * length for each in ("a", "ab", "aab", "b")]
    texts += ["".join(lot.choices("ab", weights=[9, 1], k=length)) for _ in range(5)]
    assert tokenizer.encode_batch(texts) == library.encode_batch(texts)


@pytest.mark.parametrize("length", [1000, 30_000])
def test_a_token_may_be_very_long(length: int, tmp_path: Path) -> None:
    """It takes time that follows its length, not the square of it."""
    ranks = {**BYTES, b"ab": 300, b"b" * length: 301, b"ab" * length: 302}
    path = written(tmp_path / "x.tiktoken", ranks)
    tokenizer = Tokenizer.load(path, pattern=WHOLE, special_tokens={})
    assert tokenizer.encode("b" * length) == [301]
    assert tokenizer.encode("ab" * length + "a") == [300] * length + [97]


# Encodings


@pytest.fixture(scope="module")
def ranks(tokenizer: Tokenizer) -> dict[bytes, int]:
    """The ranks of the shared tokenizer."""
    return ranks_of(tokenizer)


@pytest.fixture
def public(
    ranks: dict[bytes, int], monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], dict[str, Any]]:
    """Return what makes the definition of a public Encoding; all but the ranks is its own."""
    for name in ("load_tiktoken_bpe", "data_gym_to_mergeable_bpe_ranks"):
        monkeypatch.setattr(openai_public, name, lambda *_, **__: ranks)

    def definition(name: str) -> dict[str, Any]:
        all_of_it: dict[str, Any] = openai_public.ENCODING_CONSTRUCTORS[name]()
        return {**all_of_it, "explicit_n_vocab": None}

    return definition


TRAILING = [" \n", " \n ", "\n \n  ", "\n", "  ", "\r\n\t", "\n\u3000\n\u00a0"]
"""White space at the end of a text, which tiktoken's patterns take in different ways."""


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("gpt2", "gpt2"),
        ("r50k_base", "gpt2"),
        ("p50k_base", "gpt2"),
        ("p50k_edit", "gpt2"),
        ("cl100k_base", TIKTOKEN_CL100K),
        ("o200k_base", "o200k"),
    ],
)
def test_public_encodings(name: str, pattern: str, public: Callable[[str], dict[str, Any]]) -> None:
    library = tiktoken.Encoding(**public(name))
    tokenizer = Tokenizer.from_tiktoken(library)
    assert tokenizer.patterns[0] == PATTERNS.get(pattern, pattern)
    assert dict(tokenizer.special_tokens) == library._special_tokens
    assert tokenizer.n_vocab == library.n_vocab
    literals = list(library._special_tokens)[:5]
    texts = [*TEXTS.values(), *literals, "".join(literals), " x ".join(literals), "<|endo"]
    texts += [f"{before}{space}" for before in ("", "a", "!") for space in TRAILING]
    assert tokenizer.encode_batch(texts) == library.encode_batch(texts, allowed_special="all")
    ordinary = library.encode_ordinary_batch(texts)
    assert [tokenizer.encode_ordinary(text) for text in texts] == ordinary


def test_public_encoding_with_a_shared_id_is_refused(
    public: Callable[[str], dict[str, Any]],
) -> None:
    """Decoding would not give back one of them."""
    definition = public("o200k_harmony")
    assert refusal(Tokenizer.from_tiktoken, tiktoken.Encoding(**definition)) == (
        "'<|reserved_200018|>' and '<|endofprompt|>' have the id 200018"
    )
    del definition["special_tokens"]["<|reserved_200018|>"]
    tokenizer = Tokenizer.from_tiktoken(tiktoken.Encoding(**definition))
    assert tokenizer.encode("<|start|>a<|endofprompt|>") == [200006, 97, 200018]


def test_ids_may_have_gaps_and_special_tokens_may_be_in_them(ranks: dict[bytes, int]) -> None:
    """Ranks like p50k_base's, whose special token has an id between other ids."""
    spread = {token: rank + (rank >= 300) for token, rank in ranks.items()}
    library = encoding(spread, PATTERNS["gpt2"], {"<|endoftext|>": 300, "<|far|>": 2**32 - 1})
    tokenizer = Tokenizer.from_tiktoken(library)
    assert (tokenizer.vocab_size, tokenizer.n_vocab) == (len(ranks), 2**32)
    texts = [*TEXTS.values(), "a<|far|>b<|endoftext|>"]
    ids = library.encode_batch(texts, allowed_special="all")
    assert tokenizer.encode_batch(texts) == ids
    assert tokenizer.decode_batch(ids) == texts


def test_a_special_token_may_be_an_ordinary_token_too() -> None:
    library = encoding({**BYTES, b"ab": 300}, WHOLE, {"ab": 300, "b": 301})
    tokenizer = Tokenizer.from_tiktoken(library)
    for text in ("ab", "abab", "b", "cabb"):
        assert tokenizer.encode(text) == library.encode(text, allowed_special="all")
        assert tokenizer.encode_ordinary(text) == library.encode_ordinary(text)


def test_anything_but_an_encoding_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^expected a tiktoken\.Encoding or its name, got b"):
        Tokenizer.from_tiktoken(b"cl100k_base")


@pytest.mark.parametrize(
    ("ranks", "special_tokens", "reason"),
    [
        ({}, {"<a": 300, "<a>": 301}, "the special token '<a' begins '<a>', and tiktoken may find"),
        ({}, {"b": 300, "a": 301, "abc": 302, "ab": 303}, "the special token 'a' begins 'ab'"),
        ({}, {"<a>": 97}, "the id 97 of '<a>' is also the id of b'a'"),
        ({}, {"<a>": 300, "<b>": 300}, "'<b>' and '<a>' have the id 300"),
        ({b"ab": MAX_ID}, {}, "the rank 4294967295 is above the highest allowed, 4294967294"),
    ],
)
def test_an_encoding_whose_ids_would_differ_is_refused(
    ranks: dict[bytes, int], special_tokens: dict[str, int], reason: str
) -> None:
    library = encoding({**BYTES, **ranks}, WHOLE, special_tokens)
    assert refusal(Tokenizer.from_tiktoken, library).startswith(reason)


def test_the_highest_id_is_no_rank_to_tiktoken() -> None:
    """That is why it is refused: the token would be found, but never made."""
    library = encoding({**BYTES, b"ab": MAX_ID})
    assert [library.encode(text) for text in ("ab", "abc")] == [[MAX_ID], [97, 98, 99]]


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"(?:ab)++|[\s\S]", "has a possessive quantifier or an atomic group at position 6"),
        (r"(?>\p{L}+)|[^\p{L}]", "has a possessive quantifier or an atomic group at position 0"),
        (
            r"^\s|[\s\S]",
            "has a part that engines read differently, at position 0: '^\\\\s|[\\\\s\\\\S]'",
        ),
        (r"\w+|\W", r"has a part that engines read differently, at position 0: '\\w+|\\W'"),
    ],
)
def test_pattern_with_another_meaning_here_is_refused(
    pattern: str, reason: str, tmp_path: Path
) -> None:
    assert reason in refusal(Tokenizer.from_tiktoken, encoding(BYTES, pattern))
    path = written(tmp_path / "x.tiktoken", BYTES)
    assert reason in refusal(Tokenizer.load, path, pattern=pattern)


# Files


def test_tiktokens_own_spelling_of_a_public_pattern_is_taken(tmp_path: Path) -> None:
    path = written(tmp_path / "x.tiktoken", BYTES)
    tokenizer = Tokenizer.load(path, pattern=openai_public.r50k_pat_str, special_tokens={})
    assert tokenizer == Tokenizer.load(path, pattern="gpt2", special_tokens={})


def test_without_special_tokens_there_are_none_and_a_warning(tmp_path: Path) -> None:
    path = written(tmp_path / "x.tiktoken", BYTES)
    with pytest.warns(
        UserWarning, match=r"give them as special_tokens= .* or \{\} for none"
    ) as all:
        tokenizer = Tokenizer.load(path, pattern="llama3")
    assert [each.filename for each in all] == [__file__]
    assert dict(tokenizer.special_tokens) == {}
    assert Tokenizer.load(path, pattern="llama3", special_tokens={}) == tokenizer


ALTERED: dict[str, Callable[[bytes], bytes]] = {
    "line ends of Windows": lambda data: data.replace(b"\n", b"\r\n"),
    "old line ends": lambda data: data.replace(b"\n", b"\r"),
    "no last line end": lambda data: data.rstrip(b"\n"),
    "empty lines": lambda data: b"\n" + data.replace(b"\n", b"\n\n"),
    "more spaces": lambda data: data.replace(b" ", b"\t  ").replace(b"\n", b" \n"),
    "leading zeros": lambda data: data.replace(b" ", b" 000"),
    "another order": lambda data: b"".join(reversed(data.splitlines(keepends=True))),
}


@pytest.mark.parametrize("altered", ALTERED.values(), ids=list(ALTERED))
def test_lines_may_be_written_otherwise(altered: Callable[[bytes], bytes], tmp_path: Path) -> None:
    """In all the ways that tiktoken takes."""
    path = written(tmp_path / "x.tiktoken", ranks_of(SMALL))
    path.write_bytes(altered(path.read_bytes()))
    loaded = Tokenizer.load(
        path, format="tiktoken", pattern="gpt2", special_tokens=SMALL.special_tokens
    )
    assert loaded == SMALL
    assert read_by_tiktoken(path) == ranks_of(SMALL)


A_LINE = "a token in base64, a space and its rank"

LINES = b"".join(line(token, rank) for token, rank in BYTES.items())


def test_a_line_without_bytes_is_a_token_of_none(tmp_path: Path) -> None:
    """Whisper's files have such a line."""
    path = tmp_path / "a.tiktoken"
    path.write_bytes(LINES + b"= 300\n" + line(b"ab", 301))
    tokenizer = Tokenizer.load(path, pattern="gpt2", special_tokens={})
    library = encoding({**BYTES, b"": 300, b"ab": 301}, PATTERNS["gpt2"])
    assert tokenizer.encode("ab a") == library.encode("ab a") == [301, 32, 97]
    assert tokenizer.decode([97, 300, 98]) == library.decode([97, 300, 98]) == "ab"
    tokenizer.save(tmp_path / "b.tiktoken")
    assert (tmp_path / "b.tiktoken").read_bytes() == path.read_bytes()


WRONG_FILES: list[tuple[bytes, str]] = [
    (LINES + b"QUI=\n", f'line 257: expected {A_LINE}, got "QUI="'),
    (LINES + b"QUI= 300 1\n", f'line 257: expected {A_LINE}, got "QUI= 300 1"'),
    (LINES + b"QUI 300\n", f'line 257: expected {A_LINE}, got "QUI 300"'),
    (LINES + b"QUI== 300\n", f'line 257: expected {A_LINE}, got "QUI== 300"'),
    (LINES + b"Q!I= 300\n", f'line 257: expected {A_LINE}, got "Q!I= 300"'),
    (LINES + b"QUI= -1\n", f'line 257: expected {A_LINE}, got "QUI= -1"'),
    (LINES + b"QUI= +1\n", f'line 257: expected {A_LINE}, got "QUI= +1"'),
    (LINES + b"QUI= 3_0\n", f'line 257: expected {A_LINE}, got "QUI= 3_0"'),
    (LINES + b"QUI= 1.0\n", f'line 257: expected {A_LINE}, got "QUI= 1.0"'),
    (LINES + "QUI= ٣\n".encode(), f'line 257: expected {A_LINE}, got "QUI= \\u00d9\\u00a3"'),
    (LINES + b"QUI= 30000000000\n", f'line 257: expected {A_LINE}, got "QUI= 30000000000"'),
    (LINES + b"\xff\x00\n", f'line 257: expected {A_LINE}, got "\\u00ff\\u0000"'),
    (LINES + b"\n\n!\n", f'line 259: expected {A_LINE}, got "!"'),
    (LINES + line(b"ab", 300) + line(b"ab", 301),
     'line 258: expected a token that no line above has, got "YWI= 301"'),
    (LINES + line(b"a", 97), 'line 257: expected a token that no line above has, got "YQ== 97"'),
    (LINES + line(b"ab", 300) + line(b"cd", 300), "two tokens have the rank 300"),
    (LINES + line(b"ab", 97), "two tokens have the rank 97"),
    (LINES + line(b"ab", 2**32), "the rank 4294967296 is above the highest allowed, 4294967294"),
    (LINES + line(b"ab", MAX_ID), "the rank 4294967295 is above the highest allowed, 4294967294"),
    (LINES.replace(line(b"\x80", 128), b""), "the single byte 0x80 has no rank"),
    (b"", "the single byte 0x00 has no rank"),
    (b" \n\r\n", "the single byte 0x00 has no rank"),
    (LINES + line(b"x" * (2**20 + 1), 256), "the token of rank 256 has more than 1048576 bytes"),
    (b"{}", f'line 1: expected {A_LINE}, got "{{}}"'),
    (b"x" * 100_000, f'line 1: expected {A_LINE}, got "{"x" * 76}...'),
]  # fmt: skip


@pytest.mark.parametrize(("data", "reason"), WRONG_FILES, ids=[reason for _, reason in WRONG_FILES])
def test_wrong_file_is_refused_with_the_line(data: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "x.tiktoken"
    path.write_bytes(data)
    assert refusal(Tokenizer.load, path, format="tiktoken", pattern="gpt2") == f"{path}: {reason}"


@pytest.mark.parametrize("first", [b"!\n", b"\xef\xbb\xbf", b"token rank\n"])
def test_bad_first_line_is_still_tiktoken(first: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.tiktoken"
    path.write_bytes(first + LINES)
    assert f"{path}: line 1: expected {A_LINE}" in refusal(Tokenizer.load, path, pattern="gpt2")


def test_the_pattern_of_an_unknown_file_has_to_be_given(tmp_path: Path) -> None:
    path = written(tmp_path / "x.tiktoken", BYTES)
    assert refusal(Tokenizer.load, path) == (
        f"{path}: a .tiktoken file lacks the pattern and the special tokens, and this file is not "
        "a public one whose pattern is known: give both (pattern=, "
        "special_tokens=), or record them once with `bpetite convert --pattern --special-token`"
    )


@pytest.mark.parametrize(
    ("special_tokens", "reason"),
    [
        ({"<a>": 97}, "the id 97 of '<a>' is also the id of b'a'"),
        ({"<a>": 300, "<a": 301}, "the special token '<a' begins '<a>'"),
        ({"<a>": 300, "<b>": 300}, "'<b>' and '<a>' have the id 300"),
    ],
)
def test_special_tokens_that_clash_are_refused(
    special_tokens: dict[str, int], reason: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "x.tiktoken", BYTES)
    said = refusal(Tokenizer.load, path, pattern="gpt2", special_tokens=special_tokens)
    assert said.startswith(f"{path}: {reason}")


# Public files


def test_a_public_file_is_known_by_its_sha256(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "x.tiktoken", ranks_of(SMALL))
    known = _tiktoken.Known("x", PATTERNS["gpt2"], dict(SMALL.special_tokens), "")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setitem(_tiktoken.KNOWN, digest, known)
    assert Tokenizer.load(path) == SMALL
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert Tokenizer.load(path) == SMALL


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        (SMALL.with_special_tokens(["<c>"]), "special tokens"),
        (Tokenizer(replace(SMALL._vocabulary, special_tokens={"<a>": 264})), "special tokens"),
        (Tokenizer(replace(SMALL._vocabulary, pattern=PATTERNS["o200k"])), "pattern"),
        (Tokenizer(replace(SMALL._vocabulary, prefix_ids=(264,))), "prefix ids"),
        (Tokenizer(replace(SMALL._vocabulary, suffix_ids=(264,))), "suffix ids"),
        (
            Tokenizer(replace(SMALL._vocabulary, kept_special_tokens=frozenset(["<a>"]))),
            "kept special tokens",
        ),
    ],
    ids=["one more", "one less", "another pattern", "id before", "id after", "kept token"],
)
def test_public_ranks_with_what_load_would_lose_are_refused(
    changed: Tokenizer, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.tiktoken"
    SMALL.save(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    known = _tiktoken.Known("x", PATTERNS["gpt2"], dict(SMALL.special_tokens), "")
    monkeypatch.setitem(_tiktoken.KNOWN, digest, known)
    assert refusal(changed.save, path, overwrite=True) == (
        f"{path}: load knows these public ranks, and would lose the {what} of this vocabulary; "
        f"save it as .json or tokenizer.json, which hold all"
    )
    SMALL.save(path, overwrite=True)
    assert Tokenizer.load(path) == SMALL


def test_arguments_override_known_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "x.tiktoken", ranks_of(SMALL))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    known = _tiktoken.Known("x", PATTERNS["gpt2"], dict(SMALL.special_tokens), "")
    monkeypatch.setitem(_tiktoken.KNOWN, digest, known)
    pattern = Tokenizer.load(path, pattern="o200k")
    assert (pattern.patterns, pattern.special_tokens) == (
        (PATTERNS["o200k"],),
        SMALL.special_tokens,
    )
    special = Tokenizer.load(path, special_tokens={"<c>": 999})
    assert (special.patterns, dict(special.special_tokens)) == ((PATTERNS["gpt2"],), {"<c>": 999})
    assert dict(Tokenizer.load(path, special_tokens={}).special_tokens) == {}


def test_known_values_are_tiktokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every public file: by its SHA-256, the special tokens and the pattern."""
    said: dict[str, list[tuple[str, dict[str, int]]]] = {}

    def load(_: str, expected_hash: str) -> dict[bytes, int]:
        digests.append(expected_hash)
        return BYTES

    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", load)
    for name in ("r50k_base", "p50k_base", "cl100k_base", "o200k_base"):
        digests: list[str] = []
        definition = openai_public.ENCODING_CONSTRUCTORS[name]()
        pattern = Tokenizer.from_tiktoken(encoding(BYTES, definition["pat_str"])).patterns[0]
        said[digests[0]] = [(pattern, definition["special_tokens"])]
    known = {
        digest: [(known.pattern, known.special_tokens)] for digest, known in _tiktoken.KNOWN.items()
    }
    assert known == said


def test_patterns_of_public_files_match_all_text() -> None:
    patterns = {known.pattern for known in _tiktoken.KNOWN.values()}
    assert {pattern for pattern in patterns if not Pretokenizer(pattern).matches_all()} == set()


needs_data = pytest.mark.skipif(
    not (DATA / "o200k_base.tiktoken").is_file(),
    reason="needs the public vocabularies, in a folder next to the repository",
)


def parts_of_texts() -> Iterable[str]:
    """Yield the beginning of each large text."""
    for name in ("english", "code", "multilingual", "chinese"):
        with open(DATA / f"{name}.txt", encoding="utf-8", newline="") as file:
            yield file.read(25_000)


@needs_data
@pytest.mark.parametrize(
    ("name", "merges", "special_tokens"),
    [
        ("cl100k_base", 100_000, {"<|endoftext|>": 100257, "<|endofprompt|>": 100276}),
        pytest.param(
            *("o200k_base", 199_742, {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_public_vocabulary(
    name: str, merges: int, special_tokens: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = DATA / f"{name}.tiktoken"
    tokenizer = Tokenizer.load(path)
    assert (len(tokenizer.merges), tokenizer.vocab_size) == (merges, merges + 256)
    assert special_tokens.items() <= tokenizer.special_tokens.items()
    ranks = read_by_tiktoken(path)
    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", lambda *_, **__: ranks)
    library = tiktoken.Encoding(**openai_public.ENCODING_CONSTRUCTORS[name]())
    texts = [*parts_of_texts(), *TEXTS.values()]
    assert tokenizer.encode_batch(texts) == library.encode_batch(texts, allowed_special="all")


@pytest.mark.slow  # smaller files go there and back
@needs_data
def test_gpt2_saved_as_ranks_is_the_public_file(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(DATA / "gpt2_vocab.json")
    path = tmp_path / "x.tiktoken"
    tokenizer.save(path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == (
        "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"
    )
    assert Tokenizer.load(path) == tokenizer


@pytest.mark.slow  # a public vocabulary is loaded by the ids that are recorded of it
@needs_data
@pytest.mark.parametrize("name", ["r50k_base", "cl100k_base", "o200k_base"])
def test_recorded_ids_of_public_files_are_tiktokens(name: str, tmp_path: Path) -> None:
    path = DATA / f"{name}.tiktoken"
    if name == "r50k_base":
        path = tmp_path / "r50k_base.tiktoken"
        Tokenizer.load(DATA / "gpt2_vocab.json").save(path)
    _, library = _registry.read(path)
    assert library is not None
    text = _reference.PROBE + "".join(Tokenizer.load(path).special_tokens)
    assert library.has_recorded_ids(text, library.encode(text))
    assert not library.has_recorded_ids(text, library.encode(text)[:-1])


@pytest.mark.slow  # loads 100,000 ranks four times
@needs_data
def test_library_is_not_asked_for_recorded_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    path = DATA / "cl100k_base.tiktoken"
    tokenizer = Tokenizer.load(path)
    monkeypatch.setattr(_tiktoken, "encode_like", lambda *_: lambda _: [0])
    assert Tokenizer.load(path) == tokenizer
    for other in ({"pattern": "o200k"}, {"special_tokens": {"<a>": 100257}}):
        assert "tiktoken gives other ids" in refusal(Tokenizer.load, path, **other)


# Text that the pattern does not match

LETTERS = r"\p{L}+"


def test_unmatched_text_is_kept() -> None:
    """Tiktoken drops it, so its ids are not checked against ours."""
    library = encoding({**BYTES, b"ab": 300}, LETTERS)
    tokenizer = Tokenizer.from_tiktoken(library)
    assert library.encode("ab 12 ab") == [300, 300]
    assert tokenizer.encode("ab 12 ab") == [300, *b" 12 ", 300]
    assert tokenizer.decode(tokenizer.encode("ab 12 ab")) == "ab 12 ab"


# Out


TWO = {256: b"ab", 257: b"cd"}

OTHER_IDS = "tiktoken would give other ids: it merges by id, but the merges"

REFUSED = {
    "merges in another order": (vocabulary(TWO, [(99, 100), (97, 98)]), OTHER_IDS),
    "a token that no merge makes": (vocabulary(TWO, [(97, 98)]), OTHER_IDS),
    "a token from other parts": (
        vocabulary({256: b"ab", 257: b"bc", 258: b"abc"}, [(97, 98), (98, 99), (97, 257)]),
        OTHER_IDS,
    ),
    "a token found, not made": (
        vocabulary({256: b"ab", 257: b"abcd"}, [(97, 98)]), OTHER_IDS
    ),
    "a normalizer": (
        vocabulary(TWO, [(97, 98), (99, 100)], normalizer="NFC"),
        "tiktoken cannot hold this vocabulary: it has a normalizer",
    ),
    "more patterns": (
        vocabulary({}, [], more_patterns=(r"\s+",)),
        "tiktoken cannot hold this vocabulary: it has more than one pattern",
    ),
    "two ids with the same bytes": (
        Vocabulary(((97, 97), (256, 97), (97, 256)), {}, PATTERNS["gpt2"]),
        "tiktoken cannot hold this vocabulary: ids 257 and 258 have the same bytes",
    ),
    "a pattern read differently": (
        vocabulary({}, [], pattern=r"\w+|\W"),
        "the pattern '\\\\w+|\\\\W' has a part that engines read differently, at position 0",
    ),
    "a special token that begins another": (
        vocabulary({}, [], special_tokens={"<a": 256, "<a>": 257}),
        "PATH: the special token '<a' begins '<a>', and tiktoken may find either",
    ),
    "an id that is no rank": (
        vocabulary({MAX_ID: b"ab"}, [(97, 98)]),
        "PATH: the rank 4294967295 is above the highest allowed",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("refused", "reason"), REFUSED.values(), ids=list(REFUSED))
def test_vocabulary_beyond_tiktoken_is_not_written(
    refused: Vocabulary, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.tiktoken"
    said = refusal(Tokenizer(refused).save, path)
    assert said.startswith(reason.replace("PATH", str(path)))
    assert list(tmp_path.iterdir()) == []


def test_merges_that_never_happen_do_not_matter(tmp_path: Path) -> None:
    """A tokenizer.json may have all pairs that make a token, since its maker did not know which."""
    pairs = [(97, 98), (98, 99), (256, 99), (97, 257), (99, 97), (258, 259)]
    tokens = {256: b"ab", 257: b"bc", 258: b"abc", 259: b"ca", 260: b"abcca"}
    tokenizer = Tokenizer(vocabulary(tokens, pairs, pattern=WHOLE))
    path = tmp_path / "x.tiktoken"
    tokenizer.save(path)
    library = encoding(read_by_tiktoken(path))
    lot = random.Random(0)
    texts = ["".join(lot.choices("abc", k=lot.randrange(12))) for _ in range(300)]
    loaded = Tokenizer.load(path, pattern=WHOLE, special_tokens={})
    assert (
        tokenizer.encode_batch(texts) == library.encode_batch(texts) == loaded.encode_batch(texts)
    )
    assert len(loaded.merges) < len(tokenizer.merges)


def test_needless_ignore_merges_does_not_matter(tmp_path: Path) -> None:
    tokenizer = Tokenizer(vocabulary(TWO, [(97, 98), (99, 100)], ignore_merges=True))
    path = tmp_path / "x.tiktoken"
    tokenizer.save(path)
    loaded = Tokenizer.load(path, pattern="gpt2", special_tokens={})
    assert [each.encode("ab abcd cd") for each in (tokenizer, loaded)] == [
        [256, 32, 256, 257, 32, 257]
    ] * 2


@pytest.mark.parametrize("pattern", slow_except([*PATTERNS, WORDS], "o200k", WORDS))
def test_a_trained_vocabulary_goes_there_and_back(
    pattern: str, tmp_path: Path, real_texts: list[str]
) -> None:
    tokenizer = Tokenizer.train(real_texts[:30], 500, pattern=pattern, special_tokens=["<a>", "é"])
    path = tmp_path / "x.tiktoken"
    tokenizer.save(path)
    special_tokens = tokenizer.special_tokens
    assert Tokenizer.load(path, pattern=pattern, special_tokens=special_tokens) == tokenizer
    library = encoding(read_by_tiktoken(path), tokenizer.patterns[0], tokenizer.special_tokens)
    assert Tokenizer.from_tiktoken(library) == tokenizer
