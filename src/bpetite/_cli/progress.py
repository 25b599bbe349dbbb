"""The displays of progress: none, lines for a log, and bars for a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bpetite._cli.common import say

if TYPE_CHECKING:
    from tqdm import tqdm

    from bpetite import TrainingProgress
    from bpetite.corpora import Batch, Corpus, TokenizeProgress

_LINE_INTERVAL = 5.0  # seconds
_TOKENIZE_LINE_INTERVAL = 30.0  # seconds; a run may take days


def display(quiet: bool) -> Display:
    """Return the display for the user's wish and for standard error."""
    if quiet:
        return Display()
    return _Bars() if sys.stderr.isatty() else _Lines()


class Display:
    """Shows nothing; its subclasses show progress."""

    def show(self, progress: TrainingProgress) -> None:
        """Show the progress of a stage."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


class _Lines(Display):
    """Prints a line every few seconds, and one at the end of a stage."""

    def __init__(self) -> None:
        self._last: TrainingProgress | None = None
        self._stage_start = self._next_line = 0.0

    def show(self, progress: TrainingProgress) -> None:
        now = time.monotonic()
        if self._last is None or self._last.stage != progress.stage:
            self._end_stage(now)
            self._stage_start = now
            self._next_line = now + _LINE_INTERVAL
        self._last = progress
        if now >= self._next_line:
            self._next_line = now + _LINE_INTERVAL
            self._print(progress, now)

    def __exit__(self, *error: object) -> None:
        if error[0] is None:
            self._end_stage(time.monotonic())

    def _end_stage(self, now: float) -> None:
        if self._last is not None:
            self._print(self._last, now, ended=True)

    def _print(self, progress: TrainingProgress, now: float, ended: bool = False) -> None:
        stage, done, total = progress.stage, progress.done, progress.total
        rate = done / max(now - self._stage_start, 1e-3)
        shown = _amount(stage, done)
        if total is not None:
            # "1 of 44 merges", but "332 B of 1.4 kB".
            shown = f"{f'{done:,}' if stage == 'merging' else shown} of {_amount(stage, total)}"
        line = f"{stage}: {shown}, {_amount(stage, rate)}/s"
        if total is not None and 0 < done < total and not ended:
            line += f", {(total - done) / rate:.0f} s left"
        say(line)


def _amount(stage: str, amount: float) -> str:
    """Return a number of bytes or merges as people read it.

    >>> _amount("counting", 332), _amount("counting", 12_345_678), _amount("merging", 3840)
    ('332 B', '12.3 MB', '3,840 merges')
    """
    if stage == "merging":
        return f"{amount:,.0f} merge{'' if amount == 1 else 's'}"
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if amount >= size:
            return f"{amount / size:.1f} {unit}"
    return f"{amount:.0f} B"


class _Bars(Display):
    def __init__(self) -> None:
        self._bar: tqdm[Any] | None = None
        self._stage = ""

    def show(self, progress: TrainingProgress) -> None:
        if self._bar is None or self._stage != progress.stage:
            self.__exit__()
            self._stage = progress.stage
            self._bar = _new_bar(progress)
        self._bar.update(progress.done - self._bar.n)

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()


class TokenizeBar:
    """Shows bytes of input, text and ids per second: a bar on a terminal, lines in a log."""

    def __init__(self, quiet: bool) -> None:
        self._shows = not quiet
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._bar: tqdm[Any] | None = None
        self._start = time.monotonic()
        self._next_line = self._start + _TOKENIZE_LINE_INTERVAL

    def show(self, progress: TokenizeProgress) -> None:
        if not self._shows:
            return
        now = time.monotonic()
        seconds = max(now - self._start, 1e-3)
        text, ids = progress.text_bytes / 1e6 / seconds, progress.ids / 1e6 / seconds
        rates = f"{text:.0f} MB/s of text, {ids:.1f}M ids/s"
        if not self._is_terminal:
            if now >= self._next_line:
                self._next_line = now + _TOKENIZE_LINE_INTERVAL
                done, total = progress.done_bytes / 1e6, progress.total_bytes / 1e6
                say(f"tokenizing: {done:.1f} MB of {total:.1f} MB, {rates}")
            return
        if self._bar is None:
            from tqdm import tqdm

            self._bar = tqdm(total=progress.total_bytes, unit="B", unit_scale=True)
        self._bar.set_postfix_str(rates, False)
        self._bar.update(progress.done_bytes - self._bar.n)

    def __enter__(self) -> TokenizeBar:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()


_BAR_DELAY = 1.0  # seconds


class ByteBar:
    """Shows on a terminal how many bytes of input are read, unless the work ends soon."""

    def __init__(self, quiet: bool, total: int | None = None) -> None:
        self._shows = not quiet and sys.stderr.isatty()
        self.total: int | None = total
        """The number of bytes to read; None if it is unknown."""
        self._done = 0
        self._bar: tqdm[Any] | None = None
        self._start = time.time()

    def advance(self, size: int) -> None:
        self._done += size
        if not self._shows or time.time() - self._start < _BAR_DELAY:
            return
        if self._bar is None:
            from tqdm import tqdm

            self._bar = tqdm(total=self.total, unit="B", unit_scale=True)
            self._bar.start_t = self._start
        self._bar.update(self._done - self._bar.n)

    def __enter__(self) -> ByteBar:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()


class Watched:
    """A corpus whose progress a bar shows."""

    def __init__(self, corpus: Corpus, bar: ByteBar) -> None:
        self._corpus = corpus
        self._bar = bar

    def batches(self) -> Iterator[Batch]:
        """Yield the batches of the corpus, and show nothing."""
        return self._corpus.batches()

    def segments(self) -> Iterator[tuple[Batch, bool]]:
        done = 0
        for segment in self._corpus.segments():
            stored = self._corpus.report.stored_bytes
            self._bar.advance(stored - done)
            done = stored
            yield segment


def stored_bytes(corpora: list[Corpus]) -> int | None:
    """Return the size of all files of some corpora; None if one of them is a pipe."""
    sizes = [file.size for corpus in corpora for file in corpus.files]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _new_bar(progress: TrainingProgress) -> tqdm[Any]:
    from tqdm import tqdm  # imported here because no other verb needs it

    unit, scale = ("B", True) if progress.stage == "counting" else (" merges", False)
    return tqdm(desc=progress.stage, total=progress.total, unit=unit, unit_scale=scale)
