"""Normalized text and special literals, by the `Stages` of a vocabulary.

The rules are the ones of huggingface/tokenizers: literals that are not normalized are found first,
the text between them is normalized, and the other literals are found in the normalized text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import copy
from functools import lru_cache
from itertools import repeat
from operator import itemgetter

from bpetite._pretokenizer import Span, SpecialSplitter, time_left
from bpetite._unicode import WHITE_SPACE, WORD_SET, form_origins, lowercase, normalized
from bpetite._unicode.patterns import exact_regex
from bpetite._vocabulary import NO_STAGES, ONE_SPACE, Vocabulary

Normalize = Callable[[str], str]

FORMS = ("NFC", "NFD", "NFKC", "NFKD")
"""The normalizers that are normal forms of Unicode."""

TEXT, SEGMENT, INSIDE = range(3)
"""Where a text to encode begins: as a whole text, after a literal of it, or at a safe split."""

_PREFIXES = ("Prepend", "Prefix")
"""Normalizers that put a text before others: the first also before literals."""

FLAGS = ("lstrip", "rstrip", "single_word", "normalized")


def normalizer_of(normalizers: Iterable[tuple[str, ...]]) -> Normalize | None:
    """Return a function that applies the normalizers of `Stages` to a text that is not empty.

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
    if name in _PREFIXES:
        (prefix,) = arguments
        return lambda text: text and prefix + text
    assert name == "Replace", name
    pattern, content = arguments
    if (name, pattern, content) == ONE_SPACE:
        return lambda text: text.replace(pattern, content)
    return lambda text: exact_regex(pattern, text).sub(lambda _: content, text, timeout=time_left())


def _stripped(text: str, left: bool, right: bool) -> str:
    if left:
        text = text.lstrip(WHITE_SPACE)
    return text.rstrip(WHITE_SPACE) if right else text


def _origins(normalizer: tuple[str, ...], text: str, normal: str) -> Sequence[int]:
    name, *arguments = normalizer
    if name in FORMS:
        return form_origins(text, name)  # type: ignore[arg-type]
    if name == "Lowercase":
        return [at for at, character in enumerate(text) for _ in lowercase(character)]
    if name == "Strip":
        start = len(text) - len(_stripped(text, "left" in arguments, False))
        return range(start, start + len(normal))
    if name in _PREFIXES:
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

    Raises ValueError for a literal that becomes empty, or equal to another one.
    """
    normalize = normalizer_of(each for each in normalizers if each[0] != "Prefix") or str
    literal_of: dict[str, str] = {}
    for literal in (literal for literal, each in flags if "normalized" in each):
        form = normalize(literal)
        if not form:
            raise ValueError(f"the normalizers leave nothing of the special token {literal!r}")
        if (other := literal_of.setdefault(form, literal)) != literal:
            raise ValueError(f"the special tokens {other!r} and {literal!r} are normalized alike")
    return literal_of


def splitter_of(
    vocabulary: Vocabulary, literals: Collection[str], plain: Collection[str] = ()
) -> SpecialSplitter | StagedSplitter:
    """Return the splitter that finds the special literals of a vocabulary.

    `plain` ones count in untrusted text too.
    """
    if vocabulary.normalizers or vocabulary.stages != NO_STAGES:
        return StagedSplitter(vocabulary, literals, plain)
    return SpecialSplitter(literals, plain)


def plain_tokens(vocabulary: Vocabulary, guard: Iterable[str] | None = None) -> frozenset[str]:
    """Return the added tokens that count in untrusted text: all that are not in `guard`.

    By default, these are the tokens of white space, letters, marks and digits alone. Markup such as
    `<think>` may be an added token, too.
    """
    added = vocabulary.added_tokens
    if guard is not None:
        return added.difference(guard)
    space = "\u2581" if vocabulary.stages.byte_fallback else ""
    plain = rf"[\s\p{{L}}\p{{M}}\p{{Nd}}{space}]+"
    return frozenset(each for each in added if exact_regex(plain, each).fullmatch(each))


class StagedSplitter:
    """A `SpecialSplitter` whose text is normalized, and whose literals have flags.

    Only literals among `literals` count.
    """

    def __init__(
        self, vocabulary: Vocabulary, literals: Collection[str], plain: Collection[str] = ()
    ) -> None:
        flags = {key: value for key, value in vocabulary.stages.flags if key in literals}
        self.is_plain = frozenset(plain).__contains__
        self._normalizers = vocabulary.normalizers
        self._normalize = normalizer_of(vocabulary.normalizers)
        self._metaspace = vocabulary.stages.metaspace
        self.start = TEXT
        later_of = normalized_literals(vocabulary.normalizers, flags.items())
        later = {*later_of.values()}
        first_of = {
            literal: literal
            for literal in literals
            if literal not in later and "control" not in flags.get(literal, ())
        }
        self.searched: frozenset[str] = frozenset((*first_of, *later_of))
        """The texts that it searches for."""
        self._first = _FlaggedSplitter(first_of, flags, plain)
        self._later = _FlaggedSplitter(later_of, flags, plain)
        self._has_spaces = vocabulary.stages.byte_fallback and self._normalize is not None
        self._finds_spaces = False  # whether it finds literals as if spaces had one form
        self.shows_literals: bool = all(
            form == literal and not (self._has_spaces and " " in form)
            for form, literal in later_of.items()
        )
        """Whether a text has the literals that are found in its normalized form."""
        if self._has_spaces:
            # Spaces are U+2581 to the library that owns the file, and so no white space.
            self._later.white_space = WHITE_SPACE.replace(" ", "")

    def starting(self, start: int) -> StagedSplitter:
        """Return a splitter for a text that begins elsewhere: TEXT, SEGMENT or INSIDE."""
        splitter = copy(self)
        splitter.start = start
        return splitter

    def normalized(self, text: str) -> str:
        """Return a text normalized, without searching for literals."""
        return self._spaced(self._normalized(text, self.start), self.start)

    def _normalized(self, text: str, start: int) -> str:
        if not text or not self._normalize:
            return text
        normal = self._normalize(text)
        return normal[1:] if self._unprefixes(start) else normal

    def _unprefixes(self, start: int) -> bool:
        """Return whether a space that normalizers put before a text must be removed."""
        names = {name for name, *_ in self._normalizers}
        return (start == INSIDE and "Prepend" in names) or (start != TEXT and "Prefix" in names)

    def _spaced(self, text: str, start: int) -> str:
        """Return the text between two literals with the spaces that `metaspace` asks for."""
        if not self._metaspace or not text:
            return text
        text = text.replace(*ONE_SPACE[1:])
        return " " + text if self._puts_space(text, start) else text

    def _puts_space(self, text: str, start: int) -> bool:
        last = {"always": SEGMENT, "first": TEXT}.get(self._metaspace, -1)
        return start <= last and not text.startswith(" ")

    def split(self, text: str, ordinary: bool = False) -> Iterator[tuple[str, str | None]]:
        """Yield each segment of normalized text with the literal after it; None after the last.

        In `ordinary` text, no literal counts.
        """
        text.encode("utf-8")  # the error of a lone surrogate comes first
        if ordinary:
            yield self.normalized(text), None
            return
        start = self.start
        for segment, literal in self._first.split(text):
            normal = self._normalized(segment, start)
            if self._later.has_literals:
                for part, found in self._later.split(normal):
                    yield self._spaced(part, start), found
                    if part or found is not None:
                        start = SEGMENT
                normal = ""
            yield self._spaced(normal, start), literal
            if segment or literal is not None:
                start = SEGMENT

    def split_trusted(
        self, text: str, trusted: Sequence[Span]
    ) -> Iterator[tuple[int, int, str | None]]:
        """Yield the bounds of each segment of a text in parts, and the literal after it.

        Literals count as in `SpecialSplitter.find`.
        """
        for start, end, literal in self._first.spans(text, trusted):
            if not self._later.has_literals:
                yield start, end, literal
                continue
            segment = text[start:end]
            spaced = segment.replace(*ONE_SPACE[1:]) if self._finds_spaces else segment
            inside = [
                (max(first - start, 0), min(last, end) - start)
                for first, last in trusted
                if first < end and start < last
            ]
            for first, last, found in self._later.spans(spaced, inside):
                yield start + first, start + last, literal if found is None else found

    def traced(self, text: str) -> Iterator[tuple[str, Sequence[int], int | None]]:
        """Yield the segments of `split`, with the origin of each character and of the literal.

        An origin is the position in `text` where the character, or the text it replaces, begins.
        """
        begins = self.start
        for start, at, literal in self._first.spans(text):
            normal, origins = self._traced(text[start:at], range(start, at), begins)
            if self._later.has_literals:
                for first, last, found in self._later.spans(normal):
                    at_found = None if found is None else origins[last]
                    yield (
                        *self._spaced_at(normal[first:last], origins[first:last], begins),
                        at_found,
                    )
                    if first < last or found is not None:
                        begins = SEGMENT
                normal, origins = "", ()
            yield *self._spaced_at(normal, origins, begins), None if literal is None else at
            if start < at or literal is not None:
                begins = SEGMENT

    def _traced(self, text: str, origins: Sequence[int], start: int) -> tuple[str, Sequence[int]]:
        for normalizer in self._normalizers if text else ():
            normal = _function(*normalizer)(text)
            origins = [origins[at] for at in _origins(normalizer, text, normal)]
            text = normal
        return (text[1:], origins[1:]) if text and self._unprefixes(start) else (text, origins)

    def _spaced_at(
        self, text: str, origins: Sequence[int], start: int
    ) -> tuple[str, Sequence[int]]:
        spaced = self._spaced(text, start)
        return spaced, ([*origins[:1], *origins] if len(spaced) > len(text) else origins)

    def in_parts(self) -> StagedSplitter:
        """Return a splitter that normalizes nothing, for the parts of a text.

        Raises ValueError if some literals are found in normalized text, unless all that normalizers
        do is to bring spaces into one form and to put one before the text.
        """
        splitter = copy(self)
        if self._normalize and self._later.has_literals:
            puts_more = self._first.has_literals and self._normalizers[0][0] == "Prepend"
            if not self._has_spaces or puts_more:
                raise ValueError(
                    "segments cannot be told apart in this vocabulary, since it finds special "
                    "tokens in normalized text; encode the whole text"
                )
            splitter._finds_spaces = True
        splitter._normalize = None
        splitter._metaspace = ""
        return splitter

    def begin_parts(self, start: int) -> tuple[str, int, int]:
        """Return how to encode the parts of a text that begins as `start` says.

        The values are a space to put before them, where the text then begins, and where text
        after a literal does.
        """
        if not self._finds_spaces:
            return "", start, SEGMENT
        has_prefix = start == TEXT and self._normalizers[0][0] in _PREFIXES
        return " " if has_prefix else "", INSIDE, INSIDE

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

    def __init__(
        self,
        literal_of: dict[str, str],
        flags: dict[str, tuple[str, ...]],
        plain: Collection[str],
    ) -> None:
        texts = [text for text, literal in literal_of.items() if literal in plain]
        self._splitter = SpecialSplitter(literal_of, texts)
        self._literal_of = literal_of
        self.white_space = WHITE_SPACE
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

    def spans(
        self, text: str, trusted: Sequence[Span] | None = None
    ) -> Iterator[tuple[int, int, str | None]]:
        """Yield where each segment begins and ends, and the literal after it.

        If some text is not trusted, the flags of a literal that is not plain see only the trusted
        text around it.
        """
        start = space_end = 0
        low, high = 0, len(text)
        for found, at in self._splitter.find(text, trusted):
            if trusted is not None:
                low, high = self._seen(text, trusted, found, at)
            literal = self._literal_of[found]
            flags = self._flags.get(literal, ())
            end = at + len(found)
            if "single_word" in flags and not _stands_alone(text, at, end, low, high):
                continue
            if "lstrip" in flags:
                at = max(at, start)
                while at > max(start, low) and text[at - 1] in self.white_space:
                    at -= 1
            if "rstrip" in flags:
                if end >= space_end:
                    space_end = end
                    while space_end < high and text[space_end] in self.white_space:
                        space_end += 1
                end = space_end
            if at < end:  # otherwise the literal before took all of this one
                yield min(start, at), at, literal
            start = end
        yield start, len(text), None

    def _seen(self, text: str, trusted: Sequence[Span], found: str, at: int) -> Span:
        """Return the bounds of the text that the flags of a literal see."""
        if not self._flags or found in self._splitter.plain:
            return 0, len(text)
        return trusted[bisect_right(trusted, at, key=itemgetter(0)) - 1]


def _stands_alone(text: str, start: int, end: int, low: int, high: int) -> bool:
    around = (text[max(start - 1, low) : start], text[end : min(end + 1, high)])
    return not any(map(_is_word, filter(None, around)))


@lru_cache(maxsize=1 << 12)
def _is_word(character: str) -> bool:
    return bool(exact_regex(WORD_SET, character).match(character))
