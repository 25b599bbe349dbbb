"""GPT-2's vocab.json and merges.txt to a vocabulary and back (openai/gpt-2, src/encoder.py)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, NoReturn

from bpetite._files import SourceFile, shown
from bpetite._pretokenizer import GPT2_PATTERN
from bpetite._vocabulary import BYTE_COUNT, MAX_ID, Vocabulary
from bpetite.formats._byte_characters import to_bytes, to_characters

# How the names of the two files end; the second pair is what GPT-2's own files are called.
_NAMES = {"vocab.json": "merges.txt", "encoder.json": "vocab.bpe"}

_BYTE_CHARACTERS = frozenset(to_characters(bytes(range(BYTE_COUNT))))


def seems_to_be(document: Mapping[str, object]) -> bool:
    """Return whether the JSON of a file seems to be a vocab.json: whether most bytes have an id."""
    ids = [document[character] for character in _BYTE_CHARACTERS & document.keys()]
    return sum(type(id) is int for id in ids) > BYTE_COUNT // 2


def read(
    file: SourceFile,
    document: Mapping[str, Any],
    merges_file: SourceFile,
    merges_data: bytes,
    pattern: str | None,
    special_tokens: Mapping[str, int] | None,
) -> Vocabulary:
    """Return the vocabulary of a vocab.json, of which `document` is the JSON, and a merges.txt.

    Neither file has a pattern or says which tokens are special: None stands for GPT-2's pattern,
    and for the entries of vocab.json that no merge makes or has as a part, unless they are
    written as bytes other than ASCII's printable ones are.

    Raises ValueError, naming the file and the place in it, for whatever is wrong.
    """
    text_of: dict[int, str] = {}
    for text, id in document.items():
        if type(id) is not int or not 0 <= id <= MAX_ID:
            file.refuse(_place(text), id, f"an id from 0 to {MAX_ID}")
        if (first := text_of.setdefault(id, text)) != text:
            file.refuse(_place(text), id, f"an id of its own; {shown(first)} has it too")
    pairs = _pairs(merges_file, merges_data, document)
    merged = _merged(pairs)
    if special_tokens is None:
        special_tokens = {
            text: id for text, id in document.items() if text not in merged and _is_literal(text)
        }
    for text, id in special_tokens.items():
        if document.get(text, id) != id:
            file.refuse(_place(text), document[text], f"{id}, the id given for this special token")
    tokens = {
        id: _token(file, text)
        for text, id in document.items()
        if text in merged or text not in special_tokens
    }
    merges = [(document[left], document[right]) for left, right in pairs]
    try:
        return Vocabulary.from_tokens(tokens, merges, special_tokens, pattern or GPT2_PATTERN)
    except ValueError as error:
        raise ValueError(f"{file.path}: {error}") from None


def _place(text: str) -> str:
    return f"[{shown(text)}]"


def _pairs(file: SourceFile, data: bytes, vocab: Mapping[str, int]) -> dict[tuple[str, str], None]:
    """Return the pairs of merges.txt, as text; its first line may say a version."""
    pairs: dict[tuple[str, str], None] = {}
    for number, line in enumerate(file.text(data).split("\n"), 1):
        line = line.removesuffix("\r")
        if not line or (number == 1 and line.startswith("#version")):
            continue
        left, _, right = line.partition(" ")
        if left not in vocab or right not in vocab or left + right not in vocab:
            file.refuse(f"line {number}", line, "two tokens that are, joined too, in vocab.json")
        if (left, right) in pairs:
            file.refuse(f"line {number}", line, "a pair that is not given above")
        pairs[left, right] = None
    made = {left + right for left, right in pairs}
    for part in chain.from_iterable(pairs):
        if part[1:] == "</w>" and part not in made:
            file.refuse("the file", part, "parts that are bytes; CLIP's have an end of word")
    return pairs


def _merged(pairs: Iterable[tuple[str, str]]) -> frozenset[str]:
    """Return the tokens that are bytes, or that a merge makes or has as a part."""
    return _BYTE_CHARACTERS.union(chain.from_iterable((*pair, "".join(pair)) for pair in pairs))


def _is_literal(text: str) -> bool:
    """Return whether a token that is not merged is a literal: it is not, if it is only bytes.

    >>> [_is_literal(text) for text in ("<s>", "中", "Ġt")]
    [True, True, False]
    """
    return text.isascii() or not _BYTE_CHARACTERS.issuperset(text)


def _token(file: SourceFile, text: str) -> bytes:
    try:
        return to_bytes(text)
    except ValueError as error:
        raise ValueError(f"{file.path}: {_place(text)}: {error}") from None


def merges_path(vocab_path: str) -> str:
    """Return the path of the merges that belong to a vocab.json.

    >>> merges_path("gpt2/vocab.json"), merges_path("encoder.json")
    ('gpt2/merges.txt', 'vocab.bpe')

    Raises ValueError if the name does not end so.
    """
    for end, merges_end in _NAMES.items():
        if vocab_path.endswith(end):
            return vocab_path.removesuffix(end) + merges_end
    raise ValueError(
        f"{vocab_path}: expected a name that ends in vocab.json, to find merges.txt beside it"
    )


def to_files(vocabulary: Vocabulary) -> tuple[bytes, bytes]:
    """Return vocab.json and merges.txt. Raises ValueError if they cannot say the vocabulary."""
    if vocabulary.pattern != GPT2_PATTERN or vocabulary.more_patterns:
        _refuse("another pattern than GPT-2's, and theirs is not in them")
    if vocabulary.normalizer:
        _refuse("a normalizer")
    if vocabulary.ignore_merges:
        _refuse("the rule that a whole piece which is a token is that token")
    if vocabulary.prefix_ids or vocabulary.suffix_ids:
        _refuse("ids that add_special_tokens puts around a text")
    if vocabulary.kept_special_tokens:
        _refuse("special tokens that skip_special_tokens keeps")
    texts = {id: to_characters(token) for id, token in vocabulary.ordinary_tokens.items()}
    pairs = [(texts[left], texts[right]) for left, right in vocabulary.merges]
    merged = _merged(pairs)
    for id, text in texts.items():
        if text not in merged and _is_literal(text):
            _refuse(f"the token {id}, which no merge makes: it would be taken for a special one")
    for literal, id in vocabulary.special_tokens.items():
        if literal in merged or not _is_literal(literal):
            _refuse(f"the special token {literal!r}, which is written as an ordinary one is")
        texts[id] = literal
    if len(texts) < len(vocabulary.ordinary_tokens) + len(vocabulary.special_tokens):
        _refuse("a special token that has the id of an ordinary one")
    if len(set(texts.values())) < len(texts):
        _refuse("two ids of the same bytes")
    vocab = {texts[id]: id for id in sorted(texts)}
    lines = ["#version: 0.2", *map(" ".join, pairs), ""]
    return json.dumps(vocab).encode(), "\n".join(lines).encode()


def _refuse(what: str) -> NoReturn:
    raise ValueError(f"GPT-2's files cannot have this vocabulary: it has {what}")


def home_encode(
    vocab_path: str | os.PathLike[str], vocabulary: Vocabulary
) -> Callable[[str], list[int]]:
    """Return how tokenizers, which reads the two files itself, encodes a text.

    Raises ImportError if it is not installed.
    """
    import tokenizers
    from tokenizers import models, pre_tokenizers

    path = os.fspath(vocab_path)
    vocab, merges = models.BPE.read_file(path, merges_path(path))
    # Special tokens that are not in the file would get ids of its own choice.
    tokenizer = tokenizers.Tokenizer(models.BPE({**vocab, **vocabulary.special_tokens}, merges))
    cut = pre_tokenizers.Split(tokenizers.Regex(vocabulary.pattern), "isolated")
    to_characters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([cut, to_characters])
    tokenizer.add_special_tokens(
        [tokenizers.AddedToken(literal, normalized=False) for literal in vocabulary.special_tokens]
    )

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    return encode
