"""A file that keeps the merges that training has learnt so far."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from bpetite._merge_rules import MergeOptions, MergeRules, extended
from bpetite._vocabulary import Pair, Vocabulary
from bpetite.formats import _registry

Takes = Callable[[int, int], bool]

INTERVAL_SECONDS = 10.0
"""The least time between two writes of a file."""

_KEY = "training"
"""The setting of the file that says which training it is of."""


class Checkpoint:
    """The vocabulary from which training goes on, and the file in which it is kept, if any.

    Training in steps gives the vocabulary of training in one go. So the file is a vocabulary: that
    of the merges so far.
    """

    def __init__(self, path: str | None, start: Vocabulary, options: MergeOptions) -> None:
        """Write the file, or read it.

        Raises ValueError for a file that other training has written.
        """
        self._path = path
        self._about: dict[str, Any] = {"rules": options.described(), "pieces": None}
        self.vocabulary = start
        if path is None:
            return
        if not os.path.exists(path):
            self._write(start)
            return
        found, _ = _registry.read(path, "bpetite", None, None)
        about = json.loads(found.settings.get(_KEY, "null"))
        found = replace(found, settings=start.settings, native=found.native)
        is_same = found == extended(start, found.merges[len(start.merges) :])
        if not is_same or about is None or about["rules"] != self._about["rules"]:
            raise ValueError(
                f"{path}: the checkpoint is of another base, another pattern or other rules; give "
                "the arguments that it was written with, or another path"
            )
        self._about = about
        self.vocabulary = found

    @property
    def has_file(self) -> bool:
        """Whether the merges are kept in a file."""
        return self._path is not None

    def check_pieces(self, records: Iterable[bytes]) -> None:
        """Raise ValueError unless the piece counts of the texts are those of the file."""
        import hashlib  # imported here, since few programs need it

        hashes = [hashlib.sha256(each).hexdigest() for each in records]
        if self._about["pieces"] not in (None, hashes):
            raise ValueError(
                f"{self._path}: the checkpoint is of other texts; give the texts that it was "
                "written with, or another path"
            )
        self._about["pieces"] = hashes

    @contextmanager
    def saving(self, rules: MergeRules | None) -> Iterator[Takes | None]:
        """Give the function that training asks whether to merge a pair; None if it need not ask.

        Meanwhile the merges are saved from time to time, and once at the end.
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
        try:
            self._write(extended(self.vocabulary, merges))
        except OSError as error:  # the merges are still in memory
            warnings.warn(
                f"the checkpoint was not written, and training goes on without: {error}",
                RuntimeWarning,
                stacklevel=2,
            )

    def _write(self, vocabulary: Vocabulary) -> None:
        assert self._path is not None
        settings = {**vocabulary.settings, _KEY: json.dumps(self._about)}
        vocabulary = replace(vocabulary, settings=settings)
        _registry.write(vocabulary, self._path, True, "bpetite")
