"""Text in, normalized text and special literals out, by the `Stages` of a vocabulary.

The rules are those of huggingface/tokenizers: literals that are not normalized are found first, the
text between them is normalized, and the other literals are found in that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import copy
from functools import lru_cache
from itertools import repeat

from bpetite._pretokenizer import SpecialSplitter, time_left
from bpetite._unicode import WHITE_SPACE, WORD_SET, form_origins, lowercase, normalized
from bpetite._unicode.patterns import exact_regex
from bpetite._vocabulary import NO_STAGES, Vocabulary

Normalize = Callable[[str], str]

FORMS = ("NFC", "NFD", "NFKC", "NFKD")
"""The normalizers that are normal forms of Unicode."""

FLAGS = ("lstrip", "rstrip", "single_word", "normalized")
"""The flags of special tokens."""


def normalizer_of(normalizers: Iterable[tuple[str, ...]]) -> Normalize | None:
    """Return what the normalizers of `Stages` make of a text that is not empty.

    >>> normalizer_of([("NFKC",), ("Prepend", "_"), ("Lowercase",)])("ﬁT")
    '_fit'
    """
    functions = [_function(*each) for each in normalizers]
    if len(functions) < 2:
        return functions[0] if functions else None

    def normalize(text: str) -> str:
        for function in functions:
            text = function(text)
        return text

    return normalize


def _function(name: str, *arguments: str) -> Normalize:
    if name in FORMS:
        return lambda text: normalized(text, name)  # type: ignore[arg-type]
    if name == "Lowercase":
        return lowercase
    if name == "Strip":
        left, right = "left" in arguments, "right" in arguments
        return lambda text: _stripped(text, left, right)
    if name == "Prepend":
        (prefix,) = arguments
        return lambda text: text and prefix + text
    assert name == "Replace", name
    pattern, content = arguments
    return lambda text: exact_regex(pattern, text).sub(lambda _: content, text, timeout=time_left())


def _stripped(text: str, left: bool, right: bool) -> str:
    if left:
        text = text.lstrip(WHITE_SPACE)
    return text.rstrip(WHITE_SPACE) if right else text


def _origins(normalizer: tuple[str, ...], text: str, normal: str) -> Sequence[int]:
    """Return where in a text each character of its normalized form comes from."""
    name, *arguments = normalizer
    if name in FORMS:
        return form_origins(text, name)  # type: ignore[arg-type]
    if name == "Lowercase":
        return [at for at, character in enumerate(text) for _ in lowercase(character)]
    if name == "Strip":
        start = len(text) - len(_stripped(text, "left" in arguments, False))
        return range(start, start + len(normal))
    if name == "Prepend":
        return [*repeat(0, len(normal) - len(text)), *range(len(text))]
    pattern, content = arguments
    origins: list[int] = []
    end = 0
    for match in exact_regex(pattern, text).finditer(text, timeout=time_left()):
        origins += (*range(end, match.start()), *repeat(match.start(), len(content)))
        end = match.end()
    return [*origins, *range(end, len(text))]


def normalized_literals(
    normalizers: Iterable[tuple[str, ...]], flags: Iterable[tuple[str, tuple[str, ...]]]
) -> dict[str, str]:
    """Return the literals that have the flag normalized, by the text that is searched for.

    Raises ValueError for a literal of which nothing is left, or what is left of another one.
    """
    normalize = normalizer_of(normalizers) or str
    literal_of: dict[str, str] = {}
    for literal in (literal for literal, each in flags if "normalized" in each):
        form = normalize(literal)
        if not form:
            raise ValueError(f"the normalizers leave nothing of the special token {literal!r}")
        if (other := literal_of.setdefault(form, literal)) != literal:
            raise ValueError(f"the special tokens {other!r} and {literal!r} are normalized alike")
    return literal_of


def splitter_of(
    vocabulary: Vocabulary, literals: Collection[str]
) -> SpecialSplitter | StagedSplitter:
    """Return what splits the special literals of a vocabulary off a text."""
    if vocabulary.normalizers or vocabulary.stages != NO_STAGES:
        return StagedSplitter(vocabulary, literals)
    return SpecialSplitter(literals)


class StagedSplitter:
    """A `SpecialSplitter` whose text is normalized, and whose literals have flags.

    Only literals among `literals` count.
    """

    def __init__(self, vocabulary: Vocabulary, literals: Collection[str]) -> None:
        flags = {key: value for key, value in vocabulary.stages.flags if key in literals}
        self._normalizers = vocabulary.normalizers
        self._normalize = normalizer_of(vocabulary.normalizers)
        later_of = normalized_literals(vocabulary.normalizers, flags.items())
        later = {*later_of.values()}
        first_of = {literal: literal for literal in literals if literal not in later}
        self.searched: frozenset[str] = frozenset((*first_of, *later_of))
        """The texts that it searches for."""
        self._first = _FlaggedSplitter(first_of, flags)
        self._later = _FlaggedSplitter(later_of, flags)

    def normalized(self, text: str) -> str:
        """Return a text normalized, without a look at literals."""
        return self._normalize(text) if self._normalize and text else text

    def split(self, text: str, ordinary: bool = False) -> Iterator[tuple[str, str | None]]:
        """Yield each segment of normalized text with the literal after it; None after the last.

        In `ordinary` text, no literal counts.
        """
        text.encode("utf-8")  # a lone surrogate is the error that counts
        if ordinary:
            yield self.normalized(text), None
            return
        for segment, literal in self._first.split(text):
            if self._later.has_literals:
                yield from self._later.split(self.normalized(segment))
                segment = ""
            yield self.normalized(segment), literal

    def traced(self, text: str) -> Iterator[tuple[str, Sequence[int], int | None]]:
        """Yield the segments of `split`, with where each character comes from, and each literal.

        That is where in `text` it, or what it replaces, begins.
        """
        for start, at, literal in self._first.spans(text):
            normal, origins = self._traced(text[start:at], range(start, at))
            if self._later.has_literals:
                for first, last, found in self._later.spans(normal):
                    at_found = None if found is None else origins[last]
                    yield normal[first:last], origins[first:last], at_found
                normal, origins = "", ()
            yield normal, origins, None if literal is None else at

    def _traced(self, text: str, origins: Sequence[int]) -> tuple[str, Sequence[int]]:
        for normalizer in self._normalizers if text else ():
            normal = _function(*normalizer)(text)
            origins = [origins[at] for at in _origins(normalizer, text, normal)]
            text = normal
        return text, origins

    def in_parts(self) -> StagedSplitter:
        """Return a splitter that normalizes nothing, for the parts of a text.

        Raises ValueError if some literals are found in normalized text.
        """
        if self._normalize and self._later.has_literals:
            raise ValueError(
                "encode_parts cannot tell parts apart in this vocabulary, since it finds special "
                "tokens in normalized text; encode the whole text"
            )
        splitter = copy(self)
        splitter._normalize = None
        return splitter

    def first(self, text: str) -> tuple[str, int] | None:
        """Return the first literal with about its position in characters, None without one."""
        at = 0
        for segment, literal in self._first.split(text):
            if found := self._later.first(self.normalized(segment)):
                return found[0], min(at + found[1], len(text) - 1)
            if literal is not None:
                return literal, text.index(literal, at)
            at += len(segment)
        return None


class _FlaggedSplitter:
    """Finds the literals of one search, with the white space that they take."""

    def __init__(self, literal_of: dict[str, str], flags: dict[str, tuple[str, ...]]) -> None:
        self._splitter = SpecialSplitter(literal_of)
        self._literal_of = literal_of
        self._flags = {key: flags[key] for key in literal_of.values() if key in flags}

    @property
    def has_literals(self) -> bool:
        return bool(self._literal_of)

    def first(self, text: str) -> tuple[str, int] | None:
        found = next(self.split(text), None)
        if found is None or found[1] is None:
            return None
        return found[1], len(found[0])

    def split(self, text: str) -> Iterator[tuple[str, str | None]]:
        """Yield each segment with the literal after it; None after the last."""
        if not self._flags:
            yield from self._splitter.split(text)
            return
        for start, at, literal in self.spans(text):
            yield text[start:at], literal

    def spans(self, text: str) -> Iterator[tuple[int, int, str | None]]:
        """Yield where each segment begins and ends, and the literal after it."""
        start = space_end = 0
        for found, at in self._splitter.find(text):
            literal = self._literal_of[found]
            flags = self._flags.get(literal, ())
            end = at + len(found)
            if "single_word" in flags and not _stands_alone(text, at, end):
                continue
            if "lstrip" in flags:
                at = max(at, start)
                while at > start and text[at - 1] in WHITE_SPACE:
                    at -= 1
            if "rstrip" in flags:
                if end >= space_end:
                    space_end = end
                    while text[space_end : space_end + 1] in _ENDS:
                        space_end += 1
                end = space_end
            if at < end:  # otherwise the literal before took all of this one
                yield start, at, literal
            start = end
        yield start, len(text), None


_ENDS = {*WHITE_SPACE}


def _stands_alone(text: str, start: int, end: int) -> bool:
    around = (text[start - 1 : start], text[end : end + 1])
    return not any(map(_is_word, filter(None, around)))


@lru_cache(maxsize=1 << 12)
def _is_word(character: str) -> bool:
    return bool(exact_regex(WORD_SET, character).match(character))
