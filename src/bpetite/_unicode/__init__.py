"""The categories of characters, by one version of Unicode on every machine.

`regex` follows Unicode, so an update of `regex` may change how a pattern splits a text. bpetite
has the general categories of one version, VERSION, which tiktoken and tokenizers use too. A
character *differs* if the installed `regex` puts it into another category (as a rule, Unicode
added it later). `_unicode/patterns.py` corrects a pattern for such characters.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import accumulate, chain, groupby
from typing import TYPE_CHECKING, Any, Literal
from unicodedata import combining, is_normalized, normalize

from bpetite._unicode.data import RUNS

if TYPE_CHECKING:
    import regex

# More characters than the texts of any one language have.
_MAX_CACHED_CHARACTERS = 50_000


def compile_regex(pattern: str) -> regex.Pattern[str]:
    """Compile a pattern of the package `regex`.

    Its import takes milliseconds, and most patterns need it only in the Python engine.
    """
    import regex

    return regex.compile(pattern)


@cache
def _runs() -> tuple[list[int], list[str]]:
    runs = re.findall(r"([A-Z][a-z])(\d+)", RUNS)
    starts = list(accumulate((int(length) for _, length in runs), initial=0))
    return starts[:-1], [name for name, _ in runs]


@cache
def category_ranges(name: str) -> tuple[tuple[int, int], ...]:
    """Return the code points of a general category, or of all that begin with a letter.

    >>> category_ranges("Zl"), category_ranges("no")
    (((8232, 8232),), ())
    """
    ranges: list[tuple[int, int]] = []
    starts, names = _runs()
    for first, end, category in zip(starts, [*starts[1:], 0x110000], names, strict=True):
        if name and category.startswith(name):
            before = ranges.pop() if ranges and ranges[-1][1] == first - 1 else (first, first)
            ranges.append((before[0], end - 1))
    return tuple(ranges)


def _category(character: str) -> str:
    starts, names = _runs()
    return names[bisect_right(starts, ord(character)) - 1]


@cache
def _by_category() -> regex.Pattern[str]:
    """Return a pattern whose matching group is named after the category of a character."""
    names = sorted(set(_runs()[1]))
    return compile_regex("|".join(f"(?P<{name}>\\p{{{name}}})" for name in names))


class _Differs(dict[str, bool]):
    """A bounded cache: whether the installed `regex` puts a character into another category."""

    def __missing__(self, character: str) -> bool:
        match = _by_category().match(character)
        differs = match is None or match.lastgroup != _category(character)
        if len(self) >= _MAX_CACHED_CHARACTERS:
            self.clear()
        self[character] = differs
        return differs


_differs = _Differs()


def differs(text: str) -> bool:
    """Return whether the installed `regex` puts a character of `text` into another category."""
    return not text.isascii() and any(map(_differs.__getitem__, text))


def differing(text: str) -> frozenset[str]:
    """Return the characters of a text for which `differs` is true, and those near them.

    "Near" means the range of a script, so that later texts of a script give the same set.

    >>> differing("naïve")
    frozenset()
    """
    if not differs(text):
        return frozenset()
    starts = {ord(character) & -_NEAR_CODE_POINTS for character in text if _differs[character]}
    near = (map(chr, range(start, start + _NEAR_CODE_POINTS)) for start in starts)
    return frozenset(filter(_differs.__getitem__, chain.from_iterable(near)))


# Many scripts have a range of at most this many code points, which begins at a multiple of it.
_NEAR_CODE_POINTS = 1 << 8


def stand_in(character: str) -> str:
    """Return a character that `regex` puts into the category that VERSION has for another one."""
    return _last_of(_category(character))


def stand_in_by_regex(character: str) -> str:
    """Return a character of the category that the installed `regex` has for another one.

    Returns "" for a character that only one of VERSION and `regex` has.
    """
    if _category(character) == "Cn":
        return ""
    match = _by_category().match(character)
    category = match.lastgroup if match else None
    return _last_of(category) if category and category != "Cn" else ""


@cache
def _last_of(category: str) -> str:
    """Return the last character that VERSION and `regex` both put into a category.

    The character is not Han, since no character on which they differ is Han in VERSION.
    """
    starts, names = _runs()
    ends = [*starts[1:], 0x110000]
    han = compile_regex(r"\p{Han}")
    for start, end, name in reversed(list(zip(starts, ends, names, strict=True))):
        if name == category:
            for code in range(end - 1, start - 1, -1):
                if not han.match(chr(code)) and not _differs[chr(code)]:
                    return chr(code)
    raise LookupError(f"the installed regex knows no character of the category {category}")


Form = Literal["NFC", "NFD", "NFKC", "NFKD"]

# The characters that Unicode has added since version 9 and that normal forms affect: they have a
# combining class or are in a decomposition. tokenizers has the normal forms of Unicode 9,
# so they do not change these characters.
_SINCE_9 = re.compile(
    "(["
    "\u32ff\ua7f1-\ua7f4\uab69\U00010781-\U000107ba\U0001ccd6-\U0001ccf9\U0001e030-\U0001e06d"
    "\U0001f16c\U0001fbf0-\U0001fbf9"
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


# A text is normalized in blocks; otherwise one character whose form depends on its neighbours would
# slow down the whole text. A block has at least this length, and ends at the next place that
# `_joins_none` or `_JOINS_NONE_BYTE` finds.
_BLOCK_CHARACTERS = 4096
_PART_CHARACTERS = 256
_BLOCK_BYTES = 1 << 16


# Some characters that no normal form joins with the one before: ASCII, kana, Chinese characters,
# and whole Korean syllables. So a block may begin with them. The bytes begin such characters.
@cache
def _joins_none() -> re.Pattern[str]:
    # Slow to compile, and not needed to import the package.
    return re.compile("[\0-\x7f\u3000-\u3029\u3041-\u3096\u30a0-\u30ff\u4e00-\u9fff\uac00-\ud7a3]")


_JOINS_NONE_BYTE = re.compile(rb"[\0-\x7f\xe5-\xe9\xeb\xec]")

# Scripts with vowel signs that may join with the letter before. To find that they do not takes
# long, so words in normal form are cached.
_JOINING = re.compile("[\u0900-\u0dff\u0f00-\u109f\u1b00-\u1bff]")
_MAX_NFC_WORDS = 1 << 16
_MAX_WORD_CHARACTERS = 64
_nfc_words: set[str] = set()


def nfc(text: str) -> str:
    """Return `text` in normal form C of Unicode 9, as tokenizers does.

    >>> nfc("e\u0301") == "é"
    True
    """
    return normalized(text, "NFC")


def normalized(text: str, form: Form) -> str:
    """Return `text` in a normal form of Unicode 9, as tokenizers does.

    >>> normalized("ﬁ", "NFKD"), normalized("\u32ff", "NFKD") == "\u32ff"
    ('fi', True)
    """
    changes = [*form_changes(text, form)]
    return "".join(with_changes(text, changes)) if changes else text


Change = tuple[int, int, str]
"""The start and the end of a part of a text, and what replaces it."""


def form_changes(text: str, form: Form) -> Iterator[Change]:
    """Yield what `normalized` changes, in order, in parts that no normal form joins with others.

    >>> [*form_changes("abc", "NFC")], [end for _, end, _ in form_changes("e\u0301", "NFC")]
    ([], [2])
    """
    if text.isascii():
        return
    for start, end in _spans(text, _BLOCK_CHARACTERS, _joins_none()):
        block = text[start:end]
        if _is_nfc_block(block) if form == "NFC" else is_normalized(form, block):
            continue
        for first, last in _spans(block, _PART_CHARACTERS, _joins_none()):
            part = block[first:last]
            if is_normalized(form, part):
                continue
            parts = _SINCE_9.split(part)
            parts[::2] = [_python_form(each, form) for each in parts[::2]]
            new = "".join(parts)
            if new != part:
                yield start + first, start + last, new


# Python sorts combining marks by insertion, so a long run of them takes quadratic time. Marks are
# neither `\w` nor `\s`, so this finds each such run; it is no harm that it finds runs of symbols
# too. Usual parts are shorter than the runs that `_python_nfc` searches for.
_LONG_RUN = re.compile(r"[^\w\s]{33,}")


def _python_form(text: str, form: Form) -> str:
    if len(text) > 2 * _PART_CHARACTERS:
        text = _LONG_RUN.sub(_with_marks_in_order, text)
    return normalize(form, text)


def _with_marks_in_order(match: re.Match[str]) -> str:
    """Return characters decomposed, with each run of marks sorted by combining class."""
    characters = chain.from_iterable(normalize("NFD", character) for character in match[0])
    runs = groupby(characters, lambda character: combining(character) > 0)
    return "".join(chain.from_iterable(sorted(run, key=combining) for _, run in runs))


def _is_nfc_block(text: str) -> bool:
    # A few characters show the script; an odd distance between them avoids periods of the text.
    if not _JOINING.search(text[::61]):
        return is_normalized("NFC", text)
    # A text is in normal form if each word is, since a space joins with nothing.
    new = {*text.split(" ")} - _nfc_words
    if not all(is_normalized("NFC", word) for word in new):
        return False
    if len(_nfc_words) > _MAX_NFC_WORDS:
        _nfc_words.clear()
    _nfc_words.update(word for word in new if len(word) <= _MAX_WORD_CHARACTERS)
    return True


def is_nfc(text: str) -> bool:
    """Return whether `nfc` leaves a text as it is."""
    return not any(form_changes(text, "NFC"))


def with_changes(text: str, changes: Iterable[Change]) -> Iterator[str]:
    """Yield a text in parts, with changes.

    >>> [*with_changes("abcd", [(1, 2, "B")])]
    ['a', 'B', 'cd']
    """
    copied = 0
    for start, end, form in changes:
        yield text[copied:start]
        yield form
        copied = end
    yield text[copied:]


WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""The characters of white space; `str.isspace` has four more."""

WORD_SET = (
    r"[\p{L}\p{M}\p{Nl}\p{Nd}\p{Pc}\u200c\u200d\u24b6-\u24e9"
    r"\U0001f130-\U0001f149\U0001f150-\U0001f169\U0001f170-\U0001f189]"
)
"""What a character of a word is to Rust's crate regex: its `\\w`."""

# Capital letters that some Python does not know, with their small ones.
_NEW_CAPITALS = {
    **{0x1C89: 0x1C8A, 0xA7CB: 0x264, 0xA7CC: 0xA7CD, 0xA7CE: 0xA7CF, 0xA7D2: 0xA7D3},
    **{0xA7D4: 0xA7D5, 0xA7DA: 0xA7DB, 0xA7DC: 0x19B},
    **{code: code + 0x20 for code in range(0x10D50, 0x10D66)},
    **{code: code + 0x1B for code in range(0x16EA0, 0x16EB9)},
}


def lowercase(text: str) -> str:
    """Return `text` with each character in lower case, whatever stands around it.

    >>> lowercase("ΟΔΟΣ"), lowercase("\ua7dc") == "\u019b"
    ('οδοσ', True)
    """
    if text.isascii():
        return text.lower()
    return "".join(map(str.lower, text.translate(_NEW_CAPITALS)))


def bytes_without_nfc(data: memoryview) -> Iterator[tuple[int, int]]:
    r"""Yield the bounds of parts of UTF-8 whose text `nfc` changes.

    >>> [*bytes_without_nfc(memoryview("é".encode()))]
    []
    >>> [*bytes_without_nfc(memoryview("e\u0301".encode()))]
    [(0, 3)]

    Raises UnicodeDecodeError, with a position in such a part, for bytes that are not UTF-8.
    """
    for start, end in _spans(data, _BLOCK_BYTES, _JOINS_NONE_BYTE):
        if not is_nfc(str(data[start:end], "utf-8")):
            yield start, end


def nfc_chunks(chunks: Iterable[str]) -> Iterator[str]:
    """Yield `nfc` of a text that comes in chunks, in chunks too.

    Text waits until a character comes that no normal form joins with the one before.

    >>> [*nfc_chunks(["abe", "\u0301", "c"])] == ["ab", "é", "c"]
    True
    """
    unfinished: list[str] = []
    for chunk in chunks:
        places = (at for at in reversed(range(len(chunk))) if _joins_none().match(chunk, at))
        split = next(places, None)
        if split is not None:
            yield nfc("".join([*unfinished, chunk[:split]]))
            unfinished = []
        unfinished.append(chunk[split:])
    yield nfc("".join(unfinished))


def _spans(text: str | memoryview, size: int, begins: re.Pattern[Any]) -> Iterator[tuple[int, int]]:
    """Yield the bounds of blocks of at least `size`. Each but the first begins with a match."""
    start = 0
    while start < len(text):
        match = begins.search(text, start + size)
        end = match.start() if match else len(text)
        yield start, end
        start = end


def form_origins(text: str, form: Form) -> list[int]:
    """Return where in `text` each character of its normal form comes from.

    >>> form_origins("e\u0301a", "NFC"), form_origins("ﬁ", "NFKC")  # éa, fi
    ([0, 2], [0, 0])
    """
    decomposed: Form = "NFKD" if "K" in form else "NFD"
    origins: list[int] = []
    end = 0
    for start, stop, normal in form_changes(text, form):
        # A normal form keeps the number of characters that a text has in its decomposed form.
        part = text[start:stop]
        before = [*accumulate(_decomposed_lengths(part, decomposed), initial=0)]
        ends = accumulate(_decomposed_lengths(normal, decomposed), initial=0)
        origins += range(end, start)
        origins += (
            start + bisect_right(before, at) - 1 for _, at in zip(normal, ends, strict=False)
        )
        end = stop
    return [*origins, *range(end, len(text))]


def _decomposed_lengths(text: str, form: Form) -> Iterator[int]:
    for character in text:
        is_new = character > "\x7f" and _SINCE_9.match(character)
        yield 1 if is_new else len(normalize(form, character))
