"""Both engines and the textbook have the results of `tests/data/conformance.json`."""

from __future__ import annotations

import runpy
from itertools import chain
from typing import Any

import pytest
from support import ROOT, reference
from support.conformance import PATH, cases, conformance, tokenizer_named
from support.stream_cases import ids_of, tokenizer_of, tokens_of

from bpetite import DecodeStream
from bpetite._pretokenizer import Pretokenizer, portable_pattern

Case = dict[str, Any]


def every(kind: str) -> pytest.MarkDecorator:
    """Let a test run with each case of a kind."""
    found = cases(kind)
    names = [case.get("name") or f"{number}" for number, case in enumerate(found)]
    return pytest.mark.parametrize("case", found, ids=names)


def test_tool_writes_the_cases_that_are_there() -> None:
    tool = runpy.run_path(str(ROOT / "scripts" / "tools" / "make_conformance.py"))
    assert tool["written"]().encode() == PATH.read_bytes()


@every("pieces")
def test_text_has_its_pieces(case: Case) -> None:
    pretokenizer = Pretokenizer(portable_pattern(case["pattern"]))
    assert pretokenizer.split(case["text"]) == case["pieces"]


@every("encode")
def test_text_has_its_ids_and_offsets(case: Case) -> None:
    tokenizer, text = tokenizer_named(case["vocabulary"]), case["text"]
    ids, offsets = case["ids"], case["offsets"]
    assert tokenizer.encode(text) == ids
    assert tokenizer.encode_batch([text, text]) == [ids, ids]
    assert tokenizer.count(text) == len(ids)
    assert tokenizer.encode_with_offsets(text) == (ids, offsets)
    assert (tokenizer.decode(ids), tokenizer.decode_bytes(ids)) == (text, text.encode())
    assert tokenizer.decode_with_offsets(ids) == (text, offsets)
    stream = tokenizer.encode_stream()
    steps = [stream.step(bytes([byte])) for byte in text.encode()]
    assert [*chain.from_iterable(steps), *stream.flush()] == ids


@every("encode_stream")
def test_steps_of_a_text_have_their_ids(case: Case) -> None:
    tokenizer = tokenizer_named(case["vocabulary"])
    stream = tokenizer.encode_stream()
    assert [*map(stream.step, case["steps"]), stream.flush()] == case["ids"]
    text = "".join(case["steps"])
    literals = conformance()["vocabularies"][case["vocabulary"]]["special_tokens"]
    textbook = reference.encode(text, tokenizer.merges, literals)
    assert [*chain.from_iterable(case["ids"])] == textbook


def opened(case: Case) -> tuple[DecodeStream, list[int]]:
    """Return the stream of a case, and its ids."""
    prompt, tokens = tokens_of(case.get("prompt", [])), tokens_of(case["tokens"])
    tokenizer = tokenizer_of(prompt + tokens)
    stream = tokenizer.decode_stream(
        ids_of(tokenizer, prompt),
        skip_special_tokens=case.get("skip_special_tokens", False),
        stop=case.get("stop"),
        include_stop=case.get("include_stop", False),
    )
    return stream, ids_of(tokenizer, tokens)


@every("decode_stream")
def test_tokens_have_the_texts_of_their_steps(case: Case) -> None:
    ended = case.get("stop_reason"), case.get("text_after_stop", "")
    *steps, flushed = case["texts"]
    stream, ids = opened(case)
    assert [*map(stream.step, ids)] == steps
    assert (stream.flush(), stream.stop_reason, stream.text_after_stop) == (flushed, *ended)
    stream, ids = opened(case)
    assert stream.step(ids) == "".join(steps)
    assert (stream.flush(), stream.stop_reason, stream.text_after_stop) == (flushed, *ended)
