"""A vocabulary to browse: its tokens by text, bytes, length, rank and script, and their parts."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import regex

from bpetite import Tokenizer
from bpetite.analysis import merge_ids

ROWS = 200
"""The tokens in one answer."""

SORTS = ("rank", "length", "script", "uses")
SHOWS = ("all", "used", "unused", "parts")

_MAX_LISTED = 40  # tokens that a token is a part of, or that it is made of
_HEX = re.compile(r"0x((?:[0-9a-f]{2} ?)+)|([0-9a-f]{2}(?: [0-9a-f]{2})+)", re.IGNORECASE)
_SCRIPTS = (
    *("Latin", "Cyrillic", "Greek", "Han", "Hiragana", "Katakana", "Hangul", "Arabic", "Hebrew"),
    *("Devanagari", "Bengali", "Tamil", "Telugu", "Thai", "Georgian", "Armenian", "Ethiopic"),
)
_KIND = regex.compile(
    "|".join(
        [
            *(rf"(?P<{name}>.*\p{{Script={name}}})" for name in _SCRIPTS),
            r"(?P<other>.*\p{L})",
            r"(?P<digits>.*\p{N})",
            r"(?P<space>\s+$)",
            r"(?P<control>.*\p{Cc})",
        ]
    ),
    regex.DOTALL,
)


class Browser:
    """The tokens of one tokenizer, and facts about them that do not depend on a text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        special = {*tokenizer.special_tokens.values()}
        self._tokens = {id: tokenizer.token_bytes(id) for id in tokenizer.ids}
        self._merges: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
        wholes: defaultdict[int, dict[int, None]] = defaultdict(dict)
        made = zip(tokenizer.merges, merge_ids(tokenizer), strict=True)
        for rank, ((left, right), id) in enumerate(made):
            self._merges[id].append((rank, left, right))
            wholes[left][id] = wholes[right][id] = None
        self._wholes = {part: list(ids) for part, ids in wholes.items()}
        self._scripts = {
            id: "special" if id in special else _script(token) for id, token in self._tokens.items()
        }

    def __contains__(self, id: int) -> bool:
        return id in self._tokens

    def rows(
        self, find: str, sort: str, show: str, uses: Mapping[int, int], start: int
    ) -> dict[str, Any]:
        """Return the number of tokens that are found, and some of them from `start` on.

        `find` is a text, bytes such as "e2 80" or "0x20", or an id such as "#1,300". `uses` has the
        number of times that each id occurs in the user's text.
        """
        ids = [id for id in self._found(find) if self._is_shown(id, show, uses)]
        ids.sort(key=self._order(sort, uses))
        return {
            "found": len(ids),
            "ids": len(self._tokens),
            "used": len(uses),
            "rows": [self._row(id, uses) for id in ids[start : start + ROWS]],
        }

    def detail(self, id: int, uses: Mapping[int, int]) -> dict[str, Any]:
        """Return a token, the merges that make it, its tree, and the tokens that it is a part of.

        `tree` has the tokens below it in the order of their ranks, if only one merge makes each.
        """
        wholes = self._wholes.get(id, [])
        merges = self._merges.get(id, [])[:_MAX_LISTED]
        tree = self._tree(id)
        shown = {id, *wholes[:_MAX_LISTED], *tree[:_MAX_LISTED]}
        shown.update(part for _, *pair in merges for part in pair)
        return {
            "row": self._row(id, uses),
            "merges": merges,
            "tree": tree[:_MAX_LISTED],
            "wholes": wholes[:_MAX_LISTED],
            "tokens": {each: self._tokens[each].hex(" ").upper() for each in sorted(shown)},
        }

    def _found(self, find: str) -> Iterator[int]:
        if re.fullmatch(r"#[0-9][0-9,]*", find):
            yield from self._tokens.keys() & {int(find[1:].replace(",", ""))}
            return
        in_hex = _HEX.fullmatch(find)
        sought = bytes.fromhex(in_hex[1] or in_hex[2]) if in_hex else find.encode("utf-8")
        for id, token in self._tokens.items():
            if sought in token:
                yield id

    def _is_shown(self, id: int, show: str, uses: Mapping[int, int]) -> bool:
        if show == "parts":
            return self._scripts[id] == _PART
        return show == "all" or (id in uses) == (show == "used")

    def _order(self, sort: str, uses: Mapping[int, int]) -> Callable[[int], Any]:
        orders: dict[str, Callable[[int], Any]] = {
            "rank": self._rank,
            "length": lambda id: (-len(self._tokens[id]), id),
            "script": lambda id: (self._scripts[id], id),
            "uses": lambda id: (-uses.get(id, 0), self._rank(id)),
        }
        return orders[sort]

    def _rank(self, id: int) -> tuple[int, int]:
        if self._scripts[id] == "special":
            return 1 << 40, id
        merges = self._merges.get(id)
        if merges:
            return merges[0][0], id
        return -1 if len(self._tokens[id]) == 1 else 1 << 39, id

    def _row(self, id: int, uses: Mapping[int, int]) -> list[Any]:
        """Return id, bytes, script, rank or None, number of wholes, and uses of a token."""
        merges = self._merges.get(id)
        return [
            id,
            self._tokens[id].hex(" ").upper(),
            self._scripts[id],
            merges[0][0] if merges else None,
            len(self._wholes.get(id, ())),
            uses.get(id, 0),
        ]

    def _tree(self, id: int) -> list[int]:
        found: set[int] = set()
        waiting = [id]
        while waiting:
            each = waiting.pop()
            merges = self._merges.get(each, [])
            if len(merges) > 1:
                return []  # which of them made the token depends on more than ranks
            if each not in found and merges:
                found.add(each)
                waiting += merges[0][1:]
        return sorted(found, key=lambda each: self._merges[each][0][0])


_PART = "part of a character"


def _script(token: bytes) -> str:
    r"""Return the kind of a token.

    >>> [_script(token) for token in (b" the", " 你".encode(), b"1", b"\n", b"...", b"\xe2")]
    ['Latin', 'Han', 'digits', 'white space', 'signs', 'part of a character']
    """
    try:
        text = token.decode("utf-8")
    except UnicodeDecodeError:
        return _PART
    kind = _KIND.match(text)
    name = kind.lastgroup if kind else None
    return "white space" if name == "space" else name or "signs"
