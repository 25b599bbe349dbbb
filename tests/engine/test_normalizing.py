"""A vocabulary that normalizes text gives the ids of the normal form, by every call."""

from __future__ import annotations

import sys
import unicodedata
from array import array
from functools import cache
from itertools import accumulate, pairwise
from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.engines import native_only
from support.examples import few_examples
from support.split_cases import tokenizer_of
from support.times import best_time

from bpetite import Tokenizer, Trusted
from bpetite._pretokenizer import SpecialSplitter
from bpetite._unicode import is_nfc, nfc, nfc_chunks
from bpetite._vocabulary import Vocabulary

LITERALS = ("<K>", "é", "é>", "K", "a\u0301<", "éé", "<K>xK", "ab<K>cd")
"""Literals that a normal form can make, of the Kelvin sign say, or destroy."""

CHARACTERS = ["a", "e", "é", "\u0301", "\u0323", "<", ">", "K", "\u212a", "\u0338", " ", "中", "🙂"]
# One letter of Korean in three parts, and a mark that Unicode 9 does not have.
CHARACTERS += ["\u1100", "\u1161", "\u11a8", "각", "\u1ab0", "\u1ac0", "\n", "<K>", "\u0958"]
# Letters and vowel signs of Hindi and Bengali that join, or do not.
CHARACTERS += ["\u0928", "\u0930", "\u093c", "\u09c7", "\u09be", "\u0995"]

TEXTS = st.lists(st.sampled_from(CHARACTERS), max_size=12).map("".join)
LONGER = st.builds(lambda text, times: text * times, TEXTS, st.sampled_from([1, 2, 900, 3000]))

# Places near the ends of the parts and the blocks in which text is normalized.
NEAR_EDGES = st.builds(
    lambda size, text, behind: "x" * size + text + behind,
    st.sampled_from([*range(252, 258), *range(4092, 4098)]),
    TEXTS,
    st.sampled_from(["", "x" * 300]),
)


@cache
def tokenizer() -> Tokenizer:
    """Return a tokenizer that normalizes."""
    plain = tokenizer_of("gpt2")
    special_tokens = {literal: 900 + number for number, literal in enumerate(LITERALS)}
    return Tokenizer(Vocabulary(plain.merges, special_tokens, plain.patterns[0], normalizer="NFC"))


def normal_form(text: str) -> str:
    """Return the normal form of a text without characters newer than Unicode 9 around marks."""
    return "\u1ac0".join(unicodedata.normalize("NFC", part) for part in text.split("\u1ac0"))


def expected(text: str, ordinary: bool = False) -> list[int]:
    """Return the ids of a text by the definition: literals first, then the normal form."""
    plain, literals = tokenizer_of("gpt2"), () if ordinary else LITERALS
    ids: list[int] = []
    for segment, literal in SpecialSplitter(literals).split(text):
        ids += plain.encode_ordinary(normal_form(segment))
        if literal is not None:
            ids.append(tokenizer().special_tokens[literal])
    return ids


@given(LONGER | NEAR_EDGES)
@example("x" * 254 + "e\u0301e\u0301")
@example("x" * 253 + "<\u212a>x\u212a")
@example("ab<K>c\u0301d e\u0301<K>\u0338ab<\u212a>cd")
@example("<\u212a>e\u0301>")
@example("<K>\u0338 \u212a")
@example("a\u0301<")
def test_every_form_of_a_text_has_the_ids_of_its_normal_form(text: str) -> None:
    ids = expected(text)
    assert tokenizer().encode(text) == ids
    assert tokenizer().encode(text.encode(), threads=2) == ids
    assert tokenizer().encode(bytearray(text.encode())) == ids
    assert tokenizer().encode(text, dtype="uint32").tolist() == ids
    assert tokenizer().encode(text, dtype="uint16").tolist() == ids
    assert tokenizer().count(text) == len(ids)
    ordinary = expected(text, ordinary=True)
    assert tokenizer().encode_ordinary(text) == ordinary
    assert tokenizer().count(text, allowed_special=()) == len(ordinary)


@few_examples
@given(st.lists(TEXTS | NEAR_EDGES, max_size=4), st.sampled_from([1, 3]))
@example(["e", "\u0301"], 1)
@example(["<\u212a>", "e\u0301", "K"], 1)
def test_every_form_of_documents_has_their_ids(texts: list[str], threads: int) -> None:
    ids = [expected(text) for text in texts]
    assert tokenizer().encode_batch(texts, threads=threads) == ids
    flat, offsets = tokenizer().encode_batch(texts, dtype="uint32", threads=threads)
    assert [flat[start:end].tolist() for start, end in pairwise(offsets)] == ids

    data = "".join(texts).encode()
    bounds = array("q", accumulate((len(text.encode()) for text in texts), initial=0))
    found = tokenizer().encode_buffer(data, bounds, allowed_special="all", threads=threads)
    assert [each.tolist() for each in found] == [flat.tolist(), offsets.tolist()]


@given(st.lists(st.tuples(TEXTS, st.booleans()), max_size=5))
def test_parts_have_the_ids_of_their_normal_form(marked: list[tuple[str, bool]]) -> None:
    parts = [Trusted(text) if is_trusted else text for text, is_trusted in marked]
    ids, offsets = tokenizer().encode_parts(parts)
    as_arrays = tokenizer().encode_parts(parts, dtype="uint16")
    assert [each.tolist() for each in as_arrays] == [ids, offsets]
    if not any(is_trusted for _, is_trusted in marked):
        assert ids == expected("".join(parts), ordinary=True)
    if len(parts) == 1 and isinstance(parts[0], Trusted):
        assert ids == expected(parts[0])


def test_a_surrogate_is_found_where_the_text_has_it() -> None:
    text = "e\u0301" * 3 + "\ud800"
    for call in (tokenizer().encode, tokenizer().encode_ordinary, tokenizer().count):
        with pytest.raises(UnicodeEncodeError) as caught:
            call(text)
        assert (caught.value.object, caught.value.start) == (text, 6)


@native_only
@pytest.mark.parametrize("start", ["", "<K> a word o\u0301 and others <K>"])
def test_text_that_is_mostly_normal_is_not_split_in_python(start: str) -> None:
    calls: list[str] = []
    text = start + "naïve words and 中文, over and over again. " * 5_000
    text = text + text
    assert tokenizer().encode(text) == expected(text)
    sys.setprofile(lambda frame, *_: calls.append(frame.f_code.co_name))
    try:
        tokenizer().encode(text)
    finally:
        sys.setprofile(None)
    assert 0 < len(calls) < len(text) / 50


def test_few_documents_in_another_form_leave_the_others() -> None:
    """Each document has its ids, whichever of its neighbours change their length."""
    texts = ["plain", "", "e\u0301", "中文", "\u212a", "x" * 70_000, "<K>", "", "a\u0323\u0301"]
    for start in range(len(texts)):
        some = texts[start:] * 3
        data = "".join(["before", *some, "behind"]).encode()
        ends = accumulate((len(text.encode()) for text in some), initial=6)
        ids, offsets = tokenizer().encode_buffer(data, array("q", ends), allowed_special="all")
        found = [ids[first:last].tolist() for first, last in pairwise(offsets)]
        assert found == [expected(text) for text in some]


def test_offsets_inside_a_character_are_refused_in_any_form() -> None:
    data = "e\u0301 é".encode()
    for offsets in ([0, 2], [0, 3, 5, 6], [3, 2], [0, 99]):
        with pytest.raises((UnicodeDecodeError, ValueError)) as found:
            tokenizer().encode_buffer(data, array("q", offsets))
        with pytest.raises((UnicodeDecodeError, ValueError)) as wanted:
            tokenizer_of("gpt2").encode_buffer(data, array("q", offsets))
        assert str(found.value) == str(wanted.value)


# Normal forms of long texts


@given(LONGER)
def test_long_texts_are_normalized_in_blocks(text: str) -> None:
    assert nfc(text) == normal_form(text)
    assert is_nfc(text) == (normal_form(text) == text)


@given(TEXTS, st.lists(st.integers(0, 12)))
def test_a_text_in_chunks_has_its_normal_form(text: str, cuts: list[int]) -> None:
    bounds = pairwise([0, *sorted(cuts), 12])
    chunks = [text[start:end] for start, end in bounds] + [text[12:]]
    assert "".join(nfc_chunks(chunks)) == normal_form(text)


@native_only
@given(LONGER | NEAR_EDGES)
def test_other_characters_join_no_part_that_may_change(text: str) -> None:
    from bpetite._engine import _native

    data = text.encode()
    changes = [
        (start, part.encode(), nfc(part).encode()) for start, part in _native.unsettled(text)
    ]
    assert all(data[start:].startswith(part) for start, part, _ in changes)
    assert _native.changed(data, changes).decode() == normal_form(text)


@native_only
def test_a_settled_character_joins_none_before_it() -> None:
    from bpetite._engine import _native

    codes = [*range(0xD800), *range(0xE000, 0x110000)]
    settled = {chr(code) for code in codes if not _native.unsettled(chr(code))}
    marks = {chr(code) for code in codes if unicodedata.combining(chr(code))}
    marks |= {*map(chr, (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)))}
    changed = {chr(code) for code in codes if unicodedata.normalize("NFC", chr(code)) != chr(code)}
    # A form of two characters may come from both of them.
    forms = (unicodedata.normalize("NFD", chr(code)) for code in codes)
    marks |= {form[-1] for form in forms if len(form) > 1}
    assert settled & (marks | changed) == set()
    assert len(settled) > 120_000


# Marks of many classes. Some decompose into two, and the marks of Tibetan have class 0 themselves.
MARKS = "\u0301\u0316\u0338\u0327\u0345\u0344\u0340\u0f73\u0f71\u0f81\u302e\u0903\U0001d165"


@given(
    st.lists(
        st.tuples(
            st.text("eé\u1ed9\u2260=!\u0928\uac00\U0001d15e ", max_size=2),
            st.text(MARKS, min_size=1, max_size=4),
            st.sampled_from([1, 32, 33, 300]),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_long_runs_of_marks_have_their_normal_form(runs: list[tuple[str, str, int]]) -> None:
    text = "".join(before + marks * times for before, marks, times in runs)
    assert nfc(text) == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize("marks", ["\u0301\u0316", "\u0f73", "\u0344\u0316"], ids=ascii)
def test_a_run_of_marks_is_normalized_in_linear_time(marks: str) -> None:
    text = "e" + marks * (120_000 // len(marks))

    def seconds() -> float:
        start = process_time()
        normal = nfc(text)
        taken = process_time() - start
        assert not is_nfc(text)
        assert is_nfc(normal)
        return taken

    assert best_time(seconds, enough=2) < 2  # Python's own function takes 20 s
