"""The time of a turn of a growing conversation: a stream beside encoding all of it again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.measure import Bench, Clock, Subject, cycled, timed
from benchmarks.peers import TIKTOKEN
from benchmarks.table import Line, Row, Target, three_digits
from bpetite import EncodeStream

TOKENS = 200_000
TURN_TOKENS = 200
HISTORIES = (0, 10_000, 50_000, TOKENS - TURN_TOKENS)
"""Tokens of the conversation before the turn."""

MEASURED_TURNS = 20
"""Steps that are timed together; the conversation is longer by as many turns."""

FLAT_TARGET = Target(high=1.5, unit=" × a turn without a history")
TIMES_TARGET = Target(low=100, unit=" × tiktoken")


def grow_header() -> Line:
    """Return the column titles."""
    what = "µs a turn: vocabulary, tokens before it"
    return (what, "`EncodeStream`", "`encode` of all", "tiktoken, all", "× `encode`", "× tiktoken")


def grow_rows(bench: Bench) -> Iterator[Row]:
    """Measure turns at several lengths of a conversation in English, warm."""
    for subject in bench.subjects("cl100k"):
        turns = turns_of(subject, bench.samples["english"])
        shortest = 0.0
        for history in HISTORIES:
            count = history // TURN_TOKENS
            text = b"".join(turns[: count + 1]).decode("utf-8", "ignore")
            clocks = [
                step_clock(subject, turns, count),
                timed(subject.tokenizer.encode_ordinary, text),
                *tiktoken_clocks(subject, text),
            ]
            ours, *others = [warm(bench, clock) for clock in clocks]
            what = f"{subject.name}, {history:,}"
            shortest = shortest or ours
            checks = [FLAT_TARGET.check(what, ours / shortest)]
            if len(others) == 2 and history == HISTORIES[-1]:
                checks.append(TIMES_TARGET.check(what, others[1] / ours))
            blank = [""] * (2 - len(others))
            shown = [three_digits(seconds * 1e6) for seconds in (ours, *others)]
            ratios = [three_digits(seconds / ours) for seconds in others]
            yield Row((what, *shown, *blank, *ratios), checks)


def turns_of(subject: Subject, text: str) -> list[bytes]:
    """Return the turns of a conversation; one may end inside a character."""
    tokenizer = subject.tokenizer
    ids = cycled(tokenizer.encode_ordinary(text), TOKENS + MEASURED_TURNS * TURN_TOKENS)
    starts = range(0, len(ids), TURN_TOKENS)
    return [tokenizer.decode_bytes(ids[start : start + TURN_TOKENS]) for start in starts]


def step_clock(subject: Subject, turns: Sequence[bytes], count: int) -> Clock:
    """Return a clock of a step after `count` turns."""
    stream = subject.tokenizer.encode_stream(allowed_special=())
    for turn in turns[:count]:
        stream.step(turn)
    measured = turns[count : count + MEASURED_TURNS]

    def steps(stream: EncodeStream) -> None:
        for turn in measured:
            stream.step(turn)

    return lambda: timed(steps, stream.copy())() / len(measured)


def tiktoken_clocks(subject: Subject, text: str) -> list[Clock]:
    """Return a clock of tiktoken's `encode_ordinary`; none if it is not installed."""
    ids = TIKTOKEN.open(subject).ids if TIKTOKEN.is_installed else None
    return [timed(ids, text)] if ids else []


def warm(bench: Bench, clock: Clock) -> float:
    """Return the median of a clock, without turns of others between.

    After another library has encoded the whole conversation, a step takes twice as long: the
    processor's cache then holds nothing of the stream's.
    """
    clock()
    return bench.measure(clock)
