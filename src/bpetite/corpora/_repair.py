"""Repair of a token folder: what is damaged is removed, and `tokenize` writes it again."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from bpetite import Tokenizer
from bpetite.corpora import _storage as storage
from bpetite.corpora._folder import (
    MANIFEST,
    PLAN,
    RECEIPTS,
    UNJOINED,
    VOCABULARY,
    Folder,
    Manifest,
    Plan,
    Receipt,
    is_file_name,
    receipt_number,
)
from bpetite.corpora._splits import TRAINING, VALIDATION
from bpetite.corpora._token_files.parquet import COPIES
from bpetite.corpora._verify import (
    Problem,
    check_folder,
    damaged_documents,
    problems_of,
    unfinished_problems,
)


class Repair(NamedTuple):
    """What `repair` found and removed."""

    repaired: list[str]
    """The problems that the next `tokenize` puts right, one sentence each."""
    removed: list[str]
    """The files that were removed, by their names in the folder."""
    left: list[str]
    """The problems that are still there: files that bpetite did not write, for example."""


def repair(
    folder: str | os.PathLike[str], tokenizer: Tokenizer | None = None, *, deep: bool = False
) -> Repair:
    """Remove from a folder of token files what must be written again.

    After it, the same `tokenize` completes the folder. The problems are found as in `verify`, which
    has the same arguments. If a part has a problem, the manifest, the receipt of the part and its
    files are removed. If the format is one file for all parts, all parts are removed. A damaged
    plan is made again from the manifest; if both are lost, all parts are removed.

    Files with names of other kinds stay, even if a receipt names them.

    Raises ValueError if the folder has neither a plan nor a manifest of bpetite, or if another
    version wrote it, NotADirectoryError, and OSError from the system.
    """
    place = Folder(folder)
    check_folder(place)
    damaged = [*damaged_documents(place)]
    for problem in damaged:
        if not problem.documents:
            raise ValueError(problem.text)
    unreadable = {name for problem in damaged for name in problem.documents}
    manifest = None if MANIFEST in unreadable else place.found(MANIFEST, Manifest)
    plan = None if PLAN in unreadable else place.found(PLAN, Plan)
    if plan is None and PLAN not in unreadable:
        if manifest is None:
            raise ValueError(f"{place}: not a folder of token files")
        damaged.append(Problem(f"{place.path / PLAN}: missing", (PLAN,)))
    if plan is None and manifest is not None:
        place.write(PLAN, Plan(manifest.settings, [part.sources for part in manifest.parts]))
        unreadable.discard(PLAN)
    elif plan is None:
        unreadable |= {VOCABULARY, *place.receipt_names()}
    found, removed = damaged, _removed(place, unreadable)

    def settle(problems: Iterable[Problem]) -> None:
        some = [*problems]
        found.extend(some)
        removed.extend(_removed(place, {name for each in some for name in each.documents}))

    if storage.exists(place.path / PLAN):
        settle(problems_of(place, tokenizer, deep))
    if storage.exists(place.path / PLAN) and not storage.exists(place.path / MANIFEST):
        settings = place.read(PLAN, Plan).settings
        if settings.token_format.one_file and not storage.exists(place.path / UNJOINED):
            joined = (split + settings.token_format.extension for split in (TRAINING, VALIDATION))
            removed += _removed(place, {*place.receipt_names(), *joined})
        settle(unfinished_problems(place))
    if removed and storage.exists(place.path / COPIES):
        storage.remove_folder(place.path / COPIES)
        removed.append(COPIES)
    repaired, left = (
        [
            *dict.fromkeys(
                problem.text for problem in found if bool(problem.documents) == is_repaired
            )
        ]
        for is_repaired in (True, False)
    )
    return Repair(repaired, removed, left)


def _removed(folder: Folder, names: set[str]) -> list[str]:
    """Remove files by their names, and with a receipt the manifest and the files of the part.

    Return the names of those that were there. Files that vouch for others go first.
    """
    receipts = sorted(name for name in names if name.startswith(f"{RECEIPTS}/"))
    others = names - {*receipts, MANIFEST}
    for name in receipts:
        number = receipt_number(name)
        try:
            receipt = folder.found(name, Receipt)
        except ValueError:
            continue  # the next run writes over the files
        if receipt is not None:
            others |= {file.name for file in receipt.files if is_file_name(file.name, number)}
    first = [MANIFEST] if receipts or MANIFEST in names else []
    removed = []
    for name in (*first, *receipts, *sorted(others)):
        if storage.exists(folder.path / name):
            storage.remove_file(folder.path / name)
            removed.append(name)
    return removed
