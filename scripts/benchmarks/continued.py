"""Training on top of a vocabulary, by the pattern words, and of languages in balance."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import Bench, new_process, now, peak_memory
from benchmarks.table import MB, Check, Line, Row, Target, three_digits
from bpetite import PieceCounts, Tokenizer
from bpetite.corpora import Corpus

BASE_SIZE = 16_384
MORE_MERGES = 10_000
WIDE_SIZE = 2 * BASE_SIZE
SIZES = (100 * MB, 1000 * MB)
"""Bytes of text; the second is for --full."""

REPLACED_SHARE = 0.02
"""The share of the words that each copy of a text replaces, so that it is not the text again."""

WIDE_SECONDS_TARGET = Target(high=40, unit=" s for 1 GB")
WIDE_MEMORY_TARGET = Target(high=2, unit=" bytes for each byte of text")

LANGUAGES = ("english", "multilingual", "chinese", "code")
LANGUAGE_BYTES = 3 * MB
BALANCED_MERGES = 8000


class Learnt(NamedTuple):
    """What one training took."""

    seconds: float
    peak: int
    size: int
    """The bytes of the text."""


def continued_header() -> Line:
    """Return the column titles."""
    return ("training, text", "seconds", "MB/s", "peak memory", "bytes for each byte of text")


def continued_rows(bench: Bench) -> Iterator[Row]:
    """Measure trainings on one thread, each in a process that does nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "english.txt")
        for size in SIZES if bench.is_full else SIZES[:1]:
            write_grown(bench.texts["english"], size, path)
            base = Tokenizer.train_from_files([path], BASE_SIZE, special_tokens=())
            base.save(Path(folder, "base.json"), overwrite=True)
            for name, learn in STAGES.items():
                yield row_of(f"{name}, {size / MB:,.0f} MB", measured(learn, folder))
        if all(name in bench.texts for name in LANGUAGES):
            for name in LANGUAGES:
                text = bench.texts[name].encode("utf-8")
                Path(folder, name).write_bytes(text[:LANGUAGE_BYTES])
                Path(folder, f"{name}.dev").write_bytes(text[-LANGUAGE_BYTES // 5 :])
            for name, learn in BALANCES.items():
                yield row_of(f"{name}, {len(LANGUAGES)} texts", measured(learn, folder))


def row_of(what: str, learnt: Learnt) -> Row:
    """Return the row of a training."""
    per_byte = learnt.peak / learnt.size
    cells = (
        what,
        f"{learnt.seconds:.3g} s",
        three_digits(learnt.size / MB / learnt.seconds),
        f"{learnt.peak / MB:,.0f} MB",
        f"{per_byte:.2g}",
    )
    checks: list[Check] = []
    if what.startswith(WIDE):
        checks = [
            WIDE_SECONDS_TARGET.check(what, learnt.seconds * 1000 * MB / learnt.size),
            WIDE_MEMORY_TARGET.check(what, per_byte),
        ]
    return Row(cells, checks)


def measured(learn: Callable[[str], float], folder: str) -> Learnt:
    """Run a training in a new process."""
    with new_process() as executor:
        return executor.submit(in_process, learn, folder).result()


def in_process(learn: Callable[[str], float], folder: str) -> Learnt:
    """Run a training; `learn` returns the size of its text."""
    start = now()
    size = learn(folder)
    return Learnt(now() - start, peak_memory() or 0, int(size))


def in_one_go(folder: str) -> float:
    """Learn a vocabulary from its bytes on."""
    return on_english(folder, BASE_SIZE + MORE_MERGES, {})


def more_merges(folder: str) -> float:
    """Learn more merges on top of a vocabulary."""
    return on_english(folder, BASE_SIZE + MORE_MERGES, {"base": base_in(folder)})


def several_words(folder: str) -> float:
    """Learn tokens of several words on top of a vocabulary."""
    return on_english(folder, WIDE_SIZE, {"base": base_in(folder), "pattern": "words"})


def on_english(folder: str, vocab_size: int, options: dict[str, object]) -> float:
    """Train on the text in a folder; return its size."""
    path = Path(folder, "english.txt")
    corpus = Corpus([path], format="text")
    Tokenizer.train(corpus, vocab_size, threads=1, **options)  # type: ignore[arg-type]
    return path.stat().st_size


def base_in(folder: str) -> Tokenizer:
    """Load the vocabulary that is continued."""
    return Tokenizer.load(Path(folder, "base.json"))


def in_balance(folder: str) -> float:
    """Learn from languages in balance."""
    counts, developments = counts_in(folder, ""), counts_in(folder, ".dev")
    Tokenizer.train(counts, 256 + BALANCED_MERGES, balance=developments)
    return sum(each.header.text_bytes for each in counts.values())


def out_of_balance(folder: str) -> float:
    """Learn from the same languages as from one text."""
    counts = counts_in(folder, "")
    together = PieceCounts.from_corpus("")
    for each in counts.values():
        together = together + each
    Tokenizer.train(together, 256 + BALANCED_MERGES)
    return together.header.text_bytes


def counts_in(folder: str, suffix: str) -> dict[str, PieceCounts]:
    """Count the pieces of each language."""
    texts = {name: Path(folder, name + suffix).read_bytes() for name in LANGUAGES}
    return {
        name: PieceCounts.from_corpus(text.decode("utf-8", "ignore"))
        for name, text in texts.items()
    }


WIDE = f"{WIDE_SIZE - BASE_SIZE:,} tokens of words on {BASE_SIZE:,}"
STAGES: dict[str, Callable[[str], float]] = {
    f"{BASE_SIZE + MORE_MERGES:,} ids in one go": in_one_go,
    f"{MORE_MERGES:,} more on {BASE_SIZE:,}": more_merges,
    WIDE: several_words,
}
BALANCES: dict[str, Callable[[str], float]] = {
    f"{BALANCED_MERGES:,} merges in balance": in_balance,
    f"{BALANCED_MERGES:,} merges of one text": out_of_balance,
}


def write_grown(text: str, size: int, path: Path) -> None:
    """Write copies of a text, each with some words replaced and its lines in another order."""
    rng = random.Random(7)
    words = text.split(" ")
    written = 0
    with path.open("wb") as file:
        while written < size:
            data = text.encode("utf-8")[: size - written]
            written += file.write(data.decode("utf-8", "ignore").encode("utf-8")) or size
            for at in rng.sample(range(len(words)), int(len(words) * REPLACED_SHARE)):
                words[at] = rng.choice(words)
            lines = " ".join(words).split("\n")
            rng.shuffle(lines)
            text = "\n".join(lines)
