"""Tell how far training is, often enough for a bar and too seldom to slow it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

INTERVAL = 0.05
"""Seconds between two calls of the callback."""


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """How far a stage of training is.

    `stage` is "counting" (of pieces; `done` and `total` in bytes of UTF-8) or "merging" (`done`
    and `total` in merges). `total` is None where it is not known. A stage ends with one last call
    that has the final `done`; merging begins with a call whose `done` is 0, and may end below its
    total, when no pair is left.

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


class Reporter:
    """Calls back at most every few hundredths of a second, and once at the end of a stage."""

    def __init__(
        self,
        callback: ProgressCallback | None,
        stage: Literal["counting", "merging"],
        total: int | None,
    ) -> None:
        self._callback = callback
        self._stage = stage
        self._total = total
        self._next = 0.0

    def report(self, done: int) -> None:
        """Say that `done` is done, if it is time to."""
        if self._callback is not None and (now := time.monotonic()) >= self._next:
            self._next = now + INTERVAL
            self.tell(done)

    def tell(self, done: int) -> None:
        """Say that `done` is done, whenever the last time was."""
        if self._callback is not None:
            self._callback(TrainingProgress(self._stage, done, self._total))
