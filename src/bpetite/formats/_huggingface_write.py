"""Write a vocabulary as Hugging Face's tokenizer.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from operator import itemgetter
from typing import Any

from bpetite._pretokenizer import GPT2_PATTERN, MATCH_ALL
from bpetite._unicode.byte_characters import is_byte_character, to_characters
from bpetite._vocabulary import Vocabulary
from bpetite.formats._format import check_no_fallback, refuse_vocabulary
from bpetite.formats._huggingface_read import (
    BEHAVIORS,
    PRE_TOKENIZERS,
    VERSION_PREFIX,
    may_be_pieces,
    spells_piece,
)
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
    check_no_fallback("tokenizer.json", vocabulary)
    texts = {id: to_characters(token) for id, token in vocabulary.ordinary_tokens.items()}
    texts |= {id: token.decode() for id, token in vocabulary.unused_tokens.items()}
    if len(set(texts.values())) < len(texts):
        _refuse("two ids with the same bytes")
    ids_of_texts = {text: id for id, text in texts.items()}
    for literal, id in vocabulary.special_tokens.items():
        if ids_of_texts.get(literal, id) != id or texts.get(id, literal) != literal:
            _refuse(f"the special token {literal!r}, which would read as another token")
        is_spelled = not literal.isascii() and all(map(is_byte_character, literal))
        if is_spelled and literal not in dict(vocabulary.stages.literal_bytes):
            _refuse(f"the special token {literal!r}, which would be decoded as other bytes")
    pairs = [(texts[left], texts[right]) for left, right in vocabulary.merges]
    # All versions read strings, but they drop one that looks like the first line of merges.txt.
    # Only version 0.20 and later read pairs.
    needs_pairs = any(left.startswith(VERSION_PREFIX) for left, _ in pairs)
    merges = list(map(list, pairs)) if needs_pairs else list(map(" ".join, pairs))
    # Special tokens are in the vocab too, because one outside it would get the next free id.
    ordinary = set(texts)
    texts |= {id: literal for literal, id in vocabulary.special_tokens.items()}
    in_vocab = sorted(texts)
    kept = vocabulary.kept_special_tokens
    for literal in kept ^ vocabulary.added_tokens:
        _refuse(f"the special token {literal!r}, which decoding keeps but ordinary text never has")
    # With ignore_merges, a piece that is in the vocab is found there.
    anywhere = may_be_pieces(vocabulary.normalizers, vocabulary.stages)
    hidden = {
        id
        for literal, id in vocabulary.special_tokens.items()
        if vocabulary.ignore_merges and id not in ordinary and spells_piece(literal, anywhere)
    }
    if (kept or hidden) and in_vocab[-1] < len(in_vocab):
        # Without gaps, the next free id is the token's own. Version 0.13 never finds a kept special
        # token that is in the vocab, so the last special tokens stay outside.
        while in_vocab[-1] not in ordinary:
            in_vocab.pop()
    for id in hidden.intersection(in_vocab):
        _refuse(f"the special token {texts[id]!r} below others, which could be a whole piece")
    stages = vocabulary.stages
    model: dict[str, Any] = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None if stages.unknown_id is None else texts[stages.unknown_id],
        "continuing_subword_prefix": stages.prefix.decode() or None,
        "end_of_word_suffix": stages.suffix.decode() or None,
        "fuse_unk": stages.fuses_unknown,
    }
    if vocabulary.ignore_merges:
        model["ignore_merges"] = True  # old versions refuse the field
    model["vocab"] = {texts[id]: id for id in in_vocab}
    model["merges"] = merges
    flags = dict(stages.flags)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": id,
                "content": literal,
                **_FOUND_ANYWHERE,
                **dict.fromkeys(flags.get(literal, ()), True),
                "special": literal not in kept,
            }
            for literal, id in sorted(vocabulary.special_tokens.items(), key=itemgetter(1))
        ],
        "normalizer": _normalizer(vocabulary.normalizers),
        "pre_tokenizer": _pre_tokenizer(vocabulary.patterns, stages.steps),
        "post_processor": _post_processor(vocabulary, texts),
        "decoder": _BYTE_LEVEL,
        "model": model,
    }


def _normalizer(normalizers: tuple[tuple[str, ...], ...]) -> dict[str, Any] | None:
    stages = []
    for name, *arguments in normalizers:
        stage: dict[str, Any] = {"type": name}
        if name == "Strip":
            stage |= {f"strip_{side}": side in arguments for side in ("left", "right")}
        elif name == "Prepend":
            stage["prepend"] = arguments[0]
        elif name == "Replace":
            check_shared(arguments[0])
            stage |= {"pattern": {"Regex": arguments[0]}, "content": arguments[1]}
        stages.append(stage)
    if len(stages) < 2:
        return stages[0] if stages else None
    return {"type": "Sequence", "normalizers": stages}


def _pre_tokenizer(patterns: tuple[str, ...], steps: tuple[str, ...]) -> dict[str, Any]:
    steps = steps or ("isolated",) * len(patterns)
    if "bytes" not in steps:
        steps = (*steps, "bytes")
    waiting = [*patterns]
    level = {**_BYTE_LEVEL, "use_regex": False}
    stages = []
    for step, following in zip(steps, [*steps[1:], ""], strict=True):
        if step == "space":
            level["add_prefix_space"] = True
        elif step == "bytes":
            stages.append(level)
        elif step == "isolated" and following == "bytes" and waiting[0] == GPT2_PATTERN:
            waiting.pop(0)
            level["use_regex"] = True
        elif (pattern := waiting.pop(0)) != MATCH_ALL or step != "isolated":
            stages.append(_split(pattern, step))
    return stages[0] if len(stages) == 1 else {"type": "Sequence", "pretokenizers": stages}


_BEHAVIOR_OF = {step: behavior for behavior, step in BEHAVIORS.items()}
_TYPE_OF = {pattern: name for name, pattern in PRE_TOKENIZERS.items()}


def _split(pattern: str, step: str) -> dict[str, Any]:
    behavior = _BEHAVIOR_OF[step.removeprefix("not ")]
    invert = step.startswith("not ")
    kind = _TYPE_OF.get(pattern)
    if kind == "Punctuation" and not invert:
        return {"type": kind, "behavior": behavior}
    if (kind, step) in (("Whitespace", "not removed"), ("WhitespaceSplit", "removed")):
        return {"type": kind}
    check_shared(pattern)
    how = {"behavior": behavior, "invert": invert}
    return {"type": "Split", "pattern": {"Regex": pattern}, **how}


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
