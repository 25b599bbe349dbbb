"""The engine that always works, and the specification of the other: Python, stage by stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from bpetite._arrays import as_array, joined
from bpetite._corpus import FileCorpus, TextCorpus
from bpetite._decoder import join_tokens
from bpetite._encoder import DoubtfulPieceError, Encoder
from bpetite._pretokenizer import Pretokenizer, SpecialSplitter
from bpetite._progress import Reporter
from bpetite._stream_states import TextSteps
from bpetite._text import Text, as_str
from bpetite._trainer import learn_merges
from bpetite._vocabulary import Core, Vocabulary

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

Counts = Counter[str]
"""How often each piece occurs."""


def core_of_merges(*_: object) -> Core | None:
    """Return what the native core has of a file's merges; None, since there is none here.

    It is given what the file has as it is: the ids of the bytes, the tokens that no merge makes,
    the ids of two parts, again and again, the ids that the merges make, in runs [first, length],
    whether a whole piece is a token; and how many bytes all parts may have. It is None too if
    anything is wrong with them.
    """
    return None


def core_of_ranks(*_: object) -> Core | None:
    """Return what the native core has of tiktoken's ranks; None, since there is none here.

    It is given the lines of a file or a dict, the highest rank there may be, and how many bytes a
    token may have. It is None too if anything is wrong with them, or spelled otherwise than usual.
    """
    return None


def core_of_tokens(*_: object) -> None:
    """Return what the native core steps through a stream's tokens by; None: there is none here.

    It is given the `text_of` and the `bytes_of` of a TokenTable.
    """


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

    def encode(self, text: Text, ordinary: bool = False) -> list[int]:
        """Return the ids of a text; unless all is `ordinary`, special literals are their ids.

        Raises UnicodeEncodeError for a lone surrogate, with its position in some part of the text,
        and what `as_str` does.
        """
        ids: list[int] = []
        if not isinstance(text, str):
            text = as_str(text)
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

    def count(self, text: Text, ordinary: bool = False) -> int:
        """Return how many ids `encode` would return, without making them a list."""
        if not isinstance(text, str):
            text = as_str(text)
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

    # Here all work is that of one thread, whatever `threads` allows: Python has one run at a time.

    def encode_list(self, text: Text, ordinary: bool, threads: int) -> list[int]:  # noqa: ARG002
        """Return what `encode` does, by up to so many threads."""
        return self.encode(text, ordinary)

    def encode_array(
        self,
        text: Text,
        ordinary: bool = False,
        itemsize: int = 4,
        threads: int = 1,  # noqa: ARG002
    ) -> memoryview:
        """Return what `encode` does, in a buffer of ids of `itemsize` bytes, which is 4 or 2."""
        return as_array(self.encode(text, ordinary), itemsize)

    def encode_batch(
        self,
        texts: Sequence[Text],
        ordinary: bool,
        threads: int,  # noqa: ARG002
    ) -> list[list[int]]:
        """Return what `encode` does of each text; raise what it does of the first it refuses."""
        return [self.encode(text, ordinary) for text in texts]

    def encode_batch_arrays(
        self,
        texts: Sequence[Text],
        ordinary: bool,
        itemsize: int,
        threads: int,  # noqa: ARG002
    ) -> tuple[memoryview, memoryview]:
        """Return the ids of all texts in one buffer, and the offset of each text's, in ids."""
        return joined((self.encode(text, ordinary) for text in texts), itemsize)


class TokenJoiner:
    """Turn ids into bytes and text; safe to share between threads.

    >>> TokenJoiner(Vocabulary(((97, 98),), {"<|a|>": 257}, "[a-z]+")).join([256, 257, 97])
    b'ab<|a|>a'
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def join(self, ids: Iterable[int], skip_special_tokens: bool = False) -> bytes:
        """Return the bytes of ids, joined.

        Raises KeyError for an id that there is not, TypeError for what is no integer.
        """
        vocabulary = self._vocabulary
        table = vocabulary.tokens_without_special if skip_special_tokens else vocabulary.tokens
        return join_tokens(ids, table.bytes_of)

    def text(self, ids: Iterable[int], errors: str, skip_special_tokens: bool = False) -> str:
        """Return the text of ids: their bytes joined, and decoded as UTF-8.

        Raises as `join` does, and UnicodeDecodeError if `errors` is strict.
        """
        return self.join(ids, skip_special_tokens).decode("utf-8", errors)


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
