"""Runs are sequences of sorted records, which are merged in blocks: in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Protocol

from bpetite._engine import ENGINE
from bpetite._piece_records import NO_TOTALS, RecordBlock, RecordError, Totals, sum_totals

_BLOCK_BYTES = 1 << 20

# Each run on disk that is merged is an open file, with two blocks in memory.
_MAX_RUNS = 64


class Run(Protocol):
    """Sorted records that come in blocks."""

    @property
    def name(self) -> str:
        """The path of the file, for errors."""

    @property
    def start(self) -> int:
        """The offset of the first record in the file."""

    @property
    def weight(self) -> int:
        """The factor of each count."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes: fewer than `size` only at the end."""


OpenRun = Callable[[], AbstractContextManager[Run]]
"""Opens a run, once."""

WriteBlock = Callable[[bytes], object]
"""Writes a block of records."""

WriteRecords = Callable[[WriteBlock], object]
"""Writes all records of a run, by the function that it is given."""


def merge_runs(runs: Sequence[Run], min_count: int, write: WriteBlock) -> Totals:
    """Write the sum of runs in blocks; return its totals.

    Raises ValueError, with name and offset, for records that are not valid or not sorted. Raises
    OverflowError for numbers above 64 bits.
    """
    blocks = [RecordBlock(b"", 0, False, run.weight) for run in runs]
    offsets = [run.start for run in runs]  # in each file, of its block
    totals = NO_TOTALS
    last_piece = b""
    hungry: int | None = 0
    while hungry is not None:
        for number, run in enumerate(runs):
            data, start, is_last, weight = blocks[number]
            left = len(data) - start
            if is_last or (number != hungry and left > _BLOCK_BYTES // 2):
                continue
            size = max(left, _BLOCK_BYTES)  # with small blocks, a long record would cost squares
            new = run.read(size)
            offsets[number] += start
            blocks[number] = RecordBlock(data[start:] + new, 0, len(new) < size, weight)
        try:
            merged = ENGINE.merge_records(blocks, min_count, last_piece, totals.text_bytes)
        except RecordError as error:
            offset = offsets[error.block] + error.offset
            raise ValueError(
                f"{runs[error.block].name}: {error} at byte {offset}; the file is damaged"
            ) from None
        write(merged.records)
        totals = sum_totals(totals, merged.totals)
        last_piece, hungry = merged.last_piece, merged.hungry
        for number, start in enumerate(merged.starts):
            blocks[number] = blocks[number]._replace(start=start)
    return totals


def merge_all(runs: Sequence[OpenRun], min_count: int, write: WriteBlock) -> Totals:
    """Open runs, and do what `merge_runs` does."""
    with ExitStack() as stack:
        return merge_runs([stack.enter_context(run()) for run in runs], min_count, write)


class MemoryRun(BytesIO):
    """A run of records in memory."""

    name = "the counts"
    start = 0
    weight = 1


class TemporaryRun:
    """A run in a temporary file beside the output. A killed process leaves nothing on Linux."""

    start = 0
    weight = 1

    def __init__(self, output: str | os.PathLike[str]) -> None:
        self.name = os.fspath(output)
        folder = Path(os.path.realpath(output)).parent
        try:
            import tempfile  # imported here, since few programs need it

            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - close closes it
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.name) from None
        self.read = self._file.read

    def close(self) -> None:
        """Close the file. Bytes that `fill` could not write would fail again, without a name."""
        with suppress(OSError):
            self._file.close()

    def fill(self, write_records: WriteRecords) -> None:
        """Write the records of the run, and go back to the first."""
        try:
            write_records(self._file.write)
            self._file.seek(0)
        except OSError as error:
            # From Python 3.14 on, a later close would write again, and raise without the name.
            with suppress(OSError):
                self.close()
            raise OSError(error.errno, error.strerror, error.filename or self.name) from None


def add_run(
    runs: Sequence[OpenRun],
    write_records: WriteRecords,
    output: str | os.PathLike[str],
    stack: ExitStack,
) -> list[OpenRun]:
    """Return runs with one more, which `write_records` writes. `stack` closes it."""
    run = stack.enter_context(closing(TemporaryRun(output)))
    run.fill(write_records)
    return few_runs([*runs, partial(closing, run)], output, stack)


def in_one_block(records: bytes) -> WriteRecords:
    """Return the writer of records that are in memory."""
    return lambda write: write(records)


def few_runs(
    runs: Sequence[OpenRun], output: str | os.PathLike[str], stack: ExitStack
) -> list[OpenRun]:
    """Return runs that can be open at the same time, and have the same sum."""
    if len(runs) <= _MAX_RUNS:
        return list(runs)
    first, rest = runs[:_MAX_RUNS], runs[_MAX_RUNS:]
    return add_run(rest, lambda write: merge_all(first, 1, write), output, stack)
