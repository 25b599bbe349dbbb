"""The engine that always works, and the specification of the other: Python, stage by stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from bpetite._corpus import FileCorpus, TextCorpus
from bpetite._decoder import join_tokens
from bpetite._encoder import DoubtfulPieceError, Encoder
from bpetite._pretokenizer import Pretokenizer, SpecialSplitter
from bpetite._progress import Reporter
from bpetite._trainer import learn_merges
from bpetite._vocabulary import TokenBytes, Vocabulary

__all__ = ["Counts", "TextEncoder", "TokenJoiner", "count_pieces", "learn_merges"]

Counts = Counter[str]
"""How often each piece occurs."""


class TextEncoder:
    """Turn text into ids by a vocabulary; safe to share between threads.

    >>> TextEncoder(Vocabulary(((97, 98),), {"<|a|>": 300}, "[a-z]+")).encode("ab<|a|>")
    [256, 300]
    """

    def __init__(
        self, vocabulary: Vocabulary, merge: Callable[[bytes], Sequence[int]] | None = None
    ) -> None:
        self._pretokenizer = Pretokenizer(
            vocabulary.pattern, vocabulary.more_patterns, vocabulary.normalizer
        )
        self._encoder = Encoder(vocabulary, self._pretokenizer.doubtful, merge)
        self._special_tokens = vocabulary.special_tokens
        self._splitter = SpecialSplitter(vocabulary.special_tokens)

    def encode(self, text: str, ordinary: bool = False) -> list[int]:
        """Return the ids of a text; unless all is `ordinary`, special literals are their ids.

        Raises UnicodeEncodeError for a lone surrogate, with its position in some part of the text.
        """
        ids: list[int] = []
        if ordinary:
            self._extend(ids, text)
            return ids
        for stretch, literal in self._splitter.split(text):
            self._extend(ids, stretch)
            if literal is not None:
                ids.append(self._special_tokens[literal])
        return ids

    def _extend(self, ids: list[int], text: str) -> None:
        pretokenizer = self._pretokenizer
        for block in pretokenizer.texts(text):
            length = len(ids)
            try:
                self._encoder.extend(ids, pretokenizer.cut(block))
            except DoubtfulPieceError:
                del ids[length:]
                self._encoder.extend_without_doubt(ids, pretokenizer.cut_exactly(block))

    def count(self, text: str, ordinary: bool = False) -> int:
        """Return how many ids `encode` would return, without making them a list."""
        if ordinary:
            return self._count(text)
        total = 0
        for stretch, literal in self._splitter.split(text):
            total += self._count(stretch)
            total += literal is not None
        return total

    def _count(self, text: str) -> int:
        pretokenizer = self._pretokenizer
        total = 0
        for block in pretokenizer.texts(text):
            try:
                total += self._encoder.count(pretokenizer.cut(block))
            except DoubtfulPieceError:
                ids: list[int] = []
                self._encoder.extend_without_doubt(ids, pretokenizer.cut_exactly(block))
                total += len(ids)
        return total


class TokenJoiner:
    """Join the bytes of ids.

    >>> TokenJoiner(TokenBytes({0: b"a", 1: b"bc"})).join([0, 1, 0])
    b'abca'
    """

    def __init__(self, bytes_of: TokenBytes) -> None:
        self._bytes_of = bytes_of

    def join(self, ids: Iterable[int]) -> bytes:
        """Return the bytes of ids, joined.

        Raises KeyError for an id that there is not, TypeError for what is no integer.
        """
        return join_tokens(ids, self._bytes_of)


def count_pieces(
    corpus: TextCorpus | FileCorpus,
    pattern: str,
    reporter: Reporter,
    threads: int | None,  # noqa: ARG001
) -> Counts:
    """Return how often each piece occurs in a corpus, which is read once.

    It is always one thread that counts: more would wait for the interpreter's lock.
    """
    pretokenizer = Pretokenizer(pattern)
    counts: Counter[str] = Counter()
    exact_counts: Counter[str] = Counter()
    for document in corpus:
        for block in pretokenizer.blocks(document):
            pieces = pretokenizer.cut(block)
            known = len(counts)
            counts.update(pieces)
            # Only a new piece can be doubtful: one that is, is never left among the others. The
            # new ones are the last.
            new = list(islice(reversed(counts), len(counts) - known))
            if any(map(pretokenizer.doubtful, new)):
                counts.subtract(pieces)
                for piece in new:
                    del counts[piece]
                exact_counts.update(pretokenizer.cut_exactly(block))
            reporter.report(corpus.bytes_read)
    counts.update(exact_counts)
    return counts
