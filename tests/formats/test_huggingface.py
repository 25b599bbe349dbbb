"""Hugging Face's tokenizer.json and model folders: settings that count, refusals, and reasons."""

from __future__ import annotations

import json
import random
import unicodedata
from collections.abc import Callable, Iterable
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.engines import once, quick_once
from support.examples import few_examples
from support.refusals import refusal
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, trainers

from bpetite import Tokenizer, _unicode
from bpetite._pretokenizer import PATTERNS, Pretokenizer
from bpetite._stages import FORMS
from bpetite._unicode import WHITE_SPACE, WORD_SET
from bpetite._unicode.byte_characters import to_characters
from bpetite._unicode.patterns import exact_regex
from bpetite._vocabulary import IMPOSSIBLE_BYTES, Stages, Vocabulary
from bpetite.formats._huggingface_read import PRE_TOKENIZERS
from conftest import TEXTS as KINDS_OF_TEXT

Document = dict[str, Any]
Change = Callable[[Document], object]

PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
OTHERS = [byte for byte in range(256) if byte not in PRINTABLE]
CHARACTERS = [
    chr(byte) if byte in PRINTABLE else chr(256 + OTHERS.index(byte)) for byte in range(256)
]
"""The character that stands for each byte."""

BYTE_LEVEL = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": True,
}
NO_REGEX = {**BYTE_LEVEL, "use_regex": False}
NFC = {"type": "NFC"}


def document() -> Document:
    """Return a small tokenizer.json, as tokenizers itself writes them."""
    vocab = {character: byte for byte, character in enumerate(CHARACTERS)}
    merges = []
    for merge in ("a b", "c d", "ab cd", "Ġ ab", "Ġ Ġ", "Ã ©", "< |", "1 2", "12 3", "' s"):
        vocab[merge.replace(" ", "")] = len(vocab)
        merges.append(merge)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": dict(BYTE_LEVEL),
        "post_processor": None,
        "decoder": dict(BYTE_LEVEL),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocab,
            "merges": merges,
        },
    }


SIZE = len(document()["model"]["vocab"])


def added(id: int, content: str, **flags: bool) -> Document:
    """Return an entry of `added_tokens`."""
    entry = {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False}
    return {**entry, "normalized": False, "special": True, **flags}


def split(pattern: str, kind: str = "Regex", **others: Any) -> Document:
    """Return a stage of `pre_tokenizer`."""
    stage = {"type": "Split", "pattern": {kind: pattern}, "behavior": "Isolated", "invert": False}
    return {**stage, **others}


def replaced(pattern: str, content: str) -> Document:
    """Return a stage of `normalizer`."""
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


A_GROWTH = "expected stages that make a text at most 64 times as long"


def sequence(*stages: Any, of: str = "pretokenizers") -> Document:
    return {"type": "Sequence", of: list(stages)}


def template(*single: str, **ids: list[int]) -> Document:
    """Return a TemplateProcessing: "A" is the text, and other names are in `ids`."""
    pieces = [
        {"Sequence" if name == "A" else "SpecialToken": {"id": name, "type_id": 0}}
        for name in single
    ]
    special = {
        name: {"id": name, "ids": ids[name], "tokens": [name] * len(ids[name])} for name in ids
    }
    pair = [{"Sequence": {"id": name, "type_id": 0}} for name in "AB"]
    return {"type": "TemplateProcessing", "single": pieces, "pair": pair, "special_tokens": special}


def put(*path: str | int, to: object) -> Change:
    """Return a change of a document: the value at `path` becomes `to`."""

    def change(value: Any) -> None:
        for key in path[:-1]:
            value = value[key]
        value[path[-1]] = to

    return change


def drop(*path: str | int) -> Change:
    def change(value: Any) -> None:
        for key in path[:-1]:
            value = value[key]
        del value[path[-1]]

    return change


def both(*changes: Change) -> Change:
    return lambda value: [change(value) for change in changes]


def with_pieces(*stages: Any) -> Change:
    return put("pre_tokenizer", to=sequence(*stages))


def with_tokens(*tokens: Document) -> Change:
    return put("added_tokens", to=list(tokens))


def as_pairs(value: Document) -> None:
    value["model"]["merges"] = [merge.split(" ") for merge in value["model"]["merges"]]


def changed(change: Change) -> Document:
    value = document()
    change(value)
    return value


def written(folder: Path, value: object) -> Path:
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def library(value: Document) -> tokenizers.Tokenizer:
    """Return what tokenizers makes of a document."""
    return tokenizers.Tokenizer.from_str(json.dumps(value))


def check_equal(tokenizer: Tokenizer, other: tokenizers.Tokenizer, texts: Iterable[str]) -> None:
    """Check that ids, and texts of ids, equal tokenizers'."""
    for text in texts:
        ids = tokenizer.encode(text)
        assert ids == other.encode(text, add_special_tokens=False).ids
        assert tokenizer.encode(text, add_special_tokens=True) == other.encode(text).ids
        for some in (ids, ids[1:], ids[::-1]):
            for skip in (False, True):
                decoded = tokenizer.decode(some, errors="replace", skip_special_tokens=skip)
                assert decoded == other.decode(some, skip_special_tokens=skip)


TEXTS = [
    "你!é 你", "--a-b,,c-1234,5678-90 x12345678y 1234567",
    "",
    "abcd ab cd  abcd\nab's é 123 1234 <|x|> <a><b>",
    "<s>abcd</s> <s><s>x<s", "a<|b|>c<a>b", "  <a>  \n", "e\u0301 \u212b \u1e9b\u0323 \u0958",
    "Hello world, it's 2026! WE'LL naïve 你好，世界 🙂👩🏽 ١٢٣ ½\r\n\t  x\u3000\x00\u0378",
    "<|begin|>x<|end|>", "K<K>\u212a<\u212a>;<;>\u037e", "\u0338<a>\u0338 <a\u0338>",
    "aaaaaaaaaaaa" * 9, "agpt2b gpt2o200ko 200k",
]  # fmt: skip

# What is honoured


TWO = (added(SIZE, "<a>"), added(SIZE + 1, "<b>", special=False))

BERT = {"type": "BertProcessing", "cls": ["<a>", SIZE], "sep": ["a", 97]}
ROBERTA = {**BERT, "type": "RobertaProcessing", "trim_offsets": True, "add_prefix_space": True}

HONOURED: dict[str, Change] = {
    "as it is": both(),
    "no model.type, as in old files": drop("model", "type"),
    "no field of the model that need not be there": both(
        *(drop("model", field) for field in document()["model"] if field not in ("vocab", "merges"))
    ),
    "no field around the model that need not be there": both(
        *map(drop, ("truncation", "padding", "added_tokens", "normalizer", "post_processor"))
    ),
    "merges as pairs": as_pairs,
    "no merges": put("model", "merges", to=[]),
    "ignore_merges": both(put("model", "ignore_merges", to=True), put("model", "merges", to=[])),
    "ignore_merges null": put("model", "ignore_merges", to=None),
    "dropout 0": put("model", "dropout", to=0),
    "dropout 0.0": put("model", "dropout", to=0.0),
    "an empty prefix": put("model", "continuing_subword_prefix", to=""),
    "an empty suffix": put("model", "end_of_word_suffix", to=""),
    "an unk_token that is never used": put("model", "unk_token", to="<unk>"),
    "fuse_unk": put("model", "fuse_unk", to=True),
    "byte_fallback null": put("model", "byte_fallback", to=None),
    "no tokens for the bytes that no UTF-8 has": both(
        *(drop("model", "vocab", to_characters(bytes([byte]))) for byte in IMPOSSIBLE_BYTES)
    ),
    "a token of no bytes": put("model", "vocab", "", to=900),
    "a high id": put("model", "vocab", "zz", to=100_000),
    "a token that no merge makes": put("model", "vocab", "zz", to=SIZE + 50),
    "a merge of a later token": both(
        put("model", "vocab", "cdab", to=SIZE), put("model", "merges", to=["cd ab", "c d", "a b"])
    ),
    "several merges that give one token": both(
        put("model", "vocab", "bc", to=SIZE),
        put("model", "vocab", "abc", to=SIZE + 1),
        put("model", "merges", to=["b c", "a bc", "a b", "ab c"]),
    ),
    "no use_regex, as in old files": drop("pre_tokenizer", "use_regex"),
    "no pattern": put("pre_tokenizer", to=NO_REGEX),
    "Split by Regex": with_pieces(split(r"\s+|\S+"), NO_REGEX),
    "Split by String": with_pieces(split("b|c.", "String"), split(" ", "String"), NO_REGEX),
    "Split by what is the name of a pattern here": with_pieces(
        split("gpt2"), split("o200k", "String"), NO_REGEX
    ),
    "Split by a pattern with gaps": with_pieces(split("b+"), NO_REGEX),
    "Split, inverted, which is the same": with_pieces(split("b+", invert=True), NO_REGEX),
    "Split, and GPT-2's pattern": with_pieces(split(r"\p{N}{1,2}"), BYTE_LEVEL),
    "three Splits": with_pieces(split(r"\p{N}{1,2}"), split("[一-龥]"), split(r"\s?\S+"), NO_REGEX),
    "Split with what is not matched removed": with_pieces(
        split(PATTERNS["cl100k"], behavior="Removed", invert=True), NO_REGEX
    ),
    "Split with what is not matched removed, which is nothing": with_pieces(
        split(r"\p{L}+|\P{L}", behavior="Removed", invert=True), NO_REGEX
    ),
    "Digits, each by itself": with_pieces(
        {"type": "Digits", "individual_digits": True}, BYTE_LEVEL
    ),
    "Digits together": with_pieces({"type": "Digits", "individual_digits": False}, NO_REGEX),
    "a Sequence in a Sequence": with_pieces(sequence(split("b")), sequence(sequence(), NO_REGEX)),
    "a Sequence of one": with_pieces(BYTE_LEVEL),
    "a Sequence of one decoder": put("decoder", to=sequence(BYTE_LEVEL, of="decoders")),
    "NFC": put("normalizer", to=NFC),
    "a Sequence of no normalizer": put("normalizer", to=sequence(of="normalizers")),
    "a Sequence of NFC": put("normalizer", to=sequence(NFC, NFC, of="normalizers")),
    "ByteLevel as post_processor": put("post_processor", to=BYTE_LEVEL),
    "an id before": both(
        with_tokens(*TWO), put("post_processor", to=template("x", "A", x=[SIZE]))
    ),
    "ids before and after": both(
        with_tokens(*TWO),
        put("post_processor", to=template("x", "y", "A", "x", x=[SIZE], y=[7, 8])),
    ),
    "ByteLevel and an id before": both(
        with_tokens(*TWO),
        put(
            "post_processor",
            to=sequence(BYTE_LEVEL, template("x", "A", x=[SIZE]), of="processors"),
        ),
    ),
    "RobertaProcessing": both(with_tokens(*TWO), put("post_processor", to=ROBERTA)),
    "BertProcessing behind ByteLevel": both(
        with_tokens(*TWO), put("post_processor", to=sequence(BYTE_LEVEL, BERT, of="processors"))
    ),
    "an empty Sequence of processors": put("post_processor", to=sequence(of="processors")),
    "added tokens, special and not": with_tokens(*TWO),
    "an added token of the vocab": with_tokens(added(258, "abcd"), added(97, "a", special=False)),
    "an added token of the vocab that no merge makes": both(
        put("model", "vocab", "<s>", to=900), with_tokens(added(900, "<s>"))
    ),
    "an added token that is not ASCII": with_tokens(added(SIZE, "<｜é｜>"), added(SIZE + 1, "你")),
    "added tokens that begin alike": with_tokens(added(SIZE, "<a>"), added(SIZE + 1, "<a>b")),
    "added tokens after a gap": both(  # older versions of tokenizers gave them other ids
        put("model", "vocab", "<a>", to=900),
        with_tokens(added(900, "<a>"), added(SIZE + 1, "<b>"), added(SIZE + 2, "<s>")),
    ),
    "added tokens that overlap": with_tokens(added(SIZE, "<s><"), added(SIZE + 1, "<s")),
    "normalized tokens, and no normalizer": with_tokens(
        added(SIZE, "<a>", normalized=True), added(SIZE + 1, "b>c"), added(SIZE + 2, "</s>")
    ),
    "normalized tokens that overlap with each other": with_tokens(
        added(SIZE, "<a>", normalized=True), added(SIZE + 1, "a>b", normalized=True)
    ),
    "normalized tokens that NFC leaves alone": both(
        put("normalizer", to=NFC),
        with_tokens(
            *(
                added(SIZE + n, literal, normalized=True, special=False)
                for n, literal in enumerate(["  ", "   ", "|||IP|||", "\n\n", "<|begin|"])
            ),
            added(SIZE + 5, "<s>"),
        ),
    ),
    **{
        f"a Split that is {behavior}{' and inverted' * invert}": with_pieces(
            split(r"b+|\s", behavior=behavior, invert=invert), NO_REGEX
        )
        for behavior in ("Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous")
        for invert in (False, True)
    },
    **{
        f"a Split by {pattern}": with_pieces(split(pattern), NO_REGEX)
        for pattern in (
            *(r"\s+$", r"a\b|\b1", r"\w+|[^\w\s]+", r"\W"),
            r"\p{N}{1,3}(?=(?:\p{N}{3})*\b)",
        )
    },
    "bytes without a token, which tokenizers drops, as in Falcon": both(
        *(drop("model", "vocab", character) for character in "½ħĦěģðñă")
    ),
    "tokens with other characters, as in Command R": both(
        put("model", "vocab", "中", to=900), put("model", "vocab", "a b", to=901)
    ),
    "Punctuation": with_pieces({"type": "Punctuation"}, NO_REGEX),
    "Whitespace": with_pieces({"type": "Whitespace"}, NO_REGEX),
    "WhitespaceSplit": with_pieces({"type": "WhitespaceSplit"}, NO_REGEX),
    "a space before each text": put("pre_tokenizer", "add_prefix_space", to=True),
    "a space before each piece of a Split": with_pieces(
        split("c", behavior="Removed"), {**NO_REGEX, "add_prefix_space": True}
    ),
    "a space before a text that nothing splits": put(
        "pre_tokenizer", to={**NO_REGEX, "add_prefix_space": True}
    ),
    "stages behind ByteLevel, as in Falcon": with_pieces(
        {"type": "Punctuation", "behavior": "Contiguous"},
        BYTE_LEVEL,
        {"type": "Digits", "individual_digits": False},
        split("[0-9][0-9][0-9]"),
    ),
    "a Split between digits, as in SuperBPE": with_pieces(
        split(r"\p{N}+"), split(r"(?=(\d{3})+(?!\d))"), NO_REGEX
    ),
    "digits from the right, as in Tiny Aya": with_pieces(
        split(r"\d{1,3}(?=(?:\d{3})*\b)"), split(PATTERNS["o200k"]), NO_REGEX
    ),
    **{
        f"a Split of one character, {behavior}{', inverted' * invert}": with_pieces(
            split(r"[-,\d]", behavior=behavior, invert=invert), NO_REGEX
        )
        for behavior in ("Contiguous", "MergedWithPrevious", "MergedWithNext")
        for invert in (False, True)
    },
    "a Split of bytes behind ByteLevel": with_pieces(NO_REGEX, split("©|Ġ|½")),
    **{
        form: put("normalizer", to={"type": form})
        for form in ("NFD", "NFKC", "NFKD", "Lowercase")
    },
    "Strip on the left": put(
        "normalizer", to={"type": "Strip", "strip_left": True, "strip_right": False}
    ),
    "Strip": put("normalizer", to={"type": "Strip", "strip_left": True, "strip_right": True}),
    "Prepend": put("normalizer", to={"type": "Prepend", "prepend": "ab"}),
    "Replace of a string": put(
        "normalizer", to={"type": "Replace", "pattern": {"String": "b."}, "content": " "}
    ),
    "Replace by what looks like a group": put("normalizer", to=replaced(r"\p{N}", r"\1$0\g<0>")),
    "Replaces that make no text longer": put(
        "normalizer",
        to=sequence(
            *[{"type": "Replace", "pattern": {"String": "ab"}, "content": "ba"}] * 20,
            *[replaced("b{2,}", "bb")] * 20,
            *[replaced("(?!a)b", "b")] * 20,
            of="normalizers",
        ),
    ),
    "normalizers in turn, as in CLIP": put(
        "normalizer",
        to=sequence(NFC, replaced(r"\s+", " "), {"type": "Lowercase"}, of="normalizers"),
    ),
    "a suffix, as in CLIP": both(
        *(put("model", "vocab", f"{byte}_", to=400 + n) for n, byte in enumerate(CHARACTERS)),
        put("model", "vocab", "ab_", to=700),
        put("model", "merges", to=["a b_", "a b"]),
        put("model", "end_of_word_suffix", to="_"),
        put("model", "ignore_merges", to=True),
    ),
    "a prefix": both(
        *(put("model", "vocab", f"##{byte}", to=400 + n) for n, byte in enumerate(CHARACTERS)),
        put("model", "vocab", "##cd", to=700),
        put("model", "merges", to=["a ##b", "##c ##d", "ab ##cd"]),
        put("model", "vocab", "abcd", to=701),
        put("model", "continuing_subword_prefix", to="##"),
    ),
    **{
        f"bytes without a token{', fused' * fuse}": both(
            *(drop("model", "vocab", character) for character in "½ħĦěģð"),
            put("model", "unk_token", to="ab"),
            put("model", "fuse_unk", to=fuse),
        )
        for fuse in (False, True)
    },
    **{
        f"added tokens with {flag}": with_tokens(
            added(SIZE, "<a>", **{flag: True}),
            added(SIZE + 1, "<b>", **{flag: True}, special=False),
            added(SIZE + 2, "gpt2", **{flag: True}, normalized=True),
            added(97, "a"),
        )
        for flag in ("lstrip", "rstrip", "single_word")
    },
    "added tokens of white space that strip": with_tokens(
        added(SIZE, "\n", lstrip=True, rstrip=True), added(SIZE + 1, "  "), added(SIZE + 2, " <")
    ),
    "added tokens that look like bytes, as in DeepSeek": both(
        *(drop("model", "vocab", to_characters(bytes([byte]))) for byte in IMPOSSIBLE_BYTES),
        with_tokens(added(SIZE - 13, "õ", special=False), added(SIZE - 12, "café")),
    ),
    "an added token that spells a whole piece": both(
        put("model", "ignore_merges", to=True),
        put("model", "vocab", "ä½ł", to=SIZE),
        with_tokens(added(SIZE, "ä½ł")),
    ),
    "an added token outside the vocab before one in it": both(
        put("model", "vocab", "c d", to=SIZE),
        with_tokens(added(SIZE + 1, "bb"), added(SIZE, "c d", single_word=True)),
    ),
    "normalized tokens that overlap with others": with_tokens(
        added(SIZE, "<a>"), added(SIZE + 1, "a>b", normalized=True)
    ),
    "normalized tokens that NFC makes of others": both(
        put("normalizer", to=NFC),
        with_tokens(added(75, "K", normalized=True), added(SIZE, "<s>", normalized=True)),
    ),
    "normalized tokens that are lowercased": both(
        put("normalizer", to={"type": "Lowercase"}),
        with_tokens(added(SIZE, "<a>", normalized=True), added(SIZE + 1, "hello")),
    ),
    "normalized tokens too long to be compared": with_tokens(
        added(SIZE, "<a>"), added(SIZE + 1, "b" * 4_000, normalized=True)
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", HONOURED.values(), ids=HONOURED)
def test_honoured_file_gives_ids_and_texts_of_tokenizers(change: Change, tmp_path: Path) -> None:
    value = changed(change)
    tokenizer = Tokenizer.load(written(tmp_path, value))
    check_equal(tokenizer, library(value), TEXTS)


def test_what_is_around_a_dropped_byte_is_merged(tmp_path: Path) -> None:
    dropped = HONOURED["bytes without a token, which tokenizers drops, as in Falcon"]
    a, b, c, d, e, f = map(CHARACTERS.__getitem__, "中文".encode())
    pairs = [(a, b), (a + b, c), (d, e), (d + e, f), (a + b + c, d + e + f)]
    many = "ab abc 12  é\n\n" * 3000
    texts = ["文中" * 30_000]  # only after so many are such runs split
    texts += ["中\x03文中文\x03中", "文" * 99 + "中\x03文", f"{many}\x03{many}"]
    texts += [f"\x03 {many} \x03", many]
    texts += ["a\x03b", "c\x03\x03d", "ab\x03cd" * 999, "\x03ab \x03ab\x03"]
    for normalizer, pieces in product((None, NFC), (BYTE_LEVEL, NO_REGEX)):
        value = changed(both(dropped, put("normalizer", to=normalizer)))
        value["pre_tokenizer"] = pieces
        for left, right in pairs:
            value["model"]["vocab"][left + right] = 900 + len(value["model"]["vocab"])
            value["model"]["merges"].append(f"{left} {right}")
        tokenizer = Tokenizer.load(written(tmp_path, value))
        assert tokenizer.encode("\x03") == []
        check_equal(tokenizer, library(value), texts)
        for text in texts:
            found = tokenizer.encode_parts([text, "ab\x03", text])[0]
            assert found == tokenizer.encode(f"{text}ab\x03{text}")


def test_ordinary_bytes_get_the_space_before_normalized_text(tmp_path: Path) -> None:
    value = changed(
        both(put("normalizer", to=NFC), put("pre_tokenizer", "add_prefix_space", to=True))
    )
    tokenizer = Tokenizer.load(written(tmp_path, value))
    for text in ("ab", "ab e\u0301", " ab"):
        ids = library(value).encode(text, add_special_tokens=False).ids
        assert tokenizer.encode_ordinary(text.encode()) == tokenizer.encode_ordinary(text) == ids


@quick_once
@pytest.mark.parametrize("change", HONOURED.values(), ids=HONOURED)
def test_honoured_file_is_the_same_after_saves_and_respelled(
    change: Change, tmp_path: Path
) -> None:
    """The native engine reads merges of strings itself, and leaves pairs to Python."""
    value = changed(change)
    tokenizer = Tokenizer.load(written(tmp_path, value))
    library(value).save(str(tmp_path / "theirs.json"))
    assert Tokenizer.load(tmp_path / "theirs.json") == tokenizer
    for path in (tmp_path / "saved.json", tmp_path / "2" / "tokenizer.json"):
        path.parent.mkdir(exist_ok=True)
        tokenizer.save(path)
        assert Tokenizer.load(path) == tokenizer
    value["model"]["merges"] = [
        merge.split(" ") if isinstance(merge, str) else " ".join(merge)
        for merge in value["model"]["merges"]
    ]
    assert Tokenizer.load(written(tmp_path, value)) == tokenizer


# What is refused

REFUSED: dict[str, tuple[Change, str]] = {
    "another version": (put("version", to="2.0"), 'version: expected "1.0", got "2.0"'),
    "truncation": (put("truncation", to=3), "truncation: expected an object or null, got 3"),
    "padding": (put("padding", to=[]), "padding: expected an object or null, got []"),
    "a field that nobody knows": (put("extra", to=1), 'the file: expected no other fields than'),
    "no decoder": (drop("decoder"), "decoder: expected one ByteLevel, but it is missing"),
    "two decoders": (
        put("decoder", to=sequence(BYTE_LEVEL, {"type": "Fuse"}, of="decoders")),
        "decoder: expected one ByteLevel, got {",
    ),
    "no model": (drop("model"), "model: expected an object, but it is missing"),
    "a model that is no object": (put("model", to=[]), "model: expected an object, got []"),
    "a field of the model that nobody knows": (
        put("model", "extra", to=1), 'model: expected no other fields than'
    ),
    "dropout": (
        put("model", "dropout", to=0.1), "model.dropout: expected null or 0 or 0.0, got 0.1"
    ),
    "dropout false": (put("model", "dropout", to=False), "model.dropout: expected null or 0"),
    "byte_fallback": (
        put("model", "byte_fallback", to=True),
        "pre_tokenizer: expected a Metaspace alone, if no normalizer makes spaces U+2581",
    ),
    "fuse_unk that is no bool": (put("model", "fuse_unk", to=1), "model.fuse_unk: expected false"),
    "unk_token that is no string": (
        put("model", "unk_token", to={"content": "x"}),
        'model.unk_token: expected a string or null, got {"content": "x"}',
    ),
    "ignore_merges that is no bool": (
        put("model", "ignore_merges", to="yes"), 'model.ignore_merges: expected false or true'
    ),
    "no vocab": (drop("model", "vocab"), "model.vocab: expected an object, but it is missing"),
    "vocab as a list": (put("model", "vocab", to=[]), "model.vocab: expected an object, got []"),
    "an id below 0": (put("model", "vocab", "zz", to=-1), 'model.vocab["zz"]: expected an id from'),
    "an id too high": (put("model", "vocab", "zz", to=2**32), 'model.vocab["zz"]: expected an id'),
    "an id that is a float": (put("model", "vocab", "zz", to=300.0), 'model.vocab["zz"]: expected'),
    "an id that is a bool": (put("model", "vocab", "zz", to=True), 'model.vocab["zz"]: expected'),
    "an id of two tokens": (
        put("model", "vocab", "zz", to=97),
        'model.vocab["zz"]: expected an id of its own; "a" has it too, got 97',
    ),
    "a byte without a token, and ignore_merges": (
        both(drop("model", "vocab", "ð"), put("model", "ignore_merges", to=True)),
        "model.vocab: expected a token for each byte, or tokenizers drops what has none, got",
    ),
    "a merge of a character that is no byte": (
        both(
            put("model", "vocab", "中", to=900),
            put("model", "vocab", "中a", to=901),
            lambda value: value["model"]["merges"].append("中 a"),
        ),
        'model.vocab["\\u4e2d"]: the character \'中\' of',
    ),
    "a lone surrogate": (
        put("model", "vocab", "\ud800", to=900), 'model.vocab["\\ud800"]: the character'
    ),
    "no merges at all": (drop("model", "merges"), "model.merges: expected a list, but it is"),
    "a merge of what is no token": (
        lambda value: value["model"]["merges"].append("zz y"),
        'model.merges[10]: expected two tokens whose join model.vocab has, got "zz y"',
    ),
    "a merge that makes no token": (
        lambda value: value["model"]["merges"].append("z y"),
        'model.merges[10]: expected two tokens whose join model.vocab has, got "z y"',
    ),
    "a merge of three": (
        lambda value: value["model"]["merges"].append("a b c"), 'model.merges[10]: expected two'
    ),
    "a merge of one": (
        lambda value: value["model"]["merges"].append("a"), 'model.merges[10]: expected two tokens'
    ),
    "a merge of numbers": (
        both(as_pairs, lambda value: value["model"]["merges"].append([97, 98])),
        "model.merges[10]: expected two tokens whose join model.vocab has, got [97, 98]",
    ),
    "a merge of lists": (
        both(as_pairs, lambda value: value["model"]["merges"].append([["a"], "b"])),
        'model.merges[10]: expected two tokens whose join model.vocab has, got [["a"],',
    ),
    "merges of both spellings": (
        lambda value: value["model"]["merges"].append(["a", "bc"]), "model.merges[10]: expected"
    ),
    "a merge given twice": (
        lambda value: value["model"]["merges"].append("a b"),
        'model.merges[10]: expected a new pair; model.merges[0] is the same, got "a b"',
    ),
    "no pre_tokenizer": (
        put("pre_tokenizer", to=None), "pre_tokenizer: expected a ByteLevel among its stages, got"
    ),
    "another pre_tokenizer": (
        put("pre_tokenizer", to={"type": "Metaspace", "replacement": "▁"}),
        "pre_tokenizer.type: expected Split or Digits or Punctuation or Whitespace or ",
    ),
    "a Split without ByteLevel": (
        with_pieces(split("b")),
        "pre_tokenizer: expected a ByteLevel among its stages, got",
    ),
    "ByteLevel twice": (
        with_pieces(split("b"), BYTE_LEVEL, NO_REGEX),
        "pre_tokenizer.pretokenizers[2]: expected one ByteLevel; pre_tokenizer.pretokenizers[1] is",
    ),
    "another pre_tokenizer deep in it": (
        with_pieces(sequence(split("a"), sequence({"type": "Metaspace"})), BYTE_LEVEL),
        "pre_tokenizer.pretokenizers[0].pretokenizers[1].pretokenizers[0].type: expected Split or",
    ),
    "an empty Sequence": (
        with_pieces(), "pre_tokenizer: expected a ByteLevel among its stages, got {"
    ),
    "a Sequence of what is no list": (
        put("pre_tokenizer", to={"type": "Sequence", "pretokenizers": {}}),
        "pre_tokenizer.pretokenizers: expected a list, got {}",
    ),
    "a Sequence with another field": (
        put("pre_tokenizer", to={**sequence(BYTE_LEVEL), "x": 1}),
        'pre_tokenizer: expected no other fields than type pretokenizers, got "x"',
    ),
    "add_prefix_space not given": (
        drop("pre_tokenizer", "add_prefix_space"),
        "pre_tokenizer.add_prefix_space: expected true or false, but it is missing",
    ),
    "use_regex that is no bool": (
        put("pre_tokenizer", "use_regex", to=1),
        "pre_tokenizer.use_regex: expected true or false, got 1",
    ),
    "a field of ByteLevel that nobody knows": (
        put("pre_tokenizer", "extra", to=1), "pre_tokenizer: expected no other fields than type"
    ),
    "Split of another behavior": (
        with_pieces(split("b", behavior="Dropped"), NO_REGEX),
        'pre_tokenizer.pretokenizers[0].behavior: expected "Isolated" or "Removed" or',
    ),
    "Punctuation of another behavior": (
        with_pieces({"type": "Punctuation", "behavior": "isolated"}, NO_REGEX),
        'pre_tokenizer.pretokenizers[0].behavior: expected "Isolated" or "Removed" or',
    ),
    "Split without invert": (
        with_pieces({k: v for k, v in split("b").items() if k != "invert"}, NO_REGEX),
        "pre_tokenizer.pretokenizers[0].invert: expected true or false, but it is missing",
    ),
    "Split with a pattern that is a string": (
        with_pieces({**split("b"), "pattern": "b"}, NO_REGEX),
        'pre_tokenizer.pretokenizers[0].pattern: expected an object, got "b"',
    ),
    "Split by what nobody knows": (
        with_pieces(split("b", "Glob"), NO_REGEX),
        'pre_tokenizer.pretokenizers[0].pattern: expected an object with one field, "Regex" or',
    ),
    "Split by both": (
        with_pieces({**split("b"), "pattern": {"Regex": "b", "String": "b"}}, NO_REGEX),
        "pre_tokenizer.pretokenizers[0].pattern: expected an object with one field",
    ),
    "Split by a number": (
        with_pieces({**split("b"), "pattern": {"Regex": 1}}, NO_REGEX),
        "pre_tokenizer.pretokenizers[0].pattern.Regex: expected a string in Unicode, got 1",
    ),
    "Split by a lone surrogate": (
        with_pieces(split("\ud800", "String"), NO_REGEX),
        "pre_tokenizer.pretokenizers[0].pattern.String: expected a string in Unicode, got",
    ),
    "Split by nothing": (
        with_pieces(split("", "String"), NO_REGEX),
        "pre_tokenizer.pretokenizers[0].pattern.String: expected another pattern (the pattern '' ",
    ),
    "Split by what does not compile": (
        with_pieces(split("("), NO_REGEX),
        "pre_tokenizer.pretokenizers[0].pattern.Regex: expected another pattern (the pattern '(' ",
    ),
    "Split by what engines read differently": (
        with_pieces(split(r"\h+"), NO_REGEX),
        r"pre_tokenizer.pretokenizers[0].pattern.Regex: expected another pattern (the pattern "
        r"'\\h+' has a part that engines read differently, at position 0: '\\h+'), got ",
    ),
    "Split with a field that nobody knows": (
        with_pieces(split("b", extra=1), NO_REGEX),
        "pre_tokenizer.pretokenizers[0]: expected no other fields than type pattern behavior",
    ),
    "Digits without the field": (
        with_pieces({"type": "Digits"}, NO_REGEX),
        "pre_tokenizer.pretokenizers[0].individual_digits: expected true or false, but it is",
    ),
    "another normalizer": (
        put("normalizer", to={"type": "StripAccents"}),
        "normalizer.type: expected NFC or NFD or NFKC or NFKD or Lowercase or Strip or Prepend or ",
    ),
    "a merge without the prefix": (
        both(
            *(put("model", "vocab", f"##{byte}", to=400 + n) for n, byte in enumerate(CHARACTERS)),
            put("model", "vocab", "ad", to=700),
            put("model", "vocab", "bcd", to=701),
            put("model", "merges", to=["a bcd"]),
            put("model", "continuing_subword_prefix", to="##"),
        ),
        "model.merges[0]: expected a second token that begins with '##', got \"a bcd\"",
    ),
    "Strip without a side": (
        put("normalizer", to={"type": "Strip", "strip_left": True}),
        "normalizer.strip_right: expected true or false, but it is missing",
    ),
    "Prepend of nothing": (
        put("normalizer", to=sequence(NFC, {"type": "Prepend"}, of="normalizers")),
        "normalizer.normalizers[1].prepend: expected a string in Unicode, got null",
    ),
    "Prepend of an empty string": (
        put("normalizer", to={"type": "Prepend", "prepend": ""}),
        'normalizer.prepend: expected a string that is not empty, got ""',
    ),
    "Replace of what engines read differently": (
        put("normalizer", to=replaced(r"\h", "b")),
        "normalizer.pattern.Regex: expected another pattern (the pattern",
    ),
    "texts that grow by each stage": (
        put("normalizer", to=sequence(*[replaced("a", "aa")] * 60, of="normalizers")),
        f"normalizer.normalizers[6]: {A_GROWTH}, got 128",
    ),
    "texts that grow at once": (
        put("normalizer", to=sequence(*[replaced("a", "a" * 30_000)] * 3, of="normalizers")),
        f"normalizer.normalizers[0]: {A_GROWTH}, got 30000",
    ),
    "texts that grow by normal forms": (
        put(
            "normalizer",
            to=sequence(*[replaced(" ", "\ufdfa"), {"type": "NFKC"}] * 20, of="normalizers"),
        ),
        f"normalizer.normalizers[2]: {A_GROWTH}, got 324",
    ),
    "a long prefix": (
        put("normalizer", to={"type": "Prepend", "prepend": "a" * 64}),
        f"normalizer: {A_GROWTH}, got 65",
    ),
    "a normalizer of more": (
        put("normalizer", to={"type": "NFKC", "extra": 1}),
        'normalizer: expected no other fields than type, got "extra"',
    ),
    "a prefix that is no ASCII": (
        put("model", "continuing_subword_prefix", to="▁"),
        'model.continuing_subword_prefix: expected ASCII without spaces, got "\\u2581"',
    ),
    "a suffix that is no string": (
        put("model", "end_of_word_suffix", to=[1]),
        "model.end_of_word_suffix: expected a string in Unicode, got [1]",
    ),
    "a suffix that no token has": (
        put("model", "end_of_word_suffix", to="</w>"),
        "model.vocab: expected a token for each byte, or tokenizers drops what has none, got",
    ),
    "an unk_token that is no token": (
        both(drop("model", "vocab", "ð"), put("model", "unk_token", to="<unk>")),
        'model.unk_token: expected a token of model.vocab, got "<unk>"',
    ),
    "a normalizer that is a string": (
        put("normalizer", to="NFC"), 'normalizer: expected an object, got "NFC"'
    ),
    "another decoder": (
        put("decoder", to={"type": "BPEDecoder"}), 'decoder.type: expected ByteLevel, got "BPED'
    ),
    "another post_processor": (
        put("post_processor", to={"type": "Other"}),
        "post_processor.type: expected ByteLevel or TemplateProcessing or RobertaProcessing or "
        'BertProcessing, got "Other"',
    ),
    "a token before a text that is none": (
        put("post_processor", to={**BERT, "cls": ["<a>", 999]}),
        'post_processor.cls: expected a literal and the id of a token, got ["<a>", 999]',
    ),
    "two templates": (
        put("post_processor", to=sequence(template("A"), template("A"), of="processors")),
        "post_processor.processors[1].type: expected one of TemplateProcessing, RobertaProcessing, "
        "BertProcessing at most",
    ),
    "a template of the text twice": (
        put("post_processor", to=template("A", "A")),
        "post_processor.single[1]: expected a SpecialToken, or one Sequence, got",
    ),
    "a template without the text": (
        put("post_processor", to=template("x", x=[97])), "post_processor.single: expected one Seq"
    ),
    "a template of the other text": (
        put("post_processor", to={**template(), "single": [{"Sequence": {"id": "B"}}]}),
        'post_processor.single[0].Sequence.id: expected "A", got "B"',
    ),
    "a template of an unknown token": (
        put("post_processor", to=template("x", "A")),
        'post_processor.single[0].SpecialToken.id: expected one of special_tokens, got "x"',
    ),
    "a template of an unknown id": (
        put("post_processor", to=template("x", "A", x=[97, 999])),
        'post_processor.special_tokens["x"].ids: expected the ids of tokens, got 999',
    ),
    "a template as a string": (
        put("post_processor", to={**template("A"), "single": "$A"}),
        'post_processor.single: expected a list, got "$A"',
    ),
    "added_tokens as an object": (
        put("added_tokens", to={}), "added_tokens: expected a list, got {}"
    ),
    "an added token as a string": (
        put("added_tokens", to=["<s>"]), 'added_tokens[0]: expected an object, got "<s>"'
    ),
    **{
        f"an added token without {field}": (
            with_tokens({k: v for k, v in added(SIZE, "<s>").items() if k != field}),
            f"added_tokens[0].{field}: expected",
        )
        for field in ("id", "content", "special", "normalized", "lstrip", "rstrip", "single_word")
    },
    "an added token with a field that nobody knows": (
        with_tokens(added(SIZE, "<s>", extra=True)),
        "added_tokens[0]: expected no other fields than id content",
    ),
    "an added token without text": (
        with_tokens(added(SIZE, "")),
        'added_tokens[0].content: expected a non-empty string in Unicode, got ""',
    ),
    "an added token with a lone surrogate": (
        with_tokens(added(SIZE, "\udfff")), "added_tokens[0].content: expected a non-empty string"
    ),
    "an added token given twice": (
        with_tokens(added(SIZE, "<s>"), added(SIZE, "<s>", special=False)),
        'added_tokens[1].content: expected a literal that no added token above has, got "<s>"',
    ),
    "an added token without a flag": (
        both(with_tokens(added(SIZE, "<s>")), drop("added_tokens", 0, "lstrip")),
        "added_tokens[0].lstrip: expected true or false, but it is missing",
    ),
    "an added token without an id": (
        both(with_tokens(added(SIZE, "<s>")), drop("added_tokens", 0, "id")),
        f"added_tokens[0].id: expected {SIZE}, the id that tokenizers gives it in any case, but it",
    ),
    "an added token with another id than it gets": (
        with_tokens(added(700, "<s>")),
        f"added_tokens[0].id: expected {SIZE}, the id that tokenizers gives it in any "
        "case, got 700",
    ),
    "an added token with another id than in the vocab": (
        with_tokens(added(SIZE, "abcd")), "added_tokens[0].id: expected 258, the id that tokenize"
    ),
    "an added token that gets the id of another": (
        both(put("model", "vocab", "zz", to=SIZE + 1), with_tokens(added(SIZE + 1, "<s>"))),
        f'model.vocab["zz"]: expected an id that no added token takes, got {SIZE + 1}',
    ),
    "an added token of which normalizers leave nothing": (
        both(
            put("normalizer", to=replaced("<s>", "")),
            with_tokens(added(SIZE, "<s>", normalized=True)),
        ),
        "added_tokens: the normalizers leave nothing of the special token '<s>'",
    ),
    "added tokens that are normalized alike": (
        both(
            put("normalizer", to={"type": "Lowercase"}),
            with_tokens(
                added(SIZE, "<s>", normalized=True), added(SIZE + 1, "<S>", normalized=True)
            ),
        ),
        "added_tokens: the special tokens '<S>' and '<s>' are normalized alike",
    ),
}  # fmt: skip


ALGORITHMS: dict[str, tuple[Document, str]] = {
    "Unigram": ({"type": "Unigram", "unk_id": 0, "vocab": [["a", -1.0]]}, "Unigram"),
    "Unigram by its unk_id": ({"unk_id": None, "vocab": {}}, "Unigram"),
    "Unigram by its vocab": ({"vocab": [["a", -1.0]]}, "Unigram"),
    "WordPiece": ({"type": "WordPiece", "vocab": {"a": 0}}, "WordPiece"),
    "WordPiece by its length": ({"max_input_chars_per_word": 9, "vocab": {}}, "WordPiece"),
    "WordPiece by its prefix": ({"continuing_subword_prefix": "##", "vocab": {}}, "WordPiece"),
    "WordLevel": ({"type": "WordLevel", "vocab": {"a": 0}}, "WordLevel"),
    "WordLevel by its vocab": ({"vocab": {"a": 0}, "unk_token": "a"}, "WordLevel"),
    "BPE": ({"type": "BPE", "vocab": {"a": 0}, "merges": []}, "BPE of characters"),
    "BPE by its merges": ({"vocab": {"a": 0}, "merges": []}, "BPE of characters"),
}


@pytest.mark.parametrize(("model", "kind"), ALGORITHMS.values(), ids=ALGORITHMS)
@pytest.mark.parametrize("is_folder", [False, True], ids=["file", "folder"])
def test_another_algorithm_is_refused_before_any_field(
    is_folder: bool, model: Document, kind: str, tmp_path: Path
) -> None:
    value = {
        "normalizer": {"type": "BertNormalizer"},
        "pre_tokenizer": {"type": "Metaspace"},
        "others": [],
        "model": model,
    }
    path = written(tmp_path, value)
    message = refusal(lambda: Tokenizer.load(tmp_path if is_folder else path))
    assert message.startswith(f'{path}: model.type: expected "BPE"')
    assert message.endswith(f'encode by the library tokenizers, got "{kind}"')


@pytest.mark.parametrize(
    "call",
    [
        {"truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst"}},
        {"padding": {"strategy": {"Fixed": 99}, "pad_id": 0, "pad_token": "a"}},
    ],
    ids=lambda call: "".join(call),
)
@pytest.mark.parametrize("is_folder", [False, True], ids=["file", "folder"])
def test_options_of_the_last_call_are_left_to_the_caller(
    is_folder: bool, call: Document, tmp_path: Path
) -> None:
    plain = Tokenizer.load(written(tmp_path, document()))
    defaults: Document = {
        "truncation": {"stride": 0},
        "padding": {"direction": "Right", "pad_to_multiple_of": None, "pad_type_id": 0},
    }
    stored = {field: {**defaults[field], **value} for field, value in call.items()}
    path = written(tmp_path, {**document(), **stored})
    assert library(json.loads(path.read_bytes())).to_str() != library(document()).to_str()
    with pytest.warns(UserWarning, match="do not apply here: texts stay whole") as warned:
        tokenizer = Tokenizer.load(tmp_path if is_folder else path)
    assert [each.filename for each in warned] == [__file__]
    assert tokenizer == plain
    (tmp_path / "saved").mkdir()
    tokenizer.save(tmp_path / "saved" / "tokenizer.json")
    saved = json.loads((tmp_path / "saved" / "tokenizer.json").read_bytes())
    assert (saved["truncation"], saved["padding"]) == (None, None)


@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=REFUSED)
def test_other_values_are_refused_by_path_and_value(
    change: Change, message: str, tmp_path: Path
) -> None:
    path = written(tmp_path, changed(change))
    assert refusal(lambda: Tokenizer.load(path, format="huggingface")).startswith(
        f"{path}: {message}"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"model": {}, "model": {}}', 'the key "model" is given twice'),
        ('{"model": {"type": NaN}}', "NaN is not JSON"),
        ('{"model": ' + "[" * 100_000, "nested too deeply"),
        ('{"model": {', "not JSON"),
        ("\ufeff{}", "not JSON: it begins with a byte order mark, so save it as UTF-8 without one"),
        ('{"model": "\udce9"}', "not UTF-8 at byte 11"),
    ],
    ids=[
        "a key twice",
        "not a number",
        "deep nesting",
        "half a file",
        "a byte order mark",
        "Latin-1",
    ],
)
def test_file_that_is_not_json_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError, match=message):
        Tokenizer.load(path, format="huggingface")


def test_a_sequence_nested_as_deeply_as_json_allows_is_refused(tmp_path: Path) -> None:
    value: object = split("b")
    for _ in range(150):
        value = sequence(value)
    path = written(tmp_path, changed(put("pre_tokenizer", to=value)))
    with pytest.raises(ValueError, match="expected a ByteLevel among its stages"):
        Tokenizer.load(path)


VERSIONED: dict[str, int] = {"#version"[:end]: 400 + end for end in range(2, 9)} | {
    "#version:": 500,
    ":#version": 501,
}
VERSIONED_MERGES = [
    *(f"{left} {'#version'[len(left)]}" for left in ["#", *list(VERSIONED)[:6]]),
    "#version :",
    ": #version",
]


class TestTokenizersQuirks:
    """Behaviour of tokenizers that a reader or a writer would not expect."""

    def test_merge_like_a_version_line_is_dropped(self, tmp_path: Path) -> None:
        value = changed(put("pre_tokenizer", to=NO_REGEX))
        value["model"]["vocab"] |= VERSIONED
        value["model"]["merges"] = VERSIONED_MERGES
        texts = ["#version:", "#version", ":#version", "x#version:x"]
        assert library(value).encode("#version:").ids == [408, ord(":")]
        check_equal(Tokenizer.load(written(tmp_path, value)), library(value), texts)
        value["model"]["merges"] = [merge.split(" ") for merge in VERSIONED_MERGES]
        assert library(value).encode("#version:").ids == [500]
        check_equal(Tokenizer.load(written(tmp_path, value)), library(value), texts)

    def test_merge_like_a_version_line_survives_a_save(self, tmp_path: Path) -> None:
        value = changed(put("pre_tokenizer", to=NO_REGEX))
        value["model"]["vocab"] |= VERSIONED
        value["model"]["merges"] = [merge.split(" ") for merge in VERSIONED_MERGES]
        tokenizer = Tokenizer.load(written(tmp_path, value))
        (tmp_path / "saved").mkdir()
        tokenizer.save(tmp_path / "saved")
        assert Tokenizer.load(tmp_path / "saved") == tokenizer
        saved = tokenizers.Tokenizer.from_file(str(tmp_path / "saved" / "tokenizer.json"))
        assert saved.encode("#version:").ids == tokenizer.encode("#version:") == [500]

    def test_merges_are_saved_as_strings(self, tmp_path: Path) -> None:
        Tokenizer.train("ab ab abc", 260).save(tmp_path / "tokenizer.json")
        saved = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))
        assert saved["model"]["merges"] == ["a b", "Ġ ab", "Ġab c"]

    def test_special_tokens_in_the_vocab_keep_gaps(self, tmp_path: Path) -> None:
        vocabulary = Vocabulary(((97, 98),), {"<|a|>": 700, "<|b|>": 300}, PATTERNS["gpt2"])
        tokenizer = Tokenizer(vocabulary)
        tokenizer.save(tmp_path / "tokenizer.json")
        other = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
        check_equal(tokenizer, other, ["ab<|a|>x<|b|><|a", "<|a|>"])
        assert other.encode("<|a|><|b|>").ids == [700, 300]
        other.save(str(tmp_path / "again.json"))
        assert Tokenizer.load(tmp_path / "again.json", format="huggingface") == tokenizer
        assert tokenizer.n_vocab == 701

    @pytest.mark.parametrize(
        ("first", "in_vocab"), [(257, False), (258, True)], ids=["no gap", "gap"]
    )
    def test_kept_token_is_in_the_vocab_only_after_a_gap(
        self, first: int, in_vocab: bool, tmp_path: Path
    ) -> None:
        """Version 0.13 looks in no text for one that is in the vocab and not special."""
        special_tokens = {"<s>": first, "<kept>": first + 1, "</s>": first + 2}
        kept = frozenset(["<kept>"])
        vocabulary = Vocabulary(
            ((97, 98),),
            special_tokens,
            PATTERNS["gpt2"],
            kept_special_tokens=kept,
            added_tokens=kept,
        )
        tokenizer = Tokenizer(vocabulary)
        tokenizer.save(tmp_path / "tokenizer.json")
        saved = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))
        assert [literal in saved["model"]["vocab"] for literal in special_tokens] == [in_vocab] * 3
        check_equal(tokenizer, library(saved), ["ab<s>x<kept>y</s>", "<kept>"])
        assert Tokenizer.load(tmp_path / "tokenizer.json") == tokenizer


ALPHABET = "ab <|K;é"
literals = st.lists(
    st.tuples(st.text(ALPHABET, min_size=1, max_size=3), st.booleans(), st.booleans()),
    min_size=1,
    max_size=4,
    unique_by=lambda item: item[0],
)
between = st.text(ALPHABET + "\u0301\u0338\u212a\u037e\u1fefe>", max_size=25)


@given(
    tokens=literals, normalizer=st.sampled_from([None, NFC]), texts=st.lists(between, min_size=6)
)
def test_added_tokens_are_found_as_in_tokenizers(
    tokens: list[tuple[str, bool, bool]],
    normalizer: Document | None,
    texts: list[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    value = changed(put("normalizer", to=normalizer))
    vocab, new = value["model"]["vocab"], 0
    for literal, normalized, special in tokens:
        id = vocab.get(literal, SIZE + new)
        new += literal not in vocab
        value["added_tokens"].append(added(id, literal, normalized=normalized, special=special))
    some = [literal for literal, _, _ in tokens]
    joined = [left + right for left in some for right in (*some, "\u0301", "\u0338x")]
    path = written(tmp_path_factory.mktemp("any"), value)
    try:
        tokenizer = Tokenizer.load(path)
    except ValueError as error:
        refused = str(error)
    else:
        refused = ".normalized: expected false"
        check_equal(tokenizer, library(value), [*texts, *joined])
    assert ".normalized: expected false" in refused or "does not decode as other" in refused


def test_digits_are_the_numbers_of_our_version_of_unicode() -> None:
    """Those that were assigned later tokenizers knows as its compiler did."""
    assigned = [chr(c) for c in CODES if c < 0x20000 and _unicode._category(chr(c)) != "Cn"]
    digits = pre_tokenizers.Digits(individual_digits=True)
    cut = Pretokenizer(r"\p{N}").split_exactly
    for start in range(0, len(assigned), 5000):
        text = "".join(f"x{character}" for character in assigned[start : start + 5000])
        assert cut(text) == [piece for piece, _ in digits.pre_tokenize_str(text)]


# Vocabularies that tokenizers has trained

SPECIAL = [
    AddedToken("<|begin|>", special=True, normalized=False),
    AddedToken("<|end|>", special=True, normalized=False),
    AddedToken("<|end|>x", special=False, normalized=False),
    AddedToken("<｜用户｜>", special=True, normalized=False),
]
SPACES = [AddedToken(" " * n, special=False, normalized=True) for n in (2, 3, 7)]

DEEPSEEK = [
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
    "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*"
    "|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
]


def stages_of(*patterns: str) -> Any:
    splits = [pre_tokenizers.Split(tokenizers.Regex(each), "isolated") for each in patterns]
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([*splits, last])


GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
KINDS: dict[str, tuple[Any, bool, list[AddedToken]]] = {
    "GPT-2": (GPT2, False, []),
    **{name: (stages_of(PATTERNS[name]), False, SPECIAL) for name in PATTERNS if name != "gpt2"},
    "DeepSeek-V3": (stages_of(*DEEPSEEK), False, SPECIAL),
    "StarCoder": (
        pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), GPT2]), False, []
    ),
    "Qwen": (stages_of(PATTERNS["qwen2"]), True, SPECIAL),
    "GPT-NeoX": (GPT2, True, [*SPECIAL, *SPACES]),
    "no pattern": (pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False), False, []),
}  # fmt: skip

CORPUS = [
    *TEXTS,
    "the hen then met the ten men, and there were 1234 of them; it's theirs, isn't it?\n" * 3,
    "def f(x):\n    return x[0:10] // 314  # done...\n\n\nclass A:\n\tpass\r\n" * 3,
    "Привет, мир! Γειά σου Κόσμε. שלום עולם مرحبا नमस्ते दुनिया สวัสดี 안녕하세요 " * 3,
    "こんにちは世界 你好，世界。你好 世界 カタカナ 👋🏽👨\u200d👩\u200d👧🇩🇪 e\u0301 a\u0308\u0323 "
    * 3,
]


def library_trained(kind: str, folder: Path) -> tuple[tokenizers.Tokenizer, Path]:
    """Return a vocabulary that tokenizers has trained, and saved."""
    pre_tokenizer, normalized, tokens = KINDS[kind]
    other = tokenizers.Tokenizer(models.BPE())
    other.pre_tokenizer = pre_tokenizer
    other.decoder = decoders.ByteLevel()
    if normalized:
        other.normalizer = normalizers.NFC()
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|first|>"],
        show_progress=False,
    )
    other.train_from_iterator(CORPUS, trainer)
    other.add_tokens(tokens)
    path = folder / "tokenizer.json"
    other.save(str(path))
    return other, path


Trained = tuple[Tokenizer, tokenizers.Tokenizer, Path]
"""A vocabulary that tokenizers has trained: as it was loaded here, as it is there, and its file."""


@pytest.fixture(scope="module")
def trained_of(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trained]:
    """A vocabulary of each kind."""
    found = {}
    for kind in KINDS:
        other, path = library_trained(kind, tmp_path_factory.mktemp("trained"))
        found[kind] = (Tokenizer.load(path), other, path)
    return found


@pytest.fixture(params=KINDS)
def trained(request: pytest.FixtureRequest, trained_of: dict[str, Trained]) -> Trained:
    return trained_of[request.param]


def test_a_vocabulary_trained_there_gives_its_ids_here(
    trained: Trained, real_texts: list[str]
) -> None:
    real = "\n".join(real_texts)
    runs = [character * 700 for character in "a1 \n-中é\u0301🙂"]
    texts = [
        *CORPUS,
        *KINDS_OF_TEXT.values(),
        *runs,
        *(real[at : at + 997] for at in range(0, 60_000, 2991)),
    ]
    check_equal(trained[0], trained[1], texts)


every_character = st.characters(codec="utf-8")
bits = st.one_of(
    st.sampled_from([token.content for token in [*SPECIAL, *SPACES]]),
    st.sampled_from([*"ab1 \n'.-<|>", "<|end|", "  ", "'s", "中", "é", "e\u0301", "🙂", "\u212b"]),
    every_character,
)


@settings(few_examples, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.lists(bits, max_size=30).map("".join))
def test_any_text_has_its_ids_here(trained: Trained, text: str) -> None:
    check_equal(trained[0], trained[1], [text])


@settings(few_examples, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_ids_have_its_text_here(trained: Trained, data: st.DataObject) -> None:
    tokenizer, other, _ = trained
    ids = data.draw(st.lists(st.integers(0, tokenizer.n_vocab - 1), max_size=20))
    for skip in (False, True):
        decoded = tokenizer.decode(ids, errors="replace", skip_special_tokens=skip)
        assert decoded == other.decode(ids, skip_special_tokens=skip)
    text = tokenizer.decode(ids, errors="ignore")
    check_equal(tokenizer, other, [text])


def test_a_vocabulary_trained_there_comes_back_unchanged(trained: Trained, tmp_path: Path) -> None:
    tokenizer, other, _ = trained
    tokenizer.save(tmp_path / "v2.json")
    Tokenizer.load(tmp_path / "v2.json").save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json") == tokenizer
    back = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    check_equal(tokenizer, back, CORPUS)
    assert [back.encode(text).ids for text in CORPUS] == [other.encode(text).ids for text in CORPUS]


@pytest.mark.parametrize("seed", range(18))
def test_a_vocabulary_with_any_merges_gives_its_ids_here(seed: int, tmp_path: Path) -> None:
    """With merges left out, reordered, and several for one token; with gaps; without some bytes."""
    choice = random.Random(seed)
    _, path = library_trained(choice.choice(["GPT-2", "llama3", "o200k"]), tmp_path)
    value = json.loads(path.read_text("utf-8"))
    model = value["model"]
    merges = [pair for pair in model["merges"] if choice.random() < 0.7]
    for token in choice.sample(sorted(model["vocab"]), 150):
        for at in range(1, len(token)):
            if token[:at] in model["vocab"] and token[at:] in model["vocab"]:
                merges += [[token[:at], token[at:]]]
    missing = choice.sample([*map(chr, range(33, 127)), *"ĉčĤħåèä½¸Ń"], 8 * (seed >= 12))
    for character in missing:
        del model["vocab"][character]
    merges = [pair for pair in merges if {*pair}.isdisjoint(missing)]
    model["merges"] = [list(pair) for pair in {tuple(pair): None for pair in merges}]
    if seed % 2:
        choice.shuffle(model["merges"])
    model["ignore_merges"] = choice.random() < 0.5 and not missing
    ids = choice.sample(range(3000), len(model["vocab"]))
    model["vocab"] = dict(zip(model["vocab"], ids, strict=True))
    value["added_tokens"] = [added(model["vocab"]["<|first|>"], "<|first|>")]
    path.write_text(json.dumps(value), encoding="utf-8")
    tokenizer, other = Tokenizer.load(path), library(value)
    tokens = sorted(tokenizer.decode([id], errors="ignore") for id in ids)
    tokens += missing and [token + choice.choice(missing) for token in tokens]
    texts = ["".join(choice.choices(tokens, k=20)) for _ in range(60)]
    check_equal(tokenizer, other, [*texts, *tokens, *CORPUS])
    tokenizer.save(path, overwrite=True)
    assert Tokenizer.load(path) == tokenizer
    check_equal(tokenizer, library(json.loads(path.read_text("utf-8"))), [*texts, *CORPUS])


# Vocabularies that were trained here


@pytest.mark.parametrize("pattern", [*PATTERNS, r"\p{N}|\p{L}+", "[一-龥]+|."])
@pytest.mark.parametrize("as_folder", [False, True], ids=["file", "folder"])
def test_a_vocabulary_trained_here_gives_its_ids_there(
    pattern: str, as_folder: bool, tmp_path: Path
) -> None:
    special = ["<|b|>", "<|a|>", "<|a|>a", "<｜é｜>", "two words", "\n\n"]
    tokenizer = Tokenizer.train(CORPUS, 600, pattern=pattern, special_tokens=special)
    if as_folder:
        tokenizer.save(tmp_path / "model", format="huggingface")
    else:
        (tmp_path / "model").mkdir()
        tokenizer.save(tmp_path / "model" / "tokenizer.json")
    path = tmp_path / "model" / "tokenizer.json"
    other = tokenizers.Tokenizer.from_file(str(path))
    check_equal(tokenizer, other, [*CORPUS, *(f"a{x}{y} {x}" for x in special for y in special)])
    assert Tokenizer.load(tmp_path / "model" if as_folder else path) == tokenizer
    other.save(str(path))
    assert Tokenizer.load(path) == tokenizer
    assert (tmp_path / "model" / "tokenizer_config.json").exists() == as_folder


CANNOT = {
    "two ids with the same bytes": (
        Vocabulary(((97, 98), (98, 99), (256, 99), (97, 257)), {}, PATTERNS["gpt2"]),
        "tokenizer.json cannot hold this vocabulary: it has two ids with the same bytes",
    ),
    "a special token that is an ordinary one too": (
        Vocabulary(((97, 98),), {"ab": 257}, PATTERNS["gpt2"]),
        "tokenizer.json cannot hold this vocabulary: it has the special token 'ab', which "
        "would read as another token",
    ),
    "a special token that is written as a byte": (
        Vocabulary((), {"Ġ": 256}, PATTERNS["gpt2"]),
        "tokenizer.json cannot hold this vocabulary: it has the special token 'Ġ', which "
        "would read as another token",
    ),
    "a special token that would be decoded as other bytes": (
        Vocabulary((), {"Üé": 256}, PATTERNS["gpt2"]),
        "tokenizer.json cannot hold this vocabulary: it has the special token 'Üé', which would "
        "be decoded as other bytes",
    ),
    "a pattern that engines read differently": (
        Vocabulary((), {}, r"\w+|\W+"),
        r"the pattern '\\w+|\\W+' has a part that engines read differently, at position 0: "
        r"'\\w+|\\W+'",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("vocabulary", "message"), CANNOT.values(), ids=CANNOT)
def test_vocabulary_beyond_tokenizers_is_not_saved(
    vocabulary: Vocabulary, message: str, tmp_path: Path
) -> None:
    assert refusal(lambda: Tokenizer(vocabulary).save(tmp_path / "tokenizer.json")) == message
    assert list(tmp_path.iterdir()) == []


# tokenizers has the normal forms of Unicode 9, Python of its own version

NORMALIZERS = (*FORMS, "Lowercase")


def forms(name: Any, other: bool) -> Callable[[str], str]:
    """Return how a text is normalized, there or here."""
    if other:
        found: Callable[[str], str] = getattr(normalizers, name)().normalize_str
        return found
    stages = Stages(normalizers=((name,),))
    tokenizer = Tokenizer(Vocabulary((), {}, PATTERNS["gpt2"], stages=stages))
    return lambda text: bytes(tokenizer.encode(text)).decode("utf-8")


CODES = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
MARKS = [chr(code) for code in CODES[:0x30000] if unicodedata.combining(chr(code))]
PARTS = [
    part
    for code in CODES[:0x30000]  # no later character is composed
    if (parts := unicodedata.decomposition(chr(code))) and parts[0] != "<"
    for part in [chr(code), "".join(chr(int(each, 16)) for each in parts.split())]
]


@once
@pytest.mark.parametrize("name", NORMALIZERS)
@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.slow)])
def test_characters_have_the_normal_form_of_tokenizers(step: int, name: str) -> None:
    here, there = forms(name, other=False), forms(name, other=True)
    every = [chr(code) for code in CODES if code < 0x3400 or 0xA000 <= code < 0x20000]
    every = [*every, *map(chr, CODES[0x20000::16]), *PARTS][::step]
    for start in range(0, len(every), 1000):
        text = " ".join(every[start : start + 1000])
        assert here(text) == there(text)


@once
@pytest.mark.parametrize("name", FORMS)
def test_joined_marks_have_the_normal_form_of_tokenizers(name: str) -> None:
    here, there = forms(name, other=False), forms(name, other=True)
    contexts = (
        "a{}\u0301 q\u0345{} q{}\u0334 a\u0327{}\u0323\u0301 \u1100{}\u11a8 {}\u0338<{}\u0338"
    )
    texts = [contexts.replace("{}", each) for each in [*MARKS, *PARTS[::5]]]
    texts += [left + right for left, right in pairwise(PARTS)]
    together = [" ".join(texts[start : start + 50]) for start in range(0, len(texts), 50)]
    assert [ascii(text) for text in together if here(text) != there(text)] == []


marked = st.lists(
    st.one_of(st.sampled_from(MARKS), st.sampled_from(PARTS), st.sampled_from("aeoK<= 가각각")),
    max_size=12,
).map("".join)


@once
@pytest.mark.parametrize("name", NORMALIZERS)
@given(text=marked)
def test_any_marks_have_the_normal_form_of_tokenizers(name: str, text: str) -> None:
    assert forms(name, other=False)(text) == forms(name, other=True)(text)


# From Han on, thousands of neighbours are of one kind.
SOME_CODES = [*CODES[:0x3000:2], *CODES[0x3000:0x20000:16], *CODES[0x20000::64]]

characters_of_all_kinds = pytest.mark.parametrize(
    "codes",
    [
        pytest.param(SOME_CODES, id="some characters"),
        pytest.param(CODES, id="all characters", marks=pytest.mark.slow),
    ],
)


@once
@characters_of_all_kinds
@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_characters_are_split_as_in_tokenizers(name: str, codes: list[int]) -> None:
    """Each character, between two letters."""
    split = getattr(pre_tokenizers, name)().pre_tokenize_str
    step = "not removed" if name == "Whitespace" else "removed"
    step = "isolated" if name == "Punctuation" else step
    pretokenizer = Pretokenizer(PRE_TOKENIZERS[name], steps=(step,))
    for start in range(0, len(codes), 1000):
        text = "a".join(map(chr, codes[start : start + 1000]))
        assert pretokenizer.split(text) == [piece for piece, _ in split(text)]


@once
@characters_of_all_kinds
def test_characters_of_words_and_spaces_match_tokenizers(codes: list[int]) -> None:
    library = tokenizers.Tokenizer(models.BPE({"a": 0}, []))
    alone = tokenizers.AddedToken("<a>", single_word=True)
    library.add_tokens([alone, tokenizers.AddedToken("<b>", lstrip=True)])
    for start in range(0, len(codes), 1000):
        text = "".join(map(chr, codes[start : start + 1000]))
        found = library.encode("".join(f"{character}<a> " for character in text))
        words = {*exact_regex(WORD_SET, text).findall(text)}
        ends = [end for id, (_, end) in zip(found.ids, found.offsets, strict=True) if id]
        assert [text[end // 5] for end in ends] == [c for c in text if c not in words]
        found = library.encode("".join(f"a{character}<b>" for character in text))
        taken = [b - a for id, (a, b) in zip(found.ids, found.offsets, strict=True) if id]
        assert taken == [3 + (character in WHITE_SPACE) for character in text]


def test_only_three_characters_become_ascii_in_normal_form_c() -> None:
    """So a literal without these, whose last character joins none, is found before and after."""
    forms_of_others = [unicodedata.normalize("NFC", part) for part in PARTS if not part.isascii()]
    assert {c for form in forms_of_others for c in form if len(form) == 1 and c.isascii()} == {
        *"K;`"
    }


def test_only_letters_and_three_symbols_of_ascii_join_marks() -> None:
    joining = {chr(code) for code in range(128)} & {
        part[0] for part in PARTS if len(part) == 2 and unicodedata.normalize("NFC", part) != part
    }
    assert joining <= {*"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz<=>"}
    assert {*"<=>"} <= joining


# Model folders


def folder_of(folder: Path, config: object, **others: str) -> Path:
    """Write a model folder and return it."""
    written(folder, changed(with_tokens(*TWO)))
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    for name, text in others.items():
        (folder / name.replace("__", ".")).write_bytes(text.encode())
    return folder


def as_token(content: str) -> Document:
    return {"__type": "AddedToken", "content": content, "lstrip": False, "normalized": True}


TEMPLATE = "{% for m in messages %}{{ m['content'] }}\n{% endfor %} é"

SETTINGS: dict[str, tuple[object, dict[str, str]]] = {
    "none": ({}, {}),
    "tokens as strings": (
        {"bos_token": "<a>", "eos_token": "<b>", "pad_token": "<b>", "unk_token": "<a>"},
        {"bos_token": "<a>", "eos_token": "<b>", "pad_token": "<b>", "unk_token": "<a>"},
    ),
    "tokens as objects": (
        {"bos_token": as_token("<a>"), "eos_token": as_token("<b>"), "pad_token": None},
        {"bos_token": "<a>", "eos_token": "<b>"},
    ),
    "a template": ({"chat_template": TEMPLATE}, {"chat_template": TEMPLATE}),
    "a template that is null": ({"chat_template": None}, {}),
    "several templates": (
        {
            "chat_template": [
                {"name": "default", "template": TEMPLATE}, {"name": "tool_use", "template": "x"}
            ]
        },
        {"chat_template": TEMPLATE, "chat_template.tool_use": "x"},
    ),
    "several templates without a default": (
        {"chat_template": [{"name": "rag", "template": "y"}, {"name": "a.b", "template": "x"}]},
        {"chat_template.rag": "y", "chat_template.a.b": "x"},
    ),
    "one template in a list": (
        {"chat_template": [{"name": "default", "template": "y"}]}, {"chat_template": "y"}
    ),
    "no templates in a list": ({"chat_template": []}, {}),
    "added tokens as they are": (
        {
            "added_tokens_decoder": {
                str(SIZE): {"content": "<a>", "special": True, "lstrip": False},
                str(SIZE + 1): {"content": "<b>", "special": False},
            }
        },
        {},
    ),
    "no prefix space": ({"add_prefix_space": False}, {}),
    "inputs and a length": (
        {"model_input_names": ["input_ids"], "model_max_length": 8192, "eos_token": "<a>"},
        {"model_input_names": '["input_ids"]', "model_max_length": "8192", "eos_token": "<a>"},
    ),
    "what changes no id": (
        {"tokenizer_class": "Qwen2Tokenizer", "model_max_length": 1e30, "auto_map": {"x": ["y"]}},
        {},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("config", "expected"), SETTINGS.values(), ids=SETTINGS)
def test_the_settings_of_a_folder_are_kept(
    config: object, expected: dict[str, str], tmp_path: Path
) -> None:
    tokenizer = Tokenizer.load(folder_of(tmp_path, config))
    assert dict(tokenizer.settings) == expected
    tokenizer.save(tmp_path / "again", format="huggingface")
    assert Tokenizer.load(tmp_path / "again") == tokenizer
    tokenizer.save(tmp_path / "v2.json")
    assert Tokenizer.load(tmp_path / "v2.json") == tokenizer


@pytest.mark.parametrize(
    "name", ["a template", "several templates", "tokens as strings", "inputs and a length"]
)
def test_the_settings_are_written_as_transformers_reads_them(name: str, tmp_path: Path) -> None:
    config, _ = SETTINGS[name]
    Tokenizer.load(folder_of(tmp_path, config)).save(tmp_path, overwrite=True)
    saved = json.loads((tmp_path / "tokenizer_config.json").read_text("utf-8"))
    assert isinstance(config, dict)
    assert saved == {
        "model_input_names": ["input_ids", "attention_mask"],
        **config,
        "clean_up_tokenization_spaces": False,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }


def test_a_template_in_a_file_of_its_own_is_kept(tmp_path: Path) -> None:
    config = {"chat_template": "older", "bos_token": "<a>"}
    folder = folder_of(tmp_path, config, chat_template__jinja="newer\r\n é")
    expected = {"chat_template": "newer\r\n é", "bos_token": "<a>"}
    assert dict(Tokenizer.load(folder).settings) == expected


def test_several_templates_in_files_of_their_own_are_kept(tmp_path: Path) -> None:
    """As version 5 of transformers writes them."""
    folder = folder_of(tmp_path, {}, chat_template__jinja=TEMPLATE)
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "tool_use.jinja").write_bytes(b"x\n")
    expected = {"chat_template": TEMPLATE, "chat_template.tool_use": "x\n"}
    assert dict(Tokenizer.load(folder).settings) == expected


WRONG_SETTINGS: dict[str, tuple[object, str]] = {
    "a beginning that is no special token": (
        {"add_bos_token": True, "bos_token": "<c>"},
        'bos_token: expected a special token, since add_bos_token is true, got "<c>"',
    ),
    "a token that is a number": ({"bos_token": 5}, "bos_token: expected a token, got 5"),
    "a token without content": ({"eos_token": {"content": 5}}, "eos_token: expected a token, got"),
    "a token with a lone surrogate": ({"pad_token": "\ud800"}, "pad_token: expected a token, got"),
    "a token that the vocabulary lacks": (
        {"eos_token": "<c>"},
        "eos_token: expected a special token of the vocabulary (transformers would give another "
        'one a new id, and tokenizer.json alone may be loaded), got "<c>"',
    ),
    "an empty token": ({"pad_token": ""}, "pad_token: expected a special token of the vocabulary"),
    "a template that is a number": (
        {"chat_template": 5}, "chat_template: expected a string in Unicode, got 5"
    ),
    "a template in the list that is a string": (
        {"chat_template": ["x"]},
        'chat_template[0]: expected an object with a name of its own, got "x"',
    ),
    "a template in the list without a template": (
        {"chat_template": [{"name": "rag"}]},
        "chat_template.rag: expected a string in Unicode, got null",
    ),
    "a template in the list without a name": (
        {"chat_template": [{"name": "", "template": "x"}]},
        "chat_template[0]: expected an object with a name of its own, got",
    ),
    "two templates of one name": (
        {"chat_template": [{"name": "a", "template": "x"}, {"name": "a", "template": "y"}]},
        "chat_template[1]: expected an object with a name of its own, got",
    ),
    "an added token that is not in tokenizer.json": (
        {"added_tokens_decoder": {"5": {"content": "<c>"}}},
        'added_tokens_decoder["5"]: expected an added token of tokenizer.json, with its id, got',
    ),
    "an added token with another id": (
        {"added_tokens_decoder": {"5": {"content": "<a>"}}},
        'added_tokens_decoder["5"]: expected an added token of tokenizer.json, with its id, got',
    ),
    "an added token that is special there alone": (
        {"added_tokens_decoder": {str(SIZE + 1): {"content": "<b>", "special": True}}},
        f'added_tokens_decoder["{SIZE + 1}"].special: expected what tokenizer.json says, got true',
    ),
    "an added token that takes the space before it": (
        {"added_tokens_decoder": {str(SIZE): {"content": "<a>", "special": True, "lstrip": True}}},
        f'added_tokens_decoder["{SIZE}"].lstrip: expected what tokenizer.json says, got true',
    ),
    "a length that is a string": (
        {"model_max_length": "5"}, 'model_max_length: expected a number above 0, got "5"'
    ),
    "inputs that are no list": (
        {"model_input_names": "x"}, 'model_input_names: expected a list, got "x"'
    ),
    "added tokens in a list": (
        {"added_tokens_decoder": []}, "added_tokens_decoder: expected an object, got []"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("config", "message"), WRONG_SETTINGS.values(), ids=WRONG_SETTINGS)
def test_wrong_settings_are_refused_by_path_and_value(
    config: object, message: str, tmp_path: Path
) -> None:
    folder = folder_of(tmp_path, config)
    start = f"{folder / 'tokenizer_config.json'}: {message}"
    assert refusal(lambda: Tokenizer.load(folder)).startswith(start)


@pytest.mark.parametrize("settings", [{}, {"eos_token": "<|endoftext|>"}, {"chat_template": "x"}])
def test_folder_of_a_trained_vocabulary_reads_back_as_it_was(
    settings: dict[str, str], tmp_path: Path
) -> None:
    tokenizer = Tokenizer.train("ab ab", 258).with_settings(**settings)
    tokenizer.save(tmp_path / "model", format="huggingface")
    assert Tokenizer.load(tmp_path / "model") == tokenizer


def config_of(folder: Path) -> Document:
    config: Document = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    return config


@pytest.mark.parametrize("more", [{}, {"model_max_length": 512}, {"chat_template": "x"}])
@pytest.mark.parametrize("name", ["again", "again.json"])
def test_a_folder_without_an_eos_token_gets_none(more: Document, name: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    Tokenizer.train("ab ab", 258).save(folder, format="huggingface")
    config = {**config_of(folder), **more}
    del config["eos_token"]
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    loaded = Tokenizer.load(folder)
    loaded.save(tmp_path / name, format="bpetite" if name.endswith(".json") else "huggingface")
    again = Tokenizer.load(tmp_path / name)
    assert again == loaded
    again.save(tmp_path / "last", format="huggingface")
    assert config_of(tmp_path / "last") == config


def test_a_setting_that_names_no_token_is_not_saved(tmp_path: Path) -> None:
    made = Vocabulary((), {"<a>": 256}, PATTERNS["gpt2"], settings={"eos_token": "<c>"})
    said = refusal(lambda: Tokenizer(made).save(tmp_path / "model", format="huggingface"))
    assert "tokenizer_config.json: eos_token: expected a special token of the vocabulary" in said


def test_ids_around_texts_may_stand_in_the_config(tmp_path: Path) -> None:
    config = {"add_bos_token": True, "bos_token": "<a>", "add_eos_token": True, "eos_token": "<b>"}
    folder = folder_of(tmp_path, config)
    tokenizer = Tokenizer.load(folder)
    start, end = tokenizer.special_tokens["<a>"], tokenizer.special_tokens["<b>"]
    assert tokenizer.encode("x") == [120]
    assert tokenizer.encode("x", add_special_tokens=True) == [start, 120, end]
    tokenizer.save(tmp_path / "again", format="huggingface")
    assert Tokenizer.load(tmp_path / "again") == tokenizer
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "again" / "tokenizer.json"))
    assert library.encode("x").ids == [start, 120, end]


@pytest.mark.parametrize("space", [False, True])
@pytest.mark.parametrize("name", ["GPT2Tokenizer", "PreTrainedTokenizerFast"])
def test_a_prefix_space_matches_transformers(name: str, space: bool, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = {"tokenizer_class": name, "add_prefix_space": space, "eos_token": "<a>"}
    others = {"bos_token": "<a>", "unk_token": "<a>"}
    folder = folder_of(tmp_path, config | others)
    tokenizer = Tokenizer.load(folder)
    library = transformers.AutoTokenizer.from_pretrained(folder)
    for text in ("ab cd", " ab", "", "x<a>ab"):
        assert tokenizer.encode(text) == library(text, add_special_tokens=False)["input_ids"]
    tokenizer.save(tmp_path / "again", format="huggingface")
    assert Tokenizer.load(tmp_path / "again").encode("ab") == tokenizer.encode("ab")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("special_tokens_map.json", {"additional_special_tokens": ["<new>"]}),
        ("special_tokens_map.json", {"bos_token": {"content": "<new>"}}),
        ("added_tokens.json", {"<new>": 999}),
        ("added_tokens.json", {"<a>": 999}),
    ],
)
def test_tokens_of_other_files_must_be_in_the_vocabulary(
    name: str, content: object, tmp_path: Path
) -> None:
    folder = folder_of(tmp_path, {}, **{name: json.dumps(content)})
    assert "expected a special token of the vocabulary" in refusal(lambda: Tokenizer.load(folder))


def test_tokens_of_other_files_may_repeat_the_vocabulary(tmp_path: Path) -> None:
    tokens = json.dumps({"bos_token": "<a>", "additional_special_tokens": ["<b>"]})
    folder = folder_of(tmp_path, {}, **{"special_tokens_map.json": tokens})
    assert Tokenizer.load(folder).encode("<a>") == [SIZE]


def test_settings_do_not_keep_a_folder_from_an_eos_token(tmp_path: Path) -> None:
    tokenizer = Tokenizer.train("ab ab", 258).with_settings(chat_template="x")
    tokenizer.save(tmp_path, format="huggingface")
    assert config_of(tmp_path)["eos_token"] == "<|endoftext|>"
    assert Tokenizer.load(tmp_path) == tokenizer


def test_transformers_gives_what_a_model_takes(tmp_path: Path) -> None:
    """Also tried with version 4.57.6, which would add token_type_ids by default."""
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    tokenizer = Tokenizer.train("ab ab", 258)
    tokenizer.save(tmp_path / "model", format="huggingface")
    other = transformers.AutoTokenizer.from_pretrained(str(tmp_path / "model"))
    assert set(other("ab")) == {"input_ids", "attention_mask"}
    assert (other.eos_token, other.eos_token_id) == ("<|endoftext|>", 258)
    config = tmp_path / "model" / "tokenizer_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "model_max_length": 512}))
    Tokenizer.load(tmp_path / "model").save(tmp_path / "again", format="huggingface")
    other = transformers.AutoTokenizer.from_pretrained(str(tmp_path / "again"))
    assert (other.model_max_length, other.eos_token) == (512, "<|endoftext|>")


def test_a_saved_folder_is_read_by_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    vocabulary = Vocabulary(
        Tokenizer.train(CORPUS, 500).merges,
        {"<|a|>": 900, "<|b|>": 700, "<b>": 701},
        PATTERNS["llama3"],
        kept_special_tokens=frozenset(["<b>"]),
        added_tokens=frozenset(["<b>"]),
        prefix_ids=(900,),
        settings={"bos_token": "<|a|>", "eos_token": "<|b|>", "chat_template": TEMPLATE},
    )
    tokenizer = Tokenizer(vocabulary)
    tokenizer.save(tmp_path / "model", format="huggingface")
    other = transformers.AutoTokenizer.from_pretrained(str(tmp_path / "model"))
    for text in [*CORPUS, "Hello , world ! it 's<|b|> <b>x<|a|>"]:
        ids = tokenizer.encode(text)
        assert ids == other.encode(text, add_special_tokens=False)
        assert tokenizer.encode(text, add_special_tokens=True) == other.encode(text)
        assert tokenizer.decode(ids) == other.decode(ids)
        skipped = tokenizer.decode(ids, skip_special_tokens=True)
        assert skipped == other.decode(ids, skip_special_tokens=True)
    assert (other.bos_token_id, other.eos_token_id) == (900, 700)
    assert other.chat_template == TEMPLATE
