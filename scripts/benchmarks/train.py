"""Text to merges: counting pieces, and whole trainings, each in a process of its own."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import regex

import bpetite
from benchmarks.measure import (
    Bench,
    first_bytes,
    megabytes,
    new_process,
    now,
    peak_memory,
    size_of,
    timed,
)
from benchmarks.peers import TRAINERS, is_installed, module
from benchmarks.table import (
    MB,
    Check,
    Line,
    Row,
    Target,
    in_seconds,
    plain_row,
    speed,
    times_faster,
)
from bpetite import Tokenizer, TrainingProgress

COUNTING_TARGET = Target(low=400, unit=" MB/s")
PYTHON_COUNTING_TARGET = Target(high=1.35)

VOCAB_SIZE = 32_768

TOKENIZERS_TARGET = Target(low=25, unit=" × tokenizers")
FASTEST_TARGET = Target(low=3, unit=" × the fastest other")
MEMORY_TARGET = Target(high=1.5, unit=" × rustbpe's memory")
PEAK_TARGET = Target(high=1000, unit=" MB")

# Counting


def count_rows(bench: Bench) -> Iterator[Row]:
    """Compare the counting of pieces, which is training without a merge, with a plain Counter."""
    findall = regex.compile(Tokenizer.train("", 256).pattern).findall
    for name, sample in bench.samples.items():
        comparison = bench.compare(
            timed(Tokenizer.train, sample, 256), timed(lambda text: Counter(findall(text)), sample)
        )
        show = speed(size_of(sample))
        if bpetite.engine == "python":
            target = PYTHON_COUNTING_TARGET
            yield comparison.row(name, show, "Counter(findall)", "time", target)
            continue
        yield comparison.row(f"{name}, a str", show, "Counter(findall)", "speed")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "text.txt")
            path.write_bytes(bench.texts[name].encode("utf-8"))
            seconds = bench.measure(timed(count_file, path))
            size = path.stat().st_size
        what = f"{name}, a file of {size / MB:.3g} MB"
        has_target = name in ("english", "multilingual")
        yield plain_row(
            what, speed(size)(seconds), COUNTING_TARGET if has_target else None, size / MB / seconds
        )


def count_file(path: Path) -> Tokenizer:
    """Count the pieces of a file on one thread."""
    return Tokenizer.train_from_files([path], 256, threads=1)


# Whole trainings


@dataclass(frozen=True)
class Training:
    """The seconds, the memory in bytes, and the tokens of one training."""

    seconds: float
    counting: float
    """Seconds of counting, if the trainer reports them."""
    tokens: frozenset[bytes]
    peak: int | None


def train_header() -> Line:
    """Return the column titles."""
    return ("text, trainer", "seconds", "× bpetite's", "peak memory", "same tokens")


def train_rows(bench: Bench) -> Iterator[Row]:
    """Compare whole trainings on one thread, each in a process that does nothing else, in turns."""
    names = [name for name in ("english", "multilingual") if name in bench.texts]
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            path = Path(folder, f"{name}.txt")
            path.write_bytes(bench.texts[name].encode("utf-8"))
            yield from contest_rows(bench, f"{name}, {megabytes(bench.texts[name])}", path)


def contest_rows(bench: Bench, what: str, path: Path) -> Iterator[Row]:
    """Compare all trainers on one file."""
    trainers = ["bpetite", *(name for name, package in TRAINERS.items() if is_installed(package))]
    trainings: dict[str, list[Training]] = {name: [] for name in trainers}
    for _ in range(bench.repeats):
        for name in trainers:
            trainings[name].append(train_in_new_process(name, path, VOCAB_SIZE))
    seconds = {name: [each.seconds for each in turns] for name, turns in trainings.items()}
    peaks = {name: max(each.peak or 0 for each in turns) for name, turns in trainings.items()}
    times = {name: times_faster(seconds["bpetite"], turns) for name, turns in seconds.items()}
    ours = trainings["bpetite"][0].tokens
    for name, turns in trainings.items():
        is_ours = name == "bpetite"
        same = len(ours & turns[0].tokens) / len(ours)
        cells = (
            f"{what}, {name}",
            f"{statistics.median(seconds[name]):.3g} s",
            "" if is_ours else f"{times[name]:.1f}",
            f"{peaks[name] / MB:,.0f} MB" if peaks[name] else "unknown on this system",
            "" if is_ours else f"{same:.2%}",
        )
        has_targets = is_ours and bpetite.engine == "native"
        yield Row(cells, training_checks(what, times, peaks) if has_targets else ())


def training_checks(what: str, times: dict[str, float], peaks: dict[str, int]) -> list[Check]:
    """Return the checks of bpetite's training beside those of other trainers."""
    checks = []
    if "tokenizers" in times:
        checks.append(TOKENIZERS_TARGET.check(what, times["tokenizers"]))
    others = times.keys() - {"bpetite", "tokenizers"}
    if others:
        checks.append(FASTEST_TARGET.check(what, min(times[name] for name in others)))
    if peaks.get("rustbpe"):
        checks.append(MEMORY_TARGET.check(what, peaks["bpetite"] / peaks["rustbpe"]))
    return checks


def train_in_new_process(trainer: str, path: Path, vocab_size: int) -> Training:
    """Learn a vocabulary from a file on one thread, in a process that does nothing else."""
    with new_process() as executor:
        return executor.submit(train_with, trainer, path, vocab_size).result()


def train_with(trainer: str, path: Path, vocab_size: int) -> Training:
    """Learn a vocabulary from a file; importing the library is not timed."""
    os.dup2(2, 1)  # some libraries print, and standard output is for tables
    learn = LEARNERS[trainer]()
    start = now()
    counting, tokens = learn(path, vocab_size)
    seconds = now() - start
    return Training(seconds, counting, frozenset(tokens()), peak_memory())


Learn = Callable[[Path, int], tuple[float, Callable[[], list[bytes]]]]
"""Learns from a file; returns the seconds of counting, and a function that returns the tokens."""


def bpetite_learner() -> Learn:
    """Return the training of bpetite."""

    def learn(path: Path, vocab_size: int) -> tuple[float, Callable[[], list[bytes]]]:
        counted = start = now()

        def note(progress: TrainingProgress) -> None:
            nonlocal counted
            if progress.stage == "counting":
                counted = now()

        tokenizer = Tokenizer.train_from_files(
            [path], vocab_size, special_tokens=(), progress=note, threads=1
        )
        return counted - start, lambda: list(map(tokenizer.token_bytes, tokenizer.ids))

    return learn


def chunks_of(path: Path, size: int = 100_000) -> Iterator[str]:
    """Yield a file's text in chunks, split where no piece of GPT-2's pattern spans the split.

    Such an offset is before a newline that follows a character other than white space.
    """
    text = path.read_bytes().decode("utf-8")
    start = 0
    while start < len(text):
        end = text.find("\n", start + size)
        while end > 0 and text[end - 1].isspace():
            end = text.find("\n", end + 1)
        if end < 0:
            end = len(text)
        yield text[start:end]
        start = end


def tokenizers_learner() -> Learn:
    """Return the training of tokenizers."""
    import tokenizers
    from tokenizers import models, pre_tokenizers, trainers

    def learn(path: Path, vocab_size: int) -> tuple[float, Callable[[], list[bytes]]]:
        tokenizer = tokenizers.Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size, initial_alphabet=alphabet, show_progress=False
        )
        tokenizer.train_from_iterator(chunks_of(path), trainer)
        return 0.0, lambda: list(map(unspelled, tokenizer.get_vocab()))

    return learn


PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
OTHERS = [byte for byte in range(256) if byte not in PRINTABLE]
BYTE_OF = {chr(byte): byte for byte in PRINTABLE}
BYTE_OF |= {chr(character): byte for character, byte in enumerate(OTHERS, 256)}


def unspelled(token: str) -> bytes:
    """Return the bytes of a token that is spelled with one printable character a byte."""
    return bytes(map(BYTE_OF.__getitem__, token))


def rustbpe_learner() -> Learn:
    """Return the training of rustbpe."""
    rustbpe = module("rustbpe")
    pattern = Tokenizer.train("", 256).pattern

    def learn(path: Path, vocab_size: int) -> tuple[float, Callable[[], list[bytes]]]:
        tokenizer = rustbpe.Tokenizer()
        tokenizer.train_from_iterator(chunks_of(path), vocab_size, pattern=pattern)
        return 0.0, lambda: [bytes(token) for token, _ in tokenizer.get_mergeable_ranks()]

    return learn


def gigatoken_learner() -> Learn:
    """Return the training of gigatoken."""
    gigatoken = module("gigatoken")

    def learn(path: Path, vocab_size: int) -> tuple[float, Callable[[], list[bytes]]]:
        vocabulary, _ = gigatoken.train_bpe(path, vocab_size, [], tie_breaking="raw_token_ids")
        return 0.0, lambda: list(vocabulary.values())

    return learn


def ffbpe_learner() -> Learn:
    """Return the training of ffbpe."""
    ffbpe = module("ffbpe")

    def learn(path: Path, vocab_size: int) -> tuple[float, Callable[[], list[bytes]]]:
        model = ffbpe.train_bpe(chunks_of(path), vocab_size=vocab_size)
        return 0.0, lambda: list(model.vocab)

    return learn


LEARNERS: dict[str, Callable[[], Learn]] = {
    "bpetite": bpetite_learner,
    "tokenizers": tokenizers_learner,
    "rustbpe": rustbpe_learner,
    "gigatoken": gigatoken_learner,
    "ffbpe": ffbpe_learner,
}


# One training in detail: the yardstick of the Python engine


def detail_rows(bench: Bench) -> Iterator[Row]:
    """Measure trainings, how their time divides, and their memory, beside tokenizers."""
    english = bench.texts["english"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "english.txt")
        text = first_bytes(english, MB)
        path.write_bytes(text.encode("utf-8"))
        limit = Target(high=2, unit=" s") if size_of(text) > 0.9 * MB else None
        yield from one_detail(bench, f"512 ids, {megabytes(text)}", path, 512, limit)
        path.write_bytes(english.encode("utf-8"))
        limit = Target(high=90, unit=" s") if size_of(english) > 15 * MB else None
        yield from one_detail(bench, f"32,000 ids, {megabytes(english)}", path, 32_000, limit)


def one_detail(
    bench: Bench, what: str, path: Path, vocab_size: int, limit: Target | None
) -> Iterator[Row]:
    """Measure one training; without a limit of time there is no limit of memory either."""
    trainings: list[Training] = []

    def ours() -> float:
        trainings.append(train_in_new_process("bpetite", path, vocab_size))
        return trainings[-1].seconds

    if is_installed("tokenizers"):
        yield bench.compare(
            ours, lambda: train_in_new_process("tokenizers", path, vocab_size).seconds
        ).row(what, in_seconds, "tokenizers", "time")
    else:
        bench.measure(ours)
    median = statistics.median(training.seconds for training in trainings)
    counting = statistics.median(training.counting / training.seconds for training in trainings)
    yield plain_row(f"{what}, part of counting", f"{counting:.0%}", limit, median)
    yield plain_row(f"{what}, ids learnt", f"{len(trainings[0].tokens):,}")
    peak = max((training.peak or 0 for training in trainings), default=0) / MB
    shown = f"{peak:,.0f} MB" if peak else "unknown on this system"
    yield plain_row(f"{what}, peak memory", shown, PEAK_TARGET if limit and peak else None, peak)
