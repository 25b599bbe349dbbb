"""The Python engine beside the pattern alone, which every encoder in Python has to run.

These sections can also measure the native engine.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator

import regex

from benchmarks.measure import (
    Bench,
    Clock,
    Subject,
    first_bytes,
    if_installed,
    megabytes,
    size_of,
    timed,
)
from benchmarks.peers import huggingface_of, tiktoken_of
from benchmarks.table import MB, Row, Target, in_seconds, speed
from bpetite import Tokenizer

WARM_TARGET, COLD_TARGET = Target(high=1.6), Target(high=4)
"""Limits of the time divided by that of the pattern alone."""

DIFFERING_TARGET = Target(high=0, unit=" lines")

# Encoding


def encode_rows(bench: Bench) -> Iterator[Row]:
    """Compare encoding with splitting the text, and with the encoding of other libraries."""
    for name, sample in bench.samples.items():
        has_target = name in ("english", "code")
        yield from findall_rows(bench, name, sample, bench.tokenizer, has_target)
        tiktoken = tiktoken_encode_rows(bench, name, sample, has_target)
        yield from if_installed(f"{name}, warm", tiktoken)
        yield from if_installed(f"{name}, warm", huggingface_encode_rows(bench, name, sample))


def public_rows(bench: Bench) -> Iterator[Row]:
    """Compare encoding with splitting alone, for each public vocabulary and its pattern."""
    for subject in bench.subjects() if bench.public else ():
        for name, sample in bench.samples.items():
            has_target = name in ("english", "code")
            what = f"{subject.name}, {name}"
            yield from findall_rows(bench, what, sample, subject.tokenizer, has_target)


def findall_rows(
    bench: Bench, what: str, sample: str, tokenizer: Tokenizer, has_target: bool
) -> Iterator[Row]:
    """Compare encoding with splitting the text by the tokenizer's own pattern."""
    findall = timed(regex.compile(tokenizer.pattern).findall, sample)
    pickled = pickle.dumps(tokenizer)
    show = speed(size_of(sample))
    tokenizer.encode_ordinary(sample)
    warm, cold = timed(tokenizer.encode_ordinary, sample), cold_encoding(pickled, sample)
    for state, clock, target in (("warm", warm, WARM_TARGET), ("cold", cold, COLD_TARGET)):
        yield bench.compare(clock, findall).row(
            f"{what}, {state}", show, "findall", "time", target if has_target else None
        )


def cold_encoding(pickled: bytes, text: str) -> Clock:
    """Return a clock of the first encoding by a fresh tokenizer."""
    return lambda: timed(pickle.loads(pickled).encode_ordinary, text)()


def tiktoken_encode_rows(bench: Bench, name: str, sample: str, has_target: bool) -> Iterator[Row]:
    """Compare ids and speed with tiktoken's."""
    tokenizer, encoding = bench.tokenizer, tiktoken_of(bench.tokenizer)
    ours, theirs = tokenizer.encode_ordinary(sample), encoding.encode_ordinary(sample)
    lines = [] if ours == theirs else sample.splitlines(keepends=True)
    differing = sum(
        tokenizer.encode_ordinary(line) != encoding.encode_ordinary(line) for line in lines
    )
    what = f"{name}, ids"
    shown = "equal" if ours == theirs else f"different in {differing:,} lines"
    checks = [DIFFERING_TARGET.check(what, differing)] if has_target else ()
    yield Row((what, f"{len(ours):,}", f"tiktoken: {len(theirs):,}", shown), checks)
    yield bench.compare(
        timed(tokenizer.encode_ordinary, sample), timed(encoding.encode_ordinary, sample)
    ).row(
        f"{name}, warm",
        speed(size_of(sample)),
        "tiktoken",
        "speed",
        Target(low=0.5) if has_target else None,
    )


def huggingface_encode_rows(bench: Bench, name: str, sample: str) -> Iterator[Row]:
    """Compare the speed with that of tokenizers."""
    twin = huggingface_of(Subject("learnt", bench.tokenizer, None).json)
    text = first_bytes(sample, MB)
    yield bench.compare(
        timed(bench.tokenizer.encode_ordinary, text),
        timed(lambda: twin.encode(text, add_special_tokens=False).ids),
    ).row(f"{name}, warm, {megabytes(text)}", speed(size_of(text)), "tokenizers", "speed")


# Decoding


def decode_rows(bench: Bench) -> Iterator[Row]:
    """Compare the decoding of whole lists of ids."""
    for name, sample in bench.samples.items():
        yield from if_installed(name, tiktoken_decode_rows(bench, name, sample))
        yield from if_installed(name, huggingface_decode_rows(bench, name, sample))


def tiktoken_decode_rows(bench: Bench, name: str, sample: str) -> Iterator[Row]:
    """Compare the speed with that of tiktoken."""
    tokenizer, encoding = bench.tokenizer, tiktoken_of(bench.tokenizer)
    ids = tokenizer.encode_ordinary(sample)
    yield bench.compare(timed(tokenizer.decode, ids), timed(encoding.decode, ids)).row(
        name, speed(size_of(sample)), "tiktoken", "speed", Target(low=0.3)
    )


def huggingface_decode_rows(bench: Bench, name: str, sample: str) -> Iterator[Row]:
    """Compare the speed with that of tokenizers."""
    tokenizer = bench.tokenizer
    twin = huggingface_of(Subject("learnt", tokenizer, None).json)
    text = first_bytes(sample, MB)
    ids = tokenizer.encode_ordinary(text)
    yield bench.compare(
        timed(tokenizer.decode, ids), timed(lambda: twin.decode(ids, skip_special_tokens=False))
    ).row(f"{name}, {megabytes(text)}", speed(size_of(text)), "tokenizers", "speed")


# Long pieces


def long_rows(bench: Bench) -> Iterator[Row]:
    """Compare the encoding of a single piece with that of a piece of half the size."""
    choose = random.Random(0).choices
    pieces = {
        "one letter": "a" * MB,
        "spaces": " " * MB,
        "random letters": "".join(choose("abcdefghijklmnopqrstuvwxyz", k=MB)),
        "DNA letters": "".join(choose("ACGT", k=MB)),
        "CJK": "".join(map(chr, choose(range(0x4E00, 0xA000), k=MB // 3))),
    }
    for name, piece in pieces.items():
        tokenizer = Tokenizer.train(piece[:100_000], 2000)  # so there are pairs to merge
        yield bench.compare(
            timed(tokenizer.encode_ordinary, piece),
            timed(tokenizer.encode_ordinary, piece[: len(piece) // 2]),
        ).row(f"{name}, 1,000,000 bytes", in_seconds, "500,000 bytes", "time", Target(high=2.5))
