r"""Which patterns mean the same to every engine that reads a format.

The engines are `regex` here, Oniguruma in tokenizers, and fancy-regex in tiktoken. They agree on
what most BPE patterns need, and differ elsewhere: "^" and "$" are ends of lines to Oniguruma,
"\w" and "\b" have another set of letters in each, "\h" is a hexadecimal digit to one and a space
to another, a set inside a set is a union to one and a bracket to another, "{2}?" is optional to
one and just "{2}" to another, and without case Oniguruma takes "ss" for "ß".
"""

from __future__ import annotations

import re
from itertools import accumulate

from bpetite._automaton import digest_of
from bpetite._pretokenizer import PATTERNS, portable_pattern, shown_pattern
from bpetite._unicode.patterns import items

# Spellings that Oniguruma and fancy-regex read alike, each with the portable pattern that it means.
_SPELLINGS = {
    # bigscience/bloom, tokenizer.json: a set inside a set
    " ?[^(\\s|[.,!?…。，、।۔،])]+": " ?[^\\s(|.,!?…。，、।۔،)]+",
    # moonshotai/Kimi-K2-Instruct, tokenization_kimi.py: an intersection of sets
    re.sub(r"\(\?:\(\?!(\\p\{Han\})\)\[([^]]+)\]\)", r"[\2&&[^\1]]", PATTERNS["kimi-k2"]): PATTERNS[
        "kimi-k2"
    ],
}

# The properties are general categories, which follow one version of Unicode here, and Han, which is
# equally stable.
_PROPERTY = "C[cfno]?|L[ulmot]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|Han"
_CLASS = rf"\\(?:[sSdD]|[pP]\{{(?:{_PROPERTY})\}})"
_SAME_CLASS = {r"\p{Nd}": r"\d", r"\P{Nd}": r"\D"}
_ESCAPE = r"\\(?:[rnt]|u(?![dD][89A-Fa-f])[0-9A-Fa-f]{4}|[!-/:;=?@\[-`{-~\ ])"
_IN_SET = rf"(?:{_ESCAPE}|(?!&&|\|\||~~)[^\\\[\]-])"
_SET = rf"\[\^?(?!\])-?(?!-)(?:{_CLASS}|{_IN_SET}(?:-{_IN_SET})?)*-?\]"
_ONE_CHARACTER = rf"{_CLASS}|{_ESCAPE}|{_SET}|[^\\\[\]()|{{}}*+?^$]"

# The items that all engines read alike. Without case: only GPT's contractions.
_SHARED = rf"""
      (?P<item>{_ONE_CHARACTER}|\(\?i:(?:'s\|'t\|'re\|'ve\|'m\|'ll\|'d|\[sdmt\]\|ll\|ve\|re)\))
    | (?P<look_behind>\(\?<[!=](?:{_ONE_CHARACTER})+\))
    | (?P<open>\((?:\?[:!=])?(?!\?))
    | (?P<close>\))
    | (?P<or>\|)
    | (?P<repeat>(?:[*+?]\??|\{{\d{{1,3}}(?:\}}(?!\?)|,\d{{0,3}}\}}\??))(?![*+?{{]))
    """


def to_portable(pattern: str, *, tiktoken: bool = False) -> str:
    r"""Return another library's regular expression as a portable pattern.

    >>> to_portable(r" ?\p{L}+|\s+")
    ' ?\\p{L}+|\\s+'

    Raises ValueError if `regex` may read it differently.
    """
    if pattern in PATTERNS:  # a regular expression that looks like a name
        pattern = f"(?:{pattern})"
    pattern = _without_possessives(_SPELLINGS.get(pattern, pattern), tiktoken)
    pattern = portable_pattern(pattern)
    check_shared(pattern)
    return pattern


def _without_possessives(pattern: str, tiktoken: bool) -> str:
    r"""Return a pattern without possessive quantifiers, if they change none of its matches.

    In tiktoken, "$" is the end of the text, and counts may be possessive too. Oniguruma takes a "+"
    after a count for another repeat.

    >>> _without_possessives(r"\p{L}++| ?\P{L}", False)
    '\\p{L}+| ?\\P{L}'
    """
    found = [item._replace(text=_spelled_out(item.text, tiktoken)) for item in items(pattern)]
    given = "".join(item.text for item in found)
    plain = "".join(
        item.text[:-1]
        if item.kind == "repeat"
        and item.text[1:]
        and item.text[-1] == "+"
        and (tiktoken or item.text[0] != "{")
        else item.text
        for item in found
    )
    return plain if plain == given or digest_of(plain) == digest_of(given) is not None else given


def cutting(pattern: str) -> str:
    r"""Return the pattern whose pieces end where a look-ahead holds; any other pattern as it is.

    >>> cutting(r"(?=\d)"), cutting(r"(?=\d)|a")
    ('[\\s\\S](?:(?!\\d)[\\s\\S])*', '(?=\\d)|a')
    """
    found = items(pattern)
    if not found or found[0].text != "(?=":
        return pattern
    depths = [*accumulate((item.kind == "open") - (item.kind == "close") for item in found)]
    if 0 in depths[:-1] or depths[-1] != 0:
        return pattern
    return rf"[\s\S](?:(?!{pattern[3:-1]})[\s\S])*"


# The characters of a word to Oniguruma: its `\w`. Outside sets it has six fractions and exponents.
_WORD_IN_SET = r"\p{L}\p{M}\p{Nl}\p{Nd}\p{Pc}Ⓐ-ⓩ🄰-🅉🅐-🅩🅰-🆉"
_WORD = rf"{_WORD_IN_SET}²³¹¼½¾"

_ONIGURUMA = {
    "$": r"(?![^\n])",  # the end of a line
    r"\b": rf"(?:(?<=[{_WORD}])(?![{_WORD}])|(?<![{_WORD}])(?=[{_WORD}]))",
    r"\w": f"[{_WORD}]",
    r"\W": f"[^{_WORD}]",
}

_TIKTOKEN = {"$": r"(?![\s\S])"}  # the end of the text


def _spelled_out(item: str, tiktoken: bool) -> str:
    r"""Return an item of a library's pattern in a spelling that all engines share.

    >>> _spelled_out("$", False), _spelled_out("$", True), _spelled_out(r"\p{L}", False)
    ('(?![^\\n])', '(?![\\s\\S])', '\\p{L}')
    """
    if tiktoken:
        return _TIKTOKEN.get(item, item)
    if item.startswith("["):
        return re.sub(
            r"(\\.)", lambda escape: _WORD_IN_SET if escape[1] == r"\w" else escape[1], item
        )
    return _ONIGURUMA.get(item, item)


def check_shared(pattern: str) -> None:
    r"""Raise ValueError for a pattern that engines may read differently.

    >>> check_shared(r"\w+")
    Traceback (most recent call last):
    ValueError: the pattern '\\w+' has a part that engines read differently, at position 0: '\\w+'
    """
    if pattern in PATTERNS.values():
        return
    # Engines differ in how they repeat an item that can match the empty string ("is empty" below).
    # State of the innermost group: whether it is a look-ahead, whether an earlier alternative is
    # empty, whether all items of this alternative but the last are, and whether the last is.
    outer: list[tuple[bool, bool, bool, bool]] = []
    ahead, other, before, last = False, False, True, True
    position = 0
    shared = re.compile(_SHARED, re.VERBOSE)
    while position < len(pattern):
        match = shared.match(pattern, position)
        kind = match.lastgroup if match else None
        if match is None or (kind == "repeat" and last) or _has_empty_set(match.group()):
            raise ValueError(
                f"the pattern {shown_pattern(pattern)} has a part that engines read differently, "
                f"at position {position}: {pattern[position : position + 20]!r}"
            )
        item = match.group()
        if kind == "repeat":
            last = item[0] in "*?" or item.startswith("{0")
        elif kind == "or":
            other, before, last = other or (before and last), True, True
        elif kind == "open":
            outer.append((ahead, other, before and last, True))
            ahead, other, before, last = item in ("(?!", "(?="), False, True, True
        elif kind == "close" and outer:
            is_empty = ahead or other or (before and last)
            ahead, other, before, _ = outer.pop()
            last = is_empty
        else:
            before, last = before and last, kind == "look_behind"
        position = match.end()
    if other or (before and last):
        raise ValueError(f"the pattern {shown_pattern(pattern)} can match the empty string")


def _has_empty_set(item: str) -> bool:
    r"""Return whether an item has an empty set, as "[^\s\S]"; `regex` takes it for a full one."""
    for each_set in re.findall(_SET, item):
        classes = {_SAME_CLASS.get(each, each) for each in re.findall(_CLASS, each_set)}
        if each_set[1] == "^" and any(
            each[0] + each[1].swapcase() + each[2:] in classes for each in classes
        ):
            return True
    return False
