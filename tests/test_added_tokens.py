"""Added tokens that are not special: vocabulary in documents, and guarded markup in prompts."""

from __future__ import annotations

import json
import pickle
import random
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support import reference

from bpetite import ExtendIdsError, Tokenizer, Trusted
from bpetite.analysis import Verifier
from bpetite.chat import ChatTemplate, ChatTemplateError
from bpetite.corpora import encode as encode_documents

MERGES = 270
PLAIN = ("  ", "   ", "\n\n", "ab", "abc", "q7", "中中")
MARKUP = ("<think>", "</think>", "<a", "ab<", "</s>")
SPECIAL = ("<|end|>", "<|", "<|end|><|end|>")
CORPUS = "the hen then met the ten men; the then met <thin"
WORDS = (
    *PLAIN,
    *MARKUP,
    *SPECIAL,
    " ",
    "é",
    "a",
    "b",
    "c",
    "<",
    ">",
    "the",
    "hen",
    "\n",
    "中",
    "|end",
)


def document_of(folder: Path, *, special: Sequence[str] = SPECIAL, **fields: Any) -> dict[str, Any]:
    """Return a tokenizer.json with special tokens, and with others that are not special."""
    path = folder / "trained" / "tokenizer.json"
    Tokenizer.train(CORPUS, MERGES, special_tokens=()).save(path.parent, True, format="huggingface")
    document: dict[str, Any] = json.loads(path.read_text("utf-8"))
    flags = dict.fromkeys(("lstrip", "rstrip", "single_word", "normalized"), False)
    first = max(document["model"]["vocab"].values()) + 1
    document["added_tokens"] = [
        {"id": id, "content": literal, **flags, "special": literal in special}
        for id, literal in enumerate(dict.fromkeys((*PLAIN, *MARKUP, *SPECIAL)), first)
    ]
    return {**document, **fields}


def loaded(document: dict[str, Any], folder: Path) -> Tokenizer:
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(document), "utf-8")
    return Tokenizer.load(path)


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return loaded(document_of(tmp_path), tmp_path)


def texts(rng: random.Random, count: int) -> list[str]:
    return ["".join(rng.choices(WORDS, k=rng.randrange(9))) for _ in range(count)]


NORMALIZERS: dict[str, Any] = {
    "none": None,
    "NFC": {"type": "NFC"},
    "NFKC": {"type": "NFKC"},
    "Lowercase": {"type": "Lowercase"},
}
FLAGS: dict[str, dict[str, bool]] = {
    "no flag": {},
    "strips": {"lstrip": True, "rstrip": True},
    "single word": {"single_word": True},
    "normalized": {"normalized": True},
}


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_documents_have_the_ids_of_tokenizers(normalizer: str, flags: str, tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    document = document_of(tmp_path, normalizer=NORMALIZERS[normalizer])
    for token in document["added_tokens"]:
        token.update(FLAGS[flags])
    tokenizer = loaded(document, tmp_path)
    judge = tokenizers.Tokenizer.from_str(json.dumps(document))
    judge.encode_special_tokens = True
    for text in texts(random.Random(normalizer + flags), 60):
        ids = judge.encode(text, add_special_tokens=False).ids
        assert tokenizer.encode_ordinary(text) == ids, text
        assert tokenizer.encode_ordinary(text.encode(), dtype="uint32").tolist() == ids
        assert tokenizer.encode(text, allowed_special=()) == ids
        assert tokenizer.encode(text, dtype="uint16", allowed_special=[]).tolist() == ids
        assert tokenizer.encode_batch([text], allowed_special=()) == [ids]
        assert tokenizer.encode_with_offsets(text, allowed_special=())[0] == ids
        assert tokenizer.count(text, allowed_special=()) == len(ids)
        assert tokenizer.fits(text, len(ids), allowed_special=())
        data = text.encode()
        assert tokenizer.encode_buffer(data, array("q", [0, len(data)]))[0].tolist() == ids
        assert next(iter(encode_documents(tokenizer, [text]))).ids.tolist() == ids
        stream = tokenizer.encode_stream(allowed_special=())
        assert [id for step in text for id in stream.step(step)] + stream.flush() == ids
        if flags != "normalized" or normalizer == "none":
            assert tokenizer.encode_parts([text], guard=())[0] == ids


def test_ids_of_documents_are_canonical_without_special_literals(tokenizer: Tokenizer) -> None:
    text = "the  hen   met\n\n<think>ab"
    assert tokenizer.first_noncanonical(tokenizer.encode_ordinary(text)) is None


@pytest.mark.parametrize("guard", [None, (), ("ab", "<think>"), ("<a",)])
def test_literals_count_in_parts_as_in_the_textbook(
    tokenizer: Tokenizer, guard: Sequence[str] | None
) -> None:
    special = tokenizer.special_tokens
    plain = PLAIN if guard is None else {*PLAIN, *MARKUP} - {*guard}
    rng = random.Random(f"{guard}")
    for _ in range(400):
        parts = [Trusted(each) if rng.random() < 0.5 else each for each in texts(rng, 4)]
        text = "".join(parts)
        pairs = [(str.__str__(each), isinstance(each, Trusted)) for each in parts]
        expected, at = [], 0
        for start, literal in reference.literals_in_parts(pairs, special, plain):
            expected += tokenizer.encode_parts([text[at:start]], guard=special)[0]
            expected.append(special[literal])
            at = start + len(literal)
        expected += tokenizer.encode_parts([text[at:]], guard=special)[0]
        ids, starts = tokenizer.encode_parts(parts, guard=guard)
        assert ids == expected, parts
        assert (starts[0], starts[-1]) == (0, len(ids))
        ends = 0
        for part, start in zip(parts, starts[:-1], strict=True):
            before = len(tokenizer.decode_bytes(ids[:start]))
            assert before >= ends, parts  # an id belongs to the part of its first byte
            assert not start or len(tokenizer.decode_bytes(ids[: start - 1])) < ends, parts
            ends += len(part.encode())


@pytest.mark.parametrize("guard", [None, (), ("ab",)])
def test_segments_in_steps_and_edits_have_the_ids_of_parts(
    tokenizer: Tokenizer, guard: Sequence[str] | None
) -> None:
    rng = random.Random(f"steps {guard}")
    for _ in range(300):
        parts = [Trusted(each) if rng.random() < 0.5 else each for each in texts(rng, 5)]
        ids = tokenizer.encode_parts(parts, guard=guard)[0]
        stream, prompt = tokenizer.encode_stream(guard=guard), tokenizer.prompt(guard=guard)
        found = []
        for part in parts:
            found += stream.step([part])
            prompt.append([part])
            if rng.random() < 0.1:
                stream, prompt = pickle.loads(pickle.dumps((stream, prompt)))
        assert found + stream.flush() == ids, parts
        assert prompt.ids() == ids, parts
        prompt.set(["x", *parts[1:]])
        assert prompt.ids() == tokenizer.encode_parts(["x", *parts[1:]], guard=guard)[0]


@pytest.mark.parametrize("flag", ["single_word", "lstrip", "rstrip", "normalized"])
def test_segments_in_steps_with_flags_have_the_ids_of_parts(flag: str, tmp_path: Path) -> None:
    rng = random.Random(flag)
    for _ in range(8):
        document = document_of(tmp_path)
        added = [each for each in document["added_tokens"] if each["special"] or rng.random() < 0.5]
        document["added_tokens"] = [
            {**each, "id": id, "lstrip": rng.random() < 0.1, flag: rng.random() < 0.2}
            for id, each in enumerate(added, added[-1]["id"] - len(PLAIN + MARKUP + SPECIAL) + 1)
        ]
        tokenizer = loaded(document, tmp_path)
        for _ in range(40):
            parts = [Trusted(each) if rng.random() < 0.5 else each for each in texts(rng, 5)]
            stream = tokenizer.encode_stream()
            ids = [*(id for part in parts for id in stream.step([part])), *stream.flush()]
            assert ids == tokenizer.encode_parts(parts)[0], (document["added_tokens"], parts)


def test_texts_after_segments_continue_them(tokenizer: Tokenizer) -> None:
    rng = random.Random(6)
    for _ in range(300):
        before, *steps = texts(rng, 4)
        stream = tokenizer.encode_stream()
        ids = [*stream.step([before]), *(id for step in steps for id in stream.step(step))]
        expected = tokenizer.encode_parts([before, Trusted("".join(steps))])[0]
        assert ids + stream.flush() == expected, (before, steps)


def test_extended_ids_are_the_ids_of_parts_or_refused(tokenizer: Tokenizer) -> None:
    rng = random.Random(7)
    extended = 0
    for _ in range(400):
        before, after = texts(rng, 2)
        ids = tokenizer.encode_parts([before])[0]
        whole = tokenizer.encode_parts([before, Trusted(after)])[0]
        try:
            found = tokenizer.extend_ids(ids, after)
        except ExtendIdsError:
            assert whole[: len(ids)] != ids, (before, after)
        else:
            assert ids + found == whole, (before, after)
            extended += 1
    assert extended > 100


def test_a_prompt_of_plain_text_has_the_ids_of_the_flat_text(tokenizer: Tokenizer) -> None:
    words = [*PLAIN, " ", "a", "c", "the", "\n", "hen"]
    rng = random.Random(8)
    for _ in range(200):
        parts = ["".join(rng.choices(words, k=rng.randrange(5))) for _ in range(4)]
        assert tokenizer.encode_parts(parts)[0] == tokenizer.encode("".join(parts)), parts


@pytest.mark.parametrize(
    "literal",
    [
        "<|fim_prefix|>",
        "<think>",
        "</think>",
        "<tool_call>",
        "<\uff5cUser\uff5c>",
        "</s>",
        "[INST]",
    ],
)
def test_markup_of_a_user_is_text_in_every_prompt(literal: str, tmp_path: Path) -> None:
    document = document_of(tmp_path)
    document["added_tokens"][0]["content"] = literal
    document["added_tokens"] = document["added_tokens"][:1]
    tokenizer = loaded(document, tmp_path)
    id = tokenizer.special_tokens[literal]
    template = ChatTemplate("{% for m in messages %}{{ m.content }}|{% endfor %}")
    assert tokenizer.encode_ordinary(literal) == tokenizer.encode(literal) == [id]
    assert tokenizer.encode_parts([Trusted(literal)])[0] == [id]
    stream, prompt = tokenizer.encode_stream(), tokenizer.prompt()
    prompt.set([literal])
    for ids in (
        tokenizer.encode_parts([literal])[0],
        tokenizer.encode_parts([literal[:2], Trusted(literal[2:])])[0],
        stream.step([literal]) + stream.flush(),
        prompt.ids(),
        tokenizer.extend_ids([97], [literal]),
        template.encode(tokenizer, [{"role": "user", "content": literal}]).ids,
    ):
        assert id not in ids
    assert tokenizer.encode_parts([literal], guard=())[0] == [id]


def test_guarded_markup_must_not_touch_untracked_text(tokenizer: Tokenizer) -> None:
    template = ChatTemplate("<{{ messages[0].content | urlencode }}>")
    messages = [{"role": "user", "content": "think"}]
    with pytest.raises(ChatTemplateError, match=r"prints untracked text with .*'<think>'"):
        template.encode(tokenizer, messages)
    think = tokenizer.special_tokens["<think>"]
    assert template.encode(tokenizer, messages, guard=()).ids == [think]
    plain = ChatTemplate("{{ messages[0].content | urlencode }}")
    assert plain.encode(tokenizer, [{"role": "user", "content": "ab"}]).ids == [
        tokenizer.special_tokens["ab"]
    ]


def test_guard_names_special_tokens(tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match="guard has 'x', which is not a special token"):
        tokenizer.encode_parts([], guard=["x"])
    with pytest.raises(TypeError, match="guard must be"):
        tokenizer.prompt(guard="<think>")


def test_added_tokens_may_be_disallowed_by_name_alone(tokenizer: Tokenizer) -> None:
    id = tokenizer.special_tokens["<think>"]
    assert tokenizer.encode("<think>", allowed_special=(), disallowed_special="all") == [id]
    assert tokenizer.encode("<think>", disallowed_special="all") == [id]
    with pytest.raises(ValueError, match="<think>"):
        tokenizer.encode("<think>", disallowed_special=["<think>"])


def test_disallowed_special_tokens_are_not_allowed_by_default(tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match=r"<\|end\|>"):
        tokenizer.encode("a<|end|>", disallowed_special="all")
    with pytest.raises(ValueError, match=r"<\|end\|>"):
        tokenizer.encode_batch(["a<|end|>"], disallowed_special=["<|end|>"], dtype="uint32")
    end = tokenizer.special_tokens["<|end|>"]
    assert tokenizer.encode("<|end|>", allowed_special="all", disallowed_special="all") == [end]


@pytest.mark.parametrize("name", ["own.json", "folder/"])
def test_a_saved_file_keeps_what_is_not_special(
    name: str, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    tokenizer.save(tmp_path / name if name != "folder/" else f"{tmp_path}/folder/")
    again = Tokenizer.load(tmp_path / name)
    assert again.encode_ordinary("ab  <think>") == tokenizer.encode_ordinary("ab  <think>")
    assert again.fingerprint == tokenizer.fingerprint
    smaller = again.with_vocab_size(260)
    assert smaller.encode_ordinary("ab") == [smaller.special_tokens["ab"]]


def test_a_file_without_the_fact_has_only_special_tokens(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    tokenizer.save(tmp_path / "own.json")
    document = json.loads((tmp_path / "own.json").read_text("utf-8"))
    assert document.pop("added_tokens") == sorted({*PLAIN, *MARKUP})
    (tmp_path / "old.json").write_text(json.dumps(document), "utf-8")
    old = Tokenizer.load(tmp_path / "old.json")
    assert old.encode("ab") == tokenizer.encode("ab")
    assert old.encode_ordinary("<think>") != tokenizer.encode_ordinary("<think>")
    assert old.fingerprint != tokenizer.fingerprint
    with pytest.raises(ValueError, match="ordinary text never has"):
        old.save(tmp_path / "tokenizer.json", True)


def test_check_compares_ordinary_text_with_the_owner(tokenizer: Tokenizer, tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    path = tmp_path / "tokenizer.json"
    assert Verifier(tokenizer, path).check(["ab  <think>"]) is None
    tokenizer.save(tmp_path / "own.json")
    document = json.loads((tmp_path / "own.json").read_text("utf-8"))
    document["added_tokens"].remove("中中")
    (tmp_path / "own.json").write_text(json.dumps(document), "utf-8")
    found = Verifier(Tokenizer.load(tmp_path / "own.json"), path).check()
    assert found is not None
    assert "without special tokens, character" in found
