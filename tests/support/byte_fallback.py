"""Small tokenizer.json files with byte fallback, in the settings that public models have."""

from __future__ import annotations

import json
import random
from collections.abc import Collection
from pathlib import Path
from typing import Any

from bpetite import Trusted

SPACE = "\u2581"
PREPEND = {"type": "Prepend", "prepend": SPACE}
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
DECODERS = [
    {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
    {"type": "ByteFallback"},
    {"type": "Fuse"},
]
LITERALS = ("<s>", "</s>", "<|user|>", "<|us", "[x ]")


def metaspace(scheme: str, split: bool) -> dict[str, Any]:
    return {
        "type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": split,
    }  # fmt: skip


def splits(content: str) -> dict[str, Any]:
    return {
        "type": "Split",
        "pattern": {"String": content},
        "behavior": "MergedWithPrevious",
        "invert": False,
    }


SETTINGS: dict[str, dict[str, Any]] = {
    "Llama 2, Phi-3": {
        "normalizer": {"type": "Sequence", "normalizers": [PREPEND, REPLACE]},
    },
    "Gemma": {"normalizer": REPLACE, "pre_tokenizer": splits(" "), "strips": False},
    "Gemma, lines": {
        "normalizer": REPLACE,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [splits(" "), splits("\n")]},
        "strips": False,
    },
    "added tokens in normalized text": {
        "normalizer": {"type": "Sequence", "normalizers": [PREPEND, REPLACE]},
        "flags": {"normalized": True},
    },
    "white space that added tokens take": {
        "normalizer": {"type": "Sequence", "normalizers": [PREPEND, REPLACE]},
        "flags": {"lstrip": True, "rstrip": True},
    },
    "white space in normalized text": {
        "normalizer": REPLACE,
        "flags": {"lstrip": True, "rstrip": True, "normalized": True},
    },
    "Metaspace, white space": {
        "pre_tokenizer": metaspace("first", False),
        "flags": {"lstrip": True, "normalized": True},
    },
    **{
        f"Metaspace {scheme}, split {split}": {"pre_tokenizer": metaspace(scheme, split)}
        for scheme in ("always", "first", "never")
        for split in (True, False)
    },
}
"""Fields of a file by the name of a setting; `flags` of added tokens, and whether it `strips`."""


def document_of(
    characters: str,
    pairs: list[tuple[str, str]],
    normalizer: dict[str, Any] | None = None,
    pre_tokenizer: dict[str, Any] | None = None,
    flags: dict[str, bool] | None = None,
    strips: bool = True,
) -> dict[str, Any]:
    """Return a tokenizer.json; its tokens spell spaces as U+2581."""
    texts = [f"<0x{byte:02X}>" for byte in range(256)]
    texts = [*LITERALS[:2], *texts, *characters, *map("".join, pairs)]
    vocab = {text: id for id, text in enumerate(dict.fromkeys(texts))}
    new = [literal for literal in LITERALS if literal not in vocab]
    ids = {**vocab, **{literal: len(vocab) + place for place, literal in enumerate(new)}}
    names = ("single_word", "lstrip", "rstrip", "normalized")
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": ids[literal],
                "content": literal,
                **dict.fromkeys(names, False),
                **(flags or {}),
                "special": True,
            }
            for literal in LITERALS
        ],
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": [*DECODERS, *([STRIP] if strips else [])]},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<s>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": True,
            "vocab": vocab,
            "merges": [" ".join(pair) for pair in pairs],
        },
    }


_CHARACTERS = "abcdé中文\u2581.\n🙂"


def random_document(rng: random.Random, **settings: Any) -> dict[str, Any]:
    """Return the file of random merges. A merge may come before those that make its parts."""
    texts = [*_CHARACTERS]
    pairs: set[tuple[str, str]] = set()
    for _ in range(rng.randrange(5, 40)):
        pair = rng.choice(texts), rng.choice(texts)
        if len("".join(pair)) < 9 and SPACE not in "".join(pair)[1:].lstrip(SPACE):
            pairs.add(pair)
            texts.append("".join(pair))
    merges = sorted(pairs)
    rng.shuffle(merges)
    return document_of(_CHARACTERS, merges, **settings)


def random_text(rng: random.Random, document: dict[str, Any], count: int = 9) -> str:
    """Return a text of tokens, literals, and characters that have none."""
    tokens = [*document["model"]["vocab"]][258:]
    others = [" ", "  ", "\n", "\t", SPACE, "ü", "Ж", "語", "🙃", "\u3000", "\0", "x", "<", "<s"]
    return "".join(
        rng.choice(rng.choice((tokens, tokens, tokens, others, LITERALS))).replace(SPACE, " ")
        if rng.random() < 0.95
        else SPACE
        for _ in range(rng.randrange(count))
    )


def write(document: dict[str, Any], folder: Path) -> str:
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


def parts_like_flat(
    rng: random.Random, texts: list[str], literals: Collection[str], before: str = ""
) -> list[str] | None:
    """Return texts of which some are trusted, or None if their flat text has other literals.

    Literals are found as if spaces had one form, in text with `before` put before it.
    """
    parts = [Trusted(text) if rng.random() < 0.7 else text for text in texts]
    first = next((place for place, text in enumerate(texts) if text), 0)
    found = [
        before * (place == first) + text if isinstance(text, Trusted) else ""
        for place, text in enumerate(parts)
    ]

    def count(text: str) -> int:
        text = text.replace(SPACE, " ")
        return sum(
            text.startswith(literal.replace(SPACE, " "), at)
            for literal in literals
            for at in range(len(text))
        )

    return parts if count(before + "".join(texts)) == sum(map(count, found)) else None
