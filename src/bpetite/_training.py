"""Training a vocabulary from texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from bpetite import _arguments, _corpus
from bpetite._arguments import TextErrors
from bpetite._corpus import Batches, Document, DocumentCorpus, File
from bpetite._engine.chosen import ENGINE
from bpetite._engine.contract import Learning
from bpetite._merge_rules import Forbidden, MergeOptions, extended
from bpetite._piece_counts.counts import PieceCounts
from bpetite._pretokenizer import pattern_of, portable_pattern, shown_pattern
from bpetite._progress import ProgressCallback, Reporter
from bpetite._unicode import is_nfc
from bpetite._vocabulary import MAX_ID, Vocabulary

AnyCorpus = str | File | Iterable[Document] | Batches | PieceCounts
"""The corpora that `Tokenizer.train` accepts."""


# No text is that long, and counts have 64 bits.
_MAX_COUNT = 2**63


class Texts(NamedTuple):
    texts: list[DocumentCorpus | PieceCounts]
    developments: dict[str, DocumentCorpus | PieceCounts]
    """The development text of each language; empty if there is one text."""


def options_of(
    base: Vocabulary | None,
    min_pair_count: int,
    max_token_bytes: int | None,
    require: Iterable[str],
    forbid: Forbidden | None,
    whole_characters: bool,
) -> MergeOptions:
    """Return the rules for merges that arguments of `Tokenizer.train` mean. Raises its errors."""
    if max_token_bytes is not None:
        max_token_bytes = _arguments.check_at_least(1, max_token_bytes, "max_token_bytes")
    return MergeOptions(
        base,
        min(_arguments.check_at_least(1, min_pair_count, "min_pair_count"), _MAX_COUNT),
        max_token_bytes,
        _arguments.check_required(require),
        _arguments.check_forbidden(forbid),
        bool(whole_characters),
    )


def texts_of(
    corpus: AnyCorpus | Mapping[str, AnyCorpus],
    balance: Mapping[str, AnyCorpus] | None,
    errors: TextErrors,
    options: MergeOptions,
) -> Texts:
    """Return the texts of the arguments of `Tokenizer.train`. Raises its errors about them."""
    replaces = _arguments.check_text_errors(errors)
    texts, developments = _languages(corpus, balance)
    normalizes = options.base is not None and options.base.normalizer is not None
    return Texts(
        [_source(each, replaces, normalizes) for each in texts],
        {name: _source(each, replaces, normalizes) for name, each in developments.items()},
    )


def learn(
    texts: Texts,
    vocab_size: int,
    pattern: str | None,
    special_tokens: Iterable[str],
    options: MergeOptions,
    progress: ProgressCallback | None,
    threads: int | None,
) -> Vocabulary:
    """Return the vocabulary that `Tokenizer.train` learns. Raises its errors."""
    size = _arguments.check_vocab_size(vocab_size)
    threads = _arguments.check_threads(threads)
    literals = _arguments.check_special_literals(special_tokens)
    corpora = [*texts.texts, *texts.developments.values()]
    base_pattern = options.base_pattern(pattern)
    for corpus in corpora:
        if isinstance(corpus, PieceCounts):
            pattern = corpus.checked_pattern(pattern)
            if base_pattern is not None and base_pattern != pattern:
                raise ValueError(
                    f"the pieces are of the pattern {shown_pattern(pattern)}, and the base is "
                    f"of {shown_pattern(base_pattern)}; to learn with the pattern of the "
                    f"pieces, give it as pattern"
                )
    if pattern is None:
        pattern = base_pattern
    pattern = portable_pattern(pattern_of("gpt2" if pattern is None else pattern))
    options = options.for_pattern(pattern)
    start = options.start(pattern)
    merge_limit = size - len(start.ordinary_tokens)
    if merge_limit < 0:
        raise ValueError(
            f"vocab_size must be at least {size - merge_limit}, the number of ordinary tokens "
            f"of the base and the required tokens, got {size}"
        )
    new = [literal for literal in literals if literal not in start.special_tokens]
    # No id is above MAX_ID.
    merge_limit = min(merge_limit, max(MAX_ID + 1 - start.n_vocab - len(new), 0))
    merging = Reporter(progress, "merging", merge_limit)
    counting = Reporter(progress, "counting", None if progress is None else _total(corpora))
    counts = [_counts(corpus, pattern, counting, threads) for corpus in corpora]
    counting.tell(0)
    for name, corpus in texts.developments.items():
        if not _size_of(corpus):
            raise ValueError(f"the development text of {name!r} is empty; give one with text")
    rules = options.rules(start)
    base = start if options.base is not None or start.merges else None
    takes = None if rules is None else rules.takes
    learning = Learning(merging.report, base, takes, options.min_count)
    if texts.developments:
        number = len(texts.texts)
        languages = [*zip(counts[:number], counts[number:], strict=True)]
        merges = ENGINE.learn_balanced(languages, merge_limit, learning)
    else:
        # `pop` passes on the only reference, so that the counts can be freed early.
        merges = ENGINE.learn_merges(counts.pop(), merge_limit, learning)
    merging.tell(len(merges))
    if len(merges) < merge_limit:
        learnt = len(start.ordinary_tokens) + len(merges)
        is_ruled = rules is not None or options.min_count > 1
        left = "no pair is left that may be merged" if is_ruled else "no pair is left to merge"
        _corpus.warn(f"stopped at {learnt} of {size} ids: {left}")

    vocabulary = extended(start, merges)
    special_ids = {literal: id for id, literal in enumerate(new, vocabulary.n_vocab)}
    return replace(vocabulary, special_tokens={**vocabulary.special_tokens, **special_ids})


def _languages(
    corpus: AnyCorpus | Mapping[str, AnyCorpus], balance: Mapping[str, AnyCorpus] | None
) -> tuple[list[AnyCorpus], dict[str, AnyCorpus]]:
    """Return the text and the development text of each language; without `balance`, one text."""
    if balance is None:
        if isinstance(corpus, Mapping):
            raise TypeError("a corpus that is a mapping of texts needs balance; or give its values")
        return [corpus], {}
    if not isinstance(corpus, Mapping) or not isinstance(balance, Mapping):
        raise TypeError("with balance, corpus and balance must be mappings from names to texts")
    if not corpus or {*corpus} != {*balance}:
        names = ", ".join(map(repr, {*corpus} ^ {*balance}))
        raise ValueError(f"corpus and balance must have the same names, at least one: {names}")
    return [*corpus.values()], {name: balance[name] for name in corpus}


def _source(corpus: AnyCorpus, replaces: bool, normalizes: bool) -> DocumentCorpus | PieceCounts:
    if not isinstance(corpus, PieceCounts):
        documents = _corpus.corpus_of(corpus, _arguments.replaced if replaces else None)
        return _corpus.NormalizedCorpus(documents) if normalizes else documents
    if replaces:
        raise ValueError('errors="replace" is for documents, not for a PieceCounts')
    if normalizes:
        other = next((piece for piece, _ in corpus.items() if not is_nfc(piece)), None)
        if other is not None:
            raise ValueError(
                f"the base normalizes text (form C), and the piece {other!r} is of other text; "
                f"count the pieces of unicodedata.normalize('NFC', document)"
            )
    return corpus


def _total(corpora: Iterable[DocumentCorpus | PieceCounts]) -> int | None:
    """Return the number of bytes of all texts, None if only reading them would tell."""
    total = 0
    for corpus in corpora:
        if isinstance(corpus, PieceCounts):
            total += corpus.text_bytes
        elif (size := corpus.total_bytes()) is None:
            return None
        else:
            total += size
    return total


def _size_of(corpus: DocumentCorpus | PieceCounts) -> int:
    return corpus.text_bytes if isinstance(corpus, PieceCounts) else corpus.bytes_read


def _counts(
    corpus: DocumentCorpus | PieceCounts, pattern: str, counting: Reporter, threads: int
) -> Any:
    if isinstance(corpus, PieceCounts):
        counting.before += corpus.text_bytes
        return ENGINE.counts_of(corpus._records)
    counts = ENGINE.count_pieces(corpus, pattern, counting, threads)
    counting.before += corpus.bytes_read
    return counts
