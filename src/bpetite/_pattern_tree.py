"""Patterns as trees over sets of characters: what an automaton needs to know of a pattern.

A set is the code points of one version of Unicode, in ascending ranges. So whoever follows a tree
needs neither a table of categories nor the syntax of `regex`.
"""

from __future__ import annotations

import re
from typing import Any

from bpetite._unicode import category_ranges
from bpetite._unicode.byte_characters import to_characters
from bpetite._unicode.patterns import Item, items, named_characters

Ranges = tuple[tuple[int, int], ...]
"""Code points: the first and the last of each range, in ascending order and not adjacent."""

Node = tuple[Any, ...]
"""A node of a pattern: the name of its kind, and its parts.

    ("set", number)                       a character of a set
    ("sequence", nodes)                   all nodes in a row
    ("either", nodes)                     the first of the nodes that leads to a match
    ("repeat", node, min, max, is_lazy)   as many as possible, or as few; `max` may be None
    ("next", number, is_negative)         the next character, which is not read, is of a set or not
    ("ahead", node, is_negative)          the text that follows, which is not read, matches or not
"""

_LAST = 0x10FFFF

# `\s`, the property White_Space.
SPACE: Ranges = (
    (9, 13), (0x20, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A),
    (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000),
)  # fmt: skip

# The script Han.
_HAN: Ranges = (
    (0x2E80, 0x2E99), (0x2E9B, 0x2EF3), (0x2F00, 0x2FD5), (0x3005, 0x3005), (0x3007, 0x3007),
    (0x3021, 0x3029), (0x3038, 0x303B), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFA6D),
    (0xFA70, 0xFAD9), (0x16FE2, 0x16FE3), (0x16FF0, 0x16FF1), (0x20000, 0x2A6DF),
    (0x2A700, 0x2B739), (0x2B740, 0x2B81D), (0x2B820, 0x2CEA1), (0x2CEB0, 0x2EBE0),
    (0x2EBF0, 0x2EE5D), (0x2F800, 0x2FA1D), (0x30000, 0x3134A), (0x31350, 0x323AF),
)  # fmt: skip

# Letters of ASCII that have a third case: the long s and the sign of kelvin.
_THIRD_CASES = {"s": "\u017f", "k": "\u212a"}

_MAX_COUNT = 1000


class NoTreeError(ValueError):
    """A pattern with something that no automaton can follow; the message is the reason."""


def pattern_tree(pattern: str) -> tuple[Node, list[Ranges]]:
    r"""Return the tree of a portable pattern, and its sets.

    >>> tree, sets = pattern_tree(r"a|[^\n]+")
    >>> tree
    ('either', (('set', 0), ('repeat', ('set', 1), 1, None, False)))
    >>> sets
    [((97, 97),), ((0, 9), (11, 1114111))]

    Raises NoTreeError, with the reason.
    """
    return _Parser(pattern).parsed()


def byte_tree(pattern: str) -> tuple[Node, list[Ranges]]:
    """Return the tree of a pattern that splits byte characters, and its sets of bytes."""
    tree, sets = pattern_tree(pattern)
    codes = [*map(ord, to_characters(bytes(range(256))))]

    def of_bytes(ranges: Ranges) -> Ranges:
        return union(
            *(
                ((byte, byte),)
                for byte, code in enumerate(codes)
                if any(first <= code <= last for first, last in ranges)
            )
        )

    return tree, [*map(of_bytes, sets)]


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._items = [item for item in items(pattern) if item.kind != "skipped"]
        self._at = 0
        self._number_of: dict[Ranges, int] = {}

    def parsed(self) -> tuple[Node, list[Ranges]]:
        node = self._either()
        if self._at < len(self._items):
            raise NoTreeError("a parenthesis is not balanced")
        if any("(?<" in item.text for item in self._items):
            node = self._without_look_behind(node, None)
        return node, [*self._number_of]

    def _peek(self) -> Item | None:
        return self._items[self._at] if self._at < len(self._items) else None

    def _set(self, ranges: Ranges) -> int:
        return self._number_of.setdefault(ranges, len(self._number_of))

    def _either(self) -> Node:
        nodes = [self._sequence()]
        while (item := self._peek()) and item.text == "|":
            self._at += 1
            nodes.append(self._sequence())
        return nodes[0] if len(nodes) == 1 else ("either", tuple(nodes))

    def _sequence(self) -> Node:
        nodes = list[Node]()
        while (item := self._peek()) and item.text != "|" and item.kind != "close":
            node = self._repeated(self._atom(item))
            if node[0] == "set" and nodes and nodes[-1][0] == "next":
                node = "set", self._both(node[1], *nodes.pop()[1:])
            nodes.append(node)
        return nodes[0] if len(nodes) == 1 else ("sequence", tuple(nodes))

    def _atom(self, item: Item) -> Node:
        self._at += 1
        if item.kind != "open":
            return "set", self._set(_characters(item))
        if item.text not in ("(", "(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!"):
            raise NoTreeError(f"it has a group {item.text}...)")
        node = self._either()
        closing = self._peek()
        if closing is None:
            raise NoTreeError("a parenthesis is not balanced")
        self._at += 1
        if item.text not in ("(?=", "(?!", "(?<=", "(?<!"):
            return node
        number, is_negative = self._one_character(node), item.text.endswith("!")
        if item.text.startswith("(?<"):
            if number is None:
                raise NoTreeError("it looks behind at more than one character")
            return "behind", number, is_negative
        return ("ahead", node, is_negative) if number is None else ("next", number, is_negative)

    def _without_look_behind(self, node: Node, before: Ranges | None) -> Node:
        """Return a node without look-behinds.

        `before` are the characters that may precede it, None if that may be any or none. They
        decide what a look-behind sees, or NoTreeError is raised.
        """
        match node:
            case "behind", number, is_negative:
                ranges = [*self._number_of][number]
                if before is not None and union(ranges, before) == ranges:
                    return _NEVER if is_negative else _NOTHING
                if before is not None and union(_inverse(ranges), before) == _inverse(ranges):
                    return _NOTHING if is_negative else _NEVER
                raise NoTreeError("it looks behind")
            case "sequence", nodes:
                found = []
                for each in nodes:
                    found.append(self._without_look_behind(each, before))
                    before = self._last_of(each, before)
                return "sequence", tuple(found)
            case "either", nodes:
                return "either", tuple(self._without_look_behind(each, before) for each in nodes)
            case "repeat", inner, *counts:
                before = _any_of(before, self._last_of(inner, before))
                return "repeat", self._without_look_behind(inner, before), *counts
            case "ahead", inner, is_negative:
                return "ahead", self._without_look_behind(inner, before), is_negative
        return node

    def _last_of(self, node: Node, before: Ranges | None) -> Ranges | None:
        """Return the characters that may be the last one after a node, as of `before`."""
        match node:
            case "set", number:
                return [*self._number_of][number]
            case "sequence", nodes:
                for each in nodes:
                    before = self._last_of(each, before)
                return before
            case "either", nodes:
                return _any_of(*(self._last_of(each, before) for each in nodes))
            case "repeat", inner, low, *_:
                last = self._last_of(inner, before)
                return last if low else _any_of(before, last)
        return before

    def _both(self, number: int, other: int, is_negative: bool) -> int:
        """Return the characters of a set that are in another one, or are not."""
        sets = [*self._number_of]
        excluded = sets[other] if is_negative else _inverse(sets[other])
        return self._set(_inverse(union(_inverse(sets[number]), excluded)))

    def _one_character(self, node: Node) -> int | None:
        """Return the set of a node that is one character, else None."""
        if node[0] == "set":
            return int(node[1])
        if node[0] != "either":
            return None
        numbers = [self._one_character(each) for each in node[1]]
        sets = [*self._number_of]
        members = [sets[number] for number in numbers if number is not None]
        return self._set(union(*members)) if len(members) == len(numbers) else None

    def _repeated(self, node: Node) -> Node:
        item = self._peek()
        if item is None or item.kind != "repeat":
            return node
        self._at += 1
        if node[0] in ("next", "ahead", "behind"):
            raise NoTreeError("it repeats a look-ahead")
        text = item.text
        is_possessive = text[-1] == "+" and len(text) > 1
        text = text[:-1].rstrip() if is_possessive else text
        low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(text) or _counts(text)
        following = self._peek()
        is_lazy = following is not None and following.text == "?"
        if following is not None and following.kind == "repeat":
            self._at += 1
            if not is_lazy:
                raise NoTreeError(f"it has {text}{following.text}")
        if not least_characters(node):
            raise NoTreeError("it repeats what may be empty")
        if is_possessive:
            return _possessive(node, low, high)
        return "repeat", node, low, high, is_lazy


_NOTHING: Node = ("sequence", ())
_NEVER: Node = ("either", ())


def _any_of(*sets: Ranges | None) -> Ranges | None:
    """Return the characters of all sets; None if one of them is any character, or none."""
    known = [ranges for ranges in sets if ranges is not None]
    return union(*known) if len(known) == len(sets) else None


def _possessive(node: Node, low: int, high: int | None) -> Node:
    """Return a repetition that gives nothing back: fewer than possible only if no more follow."""
    if node[0] != "set":
        raise NoTreeError("it has a possessive quantifier of more than one character")
    no_more = ("next", node[1], True)
    if high is None:
        return "sequence", (("repeat", node, low, None, False), no_more)
    counts = range(high, low - 1, -1)
    repeats = [("repeat", node, count, count, False) for count in counts]
    return "either", (repeats[0], *(("sequence", (each, no_more)) for each in repeats[1:]))


def _counts(text: str) -> tuple[int, int | None]:
    low, comma, high = text[1:-1].partition(",")
    least, most = int(low or 0), int(high) if high else None if comma else int(low)
    if max(least, most or 0) > _MAX_COUNT:
        raise NoTreeError(f"it repeats more than {_MAX_COUNT} times")
    if most is not None and most < least:
        raise NoTreeError(f"it repeats at least {least} and at most {most} times")
    return least, most


def least_characters(node: Node) -> int:
    """Return the fewest characters that a match has.

    >>> least_characters(pattern_tree("a+b?|cd")[0])
    1
    """
    match node:
        case "set", _:
            return 1
        case "sequence", nodes:
            return sum(map(least_characters, nodes))
        case "either", nodes:
            return min(map(least_characters, nodes), default=1)  # without a node, nothing matches
        case "repeat", inner, low, *_:
            return least_characters(inner) * int(low)
        case _:
            return 0


def _characters(item: Item) -> Ranges:
    """Return the characters that an item matches, one of them at a time."""
    flags = {*re.findall(r"\(\?([^):]*)", item.flags)}
    if flags - {"", "i"}:
        raise NoTreeError("it has flags")
    if item.kind == "class":
        if "i" in flags:
            raise NoTreeError("it has a class without case")
        return _of_class(item.text)
    if item.kind == "set":
        return _without_case(_of_set(item.text)) if "i" in flags else _of_set(item.text)
    if item.kind != "other":
        raise NoTreeError(f"it has {item.text}")
    if item.text == ".":
        return _inverse(_of("\n"))
    if item.text in ("^", "$"):
        raise NoTreeError(f"it has {item.text}")
    ranges = _of(_of_escape(item.text))
    return _without_case(ranges) if "i" in flags else ranges


def _without_case(ranges: Ranges) -> Ranges:
    """Return the characters of some ranges in any case."""
    characters = [chr(code) for first, last in ranges for code in range(first, min(last, 0x80) + 1)]
    if ranges[-1][1] >= 0x80 or {*"iI"} & {*characters}:
        raise NoTreeError("it has other letters than those of ASCII, or i, without case")
    cases = (
        each.lower() + each.upper() + _THIRD_CASES.get(each.lower(), "") for each in characters
    )
    return _of("".join(cases))


def _of_escape(text: str) -> str:
    """Return the character that an item other than a class or a set matches."""
    if len(text) > 1 and re.match(r"\\[A-Za-z0-9]", text) and not _IS_CODE.match(text):
        known = _ESCAPES.get(text)
        if known is None:
            raise NoTreeError(f"it has {text}")
        return known
    return named_characters(text)[-1]  # without the backslash of a symbol


_ESCAPES = {
    r"\n": "\n", r"\r": "\r", r"\t": "\t", r"\f": "\f", r"\v": "\v", r"\a": "\a"
}  # fmt: skip
_IS_CODE = re.compile(r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|N\{)")


def _of_class(text: str) -> Ranges:
    r"""Return the characters of `\s`, `\d`, `\p{L}` and their like."""
    if text[1] in "sS":
        ranges = SPACE
    elif text[1] in "dD":
        ranges = category_ranges("Nd")
    elif text in (r"\p{Han}", r"\P{Han}"):
        ranges = _HAN
    elif text[1] in "pP":
        name = text[2:].strip("{}")
        if name.startswith("^"):
            raise NoTreeError(f"it has {text}")
        ranges = category_ranges(name)
        if not ranges:
            raise NoTreeError(f"it has {text}, which is no general category")
    else:
        raise NoTreeError(rf"it has {text}, which engines read differently")
    return _inverse(ranges) if text[1] in "SDP" else ranges


_MEMBER = re.compile(
    r"(?P<class>\\(?:[pP](?:\{[^}]*\}|[A-Za-z])|[dDsSwW]))|(?P<posix>\[:[^\[\]:]*:\])"
    r"|(?P<escape>\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|N\{[^}]*\}|.))|(?P<other>.)",
    re.DOTALL,
)


def _of_set(text: str) -> Ranges:
    """Return the characters of a set in brackets."""
    is_negative = text.startswith("[^")
    inside = text[2 if is_negative else 1 : -1]
    members = [*_MEMBER.finditer(inside)]
    found: list[Ranges] = []
    at = 0
    while at < len(members):
        member = members[at]
        at += 1
        if member["posix"]:
            raise NoTreeError(f"it has {member[0]}")
        if member["class"]:
            found.append(_of_class(member["class"]))
            continue
        first = _of_escape(member[0])
        is_range = at + 1 < len(members) and members[at][0] == "-" and not members[at + 1]["class"]
        if is_range:
            last = _of_escape(members[at + 1][0])
            at += 2
            if ord(last) < ord(first):
                raise NoTreeError(f"it has the range {first!r} to {last!r}")
            found.append(((ord(first), ord(last)),))
        else:
            found.append(_of(first))
    ranges = _inverse(union(*found)) if is_negative else union(*found)
    if not ranges:
        raise NoTreeError(f"it has {text}, a set of nothing, which `regex` takes for a full one")
    return ranges


def _of(characters: str) -> Ranges:
    return union(*(((code, code),) for code in map(ord, characters)))


def union(*sets: Ranges) -> Ranges:
    """Return the code points of all sets."""
    joined: list[list[int]] = []
    for first, last in sorted(each for ranges in sets for each in ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1][1] = max(joined[-1][1], last)
        else:
            joined.append([first, last])
    return tuple((first, last) for first, last in joined)


def _inverse(ranges: Ranges) -> Ranges:
    """Return all other code points."""
    ends = [-1, *(code for each in ranges for code in each), _LAST + 1]
    gaps = zip(ends[::2], ends[1::2], strict=True)
    return tuple((before + 1, behind - 1) for before, behind in gaps if before + 1 < behind)
