"""A file that keeps the merges that training has learnt so far."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bpetite._merge_rules import MergeRules, extended
from bpetite._vocabulary import Pair, Vocabulary
from bpetite.formats import _registry

Takes = Callable[[int, int], bool]

INTERVAL_SECONDS = 10.0
"""The least time between two writes of a file."""


class Checkpoint:
    """The vocabulary from which training goes on, and the file in which it is kept, if any.

    Training in steps gives the vocabulary of training in one go. So the file holds nothing but the
    merges so far.
    """

    def __init__(self, path: str | None, start: Vocabulary) -> None:
        """Raises ValueError for a file that other training has written."""
        self._path = path
        self.vocabulary = start
        if path is None or not os.path.exists(path):
            return
        found, _ = _registry.read(path, "bpetite", None, None)
        if found != extended(start, found.merges[len(start.merges) :]):
            raise ValueError(
                f"{path}: the checkpoint is of another base, another pattern or other required "
                "tokens; give the arguments that it was written with, or another path"
            )
        self.vocabulary = found

    @contextmanager
    def saving(self, rules: MergeRules | None) -> Iterator[Takes | None]:
        """Give the function that training asks whether to merge a pair; None if it need not ask.

        While training asks it, the merges are saved from time to time, and once at the end.
        """
        allows = None if rules is None else rules.takes
        if self._path is None:
            yield allows
            return
        merges: list[Pair] = []
        next_save = time.monotonic() + INTERVAL_SECONDS

        def takes(left: int, right: int) -> bool:
            nonlocal next_save
            if allows is not None and not allows(left, right):
                return False
            merges.append((left, right))
            if time.monotonic() >= next_save:
                self._save(merges)
                next_save = time.monotonic() + INTERVAL_SECONDS
            return True

        try:
            yield takes
        finally:
            self._save(merges)

    def _save(self, merges: list[Pair]) -> None:
        assert self._path is not None
        _registry.write(extended(self.vocabulary, merges), self._path, True, "bpetite")
