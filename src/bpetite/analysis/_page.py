"""The page in HTML of a report."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from statistics import median
from typing import NamedTuple

from bpetite.analysis import _charts as charts
from bpetite.analysis._drawing import environment
from bpetite.analysis._figures import Report, TextFigures, Use, VocabularyFigures, ratio

MAX_VOCABULARIES = 3
"""The vocabularies that the page has marks, lines and colours for."""

_MAX_LANGUAGES = 29  # the languages in the chart of parity. The table has all of them.

_PASSAGE_TOKENS = 60  # a passage ends at the first common cut after this many tokens


def page(report: Report, command: str = "") -> str:
    """Return a report as a page in HTML that needs no other file.

    The page has light and dark colours, fits a phone, and prints on A4. It shows the `command` that
    made the report, if it is given.

    >>> from bpetite import Tokenizer
    >>> from bpetite.analysis import report
    >>> found = report({"small": Tokenizer.train("ab ab ab", 258)}, {"line": "ab ab c"})
    >>> "<h1>small</h1>" in page(found)
    True

    Raises ValueError for more than three vocabularies, ModuleNotFoundError without Jinja.
    """
    if len(report.vocabularies) > MAX_VOCABULARIES:
        raise ValueError(
            f"a page shows at most {MAX_VOCABULARIES} vocabularies side by side, got "
            f"{len(report.vocabularies)}; leave some out, or take the figures from `to_dict`"
        )
    filters = {"number": lambda value: f"{value:,}", "percent": _percent, "size": _size}
    template = environment("a page", **filters).get_template("page.html.jinja")
    return template.render(
        report=report,
        vocabularies=report.vocabularies,
        texts=report.texts,
        first=report.vocabularies[0],
        command=command,
        charts=charts,
        findings=_Findings(report),
        heads=[*_heads(report)],
        passages=[*_passages(report)],
        max_languages=_MAX_LANGUAGES,
        max_ratio=max(
            (use.bytes_per_token for each in report.vocabularies for use in each.uses), default=1
        ),
        max_size=max(each.size for each in report.vocabularies),
        data=_curve_data(report),
    )


class Head(NamedTuple):
    """A figure at the top of the page, and what it is."""

    figure: str
    definition: str
    label: str
    rest: str


def _heads(report: Report) -> Iterator[Head]:
    first, *others = report.vocabularies
    if report.texts:
        use = first.uses[0]
        others_have = _listed(
            f"{each.name} has {each.uses[0].bytes_per_token:.2f}" for each in others
        )
        rest = f"of {use.text.name}" + (f"; {others_have}" if others else "")
        yield Head(f"{use.bytes_per_token:.2f}", "bytes-per-token", "bytes per token", rest)
    if report.texts and others and (cut := _at_common_size(first, others[0], 0)):
        size, share = cut
        rest = f"{report.texts[0].name}, compared with {others[0].name}, at {size:,} ids"
        yield Head(_signed(share), "curve", "tokens", f"of {rest}")
    uses = [use for use in first.uses if use.next is not None]
    if uses:
        use = max(uses, key=lambda use: use.next.saved if use.next else 0.0)
        if use.next is not None:
            rest = f"would save of {use.text.name}, the most of all texts"
            if len(uses) == 1:
                rest = f"would save of {use.text.name}"
            yield Head(_signed(-use.next.saved), "next", f"{use.next.merges:,} more merges", rest)
    if first.gini is not None:
        rest = f"over {len(report.parallel)} languages"
        if others:
            rest += "; " + _listed(f"{each.name} {each.gini:.2f}" for each in others)
        yield Head(f"{first.gini:.2f}", "gini", "Gini", rest)
    elif report.texts:
        share = len(first.never) / first.size
        yield Head(_percent(share), "never", "never used", "ids in any of the texts")
    rest = f"ids, {len(first.partial):,} partial ones"
    yield Head(f"{len(first.unreachable):,}", "unreachable", "unreachable", rest)


class _Findings:
    """The sentence next to each figure."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._first, *self._others = report.vocabularies

    @property
    def compression(self) -> str:
        first = self._first
        if self._others:
            other = self._others[0]
            changes = [
                (ratio(use.tokens, base.tokens) - 1, use.text.name)
                for use, base in zip(first.uses, other.uses, strict=True)
            ]
            parts = [_more_or_fewer(share, f"of {name}") for share, name in changes]
            return f"Compared with {other.name}, {first.name} needs {_listed(parts)}."
        if len(first.uses) == 1:
            use = first.uses[0]
            return f"A token of {use.text.name} has {use.bytes_per_token:.2f} bytes."
        ordered = sorted(first.uses, key=lambda use: -use.bytes_per_token)
        best, worst = ordered[0], ordered[-1]
        return (
            f"A token has the most bytes in {best.text.name}, {best.bytes_per_token:.2f}, and the "
            f"fewest in {worst.text.name}, {worst.bytes_per_token:.2f}."
        )

    @property
    def curve(self) -> str:
        found = []
        if self._others and (cut := _at_common_size(self._first, self._others[0], 0)):
            size, share = cut
            change = _more_or_fewer(share, f"of {self._report.texts[0].name}")
            found.append(
                f"At the same {size:,} ids, {self._first.name} needs {change} than "
                f"{self._others[0].name}."
            )
        gains = [
            f"{gain:.1%} of {use.text.name}"
            for use in self._first.uses
            if (gain := _last_doubling(use)) is not None
        ]
        if gains:
            found.append(f"The last doubling of {self._first.name} saved {_listed(gains)}.")
        return " ".join(found)

    @property
    def languages(self) -> str:
        parts = [
            f"{median(each.parity[1:] or (1.0,)):.1f} times as much with {each.name}"
            for each in self._report.vocabularies
        ]
        first = self._report.parallel[0]
        return f"Compared with {first}, the median language costs {_listed(parts)}."

    @property
    def lengths(self) -> str:
        sizes = f"The median id of {self._first.name} has {_median(self._first.lengths)} bytes"
        if not self._first.uses:
            return f"{sizes}."
        use = self._first.uses[0]
        return f"{sizes}, the median token of {use.text.name} has {_median(use.lengths)}."

    @property
    def use(self) -> str:
        parts = (
            f"{_percent(1 - use.never / self._first.size)} by {use.text.name}"
            for use in self._first.uses
        )
        return f"Of the ids of {self._first.name}, {_listed(parts)} are used."

    @property
    def doubtful(self) -> str:
        found = []
        for each in self._report.vocabularies:
            count = len(each.unreachable)
            if count:
                found.append(f"{count:,} {'id' if count == 1 else 'ids'} of {each.name}")
        if not found:
            names = _listed(each.name for each in self._report.vocabularies)
            return f"Every id of {names} can be reached."
        return f"Neither the texts nor their own bytes give {_listed(found)}."

    @property
    def next(self) -> str:
        parts = [
            f"{_percent(use.next.saved)} of {use.text.name}"
            for use in self._first.uses
            if use.next is not None
        ]
        return f"They would save {_listed(parts)}. A small share means a full vocabulary."

    @property
    def differences(self) -> str:
        size = self._first.size
        parts = [
            f"{each.common:,} ({_percent(ratio(each.common, size))}) are in {each.name}"
            for each in self._report.comparisons
        ]
        return f"Of the {size:,} tokens of {self._first.name}, {_listed(parts)} too."


class Column(NamedTuple):
    """A stretch of text between two common cuts: the tokens of each vocabulary."""

    rows: list[list[bytes]]
    is_same: bool
    most: int
    """The largest number of tokens of a vocabulary."""
    fewest: int


class Passage(NamedTuple):
    """The beginning of a text, as all vocabularies divide it."""

    text: TextFigures
    counts: list[int]
    columns: list[Column]


def _passages(report: Report) -> Iterator[Passage]:
    """Yield the beginning of each text, unless a vocabulary changes it."""
    for place, text in enumerate(report.texts):
        rows = [each.uses[place].sample for each in report.vocabularies]
        if len(rows) > 1 and text.beginning and len({b"".join(row) for row in rows}) == 1:
            columns = [*_shortened(_columns(rows))]
            counts = [
                sum(len(column.rows[number]) for column in columns) for number in range(len(rows))
            ]
            yield Passage(text, counts, columns)


def _shortened(columns: Iterable[Column]) -> Iterator[Column]:
    """Yield the first columns, about as many as a passage has room for."""
    tokens = 0
    for column in columns:
        yield column
        tokens += column.most
        if tokens >= _PASSAGE_TOKENS:
            return


def _columns(rows: Sequence[Sequence[bytes]]) -> Iterator[Column]:
    """Yield the tokens between the cuts that all vocabularies make.

    >>> [column.rows for column in _columns([[b"ab", b"c"], [b"a", b"b", b"c"]])]
    [[[b'ab'], [b'a', b'b']], [[b'c'], [b'c']]]
    """
    ends = [[*accumulate(map(len, row))] for row in rows]
    shared = sorted(set.intersection(*map(set, ends)))
    starts = [0] * len(rows)
    for cut in shared:
        column = []
        for number, row in enumerate(rows):
            end = ends[number].index(cut, starts[number]) + 1
            column.append([*row[starts[number] : end]])
            starts[number] = end
        counts = [*map(len, column)]
        yield Column(column, max(counts) == 1, max(counts), min(counts))


def _curve_data(report: Report) -> str:
    curves = [
        {
            "text": text.name,
            "curves": [
                [each.name, [[size, tokens, text.bytes] for size, tokens in each.uses[place].curve]]
                for each in report.vocabularies
            ],
        }
        for place, text in enumerate(report.texts)
    ]
    return json.dumps(curves, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _at_common_size(
    first: VocabularyFigures, other: VocabularyFigures, place: int
) -> tuple[int, float] | None:
    """Return the largest size of both curves, and the change of tokens from `other` to `first`."""
    tokens, others = dict(first.uses[place].curve), dict(other.uses[place].curve)
    size = max(tokens.keys() & others.keys(), default=0)
    if not size or not others[size]:
        return None
    return size, tokens[size] / others[size] - 1


def _last_doubling(use: Use) -> float | None:
    """Return the share of tokens that a vocabulary saves compared with one of half its size."""
    last, tokens = use.curve[-1]
    before = [count for size, count in use.curve if size * 2 <= last]
    return 1 - tokens / before[-1] if before and before[-1] else None


def _median(lengths: Sequence[tuple[int, int]]) -> int:
    """Return the median of values that come with their counts; 0 without any.

    >>> _median([(1, 3), (5, 1)])
    1
    """
    half = sum(count for _, count in lengths) / 2
    totals = accumulate(count for _, count in lengths)
    return next(
        (length for (length, _), total in zip(lengths, totals, strict=True) if total >= half), 0
    )


def _listed(parts: Iterable[str]) -> str:
    """Return parts as a list in a sentence.

    >>> _listed(["a", "b", "c"])
    'a, b and c'
    """
    *others, last = [*parts] or ["nothing"]
    return f"{', '.join(others)} and {last}" if others else last


def _more_or_fewer(share: float, tokens: str) -> str:
    """Return a change of a number of tokens in words.

    >>> _more_or_fewer(-0.042, "of code"), _more_or_fewer(0, "of code")
    ('4.2% fewer tokens of code', '0% more tokens of code')
    """
    return f"{_percent(abs(share))} {'fewer' if share < 0 else 'more'} tokens {tokens}"


def _signed(share: float) -> str:
    """Return a change in percent, with a sign.

    >>> _signed(-0.042), _signed(0.22)
    ('−4.2%', '+22%')
    """
    return ("−" if share < 0 else "+") + _percent(abs(share))


def _percent(share: float) -> str:
    """Return a share with two digits at least.

    >>> _percent(0.0421), _percent(0.42), _percent(0.996), _percent(1)
    ('4.2%', '42%', '99.6%', '100%')
    """
    needs_digit = 0 < share < 0.0995 or 0.9895 < share < 1
    return f"{share:.1%}" if needs_digit else f"{share:.0%}"


def _size(count: int) -> str:
    """Return a number of bytes.

    >>> _size(999), _size(8_010_894)
    ('999 bytes', '8.0 MB')
    """
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:,} bytes"
