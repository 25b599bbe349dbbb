"""What a folder of token files says of itself: its plan, a receipt per part, and the manifest.

.bpetite/plan.json             before the first part: the settings, and the sources of each part
.bpetite/receipts/00000.json   after the files of a part are in place
manifest.json                  last: the folder is complete
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bpetite.corpora import _storage as storage
from bpetite.corpora._new_files import write_whole
from bpetite.corpora._threads import thread_pool
from bpetite.formats._files import new_file

MANIFEST = "manifest.json"
PLAN = ".bpetite/plan.json"
RECEIPTS = ".bpetite/receipts"
BAD = ".bpetite/bad"
VOCABULARY = "vocabulary.json"

VERSION = 1

_READERS = 16


def sealed(document: dict[str, Any]) -> bytes:
    """Return a document as JSON with its own hash as the last entry.

    >>> opened(sealed({"a": 1}), "name")
    {'a': 1}
    """
    digest = hashlib.sha256(_encoded(document)).hexdigest()
    return _encoded({**document, "sha256": digest})


def opened(data: bytes, name: str) -> dict[str, Any]:
    """Return the document of `sealed` bytes. Raises ValueError if any byte was changed."""
    try:
        document = json.loads(data)
        document.pop("sha256")
        if sealed(document) == data:
            return document  # type: ignore[no-any-return]
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        pass
    raise ValueError(f"{name}: damaged, or changed by hand: its content does not fit its sha256")


def _encoded(document: dict[str, Any]) -> bytes:
    return json.dumps(document, indent=1, ensure_ascii=True).encode() + b"\n"


def read(folder: Path, name: str) -> dict[str, Any]:
    """Return a document of a folder. Raises FileNotFoundError, or ValueError if it is damaged."""
    path = folder / name
    document = opened(storage.read(path), str(path))
    if document.get("version") != VERSION:
        raise ValueError(f"{path}: version {document.get('version')}; this bpetite reads {VERSION}")
    kind = next((kind for key, kind in _KINDS.items() if key in document), None)
    if kind != (name if name in _KINDS.values() else RECEIPTS):
        raise ValueError(
            f"{path}: another document of token files has this name; bring back the right one, or "
            "write another folder"
        )
    return document


_KINDS = {"totals": MANIFEST, "corpus": PLAN, "part": RECEIPTS}
"""Which document has an entry of this name, in the order to look; a manifest has a plan's too."""


def write(folder: Path, name: str, document: dict[str, Any]) -> None:
    """Write a document of a folder, whole or not at all."""
    write_whole(folder, name, sealed({"version": VERSION, **document}))


def write_first(folder: Path, name: str, document: dict[str, Any]) -> dict[str, Any]:
    """Write a document unless there is one; return the one that is there then."""
    path = folder / name
    if storage.is_remote(folder):
        # Two may write at once. The plan that stays refuses the parts of another.
        if not storage.exists(path):
            write(folder, name, document)
        return read(folder, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError), new_file(str(path)) as file:
        file.write(sealed({"version": VERSION, **document}))
    return read(folder, name)


def receipt_name(part: int) -> str:
    """Return the name of the receipt of a part.

    >>> receipt_name(7)
    '.bpetite/receipts/00007.json'
    """
    return f"{RECEIPTS}/{part:05d}.json"


def receipts(folder: Path) -> dict[int, dict[str, Any]]:
    """Return the receipt of each finished part, by the number in its name, in order."""
    place = folder / RECEIPTS
    names = storage.names_in(place) if storage.exists(place) else []
    names = [name for name in names if re.fullmatch(r"[0-9]{5,}\.json", name)]
    # An object store takes some time to answer, but answers many at once.
    with thread_pool(_READERS) as readers:
        documents = readers.map(lambda name: read(folder, f"{RECEIPTS}/{name}"), names)
        found = {
            int(name.removesuffix(".json")): document
            for name, document in zip(names, documents, strict=True)
        }
    return dict(sorted(found.items()))


TOTALS = ("documents", "empty", "bad", "text_bytes", "ids")
"""The numbers of a receipt that a manifest adds up."""


def totals(receipts: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the sums of receipts."""
    sums = dict.fromkeys(TOTALS, 0)
    for receipt in receipts:
        for key in TOTALS:
            sums[key] += receipt[key]
    return sums


def foreign_receipts(
    plan: Mapping[str, Any], receipts: Mapping[int, Mapping[str, Any]]
) -> Iterator[str]:
    """Yield a sentence about each receipt that is not of the part that its name says."""
    count = len(plan["parts"])
    for number, receipt in receipts.items():
        if number >= count:
            yield f"{receipt_name(number)}: foreign: the plan has {count} parts; remove it"
        elif receipt["part"] != number:
            part = receipt["part"]
            yield f"{receipt_name(number)}: foreign: the receipt of part {part}; remove it"


def complete(plan: dict[str, Any], parts: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Return the manifest of a folder with all receipts."""
    shards = [shard for receipt in parts.values() for shard in receipt["shards"]]
    return {
        **{key: value for key, value in plan.items() if key not in ("version", "parts")},
        "totals": totals(parts.values()),
        "parts": [
            {
                "sources": plan["parts"][number],
                **{key: receipt[key] for key in TOTALS},
                "shards": [shard["name"] for shard in receipt["shards"]],
            }
            for number, receipt in parts.items()
        ],
        "shards": shards,
    }
