"""A corpus in, a folder of token files out: planned in parts, each written whole, then finished."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
from array import array
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import (
    FIRST_COMPLETED,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from itertools import compress, pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

from bpetite import Tokenizer
from bpetite.corpora import _manifest as manifest
from bpetite.corpora._corpus import Corpus
from bpetite.corpora._new_files import NewFiles, remove_leftovers
from bpetite.corpora._parts import parts_of, span_of
from bpetite.corpora._shards import TRAINING, VALIDATION, Sharder, Shuffler, Validation
from bpetite.corpora._token_files import FORMATS
from bpetite.corpora._token_files.contract import Shard, TokenFormat, Tokens

PART_BYTES = 1 << 28
"""The bytes of input files that a part has by default. Compressed files are not divided."""

DEFAULT_SHARD_TOKENS = {"llmc": 100_000_000, "olmo": 1 << 30}
"""What the readers of a format expect of its files."""

UNJOINED = ".bpetite/shards"
"""The folder of shards that `finish` joins to one file."""

END_OF_TEXT = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|end▁of▁sentence|>")
"""The literals by which vocabularies name the end of a document."""


_ALL_BYTES = 1 << 62
"""More bytes than a part has: the part is done."""


class TokenizeProgress(NamedTuple):
    """How far `tokenize` has come."""

    done_bytes: int
    """The bytes of the input files that are done, as they are on disk."""
    total_bytes: int
    text_bytes: int
    ids: int


Progress = Callable[[TokenizeProgress], object]


class Part(NamedTuple):
    """One part of a plan: everything that its files depend on, and nothing else."""

    folder: Path
    plan: dict[str, Any]
    number: int

    @property
    def format(self) -> TokenFormat:
        """The format of its token files."""
        return FORMATS[self.plan["format"]]

    @property
    def receipt(self) -> str:
        """The name of its receipt."""
        return manifest.receipt_name(self.number)


def tokenize(
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
    workers: int = 1,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write the ids of a corpus to token files in a folder, and return the folder's manifest.

    The files depend on the corpus and the settings alone. A run that was interrupted or killed
    goes on where it was: finished parts are skipped, and the result has the same bytes.

    - `format`: megatron, datatrove, llmc, nanogpt, olmo or parquet. It decides the dtype.
    - `end`, `begin`: literals of special tokens to write behind or before each document. If a
      format does not store where documents end, the end-of-text token of the vocabulary is the
      default. Special literals in the text itself are ordinary text.
    - `shard_tokens`: a new file begins before it would have more ids.
    - `validation`: a fraction of the documents, or the number of the first ones, for a split of
      their own. A fraction depends on file and row of a document alone.
    - `shuffle`: a seed for the order of documents within each part.
    - `part_bytes`: the size of a part. Large files are divided, small ones are put together.
    - `workers`: the number of processes. Each has a thread that reads beside one that encodes.

    Raises ValueError if the settings do not fit, or the folder belongs to another run; OSError from
    the system; and the errors of reading the corpus.
    """
    folder = Path(folder)
    plan = new_plan(
        corpus, tokenizer, format, end, begin, shard_tokens, validation, shuffle, part_bytes
    )
    prepare(folder, plan, tokenizer)
    if (done := finished(folder)) is not None:
        return done
    parts = [Part(folder, plan, number) for number in range(len(plan["parts"]))]
    tracker = _Tracker(parts, progress)
    if workers == 1:
        _tokenize_here(parts, tokenizer, tracker)
    else:
        _tokenize_in_processes(parts, workers, tracker)
    return finish(folder)


# The plan


def new_plan(
    corpus: Corpus,
    tokenizer: Tokenizer,
    format: str,
    end: str | None = None,
    begin: str | None = None,
    shard_tokens: int | None = None,
    validation: float | int = 0,
    shuffle: int | None = None,
    part_bytes: int = PART_BYTES,
) -> dict[str, Any]:
    """Return the plan of a folder: all settings, and the sources of each part."""
    if format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {format!r}")
    token_format = FORMATS[format]
    vocab_size = tokenizer.n_vocab
    begin, end = _boundary_literals(tokenizer, token_format, begin, end)
    if shard_tokens is None:
        shard_tokens = DEFAULT_SHARD_TOKENS.get(format)
    _check_numbers(token_format, shard_tokens, validation, part_bytes)
    return {
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
        # Only these need the row of a document in its whole file.
        "parts": parts_of(corpus, part_bytes, format == "olmo" or isinstance(validation, float)),
    }


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
    if validation < 0 or (isinstance(validation, float) and validation > 1):
        raise ValueError(
            f"validation must be a fraction or a number of documents, got {validation}"
        )
    if part_bytes < 1:
        raise ValueError(f"part_bytes must be positive, got {part_bytes}")


# The folder


def prepare(folder: Path, plan: dict[str, Any], tokenizer: Tokenizer) -> None:
    """Make the folder, or check that it belongs to a run of this plan."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        present = manifest.read(folder, manifest.PLAN)
    except FileNotFoundError:
        if any(path.name != ".bpetite" for path in folder.iterdir()):
            raise FileExistsError(
                f"{folder}: not empty, and not a folder of token files; choose another"
            ) from None
        manifest.write(folder, manifest.PLAN, plan)
        present = plan
    for key, value in json.loads(json.dumps(plan)).items():
        if present.get(key) != value:
            raise ValueError(
                f"{folder}: made with another {_name_of(key, present.get(key), value)}; "
                "choose another folder"
            )
    if not (folder / manifest.VOCABULARY).exists():
        _save_vocabulary(folder, tokenizer)


def _save_vocabulary(folder: Path, tokenizer: Tokenizer) -> None:
    tokenizer.save(folder / manifest.VOCABULARY, overwrite=True, format="bpetite")


def _name_of(key: str, present: object, value: object) -> str:
    """Return the name of a setting that differs, and both its values if they are short."""
    if key == "tokenizer" and isinstance(present, dict) and isinstance(value, dict):
        return f"tokenizer ({present['fingerprint'][:19]}, not {value['fingerprint'][:19]})"
    if key == "parts":
        return "list of input files, or other sizes of them"
    return f"{key} ({json.dumps(present)[:60]}, not {json.dumps(value)[:60]})"


def finished(folder: Path) -> dict[str, Any] | None:
    """Return the manifest of a complete folder, None if parts are missing."""
    try:
        return manifest.read(folder, manifest.MANIFEST)
    except FileNotFoundError:
        return None


def finish(folder: Path) -> dict[str, Any]:
    """Write and return the manifest. Raises ValueError if a part has no receipt."""
    plan = manifest.read(folder, manifest.PLAN)
    receipts = manifest.receipts(folder)
    missing = [number for number in range(len(plan["parts"])) if number not in receipts]
    if missing:
        raise ValueError(f"{folder}: {len(missing)} parts are not done, the first is {missing[0]}")
    if FORMATS[plan["format"]].one_file:
        receipts = _joined(folder, plan, receipts)
    manifest.write(folder, manifest.MANIFEST, manifest.complete(plan, receipts))
    shutil.rmtree(folder / UNJOINED, ignore_errors=True)
    remove_leftovers(folder)
    return manifest.read(folder, manifest.MANIFEST)


# A part


def tokenize_part(
    part: Part, tokenizer: Tokenizer, progress: Callable[[int, int, int], object] = lambda *_: None
) -> dict[str, Any]:
    """Write the files of a part, then its receipt; return the receipt.

    A part that has a receipt is skipped. Two processes may do one part: both write equal bytes.
    """
    try:
        return manifest.read(part.folder, part.receipt)
    except FileNotFoundError:
        return _placed(*_written(part, tokenizer, progress))


def _written(
    part: Part, tokenizer: Tokenizer, progress: Callable[[int, int, int], object]
) -> tuple[Part, NewFiles, dict[str, Any]]:
    """Write the files of a part under temporary names; return them and the new receipt."""
    plan = part.plan
    files = NewFiles(part.folder)
    try:
        splits = _Splits(part, files)
        counts = dict.fromkeys(manifest.TOTALS, 0)
        # int32 has the same bytes as uint32.
        dtype: Literal["uint16", "uint32"] = "uint16" if plan["dtype"] == "uint16" else "uint32"
        sources = plan["parts"][part.number]
        skips_bad = plan["corpus"]["on_bad"] == "skip"
        corpus = Corpus([], **plan["corpus"]).part(
            map(span_of, sources), bad_log=_bad_log(part) if skips_bad else None
        )
        first_rows = {source["path"]: source["first_row"] for source in reversed(sources)}
        for found, path, bytes_read in corpus.items():
            if found.batch is None:
                continue
            data, offsets, rows = found.batch
            counts["text_bytes"] += offsets[-1] - offsets[0]
            shown_offsets, shown_rows = without_empty(offsets, rows)
            counts["empty"] += len(rows) - len(shown_rows)
            if not part.format.keeps_empty:
                offsets, rows = shown_offsets, shown_rows
            if first_rows[path]:
                rows = [first_rows[path] + row for row in rows]
            ids, starts = tokenizer.encode_offsets(
                data.toreadonly(), offsets, dtype=dtype, begin=plan["begin"], end=plan["end"]
            )
            splits.write(Tokens(ids, starts, rows, [path] * len(rows)))
            counts["ids"] += len(ids)
            counts["documents"] += len(rows)
            progress(bytes_read, counts["text_bytes"], counts["ids"])
        splits.close()
        progress(_ALL_BYTES, counts["text_bytes"], counts["ids"])
        counts["bad"] = corpus.report.bad
        shards = [shard._asdict() for shard in splits.facts()]
    except BaseException:
        files.discard()
        raise
    return part, files, {"part": part.number, **counts, "shards": shards}


def _bad_log(part: Part) -> Path:
    """Return the file that names the bad documents of a part."""
    path = part.folder / f".bpetite/bad/{part.number:05d}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _placed(part: Part, files: NewFiles, receipt: dict[str, Any]) -> dict[str, Any]:
    """Put the files of a part in place, then write its receipt."""
    try:
        facts = files.put_in_place()
    finally:
        files.discard()
    for shard in receipt["shards"]:
        shard["files"] = [
            fact._asdict() for fact in facts if fact.name.startswith(f"{shard['name']}.")
        ]
    manifest.write(part.folder, part.receipt, receipt)
    return manifest.read(part.folder, part.receipt)


def without_empty(offsets: memoryview, rows: Any) -> tuple[memoryview, Any]:
    """Return offsets and rows without the documents that have no text."""
    distinct = array("Q", dict.fromkeys(offsets))
    if len(distinct) == len(offsets):
        return offsets, rows
    has_text = (start != end for start, end in pairwise(offsets))
    return memoryview(distinct), array("Q", compress(rows, has_text))


class _Splits:
    """Deals the documents of a part out to its splits, shuffled if the plan says so."""

    def __init__(self, part: Part, files: NewFiles) -> None:
        self._part = part
        self._files = files
        self._takers: dict[str, Sharder | Shuffler] = {}
        self._sharders: dict[str, Sharder] = {}
        amount = part.plan["validation"]
        if isinstance(amount, int) and part.number:
            amount = 0  # the first documents of all are in the first part
        self._validation = Validation(amount) if amount else None
        self._takes_count = isinstance(amount, int) and amount > 0

    def write(self, tokens: Tokens) -> None:
        """Write documents to their splits."""
        if self._validation is None:
            self._taker(TRAINING).write(tokens)
        else:
            for split, run in self._validation.divided(tokens):
                self._taker(split).write(run)

    def close(self) -> None:
        """Complete all files. Raises ValueError if there were too few documents to validate."""
        if self._takes_count and self._validation is not None and self._validation.missing:
            raise ValueError(
                f"the first part has {self._validation.missing} documents too few for "
                f"{self._part.plan['validation']} of validation; give a fraction, or larger parts"
            )
        for taker in self._takers.values():
            taker.close()
        for sharder in self._sharders.values():
            sharder.close()

    def facts(self) -> Iterator[Any]:
        """Yield what the receipt says of each shard."""
        for split in (TRAINING, VALIDATION):
            if split in self._sharders:
                yield from self._sharders[split].facts

    def _taker(self, split: str) -> Sharder | Shuffler:
        if split not in self._takers:
            plan = self._part.plan
            format = self._part.format
            sharder = Sharder(format, self._files, split, self._shard, plan["shard_tokens"])
            self._sharders[split] = sharder
            if plan["shuffle"] is None:
                self._takers[split] = sharder
            else:
                seed = f"{plan['shuffle']} {split} {self._part.number}"
                self._takers[split] = Shuffler(self._files, seed, sharder.write)
        return self._takers[split]

    def _shard(self, split: str, number: int) -> Shard:
        plan = self._part.plan
        return shard_of(plan, shard_name(plan, split, self._part.number, number))


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


def _joined(
    folder: Path, plan: dict[str, Any], receipts: dict[int, dict[str, Any]]
) -> dict[int, dict[str, Any]]:
    """Join the shards of each split to one file, for readers that take one file."""
    format = FORMATS[plan["format"]]
    shards = [shard for receipt in receipts.values() for shard in receipt["shards"]]
    joined = []
    files = NewFiles(folder)
    try:
        for split in (TRAINING, VALIDATION):
            its_shards = [shard for shard in shards if shard["split"] == split]
            if its_shards:
                new = files.create(split + format.extension)
                for shard in its_shards:
                    new.append_file(folder / (shard["name"] + format.extension))
                totals = {
                    key: sum(shard[key] for shard in its_shards) for key in ("documents", "ids")
                }
                joined.append(
                    {"name": split, "split": split, **totals, "files": [new.facts._asdict()]}
                )
        files.put_in_place()
    finally:
        files.discard()
    first, *others = receipts.items()
    return {
        first[0]: {**first[1], "shards": joined},
        **{number: {**receipt, "shards": []} for number, receipt in others},
    }


# Many parts


class _Tracker:
    """Adds up the progress of parts."""

    def __init__(self, parts: list[Part], report: Progress | None) -> None:
        self._sizes = [
            sum(source["bytes"] for source in part.plan["parts"][part.number]) for part in parts
        ]
        self._report = report
        self._done = [0, 0, 0]

    def part(self, number: int) -> Callable[[int, int, int], None]:
        """Return what a part calls with the bytes it has read, its bytes of text and its ids."""
        last = [0, 0, 0]

        def advance(bytes_read: int, *others: int) -> None:
            now = (min(bytes_read, self._sizes[number]), *others)  # a block may reach further
            for i in range(3):
                self._done[i] += now[i] - last[i]
                last[i] = now[i]
            self.show()

        return advance

    def end(self, number: int, receipt: dict[str, Any]) -> None:
        """Count a part that is done, without what was counted of it before."""
        self.part(number)(self._sizes[number], receipt["text_bytes"], receipt["ids"])

    def show(self) -> None:
        """Report the progress of all parts together."""
        if self._report is not None:
            self._report(
                TokenizeProgress(self._done[0], sum(self._sizes), self._done[1], self._done[2])
            )


def _tokenize_here(parts: list[Part], tokenizer: Tokenizer, tracker: _Tracker) -> None:
    """Do the parts in this process. Writing one to disk overlaps with encoding the next."""
    with ThreadPoolExecutor(1) as background:
        placing: Future[dict[str, Any]] | None = None
        for part in parts:
            try:
                tracker.end(part.number, manifest.read(part.folder, part.receipt))
                continue
            except FileNotFoundError:
                pass
            written = _written(part, tokenizer, tracker.part(part.number))
            try:
                if placing is not None:
                    placing.result()
            except BaseException:
                written[1].discard()
                raise
            placing = background.submit(_placed, *written)
        if placing is not None:
            placing.result()


def _tokenize_in_processes(parts: list[Part], workers: int, tracker: _Tracker) -> None:
    """Do the parts in several processes. The first error stops all."""
    # A forked process would share locks with the threads of this one.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context)
    waiting = iter(parts)
    running: dict[Future[dict[str, Any]], Part] = {}
    try:
        while True:
            while len(running) < 2 * workers and (part := next(waiting, None)) is not None:
                running[pool.submit(_in_process, part)] = part
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                part = running.pop(future)
                tracker.end(part.number, future.result())
    except BaseException:
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


_tokenizers: dict[Path, Tokenizer] = {}


def _in_process(part: Part) -> dict[str, Any]:
    """Do a part in a process of its own, which loads the vocabulary once."""
    path = part.folder / manifest.VOCABULARY
    if path not in _tokenizers:
        _tokenizers[path] = Tokenizer.load(path)
    return tokenize_part(part, _tokenizers[path])
