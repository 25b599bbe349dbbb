"""Vocabularies derived from another one."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import chain, count, islice

from bpetite._token_parts import token_parts
from bpetite._vocabulary import Vocabulary, check_id_range, check_special_tokens

Parts = Mapping[int, tuple[int, ...]]
"""The parts of each token, from `token_parts`."""

_RESERVED = "<|reserved_{}|>"  # the literals of the special tokens that pad a vocabulary


def first(vocabulary: Vocabulary, vocab_size: int) -> Vocabulary:
    """Return the vocabulary of the bytes and of the merges of lowest rank: `vocab_size` tokens.

    >>> first(Vocabulary(((97, 98), (32, 256)), {"<|end|>": 258}, "..."), 257)
    Vocabulary(merges=((97, 98),), special_tokens=mappingproxy({'<|end|>': 257}), ...

    Raises ValueError if the size is too large, and if the tokens of lowest rank need other tokens.
    """
    _check_removal(vocabulary)
    parts = token_parts(vocabulary)
    kept = {*vocabulary.single_bytes}
    for rank, (pair, id) in enumerate(zip(vocabulary.merges, vocabulary.merge_ids, strict=True)):
        if len(kept) == vocab_size:
            break
        if parts[id] != pair:
            continue  # no text uses this merge
        for part in pair:
            if part not in kept:
                raise ValueError(
                    f"the merge of rank {rank} joins {vocabulary.ordinary_tokens[part]!r}, which "
                    f"no merge of lower rank makes, so the merges of lowest rank cannot make "
                    f"{vocab_size} tokens; without_rare removes tokens of this vocabulary"
                )
        kept.add(id)
    _check_size(vocab_size, len(kept))
    return _with_tokens(vocabulary, kept, parts)[0]


def prune(
    vocabulary: Vocabulary, counts: Mapping[int, int], vocab_size: int
) -> tuple[Vocabulary, list[int]]:
    """Return the vocabulary without the least used tokens, and the old id of each new id.

    A leaf is a token that is no part of another one. Leaves are removed one by one: the one with
    the lowest count, and of equal counts the one with the highest rank. Its parts then take its
    place in texts, so they get its count too.

    Raises ValueError if the size is too large, and if bytes, special tokens and the tokens around
    texts exceed it.
    """
    _check_removal(vocabulary)
    parts = token_parts(vocabulary)
    _check_size(vocab_size, len(vocabulary.ordinary_tokens))
    kept = {*vocabulary.ordinary_tokens}
    # Tokens that no merge makes have the highest ranks.
    rank_of = {id: len(vocabulary.merges) + id for id in parts}
    for rank, (pair, id) in enumerate(zip(vocabulary.merges, vocabulary.merge_ids, strict=True)):
        if parts[id] == pair:
            rank_of[id] = rank
    uses = Counter(chain.from_iterable(parts.values()))
    removable = parts.keys() - vocabulary.special_tokens.values()
    removable -= {*vocabulary.prefix_ids, *vocabulary.suffix_ids}
    totals = Counter(counts)
    # The count of a leaf is final, since it is no part of a remaining token.
    leaves = [(totals[id], -rank_of[id], id) for id in removable if not uses[id]]
    heapq.heapify(leaves)
    while len(kept) > vocab_size:
        if not leaves:
            raise ValueError(
                f"vocab_size is {vocab_size}, but {len(kept)} tokens are bytes, special, or "
                f"around each text, or parts of these"
            )
        total, _, id = heapq.heappop(leaves)
        kept.remove(id)
        for part in parts[id]:
            totals[part] += total
            uses[part] -= 1
            if not uses[part] and part in removable:
                heapq.heappush(leaves, (totals[part], -rank_of[part], part))
    return _with_tokens(vocabulary, kept, parts)


def _check_removal(vocabulary: Vocabulary) -> None:
    if vocabulary.stages.has_words:
        raise ValueError(
            "tokens of this vocabulary cannot be removed, since its tokenizer.json has "
            "end_of_word_suffix, continuing_subword_prefix or an unk_token that texts become"
        )
    if vocabulary.stages.byte_fallback:
        raise ValueError(
            "tokens of this vocabulary cannot be removed, since it has byte fallback: its merges "
            "begin with characters"
        )


def _check_size(vocab_size: int, highest: int) -> None:
    if vocab_size > highest:
        raise ValueError(
            f"vocab_size is {vocab_size}, but this vocabulary has only {highest} bytes and merges"
        )


def _with_tokens(
    vocabulary: Vocabulary, kept: Collection[int], parts: Parts
) -> tuple[Vocabulary, list[int]]:
    """Return the vocabulary of some ordinary tokens and all special ones, and their old ids.

    The new ids have no gaps. They are in the order of the old ids. Only merges that texts use
    remain.
    """
    old_ids = sorted({*kept, *vocabulary.special_tokens.values()})
    new_ids = {old: new for new, old in enumerate(old_ids)}
    tokens = vocabulary.ordinary_tokens
    for id in (*vocabulary.prefix_ids, *vocabulary.suffix_ids):
        if id not in new_ids:
            raise ValueError(
                f"add_special_tokens puts the token {tokens[id]!r} around each text, but it is not "
                f"among the tokens of lowest rank"
            )
    merges = zip(vocabulary.merges, vocabulary.merge_ids, strict=True)
    smaller = Vocabulary.from_tokens(
        {new_ids[id]: tokens[id] for id in sorted(kept)},
        [
            (new_ids[pair[0]], new_ids[pair[1]])
            for pair, id in merges
            if id in kept and parts[id] == pair
        ],
        {literal: new_ids[id] for literal, id in vocabulary.special_tokens.items()},
        vocabulary.pattern,
        ignore_merges=vocabulary.ignore_merges,
        more_patterns=vocabulary.more_patterns,
        normalizer=vocabulary.normalizer,
        stages=vocabulary.stages,
        kept_special_tokens=vocabulary.kept_special_tokens,
        added_tokens=vocabulary.added_tokens,
        prefix_ids=tuple(new_ids[id] for id in vocabulary.prefix_ids),
        suffix_ids=tuple(new_ids[id] for id in vocabulary.suffix_ids),
        settings=vocabulary.settings,
    )
    return smaller, old_ids


def with_special_tokens(
    vocabulary: Vocabulary, special_tokens: Iterable[str] | Mapping[str, int], multiple: int
) -> Vocabulary:
    """Return the vocabulary with more special tokens, and with reserved ones up to a multiple.

    >>> with_special_tokens(Vocabulary((), {"<|a|>": 256}, "..."), ["<|b|>"], 4).special_tokens
    mappingproxy({'<|a|>': 256, '<|b|>': 257, '<|reserved_0|>': 258, '<|reserved_1|>': 259})

    Raises ValueError for a literal that is a special token already, and for an id in use.
    """
    for literal in special_tokens:
        if literal in vocabulary.special_tokens:
            id = vocabulary.special_tokens[literal]
            raise ValueError(f"{literal!r} is a special token already, with the id {id}")
    if not isinstance(special_tokens, Mapping):
        special_tokens = dict(zip(special_tokens, count(vocabulary.n_vocab), strict=False))
    every = {**vocabulary.special_tokens, **special_tokens}
    n_vocab = max([vocabulary.n_vocab, *(id + 1 for id in special_tokens.values())])
    literals = (_RESERVED.format(number) for number in count())
    reserved = islice((each for each in literals if each not in every), -n_vocab % multiple)
    every |= {literal: id for id, literal in enumerate(reserved, n_vocab)}
    check_id_range(every.values())
    native = vocabulary.native
    token_of = vocabulary.ordinary_tokens.get if native is None else native.token
    check_special_tokens(every, token_of, vocabulary.stages.literal_bytes)
    return replace(vocabulary, special_tokens=every)
