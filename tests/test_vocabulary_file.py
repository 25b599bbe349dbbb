"""Saving and loading: what a file says, what is refused, and that no file is ever half written."""

from __future__ import annotations

import copy
import errno
import json
import os
import re
import runpy
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpetite import Tokenizer, _vocabulary_file

HERE = Path(__file__).parent
INVALID = HERE / "data" / "invalid"
MAKE_INVALID = runpy.run_path(str(HERE.parent / "scripts" / "make-invalid"))

PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

# Three merges, (a b) (ab c) (space abc), and two special tokens: what scripts/make-invalid spoils.
SMALL = Tokenizer.train("abc abc", 259, special_tokens=["<|a|>", "<|b|>"])
OTHER = Tokenizer.train("xyz xyz", 259, special_tokens=["<|z|>"])

posix_only = pytest.mark.skipif(os.name != "posix", reason="POSIX permissions and links")
not_as_root = pytest.mark.skipif(
    os.name != "posix" or os.geteuid() == 0, reason="nothing is forbidden to root"
)


def saved(tokenizer: Tokenizer, path: Path) -> bytes:
    """Return the bytes of a tokenizer's file."""
    tokenizer.save(path, overwrite=True)
    return path.read_bytes()


def small_document() -> Any:
    """Return what the file of SMALL says, to be changed."""
    return copy.deepcopy(MAKE_INVALID["valid_document"]())


def written(path: Path, document: object) -> Path:
    """Write a document as JSON, as it is, and return where."""
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def refusal(path: Path) -> tuple[type[BaseException], object]:
    """Return the type and the message of what loading a file raises."""
    with pytest.raises((ValueError, KeyError)) as caught:
        Tokenizer.load(path)
    return caught.type, caught.value.args[0]


def files(folder: Path) -> dict[str, bytes]:
    """Return the bytes of all files in a folder, hidden ones too."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


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
@settings(max_examples=40, deadline=None)
def test_load_gives_what_was_saved(folder: Path, tokenizer: Tokenizer) -> None:
    path = folder / "any.json"
    tokenizer.save(path, overwrite=True)
    loaded = Tokenizer.load(path)
    assert loaded == tokenizer
    assert list(loaded.special_tokens.items()) == list(tokenizer.special_tokens.items())


@given(tokenizers())
@settings(max_examples=40, deadline=None)
def test_loaded_file_is_saved_as_the_same_bytes(folder: Path, tokenizer: Tokenizer) -> None:
    path = folder / "any.json"
    data = saved(tokenizer, path)
    assert saved(Tokenizer.load(path), folder / "again.json") == data


@given(st.lists(corpora, max_size=4), st.lists(literals, max_size=3, unique=True))
@settings(max_examples=40, deadline=None)
def test_equal_tokenizers_give_equal_bytes(
    folder: Path, documents: list[str], special_tokens: list[str]
) -> None:
    one = Tokenizer.train(documents, 270, special_tokens=special_tokens)
    other = Tokenizer.train(reversed(documents), 270, special_tokens=special_tokens)
    assert saved(one, folder / "one.json") == saved(other, folder / "other.json")


@given(tokenizers())
@settings(max_examples=40, deadline=None)
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


def test_fields_of_a_small_file(tmp_path: Path) -> None:
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += [b"ab", b"abc", b" abc", b"<|a|>", b"<|b|>"]
    assert json.loads(saved(SMALL, tmp_path / "small.json")) == {
        "schema_version": 1,
        "mergeable_vocab_size": 259,
        "pretokenizer_pattern": PATTERN,
        "vocab": {str(id): list(token) for id, token in enumerate(tokens)},
        "merges": [[97, 98], [256, 99], [32, 257]],
        "special_tokens": {"<|a|>": 259, "<|b|>": 260},
    }


def test_file_without_merges_and_special_tokens(tmp_path: Path) -> None:
    bare = Tokenizer.train("", 256, special_tokens=())
    document = json.loads(saved(bare, tmp_path / "bare.json"))
    assert (document["merges"], document["special_tokens"]) == ([], {})
    assert Tokenizer.load(tmp_path / "bare.json") == bare


def test_special_tokens_are_loaded_in_the_order_of_their_ids(tmp_path: Path) -> None:
    Tokenizer.train("", 256, special_tokens=["c", "a", "b"]).save(tmp_path / "v.json")
    loaded = Tokenizer.load(tmp_path / "v.json")
    assert list(loaded.special_tokens.items()) == [("c", 256), ("a", 257), ("b", 258)]


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


def test_relative_path_is_meant_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    SMALL.save("small.json")
    assert Tokenizer.load("small.json") == Tokenizer.load(tmp_path / "small.json") == SMALL


def test_load_of_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        Tokenizer.load(tmp_path / "missing.json")
    assert caught.value.filename == str(tmp_path / "missing.json")


def test_load_of_a_folder(tmp_path: Path) -> None:
    with pytest.raises((IsADirectoryError, PermissionError)):
        Tokenizer.load(tmp_path)


@not_as_root
def test_load_of_an_unreadable_file(tmp_path: Path) -> None:
    SMALL.save(tmp_path / "small.json")
    (tmp_path / "small.json").chmod(0)
    with pytest.raises(PermissionError):
        Tokenizer.load(tmp_path / "small.json")


# What is refused

KEYS = (
    "schema_version",
    "mergeable_vocab_size",
    "pretokenizer_pattern",
    "vocab",
    "merges",
    "special_tokens",
)
NO_OTHER_KEYS = f"the file: expected no other keys than {', '.join(KEYS)}"
GPT2 = f"pretokenizer_pattern: expected GPT-2's pattern, {PATTERN!r}"
SIZE = "mergeable_vocab_size: expected 256 + 3 merges = 259"
TWO_IDS = "expected a list of two ids"
BYTES = "expected a list of integers from 0 to 255"
LITERAL = "special_tokens: expected a literal that is not empty, in Unicode"
SPECIAL_ID = "expected an id from 259 to 260"

REFUSED: dict[str, str | KeyError] = {
    "byte-order-mark": "not JSON: Unexpected UTF-8 BOM (decode using utf-8-sig): "
    "line 1 column 1 (char 0)",
    "empty": "not JSON: Expecting value: line 1 column 1 (char 0)",
    "key-given-twice": 'the key "schema_version" is given twice',
    "key-missing": KeyError("the key 'merges' is missing"),
    "key-unknown": f'{NO_OTHER_KEYS}, got "version"',
    "merge-given-twice": "merges[2]: expected a new pair; this is merges[0] too, got [97, 98]",
    "merge-of-strings": 'merges[0][0]: expected an id from 0 to 255, got "a"',
    "merge-of-three": f"merges[1]: {TWO_IDS}, got [256, 99, 100]",
    "merge-refers-to-later-id": "merges[1][0]: expected an id from 0 to 256, got 258",
    "mergeable-vocab-size-wrong": f"{SIZE}, got 261",
    "merges-not-a-list": 'merges: expected a list, got {"0": [97, 98]}',
    "not-a-number": "NaN is not JSON",
    "not-an-object": "the file: expected a JSON object, got []",
    "not-json": "not JSON: Expecting property name enclosed in double quotes: "
    "line 1 column 2 (char 1)",
    "not-utf-8": "not UTF-8 at byte 208 (invalid start byte)",
    "pattern-different": rf'{GPT2}, got "\\S+|\\s+"',
    "schema-version-unknown": "schema_version: expected 1, got 2",
    "special-id-after-a-gap": f'special_tokens["<|b|>"]: {SPECIAL_ID}, got 261',
    "special-id-shared": 'special_tokens["<|b|>"]: '
    'expected an id of its own; "<|a|>" has it too, got 259',
    "special-token-empty": f'{LITERAL}, got ""',
    "special-token-given-twice": 'the key "<|a|>" is given twice',
    "special-token-with-lone-surrogate": rf'{LITERAL}, got "<|\ud800|>"',
    "special-tokens-not-an-object": 'special_tokens: expected an object, got ["<|a|>", "<|b|>"]',
    "truncated": "not JSON: Expecting ',' delimiter: line 1 column 1599 (char 1598)",
    "vocab-byte-out-of-range": f'vocab["255"]: {BYTES}, got [256]',
    "vocab-bytes-not-a-list": f'vocab["256"]: {BYTES}, got "ab"',
    "vocab-bytes-not-of-the-literal": 'vocab["259"]: '
    "expected the bytes of this id, [60, 124, 97, 124, 62], got [60, 124, 98, 124, 62]",
    "vocab-bytes-not-of-the-merge": 'vocab["257"]: '
    "expected the bytes of this id, [97, 98, 99], got [97, 98, 100]",
    "vocab-id-given-twice": 'the key "256" is given twice',
    "vocab-id-missing": 'vocab: the id "255" is missing',
    "vocab-id-unknown": 'vocab: expected no other keys than the ids 0 to 260, got "261"',
    "vocab-id-with-leading-zero": 'vocab: expected no other keys than the ids 0 to 260, got "01"',
    "vocab-not-an-object": "vocab: expected an object, got [[0], [1]]",
}


def expected(path: Path, problem: str | KeyError) -> tuple[type[BaseException], str]:
    """Return what `refusal` should: a ValueError unless the table has a KeyError."""
    if isinstance(problem, KeyError):
        return KeyError, f"{path}: {problem.args[0]}"
    return ValueError, f"{path}: {problem}"


@pytest.mark.parametrize("reason", REFUSED)
def test_invalid_file_is_refused(reason: str) -> None:
    path = INVALID / f"{reason}.json"
    assert refusal(path) == expected(path, REFUSED[reason])


def test_every_invalid_file_has_its_refusal() -> None:
    assert sorted(path.name for path in INVALID.iterdir()) == sorted(
        f"{reason}.json" for reason in REFUSED
    )


def test_invalid_files_are_what_the_script_writes() -> None:
    assert files(INVALID) == {
        f"{reason}.json": data for reason, data in MAKE_INVALID["invalid_files"]().items()
    }


def test_what_the_script_spoils_is_valid(tmp_path: Path) -> None:
    assert json.loads(saved(SMALL, tmp_path / "small.json")) == small_document()


def other_merge(side: int, last: int) -> str:
    return f"merges[1][{side}]: expected an id from 0 to {last}"


WRONG_VALUES: list[tuple[tuple[str | int, ...], object, str]] = [
    (("schema_version",), 0, "schema_version: expected 1, got 0"),
    (("schema_version",), "1", 'schema_version: expected 1, got "1"'),
    (("schema_version",), True, "schema_version: expected 1, got true"),
    (("schema_version",), 1.0, "schema_version: expected 1, got 1.0"),
    (("schema_version",), None, "schema_version: expected 1, got null"),
    (("mergeable_vocab_size",), 258, f"{SIZE}, got 258"),
    (("mergeable_vocab_size",), "259", f'{SIZE}, got "259"'),
    (("mergeable_vocab_size",), 259.0, f"{SIZE}, got 259.0"),
    (("mergeable_vocab_size",), True, f"{SIZE}, got true"),
    (("mergeable_vocab_size",), None, f"{SIZE}, got null"),
    (("pretokenizer_pattern",), PATTERN + " ", f"{GPT2}, got {json.dumps(PATTERN)[:77]}..."),
    (("pretokenizer_pattern",), "", f'{GPT2}, got ""'),
    (("pretokenizer_pattern",), None, f"{GPT2}, got null"),
    (("merges",), None, "merges: expected a list, got null"),
    (("merges",), "", 'merges: expected a list, got ""'),
    (("merges", 0), [], f"merges[0]: {TWO_IDS}, got []"),
    (("merges", 0), [97], f"merges[0]: {TWO_IDS}, got [97]"),
    (("merges", 0), "ab", f'merges[0]: {TWO_IDS}, got "ab"'),
    (("merges", 0), {"97": 98}, f'merges[0]: {TWO_IDS}, got {{"97": 98}}'),
    (("merges", 0), None, f"merges[0]: {TWO_IDS}, got null"),
    (("merges", 1, 0), 257, f"{other_merge(0, 256)}, got 257"),
    (("merges", 1, 1), 257, f"{other_merge(1, 256)}, got 257"),
    (("merges", 1, 1), 259, f"{other_merge(1, 256)}, got 259"),
    (("merges", 1, 0), -1, f"{other_merge(0, 256)}, got -1"),
    (("merges", 1, 0), "256", f'{other_merge(0, 256)}, got "256"'),
    (("merges", 1, 0), True, f"{other_merge(0, 256)}, got true"),
    (("merges", 1, 0), 256.0, f"{other_merge(0, 256)}, got 256.0"),
    (("merges", 1, 0), None, f"{other_merge(0, 256)}, got null"),
    (("merges", 1, 0), 10**30, f"{other_merge(0, 256)}, got 1{'0' * 30}"),
    (("special_tokens",), None, "special_tokens: expected an object, got null"),
    (("special_tokens",), "", 'special_tokens: expected an object, got ""'),
    (("special_tokens", "<|a|>"), 258, f'special_tokens["<|a|>"]: {SPECIAL_ID}, got 258'),
    (("special_tokens", "<|a|>"), -1, f'special_tokens["<|a|>"]: {SPECIAL_ID}, got -1'),
    (("special_tokens", "<|a|>"), "259", f'special_tokens["<|a|>"]: {SPECIAL_ID}, got "259"'),
    (("special_tokens", "<|a|>"), True, f'special_tokens["<|a|>"]: {SPECIAL_ID}, got true'),
    (("special_tokens", "<|a|>"), 259.0, f'special_tokens["<|a|>"]: {SPECIAL_ID}, got 259.0'),
    (("special_tokens", "<|a|>"), None, f'special_tokens["<|a|>"]: {SPECIAL_ID}, got null'),
    (("special_tokens", "é"), 261, 'vocab: the id "261" is missing'),
    (("vocab",), None, "vocab: expected an object, got null"),
    (("vocab", "-1"), [1], 'vocab: expected no other keys than the ids 0 to 260, got "-1"'),
    (("vocab", ""), [1], 'vocab: expected no other keys than the ids 0 to 260, got ""'),
    (("vocab", "1"), [-1], f'vocab["1"]: {BYTES}, got [-1]'),
    (("vocab", "1"), [True], f'vocab["1"]: {BYTES}, got [true]'),
    (("vocab", "1"), [1.0], f'vocab["1"]: {BYTES}, got [1.0]'),
    (("vocab", "1"), ["1"], f'vocab["1"]: {BYTES}, got ["1"]'),
    (("vocab", "1"), [[1]], f'vocab["1"]: {BYTES}, got [[1]]'),
    (("vocab", "1"), [None], f'vocab["1"]: {BYTES}, got [null]'),
    (("vocab", "1"), [10**30], f'vocab["1"]: {BYTES}, got [1{"0" * 30}]'),
    (("vocab", "1"), 1, f'vocab["1"]: {BYTES}, got 1'),
    (("vocab", "1"), {"0": 1}, f'vocab["1"]: {BYTES}, got {{"0": 1}}'),
    (("vocab", "1"), None, f'vocab["1"]: {BYTES}, got null'),
    (("vocab", "1"), [], 'vocab["1"]: expected the bytes of this id, [1], got []'),
    (("vocab", "1"), [2], 'vocab["1"]: expected the bytes of this id, [1], got [2]'),
    (("vocab", "1"), [1, 1], 'vocab["1"]: expected the bytes of this id, [1], got [1, 1]'),
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


@pytest.mark.parametrize("depths", [range(850, 1000), [10**4, 10**5, 10**6]], ids=["near", "far"])
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
    path = written(tmp_path / "newer.json", {"schema_version": 2, "tokens": []})
    assert refusal(path) == (ValueError, f"{path}: schema_version: expected 1, got 2")


def test_file_of_the_greatest_size_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = len(saved(SMALL, tmp_path / "small.json"))
    monkeypatch.setattr(_vocabulary_file, "_MAX_SIZE", size)
    assert Tokenizer.load(tmp_path / "small.json") == SMALL


def test_larger_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "small.json"
    size = len(saved(SMALL, path))
    monkeypatch.setattr(_vocabulary_file, "_MAX_SIZE", size - 1)
    assert refusal(path) == (
        ValueError,
        f"{path}: larger than {size - 1} bytes, so no vocabulary file",
    )


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
    ids=[
        "key",
        "version",
        "pattern",
        "merge",
        "literal",
        "literal with a shared id",
        "bytes of a literal",
        "id",
        "bytes",
    ],
)
def test_error_stays_short_whatever_the_file_holds(tmp_path: Path, change: dict[str, Any]) -> None:
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
    """Take the document of SMALL and replace, remove or add values at up to three places."""
    document = small_document()
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
    """Take the file of SMALL and change, remove or repeat bytes at up to four places."""
    data = bytearray(json.dumps(small_document(), separators=(",", ":")).encode())
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


def assert_valid_or_refused(path: Path) -> None:
    """A file that is not refused says just what would be saved."""
    tokenizer = loaded_or_refused(path)
    if tokenizer is None:
        return
    again = path.with_name("again.json")
    said = json.dumps(json.loads(path.read_bytes()), sort_keys=True)
    assert json.dumps(json.loads(saved(tokenizer, again)), sort_keys=True) == said
    assert Tokenizer.load(again) == tokenizer
    assert tokenizer.decode(tokenizer.encode("abc<|a|> abcé")) == "abc<|a|> abcé"


@given(documents_with_changes())
@settings(max_examples=150, deadline=None)
def test_changed_values_are_valid_or_refused(folder: Path, document: Any) -> None:
    assert_valid_or_refused(written(folder / "changed.json", document))


@given(files_with_changes())
@settings(max_examples=150, deadline=None)
def test_changed_bytes_are_valid_or_refused(folder: Path, data: bytes) -> None:
    path = folder / "changed.json"
    path.write_bytes(data)
    assert_valid_or_refused(path)


# How a file is written


def no_nameless_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_vocabulary_file, "_open_nameless", lambda _folder: None)


def refuse_link(*_args: object, **_keywords: object) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


@pytest.fixture(params=["system", "named", "links refused", "no links"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Save as this system can, and as systems do that can less."""
    if request.param != "system":
        no_nameless_files(monkeypatch)
    if request.param == "links refused":
        monkeypatch.setattr(os, "link", refuse_link)
    if request.param == "no links":
        monkeypatch.delattr(os, "link", raising=False)


in_every_way = pytest.mark.usefixtures("way")


@pytest.fixture(scope="module")
def small_bytes(folder: Path) -> bytes:
    """Return the file of SMALL."""
    return saved(SMALL, folder / "small.json")


@pytest.fixture(scope="module")
def other_bytes(folder: Path) -> bytes:
    """Return the file of OTHER."""
    return saved(OTHER, folder / "other.json")


@in_every_way
def test_save_makes_one_file(tmp_path: Path, small_bytes: bytes) -> None:
    SMALL.save(tmp_path / "v.json")
    assert files(tmp_path) == {"v.json": small_bytes}


@in_every_way
def test_save_refuses_an_existing_file(tmp_path: Path) -> None:
    path = tmp_path / "v.json"
    path.write_bytes(b"old")
    with pytest.raises(FileExistsError) as caught:
        SMALL.save(path)
    assert (caught.value.errno, caught.value.filename) == (errno.EEXIST, str(path))
    assert files(tmp_path) == {"v.json": b"old"}


def test_existing_file_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written_already(_descriptor: int) -> None:
        raise AssertionError("the vocabulary was written to disk before the refusal")

    (tmp_path / "v.json").write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", written_already)
    with pytest.raises(FileExistsError):
        SMALL.save(tmp_path / "v.json")


@in_every_way
def test_save_overwrites_when_asked(tmp_path: Path, small_bytes: bytes) -> None:
    (tmp_path / "v.json").write_bytes(b"old" * 10_000)
    SMALL.save(tmp_path / "v.json", overwrite=True)
    assert files(tmp_path) == {"v.json": small_bytes}


@in_every_way
def test_overwriting_needs_no_old_file(tmp_path: Path, small_bytes: bytes) -> None:
    SMALL.save(tmp_path / "v.json", overwrite=True)
    assert files(tmp_path) == {"v.json": small_bytes}


@in_every_way
def test_save_refuses_a_file_that_appears_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "v.json"
    monkeypatch.setattr(os, "fsync", lambda _descriptor: path.write_bytes(b"theirs"))
    with pytest.raises(FileExistsError) as caught:
        SMALL.save(path)
    assert caught.value.filename == str(path)
    assert files(tmp_path) == {"v.json": b"theirs"}


@in_every_way
def test_save_to_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "v.json").mkdir()
    with pytest.raises(FileExistsError):
        SMALL.save(tmp_path / "v.json")
    with pytest.raises((IsADirectoryError, PermissionError)):
        SMALL.save(tmp_path / "v.json", overwrite=True)
    assert [(path.name, path.is_dir()) for path in tmp_path.iterdir()] == [("v.json", True)]


@in_every_way
@pytest.mark.parametrize("overwrite", [False, True])
def test_save_to_a_missing_folder_is_refused(tmp_path: Path, overwrite: bool) -> None:
    with pytest.raises(FileNotFoundError):
        SMALL.save(tmp_path / "missing" / "v.json", overwrite=overwrite)
    assert files(tmp_path) == {}


@not_as_root
@in_every_way
@pytest.mark.parametrize("overwrite", [False, True])
def test_save_to_a_read_only_folder_is_refused(tmp_path: Path, overwrite: bool) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "old.json").write_bytes(b"old")
    inner.chmod(0o500)
    with pytest.raises(PermissionError):
        SMALL.save(inner / ("old.json" if overwrite else "new.json"), overwrite=overwrite)
    assert files(inner) == {"old.json": b"old"}
    inner.chmod(0o700)


@posix_only
@in_every_way
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o444])
def test_overwriting_keeps_the_permissions(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "v.json"
    path.write_bytes(b"old")
    path.chmod(mode)
    SMALL.save(path, overwrite=True)
    assert stat.S_IMODE(path.stat().st_mode) == mode


@posix_only
@in_every_way
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0, 0o666)])
def test_new_file_has_the_permissions_of_any_new_file(
    tmp_path: Path, overwrite: bool, umask: int, mode: int
) -> None:
    before = os.umask(umask)
    try:
        SMALL.save(tmp_path / "v.json", overwrite=overwrite)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "v.json").stat().st_mode) == mode


@posix_only
@in_every_way
@pytest.mark.parametrize("overwrite", [False, True])
def test_save_through_a_link_to_nothing_makes_the_target(
    tmp_path: Path, overwrite: bool, small_bytes: bytes
) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "link").symlink_to(Path("inner", "v.json"))
    SMALL.save(tmp_path / "link", overwrite=overwrite)
    assert (tmp_path / "link").readlink() == Path("inner", "v.json")
    assert files(tmp_path / "inner") == {"v.json": small_bytes}


@posix_only
@in_every_way
def test_save_through_a_link_overwrites_the_target(tmp_path: Path, small_bytes: bytes) -> None:
    (tmp_path / "v.json").write_bytes(b"old")
    (tmp_path / "link").symlink_to("v.json")
    SMALL.save(tmp_path / "link", overwrite=True)
    assert (tmp_path / "link").readlink() == Path("v.json")
    assert files(tmp_path) == {"v.json": small_bytes, "link": small_bytes}


@posix_only
@in_every_way
def test_save_through_a_link_refuses_an_existing_target(tmp_path: Path) -> None:
    (tmp_path / "v.json").write_bytes(b"old")
    (tmp_path / "link").symlink_to("v.json")
    with pytest.raises(FileExistsError) as caught:
        SMALL.save(tmp_path / "link")
    assert caught.value.filename == str(tmp_path / "link")
    assert files(tmp_path) == {"v.json": b"old", "link": b"old"}


@pytest.mark.parametrize("gone", [False, True], ids=["links refused", "no links"])
def test_save_needs_no_links_where_files_can_be_nameless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: bool, small_bytes: bytes
) -> None:
    if gone:
        monkeypatch.delattr(os, "link", raising=False)
    else:
        monkeypatch.setattr(os, "link", refuse_link)
    SMALL.save(tmp_path / "new.json")
    (tmp_path / "old.json").write_bytes(b"old")
    SMALL.save(tmp_path / "old.json", overwrite=True)
    assert files(tmp_path) == {"new.json": small_bytes, "old.json": small_bytes}


@in_every_way
@pytest.mark.parametrize("overwrite", [False, True])
def test_all_bytes_are_on_disk_before_the_file_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool, small_bytes: bytes
) -> None:
    real = os.fsync
    synced = []

    def fsync(descriptor: int) -> None:
        real(descriptor)
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            synced.append((status.st_size, (tmp_path / "v.json").exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    SMALL.save(tmp_path / "v.json", overwrite=overwrite)
    assert synced == [(len(small_bytes), False)]


@posix_only
@in_every_way
@pytest.mark.parametrize("overwrite", [False, True])
def test_name_is_on_disk_when_save_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool
) -> None:
    """The folder is put to disk too, after the file has its name."""
    real = os.fsync
    synced = []

    def fsync(descriptor: int) -> None:
        real(descriptor)
        if os.path.samestat(os.fstat(descriptor), tmp_path.stat()):
            synced.append((tmp_path / "v.json").exists())

    monkeypatch.setattr(os, "fsync", fsync)
    SMALL.save(tmp_path / "v.json", overwrite=overwrite)
    assert synced == [True]


@in_every_way
def test_save_succeeds_where_a_folder_cannot_be_put_to_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_bytes: bytes
) -> None:
    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "fsync", fsync)
    SMALL.save(tmp_path / "v.json")
    assert files(tmp_path) == {"v.json": small_bytes}


# Whatever goes wrong on the way


@in_every_way
@pytest.mark.parametrize("old", [{}, {"v.json": b"old"}], ids=["new", "overwrite"])
def test_full_disk_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: dict[str, bytes]
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name, data in old.items():
        (tmp_path / name).write_bytes(data)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=re.escape(os.strerror(errno.ENOSPC))) as caught:
        SMALL.save(tmp_path / "v.json", overwrite=bool(old))
    assert caught.value.errno == errno.ENOSPC
    assert files(tmp_path) == old


STEPS = ["fsync", "link", "chmod", "replace"]


@in_every_way
@pytest.mark.parametrize("old", [{}, {"v.json": b"old"}], ids=["new", "overwrite"])
@pytest.mark.parametrize("ending", ["error", "interrupt before", "interrupt after"])
@pytest.mark.parametrize("step", STEPS)
def test_save_that_ends_early_leaves_a_whole_file_and_no_other(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    ending: str,
    old: dict[str, bytes],
    small_bytes: bytes,
) -> None:
    real: Any = getattr(os, step, None)

    def end_early(*args: Any, **keywords: Any) -> None:
        if ending == "error":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if ending == "interrupt after":
            real(*args, **keywords)
        raise KeyboardInterrupt

    for name, data in old.items():
        (tmp_path / name).write_bytes(data)
    if real is not None:
        monkeypatch.setattr(os, step, end_early)
    with suppress(OSError, KeyboardInterrupt):
        SMALL.save(tmp_path / "v.json", overwrite=bool(old))
    assert files(tmp_path) in (old, {"v.json": small_bytes})


SAVE_IN_A_PROCESS = """
import os, signal, sys
from bpetite import Tokenizer, _vocabulary_file

if sys.argv[3] == "named":
    _vocabulary_file._open_nameless = lambda folder: None
tokenizer = Tokenizer.load(sys.argv[1])
"""

KILLED = """
os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)
tokenizer.save(sys.argv[2], overwrite=True)
"""

NO_ROOM = """
import resource

limits = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
try:
    tokenizer.save(sys.argv[2], overwrite=True)
except OSError as error:
    print(error.errno)
resource.setrlimit(resource.RLIMIT_FSIZE, limits)
"""

SAVE_MANY = """
print("ready", flush=True)
sys.stdin.readline()
count = 0
for n in range(40):
    try:
        tokenizer.save(os.path.join(sys.argv[2], f"{n}.json"))
    except FileExistsError:
        continue
    count += 1
print(count)
"""


def command(code: str, *arguments: str | Path) -> list[str]:
    """Return what runs code in a process: the file to load, where to save, and the way."""
    return [sys.executable, "-c", SAVE_IN_A_PROCESS + code, *map(str, arguments)]


def can_open_nameless_files() -> bool:
    """Tell whether this system can, without asking bpetite."""
    if not hasattr(os, "O_TMPFILE") or not os.path.isdir("/proc/self/fd"):
        return False
    try:
        os.close(os.open(tempfile.gettempdir(), os.O_TMPFILE | os.O_WRONLY))
    except OSError:
        return False
    return True


@pytest.fixture
def small_path(folder: Path, small_bytes: bytes) -> Path:
    """Return where a file of SMALL is."""
    path = folder / "given.json"
    path.write_bytes(small_bytes)
    return path


@pytest.mark.skipif(not can_open_nameless_files(), reason="no nameless files on this system")
def test_killed_save_leaves_the_old_file_and_no_other(tmp_path: Path, small_path: Path) -> None:
    path = tmp_path / "v.json"
    path.write_bytes(b"old")
    ended = subprocess.run(command(KILLED, small_path, path, "system"), check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    assert files(tmp_path) == {"v.json": b"old"}


@posix_only
def test_killed_save_leaves_the_old_file_where_new_files_have_names(
    tmp_path: Path, small_path: Path
) -> None:
    path = tmp_path / "v.json"
    path.write_bytes(b"old")
    ended = subprocess.run(command(KILLED, small_path, path, "named"), check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"


@posix_only
@pytest.mark.parametrize("how", ["system", "named"])
@pytest.mark.parametrize("old", [{}, {"v.json": b"old"}], ids=["new", "overwrite"])
def test_save_that_finds_no_room_leaves_the_old_file_alone(
    tmp_path: Path, small_path: Path, how: str, old: dict[str, bytes]
) -> None:
    for name, data in old.items():
        (tmp_path / name).write_bytes(data)
    ended = subprocess.run(
        command(NO_ROOM, small_path, tmp_path / "v.json", how),
        check=True,
        timeout=60,
        capture_output=True,
    )
    assert int(ended.stdout) == errno.EFBIG
    assert files(tmp_path) == old


@in_every_way
def test_one_of_many_threads_saves_a_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All have found that there is no such file when the first of them names its own."""
    names = [f"<|{n}|>" for n in range(6)]
    barrier = threading.Barrier(len(names), timeout=60)
    thread = threading.local()
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if not hasattr(thread, "waited"):
            thread.waited = True
            barrier.wait()
        real(descriptor)

    def save(name: str) -> str | None:
        try:
            Tokenizer.train("", 256, special_tokens=[name]).save(tmp_path / "v.json")
        except FileExistsError:
            return None
        return name

    monkeypatch.setattr(os, "fsync", fsync)
    with ThreadPoolExecutor(len(names)) as executor:
        winners = [name for name in executor.map(save, names) if name is not None]
    assert [dict(Tokenizer.load(path).special_tokens) for path in tmp_path.iterdir()] == [
        {name: 256} for name in winners
    ]


def test_one_of_two_processes_saves_each_new_file(
    tmp_path: Path, small_path: Path, small_bytes: bytes
) -> None:
    start = command(SAVE_MANY, small_path, tmp_path, "system")
    with (
        subprocess.Popen(start, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as one,
        subprocess.Popen(start, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other,
    ):
        for process in (one, other):
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in (one, other):
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        counts = [int(process.communicate(timeout=60)[0]) for process in (one, other)]
    assert sum(counts) == 40
    assert files(tmp_path) == {f"{n}.json": small_bytes for n in range(40)}


@pytest.mark.skipif(os.name == "nt", reason="Windows does not replace an open file")
@in_every_way
def test_reader_never_meets_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "v.json"
    SMALL.save(path)

    def save_many() -> None:
        for _ in range(5):
            OTHER.save(path, overwrite=True)
            SMALL.save(path, overwrite=True)

    seen = set()
    with ThreadPoolExecutor(1) as executor:
        saving = executor.submit(save_many)
        while not saving.done():
            seen.add(Tokenizer.load(path))
        saving.result()
    assert seen <= {SMALL, OTHER}
    assert len(seen) > 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a named pipe")
def test_save_never_replaces_what_is_not_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="not a file that can be replaced"):
        Tokenizer.train("", 256).save(pipe, overwrite=True)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_save_into_a_missing_folder_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "model.json"
    with pytest.raises(FileNotFoundError) as caught:
        Tokenizer.train("", 256).save(path)
    assert caught.value.filename == str(path)


def test_save_refuses_what_load_would_refuse_for_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_vocabulary_file, "_MAX_SIZE", 1000)
    with pytest.raises(ValueError, match="more than load would read"):
        Tokenizer.train("", 256).save(tmp_path / "v.json")
    assert list(tmp_path.iterdir()) == []
