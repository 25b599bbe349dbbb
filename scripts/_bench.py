"""Measure bpetite beside its yardsticks; print Markdown tables with their conditions.

What `scripts/bench` runs, in an environment with the `bench` extra. A library that is not installed
is left out, and named. Standard output is the tables, standard error says what goes on.
BPETITE_ENGINE=python measures the engine in Python, by yardsticks of its own.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import _bench_decode
import _bench_encode
import _bench_load
import _bench_plots
import _bench_python
import _bench_stream
import _bench_stream_cases
import _bench_train
from _bench_measure import CPU_CLOCK, Bench, say, size_of, use_one_cpu
from _bench_peers import LIBRARIES, TRAINERS, is_installed, version_of
from _bench_streamers import STREAMERS
from _bench_table import HEADER, MB, Line, lacking_parts, markdown, put_parts
from _public import PUBLIC

import bpetite


@dataclass(frozen=True)
class Section:
    """A table."""

    rows: Callable[[Bench], Iterator[Line]]
    header: Callable[[], Line] = lambda: HEADER


IN_PYTHON = {
    "encode": Section(_bench_python.encode_rows),
    "public": Section(_bench_python.public_rows),
    "load": Section(_bench_load.load_rows),
    "count": Section(_bench_train.count_rows),
    "train": Section(_bench_train.train_detail_rows),
    "decode": Section(_bench_python.decode_rows),
    "stream": Section(_bench_stream.stream_rows, _bench_stream.stream_header),
    "long": Section(_bench_python.long_rows),
}
"""The tables of the engine in Python."""

NATIVE = {
    "encode": Section(_bench_encode.encode_rows, _bench_encode.encode_header),
    "simd": Section(_bench_encode.simd_rows, _bench_encode.simd_header),
    "short": Section(_bench_encode.short_rows, _bench_encode.short_header),
    "pieces": Section(_bench_encode.pieces_rows, _bench_encode.pieces_header),
    "threads": Section(_bench_encode.threads_rows, _bench_encode.threads_header),
    "decode": Section(_bench_decode.decode_rows, _bench_decode.decode_header),
    "stream": Section(_bench_stream.stream_rows, _bench_stream.stream_header),
    "cases": Section(_bench_stream_cases.case_rows, _bench_stream_cases.case_header),
    "count": Section(_bench_train.count_rows),
    "train": Section(_bench_train.train_rows, _bench_train.train_header),
    "load": Section(_bench_load.load_rows),
    "memory": Section(_bench_load.memory_rows),
}
"""The tables of the native core."""

SECTIONS = {"python": IN_PYTHON, "native": NATIVE}[bpetite.engine]
ALL_SECTIONS = NATIVE | IN_PYTHON | SECTIONS
"""The other engine's can be asked for too."""


def main() -> None:
    """Print the conditions and the tables of the sections that the arguments ask for."""
    arguments = parse_arguments()
    use_one_cpu()
    start = time.perf_counter()
    bench = Bench(arguments.data, arguments.bytes, arguments.repeats)
    if arguments.plots:
        _bench_plots.write_plots(bench, arguments.plots, arguments.only)
        return
    tables = {}
    for name in arguments.only:
        section = ALL_SECTIONS[name]
        lines: list[Line] = []
        for line in section.rows(bench):
            say(f"{name}: {' | '.join(cell for cell in line if cell)}")
            lines.append(line)
        say(f"{name}: done after {time.perf_counter() - start:.0f} s")
        tables[name] = markdown(section.header(), lines)
    said = "".join(f"- {condition}\n" for condition in conditions(bench))
    print(said)
    for name, table in tables.items():
        print(f"**{name}**\n\n{table}")
    if arguments.write:
        parts = {part_name(name): table for name, table in tables.items()}
        if list(tables) == list(SECTIONS):
            parts[part_name("conditions")] = said
        else:
            note = f"In a run of its own: `{command()}`\n\n"
            parts = {name: note + table for name, table in parts.items()}
        put_parts(arguments.write, parts)


def parse_arguments() -> argparse.Namespace:
    """Return the checked arguments: data, repeats, bytes, only, write, plots."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    files = ", ".join(file for _, file in PUBLIC.values())
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="has english.txt, code.txt and any other *.txt, in UTF-8, and perhaps "
        f"{files}; by default, text that Python itself carries",
    )
    parser.add_argument(
        "--repeats",
        type=positive,
        default=5,
        metavar="N",
        help="turns of measurements, of which the median counts (default: %(default)s)",
    )
    parser.add_argument(
        "--bytes",
        type=positive,
        default=None if bpetite.engine == "native" else 4 * MB,
        metavar="N",
        help="of each text, at most so many are encoded and counted (default: "
        f"{'all' if bpetite.engine == 'native' else '%(default)s'})",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=ALL_SECTIONS,
        default=list(SECTIONS),
        metavar="SECTION",
        help=f"which of {', '.join(ALL_SECTIONS)} (default: {' '.join(SECTIONS)})",
    )
    parser.add_argument(
        "--write",
        type=Path,
        metavar="PAGE",
        help="put the tables into a page too, each between <!-- bench:ENGINE-SECTION --> and "
        "<!-- /bench:ENGINE-SECTION -->",
    )
    parser.add_argument(
        "--plots",
        type=Path,
        metavar="FOLDER",
        help="write the plots of the sections encode, train and stream there, and print no tables",
    )
    arguments = parser.parse_args()
    for name in ("english.txt", "code.txt") if arguments.data else ():
        if not (arguments.data / name).is_file():
            parser.error(f"--data: {arguments.data} has no {name}")
    if arguments.plots and not arguments.plots.is_dir():
        parser.error(f"--plots: {arguments.plots} is no folder")
    if arguments.write:
        if not arguments.write.is_file():
            parser.error(f"--write: there is no {arguments.write}")
        lacking = lacking_parts(arguments.write, list(map(part_name, arguments.only)))
        if lacking:
            parser.error(f"--write: {arguments.write} has no place for {', '.join(lacking)}")
    return arguments


def part_name(section: str) -> str:
    """Return what a section is called in a page."""
    return f"{bpetite.engine}-{section}"


def positive(argument: str) -> int:
    """Return the argument as an int of at least 1."""
    number = int(argument)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def command() -> str:
    """Return what was called; where the data are is nobody's business."""
    line = shlex.join(["scripts/bench", *sys.argv[1:]])
    line = re.sub(r"(--data[ =])('[^']*'|\S+)", r"\1FOLDER", line)
    line = re.sub(r"(--write[ =])('[^']*'|\S+)", r"\1PAGE", line)
    engine = os.environ.get("BPETITE_ENGINE")
    return (f"BPETITE_ENGINE={engine} " if engine else "") + line


def conditions(bench: Bench) -> Iterator[str]:
    """Yield what a reader must know to judge the tables, and to measure them again."""
    yield f"Command: `{command()}`"
    packages = ["regex", *(library.package for library in LIBRARIES), *TRAINERS.values()]
    packages += [streamer.package for streamer in STREAMERS]
    packages = list(dict.fromkeys(packages))
    versions = [f"{name} {version_of(name)}" for name in packages if is_installed(name)]
    yield f"bpetite {bpetite.__version__}, {bpetite.engine} engine; {', '.join(versions)}"
    missing = [name for name in packages if not is_installed(name)]
    if missing:
        yield f"Not installed, and so left out: {', '.join(missing)}"
    yield f"{platform.python_implementation()} {platform.python_version()}, {platform.platform()}"
    yield f"{processor()}, {os.cpu_count()} CPUs"
    sizes = ", ".join(f"{name} {size_of(text):,}" for name, text in bench.texts.items())
    limit = bench.sample_size
    part = (
        "all of each" if limit is None else f"at most the first {limit:,} of each but in training"
    )
    yield f"Texts, bytes of UTF-8: {sizes}; {part}; 1 MB = 1,000,000 bytes"
    learnt = f"Vocabulary: {bench.vocab_size:,} bytes and merges, learnt from english"
    yield f"{learnt}; but what a table names" if bench.public else learnt
    yield (
        f"All that is in a row ran in turns, in one run, {bench.repeats} times: medians, and the "
        "medians of the ratios of each turn [least to greatest]; what was loaded, or learnt, was "
        "so in processes of its own"
    )
    clock = "What the process used of the processor" if CPU_CLOCK else "Wall time"
    yield (
        f"{clock}, held to one thread on one processor, but for two threads and the steps of "
        "streams, which are timed by the clock on the wall; for all alike the garbage collector "
        "is off while the clock runs, and results are freed after it stops"
    )


def processor() -> str:
    """Return the name of the processor, as far as the system tells it."""
    cpuinfo = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.+)", cpuinfo.read_text()) if cpuinfo.exists() else None
    return found[1] if found else platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
