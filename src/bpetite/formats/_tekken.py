"""Mistral's tekken.json: special tokens first, then tiktoken's ranks up to the vocabulary's size.

mistral-common owns the format. It encodes ordinary text only; programs add special tokens by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any

from bpetite._pretokenizer import shown_pattern
from bpetite._vocabulary import BYTE_COUNT, Vocabulary
from bpetite.formats._files import SourceFile
from bpetite.formats._format import Format, Source
from bpetite.formats._portable_regex import to_portable
from bpetite.formats._reference import Encode, Reference
from bpetite.formats._tiktoken import encode_like, from_base64, tokens_of_ranks

_VERSIONS = ("v1", "v2", "v3", "v7", "v11", "v13", "v15")
_WITH_DEFAULT_TOKENS = ("v1", "v2", "v3", "v7")
"""The versions that may leave out the list of special tokens."""

_DEFAULT_TOKENS = (
    *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    *("[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]"),
    *("[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
    "[TOOL_CONTENT]",
)

_MAX_SPECIAL_TOKENS = 1 << 16
"""Public files have 1,000. A bound is needed because the file gives only a number for most."""

_ENTRY = {"rank", "token_bytes", "token_str"}


class Tekken(Format):
    """A tekken.json, which is only read: it needs special tokens as its first ids."""

    name = "tekken"
    file_name = "tekken.json"
    folder_files = ("tekken.json",)

    def is_certain(self, file: SourceFile) -> bool:
        """Return whether the file has a config, and a list of tokens."""
        return self.is_likely(file) and isinstance(file.document.get("vocab"), list)

    def is_likely(self, file: SourceFile) -> bool:
        """Return whether the file has a config with a pattern."""
        config = file.document.get("config")
        return isinstance(config, dict) and "pattern" in config

    def read(self, source: Source) -> tuple[Vocabulary, Reference | None]:
        file = source.file
        config = file.checked_object(file.document.get("config"), "config")
        version: Any = config.get("version")
        file.check_value(version, "config.version", *_VERSIONS)
        count = config.get("default_num_special_tokens")
        if type(count) is not int or not 0 <= count <= _MAX_SPECIAL_TOKENS:
            wanted = f"a number from 0 to {_MAX_SPECIAL_TOKENS}"
            file.refuse("config.default_num_special_tokens", count, wanted)
        special_tokens, kept = _special_tokens(file, version, count)
        ranks = _ranks(file, config.get("default_vocab_size"), count)
        pattern = _pattern(file, config.get("pattern"))
        with file.path_in_errors():
            vocabulary = replace(
                tokens_of_ranks(ranks, special_tokens, pattern), kept_special_tokens=kept
            )
        return vocabulary, Reference(
            "mistral-common",
            lambda: _reference_encode(file.path, vocabulary),
            make_encode_like=lambda ids: encode_like(vocabulary, ids),
        )

    def files(self, vocabulary: Vocabulary, path: str) -> dict[str, bytes]:  # noqa: ARG002
        raise ValueError(
            f"{path}: no tekken.json is written; save a tokenizer.json, which gives the same ids"
        )


def _special_tokens(
    file: SourceFile, version: str, count: int
) -> tuple[dict[str, int], frozenset[str]]:
    """Return all special tokens, and the ones that `skip_special_tokens` keeps."""
    given = file.document.get("special_tokens")
    if given is None:
        if version not in _WITH_DEFAULT_TOKENS:
            file.refuse("special_tokens", None, f"a list, which the version {version} needs")
        given = [
            {"rank": id, "token_str": literal, "is_control": True}
            for id, literal in enumerate(_DEFAULT_TOKENS)
        ]
    tokens = file.checked_list(given, "special_tokens")
    if len(tokens) > count:
        wanted = f"at least the {len(tokens)} in special_tokens"
        file.refuse("config.default_num_special_tokens", count, wanted)
    special_tokens: dict[str, int] = {}
    kept = []
    for id, item in enumerate(tokens):
        path = f"special_tokens[{id}]"
        token = file.checked_object(item, path)
        file.check_value(token.get("rank"), f"{path}.rank", id)
        literal = file.checked_string(token.get("token_str"), f"{path}.token_str")
        if not literal or literal in special_tokens:
            file.refuse(f"{path}.token_str", literal, "a token that no other entry has")
        file.check_value(token.get("is_control", True), f"{path}.is_control", True, False)
        if not token.get("is_control", True):
            kept.append(literal)
        special_tokens[literal] = id
    for id in range(len(tokens), count):
        if special_tokens.setdefault(literal := f"<SPECIAL_{id}>", id) != id:
            wanted = f"other tokens than {literal}, which stands for the id {id}"
            file.refuse("special_tokens", literal, wanted)
    return special_tokens, frozenset(kept)


def _ranks(file: SourceFile, size: object, count: int) -> dict[bytes, int]:
    """Return the tokens up to the vocabulary's size, with their ids."""
    vocab = file.checked_list(file.document.get("vocab"), "vocab")
    most = len(vocab) + count
    if type(size) is not int or not BYTE_COUNT + count <= size <= most:
        wanted = f"a number from {BYTE_COUNT + count} to {most}, all tokens of this file"
        file.refuse("config.default_vocab_size", size, wanted)
    ranks: dict[bytes, int] = {}
    for rank, item in enumerate(vocab[: size - count]):
        if type(item) is not dict or item.keys() != _ENTRY or item["rank"] != rank:
            file.refuse(
                f"vocab[{rank}]", item, f"{', '.join(sorted(_ENTRY))}, with the rank {rank}"
            )
        try:
            token = from_base64(item["token_bytes"])
        except (TypeError, ValueError):
            token = b""
        is_in_order = rank >= BYTE_COUNT or token == bytes([rank])
        if not token or not is_in_order or token in ranks:
            wanted = (
                "a token in base64 that no entry before has"
                if rank >= BYTE_COUNT
                else f"the byte {rank} in base64, since bytes come first"
            )
            file.refuse(f"vocab[{rank}].token_bytes", item["token_bytes"], wanted)
        ranks[token] = rank + count
    return ranks


def _pattern(file: SourceFile, value: object) -> str:
    pattern = file.checked_string(value, "config.pattern")
    try:
        return to_portable(pattern, tiktoken=True)
    except ValueError as error:
        reason = str(error).replace(f"the pattern {shown_pattern(pattern)}", "it")
        file.refuse("config.pattern", pattern, f"a portable pattern ({reason[:160]})")


def _reference_encode(path: str, vocabulary: Vocabulary) -> Encode:
    """Return how mistral-common encodes a text, once special literals are split off.

    Raises ImportError if mistral-common is not installed.
    """
    tekken: Any = import_module("mistral_common.tokens.tokenizers.tekken")
    library = tekken.Tekkenizer.from_file(path)
    return with_literals(
        lambda text: library.encode(text, bos=False, eos=False),
        {literal: library.get_special_token(literal) for literal in vocabulary.special_tokens},
    )


def with_literals(encode: Encode, special_tokens: Mapping[str, int]) -> Encode:
    """Return how to encode a text whose special literals `encode` does not find.

    >>> with_literals(lambda text: [*text.encode()], {"<s>": 1})("a<s>b")
    [97, 1, 98]
    """
    longest_first = sorted(special_tokens, key=len, reverse=True)
    literals = re.compile(
        f"({'|'.join(map(re.escape, longest_first))})" if longest_first else "(?!)"
    )

    def encode_all(text: str) -> list[int]:
        ids: list[int] = []
        for part in literals.split(text):
            ids += [special_tokens[part]] if part in special_tokens else encode(part)
        return ids

    return encode_all
