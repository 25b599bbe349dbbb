"""What happens to a text before it is merged, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bpetite import Tokenizer
from bpetite._engine.chosen import ENGINE
from bpetite._tokenizer import vocabulary_of
from bpetite._vocabulary import Vocabulary


class Pipeline(NamedTuple):
    """The stages of a tokenizer that patterns do not show."""

    regex_reason: str | None
    """Why `regex` splits texts; None if the native engine does."""
    rows: list[tuple[str, str]]
    """A label and a description of each other stage."""


def pipeline_of(tokenizer: Tokenizer) -> Pipeline:
    """Return what is done to the texts of a tokenizer.

    >>> pipeline_of(Tokenizer.train("", 256)).rows
    []
    """
    vocabulary = vocabulary_of(tokenizer)
    return Pipeline(ENGINE.regex_reason(vocabulary), [*_rows(vocabulary)])


def _rows(vocabulary: Vocabulary) -> Iterator[tuple[str, str]]:
    stages = vocabulary.stages
    if vocabulary.normalizers:
        shown = (" ".join([name, *map(repr, rest)]) for name, *rest in vocabulary.normalizers)
        yield "normalizers", ", ".join(shown)
    if stages.steps:
        yield "steps", ", ".join(stages.steps)
    if stages.byte_fallback:
        yield "byte fallback", "merges begin with characters; bytes replace one without a token"
    if stages.metaspace:
        yield "metaspace", stages.metaspace
    if stages.strips_start:
        yield "decoding strips", "a space at the start"
    flags: dict[tuple[str, ...], list[str]] = {}
    for literal, each in stages.flags:
        flags.setdefault(each, []).append(literal)
    for each, literals in flags.items():
        yield " ".join(each), " ".join(literals)
    for name in ("prefix", "suffix"):
        if affix := getattr(stages, name):
            yield f"{name} of tokens", affix.decode()
    if stages.unknown_id is not None:
        fused = ", one for several bytes in a row" if stages.fuses_unknown else ""
        yield "token of unknown bytes", f"{stages.unknown_id}{fused}"
