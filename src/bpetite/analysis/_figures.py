"""The figures of a report. docs/judging.md defines each of them."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from itertools import accumulate
from typing import Any


@dataclass(frozen=True)
class CountedToken:
    """An id, its bytes, and how often it occurs."""

    id: int
    token: bytes
    count: int


@dataclass(frozen=True)
class TextFigures:
    """The size of a text."""

    name: str
    documents: int
    bytes: int
    characters: int
    words: int
    beginning: str
    """The first characters of the first document, at most 160: a sample to show."""


@dataclass(frozen=True)
class NextMerges:
    """What more merges would bring on the beginning of a text."""

    bytes: int
    """The length of the beginning."""
    curve: tuple[int, ...]
    """The tokens of the beginning: today, with one more merge, with two, and so on."""
    first: tuple[CountedToken, ...]
    """The first new tokens, at most 12, with the number of times that each is made."""

    @property
    def merges(self) -> int:
        """The number of merges that were learnt."""
        return len(self.curve) - 1

    @property
    def saved(self) -> float:
        """The share of tokens that the merges save."""
        return ratio(self.curve[0] - self.curve[-1], self.curve[0])


@dataclass(frozen=True)
class Use:
    """How one vocabulary encodes one text. Special literals are ordinary text."""

    text: TextFigures
    tokens: int
    often: int
    """The number of ids that occur ten times or more."""
    rare: int
    """The number of ids that occur one to nine times."""
    never: int
    """The number of ids that do not occur."""
    lengths: tuple[tuple[int, int], ...]
    """The tokens of the text by their length: pairs (bytes, number of tokens)."""
    curve: tuple[tuple[int, int], ...]
    """Pairs (size, tokens): the tokens of the text if the vocabulary is cut at that size."""
    next: NextMerges | None
    """None if `next_merges` is 0, or if the vocabulary cannot be continued."""
    sample: tuple[bytes, ...]
    """The tokens of `text.beginning`."""

    @property
    def bytes_per_token(self) -> float:
        """Bytes of the text divided by its tokens."""
        return ratio(self.text.bytes, self.tokens)

    @property
    def characters_per_token(self) -> float:
        """Characters of the text divided by its tokens."""
        return ratio(self.text.characters, self.tokens)

    @property
    def words_per_token(self) -> float:
        """Words of the text divided by its tokens."""
        return ratio(self.text.words, self.tokens)

    @property
    def rare_share(self) -> float:
        """The share of rare ids among all ids."""
        return ratio(self.rare, self.often + self.rare + self.never)


@dataclass(frozen=True)
class VocabularyFigures:
    """A vocabulary, and how it encodes each text. Special tokens are left out."""

    name: str
    fingerprint: str
    size: int
    """The number of ordinary ids: bytes and merges."""
    lengths: tuple[tuple[int, int], ...]
    """The ids by the length of their tokens: pairs (bytes, number of ids)."""
    unreachable: tuple[CountedToken, ...]
    """The ids whose bytes alone give other ids, and that do not occur in the texts."""
    partial: tuple[CountedToken, ...]
    """The ids whose bytes are not whole characters."""
    never: tuple[int, ...]
    """The ids that do not occur in any text."""
    longest: tuple[CountedToken, ...]
    """The longest tokens, at most 12."""
    longest_words: tuple[CountedToken, ...]
    """The longest tokens that have a letter, at most 12."""
    uses: tuple[Use, ...]
    """One for each text, in the order of the texts."""
    parallel_tokens: tuple[int, ...]
    """The tokens of each parallel text, in the order of these texts."""

    @property
    def parity(self) -> tuple[float, ...]:
        """The tokens of each parallel text, divided by the tokens of the first one."""
        return tuple(ratio(tokens, self.parallel_tokens[0]) for tokens in self.parallel_tokens)

    @property
    def gini(self) -> float | None:
        """The Gini coefficient of `parallel_tokens`; None without parallel texts."""
        return gini(self.parallel_tokens) if self.parallel_tokens else None


@dataclass(frozen=True)
class Cuts:
    """How two vocabularies divide one text. A cut is a position between two tokens."""

    first: int
    """The number of cuts of the first vocabulary."""
    other: int
    """The number of cuts of the other one."""
    common: int
    """The number of cuts that both make."""

    @property
    def share(self) -> float:
        """The common cuts, divided by those of the other vocabulary; 1 if it makes none."""
        return self.common / self.other if self.other else 1.0

    @property
    def first_share(self) -> float:
        """The common cuts, divided by those of the first vocabulary; 1 if it makes none."""
        return self.common / self.first if self.first else 1.0

    @property
    def equal(self) -> float:
        """The common cuts, divided by the cuts that at least one makes; 1 if there are none."""
        either = self.first + self.other - self.common
        return self.common / either if either else 1.0


@dataclass(frozen=True)
class Difference:
    """Text between two common cuts that at least one of two vocabularies divides."""

    text: str
    """The name of the text."""
    document: int
    """The number of the document in the text, from 0."""
    byte: int
    """Where the stretch begins in the document."""
    first_ids: tuple[int, ...]
    """The ids of the first vocabulary."""
    ids: tuple[int, ...]
    """The ids of the other one."""


@dataclass(frozen=True)
class Comparison:
    """What the first vocabulary and another one share: tokens, and on request cuts."""

    name: str
    """The name of the other vocabulary."""
    common: int
    """The number of tokens that both have."""
    only_first: tuple[CountedToken, ...]
    """The most frequent tokens, at most 12, that only the first vocabulary has."""
    only_other: tuple[CountedToken, ...]
    """The most frequent tokens, at most 12, that only the other vocabulary has."""
    cuts: tuple[Cuts | None, ...] = ()
    """One for each text; None if a vocabulary changes it. Empty unless `differences` is given."""
    differences: tuple[Difference, ...] = ()
    """The first stretches of text that both divide differently, at most `differences`."""


@dataclass(frozen=True)
class Report:
    """What vocabularies do to texts.

    `vocabularies` and `texts` are in the order given, and so are the `uses` of a vocabulary, one
    for each text: `report.vocabularies[0].uses[1].bytes_per_token`. docs/judging.md defines all
    figures, and `to_dict` has each by its name.
    """

    version: str
    """The version of bpetite."""
    texts: tuple[TextFigures, ...]
    vocabularies: tuple[VocabularyFigures, ...]
    comparisons: tuple[Comparison, ...]
    """The first vocabulary compared with each of the others."""
    parallel: tuple[str, ...]
    """The names of the parallel texts. Parity is relative to the first."""

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as dicts, lists, numbers and strings, for JSON."""
        plain: dict[str, Any] = _plain(self)
        return plain


def gini(values: tuple[int, ...]) -> float:
    """Return the Gini coefficient: 0 if all values are equal, near 1 if one has it all.

    It is half of the mean absolute difference of two values, divided by the mean value.

    >>> gini((5, 5)), gini((0, 0, 0, 8))
    (0.0, 0.75)
    """
    # In ascending order, the value of rank i from 1 is above i - 1 values and below n - i.
    n = len(values)
    weighted = sum((2 * rank - n - 1) * value for rank, value in enumerate(sorted(values), 1))
    return ratio(weighted, n * sum(values))


def lorenz(values: tuple[int, ...]) -> list[float]:
    """Return the shares of the total that the cheapest 0, 1, 2, … values have together.

    >>> lorenz((3, 1))
    [0.0, 0.25, 1.0]
    """
    total = sum(values)
    return [ratio(part, total) for part in accumulate(sorted(values), initial=0)]


def ratio(part: float, whole: float) -> float:
    """Return a quotient; 0 if the divisor is."""
    return part / whole if whole else 0.0


def _plain(value: Any) -> Any:
    """Return a value of this module as JSON has it."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, tuple):
        # Long tuples have ids alone.
        return [item if type(item) is int else _plain(item) for item in value]
    if not is_dataclass(value):
        return value
    names = [field.name for field in fields(value)]
    names += [name for name in vars(type(value)) if isinstance(vars(type(value))[name], property)]
    found = {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, Use):
        found["text"] = value.text.name
    return found
