"""The engine in Rust, for what takes the time: the same results as the one in Python, faster.

What is here only takes the native core's parts together. What users can do wrong is found, and
told, by the code that both engines share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bpetite import _native, _progress, _python_engine
from bpetite._corpus import FileCorpus, TextCorpus
from bpetite._decoder import join_tokens
from bpetite._pretokenizer import PATTERNS
from bpetite._progress import Reporter
from bpetite._vocabulary import Pair, TokenBytes, Vocabulary

__all__ = ["Counts", "TextEncoder", "TokenJoiner", "count_pieces", "learn_merges"]

Counts = _native.PieceCounts
"""How often each piece occurs."""

# Patterns for which the core has a scanner: all that have names.
_SCANNERS = {pattern: name for name, pattern in PATTERNS.items()}


class TextEncoder:
    """Turn text into ids by a vocabulary; safe to share between threads.

    As `bpetite._python_engine.TextEncoder`. A pattern of the user's own cuts by `regex`, and the
    pieces alone are merged here.
    """

    encode: Callable[..., list[int]]
    count: Callable[..., int]

    def __init__(self, vocabulary: Vocabulary) -> None:
        scanner = _SCANNERS.get(vocabulary.pattern)
        if vocabulary.more_patterns or vocabulary.normalizer:
            scanner = None
        core = _native.TextEncoder(
            vocabulary.byte_ids,
            vocabulary.merges,
            vocabulary.merge_ids,
            vocabulary.ordinary_tokens,
            vocabulary.ignore_merges,
            dict(vocabulary.special_tokens),
            scanner,
        )
        encoder = core if scanner else _python_engine.TextEncoder(vocabulary, core.merge)
        self.encode = encoder.encode
        self.count = encoder.count


class TokenJoiner:
    """Join the bytes of ids, as `bpetite._python_engine.TokenJoiner`."""

    def __init__(self, bytes_of: TokenBytes) -> None:
        self._bytes_of = bytes_of
        self._core = _native.TokenBytes(bytes_of)

    def join(self, ids: Iterable[int]) -> bytes:
        """Return the bytes of ids, joined."""
        all_ids = ids if type(ids) is list else list(ids)
        joined = self._core.join(all_ids)
        # Integers of other types, and what is wrong, are for the reference.
        return join_tokens(all_ids, self._bytes_of) if joined is None else joined


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
