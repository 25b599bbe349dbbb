"""A prompt that grows and changes, compared with one encode of the whole text."""

from __future__ import annotations

import statistics
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.measure import Bench, Subject, timed
from benchmarks.peers import LIBRARIES
from benchmarks.table import Row, Target
from bpetite import Prompt

TOKENS = 200_000
NEW_TOKENS = 500
COPIES = 20
"""Prompts that are changed in a turn, each once."""
BRANCHES = 1_000

CHARACTERS_AROUND = 8192
"""Characters on either side of a change in the middle. The limit allows for encoding them too."""

OTHERS = ("tiktoken", "tokenizers")

HEADER = ("µs: text, change", "prompt", "encode", *OTHERS)

APPEND_TARGET, SET_TARGET = Target(high=100, unit=" µs"), Target(high=500, unit=" µs")

Edit = Callable[[Prompt], object]


def grow_rows(bench: Bench) -> Iterator[Row]:
    """Compare changes of a prompt with one encode of the whole text, by bpetite and others."""
    subject = bench.subject()
    for name, text in bench.texts.items():
        base, added = texts_of(subject, text)
        prompt = subject.tokenizer.prompt()
        prompt.set(base)
        middle = len(base) // 2
        middle_changed = base[:middle] + " it is so " + base[middle:]
        around = base[middle - CHARACTERS_AROUND : middle + CHARACTERS_AROUND]
        encoding = bench.measure(timed(partial(subject.tokenizer.encode, around, dtype="uint32")))
        edits: dict[str, tuple[Edit, Target | None, float]] = {
            "500 tokens appended": (partial(Prompt.append, text=added), APPEND_TARGET, 0),
            "the same by set": (partial(Prompt.set, text=base + added), SET_TARGET, 0),
            "changed in the middle": (
                *(partial(Prompt.set, text=middle_changed), SET_TARGET, encoding),
            ),
            "changed at the start": (partial(Prompt.set, text="it is so " + base), None, 0),
            "the same text again": (partial(Prompt.set, text=base), None, 0),
        }
        others = whole_encodes(bench, subject, base + added)
        for change, (edit, target, extra) in edits.items():
            seconds = statistics.median(seconds_of(prompt, edit) for _ in range(bench.repeats))
            what = f"{name}, {change}"
            checks = [target.check(what, (seconds - extra) * 1e6)] if target else ()
            yield Row((what, shown(seconds), *others), checks)
        first = bench.measure(timed(lambda base=base: subject.tokenizer.prompt().set(base)))
        yield Row((f"{name}, first set", shown(first), *others))
        size = branch_bytes(prompt, added)
        yield Row((f"{name}, bytes of each of {BRANCHES:,} branches", f"{size:,}"))


def texts_of(subject: Subject, text: str) -> tuple[str, str]:
    """Return a text of TOKENS tokens, and a text of NEW_TOKENS tokens that follows it."""
    tokenizer = subject.tokenizer
    ids = tokenizer.encode_ordinary(text[: 10 * TOKENS])
    ids = (ids * (TOKENS // len(ids) + 2))[: TOKENS + NEW_TOKENS]
    texts = (ids[:TOKENS], ids[TOKENS:])
    before, added = (tokenizer.decode(each, errors="ignore") for each in texts)
    return before, added


def seconds_of(prompt: Prompt, edit: Edit) -> float:
    """Return the seconds of an edit of a copy."""
    copies = [prompt.copy() for _ in range(COPIES)]

    def work() -> None:
        for each in copies:
            edit(each)

    return timed(work)() / COPIES


def whole_encodes(bench: Bench, subject: Subject, text: str) -> list[str]:
    """Return the times of one encode of the text, warm, by bpetite and by the other libraries."""
    calls: dict[str, Callable[[str], object]] = {"": subject.tokenizer.encode_ordinary}
    for library in LIBRARIES:
        if library.name in OTHERS and library.is_installed:
            calls[library.name] = library.open(subject).ids
    found = {}
    for name, call in calls.items():
        call(text)
        found[name] = shown(bench.measure(timed(call, text)))
    return [found.get(name, "") for name in ("", *OTHERS)]


def branch_bytes(prompt: Prompt, added: str) -> int:
    """Return the memory of a copy with text added to it."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        branches = [prompt.copy() for _ in range(BRANCHES)]
        for branch in branches:
            branch.append(added)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return (after - before) // BRANCHES


def shown(seconds: float) -> str:
    """Return seconds as microseconds."""
    return f"{seconds * 1e6:,.0f}"
