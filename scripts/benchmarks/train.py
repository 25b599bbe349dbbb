"""Text to merges, compared with other libraries; each training has a process of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import data
from benchmarks.cases import FASTEST, NATIVE, PYTHON, Case, Job, Target
from benchmarks.measure import memory, seconds_of
from benchmarks.peers import columns, module
from bpetite import PATTERNS

VOCAB_SIZE = 32_768

TARGETS = [
    Target(25, than="tokenizers"),
    Target(3, than=FASTEST),
    Target(high=1.5, than="rustbpe", state=1),
    Target(1, than="tokenizers", column=PYTHON),
]


def train_cases() -> Iterator[Case]:
    """Yield whole trainings on one thread, by time, memory and the tokens that bpetite has too."""
    for name in [name for name in ("english", "multilingual") if name in data.texts()]:
        what = f"{name}, {data.megabytes(data.text(name)):.3g} MB"
        work, trainers = partial(train, file_of(name)), columns(NATIVE, PYTHON, *TRAINERS)
        yield Case(what, work, trainers, ["s", "MB", "%"], TARGETS, is_fresh=True)


def file_of(name: str) -> str:
    """Return the path of a file with a text, which is written if it is missing."""
    path = data.settings().scratch / f"{name}.txt"
    if not path.exists():
        path.write_bytes(data.text(name).encode("utf-8"))
    return str(path)


def train(path: str, column: str, _turn: int) -> Job:
    os.dup2(2, 1)  # some libraries print, and standard output is for tables
    trainer = NATIVE if column == PYTHON else column
    learn, learnt = partial(LEARNERS[trainer], module(trainer), Path(path)), list[Tokens]()
    figures = [seconds_of(lambda: learnt.append(learn())), memory("VmHWM")]
    if trainer != NATIVE:
        ours = {*learn_bpetite(module(NATIVE), Path(path))()}
        figures.append(len(ours & {*learnt[0]()}) / len(ours))
    return Job(figures)


Tokens = Callable[[], Iterable[bytes]]
"""Returns the learnt tokens. It is called after the training, which does not include its time."""


def learn_bpetite(bpetite: Any, path: Path) -> Tokens:
    tokenizer = bpetite.Tokenizer.train([path], VOCAB_SIZE, special_tokens=(), threads=1)
    return lambda: map(tokenizer.token_bytes, tokenizer.ids)


def learn_tokenizers(tokenizers: Any, path: Path) -> Tokens:
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    byte_level = tokenizers.pre_tokenizers.ByteLevel
    tokenizer.pre_tokenizer = byte_level(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE, initial_alphabet=byte_level.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(chunks_of(path), trainer)
    return lambda: map(unspelled, tokenizer.get_vocab())


def learn_rustbpe(rustbpe: Any, path: Path) -> Tokens:
    tokenizer = rustbpe.Tokenizer()
    tokenizer.train_from_iterator(chunks_of(path), VOCAB_SIZE, pattern=PATTERNS["gpt2"])
    return lambda: (bytes(token) for token, _ in tokenizer.get_mergeable_ranks())


def learn_gigatoken(gigatoken: Any, path: Path) -> Tokens:
    vocabulary, _ = gigatoken.train_bpe(path, VOCAB_SIZE, [], tie_breaking="raw_token_ids")
    return lambda: vocabulary.values()


def learn_ffbpe(ffbpe: Any, path: Path) -> Tokens:
    model = ffbpe.train_bpe(chunks_of(path), vocab_size=VOCAB_SIZE)
    return lambda: model.vocab


def learn_gigabpe(gigabpe: Any, path: Path) -> Tokens:
    """Train gigabpe, whose vocabulary begins only with the bytes that the text has."""
    options = {"special_tokens": [], "pretokenizer": "bytelevel", "threads": 1}
    vocabulary, _ = gigabpe.train_bpe([str(path)], VOCAB_SIZE, **options)
    return lambda: map(unspelled, vocabulary)


TRAINERS: dict[str, Callable[[Any, Path], Tokens]] = {
    **{"tokenizers": learn_tokenizers, "rustbpe": learn_rustbpe, "gigatoken": learn_gigatoken},
    **{"ffbpe": learn_ffbpe, "gigabpe": learn_gigabpe},
}
LEARNERS = {NATIVE: learn_bpetite, **TRAINERS}


def chunks_of(path: Path) -> Iterator[str]:
    """Yield a file's text in chunks, split where no piece of GPT-2's pattern spans the split.

    Such an offset is before a newline that follows a character other than white space.
    """
    text = path.read_bytes().decode("utf-8")
    chunks = re.finditer(r".{1,100000}.*?(?:\S(?=\n)|\Z)", text, re.DOTALL)
    return (chunk[0] for chunk in chunks)


PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
BYTES = [*PRINTABLE, *(byte for byte in range(256) if byte not in PRINTABLE)]
BYTE_OF = dict(zip(map(chr, [*PRINTABLE, *range(256, 324)]), BYTES, strict=True))


def unspelled(token: str) -> bytes:
    """Return the bytes of a token that is spelled with one printable character for each byte."""
    return bytes(map(BYTE_OF.__getitem__, token))
