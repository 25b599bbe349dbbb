"""Correction of patterns, so that their character classes follow one version of Unicode.

The named patterns are in `_pretokenizer.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple
from unicodedata import lookup

from bpetite._unicode import compile_regex, differing, stand_in, stand_in_by_regex

if TYPE_CHECKING:
    import regex


class Item(NamedTuple):
    """A unit of a pattern, such as a set, a quantifier or the beginning of a group."""

    text: str
    start: int
    kind: str
    """The name of a group of `_item`."""
    flags: str
    """The flags that hold here: the beginnings of the groups around that have flags."""

    def alone(self, text: str) -> str:
        """Return a pattern that reads a text as `regex` would read it in place of this item."""
        return f"{self.flags}{text}{')' * self.flags.count(':')}"


def items(pattern: str) -> list[Item]:
    r"""Return the items of a regular expression, in order.

    >>> [item.text for item in items(r"(?x: [a-z] \p{L}+ # letters")]
    ['(?x:', ' ', '[a-z]', ' ', '\\p{L}', '+', ' ', '# letters']
    """
    found = _items(pattern, "")
    # As `regex` does, read the pattern again once any part of it has the flag V1.
    return _items(pattern, "(?V1)") if any("V1" in item.flags for item in found) else found


def _items(pattern: str, flags: str) -> list[Item]:
    has_nested_sets, is_verbose = bool(flags), False
    outer: list[tuple[str, bool]] = []
    found: list[Item] = []
    start = 0
    while match := _item(has_nested_sets, is_verbose).match(pattern, start):
        kind = str(match.lastgroup)
        found.append(Item(match[kind], start, kind, flags))
        start = match.end()
        if kind == "open":
            outer.append((flags, is_verbose))
        elif kind == "close" and outer:
            flags, is_verbose = outer.pop()
        if changed := _FLAGS.fullmatch(found[-1].text):
            on, off = changed.groups("")
            is_verbose = "x" not in off and (is_verbose or "x" in on)
            flags += "" if flags.endswith(changed[0]) else changed[0]
    return found


@cache
def _item(has_nested_sets: bool, is_verbose: bool) -> regex.Pattern[str] | re.Pattern[str]:
    """Return a pattern of one item. Its matching group is named after the kind.

    An item is unclear if white space or comments may be inside, if `regex` reads it differently in
    its versions (a comment with a backslash), or if it is a rare set.
    """
    space = rf"(?:[{_SPACE}]|#[^\n]*+)" if is_verbose else "(?!)"
    divided = rf"\(\?|\\[pP](?:[{_SPACE}#]|\{{[^}}]*[{_SPACE}#])" if is_verbose else "(?!)"
    member, rare = r"[^\]\\]", "(?!)"
    if has_nested_sets:
        member, rare = r"(?&set)|(?!(?:--|&&|\|\||~~)\])[^\[\]\\]", r"\["
    counts = rf"\{{(?!{space}*+\}})(?:\d|{space})*+(?:,(?:\d|{space})*+)?\}}"
    # Only `regex` can recurse. Its import takes longer than to read most vocabularies' patterns.
    return (compile_regex if has_nested_sets else re.compile)(
        rf"(?s)(?P<skipped>\(\?\#[^)\\]*+\)|{space})"
        r"|(?P<recursion>\\K|\(\?(?:R|[+-]?\d|&|P[>&]))"
        rf"|(?P<flags>\(\?(?!\)){_FLAG}*(?:-{_FLAG}+)?\))"
        rf"|(?P<open>\((?!\?)|\(\?(?:{_FLAG}*(?:-{_FLAG}+)?:|(?=\()|<[=!]|[=!|<>]|P[<=]))"
        r"|(?P<close>\))"
        rf"|(?P<repeat>(?:[*+?]|{counts})(?:{space}*+\+)?)"
        rf"|(?P<class>(?!{divided}){_CLASS})"
        rf"|(?P<set>\[\^?\]?(?:\\.|{_POSIX}|{member})*+\])"
        rf"|(?P<unclear>\(\?\#|{divided}|{rare})"
        r"|(?P<other>\\N\{[A-Za-z0-9 -]*\}|\\.|.)"
    )


_SPACE = r"\s\x1c-\x1f"  # by str.isspace
_FLAG = "(?:[abefiLmprsuwx]|V[01])"
_FLAGS = re.compile(rf"\(\?({_FLAG}*)(?:-({_FLAG}+))?[:)]")
_CLASS = r"\\(?:[pP](?:\{\^?[A-Za-z0-9 &_.:=/-]*\}|[A-Za-z])|[dDsSwW])"
_POSIX = r"\[:[^\[\]:]*:\]"


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


@lru_cache(maxsize=1 << 8)
def _compiled(pattern: str, characters: frozenset[str]) -> regex.Pattern[str]:
    return compile_regex(corrected(pattern, characters) if characters else pattern)


def exact_regex(pattern: str, text: str) -> regex.Pattern[str]:
    r"""Return a pattern compiled so that it reads a text by the categories of one Unicode version.

    >>> exact_regex(r"\p{Lu}", "aB").findall("aB")
    ['B']
    """
    return _compiled(pattern, differing(text))


def corrected(pattern: str, characters: frozenset[str]) -> str:
    r"""Return a pattern in which each class has some characters exactly if VERSION says so.

    A class has a character if it has another one of the same category, the stand-in. A script has
    what it has by the installed `regex`. What names the character itself, alone or in a range,
    stays as it is.

    >>> corrected(r"[a-z\d]+|\p{L}+", frozenset("x"))
    '[a-z\\d]+|\\p{L}+'
    """
    stand_ins = {each: (stand_in(each), stand_in_by_regex(each)) for each in characters}
    moved = (each for each, (_, other) in stand_ins.items() if other)
    samples = "".join({*moved, *chain.from_iterable(stand_ins.values())})
    return "".join(
        _corrected(item, stand_ins, samples) if item.kind in ("class", "set") else item.text
        for item in items(pattern)
    )


def _corrected(item: Item, stand_ins: dict[str, tuple[str, str]], samples: str) -> str:
    """Return a class or a set that has some characters exactly if VERSION says so.

    `samples` are the characters whose membership tells this.
    """

    def members(part: str, candidates: str) -> set[str]:
        return {*compile_regex(item.alone(part)).findall(candidates)}

    def as_named(each: re.Match[str]) -> str:
        """Return, for the inside of a set, the characters that a class has by VERSION."""
        if not each["kind"]:
            return each[0]
        having = members(f"[{each[0]}]", samples)
        named = _named(
            character
            for character, (ours, other) in stand_ins.items()
            # A class that has both stand-ins, or neither, does not depend on the category.
            if (character if other and (ours in having) == (other in having) else ours) in having
        )
        return rf"\p{{Cs}}{named}\p{{Cs}}"  # a "-" next to a class stands for itself

    part = item.text if item.kind == "set" else f"[{item.text}]"
    named = _CLASS_IN_SET.sub(as_named, part)
    found, right = (members(each, "".join(stand_ins)) for each in (part, named))
    wanted = f"(?!(?-i:[{_named(found - right)}])){item.text}" if found - right else item.text
    more = f"|(?-i:[{_named(right - found)}])" if right - found else ""
    return f"(?:{wanted}{more})" if found != right else wanted


_CLASS_IN_SET = re.compile(rf"(?P<kind>{_CLASS}|{_POSIX})|\\.", re.DOTALL)


def _named(characters: Iterable[str]) -> str:
    named: list[list[int]] = []
    for code in sorted(map(ord, characters)):
        if named and named[-1][1] == code - 1:
            named[-1][1] = code
        else:
            named.append([code, code])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in named)
