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
from dataclasses import dataclass
from pathlib import Path

from tools.public import PUBLIC
from tools.venv import ROOT

import bpetite
from benchmarks import (
    chunks,
    continued,
    decode,
    documents,
    encode,
    grow,
    json_lines,
    load,
    plots,
    python,
    reports,
    stream,
    stream_cases,
    train,
)
from benchmarks.corpora import clusters
from benchmarks.corpora import rows as corpora
from benchmarks.measure import CPU_CLOCK, Bench, say, size_of, use_one_cpu
from benchmarks.peers import LIBRARIES, TRAINERS, is_installed, version_of
from benchmarks.streamers import STREAMERS
from benchmarks.table import (
    HEADER,
    MB,
    SHORT_HEADER,
    Check,
    Line,
    Row,
    markdown,
    missing_parts,
    put_parts,
)

PAGE, DETAILS = "performance.md", "performance-details.md"
"""The page with the rows that users choose by, and the page with all rows."""


@dataclass(frozen=True)
class Section:
    """A table: its rows, its header, and the rows that are on the main page."""

    rows: Callable[[Bench], Iterator[Row]]
    header: Callable[[], Line] = lambda: HEADER
    chosen: str | None = ""
    """A regular expression found in chosen rows; None if the main page has no such table."""


PYTHON = {
    "encode": Section(python.encode_rows, chosen=r"warm \|.*tiktoken"),
    "public": Section(python.public_rows, chosen=None),
    "decode": Section(python.decode_rows, chosen=None),
    "stream": Section(stream.step_rows, stream.step_header, chosen=None),
    "stream-costs": Section(stream.cost_rows, stream.cost_header, chosen=None),
    "count": Section(train.count_rows, chosen=None),
    "train": Section(train.detail_rows, chosen=None),
    "load": Section(load.load_rows, lambda: SHORT_HEADER, chosen=None),
    "long": Section(python.long_rows, chosen=None),
}
"""The tables of the Python engine."""

NATIVE = {
    "encode": Section(encode.encode_rows, encode.encode_header, chosen=r"\| cl100k,"),
    "steps": Section(encode.steps_rows, encode.encode_header, chosen=None),
    "instruction-sets": Section(encode.isa_rows, encode.isa_header, chosen=None),
    "short": Section(encode.short_rows, encode.short_header, chosen="cl100k.*list"),
    "pieces": Section(
        encode.pieces_rows, encode.pieces_header, chosen="cl100k, (`a`|`=`|spaces|random|emoji)"
    ),
    "threads": Section(encode.threads_rows, encode.threads_header, chosen=None),
    "documents": Section(documents.document_rows, documents.document_header, chosen=None),
    "chunks": Section(chunks.chunk_rows, chunks.chunk_header, chosen=None),
    "grow": Section(grow.grow_rows, grow.grow_header, chosen=None),
    "decode": Section(
        decode.decode_rows,
        decode.decode_header,
        chosen="cl100k.*(bytes from a buffer|text from a list)",
    ),
    "stream": Section(
        stream.step_rows, stream.step_header, chosen=r"^\| (English, \d|(?!.*prompt).*, 0 \|)"
    ),
    "stream-costs": Section(stream.cost_rows, stream.cost_header, chosen=None),
    "cases": Section(stream_cases.case_rows, stream_cases.case_header),
    "count": Section(train.count_rows, chosen=None),
    "train": Section(train.train_rows, train.train_header),
    "continue": Section(continued.continued_rows, continued.continued_header, chosen=None),
    "report": Section(reports.report_rows, chosen=None),
    "load": Section(load.load_rows, lambda: SHORT_HEADER, chosen="cl100k(?!.*size)"),
    "memory": Section(load.memory_rows, lambda: SHORT_HEADER, chosen="import|native"),
}
"""The tables of the native engine."""

CORPORA = {
    "corpora": Section(corpora.corpora_rows, corpora.corpora_header, chosen=None),
    "corpora-libraries": Section(
        corpora.library_rows, corpora.library_header, chosen=r"english, \.jsonl,"
    ),
    "corpora-memory": Section(corpora.memory_rows, corpora.memory_header, chosen=None),
    "corpora-counting": Section(corpora.counting_rows, corpora.counting_header, chosen=None),
    "corpora-engines": Section(clusters.engine_rows, clusters.engine_header, chosen=None),
    "corpora-simulation": Section(
        clusters.simulation_rows, clusters.simulation_header, chosen=None
    ),
    "corpora-scale": Section(clusters.scale_rows, clusters.scale_header, chosen=None),
    "scanner": Section(json_lines.scanner_rows, chosen=None),
    "documents": NATIVE["documents"],
}
"""The tables of `scripts/bench corpora`."""

SECTIONS = {"python": PYTHON, "native": NATIVE}[bpetite.engine]
ALL_SECTIONS = NATIVE | PYTHON | CORPORA | SECTIONS
"""The sections to choose from. Those of the engine count if another has the same name."""


def main() -> None:
    """Measure the sections that the arguments name, and print or write the results."""
    arguments = parse_arguments()
    use_one_cpu()
    bench = Bench(
        arguments.data,
        arguments.bytes,
        arguments.repeats,
        arguments.environments,
        arguments.full,
    )
    if arguments.plots:
        plots.write_plots(bench, arguments.plots, arguments.only)
        return
    results = measured(bench, arguments.only)
    for condition in conditions(bench):
        print(f"- {condition}")
    for name, rows in results.items():
        table = markdown(ALL_SECTIONS[name].header(), [row.cells for row in rows])
        print(f"\n**{name}**\n\n{table}", end="")
    if arguments.write:
        said = "".join(f"- {condition}\n" for condition in conditions(bench))
        write_pages(arguments.write, results, said)
    if arguments.check:
        checks = {
            name: [check for row in rows for check in row.checks] for name, rows in results.items()
        }
        sys.exit(report(checks))


def measured(bench: Bench, names: Sequence[str]) -> dict[str, list[Row]]:
    """Return the rows of each section."""
    start = time.perf_counter()
    results: dict[str, list[Row]] = {}
    for name in names:
        results[name] = []
        for row in ALL_SECTIONS[name].rows(bench):
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


def write_pages(folder: Path, results: Mapping[str, Sequence[Row]], said: str) -> None:
    """Put all rows into the page of details, and chosen rows into the main page."""
    is_complete = list(results) == list(SECTIONS)
    note = "" if is_complete else f"Measured in a separate run: `{command()}`\n\n"
    for page, tables in tables_of_pages(
        {n: [row.cells for row in rows] for n, rows in results.items()}
    ).items():
        parts = {part_name(name): note + table for name, table in tables.items()}
        conditions_name = part_name("conditions")
        if is_complete and not missing_parts(folder / page, [conditions_name]):
            parts[conditions_name] = said
        put_parts(folder / page, parts)


def tables_of_pages(lines: Mapping[str, Sequence[Line]]) -> dict[str, dict[str, str]]:
    """Return the table of each section on each page, from all lines of the sections."""
    pages: dict[str, dict[str, str]] = {PAGE: {}, DETAILS: {}}
    for name, of_section in lines.items():
        section = ALL_SECTIONS[name]
        pages[DETAILS][name] = markdown(section.header(), of_section)
        if section.chosen is not None:
            chosen = re.compile(section.chosen)
            few = [line for line in of_section if chosen.search(f"| {' | '.join(line)} |")]
            pages[PAGE][name] = markdown(section.header(), few)
    return pages


def parse_arguments() -> argparse.Namespace:
    """Return the checked arguments."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description=__doc__,
        epilog="`scripts/bench ids --help` explains how to compare ids with other libraries.",
    )
    parser.add_argument(
        "group",
        nargs="?",
        choices=["corpora", *ALL_SECTIONS],
        metavar="SECTION",
        help=f"one section to measure; or corpora, which is {', '.join(CORPORA)}",
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
        choices=ALL_SECTIONS,
        metavar="SECTION",
        help=f"sections to measure: {', '.join(ALL_SECTIONS)} (default: {' '.join(SECTIONS)})",
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
        help=f"also put the tables into {PAGE} and {DETAILS} of this folder",
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
        "--full",
        action="store_true",
        help="measure corpora-memory with up to 4 GB of text too, and corpora-scale with 20 GB "
        "instead of 200 MB (an hour)",
    )
    parser.add_argument(
        "--plots",
        type=Path,
        metavar="FOLDER",
        help="measure and write the plots of the sections encode, train and stream, and no tables",
    )
    arguments = parser.parse_args()
    groups = {None: [*SECTIONS], "corpora": [*CORPORA]}
    arguments.only = arguments.only or groups.get(arguments.group, [arguments.group])
    if bpetite.engine != "native" and (unfit := {*arguments.only} & {*CORPORA} - {*SECTIONS}):
        parser.error(f"{', '.join(sorted(unfit))}: these measure the native engine")
    for name in ("english.txt", "code.txt") if arguments.data else ():
        if not (arguments.data / name).is_file():
            parser.error(f"--data: {arguments.data} has no {name}")
    if arguments.plots and not arguments.plots.is_dir():
        parser.error(f"--plots: {arguments.plots} is not a folder")
    for page, names in parts_of_pages(arguments.only).items() if arguments.write else ():
        path = arguments.write / page
        if not path.is_file():
            parser.error(f"--write: {path} does not exist")
        if missing := missing_parts(path, map(part_name, names)):
            parser.error(f"--write: {path} has no markers for {', '.join(missing)}")
    return arguments


def parts_of_pages(sections: Sequence[str]) -> dict[str, list[str]]:
    """Return the sections that each page shows."""
    chosen = [name for name in sections if ALL_SECTIONS[name].chosen is not None]
    return {PAGE: chosen, DETAILS: list(sections)}


def part_name(section: str) -> str:
    """Return the name of a section in the pages."""
    return f"{bpetite.engine}-{section}"


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


def conditions(bench: Bench) -> Iterator[str]:
    """Yield the facts that a reader needs to judge and to repeat the measurements."""
    yield f"Command: `{command()}`"
    packages = ["regex", *(library.package for library in LIBRARIES), *TRAINERS.values()]
    packages += [streamer.package for streamer in STREAMERS]
    packages = list(dict.fromkeys(packages))
    versions = [f"{name} {version_of(name)}" for name in packages if is_installed(name)]
    ours = f"bpetite {bpetite.__version__} ({bpetite.engine} engine)"
    yield f"Versions: {ours}, {', '.join(versions)}"
    missing = [name for name in packages if not is_installed(name)]
    if missing:
        yield f"Not installed, so left out: {', '.join(missing)}"
    runtime = f"{platform.python_implementation()} {platform.python_version()}"
    yield f"Machine: {processor()}, {os.cpu_count()} CPUs; {runtime}, {platform.platform()}"
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
