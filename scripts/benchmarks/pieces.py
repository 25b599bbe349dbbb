"""Short texts and long pieces, compared with other libraries."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator

from benchmarks.encode import NAMES, WAYS
from benchmarks.measure import Bench, many_times, timed
from benchmarks.peers import LIBRARIES, Calls, open_bpetite, openable
from benchmarks.table import MB, Row, Target, in_milliseconds

SHORT_TEXTS = {11: Target(high=300, unit=" ns"), 100: None, 2000: Target(high=4000, unit=" ns")}
"""Lengths in characters, and limits for a list of ids."""


SHORT_HEADER = ("ns: vocabulary, text, ids in", *NAMES)


def short_rows(bench: Bench) -> Iterator[Row]:
    """Compare the time of a call, repeated with the same few characters."""
    subject = bench.subject()
    loaded = {"bpetite": open_bpetite(subject)}
    loaded |= {library.name: calls for library, calls in openable(subject)}
    for length, target in SHORT_TEXTS.items():
        text = "hello world" if length == 11 else words(bench.texts["english"], length)
        for way in ("list", "array"):
            what = f"{subject.name}, {length:,} characters, {way}"
            medians = medians_of(bench, loaded, text, way)
            cells = [f"{medians[name]:,.0f}" if name in medians else "" for name in NAMES]
            checks = [target.check(what, medians["bpetite"])] if target and way == "list" else []
            yield Row((what, *cells), checks)


def words(text: str, length: int) -> str:
    """Return `length` ASCII characters from the middle of a text."""
    return text[len(text) // 2 :].encode("ascii", "ignore").decode("ascii")[:length]


def medians_of(bench: Bench, loaded: dict[str, Calls], text: str, way: str) -> dict[str, float]:
    """Return the nanoseconds of a call of each library."""
    clocks = {}
    for name, calls in loaded.items():
        if way == "list" or calls.array is not None:
            encode = calls.encoder(way)
            encode(text)
            count = 20_000 if name == "bpetite" else 2_000
            clocks[name] = many_times(max(20, count * 11 // len(text)), encode, text)
    turns = [{name: clock() for name, clock in clocks.items()} for _ in range(bench.repeats)]
    return {name: statistics.median(turn[name] for turn in turns) * 1e9 for name in clocks}


# Long pieces

PIECE_LIMIT = Target(high=100, unit=" ms")

PROBE_CHARACTERS = 20_000
PROBE_MAX_SECONDS = 0.1
"""A library that needs longer for the probe is shown as quadratic without a measurement."""


PIECES_HEADER = ("vocabulary, piece of 1 MB", "bpetite, array", "bpetite, list", *NAMES[1:])


def pieces_rows(bench: Bench) -> Iterator[Row]:
    """Compare the encoding of a million bytes that the pattern does not split.

    Each turn drops one more character, so that its piece is new. Other libraries have one turn.
    """
    subject = bench.subject()
    others = {library.name: calls for library, calls in openable(subject) if not library.is_slow}
    ours = open_bpetite(subject)
    for name, piece in long_pieces().items():
        what = f"{subject.name}, {name}"
        medians = []
        for number, way in enumerate(WAYS):
            encode = ours.encoder(way)
            starts = [2 * turn + number for turn in range(bench.repeats)]
            turns = [timed(encode, piece[start:])() for start in starts]
            medians.append(statistics.median(turns))
        cells = [in_milliseconds(seconds) for seconds in medians]
        cells += [time_of_piece(others.get(library.name), piece) for library in LIBRARIES]
        yield Row((what, *cells), [PIECE_LIMIT.check(what, max(medians) * 1e3)])


def time_of_piece(calls: Calls | None, piece: str) -> str:
    """Return the time of another library for a long piece, or the reason why there is none."""
    if calls is None:
        return ""
    calls.ids("warm up")
    start = time.perf_counter()
    try:
        calls.ids(piece[:PROBE_CHARACTERS])
        if time.perf_counter() - start > PROBE_MAX_SECONDS:
            return "quadratic"
        return in_milliseconds(timed(calls.ids, piece)())
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # because a panic in Rust is not an Exception
        return f"fails: {type(error).__name__}"


def long_pieces() -> dict[str, str]:
    """Return pieces of a million bytes, each of a kind that is hard for some encoder."""
    choose = random.Random(0).choices
    return {
        "`a`": "a" * MB,
        "spaces": " " * MB,
        "`=`": "=" * MB,
        "random letters": "".join(choose("abcdefghijklmnopqrstuvwxyz", k=MB)),
        "random symbols": "".join(choose("!#$%&()*+,-./:;<=>?@[]^_`{|}~", k=MB)),
        "random CJK": "".join(map(chr, choose(range(0x4E00, 0xA000), k=MB // 3))),
        "emoji": "".join(map(chr, choose(range(0x1F600, 0x1F650), k=MB // 4))),
    }
