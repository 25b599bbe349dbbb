"""The verb `train`: files in, a vocabulary file and a report out."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bpetite
from bpetite import PATTERNS, Tokenizer, TrainingProgress
from bpetite._cli._common import (
    STANDARD_INPUT,
    Verbs,
    add_verb,
    check_output,
    pattern_names,
    say,
    standard_input,
    text_argument,
    write,
)

if TYPE_CHECKING:
    from tqdm import tqdm

_BYTE_COUNT = 256
_MOST_IDS = 2**32
_LINE_INTERVAL = 5.0  # seconds between two lines of progress where there is no terminal


def add_to(verbs: Verbs) -> None:
    """Add this verb to the parser."""
    parser = add_verb(
        verbs,
        "train",
        "learn a vocabulary from files in UTF-8, each a document",
        "bpetite train README.md --vocab-size 512 --output model.json",
    )
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        help="files to train on, - being standard input; standard input if none is given",
    )
    parser.add_argument(
        "--input", metavar="FILE", action="append", default=[], help="one more file to train on"
    )
    parser.add_argument(
        "--vocab-size",
        metavar="N",
        type=_vocab_size,
        required=True,
        help="how many ids to have, the 256 bytes included, special tokens not",
    )
    parser.add_argument(
        "--output", "-o", metavar="FILE", required=True, help="the vocabulary file to write"
    )
    parser.add_argument("--force", action="store_true", help="replace the output if it exists")
    parser.add_argument(
        "--special-token",
        metavar="LITERAL",
        action="append",
        help="a literal that is never split, repeatable (default: <|endoftext|>)",
    )
    parser.add_argument(
        "--pattern",
        metavar="PATTERN",
        default="gpt2",
        help=f"what cuts text into pieces: {', '.join(PATTERNS)}, or a regular expression "
        "(default: gpt2)",
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.set_defaults(run=_run)


def _vocab_size(text: str) -> int:
    size = int(text)
    if not _BYTE_COUNT <= size <= _MOST_IDS:
        raise argparse.ArgumentTypeError(f"must be from {_BYTE_COUNT} to {_MOST_IDS}")
    return size


_vocab_size.__name__ = "number"  # argparse says "invalid number value"


def _run(options: argparse.Namespace) -> None:
    names = options.files + options.input or [STANDARD_INPUT]
    check_output(options.output, options.force)
    _check_inputs(names)

    started = time.monotonic()
    progress = _Progress(_display(options.quiet))
    with progress.display:
        tokenizer = Tokenizer.train_from_files(
            [standard_input() if name == STANDARD_INPUT else name for name in names],
            options.vocab_size,
            pattern=text_argument(options.pattern),
            special_tokens=list(map(text_argument, options.special_token or ["<|endoftext|>"])),
            progress=progress,
        )
    tokenizer.save(options.output, overwrite=options.force)
    ended = time.monotonic()

    learnt = _BYTE_COUNT + len(tokenizer.merges)
    stopped_early = learnt < options.vocab_size
    if stopped_early and not options.quiet:
        say(f"stopped at {learnt} of {options.vocab_size} ids: no pair is left to merge")
    if not pattern_names(tokenizer.pattern) and not options.quiet:
        say("a pattern without a name: llama.cpp, which knows patterns by name, cannot have it")
    report = {
        "corpus_bytes": progress.corpus_bytes,
        "requested_vocab_size": options.vocab_size,
        "actual_mergeable_vocab_size": learnt,
        "special_token_count": len(tokenizer.special_tokens),
        "stopped_early": stopped_early,
        "elapsed_ms": _milliseconds(ended - started),
        "counting_ms": _milliseconds(progress.counting_ended - started),
        "merging_ms": _milliseconds(progress.merging_ended - progress.counting_ended),
        "output": os.fsencode(options.output).decode("utf-8", "replace"),
        "engine": bpetite.engine,
    }
    write(json.dumps(report, ensure_ascii=False) + "\n")


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _check_inputs(names: list[str]) -> None:
    """Refuse now a file that cannot be read; opening a pipe would take its data."""
    for name in names:
        if name == STANDARD_INPUT:
            standard_input()
        elif not Path(name).exists() or Path(name).is_file() or Path(name).is_dir():
            open(name, "rb").close()


class _Progress:
    """Takes what training says of itself, keeps the figures of the report, feeds a display."""

    def __init__(self, display: _Display) -> None:
        self.display = display
        self.corpus_bytes = 0
        self.counting_ended = self.merging_ended = time.monotonic()

    def __call__(self, progress: TrainingProgress) -> None:
        if progress.stage == "counting":
            self.corpus_bytes = progress.done
            self.counting_ended = time.monotonic()
        self.merging_ended = time.monotonic()
        self.display.show(progress)


class _Display:
    """Shows no progress; the others show some."""

    def show(self, progress: TrainingProgress) -> None:
        """Show nothing."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


class _Lines(_Display):
    """Shows progress as plain lines, some seconds apart, and one at the end of a stage."""

    def __init__(self) -> None:
        self._last: TrainingProgress | None = None
        self._stage_began = self._next = 0.0

    def show(self, progress: TrainingProgress) -> None:
        """Show a line if it is time for one."""
        now = time.monotonic()
        if self._last is None or self._last.stage != progress.stage:
            self._end_stage(now)
            self._stage_began = now
            self._next = now + _LINE_INTERVAL
        self._last = progress
        if now >= self._next:
            self._next = now + _LINE_INTERVAL
            self._print(progress, now)

    def __exit__(self, *error: object) -> None:
        if error[0] is None:
            self._end_stage(time.monotonic())

    def _end_stage(self, now: float) -> None:
        if self._last is not None:
            self._print(self._last, now, ended=True)

    def _print(self, progress: TrainingProgress, now: float, ended: bool = False) -> None:
        rate = progress.done / max(now - self._stage_began, 1e-3)
        words = f"{progress.stage}: {_amount(progress.stage, progress.done)}"
        if progress.total is not None:
            words += f" of {_amount(progress.stage, progress.total)}"
        words += f", {_amount(progress.stage, rate)}/s"
        if progress.total is not None and 0 < progress.done < progress.total and not ended:
            words += f", {(progress.total - progress.done) / rate:.0f} s left"
        say(words)


def _amount(stage: str, amount: float) -> str:
    return f"{amount / 1e6:.1f} MB" if stage == "counting" else f"{amount:,.0f} merges"


class _Bar(_Display):
    """Shows progress as a bar for each stage."""

    def __init__(self) -> None:
        self._bar: tqdm[Any] | None = None
        self._stage = ""

    def show(self, progress: TrainingProgress) -> None:
        """Move the bar of the stage."""
        if self._bar is None or self._stage != progress.stage:
            self.__exit__()
            self._stage = progress.stage
            self._bar = _bar(progress)
        self._bar.update(progress.done - self._bar.n)

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()


def _bar(progress: TrainingProgress) -> tqdm[Any]:
    from tqdm import tqdm  # imported where it is used: nobody else has to wait for it

    unit, scale = ("B", True) if progress.stage == "counting" else (" merges", False)
    return tqdm(desc=progress.stage, total=progress.total, unit=unit, unit_scale=scale)


def _display(quiet: bool) -> _Display:
    if quiet:
        return _Display()
    return _Bar() if sys.stderr.isatty() else _Lines()
