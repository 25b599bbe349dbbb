"""Parts of a plan: any worker, in any order and as often as it likes, gives the same folder."""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest
from support.cli import in_process
from support.corpora import jsonl
from support.engines import quick_once
from support.examples import slow_except
from support.programs import posix_only, variables

from bpetite import PieceCounts, Tokenizer
from bpetite.corpora import (
    Corpus,
    Part,
    finish,
    plan,
    tokenize,
    tokenize_part,
    tokenize_parts,
    verify,
)
from bpetite.corpora._new_files import NewFile

pytestmark = quick_once

TEXTS = [f"the hen {number} then met the ten men " * (number % 7) for number in range(300)]
TOKENIZER = Tokenizer.train(TEXTS, 300)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with a large file of lines, and small files."""
    folder = tmp_path / "source"
    folder.mkdir()
    lines = [json.dumps({"text": text}) + "\n" for text in TEXTS]
    (folder / "a.jsonl").write_text("".join(lines[:270]), "utf-8", newline="\n")
    for number in range(270, 300, 3):
        (folder / f"b{number}.jsonl").write_text(
            "".join(lines[number : number + 3]), "utf-8", newline="\n"
        )
    return folder


def planned(source: Path, folder: Path, format: str = "megatron") -> list[Part]:
    return plan(Corpus(source), TOKENIZER, folder, format, part_bytes=4_000)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of every file that a reader sees."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


@pytest.fixture
def serial(source: Path, tmp_path: Path) -> Callable[[str], dict[str, bytes]]:
    """Return the files of a run in one process."""

    def run(format: str = "megatron") -> dict[str, bytes]:
        folder = tmp_path / f"serial-{format}"
        tokenize(Corpus(source), TOKENIZER, folder, format, part_bytes=4_000)
        return contents(folder)

    return run


Serial = Callable[..., dict[str, bytes]]


@pytest.mark.parametrize("format", ["megatron", "nanogpt", "parquet"])
def test_parts_in_any_order_give_the_serial_folder(
    format: str, source: Path, tmp_path: Path, serial: Serial
) -> None:
    parts = planned(source, tmp_path / "tokens", format)
    assert len(parts) > 8
    again = [*parts, *parts[::2]]
    random.Random(3).shuffle(again)
    receipts = [tokenize_part(part) for part in again]
    assert {receipt["part"] for receipt in receipts} == {*range(len(parts))}
    finish(tmp_path / "tokens")
    assert contents(tmp_path / "tokens") == serial(format)
    assert verify(tmp_path / "tokens", deep=True) == []


def test_a_part_is_json_and_small(source: Path, tmp_path: Path) -> None:
    parts = planned(source, tmp_path / "tokens")
    assert [Part(*json.loads(json.dumps(part))) for part in parts] == parts
    assert pickle.loads(pickle.dumps(parts)) == parts
    assert max(len(pickle.dumps(part)) for part in parts) < 2_000
    sizes = [path.stat().st_size for path in source.iterdir()]
    assert sum(sizes) - len(parts) <= sum(part.bytes for part in parts) <= sum(sizes)


def test_planning_again_changes_nothing(source: Path, tmp_path: Path) -> None:
    parts = planned(source, tmp_path / "tokens")
    tokenize_part(parts[1])
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "tokens").rglob("*")}
    assert planned(source, tmp_path / "tokens") == parts
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "tokens").rglob("*")} == times


def test_a_part_of_another_plan_is_refused(source: Path, tmp_path: Path) -> None:
    parts = planned(source, tmp_path / "tokens")
    with pytest.raises(ValueError, match="its plan has another part 1; plan again"):
        tokenize_part(parts[0]._replace(number=1))
    with pytest.raises(ValueError, match="its plan has another part 999; plan again"):
        tokenize_part(parts[0]._replace(number=999))
    with pytest.raises(FileNotFoundError):
        tokenize_part(parts[0]._replace(folder=str(tmp_path / "missing")))


def test_another_vocabulary_in_the_folder_is_refused(source: Path, tmp_path: Path) -> None:
    parts = planned(source, tmp_path / "tokens")
    other = Tokenizer.train("other", 257)
    other.save(tmp_path / "tokens" / "vocabulary.json", overwrite=True)
    with pytest.raises(ValueError, match="not the vocabulary that the plan names"):
        tokenize_part(parts[0])


def test_finish_names_the_first_missing_part(source: Path, tmp_path: Path) -> None:
    parts = planned(source, tmp_path / "tokens")
    for part in parts:
        if part.number not in (2, 5):
            tokenize_part(part)
    with pytest.raises(ValueError, match=f"2 of {len(parts)} parts are not done, .* part 2; do"):
        finish(tmp_path / "tokens")
    assert tokenize_parts([parts[2], parts[5]])["documents"] > 0
    assert finish(tmp_path / "tokens") == finish(tmp_path / "tokens")


# Files that change, and files that cannot be read


@pytest.mark.parametrize("change", [-40, 40])
def test_a_file_that_changed_since_the_plan_is_refused(
    change: int, source: Path, tmp_path: Path
) -> None:
    """A shorter file would lose its last documents, a longer one its new ones."""
    parts = planned(source, tmp_path / "tokens")
    content = (source / "a.jsonl").read_bytes()
    (source / "a.jsonl").write_bytes((content + content)[: len(content) + change])
    with pytest.raises(ValueError, match=r"a\.jsonl: \d+ bytes, but the plan has \d+; restore"):
        tokenize_part(parts[1])


def test_a_file_of_other_bytes_and_equal_size_is_refused(source: Path, tmp_path: Path) -> None:
    parts = planned(source, tmp_path / "tokens")
    tokenize_part(parts[0])
    content = (source / "a.jsonl").read_bytes()
    (source / "a.jsonl").write_bytes(content.replace(b"hen", b"ten"))
    with pytest.raises(ValueError, match=r"a\.jsonl: other bytes than the plan's; restore"):
        tokenize_part(parts[1])
    with pytest.raises(ValueError, match="made with another content of its input files"):
        planned(source, tmp_path / "tokens")
    (source / "copy").write_bytes(content)
    os.replace(source / "copy", source / "a.jsonl")
    assert planned(source, tmp_path / "tokens") == parts
    tokenize_part(parts[1])


def test_a_file_that_changes_under_a_part_is_refused(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = planned(source, tmp_path / "tokens")
    encode = Tokenizer.encode_buffer

    def change(*arguments: Any, **options: Any) -> Any:
        os.truncate(source / "a.jsonl", 5_000)
        return encode(*arguments, **options)

    monkeypatch.setattr(Tokenizer, "encode_buffer", change)
    with pytest.raises(ValueError, match=r"a\.jsonl: 5000 bytes, but the plan has"):
        tokenize_part(parts[1])
    with pytest.raises(ValueError, match="parts are not done"):
        finish(tmp_path / "tokens")


def test_a_file_that_disappears_is_named(source: Path, tmp_path: Path) -> None:
    parts = planned(source, tmp_path / "tokens")
    (source / "a.jsonl").unlink()
    with pytest.raises(FileNotFoundError, match=r"a\.jsonl"):
        tokenize_part(parts[1])


@posix_only
def test_a_link_to_nothing_is_named(source: Path, tmp_path: Path) -> None:
    (source / "c.jsonl").symlink_to(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match=r"c\.jsonl"):
        planned(source, tmp_path / "tokens")


def test_a_broken_file_is_skipped_by_a_plan_too(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and no more")
    pq.write_table(pa.table({"text": ["ten", "men"]}), tmp_path / "b.parquet")
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    manifest = tokenize(Corpus(files, on_bad="skip"), TOKENIZER, tmp_path / "tokens", "megatron")
    assert (manifest["totals"]["documents"], manifest["totals"]["bad"]) == (2, 1)
    assert sum(len(list(part)) for part in Corpus(files, on_bad="skip").parts(9)) == 2


@pytest.mark.parametrize("format", slow_except(["jsonl", "parquet", "arrow"], "jsonl"))
def test_a_fraction_is_of_the_same_documents_for_all_parts(format: str, tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / f"texts.{format}"
    table = pa.table({"text": TEXTS})
    if format == "parquet":
        pq.write_table(table, path, row_group_size=20)
    elif format == "arrow":
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table, 20)
    else:
        path.write_bytes(jsonl(TEXTS))
    found = []
    for part_bytes in (1_000, 10**9):
        folder = tmp_path / str(part_bytes)
        manifest = tokenize(
            Corpus(path), TOKENIZER, folder, "megatron", validation=0.3, part_bytes=part_bytes
        )
        assert (len(manifest["parts"]) > 1) == (part_bytes == 1_000)
        shards = sorted(folder.glob("val_*.bin"))
        found.append(b"".join(shard.read_bytes() for shard in shards))
    assert found[0] == found[1] != b""


# Company


def test_a_part_may_be_done_and_finished_by_others_meanwhile(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = planned(source, tmp_path / "tokens")
    encode = Tokenizer.encode_buffer

    def overtake(*arguments: Any, **options: Any) -> Any:
        monkeypatch.undo()
        list(map(tokenize_part, parts))
        finish(tmp_path / "tokens")
        return encode(*arguments, **options)

    for work in (tokenize_part, lambda part: tokenize_parts([part])):
        monkeypatch.setattr(Tokenizer, "encode_buffer", overtake)
        assert work(parts[0])["documents"] > 0
        assert verify(tmp_path / "tokens", deep=True) == []
        (tmp_path / "tokens" / ".bpetite" / "receipts" / "00000.json").unlink()
        (tmp_path / "tokens" / "manifest.json").unlink()


def test_a_folder_may_be_finished_twice_at_a_time(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serial: Serial
) -> None:
    list(map(tokenize_part, planned(source, tmp_path / "tokens", "nanogpt")))
    real = NewFile.append_file

    def overtake(*arguments: Any) -> None:
        monkeypatch.undo()
        finish(tmp_path / "tokens")
        real(*arguments)

    monkeypatch.setattr(NewFile, "append_file", overtake)
    assert finish(tmp_path / "tokens") == finish(tmp_path / "tokens")
    assert contents(tmp_path / "tokens") == serial("nanogpt")


def test_leftovers_of_a_killed_finish_are_removed(source: Path, tmp_path: Path) -> None:
    list(map(tokenize_part, planned(source, tmp_path / "tokens")))
    finish(tmp_path / "tokens")
    for name in ("new/file", "shards/train_00000.bin", ".bpetite-0123456789abcdef.tmp"):
        path = tmp_path / "tokens" / ".bpetite" / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    tokenize(Corpus(source), TOKENIZER, tmp_path / "tokens", "megatron", part_bytes=4_000)
    hidden = {path.name for path in (tmp_path / "tokens" / ".bpetite").iterdir()}
    assert hidden == {"plan.json", "receipts"}


def test_the_plan_of_a_run_that_started_at_the_same_time_stays(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned(source, tmp_path / "tokens")
    monkeypatch.setattr("bpetite.corpora._folder.Folder._present_plan", lambda _: None)
    with pytest.raises(ValueError, match="made with another end"):
        plan(
            Corpus(source),
            TOKENIZER,
            tmp_path / "tokens",
            "megatron",
            part_bytes=4_000,
            end="<|endoftext|>",
        )
    monkeypatch.undo()
    planned(source, tmp_path / "tokens")


def test_rows_are_counted_by_the_first_plan_only(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every machine plans again, and a corpus may take hours to read."""
    parts = planned(source, tmp_path / "tokens", "olmo")
    assert parts[1].sources[0]["first_row"] > 0
    monkeypatch.setattr("bpetite.corpora._reading.lines_before", None)
    assert planned(source, tmp_path / "tokens", "olmo") == parts


def test_the_process_keeps_its_umask(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads share it, so two changes at a time would last."""
    before = os.umask(0o027)
    try:
        monkeypatch.setattr(os, "umask", None)
        tokenize(Corpus(source), TOKENIZER, tmp_path / "tokens", "megatron", part_bytes=4_000)
    finally:
        monkeypatch.undo()
        os.umask(before)
    if os.name == "posix":
        modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "tokens").glob("train_*")}
        assert modes == {0o640}


@pytest.mark.parametrize("format", ["megatron", "nanogpt"])
def test_names_are_on_disk_before_the_receipt(
    format: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(
        "bpetite.corpora._new_files.sync_folder", lambda folder: synced.append(folder.name)
    )
    tokenize_part(planned(source, tmp_path / "tokens", format)[0])
    assert synced[-2:] == ["tokens" if format == "megatron" else "shards", "receipts"]


def test_only_parts_with_bad_documents_have_a_log(source: Path, tmp_path: Path) -> None:
    lines = (source / "a.jsonl").read_text().splitlines(keepends=True)
    lines[200] = "{}\n"
    (source / "a.jsonl").write_text("".join(lines), "utf-8", newline="\n")
    folder = tmp_path / "tokens"
    tokenize(Corpus(source, on_bad="skip"), TOKENIZER, folder, "megatron", part_bytes=4_000)
    (log,) = (folder / ".bpetite" / "bad").iterdir()
    byte = len("".join(lines[:200]))
    assert json.loads(log.read_text()) == {
        "file": str(source / "a.jsonl"),
        "byte": byte,
        "reason": "no field",
    }


# Executors


@pytest.fixture
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(3) as executor:
        yield executor


def test_an_executor_gives_the_serial_folder(
    threads: Executor, source: Path, tmp_path: Path, serial: Serial
) -> None:
    folder = tmp_path / "tokens"
    tokenize(
        Corpus(source), TOKENIZER, folder, "megatron", part_bytes=4_000, workers=3, executor=threads
    )
    assert contents(folder) == serial()


class Counting(Executor):
    """Does each part when its future is asked for, and counts the parts in flight."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.in_flight = self.most = 0
        self._threads = ThreadPoolExecutor(1)
        self._error = error

    def submit(self, function: Any, /, *arguments: Any, **options: Any) -> Future[Any]:
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)

        def work() -> Any:
            self.in_flight -= 1
            if self._error is not None:
                raise self._error
            return function(*arguments, **options)

        return self._threads.submit(work)


def test_an_executor_has_two_parts_a_worker_at_most(source: Path, tmp_path: Path) -> None:
    executor = Counting()
    parts = planned(source, tmp_path / "tokens")
    tokenize_parts(parts, workers=3, executor=executor)
    assert 1 < executor.most <= 6 < len(parts)


def test_an_error_of_a_part_names_it(source: Path, tmp_path: Path) -> None:
    parts = planned(source, tmp_path / "tokens")
    with pytest.raises(RuntimeError) as caught:
        tokenize_parts(parts[4:5], executor=Counting(RuntimeError("lost")))
    assert caught.value.__notes__ == [f"in part 4 of {tmp_path / 'tokens'}"]


@pytest.mark.parametrize("workers", [0, -1])
def test_a_run_has_a_worker(workers: int, source: Path, tmp_path: Path) -> None:
    parts = planned(source, tmp_path / "tokens")
    with pytest.raises(ValueError, match=f"workers must be positive, got {workers}"):
        tokenize_parts(parts, workers=workers, executor=Counting())


def test_a_broken_executor_ends_the_run(source: Path, tmp_path: Path) -> None:
    broken = Counting(BrokenProcessPool("a worker died"))
    with pytest.raises(BrokenExecutor, match="a worker died") as caught:
        tokenize_parts(planned(source, tmp_path / "tokens"), executor=broken)
    assert caught.value.__notes__ == ["the executor is of no more use; finished parts are kept"]


KILLING = """
import os, signal, sys
from pathlib import Path
from bpetite import Tokenizer
from bpetite.corpora import Corpus, _part, tokenize

source, folder, marks, times = sys.argv[1:]
real = _part.PartWork.written

def written(work, *others):
    for number in range(int(times)):
        mark = Path(marks, f"{work.number}-{number}")
        if work.number == 3 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return real(work, *others)

_part.PartWork.written = written  # in the workers too: each imports this file

if __name__ == "__main__":
    tokenizer = Tokenizer.load(sys.argv[1] + "/../model.json")
    tokenize(Corpus(source), tokenizer, folder, "megatron", part_bytes=4_000, workers=2)
"""


def killing(source: Path, folder: Path, times: int) -> subprocess.CompletedProcess[str]:
    """Tokenize with workers; the worker with part 3 dies, a number of times."""
    marks = source.parent / "marks"
    marks.mkdir()
    return running(KILLING, source, folder, marks, times)


def running(text: str, source: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a program that tokenizes a source with the vocabulary file next to it."""
    TOKENIZER.save(source.parent / "model.json")
    program = source.parent / "program.py"
    program.write_text(text)
    return subprocess.run(
        [sys.executable, program, source, *map(str, arguments)],
        env=variables(),
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


@pytest.mark.slow  # the next test kills workers too
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs POSIX signals")
def test_a_killed_worker_costs_only_its_parts(source: Path, tmp_path: Path, serial: Serial) -> None:
    ended = killing(source, tmp_path / "tokens", times=2)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert contents(tmp_path / "tokens") == serial()


LEAVING = """
import os, signal, sys, time
from bpetite.corpora._run import _Pool

if __name__ == "__main__":
    pool = _Pool(1, None)
    print(pool._executor.submit(os.getpid).result(), flush=True)
    pool._executor.submit(time.sleep, 600)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs POSIX signals")
def test_workers_end_with_a_killed_command(source: Path, tmp_path: Path) -> None:
    """Only then do the pipes end that they share with it, for which `running` waits."""
    ended = running(LEAVING, source, tmp_path / "tokens")
    assert ended.returncode == -signal.SIGKILL
    assert int(ended.stdout) > 0


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs POSIX signals")
def test_a_part_that_kills_its_workers_is_named(source: Path, tmp_path: Path) -> None:
    ended = killing(source, tmp_path / "tokens", times=99)
    assert ended.returncode == 1
    message = ended.stderr.splitlines()[-1]
    assert message.startswith("ChildProcessError: part ")
    assert " failed: 3 workers died while running it or waiting for it: " in message
    assert "; look for a lack of memory, or for a script without " in message
    assert tokenize_part(planned(source, tmp_path / "tokens")[3])["part"] == 3


STARTING = """
import os, signal, sys, time
from multiprocessing.context import SpawnProcess

from bpetite import Tokenizer
from bpetite.corpora import Corpus, tokenize

source, folder = sys.argv[1:]
processes = []
start = SpawnProcess.start

def start_late(process):
    start(process)
    processes.append(process)
    if len(processes) == 2:
        os.kill(processes[0].pid, signal.SIGKILL)
        time.sleep(1)  # the executor ends its processes, but does not know this one yet

SpawnProcess.start = start_late

if __name__ == "__main__":
    tokenizer = Tokenizer.load(sys.argv[1] + "/../model.json")
    tokenize(Corpus(source), tokenizer, folder, "megatron", part_bytes=4_000, workers=2)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs POSIX signals")
def test_a_worker_may_die_while_another_starts(
    source: Path, tmp_path: Path, serial: Serial
) -> None:
    ended = running(STARTING, source, tmp_path / "tokens")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert contents(tmp_path / "tokens") == serial()


# The command line


def test_shares_of_commands_give_the_serial_folder(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serial: Serial
) -> None:
    monkeypatch.chdir(tmp_path)
    TOKENIZER.save("model.json")
    command = ["tokenize", str(source), "--model=model.json", "--output=tokens"]
    command += ["--format=megatron", "--part-bytes=4000"]
    results = [in_process(*command, "--part", f"{number}/3") for number in (2, 1, 3)]
    assert [(result.code, result.err) for result in results] == [(0, [])] * 3
    shares = [json.loads(result.out) for result in results]
    assert [share["part"] for share in shares] == ["2/3", "1/3", "3/3"]
    assert sum(share["documents"] for share in shares) == len(TEXTS)
    finished = in_process("tokenize", "--finish", "tokens")
    assert json.loads(finished.out)["documents"] == len(TEXTS)
    assert contents(tmp_path / "tokens") == serial()


@pytest.mark.parametrize("count", slow_except([1, 3, 50], 3))
def test_counts_of_shares_add_up(
    count: int, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(1, count + 1):
        share = ("--part", f"{number}/{count}", "--output", f"{number}.counts")
        assert in_process("count-pieces", str(source), *share).code == 0
    names = [f"{number}.counts" for number in range(1, count + 1)]
    assert in_process("count-pieces", *names, "--output=all.counts").code == 0
    whole = PieceCounts.from_corpus(Corpus(source))
    assert PieceCounts.load("all.counts") == whole


@pytest.mark.parametrize("share", ["0/2", "3/2", "2", "1/", "a/b", "-1/2"])
def test_a_wrong_share_is_refused(share: str) -> None:
    result = in_process("tokenize", "a", "--model=m", "-o=t", "-f=megatron", f"--part={share}")
    assert result.code == 2
    assert "argument --part: " in result.err[-1]


def test_parts_of_a_corpus_have_its_documents(source: Path) -> None:
    corpus = Corpus(source)
    for part_bytes in (1_000, 5_000, 10**9):
        parts = pickle.loads(pickle.dumps(corpus.parts(part_bytes)))
        assert [text for part in parts for text in part] == TEXTS
        counts = [PieceCounts.from_corpus(part) for part in parts]
        assert sum(counts[1:], counts[0]) == PieceCounts.from_corpus(corpus)


FULL_DISK = """
import resource, sys
from bpetite import Tokenizer
from bpetite.corpora import Corpus, plan, tokenize_part
source, folder, shuffle = sys.argv[1:]
tokenizer = Tokenizer.train("ab ab", 257)
parts = plan(Corpus(source), tokenizer, folder, "megatron", shuffle=int(shuffle) or None)
resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))  # as a full disk, for this process alone
try:
    tokenize_part(parts[0])
except OSError as error:
    print(error.filename)
"""


@posix_only
@pytest.mark.parametrize("shuffle", [0, 1])
def test_an_error_of_a_write_names_a_path(shuffle: int, source: Path, tmp_path: Path) -> None:
    """The system's own error has none."""
    folder = tmp_path / "tokens"
    command = [sys.executable, "-c", FULL_DISK, str(source), str(folder), str(shuffle)]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    assert run.stdout.strip() == str(folder if shuffle else folder / "train_00000.bin")
