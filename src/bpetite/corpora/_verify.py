"""Verification of a token folder: which files are missing, damaged, foreign or wrong."""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import NamedTuple

from bpetite import Tokenizer
from bpetite.corpora import _storage as storage
from bpetite.corpora._folder import (
    BAD,
    MANIFEST,
    PLAN,
    VOCABULARY,
    Folder,
    Manifest,
    Plan,
    Receipt,
    Settings,
    ShardFacts,
    VersionError,
    foreign_receipts,
    receipt_name,
)
from bpetite.corpora._new_files import FileFacts, crc32_joined, crc32_of
from bpetite.corpora._part import PartWork
from bpetite.corpora._splits import TRAINING, VALIDATION
from bpetite.corpora._token_files.token_format import TokenBlock

_BLOCK_IDS = 1 << 20

OWN_NAMES = {".bpetite", MANIFEST, VOCABULARY}


def verify(
    folder: str | os.PathLike[str], tokenizer: Tokenizer | None = None, *, deep: bool = False
) -> list[str]:
    """Return the problems of a folder of token files, one sentence each; none if all is right.

    It checks the manifest and the vocabulary; the name, size and CRC-32 of each file, lists of bad
    documents included; the numbers of documents and ids; every id; and the begin and end token of
    each document. `tokenizer` is the one that should have made the folder. `deep` encodes the
    sources again and compares the files.

    Raises OSError from the system, for example if the folder is not readable.
    """
    place = Folder(folder)
    check_folder(place)
    return [problem.text for problem in problems_of(place, tokenizer, deep)]


class Problem(NamedTuple):
    """Something wrong with a folder."""

    text: str
    documents: tuple[str, ...] = ()
    """The files to remove from the folder, so that `tokenize` writes them again."""


def checked_manifest(folder: Folder) -> Manifest:
    """Return the manifest of a folder, after the checks that read no content: all receipts are
    there, and all files have their sizes. Raises ValueError or NotADirectoryError.
    """
    check_folder(folder)
    try:
        manifest = folder.read(MANIFEST, Manifest)
    except FileNotFoundError as error:
        raise ValueError("; ".join(_unfinished(folder, error.filename))) from None
    present = {*folder.receipt_names()}
    for name in map(receipt_name, range(len(manifest.parts))):
        if name not in present:
            raise ValueError(f"{folder.path / name}: missing; verify the folder")
    for shard in manifest.shards:
        for problem in _file_problems(folder, shard.files, reads=False):
            raise ValueError(f"{problem}; verify the folder")
    return manifest


def check_folder(folder: Folder) -> None:
    """Raise NotADirectoryError if a folder is none."""
    if not storage.is_folder(str(folder)):
        raise NotADirectoryError(f"{folder}: not a folder")


def problems_of(folder: Folder, tokenizer: Tokenizer | None, deep: bool) -> Iterator[Problem]:
    """Yield all problems of a folder, or only the unreadable documents if there are any."""
    try:
        manifest = folder.read(MANIFEST, Manifest)
        plan = folder.read(PLAN, Plan)
        receipts = folder.receipts()
    except FileNotFoundError as error:
        for text in _unfinished(folder, error.filename):
            yield Problem(text, (MANIFEST,))
        return
    except ValueError:
        yield from damaged_documents(folder)
        return
    settings = manifest.settings
    fingerprint = settings.tokenizer.fingerprint
    own = yield from _own_tokenizer(folder, settings)
    if tokenizer is not None and tokenizer.fingerprint != fingerprint:
        yield Problem(f"the tokenizer is {tokenizer.fingerprint}, but {fingerprint} made the files")
    foreign = [*foreign_receipts(plan, receipts)]
    for name, text in foreign:
        yield Problem(text, (name,))
    if not foreign:
        yield from _differences(manifest, plan, receipts)
    yield from _list_problems(folder, receipts, len(plan.parts))
    owners = {
        shard.name: receipt_name(number)
        for number, receipt in receipts.items()
        for shard in receipt.shards
    }
    whole = []
    for shard in manifest.shards:
        problems = [*_file_problems(folder, shard.files)]
        for text in problems:
            yield Problem(text, (owners.get(shard.name, MANIFEST),))
        if not problems:
            whole.append(shard)
    yield from map(Problem, _foreign(folder, manifest))
    if own is None:
        return
    boundaries: list[int] = []  # if shards may cut a document, only the sum can be checked
    for shard in whole:
        for text in _shard_problems(folder, settings, shard, own, boundaries):
            yield Problem(text, (owners.get(shard.name, MANIFEST),))
    expected = manifest.totals.documents
    documents = sum(boundaries) // settings.boundaries
    if len(boundaries) == len(manifest.shards) and documents != expected:
        text = f"{folder}: {documents} documents, not {expected}"
        yield Problem(text, (*map(receipt_name, receipts),))
    if deep and not foreign:
        yield from _source_problems(folder, plan, receipts, own)


def _own_tokenizer(
    folder: Folder, settings: Settings
) -> Generator[Problem, None, Tokenizer | None]:
    """Yield what is wrong with the vocabulary; return it if it can be read."""
    try:
        own = folder.load_tokenizer()
    except (OSError, ValueError, KeyError) as error:
        yield Problem(f"the vocabulary cannot be read: {error}", (VOCABULARY,))
        return None
    if own.fingerprint != settings.tokenizer.fingerprint:
        text = f"{VOCABULARY} is another vocabulary than the manifest names"
        yield Problem(text, (VOCABULARY,))
    return own


def damaged_documents(folder: Folder) -> Iterator[Problem]:
    """Yield the documents that cannot be read, although they are there."""
    kinds = {MANIFEST: Manifest, PLAN: Plan, **dict.fromkeys(folder.receipt_names(), Receipt)}
    for name, kind in kinds.items():
        try:
            folder.found(name, kind)
        except VersionError as error:
            yield Problem(str(error))
        except ValueError as error:
            yield Problem(str(error), (name,))


def unfinished_problems(folder: Folder) -> Iterator[Problem]:
    """Yield what is wrong with the parts of a folder without a manifest."""
    plan, receipts = folder.read(PLAN, Plan), folder.receipts()
    yield from _own_tokenizer(folder, plan.settings)
    for name, text in foreign_receipts(plan, receipts):
        yield Problem(text, (name,))
    yield from _list_problems(folder, receipts, len(plan.parts))
    for number, receipt in receipts.items():
        for shard in receipt.shards:
            for text in _file_problems(folder, shard.files):
                yield Problem(text, (receipt_name(number),))


def _unfinished(folder: Folder, missing: str) -> Iterator[str]:
    """Explain a folder without a manifest, or without a plan."""
    if not storage.exists(folder.path / PLAN):
        if storage.exists(folder.path / MANIFEST):
            yield f"{folder.path / PLAN}: missing"
        else:
            yield f"{folder}: not a folder of token files"
        return
    yield f"{missing}: missing; the run that wrote this folder has not ended"
    try:
        plan = folder.read(PLAN, Plan)
        done = folder.receipts()
    except (FileNotFoundError, ValueError):
        return
    count = len(plan.parts)
    parts = [number for number in range(count) if number not in done]
    if parts:
        yield f"{len(parts)} of {count} parts are missing; the first is part {parts[0]}"


def _differences(manifest: Manifest, plan: Plan, receipts: dict[int, Receipt]) -> Iterator[Problem]:
    """Compare the manifest with the plan and the receipts that it was made from."""
    missing = [number for number in range(len(plan.parts)) if number not in receipts]
    if missing:
        first = receipt_name(missing[0])
        yield Problem(f"{len(missing)} receipts are missing; the first is {first}", (MANIFEST,))
        return
    expected = Manifest.of(plan, receipts)
    if manifest.settings.token_format.one_file:
        manifest = _nameless(manifest, manifest.shards)
        expected = _nameless(expected, [*_joined(expected.shards)])
    known = {shard.name: shard for shard in manifest.shards}
    # The manifest or the receipt may be wrong, so both must go.
    others = [
        receipt_name(number)
        for (number, receipt), part in zip(receipts.items(), manifest.parts, strict=False)
        if receipt.counts != part.counts or receipt.shards != [*map(known.get, part.shards)]
    ]
    found = manifest.to_json()
    for key, value in expected.to_json().items():
        if found[key] != value:
            text = f"{MANIFEST}: {key} is not what the plan and the receipts say"
            yield Problem(text, (MANIFEST, *others))


def _nameless(manifest: Manifest, shards: list[ShardFacts]) -> Manifest:
    """Return a manifest with other shards, and without names of shards and their files."""
    parts = [replace(part, shards=[]) for part in manifest.parts]
    nameless = [
        replace(shard, name="", files=[replace(file, name="") for file in shard.files])
        for shard in shards
    ]
    return replace(manifest, parts=parts, shards=nameless)


def _joined(shards: list[ShardFacts]) -> Iterator[ShardFacts]:
    for split in (TRAINING, VALIDATION):
        documents = ids = size = crc = 0
        for shard in (shard for shard in shards if shard.split == split):
            (file,) = shard.files
            documents += shard.documents
            ids += shard.ids
            size += file.bytes
            crc = crc32_joined(crc, int(file.crc32, 16), file.bytes)
        if documents:
            yield ShardFacts("", split, documents, ids, [FileFacts("", size, f"{crc:08x}")])


def _list_problems(folder: Folder, receipts: dict[int, Receipt], parts: int) -> Iterator[Problem]:
    """Check the lists of bad documents: each receipt names its own. The next run writes others."""
    known = {f"{BAD}/{part:05d}.jsonl" for part in range(parts) if part not in receipts}
    for number, receipt in receipts.items():
        if receipt.bad_list is not None:
            known.add(receipt.bad_list.name)
            for text in _file_problems(folder, [receipt.bad_list]):
                yield Problem(text, (receipt_name(number),))
    place = folder.path / BAD
    for name in storage.names_in(place) if storage.exists(place) else []:
        if f"{BAD}/{name}" not in known:
            yield Problem(f"{place / name}: foreign: no receipt names it")


def _file_problems(folder: Folder, files: list[FileFacts], *, reads: bool = True) -> Iterator[str]:
    for file in files:
        path = folder.path / file.name
        try:
            size = storage.size_of(path)
            if size != file.bytes:
                yield f"{path}: {size} bytes, not {file.bytes}"
            elif reads and f"{crc32_of(path):08x}" != file.crc32:
                yield f"{path}: damaged: its content does not fit its CRC-32"
        except OSError as error:
            yield f"{path}: {error.strerror or error}"


def _foreign(folder: Folder, manifest: Manifest) -> Iterator[str]:
    """Find files that the manifest does not name: a reader would take them by their names."""
    known = {file.name for shard in manifest.shards for file in shard.files} | OWN_NAMES
    for name in storage.names_in(folder.path):
        if name not in known:
            yield f"{folder.path / name}: foreign: the manifest does not name it"


def _shard_problems(
    folder: Folder,
    settings: Settings,
    shard: ShardFacts,
    tokenizer: Tokenizer,
    all_boundaries: list[int],
) -> Iterator[str]:
    """Check the ids of a shard whose files are whole.

    The boundaries of a shard that may cut documents are not checked, but added to a list.
    """
    format = settings.token_format
    path = folder.path / (shard.name + format.extension)
    begin, end = (
        None if literal is None else tokenizer.special_tokens[literal]
        for literal in (settings.begin, settings.end)
    )
    ids = documents = boundaries = 0
    try:
        for found in _read(folder, settings, shard):
            for start in range(0, len(found.ids), _BLOCK_IDS):
                tokenizer.decode_bytes(found.ids[start : start + _BLOCK_IDS])
            if found.offsets is None:
                boundaries += occurrences(found.ids, end if begin is None else begin)
            else:
                yield from _frame_problems(path, found, documents, begin, end)
                documents += len(found.offsets) - 1
            ids += len(found.ids)
            del found  # Windows removes the copy of a remote file only if it is not mapped
    except ValueError as error:
        yield str(error)
    except KeyError as error:
        yield f"{path}: {error.args[0]}"
    else:
        if ids != shard.ids:
            yield f"{path}: {ids} ids, not {shard.ids}"
        documents = documents or boundaries // settings.boundaries
        if format.cuts_documents:
            all_boundaries.append(boundaries)
        elif documents != shard.documents:
            yield f"{path}: {documents} documents, not {shard.documents}"


def _read(folder: Folder, settings: Settings, shard: ShardFacts) -> Iterator[TokenBlock]:
    """Yield the documents of a shard. Raises ValueError if its reader would not read it."""
    with storage.on_disk(folder.path, [file.name for file in shard.files]) as local:
        try:
            yield from settings.token_format.read(local, settings.shard(shard.name))
        except ValueError as error:
            raise ValueError(str(error).replace(str(local), str(folder))) from None


def _frame_problems(
    path: Path, found: TokenBlock, first: int, begin: int | None, end: int | None
) -> Iterator[str]:
    """Find the first document that lacks its begin or end token."""
    ids = found.ids
    for number, (start, stop) in enumerate(pairwise(found.offsets or ()), first):
        for name, wanted, at in (("begin", begin, start), ("end", end, stop - 1)):
            if wanted is not None and (start == stop or ids[at] != wanted):
                yield f"{path}: document {number} lacks the {name} token {wanted}"
                return


def occurrences(ids: memoryview, id: int | None) -> int:
    """Return how often an id occurs.

    >>> occurrences(memoryview(array("H", [1, 256, 1])), 1)
    2
    """
    return 0 if id is None else array(ids.format, ids).count(id)


def _source_problems(
    folder: Folder, plan: Plan, receipts: dict[int, Receipt], tokenizer: Tokenizer
) -> Iterator[Problem]:
    """Encode the sources of each part again, and compare what the receipts say of both."""
    scratch = None if storage.is_remote(folder.path) else folder.path / ".bpetite"
    with tempfile.TemporaryDirectory(dir=scratch) as again:
        for number, receipt in receipts.items():
            try:
                found = PartWork(Folder(again), plan, number, plan.parts[number]).done(tokenizer)
            except (OSError, ValueError) as error:
                yield Problem(f"part {number}: its sources cannot be read: {error}")
                continue
            before = receipt.to_json()
            different = [key for key, value in found.to_json().items() if before.get(key) != value]
            if different:
                names = ", ".join(different)
                text = f"part {number}: encoded again, its sources give other {names}"
                yield Problem(text, (receipt_name(number),))
            for file in chain.from_iterable(shard.files for shard in found.shards):
                Path(again, file.name).unlink()


def first_documents(folder: str | os.PathLike[str], count: int) -> Iterator[str]:
    """Yield the text of the first documents of a folder, begin and end tokens included."""
    place = Folder(folder)
    manifest = place.read(MANIFEST, Manifest)
    settings = manifest.settings
    tokenizer = place.load_tokenizer()
    found = chain.from_iterable(_read(place, settings, shard) for shard in manifest.shards)
    begins = settings.end is None
    literal = settings.begin if begins else settings.end
    boundary = None if literal is None else tokenizer.special_tokens.get(literal)
    for its_ids in islice(_documents(found, boundary, begins, settings.boundaries), count):
        yield tokenizer.decode(its_ids, errors="replace")


def _documents(
    blocks: Iterable[TokenBlock], boundary: int | None, begins: bool, boundaries: int
) -> Iterator[Sequence[int]]:
    """Yield the ids of each document.

    Without stored boundaries, a document begins or ends with a token, or has it at both ends. It
    may span blocks.
    """
    document = array("I")
    seen = 0
    found: TokenBlock | None = None
    try:
        for found in blocks:
            if found.offsets is not None:
                for start, stop in pairwise(found.offsets):
                    yield array(found.ids.format, found.ids[start:stop])
                continue
            for id in found.ids:
                if begins and id == boundary and document:
                    yield document
                    document = array("I")
                document.append(id)
                if not begins and id == boundary:
                    seen += 1
                    if seen % boundaries == 0:
                        yield document
                        document = array("I")
    finally:
        found = None  # Windows removes a mapped file only when no view of it is left
    if document:
        yield document
