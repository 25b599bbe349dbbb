"""The verb `train`: files in, a vocabulary file and a report out."""

from __future__ import annotations

import argparse
import json
import os
import re
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import bpetite
from bpetite import PATTERNS, CorpusWarning, PieceCounts, Tokenizer, TrainingProgress
from bpetite._cli import common, pieces
from bpetite._cli.progress import Display, display
from bpetite._web.display import pattern_names
from bpetite.corpora import Corpus

HELP = """learn a vocabulary from files, or from the piece counts that count-pieces wrote

A text file is one document, unless options say otherwise. JSON, Parquet and Arrow files have one
document in each line or row."""
EXAMPLE = "bpetite train README.md --vocab-size 512 --output model.json"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="*", help=common.FILES_HELP)
    parser.add_argument(
        "--input", metavar="FILE", action="append", default=[], help="one more file to train on"
    )
    parser.add_argument(
        "--vocab-size",
        metavar="N",
        type=common.number(256, 2**32),
        required=True,
        help="the number of bytes and merges; special tokens come on top",
    )
    parser.add_argument(
        "--output", "-o", metavar="FILE", required=True, help="the vocabulary file to write"
    )
    parser.add_argument("--force", action="store_true", help="replace the output if it exists")
    literals = parser.add_mutually_exclusive_group()
    literals.add_argument(
        "--special-token",
        metavar="LITERAL",
        action="append",
        help="a literal that is never split; repeatable (default: <|endoftext|>)",
    )
    literals.add_argument(
        "--no-special-tokens",
        action="store_true",
        help="add no special token, for a vocabulary to train further with --base",
    )
    pieces.add_options(parser)
    _add_rules(parser)
    parser.add_argument("--quiet", action="store_true", help="show neither progress nor notes")
    common.add_corpus(parser)


def _add_rules(parser: argparse.ArgumentParser) -> None:
    rules = parser.add_argument_group("which merges to learn")
    rules.add_argument(
        "--base",
        metavar="MODEL",
        help="learn merges on top of this vocabulary, whose ids stay, by default with its "
        "pattern; --vocab-size counts both",
    )
    rules.add_argument(
        "--balance",
        metavar="FILE=FILE",
        action="append",
        default=[],
        type=_two_files,
        help="the development text of an input, with the same meaning in all languages; each merge "
        "is learnt for the input whose development text has the most ids; once for each input",
    )
    rules.add_argument(
        "--min-pair-count",
        metavar="N",
        type=common.number(1, 2**64 - 1),
        default=1,
        help="merge no pair that occurs less than N times (default: 1)",
    )
    rules.add_argument(
        "--max-token-bytes",
        metavar="N",
        type=common.number(1, 2**32),
        help="make no token of more than N bytes",
    )
    rules.add_argument(
        "--require",
        metavar="TOKEN",
        action="append",
        default=[],
        help="require this token; it and what it is made of are learnt before any other merge; "
        "repeatable",
    )
    rules.add_argument(
        "--forbid",
        metavar="REGEX",
        type=_forbidden,
        help="make no token in which this regular expression of bytes (Python's re) matches "
        "(default: with the pattern words, more than four words)",
    )
    rules.add_argument(
        "--whole-characters",
        action="store_true",
        help="make only tokens that are whole characters, or a part of one",
    )


def _two_files(text: str) -> tuple[str, str]:
    name, equals, development = text.rpartition("=")
    if not equals or not name or not development:
        raise argparse.ArgumentTypeError(f"{text!r} must be INPUT=DEVELOPMENT_TEXT")
    return name, development


def _forbidden(text: str) -> re.Pattern[bytes]:
    try:
        return re.compile(os.fsencode(text))
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a regular expression: {error}") from None


def _rules(options: argparse.Namespace) -> dict[str, Any]:
    literals = [] if options.no_special_tokens else options.special_token or ["<|endoftext|>"]
    return {
        "special_tokens": [*map(common.text_argument, literals)],
        "base": None if options.base is None else Tokenizer.load(options.base),
        "min_pair_count": options.min_pair_count,
        "max_token_bytes": options.max_token_bytes,
        "require": [*map(common.text_argument, options.require)],
        "forbid": options.forbid,
        "whole_characters": options.whole_characters,
    }


def run(options: argparse.Namespace) -> None:
    names = options.files + options.input or [common.STANDARD_INPUT]
    common.check_output(options.output, options.force)
    started = time.monotonic()
    progress = _Progress(display(options.quiet))
    with progress.display, warnings.catch_warnings():
        # The report and the note below say so.
        warnings.filterwarnings("ignore", "stopped at", CorpusWarning)
        tokenizer, pruning, corpus_bytes = _trained(options, names, progress)
    tokenizer.save(options.output, overwrite=options.force)
    ended = time.monotonic()

    learnt = tokenizer.vocab_size
    stopped_early = learnt < options.vocab_size
    if stopped_early and not options.quiet:
        is_ruled = options.min_pair_count > 1 or options.max_token_bytes or options.base
        is_ruled = is_ruled or options.forbid or options.whole_characters
        is_ruled = is_ruled or tokenizer.patterns == (PATTERNS["words"],)
        left = "that may be merged" if is_ruled else "to merge"
        common.say(f"stopped at {learnt} of {options.vocab_size} ids: no pair is left {left}")
    if not pattern_names(*tokenizer.patterns) and not options.quiet:
        common.say("llama.cpp supports named patterns only and cannot load this vocabulary")
    report = {
        "corpus_bytes": corpus_bytes,
        "requested_vocab_size": options.vocab_size,
        "actual_mergeable_vocab_size": learnt,
        "special_token_count": len(tokenizer.special_tokens),
        "stopped_early": stopped_early,
        **pruning,
        "elapsed_ms": _milliseconds(ended - started),
        "counting_ms": _milliseconds(progress.counting_ended - started),
        "merging_ms": _milliseconds(progress.merging_ended - progress.counting_ended),
        "output": os.fsencode(options.output).decode("utf-8", "replace"),
        "engine": bpetite.engine,
    }
    common.write(json.dumps(report, ensure_ascii=False) + "\n")


def _trained(
    options: argparse.Namespace, names: list[str], progress: _Progress
) -> tuple[Tokenizer, dict[str, Any], int]:
    """Return the vocabulary, whether its piece counts are exact, and the size of its text."""
    rules = _rules(options)
    stored = [*filter(pieces.are_counts, names)]
    texts = [name for name in names if name not in stored]
    common.check_inputs(texts, options.quiet)
    pattern = pieces.pattern(options)
    if options.balance:
        tokenizer, corpus_bytes = _balanced(options, names, pattern, rules, progress)
        return tokenizer, pieces.pruning(None), corpus_bytes
    pieces.check_shares(options, names)
    if not (stored or options.weight or options.share or options.min_count > 1):
        corpus = common.corpus(options, texts)
        with common.reading(corpus, options):
            tokenizer = Tokenizer.train(
                corpus, options.vocab_size, pattern=pattern, progress=progress, **rules
            )
        return tokenizer, pieces.pruning(None), progress.corpus_bytes
    given, base = pattern, rules["base"]
    if pattern is None and base is not None:
        pattern = base.patterns[0]
    for name in stored:
        pattern = PieceCounts.read_header(name).checked_pattern(pattern)
    # Wrong options are found before the work. Training takes the pattern from the base, unless the
    # base has several.
    first_pattern = pattern if base is None else given
    with suppress(_AllRightError):
        Tokenizer.train(_nothing(), options.vocab_size, pattern=first_pattern, **rules)
    counts = _counts(options, stored, texts, pattern, progress)
    corpus_bytes = counts.text_bytes
    counts = counts.prune(options.min_count)
    pieces.note_pruning(counts, options.quiet)
    tokenizer = Tokenizer.train(
        counts, options.vocab_size, pattern=pattern, progress=progress, **rules
    )
    return tokenizer, pieces.pruning(counts), corpus_bytes


def _balanced(
    options: argparse.Namespace,
    names: list[str],
    pattern: str | None,
    rules: dict[str, Any],
    progress: _Progress,
) -> tuple[Tokenizer, int]:
    """Return the vocabulary of several languages, an input each, and the size of the inputs."""
    developments = dict(options.balance)
    if options.weight or options.share or options.min_count > 1 or options.bad_log is not None:
        raise ValueError("--balance works without --weight, --share, --min-count and --bad-log")
    if {*developments} != {*names} or not len(developments) == len(names) == len(options.balance):
        names_of_one = ", ".join(sorted({*developments} ^ {*names}))
        raise ValueError(
            "--balance must be given once for each input, with the name of the input"
            + (f"; given on one side only: {names_of_one}" if names_of_one else "")
        )
    with ExitStack() as stack:

        def source(name: str) -> Corpus | PieceCounts:
            if pieces.are_counts(name):
                return PieceCounts.load(name)
            corpus = common.corpus(options, [name])
            stack.enter_context(common.reading(corpus, options))
            return corpus

        sources = {name: source(name) for name in names}
        tokenizer = Tokenizer.train(
            sources,
            options.vocab_size,
            pattern=pattern,
            balance={name: source(development) for name, development in developments.items()},
            progress=progress,
            **rules,
        )
        return tokenizer, sum(map(_text_bytes, sources.values()))


def _text_bytes(source: Corpus | PieceCounts) -> int:
    counted = source if isinstance(source, PieceCounts) else source.report
    return counted.text_bytes


class _AllRightError(Exception):
    """Training begins to read its corpus, so all other arguments are right."""


def _nothing() -> Iterator[str]:
    """Return a corpus that ends training before it counts."""
    raise _AllRightError
    yield ""


def _counts(
    options: argparse.Namespace,
    stored: list[str],
    texts: list[str],
    pattern: str | None,
    progress: _Progress,
) -> PieceCounts:
    """Return the piece counts of all inputs: of files that store them, and of texts."""
    weights = pieces.weights(options, stored + texts)
    text_weights = sorted({weights[name] for name in texts})
    if options.bad_log is not None and (len(text_weights) > 1 or options.share):
        raise ValueError("--bad-log needs texts of one weight; count each source by count-pieces")

    def counted(corpus: Corpus) -> PieceCounts:
        with common.reading(corpus, options):
            return PieceCounts.from_corpus(
                corpus, pattern="gpt2" if pattern is None else pattern, progress=progress
            )

    if options.share:
        each = {name: common.corpus(options, [name]) for name in texts}
        loaded = {name: PieceCounts.load(name) for name in stored}
        counts = {name: counted(corpus) for name, corpus in each.items()}
        return pieces.mixture(options, loaded | counts)
    corpora = {
        weight: common.corpus(options, [name for name in texts if weights[name] == weight])
        for weight in text_weights
    }

    def parts() -> Iterator[PieceCounts]:
        for name in stored:
            yield PieceCounts.load(name) * weights[name]
        for weight, corpus in corpora.items():
            yield counted(corpus) * weight

    return pieces.total(parts())


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


class _Progress:
    """Receives training progress: keeps the figures of the report, and feeds the display."""

    def __init__(self, display: Display) -> None:
        self.display = display
        self.corpus_bytes = 0
        self.counting_ended = self.merging_ended = time.monotonic()

    def __call__(self, progress: TrainingProgress) -> None:
        if progress.stage == "counting":
            self.corpus_bytes = progress.done
            self.counting_ended = time.monotonic()
        self.merging_ended = time.monotonic()
        self.display.show(progress)
