"""The cuts of a report: what two vocabularies divide alike, and where they differ."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from support.engines import quick_once
from support.vocabularies import composing

from bpetite import Tokenizer
from bpetite.analysis import report
from bpetite.analysis._figures import Comparison, Cuts, Difference
from bpetite.corpora import Corpus

pytestmark = quick_once

BYTES = Tokenizer.train("", 256)
AB = Tokenizer.train("ab ab ab", 257)
BC = Tokenizer.train("bc bc bc", 257)
WORDS = Tokenizer.train("abc bca 你好 🙂 <|pad|> the one two three" * 3, 280)

RAW = "\ufeffone\r\ntwo\rthree\n\0\t café <|endoftext|> 你好 🙂👩‍👩‍👧 \n\n no newline"


def compared(
    first: Tokenizer, other: Tokenizer, *texts: str | Corpus, limit: int = 999
) -> Comparison:
    named = {str(place): text for place, text in enumerate(texts)}
    found = report({"a": first, "b": other}, named, next_merges=0, differences=limit)
    (comparison,) = found.comparisons
    return comparison


def test_equal_cuts_are_a_share_of_all_cuts() -> None:
    """The vocabularies divide "abcabc" as ab|c|ab|c, as a|b|c|a|b|c and as a|bc|a|bc."""
    (of_bytes,), (of_bc,) = (compared(AB, other, "abcabc").cuts for other in (BYTES, BC))
    assert (of_bytes, of_bc) == (Cuts(3, 5, 3), Cuts(3, 3, 1))
    assert of_bytes is not None
    assert (of_bytes.equal, of_bytes.share, of_bytes.first_share) == (3 / 5, 3 / 5, 1.0)


@pytest.mark.parametrize("text", ["", "a"])
def test_no_cuts_are_equal_cuts(text: str) -> None:
    assert compared(AB, BC, text) == Comparison("b", 257 - 1, (), (), (Cuts(0, 0, 0),))
    assert Cuts(0, 0, 0).equal == Cuts(0, 0, 0).share == Cuts(0, 0, 0).first_share == 1.0


def test_ends_of_documents_are_no_cuts(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "a"}\n{"text": ""}\n{"text": "abc"}\n', "utf-8")
    assert compared(AB, BC, Corpus(path)).cuts == (Cuts(1, 1, 0),)
    assert compared(AB, BC, Corpus(path)).differences == (
        Difference("0", 2, 0, (256, 99), (97, 256)),
    )


def test_changed_text_has_no_cuts(tmp_path: Path) -> None:
    changing = composing(tmp_path / "tokenizer.json")
    for first, other in ((BYTES, changing), (changing, BYTES)):
        found = compared(first, other, "e\u0301~", "a\u00e9")
        assert (found.cuts[0], found.cuts[1] is None) == (None, False)
        assert {each.text for each in found.differences} == {"1"}


@pytest.mark.parametrize("limit", [0, 1, 2, 3])
def test_at_most_n_differences_are_kept(limit: int) -> None:
    found = compared(AB, BC, "abc abc", limit=limit)
    assert found.cuts == (Cuts(4, 4, 2),)
    both = [Difference("0", 0, byte, (256, 99), (97, 256)) for byte in (0, 4)]
    assert found.differences == (*both[:limit],)


def test_cuts_are_counted_on_request_only() -> None:
    (found,) = report({"a": AB, "b": BC}, {"0": "abc"}).comparisons
    assert (found.cuts, found.differences) == ((), ())
    with pytest.raises(ValueError, match="differences must be at least 0, got -1"):
        compared(AB, BC, "abc", limit=-1)


def cuts_of(tokenizer: Tokenizer, ids: list[int]) -> set[int]:
    """Return the cuts before, between and after tokens."""
    return {len(tokenizer.decode_bytes(ids[:count])) for count in range(len(ids) + 1)}


@pytest.mark.parametrize("other", [AB, BYTES, WORDS, BC], ids=["ab", "bytes", "words", "bc"])
@pytest.mark.parametrize("text", [RAW, "abcabc bcab" * 9, "é", "🙂🙂 你好<|pad|>"])
def test_differences_match_all_cuts(other: Tokenizer, text: str) -> None:
    """Compares stretches between two shared cuts, found from the sets of all cuts."""
    ids, other_ids = WORDS.encode_ordinary(text), other.encode_ordinary(text)
    cuts, other_cuts = cuts_of(WORDS, ids), cuts_of(other, other_ids)
    expected = []
    for start, end in pairwise(sorted(cuts & other_cuts)):
        before = [[at for at in sorted(each) if start <= at < end] for each in (cuts, other_cuts)]
        if before != [[start], [start]]:
            expected.append((start, [len(each) for each in before], text.encode()[start:end]))
    found = compared(WORDS, other, text)
    inner = {0, len(text.encode())}
    sizes = [len(each - inner) for each in (cuts, other_cuts, cuts & other_cuts)]
    assert found.cuts == (Cuts(*sizes),)
    assert [
        (each.byte, [len(each.first_ids), len(each.ids)], other.decode_bytes(each.ids))
        for each in found.differences
    ] == expected
    assert [WORDS.decode_bytes(each.first_ids) for each in found.differences] == [
        data for _, _, data in expected
    ]
