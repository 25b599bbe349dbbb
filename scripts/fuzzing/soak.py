"""Tokenize random corpora by random engines, kill them, and compare with an undisturbed run.

`scripts/fuzz soak` runs this. Each round makes files of random formats, and writes their token
files once in this process. Then other processes write them again, as a pool of processes, as an
executor of threads or of processes, or as several commands that share the parts, while they are
killed at random moments and started again. In the end, all files must have equal bytes, and
`verify` must find no fault.

A difference is printed with its seed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import gzip
import io
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bpetite import Tokenizer
from bpetite.corpora import TOKEN_FORMATS, Corpus, finish, plan, tokenize, tokenize_parts, verify

WORDS = ["the", "hen", "then,", "met", "don't", "你好!", "<|endoftext|>", "aéb🙂", "\n\n", "  x"]
END = "<|endoftext|>"
ENGINES = ("processes", "executor of threads", "executor of processes", "shares")
PYTHONS_OWN_POOLS = ("executor of processes", "shares")
MAX_KILLS = 4

MAX_SECONDS = 300
"""A process that needs longer is taken to hang."""


def main() -> None:
    """Run rounds until time is up or files differ."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600, help="how long (default: 3600)")
    parser.add_argument("--seed", type=int, help="of the first round (default: random)")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not hasattr(os, "killpg"):
        sys.exit("bpetite: scripts/fuzz soak kills processes by POSIX signals, which Windows lacks")
    if arguments.work is not None:
        work(**json.loads(arguments.work))
        return
    counts: Counter[str] = Counter()
    first = random.randrange(10**9) if arguments.seed is None else arguments.seed
    end = time.monotonic() + arguments.seconds
    for seed in itertools.count(first):
        with tempfile.TemporaryDirectory(prefix="bpetite-soak-") as folder:
            try:
                fault = do_round(random.Random(seed), Path(folder), counts)
            except subprocess.TimeoutExpired:
                fault = f"a process has not ended in {MAX_SECONDS} s"
        if fault:
            sys.exit(f"seed {seed}: {fault}")
        counts["rounds"] += 1
        if time.monotonic() > end:
            break
    for what, number in sorted(counts.items()):
        print(f"{number:12,} {what}")
    print(f"no difference; the next seed is {seed + 1}")


def do_round(rng: random.Random, folder: Path, counts: Counter[str]) -> str | None:
    """Write one corpus twice; return the difference, or None."""
    source = folder / "source"
    write_corpus(rng, source)
    model = folder / "model.json"
    Tokenizer.train(" ".join(WORDS) * 3, rng.randrange(257, 300)).save(model)
    settings = any_settings(rng)
    format = rng.choice([*TOKEN_FORMATS])
    start = time.monotonic()
    try:
        tokenize(
            Corpus(source, on_bad="skip"), Tokenizer.load(model), folder / "a", format, **settings
        )
    except ValueError:
        counts["settings refused"] += 1
        return None
    taken = time.monotonic() - start
    engine = rng.choice(ENGINES)
    task = {
        "engine": engine,
        "workers": rng.randrange(1, 4),
        "source": str(source),
        "model": str(model),
        "folder": str(folder / "b"),
        "format": format,
        "settings": settings,
    }
    counts[f"rounds with {engine}"] += 1
    # A pool of Python 3.11 waits for ever for a worker that starts just while another one dies.
    may_hang = sys.version_info < (3, 12) and engine in PYTHONS_OWN_POOLS
    for _ in range(rng.randrange(MAX_KILLS + 1)):
        # A worker needs some time to start before it does anything.
        delay, only_a_child = rng.uniform(0.1, 1 + 2 * taken), rng.random() < 0.3
        counts["kills"] += killed(task, delay, only_a_child and not may_hang)
    result = ended(started(task))
    what = f"{engine}, {task['workers']} workers, {format}, {settings}"
    if not (folder / "b" / "manifest.json").exists():
        return f"{what}: no manifest: {result.decode(errors='replace')[-2000:]}"
    left, right = content(folder / "a"), content(folder / "b")
    different = [name for name in left.keys() | right.keys() if left.get(name) != right.get(name)]
    if different:
        return f"{what}: {len(different)} files differ: {sorted(different)[:5]}"
    problems = verify(folder / "b", deep=rng.random() < 0.3)
    return f"{what}: {problems}" if problems else None


def any_settings(rng: random.Random) -> dict[str, Any]:
    """Return random settings; a format may refuse some."""
    settings: dict[str, Any] = {"end": END, "part_bytes": rng.choice([500, 3_000, 20_000, 10**9])}
    if rng.random() < 0.2:
        settings["begin"] = END
    if rng.random() < 0.3:
        settings["shard_tokens"] = rng.randrange(200, 5_000)
    if rng.random() < 0.3:
        settings["validation"] = rng.choice([0.0, 0.1, 1.0, 1])
    if rng.random() < 0.3:
        settings["shuffle"] = rng.randrange(5)
    return settings


def write_corpus(rng: random.Random, folder: Path) -> None:
    """Write some files of random formats, with a bad line here and there."""
    folder.mkdir()
    for number in range(rng.randrange(1, 7)):
        texts = [
            " ".join(rng.choices(WORDS, k=rng.randrange(0, 40)))
            for _ in range(rng.choice([0, 1, 30, 300]))
        ]
        kind = rng.choice([".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet", ".txt"])
        (folder / f"{number}{kind}").write_bytes(encoded(rng, kind, texts))


def encoded(rng: random.Random, kind: str, texts: list[str]) -> bytes:
    """Return a file of texts."""
    if kind == ".txt":
        return "\n".join(texts).encode()
    if kind == ".parquet":
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        table = arrow.table({"text": arrow.array(texts, arrow.string())})
        file = io.BytesIO()
        parquet.write_table(table, file, row_group_size=rng.randrange(1, 100))
        return file.getvalue()
    rows = [json.dumps({"id": 1, "text": text}) for text in texts]
    if rng.random() < 0.3:
        rows.insert(rng.randrange(len(rows) + 1), '{"id": 1}')
    data = "".join(row + "\n" for row in rows).encode()
    if kind.endswith(".gz"):
        return gzip.compress(data, 1)
    if kind.endswith(".zst"):
        return bytes(import_module("zstandard").compress(data))
    return data


def content(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


# Processes


def started(task: Mapping[str, Any]) -> subprocess.Popen[bytes]:
    """Start a process that does a task, as the leader of a group of processes."""
    return subprocess.Popen(
        [sys.executable, "-m", "fuzzing.soak", "--work", json.dumps(task)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        start_new_session=True,
    )


def killed(task: Mapping[str, Any], delay: float, only_a_child: bool) -> bool:
    """Start a task and kill its processes, or one of them, after a delay; return whether it ran."""
    process = started(task)
    try:
        process.communicate(timeout=delay)
        return False
    except subprocess.TimeoutExpired:
        children = children_of(process.pid) if only_a_child else []
        if children:
            os.kill(random.choice(children), signal.SIGKILL)
            ended(process)  # other workers do the parts of a killed one, or the run fails
        else:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        return True


def ended(process: subprocess.Popen[bytes]) -> bytes:
    """Wait for a process; return its output. Raises TimeoutExpired if it hangs."""
    try:
        return process.communicate(timeout=MAX_SECONDS)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started (Linux)."""
    try:
        return [
            *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split())
        ]
    except OSError:
        return []


def work(
    engine: str,
    workers: int,
    source: str,
    model: str,
    folder: str,
    format: str,
    settings: dict[str, Any],
) -> None:
    """Do a task in this process and its children."""
    corpus, tokenizer = Corpus(source, on_bad="skip"), Tokenizer.load(model)
    if engine == "processes":
        tokenize(corpus, tokenizer, folder, format, workers=workers, **settings)
    elif engine.startswith("executor"):
        executor: Executor
        if engine.endswith("threads"):
            executor = ThreadPoolExecutor(workers)
        else:
            executor = ProcessPoolExecutor(workers, get_context("spawn"))
        with executor:
            tokenize(
                corpus, tokenizer, folder, format, workers=workers, executor=executor, **settings
            )
    else:
        parts = plan(corpus, tokenizer, folder, format, **settings)
        # Shares may overlap, because doing a part twice changes nothing.
        with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
            for share in [pool.submit(tokenize_parts, parts[i::2]) for i in range(workers)]:
                share.result()
        tokenize_parts(parts)
        finish(folder)


if __name__ == "__main__":
    main()
