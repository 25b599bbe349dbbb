"""The native engine: Rust does the slow work, with the same results as Python.

This module only connects the parts of `_native`. Errors of users are found and worded by the Python
code that both engines share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, count
from typing import TYPE_CHECKING, Any, TypeVar

from bpetite._decoder import as_list
from bpetite._engine import _native, python
from bpetite._engine.contract import FREE_LEARNING
from bpetite._pattern_tree import byte_tree, pattern_tree
from bpetite._piece_records import Totals
from bpetite._pretokenizer import MATCH_ALL, PATTERNS, TIKTOKEN_CL100K, cuts_of
from bpetite._vocabulary import (
    NO_STAGES,
    NativeTokenBytes,
    Pair,
    TokenTable,
    Vocabulary,
    lazy_property,
)

if TYPE_CHECKING:
    from bpetite._automaton import Splits
    from bpetite._corpus import DocumentCorpus
    from bpetite._engine import contract
    from bpetite._progress import Reporter

T = TypeVar("T")

Counts = _native.PieceCounts | bytes
PlainSteps = _native.PlainSteps
WatchSteps = _native.WatchSteps
find_merges = _native.find_merges
read_merges = _native.NativeVocabulary.from_merges

# `_native` has windows for most patterns that have names, and for tiktoken's own cl100k.
_NAME_OF_PATTERN = {
    **{PATTERNS[name]: name for name in _native.PATTERNS if name in PATTERNS},
    TIKTOKEN_CL100K: "cl100k_base",
}

Splitter = _native.Automaton | _native.Cuts

_MAX_PATTERNS = 16  # the most patterns in turn: it bounds the time in which their automata are made


@lru_cache(maxsize=64)
def native_splitters_of(*patterns: str, of_bytes: bool = False) -> tuple[tuple[Splitter, ...], str]:
    """Return the automata that split texts by patterns in turn.

    One automaton takes as many patterns as it can. `of_bytes` is for patterns that split the byte
    characters of a text. If `regex` has to split texts, the second value is the reason.
    """
    if len(patterns) > _MAX_PATTERNS:
        return (), f"it has more than {_MAX_PATTERNS} patterns in turn"
    found: list[Splitter] = []
    trees: list[Any] = []
    for pattern in patterns:
        try:
            trees.append(byte_tree(pattern) if of_bytes else pattern_tree(pattern))
            if len(trees) > 1 and (joined := _joined(trees, of_bytes)):
                found[-1] = joined
                continue
            trees = trees[-1:]
            windows = None if of_bytes else _NAME_OF_PATTERN.get(pattern)
            found.append(_native.Automaton(trees, of_bytes, windows))
        except ValueError as error:
            return (), str(error)
    return tuple(found), ""


def _joined(trees: list[Any], of_bytes: bool) -> _native.Automaton | None:
    """Return the one automaton of patterns in turn, or None.

    If some patterns are too much for one automaton, so are these and more.
    """
    try:
        return _native.Automaton(trees, of_bytes)
    except ValueError:
        return None


def splitters_of(vocabulary: Vocabulary) -> tuple[tuple[Splitter, ...], str]:
    """Return what splits the texts of a vocabulary, or the reason that `regex` has to."""
    patterns, stages = vocabulary.patterns, vocabulary.stages
    # A space before a text does not change how it is split.
    steps = stages.steps[1:] if stages.steps[:1] == ("space",) else stages.steps
    patterns, steps = cuts_of(patterns, steps)
    if stages.has_words or not {*steps} <= {"isolated", "bytes"}:
        return (), "its tokenizer.json has stages that only Python follows"
    count = steps.index("bytes") if "bytes" in steps else len(patterns)
    cuts = (_native.Cuts([*vocabulary.glued]),) if stages.byte_fallback else ()
    if cuts and patterns == (MATCH_ALL,):
        return cuts, ""
    firsts, reason = native_splitters_of(*patterns[:count])
    others, other_reason = native_splitters_of(*patterns[count:], of_bytes=True)
    return (*firsts, *others, *cuts), reason or other_reason


def regex_reason(vocabulary: Vocabulary) -> str | None:
    return splitters_of(vocabulary)[1] or None


def _warning_of(reason: str) -> str:
    return (
        "bpetite splits text by `regex`, 30 to 140 times slower than by the native engine, because "
        + reason
    )


def read_ranks(
    ranks: bytes | Mapping[bytes, int], max_rank: int, max_bytes: int
) -> _native.NativeVocabulary | None:
    if isinstance(ranks, bytes):
        return _native.NativeVocabulary.from_rank_file(ranks, max_rank, max_bytes)
    return _native.NativeVocabulary.from_ranks(ranks, max_rank, max_bytes)


def native_form(vocabulary: Vocabulary) -> _native.NativeVocabulary | None:
    """Return the native form of a vocabulary; None if it has too many tokens or merges."""
    if isinstance(vocabulary.native, _native.NativeVocabulary):
        return vocabulary.native
    ignore_merges = vocabulary.ignore_merges
    tokens = vocabulary.ordinary_tokens if ignore_merges else vocabulary.other_tokens
    return _native.NativeVocabulary.from_fields(
        vocabulary.byte_ids, dict(tokens), vocabulary.merges, vocabulary.merge_ids, ignore_merges
    )


def character_form(
    vocabulary: Vocabulary,
) -> tuple[_native.NativeVocabulary | None, dict[int, list[int]]]:
    """Return the native form of a vocabulary whose merges begin with characters.

    The native form has merges that begin with bytes, so it first has merges that make the
    characters. Each of these joins bytes of one character only, so the other merges find the
    characters as before. Of a character without a token, they may make several bytes that are no
    token; the second value has the ids of the bytes of each such result.
    """
    byte_ids, tokens = vocabulary.byte_ids, vocabulary.ordinary_tokens
    id_of = {bytes([byte]): id for byte, id in enumerate(byte_ids)}
    merges: list[Pair] = []
    made: list[int] = []
    partial: dict[int, list[int]] = {}
    new_ids = count(vocabulary.n_vocab)
    for id, token in tokens.items():
        if len(token) == 1 or len(token.decode("utf-8")) > 1:
            continue
        for part in accumulate(bytes([byte]) for byte in token):
            if part not in id_of:
                id_of[part] = id if part == token else next(new_ids)
                merges.append((id_of[part[:-1]], byte_ids[part[-1]]))
                made.append(id_of[part])
            if part != token and len(part) > 1:
                partial[id_of[part]] = [byte_ids[byte] for byte in part]
    form = _native.NativeVocabulary.from_fields(
        byte_ids,
        dict(vocabulary.other_tokens),
        [*merges, *vocabulary.merges],
        [*made, *vocabulary.merge_ids],
        False,
        [len(merges) + merge for merge in vocabulary.stages.tied],
    )
    return form, partial


def make_text_encoder(vocabulary: Vocabulary) -> contract.TextEncoder:
    # Python splits text if only `regex` can.
    splitters, reason = splitters_of(vocabulary)
    partial: dict[int, list[int]] = {}
    if vocabulary.stages.byte_fallback:
        native_vocabulary, partial = character_form(vocabulary)
    else:
        native_vocabulary = native_form(vocabulary)
    if native_vocabulary is None:
        return python.TextEncoder(vocabulary)
    if vocabulary.stages.has_words:
        return python.TextEncoder(vocabulary, None, _warning_of(reason))
    encoder = _native.TextEncoder(
        native_vocabulary,
        dict(vocabulary.special_tokens),
        () if reason else splitters,
        partial,
        vocabulary.absent_bytes if vocabulary.stages.drops_unknown else b"",
    )
    if reason:
        return python.TextEncoder(vocabulary, encoder.merge, _warning_of(reason))
    stages = vocabulary.stages
    only_splits = "space" not in stages.steps and replace(stages, steps=()) == NO_STAGES
    if only_splits and not vocabulary.normalizer:
        return encoder
    from bpetite._engine.staged import StagedEncoder

    return StagedEncoder(vocabulary, encoder)


def token_bytes(table: TokenTable) -> _native.TokenBytes:
    """Return the native form of a table, without a copy in Python of what is native already."""
    bytes_of = table.bytes_of
    if not isinstance(bytes_of, NativeTokenBytes):
        return _native.TokenBytes(bytes_of)
    return _native.TokenBytes(bytes_of.others, bytes_of.native, bytes_of.absent_ids)


def make_events(event_class: type[T], token_class: type) -> Callable[[object, object], T | None]:
    return _native.EventMaker(event_class, token_class).make


def make_native_tokens(table: TokenTable) -> _native.StreamTokens:
    return _native.StreamTokens(table.text_of, token_bytes(table))


class TokenJoiner(python.TokenJoiner):
    """Rust declines ids of other types than int, and wrong ids. Python then does the work."""

    @lazy_property
    def _all(self) -> _native.TokenBytes:
        return token_bytes(self._vocabulary.stream_tokens(False))

    @lazy_property
    def _without_special(self) -> _native.TokenBytes:
        return self._all.without(self._vocabulary.skipped_ids)

    def join(self, ids: Iterable[int], skip_special_tokens: bool = False) -> bytes:
        tokens = self._without_special if skip_special_tokens else self._all
        joined = tokens.join(ids)
        if joined is None and type(ids) is not list:
            ids = as_list(ids)
            joined = tokens.join(ids)
        return super().join(ids, skip_special_tokens) if joined is None else joined

    def text(self, ids: Iterable[int], errors: str, skip_special_tokens: bool = False) -> str:
        tokens = self._without_special if skip_special_tokens else self._all
        text = tokens.text(ids, errors)
        return super().text(ids, errors, skip_special_tokens) if text is None else text

    def characters(self, ids: memoryview) -> int:
        characters = self._all.characters(ids)
        return super().characters(ids) if characters is None else characters

    def offsets(self, ids: contract.Ids, in_bytes: bool) -> contract.Ids:
        offsets = self._all.offsets(ids, in_bytes)
        return super().offsets(ids, in_bytes) if offsets is None else offsets


def make_token_joiner(vocabulary: Vocabulary) -> contract.TokenJoiner:
    joiner = TokenJoiner(vocabulary)
    return python.StrippingJoiner(joiner) if vocabulary.stages.strips_start else joiner


@lru_cache(maxsize=64)
def make_splits(splits: Splits) -> Splits:
    return _native.Splits(splits)


def count_pieces(
    corpus: DocumentCorpus, pattern: str, reporter: Reporter, threads: int | None
) -> Counts:
    from bpetite._corpus import BatchCorpus, NormalizedCorpus, check_utf8

    # This thread reads; `threads` others count.
    splitters, reason = native_splitters_of(pattern)
    if reason:
        warning = _warning_of(reason)
        return _native.PieceCounts(python.count_pieces(corpus, pattern, reporter, threads, warning))
    counter = _native.PieceCounter(splitters[0], threads)

    def take_documents(data: memoryview, offsets: memoryview) -> bool:
        is_taken = counter.add_documents(data, offsets)
        reporter.report(corpus.bytes_read)
        return is_taken

    if isinstance(corpus, (BatchCorpus, NormalizedCorpus)):
        documents = corpus.encoded(take_documents)
    else:
        documents = corpus.encoded()
    for name, document in documents:
        for data in document:
            if bad := counter.add(data):
                check_utf8(name, *bad)
            reporter.report(corpus.bytes_read)
        if bad := counter.end_document():
            check_utf8(name, *bad)
    return counter.finish()


def records_of(counts: Counts) -> bytes:
    return counts if isinstance(counts, bytes) else counts.records()


def counts_of(records: bytes) -> Counts:
    return records


def merge_records(runs: Sequence[tuple[bytes, int]], min_count: int) -> tuple[bytes, Totals]:
    merged = _native.merge_records(runs, min_count)
    if merged is None:
        return python.merge_records(runs, min_count)
    records, totals = merged
    return records, Totals(*totals)


def partition_records(records: bytes, count: int) -> list[tuple[bytes, Totals]]:
    parts = _native.partition_records(records, count)
    return [(part, Totals(*totals)) for part, totals in parts]


def learn_merges(
    counts: Counts, limit: int, learning: contract.Learning = FREE_LEARNING
) -> list[Pair]:
    if limit == 0:
        return []
    learner = _learner([counts], [], learning)
    if learner is None:
        return python.learn_merges(_in_python(counts), limit, learning)
    return _learnt(learner, limit, learning.report)


def learn_balanced(
    languages: Sequence[tuple[Counts, Counts]],
    limit: int,
    learning: contract.Learning = FREE_LEARNING,
) -> list[Pair]:
    texts, developments = ([*each] for each in zip(*languages, strict=True))
    if limit == 0:
        return []
    learner = _learner(texts, developments, learning)
    if learner is None:
        in_python = zip(map(_in_python, texts), map(_in_python, developments), strict=True)
        return python.learn_balanced([*in_python], limit, learning)
    return _learnt(learner, limit, learning.report)


def _learner(
    texts: list[Counts], developments: list[Counts], learning: contract.Learning
) -> _native.MergeLearner | None:
    _, base, takes, min_count = learning
    native_base = None if base is None else native_form(base)
    if base is not None and native_base is None:
        return None
    first_id = 0 if base is None else base.n_vocab
    return _native.MergeLearner(texts, developments, native_base, first_id, takes, min_count)


def _in_python(counts: Counts) -> python.Counts:
    return python.counts_of(records_of(counts))


def _learnt(
    learner: _native.MergeLearner, limit: int, report: Callable[[int], object] | None
) -> list[Pair]:
    from bpetite import _progress

    merges: list[Pair] = []
    if report is not None:
        report(0)
    is_finished = False
    while len(merges) < limit and not is_finished:
        learnt, is_finished = learner.learn(limit - len(merges), _progress.INTERVAL)
        merges += learnt
        if learnt and report is not None:
            report(len(merges))
    return merges
