"""Random edits of prompts, each compared with one encode of the whole text."""

from __future__ import annotations

import copy
import json
import pickle
import random
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from pydoc_data.topics import topics
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import reject, settings
from tools.public import PUBLIC

from bpetite import Change, Prompt, Tokenizer, Trusted
from bpetite._pretokenizer import portable_pattern
from bpetite._tokenizer import vocabulary_of
from bpetite._vocabulary import Vocabulary
from support import DATA
from support.byte_fallback import SETTINGS, random_document, write
from support.split_cases import CHARACTERS, LITERALS, TOKENIZERS
from support.uncompared import load_uncompared

Given = str | list[str]
"""The content that a prompt was given: a text, or segments."""

HARD = (*CHARACTERS, *LITERALS, "a b|>", "<|endof", "text|>", "<s>", "[x ]", *"bcdé中文")
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
        real = rng.choice(self.real) or " "
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

    def set_again(self) -> str | None:
        """Set the same content, which changes nothing."""
        return self.followed.set(self.followed.given)

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
            edits = [self.restart, self.set_again, self.fail]
        if self.rng.random() < 0.05:
            move = self.rng.choice((Prompt.copy, copy.copy, copy.deepcopy))
            other = move(followed.prompt)
            if self.rng.random() < 0.5:
                other, followed.prompt = followed.prompt, other
            other.set(self.text() + other.text)  # must change only the other one
        if self.rng.random() < 0.001:  # slow with a large vocabulary
            pair = followed.tokenizer, followed.prompt
            followed.prompt = pickle.loads(pickle.dumps(pair))[1]
        edit = self.rng.choice(edits)
        if fault := edit():
            return f"{edit.__name__}: {fault}"
        if len(followed.prompt.text) > 3_000:
            self.followed = Followed(followed.tokenizer, followed.tokenizer.prompt())
        return None


# Vocabularies

REAL = [*topics.values()]


@cache
def fallback(name: str) -> Tokenizer:
    """Return a vocabulary with byte fallback, in a setting of public models."""
    with TemporaryDirectory() as folder:
        document = random_document(random.Random(name), **SETTINGS[name])
        return load_uncompared(write(document, Path(folder)))


@cache
def public(file: str) -> Vocabulary:
    return vocabulary_of(Tokenizer.load(DATA / file))


@lru_cache(maxsize=8)
def split_by(file: str, *patterns: str) -> Tokenizer:
    """Return a public vocabulary with other patterns, and with literals that overlap."""
    try:
        pattern, *others = map(portable_pattern, patterns)
    except ValueError:  # no program of ours follows them
        reject()
    found = replace(public(file), pattern=pattern, more_patterns=(*others,))
    return Tokenizer(found).with_special_tokens(LITERALS)


MAKERS: dict[str, tuple[Any, ...]] = {
    **TOKENIZERS,
    **{f"byte fallback, {name}": (fallback, name) for name in SETTINGS},
}
NAMES = [*MAKERS] * 4
IS_BOUNDED = settings().max_examples <= 300
EDITS_OF_A_PROMPT = 50 if IS_BOUNDED else 2_000
if DATA.exists() and not IS_BOUNDED:  # public vocabularies are made slowly, so they are rare
    MAKERS |= {
        f"{name}, {entry['name']}": (split_by, file, *entry["patterns"])
        for name, (_, file) in PUBLIC.items()
        for entry in json.loads((DATA / "patterns.json").read_bytes())
    }
    NAMES += [*MAKERS]


def tokenizer_of(name: str) -> Tokenizer:
    """Return one of the tokenizers by its name."""
    make, *arguments = MAKERS[name]
    tokenizer: Tokenizer = make(*arguments)
    return tokenizer
