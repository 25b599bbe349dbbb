"""One version of Unicode for all: what the installed `regex` classes otherwise, and stand-ins.

`regex` follows Unicode, so the same pattern may cut a text otherwise after an update of it. Here
the general categories are those of one version, VERSION, that of tiktoken and tokenizers. A
character that the installed `regex` puts into another category (it was added to Unicode later, as
a rule) is replaced, for cutting alone, by one that it puts into the right category.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache
from itertools import accumulate

import regex

from bpetite._unicode_data import RUNS, VERSION

__all__ = ["VERSION", "differs", "with_stand_ins"]

# Characters whose answer is remembered: more than any text of one language has.
_REMEMBERED = 50_000


@cache
def _runs() -> tuple[list[int], list[str]]:
    """Return the first code point of each run of RUNS, and its category."""
    runs = re.findall(r"([A-Z][a-z])(\d+)", RUNS)
    starts = list(accumulate((int(length) for _, length in runs), initial=0))
    return starts[:-1], [name for name, _ in runs]


def _category(character: str) -> str:
    starts, names = _runs()
    return names[bisect_right(starts, ord(character)) - 1]


@cache
def _by_category() -> regex.Pattern[str]:
    """Return a pattern that names the category of a character by the group that matches."""
    names = sorted(set(_runs()[1]))
    return regex.compile("|".join(f"(?P<{name}>\\p{{{name}}})" for name in names))


def _installed_category(character: str) -> str | None:
    match = _by_category().match(character)
    return match.lastgroup if match else None


class _Differs(dict[str, bool]):
    """Whether the installed `regex` puts a character into another category; found when asked."""

    def __missing__(self, character: str) -> bool:
        differs = _installed_category(character) != _category(character)
        if len(self) >= _REMEMBERED:
            self.clear()
        self[character] = differs
        return differs


_differs = _Differs()


def differs(text: str) -> bool:
    """Return whether any character of `text` is classed otherwise by the installed `regex`."""
    return not text.isascii() and any(map(_differs.__getitem__, text))


def with_stand_ins(text: str) -> str:
    """Return `text` with a stand-in for each character of which `differs` is true.

    >>> with_stand_ins("naïve") == "naïve"
    True
    """
    return "".join(_stand_in(_category(c)) if _differs[c] else c for c in text)


@cache
def _stand_in(category: str) -> str:
    """Return a character of a category, the last on which VERSION and `regex` agree."""
    starts, names = _runs()
    ends = [*starts[1:], 0x110000]
    for start, end, name in reversed(list(zip(starts, ends, names, strict=True))):
        if name == category:
            for code in range(end - 1, start - 1, -1):
                if not _differs[chr(code)]:
                    return chr(code)
    raise LookupError(f"no character of the category {category} is known to the installed regex")
