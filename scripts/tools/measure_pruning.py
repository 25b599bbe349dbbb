"""Measure what pruned piece counts, and samples of the text in the same memory, cost in ids.

Run it with `.venv/bin/python scripts/tools/measure_pruning.py FOLDER`. Each .txt file in the folder
is a text. It writes the table of docs/training.md. With the native engine it takes a minute for
40 MB of text.

A text is cut into documents. One of ten is held out. The others train a vocabulary from all counts,
from counts pruned by `min_count`, and from a sample of documents with as many distinct pieces. The
table says how many more ids the held-out documents take than by all counts.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from pathlib import Path

from bpetite import PieceCounts, Tokenizer

DOCUMENT_CHARACTERS = 5_000
HELD_OUT_SHARE = 10
MIN_COUNTS = (2, 5, 20)
SEED = 7


def documents_of(text: str) -> list[str]:
    """Return a text in documents of whole lines, in random order."""
    documents, start = [], 0
    while start < len(text):
        end = text.find("\n", start + DOCUMENT_CHARACTERS) + 1 or len(text)
        documents.append(text[start:end])
        start = end
    random.Random(SEED).shuffle(documents)
    return documents


def sample_with(documents: Sequence[str], distinct_pieces: int, pattern: str) -> Sequence[str]:
    """Return the first documents that have as many distinct pieces."""
    low, high = 0, len(documents)
    while low < high:
        middle = (low + high) // 2
        if len(PieceCounts.from_corpus(documents[:middle], pattern=pattern)) < distinct_pieces:
            low = middle + 1
        else:
            high = middle
    return documents[:low]


def rows(name: str, text: str, vocab_size: int, pattern: str) -> list[str]:
    """Return the rows of the table for one text."""
    documents = documents_of(text)
    n_held_out = max(len(documents) // HELD_OUT_SHARE, 1)
    held_out, training = documents[:n_held_out], documents[n_held_out:]

    def ids(counts: PieceCounts) -> int:
        tokenizer = Tokenizer.train(counts, vocab_size)
        return sum(map(tokenizer.count, held_out))

    counts = PieceCounts.from_corpus(training, pattern=pattern)
    expected = ids(counts)
    lines = []
    for min_count in MIN_COUNTS:
        pruned = counts.prune(min_count)
        sample = sample_with(training, len(pruned), pattern)
        lines.append(
            f"| {name} | {min_count} | {len(pruned) / len(counts):.0%} "
            f"| {pruned.header.dropped_pieces / counts.header.pieces:.1%} "
            f"| {ids(pruned) / expected - 1:+.2%} "
            f"| {sum(map(len, sample)) / sum(map(len, training)):.0%} "
            f"| {ids(PieceCounts.from_corpus(sample, pattern=pattern)) / expected - 1:+.2%} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="a folder with texts")
    parser.add_argument("--vocab-size", type=int, default=16_384)
    parser.add_argument("--pattern", default="gpt2")
    options = parser.parse_args()
    columns = ("distinct pieces kept", "pieces dropped", "ids, pruned", "sample", "ids, sample")
    print(f"| text | `min_count` | {' | '.join(columns)} |")
    print("|---|---|---|---|---|---|---|")
    for path in sorted(options.folder.glob("*.txt")):
        text = path.read_text("utf-8")
        for line in rows(path.stem, text, options.vocab_size, options.pattern):
            print(line, flush=True)


if __name__ == "__main__":
    main()
