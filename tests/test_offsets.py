"""encode_with_offsets: the ids of a text, and where in the text each of them begins."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines import quick_once
from support.texts import BUFFERS
from support.vocabularies import vocabulary
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as HuggingFace

from bpetite import Tokenizer
from bpetite._vocabulary import Vocabulary

END = "<|endoftext|>"

SMALL = Tokenizer.train("ab ab ab 你 你 🙂 🙂 é é", 270)

HALVES = Tokenizer(
    vocabulary(
        {
            300: b" \xf0\x9f",
            301: b"\x99\x82 ",
            302: "é你".encode(),
            303: b"\x9f\x99",
            304: b"a\xc3",
        },
        [],
        special_tokens={"🙂é": 400, "<|far|>": 3_000_000_000},
        ignore_merges=True,
        pattern=r"(?s).{1,3}",
    )
)
"""A tokenizer whose tokens begin and end inside characters, with literals outside ASCII."""

NORMALIZING = Tokenizer(
    Vocabulary(((0xC3, 0xA9),), {END: 257}, SMALL.patterns[0], normalizer="NFC")
)

any_text = st.lists(
    st.sampled_from([END, "<|far|>", "<|", "🙂é", " 🙂 ", "é你", "ab", "a", " ", "\n", "\u0301"])
    | st.characters(codec="utf-8"),
    max_size=20,
).map("".join)


def offsets_of(tokenizer: Tokenizer, text: str, ids: list[int], unit: str) -> list[int]:
    """Return the offsets of ids, found byte by byte."""
    starts = [*accumulate((len(tokenizer.token_bytes(id)) for id in ids), initial=0)][:-1]
    character_of = [index for index, character in enumerate(text) for _ in character.encode()]
    return starts if unit == "bytes" else [character_of[start] for start in starts]


@pytest.mark.parametrize("unit", ["characters", "bytes"])
@pytest.mark.parametrize("small", [SMALL, HALVES], ids=["trained", "halves of characters"])
@given(text=any_text)
def test_offsets_locate_first_bytes(small: Tokenizer, unit: Any, text: str) -> None:
    ids = small.encode(text)
    expected = (ids, offsets_of(small, text, ids, unit))
    assert small.encode_with_offsets(text, unit=unit) == expected


@given(text=any_text)
def test_text_and_ids_have_the_same_offsets(text: str) -> None:
    ids, offsets = HALVES.encode_with_offsets(text)
    assert HALVES.decode_with_offsets(ids) == (text, offsets)


@given(ids=st.lists(st.sampled_from([97, 300, 301, 302, 303, 304, 400, 0xA9, 0xF0, 3_000_000_000])))
def test_offsets_of_any_ids_that_are_text(ids: list[int]) -> None:
    """Compares offsets of ids that no text has."""
    text = HALVES.decode_bytes(ids).decode("utf-8", "ignore")
    if len(text.encode()) == len(HALVES.decode_bytes(ids)):
        assert HALVES.decode_with_offsets(ids)[1] == offsets_of(HALVES, text, ids, "characters")


def test_long_text_has_offsets() -> None:
    text = f"ab é🙂 {END}你" * 30_000
    ids = SMALL.encode(text)
    assert SMALL.encode_with_offsets(text) == (ids, offsets_of(SMALL, text, ids, "characters"))


def test_a_literal_that_is_not_allowed_is_ordinary_text() -> None:
    ids, offsets = SMALL.encode_with_offsets(f"é{END}", allowed_special=())
    assert (ids, offsets) == (SMALL.encode_ordinary(f"é{END}"), [0, *range(14)])


@pytest.mark.parametrize("unit", ["characters", "bytes"])
def test_no_text_has_no_offsets(unit: Any) -> None:
    assert SMALL.encode_with_offsets("", unit=unit) == ([], [])


# Arrays


@pytest.mark.parametrize("unit", ["characters", "bytes"])
@pytest.mark.parametrize("small", [SMALL, HALVES], ids=["trained", "halves of characters"])
@given(text=any_text)
def test_arrays_have_the_values_of_lists(small: Tokenizer, unit: Any, text: str) -> None:
    expected = small.encode_with_offsets(text, unit=unit)
    ids, offsets = small.encode_with_offsets(text, unit=unit, dtype="uint32")
    assert (ids.tolist(), offsets.tolist()) == expected


@pytest.mark.parametrize(("dtype", "form", "size"), [("uint32", "I", 4), ("uint16", "H", 2)])
@pytest.mark.parametrize("text", ["", "ab", f"ab é🙂 {END}你" * 20_000], ids=len)
def test_arrays_are_of_the_types_of_other_arrays(
    dtype: Any, form: str, size: int, text: str
) -> None:
    views = SMALL.encode_with_offsets(text, dtype=dtype)
    assert [(view.format, view.itemsize, view.ndim) for view in views] == [
        (form, size, 1),
        ("Q", 8, 1),
    ]
    assert [(view.readonly, view.c_contiguous) for view in views] == [(False, True)] * 2
    assert tuple(view.tolist() for view in views) == SMALL.encode_with_offsets(text)


@pytest.mark.parametrize("kind", BUFFERS)
@pytest.mark.parametrize("unit", ["characters", "bytes"])
def test_buffers_have_the_offsets_of_their_text(kind: str, unit: Any) -> None:
    text = f"é ab 🙂{END}你"
    data, expected = BUFFERS[kind](text.encode()), SMALL.encode_with_offsets(text, unit=unit)
    assert SMALL.encode_with_offsets(data, unit=unit) == expected
    views = SMALL.encode_with_offsets(data, unit=unit, dtype="uint32")
    assert tuple(view.tolist() for view in views) == expected


def test_arrays_raise_the_errors_of_lists() -> None:
    with pytest.raises(ValueError, match="unit must be characters or bytes, got 'lines'"):
        SMALL.encode_with_offsets("", unit="lines", dtype="uint32")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="dtype uint16 holds ids up to 65535"):
        HALVES.encode_with_offsets("", dtype="uint16")
    with pytest.raises(UnicodeEncodeError):
        SMALL.encode_with_offsets("\ud800", dtype="uint32")


# Vocabularies that normalize


@given(text=any_text)
def test_normal_text_has_offsets(text: str) -> None:
    text = unicodedata.normalize("NFC", text)
    for unit in ("characters", "bytes"):
        ids, offsets = NORMALIZING.encode_with_offsets(text, unit=unit)
        assert offsets == offsets_of(NORMALIZING, text, ids, unit)


@pytest.mark.parametrize("kind", [str, str.encode])
def test_offsets_refer_to_the_text_before_normalization(kind: Any) -> None:
    text = kind(f"e\u0301{END}é e\u0301a")
    ids = [256, 257, 256, 32, 256, 97]
    assert NORMALIZING.encode_with_offsets(text) == (ids, [0, 2, 15, 16, 17, 19])
    in_bytes = [0, 3, 16, 18, 19, 22]
    assert NORMALIZING.encode_with_offsets(text, unit="bytes") == (ids, in_bytes)
    view = NORMALIZING.encode_with_offsets(text, dtype="uint32")[1]
    assert (view.format, view.tolist()) == ("Q", [0, 2, 15, 16, 17, 19])


def test_bytes_of_characters_that_stay_have_offsets_of_their_own() -> None:
    ids, offsets = NORMALIZING.encode_with_offsets("e\u0301你", unit="bytes")
    assert (ids, offsets) == ([256, *"你".encode()], [0, 3, 4, 5])


@quick_once
def test_a_long_text_that_is_normalized_has_offsets() -> None:
    text = "e\u0301 你 " * 50_000
    ids, offsets = NORMALIZING.encode_with_offsets(text)
    assert ids == NORMALIZING.encode(text)
    assert offsets == [5 * n + at for n in range(50_000) for at in (0, 2, 3, 3, 3, 4)]


# Ids around a text

FRAMED = Tokenizer(
    replace(SMALL._vocabulary, prefix_ids=(97, 97), suffix_ids=(SMALL.special_tokens[END],))
)


@given(text=any_text, unit=st.sampled_from(["characters", "bytes"]), as_bytes=st.booleans())
def test_ids_around_a_text_are_at_its_ends(text: str, unit: Any, as_bytes: bool) -> None:
    given_text = text.encode() if as_bytes else text
    ids, offsets = FRAMED.encode_with_offsets(given_text, unit=unit, add_special_tokens=True)
    assert ids == FRAMED.encode(text, add_special_tokens=True)
    end = len(text.encode() if unit == "bytes" else text)
    assert offsets == [0, 0, *SMALL.encode_with_offsets(text, unit=unit)[1], end]
    packed, starts = FRAMED.encode_with_offsets(
        given_text, unit=unit, dtype="uint16", add_special_tokens=True
    )
    assert (packed.format, packed.tolist(), starts.tolist()) == ("H", ids, offsets)
    unframed = FRAMED.encode_with_offsets(text, unit=unit)
    assert unframed == SMALL.encode_with_offsets(text, unit=unit)


def test_tokenizers_has_ids_after_a_text_at_0(tmp_path: Path) -> None:
    FRAMED.save(tmp_path / "tokenizer.json")
    other = HuggingFace.from_file(str(tmp_path / "tokenizer.json"))
    found = other.encode("ab 你")
    ids, offsets = FRAMED.encode_with_offsets("ab 你", add_special_tokens=True)
    assert found.ids == ids
    assert [start for start, _ in found.offsets] == [*offsets[:-1], 0]


# Where text changes. Our file, their library.


def hugging_face(**parts: Any) -> HuggingFace:
    """Return the tokenizer of `tokenizers` whose only tokens are the bytes."""
    characters = sorted(pre_tokenizers.ByteLevel.alphabet())
    other = HuggingFace(models.BPE(vocab={c: id for id, c in enumerate(characters)}, merges=[]))
    other.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    other.decoder = decoders.ByteLevel()
    for name, part in parts.items():
        setattr(other, name, part)
    other.add_special_tokens([AddedToken(END, normalized=False)])
    return other


def both(tmp_path: Path, text: str, **parts: Any) -> tuple[list[int], list[int]]:
    """Return the offsets of `tokenizers` and ours, by one file."""
    other = hugging_face(**parts)
    other.save(str(tmp_path / "tokenizer.json"))
    ids, offsets = Tokenizer.load(tmp_path / "tokenizer.json").encode_with_offsets(text)
    found = other.encode(text)
    assert found.ids == ids
    return [start for start, _ in found.offsets], offsets


def in_turn(*stages: Any) -> Any:
    """Return pre-tokenizers in turn, the last of them only the bytes."""
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([*stages, level])


CHANGES: dict[str, tuple[dict[str, Any], str, list[int]]] = {
    "NFC": ({"normalizer": normalizers.NFC()}, "e\u0301 a", [0, 0, 2, 3]),
    "NFD": ({"normalizer": normalizers.NFD()}, "aé!", [0, 1, 1, 1, 2]),
    "NFKC": ({"normalizer": normalizers.NFKC()}, "ﬁ½x", [0, 0, 1, 1, 1, 1, 1, 2]),
    "lower case": ({"normalizer": normalizers.Lowercase()}, "AİB", [0, 1, 1, 1, 2]),
    "white space": ({"normalizer": normalizers.Strip()}, "  a b ", [2, 3, 4]),
    "a prefix": ({"normalizer": normalizers.Prepend("_-")}, "ab", [0, 0, 0, 1]),
    "another character": ({"normalizer": normalizers.Replace("b", "xyz")}, "abc", [0, 1, 1, 1, 2]),
    "no character": ({"normalizer": normalizers.Replace("b", "")}, "abbc", [0, 3]),
    "several in turn": (
        {"normalizer": normalizers.Sequence([normalizers.Strip(), normalizers.NFD()])},
        f" é{END} é",
        [1, 1, 1, 2, 16, 16, 16],
    ),
    "a space": (
        {"pre_tokenizer": pre_tokenizers.ByteLevel(add_prefix_space=True)},
        f"ab{END}é",
        [0, 0, 1, 2, 15, 15, 15],
    ),
    "a space before each piece": (
        {
            "pre_tokenizer": pre_tokenizers.Sequence(
                [pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=True)]
            )
        },
        "a12",
        [0, 0, 1, 1, 2, 2],
    ),
    "pieces that go": (
        {"pre_tokenizer": in_turn(pre_tokenizers.WhitespaceSplit())},
        " é  b c",
        [1, 1, 4, 6],
    ),
    "bytes that go": (
        {
            "pre_tokenizer": pre_tokenizers.Sequence(
                [in_turn(), pre_tokenizers.Split("Ã", "removed")]
            )
        },
        "aéb",
        [0, 1, 2],
    ),
}
"""By what changes: the stages, a text, and the offsets."""


@quick_once
@pytest.mark.parametrize("what", CHANGES)
def test_offsets_in_changed_text_match_tokenizers(what: str, tmp_path: Path) -> None:
    parts, text, expected = CHANGES[what]
    assert both(tmp_path, text, **parts) == (expected, expected)


@pytest.mark.parametrize(
    ("normalizer", "text", "theirs", "ours"),
    [
        (normalizers.Replace(Regex("b+"), "c"), "abbb!", [0, 3, 4], [0, 1, 4]),
        (normalizers.NFD(), "ä\u0323", [0, 1, 1, 1, 1], [0, 0, 0, 1, 1]),
    ],
    ids=["it finds what replaces several characters at the last", "it puts marks in order"],
)
def test_offsets_in_changed_text_that_differ(
    normalizer: Any, text: str, theirs: list[int], ours: list[int], tmp_path: Path
) -> None:
    assert both(tmp_path, text, normalizer=normalizer) == (theirs, ours)


# Errors


@pytest.mark.parametrize("unit", ["character", "", "utf-8", "CHARACTERS"])
def test_an_unknown_unit_is_refused(unit: Any) -> None:
    with pytest.raises(ValueError, match=f"unit must be characters or bytes, got {unit!r}"):
        SMALL.encode_with_offsets("", unit=unit)


@pytest.mark.parametrize("unit", [None, 1, b"bytes"])
def test_a_unit_of_another_type_is_refused(unit: Any) -> None:
    with pytest.raises(TypeError, match=f"unit must be a str, got {type(unit).__name__}"):
        SMALL.encode_with_offsets("", unit=unit)


def test_bad_text_raises_the_errors_of_encode() -> None:
    with pytest.raises(UnicodeEncodeError) as lone:
        SMALL.encode_with_offsets("é\ud800")
    assert lone.value.start == 1
    with pytest.raises(UnicodeDecodeError) as broken:
        SMALL.encode_with_offsets(b"\xc3\xa9\xff")
    assert broken.value.start == 2
    with pytest.raises(ValueError, match="not a special token"):
        SMALL.encode_with_offsets("", allowed_special={"<|no|>"})
    with pytest.raises(TypeError, match="text must be a str or bytes-like, got int"):
        SMALL.encode_with_offsets(1)  # type: ignore[call-overload]
