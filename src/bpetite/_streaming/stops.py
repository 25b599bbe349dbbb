"""Find stop strings and tags in text that comes in pieces; withhold what may become one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
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


@dataclass(eq=False, repr=False, slots=True)
class Node:
    """A node of the trie: a prefix of a string that the matcher finds, or the whole string.

    `fail` is the node of the longest proper suffix of `text` that is also a prefix of a string;
    the root has none. `found` is the longest string that ends here.
    """

    string: str
    length: int
    children: dict[str, Node] = field(default_factory=dict)
    fail: Node = field(init=False)
    found: str | None = None

    @property
    def text(self) -> str:
        """The prefix. Stored in each node, it would take quadratic memory."""
        return self.string[: self.length]

    def __repr__(self) -> str:
        return f"<{self.text!r}>"


class Scan(NamedTuple):
    pieces: tuple[str, ...]  # tags, and the text that is part of no match
    node: Node  # its text is withheld
    stop: str | None = None
    text_after_stop: str = ""


class Matcher:
    """Finds the stop string or tag that ends first and, of several that end there, the longest.

    This is the automaton of Aho and Corasick: on average, a character costs the same for any number
    of strings. Only the node is kept between scans. The text of the node, which is the longest
    suffix of the text so far that is a proper prefix of some string, is withheld.

    >>> matcher = Matcher(["END"], ["<b>"])
    >>> matcher.scan(matcher.root, "a <b> EN")
    Scan(pieces=('a ', Tag('<b>'), ' '), node=<'EN'>, stop=None, text_after_stop='')

    With `finds_stops` false, prefixes of stops are withheld too, but no stop is found.
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
        self.first_characters = frozenset(self.root.children)  # no string begins with another

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
        while waiting:  # shorter prefixes first, since `fail` is shorter than its node
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
        """Scan `text` from a node, up to the first stop."""
        root = self.root
        if node is root and self.first_characters.isdisjoint(text):
            return Scan((text,) if text else (), root)
        start_node = node
        begin = 0  # of the text that is in no piece yet
        pieces = []
        for end, character in enumerate(text, node.length + 1):
            node = self._next(node, character)
            if node.found is not None:
                found, start = node.found, end - len(node.found)
                if start > begin:
                    pieces.append(_between(start_node, text, begin, start))
                if not isinstance(found, Tag):
                    return Scan(tuple(pieces), root, found, text[end - start_node.length :])
                pieces.append(found)
                begin, node = end, root
        node = self._withheld(node)
        end = start_node.length + len(text) - node.length
        if end > begin:
            pieces.append(_between(start_node, text, begin, end))
        return Scan(tuple(pieces), node)

    def node_after(self, text: str) -> Node:
        """Return the node after `text`, from the root, and ignore matches."""
        node = self.root
        for character in text:
            node = self._next(node, character)
        return self._withheld(node)

    def _withheld(self, node: Node) -> Node:
        """Return the node of the longest proper prefix, or of a whole string that is found."""
        while node is not self.root and not node.children:
            node = node.fail
        return node


def _between(node: Node, text: str, begin: int, end: int) -> str:
    """Return a part of the node's text and `text`. Joining them would copy a long node's text."""
    length = node.length
    return (
        node.string[begin : min(end, length)] + text[max(begin - length, 0) : max(end - length, 0)]
    )


@lru_cache(maxsize=64)
def matcher_of(stops: tuple[str, ...], tags: tuple[str, ...], finds_stops: bool) -> Matcher:
    """Return the matcher of these strings; the cache keeps the last few."""
    return Matcher(stops, tags, finds_stops=finds_stops)
