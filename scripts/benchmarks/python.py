"""The encoding of the Python engine, compared with tiktoken."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from benchmarks.measure import Bench, size_of, timed
from benchmarks.peers import TIKTOKEN, tiktoken_of
from benchmarks.table import Row, Target, bare_speed

TIKTOKEN_TARGET = Target(low=0.5)


def encode_rows(bench: Bench) -> Iterator[Row]:
    """Compare the speed for a text seen before with tiktoken's, if the ids are equal."""
    if not TIKTOKEN.is_installed:
        return
    encode, other = bench.tokenizer.encode_ordinary, tiktoken_of(bench.tokenizer).encode_ordinary
    for name, sample in bench.samples.items():
        if encode(sample) != other(sample):
            yield Row((f"{name}, warm", "other ids"), [TIKTOKEN_TARGET.check(name, 0)])
            continue
        clocks = timed(encode, sample), timed(other, sample)
        turns = [[clock() for clock in clocks] for _ in range(bench.repeats)]
        ratios = sorted(theirs / ours for ours, theirs in turns)
        ratio = statistics.median(ratios)
        ours, theirs = (
            bare_speed(size_of(sample))(statistics.median(turn[side] for turn in turns))
            for side in (0, 1)
        )
        shown = f"{ratio:.2f} [{ratios[0]:.2f} to {ratios[-1]:.2f}] of its speed"
        cells = (f"{name}, warm", f"{ours} MB/s", f"tiktoken: {theirs} MB/s", shown)
        has_target = name in ("english", "code")
        yield Row(cells, [TIKTOKEN_TARGET.check(name, ratio)] if has_target else [])
