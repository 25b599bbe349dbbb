"""The figures of a report, from vocabularies and texts."""

from __future__ import annotations

import warnings
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import accumulate, islice

import bpetite
from bpetite import CorpusWarning, Tokenizer
from bpetite._arguments import check_at_least
from bpetite._corpus import Batches
from bpetite._tokenizer import vocabulary_of
from bpetite.analysis._counts import count_ids
from bpetite.analysis._cuts import counted_cuts
from bpetite.analysis._figures import (
    Comparison,
    CountedToken,
    NextMerges,
    Report,
    TextFigures,
    Use,
    VocabularyFigures,
)
from bpetite.analysis._merge_trees import MergeTrees
from bpetite.analysis._texts import Beginning, Measured, WholeText
from bpetite.corpora import encode

_OFTEN = 10  # the fewest occurrences of an id that is not rare

_SHOWN = 12  # the most tokens in a list of examples

_GROUP = 64  # the tokens that are checked together

_SIZES_PER_OCTAVE = 4  # the points of a curve while the vocabulary doubles


def report(
    tokenizers: Mapping[str, Tokenizer],
    texts: Mapping[str, str | Batches],
    *,
    parallel: Mapping[str, str | Batches] | None = None,
    next_merges: int = 1000,
    next_bytes: int = 1 << 20,
    differences: int | None = None,
) -> Report:
    """Return how vocabularies encode texts, by name.

    A text is a `str`, or a corpus with `batches()` such as a `bpetite.corpora.Corpus`. A corpus is
    read twice for each tokenizer, in bounded memory. Special literals are ordinary text.

    `parallel` has one text in several languages, the language of reference first. Parity and the
    Gini coefficient are figures of these texts.

    `next_merges` more merges are learnt on the first `next_bytes` bytes of each text, to tell
    whether a larger vocabulary would pay. They are left out if `next_merges` is 0, and for a
    vocabulary that cannot be continued: with several patterns, with byte fallback, or with other
    stages of a tokenizer.json.

    If `differences` is a number, another pass counts the cuts that each vocabulary shares with the
    first, and keeps that many stretches of text that both divide differently. It encodes each
    document whole.

    >>> found = report({"small": Tokenizer.train("ab ab ab", 258)}, {"line": "ab ab c"})
    >>> use = found.vocabularies[0].uses[0]
    >>> use.tokens, use.bytes_per_token, use.curve
    (4, 1.75, ((256, 7), (258, 4)))

    Raises ValueError without a tokenizer or a text, and for a number that is too low; TypeError for
    another value; and the errors of `corpora.encode` and of the corpora.
    """
    parallel = {} if parallel is None else parallel
    for argument, value in (("tokenizers", tokenizers), ("texts", texts), ("parallel", parallel)):
        if not isinstance(value, Mapping):
            raise TypeError(f"{argument} must be a mapping by name, got {type(value).__name__}")
    next_merges = check_at_least(0, next_merges, "next_merges")
    next_bytes = check_at_least(1, next_bytes, "next_bytes")
    if differences is not None:
        differences = check_at_least(0, differences, "differences")
    if not tokenizers:
        raise ValueError("report needs a tokenizer")
    for name, tokenizer in tokenizers.items():
        if not isinstance(tokenizer, Tokenizer):
            raise TypeError(f"{name} must be a Tokenizer, got {type(tokenizer).__name__}")
    corpora = {name: _corpus_of(name, text) for name, text in texts.items()}
    languages = {name: _corpus_of(name, text) for name, text in parallel.items()}
    if not corpora and not languages:
        raise ValueError("report needs a text")
    subjects = [_Subject(name, tokenizer) for name, tokenizer in tokenizers.items()]
    sizes = _sizes(subject.size for subject in subjects)
    measured: dict[str, TextFigures] = {}
    for subject in subjects:
        for text, corpus in corpora.items():
            # The last pass reads the whole corpus, so that `Corpus.report` counts all documents.
            more = subject.next_merges(corpus, next_merges, next_bytes)
            reader = Measured(corpus)
            counts = subject.count_ids(corpus if text in measured else reader)
            measured.setdefault(text, reader.figures(text))
            subject.add_use(measured[text], counts, sizes, more)
        for corpus in languages.values():
            tokens = sum(subject.count_ids(corpus).values())
            subject.parallel_tokens.append(tokens)
    comparisons = [_comparison(subjects[0], other) for other in subjects[1:]]
    if differences is not None:
        counters = counted_cuts([*tokenizers.values()], corpora, differences)
        comparisons = [
            replace(found, cuts=(*counter.cuts,), differences=(*counter.differences,))
            for found, counter in zip(comparisons, counters, strict=True)
        ]
    return Report(
        bpetite.__version__,
        tuple(measured.values()),
        tuple(subject.figures() for subject in subjects),
        tuple(comparisons),
        tuple(languages),
    )


def _corpus_of(name: str, text: str | Batches) -> Batches:
    if isinstance(text, str):
        return WholeText(text)
    if not isinstance(text, Batches):
        raise TypeError(f"{name} must be a str or have a method batches, got {type(text).__name__}")
    return text


def _sizes(ends: Iterable[int]) -> list[int]:
    """Return the sizes at which curves have points: round ones, and the size of each vocabulary.

    >>> _sizes([300, 600])
    [256, 300, 304, 362, 431, 512, 600]
    """
    last = {*ends}
    octaves = max(last).bit_length()
    powers = (2 ** (8 + step / _SIZES_PER_OCTAVE) for step in range(octaves * _SIZES_PER_OCTAVE))
    return sorted({*(round(size) for size in powers if size < max(last)), *last})


class _Subject:
    """A vocabulary while its figures are found."""

    def __init__(self, name: str, tokenizer: Tokenizer) -> None:
        self.name = name
        self.tokenizer = tokenizer
        vocabulary = vocabulary_of(tokenizer)
        self.tokens = vocabulary.ordinary_tokens
        """The bytes of every id except special tokens, in ascending order of ids."""
        self._trees = MergeTrees(vocabulary)
        self._base_size = len(vocabulary.single_bytes)
        self.size = self._base_size + self._trees.merge_count
        """The number of bytes and of merges that texts use."""
        self.total: Counter[int] = Counter()
        """How often each id occurs in all texts."""
        self.parallel_tokens: list[int] = []
        self._uses: list[Use] = []
        self._special_ids = {*tokenizer.special_tokens.values()}
        self._ids = [id for id in self.tokens if id not in self._special_ids]

    def count_ids(self, corpus: Batches) -> dict[int, int]:
        return _counted_ids(self.tokenizer, corpus)

    def add_use(
        self, text: TextFigures, counts: dict[int, int], sizes: list[int], more: NextMerges | None
    ) -> None:
        self.total.update(counts)
        rare = sum(map(_OFTEN.__gt__, counts.values()))
        lengths: Counter[int] = Counter()
        token_lengths = map(len, map(self.tokens.__getitem__, counts))
        for length, count in zip(token_lengths, counts.values(), strict=True):
            lengths[length] += count
        by_merges = self._trees.tokens_by_size(counts)
        points = ((size, size - self._base_size) for size in sizes)
        use = Use(
            text,
            sum(counts.values()),
            len(counts) - rare,
            rare,
            len(self._ids) - len(counts) + len(self._special_ids & counts.keys()),
            tuple(sorted(lengths.items())),
            tuple((size, by_merges[n]) for size, n in points if 0 <= n < len(by_merges)),
            more,
            tuple(map(self.tokenizer.token_bytes, self.tokenizer.encode_ordinary(text.beginning))),
        )
        self._uses.append(use)

    def next_merges(self, corpus: Batches, limit: int, max_bytes: int) -> NextMerges | None:
        """Learn merges on the beginning of a corpus, and count what each of them saves there."""
        tokenizer = self.tokenizer
        if not limit or len(tokenizer.patterns) > 1:
            return None
        if vocabulary_of(tokenizer).stages.change_pieces:
            return None  # training refuses it as a base
        beginning = Beginning(corpus, max_bytes)
        size = len(self.tokens) + limit
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CorpusWarning)  # too few pairs: the curve is shorter
            larger = Tokenizer.train(beginning, size, base=tokenizer, special_tokens=())
        # A continued vocabulary numbers its new tokens in the order of their merges.
        merges = vocabulary_of(larger).merges
        first = len(merges) - (larger.n_vocab - tokenizer.n_vocab)
        new = dict(enumerate(merges[first:], tokenizer.n_vocab))
        fires = Counter(_counted_ids(larger, beginning))
        tokens_after = fires.total()
        for id in reversed(new):
            for part in new[id]:
                fires[part] += fires[id]
        saved = [fires[id] for id in new]
        tokens: dict[int, bytes] = {}
        for id, parts in islice(new.items(), _SHOWN):
            tokens[id] = b"".join(tokens.get(part) or self.tokens[part] for part in parts)
        return NextMerges(
            beginning.read_bytes,
            tuple(accumulate((-count for count in saved), initial=tokens_after + sum(saved))),
            tuple(CountedToken(id, token, fires[id]) for id, token in tokens.items()),
        )

    def figures(self) -> VocabularyFigures:
        tokens = self.tokens
        never = [id for id in self._ids if id not in self.total]
        partial = dict.fromkeys(_partial(tokens, self._ids))
        # An id that occurs is reachable.
        unreachable = [
            *self._unreachable([id for id in never if id not in partial]),
            *self._trees.unmade().intersection(partial).intersection(never),
        ]
        lengths = dict(zip(self._ids, map(len, map(tokens.__getitem__, self._ids)), strict=True))
        # Of equal lengths the lower id is first.
        longest = sorted(lengths, key=lengths.__getitem__, reverse=True)

        def has_letter(id: int) -> bool:
            return id not in partial and any(map(str.isalpha, tokens[id].decode()))

        return VocabularyFigures(
            self.name,
            self.tokenizer.fingerprint,
            len(self._ids),
            tuple(sorted(Counter(lengths.values()).items())),
            self.counted(sorted(unreachable)),
            self.counted(partial),
            tuple(never),
            self.counted(longest[:_SHOWN]),
            self.counted(islice(filter(has_letter, longest), _SHOWN)),
            tuple(self._uses),
            tuple(self.parallel_tokens),
        )

    def _unreachable(self, ids: list[int]) -> list[int]:
        """Return the ids of tokens in UTF-8 whose bytes, encoded alone, give other ids."""
        tokens = [self.tokens[id] for id in ids]
        offsets = array("Q", accumulate(map(len, tokens), initial=0))
        arrays = self.tokenizer.encode_buffer(b"".join(tokens), offsets, threads=None)
        found, starts = (each.tolist() for each in arrays)
        alone = zip(ids, starts, starts[1:], strict=False)
        return [id for id, start, end in alone if end - start > 1 or found[start] != id]

    def counted(self, ids: Iterable[int]) -> tuple[CountedToken, ...]:
        return tuple(CountedToken(id, self.tokens[id], self.total[id]) for id in ids)

    def most_frequent_without(self, tokens: set[bytes]) -> tuple[CountedToken, ...]:
        """Return the most frequent tokens that are not in a set; of equal ones the lower id."""
        own = (id for id in self.total if self.tokens[id] not in tokens)
        return self.counted(sorted(own, key=lambda id: (-self.total[id], id))[:_SHOWN])


def _counted_ids(tokenizer: Tokenizer, corpus: Batches) -> dict[int, int]:
    return count_ids(block.ids for block in encode(tokenizer, corpus, threads=None))


def _partial(tokens: Mapping[int, bytes], ids: list[int]) -> Iterator[int]:
    r"""Yield the ids whose tokens are not UTF-8.

    >>> [*_partial({1: b"a", 2: b"\xc3", 3: b"\xa9"}, [1, 2, 3])]
    [2, 3]
    """
    # Few tokens are partial, so most groups have none. Line ends keep parts of characters apart.
    for first in range(0, len(ids), _GROUP):
        group = ids[first : first + _GROUP]
        if not _is_utf8(b"\n".join(map(tokens.__getitem__, group))):
            yield from (id for id in group if not _is_utf8(tokens[id]))


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _comparison(first: _Subject, other: _Subject) -> Comparison:
    tokens, other_tokens = ({*each.tokens.values()} for each in (first, other))
    return Comparison(
        other.name,
        len(tokens & other_tokens),
        first.most_frequent_without(other_tokens),
        other.most_frequent_without(tokens),
    )
