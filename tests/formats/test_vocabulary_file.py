"""Our own format: the content of a file, and refusals."""

from __future__ import annotations

import json
import os
import pickle
import random
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import few_examples

from bpetite import Tokenizer
from bpetite._engine import python
from bpetite._vocabulary import IMPOSSIBLE_BYTES, Pair, Vocabulary
from bpetite.formats import _bpetite as _vocabulary_file
from bpetite.formats._files import SourceFile
from bpetite.formats._format import Source

PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

# Three merges, (a b) (ab c) (space abc), and two special tokens
SMALL = Tokenizer.train("abc abc", 259, special_tokens=["<|a|>", "<|b|>"])


def saved(tokenizer: Tokenizer, path: Path) -> bytes:
    """Return the bytes of a tokenizer's file."""
    tokenizer.save(path, overwrite=True)
    return path.read_bytes()


def read(path: Path) -> Vocabulary:
    """Return the vocabulary of a file."""
    return _vocabulary_file.Bpetite().read(Source(SourceFile(path)))[0]


def small_document() -> Any:
    """Return the document of SMALL: a vocabulary with three merges and two special tokens."""
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += [b"ab", b"abc", b" abc", b"<|a|>", b"<|b|>"]
    return {
        "schema_version": 1,
        "mergeable_vocab_size": 259,
        "pretokenizer_pattern": PATTERN,
        "vocab": {str(id): list(token) for id, token in enumerate(tokens)},
        "merges": [[97, 98], [256, 99], [32, 257]],
        "special_tokens": {"<|a|>": 259, "<|b|>": 260},
    }


def document_2() -> Any:
    """Return the document of schema version 2 of a vocabulary with unusual ids.

    The byte b has the id 255 - b. The four merges are (a b) (ab c) (a bc) (space abc): the second
    and the third make the same token, and no merge makes bc or xyz.
    """
    return {
        "schema_version": 2,
        "pretokenizer_pattern": r" ?[a-zé]+|\s+",
        "unicode_version": "16.0.0",
        "byte_ids": [255 - byte for byte in range(256)],
        "merges": [158, 157, 300, 156, 158, 400, 223, 301],
        "merge_ids": [[300, 2], [301, 2]],
        "other_tokens": {"400": [98, 99], "500": [120, 121, 122]},
        "ignore_merges": False,
        "more_patterns": [r"[a-m]|."],
        "normalizer": "NFC",
        "special_tokens": {"<|a|>": 700, "bc": 400},
        "kept_special_tokens": ["bc"],
        "prefix_ids": [400, 158],
        "suffix_ids": [302],
        "settings": {"bos_token": "<|a|>"},
    }


def written(path: Path, document: object) -> Path:
    """Write a document as JSON, as it is, and return where."""
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def refusal(path: Path) -> tuple[type[BaseException], object]:
    """Return the type and the message of what loading a file raises."""
    with pytest.raises((ValueError, KeyError)) as caught:
        Tokenizer.load(path)
    return caught.type, caught.value.args[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return one folder for all examples of a property."""
    return tmp_path_factory.mktemp("vocabularies")


# What a file says

AWKWARD = ['"', "\\", "/", "\0", "\x1f", "\x7f", "\r\n", "\u2028", "\u2029", "\ufeff", "é", "𝄞"]
characters = st.characters(exclude_categories=["Cs"]) | st.sampled_from("".join(AWKWARD))
corpora = st.text(characters, max_size=30) | st.text("ab '\n", max_size=60)
literals = st.text(characters, min_size=1, max_size=8) | st.sampled_from(AWKWARD)


@st.composite
def tokenizers(draw: st.DrawFn) -> Tokenizer:
    """Train on any text, with special tokens of any characters."""
    special_tokens = draw(st.lists(literals, max_size=4, unique=True))
    size = draw(st.integers(256, 280))
    return Tokenizer.train(draw(corpora), size, special_tokens=special_tokens)


@given(tokenizers())
@few_examples
def test_load_gives_the_saved_tokenizer(folder: Path, tokenizer: Tokenizer) -> None:
    data = saved(tokenizer, folder / "any.json")
    loaded = Tokenizer.load(folder / "any.json")
    assert loaded == tokenizer
    assert list(loaded.special_tokens.items()) == list(tokenizer.special_tokens.items())
    assert saved(loaded, folder / "again.json") == data


@given(tokenizers())
@few_examples
def test_file_is_compact_sorted_json_in_utf_8(folder: Path, tokenizer: Tokenizer) -> None:
    data = saved(tokenizer, folder / "any.json")
    text = json.dumps(json.loads(data), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    assert data == text.encode("utf-8") + b"\n"


def test_bytes_of_a_small_file(tmp_path: Path) -> None:
    """Every byte, put together by hand."""
    tokenizer = Tokenizer.train("ab ab ab", 258, special_tokens=["<é>", '"\u2028\0'])
    tokens = [[byte] for byte in range(256)]
    tokens += [[97, 98], [32, 97, 98], [60, 195, 169, 62], [34, 226, 128, 168, 0]]
    entries = sorted(f'"{id}":{token}'.replace(" ", "") for id, token in enumerate(tokens))
    assert saved(tokenizer, tmp_path / "small.json").decode("utf-8") == (
        '{"mergeable_vocab_size":258,"merges":[[97,98],[32,256]],"pretokenizer_pattern":"'
        + PATTERN.replace("\\", "\\\\")
        + '","schema_version":1,"special_tokens":{"\\"\u2028\\u0000":259,"<é>":258},"vocab":{'
        + ",".join(entries)
        + "}}\n"
    )


def test_order_and_white_space_of_a_file_do_not_matter(tmp_path: Path) -> None:
    document = small_document()
    document["vocab"] = dict(reversed(document["vocab"].items()))
    document["special_tokens"] = dict(reversed(document["special_tokens"].items()))
    text = json.dumps(dict(reversed(document.items())), indent=4).replace("\n", "\r\n")
    path = tmp_path / "spacious.json"
    path.write_bytes(text.encode())
    assert Tokenizer.load(path) == SMALL


class Somewhere:
    """A path that is neither a str nor a Path."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def __fspath__(self) -> str:
        return self._path


@pytest.mark.parametrize("kind", [str, Path, Somewhere])
def test_path_may_be_of_any_kind(
    tmp_path: Path, kind: Callable[[Path], str | os.PathLike[str]]
) -> None:
    SMALL.save(kind(tmp_path / "small.json"))
    assert Tokenizer.load(kind(tmp_path / "small.json")) == SMALL


# What is refused

KEYS = (*small_document(),)
NO_OTHER_KEYS = f"the file: expected no other keys than {', '.join(KEYS)}"
GPT2 = f"pretokenizer_pattern: expected GPT-2's pattern, {PATTERN!r}"
SIZE = "mergeable_vocab_size: expected 256 + 3 merges = 259"
TWO_IDS = "expected a list of two ids"
BYTES = "expected a list of integers from 0 to 255"
LITERAL = "special_tokens: expected a non-empty literal in Unicode"
SPECIAL_ID = "expected an id from 259 to 260"

# Of version 2

KEYS_2 = (*document_2(),)
NO_OTHER_KEYS_2 = f"the file: expected no other keys than {', '.join(KEYS_2)}"
AN_ID = "expected an id from 0 to 4294967295"
NORMALIZER = 'normalizer: expected null or "NFC"'
KEPT = "expected one of special_tokens, each once"
A_TOKEN = "expected the id of a token"
A_STRING = "expected a string in Unicode"

ENTRY = b'"schema_version":1'

WRONG_BYTES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda _: b"", "not JSON: Expecting value: line 1 column 1 (char 0)"),
    "truncated": (
        lambda file: file[: len(file) // 2],
        "not JSON: Expecting ',' delimiter: line 1 column 1599 (char 1598)",
    ),
    "byte-order mark": (
        lambda file: b"\xef\xbb\xbf" + file,
        "not JSON: it begins with a byte order mark, so save it as UTF-8 without one",
    ),
    "not UTF-8": (
        lambda file: file.replace(b'"<|a|>":259', b'"\xff":259'),
        "not UTF-8 at byte 208 (invalid start byte)",
    ),
    "single quotes": (
        lambda file: file.replace(b'"', b"'"),
        "not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
    ),
    "not a number": (lambda file: file.replace(ENTRY, b'"schema_version":NaN'), "NaN is not JSON"),
    "key given twice": (
        lambda file: file.replace(ENTRY, ENTRY + b"," + ENTRY),
        'the key "schema_version" is given twice',
    ),
    "special token given twice": (
        lambda file: file.replace(b'"<|a|>":259', b'"<|a|>":259,"<|a|>":259'),
        'the key "<|a|>" is given twice',
    ),
    "id given twice": (
        lambda file: file.replace(b'"256":', b'"256":[97,98],"256":'),
        'the key "256" is given twice',
    ),
}


@pytest.mark.parametrize("fault", WRONG_BYTES)
def test_wrong_bytes_are_refused(tmp_path: Path, fault: str) -> None:
    change, message = WRONG_BYTES[fault]
    path = tmp_path / "wrong.json"
    path.write_bytes(change(saved(SMALL, path)))
    assert refusal(path) == (ValueError, f"{path}: {message}")


def test_missing_id_is_refused(tmp_path: Path) -> None:
    document = small_document()
    del document["vocab"]["255"]
    path = written(tmp_path / "wrong.json", document)
    assert refusal(path) == (ValueError, f'{path}: vocab: the id "255" is missing')


def other_merge(side: int, last: int) -> str:
    return f"merges[1][{side}]: expected an id from 0 to {last}"


WRONG_VALUES: list[tuple[tuple[str | int, ...], object, str]] = [
    (("schema_version",), 0, "schema_version: expected 1 or 2, got 0"),
    (("schema_version",), True, "schema_version: expected 1 or 2, got true"),
    (("schema_version",), 1.0, "schema_version: expected 1 or 2, got 1.0"),
    (("mergeable_vocab_size",), 258, f"{SIZE}, got 258"),
    (("mergeable_vocab_size",), 259.0, f"{SIZE}, got 259.0"),
    (("pretokenizer_pattern",), PATTERN + " ", f"{GPT2}, got {json.dumps(PATTERN)[:77]}..."),
    (("pretokenizer_pattern",), None, f"{GPT2}, got null"),
    (("merges",), None, "merges: expected a list, got null"),
    (("merges", 0), [97, 98, 99], f"merges[0]: {TWO_IDS}, got [97, 98, 99]"),
    (("merges", 0), [97], f"merges[0]: {TWO_IDS}, got [97]"),
    (
        ("merges", 2),
        [97, 98],
        "merges[2]: expected a new pair; this is merges[0] too, got [97, 98]",
    ),
    (("merges", 0), "ab", f'merges[0]: {TWO_IDS}, got "ab"'),
    (("merges", 1, 0), 257, f"{other_merge(0, 256)}, got 257"),
    (("merges", 1, 1), 257, f"{other_merge(1, 256)}, got 257"),
    (("merges", 1, 0), -1, f"{other_merge(0, 256)}, got -1"),
    (("merges", 1, 0), True, f"{other_merge(0, 256)}, got true"),
    (("merges", 1, 0), 10**30, f"{other_merge(0, 256)}, got 1{'0' * 30}"),
    (("special_tokens",), None, "special_tokens: expected an object, got null"),
    (("special_tokens", "<|a|>"), 258, f'special_tokens["<|a|>"]: {SPECIAL_ID}, got 258'),
    (("special_tokens", "<|a|>"), 259.0, f'special_tokens["<|a|>"]: {SPECIAL_ID}, got 259.0'),
    (("special_tokens", "<|b|>"), 261, f'special_tokens["<|b|>"]: {SPECIAL_ID}, got 261'),
    (
        ("special_tokens", "<|b|>"),
        259,
        'special_tokens["<|b|>"]: expected an id of its own; "<|a|>" has it too, got 259',
    ),
    (("special_tokens", ""), 261, f'{LITERAL}, got ""'),
    (("special_tokens", "<|\ud800|>"), 261, rf'{LITERAL}, got "<|\ud800|>"'),
    (("special_tokens", "é"), 261, 'vocab: the id "261" is missing'),
    (("vocab",), None, "vocab: expected an object, got null"),
    (("vocab", "261"), [97], 'vocab: expected no other keys than the ids 0 to 260, got "261"'),
    (("vocab", "01"), [1], 'vocab: expected no other keys than the ids 0 to 260, got "01"'),
    (("vocab", "255"), [256], f'vocab["255"]: {BYTES}, got [256]'),
    (("vocab", "1"), [-1], f'vocab["1"]: {BYTES}, got [-1]'),
    (("vocab", "1"), [True], f'vocab["1"]: {BYTES}, got [true]'),
    (("vocab", "1"), None, f'vocab["1"]: {BYTES}, got null'),
    (("vocab", "1"), [2], 'vocab["1"]: expected the bytes of this id, [1], got [2]'),
    (("vocab", "1"), [1, 1], 'vocab["1"]: expected the bytes of this id, [1], got [1, 1]'),
    (
        ("vocab", "257"),
        [97, 98, 100],
        'vocab["257"]: expected the bytes of this id, [97, 98, 99], got [97, 98, 100]',
    ),
    (
        ("vocab", "259"),
        [60, 124, 98, 124, 62],
        'vocab["259"]: expected the bytes of this id, [60, 124, 97, 124, 62], '
        "got [60, 124, 98, 124, 62]",
    ),
    (("version",), 1, f'{NO_OTHER_KEYS}, got "version"'),
]


@pytest.mark.parametrize(("place", "value", "message"), WRONG_VALUES)
def test_wrong_value_is_refused(
    tmp_path: Path, place: tuple[str | int, ...], value: object, message: str
) -> None:
    document = inner = small_document()
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    path = written(tmp_path / "wrong.json", document)
    assert refusal(path) == (ValueError, f"{path}: {message}")


@pytest.mark.parametrize("key", KEYS)
def test_missing_key_is_a_key_error(tmp_path: Path, key: str) -> None:
    document = small_document()
    del document[key]
    path = written(tmp_path / "wrong.json", document)
    assert refusal(path) == (KeyError, f"{path}: the key {key!r} is missing")


@pytest.mark.parametrize("document", [None, True, 1, 1.5, "", [], [{}]])
def test_file_that_is_no_object_is_refused(tmp_path: Path, document: object) -> None:
    path = written(tmp_path / "wrong.json", document)
    got = json.dumps(document)
    assert refusal(path) == (ValueError, f"{path}: the file: expected a JSON object, got {got}")


@pytest.mark.parametrize(
    ("number", "message"),
    [
        ("Infinity", "Infinity is not JSON"),
        ("-Infinity", "-Infinity is not JSON"),
        ("1e999", f"{SIZE}, got Infinity"),
    ],
)
def test_infinite_number_is_refused(tmp_path: Path, number: str, message: str) -> None:
    path = tmp_path / "wrong.json"
    text = json.dumps({**small_document(), "mergeable_vocab_size": "?"})
    path.write_text(text.replace('"?"', number), encoding="utf-8")
    assert refusal(path) == (ValueError, f"{path}: {message}")


@pytest.mark.parametrize("key", KEYS)
def test_integer_of_too_many_digits_is_refused(tmp_path: Path, key: str) -> None:
    """Python converts no more than 4300 digits; its error knows nothing of the file."""
    path = tmp_path / "wrong.json"
    text = json.dumps({**small_document(), key: "?"})
    path.write_text(text.replace('"?"', "1" * 4301), encoding="utf-8")
    kind, message = refusal(path)
    assert (kind, str(message).startswith(f"{path}: ")) == (ValueError, True)


@pytest.mark.parametrize("depths", [range(850, 1000, 3), [10**4, 10**5]], ids=["near", "far"])
@pytest.mark.parametrize(
    ("opening", "closing"), [("[", "]"), ('{"schema_version":', "}")], ids=["lists", "objects"]
)
def test_deep_nesting_is_refused(
    tmp_path: Path, depths: Iterable[int], opening: str, closing: str
) -> None:
    """At every depth: near Python's limit, the file can be read but its value not be shown."""
    path = tmp_path / "deep.json"
    results = set()
    for depth in depths:
        path.write_text(opening * depth + "0" + closing * depth, encoding="utf-8")
        kind, message = refusal(path)
        results.add((kind, str(message).startswith(f"{path}: ")))
    assert results == {(ValueError, True)}


def test_another_schema_version_is_named_before_anything_else(tmp_path: Path) -> None:
    path = written(tmp_path / "newer.json", {"schema_version": 3, "tokens": []})
    assert refusal(path) == (ValueError, f"{path}: schema_version: expected 1 or 2, got 3")


def test_error_names_the_file_as_the_caller_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(Path("wrong.json"), [])
    assert refusal(Path("wrong.json")) == (
        ValueError,
        "wrong.json: the file: expected a JSON object, got []",
    )


LONG = "x" * 10_000


@pytest.mark.parametrize(
    "change",
    [
        {LONG: 1},
        {"schema_version": LONG},
        {"pretokenizer_pattern": LONG},
        {"merges": [LONG]},
        {"special_tokens": {LONG: 1}},
        {"special_tokens": {LONG: 259, "a": 259}},
        {"special_tokens": {LONG: 259}, "vocab": {**small_document()["vocab"], "259": []}},
        {"vocab": {**small_document()["vocab"], LONG: [1]}},
        {"vocab": {**small_document()["vocab"], "1": [1] * 10_000}},
    ],
    ids=range(9),
)
def test_error_is_short_for_any_file(tmp_path: Path, change: dict[str, Any]) -> None:
    path = written(tmp_path / "long.json", {**small_document(), **change})
    kind, message = refusal(path)
    assert (kind, len(str(message)) < len(str(path)) + 400) == (ValueError, True)


def test_error_for_a_long_key_given_twice_stays_short(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    path.write_text(f'{{"{LONG}":1,"{LONG}":1}}', encoding="utf-8")
    kind, message = refusal(path)
    assert (kind, len(str(message)) < len(str(path)) + 400) == (ValueError, True)


@contextmanager
def peak_memory() -> Iterator[list[int]]:
    """Put the most bytes of memory that were in use at once into the list."""
    peak: list[int] = []
    tracemalloc.start()
    try:
        yield peak
        peak.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


def test_memory_to_load_follows_the_size_of_the_file(tmp_path: Path) -> None:
    SMALL.save(tmp_path / "small.json")
    with peak_memory() as peak:
        Tokenizer.load(tmp_path / "small.json")
    assert peak[0] < 2_000_000


def test_merges_that_double_a_token_take_no_memory(tmp_path: Path) -> None:
    """Sixty such merges would make a token of 2**60 bytes; what the file says of it is shorter."""
    doublings = 23
    document = small_document()
    document["merges"] = [[97, 97]] + [[256 + n, 256 + n] for n in range(doublings - 1)]
    document["mergeable_vocab_size"] = 256 + doublings
    document["special_tokens"] = {}
    document["vocab"] |= {str(256 + n): [97] * 2 for n in range(doublings)}
    path = written(tmp_path / "doubling.json", document)
    with peak_memory() as peak:
        kind, message = refusal(path)
    assert (kind, str(message).startswith(f"{path}: ")) == (ValueError, True)
    assert peak[0] < 2_000_000


# Schema version 2

PATTERNS = [PATTERN, r"\S+|\s+", "[a-zé]+|.", "你|🙂| ?\\p{L}+", "\u2028|\\s+"]
BYTES_OF = {byte: bytes([byte]) for byte in range(256)}


@st.composite
def vocabularies(draw: st.DrawFn) -> Vocabulary:
    """Make tokens with ids anywhere, merges of them in any order, and special tokens anywhere."""
    texts = draw(st.sets(st.text("abc", min_size=2, max_size=4), max_size=12))
    absent = draw(st.sets(st.sampled_from(IMPOSSIBLE_BYTES), max_size=3))
    tokens = [BYTES_OF[byte] for byte in range(256) if byte not in absent]
    tokens += [text.encode() for text in sorted(texts)]
    tokens += [b""] * draw(st.integers(0, 1))
    highest = draw(st.sampled_from([len(tokens) + 5, 2000, 2**32 - 20]))
    rng = random.Random(draw(st.integers(0, 2**32)))
    *ids, special_id = rng.sample(range(highest + 1), len(tokens) + 1)
    bytes_of = dict(zip(ids, tokens, strict=True))
    id_of = {token: id for id, token in bytes_of.items()}
    pairs = [
        (id_of[token[:cut]], id_of[token[cut:]])
        for token in tokens
        for cut in range(1, len(token))
        if token[:cut] in id_of and token[cut:] in id_of
    ]
    merges = draw(st.permutations(pairs))[: draw(st.integers(0, len(pairs)))]
    special_tokens = {draw(literals.filter(lambda text: text != "a")): special_id}
    if draw(st.booleans()):
        special_tokens["a"] = id_of[b"a"]
    some_ids = st.lists(st.sampled_from([ids[0], ids[-1], special_id]), max_size=3).map(tuple)
    return Vocabulary.from_tokens(
        bytes_of,
        merges,
        special_tokens,
        draw(st.sampled_from(PATTERNS)),
        ignore_merges=draw(st.booleans()),
        more_patterns=tuple(draw(st.lists(st.sampled_from(PATTERNS), max_size=2))),
        normalizer=draw(st.sampled_from([None, "NFC"])),
        kept_special_tokens=draw(st.frozensets(st.sampled_from(sorted(special_tokens)))),
        prefix_ids=draw(some_ids),
        suffix_ids=draw(some_ids),
        settings=draw(st.dictionaries(literals, st.text(characters, max_size=8), max_size=3)),
    )


@given(vocabularies())
def test_any_vocabulary_is_loaded_as_it_was_saved(folder: Path, vocabulary: Vocabulary) -> None:
    path = folder / "any.json"
    data = saved(Tokenizer(vocabulary), path)
    loaded = read(path)
    assert loaded == vocabulary
    assert loaded.tokens.bytes_of == vocabulary.tokens.bytes_of
    assert saved(Tokenizer(loaded), folder / "again.json") == data


@given(vocabularies(), st.randoms(use_true_random=False))
@few_examples
def test_order_in_which_tokens_are_given_does_not_matter(
    vocabulary: Vocabulary, rng: random.Random
) -> None:
    tokens = [*vocabulary.ordinary_tokens.items(), *vocabulary.unused_tokens.items()]
    special_tokens = list(vocabulary.special_tokens.items())
    settings = list(vocabulary.settings.items())
    for entries in (tokens, special_tokens, settings):
        rng.shuffle(entries)
    other = Vocabulary.from_tokens(
        dict(tokens),
        vocabulary.merges,
        dict(special_tokens),
        vocabulary.pattern,
        ignore_merges=vocabulary.ignore_merges,
        more_patterns=vocabulary.more_patterns,
        normalizer=vocabulary.normalizer,
        kept_special_tokens=vocabulary.kept_special_tokens,
        prefix_ids=vocabulary.prefix_ids,
        suffix_ids=vocabulary.suffix_ids,
        settings=dict(settings),
    )
    assert other == vocabulary
    assert _vocabulary_file.to_bytes(other) == _vocabulary_file.to_bytes(vocabulary)


VERSIONS = {
    "trained": (Vocabulary(((97, 98),), {"<|a|>": 257}, PATTERN), 1),
    "bytes alone": (Vocabulary((), {}, PATTERN), 1),
    "plain tokens": (Vocabulary.from_tokens({**BYTES_OF, 256: b"ab"}, [(97, 98)], {}, PATTERN), 1),
    "pattern": (Vocabulary(((97, 98),), {"<|a|>": 257}, r"\S+|\s+"), 2),
    "gap before a special id": (Vocabulary(((97, 98),), {"<|a|>": 258}, PATTERN), 2),
    "special id of an ordinary token": (Vocabulary(((97, 98),), {"ab": 256}, PATTERN), 2),
    "ignore_merges": (Vocabulary(((97, 98),), {}, PATTERN, ignore_merges=True), 2),
    "no merges": (Vocabulary.from_tokens({**BYTES_OF, 256: b"ab"}, [], {}, PATTERN), 2),
    "gap before a merge": (
        Vocabulary.from_tokens({**BYTES_OF, 257: b"ab"}, [(97, 98)], {}, PATTERN),
        2,
    ),
    "two patterns": (Vocabulary((), {}, PATTERN, more_patterns=(PATTERN,)), 2),
    "normalizer": (Vocabulary((), {}, PATTERN, normalizer="NFC"), 2),
    "kept special token": (
        Vocabulary((), {"a": 256}, PATTERN, kept_special_tokens=frozenset("a")),
        2,
    ),
    "prefix": (Vocabulary((), {}, PATTERN, prefix_ids=(0,)), 2),
    "suffix": (Vocabulary((), {}, PATTERN, suffix_ids=(0,)), 2),
    "settings": (Vocabulary((), {}, PATTERN, settings={"": ""}), 2),
}
"""The version of the file of each vocabulary."""


@pytest.mark.parametrize(("vocabulary", "version"), VERSIONS.values(), ids=VERSIONS)
def test_version_is_1_wherever_that_can_say_it(vocabulary: Vocabulary, version: int) -> None:
    assert json.loads(_vocabulary_file.to_bytes(vocabulary))["schema_version"] == version


def test_bytes_of_a_small_file_of_version_2() -> None:
    """Every byte, put together by hand."""
    tokens = {**BYTES_OF, 300: b"ab", 301: b"abc", 200000: b"xyz"}
    vocabulary = Vocabulary.from_tokens(
        tokens,
        [(97, 98), (300, 99)],
        {"é": 299, "<b>": 298, "<a>": 297},
        "é|.",
        ignore_merges=True,
        more_patterns=("a|.", "[^b]|."),
        normalizer="NFC",
        kept_special_tokens=frozenset(["é", "<b>"]),
        prefix_ids=(299, 97),
        suffix_ids=(298,),
        settings={"eos_token": "é", "bos_token": ""},
    )
    byte_ids = ",".join(map(str, range(256)))
    assert _vocabulary_file.to_bytes(vocabulary).decode("utf-8") == (
        f'{{"byte_ids":[{byte_ids}],"ignore_merges":true,"kept_special_tokens":["<b>","é"],'
        '"merge_ids":[[300,2]],"merges":[97,98,300,99],"more_patterns":["a|.","[^b]|."],'
        '"normalizer":"NFC","other_tokens":{"200000":[120,121,122]},"prefix_ids":[299,97],'
        '"pretokenizer_pattern":"é|.","schema_version":2,'
        '"settings":{"bos_token":"","eos_token":"é"},'
        '"special_tokens":{"<a>":297,"<b>":298,"é":299},"suffix_ids":[298],'
        '"unicode_version":"16.0.0"}\n'
    )


def test_literals_are_in_one_order_in_a_file() -> None:
    """Sets of strings have another order in each process."""
    names = [*"hgfedcba", "é", "𝄞"]
    special_tokens = {name * 2: 256 + number for number, name in enumerate(names)}
    vocabulary = Vocabulary((), special_tokens, ".", kept_special_tokens=frozenset(special_tokens))
    document = json.loads(_vocabulary_file.to_bytes(vocabulary))
    assert list(document["special_tokens"]) == sorted(special_tokens)
    assert document["kept_special_tokens"] == sorted(special_tokens)


def test_valid_document_of_version_2_is_loaded(tmp_path: Path) -> None:
    path = written(tmp_path / "v.json", document_2())
    vocabulary = read(path)
    tokens = {255 - byte: bytes([byte]) for byte in range(256)}
    tokens |= {300: b"ab", 301: b"abc", 302: b" abc", 400: b"bc", 500: b"xyz"}
    assert vocabulary.tokens.bytes_of == {**tokens, 700: b"<|a|>"}
    assert vocabulary == Vocabulary.from_tokens(
        tokens,
        [(158, 157), (300, 156), (158, 400), (223, 301)],
        {"bc": 400, "<|a|>": 700},
        r" ?[a-zé]+|\s+",
        more_patterns=("[a-m]|.",),
        normalizer="NFC",
        kept_special_tokens=frozenset(["bc"]),
        prefix_ids=(400, 158),
        suffix_ids=(302,),
        settings={"bos_token": "<|a|>"},
    )
    assert json.loads(saved(Tokenizer(vocabulary), path)) == document_2()


def test_loaded_tokenizer_follows_each_key(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(written(tmp_path / "v.json", document_2()))
    assert (tokenizer.patterns[1:], tokenizer.lossless) == (("[a-m]|.",), False)
    assert dict(tokenizer.settings) == {"bos_token": "<|a|>"}
    # One letter a piece, so nothing is merged; e and its accent are one character.
    assert tokenizer.encode("abe\u0301") == [158, 157, 255 - 0xC3, 255 - 0xA9]
    assert tokenizer.encode("a<|a|>", add_special_tokens=True) == [400, 158, 158, 700, 302]
    assert tokenizer.decode([400, 700, 158], skip_special_tokens=True) == "bca"


PATTERN_2 = "pretokenizer_pattern:"
PORTABLE = "expected a portable pattern"
A_RUN = "expected a list of an id and a length"
SHORT_RUN = "expected a run of ids up to the highest id"
BEFORE = "expected an id that is defined before"
PAIRS = "expected a list of two ids for each merge"
ID_LIST = "byte_ids: expected a list of 256 ids"

WRONG_VALUES_2: list[tuple[tuple[str | int, ...], object, str]] = [
    (("unicode_version",), "17.0.0", 'unicode_version: expected "16.0.0", got "17.0.0"'),
    (("ignore_merges",), 1, "ignore_merges: expected true or false, got 1"),
    (("pretokenizer_pattern",), None, f"{PATTERN_2} {A_STRING}, got null"),
    (("pretokenizer_pattern",), "a|\ud800", rf'{PATTERN_2} {A_STRING}, got "a|\ud800"'),
    (
        ("pretokenizer_pattern",),
        "cl100k",
        f'{PATTERN_2} expected the pattern itself, not its name, got "cl100k"',
    ),
    (
        ("pretokenizer_pattern",),
        "a++",
        f"{PATTERN_2} {PORTABLE} (it has a possessive quantifier or an atomic group at "
        'position 1, which other engines read differently; write it without), got "a++"',
    ),
    (
        ("pretokenizer_pattern",),
        "(",
        f"{PATTERN_2} {PORTABLE} (it is neither one of gpt2, cl100k, o200k, llama3, qwen2, "
        'qwen3.5, kimi-k2, words nor a regular expression: missing ) at position 1), got "("',
    ),
    (
        ("pretokenizer_pattern",),
        "x*",
        f"{PATTERN_2} {PORTABLE} (it can match the empty string, for example in ''), got \"x*\"",
    ),
    (("byte_ids",), [1, 2], f"{ID_LIST}, got [1, 2]"),
    (("byte_ids", 7), True, f"byte_ids[7]: {AN_ID}, got true"),
    (("byte_ids", 7), None, "byte_ids[7]: expected an id, since UTF-8 has this byte, got null"),
    (("byte_ids", 7), -1, f"byte_ids[7]: {AN_ID}, got -1"),
    (("byte_ids", 7), 2**32, f"byte_ids[7]: {AN_ID}, got 4294967296"),
    (("byte_ids", 7), 255, "byte_ids[7]: expected an id of its own; 0 has it too, got 255"),
    (("merges",), None, f"merges: {PAIRS}, got null"),
    (("merges", 0), [158, 157], f"merges[0]: {AN_ID}, got [158, 157]"),
    (("merges",), [], "merge_ids: expected an id for each of 0 merges, got 4"),
    (("merges",), [158] * 3, f"merges: {PAIRS}, got [158, 158, 158]"),
    (("merges",), [158] * 10, "merge_ids: expected an id for each of 5 merges, got 4"),
    (("merges", 3), True, f"merges[3]: {AN_ID}, got true"),
    (("merges", 3), 156.0, f"merges[3]: {AN_ID}, got 156.0"),
    (("merges", 3), -1, f"merges[3]: {BEFORE}, got -1"),
    (("merges", 3), 301, f"merges[3]: {BEFORE}, got 301"),
    (("merges", 3), 700, f"merges[3]: {BEFORE}, got 700"),
    (("merges", 3), 10**30, f"merges[3]: {BEFORE}, got 1{'0' * 30}"),
    (("merges", 0), 300, f"merges[0]: {BEFORE}, got 300"),
    (
        ("merges",),
        [158, 157, 300, 156, 300, 156, 223, 301],
        "merges[4]: expected a new pair, got [300, 156]",
    ),
    # As long as the token that it should make, but of other bytes
    (("merges", 4), 157, "merges[4]: expected a merge that makes the id 301, got [157, 400]"),
    # Shorter
    (("merges", 5), 156, "merges[4]: expected a merge that makes the id 301, got [158, 156]"),
    (("merge_ids",), None, "merge_ids: expected a list, got null"),
    (("merge_ids",), [[300, 3]], "merge_ids: expected an id for each of 4 merges, got 3"),
    (("merge_ids",), [[300, 5]], "merge_ids: expected an id for each of 4 merges, got 5"),
    (("merge_ids", 0), 300, f"merge_ids[0]: {A_RUN}, got 300"),
    (("merge_ids", 1), [301, 2, 3], f"merge_ids[1]: {A_RUN}, got [301, 2, 3]"),
    (("merge_ids", 1), [301, True], f"merge_ids[1]: {A_RUN}, got [301, true]"),
    (("merge_ids", 1), [301, 2.0], f"merge_ids[1]: {A_RUN}, got [301, 2.0]"),
    (("merge_ids", 1), [-1, 2], f"merge_ids[1]: {A_RUN}, got [-1, 2]"),
    (("merge_ids", 1), [301, 0], f"merge_ids[1]: {SHORT_RUN}, got [301, 0]"),
    (("merge_ids", 1), [4294967295, 2], f"merge_ids[1]: {SHORT_RUN}, got [4294967295, 2]"),
    (
        ("merge_ids", 1),
        [0, 4294967295],
        "merge_ids: expected an id for each of 4 merges, got 4294967297",
    ),
    # A merge that makes a byte, or a token of another length
    (
        ("merge_ids",),
        [[3, 1], [301, 1], [301, 2]],
        "merges[0]: expected a merge that makes the id 3, got [158, 157]",
    ),
    (
        ("merge_ids",),
        [[500, 1], [301, 1], [301, 2]],
        "merges[0]: expected a merge that makes the id 500, got [158, 157]",
    ),
    (("other_tokens",), None, "other_tokens: expected an object, got null"),
    (("other_tokens", "0501"), [1, 2], 'other_tokens: expected ids as keys, got "0501"'),
    (("other_tokens", ""), [1, 2], 'other_tokens: expected ids as keys, got ""'),
    (("other_tokens", "1_0"), [1, 2], 'other_tokens: expected ids as keys, got "1_0"'),
    (("other_tokens", "²"), [1, 2], 'other_tokens: expected ids as keys, got "\\u00b2"'),
    (
        ("other_tokens", "4294967296"),
        [1, 2],
        'other_tokens: expected ids as keys, got "4294967296"',
    ),
    (
        ("other_tokens", "7"),
        [1, 2],
        'other_tokens: expected an id of its own; a byte has it too, got "7"',
    ),
    (
        ("other_tokens", "500"),
        [7],
        'other_tokens["500"]: expected no byte, or two at least, got [7]',
    ),
    (("other_tokens", "500"), [1, 256], f'other_tokens["500"]: {BYTES}, got [1, 256]'),
    (
        ("other_tokens", "500"),
        [97, 98, 99],
        "the file: expected ids of different bytes; 301 has these too, got 500",
    ),
    (
        ("other_tokens", "501"),
        [120, 121, 122],
        "the file: expected ids of different bytes; 500 has these too, got 501",
    ),
    (
        ("merge_ids",),
        [[300, 2], [303, 1], [302, 1]],
        "the file: expected ids of different bytes; 301 has these too, got 303",
    ),
    (("special_tokens",), None, "special_tokens: expected an object, got null"),
    (("special_tokens", ""), 701, f'{LITERAL}, got ""'),
    (("special_tokens", "\ud800"), 701, rf'{LITERAL}, got "\ud800"'),
    (("special_tokens", "<|a|>"), True, f'special_tokens["<|a|>"]: {AN_ID}, got true'),
    (("special_tokens", "<|a|>"), 2**32, f'special_tokens["<|a|>"]: {AN_ID}, got 4294967296'),
    (
        ("special_tokens", "<|b|>"),
        700,
        'special_tokens["<|b|>"]: expected an id of its own; "<|a|>" has it too, got 700',
    ),
    (("special_tokens", "<|a|>"), 0, 'special_tokens["<|a|>"]: expected an id of its own, got 0'),
    (
        ("special_tokens", "<|a|>"),
        302,
        'special_tokens["<|a|>"]: expected an id of its own, got 302',
    ),
    (("special_tokens", "bc "), 500, 'special_tokens["bc "]: expected an id of its own, got 500'),
    (("more_patterns",), None, "more_patterns: expected a list, got null"),
    (("more_patterns", 0), None, f"more_patterns[0]: {A_STRING}, got null"),
    (
        ("more_patterns",),
        ["a", "qwen2"],
        'more_patterns[1]: expected the pattern itself, not its name, got "qwen2"',
    ),
    (("normalizer",), "nfc", f'{NORMALIZER}, got "nfc"'),
    (("normalizer",), False, f"{NORMALIZER}, got false"),
    (("kept_special_tokens",), None, "kept_special_tokens: expected a list, got null"),
    (("kept_special_tokens", 0), ["bc"], f'kept_special_tokens[0]: {KEPT}, got ["bc"]'),
    (("kept_special_tokens", 0), "abc", f'kept_special_tokens[0]: {KEPT}, got "abc"'),
    (("kept_special_tokens",), ["bc", "<|a|>", "bc"], f'kept_special_tokens[2]: {KEPT}, got "bc"'),
    (("prefix_ids",), None, "prefix_ids: expected a list, got null"),
    (("prefix_ids", 0), True, f"prefix_ids[0]: {A_TOKEN}, got true"),
    (("prefix_ids", 0), 400.0, f"prefix_ids[0]: {A_TOKEN}, got 400.0"),
    (("prefix_ids", 1), 256, f"prefix_ids[1]: {A_TOKEN}, got 256"),
    (("suffix_ids", 0), 303, f"suffix_ids[0]: {A_TOKEN}, got 303"),
    (("settings",), None, "settings: expected an object, got null"),
    (("settings", "a"), {"content": "b"}, f'settings["a"]: {A_STRING}, got {{"content": "b"}}'),
    (("settings", "a"), "\ud83d", rf'settings["a"]: {A_STRING}, got "\ud83d"'),
    (("settings", "\ud83d"), "a", rf'settings["\ud83d"]: {A_STRING}, got "a"'),
    (("settings", "\ud83d"), "\ude42", rf'settings["\ud83d"]: {A_STRING}, got "\ude42"'),
    (("vocab",), {}, f'{NO_OTHER_KEYS_2}, got "vocab"'),
]


@pytest.mark.parametrize(("place", "value", "message"), WRONG_VALUES_2)
def test_wrong_value_of_version_2_is_refused(
    tmp_path: Path, place: tuple[str | int, ...], value: object, message: str
) -> None:
    document = inner = document_2()
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    path = written(tmp_path / "wrong.json", document)
    assert refusal(path) == (ValueError, f"{path}: {message}")


A_NORMALIZER = (
    "expected one of Strip, NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Prefix, Replace, with its "
    "arguments"
)

WRONG_STAGES: list[tuple[Any, str]] = [
    ([], "stages: expected an object, got []"),
    ({"speed": 1}, "stages: expected no other keys than "),
    ({}, "stages: expected fields that have a value, each, got []"),
    ({"normalizers": [[]]}, f"stages.normalizers[0]: {A_NORMALIZER}, got []"),
    ({"normalizers": [["NFC", "x"]]}, f"stages.normalizers[0]: {A_NORMALIZER}, got ["),
    ({"normalizers": [["Strip", "right", "left"]]}, f"stages.normalizers[0]: {A_NORMALIZER}, got"),
    ({"normalizers": [[{}]]}, "stages.normalizers[0]: expected a string in Unicode, got {}"),
    ({"normalizers": [["Prepend", ""]]}, "stages.normalizers[0]: expected a prefix that is not"),
    ({"normalizers": [["Replace", "(", ""]]}, "stages.normalizers[0][1]: "),
    (
        {"normalizers": [["Replace", "a", "aa"]] * 7},
        "stages.normalizers[6]: expected stages that make a text at most 64 times as long, got 128",
    ),
    (
        {"normalizers": [["Replace", r"(?=\p{Lu}\p{N}\p{Lu})", "A1"]] * 4},
        "stages.normalizers[3]: expected stages that make a text at most 64 times as long, got 81",
    ),
    ({"steps": ["isolated", {}]}, "stages.steps: expected behaviors, with one space and one bytes"),
    ({"steps": ["isolated", "isolated"]}, "stages.steps: expected behaviors, "),
    ({"steps": ["removed"]}, "stages.steps: expected a behavior for each of 2 patterns"),
    ({"flags": {"<|x|>": ["lstrip"]}}, 'stages.flags: expected special tokens, got "<|x|>"'),
    ({"flags": {"bc": ["rstrip", "lstrip"]}}, 'stages.flags["bc"]: expected control, or some of '),
    ({"flags": {"bc": [[]]}}, 'stages.flags["bc"]: expected control, or some of '),
    ({"literal_bytes": {"bc": [256]}}, 'stages.literal_bytes["bc"]: expected a list of integers'),
    ({"prefix": 1}, "stages.prefix: expected a string in Unicode, got 1"),
    ({"suffix": " "}, 'stages.suffix: expected ASCII without spaces, got " "'),
    ({"suffix": "a"}, "stages: expected affixes that tokens have for each byte, got ["),
    ({"unknown_id": "a"}, 'stages.unknown_id: expected the id of a token, got "a"'),
    ({"unknown_id": 9_999}, "stages.unknown_id: expected the id of a token, got 9999"),
    ({"fuses_unknown": 1}, "stages.fuses_unknown: expected true or false, got 1"),
]


@pytest.mark.parametrize(("stages", "message"), WRONG_STAGES)
def test_wrong_stages_are_refused(tmp_path: Path, stages: object, message: str) -> None:
    path = written(tmp_path / "wrong.json", {**document_2(), "normalizer": None, "stages": stages})
    kind, told = refusal(path)
    assert (kind, str(told)[: len(f"{path}: {message}")]) == (ValueError, f"{path}: {message}")


def test_no_byte_is_dropped_from_a_whole_piece(tmp_path: Path) -> None:
    stages = {"drops_unknown": True}
    others = {"ignore_merges": True, "normalizer": None, "stages": stages}
    path = written(tmp_path / "wrong.json", {**document_2(), **others})
    told = "expected false where bytes without a token are dropped, got true"
    assert refusal(path) == (ValueError, f"{path}: ignore_merges: {told}")


# Without a version, a file is taken for one of version 1.
@pytest.mark.parametrize("key", KEYS_2[1:])
def test_missing_key_of_version_2_is_a_key_error(tmp_path: Path, key: str) -> None:
    document = document_2()
    del document[key]
    path = written(tmp_path / "wrong.json", document)
    assert refusal(path) == (KeyError, f"{path}: the key {key!r} is missing")


def test_greatest_id_is_loaded_wherever_it_stands(tmp_path: Path) -> None:
    greatest = 2**32 - 1
    ids = dict(BYTES_OF)
    vocabularies = [
        Vocabulary.from_tokens({**ids, greatest: b"ab"}, [], {}, PATTERN),
        Vocabulary.from_tokens(ids, [], {"ab": greatest}, PATTERN),
        Vocabulary.from_tokens({**ids, greatest: b"ab"}, [(97, 98)], {}, PATTERN),
    ]
    for vocabulary in vocabularies:
        Tokenizer(vocabulary).save(tmp_path / "v.json", overwrite=True)
        assert read(tmp_path / "v.json") == vocabulary


def doubling_2(count: int) -> Any:
    """Return a document whose merges double a token, and double it again."""
    document = document_2()
    merges = [158, 158]
    for id in range(1000, 1000 + count - 1):
        merges += [id, id]
    return {**document, "merges": merges, "merge_ids": [[1000, count]], "suffix_ids": []}


@pytest.mark.parametrize("count", [40, 15_000, 40_000])
def test_merges_that_double_and_double_take_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    limit = 1_000_000
    monkeypatch.setattr(_vocabulary_file, "MAX_FILE_BYTES", limit)
    path = written(tmp_path / "doubling.json", doubling_2(count))
    with peak_memory() as peak:
        assert refusal(path) == (
            ValueError,
            f"{path}: merges[36]: expected at most {limit} bytes of tokens, got [1017, 1017]",
        )
    assert peak[0] < 2 * limit + 2_000_000 + 40 * path.stat().st_size


def test_tokens_of_the_greatest_size_together_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the merges alone: the file itself says the bytes of the others."""
    path = written(tmp_path / "doubling.json", doubling_2(6))
    monkeypatch.setattr(_vocabulary_file, "MAX_FILE_BYTES", 2 + 4 + 8 + 16 + 32 + 64)
    assert read(path).tokens.bytes_of[1005] == b"a" * 64
    monkeypatch.setattr(_vocabulary_file, "MAX_FILE_BYTES", 2 + 4 + 8 + 16 + 32 + 63)
    assert refusal(path) == (
        ValueError,
        f"{path}: merges[10]: expected at most 125 bytes of tokens, got [1004, 1004]",
    )


def test_memory_for_other_tokens_follows_the_file_size(tmp_path: Path) -> None:
    tokens = {str(1000 + n): [n % 256, n // 256 % 256, 1] for n in range(5000)}
    tokens["500"] = [7] * 500_000
    path = written(tmp_path / "many.json", {**document_2(), "other_tokens": tokens})
    with peak_memory() as peak:
        kind, _ = refusal(path)  # no id 400, which merges and special tokens use
    assert kind is ValueError
    assert peak[0] < 12 * path.stat().st_size


def test_memory_for_many_runs_follows_the_size_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path / "runs.json", {**document_2(), "merge_ids": [[9, 2**32 - 9]] * 10_000})
    with peak_memory() as peak:
        assert refusal(path) == (
            ValueError,
            f"{path}: merge_ids: expected an id for each of 4 merges, got {(2**32 - 9) * 10_000}",
        )
    assert peak[0] < 15 * path.stat().st_size


@pytest.mark.parametrize(
    "change",
    [
        {LONG: 1},
        {"pretokenizer_pattern": LONG + "("},
        {"pretokenizer_pattern": LONG + "a++"},
        {"unicode_version": LONG},
        {"byte_ids": LONG},
        {"merges": LONG},
        {"merge_ids": [LONG]},
        {"other_tokens": {LONG: [1, 2]}},
        {"other_tokens": {"500": [1] * 10_000 + [256]}},
        {"special_tokens": {LONG: 0}},
        {"more_patterns": [LONG + "("]},
        {"normalizer": LONG},
        {"kept_special_tokens": [LONG]},
        {"prefix_ids": [LONG]},
        {"suffix_ids": LONG},
        {"settings": {LONG: [LONG]}},
    ],
    ids=lambda change: next(iter(change))[:20],
)
def test_error_of_version_2_stays_short(tmp_path: Path, change: dict[str, Any]) -> None:
    path = written(tmp_path / "long.json", {**document_2(), **change})
    kind, message = refusal(path)
    assert (kind, len(str(message)) < len(str(path)) + 400) == (ValueError, True)


def test_deeply_nested_pattern_is_refused(tmp_path: Path) -> None:
    pattern = "(" * 5000 + "a" + ")" * 5000
    path = written(tmp_path / "v.json", {**document_2(), "pretokenizer_pattern": pattern})
    kind, message = refusal(path)
    assert (kind, str(message).startswith(f"{path}: pretokenizer_pattern: ")) == (ValueError, True)


def test_merge_that_contradicts_other_tokens_is_refused(tmp_path: Path) -> None:
    """Of the same length, and never a part: a a b, where the file says xyz."""
    change = {"merges": [158, 157, 158, 300], "merge_ids": [[300, 1], [500, 1]]}
    path = written(tmp_path / "wrong.json", {**document_2(), **change})
    assert refusal(path) == (
        ValueError,
        f"{path}: merges[2]: expected a merge that makes the id 500, got [158, 300]",
    )


@pytest.mark.parametrize("size", [20_000, pytest.param(200_000, marks=pytest.mark.slow)])
def test_file_of_many_tokens_is_small_and_loaded(tmp_path: Path, size: int) -> None:
    rng = random.Random(0)
    ids = rng.sample(range(256), 256)
    tokens = {id: bytes([byte]) for byte, id in enumerate(ids)}
    known = set(tokens.values())
    merges: list[Pair] = []
    while len(tokens) < size:
        # Of low ids most often, so that tokens stay short
        pair = (int(len(tokens) * rng.random() ** 3), int(len(tokens) * rng.random() ** 3))
        token = tokens[pair[0]] + tokens[pair[1]]
        if token not in known:
            known.add(token)
            tokens[len(tokens)] = token
            merges.append(pair)
    vocabulary = Vocabulary.from_tokens(tokens, merges, {"<|a|>": size + 100}, PATTERNS[1])
    path = tmp_path / "large.json"
    Tokenizer(vocabulary).save(path)
    same = read(path) == vocabulary
    assert (same, path.stat().st_size < 30 * size) == (True, True)


# Whatever a file holds

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-2, 262)
    | st.integers(10**15, 10**40)
    | st.floats()
    | st.text(st.characters(), max_size=5)
    | st.sampled_from(["0", "256", "<|a|>", PATTERN]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(), max_size=4), inner, max_size=4)
    ),
    max_leaves=8,
)


@st.composite
def documents_with_changes(draw: st.DrawFn) -> Any:
    """Take a document of either version; replace, remove or add values at up to three places."""
    document = draw(st.sampled_from([small_document, document_2]))()
    for _ in range(draw(st.integers(1, 3))):
        inner = document
        while True:
            keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
            key = draw(st.sampled_from(keys)) if keys else None
            if key is None or not isinstance(inner[key], (dict, list)) or draw(st.booleans()):
                break
            inner = inner[key]
        change = draw(st.sampled_from(["replace", "remove", "add"] if keys else ["add"]))
        if change == "replace":
            inner[key] = draw(json_values)
        elif change == "remove":
            del inner[key]
        elif isinstance(inner, dict):
            inner[draw(st.text(st.characters(), max_size=5))] = draw(json_values)
        else:
            inner.insert(draw(st.integers(0, len(inner))), draw(json_values))
    return document


@st.composite
def files_with_changes(draw: st.DrawFn) -> bytes:
    """Take a file of either version; change, remove or repeat bytes at up to four places."""
    document = draw(st.sampled_from([small_document, document_2]))()
    data = bytearray(json.dumps(document, separators=(",", ":")).encode())
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        end = at + draw(st.integers(0, 20))
        data[at:end] = draw(
            st.binary(max_size=3)
            | st.sampled_from([b"0", b"9", b"-", b".0", b"e9", b'"', b"\\ud800", b"[", b"{", b","])
            | st.just(bytes(data[at:end]) * 2)
        )
    return bytes(data)


def loaded_or_refused(path: Path) -> Tokenizer | None:
    """Load, or be refused with an error that names the file."""
    try:
        return Tokenizer.load(path)
    except (ValueError, KeyError) as error:
        problem = error
    assert type(problem) in (ValueError, KeyError)
    assert problem.args[0].startswith(f"{path}: ")
    return None


def said_by(data: bytes) -> str:
    """Return what a file says, however it cuts merge_ids into runs."""
    document = json.loads(data)
    if document["schema_version"] == 2:
        runs = document["merge_ids"]
        document["merge_ids"] = [id for first, n in runs for id in range(first, first + n)]
    return json.dumps(document, sort_keys=True)


def assert_valid_or_refused(path: Path) -> None:
    """A file that is not refused says just what would be saved."""
    tokenizer = loaded_or_refused(path)
    if tokenizer is None:
        return
    again = path.with_name("again.json")
    data = saved(tokenizer, again)
    assert said_by(data) == said_by(path.read_bytes())
    assert Tokenizer.load(again) == tokenizer
    assert tokenizer.decode(tokenizer.encode("abc<|a|> abcé")) == "abc<|a|> abcé"


@given(documents_with_changes())
def test_changed_values_are_valid_or_refused(folder: Path, document: Any) -> None:
    assert_valid_or_refused(written(folder / "changed.json", document))


@given(files_with_changes())
def test_changed_bytes_are_valid_or_refused(folder: Path, data: bytes) -> None:
    path = folder / "changed.json"
    path.write_bytes(data)
    assert_valid_or_refused(path)


# What an engine checks of merges


@st.composite
def documents_of_merges(draw: st.DrawFn) -> Any:
    """Take a document of version 2; give it few ids in many merges, most of them wrong."""
    document = document_2()
    document["byte_ids"] = list(range(256))
    document["other_tokens"] = draw(st.sampled_from([{}, {"300": [97, 98]}, {"257": [98, 98]}]))
    ids = st.sampled_from([97, 98, 256, 257, 258, 300, 2**32 - 1]) | st.integers(-1, 2**32)
    few = st.sampled_from([97, 98, 256, 257])
    document["merges"] = draw(st.lists(few, max_size=6) | st.lists(few | ids, max_size=6))
    runs = st.tuples(ids, st.integers(-1, 3)).map(list)
    right = [[256, len(document["merges"]) // 2]] if document["merges"] else []
    document["merge_ids"] = draw(st.just(right) | st.lists(runs, max_size=3))
    document["prefix_ids"] = draw(st.lists(ids, max_size=1))
    document["suffix_ids"] = []
    document["special_tokens"] = draw(st.dictionaries(st.sampled_from(["a", "ab"]), ids))
    document["kept_special_tokens"] = []
    return document


def made_of(path: Path) -> object:
    """Return all that is known of the vocabulary in a file, or the error that refuses it."""
    try:
        vocabulary = read(path)
    except (ValueError, KeyError) as error:
        return type(error), error.args
    return vocabulary, list(vocabulary.ordinary_tokens.items()), vocabulary.tokens.bytes_of


@given(documents_with_changes() | documents_of_merges())
def test_file_is_read_as_by_the_python_engine(folder: Path, document: Any) -> None:
    path = written(folder / "any.json", document)
    found = made_of(path)
    with patch.object(_vocabulary_file, "ENGINE", python):
        assert found == made_of(path)


@given(vocabularies())
@few_examples
def test_a_loaded_tokenizer_is_as_the_one_saved(folder: Path, vocabulary: Vocabulary) -> None:
    tokenizer = Tokenizer(vocabulary)
    path = folder / "any.json"
    tokenizer.save(path, overwrite=True)
    text = "abc cab <|a|>" + "".join(vocabulary.special_tokens)
    ids = tokenizer.encode(text)
    loaded = Tokenizer.load(path)
    assert loaded.encode(text) == ids
    copies = [loaded, pickle.loads(pickle.dumps(loaded)), Tokenizer.load(path)]
    assert {*copies, tokenizer} == {tokenizer}
    assert [each.encode(text) for each in copies] == [ids] * 3
