"""What becomes of texts in the streams of each library: which of them are wrong, lost or late."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Literal

from _bench_measure import Bench
from _bench_streamers import OURS, STREAMERS, WAYS, StreamCase, Streamer
from _bench_table import Line, Target
from _venv import ROOT

sys.path.append(str(ROOT / "tests"))

from stream_cases import CASES, Case, expected, ids_of, tokenizer_of, tokens_of

Fate = Literal["wrong", "lost", "late", "right"]

FATES: tuple[Fate, ...] = ("wrong", "lost", "late", "right")
"""The worst first."""

EXAMPLES = 3
"""The cases that are named of each kind."""


def case_header() -> Line:
    """Return what the columns are."""
    return ("streams", "texts", *FATES[:3], "wrong, lost or late, say", "target")


def case_rows(_bench: Bench) -> Iterator[Line]:
    """Count the fates of the texts of all cases, in the streams of each library."""
    for streamer in (OURS, *STREAMERS, *WAYS):
        if streamer.is_installed:
            yield case_row(streamer)


def case_row(streamer: Streamer) -> Line:
    """Run all cases."""
    found = {case.name: fate(texts_of(streamer, case), expected(case, "replace")) for case in CASES}
    counts = Counter(found.values())
    amiss = [
        f"{name} ({each})"
        for each in FATES[:3]
        for name in [name for name in found if found[name] == each][:EXAMPLES]
    ]
    verdict = Target(high=0).verdict(len(CASES) - counts["right"]) if streamer is OURS else ""
    numbers = [str(counts[each]) for each in FATES[:3]]
    return (streamer.name, str(len(CASES)), *numbers, "; ".join(amiss), verdict)


def texts_of(streamer: Streamer, case: Case) -> list[str]:
    """Return what each step of a case shows, and then the end; nothing from an error on."""
    prompt, tokens = tokens_of(case.prompt), tokens_of(case.tokens)
    tokenizer = tokenizer_of(prompt + tokens)
    ids = ids_of(tokenizer, tokens)
    stream_case = StreamCase(
        case.name, tokenizer, ids, prompt=ids_of(tokenizer, prompt), skips=case.skip
    )
    stream = streamer.open(stream_case)()
    texts = [""] * (len(ids) + 1)
    try:
        for number, id in enumerate(ids):
            texts[number] = stream.step(id) or ""
        texts[-1] = stream.flush()
    except Exception as error:  # whatever it is, no more comes
        print(f"{streamer.name}: {case.name}: {error!r}", file=sys.stderr)
    return texts


def fate(texts: Sequence[str], right: Sequence[str]) -> Fate:
    """Return what became of a text; of both, what each step gave and then the end.

    >>> fate(["", "a"], ["a", ""]), fate(["a", ""], ["a", "b"]), fate(["b", ""], ["a", ""])
    ('late', 'lost', 'wrong')
    """
    whole, wanted = "".join(texts), "".join(right)
    if whole != wanted:
        return "lost" if wanted.startswith(whole) else "wrong"
    ends = zip(accumulate(map(len, texts)), accumulate(map(len, right)), strict=True)
    return "late" if any(shown < complete for shown, complete in ends) else "right"
