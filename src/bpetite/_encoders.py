"""The encoders of one vocabulary: one for each choice of the special tokens that count."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from bpetite import _arguments
from bpetite._arguments import Chosen, Dtype, Frame, Specials, Text
from bpetite._budget import StartCutter, TextCutter
from bpetite._engine import python
from bpetite._engine.arrays import as_array, joined
from bpetite._engine.chosen import ENGINE
from bpetite._pretokenizer import ChunkSplitter, Pretokenizer, SpecialSplitter
from bpetite._stages import INSIDE, SEGMENT, TEXT, StagedSplitter, plain_tokens, splitter_of
from bpetite._tracing import Tracer
from bpetite._unicode import is_nfc
from bpetite._vocabulary import Vocabulary

if TYPE_CHECKING:
    from bpetite._engine.contract import Ids, TextEncoder

K = TypeVar("K")
T = TypeVar("T")

NO_FRAME: Final[Frame] = ((), ())

# The usual types of a choice of special tokens.
_COLLECTIONS = (tuple, set, frozenset, list)

# The number of choices of special tokens whose encoders are kept.
_MAX_ENCODERS = 64


class Encoders:
    """What splits and encodes the texts of a vocabulary, made when it is first needed.

    `usual` is the encoder by which all special tokens are special. By `ordinary`, only the added
    tokens are, which count in every text.
    """

    __slots__ = (
        "_encoders", "_segment_splitters", "_splitters", "_tracers", "_untrusted_splitters",
        "_usual_plain", "_vocabulary", "ordinary", "usual",
    )  # fmt: skip

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.usual = ENGINE.make_text_encoder(vocabulary)
        self._usual_plain = plain_tokens(vocabulary)
        if self._usual_plain:
            special_tokens = dict(vocabulary.special_tokens)
            self.usual = self.usual.with_special_tokens(special_tokens, [*self._usual_plain])
        self._encoders: dict[Chosen, TextEncoder] = {}
        self._splitters: dict[Chosen, ChunkSplitter] = {}
        self._untrusted_splitters: dict[Chosen, ChunkSplitter] = {}
        self._segment_splitters: dict[Chosen, SpecialSplitter | StagedSplitter] = {}
        self._tracers: dict[Chosen, Tracer] = {}
        self.ordinary = self.encoder(Chosen(vocabulary.added_tokens))

    def choose(
        self, allowed_special: Specials | None, disallowed_special: Specials = ()
    ) -> tuple[TextEncoder, TextEncoder | None]:
        """Return an encoder by the allowed special tokens, and one that finds disallowed ones."""
        if disallowed_special == () and type(allowed_special) in _COLLECTIONS:
            allowed: Any = allowed_special
            known = self._encoders.get(Chosen(self._vocabulary.added_tokens.union(allowed)))
            if known is not None:
                return known, None
        allowed, disallowed = _arguments.choose_specials(
            self._vocabulary, allowed_special, disallowed_special
        )
        guard = None if disallowed == Chosen() else self.encoder(disallowed)
        return self.encoder(allowed), guard

    def chosen(
        self, allowed_special: Specials | None, guard: Iterable[str] | None = None
    ) -> Chosen:
        """Return the choice of the allowed special tokens, with those guarded in untrusted text."""
        allowed, _ = _arguments.choose_specials(self._vocabulary, allowed_special, ())
        return allowed._replace(guard=_arguments.checked_guard(self._vocabulary, guard))

    def untrusted_splitter(self, chosen: Chosen) -> ChunkSplitter:
        """Return a splitter by which only the literals count that do so in untrusted text."""
        splitter = self._untrusted_splitters.get(chosen)
        if splitter is None:
            splitter = self.splitter(Chosen(frozenset(self.plain(chosen)), False, chosen.guard))
            _keep(self._untrusted_splitters, chosen, splitter)
        return splitter

    def encoder(self, chosen: Chosen) -> TextEncoder:
        """Return an encoder by which only the chosen special tokens are special."""
        if chosen == Chosen(inverted=True):
            return self.usual
        encoder = self._encoders.get(chosen)
        if encoder is None:
            special_tokens = self._special_tokens(chosen)
            encoder = self.usual.with_special_tokens(special_tokens, self.plain(chosen))
            _keep(self._encoders, chosen, encoder)
        return encoder

    def from_starts(self, chosen: Chosen) -> list[TextEncoder]:
        """Return the encoders of texts that begin as TEXT, SEGMENT and INSIDE say."""
        encoder = self.encoder(chosen)
        if not self._vocabulary.stages.starts_text:
            return [encoder] * 3
        assert isinstance(encoder, python.TextEncoder)  # or the native engine's, which derives
        return [encoder.starting(start) for start in (TEXT, SEGMENT, INSIDE)]

    def splitter(self, chosen: Chosen) -> ChunkSplitter:
        """Return a splitter by which only the chosen special tokens are special.

        The text after a split begins as INSIDE says.
        """
        splitter = self._splitters.get(chosen)
        if splitter is None:
            vocabulary = self._vocabulary
            flags_of = dict(vocabulary.stages.flags)
            literals = [
                each
                for each in self._special_tokens(chosen)
                if "control" not in flags_of.get(each, ())
            ]
            flags = {flag for each in literals for flag in flags_of.get(each, ())}
            pretokenizer = Pretokenizer.of(vocabulary)
            specials = splitter_of(vocabulary, literals)
            if isinstance(specials, StagedSplitter) and not specials.shows_literals:
                pretokenizer.forget_splits()
            apart = vocabulary.stages.starts_text
            splitter = ChunkSplitter(
                pretokenizer, literals, flags, apart, self.plain(chosen), ENGINE.make_splits
            )
            _keep(self._splitters, chosen, splitter)
        return splitter

    def segment_splitter(self, chosen: Chosen) -> SpecialSplitter | StagedSplitter:
        """Return what finds the chosen special tokens in a trusted segment.

        Raises the ValueError of `StagedSplitter.in_parts`.
        """
        splitter = self._segment_splitters.get(chosen)
        if splitter is None:
            literals = self._special_tokens(chosen)
            splitter = splitter_of(self._vocabulary, literals, self.plain(chosen))
            if isinstance(splitter, StagedSplitter):
                splitter = splitter.in_parts()
            _keep(self._segment_splitters, chosen, splitter)
        return splitter

    def cutter(
        self, allowed_special: Specials | None, characters: Callable[[memoryview], int]
    ) -> TextCutter:
        """Return what cuts texts to a number of ids."""
        vocabulary, chosen = self._vocabulary, self.chosen(allowed_special)
        first, _, inside = self.from_starts(chosen)
        stages, bytes_of = vocabulary.stages, vocabulary.tokens.bytes_of

        def is_unchanged(text: str) -> bool:
            return b"".join(map(bytes_of.__getitem__, inside.encode(text))) == text.encode()

        shared = (
            bytes_of,
            characters,
            self.splitter(chosen),
            (is_nfc if vocabulary.normalizer else None) if stages.keeps_text else is_unchanged,
            stages.may_drop,
        )
        cutter = TextCutter(
            lambda text: inside.encode_array(text, False, 4, 1), inside.count, *shared
        )
        if not stages.starts_text:
            return cutter
        return StartCutter(
            cutter, lambda text: first.encode_array(text, False, 4, 1), first.count, *shared
        )

    def offsets(self, text: str, ids: Ids, allowed_special: Specials | None, in_bytes: bool) -> Ids:
        """Return where the ids of a text begin in it, by a vocabulary that may change the text.

        Raises ValueError if that cannot be told.
        """
        chosen = self.chosen(allowed_special)
        tracer = self._tracers.get(chosen)
        if tracer is None:
            tracer = Tracer(self._vocabulary, self._special_tokens(chosen))
            _keep(self._tracers, chosen, tracer)
        offsets = tracer.offsets(text, ids, in_bytes)
        return offsets if isinstance(ids, list) else as_array(offsets, 8)

    def item_size(self, dtype: Dtype | None) -> int:
        """Return the size of an id in bytes, 0 for a list."""
        return 0 if dtype is None else _arguments.item_size_of(dtype, self._vocabulary)

    def frame(self, add_special_tokens: bool) -> Frame:
        """Return the ids before and after those of a text."""
        if not add_special_tokens:
            return NO_FRAME
        return self._vocabulary.prefix_ids, self._vocabulary.suffix_ids

    def frame_size(self, add_special_tokens: bool) -> int:
        return sum(map(len, self.frame(add_special_tokens)))

    def plain(self, chosen: Chosen) -> list[str]:
        """Return the chosen literals that count in untrusted text."""
        guard = chosen.guard
        plain = self._usual_plain if guard is None else plain_tokens(self._vocabulary, guard)
        return sorted(each for each in plain if (each in chosen.literals) != chosen.inverted)

    def _special_tokens(self, chosen: Chosen) -> dict[str, int]:
        literals, inverted, _ = chosen
        special_tokens = self._vocabulary.special_tokens
        return {
            literal: id
            for literal, id in special_tokens.items()
            if (literal in literals) != inverted
        }


def _keep(known: dict[K, T], key: K, new: T) -> None:
    if len(known) >= _MAX_ENCODERS:
        known.clear()
    known[key] = new


@overload
def framed(ids: list[int], frame: Frame) -> list[int]: ...
@overload
def framed(ids: memoryview, frame: Frame) -> memoryview: ...
def framed(ids: list[int] | memoryview, frame: Frame) -> list[int] | memoryview:
    """Return numbers between the two parts of a frame."""
    prefix, suffix = frame
    if not prefix and not suffix:
        return ids
    if isinstance(ids, list):
        return [*prefix, *ids, *suffix]
    return joined([ids], ids.itemsize, prefix, suffix)[0]


def encoded(encode: Callable[[Sequence[Text]], Any], texts: Sequence[Text], replaces: bool) -> Any:
    """Encode texts, with U+FFFD for what is not Unicode if `replaces`.

    The error of a bad text gets a note with its number.
    """
    try:
        try:
            return encode(texts)
        except UnicodeError:
            if not replaces:
                raise
        return encode([_arguments.replaced(text) for text in texts])
    except (TypeError, UnicodeError):
        checked = _arguments.replaced if replaces else _arguments.as_str
        for number, text in enumerate(texts):
            try:
                checked(text).encode("utf-8")
            except (TypeError, UnicodeError) as error:
                error.add_note(f"in text {number} of the batch")
                raise error from None
        raise


def without_special(text: Text, guard: TextEncoder | None) -> Text:
    """Return a text; raise ValueError if it has a special literal of `guard`."""
    if guard is None:
        return text
    string = _arguments.as_str(text)
    if found := guard.first_special(string):
        raise _arguments.disallowed_error(text, string, *found)
    return string
