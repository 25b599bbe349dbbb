"""Edit prompts at random, and compare their ids with one encode of the whole text.

`scripts/fuzz prompts` runs this. A prompt is set, lengthened, copied and pickled, as a text or as
segments. After each edit its ids must equal the ids of `encode` or `encode_parts`, and the change
that the edit returned must lead from the old ids to the new ones. With --data, the vocabularies are
public, each with every pattern of patterns.json; otherwise they are trained.

A difference is printed with its seed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import pickle
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from pydoc_data.topics import topics

from tools.public import PUBLIC

import bpetite
from bpetite import PATTERNS, Change, CorpusWarning, Prompt, SlowEngineWarning, Tokenizer, Trusted
from bpetite._pretokenizer import portable_pattern  # not public
from bpetite._streaming import prompt as module  # not public
from bpetite._tokenizer import vocabulary_of

Given = str | list[str]
"""The content that a prompt was given: a text, or segments."""

LITERALS = ("<|a b|>", "<|a", " \n1", "aa", "<|a b|>1", "你🙂")
HARD = (
    *" \n\r\t\xa0\u3000/'’.-<|>aSsZé你ʰ𝔘ſ1½Ⅳ٣🙂\u0301\u093e\u20dd\u0897\U000105c9\x00",
    *("\r\n", "'s", "'LL", "a b|>", "<|endof", "text|>", *LITERALS),
)
EDITS_OF_ROUND = 2_000
BLOCK_CHARACTERS = (1, 8, 60, 8192)
"""Sizes of blocks. In use, all blocks are large; small ones test their limits in short texts."""


@dataclass
class Followed:
    """A prompt with the content that it was given and its last ids."""

    tokenizer: Tokenizer
    prompt: Prompt
    given: Given = ""
    ids: list[int] = field(default_factory=list)
    goes_on: bool = False
    """Whether an added text continues the last segment."""

    @property
    def segments(self) -> list[str]:
        """The content in segments."""
        return [*self.given] if isinstance(self.given, list) else [Trusted(self.given)]

    def append(self, added: Given) -> str | None:
        """Add a text or segments; return a fault that shows afterwards."""
        if isinstance(added, str) and isinstance(self.given, str):
            self.given += added
        elif "".join(added):
            before, more = self.segments, [Trusted(added)] if isinstance(added, str) else added
            if isinstance(added, str) and self.goes_on:
                more = [Trusted(before.pop() + added)]
            self.given = [*before, *more]
            self.goes_on = isinstance(added, str)
        return self.fault(self.prompt.append(added))

    def set(self, given: Given) -> str | None:
        """Set the text; return a fault that shows afterwards."""
        self.given, self.goes_on = given, False
        return self.fault(self.prompt.set(given))

    def fault(self, change: Change) -> str | None:
        """Return the fault of a change, or None."""
        given = self.given
        if isinstance(given, str):
            ids = self.tokenizer.encode(given)
        else:
            ids = self.tokenizer.encode_parts(given)[0]
        pairs = enumerate(zip(self.ids, ids, strict=False))
        least = min(len(self.ids), len(ids))
        first = next((at for at, (one, two) in pairs if one != two), least)
        found = (self.prompt.ids(), self.prompt.text, len(self.prompt))
        expected = (ids, "".join(given), len(ids))
        if found != expected:
            return f"{given!r} has {expected}, found {found}"
        if (change.first_changed, change.new_ids.tolist()) != (first, ids[first:]):
            return f"{given!r} changed from {first}, not {change.first_changed}"
        self.ids = ids
        return None


@dataclass
class Editor:
    """Edits a prompt at random."""

    rng: random.Random
    real: list[str]
    followed: Followed

    def text(self) -> str:
        """Return some text."""
        rng = self.rng
        if rng.random() < 0.5:
            return "".join(rng.choices(HARD, k=rng.choice([0, 1, 1, 3, 14])))
        real = rng.choice(self.real)
        start = rng.randrange(len(real))
        return real[start : start + rng.choice([1, 8, 40, 300])]

    def segments(self, text: str) -> list[str]:
        """Return a text in segments, some of them trusted."""
        rng, at = self.rng, 0
        found: list[str] = []
        while at < len(text):
            end = at + rng.choice([0, 1, 5, 9, 50])
            part = text[at:end]
            found.append(Trusted(part) if rng.random() < 0.6 else part)
            at = end
        return found

    def append(self) -> str | None:
        """Add a text."""
        return self.followed.append(self.text())

    def append_segments(self) -> str | None:
        """Add segments."""
        return self.followed.append(self.segments(self.text()))

    def edit(self) -> str | None:
        """Replace a part of the text."""
        rng, given = self.rng, self.followed.given
        text = "".join(given)
        start = rng.choice([0, len(text), rng.randint(0, len(text)), max(len(text) - 9, 0)])
        end = start + rng.choice([0, 0, 1, 2, 9, 40, 200])
        text = text[:start] + self.text() + text[end:]
        return self.followed.set(text if isinstance(given, str) else self.segments(text))

    def edit_segments(self) -> str | None:
        """Replace some segments."""
        segments = self.followed.segments
        start = self.rng.randint(0, len(segments))
        end = start + self.rng.randint(0, 3)
        new = self.segments(self.text())
        return self.followed.set([*segments[:start], *new, *segments[end:]])

    def restart(self) -> str | None:
        """Set another text, or the same as the other kind."""
        text = self.rng.choice([self.text(), "".join(self.followed.given)])
        return self.followed.set(text if self.rng.random() < 0.5 else self.segments(text))

    def fail(self) -> str | None:
        """Make an edit that raises, and must change nothing."""
        bad = self.text() + "\ud800" + self.text()
        prompt = self.followed.prompt
        for call in (prompt.set, prompt.append):
            try:
                call(self.rng.choice([bad, self.segments(bad)]))
            except UnicodeEncodeError:
                continue
            return f"{bad!r} was taken"
        return self.followed.append("")

    def fault(self) -> str | None:
        """Make a random edit; return a fault that shows afterwards."""
        followed = self.followed
        edits = [self.append, self.append_segments, self.edit, self.edit, self.edit_segments]
        if self.rng.random() < 0.1:
            edits = [self.restart, self.fail]
        if self.rng.random() < 0.05:
            other = followed.prompt.copy()
            other.set(self.text() + other.text)  # must change only the copy
        if self.rng.random() < 0.001:  # rare, because it is slow with a large vocabulary
            pair = followed.tokenizer, followed.prompt
            followed.prompt = pickle.loads(pickle.dumps(pair))[1]
        edit = self.rng.choice(edits)
        if fault := edit():
            return f"{edit.__name__}: {fault}"
        if len(followed.prompt.text) > 3_000:
            self.followed = Followed(followed.tokenizer, followed.tokenizer.prompt())
        return None


def makers(data: Path | None) -> Iterator[tuple[str, Callable[[], Tokenizer]]]:
    """Yield names of vocabularies, and the functions that make them."""
    if data is None:
        for name in PATTERNS:
            yield f"trained, {name}", lambda name=name: trained(name)  # type: ignore[misc]
        return
    entries = json.loads((data / "patterns.json").read_bytes())
    for public, (_, file) in PUBLIC.items():
        base = vocabulary_of(Tokenizer.load(data / file))
        for entry in entries:
            try:
                pattern, *others = map(portable_pattern, entry["patterns"])
            except ValueError as error:
                if public == "GPT-2":
                    print(f"left out: {entry['name']}: {error}", flush=True)
                continue
            vocabulary = replace(base, pattern=pattern, more_patterns=(*others,))
            yield (
                f"{public}, {entry['name']}",
                lambda vocabulary=vocabulary: with_literals(Tokenizer(vocabulary)),  # type: ignore[misc]
            )


def trained(name: str) -> Tokenizer:
    """Return a small vocabulary with a pattern."""
    text = "".join([*topics.values()][:9]) + "".join(HARD) * 3
    return with_literals(Tokenizer.train(text, 600, pattern=name))


def with_literals(tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer with more special tokens, which overlap."""
    return tokenizer.with_special_tokens(LITERALS)


def main() -> None:
    """Edit prompts until time is up or a result differs."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz prompts", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="default: 60")
    parser.add_argument("--seed", type=int, default=0, help="of the first round (default: 0)")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="the public vocabularies")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", SlowEngineWarning)
    warnings.simplefilter("ignore", CorpusWarning)
    real = [*topics.values(), *HARD]
    for path in sorted(arguments.data.glob("*.txt")) if arguments.data else []:
        real += [path.read_text("utf-8")[:200_000]] * 100
    every = [*makers(arguments.data)]
    counts: Counter[str] = Counter()
    print(f"{len(every)} vocabularies, {bpetite.engine} engine", flush=True)
    end = time.monotonic() + arguments.seconds
    for seed in count(arguments.seed):
        if seed > arguments.seed and time.monotonic() > end:
            break
        rng = random.Random(seed)
        name, make = every[seed % len(every)]
        module._BLOCK_CHARACTERS = rng.choice(BLOCK_CHARACTERS)
        tokenizer = make()
        editor = Editor(rng, real, Followed(tokenizer, tokenizer.prompt()))
        for _ in range(EDITS_OF_ROUND):
            if fault := editor.fault():
                sys.exit(f"seed {seed}, vocabulary {name}: {fault}")
            counts[name] += 1
    edits = sum(counts.values())
    print(f"{edits:,} edits of {len(counts)} vocabularies, no difference; the next seed is {seed}")


if __name__ == "__main__":
    main()
