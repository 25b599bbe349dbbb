"""One version of Unicode for all: what the installed `regex` classes otherwise, and stand-ins.

`regex` follows Unicode, so the same pattern may cut a text otherwise after an update of it. Here
the general categories are those of one version, VERSION, that of tiktoken and tokenizers. A
character that the installed `regex` puts into another category (it was added to Unicode later, as
a rule) is replaced, for cutting alone, by one that it puts into the right category.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import accumulate
from unicodedata import is_normalized, lookup, normalize

import regex

from bpetite._unicode_data import RUNS, VERSION

__all__ = ["VERSION", "differs", "in_form_c", "named_characters", "stretches", "with_stand_ins"]

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


def named_characters(pattern: str) -> str:
    r"""Return the characters of a regular expression, with those that it has escapes for.

    >>> named_characters(r"[a-b]\x63\u0064\U00000065\N{DIGIT SEVEN}")
    '[a-b]cde7'
    """
    return _ESCAPE.sub(_unescaped, pattern)


_ESCAPE = re.compile(
    r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|N\{([^}]*)\}|([0-7]{3})|(.))",
    re.DOTALL,
)


def _unescaped(escape: re.Match[str]) -> str:
    *codes, name, octal, _ = escape.groups()
    if octal:
        return chr(int(octal, 8))
    if name:
        try:
            return lookup(name)
        except KeyError:
            return escape[0]
    code = int("".join(filter(None, codes)) or "110000", 16)
    return chr(code) if code < 0x110000 else escape[0]


def stretches(patterns: Iterable[str]) -> list[int]:
    r"""Return where in Unicode a stretch begins in which patterns name no character by itself.

    >>> stretches([r"[b-d]+|\u00e9"])[-4:]
    [125, 233, 234, 1114112]
    """
    named = {ord(character) for character in named_characters("".join(patterns))}
    return sorted({0, 0x110000, *named, *(code + 1 for code in named)})


def with_stand_ins(text: str, starts: Sequence[int] = (0, 0x110000)) -> str:
    """Return `text` with a stand-in for each character of which `differs` is true.

    It is of the same one of the stretches that begin at `starts`, if there is such a character.

    >>> with_stand_ins("naïve") == "naïve"
    True
    """
    return "".join(_stand_in_for(c, starts) if _differs[c] else c for c in text)


def _stand_in_for(character: str, starts: Sequence[int]) -> str:
    place = bisect_right(starts, ord(character))
    return _stand_in(_category(character), starts[place - 1], starts[place])


@cache
def _stand_in(category: str, first: int, stop: int) -> str:
    """Return the last character of a category on which VERSION and `regex` agree.

    It lies from `first` to before `stop`, if any does. It is not Han: no character is that on
    which they differ.
    """
    starts, names = _runs()
    ends = [*starts[1:], 0x110000]
    for start, end, name in reversed(list(zip(starts, ends, names, strict=True))):
        if name == category:
            for code in range(min(end, stop) - 1, max(start, first) - 1, -1):
                if not _differs[chr(code)] and not _HAN.match(chr(code)):
                    return chr(code)
    if (first, stop) != (0, 0x110000):
        return _stand_in(category, 0, 0x110000)
    raise LookupError(f"no character of the category {category} is known to the installed regex")


_HAN = regex.compile(r"\p{Han}")

# The characters since Unicode 9 that a normal form has to do with: those with a combining class,
# or in a decomposition. To tokenizers, whose normal forms are those of Unicode 9, they are as any
# other.
_SINCE_9 = re.compile(
    "(["
    "\u05c8-\u05c9\u07fd\u0897-\u089f\u08ca-\u08d3\u09fe\u0c3c\u0d3b-\u0d3c\u0eba\u1715"
    "\u1abf-\u1af0\u1df6-\u1dfa\ua82c\U000105c9\U000105d2\U000105da\U000105e4"
    "\U00010d24-\U00010d27\U00010d69-\U00010d6d\U00010eab-\U00010eac\U00010ecb-\U00010ecf"
    "\U00010ef0-\U00010efb\U00010efd-\U00010eff\U00010f46-\U00010f50\U00010f82-\U00010f85"
    "\U00011070\U0001133b\U00011382-\U00011385\U0001138b\U0001138e\U00011390-\U00011391"
    "\U000113b8\U000113bb\U000113c2\U000113c5\U000113c7-\U000113c9\U000113ce-\U000113d0"
    "\U0001145e\U00011839-\U0001183a\U00011930\U00011935\U00011938\U0001193d-\U0001193e"
    "\U00011943\U000119e0\U00011a34\U00011a47\U00011a99\U00011d42\U00011d44-\U00011d45"
    "\U00011d97\U00011f41-\U00011f42\U0001611e-\U00016129\U0001612f\U00016d63"
    "\U00016d67-\U00016d6a\U00016ff0-\U00016ff1\U0001d127-\U0001d128\U0001d250-\U0001d252"
    "\U0001d25b-\U0001d25c\U0001d25f\U0001d280-\U0001d281\U0001e08f\U0001e130-\U0001e136"
    "\U0001e2ae\U0001e2ec-\U0001e2ef\U0001e4ec-\U0001e4ef\U0001e5ee-\U0001e5ef\U0001e6e3"
    "\U0001e6e6\U0001e6ee-\U0001e6ef\U0001e6f5"
    "])"
)


def in_form_c(text: str) -> str:
    """Return `text` in normal form C, as tokenizers has it: by Unicode 9.

    >>> in_form_c("e\u0301") == "é"
    True
    """
    if is_normalized("NFC", text):
        return text
    return "".join(normalize("NFC", part) for part in _SINCE_9.split(text))
