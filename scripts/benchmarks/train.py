"""Text to merges, compared with other libraries; each training has a process of its own."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bpetite
from benchmarks.measure import (
    Bench,
    new_process,
    now,
    peak_memory,
)
from benchmarks.peers import TRAINERS, is_installed, module
from benchmarks.table import (
    MB,
    Check,
    Row,
    Target,
    times_faster,
)
from bpetite import PATTERNS

VOCAB_SIZE = 32_768

TOKENIZERS_TARGETS = {
    "native": Target(low=25, unit=" × tokenizers"),
    "python": Target(low=1, unit=" × tokenizers"),
}
FASTEST_TARGET = Target(low=3, unit=" × the fastest other")
MEMORY_TARGET = Target(high=1.5, unit=" × rustbpe's memory")


@dataclass(frozen=True)
class Training:
    """The seconds, the memory in bytes, and the tokens of one training."""

    seconds: float
    tokens: frozenset[bytes]
    peak: int | None


HEADER = ("text, trainer", "seconds", "× bpetite's", "peak memory", "same tokens")


def train_rows(bench: Bench) -> Iterator[Row]:
    """Compare whole trainings on one thread, in turns, each in a process that does nothing else."""
    names = [name for name in ("english", "multilingual") if name in bench.texts]
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            path = Path(folder, f"{name}.txt")
            path.write_bytes(bench.texts[name].encode("utf-8"))
            megabytes = f"{path.stat().st_size / MB:.3g} MB"
            yield from contest_rows(bench, f"{name}, {megabytes}", path)


def contest_rows(bench: Bench, what: str, path: Path) -> Iterator[Row]:
    """Compare all trainers on one file."""
    trainers = ["bpetite", *filter(is_installed, TRAINERS)]
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
        yield Row(cells, training_checks(what, times, peaks) if is_ours else ())


def training_checks(what: str, times: dict[str, float], peaks: dict[str, int]) -> list[Check]:
    """Return the checks that compare bpetite's training with other trainers."""
    checks = []
    if "tokenizers" in times:
        checks.append(TOKENIZERS_TARGETS[bpetite.engine].check(what, times["tokenizers"]))
    if bpetite.engine == "python":
        return checks
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
    library, learn = module(trainer), LEARNERS[trainer]
    start = now()
    tokens = learn(library, path, vocab_size)
    seconds = now() - start
    return Training(seconds, frozenset(tokens()), peak_memory())


Tokens = Callable[[], Iterable[bytes]]
"""Returns the learnt tokens. It is called after the training, which does not include its time."""


def learn_bpetite(bpetite: Any, path: Path, vocab_size: int) -> Tokens:
    tokenizer = bpetite.Tokenizer.train([path], vocab_size, special_tokens=(), threads=1)
    return lambda: map(tokenizer.token_bytes, tokenizer.ids)


def learn_tokenizers(tokenizers: Any, path: Path, vocab_size: int) -> Tokens:
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    byte_level = tokenizers.pre_tokenizers.ByteLevel
    tokenizer.pre_tokenizer = byte_level(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size, initial_alphabet=byte_level.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(chunks_of(path), trainer)
    return lambda: map(unspelled, tokenizer.get_vocab())


def learn_rustbpe(rustbpe: Any, path: Path, vocab_size: int) -> Tokens:
    tokenizer = rustbpe.Tokenizer()
    tokenizer.train_from_iterator(chunks_of(path), vocab_size, pattern=PATTERNS["gpt2"])
    return lambda: (bytes(token) for token, _ in tokenizer.get_mergeable_ranks())


def learn_gigatoken(gigatoken: Any, path: Path, vocab_size: int) -> Tokens:
    vocabulary, _ = gigatoken.train_bpe(path, vocab_size, [], tie_breaking="raw_token_ids")
    return lambda: vocabulary.values()


def learn_ffbpe(ffbpe: Any, path: Path, vocab_size: int) -> Tokens:
    model = ffbpe.train_bpe(chunks_of(path), vocab_size=vocab_size)
    return lambda: model.vocab


def learn_gigabpe(gigabpe: Any, path: Path, vocab_size: int) -> Tokens:
    """Train gigabpe, whose vocabulary begins only with the bytes that the text has."""
    vocabulary, _ = gigabpe.train_bpe(
        [str(path)], vocab_size, special_tokens=[], pretokenizer="bytelevel", threads=1
    )
    return lambda: map(unspelled, vocabulary)


LEARNERS = {
    "bpetite": learn_bpetite,
    "tokenizers": learn_tokenizers,
    "rustbpe": learn_rustbpe,
    "gigatoken": learn_gigatoken,
    "ffbpe": learn_ffbpe,
    "gigabpe": learn_gigabpe,
}


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


PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
OTHERS = [byte for byte in range(256) if byte not in PRINTABLE]
BYTE_OF = {chr(byte): byte for byte in PRINTABLE}
BYTE_OF |= {chr(character): byte for character, byte in enumerate(OTHERS, 256)}


def unspelled(token: str) -> bytes:
    """Return the bytes of a token that is spelled with one printable character for each byte."""
    return bytes(map(BYTE_OF.__getitem__, token))
