"""Vocabularies and texts in, the figures of a report out."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import accumulate, islice

import bpetite
from bpetite import CorpusWarning, Tokenizer
from bpetite._corpus import Batches
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
from bpetite.analysis._texts import Beginning, Measured, WholeText, count_ids

_OFTEN = 10
"""The fewest occurrences of an id that is not rare."""

_SHOWN = 12
"""The most tokens in a list of examples."""

_SIZES_PER_OCTAVE = 4
"""The points of a curve while the vocabulary doubles."""

Text = str | Batches
"""A text that is one document, or a corpus such as `bpetite.corpora.Corpus`."""


def report(
    tokenizers: Mapping[str, Tokenizer],
    texts: Mapping[str, Text],
    *,
    parallel: Mapping[str, Text] | None = None,
    next_merges: int = 1000,
    next_bytes: int = 1 << 21,
) -> Report:
    """Return how vocabularies encode texts, by name.

    A text is a `str`, or a corpus with `batches()` such as a `bpetite.corpora.Corpus`. A corpus is
    read twice for each tokenizer, in bounded memory. Special literals are ordinary text.

    `parallel` has one text in several languages, the language of reference first. Parity and the
    Gini coefficient are figures of these texts.

    `next_merges` more merges are learnt on the first `next_bytes` bytes of each text. They tell
    whether a larger vocabulary would pay. 0 leaves them out, and so does a vocabulary that cannot
    be continued because it normalizes text or has several patterns.

    >>> found = report({"small": Tokenizer.train("ab ab ab", 258)}, {"line": "ab ab c"})
    >>> use = found.vocabularies[0].uses[0]
    >>> use.tokens, use.bytes_per_token, use.curve
    (4, 1.75, ((256, 7), (258, 4)))

    Raises ValueError without a tokenizer or a text, TypeError for another value, the errors of
    `Tokenizer.encode_segments`, and those of the corpora.
    """
    if not tokenizers:
        raise ValueError("report needs a tokenizer")
    for name, tokenizer in tokenizers.items():
        if not isinstance(tokenizer, Tokenizer):
            raise TypeError(f"{name} must be a Tokenizer, got {type(tokenizer).__name__}")
    corpora = {name: _corpus_of(name, text) for name, text in texts.items()}
    languages = {name: _corpus_of(name, text) for name, text in (parallel or {}).items()}
    if not corpora and not languages:
        raise ValueError("report needs a text")
    trees = [MergeTrees(tokenizer) for tokenizer in tokenizers.values()]
    sizes = _sizes(each.size for each in trees)
    measured: dict[str, TextFigures] = {}
    vocabularies, totals = [], []
    for (name, tokenizer), tree in zip(tokenizers.items(), trees, strict=True):
        uses = []
        total: Counter[int] = Counter()
        for text, corpus in corpora.items():
            # The last pass over a corpus is whole, so that its own report is of all documents.
            more = _next_merges(tokenizer, corpus, next_merges, next_bytes)
            reader = Measured(corpus)
            counts = count_ids(tokenizer, corpus if text in measured else reader)
            measured.setdefault(text, reader.figures(text))
            uses.append(_use(tokenizer, tree, measured[text], counts, sizes, more))
            total.update(counts)
        tokens = [sum(count_ids(tokenizer, corpus).values()) for corpus in languages.values()]
        vocabularies.append(_vocabulary(name, tokenizer, tree, total, uses, tokens))
        totals.append(total)
    comparisons = [
        _comparison(name, (trees[0], totals[0]), (tree, total))
        for name, tree, total in zip(tokenizers, trees, totals, strict=True)
    ]
    return Report(
        bpetite.__version__,
        tuple(measured.values()),
        tuple(vocabularies),
        tuple(comparisons[1:]),
        tuple(languages),
    )


def _corpus_of(name: str, text: Text) -> Batches:
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


def _use(
    tokenizer: Tokenizer,
    trees: MergeTrees,
    text: TextFigures,
    counts: Mapping[int, int],
    sizes: list[int],
    more: NextMerges | None,
) -> Use:
    rare = sum(count < _OFTEN for count in counts.values())
    lengths: Counter[int] = Counter()
    for id, count in counts.items():
        lengths[len(trees.tokens[id])] += count
    tokens = trees.tokens_by_size(counts)
    places = [size - trees.base_size for size in sizes]
    return Use(
        text,
        sum(counts.values()),
        len(counts) - rare,
        rare,
        len(trees.tokens) - len(counts),
        tuple(sorted(lengths.items())),
        tuple(
            (place + trees.base_size, tokens[place])
            for place in places
            if place in range(len(tokens))
        ),
        more,
        tuple(tokenizer.encode_ordinary(text.beginning)),
    )


def _vocabulary(
    name: str,
    tokenizer: Tokenizer,
    trees: MergeTrees,
    total: Mapping[int, int],
    uses: list[Use],
    parallel_tokens: list[int],
) -> VocabularyFigures:
    def counted(ids: Iterable[int]) -> tuple[CountedToken, ...]:
        return tuple(CountedToken(id, trees.tokens[id], total.get(id, 0)) for id in ids)

    ids = sorted(trees.tokens)
    whole, partial = _whole_and_partial(trees.tokens, ids)
    encoded = tokenizer.encode_batch(whole.values(), allowed_special=())
    unreachable = {id for id, found in zip(whole, encoded, strict=True) if found != [id]}
    unreachable.update({*partial} - trees.reached())
    return VocabularyFigures(
        name,
        tokenizer.fingerprint,
        len(ids),
        tuple(sorted(Counter(len(trees.tokens[id]) for id in ids).items())),
        counted(sorted(unreachable - total.keys())),
        counted(partial),
        counted(id for id in ids if id not in total),
        counted(sorted(ids, key=lambda id: (-len(trees.tokens[id]), trees.tokens[id]))[:_SHOWN]),
        tuple(uses),
        tuple(parallel_tokens),
    )


def _whole_and_partial(
    tokens: Mapping[int, bytes], ids: list[int]
) -> tuple[dict[int, str], list[int]]:
    r"""Return the texts of the tokens that are UTF-8, and the ids of the others.

    >>> _whole_and_partial({1: b"a", 2: b"\xc3"}, [1, 2])
    ({1: 'a'}, [2])
    """
    whole, partial = {}, []
    for id in ids:
        try:
            whole[id] = tokens[id].decode("utf-8")
        except UnicodeDecodeError:
            partial.append(id)
    return whole, partial


def _next_merges(
    tokenizer: Tokenizer, corpus: Batches, limit: int, max_bytes: int
) -> NextMerges | None:
    """Learn merges on the beginning of a corpus, and count what each of them saves there."""
    if not limit or not tokenizer.lossless or tokenizer.more_patterns:
        return None
    beginning = Beginning(corpus, max_bytes)
    size = tokenizer.vocab_size - len(tokenizer.special_tokens) + limit
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CorpusWarning)  # too few pairs: the curve is shorter
        larger = Tokenizer.train(beginning, size, base=tokenizer, special_tokens=())
    # A continued vocabulary numbers its new tokens in the order of their merges.
    new = dict(enumerate(larger.merges[len(tokenizer.merges) :], tokenizer.n_vocab))
    fires = Counter(count_ids(larger, beginning))
    tokens_after = fires.total()
    for id in reversed(new):
        for part in new[id]:
            fires[part] += fires[id]
    saved = [fires[id] for id in new]
    first = islice(new, _SHOWN)
    return NextMerges(
        beginning.read_bytes,
        tuple(accumulate((-count for count in saved), initial=tokens_after + sum(saved))),
        tuple(CountedToken(id, larger.token_bytes(id), fires[id]) for id in first),
    )


def _comparison(
    name: str, first: tuple[MergeTrees, Counter[int]], other: tuple[MergeTrees, Counter[int]]
) -> Comparison:
    tokens = {*first[0].tokens.values()}
    other_tokens = {*other[0].tokens.values()}
    return Comparison(
        name,
        len(tokens & other_tokens),
        _most_frequent(*first, other_tokens),
        _most_frequent(*other, tokens),
    )


def _most_frequent(
    trees: MergeTrees, total: Counter[int], elsewhere: set[bytes]
) -> tuple[CountedToken, ...]:
    """Return the most frequent tokens that another vocabulary lacks; of equal ones the lower id."""
    own = (id for id in total if trees.tokens[id] not in elsewhere)
    ids = sorted(own, key=lambda id: (-total[id], id))[:_SHOWN]
    return tuple(CountedToken(id, trees.tokens[id], total[id]) for id in ids)
