"""Measure what smaller vocabularies cost in ids: by `first`, by `prune` and by a new training.

MODEL is a vocabulary in any format, and each .txt file in FOLDER is a text. It writes the table of
docs/interoperability.md. With the native engine it takes a quarter of a minute for 40 MB of text.

A text is cut into documents. One of ten is held out. The others give the counts for `prune`, and
train a vocabulary with the same pattern. The table says how many more ids the held-out documents
take than with all tokens.

PYTHONPATH=scripts python -m tools.measure_smaller MODEL FOLDER
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from bpetite import Tokenizer
from tools.measure_pruning import HELD_OUT_SHARE, documents_of


def row(name: str, text: str, tokenizer: Tokenizer, vocab_size: int) -> str:
    """Return the row of a text."""
    documents = documents_of(text)
    held_out = len(documents) // HELD_OUT_SHARE
    testing, training = documents[:held_out], documents[held_out:]
    ids = np.asarray(tokenizer.encode_batch_arrays(training, allowed_special=())[0])
    smaller = (
        tokenizer.first(vocab_size),
        tokenizer.prune(np.bincount(ids), vocab_size)[0],
        Tokenizer.train(training, vocab_size, pattern=tokenizer.pattern),
    )

    def total(each: Tokenizer) -> int:
        return sum(each.count(document, allowed_special=()) for document in testing)

    expected = total(tokenizer)
    return " | ".join([f"| {name}", *(f"{total(each) / expected - 1:+.1%}" for each in smaller)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a vocabulary, whose size is reduced")
    parser.add_argument("folder", type=Path, help="a folder with texts")
    parser.add_argument("--vocab-size", type=int, default=32_768)
    options = parser.parse_args()
    tokenizer = Tokenizer.load(options.model)
    print("| text | `first` | `prune` | training anew, with the same pattern |")
    print("|---|--:|--:|--:|")
    for path in sorted(options.folder.glob("*.txt")):
        text = path.read_text("utf-8")
        print(f"{row(path.stem, text, tokenizer, options.vocab_size)} |", flush=True)


if __name__ == "__main__":
    main()
