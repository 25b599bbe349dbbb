"""GPT-2's vocab.json and merges.txt: exactly tokenizers' ids, and back as they came."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
import tokenizers
from support import DATA
from support.engines import quick_once
from support.refusals import refusal
from support.vocabularies import vocabulary
from tokenizers import models, pre_tokenizers

from bpetite import Tokenizer
from bpetite._pretokenizer import PATTERNS
from bpetite._vocabulary import Vocabulary
from conftest import TEXTS

pytestmark = quick_once

printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
others = [byte for byte in range(256) if byte not in printable]
CHARACTERS = [chr(byte if byte in printable else 256 + others.index(byte)) for byte in range(256)]
"""How each byte is written."""

Merges = Iterable[tuple[str, str]]


def text_of(token: bytes) -> str:
    """Return how a token is written."""
    return "".join(CHARACTERS[byte] for byte in token)


def lines_of(merges: Merges) -> str:
    """Return the lines of merges.txt, without a version."""
    return "".join(f"{left} {right}\n" for left, right in merges)


def written(
    folder: Path,
    vocab: Mapping[str, object],
    merges: Merges | bytes,
    name: str = "vocab.json",
    merges_name: str = "merges.txt",
) -> Path:
    """Write the two files, and return the path of the first."""
    data = merges if isinstance(merges, bytes) else lines_of(merges).encode()
    (folder / name).write_text(json.dumps(vocab), encoding="utf-8")
    (folder / merges_name).write_bytes(data)
    return folder / name


def library(path: Path, special_tokens: Iterable[str] = ()) -> Callable[[str], list[int]]:
    """Return how tokenizers encodes a text by the two files, with its own cutting."""
    merges = path.with_name(path.name.replace("vocab.json", "merges.txt"))
    other = tokenizers.Tokenizer(models.BPE.from_file(str(path), str(merges)))
    other.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    added = [tokenizers.AddedToken(literal, normalized=False) for literal in special_tokens]
    other.add_special_tokens(added)
    return lambda text: other.encode(text).ids


BYTES = {character: byte for byte, character in enumerate(CHARACTERS)}

VOCAB = {**BYTES, "ab": 256, "Ġab": 257, "#a": 258}
MERGES = [("a", "b"), ("Ġ", "ab"), ("#", "a")]


@pytest.fixture(scope="module")
def layout(tokenizer: Tokenizer) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The vocab and the merges of the shared tokenizer, the special token left out."""
    texts = [text_of(tokenizer.token_bytes(id)) for id in range(256 + len(tokenizer.merges))]
    merges = [(texts[left], texts[right]) for left, right in tokenizer.merges]
    return {text: id for id, text in enumerate(texts)}, merges


Layout = tuple[dict[str, int], list[tuple[str, str]]]


# In


@pytest.mark.parametrize(
    "merges",
    [
        b"#version: 0.2\na b\n\xc4\xa0 ab\n# a\n",
        b"#version\na b\n\xc4\xa0 ab\n# a",
        b"a b\r\n\xc4\xa0 ab\r\n# a\r\n",
        b"#version: 0.2\r\na b\r\n\xc4\xa0 ab\r\n# a",
        b"\n\na b\n\n\xc4\xa0 ab\n# a\n\n",
    ],
)
def test_merges_with_or_without_version_and_with_any_line_ends(
    merges: bytes, tmp_path: Path
) -> None:
    path = written(tmp_path, VOCAB, merges)
    assert Tokenizer.load(path) == Tokenizer.load(written(tmp_path, VOCAB, MERGES))


def test_the_first_line_is_a_merge_unless_it_says_version(tmp_path: Path) -> None:
    """Also one of "#": readers that drop it blindly lose a merge."""
    for merges in ([("#", "#"), ("a", "b")], [("a", "b"), ("#", "#")]):
        path = written(tmp_path, {**BYTES, "##": 256, "ab": 257}, merges)
        assert Tokenizer.load(path).encode("##ab") == library(path)("##ab") == [256, 257]


def test_ids_sorted_by_frequency_with_special_tokens_around(layout: Layout, tmp_path: Path) -> None:
    """As RoBERTa's, where no id says anything of the rank of a merge."""
    vocab, merges = layout
    texts = list(vocab)
    random.Random(0).shuffle(texts)
    texts = ["<s>", "<pad>", "</s>", "<unk>", *texts, "madeupword0000", "<mask>"]
    path = written(tmp_path, {text: id for id, text in enumerate(texts)}, merges)
    loaded = Tokenizer.load(path)
    literals = ["<s>", "<pad>", "</s>", "<unk>", "madeupword0000", "<mask>"]
    assert dict(loaded.special_tokens) == {text: texts.index(text) for text in literals}
    cases = [*TEXTS.values(), "<s>Hello <mask>!</s><pad><pad>", "<s", "madeupword0000madeup"]
    ids = list(map(library(path, literals), cases))
    assert loaded.encode_batch(cases) == ids
    assert loaded.decode_batch(ids) == cases


def test_merges_may_make_one_token_of_several_pairs(tmp_path: Path) -> None:
    """And use a token before the line that makes it."""
    vocab = {**BYTES, "abc": 300, "ab": 301, "bc": 302, "abcc": 303}
    merges = [("abc", "c"), ("a", "bc"), ("b", "c"), ("a", "b"), ("ab", "c")]
    path = written(tmp_path, vocab, merges)
    loaded = Tokenizer.load(path)
    lot = random.Random(0)
    texts = ["".join(lot.choices("abc", k=lot.randrange(12))) for _ in range(300)]
    assert loaded.encode_batch(texts) == list(map(library(path), texts))


def test_default_special_tokens_are_the_unmerged_literals(tmp_path: Path) -> None:
    vocab = {**VOCAB, "<s>": 300, "a b": 301, "中": 302, "\n\n": 303, "bc": 304}
    tokenizer = Tokenizer.load(written(tmp_path, vocab, MERGES))
    specials = {"<s>": 300, "a b": 301, "中": 302, "\n\n": 303, "bc": 304}
    assert dict(tokenizer.special_tokens) == specials


def test_unmade_token_written_as_bytes_is_ordinary(tmp_path: Path) -> None:
    """No literal is written like that; the bytes of the token are those that it means."""
    path = written(tmp_path, {**VOCAB, "Ġc": 300, "Ċ": VOCAB["Ċ"]}, MERGES)
    tokenizer = Tokenizer.load(path)
    assert dict(tokenizer.special_tokens) == {}
    assert tokenizer.token_bytes(300) == b" c"
    assert tokenizer.encode(" c") == library(path)(" c") == [32, 99]


def test_special_tokens_that_are_given_are_all(tmp_path: Path) -> None:
    path = written(tmp_path, {**VOCAB, "<s>": 300, "xy": 301}, MERGES)
    tokenizer = Tokenizer.load(path, special_tokens={"<s>": 300, "<new>": 999})
    assert dict(tokenizer.special_tokens) == {"<s>": 300, "<new>": 999}
    assert tokenizer.token_bytes(301) == b"xy"
    assert tokenizer.encode("<s>xy<new>") == [300, 120, 121, 999]


def test_a_special_token_may_be_an_ordinary_token_too(tmp_path: Path) -> None:
    path = written(tmp_path, VOCAB, MERGES)
    tokenizer = Tokenizer.load(path, special_tokens={"ab": 256, "a": 97})
    text = "cabab a"
    assert tokenizer.encode(text) == library(path, ["ab", "a"])(text) == [99, 256, 256, 32, 97]
    assert tokenizer.encode_ordinary(text) == library(path)(text)


@pytest.mark.parametrize("pattern", ["cl100k", "o200k", "qwen2", r"\S+|\s+"])
def test_another_pattern_may_be_given(pattern: str, layout: Layout, tmp_path: Path) -> None:
    vocab, merges = layout
    path = written(tmp_path, vocab, merges)
    loaded = Tokenizer.load(path, pattern=pattern)
    other = tokenizers.Tokenizer(models.BPE(vocab, merges))
    split = pre_tokenizers.Split(tokenizers.Regex(loaded.patterns[0]), "isolated")
    other.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    assert loaded.patterns[0] == PATTERNS.get(pattern, pattern)
    texts = list(TEXTS.values())
    assert loaded.encode_batch(texts) == [each.ids for each in other.encode_batch(texts)]


@pytest.mark.parametrize(
    ("name", "merges_name"),
    [
        ("gpt2_vocab.json", "gpt2_merges.txt"),
        ("my.vocab.json", "my.merges.txt"),
        ("encoder.json", "vocab.bpe"),
    ],
)
def test_the_names_of_the_files(name: str, merges_name: str, tmp_path: Path) -> None:
    path = written(tmp_path, VOCAB, MERGES, name, merges_name)
    assert Tokenizer.load(path).encode("ab ab") == [256, 257]


# What is refused


TWO = "expected two tokens whose join vocab.json has, got"


@pytest.mark.parametrize(
    ("vocab", "merges", "reason"),
    [
        ({"a": True}, MERGES, '["a"]: expected an id from 0 to 4294967295, got true'),
        ({"a": -1}, MERGES, '["a"]: expected an id from 0 to 4294967295, got -1'),
        ({"a": 97.0}, MERGES, '["a"]: expected an id from 0 to 4294967295, got 97.0'),
        ({"a": "97"}, MERGES, '["a"]: expected an id from 0 to 4294967295, got "97"'),
        ({"a": 2**32}, MERGES, '["a"]: expected an id from 0 to 4294967295, got 4294967296'),
        ({"ab": 97}, MERGES, '["ab"]: expected an id of its own; "a" has it too, got 97'),
        ({"<s>": 300, "<t>": 300}, MERGES,
         '["<t>"]: expected an id of its own; "<s>" has it too, got 300'),
        ({"a": None}, MERGES, '["a"]: expected an id from 0 to 4294967295, got null'),
        ({"": 300}, MERGES, "the special token '' is empty, or not Unicode"),
        ({"\ud800": 300}, MERGES, "the special token '\\ud800' is empty, or not Unicode"),
        ({"a中": 300, "中": 301}, [("a", "中")],
         "[\"a\\u4e2d\"]: the character '中' of 'a中' stands for no byte"),
        ({}, b"a b\na\n", f'MERGES: line 2: {TWO} "a"'),
        ({}, b"a b\na b c\n", f'MERGES: line 2: {TWO} "a b c"'),
        ({}, b"a b\n a b\n", f'MERGES: line 2: {TWO} " a b"'),
        ({}, b"a b \n", f'MERGES: line 1: {TWO} "a b "'),
        ({}, b"a\tb\n", f'MERGES: line 1: {TWO} "a\\tb"'),
        ({}, b"a c\n", f'MERGES: line 1: {TWO} "a c"'),
        ({}, b"a b\nxx y\n", f'MERGES: line 2: {TWO} "xx y"'),
        ({}, b"a b\n#version: 0.2\n", f'MERGES: line 2: {TWO} "#version: 0.2"'),
        ({}, b"# version\na b\n", f'MERGES: line 1: {TWO} "# version"'),
        ({}, b"\xef\xbb\xbf#version\na b\n", f'MERGES: line 1: {TWO} "\\ufeff#version"'),
        ({}, b"a b\n\xc4\xa0 ab\na b\n",
         'MERGES: line 3: expected a pair that no line above has, got "a b"'),
        ({}, b"a b\n\xff\n", "MERGES: not UTF-8 at byte 4 (invalid start byte)"),
        ({"a</w>": 300, "ba</w>": 301}, [("b", "a</w>")],
         "MERGES: the file: expected parts made of bytes; CLIP's end words with </w>, "
         'got "a</w>"'),
    ],
)  # fmt: skip
def test_fault_is_refused_with_its_path(
    vocab: dict[str, object], merges: Merges | bytes, reason: str, tmp_path: Path
) -> None:
    path = written(tmp_path, {**VOCAB, **vocab}, merges)
    place = f"{path}: {reason}"
    if reason.startswith("MERGES: "):
        place = f"{tmp_path / 'merges.txt'}: {reason.removeprefix('MERGES: ')}"
    assert refusal(Tokenizer.load, path) == place


@pytest.mark.parametrize("missing", ["a", "Ā", "ô"])
def test_every_byte_needs_an_id(missing: str, tmp_path: Path) -> None:
    vocab = {text: id for text, id in VOCAB.items() if text != missing}
    path = written(tmp_path, vocab, [])
    reason = f"no id stands for the single byte 0x{VOCAB[missing]:02x}"
    assert refusal(Tokenizer.load, path) == f"{path}: {reason}"


@pytest.mark.parametrize(
    ("special_tokens", "reason"),
    [
        ({"<s>": 301}, '["<s>"]: expected 301, the id given for this literal, got 300'),
        ({"ab": 300}, '["ab"]: expected 300, the id given for this literal, got 256'),
        ({"<t>": 97}, "the id 97 of '<t>' is also the id of b'a'"),
        ({"<t>": 999, "<u>": 999}, "'<u>' and '<t>' have the id 999"),
        ({"Ġab": 257}, "the id 257 of 'Ġab' is also the id of b' ab'"),
        ({"x": 120, "<s>": 300, "中": 97}, "the id 97 of '中' is also the id of b'a'"),
    ],
)
def test_special_tokens_that_contradict_the_file_are_refused(
    special_tokens: dict[str, int], reason: str, tmp_path: Path
) -> None:
    path = written(tmp_path, {**VOCAB, "<s>": 300}, MERGES)
    said = refusal(Tokenizer.load, path, special_tokens=special_tokens)
    assert said == f"{path}: {reason}"


def test_a_pattern_that_tokenizers_reads_otherwise_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, VOCAB, MERGES)
    for pattern, reason in (
        (r"\h+|\S", r"has a part that engines read differently, at position 0: '\\h+|\\S'"),
        (r"\p{N}{1,3}+|\P{N}", "has a possessive quantifier or an atomic group"),
    ):
        assert reason in refusal(Tokenizer.load, path, pattern=pattern)


def test_missing_merges_are_named(tmp_path: Path) -> None:
    path = written(tmp_path, VOCAB, MERGES)
    (tmp_path / "merges.txt").unlink()
    with pytest.raises(FileNotFoundError) as caught:
        Tokenizer.load(path)
    assert caught.value.filename == str(tmp_path / "merges.txt")


def test_a_name_that_tells_no_merges_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, VOCAB, MERGES, "other.json")
    assert refusal(Tokenizer.load, path) == (
        f"{path}: expected a name that ends in vocab.json; merges.txt goes next to it"
    )


# Out


def test_the_bytes_that_are_written(tmp_path: Path) -> None:
    tokenizer = Tokenizer.train("ab ab ab", 258, special_tokens=["<é中>"])
    tokenizer.save(tmp_path / "vocab.json")
    vocab = {**BYTES, "ab": 256, "Ġab": 257, "<é中>": 258}
    assert (tmp_path / "vocab.json").read_bytes() == json.dumps(vocab).encode()
    assert (tmp_path / "merges.txt").read_bytes() == "#version: 0.2\na b\nĠ ab\n".encode()


def test_ids_in_any_order_and_unmade_tokens_go_there_and_back(
    layout: Layout, tmp_path: Path
) -> None:
    vocab, merges = layout
    lot = random.Random(2)
    ids = lot.sample(range(10**6), len(vocab) + 2)
    texts = [*vocab, "<s>", "ĠzzĠ"]
    path = written(tmp_path, dict(zip(texts, ids, strict=True)), merges)
    tokenizer = Tokenizer.load(path)
    tokenizer.save(path, overwrite=True)
    assert Tokenizer.load(path) == tokenizer


AB = {256: b"ab"}

REFUSED = {
    "another pattern": (
        vocabulary({}, [], pattern=PATTERNS["cl100k"]),
        "a pattern other than GPT-2's",
    ),
    "more patterns": (
        vocabulary({}, [], more_patterns=(r"\p{N}",)),
        "a pattern other than GPT-2's",
    ),
    "a normalizer": (
        vocabulary({}, [], normalizer="NFC"),
        "a normalizer, or other stages of a tokenizer.json",
    ),
    "ignore_merges": (vocabulary(AB, [(97, 98)], ignore_merges=True), "ignore_merges"),
    "ids put before a text": (
        vocabulary({}, [], special_tokens={"<s>": 256}, prefix_ids=(256,)),
        "ids that add_special_tokens puts around a text",
    ),
    "ids put after a text": (
        vocabulary({}, [], special_tokens={"<s>": 256}, suffix_ids=(256,)),
        "ids that add_special_tokens puts around a text",
    ),
    "special tokens that are kept": (
        vocabulary({}, [], special_tokens={"<s>": 256}, kept_special_tokens=frozenset(["<s>"])),
        "special tokens that skip_special_tokens keeps",
    ),
    "a token that no merge makes": (
        vocabulary(AB, []),
        "the token 256, which no merge makes: it would read as a special token",
    ),
    "a special token of one byte": (
        vocabulary({}, [], special_tokens={"a": 256}),
        "the special token 'a', which would read as an ordinary token",
    ),
    "a special token that is merged": (
        vocabulary(AB, [(97, 98)], special_tokens={"ab": 257}),
        "the special token 'ab', which would read as an ordinary token",
    ),
    "a special token that is written as bytes": (
        vocabulary({}, [], special_tokens={"Ġa": 256}),
        "the special token 'Ġa', which would read as an ordinary token",
    ),
    "a special token with the id of an ordinary one": (
        vocabulary({256: b" x"}, [], special_tokens={" x": 256}),
        "a special token with the id of an ordinary token",
    ),
    "two ids with the same bytes": (
        Vocabulary(((97, 97), (256, 97), (97, 256)), {}, PATTERNS["gpt2"]),
        "two ids with the same bytes",
    ),
}


@pytest.mark.parametrize(("refused", "reason"), REFUSED.values(), ids=list(REFUSED))
def test_vocabulary_beyond_the_format_is_not_written(
    refused: Vocabulary, reason: str, tmp_path: Path
) -> None:
    said = refusal(Tokenizer(refused).save, tmp_path / "vocab.json")
    assert said == f"GPT-2's files cannot hold this vocabulary: it has {reason}"
    assert list(tmp_path.iterdir()) == []


# GPT-2 itself


@pytest.mark.slow  # 50,000 merges; smaller files have the same rules
@pytest.mark.skipif(
    not (DATA / "gpt2_vocab.json").is_file(),
    reason="needs the public vocabularies, in a folder next to the repository",
)
def test_gpt2(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(DATA / "gpt2_vocab.json")
    assert (len(tokenizer.merges), dict(tokenizer.special_tokens)) == (
        50_000,
        {"<|endoftext|>": 50256},
    )
    encode = library(DATA / "gpt2_vocab.json", ["<|endoftext|>"])
    texts = [*TEXTS.values()]
    for name in ("english", "code", "multilingual", "chinese"):
        with open(DATA / f"{name}.txt", encoding="utf-8", newline="") as file:
            texts.append(file.read(25_000))
    assert tokenizer.encode_batch(texts) == list(map(encode, texts))
    tokenizer.save(tmp_path / "vocab.json")
    assert Tokenizer.load(tmp_path) == tokenizer
