"""`bpetite.analysis.report`: every figure equals its definition, computed by hand."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.batches import batch_of_texts
from support.engines import quick_once
from support.vocabularies import vocabulary

from bpetite import Tokenizer
from bpetite._vocabulary import Stages
from bpetite.analysis import Report, report
from bpetite.analysis._figures import CountedToken, VocabularyFigures, gini
from bpetite.corpora import Batch, Corpus

pytestmark = quick_once


WORDS = st.lists(
    st.sampled_from(["ab", "abab", "né", "你好", "x\n", "  ", "a'b", "🙂"]), max_size=30
)
TEXTS = WORDS.map(" ".join)


def figures(tokenizer: Tokenizer, text: str, **options: Any) -> VocabularyFigures:
    """Return the figures of a vocabulary for one text."""
    return report({"a": tokenizer}, {"text": text}, **options).vocabularies[0]


# The curve


@given(TEXTS, TEXTS)
def test_curve_matches_trainings_of_each_size(corpus: str, text: str) -> None:
    tokenizer = Tokenizer.train(corpus, 280)
    (use,) = figures(tokenizer, text).uses
    assert use.curve[0] == (256, len(text.encode()))
    assert use.curve[-1] == (256 + len(tokenizer.merges), use.tokens)
    for size, tokens in use.curve:
        assert tokens == len(Tokenizer.train(corpus, size).encode_ordinary(text))


def test_curve_has_the_sizes_of_all_vocabularies() -> None:
    text = "the hen then met the ten men " * 4
    models = {str(size): Tokenizer.train(text, size) for size in (262, 259)}
    found = report(models, {"text": text})
    sizes = [[size for size, _ in each.uses[0].curve] for each in found.vocabularies]
    assert sizes == [[256, 259, 262], [256, 259]]


def test_curve_ends_before_a_merge_of_later_tokens() -> None:
    """The merge of rank 0 joins a token that only the merge of rank 1 makes."""
    later = vocabulary({256: b"ab", 257: b"abc"}, [(256, 99), (97, 98)])
    (use,) = figures(Tokenizer(later), "abc ab").uses
    assert use.curve == ((256, 6),)


def test_curve_counts_tokens_without_a_merge_at_the_end() -> None:
    """No merge makes "abc", which is a token of whole pieces; a smaller vocabulary lacks it."""
    whole = vocabulary({256: b"ab", 257: b"abc"}, [(97, 98)], ignore_merges=True)
    tokenizer = Tokenizer(whole)
    (use,) = figures(tokenizer, "abc ab").uses
    assert use.tokens == 3
    assert use.curve == ((256, 6), (257, len(tokenizer.with_vocab_size(257).encode("abc ab"))))


# Counts of ids


@given(TEXTS, TEXTS)
def test_ids_are_counted_as_encode_gives_them(first: str, second: str) -> None:
    tokenizer = Tokenizer.train(first, 270)
    found = report({"a": tokenizer}, {"1": first, "2": second})
    (each,) = found.vocabularies
    total: Counter[int] = Counter()
    for use, text in zip(each.uses, (first, second), strict=True):
        ids = tokenizer.encode_ordinary(text)
        counts = Counter(ids)
        total += counts
        assert use.tokens == len(ids)
        assert use.often == sum(count >= 10 for count in counts.values())
        assert use.rare == sum(count < 10 for count in counts.values())
        assert use.never == each.size - len(counts)
        lengths = Counter(len(tokenizer.token_bytes(id)) for id in ids)
        assert use.lengths == tuple(sorted(lengths.items()))
    special = tokenizer.special_tokens.values()
    assert each.never == tuple(id for id in tokenizer.ids if id not in total and id not in special)


def test_special_literals_are_ordinary_text() -> None:
    text = "<|endoftext|>"
    assert figures(Tokenizer.train("", 256), text).uses[0].tokens == len(text)


# The size of a text


class Segments:
    """Documents in segments of some characters."""

    def __init__(self, documents: list[str], size: int) -> None:
        self.documents = documents
        self.size = size

    def batches(self) -> Any:
        """Fail: segments are preferred."""
        raise AssertionError

    def segments(self) -> Iterator[tuple[Batch, bool]]:
        """Yield each whole document that is short with those before it, and others in parts."""
        parts = [
            (document[start : start + self.size], start + self.size >= len(document))
            for document in self.documents
            for start in range(0, max(len(document), 1), self.size)
        ]
        waiting: list[str] = []
        for text, is_complete in parts:
            waiting.append(text)
            if not is_complete or len(waiting) == self.size:
                yield batch_of_texts(waiting), is_complete
                waiting = []
        yield batch_of_texts(waiting), True


@given(st.lists(st.text(alphabet="a é\n\u3000你"), min_size=1), st.integers(1, 9))
def test_sizes_of_segments_add_up(documents: list[str], size: int) -> None:
    found = report({"a": Tokenizer.train("", 256)}, {"text": Segments(documents, size)})
    (text,) = found.texts
    joined = "".join(documents)
    assert (text.documents, text.bytes, text.characters) == (
        len(documents),
        len(joined.encode()),
        len(joined),
    )
    assert text.words == sum(len(re.findall(r"[^ \n]+", document)) for document in documents)
    assert text.beginning == documents[0][:160]


def test_text_larger_than_a_segment_is_measured(tmp_path: Path) -> None:
    text = "né ab\n" * 300_000
    (tmp_path / "long.txt").write_text(text, "utf-8", newline="")
    found = report({"a": Tokenizer.train("né ab", 260)}, {"t": Corpus(tmp_path / "long.txt")})
    (size,) = found.texts
    assert (size.documents, size.bytes) == (1, len(text.encode()))
    assert (size.characters, size.words) == (len(text), 600_000)
    assert found.vocabularies[0].uses[0].next is not None
    assert found.vocabularies[0].uses[0].next.bytes == 1 << 20


# Doubtful tokens


def test_token_that_its_bytes_do_not_give_is_unreachable() -> None:
    """The pattern divides "b a", so no text has this token."""
    divided = vocabulary({256: b" a", 257: b"b a"}, [(32, 97), (98, 256)])
    found = figures(Tokenizer(divided), "b a")
    assert found.unreachable == (CountedToken(257, b"b a", 0),)


def test_part_of_a_character_without_a_merge_is_unreachable() -> None:
    parts = vocabulary({256: "你".encode()[:2], 257: "他".encode()[1:]}, [(0xE4, 0xBD)])
    found = figures(Tokenizer(parts), "你")
    assert found.unreachable == (CountedToken(257, "他".encode()[1:], 0),)
    assert [each.id for each in found.partial[128:]] == [256, 257]


def test_token_in_a_longer_piece_is_reachable() -> None:
    r"""Alone, the pattern divides "\n/", but after a slash it has no cut there."""
    tokenizer = Tokenizer.train("/\n/", 257, pattern="o200k")
    id = 256
    assert tokenizer.token_bytes(id) == b"\n/"
    assert [each.id for each in figures(tokenizer, "\n/").unreachable] == [id]
    assert figures(tokenizer, "/\n/").unreachable == ()


def test_tokens_within_characters_are_partial() -> None:
    tokenizer = Tokenizer.train("éé éé", 257)
    found = figures(tokenizer, "é")
    partial = [(each.id, each.count) for each in found.partial]
    assert partial == [(id, 0) for id in range(128, 256)]
    assert found.unreachable == ()
    assert found.longest[0] == CountedToken(256, "é".encode(), 1)


# The next merges


@given(TEXTS, TEXTS, st.sampled_from([None, "NFC"]))
def test_next_merges_match_continued_training(corpus: str, text: str, normalizer: Any) -> None:
    learnt = Tokenizer.train(corpus, 262)._vocabulary
    tokenizer = Tokenizer(replace(learnt, normalizer=normalizer))
    text = unicodedata.normalize("NFD", text)
    more = figures(tokenizer, text, next_merges=8).uses[0].next
    assert more is not None
    size = 256 + len(tokenizer.merges)
    for merges, tokens in enumerate(more.curve):
        larger = Tokenizer.train(text, size + merges, base=tokenizer)
        assert tokens == len(larger.encode_ordinary(text))
    assert more.merges == min(8, len(larger.merges) - len(tokenizer.merges))
    assert [each.token for each in more.first] == [
        larger.token_bytes(tokenizer.n_vocab + place) for place in range(more.merges)
    ]


def test_next_merges_see_the_beginning_alone() -> None:
    more = figures(Tokenizer.train("", 256), "ab" * 4 + "é" * 9, next_bytes=9).uses[0].next
    assert more is not None
    assert (more.bytes, more.curve[0], more.first[0]) == (8, 8, CountedToken(257, b"ab", 4))


def test_next_merges_can_be_left_out() -> None:
    assert figures(Tokenizer.train("", 256), "ab ab", next_merges=0).uses[0].next is None


def test_a_vocabulary_that_training_refuses_has_no_next_merges() -> None:
    changed = replace(Tokenizer.train("", 256)._vocabulary, stages=Stages((("Lowercase",),)))
    assert figures(Tokenizer(changed), "ab ab").uses[0].next is None


# Languages


@given(st.lists(st.integers(0, 99), min_size=1, max_size=9).map(tuple))
def test_gini_is_half_the_mean_difference(values: tuple[int, ...]) -> None:
    pairs = [abs(first - second) for first, second in product(values, repeat=2)]
    mean = sum(values) / len(values)
    expected = sum(pairs) / len(pairs) / mean / 2 if mean else 0.0
    assert gini(values) == pytest.approx(expected)


def test_parity_is_relative_to_the_first_language() -> None:
    tokenizer = Tokenizer.train("ab ab ab", 258)
    found = report({"a": tokenizer}, {}, parallel={"one": "ab ab", "two": "cccc"})
    (each,) = found.vocabularies
    assert found.parallel == ("one", "two")
    assert (each.parallel_tokens, each.parity) == ((2, 4), (1.0, 2.0))
    assert each.gini == pytest.approx(1 / 6)


# Two vocabularies


def test_comparison_names_the_tokens_of_one_side() -> None:
    first, second = Tokenizer.train("ab ab ab", 258), Tokenizer.train("ab cd cd cd", 259)
    found = report({"1": first, "2": second}, {"text": "ab ab cd cd cd"})
    (comparison,) = found.comparisons
    assert comparison.name == "2"
    assert comparison.common == len({*first.tokens} & {*second.tokens}) - 1  # the special token
    assert [each.token for each in comparison.only_first] == [b" ab"]
    assert [(each.token, each.count) for each in comparison.only_other] == [(b" cd", 3)]


# Results and errors


def test_report_is_json() -> None:
    found = report({"a": Tokenizer.train("ab ab", 257)}, {"t": "ab"}, parallel={"en": "a"})
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["vocabularies"][0]["uses"][0]["bytes_per_token"] == 2.0
    assert plain["vocabularies"][0]["uses"][0]["text"] == "t"
    assert plain["vocabularies"][0]["longest"][0] == {"id": 256, "token": "ab", "count": 1}


def test_empty_text_has_no_ratios() -> None:
    (use,) = figures(Tokenizer.train("", 256), "").uses
    assert (use.tokens, use.bytes_per_token, use.words_per_token) == (0, 0.0, 0.0)


def test_wrong_arguments_are_named() -> None:
    tokenizer = Tokenizer.train("", 256)
    with pytest.raises(ValueError, match="report needs a tokenizer"):
        report({}, {"a": "b"})
    with pytest.raises(ValueError, match="report needs a text"):
        report({"a": tokenizer}, {})
    with pytest.raises(TypeError, match="a must be a Tokenizer, got str"):
        report({"a": "b"}, {"a": "b"})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="a must be a str or have a method batches, got int"):
        report({"m": tokenizer}, {"a": 1})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="tokenizers must be a mapping by name, got Tokenizer"):
        report(tokenizer, {"a": "b"})  # type: ignore[arg-type]
    for texts, parallel in ((None, {}), ("b", {}), ({}, ["b"])):
        with pytest.raises(TypeError, match=r"(texts|parallel) must be a mapping by name, got"):
            report({"m": tokenizer}, texts, parallel=parallel)  # type: ignore[arg-type]
    for name, number in (("next_merges", -1), ("next_bytes", 0), ("next_bytes", -1)):
        with pytest.raises(ValueError, match=f"{name} must be at least [01], got {number}"):
            report({"m": tokenizer}, {"a": "b"}, **{name: number})  # type: ignore[arg-type]
    for wrong in ("1", 1.5, True, None):
        with pytest.raises(TypeError, match="next_bytes must be an integer, got "):
            report({"m": tokenizer}, {"a": "b"}, next_bytes=wrong)  # type: ignore[arg-type]


def test_report_is_frozen() -> None:
    found = report({"a": Tokenizer.train("", 256)}, {"a": "b"})
    assert isinstance(found, Report)
    assert hash(found) == hash(report({"a": Tokenizer.train("", 256)}, {"a": "b"}))
