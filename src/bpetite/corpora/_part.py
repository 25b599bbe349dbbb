"""A part of a plan in, its token files and a receipt out."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import compress, pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

from bpetite import Tokenizer
from bpetite.corpora import _manifest as manifest
from bpetite.corpora import _storage as storage
from bpetite.corpora._corpus import Corpus
from bpetite.corpora._new_files import NewFile, NewFiles
from bpetite.corpora._parts import span_of
from bpetite.corpora._plan import (
    Part,
    loaded_plan,
    loaded_tokenizer,
    public_sources,
    shard_name,
    shard_of,
)
from bpetite.corpora._shards import TRAINING, VALIDATION, Sharder, Shuffler, Validation
from bpetite.corpora._token_files import FORMATS
from bpetite.corpora._token_files.contract import Shard, TokenFormat, Tokens

_ALL_BYTES = 1 << 62
"""More bytes than a part has: the part is done."""

Advance = Callable[[int, int, int], object]
"""Takes the bytes that a part has read, its bytes of text, and its ids, each since its start."""


class Work(NamedTuple):
    """A part with the plan of its folder: everything that its files depend on."""

    folder: Path
    plan: dict[str, Any]
    number: int
    sources: list[dict[str, Any]]
    """As the plan has them, with whole URLs."""

    @classmethod
    def of(cls, part: Part) -> Work:
        """Return a part with its plan. Raises ValueError if the folder has another plan."""
        folder = storage.located_folder(part.folder)
        plan = loaded_plan(folder)
        if plan["parts"][part.number : part.number + 1] != [public_sources(part.sources)]:
            raise ValueError(f"{folder}: its plan has another part {part.number}; plan again")
        return cls(folder, plan, part.number, part.sources)

    @property
    def format(self) -> TokenFormat:
        """The format of its token files."""
        return FORMATS[self.plan["format"]]

    @property
    def receipt_name(self) -> str:
        """The name of its receipt."""
        return manifest.receipt_name(self.number)

    def tokenizer(self) -> Tokenizer:
        """Return the folder's tokenizer. Raises ValueError if the plan names another."""
        tokenizer = loaded_tokenizer(self.folder)
        if tokenizer.fingerprint != self.plan["tokenizer"]["fingerprint"]:
            raise ValueError(
                f"{self.folder / manifest.VOCABULARY}: not the vocabulary that the plan names; "
                "choose another folder"
            )
        return tokenizer

    def receipt(self) -> dict[str, Any] | None:
        """Return the receipt of a part that is done, else None."""
        try:
            return manifest.read(self.folder, self.receipt_name)
        except FileNotFoundError:
            return None


def tokenize_part(part: Part) -> dict[str, Any]:
    """Write the token files of a part of `plan`, then its receipt; return the receipt.

    A part that has a receipt is skipped. If several workers do one part, all write equal bytes. A
    killed worker leaves nothing that counts: do the part again. The docstring of `plan` has an
    example.

    Raises FileNotFoundError if the folder has no plan, ValueError if it was changed by hand, and
    the errors of reading the corpus.
    """
    work = Work.of(part)
    if (receipt := work.receipt()) is not None:
        return receipt
    try:
        return do(work, work.tokenizer())
    except FileNotFoundError:
        return done_by_others(work)


def done_by_others(work: Work) -> dict[str, Any]:
    """Return the receipt of a part that others did while this process lost its new files.

    Called for a FileNotFoundError, which it raises again if the part has no receipt.
    """
    if (receipt := work.receipt()) is None:
        raise
    return receipt


def do(work: Work, tokenizer: Tokenizer, progress: Advance = lambda *_: None) -> dict[str, Any]:
    """Write the files of a part and its receipt, whether or not there is one already."""
    return placed(*written(work, tokenizer, progress))


def written(
    work: Work, tokenizer: Tokenizer, progress: Advance
) -> tuple[Work, NewFiles, dict[str, Any]]:
    """Write the files of a part under temporary names; return them and the new receipt."""
    plan = work.plan
    files = NewFiles(work.folder)
    try:
        splits = _Splits(work, files)
        counts = dict.fromkeys(manifest.TOTALS, 0)
        # int32 has the same bytes as uint32.
        dtype: Literal["uint16", "uint32"] = "uint16" if plan["dtype"] == "uint16" else "uint32"
        sources = work.sources
        corpus = Corpus([], **plan["corpus"]).part(map(span_of, sources))
        log: NewFile | None = None
        _check_sources(sources)
        for found, number, bytes_read in corpus.items():
            if found.bad:
                log = log or files.create(f"{manifest.BAD}/{work.number:05d}.jsonl")
                log.write("".join(bad.to_json() + "\n" for bad in found.bad).encode())
            if found.batch is None:
                continue
            data, offsets, rows = found.batch
            if corpus.report.empty > counts["empty"] and not work.format.keeps_empty:
                offsets, rows = without_empty(offsets, rows)
            counts["empty"] = corpus.report.empty
            counts["text_bytes"] = corpus.report.text_bytes
            path = storage.public(sources[number]["path"])
            first_row = sources[number]["first_row"]
            if first_row:
                rows = [first_row + row for row in rows]
            ids, starts = tokenizer.encode_offsets(
                data.toreadonly(), offsets, dtype=dtype, begin=plan["begin"], end=plan["end"]
            )
            splits.write(Tokens(ids, starts, rows, [path] * len(rows)))
            counts["ids"] += len(ids)
            counts["documents"] += len(rows)
            progress(bytes_read, counts["text_bytes"], counts["ids"])
        _check_sources(sources)
        splits.close()
        progress(_ALL_BYTES, counts["text_bytes"], counts["ids"])
        counts["bad"] = corpus.report.bad
        shards = [shard._asdict() for shard in splits.facts()]
    except BaseException:
        files.discard()
        raise
    return work, files, {"part": work.number, **counts, "shards": shards}


def _check_sources(sources: Sequence[dict[str, Any]]) -> None:
    """Raise ValueError if a file has another size, or other bytes, than when the plan was made.

    Of its bytes, samples are compared: to compare all takes as long as a part. An edit between them
    that keeps the size is found by `verify` with `deep` alone.
    """
    for path, size, sample in {
        (source["path"], source["size"], source["sample"]) for source in sources
    }:
        if (present := storage.size_of(path)) != size:
            raise ValueError(
                f"{storage.public(path)}: {present} bytes, but the plan has {size}; restore the "
                "file, or write another folder"
            )
        if storage.sample_of(path, size) != sample:
            raise ValueError(
                f"{storage.public(path)}: other bytes than the plan's; restore the file, or write "
                "another folder"
            )


def placed(work: Work, files: NewFiles, receipt: dict[str, Any]) -> dict[str, Any]:
    """Put the files of a part in place, then write its receipt."""
    try:
        facts = files.put_in_place()
    finally:
        files.discard()
    for shard in receipt["shards"]:
        shard["files"] = [
            fact._asdict() for fact in facts if fact.name.startswith(f"{shard['name']}.")
        ]
    lists = [fact._asdict() for fact in facts if fact.name.startswith(f"{manifest.BAD}/")]
    if lists:
        (receipt["bad_list"],) = lists
    manifest.write(work.folder, work.receipt_name, receipt)
    return manifest.read(work.folder, work.receipt_name)


def without_empty(offsets: memoryview, rows: Any) -> tuple[memoryview, Any]:
    """Return offsets and rows without the documents that have no text."""
    has_text = (start != end for start, end in pairwise(offsets))
    return memoryview(array("Q", dict.fromkeys(offsets))), array("Q", compress(rows, has_text))


class _Splits:
    """Deals the documents of a part out to its splits, shuffled if the plan says so."""

    def __init__(self, work: Work, files: NewFiles) -> None:
        self._work = work
        self._files = files
        self._takers: dict[str, Sharder | Shuffler] = {}
        self._sharders: dict[str, Sharder] = {}
        amount = work.plan["validation"]
        if isinstance(amount, int) and work.number:
            amount = 0  # the first documents of all are in the first part
        self._validation = Validation(amount) if amount else None
        self._takes_count = isinstance(amount, int) and amount > 0

    def write(self, tokens: Tokens) -> None:
        """Write documents to their splits; without documents, no file begins."""
        if not len(tokens.rows):
            return
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
                f"{self._work.plan['validation']} of validation; give a fraction, or larger parts"
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
            plan = self._work.plan
            format = self._work.format
            # A bound method would make a cycle, which the garbage collector frees late.
            shard = partial(_shard, plan, self._work.number)
            sharder = Sharder(format, self._files, split, shard, plan["shard_tokens"])
            self._sharders[split] = sharder
            if plan["shuffle"] is None:
                self._takers[split] = sharder
            else:
                seed = f"{plan['shuffle']} {split} {self._work.number}"
                self._takers[split] = Shuffler(self._files, seed, sharder.write)
        return self._takers[split]


def _shard(plan: dict[str, Any], part: int, split: str, number: int) -> Shard:
    return shard_of(plan, shard_name(plan, split, part, number))
