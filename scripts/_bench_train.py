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
from _bench_measure import (
    Bench,
    first_bytes,
    megabytes,
    new_process,
    now,
    peak_memory,
    size_of,
    timed,
)
from _bench_peers import TRAINERS, is_installed, module
from _bench_table import (
    MB,
    Line,
    Target,
    in_seconds,
    row,
    speed,
    times_faster,
)

import bpetite
from bpetite import Tokenizer, TrainingProgress

# Counting

COUNTING_SPEED = Target(low=400, unit=" MB/s")


def count_rows(bench: Bench) -> Iterator[Line]:
    """Measure counting pieces, which is training without a merge, beside a plain Counter."""
    findall = regex.compile(Tokenizer.train("", 256).pattern).findall
    for name, sample in bench.samples.items():
        comparison = bench.compare(
            timed(Tokenizer.train, sample, 256), timed(lambda text: Counter(findall(text)), sample)
        )
        show = speed(size_of(sample))
        if bpetite.engine == "python":
            target = Target(high=1.35)
            yield comparison.row(name, show, "Counter(findall)", "time", target)
            continue
        yield comparison.row(f"{name}, a str", show, "Counter(findall)", "speed")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "text.txt")
            path.write_bytes(bench.texts[name].encode("utf-8"))
            took = bench.measure(timed(count_file, path))
            size = path.stat().st_size
        verdict = ""
        if name in ("english", "multilingual"):
            verdict = COUNTING_SPEED.verdict(size / MB / took)
        yield row(f"{name}, a file of {size / MB:.3g} MB", speed(size)(took), target=verdict)


def count_file(path: Path) -> Tokenizer:
    """Count the pieces of a file on one thread."""
    return Tokenizer.train_from_files([path], 256, threads=1)


# Whole trainings


@dataclass(frozen=True)
class Training:
    """What one training took, in seconds and bytes of memory, and what it learnt."""

    seconds: float
    counting: float
    """The seconds of counting, where that is told."""
    tokens: frozenset[bytes]
    peak: int | None


VOCAB_SIZE = 32_768

TIMES_TOKENIZERS = Target(low=25, unit=" × tokenizers")
TIMES_FASTEST = Target(low=3, unit=" × fastest")
OF_RUSTBPE_MEMORY = Target(high=1.5, unit=" of rustbpe's memory")


def train_header() -> Line:
    """Return what the columns are."""
    return ("text, trainer", "seconds", "× bpetite's", "peak memory", "same tokens", "target")


def train_rows(bench: Bench) -> Iterator[Line]:
    """Compare whole trainings on one thread, each in a process that does nothing else, in turns."""
    names = [name for name in ("english", "multilingual") if name in bench.texts]
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            path = Path(folder, f"{name}.txt")
            path.write_bytes(bench.texts[name].encode("utf-8"))
            yield (f"**{name}**, {megabytes(bench.texts[name])}, {VOCAB_SIZE:,} ids",)
            yield from contest_rows(bench, path)


def contest_rows(bench: Bench, path: Path) -> Iterator[Line]:
    trainers = ["bpetite", *(name for name, package in TRAINERS.items() if is_installed(package))]
    trainings: dict[str, list[Training]] = {name: [] for name in trainers}
    for _ in range(bench.repeats):
        for name in trainers:
            trainings[name].append(train_in_new_process(name, path, VOCAB_SIZE))
    seconds = {name: [each.seconds for each in turns] for name, turns in trainings.items()}
    medians = {name: statistics.median(turns) for name, turns in seconds.items()}
    peaks = {name: max(each.peak or 0 for each in turns) for name, turns in trainings.items()}
    ours = trainings["bpetite"][0].tokens
    for name in ("bpetite", *TRAINERS):
        if name not in trainings:
            yield (name, "not installed")
            continue
        times = times_faster(seconds["bpetite"], seconds[name])
        same = len(ours & trainings[name][0].tokens) / len(ours)
        verdicts = []
        if name == "bpetite" and bpetite.engine == "native":
            verdicts = training_verdicts(seconds, medians, peaks)
        yield (
            name,
            f"{medians[name]:.3g} s",
            "" if name == "bpetite" else f"{times:.1f}",
            f"{peaks[name] / MB:,.0f} MB" if peaks[name] else "not told by this system",
            "" if name == "bpetite" else f"{same:.2%}",
            "; ".join(verdicts),
        )


def training_verdicts(
    seconds: dict[str, list[float]], medians: dict[str, float], peaks: dict[str, int]
) -> list[str]:
    verdicts = []
    if "tokenizers" in medians:
        times = times_faster(seconds["bpetite"], seconds["tokenizers"])
        verdicts.append(TIMES_TOKENIZERS.verdict(times))
    others = medians.keys() - {"bpetite", "tokenizers"}
    if others:
        fastest = min(others, key=medians.__getitem__)
        verdicts.append(TIMES_FASTEST.verdict(times_faster(seconds["bpetite"], seconds[fastest])))
    if peaks.get("rustbpe"):
        verdicts.append(OF_RUSTBPE_MEMORY.verdict(peaks["bpetite"] / peaks["rustbpe"]))
    return verdicts


def train_in_new_process(trainer: str, path: Path, vocab_size: int) -> Training:
    """Learn a vocabulary from a file on one thread, in a process that does nothing else."""
    with new_process() as executor:
        return executor.submit(train_with, trainer, path, vocab_size).result()


def train_with(trainer: str, path: Path, vocab_size: int) -> Training:
    """Learn a vocabulary from a file; the clock does not run while others are imported."""
    os.dup2(2, 1)  # what some print is not for the tables
    learn = LEARNERS[trainer]()
    start = now()
    counting, tokens = learn(path, vocab_size)
    seconds = now() - start
    return Training(seconds, counting, frozenset(tokens()), peak_memory())


Learn = Callable[[Path, int], tuple[float, Callable[[], list[bytes]]]]
"""Learns from a file; returns seconds of counting, and what tells the tokens."""


def bpetite_learner() -> Learn:
    """Return our own."""

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
    """Yield a file's text in chunks, cut where no piece of GPT-2's pattern spans the cut.

    That is before a line end behind what is no white space.
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
    """Return Hugging Face's."""
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
    """Return the bytes of a token as byte-level vocabularies spell it, a character for a byte."""
    return bytes(map(BYTE_OF.__getitem__, token))


def rustbpe_learner() -> Learn:
    """Return rustbpe's."""
    rustbpe = module("rustbpe")
    pattern = Tokenizer.train("", 256).pattern

    def learn(path: Path, vocab_size: int) -> tuple[float, Callable[[], list[bytes]]]:
        tokenizer = rustbpe.Tokenizer()
        tokenizer.train_from_iterator(chunks_of(path), vocab_size, pattern=pattern)
        return 0.0, lambda: [bytes(token) for token, _ in tokenizer.get_mergeable_ranks()]

    return learn


def gigatoken_learner() -> Learn:
    """Return gigatoken's."""
    gigatoken = module("gigatoken")

    def learn(path: Path, vocab_size: int) -> tuple[float, Callable[[], list[bytes]]]:
        vocabulary, _ = gigatoken.train_bpe(path, vocab_size, [], tie_breaking="raw_token_ids")
        return 0.0, lambda: list(vocabulary.values())

    return learn


def ffbpe_learner() -> Learn:
    """Return ffbpe's."""
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


# One training in detail, which is what the engine in Python is measured by


def train_detail_rows(bench: Bench) -> Iterator[Line]:
    """Measure our trainings, how their time divides, and their memory, beside tokenizers."""
    english = bench.texts["english"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "english.txt")
        text = first_bytes(english, MB)
        path.write_bytes(text.encode("utf-8"))
        limit = 2 if size_of(text) > 0.9 * MB else None
        yield from detail_rows(bench, f"512 ids, {megabytes(text)}", path, 512, limit)
        path.write_bytes(english.encode("utf-8"))
        limit = 90 if size_of(english) > 15 * MB else None
        yield from detail_rows(bench, f"32,000 ids, {megabytes(english)}", path, 32_000, limit)


def detail_rows(
    bench: Bench, what: str, path: Path, vocab_size: int, limit: float | None
) -> Iterator[Line]:
    """Measure one training; the limit in seconds, and that of memory, are for texts of a size."""
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
    yield row(
        what,
        f"{in_seconds(median)}: {counting:.0%} counting, {1 - counting:.0%} merging; "
        f"{len(trainings[0].tokens):,} ids learnt",
        target=Target(high=limit, unit=" s").verdict(median) if limit else "",
    )
    peaks = [training.peak for training in trainings if training.peak is not None]
    yield row(
        f"{what}, peak memory",
        f"{max(peaks) / MB:,.0f} MB" if peaks else "not told by this system",
        target=Target(high=1000, unit=" MB").verdict(max(peaks) / MB) if peaks and limit else "",
    )
