"""Tokenizing a corpus to a folder: it is planned in parts, which are written, then joined."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import chain
from threading import Thread
from typing import Any, NamedTuple

from bpetite import Tokenizer
from bpetite.corpora import _storage as storage
from bpetite.corpora._corpus import Corpus
from bpetite.corpora._folder import (
    MANIFEST,
    PLAN,
    Counts,
    Folder,
    Manifest,
    Plan,
    Receipt,
    ShardFacts,
    foreign_receipts,
)
from bpetite.corpora._part import PartWork, Step, tokenize_part
from bpetite.corpora._plan import PART_BYTES, Part, plan
from bpetite.corpora._splits import TRAINING, VALIDATION

_MAX_WORKERS = 61 if os.name == "nt" else sys.maxsize
"""Windows lets Python wait for 63 objects at a time, two of which are not processes."""

MAX_DEATHS = 3
"""The run ends when this many workers have died while they ran a part or waited for it."""


class TokenizeProgress(NamedTuple):
    """How far `tokenize` has come."""

    done_bytes: int
    """The bytes of the input files that are done, as they are on disk."""
    total_bytes: int
    text_bytes: int
    ids: int


Progress = Callable[[TokenizeProgress], object]


def tokenize(
    corpus: Corpus,
    tokenizer: Tokenizer,
    folder: str | os.PathLike[str],
    format: str,
    *,
    end: str | None = None,
    begin: str | None = None,
    shard_tokens: int | None = None,
    validation: float | int = 0,
    shuffle: int | None = None,
    part_bytes: int = PART_BYTES,
    workers: int = 1,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write the ids of a corpus to token files in a folder, and return the folder's manifest.

    The files depend on the corpus and the settings alone. A run that was interrupted or killed
    goes on where it was: finished parts are skipped, and the result has the same bytes.

    - `format`: megatron, datatrove, llmc, nanogpt, olmo or parquet. It decides the dtype.
    - `end`, `begin`: special literals to write after and before each document. For formats that do
      not store where documents end, the default is the vocabulary's end-of-text token. Special
      literals in the text itself are ordinary text.
    - `shard_tokens`: a new file starts before the current one exceeds this number of ids.
    - `validation`: a fraction of the documents, or a number of first documents, for the split
      `val`. With a fraction, the split of a document depends on its file and row alone.
    - `shuffle`: a seed for the order of documents within each part.
    - `part_bytes`: the size of a part. Large files are divided, small ones are put together.
    - `workers`: the number of processes. Each reads in one thread and encodes in another. As always
      with several processes in Python, a script needs `if __name__ == "__main__":`.
    - `executor`: runs the parts instead of processes of this run: any executor of the kind of
      `concurrent.futures`, such as a Dask client's. It gets at most two parts a worker at a time.
      Its workers must see the folder and the files of the corpus under the same paths.

    If a worker process dies, its parts are done again. `plan` has what other schedulers need.

    Raises ValueError if the settings do not fit, or the folder belongs to another run; OSError from
    the system; ChildProcessError, with the number of the part, if workers die again and again; and
    the errors of reading the corpus.
    """
    parts = plan(
        corpus,
        tokenizer,
        folder,
        format,
        end=end,
        begin=begin,
        shard_tokens=shard_tokens,
        validation=validation,
        shuffle=shuffle,
        part_bytes=part_bytes,
    )
    if Folder(folder).manifest() is None:
        tokenize_parts(parts, workers=workers, executor=executor, progress=progress)
    return finish(folder)


def finish(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Write and return the manifest of a folder whose parts are done.

    A complete folder stays as it is. The docstring of `plan` has an example. Raises ValueError if a
    part has no receipt, and FileNotFoundError if the folder has no plan.
    """
    place = Folder(folder)
    with place.unless_made(MANIFEST):
        if place.manifest() is None:
            _write_manifest(place)
    place.remove_leftovers()
    return place.read(MANIFEST, Manifest).to_json()


def _write_manifest(folder: Folder) -> None:
    """Write the manifest of a folder, after joining the shards of a format of one file."""
    plan = folder.read(PLAN, Plan)
    receipts = folder.receipts()
    for _, problem in foreign_receipts(plan, receipts):
        raise ValueError(f"{folder}: {problem}")
    count = len(plan.parts)
    missing = [number for number in range(count) if number not in receipts]
    files = [*chain.from_iterable(receipt.files for receipt in receipts.values())]
    if not missing and not folder.has(files):
        missing = [number for number, its in receipts.items() if not folder.has(its.files)]
    if missing:
        raise ValueError(
            f"{folder}: {len(missing)} of {count} parts are not done, the first is part "
            f"{missing[0]}; do them as before, and finished parts are skipped"
        )
    manifest = Manifest.of(plan, receipts)
    if plan.settings.token_format.one_file:
        manifest = _joined(folder, manifest)
    folder.write(MANIFEST, manifest)


def _joined(folder: Folder, manifest: Manifest) -> Manifest:
    """Join the shards of each split to one file, for readers that take one file."""
    extension = manifest.settings.token_format.extension
    joined = []
    files = folder.new_files()
    try:
        for split in (TRAINING, VALIDATION):
            shards = [shard for shard in manifest.shards if shard.split == split]
            if shards:
                new = files.create(split + extension)
                for shard in shards:
                    new.append_file(folder.path / (shard.name + extension))
                documents, ids = (
                    sum(getattr(shard, total) for shard in shards) for total in ("documents", "ids")
                )
                joined.append(ShardFacts(split, split, documents, ids, [new.facts]))
        files.put_in_place()
    finally:
        files.discard()
    first, *others = manifest.parts
    parts = [
        replace(first, shards=[shard.name for shard in joined]),
        *(replace(part, shards=[]) for part in others),
    ]
    return replace(manifest, parts=parts, shards=joined)


# Many parts


def tokenize_parts(
    parts: Sequence[Part],
    *,
    workers: int = 1,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> dict[str, int]:
    """Do some parts of `plan` as `tokenize` does all; return the sums of their receipts.

    For one machine of several: machine i of n does `plan(...)[i::n]`.

    >>> tokenize_parts([])
    {'documents': 0, 'empty': 0, 'bad': 0, 'text_bytes': 0, 'ids': 0}

    Raises what `tokenize` raises.
    """
    if workers < 1:
        raise ValueError(f"workers must be positive, got {workers}")
    tracker = _Tracker(parts, progress)
    if executor is None and workers == 1:
        _tokenize_here(parts, tracker)
    else:
        _tokenize_by_workers(parts, workers, executor, tracker)
    works = map(PartWork.of, parts)
    receipts = [work.folder.found(work.name, Receipt) for work in works]
    return {**vars(Counts.total(filter(None, receipts)))}


class _Tracker:
    """Adds up the progress of parts."""

    def __init__(self, parts: Sequence[Part], report: Progress | None) -> None:
        self._total_bytes = sum(part.bytes for part in parts)
        self._report = report
        self._done = [0, 0, 0]

    def part(self, part: Part) -> Callable[[Step], None]:
        size = part.bytes
        last = [0, 0, 0]

        def advance(step: Step) -> None:
            bytes_read, *others = step
            now = (min(bytes_read, size), *others)  # a block may reach further
            for i in range(3):
                self._done[i] += now[i] - last[i]
                last[i] = now[i]
            self.show()

        return advance

    def end(self, part: Part, text_bytes: int, ids: int) -> None:
        """Count a part that is done, without what was counted of it before."""
        self.part(part)((part.bytes, text_bytes, ids))

    def show(self) -> None:
        if self._report is not None:
            done_bytes, text_bytes, ids = self._done
            self._report(TokenizeProgress(done_bytes, self._total_bytes, text_bytes, ids))


def _tokenize_here(parts: Sequence[Part], tracker: _Tracker) -> None:
    """Do the parts in this process. Writing one to disk overlaps with encoding the next."""
    placing: Future[None] | None = None
    try:
        for part in parts:
            work = PartWork.of(part)
            if (receipt := work.receipt()) is not None:
                tracker.end(part, receipt.counts.text_bytes, receipt.counts.ids)
                continue
            advance = tracker.part(part)
            with (
                work.folder.unless_made(work.name),
                closing(work.written(work.tokenizer())) as steps,
            ):
                for step in steps:
                    advance(step)
            try:
                if placing is not None:
                    placing.result()
            except BaseException:
                work.discard()
                raise
            placing = _placing(work)
        if placing is not None:
            placing.result()
    finally:
        if placing is not None:
            wait([placing])


def _placing(work: PartWork) -> Future[None]:
    """Place a part in a thread; at once in a browser, which has no threads."""
    future: Future[None] = Future()

    def place() -> None:
        try:
            with work.folder.unless_made(work.name):
                work.placed()
            future.set_result(None)
        except BaseException as error:
            future.set_exception(error)

    try:
        Thread(target=place).start()
    except RuntimeError:
        place()
    return future


def _tokenize_by_workers(
    parts: Sequence[Part], workers: int, executor: Executor | None, tracker: _Tracker
) -> None:
    """Do the parts in several processes. An error of a part stops all; a dead worker does not."""
    waiting = deque(parts)
    deaths: Counter[int] = Counter()
    with _Pool(workers, executor) as pool:
        while waiting or pool.running:
            while waiting and len(pool.running) < 2 * workers:
                pool.submit(waiting.popleft())
            lost = []
            for part, future in pool.completed():
                try:
                    receipt = future.result()
                    tracker.end(part, receipt["text_bytes"], receipt["ids"])
                except BrokenExecutor as error:
                    lost.append(part)
                    cause = error
                except Exception as error:
                    error.add_note(f"in part {part.number} of {part.folder}")
                    raise
            if lost:
                lost += pool.restart(cause)
                deaths.update(part.number for part in lost)
                number, most = deaths.most_common(1)[0]
                if most == MAX_DEATHS:
                    part = next(part for part in lost if part.number == number)
                    raise ChildProcessError(
                        f"part {number} failed: {most} workers died while running it or waiting "
                        f"for it: {_described(part)}; look for a lack of memory, or for a script "
                        'without `if __name__ == "__main__":`'
                    ) from cause
                waiting.extendleft(sorted(lost, reverse=True))


def _described(part: Part) -> str:
    first = part.sources[0]
    others = f" and {len(part.sources) - 1} more files" if len(part.sources) > 1 else ""
    return f"{storage.public(first['path'])} from {first['start']}{others}"


@contextmanager
def _interrupts_kept_from_processes() -> Iterator[None]:
    """Keep Ctrl-C from processes that start meanwhile, for this process ends them.

    A terminal sends Ctrl-C to all processes, but they inherit a mask.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_worker() -> None:
    """Set up a process of the pool. It ends when the process that made it does, however that is."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        Thread(target=_end_with, args=(parent,), daemon=True).start()
    if not hasattr(signal, "pthread_sigmask"):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # else each worker prints a traceback


def _end_with(process: multiprocessing.process.BaseProcess) -> None:
    process.join()
    os.kill(os.getpid(), signal.SIGTERM)


class _Pool:
    """Runs parts by an executor of the user's, or by processes of its own."""

    def __init__(self, workers: int, executor: Executor | None) -> None:
        self._workers = workers
        self._is_own = executor is None
        self._processes: set[multiprocessing.process.BaseProcess] = set()
        self._executor = executor or self._new()
        self.running: dict[Future[dict[str, Any]], Part] = {}

    def _new(self) -> Executor:
        from concurrent.futures import ProcessPoolExecutor  # in a browser, the import fails

        # A forked process would share locks with the threads of this one.
        spawn = multiprocessing.get_context("spawn")
        workers = min(self._workers, _MAX_WORKERS)
        return ProcessPoolExecutor(workers, spawn, _begin_worker)

    def submit(self, part: Part) -> None:
        others = {*multiprocessing.active_children()}
        try:
            with _interrupts_kept_from_processes():
                self.running[self._executor.submit(tokenize_part, part)] = part
        except BrokenExecutor as error:  # its other parts have the same error
            failed: Future[dict[str, Any]] = Future()
            failed.set_exception(error)
            self.running[failed] = part
        finally:
            if self._is_own:
                self._processes |= {*multiprocessing.active_children()} - others

    def completed(self) -> list[tuple[Part, Future[dict[str, Any]]]]:
        """Wait for a part; return the parts that ended."""
        done = wait(self.running, return_when=FIRST_COMPLETED).done
        return [(self.running.pop(future), future) for future in done]

    def restart(self, cause: BrokenExecutor) -> list[Part]:
        """Replace own processes after one has died; return the parts that were lost with them."""
        if not self._is_own:
            cause.add_note("the executor is of no more use; finished parts are kept")
            raise cause
        lost = [*self.running.values()]
        self.running.clear()
        self._terminate()
        self._executor = self._new()
        return lost

    def _terminate(self) -> None:
        """End the own processes.

        An executor ends them too when one dies, but Python 3.11 forgets a process that starts just
        then, and would wait for it forever.
        """
        for process in self._processes & {*multiprocessing.active_children()}:
            process.terminate()
        self._executor.shutdown(cancel_futures=True)
        self._processes.clear()

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for future in self.running:
            future.cancel()
        if self._is_own and kind is not None:
            self._terminate()
        elif self._is_own:
            self._executor.shutdown(cancel_futures=True)
