"""Patterns in, the same patterns out, with the character classes of one version of Unicode."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from unicodedata import lookup

from bpetite._unicode import stand_in

VERBOSE = r"\(\?[A-Za-z01]*x"
"""The flag x, wherever it is in a pattern: white space and comments are skipped."""


def named_characters(pattern: str) -> str:
    r"""Return the characters of a regular expression, with its escapes replaced.

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


def corrected(pattern: str, characters: frozenset[str]) -> str:
    r"""Return a pattern in which each class has some characters exactly if VERSION says so.

    A class has a character if it has another one of the same category, the stand-in. What names
    the character itself, alone or in a range, stays as it is.

    >>> corrected(r"[a-z\d]+|\p{L}+", frozenset("x"))
    '[a-z\\d]+|\\p{L}+'
    """
    import regex

    flags = regex.compile(pattern).flags & (regex.V0 | regex.V1 | regex.ASCII | regex.IGNORECASE)
    nested = "|(?&set)" if flags & regex.V1 else ""
    comment = r"|#[^\n]*" if re.search(VERBOSE, pattern) else ""
    items = regex.compile(_SET_OR_CLASS.format(nested=nested, comment=comment), regex.DOTALL)

    stand_in_of = {character: stand_in(character) for character in characters}

    def members(part: str, candidates: Iterable[str] = characters) -> set[str]:
        """Return the characters that a class or a set has by the installed `regex`."""
        return set(regex.findall(part, "".join({*candidates}), flags))

    def as_named(each: re.Match[str]) -> str:
        """Return, for the inside of a set, the characters that a class has by VERSION."""
        if not each["kind"]:
            return each[0]
        having = members(f"[{each[0]}]", stand_in_of.values())
        named = _named(c for c, stand_in in stand_in_of.items() if stand_in in having)
        return rf"\p{{Cs}}{named}\p{{Cs}}"  # a "-" beside a class names itself

    def correct(item: Any) -> str:
        if not item["part"]:
            return str(item[0])
        part = item["part"] if item["set"] else f"[{item['part']}]"
        found, right = members(part), members(re.sub(_CLASS, as_named, part, flags=re.DOTALL))
        wanted = f"(?!(?-i:[{_named(found - right)}])){item[0]}" if found - right else item[0]
        more = f"|(?-i:[{_named(right - found)}])" if right - found else ""
        return f"(?:{wanted}{more})" if found != right else wanted

    return items.sub(correct, pattern)


_PROPERTY = r"[pP](?:\{{[^}}]*\}}|.)"
_SET_OR_CLASS = (
    rf"\(\?\#[^)]*\)|(?P<part>\\(?:{_PROPERTY}|[dDsSwW])"
    r"|(?P<set>\[\^?\]?(?:\\(?:N\{{[^}}]*\}}|.)|\[:[^\[\]:]*:\]{nested}|[^\]\\])*\]))"
    r"|\\.{comment}"
)
_CLASS = rf"(?P<kind>\\(?:{_PROPERTY.format()}|[dDsSwW])|\[:[^\[\]:]*:\])|\\."


def _named(characters: Iterable[str]) -> str:
    """Return characters for the inside of a set, neighbours as ranges."""
    named: list[list[int]] = []
    for code in sorted(map(ord, characters)):
        if named and named[-1][1] == code - 1:
            named[-1][1] = code
        else:
            named.append([code, code])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in named)
