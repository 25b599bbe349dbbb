"""Compare the speed of bpetite with other libraries; print Markdown tables and the conditions.

`scripts/bench` runs this in an environment with the extra `bench`. Libraries that are not installed
are left out, and named. Tables go to standard output, and progress to standard error.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from tools.make_picture import write_bars
from tools.public import PUBLIC

import bpetite
from benchmarks import calls, corpora, data, doors, encode, own, streams, train
from benchmarks.cases import FASTEST, NATIVE, PYTHON, Case, Result, Table
from benchmarks.measure import Runner, instruction_sets, say
from benchmarks.peers import LIBRARIES, RIVALS, version_of

PAGE = "performance.md"
OURS, ENGINES, VERSUS = (NATIVE, *RIVALS), (NATIVE, PYTHON, *RIVALS), ("tiktoken", FASTEST)
TRAINERS, FILES = (NATIVE, PYTHON, *train.TRAINERS), (NATIVE, corpora.LIBRARY)
DOORS, STREAMS = (NATIVE, doors.AUTO, *doors.DOORS), tuple(streams.STEPS)
PAIRS = Table("what", (NATIVE, own.YARDSTICK), shows_targets=True)
CALLS = Table("call", (NATIVE, calls.STEP, PYTHON, "tiktoken"), shows_targets=True)
ALONE = Table("MB/s / MB of memory", (NATIVE, corpora.ALONE), shows_targets=True)

SECTIONS: dict[str, tuple[Callable[[], Iterable[Case]], Table]] = {
    "encode": (encode.encode_cases, Table("MB/s, cold / warm", OURS, VERSUS)),
    "calls": (calls.call_cases, CALLS),
    "short": (encode.short_cases, Table("ns, list / array", OURS)),
    "batches": (encode.batch_cases, Table("MB/s", OURS, VERSUS)),
    "pieces": (encode.piece_cases, Table("ms, list / array", OURS)),
    "decode": (encode.decode_cases, Table("MB/s, bytes / text", ENGINES, VERSUS)),
    "streams": (streams.step_cases, Table("ns, p50 / p99 / × at the end", STREAMS)),
    "doors": (doors.door_cases, Table("ms", DOORS, (doors.AUTO, FASTEST))),
    "prompts": (calls.prompt_cases, Table("µs", data.MAIN_TEXTS)),
    "train": (train.train_cases, Table("s / MB of memory / % same tokens", TRAINERS)),
    "threads": (own.thread_cases, PAIRS),
    "documents": (own.document_cases, PAIRS),
    "chunks": (own.chunk_cases, PAIRS),
    "corpora": (corpora.corpus_cases, ALONE),
    "corpora-libraries": (corpora.library_cases, Table("MB/s / MB", FILES, FILES[1:])),
    "patterns": (own.pattern_cases, PAIRS),
    "fallback": (own.fallback_cases, PAIRS),
}
"""The cases of each section, and the table that shows them."""

# These take long, which is why `--only` has to name them.
LONG = ("corpora", "corpora-libraries", "patterns", "fallback")


def main() -> None:
    """Measure the sections that the arguments name, and print or write the results."""
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as scratch, Runner(arguments.repeats) as runner:
        data.use(data.Settings(arguments.data, arguments.bytes, Path(scratch)))
        data.learn()
        results = {name: measured(runner, name) for name in arguments.only}
        machine, versions, command = conditions(arguments)
        tables = dict(tables_of(results))
    said = f"- {machine}\n- {versions}\n- {command}\n"
    print(said, end="")
    for name, table in tables.items():
        print(f"\n**{name}**\n\n{table}", end="")
    if arguments.write:
        path, is_complete = arguments.write / PAGE, {*results} >= {*SECTIONS} - {*LONG}
        note = "" if is_complete else f"Another run, on {machine}; {versions}: {command}\n\n"
        parts = {"conditions": said} if is_complete else {}
        put_parts(path, {**parts, **{name: note + text for name, text in tables.items()}})
        if "encode" in results:
            write_bars(path)
    if arguments.check:
        sys.exit(report(results))


def measured(runner: Runner, name: str) -> list[Result]:
    """Return the results of a section."""
    results = []
    for case in SECTIONS[name][0]():
        results.append(runner.result(case))
        cells = (f"{column} {results[-1].cell(column)}" for column in case.columns)
        say(f"{name}: {case.name}: {' | '.join(cells)}")
    return results


def tables_of(results: Mapping[str, Sequence[Result]]) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each table; `encode` has one for each engine."""
    for name, found in results.items():
        table = SECTIONS[name][1]
        for engine in (*instruction_sets(), PYTHON) if name == "encode" else ():
            shown = table._replace(columns=(engine, *RIVALS), ours=engine)
            rows = [each for each in found if engine in each.case.columns]
            yield f"{name}-{engine.split()[0].lower()}", shown.markdown(rows)
        if name != "encode":
            yield name, table.markdown(found)


def report(results: Mapping[str, Sequence[Result]]) -> int:
    """Print each check; return the exit code, which is 1 if a target is missed."""
    print("\n**targets**\n")
    missed = count = 0
    for name, found in results.items():
        for is_met, what, shown in (check for each in found for check in each.checks()):
            print(f"{name}: {'ok    ' if is_met else 'MISSED'} {what}: {shown}")
            missed, count = missed + (not is_met), count + 1
    print(f"\n{missed} of {count} targets missed")
    return 1 if missed else 0


def parse_arguments() -> argparse.Namespace:
    """Return the checked arguments."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description=__doc__,
        epilog="`scripts/bench ids --help` explains how to compare ids with other libraries.",
    )
    files = ", ".join([*(file for _, file in PUBLIC.values()), "patterns.json", str(data.PHI)])
    folder = partial(parser.add_argument, type=Path, metavar="FOLDER")
    number = partial(parser.add_argument, type=int, metavar="N")
    folder(
        "--data",
        help="a folder with english.txt, code.txt and any other *.txt in UTF-8, and optionally "
        f"{files}; by default, the texts that come with Python",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=SECTIONS,
        default=[name for name in SECTIONS if name not in LONG],
        metavar="SECTION",
        help=f"sections to measure: {', '.join(SECTIONS)} (default: all but {', '.join(LONG)})",
    )
    number("--repeats", default=5, help="turns; the median counts (default: %(default)s)")
    number("--bytes", help="use at most the first N bytes of each text, or N bytes of a corpus")
    parser.add_argument(
        "--check", action="store_true", help="print the targets, and exit with 1 if one is missed"
    )
    folder("--write", help=f"also put the tables that {PAGE} of this folder shows into it")
    arguments = parser.parse_args()
    if arguments.check and bpetite.engine == "python":
        parser.error("--check needs the native engine, which the targets are for")
    needed = [arguments.data / f"{name}.txt" for name in ("english", "code") if arguments.data]
    needed += [arguments.write / PAGE] if arguments.write else []
    if missing := [str(path) for path in needed if not path.is_file()]:
        parser.error(f"there is no {' and no '.join(missing)}")
    return arguments


def conditions(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield the facts that a reader needs to judge and to repeat the measurements."""
    line = shlex.join(["scripts/bench", *sys.argv[1:]])
    line = re.sub(r"(--(?:data|write)[ =])('[^']*'|\S+)", r"\1FOLDER", line)
    runtime = f"{platform.python_implementation()} {platform.python_version()}"
    engine = ", ".join(instruction_sets()) or "no native engine"
    yield f"{processor()} ({engine}), {os.cpu_count()} CPUs; {runtime}, {platform.platform()}"
    packages = [LIBRARIES[name].package for name in RIVALS]
    names = dict.fromkeys(["regex", *packages, "transformers", *train.TRAINERS])
    versions = [f"{name} {version}" for name in names if (version := version_of(name))]
    missing = [name for name in names if not version_of(name)]
    left_out = f"; not installed, so left out: {', '.join(missing)}" if missing else ""
    yield f"bpetite {bpetite.__version__}, {', '.join(versions)}{left_out}"
    yield f"`{line}`, with the median of {arguments.repeats} turns"


def processor() -> str:
    """Return the name of the processor, if the system knows it."""
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text(encoding="utf-8") if cpuinfo.exists() else ""
    found = re.search(r"model name\s*: (.+)", text)
    return found[1] if found else platform.processor() or platform.machine()


def put_parts(page: Path, parts: Mapping[str, str]) -> None:
    """Replace the parts of a page between `<!-- bench:NAME -->` and `<!-- /bench:NAME -->`.

    A part without markers in the page is left out.
    """
    content = page.read_bytes().decode("utf-8")
    for name, part in parts.items():
        start, end = f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
        before, found, rest = content.partition(start)
        if found:
            content = f"{before}{start}\n{part.strip()}\n{end}{rest.partition(end)[2]}"
    page.write_bytes(content.encode("utf-8"))
