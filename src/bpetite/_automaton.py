r"""The automaton of a pattern: where pieces always end, and which patterns are equal.

The automaton reads classes of characters: all characters of a class are in the same sets of the
pattern. A state is the list of all ways in which a backtracking matcher could continue, the
preferred one first. Each step sees the class of the next character, so it can decide a look-ahead,
and whether a match ends before the character. Ways after one that matches are dropped, so the last
end on the way is the end of the match. Rust has the same automaton: `split/automaton/matcher.rs`.

# Safe splits

Between a character of class A and one of class B, a text may be split before the pattern runs, if

1. no state after A continues with B: no match crosses the place, not even one that fails later;
2. each of these states ends a match before B exactly if it does at the end of the text;
3. a match always begins with A or with B, if no match before has A: no gap between matches crosses.

By 1 and 3, a piece ends there. By 2, matches of the first side alone end where they do in the text.
A pattern never looks at characters before its match, so the second side alone has the same pieces.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import compress, pairwise
from typing import NamedTuple

from bpetite._pattern_tree import SPACE, Node, NoTreeError, Ranges, pattern_tree, union

_DEAD = -1
_START = 0
_MAX_PLACES = 20_000
_MAX_ADDED = 3 * _MAX_PLACES  # places, groups and repetitions
_MAX_STATES = 4000
_MAX_VISITS = 400_000  # of places: it bounds the time
_MAX_CLASSES = 200
_MAX_COMPARED_STATES = 200  # of patterns that may be equal: it bounds the time

_ASCII = ((0, 0x7F),)
_NEWLINES = ((10, 10), (13, 13))

# Kinds of characters are printable characters of ASCII: `str.translate` is fastest with them.
_FIRST_KIND = 0x21
_MAX_KINDS = 90

# The first window of a text in which splits are searched.
_WINDOW_CHARACTERS = 1 << 6


class _Way(NamedTuple):
    next: int
    """The state after the character, or _DEAD."""
    accepts: bool
    """Whether a match ends before the character, if the way leads to no later end."""


class Automaton:
    """The automaton of a match of one pattern.

    Raises NoTreeError for a pattern that it cannot follow, with the reason.
    """

    def __init__(self, pattern: str, max_states: int = _MAX_STATES) -> None:
        tree, sets = pattern_tree(pattern)
        classes = _classes([*sets, SPACE, _ASCII, _NEWLINES])
        kinds = range(len(sets), len(sets) + 3)
        self._is_space, self._is_ascii, self._is_newline = (
            [kind in is_in for is_in in classes] for kind in kinds
        )
        self._classes = [union(*each) for each in classes.values()]
        places = _Places()
        states: list[tuple[int, ...]] = [(places.add(tree, _Places.MATCH),)]
        number_of: dict[tuple[int, ...], int] = {states[0]: _START}
        # By state and class; after the last class comes the end of the text.
        self._ways: list[list[_Way]] = []
        while len(self._ways) < len(states):
            row = []
            for is_in in (*classes, frozenset[int]()):
                then, accepts = places.after(states[len(self._ways)], is_in)
                if then and then not in number_of:
                    number_of[then] = len(states)
                    states.append(then)
                row.append(_Way(number_of[then] if then else _DEAD, accepts))
                if len(states) > max_states or places.visits > _MAX_VISITS:
                    raise NoTreeError("its automaton would be too large")
            self._ways.append(row)
        if any(way.accepts for way in self._ways[_START]):
            raise NoTreeError("it can match the empty string")
        self._sure = self._sure_states()

    def _sure_states(self) -> list[bool]:
        """Return the states from which a match ends further on, whatever follows."""
        sure = [True] * len(self._ways)
        while True:
            now = [
                is_sure and all(accepts or (next != _DEAD and sure[next]) for next, accepts in row)
                for is_sure, row in zip(sure, self._ways, strict=True)
            ]
            if now == sure:
                return sure
            sure = now

    def _begins(self, number: int) -> bool:
        """Return whether each match that begins with a character of a class has an end."""
        next = self._ways[_START][number].next
        return next != _DEAD and self._sure[next]

    def matches_all(self) -> bool:
        """Return whether the pattern leaves no text between its matches."""
        return all(map(self._begins, range(len(self._classes))))

    def safe_splits(self, normalized: bool = False) -> SafeSplits:
        """Return where a text may be split before the pattern runs.

        If a normalizer runs before the pattern, it may join a character to the one before, and so
        change the class of either. White space, and ASCII after a newline, stay unchanged.
        """
        count = len(self._classes)
        behind = []
        for before in range(count):
            states = {row[before].next for row in self._ways} - {_DEAD}
            safe = {each for each in range(count) if self._begins(before) or self._begins(each)}
            for row in map(self._ways.__getitem__, states):
                end = _Way(_DEAD, row[count].accepts)
                safe = {each for each in safe if row[each] == end}
            behind.append(frozenset(safe))
        if normalized:
            letters = [
                safe for safe, is_space in zip(behind, self._is_space, strict=True) if not is_space
            ]
            spaces = frozenset.intersection(*letters) & {*compress(range(count), self._is_space)}
            ascii = frozenset(compress(range(count), self._is_ascii))
            for number, is_space in enumerate(self._is_space):
                behind[number] &= (
                    spaces if not is_space else ascii if self._is_newline[number] else frozenset()
                )
        return SafeSplits(self._classes, behind)

    def reads_alike(self, first: str, second: str) -> bool:
        """Return whether no match tells two characters apart."""
        one, other = (
            next(
                number
                for number, ranges in enumerate(self._classes)
                if any(start <= ord(character) <= end for start, end in ranges)
            )
            for character in (first, second)
        )
        return all(row[one] == row[other] for row in self._ways)

    def canonical(self) -> tuple[object, ...]:
        """Return a value that two patterns share exactly if they match alike in every text.

        It has the states and the classes that some text tells apart, in the order in which a
        search from the first state reaches them.
        """
        lives = self._living_states()
        ways = [
            [
                # An end is none if a later one always follows.
                _Way(next, accepts and not self._sure[next])
                if next != _DEAD and lives[next]
                else _Way(_DEAD, accepts)
                for next, accepts in row
            ]
            for row in self._ways
        ]
        group_of, count, rows = [0] * len(ways), 0, list[tuple[_Way, ...]]()
        while True:
            numbers: dict[object, int] = {}
            rows = [
                tuple(_Way(next if next == _DEAD else group_of[next], end) for next, end in row)
                for row in ways
            ]
            group_of = [
                numbers.setdefault(each, len(numbers)) for each in zip(group_of, rows, strict=True)
            ]
            if len(numbers) == count:
                break
            count = len(numbers)
        row_of = dict(zip(group_of, rows, strict=True))
        members: dict[tuple[_Way, ...], list[Ranges]] = {}
        *columns, _ = zip(*row_of.values(), strict=True)
        for column, ranges in zip(columns, self._classes, strict=True):
            members.setdefault(column, []).append(ranges)
        order = sorted(members, key=lambda column: min(members[column]))
        places = [*map(columns.index, order), len(columns)]
        found = {group_of[_START]: 0}
        table = list[list[tuple[int, bool]]]()
        while len(table) < len(found):
            row = row_of[[*found][len(table)]]
            table.append(
                [
                    (next if next == _DEAD else found.setdefault(next, len(found)), end)
                    for next, end in map(row.__getitem__, places)
                ]
            )
        return [union(*members[column]) for column in order], table

    def _living_states(self) -> list[bool]:
        """Return the states from which a match may end further on."""
        lives = [False] * len(self._ways)
        while True:
            now = [
                any(accepts or (next != _DEAD and lives[next]) for next, accepts in row)
                for row in self._ways
            ]
            if now == lives:
                return lives
            lives = now


class Splits:
    """Where texts may be split, by the two characters around each place."""

    def find(self, text: str) -> Iterator[int]:
        """Yield the places where a text may be split, in order."""
        raise NotImplementedError

    # Most callers want a place near one end, so the text is searched in windows, which overlap by a
    # character because a place may be between two.

    def first(self, text: str, start: int, end: int) -> int:
        """Return the first place where `text[start:end]` may be split, `end` without one."""
        size = _WINDOW_CHARACTERS
        while start < end - 1:
            stop = min(start + size, end)
            for at in self.find(text[start:stop]):
                return start + at
            start, size = stop - 1, 2 * size
        return end

    def last(self, text: str, start: int, end: int) -> int:
        """Return the last place where `text[start:end]` may be split, `start` without one."""
        size = _WINDOW_CHARACTERS
        while start < end - 1:
            begin = max(end - size, start)
            if found := [*self.find(text[begin:end])]:
                return begin + found[-1]
            end, size = begin + 1, 2 * size
        return start


class SafeSplits(Splits):
    r"""The places where a text may be split before a pattern runs.

    >>> splits = Automaton(r" ?\p{L}+|\p{N}+|\s+(?!\S)|\s+").safe_splits()
    >>> [*splits.find("so 12  ok")], splits.first("so 12  ok", 0, 2)
    ([2, 5], 2)
    """

    def __init__(self, classes: Sequence[Ranges], behind: Sequence[frozenset[int]]) -> None:
        """`behind` has, for each class, the classes on the other side of a safe split."""
        rows: dict[object, list[int]] = {}
        for number, safe in enumerate(behind):
            column = tuple(number in each for each in behind)
            rows.setdefault((safe, column), []).append(number)
        kind_of = {number: kind for kind, each in enumerate(rows.values()) for number in each}
        self.has_any: bool = any(behind) and len(rows) <= _MAX_KINDS
        self.firsts = sorted(
            (first, kind_of[number]) for number, each in enumerate(classes) for first, _ in each
        )
        """The first code point of each range, in order, and its kind."""
        self.after = [{kind_of[number] for number in behind[each[0]]} for each in rows.values()]
        """For each kind of character before a split, the kinds after it."""
        self._kinds = _Kinds(self.firsts)
        pairs: dict[str, list[str]] = {}
        for kind, others in enumerate(self.after):
            if others:
                pairs.setdefault("".join(map(_letter, sorted(others))), []).append(_letter(kind))
        self._split = re.compile(
            "|".join(
                f"[{re.escape(''.join(before))}](?=[{re.escape(after)}])"
                for after, before in pairs.items()
            )
        )

    def find(self, text: str) -> Iterator[int]:
        """Yield the safe splits of a text."""
        return (match.end() for match in self._split.finditer(text.translate(self._kinds)))


def _letter(kind: int) -> str:
    """Return what stands for a character of a kind in a text that `re` searches."""
    return chr(_FIRST_KIND + kind)


class _Kinds(dict[int, str]):
    """The kind of each code point, looked up once: a table for `str.translate`."""

    def __init__(self, firsts: Sequence[tuple[int, int]]) -> None:
        """`firsts` has the first code point of each range, in order, and its kind."""
        self._firsts = [first for first, _ in firsts]
        self._kinds = [_letter(kind) for _, kind in firsts]

    def __missing__(self, code: int) -> str:
        kind = self[code] = self._kinds[bisect_right(self._firsts, code) - 1]
        return kind


def _classes(sets: list[Ranges]) -> dict[frozenset[int], list[Ranges]]:
    """Return the code points of each class, by the numbers of the sets that it is in."""
    borders: dict[int, list[int]] = {0: []}
    for number, ranges in enumerate(sets):
        for first, last in ranges:
            borders.setdefault(first, []).append(number)
            borders.setdefault(last + 1, []).append(number)
    classes: dict[frozenset[int], list[Ranges]] = {}
    is_in: set[int] = set()
    codes = [*sorted(borders), 0x110000]
    for first, end in pairwise(codes):
        is_in.symmetric_difference_update(borders[first])
        if first < end:
            classes.setdefault(frozenset(is_in), []).append(((first, end - 1),))
            if len(classes) > _MAX_CLASSES:
                raise NoTreeError(f"it tells more than {_MAX_CLASSES} classes of characters apart")
    return classes


class _Places:
    """A pattern as places, and the ways between them.

    A place is ("set", number, then), ("next", number, is_negative, then) or ("either", places).
    """

    MATCH = 0

    def __init__(self) -> None:
        self._places: list[Node] = [("match",)]
        self._added = 0
        self.visits = 0

    def add(self, node: Node, then: int) -> int:
        """Add a node that leads to the place `then`; return its first place."""
        self._added += 1  # some add no place, such as an empty alternative
        if self._added > _MAX_ADDED:
            raise NoTreeError(f"it has more than {_MAX_ADDED} parts with its counts written out")
        match node:
            case ("set", number):
                return self._push(("set", number, then))
            case ("next", number, is_negative):
                return self._push(("next", number, is_negative, then))
            case ("sequence", nodes):
                for each in reversed(nodes):
                    then = self.add(each, then)
                return then
            case ("either", nodes):
                return self._push(("either", tuple(self.add(each, then) for each in nodes)))
            case ("ahead", *_):
                raise NoTreeError("it looks ahead at more than one character")
            case ("repeat", inner, low, high, is_lazy):
                return self._add_repeat(inner, low, high, is_lazy, then)
        raise AssertionError(node)

    def _add_repeat(self, node: Node, low: int, high: int | None, is_lazy: bool, then: int) -> int:
        def either(go_on: int) -> Node:
            return "either", (then, go_on) if is_lazy else (go_on, then)

        first = then
        if high is None:
            first = self._push(("match",))
            self._places[first] = either(self.add(node, first))
        else:
            for _ in range(high - low):
                first = self._push(either(self.add(node, first)))
        for _ in range(low):
            first = self.add(node, first)
        return first

    def _push(self, place: Node) -> int:
        if len(self._places) >= _MAX_PLACES:
            raise NoTreeError(f"it has more than {_MAX_PLACES} items with its counts written out")
        self._places.append(place)
        return len(self._places) - 1

    def after(self, state: tuple[int, ...], is_in: frozenset[int]) -> tuple[tuple[int, ...], bool]:
        """Return the places after a character in some sets, and whether a match ends before it.

        The end of the text is in no set.
        """
        then: dict[int, None] = {}
        seen: set[int] = set()
        waiting = [*reversed(state)]
        while waiting:
            number = waiting.pop()
            if number in seen:
                continue
            seen.add(number)
            self.visits += 1
            match self._places[number]:
                case ("set", each, following):
                    if each in is_in:
                        then[following] = None
                case ("next", each, is_negative, following):
                    if (each in is_in) != is_negative:
                        waiting.append(following)
                case ("either", places):
                    waiting += reversed(places)
                case _:
                    return tuple(then), True
        return tuple(then), False


@lru_cache(maxsize=64)
def automaton_of(pattern: str, max_states: int = _MAX_STATES) -> Automaton | None:
    """Return the automaton of a pattern; None if it has none with so few states."""
    if max_states > _MAX_COMPARED_STATES and (small := automaton_of(pattern, _MAX_COMPARED_STATES)):
        return small
    try:
        return Automaton(pattern, max_states)
    except NoTreeError:
        return None


@lru_cache(maxsize=64)
def digest_of(pattern: str) -> str | None:
    """Return a text that equal patterns share, and others do not; None if it is not known."""
    automaton = automaton_of(pattern, _MAX_COMPARED_STATES)
    if automaton is None:
        return None
    canonical = automaton.canonical()
    from hashlib import blake2b  # its import takes longer than that of this module

    return blake2b(repr(canonical).encode(), digest_size=8).hexdigest()


@lru_cache(maxsize=64)
def safe_splits_of(pattern: str, normalized: bool = False) -> SafeSplits | None:
    """Return where a text may be split before a pattern runs; None if no such place is known."""
    automaton = automaton_of(pattern)
    found = automaton.safe_splits(normalized) if automaton else None
    return found if found and found.has_any else None
