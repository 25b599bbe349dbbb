"""Vocabularies that are made of another one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from support.engines import quick_once
from support.peers import as_tiktoken
from support.vocabularies import vocabulary

from bpetite import Tokenizer
from bpetite._vocabulary import MAX_ID, Pair, Vocabulary

pytestmark = quick_once

SPECIAL = ("<|endoftext|>", "<|pad|>")

TEXT = "the hen then met the ten men, 你好! "

texts = st.lists(st.text("ab c", max_size=30), max_size=5)
patterns = st.sampled_from(["gpt2", "cl100k", r"[\s\S]+"])


def trained(documents: Sequence[str], size: int, pattern: str = "gpt2") -> Tokenizer:
    """Train on documents, and allow for an early stop."""
    return Tokenizer.train(documents, size, pattern=pattern, special_tokens=SPECIAL)


def foreign(tokens: Mapping[int, bytes], merges: list[Pair], **others: Any) -> Tokenizer:
    """Return the tokenizer of a vocabulary from elsewhere; a byte is its own id."""
    return Tokenizer(vocabulary(tokens, merges, **others))


def spelled(tokenizer: Tokenizer, text: str) -> list[bytes]:
    """Return the tokens of a text as bytes, which do not depend on the numbers of ids."""
    return [tokenizer.token_bytes(id) for id in tokenizer.encode(text)]


SMALL = trained([TEXT, "then met"], 272)
"""A vocabulary of 16 merges and two special tokens."""


def shuffled() -> Tokenizer:
    """Return SMALL with ids in another order and with gaps, and a special token in the middle."""
    count = len(SMALL.merges) + 256
    new = {id: 3 * ((id * 7) % count) for id in range(count)} | {count: 1000, count + 1: 301}
    tokens = {new[id]: SMALL.token_bytes(id) for id in range(count)}
    merges = [(new[left], new[right]) for left, right in SMALL.merges]
    special_tokens = {literal: new[id] for literal, id in SMALL.special_tokens.items()}
    return Tokenizer(Vocabulary.from_tokens(tokens, merges, special_tokens, SMALL.patterns[0]))


# The first tokens


@given(documents=texts, size=st.integers(256, 290), pattern=patterns)
def test_first_is_training_to_that_size(documents: list[str], size: int, pattern: str) -> None:
    large = trained(documents, 290, pattern)
    size = min(size, 256 + len(large.merges))
    assert large.with_vocab_size(size) == trained(documents, size, pattern)


def test_first_of_a_loaded_file_is_the_same(tmp_path: Path) -> None:
    for name in ("x.json", "tokenizer.json", "vocab.json"):
        SMALL.save(tmp_path / name)
        assert Tokenizer.load(tmp_path / name).with_vocab_size(264) == SMALL.with_vocab_size(264)


def test_first_of_shuffled_ids_has_the_same_tokens() -> None:
    other = shuffled()
    assert len(other.ids) < other.n_vocab
    for size in (256, 260, 272):
        smaller = other.with_vocab_size(size)
        assert spelled(smaller, TEXT) == spelled(SMALL.with_vocab_size(size), TEXT)
        assert smaller.ids == tuple(range(size + len(SPECIAL)))


def test_ids_of_first_are_in_the_order_of_the_old_ones() -> None:
    other = shuffled()
    smaller = other.with_vocab_size(264)
    old_ids = [other.token_id(token) for token in smaller.tokens]
    assert old_ids == sorted(old_ids)
    assert smaller.special_tokens["<|pad|>"] == old_ids.index(301)


def test_first_leaves_out_tokens_that_no_merge_makes() -> None:
    tokenizer = foreign({256: b"xyz", 257: b"ab", 258: b"abc"}, [(97, 98), (257, 99)])
    smaller = tokenizer.with_vocab_size(258)
    assert smaller.tokens[256:] == (b"ab", b"abc")
    assert smaller.encode("abc xyz") == [257, *b" xyz"]


def test_first_leaves_out_merges_that_no_text_uses() -> None:
    """Files of Hugging Face list all pairs of tokens that join to a token."""
    tokens = {256: b"ab", 257: b"bc", 258: b"abc", 259: b"cd", 260: b"bcd"}
    merges = [(97, 98), (98, 99), (97, 257), (256, 99), (99, 100), (257, 100)]
    tokenizer = foreign(tokens, merges)
    assert [tokenizer.encode(text) for text in ("abc", "bcd")] == [[258], [260]]
    smaller = tokenizer.with_vocab_size(259)
    assert smaller.merges == ((97, 98), (98, 99), (256, 99))
    assert smaller.tokens[256:] == (b"ab", b"bc", b"abc")
    assert smaller.encode("abc") == [258]


def test_first_keeps_how_text_is_split_and_framed() -> None:
    tokenizer = foreign(
        {256: b"ab", 257: b" ab"},
        [(97, 98), (32, 256)],
        special_tokens={"<s>": 300, "</s>": 299, "<k>": 298},
        more_patterns=(r"\d",),
        normalizer="NFC",
        kept_special_tokens=frozenset({"<k>"}),
        added_tokens=frozenset({"<k>"}),
        prefix_ids=(300,),
        suffix_ids=(299, 97),
        settings={"bos_token": "<s>"},
    )
    smaller = tokenizer.with_vocab_size(257)
    assert smaller == foreign(
        {256: b"ab"},
        [(97, 98)],
        special_tokens={"<s>": 259, "</s>": 258, "<k>": 257},
        more_patterns=(r"\d",),
        normalizer="NFC",
        kept_special_tokens=frozenset({"<k>"}),
        added_tokens=frozenset({"<k>"}),
        prefix_ids=(259,),
        suffix_ids=(258, 97),
        settings={"bos_token": "<s>"},
    )
    assert smaller.encode("ab", add_special_tokens=True) == [259, 256, 258, 97]


@pytest.mark.parametrize("size", [255, 273])
def test_a_size_outside_the_vocabulary_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="vocab_size"):
        SMALL.with_vocab_size(size)
    with pytest.raises(ValueError, match="vocab_size"):
        SMALL.without_rare({}, size)


def test_first_refuses_merges_that_need_higher_ranks() -> None:
    """The merge of rank 0 has no effect without the merge of rank 1."""
    tokenizer = foreign({256: b"ab", 257: b"abc"}, [(256, 99), (97, 98)])
    with pytest.raises(ValueError, match=r"rank 0 joins b'ab', which no merge of lower rank"):
        tokenizer.with_vocab_size(257)


def test_first_refuses_to_drop_a_token_around_texts() -> None:
    tokenizer = foreign({256: b"ab"}, [(97, 98)], prefix_ids=(256,))
    with pytest.raises(ValueError, match=r"puts the token b'ab' around each text"):
        tokenizer.with_vocab_size(256)


# Pruning


def naively_pruned(
    merges: Sequence[Pair], counts: Mapping[int, int], size: int
) -> tuple[tuple[Pair, ...], list[int]]:
    """Return the merges and old ids that `prune` shall give, from all tokens in each step."""
    kept = dict(enumerate(merges, 256))
    totals = Counter(counts)
    while 256 + len(kept) > size:
        parts = {part for pair in kept.values() for part in pair}
        leaf = min(kept.keys() - parts, key=lambda id: (totals[id], -id))
        for part in kept.pop(leaf):
            totals[part] += totals[leaf]
    old_ids = [*range(256), *kept]
    return tuple((old_ids.index(a), old_ids.index(b)) for a, b in kept.values()), old_ids


@given(documents=texts, data=st.data())
def test_pruned_vocabulary_matches_the_naive_way(documents: list[str], data: st.DataObject) -> None:
    tokenizer = trained(documents, 290, r"[\s\S]+")
    size = data.draw(st.integers(256, 256 + len(tokenizer.merges)))
    counts = data.draw(st.dictionaries(st.sampled_from(tokenizer.ids), st.integers(0, 4)))
    pruned, old_ids = tokenizer.without_rare(counts, size)
    merges, ordinary_ids = naively_pruned(tokenizer.merges, counts, size)
    special_ids = [tokenizer.special_tokens[literal] for literal in SPECIAL]
    assert (pruned.merges, old_ids) == (merges, ordinary_ids + special_ids)
    assert dict(pruned.special_tokens) == {SPECIAL[0]: size, SPECIAL[1]: size + 1}


@given(documents=texts, data=st.data())
def test_each_token_stays_what_its_bytes_become(documents: list[str], data: st.DataObject) -> None:
    tokenizer = trained(documents, 290, r"[\s\S]+")
    size = data.draw(st.integers(256, 256 + len(tokenizer.merges)))
    counts = data.draw(st.dictionaries(st.sampled_from(tokenizer.ids), st.integers(0, 4)))
    pruned, old_ids = tokenizer.without_rare(counts, size)
    longer = range(256, size)
    assert [pruned.encode(pruned.token_bytes(id)) for id in longer] == [[id] for id in longer]
    assert pruned.tokens == tuple(tokenizer.token_bytes(id) for id in old_ids)


@given(documents=texts, size=st.integers(256, 290))
def test_pruning_without_counts_is_first(documents: list[str], size: int) -> None:
    tokenizer = trained(documents, 290)
    size = min(size, 256 + len(tokenizer.merges))
    assert tokenizer.without_rare({}, size)[0] == tokenizer.with_vocab_size(size)


def test_counts_are_a_mapping_or_rows() -> None:
    ids = SMALL.encode(TEXT)
    pruned = SMALL.without_rare(Counter(ids), 264)
    assert SMALL.without_rare(np.bincount(ids), 264) == pruned
    assert SMALL.without_rare(np.bincount(ids, minlength=512).tolist(), 264) == pruned
    used: Any = zip(*np.unique(ids, return_counts=True), strict=True)
    assert SMALL.without_rare(dict(used), 264) == pruned


def test_count_of_a_leaf_goes_to_both_parts() -> None:
    """Without the count of "abcd", "ab" or "cd" would go before "ef"."""
    tokens = {256: b"ab", 257: b"cd", 258: b"abcd", 259: b"ef"}
    tokenizer = foreign(tokens, [(97, 98), (99, 100), (256, 257), (101, 102)])
    counts = {256: 2, 257: 2, 258: 5, 259: 6}
    assert tokenizer.without_rare(counts, 259)[1][256:] == [256, 257, 259]
    assert tokenizer.without_rare(counts, 258)[1][256:] == [256, 257]


def test_pruned_vocabulary_of_shuffled_ids_is_the_same() -> None:
    other = shuffled()
    counts, others = (Counter(each.encode(TEXT)) for each in (SMALL, other))
    for size in (256, 262, 272):
        pruned, old_ids = other.without_rare(others, size)
        assert spelled(pruned, TEXT) == spelled(SMALL.without_rare(counts, size)[0], TEXT)
        assert old_ids == sorted(old_ids)
        assert pruned.tokens == tuple(other.token_bytes(id) for id in old_ids)


def test_token_that_only_a_whole_piece_becomes_is_pruned() -> None:
    tokens = {256: b"ab", 257: b"abcd", 258: b"xy"}
    tokenizer = foreign(tokens, [(97, 98)], ignore_merges=True)
    counts = {256: 1, 257: 2, 258: 3}
    pruned, old_ids = tokenizer.without_rare(counts, 258)
    assert old_ids[256:] == [256, 258]
    assert pruned.encode("abcd") == [256, *b"cd"]
    assert pruned.encode("xy") == [257]


def test_tokens_with_a_role_of_their_own_stay() -> None:
    tokenizer = foreign(
        {256: b"ab", 257: b"abc", 258: b"de"},
        [(97, 98), (256, 99), (100, 101)],
        special_tokens={"de": 258},
        prefix_ids=(257,),
    )
    with pytest.raises(ValueError, match="but 259 tokens are bytes, special, or around"):
        tokenizer.without_rare({}, 258)


@pytest.mark.parametrize(
    ("counts", "error", "words"),
    [
        ({97: -1}, ValueError, "the count of the id 97 must be at least 0, got -1"),
        ({999: 1}, KeyError, "id 999 is not in this vocabulary"),
        ([1] * 1000, KeyError, "id 274 is not in this vocabulary"),
        ({97: 1.5}, TypeError, "a count must be an integer, got float"),
        ({"a": 1}, TypeError, "an id must be an integer, got str 'a'"),
        (5, TypeError, "counts must be an iterable of int, or a mapping of ids to int, got int"),
        (b"abc", TypeError, "counts must be an iterable of int, or a mapping"),
    ],
)
def test_wrong_counts_are_refused(counts: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as raised:
        SMALL.without_rare(counts, 264)
    assert words in str(raised.value)


# Special tokens


def test_new_special_tokens_follow_the_highest_id() -> None:
    other = shuffled()
    for tokenizer in (SMALL, other):
        more = tokenizer.with_special_tokens(["<|user|>", "<|bot|>"])
        first_new = tokenizer.n_vocab
        new = {"<|user|>": first_new, "<|bot|>": first_new + 1}
        assert dict(more.special_tokens) == {**tokenizer.special_tokens, **new}
        assert more.encode(f"<|bot|>{TEXT}<|pad|>") == [
            first_new + 1,
            *tokenizer.encode(f"{TEXT}<|pad|>"),
        ]
        assert tokenizer.tokens == more.tokens[:first_new]


def test_training_with_them_gives_the_same_vocabulary() -> None:
    alone = Tokenizer.train(TEXT, 264, special_tokens=())
    assert alone.with_special_tokens(SPECIAL) == Tokenizer.train(TEXT, 264, special_tokens=SPECIAL)


def test_mapping_chooses_ids() -> None:
    more = shuffled().with_special_tokens({"<|gap|>": 1, "<|far|>": 5000})
    assert more.encode("<|far|><|gap|>") == [5000, 1]
    assert more.with_special_tokens(["<|next|>"]).special_tokens["<|next|>"] == 5001


@pytest.mark.parametrize("multiple", [1, 2, 64, 275, 1000, 65536])
@pytest.mark.parametrize("tokenizer", [SMALL, shuffled()], ids=["trained", "shuffled"])
def test_padding_makes_a_multiple(tokenizer: Tokenizer, multiple: int) -> None:
    padded = tokenizer.with_special_tokens(["<|a|>"], pad_to_multiple_of=multiple)
    count = -(tokenizer.n_vocab + 1) % multiple
    reserved = [f"<|reserved_{number}|>" for number in range(count)]
    assert list(padded.special_tokens) == [*tokenizer.special_tokens, "<|a|>", *reserved]
    assert padded.n_vocab == tokenizer.n_vocab + 1 + count
    assert padded.n_vocab % multiple == 0
    again = padded.with_special_tokens((), pad_to_multiple_of=multiple)
    assert again == padded


def test_padding_skips_reserved_literals_that_exist() -> None:
    once = SMALL.with_special_tokens(["<|reserved_1|>"], pad_to_multiple_of=4)
    assert list(once.special_tokens)[2:] == ["<|reserved_1|>", "<|reserved_0|>"]
    twice = once.with_special_tokens(["<|b|>"], pad_to_multiple_of=4)
    assert list(twice.special_tokens)[4:] == [
        "<|b|>",
        *(f"<|reserved_{number}|>" for number in (2, 3, 4)),
    ]


@pytest.mark.parametrize(
    ("special_tokens", "error", "words"),
    [
        (["<|pad|>"], ValueError, "'<|pad|>' is a special token already, with the id 273"),
        ({"<|pad|>": 273}, ValueError, "'<|pad|>' is a special token already, with the id 273"),
        (["x", "x"], ValueError, "'x' is given twice"),
        ([""], ValueError, "must not be empty"),
        ({"x": 97}, ValueError, "the id 97 of 'x' is also the id of b'a'"),
        ({"x": 273}, ValueError, "'x' and '<|pad|>' have the id 273"),
        ({"x": 500, "y": 500}, ValueError, "'y' and 'x' have the id 500"),
        ({"x": -1}, ValueError, "the id -1 is not from 0"),
        ({"x": MAX_ID + 1}, ValueError, f"the id {MAX_ID + 1} is not from 0 to {MAX_ID}"),
        ({"x": None}, TypeError, "an id must be an integer"),
        ("x", TypeError, "special_tokens must be an iterable of str, got str"),
        ([5], TypeError, "a special token must be a str, got int"),
        (["\ud800"], UnicodeEncodeError, "surrogates not allowed"),
    ],
)
def test_wrong_special_tokens_are_refused(
    special_tokens: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as raised:
        SMALL.with_special_tokens(special_tokens)
    assert words in str(raised.value)


def test_no_special_token_follows_the_highest_possible_id() -> None:
    full = SMALL.with_special_tokens({"x": MAX_ID})
    with pytest.raises(ValueError, match=f"the id {MAX_ID + 1} is not from 0"):
        full.with_special_tokens(["y"])


@pytest.mark.parametrize(
    ("multiple", "error"),
    [(0, ValueError), (-64, ValueError), (65537, ValueError), (6.4, TypeError), (None, TypeError)],
)
def test_wrong_multiple_is_refused(multiple: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="pad_to_multiple_of must be"):
        SMALL.with_special_tokens((), pad_to_multiple_of=multiple)


# All formats, and other libraries

DERIVED: dict[str, Callable[[Tokenizer], Tokenizer]] = {
    "first": lambda tokenizer: tokenizer.with_vocab_size(600),
    "pruned": lambda tokenizer: tokenizer.without_rare(Counter(tokenizer.encode(TEXT * 9)), 600)[0],
    "more": lambda tokenizer: tokenizer.with_special_tokens(["<|user|>", "<|bot|>"]),
    "gaps": lambda tokenizer: tokenizer.with_special_tokens({"<|user|>": 2000}),
    "padded": lambda tokenizer: tokenizer.with_special_tokens((), pad_to_multiple_of=64),
    "all": lambda tokenizer: (
        tokenizer.with_vocab_size(800)
        .without_rare(Counter(tokenizer.with_vocab_size(800).encode(TEXT * 9)), 500)[0]
        .with_special_tokens(["<|user|>"], pad_to_multiple_of=64)
    ),
}


@pytest.fixture(params=list(DERIVED))
def derived(request: pytest.FixtureRequest, tokenizer: Tokenizer) -> Tokenizer:
    """A vocabulary that is made of the session's."""
    return DERIVED[request.param](tokenizer)


def test_round_trips_keep_the_vocabulary(derived: Tokenizer, tmp_path: Path) -> None:
    for name in ("x.json", "vocab.json", "tokenizer.json", "folder/"):
        path = f"{tmp_path}/{name}"
        derived.save(path)
        assert Tokenizer.load(path) == derived
    derived.save(tmp_path / "x.tiktoken")
    loaded = Tokenizer.load(
        tmp_path / "x.tiktoken",
        pattern=derived.patterns[0],
        special_tokens=derived.special_tokens,
    )
    assert loaded == derived


def test_other_libraries_give_the_same_ids(
    derived: Tokenizer, real_texts: list[str], tmp_path: Path
) -> None:
    derived.save(tmp_path / "tokenizer.json")
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    encoding = as_tiktoken(derived)
    text = "".join([TEXT, *derived.special_tokens, *real_texts])[:60_000]
    ids = derived.encode(text)
    assert theirs.encode(text, add_special_tokens=False).ids == ids
    assert encoding.encode(text, allowed_special="all") == ids
    assert theirs.decode(ids, skip_special_tokens=False) == encoding.decode(ids) == text
    assert derived.decode(ids) == text
    assert (theirs.get_vocab_size(), encoding.n_vocab) == (len(derived.ids), derived.n_vocab)


def framed() -> Tokenizer:
    """Return the vocabulary of `shuffled`, with everything that other files may have."""
    return Tokenizer(
        replace(
            shuffled()._vocabulary,
            more_patterns=(r"\p{N}",),
            normalizer="NFC",
            kept_special_tokens=frozenset({"<|pad|>"}),
            added_tokens=frozenset({"<|pad|>"}),
            settings={"bos_token": "<|pad|>", "chat_template": "x"},
            prefix_ids=(301,),
            suffix_ids=(1000,),
        )
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda tokenizer: tokenizer.with_vocab_size(264),
        lambda tokenizer: tokenizer.without_rare(Counter(tokenizer.encode(TEXT)), 264)[0],
        lambda tokenizer: tokenizer.with_special_tokens(["<|user|>"], pad_to_multiple_of=64),
        lambda tokenizer: tokenizer.with_special_tokens({"<|user|>": 4}),
        lambda tokenizer: tokenizer.with_settings(eos_token="<|endoftext|>"),
    ],
    ids=["first", "pruned", "padded", "gap", "settings"],
)
def test_vocabularies_from_elsewhere_keep_their_rules(
    change: Callable[[Tokenizer], Tokenizer], tmp_path: Path
) -> None:
    derived = change(framed())
    for name in ("x.json", "folder/"):
        derived.save(f"{tmp_path}/{name}")
        assert Tokenizer.load(f"{tmp_path}/{name}") == derived
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "folder" / "tokenizer.json"))
    text = f"{TEXT}<|user|>e\u0301 12<|pad|>then"
    ids = derived.encode(text, add_special_tokens=True)
    assert theirs.encode(text).ids == ids
    assert derived.token_bytes(ids[0]) == b"<|pad|>"
    assert theirs.decode(ids) == derived.decode(ids, skip_special_tokens=True)


# Settings

SETTINGS = {
    "eos_token": "<|endoftext|>",
    "pad_token": "<|pad|>",
    "chat_template": "{{ messages }}\n",
    "chat_template.tool": "{{ tools }}",
}


def test_settings_are_set_and_removed() -> None:
    tokenizer = SMALL.with_settings(**SETTINGS)
    assert dict(tokenizer.settings) == SETTINGS
    assert tokenizer.encode(TEXT) == SMALL.encode(TEXT)
    fewer = tokenizer.with_settings(eos_token=None, pad_token="<|endoftext|>", bos_token=None)
    assert dict(fewer.settings) == {
        "pad_token": "<|endoftext|>",
        "chat_template": SETTINGS["chat_template"],
        "chat_template.tool": SETTINGS["chat_template.tool"],
    }
    assert tokenizer.with_settings(**dict.fromkeys(SETTINGS)) == SMALL


def test_transformers_reads_settings_and_reserved_tokens(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    padded = SMALL.with_special_tokens(["<|im_end|>"], pad_to_multiple_of=64)
    padded.with_settings(eos_token="<|im_end|>", chat_template="{{ eos_token }}").save(
        tmp_path, format="huggingface"
    )
    theirs = transformers.AutoTokenizer.from_pretrained(str(tmp_path))
    assert (len(theirs), theirs.eos_token_id) == (320, 274)
    assert theirs.chat_template == "{{ eos_token }}"
    assert theirs.encode(f"{TEXT}<|im_end|>") == padded.encode(f"{TEXT}<|im_end|>")


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"eos": "<|pad|>"}, ValueError, "the setting 'eos' is none of bos_token, eos_token"),
        ({"chat_template.": "x"}, ValueError, "the setting 'chat_template.' is none of"),
        ({"chat_template.default": "x"}, ValueError, "'chat_template.default' is none of"),
        ({"eos_token": "<|e|>"}, ValueError, "eos_token is '<|e|>', which is not a special token"),
        ({"chat_template": ""}, ValueError, "chat_template is empty"),
        ({"chat_template": "\ud800"}, ValueError, "not Unicode"),
        ({"eos_token": 5}, TypeError, "eos_token must be a str or None, got int"),
    ],
)
def test_wrong_settings_are_refused(
    settings: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as raised:
        SMALL.with_settings(**settings)
    assert words in str(raised.value)
