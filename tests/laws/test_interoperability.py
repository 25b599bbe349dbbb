"""Compare ids and decoded text with tiktoken and tokenizers: `scripts/bench ids` on less text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from itertools import islice
from pathlib import Path

import pytest
from support.engines import quick_once
from support.examples import slow_except
from tools import compare_ids
from tools.compare_ids import Case, Library, Subject, Tally

from bpetite import Tokenizer

pytestmark = quick_once  # test_oracles.py compares both engines

PATTERNS = ("gpt2", "cl100k", "o200k")

HARD: dict[str, Callable[[Tokenizer], Iterable[Case]]] = {
    "runs of one character": lambda _: compare_ids.runs((1, 2, 3, 5, 64, 65, 130)),
    "every 509th code point": lambda _: compare_ids.code_points(509),
    "line ends, digits, marks, unassigned": lambda _: compare_ids.mixtures(25),
    "contractions": lambda _: islice(compare_ids.contractions(), 0, None, 50),
    "special tokens": lambda tokenizer: islice(
        compare_ids.special_texts(list(tokenizer.special_tokens)), 0, None, 5
    ),
    "ids in any order": lambda tokenizer: compare_ids.any_ids(
        tokenizer, count=200, step=tokenizer.n_vocab // 200
    ),
}
"""A part of the difficult cases; `scripts/bench ids` runs all of them."""


def differences(subject: Subject, cases: Iterable[Case]) -> dict[str, tuple[int, int]]:
    """Return for each library the number of cases with other ids, and with other text."""
    tallies = compare_ids.compare(subject.tokenizer, subject.libraries, cases)
    assert all(tally.slices for tally in tallies)
    return {
        library.name.split()[0]: (tally.ids_differ, tally.decoding_differs)
        for library, tally in zip(subject.libraries, tallies, strict=True)
    }


NONE = {"tiktoken": (0, 0), "tokenizers": (0, 0)}


# Small vocabularies


@pytest.fixture(scope="module")
def small(
    real_texts: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Subject]:
    """Return a function that trains a vocabulary with a pattern, and makes a subject of it."""
    folder = tmp_path_factory.mktemp("small")

    @cache
    def subject(pattern: str) -> Subject:
        hard = [text for text in compare_ids.mixtures(20) for _ in range(3)]
        special_tokens = ["<|endoftext|>", "<|end|>", "</s>"]
        tokenizer = Tokenizer.train(
            [*real_texts, *hard], 900, pattern=pattern, special_tokens=special_tokens
        )
        reference = compare_ids.in_tiktoken(compare_ids.saved_encoding(tokenizer, folder))
        libraries = [reference, compare_ids.in_tokenizers(tokenizer, folder)]
        return Subject(pattern, tokenizer, libraries)

    return subject


@pytest.mark.parametrize("pattern", slow_except(PATTERNS, "o200k"))
@pytest.mark.parametrize("kind", HARD)
def test_hard_text(pattern: str, kind: str, small: Callable[[str], Subject]) -> None:
    subject = small(pattern)
    assert differences(subject, HARD[kind](subject.tokenizer)) == NONE


def test_special_tokens_that_overlap(tmp_path: Path) -> None:
    """If one begins another, tiktoken is left out: its choice is undetermined."""
    found = [
        differences(subject, compare_ids.brackets(5))
        for subject in compare_ids.overlapping_subjects(
            lambda special_tokens: Tokenizer.train("a a a", 258, special_tokens=[*special_tokens]),
            "small",
            tmp_path,
        )
    ]
    assert found == [NONE, {"tokenizers": (0, 0)}]


# The comparison itself


def test_differences_are_counted_and_shown_as_short_as_can_be(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tokenizer, other = (Tokenizer.train(text, 257) for text in ("abab", "acac"))
    library = Library("another", other.encode, other.decode)
    texts = ["no", "an abbot", "ab", "é"]
    assert compare_ids.compare(tokenizer, [library], texts) == [Tally(4, 14, 2, 2)]
    assert capsys.readouterr().err == (
        "'ab': bpetite has [256], another [97, 98]\n"
        "another decodes [97, 110, 32, 256, 98, 111, 116] differently\n"
    )


def test_slices_cover_the_text_three_times() -> None:
    text = "".join(map(chr, range(1, 20_000)))
    assert "".join(compare_ids.slices_of(text, longest=500, whole=3000)) == text * 3
