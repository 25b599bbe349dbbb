"""SentencePiece models of type BPE: ids and texts of sentencepiece, or the file is refused."""

from __future__ import annotations

import io
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings as profile
from support.byte_fallback import parts_like_flat
from support.engines import quick_once

from bpetite import ExtendIdsError, Tokenizer, Trusted
from bpetite.analysis import explain

pytestmark = quick_once

sentencepiece = pytest.importorskip("sentencepiece")

SPACE = "\u2581"
USER_DEFINED = ["[REF]", "[REF]s", "[a b]", SPACE * 3, f"a{SPACE}b"]
CONTROL = ["[INST]", "[/INST]"]

_PARTS = ["th", "e", "n", "o", "r", "中", "文", "字", "é", "t", "x", "1", "00", " ", "\t", "aa"]


@cache
def model(**options: Any) -> bytes:
    """Return a small model, trained by sentencepiece."""
    rng = random.Random(1)
    words = ["".join(rng.choices(_PARTS, k=rng.randrange(1, 6))) for _ in range(80)]
    lines = (" ".join(rng.choices(words, k=12)) for _ in range(300))
    settings = {
        "model_type": "bpe",
        "vocab_size": 360,
        "byte_fallback": True,
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "character_coverage": 0.999,
        "max_sentencepiece_length": 8,
        "control_symbols": CONTROL,
        **{key: [*value] if type(value) is tuple else value for key, value in options.items()},
    }
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=lines, model_writer=written, minloglevel=2, num_threads=1, **settings
    )
    return written.getvalue()


def built(pieces: list[tuple[str, int]]) -> bytes:
    """Return a model of byte pieces and some others, with their types."""
    texts = [("<unk>", 2), *((f"<0x{byte:02X}>", 6) for byte in range(256)), *pieces]
    data = b""
    for text, kind in texts:
        piece = _sized(b"\x0a", text.encode()) + _float(-len(text)) + bytes([0x18, kind])
        data += _sized(b"\x0a", piece)
    return data + b"\x12\x05\x18\x02\x98\x02\x01" + b"\x1a\x02\x20\x00"


def _sized(tag: bytes, data: bytes) -> bytes:
    size = len(data)
    long = bytes([size & 0x7F | 0x80, size >> 7])
    return tag + (bytes([size]) if size < 0x80 else long) + data


def loaded(data: bytes, folder: Path) -> Tokenizer:
    path = folder / "tokenizer.model"
    path.write_bytes(data)
    return Tokenizer.load(path)


def judge_of(data: bytes) -> tuple[Any, list[str]]:
    """Return sentencepiece's processor of a model, and its pieces."""
    judge = sentencepiece.SentencePieceProcessor(model_proto=data)
    return judge, [judge.id_to_piece(id) for id in range(judge.vocab_size())]


def random_text(rng: random.Random, pieces: list[str]) -> str:
    others = ["<s>", *CONTROL, *USER_DEFINED, " ", "     ", "\n", "Ж", "🙂", "\0", SPACE, "<0x41>"]
    return "".join(
        rng.choice(rng.choice((pieces, pieces, others))).replace(SPACE, " ")
        for _ in range(rng.randrange(12))
    )


SETTINGS: dict[str, dict[str, Any]] = {
    "Llama 2, Mistral 1": {},
    "Mistral 3": {"user_defined_symbols": tuple(USER_DEFINED[:2])},
    "Gemma": {"user_defined_symbols": tuple(USER_DEFINED), "add_dummy_prefix": False},
    "user-defined spaces and a prefix": {"user_defined_symbols": tuple(USER_DEFINED)},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_ids_and_texts_match_sentencepiece(name: str, tmp_path: Path) -> None:
    data = model(**SETTINGS[name])
    tokenizer = loaded(data, tmp_path)
    judge, pieces = judge_of(data)
    rng = random.Random(name)
    for _ in range(2 * profile().max_examples):
        text = random_text(rng, pieces)
        ids = judge.encode(text)
        assert tokenizer.encode(text) == ids, text
        assert tokenizer.count(text) == len(ids)
        assert tokenizer.decode(ids) == judge.decode(ids), text
        stream = tokenizer.encode_stream()
        found = []
        for start in range(0, len(text), 3):
            found += stream.step(text[start : start + 3])
        assert found + stream.flush() == ids, text
        out = tokenizer.decode_stream()
        assert "".join(map(out.step, ids)) + out.flush() == judge.decode(ids)
        assert len(tokenizer.encode_with_offsets(text)[1]) == len(ids)
    for count in range(1, 100):
        assert tokenizer.encode(" " * count) == judge.encode(" " * count)


@pytest.mark.parametrize("name", SETTINGS)
def test_parts_and_added_text_have_the_ids_of_the_flat_text(name: str, tmp_path: Path) -> None:
    data = model(**SETTINGS[name])
    tokenizer = loaded(data, tmp_path)
    judge, pieces = judge_of(data)
    found = SETTINGS[name].get("user_defined_symbols", ())
    before = " " * SETTINGS[name].get("add_dummy_prefix", True)
    rng = random.Random(name)
    compared = extended = 0
    for _ in range(4 * profile().max_examples):
        texts = [random_text(rng, pieces) for _ in range(4)]
        flat = judge.encode("".join(texts))
        assert tokenizer.encode_parts([Trusted("".join(texts))])[0] == flat, texts
        parts = parts_like_flat(rng, texts, found, before)
        if parts is None:
            continue
        compared += 1
        assert tokenizer.encode_parts(parts)[0] == flat, parts
        stream = tokenizer.encode_stream()
        steps = [id for part in parts for id in stream.step([part])]
        assert steps + stream.flush() == flat, parts
        prompt = tokenizer.prompt()
        prompt.set(parts[:2])
        prompt.append(parts[2:])
        assert prompt.ids() == flat, parts
        ids = judge.encode("".join(texts[:2]))
        try:
            new = tokenizer.extend_ids(ids, [Trusted(""), *parts[2:]])
        except ExtendIdsError:
            assert flat[: len(ids)] != ids
        else:
            assert ids + new == flat, parts
            extended += 1
    assert compared >= extended > 5 * profile().max_examples // 4


def test_tokens_of_one_score_merge_from_left_to_right(tmp_path: Path) -> None:
    # All pairs have the rank of the longest token's score, as if no corpus had told them apart.
    data = model()
    judge = sentencepiece.SentencePieceProcessor(model_proto=data)
    scores = [judge.get_score(id) for id in range(judge.vocab_size()) if judge.get_score(id) < -1]
    assert len(scores) > 20
    changed = data
    for score in scores:
        changed = changed.replace(_float(score), _float(scores[-1]))
    assert changed != data
    tokenizer = loaded(changed, tmp_path)
    judge, pieces = judge_of(changed)
    rng = random.Random(2)
    for _ in range(400):
        text = random_text(rng, pieces)
        assert tokenizer.encode(text) == judge.encode(text), text
        kinds = {piece.kind for piece in explain(tokenizer, text)}
        assert kinds <= {"merged", "special"}  # so the explained merges make these ids
    tokenizer.save(tmp_path / "own.json")
    again = Tokenizer.load(tmp_path / "own.json")
    assert again == tokenizer
    assert again.encode("the then other") == tokenizer.encode("the then other")


def _float(value: float) -> bytes:
    import struct

    return b"\x15" + struct.pack("<f", value)


def test_control_pieces_are_special_tokens_that_no_text_has(tmp_path: Path) -> None:
    tokenizer = loaded(model(**SETTINGS["Mistral 3"]), tmp_path)
    id = tokenizer.special_tokens["[INST]"]
    assert id not in tokenizer.encode("[INST]")
    assert tokenizer.decode([id], skip_special_tokens=True) == ""
    found = tokenizer.special_tokens["[REF]"]
    assert tokenizer.encode("[REF]")[-1] == found
    assert tokenizer.decode([found], skip_special_tokens=True) == "[REF]"
    assert tokenizer.encode_ordinary("[REF]") == tokenizer.encode("[REF]")
    with pytest.raises(ValueError, match="no SentencePiece model is written"):
        tokenizer.save(tmp_path / "new.model", format="sentencepiece")


def test_ids_are_extended_except_where_a_space_is_open(tmp_path: Path) -> None:
    tokenizer = loaded(model(), tmp_path)
    the, start = tokenizer.encode("the"), [tokenizer.special_tokens["[INST]"]]
    assert [*the, *tokenizer.extend_ids(the, " then 文")] == tokenizer.encode("the then 文")
    assert tokenizer.extend_ids([], "the") == tokenizer.extend_ids(start, "the", apart=True) == the
    with pytest.raises(ExtendIdsError, match="position 0 is a special token, after which only"):
        tokenizer.extend_ids(start, "the")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model_type": "unigram", "vocab_size": 320}, "a SentencePiece model of type unigram"),
        ({"byte_fallback": False, "vocab_size": 90}, "trainer_spec.byte_fallback"),
        ({"normalization_rule_name": "nmt_nfkc"}, "precompiled_charsmap: expected none"),
        ({"remove_extra_whitespaces": True}, "normalizer_spec.remove_extra_whitespaces"),
        ({"treat_whitespace_as_suffix": True}, "trainer_spec.treat_whitespace_as_suffix"),
    ],
)
def test_another_kind_of_model_is_refused_by_name(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        loaded(model(**options), tmp_path)


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        pytest.param([], r"pieces: expected a piece for ▁ \(U\+2581\), or a", id="no space"),
        pytest.param([(SPACE, 3)], "expected a piece for ▁", id="space as a control piece"),
        pytest.param(
            [(SPACE, 1), ("a", 1), ("a" * 4097, 1)],
            r"pieces\[.*\]: expected a text of at most 4096 characters, got 4097",
            id="a long piece",
        ),
    ],
)
def test_model_with_such_pieces_is_refused(
    pieces: list[tuple[str, int]], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        loaded(built(pieces), tmp_path)


def test_type_of_a_model_is_refused_before_its_other_fields(tmp_path: Path) -> None:
    charsmap = _sized(b"\x2a", _sized(b"\x12", b"map"))
    with pytest.raises(ValueError, match=r"of type unigram: .* to encode, use sentencepiece"):
        loaded(built([]).partition(b"\x12\x05\x18\x02")[0] + charsmap, tmp_path)
    with pytest.raises(ValueError, match=r"denormalizer_spec.precompiled_charsmap: expected none"):
        loaded(built([]) + charsmap, tmp_path)


@pytest.mark.parametrize("kind", [1, 4])
def test_space_may_be_a_normal_or_a_user_defined_piece(kind: int, tmp_path: Path) -> None:
    data = built([(SPACE, kind), ("a", 1)])
    text = " a  b"
    assert loaded(data, tmp_path).encode(text) == judge_of(data)[0].encode(text)


def test_half_a_model_is_refused(tmp_path: Path) -> None:
    data = model()
    with pytest.raises(ValueError, match="no valid SentencePiece model"):
        loaded(data[: len(data) // 2], tmp_path)


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(b"\x12\x04\x9a\x02\x01x", id="byte_fallback as a string"),
        pytest.param(b"\x12\x03\xe0\x02\x05", id="unk_surface as a number"),
        pytest.param(b"\x0a\x0a\x0a\x05ttttt\x1a\x01x", id="type of a piece as a string"),
    ],
)
def test_a_value_of_another_type_counts_as_left_out(message: bytes, tmp_path: Path) -> None:
    data = model() + message
    judge = sentencepiece.SentencePieceProcessor(model_proto=data)
    ids = [*judge.encode("the"), judge.unk_id()]
    assert loaded(data, tmp_path).decode(ids) == judge.decode(ids)
