"""Measure bpetite beside other libraries; print Markdown tables and the conditions.

`scripts/bench` runs this in an environment with the extra `bench`. Libraries that are not installed
are left out, and named. Tables go to standard output, progress to standard error.
BPETITE_ENGINE=python measures the Python engine, with tables of its own.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tools.engines import instruction_set
from tools.public import PUBLIC
from tools.venv import ROOT

import bpetite
from benchmarks import (
    corpora,
    decode,
    encode,
    load,
    own,
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
from benchmarks.table import HEADER, MB, Check, Line, Row, markdown, put_parts

PAGE = "performance.md"


class Section(NamedTuple):
    """A table: its rows and its header."""

    rows: Callable[[Bench], Iterator[Row]]
    header: Callable[[], Line] = lambda: HEADER


BOTH = {
    "decode": Section(decode.decode_rows, decode.decode_header),
    "stream": Section(stream.step_rows, stream.step_header),
    "stream-costs": Section(stream.cost_rows, load.header),
    "count": Section(own.count_rows, own.header),
    "train": Section(train.train_rows, train.train_header),
    "load": Section(load.load_rows, load.header),
    "memory": Section(load.memory_rows, load.header),
}

PYTHON = {
    "encode": Section(python.encode_rows),
    "cold": Section(python.cold_rows),
    "long": Section(python.long_rows),
    **BOTH,
}
"""The tables of the Python engine."""

NATIVE = {
    "encode": Section(encode.encode_rows, encode.encode_header),
    "batches": Section(encode.batches_rows, encode.batches_header),
    "instruction-sets": Section(encode.isa_rows, encode.isa_header),
    "short": Section(pieces.short_rows, pieces.short_header),
    "pieces": Section(pieces.pieces_rows, pieces.pieces_header),
    "threads": Section(own.thread_rows, own.header),
    "documents": Section(own.document_rows, own.header),
    "chunks": Section(own.chunk_rows, own.header),
    "cases": Section(stream_cases.case_rows, stream_cases.case_header),
    **BOTH,
}
"""The tables of the native engine."""

CORPORA = {
    "corpora": Section(corpora.corpora_rows, corpora.corpora_header),
    "corpora-libraries": Section(corpora.library_rows, corpora.library_header),
}
"""Tables of the native engine that take long, so that `--only` has to name them."""

SECTIONS = {"python": PYTHON, "native": NATIVE | CORPORA}[bpetite.engine]


def main() -> None:
    """Measure the sections that the arguments name, and print or write the results."""
    arguments = parse_arguments()
    use_one_cpu()
    bench = Bench(arguments.data, arguments.bytes, arguments.repeats, arguments.environments)
    if arguments.plots:
        plots.write_plots(bench, arguments.plots, arguments.only)
        return
    results = measured(bench, arguments.only)
    tables = {
        name: markdown(SECTIONS[name].header(), [row.cells for row in rows])
        for name, rows in results.items()
    }
    said = "".join(f"- {condition}\n" for condition in conditions(bench))
    print(said, end="")
    for name, table in tables.items():
        print(f"\n**{name}**\n\n{table}", end="")
    if arguments.write:
        write_page(arguments.write / PAGE, tables, said)
    if arguments.check:
        sys.exit(report({name: checks_of(rows) for name, rows in results.items()}))


def measured(bench: Bench, names: Sequence[str]) -> dict[str, list[Row]]:
    """Return the rows of each section."""
    start = time.perf_counter()
    results: dict[str, list[Row]] = {}
    for name in names:
        results[name] = []
        for row in SECTIONS[name].rows(bench):
            say(f"{name}: {' | '.join(cell for cell in row.cells if cell)}")
            results[name].append(row)
        say(f"{name}: done after {time.perf_counter() - start:.0f} s")
    return results


def report(checks: Mapping[str, Sequence[Check]]) -> int:
    """Print each check; return the exit code, which is 1 if a target is missed."""
    print("\n**targets**\n")
    for name, of_section in checks.items():
        for check in of_section:
            print(f"{name}: {check}")
    everything = [check for of_section in checks.values() for check in of_section]
    missed = sum(not check.is_met for check in everything)
    print(f"\n{missed} of {len(everything)} targets missed")
    return 1 if missed else 0


def checks_of(rows: Sequence[Row]) -> list[Check]:
    """Return the checks of all rows."""
    return [check for row in rows for check in row.checks]


def write_page(page: Path, tables: Mapping[str, str], said: str) -> None:
    """Put the tables that the page shows into it, and after a complete run the conditions."""
    is_complete = {*tables} >= {*SECTIONS} - {*CORPORA}
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
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="a folder with english.txt, code.txt and any other *.txt in UTF-8, and optionally "
        f"{files}; by default, the texts that come with Python",
    )
    parser.add_argument(
        "--repeats",
        type=positive,
        default=5,
        metavar="N",
        help="turns of each measurement; the median counts (default: %(default)s)",
    )
    default_bytes = None if bpetite.engine == "native" else 4 * MB
    parser.add_argument(
        "--bytes",
        type=positive,
        default=default_bytes,
        metavar="N",
        help="encode and count at most the first N bytes of each text "
        f"(default: {default_bytes or 'all'}); for corpora, the bytes of text in a file "
        f"(default: {corpora.CORPUS_BYTES:,})",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=SECTIONS,
        default=[name for name in SECTIONS if name not in CORPORA],
        metavar="SECTION",
        help=f"sections to measure: {', '.join(SECTIONS)} (default: all before corpora)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="print the targets of the measured sections, and exit with 1 if one is missed",
    )
    parser.add_argument(
        "--write",
        type=Path,
        metavar="FOLDER",
        help=f"also put the tables into {PAGE} of this folder, if it has their markers",
    )
    parser.add_argument(
        "--environments",
        type=Path,
        default=ROOT / ".libraries",
        metavar="FOLDER",
        help="where corpora-libraries installs the other libraries; torch makes it large "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--plots",
        type=Path,
        metavar="FOLDER",
        help="measure and write the plots of the sections encode, train and stream, and no tables",
    )
    arguments = parser.parse_args()
    for name in ("english.txt", "code.txt") if arguments.data else ():
        if not (arguments.data / name).is_file():
            parser.error(f"--data: {arguments.data} has no {name}")
    if arguments.plots and not arguments.plots.is_dir():
        parser.error(f"--plots: {arguments.plots} is not a folder")
    if arguments.write and not (arguments.write / PAGE).is_file():
        parser.error(f"--write: {arguments.write} has no {PAGE}")
    return arguments


def positive(argument: str) -> int:
    """Return the argument as an int of at least 1."""
    number = int(argument)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


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
    packages = ["regex", *(library.package for library in LIBRARIES), *TRAINERS]
    packages += [streamer.package for streamer in STREAMERS]
    packages = list(dict.fromkeys(packages))
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
    found = (
        re.search(r"model name\s*: (.+)", cpuinfo.read_text(encoding="utf-8"))
        if cpuinfo.exists()
        else None
    )
    return found[1] if found else platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
