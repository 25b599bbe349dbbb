"""tokenizer.json with byte fallback: ids and texts of tokenizers, or the file is refused."""

from __future__ import annotations

import json
import pickle
import random
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st
from support.byte_fallback import (
    DECODERS,
    LITERALS,
    SETTINGS,
    SPACE,
    STRIP,
    document_of,
    metaspace,
    parts_like_flat,
    random_document,
    random_text,
    splits,
    write,
)
from support.examples import randoms
from support.uncompared import load_uncompared

from bpetite import ExtendIdsError, Tokenizer, Trusted

tokenizers = pytest.importorskip("tokenizers")

LLAMA = SETTINGS["Llama 2, Phi-3"]
PAIRS = [(SPACE, "t"), ("h", "e"), (f"{SPACE}t", "he"), ("é", "t"), ("中", "文"), (SPACE, SPACE)]


TEXTS_OF_A_FILE = 100


def small(tmp_path: Path, **settings: Any) -> Tokenizer:
    return Tokenizer.load(write(document_of(f"{SPACE}the中文é", PAIRS, **settings), tmp_path))


def judge_of(document: dict[str, Any]) -> Any:
    return tokenizers.Tokenizer.from_str(json.dumps(document))


def refused_literal(tokenizer: Tokenizer, text: str) -> str | None:
    try:
        tokenizer.count(text, allowed_special=(), disallowed_special="all")
    except ValueError as error:
        found = re.match(r"text has the special token '(.+)' at character \d", str(error))
        return found and found[1]
    return None


@given(st.sampled_from([*SETTINGS]), randoms)
def test_ids_and_texts_match_tokenizers(name: str, rng: random.Random) -> None:
    document = random_document(rng, **SETTINGS[name])
    with TemporaryDirectory() as folder:
        tokenizer = load_uncompared(write(document, Path(folder)))
    judge = judge_of(document)
    literal_of = {id: literal for literal, id in tokenizer.special_tokens.items()}
    for _ in range(TEXTS_OF_A_FILE):
        text = random_text(rng, document, rng.choice((9, 30)))
        ids = judge.encode(text, add_special_tokens=False).ids
        assert tokenizer.encode(text) == ids, text
        assert tokenizer.count(text) == len(ids)
        parts = tokenizer.encode_stream()
        middle = len(text) // 2
        assert parts.step(text[:middle]) + parts.step(text[middle:]) + parts.flush() == ids
        literals = [literal_of[id] for id in ids if id in literal_of]
        assert refused_literal(tokenizer, text) == (literals[0] if literals else None), text
        if SETTINGS[name].get("flags", {}).get("normalized"):
            continue  # tokenizers 0.23 decodes such literals in their normal form
        for skips in (True, False):
            decoded = judge.decode(ids, skip_special_tokens=skips)
            assert tokenizer.decode(ids, skip_special_tokens=skips) == decoded, text
            stream = tokenizer.decode_stream(skip_special_tokens=skips)
            assert "".join(map(stream.step, ids)) + stream.flush() == decoded


@pytest.mark.parametrize("name", SETTINGS)
def test_text_in_steps_has_the_ids_of_the_whole(name: str, tmp_path: Path) -> None:
    rng = random.Random(name)
    document = random_document(rng, **SETTINGS[name])
    tokenizer = Tokenizer.load(write(document, tmp_path))
    for _ in range(profile().max_examples):
        text = random_text(rng, document, count=14)
        for allowed in ("all", ()):
            stream = tokenizer.encode_stream(allowed_special=allowed)
            ids = []
            at = 0
            while at < len(text):
                end = at + rng.randrange(1, 6)
                ids += stream.step(text[at:end])
                if rng.random() < 0.2:
                    stream = stream.copy()
                if rng.random() < 0.01:
                    stream = pickle.loads(pickle.dumps(stream))
                at = end
            assert ids + stream.flush() == tokenizer.encode(text, allowed_special=allowed), text


@pytest.mark.parametrize("name", SETTINGS)
def test_segments_in_steps_have_the_ids_of_parts(name: str, tmp_path: Path) -> None:
    rng = random.Random(name)
    document = random_document(rng, **SETTINGS[name])
    tokenizer = Tokenizer.load(write(document, tmp_path))
    for _ in range(profile().max_examples):
        texts = [random_text(rng, document, count=5) for _ in range(4)]
        segments = [Trusted(text) if rng.random() < 0.5 else text for text in texts]
        stream = tokenizer.encode_stream()
        ids = [id for segment in segments for id in stream.step([segment])] + stream.flush()
        assert ids == tokenizer.encode_parts(segments)[0], segments


@pytest.mark.parametrize("name", ["Llama 2, Phi-3", "Gemma", "Metaspace first, split True"])
def test_an_edit_encodes_only_what_is_near(name: str, tmp_path: Path) -> None:
    tokenizer = small(tmp_path, **SETTINGS[name])
    text = "the 中é<s> the\n" * 2_000
    prompt = tokenizer.prompt()
    prompt.set(text)
    for at in (0, 12_500, len(text)):
        blocks = {*map(id, prompt._state[0])}
        prompt.set(text[:at] + "é" + text[at:])
        assert prompt.ids() == tokenizer.encode(prompt.text)
        assert len({*map(id, prompt._state[0])} - blocks) <= 2 < len(blocks)
        prompt.set(text)


@pytest.mark.parametrize("name", [name for name in SETTINGS if "flags" not in SETTINGS[name]])
def test_extended_ids_match_the_joined_text_or_refused(name: str, tmp_path: Path) -> None:
    rng = random.Random(name)
    document = random_document(rng, **SETTINGS[name])
    tokenizer = Tokenizer.load(write(document, tmp_path))
    extended = 0
    for _ in range(150):
        one, other = (random_text(rng, document, count=6) for _ in range(2))
        ids, joined = tokenizer.encode(one), tokenizer.encode(one + other)
        if any(
            (one + other).count(each) > one.count(each) + other.count(each) for each in LITERALS
        ):
            continue  # a literal that both make is none in either
        if joined[: len(ids)] == ids:
            assert ids + tokenizer.extend_ids(ids, other) == joined, (one, other)
            extended += 1
        else:
            with pytest.raises(ExtendIdsError):
                tokenizer.extend_ids(ids, other)
    assert extended > 50


@pytest.mark.parametrize("name", SETTINGS)
def test_chunks_and_both_ends_fit_their_budget(name: str, tmp_path: Path) -> None:
    rng = random.Random(name)
    document = random_document(rng, **SETTINGS[name])
    tokenizer = Tokenizer.load(write(document, tmp_path))
    for _ in range(profile().max_examples // 3):
        text = random_text(rng, document, count=30)
        budget, overlap = rng.randrange(6, 12), rng.randrange(6)
        end = 0
        for chunk in tokenizer.chunks(text, budget, overlap=overlap):
            assert chunk.ids == tokenizer.encode(chunk.text)
            assert len(chunk) <= budget
            assert chunk.start <= end < chunk.end
            assert tokenizer.count(text[chunk.start : end]) <= overlap
            end = chunk.end
        assert end == len(text)
        places = range(len(text) + 1)
        last = max(at for at in places if tokenizer.count(text[:at]) <= budget)
        assert tokenizer.truncate(text, budget) == text[:last]
        first = min(at for at in places if tokenizer.count(text[at:]) <= budget)
        assert tokenizer.truncate(text, budget, keep="end") == text[first:]


def test_chunks_end_between_words_although_each_gets_a_space(tmp_path: Path) -> None:
    tokenizer = small(tmp_path, **LLAMA)
    chunks = tokenizer.chunks("the the the中文 the the", 3, overlap=2)
    assert [chunk.text for chunk in chunks] == ["the the the", " the中文", "中文 the", " the the"]


@pytest.mark.parametrize("name", SETTINGS)
def test_parts_have_the_ids_of_the_flat_text(name: str, tmp_path: Path) -> None:
    rng = random.Random(name)
    document = random_document(rng, **SETTINGS[name])
    tokenizer = Tokenizer.load(write(document, tmp_path))
    before = " " if "Prepend" in str(document["normalizer"]) else ""
    is_found_later = SETTINGS[name].get("flags", {}).get("normalized")
    found = [before * bool(is_found_later) + literal for literal in LITERALS]
    takes_space = "lstrip" in SETTINGS[name].get("flags", {})
    compared = 0
    for _ in range(150):
        texts = [random_text(rng, document, count=4) for _ in range(4)]
        text = "".join(texts)
        assert tokenizer.encode_parts([Trusted(text)])[0] == tokenizer.encode(text), text
        parts = None if takes_space else parts_like_flat(rng, texts, found, before)
        if parts is not None:
            ids, offsets = tokenizer.encode_parts(parts)
            assert ids == tokenizer.encode(text), parts
            assert (offsets[0], offsets[-1]) == (0, len(ids))
            compared += 1
    assert takes_space or compared > 50


def test_offsets_match_tokenizers_where_text_is_whole(tmp_path: Path) -> None:
    rng = random.Random(5)
    for name in ("Gemma", "Metaspace never, split False"):
        document = random_document(rng, **SETTINGS[name])
        tokenizer, judge = Tokenizer.load(write(document, tmp_path)), judge_of(document)
        for _ in range(100):
            text = random_text(rng, document)
            ids, offsets = tokenizer.encode_with_offsets(text)
            encoding = judge.encode(text, add_special_tokens=False)
            assert (ids, offsets) == (encoding.ids, [start for start, _ in encoding.offsets])


def test_a_space_put_before_a_text_is_at_its_start(tmp_path: Path) -> None:
    tokenizer = small(tmp_path, **LLAMA)
    ids, offsets = tokenizer.encode_with_offsets("the中x▁t")
    assert [tokenizer.token_bytes(id) for id in ids] == [b" the", "中".encode(), b"x", b" t"]
    assert offsets == [0, 3, 4, 5]
    assert tokenizer.encode_with_offsets("é中x▁t", unit="bytes")[1] == [0, 0, 2, 5, 6]


def test_an_unknown_character_is_its_bytes(tmp_path: Path) -> None:
    tokenizer = small(tmp_path, **LLAMA)
    ids = tokenizer.encode("語\n")
    assert [tokenizer.token_bytes(id) for id in ids[1:]] == [b"\xe8", b"\xaa", b"\x9e", b"\n"]
    bytes_of = [*map(tokenizer.token_bytes, tokenizer.encode_bytes("中".encode() + b"\xe4\xb8"))]
    assert bytes_of == ["中".encode(), b"\xe4", b"\xb8"]
    assert tokenizer.decode(ids) == "語\n"


def test_the_token_of_a_byte_that_no_text_has_is_decoded(tmp_path: Path) -> None:
    tokenizer = small(tmp_path, **LLAMA)
    id = 2 + ord("t")
    assert tokenizer.decode([id]) == "t"
    assert tokenizer.encode("t") != [id]
    assert tokenizer.token_id(b"t") != id


def test_no_such_vocabulary_is_lossless(tmp_path: Path) -> None:
    for settings in SETTINGS.values():
        tokenizer = small(tmp_path, **settings)
        assert not tokenizer.lossless
        assert tokenizer.decode(tokenizer.encode(f"t{SPACE}he")) == "t he"


def test_our_own_file_keeps_all(tmp_path: Path) -> None:
    rng = random.Random(3)
    for name, settings in SETTINGS.items():
        document = random_document(rng, **settings)
        tokenizer = Tokenizer.load(write(document, tmp_path))
        tokenizer.save(tmp_path / "own.json", overwrite=True)
        again = Tokenizer.load(tmp_path / "own.json")
        assert again == tokenizer, name
        assert again.fingerprint == tokenizer.fingerprint
        texts = [random_text(rng, document) for _ in range(30)]
        assert again.encode_batch(texts) == tokenizer.encode_batch(texts)


def test_what_needs_merges_of_bytes_is_refused_by_name(tmp_path: Path) -> None:
    tokenizer = small(tmp_path, **LLAMA)
    with pytest.raises(ValueError, match="it has byte fallback"):
        Tokenizer.train("the the", 300, base=tokenizer)
    with pytest.raises(ValueError, match="it has byte fallback"):
        Tokenizer.train("the the", 300, base=tokenizer, pattern="gpt2")
    with pytest.raises(ValueError, match="it has byte fallback"):
        tokenizer.with_vocab_size(260)
    for name in ("tokenizer2/tokenizer.json", "x.tiktoken", "vocab.json"):
        with pytest.raises(ValueError, match="byte fallback, which is read and not written"):
            tokenizer.save(tmp_path / name)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a byte has no token": ({"model": {"vocab": {"<0x41>": None}}}, "none for <0x41>"),
    "a space has no token": ({"model": {"vocab": {SPACE: None}}}, "a token for ▁ .U.2581., or a"),
    "merges are ignored": ({"model": {"ignore_merges": True}}, "model.ignore_merges"),
    "words have an end": ({"model": {"end_of_word_suffix": "</w>"}}, "end_of_word_suffix"),
    "words have a prefix": ({"model": {"continuing_subword_prefix": "##"}}, "subword_prefix"),
    "merges are left out at random": ({"model": {"dropout": 0.1}}, "model.dropout"),
    "spaces stay": ({"normalizer": None}, "a Metaspace alone"),
    "text is normalized": ({"normalizer": {"type": "NFKC"}}, "normalizer"),
    "text is split at letters": (
        {"pre_tokenizer": {**splits(" "), "pattern": {"Regex": "\\s+"}}},
        "one that spaces do not concern",
    ),
    "two kinds of spaces": ({"pre_tokenizer": metaspace("first", False)}, "Split"),
    "bytes are decoded otherwise": ({"decoder": {"type": "ByteLevel"}}, "decoder"),
    "nothing is stripped but the end": (
        {"decoder": {"type": "Sequence", "decoders": [*DECODERS, {**STRIP, "stop": 1}]}},
        "decoder",
    ),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_file_with_another_meaning_is_refused(fault: str, tmp_path: Path) -> None:
    changes, message = WRONG[fault]
    document = document_of(f"{SPACE}the", [("t", "h")], **LLAMA)
    for field, change in changes.items():
        if field == "model":
            vocab = document["model"]["vocab"]
            document["model"] |= {**change, "vocab": vocab}
            for text in change.get("vocab", ()):
                vocab["other"] = vocab.pop(text)
        else:
            document[field] = change
    with pytest.raises(ValueError, match=message):
        Tokenizer.load(write(document, tmp_path))


def test_a_merge_of_a_byte_is_refused(tmp_path: Path) -> None:
    document = document_of(f"{SPACE}the", [("t", "<0x41>")], **LLAMA)
    with pytest.raises(ValueError, match="merges of tokens of characters"):
        Tokenizer.load(write(document, tmp_path))
