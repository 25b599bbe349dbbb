"""A corpus in, a folder of token files out: planned in parts, each written whole, then finished."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    wait,
)
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bpetite import Tokenizer
from bpetite.corpora import _manifest as manifest
from bpetite.corpora import _storage as storage
from bpetite.corpora._corpus import Corpus
from bpetite.corpora._new_files import NewFiles, remove_leftovers
from bpetite.corpora._part import Advance, Work, done_by_others, placed, tokenize_part, written
from bpetite.corpora._plan import PART_BYTES, UNJOINED, Part, plan
from bpetite.corpora._shards import TRAINING, VALIDATION
from bpetite.corpora._threads import thread_pool
from bpetite.corpora._token_files import FORMATS

_MAX_WORKERS = 61 if os.name == "nt" else sys.maxsize
"""The most processes that Python waits for at a time; Windows allows 63 objects."""

MAX_DEATHS = 3
"""The run ends when this number of workers have died that had a part, or would have had it next."""


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
    - `end`, `begin`: literals of special tokens to write behind or before each document. If a
      format does not store where documents end, the end-of-text token of the vocabulary is the
      default. Special literals in the text itself are ordinary text.
    - `shard_tokens`: a new file starts before the current one exceeds this number of ids.
    - `validation`: a fraction of the documents, or the number of the first ones, for a split of
      their own. A fraction depends on file and row of a document alone.
    - `shuffle`: a seed for the order of documents within each part.
    - `part_bytes`: the size of a part. Large files are divided, small ones are put together.
    - `workers`: the number of processes. Each has a thread that reads beside one that encodes. A
      script that asks for several needs `if __name__ == "__main__":`, as for all of Python's.
    - `executor`: what runs the parts instead of own processes: any executor of the kind of
      `concurrent.futures`, such as that of a Dask client. It has at most two parts a worker at a
      time. Its workers must see the folder and the files of the corpus under the same paths.

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
    if finished(storage.located_folder(folder)) is None:
        tokenize_parts(parts, workers=workers, executor=executor, progress=progress)
    return finish(folder)


def finished(folder: Path) -> dict[str, Any] | None:
    """Return the manifest of a complete folder, None if parts are missing."""
    try:
        return manifest.read(folder, manifest.MANIFEST)
    except FileNotFoundError:
        return None


def finish(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Write and return the manifest of a folder whose parts are done.

    A complete folder stays as it is. The docstring of `plan` has an example. Raises ValueError if a
    part has no receipt, and FileNotFoundError if the folder has no plan.
    """
    folder = storage.located_folder(folder)
    try:
        if finished(folder) is None:
            _write_manifest(folder)
    except FileNotFoundError:
        # If another process finished the folder meanwhile, it removed files that this one needs.
        if finished(folder) is None:
            raise
    storage.remove_folder(folder / UNJOINED)
    remove_leftovers(folder)
    return manifest.read(folder, manifest.MANIFEST)


def _write_manifest(folder: Path) -> None:
    """Write the manifest of a folder, after joining the shards of a format of one file."""
    document = manifest.read(folder, manifest.PLAN)
    receipts = manifest.receipts(folder)
    for problem in manifest.foreign_receipts(document, receipts):
        raise ValueError(f"{folder}: {problem}")
    count = len(document["parts"])
    missing = [number for number in range(count) if number not in receipts]
    if missing:
        raise ValueError(
            f"{folder}: {len(missing)} of {count} parts are not done, the first is part "
            f"{missing[0]}; do them as before, and finished parts are skipped"
        )
    if FORMATS[document["format"]].one_file:
        receipts = _joined(folder, document, receipts)
    manifest.write(folder, manifest.MANIFEST, manifest.complete(document, receipts))


def _joined(
    folder: Path, plan: dict[str, Any], receipts: dict[int, dict[str, Any]]
) -> dict[int, dict[str, Any]]:
    """Join the shards of each split to one file, for readers that take one file."""
    format = FORMATS[plan["format"]]
    shards = [shard for receipt in receipts.values() for shard in receipt["shards"]]
    joined = []
    files = NewFiles(folder)
    try:
        for split in (TRAINING, VALIDATION):
            its_shards = [shard for shard in shards if shard["split"] == split]
            if its_shards:
                new = files.create(split + format.extension)
                for shard in its_shards:
                    new.append_file(folder / (shard["name"] + format.extension))
                totals = {
                    key: sum(shard[key] for shard in its_shards) for key in ("documents", "ids")
                }
                joined.append(
                    {"name": split, "split": split, **totals, "files": [new.facts._asdict()]}
                )
        files.put_in_place()
    finally:
        files.discard()
    first, *others = receipts.items()
    return {
        first[0]: {**first[1], "shards": joined},
        **{number: {**receipt, "shards": []} for number, receipt in others},
    }


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
    return manifest.totals(Work.of(part).receipt() or {} for part in parts)


class _Tracker:
    """Adds up the progress of parts."""

    def __init__(self, parts: Sequence[Part], report: Progress | None) -> None:
        self._total_bytes = sum(part.bytes for part in parts)
        self._report = report
        self._done = [0, 0, 0]

    def part(self, part: Part) -> Advance:
        """Return what a part calls with the bytes it has read, its bytes of text and its ids."""
        size = part.bytes
        last = [0, 0, 0]

        def advance(bytes_read: int, *others: int) -> None:
            now = (min(bytes_read, size), *others)  # a block may reach further
            for i in range(3):
                self._done[i] += now[i] - last[i]
                last[i] = now[i]
            self.show()

        return advance

    def end(self, part: Part, receipt: dict[str, Any]) -> None:
        """Count a part that is done, without what was counted of it before."""
        self.part(part)(part.bytes, receipt["text_bytes"], receipt["ids"])

    def show(self) -> None:
        """Report the progress of all parts together."""
        if self._report is not None:
            done_bytes, text_bytes, ids = self._done
            self._report(TokenizeProgress(done_bytes, self._total_bytes, text_bytes, ids))


def _tokenize_here(parts: Sequence[Part], tracker: _Tracker) -> None:
    """Do the parts in this process. Writing one to disk overlaps with encoding the next."""
    with thread_pool(1) as background:
        placing: Future[dict[str, Any]] | None = None
        for part in parts:
            work = Work.of(part)
            if (receipt := work.receipt()) is not None:
                tracker.end(part, receipt)
                continue
            try:
                result = written(work, work.tokenizer(), tracker.part(part))
            except FileNotFoundError:
                done_by_others(work)
                continue
            try:
                if placing is not None:
                    placing.result()
            except BaseException:
                result[1].discard()
                raise
            placing = background.submit(_placed, *result)
        if placing is not None:
            placing.result()


def _placed(work: Work, *result: Any) -> dict[str, Any]:
    """Put the files of a part in place, unless others did the part meanwhile."""
    try:
        return placed(work, *result)
    except FileNotFoundError:
        return done_by_others(work)


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
                    tracker.end(part, future.result())
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
                        f"{most} workers died that had part {number}, or would have had it next: "
                        f"{_described(part)}; look for a lack of memory, or for a script "
                        'without `if __name__ == "__main__":`'
                    ) from cause
                waiting.extendleft(sorted(lost, reverse=True))


def _described(part: Part) -> str:
    """Return the sources of a part for a message."""
    first = part.sources[0]
    others = f" and {len(part.sources) - 1} more files" if len(part.sources) > 1 else ""
    return f"{storage.public(first['path'])} from {first['start']}{others}"


@contextmanager
def _interrupts_kept_from_processes() -> Iterator[None]:
    """Let processes that start meanwhile inherit a mask: a terminal sends Ctrl-C to them too.

    This process ends them.
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
    """Set up a process of the pool."""
    if not hasattr(signal, "pthread_sigmask"):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # else each worker prints a traceback


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
        """Start a part."""
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

        An executor ends them too when one dies, but Python 3.11 forgets one that starts just then,
        and would wait for it for ever.
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
