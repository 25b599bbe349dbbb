"""The engine in Rust, for what takes the time: the same results as the one in Python, faster.

What is here only takes the native core's parts together. What users can do wrong is found, and
told, by the code that both engines share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

import bpetite._native as _native
from bpetite import _progress, _python_engine
from bpetite._corpus import FileCorpus, TextCorpus
from bpetite._decoder import as_list
from bpetite._pretokenizer import PATTERNS
from bpetite._progress import Reporter
from bpetite._vocabulary import Pair, Vocabulary

__all__ = [
    "Counts",
    "TextEncoder",
    "TextSteps",
    "TokenJoiner",
    "core_of_merges",
    "core_of_ranks",
    "core_of_tokens",
    "count_pieces",
    "learn_merges",
]

Counts = _native.PieceCounts
"""How often each piece occurs."""

# Patterns for which the core has a scanner: all that have names.
_SCANNERS = {pattern: name for name, pattern in PATTERNS.items()}

TextSteps = _native.TextSteps
"""The steps of a stream of text alone."""

core_of_merges = _native.Vocabulary.of_merges
core_of_tokens = _native.StreamTokens


def core_of_ranks(
    ranks: bytes | Mapping[bytes, int], highest_rank: int, most_bytes: int
) -> _native.Vocabulary | None:
    """Return what the core has of tiktoken's ranks, as `bpetite._python_engine.core_of_ranks`."""
    if isinstance(ranks, bytes):
        return _native.Vocabulary.of_rank_file(ranks, highest_rank, most_bytes)
    return _native.Vocabulary.of_ranks(ranks, highest_rank, most_bytes)


def _tables_of(vocabulary: Vocabulary) -> _native.Vocabulary | None:
    """Return what the core merges by; None if that is too much for it."""
    if isinstance(vocabulary.core, _native.Vocabulary):
        return vocabulary.core
    ignore_merges = vocabulary.ignore_merges
    tokens = vocabulary.ordinary_tokens if ignore_merges else vocabulary.other_tokens
    return _native.Vocabulary.of_fields(
        vocabulary.byte_ids, dict(tokens), vocabulary.merges, vocabulary.merge_ids, ignore_merges
    )


class TextEncoder:
    """Turn text into ids by a vocabulary; safe to share between threads.

    As `bpetite._python_engine.TextEncoder`. A pattern of the user's own cuts by `regex`, and the
    pieces alone are merged here.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        scanner = _SCANNERS.get(vocabulary.pattern)
        if vocabulary.more_patterns or vocabulary.normalizer:
            scanner = None
        tables = _tables_of(vocabulary)
        encoder: _native.TextEncoder | _python_engine.TextEncoder
        if tables is None:  # there are too many tokens or merges for the core
            encoder = _python_engine.TextEncoder(vocabulary)
        else:
            encoder = core = _native.TextEncoder(tables, dict(vocabulary.special_tokens), scanner)
            if scanner is None:
                encoder = _python_engine.TextEncoder(vocabulary, core.merge)
        self.encode = encoder.encode
        self.encode_list = encoder.encode_list
        self.count = encoder.count
        self.encode_array = encoder.encode_array
        self.encode_batch = encoder.encode_batch
        self.encode_batch_arrays = encoder.encode_batch_arrays


class TokenJoiner:
    """Turn ids into bytes and text, as `bpetite._python_engine.TokenJoiner`."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._reference = _python_engine.TokenJoiner(vocabulary)
        self._vocabulary = vocabulary

    @cached_property
    def _all(self) -> _native.TokenBytes:
        return _native.TokenBytes(self._vocabulary.tokens.bytes_of)

    @cached_property
    def _without_special(self) -> _native.TokenBytes:
        return self._all.without(self._vocabulary.skipped_ids)

    def join(self, ids: Iterable[int], skip_special_tokens: bool = False) -> bytes:
        """Return the bytes of ids, joined."""
        core = self._without_special if skip_special_tokens else self._all
        joined = core.join(ids)
        if joined is None and type(ids) is not list:
            ids = as_list(ids)
            joined = core.join(ids)
        # Integers of other types, and what is wrong, are for the reference.
        return self._reference.join(ids, skip_special_tokens) if joined is None else joined

    def text(self, ids: Iterable[int], errors: str, skip_special_tokens: bool = False) -> str:
        """Return the text of ids: their bytes joined, and decoded as UTF-8."""
        core = self._without_special if skip_special_tokens else self._all
        text = core.text(ids, errors)
        if text is None:
            return self.join(ids, skip_special_tokens).decode("utf-8", errors)
        return text


def count_pieces(
    corpus: TextCorpus | FileCorpus, pattern: str, reporter: Reporter, threads: int | None
) -> Counts:
    """Return how often each piece occurs in a corpus, which is read once.

    This thread reads; `threads` threads count, or as many as there are cores.
    """
    scanner = _SCANNERS.get(pattern)
    if scanner is None:
        return Counts(_python_engine.count_pieces(corpus, pattern, reporter, threads))
    counter = _native.PieceCounter(scanner, threads)
    for document in corpus.encoded():
        for data in document:
            if bad := counter.add(data):
                corpus.raise_decode_error(*bad)
            reporter.report(corpus.bytes_read)
        if bad := counter.end_document():
            corpus.raise_decode_error(*bad)
    return counter.finish()


def learn_merges(
    counts: Counts, limit: int, report: Callable[[int], object] | None = None
) -> list[Pair]:
    """Return up to `limit` merges in rank order, as `bpetite._trainer.learn_merges`.

    `counts` are gone afterwards. `report` is called as often as a reporter calls back.
    """
    if limit == 0:
        return []
    learner = _native.MergeLearner(counts)
    merges: list[Pair] = []
    if report is not None:
        report(0)
    no_pair_is_left = False
    while len(merges) < limit and not no_pair_is_left:
        learnt, no_pair_is_left = learner.learn(limit - len(merges), _progress.INTERVAL)
        merges += learnt
        if learnt and report is not None:
            report(len(merges))
    return merges
