"""The Python engine beside tiktoken, and beside the pattern alone, which it has to run."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator

import regex

from benchmarks.measure import Bench, size_of, timed
from benchmarks.peers import TIKTOKEN, tiktoken_of
from benchmarks.table import MB, Row, Target, in_seconds, speed
from bpetite import Tokenizer

TIKTOKEN_TARGET = Target(low=0.5)
COLD_TARGET = Target(high=4)
"""Limit of the time divided by that of the pattern alone."""

TWICE_THE_BYTES_TARGET = Target(high=2.5)


def encode_rows(bench: Bench) -> Iterator[Row]:
    """Compare the speed for a text seen before with tiktoken's, if the ids are equal."""
    if not TIKTOKEN.is_installed:
        return
    encode, other = bench.tokenizer.encode_ordinary, tiktoken_of(bench.tokenizer).encode_ordinary
    for name, sample in bench.samples.items():
        if encode(sample) != other(sample):
            yield Row((f"{name}, warm", "other ids"), [TIKTOKEN_TARGET.check(name, 0)])
            continue
        target = TIKTOKEN_TARGET if name in ("english", "code") else None
        yield bench.compare(timed(encode, sample), timed(other, sample)).row(
            f"{name}, warm", speed(size_of(sample)), "tiktoken", "speed", target
        )


def cold_rows(bench: Bench) -> Iterator[Row]:
    """Compare the first encoding by a fresh tokenizer with splitting the text alone."""
    findall = regex.compile(bench.tokenizer.pattern).findall
    pickled = pickle.dumps(bench.tokenizer)
    for name in ("english", "code"):
        sample = bench.samples[name]
        yield bench.compare(
            lambda sample=sample: timed(pickle.loads(pickled).encode_ordinary, sample)(),  # type: ignore[misc]
            timed(findall, sample),
        ).row(f"{name}, cold", speed(size_of(sample)), "findall", "time", COLD_TARGET)


def long_rows(bench: Bench) -> Iterator[Row]:
    """Compare the encoding of a single piece with that of a piece of half the size."""
    choose = random.Random(0).choices
    pieces = {
        "one letter": "a" * MB,
        "random letters": "".join(choose("abcdefghijklmnopqrstuvwxyz", k=MB)),
        "CJK": "".join(map(chr, choose(range(0x4E00, 0xA000), k=MB // 3))),
    }
    for name, piece in pieces.items():
        tokenizer = Tokenizer.train(piece[:100_000], 2000)  # so there are pairs to merge
        yield bench.compare(
            timed(tokenizer.encode_ordinary, piece),
            timed(tokenizer.encode_ordinary, piece[: len(piece) // 2]),
        ).row(f"{name}, 1 MB", in_seconds, "half of it", "time", TWICE_THE_BYTES_TARGET)
