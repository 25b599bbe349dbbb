"""Progress of training, and the rate limit of its reports."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

INTERVAL = 0.05
"""Minimum number of seconds between two reports. A progress bar needs no more of them."""


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """The progress of a stage of training.

    `stage` is "counting", which measures `done` and `total` in bytes of UTF-8, or "merging", which
    measures them in merges. `total` is None if it is unknown. The last report of a stage has its
    final `done`. Merging begins with a report of 0, and ends below its total if no pair is left.

    >>> seen = []
    >>> from bpetite import Tokenizer
    >>> tokenizer = Tokenizer.train("ab ab ab", 258, progress=seen.append)
    >>> seen[-1]
    TrainingProgress(stage='merging', done=2, total=2)
    """

    stage: Literal["counting", "merging"]
    done: int
    total: int | None


ProgressCallback = Callable[[TrainingProgress], object]


@dataclass
class Reporter:
    """Reports the progress of one stage to a callback, if there is one."""

    callback: ProgressCallback | None
    stage: Literal["counting", "merging"]
    total: int | None
    before: int = 0
    """The amount done by earlier work, which is added to each report."""
    _next: float = 0.0

    def __post_init__(self) -> None:
        if self.callback is not None and not callable(self.callback):
            raise TypeError(f"progress must be callable, got {type(self.callback).__name__}")

    def report(self, done: int) -> None:
        """Report progress, at most once per INTERVAL."""
        if self.callback is not None and (now := time.monotonic()) >= self._next:
            self._next = now + INTERVAL
            self.tell(done)

    def tell(self, done: int) -> None:
        """Report progress at once."""
        if self.callback is not None:
            self.callback(TrainingProgress(self.stage, self.before + done, self.total))
