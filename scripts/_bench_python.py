"""The engine in Python, whose yardstick is the pattern alone: what any encoder in Python has to do.

The native core can be measured so too, if it is asked for.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator

import regex
from _bench_measure import (
    Bench,
    Clock,
    Subject,
    first_bytes,
    if_installed,
    megabytes,
    size_of,
    timed,
)
from _bench_peers import huggingface_of, tiktoken_of
from _bench_table import MB, Line, Target, in_seconds, row, speed

from bpetite import Tokenizer

# Encoding


def encode_rows(bench: Bench) -> Iterator[Line]:
    """Compare encoding with cutting the text alone, and with others' encoding."""
    for name, sample in bench.samples.items():
        has_target = name in ("english", "code")
        yield from findall_rows(bench, name, sample, bench.tokenizer, has_target)
        yield from if_installed(
            f"{name}, warm",
            tiktoken_encode_rows(bench, name, sample, Target(low=0.5) if has_target else None),
        )
        yield from if_installed(f"{name}, warm", huggingface_encode_rows(bench, name, sample))


def public_rows(bench: Bench) -> Iterator[Line]:
    """Compare encoding with cutting alone, each vocabulary by its pattern; targets as GPT-2's."""
    for subject in bench.subjects() if bench.public else ():
        for name, sample in bench.samples.items():
            has_target = name in ("english", "code")
            what = f"{subject.name}, {name}"
            yield from findall_rows(bench, what, sample, subject.tokenizer, has_target)


def findall_rows(
    bench: Bench, what: str, sample: str, tokenizer: Tokenizer, has_target: bool
) -> Iterator[Line]:
    """Compare encoding with cutting the text alone, by the tokenizer's own pattern."""
    findall = regex.compile(tokenizer.pattern).findall
    pickled = pickle.dumps(tokenizer)
    show = speed(size_of(sample))
    tokenizer.encode_ordinary(sample)
    yield bench.compare(timed(tokenizer.encode_ordinary, sample), timed(findall, sample)).row(
        f"{what}, warm", show, "findall", "time", Target(high=1.6) if has_target else None
    )
    yield bench.compare(cold_encoding(pickled, sample), timed(findall, sample)).row(
        f"{what}, cold", show, "findall", "time", Target(high=4) if has_target else None
    )


def cold_encoding(pickled: bytes, text: str) -> Clock:
    """Return a clock of the first encoding by a tokenizer that is made anew each time."""
    return lambda: timed(pickle.loads(pickled).encode_ordinary, text)()


def tiktoken_encode_rows(
    bench: Bench, name: str, sample: str, target: Target | None
) -> Iterator[Line]:
    tokenizer, encoding = bench.tokenizer, tiktoken_of(bench.tokenizer)
    ours, theirs = tokenizer.encode_ordinary(sample), encoding.encode_ordinary(sample)
    lines = [] if ours == theirs else sample.splitlines(keepends=True)
    differing = sum(
        tokenizer.encode_ordinary(line) != encoding.encode_ordinary(line) for line in lines
    )
    yield row(
        f"{name}, ids",
        f"{len(ours):,}",
        f"tiktoken: {len(theirs):,}",
        "equal" if ours == theirs else f"different in {differing:,} lines",
        f"equal: {'ok' if ours == theirs else 'MISSED'}" if target else "",
    )
    yield bench.compare(
        timed(tokenizer.encode_ordinary, sample), timed(encoding.encode_ordinary, sample)
    ).row(f"{name}, warm", speed(size_of(sample)), "tiktoken", "speed", target)


def huggingface_encode_rows(bench: Bench, name: str, sample: str) -> Iterator[Line]:
    twin = huggingface_of(Subject("learnt", bench.tokenizer, None).json)
    text = first_bytes(sample, MB)
    yield bench.compare(
        timed(bench.tokenizer.encode_ordinary, text),
        timed(lambda: twin.encode(text, add_special_tokens=False).ids),
    ).row(f"{name}, warm, {megabytes(text)}", speed(size_of(text)), "tokenizers", "speed")


# Decoding


def decode_rows(bench: Bench) -> Iterator[Line]:
    """Compare decoding whole lists of ids."""
    for name, sample in bench.samples.items():
        yield from if_installed(name, tiktoken_decode_rows(bench, name, sample))
        yield from if_installed(name, huggingface_decode_rows(bench, name, sample))


def tiktoken_decode_rows(bench: Bench, name: str, sample: str) -> Iterator[Line]:
    tokenizer, encoding = bench.tokenizer, tiktoken_of(bench.tokenizer)
    ids = tokenizer.encode_ordinary(sample)
    yield bench.compare(timed(tokenizer.decode, ids), timed(encoding.decode, ids)).row(
        name, speed(size_of(sample)), "tiktoken", "speed", Target(low=0.3)
    )


def huggingface_decode_rows(bench: Bench, name: str, sample: str) -> Iterator[Line]:
    tokenizer = bench.tokenizer
    twin = huggingface_of(Subject("learnt", tokenizer, None).json)
    text = first_bytes(sample, MB)
    ids = tokenizer.encode_ordinary(text)
    yield bench.compare(
        timed(tokenizer.decode, ids), timed(lambda: twin.decode(ids, skip_special_tokens=False))
    ).row(f"{name}, {megabytes(text)}", speed(size_of(text)), "tokenizers", "speed")


# Long pieces


def long_rows(bench: Bench) -> Iterator[Line]:
    """Compare encoding a single piece with encoding one of half its size."""
    choose = random.Random(0).choices
    pieces = {
        "one letter": "a" * MB,
        "spaces": " " * MB,
        "random letters": "".join(choose("abcdefghijklmnopqrstuvwxyz", k=MB)),
        "DNA letters": "".join(choose("ACGT", k=MB)),
        "CJK": "".join(map(chr, choose(range(0x4E00, 0xA000), k=MB // 3))),
    }
    for name, piece in pieces.items():
        tokenizer = Tokenizer.train(piece[:100_000], 2000)  # so there is something to merge
        yield bench.compare(
            timed(tokenizer.encode_ordinary, piece),
            timed(tokenizer.encode_ordinary, piece[: len(piece) // 2]),
        ).row(f"{name}, 1,000,000 bytes", in_seconds, "500,000 bytes", "time", Target(high=2.5))
