"""The detokenizer of docs/serving.md serves thousands of requests at once, and loses nothing."""

from __future__ import annotations

import random
import re
import runpy
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support import ROOT
from support.engines import once
from support.examples import slow_except
from support.pages import faults_of, programs_of

from bpetite import StreamVocabulary, Tokenizer

tokenizers = pytest.importorskip("tokenizers")

PROGRAMS = programs_of("serving.md")

WORDS = "the", " hen", " met", " ten", " men", " é", "🙂", " 你好", "\n", ".", " STOP", " <|end|>"
"""Text of answers. The tokenizer has only bytes for much of it."""


@once
def test_pages_show_their_programs(tmp_path: Path) -> None:
    assert [*PROGRAMS] == ["detokenizer.py"]
    engines = programs_of("engines.md")
    assert [*engines] == [
        *("bpetite_vllm.py", "bpetite_sglang.py"),
        *("for_llguidance.py", "for_xgrammar.py", "for_outlines.py"),
    ]
    server = (ROOT / "docs" / "server.py").read_text("utf-8")
    assert faults_of({**PROGRAMS, **engines}, tmp_path) == ""
    page = (ROOT / "docs" / "serving.md").read_text("utf-8")
    section = page.partition("## An endpoint")[2].partition("## The detokenizer")[0]
    shown = re.findall(r"```python\n(.*?)\n```", section, re.DOTALL)
    assert [part in server for part in shown] == [True] * 2


class Running(NamedTuple):
    """A request that an engine runs: its ids come some at a time."""

    prompt_ids: list[int]
    ids: list[int]
    stop: str | None


def byte_level(folder: Path) -> Any:
    """Return a tokenizer of the library tokenizers with byte-level tokens."""
    words = "the hen then met the ten men " * 9
    Tokenizer.train(words, 280, special_tokens=["<|end|>"]).save(folder / "tokenizer.json")
    return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))


def byte_fallback(_: Path) -> Any:
    """Return a tokenizer in the style of SentencePiece, with a token for each byte."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokens += ["▁", "▁the", "▁hen", "▁met", "ten", "é", ".", "S", "TOP"]
    vocab = {token: id for id, token in enumerate(tokens)}
    models, decoders = tokenizers.models, tokenizers.decoders
    made = tokenizers.Tokenizer(models.BPE(vocab, [], byte_fallback=True, unk_token="<unk>"))
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    made.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)])
    made.add_special_tokens(["<unk>", "<s>", "</s>"])
    return made


@pytest.mark.parametrize("make", slow_except([byte_level, byte_fallback], byte_fallback))
def test_thousands_of_requests_take_turns(make: Any, tmp_path: Path) -> None:
    """Compares each text with the library's, for an engine that learns of stops a step late."""
    library, numbers = make(tmp_path), random.Random(1)
    size = library.get_vocab_size()
    words = [library.encode(word, add_special_tokens=False).ids for word in WORDS]
    prompts = [[], library.encode("the", add_special_tokens=False).ids]

    def some_ids() -> list[int]:
        if numbers.random() < 0.8:
            return numbers.choice(words)
        return [numbers.randrange(size + 3)]  # half characters, special tokens, unknown ids

    running = {
        f"request {number}": Running(
            numbers.choice(prompts),
            [id for _ in range(numbers.randint(0, 12)) for id in some_ids()],
            numbers.choice([None, "STOP", "é", "🙂 met", "\ufffd"]),
        )
        for number in range(3000)
    }
    path = tmp_path / "detokenizer.py"
    path.write_text(PROGRAMS["detokenizer.py"], "utf-8")
    detokenizer = runpy.run_path(str(path))["Detokenizer"](StreamVocabulary(library))
    for name, request in running.items():
        detokenizer.add(name, request.prompt_ids, stop=request.stop)
    gone = {name for name in running if numbers.random() < 0.1}
    texts = dict.fromkeys(running, "")
    ends = dict[str, tuple[str, str | None]]()
    position = dict.fromkeys(running, 0)
    active = [*running]
    while active:
        batch, ended = dict[str, list[int]](), set[str]()
        for name in numbers.sample(active, (len(active) + 1) // 2):
            start, ids = position[name], running[name].ids
            position[name] += numbers.randint(1, 4)
            batch[name] = ids[start : position[name]]
            if start >= len(ids):
                del batch[name]
            if position[name] >= len(ids):
                ended.add(name)
        active = [name for name in active if name not in ended and name not in ends]
        for output in detokenizer.step(batch, ended):
            assert output.request not in ends
            texts[output.request] += output.text
            if output.finish_reason:
                ends[output.request] = output.finish_reason, output.stop_reason
        for name in gone & batch.keys():
            detokenizer.remove(name)
    assert len(detokenizer.streams) == 0
    for name, (prompt_ids, ids, stop) in running.items():
        before = library.decode(prompt_ids)
        text = library.decode([*prompt_ids, *ids])[len(before) :]
        stopped = stop is not None and stop in text
        text = text.partition(stop)[0] if stopped else text
        if name in ends:
            assert (texts[name], ends[name]) == (
                text,
                ("stop", stop) if stopped else ("length", None),
            )
        else:
            assert name in gone
            assert text.startswith(texts[name])
