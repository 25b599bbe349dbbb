"""The Python engine: the stages put together, and the specification of the native engine."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from bpetite import _piece_records, _trainer
from bpetite._arguments import Frame, Text, as_str, raise_in_whole
from bpetite._decoder import byte_offsets, character_offsets, characters_in, join_tokens
from bpetite._encoder import Encoder, ResplitError, merger_of
from bpetite._engine.arrays import as_array, joined
from bpetite._engine.contract import FREE_LEARNING, Ids, Learning
from bpetite._engine.documents import documents_in
from bpetite._engine.fallback import REASON, count_work
from bpetite._engine.trusted import first_tokens, segments, with_space
from bpetite._pretokenizer import Pretokenizer
from bpetite._stages import TEXT, StagedSplitter, splitter_of
from bpetite._tracing import Tracer
from bpetite._vocabulary import Pair, Vocabulary

if TYPE_CHECKING:
    from bpetite._automaton import Splits
    from bpetite._corpus import DocumentCorpus
    from bpetite._engine import contract
    from bpetite._engine.contract import PlainState, WatchState
    from bpetite._progress import Reporter

T = TypeVar("T")
Join = Callable[[Iterable[Sequence[int]]], T]
"""Makes a result of the ids of pieces."""

Counts = Counter[str]


def _leave_to_python(*_: object) -> None:
    """Decline the work for which only the native engine has a faster way."""


find_merges = read_merges = read_ranks = make_native_tokens = make_events = _leave_to_python


class TextEncoder:
    """A `contract.TextEncoder` that uses one thread: Python runs one at a time.

    >>> TextEncoder(Vocabulary(((97, 98),), {"<|a|>": 300}, "[a-z]+")).encode("ab<|a|>")
    [256, 300]
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        merge: Callable[[bytes], Sequence[int]] | None = None,
        reason: str | None = REASON,
    ) -> None:
        self._reason = reason
        self._vocabulary = vocabulary
        self._pretokenizer = Pretokenizer.of(vocabulary)
        self._encoder = Encoder(vocabulary, self._pretokenizer.needs_resplit, merge)
        if vocabulary.stages.steps:
            self._encoder.errors = "surrogateescape"  # of pieces that are no whole characters
        self._use(vocabulary.special_tokens, ())

    def _use(self, special_tokens: Mapping[str, int], plain: Collection[str]) -> None:
        self._special_tokens = special_tokens
        self._splitter = splitter_of(self._vocabulary, special_tokens, plain)

    def encode(self, text: Text, ordinary: bool = False, _threads: int = 1) -> list[int]:
        return _concatenated(self._parts(self._counted(text), ordinary, _concatenated))

    def count(self, text: Text, ordinary: bool = False) -> int:
        return sum(self._parts(self._counted(text), ordinary, lambda ids: sum(map(len, ids))))

    def _counted(self, text: Text) -> str:
        text = as_str(text)
        count_work(len(text), self._reason)
        return text

    def _parts(self, text: str, ordinary: bool, join: Join[T]) -> Iterator[T]:
        """Yield `join` of the ids of the pieces of each block, and of each special literal."""
        try:
            for segment, literal in self._splitter.split(text, ordinary):
                if segment:
                    yield from self._segment(segment, join)
                if literal is not None:
                    yield join([(self._special_tokens[literal],)])
        except UnicodeEncodeError as error:
            raise_in_whole(text, error)

    def _segment(self, segment: str, join: Join[T]) -> Iterator[T]:
        """Yield `join` of the ids of the pieces of each block of normalized text."""
        pretokenizer, encoder = self._pretokenizer, self._encoder
        for block in pretokenizer.blocks(segment):
            try:
                part = join(map(encoder.__getitem__, pretokenizer.split(block)))
            except ResplitError:
                part = join(map(encoder.find, pretokenizer.split_exactly(block)))
            yield part

    def pieces(self, text: str) -> Iterator[tuple[bytes, str | None]]:
        """Yield each piece, or the bytes of a special literal and the literal."""
        errors, split = self._encoder.errors, self._pretokenizer.split_exactly
        for segment, literal in self._splitter.split(text):
            for block in self._pretokenizer.blocks(segment):
                yield from ((piece.encode("utf-8", errors), None) for piece in split(block))
            if literal is not None:
                yield literal.encode(), literal

    def merge(self, data: bytes) -> list[int]:
        return list(self._encoder.merge(data))

    def with_special_tokens(
        self, special_tokens: dict[str, int], plain: Sequence[str] = ()
    ) -> TextEncoder:
        encoder = copy(self)
        encoder._use(special_tokens, plain)
        return encoder

    def starting(self, start: int) -> TextEncoder:
        """Return an encoder for texts that begin elsewhere, as in `_stages`."""
        encoder = copy(self)
        if isinstance(self._splitter, StagedSplitter):
            encoder._splitter = self._splitter.starting(start)
        return encoder

    def first_special(self, text: str) -> tuple[str, int] | None:
        if found := self._splitter.first(text):
            text.encode("utf-8")  # the error of a lone surrogate comes first
        return found

    def encode_array(self, text: Text, ordinary: bool, item_size: int, _threads: int) -> memoryview:
        return as_array(self.encode(text, ordinary), item_size)

    def encode_batch(
        self, texts: Iterable[Text], frame: Frame, item_size: int, _threads: int
    ) -> Any:
        if item_size:
            return joined(map(self.encode, texts), item_size, *frame)
        prefix, suffix = frame
        return [[*prefix, *self.encode(text), *suffix] for text in texts]

    def encode_buffer(
        self, data: memoryview, offsets: memoryview, frame: Frame, item_size: int, threads: int
    ) -> tuple[memoryview, memoryview]:
        documents = documents_in(data, offsets)
        found: tuple[memoryview, memoryview]
        found = self.encode_batch(documents, frame, item_size, threads)
        return found

    def encode_parts(self, parts: Iterable[str], item_size: int) -> tuple[Any, Any]:
        splitter = self._splitter
        encoder, tracer, start, after = self, None, TEXT, TEXT
        if isinstance(splitter, StagedSplitter):
            splitter = splitter.in_parts()
            tracer = Tracer(self._vocabulary, ())
            space, start, after = splitter.begin_parts(splitter.start)
            encoder, parts = self.starting(start), with_space(space, parts)
        ids: list[int] = []
        offsets: list[int] = []
        for text, starts, literal in segments(parts, splitter):
            segment_ids = encoder.encode(text, True)
            if tracer is None:
                tokens = map(self._vocabulary.tokens.bytes_of.__getitem__, segment_ids)
                firsts = first_tokens(text, starts, tokens)
            else:
                begins = tracer.offsets(text, segment_ids, in_bytes=False, start=start)
                firsts = [bisect_left(begins, start) if start else 0 for start in starts]
            offsets += (len(ids) + first for first in firsts)
            ids += segment_ids
            if literal is not None:
                ids.append(self._special_tokens[literal])
                if tracer is not None and start != after:
                    encoder, start = self.starting(after), after
        offsets.append(len(ids))
        return (as_array(ids, item_size), as_array(offsets, 8)) if item_size else (ids, offsets)


make_text_encoder = TextEncoder


def regex_reason(_vocabulary: Vocabulary) -> str | None:
    return "the Python engine splits all text by it"


def _concatenated(parts: Iterable[Sequence[int]]) -> list[int]:
    ids: list[int] = []
    for part in parts:
        ids += part
    return ids


class TokenJoiner:
    """A `contract.TokenJoiner`.

    >>> TokenJoiner(Vocabulary(((97, 98),), {"<|a|>": 257}, "[a-z]+")).join([256, 257, 97])
    b'ab<|a|>a'
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def join(self, ids: Iterable[int], skip_special_tokens: bool = False) -> bytes:
        vocabulary = self._vocabulary
        table = vocabulary.tokens_without_special if skip_special_tokens else vocabulary.tokens
        return join_tokens(ids, table.bytes_of)

    def text(self, ids: Iterable[int], errors: str, skip_special_tokens: bool = False) -> str:
        return self.join(ids, skip_special_tokens).decode("utf-8", errors)

    def characters(self, ids: memoryview) -> int:
        return characters_in(self.join(ids))

    def offsets(self, ids: Ids, in_bytes: bool) -> Ids:
        bytes_of = self._vocabulary.tokens.bytes_of
        if isinstance(ids, memoryview):
            return as_array(self.offsets(ids.tolist(), in_bytes), 8)
        return byte_offsets(ids, bytes_of) if in_bytes else character_offsets(ids, bytes_of)


class StrippingJoiner:
    """A `contract.TokenJoiner` that strips a space at the start of each text.

    >>> joiner = StrippingJoiner(TokenJoiner(Vocabulary(((32, 98),), {}, "[a-z]+")))
    >>> joiner.text([256, 256], "strict"), joiner.offsets([256, 256], True)
    ('b b', [0, 1])
    """

    def __init__(self, joiner: contract.TokenJoiner) -> None:
        self._joiner = joiner

    def join(self, ids: Iterable[int], skip_special_tokens: bool = False) -> bytes:
        return self._joiner.join(ids, skip_special_tokens).removeprefix(b" ")

    def text(self, ids: Iterable[int], errors: str, skip_special_tokens: bool = False) -> str:
        return self._joiner.text(ids, errors, skip_special_tokens).removeprefix(" ")

    def characters(self, ids: memoryview) -> int:
        return self._joiner.characters(ids)

    def offsets(self, ids: Ids, in_bytes: bool) -> Ids:
        offsets = self._joiner.offsets(ids, in_bytes)
        if not self._joiner.join(ids).startswith(b" "):
            return offsets
        moved = [max(offset - 1, 0) for offset in offsets]
        return moved if isinstance(offsets, list) else as_array(moved, 8)


def make_token_joiner(vocabulary: Vocabulary) -> contract.TokenJoiner:
    joiner = TokenJoiner(vocabulary)
    return StrippingJoiner(joiner) if vocabulary.stages.strips_start else joiner


def make_splits(splits: Splits) -> Splits:
    return splits


def learn_merges(counts: Counts, limit: int, learning: Learning = FREE_LEARNING) -> list[Pair]:
    only_reference = [counts]
    del counts
    return _trainer.learn_merges(only_reference.pop(), limit, learning.report, **_rules(learning))


def learn_balanced(
    languages: Sequence[tuple[Counts, Counts]], limit: int, learning: Learning = FREE_LEARNING
) -> list[Pair]:
    return _trainer.learn_balanced(languages, limit, learning.report, **_rules(learning))


def _rules(learning: Learning) -> dict[str, Any]:
    rules: dict[str, Any] = {"takes": learning.takes, "min_count": learning.min_count}
    if learning.base is not None:
        merge = merger_of(learning.base)
        rules["ids_of"] = lambda piece: merge(piece.encode())
        rules["first_id"] = learning.base.n_vocab
    return rules


records_of = _piece_records.write_records
counts_of = _piece_records.counts_of
merge_records = _piece_records.merge_records
partition_records = _piece_records.partition_records


def count_pieces(
    corpus: DocumentCorpus,
    pattern: str,
    reporter: Reporter,
    _threads: int | None,
    reason: str | None = REASON,
) -> Counts:
    pretokenizer = Pretokenizer(pattern)
    counts: Counter[str] = Counter()
    exact_counts: Counter[str] = Counter()
    for document in corpus:
        for block in pretokenizer.blocks_of_chunks(document):
            pieces = pretokenizer.split(block)
            n_before = len(counts)
            counts.update(pieces)
            # Only new pieces need the check: failing ones are removed below. New pieces are the
            # last keys, since a dict keeps its order.
            new = list(islice(reversed(counts), len(counts) - n_before))
            if any(map(pretokenizer.needs_resplit, new)):
                counts.subtract(pieces)
                for piece in new:
                    del counts[piece]
                exact_counts.update(pretokenizer.split_exactly(block))
            count_work(len(block), reason)
            reporter.report(corpus.bytes_read)
    counts.update(exact_counts)
    return counts


class WatchSteps:
    """A `contract.WatchSteps`."""

    __slots__ = ("_bytes_of", "_due", "_state", "_texts", "_until_due", "characters")

    _state: WatchState
    _texts: list[str | None]
    _bytes_of: dict[int, bytes]
    _due: int  # the number of ids at which stops begin to count, or at which the stream ends
    _until_due: int  # `_due` minus the number of ids so far; below 0 if nothing is due any more
    characters: int  # the number of characters that were returned

    def step(self, ids: int | Iterable[int]) -> str:
        try:
            if type(ids) is int and ids >= 0:
                state = self._state
                until_due = self._until_due - 1
                if state.whole[ids]:
                    text: str = self._texts[ids]  # type: ignore[assignment] # it is whole text
                else:
                    text, state, _ = state.transitions[ids]
                characters = self.characters + len(text)
                if until_due:
                    self._state = state
                    self._until_due = until_due
                    self.characters = characters
                    return text
        except LookupError:
            pass  # an id beyond the list, or one without a transition
        if type(ids) is list:
            joined = self._step_list(ids)
            if joined is not None:
                return joined
        return self._step_any(ids)

    def _step_list(self, ids: list[Any]) -> str | None:
        if 0 < self._until_due <= len(ids):
            return None
        state, texts_of = self._state, self._texts
        texts = []
        try:
            for id in ids:
                if type(id) is not int or id < 0:
                    return None
                if state.whole[id]:
                    text: str = texts_of[id]  # type: ignore[assignment] # it is whole text
                else:
                    text, state, _ = state.transitions[id]
                texts.append(text)
        except LookupError:
            return None
        joined = "".join(texts)
        count, length = len(ids), len(joined)
        self._state = state
        self._until_due -= count
        self.characters += length
        return joined

    @abstractmethod
    def _step_any(self, ids: object) -> str:
        """Make the steps of an id, or several, of any type; raise the precise error."""


class PlainSteps:
    """A `contract.PlainSteps`."""

    __slots__ = ("_state",)

    _state: PlainState

    def step(self, ids: int | Iterable[int]) -> str:
        # Most tokens are whole text and find nothing pending: one look-up, and no bytes touched.
        try:
            if type(ids) is int and ids >= 0:
                state = self._state
                text = state.text_of[ids]
                if text is not None:
                    return text
                text, self._state = state[ids]
                return text
        except LookupError:
            pass  # an id beyond the list, or an unknown one
        if type(ids) is list:
            text = self._step_list(ids)
            if text is not None:
                return text
        return self._step_any(ids)

    def _step_list(self, ids: list[Any]) -> str | None:
        state = self._state
        texts = []
        try:
            for id in ids:
                if type(id) is not int or id < 0:
                    return None
                text = state.text_of[id]
                if text is None:
                    text, state = state[id]
                texts.append(text)
        except LookupError:
            return None
        joined = "".join(texts)
        self._state = state
        return joined

    @abstractmethod
    def _step_any(self, ids: object) -> str:
        """Make the steps of an id, or several, of any type; raise the precise error."""
