"""Whether the streams of each library show text wrong, late or not at all."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Literal

from tools.venv import ROOT

from benchmarks.measure import Bench
from benchmarks.streamers import OURS, STREAMERS, SUBSTITUTES, StreamCase, Streamer
from benchmarks.table import Row, Target

sys.path.append(str(ROOT / "tests"))

from support.stream_cases import CASES, Case, ids_of, tokenizer_of

Fate = Literal["wrong", "lost", "late", "right"]

FATES: tuple[Fate, ...] = ("wrong", "lost", "late", "right")
"""From worst to best."""

EXAMPLES = 3
"""How many cases are named for each fate."""

AMISS_TARGET = Target(high=0, unit=" texts amiss")


HEADER = ("streams", "texts", *FATES[:3], "examples")


def case_rows(_bench: Bench) -> Iterator[Row]:
    """Count the fates of all texts in the streams of each library."""
    for streamer in (OURS, *STREAMERS, *SUBSTITUTES):
        if streamer.is_installed:
            yield case_row(streamer)


def case_row(streamer: Streamer) -> Row:
    """Return the row of one library, for all cases."""
    found = {case.name: fate(texts_of(streamer, case), case.texts) for case in CASES}
    counts = Counter(found.values())
    amiss = [
        f"{name} ({each})"
        for each in FATES[:3]
        for name in [name for name in found if found[name] == each][:EXAMPLES]
    ]
    numbers = [str(counts[each]) for each in FATES[:3]]
    cells = (streamer.name, str(len(CASES)), *numbers, "; ".join(amiss))
    check = AMISS_TARGET.check(streamer.name, len(CASES) - counts["right"])
    return Row(cells, [check] if streamer is OURS else ())


def texts_of(streamer: Streamer, case: Case) -> list[str]:
    """Return the text of each step and of the flush; after an error, empty texts."""
    tokenizer = tokenizer_of(case.prompt + case.tokens)
    ids = ids_of(tokenizer, case.tokens)
    stream_case = StreamCase(
        case.name, tokenizer, ids, prompt=ids_of(tokenizer, case.prompt), skips=case.skip
    )
    stream = streamer.open(stream_case)()
    texts = [""] * (len(ids) + 1)
    try:
        for number, id in enumerate(ids):
            texts[number] = stream.step(id) or ""
        texts[-1] = stream.flush()
    except Exception as error:  # after any error, no text comes
        print(f"{streamer.name}: {case.name}: {error!r}", file=sys.stderr)
    return texts


def fate(texts: Sequence[str], right: Sequence[str]) -> Fate:
    """Compare the texts of the steps and of the flush with the right ones.

    >>> fate(["", "a"], ["a", ""]), fate(["a", ""], ["a", "b"]), fate(["b", ""], ["a", ""])
    ('late', 'lost', 'wrong')
    """
    whole, wanted = "".join(texts), "".join(right)
    if whole != wanted:
        return "lost" if wanted.startswith(whole) else "wrong"
    ends = zip(accumulate(map(len, texts)), accumulate(map(len, right)), strict=True)
    return "late" if any(shown < complete for shown, complete in ends) else "right"
