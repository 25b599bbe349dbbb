"""Write a vocabulary as Hugging Face's tokenizer.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from operator import itemgetter
from typing import Any

from bpetite._pretokenizer import GPT2_PATTERN
from bpetite._unicode.byte_characters import is_byte_character, to_characters
from bpetite._vocabulary import Vocabulary
from bpetite.formats._format import refuse_vocabulary
from bpetite.formats._huggingface_read import MATCH_ALL, VERSION_PREFIX
from bpetite.formats._portable_regex import check_shared

_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}
_FOUND_ANYWHERE = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)

_refuse = partial(refuse_vocabulary, "tokenizer.json")


def to_bytes(vocabulary: Vocabulary) -> bytes:
    """Return the tokenizer.json of a vocabulary, for tokenizers 0.13 and later.

    Raises ValueError if tokenizers would give other ids or texts.
    """
    text = json.dumps(_document(vocabulary), ensure_ascii=False, indent=1)
    return text.encode("utf-8") + b"\n"


def _document(vocabulary: Vocabulary) -> dict[str, Any]:
    texts = {id: to_characters(token) for id, token in vocabulary.ordinary_tokens.items()}
    texts |= dict.fromkeys(vocabulary.empty_ids, "")
    if len(set(texts.values())) < len(texts):
        _refuse("two ids with the same bytes")
    ids_of_texts = {text: id for id, text in texts.items()}
    for literal, id in vocabulary.special_tokens.items():
        if ids_of_texts.get(literal, id) != id or texts.get(id, literal) != literal:
            _refuse(f"the special token {literal!r}, which would read as another token")
        if not literal.isascii() and all(map(is_byte_character, literal)):
            _refuse(f"the special token {literal!r}, which would be decoded as other bytes")
    pairs = [(texts[left], texts[right]) for left, right in vocabulary.merges]
    # All versions read strings, but drop one that looks like the first line of merges.txt. Pairs
    # need version 0.20.
    needs_pairs = any(left.startswith(VERSION_PREFIX) for left, _ in pairs)
    merges = list(map(list, pairs)) if needs_pairs else list(map(" ".join, pairs))
    # Special tokens are in the vocab too. One outside it would get the next free id.
    ordinary = set(texts)
    texts |= {id: literal for literal, id in vocabulary.special_tokens.items()}
    in_vocab = sorted(texts)
    kept = vocabulary.kept_special_tokens
    if kept and in_vocab[-1] < len(in_vocab):
        # No gaps: the next free id is the token's own. Version 0.13 never finds a kept special
        # token that is in the vocab, so those at the end stay outside.
        while in_vocab[-1] not in ordinary:
            in_vocab.pop()
    absent = "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"
    model: dict[str, Any] = {"type": "BPE", **dict.fromkeys(absent), "fuse_unk": False}
    if vocabulary.ignore_merges:
        model["ignore_merges"] = True  # old versions refuse the field
    model["vocab"] = {texts[id]: id for id in in_vocab}
    model["merges"] = merges
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": id, "content": literal, **_FOUND_ANYWHERE, "special": literal not in kept}
            for literal, id in sorted(vocabulary.special_tokens.items(), key=itemgetter(1))
        ],
        "normalizer": {"type": vocabulary.normalizer} if vocabulary.normalizer else None,
        "pre_tokenizer": _pre_tokenizer(vocabulary.patterns),
        "post_processor": _post_processor(vocabulary, texts),
        "decoder": _BYTE_LEVEL,
        "model": model,
    }


def _pre_tokenizer(patterns: tuple[str, ...]) -> dict[str, Any]:
    byte_level = {**_BYTE_LEVEL, "use_regex": patterns[-1] == GPT2_PATTERN}
    how = {"behavior": "Isolated", "invert": False}
    splits = []
    for pattern in patterns[:-1] if byte_level["use_regex"] else patterns:
        if pattern != MATCH_ALL:
            check_shared(pattern)
            splits.append({"type": "Split", "pattern": {"Regex": pattern}, **how})
    return {"type": "Sequence", "pretokenizers": [*splits, byte_level]} if splits else byte_level


def _post_processor(vocabulary: Vocabulary, texts: Mapping[int, str]) -> dict[str, Any] | None:
    if not vocabulary.prefix_ids and not vocabulary.suffix_ids:
        return None
    around = vocabulary.prefix_ids, vocabulary.suffix_ids

    def single(sequence: str) -> list[dict[str, Any]]:
        before, after = (
            [{"SpecialToken": {"id": texts[id], "type_id": 0}} for id in ids] for ids in around
        )
        return [*before, {"Sequence": {"id": sequence, "type_id": 0}}, *after]

    return {
        "type": "TemplateProcessing",
        "single": single("A"),
        "pair": [*single("A"), *single("B")],
        "special_tokens": {
            texts[id]: {"id": texts[id], "ids": [id], "tokens": [texts[id]]}
            for ids in around
            for id in ids
        },
    }
