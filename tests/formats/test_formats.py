"""Which format a file has, what reads and writes it, and who checks the result."""

from __future__ import annotations

import base64
import builtins
import gzip
import json
import os
import random
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
import tiktoken
from support.engines import quick_once
from support.examples import slow_except
from support.refusals import refusal
from support.vocabularies import vocabulary

from bpetite import Tokenizer
from bpetite._pretokenizer import PATTERNS
from bpetite._vocabulary import Vocabulary
from bpetite.analysis import Verifier
from bpetite.formats import FORMATS, _gpt2, _huggingface, _tiktoken, format_of_path, recognise
from bpetite.formats._files import SourceFile
from bpetite.formats._huggingface_read import read as read_huggingface
from bpetite.formats._reference import PROBE, first_difference
from conftest import TEXTS

pytestmark = quick_once

SMALL = Tokenizer.train("the hen then met the ten men", 264, special_tokens=["<a>", "<b>"])

OTHER = Tokenizer.train("xyz xyz xyz", 259, special_tokens=["<z>"])

NAMES = {
    "bpetite": "x.json",
    "tiktoken": "x.tiktoken",
    "gpt2": "vocab.json",
    "huggingface": "tokenizer.json",
}
"""The name of a file that tells each format."""

FILES = {
    "bpetite": ["x.json"],
    "tiktoken": ["x.tiktoken"],
    "gpt2": ["merges.txt", "vocab.json"],
    "huggingface": ["tokenizer.json"],
}
"""All the files of each format."""

WRITTEN = tuple(format for format in FORMATS if format not in ("tekken", "sentencepiece"))
"""The formats of `save`."""

OTHERS = WRITTEN[1:]
"""Those with a reference library."""

LIBRARIES = {"tiktoken": "tiktoken", "gpt2": "tokenizers", "huggingface": "tokenizers"}

every_format = pytest.mark.parametrize("format", WRITTEN)
every_other_format = pytest.mark.parametrize("format", OTHERS)


def saved(tokenizer: Tokenizer, format: str, folder: Path) -> Path:
    """Save a tokenizer in a format, and return the path."""
    path = folder / NAMES[format]
    tokenizer.save(path, overwrite=True)
    return path


def given(tokenizer: Tokenizer, format: str) -> dict[str, Any]:
    """Return what load has to be told of a tokenizer in a format."""
    if format != "tiktoken":
        return {}
    return {"pattern": tokenizer.patterns[0], "special_tokens": tokenizer.special_tokens}


def files(folder: Path) -> dict[str, bytes]:
    """Return all that is in a folder, at any depth."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else b""
        for path in folder.rglob("*")
    }


# Recognised by content


@every_format
@pytest.mark.parametrize("name", ["model", "x.txt", "tokenizer.json", "x.tiktoken"])
def test_file_is_recognised_under_any_name(format: str, name: str, tmp_path: Path) -> None:
    saved(SMALL, format, tmp_path).rename(tmp_path / name)
    assert recognise(tmp_path / name) == format
    if format != "gpt2":  # whose other file is found by the name
        assert Tokenizer.load(tmp_path / name, **given(SMALL, format)) == SMALL


def test_a_text_is_not_read_whole_to_be_recognised(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("a line of a long text\n" * 1_000_000)
    tracemalloc.start()
    try:
        assert recognise(path) is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


def test_of_a_folder_with_both_tokenizer_json_counts(tmp_path: Path) -> None:
    saved(SMALL, "gpt2", tmp_path)
    saved(OTHER, "huggingface", tmp_path)
    assert recognise(tmp_path) == "huggingface"
    assert Tokenizer.load(tmp_path) == OTHER
    assert Tokenizer.load(tmp_path, format="gpt2") == SMALL


def test_any_text_may_be_a_key_of_vocab_json(tmp_path: Path) -> None:
    """Also those by which the other formats are known."""
    words = ["model", "schema_version", "merges", "vocab", "pretokenizer_pattern", "version"]
    tokenizer = Tokenizer.train("", 256, special_tokens=[*words, "special_tokens"])
    path = saved(tokenizer, "gpt2", tmp_path)
    assert recognise(path) == "gpt2"
    assert Tokenizer.load(path) == tokenizer


def test_ranks_are_recognised_in_any_order(tmp_path: Path) -> None:
    path = saved(SMALL, "tiktoken", tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    for ends, order in ((b"\n", lines[::-1]), (b"\r\n", lines), (b"\n", lines[200:] + lines[:200])):
        path.write_bytes(b"".join(order).replace(b"\n", ends))
        assert recognise(path) == "tiktoken"


CHARACTERS = [chr(code) for code in (*range(33, 127), *range(0xC0, 0x130))]

NO_MODELS = {
    "nothing": b"",
    "a line end": b"\n",
    "English": b"The hen met the men.\nThen ten men met the hen.\n",
    "words and numbers": b"Page 12\nline 34\nword 56\n" * 100,
    "a table of base64": b"".join(
        base64.b64encode(bytes([byte, 7])) + b" %d\n" % byte for byte in range(256)
    ),
    "some single bytes": b"".join(
        base64.b64encode(bytes([byte])) + b" %d\n" % byte for byte in range(100)
    ),
    "binary": bytes(range(256)) * 4,
    "a zip": b"PK\x03\x04\x14\x00\x00\x00",
    "UTF-16": "\ufeffPage 12\n".encode("utf-16-le"),
    "UTF-16, big-endian": "\ufeffPage 12\n".encode("utf-16-be"),
    "a list": b"[1, 2, 3]\n",
    "a list of merges": b'[\n"a b",\n"c d"\n]\n',
    "a string": b'"model"',
    "a number": b"12",
    "an empty object": b"{}",
    "an object that does not end": b'{"model": {"vocab": {',
    "an object and more": b"{}\n{}\n",
    "a request": b'{"model": "gpt-4o", "messages": [], "seed": 1}',
    "a configuration": b'{"model": {"type": "transformer", "layers": 12}, "version": 2}',
    "a list of merges in an object": b'{"merges": [], "version": "1.0"}',
    "a version": b'{"schema_version": 1}',
    "many numbers": json.dumps({f"word{number}": number for number in range(999)}).encode(),
    "numbers of characters": json.dumps(dict.fromkeys(CHARACTERS[:120], 12)).encode(),
    "other values of characters": json.dumps(dict.fromkeys(CHARACTERS, 1.5)).encode(),
}


@pytest.mark.parametrize("data", NO_MODELS.values(), ids=list(NO_MODELS))
def test_other_files_are_not_recognised(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.tiktoken"
    path.write_bytes(data)
    assert recognise(path) is None


@pytest.mark.parametrize("format", [None, *FORMATS])
@pytest.mark.parametrize("data", NO_MODELS.values(), ids=list(NO_MODELS))
def test_other_files_are_refused_by_path(data: bytes, format: str | None, tmp_path: Path) -> None:
    path = tmp_path / "vocab.json"
    path.write_bytes(data)
    (tmp_path / "merges.txt").touch()
    with pytest.raises((ValueError, KeyError)) as caught:
        Tokenizer.load(path, format=format)
    assert str(caught.value.args[0]).startswith(f"{path}: ")


STREAM = (
    "StreamVocabulary decodes by the tokenizer.json of the same model; to encode, use sentencepiece"
)

OF_OTHER_KINDS = {
    "gzip": (gzip.compress(b"{}"), "compressed by gzip: decompress it first"),
    "zstd": (b"\x28\xb5\x2f\xfd\x00", "compressed by zstd: decompress it first"),
    "zip": (b"PK\x03\x04\x14", "a ZIP archive: take the vocabulary out of it first"),
    "sentencepiece unigram": (
        b"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02\x12\x0a\x0a\x01a\x18\x01\x2d\0\0\0\0",
        f"a SentencePiece model of type unigram: {STREAM}",
    ),
    "sentencepiece without a type": (
        b"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02\x12\x03\x0a\x01a",
        f"a SentencePiece model of type unigram: {STREAM}",
    ),
    "gguf": (
        b"GGUF\x03\0\0\0\x01",
        "a GGUF file: load the tokenizer.json of the model that it was made from",
    ),
    "rwkv": (
        b"1 '\\x00' 1\n2 '\\x01' 1\n257 b'\\xe4' 1\n",
        "the trie of RWKV: bpetite cannot encode by it, since its longest token wins and it "
        "applies no merges",
    ),
    "wordpiece": (
        b"[PAD]\n[unused0]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n##s\n",
        "a vocabulary of WordPiece: bpetite cannot encode by it, since its algorithm is not BPE",
    ),
    "merges": (
        b"#version: 0.2\nh e\nhe n\n",
        "the merges of GPT-2's two files: load the vocab.json next to it",
    ),
    "piece counts": (
        b'{"format": "bpetite piece counts", "version": 1}\n\0',
        "piece counts: train on PieceCounts.load of it",
    ),
    "git lfs": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n",
        "Git LFS's note of a file: fetch the file by git lfs pull",
    ),
    "config.json": (
        b'{"model_type": "llama", "vocab_size": 32000}',
        "the configuration of a model: load its folder, which has the vocabulary too",
    ),
    "tokenizer_config.json": (
        b'{"bos_token": "<s>", "eos_token": "</s>"}',
        "the settings of a model folder: load its folder, which has the vocabulary too",
    ),
}


@pytest.mark.parametrize(("data", "what"), OF_OTHER_KINDS.values(), ids=[*OF_OTHER_KINDS])
def test_a_file_of_another_kind_is_named(data: bytes, what: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(data)
    assert refusal(Tokenizer.load, path) == f"{path}: this is {what}"
    assert recognise(path) is None


def test_other_json_is_named_by_its_keys(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"schema": 1, "model": "x"}')
    assert refusal(Tokenizer.load, path) == (
        f"{path}: no vocabulary: expected a tokenizer.json, tekken.json, vocab.json, "
        "tokenizer.model, .tiktoken file or file of bpetite, got JSON with the keys "
        '["schema", "model"]'
    )


def test_our_own_file_without_a_version_lacks_a_key(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for text in ("{}", '{"merges": [], "special_tokens": {}}'):
        path.write_text(text)
        with pytest.raises(KeyError, match="the key 'schema_version' is missing"):
            Tokenizer.load(path)


def test_a_folder_that_has_no_model_is_not_recognised(tmp_path: Path) -> None:
    saved(SMALL, "bpetite", tmp_path)
    assert recognise(tmp_path) is None
    assert refusal(Tokenizer.load, tmp_path) == (
        f"{tmp_path}: no tokenizer.json, no tekken.json, no vocab.json, no tiktoken.model, no "
        f"tokenizer.model, no *.tiktoken in this folder"
    )
    (tmp_path / "tokenizer.json").write_bytes(b'{"model": "x"}')
    assert recognise(tmp_path) is None


def test_a_missing_file_is_the_systems_error(tmp_path: Path) -> None:
    for function in (recognise, Tokenizer.load):
        with pytest.raises(FileNotFoundError) as caught:
            function(tmp_path / "x")
        assert caught.value.filename == str(tmp_path / "x")


WRONG = {
    "bpetite": ('"merges":[', '"merges":[[0,0],[0,0],', "merges[1]: "),
    "tiktoken": ("\nAg==", "\nAg=", "line 3: "),
    "gpt2": ('"a": 97', '"a": "97"', '["a"]: '),
    "huggingface": ('"dropout": null', '"dropout": 0.5', "model.dropout: "),
}


@every_format
def test_wrong_value_is_named_with_its_path(format: str, tmp_path: Path) -> None:
    path = saved(SMALL, format, tmp_path)
    right, wrong, place = WRONG[format]
    path.write_text(path.read_text("utf-8").replace(right, wrong), "utf-8", newline="")
    said = refusal(Tokenizer.load, path, **given(SMALL, format))
    assert said.startswith(f"{path}: {place}expected ")


# Told


@every_format
def test_the_format_may_be_given(format: str, tmp_path: Path) -> None:
    path = saved(SMALL, format, tmp_path)
    assert Tokenizer.load(path, format=format, **given(SMALL, format)) == SMALL
    for other in set(FORMATS) - {format}:
        with pytest.raises((ValueError, KeyError)) as caught:
            Tokenizer.load(path, format=other)
        assert str(path.with_suffix("")) in str(caught.value)


@pytest.mark.parametrize("format", ["", "GPT2", "json", "unigram"])
def test_an_unknown_format_is_refused(format: str, tmp_path: Path) -> None:
    known = "bpetite, tiktoken, gpt2, sentencepiece, tekken, huggingface"
    reason = f"the format {format!r} is none of {known}"
    assert refusal(Tokenizer.load, tmp_path / "x", format=format) == reason
    assert refusal(SMALL.save, tmp_path / "x", format=format) == reason


@pytest.mark.parametrize(
    ("format", "reason"),
    [
        ("gpt2", "no vocab.json"),
        ("tiktoken", "no tiktoken.model, no tokenizer.model, no *.tiktoken"),
        ("bpetite", "nothing has the format bpetite"),
    ],
)
def test_a_folder_has_only_some_formats(format: str, reason: str, tmp_path: Path) -> None:
    saved(SMALL, "huggingface", tmp_path)
    said = refusal(Tokenizer.load, tmp_path, format=format)
    assert said == f"{tmp_path}: {reason} in this folder"


@pytest.mark.parametrize("format", ["bpetite", "huggingface"])
@pytest.mark.parametrize(
    ("name", "value"), [("pattern", "gpt2"), ("special_tokens", {"<a>": 264}), ("pattern", "(")]
)
def test_argument_that_repeats_the_file_is_refused(
    format: str, name: str, value: object, tmp_path: Path
) -> None:
    path = saved(SMALL, format, tmp_path)
    options: dict[str, Any] = {name: value}
    said = refusal(Tokenizer.load, path, **options)
    assert said == f"{path}: {name} was given, but the file has its own; leave it out"


@pytest.mark.parametrize(
    ("special_tokens", "error", "reason"),
    [
        (["<a>"], TypeError, "special_tokens must be a mapping of literals to ids, got list"),
        ("<a>", TypeError, "special_tokens must be a mapping of literals to ids, got str"),
        ({"": 300}, ValueError, "the special token '' is not a text, or is empty"),
        ({b"<a>": 300}, ValueError, "the special token b'<a>' is not a text, or is empty"),
        ({"\ud800": 300}, ValueError, "the special token '\\ud800' is not a text, or is empty"),
        ({"<a>": -1}, ValueError, "the id -1 of '<a>' is not from 0 to 4294967295"),
        ({"<a>": 2**32}, ValueError, "the id 4294967296 of '<a>' is not from 0 to 4294967295"),
        ({"<a>": True}, ValueError, "the id True of '<a>' is not from 0 to 4294967295"),
        ({"<a>": "300"}, ValueError, "the id '300' of '<a>' is not from 0 to 4294967295"),
    ],
)
def test_special_tokens_have_literals_and_ids(
    special_tokens: Any, error: type[Exception], reason: str, tmp_path: Path
) -> None:
    path = saved(SMALL, "tiktoken", tmp_path)
    with pytest.raises(error) as caught:
        Tokenizer.load(path, pattern="gpt2", special_tokens=special_tokens)
    assert str(caught.value) == reason


@pytest.mark.parametrize("format", ["tiktoken", "gpt2"])
def test_a_pattern_has_to_be_one(format: str, tmp_path: Path) -> None:
    path = saved(SMALL, format, tmp_path)
    assert "is neither one of gpt2, " in refusal(Tokenizer.load, path, pattern="(")
    with pytest.raises(TypeError, match="pattern must be a str, got int"):
        Tokenizer.load(path, pattern=7)  # type: ignore[arg-type]


# What is opened


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are opened from now on."""
    names: list[str] = []
    real_open = builtins.open

    def recording_open(file: Any, *arguments: Any, **options: Any) -> Any:
        if not isinstance(file, int):
            names.append(os.path.basename(file))
        return real_open(file, *arguments, **options)

    monkeypatch.setattr(builtins, "open", recording_open)
    return names


@every_format
def test_no_name_in_a_file_is_followed(format: str, tmp_path: Path, opened: list[str]) -> None:
    """Neither of tokens, nor of what other libraries name files by."""
    literals = [str(tmp_path / "secret"), "/etc/passwd", "file:secret", "merges_file"]
    tokenizer = Tokenizer.train("", 256, special_tokens=literals)
    path = saved(tokenizer, format, tmp_path)
    opened.clear()
    assert Tokenizer.load(path, **given(tokenizer, format)) == tokenizer
    assert sorted(opened) == FILES[format]


def test_no_name_in_a_folder_is_followed(tmp_path: Path, opened: list[str]) -> None:
    SMALL.save(tmp_path / "model", format="huggingface")
    config = tmp_path / "model" / "tokenizer_config.json"
    names = ("tokenizer_file", "vocab_file", "merges_file", "name_or_path", "auto_map")
    config.write_text(json.dumps(dict.fromkeys(names, str(tmp_path / "secret"))))
    opened.clear()
    assert Tokenizer.load(tmp_path / "model") == SMALL
    assert sorted(opened) == ["tokenizer.json", "tokenizer_config.json"]


# Written by name


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("x.json", "bpetite"),
        ("x", "bpetite"),
        ("my_vocab.json", "bpetite"),
        ("tokenizer.json.bak", "bpetite"),
        ("tiktoken", "bpetite"),
        ("x.tiktoken", "tiktoken"),
        ("vocab.json", "gpt2"),
        ("tokenizer.json", "huggingface"),
    ],
)
def test_the_name_tells_the_format(name: str, format: str, tmp_path: Path) -> None:
    assert format_of_path(name) == format_of_path(tmp_path / name) == format
    SMALL.save(tmp_path / name)
    assert recognise(tmp_path / name) == format


def test_a_folder_tells_the_format(tmp_path: Path) -> None:
    assert format_of_path(tmp_path) == "huggingface"
    SMALL.save(tmp_path)
    assert sorted(files(tmp_path)) == ["tokenizer.json", "tokenizer_config.json"]
    assert Tokenizer.load(tmp_path) == SMALL


@pytest.mark.parametrize("format", ["bpetite", "tiktoken", "huggingface"])
def test_the_format_that_is_given_counts_more(format: str, tmp_path: Path) -> None:
    SMALL.save(tmp_path / "vocab.json", format=format)
    assert list(files(tmp_path)) == ["vocab.json"]
    assert recognise(tmp_path / "vocab.json") == format


def test_a_folder_is_made_if_the_format_is_given(tmp_path: Path) -> None:
    SMALL.save(tmp_path / "a" / "b", format="huggingface")
    assert sorted(files(tmp_path / "a")) == ["b", "b/tokenizer.json", "b/tokenizer_config.json"]
    assert Tokenizer.load(tmp_path / "a" / "b") == SMALL


@every_format
def test_existing_files_stay_without_overwrite(format: str, tmp_path: Path) -> None:
    """Also if only one of two files exists: then neither is written."""
    for name in FILES[format]:
        for each in tmp_path.iterdir():
            each.unlink()
        (tmp_path / name).write_bytes(b"before")
        with pytest.raises(FileExistsError) as caught:
            SMALL.save(tmp_path / NAMES[format])
        assert caught.value.filename == str(tmp_path / name)
        assert files(tmp_path) == {name: b"before"}
    SMALL.save(tmp_path / NAMES[format], overwrite=True)
    assert Tokenizer.load(tmp_path / NAMES[format], **given(SMALL, format)) == SMALL


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_files_in_a_folder_stay_without_overwrite(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"before")
    with pytest.raises(FileExistsError) as caught:
        SMALL.save(tmp_path)
    assert caught.value.filename == str(tmp_path / name)
    assert files(tmp_path) == {name: b"before"}
    SMALL.save(tmp_path, overwrite=True)
    assert Tokenizer.load(tmp_path) == SMALL


@every_format
def test_a_missing_folder_is_an_error_that_names_the_file(format: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        SMALL.save(tmp_path / "none" / NAMES[format])
    assert caught.value.filename in {str(tmp_path / "none" / name) for name in FILES[format]}
    assert files(tmp_path) == {}


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"before")
    with pytest.raises(FileExistsError):
        SMALL.save(tmp_path / "x", format="huggingface", overwrite=True)
    assert files(tmp_path) == {"x": b"before"}


TOO_MUCH = {
    "tiktoken": vocabulary({256: b"ab"}, []),
    "gpt2": vocabulary({}, [], ignore_merges=True),
    "huggingface": vocabulary({}, [], pattern=r"\w+|\W"),
    "model folder": vocabulary({}, [], pattern=r"\w+|\W"),
}
"""What each format cannot say."""


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("format", TOO_MUCH)
def test_refused_vocabulary_is_not_written(format: str, overwrite: bool, tmp_path: Path) -> None:
    tokenizer = Tokenizer(TOO_MUCH[format])
    if format == "model folder":
        path, options = tmp_path / "new", {"format": "huggingface"}
    else:
        path, options = tmp_path / NAMES[format], {}
        if overwrite:
            path.write_bytes(b"before")
    before = files(tmp_path)
    assert refusal(tokenizer.save, path, overwrite=overwrite, **options) != ""
    assert files(tmp_path) == before


# What is written is read back


def drop_a_merge(vocab_and_merges: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """Return GPT-2's files with one line less."""
    vocab, merges = vocab_and_merges
    return vocab, merges.rpartition(b"\n")[0].rpartition(b"\n")[0]


def altered_json(old: str, new: str) -> Callable[[bytes], bytes]:
    """Return what replaces a part of a file, which must have it."""

    def alter(data: bytes) -> bytes:
        assert old.encode() in data
        return data.replace(old.encode(), new.encode())

    return alter


SLIPS: list[tuple[str, Any, str, Callable[[Any], Any], str]] = [
    ("gpt2", _gpt2, "to_files", drop_a_merge,
     "vocab.json: ordinary tokens would not survive a round trip through this format"),
    ("gpt2", _gpt2, "to_files", lambda files: (files[0].replace(b'"<a>": 264, ', b""), files[1]),
     "vocab.json: special tokens would not survive a round trip through this format"),
    ("tiktoken", _tiktoken, "to_bytes", lambda data: data[: data.rindex(b"\n", 0, -1) + 1],
     "x.tiktoken: ordinary tokens would not survive a round trip through this format"),
    ("tiktoken", _tiktoken, "to_bytes", lambda data: data.replace(b" 256\n", b" 9\n", 1),
     "x.tiktoken: two tokens have the rank 9"),
    ("tiktoken", _tiktoken, "to_bytes", lambda data: data.replace(b"\nAg== 2", b"\nAg== 999"),
     "x.tiktoken: byte ids would not survive a round trip through this format"),
    ("huggingface", _huggingface, "to_bytes", altered_json('"special": true', '"special": false'),
     "tokenizer.json: kept special tokens would not survive a round trip through this format"),
    ("huggingface", _huggingface, "to_bytes", altered_json('"normalizer": null', '"normalizer": '
     '{"type": "NFC"}'),
     "tokenizer.json: normalizer would not survive a round trip through this format"),
    ("huggingface", _huggingface, "to_bytes", altered_json('"use_regex": true', '"use_regex": '
     'false'), "tokenizer.json: patterns would not survive a round trip through this format"),
    ("huggingface", _huggingface, "to_bytes", altered_json('"dropout": null', '"dropout": 1'),
     "tokenizer.json: model.dropout: "),
]  # fmt: skip


@pytest.mark.parametrize(("format", "module", "name", "alter", "reason"), SLIPS)
def test_file_that_reads_back_differently_is_not_written(
    format: str,
    module: Any,
    name: str,
    alter: Callable[[Any], Any],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever slip there may be between a vocabulary and its file."""
    right = getattr(module, name)
    monkeypatch.setattr(module, name, lambda vocabulary: alter(right(vocabulary)))
    said = refusal(SMALL.save, tmp_path / NAMES[format])
    assert said.removeprefix(f"{tmp_path}{os.sep}").startswith(reason)
    assert files(tmp_path) == {}


AROUND = vocabulary(
    {256: b"ab"},
    [(97, 98)],
    special_tokens={"<s>": 257, "</s>": 258},
    prefix_ids=(257,),
    suffix_ids=(258,),
    kept_special_tokens=frozenset(["</s>"]),
    added_tokens=frozenset(["</s>"]),
    settings={"bos_token": "<s>", "chat_template": "{{ x }}"},
)
"""It has all that does not show in the ids of a text unless it is asked for."""


def test_a_model_folder_says_all(tmp_path: Path) -> None:
    tokenizer = Tokenizer(AROUND)
    tokenizer.save(tmp_path)
    assert Tokenizer.load(tmp_path) == tokenizer


def test_settings_are_in_a_model_folder_not_in_tokenizer_json(tmp_path: Path) -> None:
    Tokenizer(AROUND).save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert dict(loaded.settings) == {}
    assert loaded.encode("ab", add_special_tokens=True) == [257, 256, 258]
    assert loaded.decode([257, 256, 258], skip_special_tokens=True) == "ab</s>"


def test_ranks_lack_special_tokens_and_their_rules(tmp_path: Path) -> None:
    tokenizer = Tokenizer(AROUND)
    tokenizer.save(tmp_path / "x.tiktoken")
    loaded = Tokenizer.load(tmp_path / "x.tiktoken", **given(tokenizer, "tiktoken"))
    assert loaded.encode("ab<s>") == tokenizer.encode("ab<s>") == [256, 257]
    assert loaded.encode("ab", add_special_tokens=True) == [256]
    assert loaded.decode([257, 256, 258], skip_special_tokens=True) == "ab"


def test_a_setting_that_a_model_folder_cannot_say_is_refused(tmp_path: Path) -> None:
    tokenizer = Tokenizer(vocabulary({}, [], settings={"mood": "good"}))
    said = refusal(tokenizer.save, tmp_path / "new", format="huggingface")
    config = tmp_path / "new" / "tokenizer_config.json"
    assert said == f"{config}: this file cannot hold all of {{'mood': 'good'}}"
    assert files(tmp_path) == {}


def test_a_pattern_may_be_spelled_otherwise_when_it_is_read_back(tmp_path: Path) -> None:
    """GPT-2's, as GPT-2 has it, is known to be the same."""
    spelled = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    tokenizer = Tokenizer.train("it's it's", 258, pattern=spelled)
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert loaded.patterns[0] == PATTERNS["gpt2"]
    texts = TEXTS.values()
    assert loaded.encode_batch(texts) == tokenizer.encode_batch(texts)


# Checked against the library


def wrong_ids(right: Callable[..., Callable[[str], list[int]]]) -> Callable[..., Any]:
    """Return a library that has 0 instead of 101, the id of "e"."""

    def reference_encode(*arguments: Any) -> Callable[[str], list[int]]:
        encode = right(*arguments)
        return lambda text: [0 if id == 101 else id for id in encode(text)]

    return reference_encode


def failing(error: BaseException) -> Callable[..., NoReturn]:
    """Return a library that raises an error when it is asked to read a file."""

    def reference_encode(*_: object) -> NoReturn:
        raise error

    return reference_encode


def failing_later(error: BaseException) -> Callable[..., Callable[[str], NoReturn]]:
    """Return a library that raises an error when it encodes."""
    return lambda *_: failing(error)


MODULES: dict[str, Any] = {"tiktoken": _tiktoken, "gpt2": _gpt2, "huggingface": _huggingface}


@every_other_format
def test_other_ids_than_the_librarys_are_refused(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(SMALL, format, tmp_path)
    module = MODULES[format]
    name = "encode_like" if format == "tiktoken" else "reference_encode"
    monkeypatch.setattr(module, name, wrong_ids(getattr(module, name)))
    library = LIBRARIES[format]
    assert refusal(Tokenizer.load, path, **given(SMALL, format)) == (
        f"{path}: {library} gives other ids for a probe text, at character 1 "
        f"(line 1, column 2): bpetite has 101 'e', {library} has 0 '\\x00'"
    )


MISREADINGS: dict[str, Callable[[dict[str, Any]], object]] = {
    "no normalizer": lambda document: document.update(normalizer=None),
    "another pattern": lambda document: document["pre_tokenizer"].update(use_regex=False),
    "a space": lambda document: document["pre_tokenizer"].update(add_prefix_space=True),
    "one merge less": lambda document: document["model"]["merges"].pop(10),
    "another order": lambda document: document["model"]["merges"].reverse(),
    "other ids": lambda document: document["model"]["vocab"].update({"1": 50, "2": 49}),
    "white space": lambda document: document["added_tokens"][0].update(lstrip=True),
}


@pytest.mark.parametrize("change", MISREADINGS.values(), ids=list(MISREADINGS))
def test_a_file_that_is_misread_is_refused(
    change: Callable[[dict[str, Any]], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library gets only the part of a file that a text needs, and that shows it."""
    tokenizer = Tokenizer.train(PROBE * 2, 400, special_tokens=["<a>", "<b>"])
    path = saved(tokenizer, "huggingface", tmp_path)
    document = json.loads(path.read_bytes())
    document |= {
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": True,
        },
    }
    path.write_text(json.dumps(document))
    assert Tokenizer.load(path).special_tokens == {"<a>": 400, "<b>": 401}
    change(document)
    changed = SourceFile("changed", json.dumps(document).encode())
    monkeypatch.setattr(_huggingface, "read", lambda _: read_huggingface(changed))
    said = refusal(Tokenizer.load, path)
    assert said.startswith(f"{path}: tokenizers gives other ids for a probe text, at character")


class Liar(tiktoken.Encoding):
    """An Encoding with other ids than its ranks say."""

    def encode(self, text: str, **options: Any) -> list[int]:
        """Return one id more."""
        return [*super().encode(text, **options), 7]


def test_encoding_is_checked_against_itself() -> None:
    ranks = {bytes([byte]): byte for byte in range(256)}
    liar = Liar("x", pat_str=PATTERNS["gpt2"], mergeable_ranks=ranks, special_tokens={})
    said = refusal(Tokenizer.from_tiktoken, liar)
    assert said.startswith("the Encoding: tiktoken gives other ids for a probe text, at")
    assert said.endswith("bpetite has no more, tiktoken has 7 '\\x07'")


@every_other_format
def test_nothing_is_compared_without_the_library(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(SMALL, format, tmp_path)
    for library in set(LIBRARIES.values()):
        monkeypatch.setitem(sys.modules, library, None)
    assert Tokenizer.load(path, **given(SMALL, format)) == SMALL
    verifier = Verifier(SMALL, path)
    assert verifier.reference_library == LIBRARIES[format]
    with pytest.raises(ImportError, match=LIBRARIES[format]):
        verifier.difference("x")


class PanicException(BaseException):
    """What a panic in a library in Rust is."""


FAILURES = {
    "the library refuses the file": (
        failing(ValueError("no such field\n  at line 1")),
        "no such field",
    ),
    "the library says nothing": (failing(RuntimeError()), "RuntimeError"),
    "the library says a lot": (failing(ValueError("x" * 999)), "x" * 160),
    "the library fails on the text": (failing_later(OverflowError("too much")), "too much"),
    "the library panics on the file": (failing(PanicException("secret")), "it panics"),
    "the library panics on the text": (failing_later(PanicException("secret")), "it panics"),
}


@every_other_format
@pytest.mark.parametrize(("reference", "reason"), FAILURES.values(), ids=list(FAILURES))
def test_failing_library_is_not_compared_with(
    reference: Callable[..., Any],
    reason: str,
    format: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file is loaded all the same; but who asks for a comparison is told."""
    path = saved(SMALL, format, tmp_path)
    monkeypatch.setattr(MODULES[format], "reference_encode", reference)
    assert Tokenizer.load(path, **given(SMALL, format)) == SMALL
    said = refusal(Verifier(SMALL, path).difference, "x")
    assert said == f"{path}: {LIBRARIES[format]} cannot be compared with: {reason}"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
@pytest.mark.parametrize("when", [failing, failing_later])
def test_interrupts_inside_a_library_are_raised(
    when: Callable[[BaseException], Any],
    error: type[BaseException],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = saved(SMALL, "huggingface", tmp_path)
    monkeypatch.setattr(_huggingface, "reference_encode", when(error()))
    with pytest.raises(error):
        Tokenizer.load(path)


def test_file_that_the_library_refuses_is_read_here(tmp_path: Path) -> None:
    """An empty line is nothing here, and an error in tokenizers."""
    path = saved(SMALL, "gpt2", tmp_path)
    merges = tmp_path / "merges.txt"
    merges.write_bytes(merges.read_bytes() + b"\n\n")
    assert Tokenizer.load(path) == SMALL
    assert "Merges text file invalid at line" in refusal(Verifier(SMALL, path).difference, "x")


# Verifier


@every_format
def test_the_verifier_finds_no_difference(format: str, tmp_path: Path) -> None:
    verifier = Verifier(SMALL, saved(SMALL, format, tmp_path), format)
    assert verifier.reference_library == LIBRARIES.get(format)
    texts = [*TEXTS.values(), "<a><b> <a", "the<b>hen"]
    assert {verifier.difference(text) for text in texts} == {None}


@every_other_format
def test_the_verifier_finds_the_first_difference(format: str, tmp_path: Path) -> None:
    other = Tokenizer.train("abcdefghi abcdefghi", 264, special_tokens=["<a>", "<b>"])
    verifier = Verifier(SMALL, saved(other, format, tmp_path))
    assert verifier.difference("é\nhen") == (
        f"character 2 (line 2, column 1): bpetite has {SMALL.token_id(b'hen')} 'hen', "
        f"{LIBRARIES[format]} has 104 'h'"
    )


def test_verifier_refuses_other_special_tokens(tmp_path: Path) -> None:
    other = Tokenizer.train("the hen", 257, special_tokens=["<a>"])
    path = saved(other, "gpt2", tmp_path)
    reason = '["<a>"]: expected 264, the id given for this literal, got 257'
    assert refusal(Verifier, SMALL, path) == f"{path}: {reason}"


def test_verifier_has_no_library_for_a_pattern_with_gaps(tmp_path: Path) -> None:
    tokenizer = Tokenizer.train("ab ab", 257, pattern=r"\p{L}+", special_tokens=[])
    path = tmp_path / "x.tiktoken"
    with pytest.warns(UserWarning, match="drops the text"):
        tokenizer.save(path)
    verifier = Verifier(tokenizer, path)
    assert (verifier.reference_library, verifier.difference("ab 12")) == (None, None)


# The first difference

BYTES_OF = {97: b"a", 98: b"b", 195: b"\xc3", 169: b"\xa9", 10: b"\n", 256: b"ab", 257: b"\xc3\xa9"}


@pytest.mark.parametrize(
    ("text", "left", "right", "difference"),
    [
        ("", [], [], None),
        ("ab", [97, 98], [97, 98], None),
        ("ab", [97, 98], [256], "0 (line 1, column 1): l has 97 'a', r has 256 'ab'"),
        ("ab", [97, 98], [97], "1 (line 1, column 2): l has 98 'b', r has no more"),
        ("ab", [97], [97, 98], "1 (line 1, column 2): l has no more, r has 98 'b'"),
        ("a\n\nab", [97, 10, 10, 256], [97, 10, 10, 97, 98],
         "3 (line 3, column 1): l has 256 'ab', r has 97 'a'"),
        ("éab", [195, 169, 97, 98], [195, 169, 256],
         "1 (line 1, column 2): l has 97 'a', r has 256 'ab'"),
        ("aé", [97, 195, 169], [97, 257],
         "1 (line 1, column 2): l has 195 '\\\\xc3', r has 257 'é'"),
        ("é", [195, 169], [195], "0 (line 1, column 1): l has 169 '\\\\xa9', r has no more"),
        ("a", [97], [999], "0 (line 1, column 1): l has 97 'a', r has 999"),
    ],
)  # fmt: skip
def test_first_difference(
    text: str, left: list[int], right: list[int], difference: str | None
) -> None:
    found = first_difference(
        text, ("l", left, BYTES_OF.__getitem__), ("r", right, BYTES_OF.__getitem__)
    )
    assert found == (difference and f"character {difference}")


# Round trips


def through_all_formats(tokenizer: Tokenizer, folder: Path) -> Iterator[Tokenizer]:
    """Yield the tokenizer after each format in turn, our own before, between and last."""
    for name in ("a.json", "x.tiktoken", "tokenizer.json", "model", "vocab.json", "b.json"):
        if name == "vocab.json" and tokenizer.patterns[0] != PATTERNS["gpt2"]:
            continue
        if name == "model":
            (folder / name).mkdir()
        tokenizer.save(folder / name)
        options = given(tokenizer, "tiktoken") if name == "x.tiktoken" else {}
        tokenizer = Tokenizer.load(folder / name, **options)
        yield tokenizer
    assert (folder / "a.json").read_bytes() == (folder / "b.json").read_bytes()


@pytest.mark.parametrize("pattern", slow_except([*PATTERNS, r"[^\s]+|\s+"], *PATTERNS))
def test_a_trained_vocabulary_is_the_same_after_all_formats(
    pattern: str, real_texts: list[str], tmp_path: Path
) -> None:
    tokenizer = Tokenizer.train(
        [*real_texts[:20], *TEXTS.values()], 600, pattern=pattern, special_tokens=["<中>", "<a>"]
    )
    assert {*through_all_formats(tokenizer, tmp_path)} == {tokenizer}


def test_ids_in_any_order_are_the_same_after_all_formats(tmp_path: Path) -> None:
    """Like GPT-2's: with permuted bytes, and a special token after all others."""
    lot = random.Random(0)
    byte_ids = lot.sample(range(256), 256)
    tokens = {id: bytes([byte]) for byte, id in enumerate(byte_ids)}
    tokens |= {300: b"ab", 302: b" ab", 400: b"abab"}
    merges = [(byte_ids[97], byte_ids[98]), (byte_ids[32], 300), (300, 300)]
    made = Vocabulary.from_tokens(tokens, merges, {"<s>": 299, "<e>": 500}, PATTERNS["gpt2"])
    tokenizer = Tokenizer(made)
    assert {*through_all_formats(tokenizer, tmp_path)} == {tokenizer}
    assert tokenizer.encode("<s>abab ab<e>") == [299, 400, 302, 500]


@pytest.mark.parametrize("settings", [{}, {"chat_template": "{{ new }}"}])
def test_overwritten_folder_loses_its_old_template(
    settings: dict[str, str], tmp_path: Path
) -> None:
    tokenizer = Tokenizer.train("ab ab", 258)
    for each, name in (({"chat_template": "{{ old }}"}, "old"), (settings, "new")):
        tokenizer.save(tmp_path / name, format="huggingface")
        config = {"tokenizer_class": "PreTrainedTokenizerFast", **each}
        (tmp_path / name / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    (tmp_path / "old" / "chat_template.jinja").write_text("{{ old }}", "utf-8")
    new = Tokenizer.load(tmp_path / "new")
    new.save(tmp_path / "old", overwrite=True, format="huggingface")
    assert Tokenizer.load(tmp_path / "old").settings == new.settings
    assert dict(new.settings) == {**settings, "eos_token": ""}


def test_a_path_that_ends_as_a_folder_is_one(tmp_path: Path) -> None:
    tokenizer = Tokenizer.train("ab ab", 258)
    tokenizer.save(f"{tmp_path}/model/")
    assert Tokenizer.load(tmp_path / "model") == tokenizer
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
        "tokenizer.json",
        "tokenizer_config.json",
    ]


@pytest.mark.parametrize("name", ["QwenTokenizer", "PreTrainedTokenizerFast"])
def test_foreign_folder_of_two_files_needs_its_pattern(name: str, tmp_path: Path) -> None:
    tokenizer = Tokenizer.train("ab ab 2026", 258)
    tokenizer.save(tmp_path / "vocab.json")
    config = tmp_path / "tokenizer_config.json"
    config.write_text(json.dumps({"tokenizer_class": name}), "utf-8")
    with pytest.raises(
        ValueError, match=r"tokenizer_config\.json: tokenizer_class: expected the class"
    ):
        Tokenizer.load(tmp_path)
    assert Tokenizer.load(tmp_path, pattern="qwen2").encode("ab 20") == [256, 32, 50, 48]
    config.write_text(json.dumps({"tokenizer_class": "GPT2Tokenizer"}), "utf-8")
    assert Tokenizer.load(tmp_path) == tokenizer  # by default, its eos_token is <|endoftext|>


def test_a_folder_of_gpt2s_files_says_more_in_others(tmp_path: Path) -> None:
    Tokenizer.train("ab ab", 258).save(tmp_path / "vocab.json")
    config = tmp_path / "tokenizer_config.json"
    config.write_text(json.dumps({"add_prefix_space": True}), "utf-8")
    assert Tokenizer.load(tmp_path).encode("ab") == [257]
    config.unlink()
    (tmp_path / "added_tokens.json").write_text('{"<x>": 300}', "utf-8")
    with pytest.raises(ValueError, match=r"added_tokens\.json has tokens"):
        Tokenizer.load(tmp_path)


def test_folder_with_named_templates_is_not_overwritten(tmp_path: Path) -> None:
    templates = tmp_path / "model" / "additional_chat_templates"
    templates.mkdir(parents=True)
    (templates / "rag.jinja").write_text("old", "utf-8")
    with pytest.raises(ValueError, match="templates in its additional_chat_templates would apply"):
        Tokenizer.train("ab ab", 258).save(tmp_path / "model", overwrite=True)


@pytest.mark.parametrize("field", ["add_bos_token", "add_eos_token"])
def test_a_folder_that_wants_ids_around_a_text_says_which(field: str, tmp_path: Path) -> None:
    Tokenizer.train("ab ab", 258).save(tmp_path, format="huggingface")
    config = tmp_path / "tokenizer_config.json"
    config.write_text(json.dumps({field: True}), "utf-8")
    with pytest.raises(ValueError, match=f"expected a special token, since {field} is true"):
        Tokenizer.load(tmp_path)
    config.write_text(json.dumps({field: True, field[4:]: ["x"]}), "utf-8")
    with pytest.raises(ValueError, match=f"expected a special token, since {field} is true"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize(
    "config",
    [
        {"additional_special_tokens": ["<|endoftext|>", "<new>"]},
        {"extra_special_tokens": ["<new>"]},
        {"extra_special_tokens": {"image": {"content": "<new>"}}},
        {"mask_token": "<new>"},
        {"image_token": {"content": "<new>"}},
    ],
    ids=str,
)
def test_a_token_that_only_the_config_names_is_refused(
    config: dict[str, Any], tmp_path: Path
) -> None:
    Tokenizer.train("ab ab", 258).save(tmp_path, format="huggingface")
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps(config), "utf-8")
    (field,) = config
    with pytest.raises(ValueError, match=f"{field}: expected a special token of the vocabulary"):
        Tokenizer.load(tmp_path)
    known = json.loads(json.dumps(config).replace("<new>", "<|endoftext|>"))
    path.write_text(json.dumps(known | {"add_mask_token": False, "cls_token": None}), "utf-8")
    assert Tokenizer.load(tmp_path).special_tokens == {"<|endoftext|>": 258}


def test_a_folder_that_splits_special_tokens_is_refused(tmp_path: Path) -> None:
    Tokenizer.train("ab ab", 258).save(tmp_path, format="huggingface")
    (tmp_path / "tokenizer_config.json").write_text('{"split_special_tokens": true}', "utf-8")
    with pytest.raises(ValueError, match="split_special_tokens: expected false: special tokens"):
        Tokenizer.load(tmp_path)


def test_a_path_may_be_bytes(tmp_path: Path) -> None:
    tokenizer = Tokenizer.train("ab ab", 258)
    path: Any = os.fsencode(tmp_path / "tokenizer.json")
    tokenizer.save(path)
    assert Tokenizer.load(path) == tokenizer


def test_file_of_a_pattern_with_gaps_warns_and_loads(tmp_path: Path) -> None:
    pattern = r"\S+|\s+(?!\S)"  # every character by itself, but no single space before a word
    tokenizer = Tokenizer.train("ab ab", 258, pattern=pattern, special_tokens=())
    with pytest.warns(UserWarning, match="tiktoken drops the text"):
        tokenizer.save(tmp_path / "x.tiktoken")
    assert Tokenizer.load(tmp_path / "x.tiktoken", pattern=pattern, special_tokens={}) == tokenizer
