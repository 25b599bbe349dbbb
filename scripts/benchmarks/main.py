"""Compare the speed of bpetite with other libraries; print Markdown tables and the conditions.

`scripts/bench` runs this in an environment with the extra `bench`. Libraries that are not installed
are left out, and named. Tables go to standard output, and progress to standard error.
BPETITE_ENGINE=python measures the Python engine, which has tables of its own.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tools.engines import instruction_set
from tools.public import PUBLIC
from tools.venv import ROOT

import bpetite
from benchmarks import (
    corpora,
    decode,
    doors,
    encode,
    grow,
    load,
    models,
    own,
    patterns,
    pieces,
    plots,
    python,
    stream,
    stream_cases,
    train,
)
from benchmarks.measure import CPU_CLOCK, Bench, say, size_of, use_one_cpu
from benchmarks.peers import LIBRARIES, TRAINERS, is_installed, version_of
from benchmarks.streamers import STREAMERS
from benchmarks.table import HEADER, MB, SHORT_HEADER, Line, Row, markdown, put_parts

PAGE = "performance.md"


class Section(NamedTuple):
    """A table: its rows and its header."""

    rows: Callable[[Bench], Iterator[Row]]
    header: Line = HEADER


BOTH = {
    "decode": Section(decode.decode_rows, decode.HEADER),
    "stream": Section(stream.step_rows, stream.HEADER),
    "train": Section(train.train_rows, train.HEADER),
    "load": Section(load.load_rows, SHORT_HEADER),
    "memory": Section(load.memory_rows, SHORT_HEADER),
}

PYTHON = {"encode": Section(python.encode_rows), **BOTH}
"""The tables of the Python engine."""

NATIVE = {
    "encode": Section(encode.encode_rows, encode.ENCODE_HEADER),
    "batches": Section(encode.batches_rows, encode.BATCHES_HEADER),
    "instruction-sets": Section(encode.isa_rows, encode.ISA_HEADER),
    "short": Section(pieces.short_rows, pieces.SHORT_HEADER),
    "pieces": Section(pieces.pieces_rows, pieces.PIECES_HEADER),
    "threads": Section(own.thread_rows, own.HEADER),
    "documents": Section(own.document_rows, own.HEADER),
    "chunks": Section(own.chunk_rows, own.HEADER),
    "grow": Section(grow.grow_rows, grow.HEADER),
    "cases": Section(stream_cases.case_rows, stream_cases.HEADER),
    "doors": Section(doors.door_rows, doors.HEADER),
    **BOTH,
}
"""The tables of the native engine."""

LONG = {
    "corpora": Section(corpora.corpora_rows, corpora.CORPORA_HEADER),
    "corpora-libraries": Section(corpora.library_rows, corpora.LIBRARY_HEADER),
    "patterns": Section(patterns.pattern_rows, patterns.HEADER),
    "patterns-libraries": Section(models.model_rows, encode.ENCODE_HEADER),
    "fallback": Section(models.fallback_rows, encode.ENCODE_HEADER),
    "fallback-texts": Section(models.fallback_text_rows, patterns.HEADER),
}
"""Tables of the native engine that take long, which is why `--only` has to name them."""

SECTIONS = {"python": PYTHON, "native": NATIVE | LONG}[bpetite.engine]


def main() -> None:
    """Measure the sections that the arguments name, and print or write the results."""
    arguments = parse_arguments()
    use_one_cpu()
    bench = Bench(arguments.data, arguments.bytes, arguments.repeats, arguments.environments)
    results = {name: measured(bench, name) for name in arguments.only}
    tables = {
        name: markdown(SECTIONS[name].header, [row.cells for row in rows])
        for name, rows in results.items()
    }
    said = "".join(f"- {condition}\n" for condition in conditions(bench))
    print(said, end="")
    for name, table in tables.items():
        print(f"\n**{name}**\n\n{table}", end="")
    if arguments.write:
        write_page(arguments.write / PAGE, tables, said)
        if "encode" in tables:
            plots.write_bars(arguments.write / PAGE)
    if arguments.check:
        sys.exit(report(results))


def measured(bench: Bench, name: str) -> list[Row]:
    """Return the rows of a section."""
    rows = []
    for row in SECTIONS[name].rows(bench):
        say(f"{name}: {' | '.join(cell for cell in row.cells if cell)}")
        rows.append(row)
    return rows


def report(results: Mapping[str, Sequence[Row]]) -> int:
    """Print each check; return the exit code, which is 1 if a target is missed."""
    checks = [
        (name, check) for name, rows in results.items() for row in rows for check in row.checks
    ]
    print("\n**targets**\n")
    for name, check in checks:
        print(f"{name}: {check}")
    missed = sum(not check.is_met for _, check in checks)
    print(f"\n{missed} of {len(checks)} targets missed")
    return 1 if missed else 0


def write_page(page: Path, tables: Mapping[str, str], said: str) -> None:
    """Update the tables that the page shows, and after a complete run the conditions too."""
    is_complete = {*tables} >= {*SECTIONS} - {*LONG}
    note = "" if is_complete else f"Measured in a separate run{simd()}: `{command()}`\n\n"
    parts = {f"{bpetite.engine}-{name}": note + table for name, table in tables.items()}
    if is_complete:
        parts[f"{bpetite.engine}-conditions"] = said
    put_parts(page, parts)


def parse_arguments() -> argparse.Namespace:
    """Return the checked arguments."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description=__doc__,
        epilog="`scripts/bench ids --help` explains how to compare ids with other libraries.",
    )
    files = ", ".join(file for _, file in PUBLIC.values())
    default_bytes = None if bpetite.engine == "native" else 4 * MB
    folder = partial(parser.add_argument, type=Path, metavar="FOLDER")
    number = partial(parser.add_argument, type=int, metavar="N")
    folder(
        "--data",
        help="a folder with english.txt, code.txt and any other *.txt in UTF-8, and optionally "
        f"{files}, for patterns {patterns.FILE}, and for fallback {models.PHI}; by default, "
        "the texts that come with Python",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=SECTIONS,
        default=[name for name in SECTIONS if name not in LONG],
        metavar="SECTION",
        help=f"sections to measure: {', '.join(SECTIONS)} (default: all but {', '.join(LONG)})",
    )
    number(
        "--repeats",
        default=5,
        help="turns of each measurement; the median counts (default: %(default)s)",
    )
    number(
        "--bytes",
        default=default_bytes,
        help="encode and count at most the first N bytes of each text "
        f"(default: {default_bytes or 'all'}); for corpora, the bytes of text in a file "
        f"(default: {corpora.CORPUS_BYTES:,})",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="print the targets of the measured sections, and exit with 1 if one is missed",
    )
    folder("--write", help=f"also put the tables that {PAGE} of this folder shows into it")
    folder(
        "--environments",
        default=ROOT / ".libraries",
        help="where corpora-libraries installs the other libraries, and patterns-libraries a "
        "package with a vocabulary; torch makes it large "
        "(default: %(default)s)",
    )
    arguments = parser.parse_args()
    needed = [arguments.data / f"{name}.txt" for name in ("english", "code") if arguments.data]
    needed += [arguments.write / PAGE] if arguments.write else []
    if missing := [str(path) for path in needed if not path.is_file()]:
        parser.error(f"there is no {' and no '.join(missing)}")
    return arguments


def command() -> str:
    """Return the command line, with private paths replaced."""
    line = shlex.join(["scripts/bench", *sys.argv[1:]])
    line = re.sub(r"(--(?:data|write|environments)[ =])('[^']*'|\S+)", r"\1FOLDER", line)
    engine = os.environ.get("BPETITE_ENGINE")
    return (f"BPETITE_ENGINE={engine} " if engine else "") + line


def simd() -> str:
    """Return the instruction set in use, with a word before it."""
    return f" with {name}" if (name := instruction_set()) else ""


def conditions(bench: Bench) -> Iterator[str]:
    """Yield the facts that a reader needs to judge and to repeat the measurements."""
    yield f"Command: `{command()}`"
    peers = [each.package for each in (*LIBRARIES, *STREAMERS)]
    packages = list(dict.fromkeys(["regex", *peers, *TRAINERS]))
    versions = [f"{name} {version_of(name)}" for name in packages if is_installed(name)]
    ours = f"bpetite {bpetite.__version__} ({bpetite.engine} engine)"
    yield f"Versions: {ours}, {', '.join(versions)}"
    missing = [name for name in packages if not is_installed(name)]
    if missing:
        yield f"Not installed, so left out: {', '.join(missing)}"
    runtime = f"{platform.python_implementation()} {platform.python_version()}"
    yield f"Machine: {processor()}{simd()}, {os.cpu_count()} CPUs; {runtime}, {platform.platform()}"
    sizes = ", ".join(f"{name} {size_of(text):,}" for name, text in bench.texts.items())
    limit = bench.sample_size
    part = "" if limit is None else f"; except in training, only the first {limit:,} bytes of each"
    yield f"Texts, bytes of UTF-8: {sizes}{part}"
    yield f"Vocabulary, unless a row names one: {bench.vocab_size:,} ids learnt from english"
    yield f"Turns: {bench.repeats}; figures are medians, [brackets] hold the smallest and largest"
    clock = "CPU time of the process; wall time for two threads and for the steps of streams"
    yield f"Clock: {clock if CPU_CLOCK else 'wall time'}"


def processor() -> str:
    """Return the name of the processor, if the system knows it."""
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text(encoding="utf-8") if cpuinfo.exists() else ""
    found = re.search(r"model name\s*: (.+)", text)
    return found[1] if found else platform.processor() or platform.machine()
