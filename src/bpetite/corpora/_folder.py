"""The folder of token files: its plan, a receipt for each part, and the manifest.

vocabulary.json                with the plan
.bpetite/plan.json             before the first part: the settings, and the sources of each part
.bpetite/receipts/00000.json   after the files of a part are in place
manifest.json                  last: the folder is complete
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from bpetite import Tokenizer
from bpetite.corpora import _storage as storage
from bpetite.corpora._corpus import PartSource
from bpetite.corpora._new_files import TEMPORARY_FOLDER, FileFacts, NewFiles
from bpetite.corpora._splits import TRAINING, VALIDATION
from bpetite.corpora._token_files import FORMATS
from bpetite.corpora._token_files.token_format import ITEM_SIZES, Shard, TokenFormat
from bpetite.formats._files import check_found, new_file

MANIFEST = "manifest.json"
PLAN = ".bpetite/plan.json"
RECEIPTS = ".bpetite/receipts"
BAD = ".bpetite/bad"
VOCABULARY = "vocabulary.json"

UNJOINED = ".bpetite/shards"
"""The folder of shards that `finish` joins to one file."""

VERSION = 1

_READERS = 16  # an object store answers slowly, but it answers this many readers at once

Item = TypeVar("Item")
Result = TypeVar("Result")

Json = dict[str, Any]


@dataclass(frozen=True)
class VocabularyFacts:
    """What a plan says of the vocabulary."""

    fingerprint: str
    file: str
    ids: int
    pattern: str
    special_tokens: dict[str, int]

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> VocabularyFacts:
        special_tokens = dict(tokenizer.special_tokens)
        return cls(
            tokenizer.fingerprint,
            VOCABULARY,
            tokenizer.n_vocab,
            tokenizer.patterns[0],
            special_tokens,
        )


@dataclass(frozen=True)
class Settings:
    """The arguments of a run that all parts share: with the sources, they determine the files."""

    format: str
    dtype: str
    tokenizer: VocabularyFacts
    begin: str | None
    end: str | None
    shard_tokens: int | None
    validation: float | int
    shuffle: int | None
    part_bytes: int
    corpus: Json
    """`Corpus.settings`."""

    @classmethod
    def from_json(cls, document: Json) -> Settings:
        return cls(**{**document, "tokenizer": VocabularyFacts(**document["tokenizer"])})

    @property
    def token_format(self) -> TokenFormat:
        return FORMATS[self.format]

    @property
    def boundaries(self) -> int:
        """How often the boundary token stands in a document, for formats that store none."""
        return 2 if self.begin is not None and self.begin == self.end else 1

    def shard(self, name: str) -> Shard:
        return Shard(name, self.dtype, self.tokenizer.fingerprint)

    def new_shard(self, part: int, split: str, number: int) -> Shard:
        """Return a shard of a part by its number in a split."""
        folder = f"{UNJOINED}/" if self.token_format.one_file else ""
        name = f"{folder}{split}_{part:05d}"
        return self.shard(name if self.shard_tokens is None else f"{name}_{number:05d}")


@dataclass(frozen=True)
class Plan:
    """The settings of a run, and the sources of each part."""

    settings: Settings
    parts: list[list[PartSource]]

    @cached_property
    def sha256(self) -> str:
        """The hash of the plan, which each receipt names."""
        return _sha256(self.to_json())

    @classmethod
    def from_json(cls, document: Json) -> Plan:
        parts = [[PartSource(**source) for source in its] for its in document.pop("parts")]
        return cls(Settings.from_json(document), parts)

    def to_json(self) -> Json:
        return _document(self, "settings")


@dataclass(frozen=True)
class Counts:
    """The numbers of a part that a manifest adds up."""

    documents: int = 0
    empty: int = 0
    bad: int = 0
    text_bytes: int = 0
    ids: int = 0

    @classmethod
    def taken(cls, document: Json) -> Counts:
        """Take the numbers out of a document."""
        return cls(*map(document.pop, cls.__dataclass_fields__))

    @classmethod
    def total(cls, receipts: Iterable[Receipt]) -> Counts:
        each = [vars(receipt.counts).values() for receipt in receipts]
        return cls(*map(sum, zip(*each, strict=True)))


@dataclass(frozen=True)
class ShardFacts:
    """What a receipt and a manifest say of a shard."""

    name: str
    split: str
    documents: int
    ids: int
    files: list[FileFacts] = field(default_factory=list)

    @classmethod
    def from_json(cls, document: Json) -> ShardFacts:
        return cls(**{**document, "files": [FileFacts(**file) for file in document["files"]]})


@dataclass(frozen=True)
class Receipt:
    """What was written for a part."""

    plan: str
    """`Plan.sha256`."""
    part: int
    counts: Counts
    shards: list[ShardFacts]
    bad_list: FileFacts | None = None
    """The file that names bad documents, if there were any."""

    @classmethod
    def from_json(cls, document: Json) -> Receipt:
        plan, part = document.pop("plan"), document.pop("part")
        counts = Counts.taken(document)
        shards = [*map(ShardFacts.from_json, document.pop("shards"))]
        lists = {key: FileFacts(**facts) for key, facts in document.items()}
        return cls(plan, part, counts, shards, **lists)

    @property
    def files(self) -> list[FileFacts]:
        lists = [] if self.bad_list is None else [self.bad_list]
        return [*chain.from_iterable(shard.files for shard in self.shards), *lists]

    def to_json(self) -> Json:
        document = _document(self, "counts")
        if self.bad_list is None:
            del document["bad_list"]
        return document


@dataclass(frozen=True)
class PartFacts:
    """What a manifest says of a part."""

    sources: list[PartSource]
    counts: Counts
    shards: list[str]

    @classmethod
    def from_json(cls, document: Json) -> PartFacts:
        sources = [PartSource(**source) for source in document.pop("sources")]
        return cls(sources, Counts.taken(document), **document)


@dataclass(frozen=True)
class Manifest:
    """What a complete folder has."""

    settings: Settings
    totals: Counts
    parts: list[PartFacts]
    shards: list[ShardFacts]

    @classmethod
    def of(cls, plan: Plan, receipts: Mapping[int, Receipt]) -> Manifest:
        """Return the manifest of a folder with all receipts."""
        parts = [
            PartFacts(plan.parts[number], receipt.counts, [shard.name for shard in receipt.shards])
            for number, receipt in receipts.items()
        ]
        shards = [shard for receipt in receipts.values() for shard in receipt.shards]
        return cls(plan.settings, Counts.total(receipts.values()), parts, shards)

    @classmethod
    def from_json(cls, document: Json) -> Manifest:
        totals = Counts(**document.pop("totals"))
        parts = [*map(PartFacts.from_json, document.pop("parts"))]
        shards = [*map(ShardFacts.from_json, document.pop("shards"))]
        return cls(Settings.from_json(document), totals, parts, shards)

    def to_json(self) -> Json:
        document = _document(self, "settings")
        return {**document, "parts": [_inlined(part, "counts") for part in document["parts"]]}


def _document(facts: Any, inlined: str) -> Json:
    """Return a document of a folder: the fields of a dataclass, one of which is inlined."""
    return {"version": VERSION, **_inlined(plain(facts), inlined)}


def plain(value: Any) -> Any:
    """Return dataclasses as JSON, five times as fast as `dataclasses.asdict`."""
    if isinstance(value, list):
        return [*map(plain, value)]
    if not hasattr(value, "__dataclass_fields__"):
        return value
    return {name: plain(field) for name, field in vars(value).items()}


def _inlined(fields: Json, name: str) -> Json:
    """Return fields with the fields of one of them in its place.

    >>> _inlined({"part": 1, "counts": {"ids": 2}, "shards": []}, "counts")
    {'part': 1, 'ids': 2, 'shards': []}
    """
    pairs = ([*value.items()] if key == name else [(key, value)] for key, value in fields.items())
    return dict(chain.from_iterable(pairs))


def foreign_receipts(plan: Plan, receipts: Mapping[int, Receipt]) -> Iterator[tuple[str, str]]:
    """Yield the name of each receipt that does not belong to the plan, and a sentence about it."""
    count = len(plan.parts)
    for number, receipt in receipts.items():
        name = receipt_name(number)
        if number >= count:
            yield name, f"{name}: foreign: the plan has {count} parts; remove it"
        elif (part := receipt.part) != number:
            yield name, f"{name}: foreign: the receipt of part {part}; remove it"
        elif receipt.plan != plan.sha256:
            yield name, f"{name}: foreign: the receipt of another run; remove it"


# Documents as bytes


Document = TypeVar("Document", Plan, Receipt, Manifest)


def sealed(document: Json) -> bytes:
    """Return a document as JSON with its own hash as the last entry.

    >>> opened(sealed({"a": 1}), "name")
    {'a': 1}
    """
    return _encoded({**document, "sha256": _sha256(document)})


def _sha256(document: Json) -> str:
    return hashlib.sha256(_encoded(document)).hexdigest()


def opened(data: bytes, name: str) -> Json:
    """Return the document of `sealed` bytes. Raises ValueError if any byte was changed."""
    try:
        document = json.loads(data)
        document.pop("sha256")
        if sealed(document) == data:
            return document  # type: ignore[no-any-return]
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        pass
    raise ValueError(f"{name}: damaged, or changed by hand: its content does not fit its sha256")


def _encoded(document: Json) -> bytes:
    return json.dumps(document, indent=1, ensure_ascii=True).encode() + b"\n"


def _fault(value: Any, hint: Any, name: str = "") -> str:
    """Return which field of a document has a value of another type than its annotation, or "".

    >>> _fault(Counts(ids="many"), Counts)
    "ids must be int, got 'many'"
    """
    if hasattr(hint, "__dataclass_fields__"):
        fields = vars(value)
        inner = [(fields[key], each, key) for key, each in _hints_of(hint)]
        check = _VALUE_FAULTS.get(hint)
        faults = chain((_fault(*each) for each in inner), [] if check is None else check(value))
        place = f"{name}." if name else ""
        return next((f"{place}{fault}" for fault in faults if fault), "")
    origin = get_origin(hint)
    if origin in (list, dict):
        if type(value) is not origin:
            return f"{name} must be a {origin.__name__}, got {value!r:.40}"
        pairs = enumerate(value) if origin is list else value.items()
        kind = get_args(hint)[-1]
        if kind is Any:
            return ""
        return next(
            filter(None, (_fault(item, kind, f"{name}[{key!r}]") for key, item in pairs)), ""
        )
    allowed = get_args(hint) or (hint,)
    if hasattr(value, "__dataclass_fields__"):
        return _fault(value, type(value), name)
    if type(value) not in allowed:
        names = " or ".join("null" if kind is type(None) else kind.__name__ for kind in allowed)
        return f"{name} must be {names}, got {value!r:.40}"
    if type(value) is int and value < 0 and name != "shuffle":
        return f"{name} must be at least 0, got {value}"
    return ""


@cache
def _hints_of(kind: type) -> list[tuple[str, Any]]:
    return [*get_type_hints(kind).items()]


def _settings_faults(settings: Settings) -> Iterator[str]:
    if settings.format not in FORMATS:
        yield f"format must be one of {', '.join(FORMATS)}, got {settings.format!r}"
    elif settings.dtype not in ITEM_SIZES:
        yield f"dtype must be one of {', '.join(ITEM_SIZES)}, got {settings.dtype!r}"
    literals = [each for each in (settings.begin, settings.end) if each is not None]
    for literal in literals:
        if literal not in settings.tokenizer.special_tokens:
            yield f"begin or end is {literal!r}, which is not a special token"
    if not literals and not settings.token_format.stores_boundaries:
        yield "begin or end must be a special token, got null"


def _name_faults(facts: FileFacts | ShardFacts) -> Iterator[str]:
    name = facts.name if isinstance(facts, FileFacts) else f"{facts.name}.bin"
    if not is_file_name(name):
        yield f"name is {facts.name!r}, which no file of a part has"


_VALUE_FAULTS: dict[type, Callable[[Any], Iterator[str]]] = {
    Settings: _settings_faults,
    FileFacts: _name_faults,
    ShardFacts: _name_faults,
}


def is_file_name(name: str, part: int | None = None) -> bool:
    """Return whether a name is one that `tokenize` gives to a file: of one part, if given.

    >>> is_file_name("train_00002.bin", 2), is_file_name("../notes.txt")
    (True, False)
    """
    number = r"\d{5,}" if part is None else f"{part:05d}"
    joined = "?" if part is None else ""
    shard = rf"({UNJOINED}/)?({TRAINING}|{VALIDATION})(_{number}){joined}(_\d{{5,}})?\.[a-z.]+"
    return re.fullmatch(rf"{shard}|{BAD}/{number}\.jsonl", name) is not None


def receipt_name(part: int) -> str:
    """Return the name of the receipt of a part.

    >>> receipt_name(7)
    '.bpetite/receipts/00007.json'
    """
    return f"{RECEIPTS}/{part:05d}.json"


def receipt_number(name: str) -> int:
    """Return the part of a receipt by its name."""
    return int(name.removeprefix(f"{RECEIPTS}/").removesuffix(".json"))


# The folder


class VersionError(ValueError):
    """Another bpetite wrote a document."""


class Folder:
    """A folder of token files, on this machine or in an object store."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = storage.located_folder(path)
        self._is_remote = storage.is_remote(self.path)

    def __str__(self) -> str:
        return str(self.path)

    def read(self, name: str, kind: type[Document]) -> Document:
        """Return a document. Raises FileNotFoundError, or ValueError if it is damaged."""
        path = self.path / name
        document = opened(storage.read(path), str(path))
        version = document.pop("version", None)
        if version != VERSION:
            raise VersionError(f"{path}: version {version}; this bpetite reads {VERSION}")
        try:
            found = kind.from_json(document)
        except (KeyError, TypeError, AttributeError, ValueError):
            raise ValueError(
                f"{path}: another document of token files has this name; bring back the right one, "
                "or write another folder"
            ) from None
        if fault := _fault(found, kind):
            raise ValueError(f"{path}: {fault}; bring back the right one, or write another folder")
        return found

    def found(self, name: str, kind: type[Document]) -> Document | None:
        try:
            return self.read(name, kind)
        except FileNotFoundError:
            return None

    def done(self, part: int, plan: Plan) -> Receipt | None:
        """Return the receipt of a part, None unless the receipt and its files are there.

        Raises ValueError for the receipt of another part or run.
        """
        receipt = self.found(receipt_name(part), Receipt)
        if receipt is None:
            return None
        for _, problem in foreign_receipts(plan, {part: receipt}):
            raise ValueError(f"{self}: {problem}")
        # `finish` removes the shards that it has joined.
        is_done = self.has(receipt.files) or self.manifest() is not None
        return receipt if is_done else None

    def manifest(self) -> Manifest | None:
        """Return the manifest, None unless it and the files that it names are there."""
        manifest = self.found(MANIFEST, Manifest)
        if manifest is None:
            return None
        files = [*chain.from_iterable(shard.files for shard in manifest.shards)]
        return manifest if self.has(files) else None

    def has(self, files: list[FileFacts]) -> bool:
        """Return whether files are there, each with its size."""
        return all(self._in_parallel(self._has, files))

    def _has(self, file: FileFacts) -> bool:
        try:
            return storage.size_of(self.path / file.name) == file.bytes
        except FileNotFoundError:
            return False

    def _in_parallel(self, act: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Do something with each item, in an object store with many at a time."""
        if not self._is_remote:
            return [*map(act, items)]
        with ThreadPoolExecutor(_READERS) as threads:
            return [*threads.map(act, items)]

    @contextmanager
    def unless_made(self, name: str) -> Iterator[None]:
        """Ignore the loss of new files if another process has written the file `name` meanwhile.

        That process may have finished the folder and removed all files that were not in place.
        """
        try:
            yield
        except FileNotFoundError:
            if not storage.exists(self.path / name):
                raise

    def receipts(self) -> dict[int, Receipt]:
        """Return the receipt of each finished part, by the number in its name, in order."""
        paths = self.receipt_names()
        documents = self._in_parallel(self._receipt, paths)
        return dict(sorted(zip(map(receipt_number, paths), documents, strict=True)))

    def receipt_names(self) -> list[str]:
        """Return the names of the receipts that are there, in order."""
        place = self.path / RECEIPTS
        names = storage.names_in(place) if storage.exists(place) else []
        found = (name for name in names if re.fullmatch(r"[0-9]{5,}\.json", name))
        return [f"{RECEIPTS}/{name}" for name in found]

    def _receipt(self, name: str) -> Receipt:
        return self.read(name, Receipt)

    def plan(self) -> Plan:
        """Return the plan. Raises FileNotFoundError if it is missing."""
        return _last(self.path / PLAN, lambda: self.read(PLAN, Plan))

    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer of the vocabulary file. Raises FileNotFoundError without one."""
        return _last(self.path / VOCABULARY, self.load_tokenizer)

    def load_tokenizer(self) -> Tokenizer:
        """Load the vocabulary file, whether or not it was loaded before."""
        with storage.on_disk(self.path, [VOCABULARY]) as local:
            check_found(local / VOCABULARY)
            return Tokenizer.load(local / VOCABULARY)

    def begin(self, plan: Plan, tokenizer: Tokenizer) -> None:
        """Write a plan and its vocabulary. Raises ValueError if another plan is there."""
        if not self._is_remote:
            self.path.mkdir(parents=True, exist_ok=True)
        present = self._present_plan() or self._written_first(plan)
        before = present.to_json()
        for key, value in plan.to_json().items():
            if json.dumps(before[key]) != json.dumps(value):  # 1 is not 1.0
                name = _name_of(key, before[key], value)
                raise ValueError(f"{self}: made with another {name}; choose another folder")
        vocabulary = self.path / VOCABULARY
        if not storage.exists(vocabulary):
            with self.unless_made(VOCABULARY):
                # A file that is saved there at once has its temporary file next to it, and a killed
                # process would leave that.
                files = self.new_files()
                try:
                    new = files.create(VOCABULARY)
                    new.close()
                    tokenizer.save(new.temporary, overwrite=True, format="bpetite")
                    files.put_in_place()
                finally:
                    files.discard()
            _loaded[VOCABULARY] = (vocabulary, storage.version_of(vocabulary), tokenizer)

    def _present_plan(self) -> Plan | None:
        """Return the plan, None in an empty folder."""
        is_empty = {*storage.names_in(self.path)} <= {".bpetite"}
        # Another process may write a plan between the two looks. A plan comes before other files.
        present = self.found(PLAN, Plan)
        if present is None and not is_empty:
            raise FileExistsError(
                f"{self}: not empty, and not a folder of token files; choose another"
            )
        return present

    def _written_first(self, plan: Plan) -> Plan:
        """Write a plan unless there is one; return the one that is there then."""
        path = self.path / PLAN
        if self._is_remote:
            # Two may write at once. The plan that stays refuses the parts of another.
            if not storage.exists(path):
                self.write(PLAN, plan)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError), new_file(str(path)) as file:
                file.write(sealed(plan.to_json()))
        return self.read(PLAN, Plan)

    def new_files(self) -> NewFiles:
        """Return new files of this folder, none of which is in place yet."""
        return NewFiles(self.path, storage.upload if self._is_remote else None)

    def put_in_place(self, files: NewFiles, receipt: Receipt) -> Receipt:
        """Put the files of a part in place, then write its receipt, and return it."""
        facts = files.put_in_place()
        shards = [
            replace(shard, files=[fact for fact in facts if fact.name.startswith(f"{shard.name}.")])
            for shard in receipt.shards
        ]
        bad_list = next((fact for fact in facts if fact.name.startswith(f"{BAD}/")), None)
        receipt = replace(receipt, shards=shards, bad_list=bad_list)
        self.write(receipt_name(receipt.part), receipt)
        return receipt

    def write(self, name: str, document: Plan | Receipt | Manifest) -> None:
        """Write or replace a document: whole, or not at all."""
        files = self.new_files()
        try:
            files.create(name).write(sealed(document.to_json()))
            files.put_in_place()
        finally:
            files.discard()

    def remove_leftovers(self) -> None:
        """Remove what a finished folder no longer needs, and what killed processes left in it."""
        storage.remove_folder(self.path / UNJOINED)
        storage.remove_folder(self.path / TEMPORARY_FOLDER)
        if not self._is_remote:
            # The plan, if its writer was killed just before it got its name.
            for path in (self.path / TEMPORARY_FOLDER).parent.glob(".bpetite-*.tmp"):
                path.unlink(missing_ok=True)


# A worker does many parts of one folder, and loading a vocabulary takes longer than a small part.

_loaded: dict[str, tuple[Path, tuple[object, ...], Any]] = {}
"""The plan and the tokenizer that were loaded last: their files, and the versions of these."""

Loaded = TypeVar("Loaded")


def _last(path: Path, load: Callable[[], Loaded]) -> Loaded:
    """Return what a file held when it was loaded last, unless it was replaced since."""
    version = storage.version_of(path)
    present = _loaded.get(path.name)
    if present is not None and present[:2] == (path, version):
        return present[2]  # type: ignore[no-any-return]
    value = load()
    _loaded[path.name] = (path, version, value)
    return value


def _name_of(key: str, present: Any, value: Any) -> str:
    """Return the name of a setting that differs, and both its values if they are short."""
    if key == "tokenizer":
        names = f"{present['fingerprint'][:19]}, not {value['fingerprint'][:19]}"
        if present == {**value, "fingerprint": present["fingerprint"]}:
            names += "; an older version took added tokens that are not special for text"
        return f"tokenizer ({names})"
    if key == "parts":
        for pair in zip_longest(_described(present), _described(value), fillvalue="nothing"):
            if pair[0] != pair[1]:
                names = f" (first {pair[0]}, not {pair[1]})"
                return f"list of input files, or other sizes of them{names}"
        return "content of its input files"  # such as other row groups, in as many bytes
    return f"{key} ({json.dumps(present)[:60]}, not {json.dumps(value)[:60]})"


def _described(parts: Any) -> list[str]:
    return [f"{source['path']} of {source['size']} bytes" for part in parts for source in part]
