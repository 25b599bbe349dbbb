"""What an application does with tokenizers: a model's file, batches and offsets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

END = "<|endoftext|>"


def loaded(folder: Path) -> Any:
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def spans(tokenizer: Any, text: str) -> list[tuple[str, int, int]]:
    """Return the part of the text that each id stands for."""
    encoding = tokenizer.encode(text, add_special_tokens=False)
    return [(text[start:end], start, end) for start, end in encoding.offsets]


def main(tokenizer: Any, texts: list[str]) -> dict[str, Any]:
    """Return all that the application shows."""
    batch = tokenizer.encode_batch(texts, add_special_tokens=False)
    ids = tokenizer.encode(f"{texts[0]}{END}").ids
    vocab = tokenizer.get_vocab(with_added_tokens=True)
    return {
        "ids": [encoding.ids for encoding in batch],
        "counts": [len(encoding.ids) for encoding in batch],
        "spans": spans(tokenizer, "the men, then"),
        "decoded": tokenizer.decode_batch([encoding.ids for encoding in batch]),
        "with the end": tokenizer.decode(ids, skip_special_tokens=False),
        "without the end": tokenizer.decode(ids, skip_special_tokens=True),
        "end": tokenizer.token_to_id(END),
        "token": tokenizer.token_to_id("the"),
        "size": len(vocab),
        "text of a token": tokenizer.id_to_token(tokenizer.token_to_id("the")),
    }
