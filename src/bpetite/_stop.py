"""Find stop strings and tags in text that comes bit by bit."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple


class Tag(str):
    """A tag in streamed text, `"<think>"`: the same characters, but told apart from text.

    >>> Tag("<think>"), Tag("<think>") == "<think>"
    (Tag('<think>'), True)
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Tag({str.__repr__(self)})"


class Node:
    """A beginning of some string that is looked for, or all of it (a node of the trie).

    `fail` is the node of the longest end of `text` that is a beginning too; `found` what is found
    when this node is reached: the longest string that ends here.
    """

    __slots__ = ("children", "fail", "found", "length", "string")

    def __init__(self, string: str, length: int) -> None:
        self.string = string
        self.length = length
        self.children: dict[str, Node] = {}
        self.fail = self
        self.found: str | None = None

    @property
    def text(self) -> str:
        """The beginning; it is not kept for each, which would take the square of its length."""
        return self.string[: self.length]

    def __repr__(self) -> str:
        return f"<{self.text!r}>"


class Scan(NamedTuple):
    """What some more text leads to."""

    pieces: tuple[str, ...]  # the text that can be no part of a match, and tags
    node: Node  # its text is what is held
    stop: str | None = None
    rest: str = ""  # what is behind the stop


class Matcher:
    """Finds the earliest end of a stop string or a tag and, of several there, the longest.

    The automaton of Aho and Corasick: a character costs the same, on average, however many
    strings there are. Nothing is kept but the node, whose text is all that is held: the longest
    end of the text so far that is a proper beginning of some string.

    >>> matcher = Matcher(["END"], ["<b>"])
    >>> matcher.scan(matcher.root, "a <b> EN")
    Scan(pieces=('a ', Tag('<b>'), ' '), node=<'EN'>, stop=None, rest='')

    With `finds_stops` false, stops are held back as ever and not found.
    """

    def __init__(
        self, stops: Iterable[str], tags: Iterable[str] = (), *, finds_stops: bool = True
    ) -> None:
        self.root = Node("", 0)
        for tag in tags:
            self._add(tag).found = Tag(tag)
        for stop in stops:
            node = self._add(stop)
            if finds_stops:
                node.found = stop
        self._link()
        self.begins = frozenset(self.root.children)  # no other character leads anywhere

    def _add(self, string: str) -> Node:
        node = self.root
        for end, character in enumerate(string, 1):
            node = node.children.get(character) or node.children.setdefault(
                character, Node(string, end)
            )
        return node

    def _link(self) -> None:
        root = self.root
        for node in root.children.values():
            node.fail = root
        waiting = deque(root.children.values())
        while waiting:  # shorter beginnings first: a node's `fail` is shorter than the node
            parent = waiting.popleft()
            for character, node in parent.children.items():
                node.fail = self._next(parent.fail, character)
                node.found = node.found or node.fail.found
                waiting.append(node)

    def _next(self, node: Node, character: str) -> Node:
        child = node.children.get(character)
        while child is None and node is not self.root:
            node = node.fail
            child = node.children.get(character)
        return child or self.root

    def scan(self, node: Node, text: str) -> Scan:
        """Return what `text` leads to from a node, up to the first stop."""
        root = self.root
        if node is root and self.begins.isdisjoint(text):
            return Scan((text,) if text else (), root)
        held = node
        begin = 0  # of what is in no piece yet
        pieces = []
        for end, character in enumerate(text, node.length + 1):
            node = self._next(node, character)
            if node.found is not None:
                found, start = node.found, end - len(node.found)
                if start > begin:
                    pieces.append(_between(held, text, begin, start))
                if not isinstance(found, Tag):
                    return Scan(tuple(pieces), root, found, text[end - held.length :])
                pieces.append(found)
                begin, node = end, root
        node = self._held(node)
        end = held.length + len(text) - node.length
        if end > begin:
            pieces.append(_between(held, text, begin, end))
        return Scan(tuple(pieces), node)

    def node_after(self, text: str) -> Node:
        """Return the node that `text` leads to from the root, whatever is found on the way."""
        node = self.root
        for character in text:
            node = self._next(node, character)
        return self._held(node)

    def _held(self, node: Node) -> Node:
        """Return the longest proper beginning: all of a string that is not found is none."""
        while node is not self.root and not node.children:
            node = node.fail
        return node


def _between(held: Node, text: str, begin: int, end: int) -> str:
    """Return a part of what was held and `text`, which are not joined: much may be held."""
    length = held.length
    return (
        held.string[begin : min(end, length)] + text[max(begin - length, 0) : max(end - length, 0)]
    )


@lru_cache(maxsize=64)
def matcher_of(stops: tuple[str, ...], tags: tuple[str, ...], finds_stops: bool) -> Matcher:
    """Return the matcher of these strings; those of the last few sets are kept."""
    return Matcher(stops, tags, finds_stops=finds_stops)
