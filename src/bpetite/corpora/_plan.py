"""The plan of a folder of token files: its settings, and the sources of each part."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from itertools import zip_longest
from operator import index
from pathlib import Path
from typing import Any, NamedTuple

from bpetite import Tokenizer
from bpetite.corpora import _manifest as manifest
from bpetite.corpora import _storage as storage
from bpetite.corpora._corpus import Corpus
from bpetite.corpora._new_files import save_whole
from bpetite.corpora._parts import parts_of
from bpetite.corpora._token_files import FORMATS
from bpetite.corpora._token_files.contract import Shard, TokenFormat

PART_BYTES = 1 << 28
"""The bytes of input files that a part has by default. Compressed files are not divided."""

DEFAULT_SHARD_TOKENS = {"llmc": 100_000_000, "olmo": 1 << 30}
"""What the readers of a format expect of its files."""

UNJOINED = ".bpetite/shards"
"""The folder of shards that `finish` joins to one file."""

END_OF_TEXT = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|end▁of▁sentence|>")
"""The literals by which vocabularies name the end of a document."""


class Part(NamedTuple):
    """A part of a plan: the documents whose token files one call of `tokenize_part` writes.

    It is small, can be pickled, and its fields are JSON, so every scheduler can send it.
    """

    folder: str
    """The folder of token files. Workers see it, and the sources, under the same paths."""
    number: int
    sources: list[dict[str, Any]]
    """The path of each input file, its range, and the bytes of the range. The plan has the same,
    with URLs that lack their user and their query."""

    @property
    def bytes(self) -> int:
        """The size of the sources as they are stored. A part takes about as long as it is large."""
        return sum(source["bytes"] for source in self.sources)


def plan(
    corpus: Corpus,
    tokenizer: Tokenizer,
    folder: str | os.PathLike[str],
    format: str,
    *,
    end: str | None = None,
    begin: str | None = None,
    shard_tokens: int | None = None,
    validation: float | int = 0,
    shuffle: int | None = None,
    part_bytes: int = PART_BYTES,
) -> list[Part]:
    r"""Prepare a folder for the ids of a corpus; return its parts, for a scheduler.

    The arguments are those of `tokenize`. The folder receives the plan and the vocabulary. Any
    worker that sees the folder can then do any part by `tokenize_part`. When all parts are done,
    `finish` completes the folder. To plan again changes nothing.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.jsonl").write_bytes(b'{"text": "ab"}\n' * 9)
    >>> tokenizer, tokens = Tokenizer.train("ab ab", 257), folder / "tokens"
    >>> parts = plan(Corpus(folder / "a.jsonl"), tokenizer, tokens, "megatron", part_bytes=50)
    >>> [part.bytes for part in parts]
    [45, 45, 45]
    >>> from bpetite.corpora import finish, tokenize_part
    >>> receipts = list(map(tokenize_part, parts))
    >>> finish(tokens)["totals"]["ids"]
    9

    Raises ValueError if the settings do not fit, or the folder belongs to another run, and OSError
    from the system.
    """
    if format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {format!r}")
    token_format = FORMATS[format]
    vocab_size = tokenizer.n_vocab
    begin, end = _boundary_literals(tokenizer, token_format, begin, end)
    if shard_tokens is None:
        shard_tokens = DEFAULT_SHARD_TOKENS.get(format)
    _check_numbers(token_format, shard_tokens, validation, part_bytes)
    part_bytes = index(part_bytes)  # of another library, it might overflow
    place = storage.located_folder(folder)
    files, spans = corpus.files, corpus.spans
    sources = parts_of(files, spans, part_bytes)
    if not sources:
        raise ValueError("the corpus has no files")
    if format == "olmo" or isinstance(validation, float):
        # Only these need the row of a document in its whole file.
        sources = _counted(place, sources) or parts_of(files, spans, part_bytes, True)
    document = {
        "version": manifest.VERSION,
        "format": format,
        "dtype": token_format.dtype(vocab_size),
        "tokenizer": {
            "fingerprint": tokenizer.fingerprint,
            "file": manifest.VOCABULARY,
            "ids": vocab_size,
            "pattern": tokenizer.pattern,
            "special_tokens": dict(tokenizer.special_tokens),
        },
        "begin": begin,
        "end": end,
        "shard_tokens": shard_tokens,
        "validation": validation,
        "shuffle": shuffle,
        "part_bytes": part_bytes,
        "corpus": corpus.settings,
        "parts": [public_sources(its) for its in sources],
    }
    _check_queries(corpus)
    _prepare(place, document, tokenizer)
    return [Part(str(place), number, its) for number, its in enumerate(sources)]


Sources = list[list[dict[str, Any]]]


def public_sources(sources: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return sources as a plan has them: without secrets of URLs."""
    return [{**source, "path": storage.public(source["path"])} for source in sources]


def _check_queries(corpus: Corpus) -> None:
    """Raise ValueError if two URLs differ in what a plan leaves out alone."""
    urls: dict[str, str] = {}
    for span in corpus.spans:
        name = storage.public(span.path)
        if urls.setdefault(name, span.path) != span.path:
            raise ValueError(
                f"{name}: two inputs have this URL, with other queries or users, which a folder of "
                "token files does not store; download them, or write a folder for each"
            )


def _counted(folder: Path, sources: Sources) -> Sources | None:
    """Return the sources with the rows that a plan of this folder counted, if it has these."""
    try:
        counted: Sources = manifest.read(folder, manifest.PLAN)["parts"]
    except FileNotFoundError:
        return None
    without_rows = [[{**entry, "first_row": 0} for entry in part] for part in counted]
    if without_rows != [*map(public_sources, sources)]:
        return None
    rows = [[entry["first_row"] for entry in part] for part in counted]
    return [
        [{**entry, "first_row": row} for entry, row in zip(its, its_rows, strict=True)]
        for its, its_rows in zip(sources, rows, strict=True)
    ]


def _boundary_literals(
    tokenizer: Tokenizer, format: TokenFormat, begin: str | None, end: str | None
) -> tuple[str | None, str | None]:
    """Return the literals to write around each document; refuse to lose all boundaries."""
    for literal in (begin, end):
        if literal is not None and literal not in tokenizer.special_tokens:
            known = ", ".join(list(tokenizer.special_tokens)[:5]) or "none"
            raise ValueError(f"{literal!r} is not a special token; the vocabulary has {known}")
    if begin is None and end is None and not format.stores_boundaries:
        found = [literal for literal in END_OF_TEXT if literal in tokenizer.special_tokens]
        if len(found) != 1:
            raise ValueError(
                f"{format.name} files do not store where documents end, and the vocabulary has "
                f"{'several tokens' if found else 'no token'} for it; name one with `end`"
            )
        if format.begins_documents:
            return found[0], None
        return None, found[0]
    return begin, end


def _check_numbers(
    format: TokenFormat, shard_tokens: int | None, validation: float | int, part_bytes: int
) -> None:
    if shard_tokens is not None and format.one_file:
        raise ValueError(f"{format.name} readers take one file, so shard_tokens does not apply")
    highest = format.max_shard_ids
    if shard_tokens is not None and not 1 <= shard_tokens <= (highest or shard_tokens):
        bound = "positive" if highest is None else f"from 1 to {highest}"
        raise ValueError(f"shard_tokens must be {bound}, got {shard_tokens}")
    if not validation >= 0 or (isinstance(validation, float) and validation > 1):
        raise ValueError(
            f"validation must be a fraction or a number of documents, got {validation}"
        )
    if part_bytes < 1:
        raise ValueError(f"part_bytes must be positive, got {part_bytes}")


def _prepare(folder: Path, plan: dict[str, Any], tokenizer: Tokenizer) -> None:
    """Make the folder, or check that it belongs to a run of this plan."""
    if not storage.is_remote(folder):
        folder.mkdir(parents=True, exist_ok=True)
    present = _present_plan(folder)
    if present is None:
        present = manifest.write_first(folder, manifest.PLAN, plan)
    for key, value in json.loads(json.dumps(plan)).items():
        if json.dumps(present.get(key)) != json.dumps(value):  # 1 is not 1.0
            raise ValueError(
                f"{folder}: made with another {_name_of(key, present.get(key), value)}; "
                "choose another folder"
            )
    vocabulary = folder / manifest.VOCABULARY
    if not storage.exists(vocabulary):
        _save_vocabulary(folder, tokenizer)
        _loaded[manifest.VOCABULARY] = (vocabulary, storage.version_of(vocabulary), tokenizer)


def _save_vocabulary(folder: Path, tokenizer: Tokenizer) -> None:
    """Put the vocabulary file in place.

    A file that is saved there at once has its temporary file beside it, and a killed process would
    leave that behind.
    """

    def save(path: Path) -> None:
        tokenizer.save(path, overwrite=True, format="bpetite")

    try:
        save_whole(folder, manifest.VOCABULARY, save)
    except FileNotFoundError:
        # Another run may have finished the folder meanwhile, and removed what is not in place.
        if not storage.exists(folder / manifest.VOCABULARY):
            raise


# A worker does many parts of one folder, and loading a vocabulary takes longer than a small part.

_loaded: dict[str, tuple[Path, tuple[object, ...], Any]] = {}
"""The plan and the tokenizer that were loaded last: their files, and the versions of these."""


def loaded_plan(folder: Path) -> dict[str, Any]:
    """Return the plan of a folder. Raises FileNotFoundError if it is missing."""
    plan: dict[str, Any] = _last(
        manifest.PLAN, folder, lambda: manifest.read(folder, manifest.PLAN)
    )
    return plan


def loaded_tokenizer(folder: Path) -> Tokenizer:
    """Return the tokenizer of a folder. Raises FileNotFoundError if it is missing."""
    tokenizer: Tokenizer = _last(manifest.VOCABULARY, folder, lambda: vocabulary_of(folder))
    return tokenizer


def vocabulary_of(folder: Path) -> Tokenizer:
    """Load the vocabulary file of a folder."""
    with storage.on_disk(folder, [manifest.VOCABULARY]) as local:
        return Tokenizer.load(local / manifest.VOCABULARY)


def _last(name: str, folder: Path, load: Callable[[], Any]) -> Any:
    path = folder / name
    version = storage.version_of(path)
    present = _loaded.get(name)
    if present is not None and present[:2] == (path, version):
        return present[2]
    value = load()
    _loaded[name] = (path, version, value)
    return value


def _present_plan(folder: Path) -> dict[str, Any] | None:
    """Return the plan of a folder, None for an empty one."""
    is_empty = {*storage.names_in(folder)} <= {".bpetite"}
    try:
        # Another process may write a plan between the two looks. A plan comes before other files.
        return manifest.read(folder, manifest.PLAN)
    except FileNotFoundError:
        if is_empty:
            return None
    raise FileExistsError(f"{folder}: not empty, and not a folder of token files; choose another")


def _name_of(key: str, present: object, value: object) -> str:
    """Return the name of a setting that differs, and both its values if they are short."""
    if key == "tokenizer" and isinstance(present, dict) and isinstance(value, dict):
        return f"tokenizer ({present['fingerprint'][:19]}, not {value['fingerprint'][:19]})"
    if key == "parts":
        for pair in zip_longest(_described(present), _described(value), fillvalue="nothing"):
            if pair[0] != pair[1]:
                names = f" (first {pair[0]}, not {pair[1]})"
                return f"list of input files, or other sizes of them{names}"
        return "content of its input files"  # such as other row groups, in as many bytes
    return f"{key} ({json.dumps(present)[:60]}, not {json.dumps(value)[:60]})"


def _described(parts: Any) -> list[str]:
    """Return the path and the size of each source."""
    return [f"{source['path']} of {source['size']} bytes" for part in parts for source in part]


def shard_name(plan: Mapping[str, Any], split: str, part: int, shard: int) -> str:
    """Return the name of a shard's files, without an extension.

    >>> shard_name({"format": "megatron", "shard_tokens": None}, "train", 3, 0)
    'train_00003'
    >>> shard_name({"format": "megatron", "shard_tokens": 100}, "val", 3, 1)
    'val_00003_00001'
    """
    folder = f"{UNJOINED}/" if FORMATS[plan["format"]].one_file else ""
    name = f"{folder}{split}_{part:05d}"
    return name if plan["shard_tokens"] is None else f"{name}_{shard:05d}"


def shard_of(plan: Mapping[str, Any], name: str) -> Shard:
    """Return a shard of a plan by its name."""
    return Shard(name, plan["dtype"], plan["tokenizer"]["fingerprint"])
