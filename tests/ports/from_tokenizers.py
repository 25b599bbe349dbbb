"""The program of with_tokenizers.py, ported."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from bpetite import Tokenizer

END = "<|endoftext|>"


def loaded(folder: Path) -> Tokenizer:
    return Tokenizer.load(folder)


def spans(tokenizer: Tokenizer, text: str) -> list[tuple[str, int, int]]:
    """Return the part of the text that each id stands for."""
    _, offsets = tokenizer.encode_with_offsets(text)
    return [(text[start:end], start, end) for start, end in pairwise([*offsets, len(text)])]


def main(tokenizer: Tokenizer, texts: list[str]) -> dict[str, Any]:
    """Return all that the application shows."""
    batch = tokenizer.encode_batch(texts)
    ids = tokenizer.encode(f"{texts[0]}{END}", add_special_tokens=True)
    return {
        "ids": batch,
        "counts": [len(each) for each in batch],
        "spans": spans(tokenizer, "the men, then"),
        "decoded": tokenizer.decode_batch(batch, skip_special_tokens=True),
        "with the end": tokenizer.decode(ids),
        "without the end": tokenizer.decode(ids, skip_special_tokens=True),
        "end": tokenizer.token_id(END),
        "token": tokenizer.token_id("the"),
        "size": len(tokenizer.ids),
        "text of a token": tokenizer.token_bytes(tokenizer.token_id("the")).decode(),
    }
