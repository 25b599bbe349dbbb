"""Writing one part of a plan: its token files, then its receipt."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Sequence
from itertools import compress, pairwise
from typing import Any, Literal

from bpetite import Tokenizer
from bpetite.corpora._corpus import Corpus, PartSource
from bpetite.corpora._folder import (
    BAD,
    VOCABULARY,
    Counts,
    Folder,
    Plan,
    Receipt,
    Settings,
    ShardFacts,
    receipt_name,
)
from bpetite.corpora._inputs.settings import Span
from bpetite.corpora._new_files import NewFile, NewFiles
from bpetite.corpora._plan import Part
from bpetite.corpora._splits import TRAINING, VALIDATION, Shuffler, Validation
from bpetite.corpora._token_files.token_format import ShardWriter, Tokens

_ALL_BYTES = 1 << 62  # more bytes than a part has: the part is done


Step = tuple[int, int, int]
"""The bytes that a part has read, its bytes of text, and its ids, each since its start."""


def tokenize_part(part: Part) -> dict[str, Any]:
    """Write the token files of a part of `plan`, then its receipt; return the receipt.

    A part that has a receipt is skipped. If several workers do one part, all write equal bytes. A
    killed worker leaves nothing that counts: do the part again. The docstring of `plan` has an
    example.

    Raises FileNotFoundError if the folder has no plan, ValueError if it was changed by hand, and
    the errors of reading the corpus.
    """
    work = PartWork.of(part)
    receipt = work.receipt()
    if receipt is None:
        with work.folder.unless_made(work.name):
            return work.done(work.tokenizer()).to_json()
        receipt = work.folder.read(work.name, Receipt)
    return receipt.to_json()


class PartWork:
    """A part and the plan of its folder: together they determine the files."""

    def __init__(self, folder: Folder, plan: Plan, number: int, sources: list[PartSource]) -> None:
        self.folder = folder
        self._plan = plan
        self.number = number
        self._sources = sources  # as the plan has them, with whole URLs
        self.name = receipt_name(number)
        """Of its receipt."""
        self._files = folder.new_files()
        self._new: Receipt | None = None

    @classmethod
    def of(cls, part: Part) -> PartWork:
        """Return a part with its plan. Raises ValueError if the folder has another plan."""
        folder = Folder(part.folder)
        plan = folder.plan()
        sources = [PartSource(**source) for source in part.sources]
        if plan.parts[part.number : part.number + 1] != [[source.public for source in sources]]:
            raise ValueError(f"{folder}: its plan has another part {part.number}; plan again")
        return cls(folder, plan, part.number, sources)

    def receipt(self) -> Receipt | None:
        """Return the receipt of the part if it is done, as `Folder.done` says."""
        return self.folder.done(self.number, self._plan)

    def tokenizer(self) -> Tokenizer:
        """Return the folder's tokenizer. Raises ValueError if the plan names another."""
        tokenizer = self.folder.tokenizer()
        if tokenizer.fingerprint != self._plan.settings.tokenizer.fingerprint:
            raise ValueError(
                f"{self.folder.path / VOCABULARY}: not the vocabulary that the plan names; "
                "choose another folder"
            )
        return tokenizer

    def done(self, tokenizer: Tokenizer) -> Receipt:
        """Write the files and the receipt, whether or not there is one already."""
        for _ in self.written(tokenizer):
            pass
        return self.placed()

    def written(self, tokenizer: Tokenizer) -> Generator[Step, None, None]:
        """Write the files under temporary names; yield the progress."""
        settings, sources, files = self._plan.settings, self._sources, self._files
        try:
            splits = _Splits(settings, self.number, files)
            keeps_empty = settings.token_format.keeps_empty
            # int32 has the same bytes as uint32.
            dtype: Literal["uint16", "uint32"] = (
                "uint16" if settings.dtype == "uint16" else "uint32"
            )
            spans = [Span(source.path, source.start, source.end) for source in sources]
            corpus = Corpus([], **settings.corpus).part(spans)
            paths = [source.public.path for source in sources]
            log: NewFile | None = None
            documents = empty = id_count = 0
            _check_sources(sources)
            for found, number, bytes_read in corpus.items():
                if found.bad:
                    log = log or files.create(f"{BAD}/{self.number:05d}.jsonl")
                    log.write("".join(bad.to_json() + "\n" for bad in found.bad).encode())
                if found.batch is None:
                    continue
                data, offsets, rows = found.batch
                report = corpus.report
                if report.empty > empty and not keeps_empty:
                    offsets, rows = without_empty(offsets, rows)
                empty = report.empty
                if first_row := sources[number].first_row:
                    rows = [first_row + row for row in rows]
                begin, end = settings.begin, settings.end
                try:
                    ids, starts = tokenizer.encode_buffer(
                        data.toreadonly(), offsets, dtype=dtype, begin=begin, end=end
                    )
                    splits.write(Tokens(ids, starts, rows, [paths[number]] * len(rows)))
                except MemoryError:
                    raise MemoryError(f"{paths[number]}: out of memory") from None
                id_count += len(ids)
                documents += len(rows)
                yield bytes_read, report.text_bytes, id_count
            _check_sources(sources)
            report = corpus.report
            counts = Counts(documents, report.empty, report.bad, report.text_bytes, id_count)
            self._new = Receipt(self._plan.sha256, self.number, counts, splits.close())
            yield _ALL_BYTES, report.text_bytes, id_count
        except BaseException:
            files.discard()
            raise

    def placed(self) -> Receipt:
        """Put the files that `written` has completed in place, then write the receipt.

        A part that others did meanwhile has their receipt.
        """
        if self._new is None:
            return self.folder.read(self.name, Receipt)
        return self.folder.put_in_place(self._files, self._new)

    def discard(self) -> None:
        self._files.discard()


def _check_sources(sources: Sequence[PartSource]) -> None:
    """Raise ValueError if a file has changed since the plan was made."""
    for source in {source.path: source for source in sources}.values():
        source.check()


def without_empty(offsets: memoryview, rows: Any) -> tuple[memoryview, Any]:
    """Return offsets and rows without the documents that have no text."""
    has_text = (start != end for start, end in pairwise(offsets))
    return memoryview(array("Q", dict.fromkeys(offsets))), array("Q", compress(rows, has_text))


class _Splits:
    """Deals the documents of a part out to its splits, shuffled if the plan says so."""

    def __init__(self, settings: Settings, part: int, files: NewFiles) -> None:
        self._settings = settings
        self._part = part
        self._files = files
        self._takers: dict[str, _Sharder | Shuffler] = {}
        self._sharders: dict[str, _Sharder] = {}
        amount = settings.validation
        if isinstance(amount, int) and part:
            amount = 0  # the first documents of all are in the first part
        self._validation = Validation(amount) if amount else None

    def write(self, tokens: Tokens) -> None:
        """Write documents to their splits; without documents, no file begins."""
        if not len(tokens.rows):
            return
        if self._validation is None:
            self._taker(TRAINING).write(tokens)
        else:
            for split, run in self._validation.divided(tokens):
                self._taker(split).write(run)

    def close(self) -> list[ShardFacts]:
        """Complete all files, and return what the receipt says of each shard.

        Raises ValueError if there were too few documents to validate.
        """
        if self._validation is not None and self._validation.missing:
            raise ValueError(
                f"the first part lacks {self._validation.missing} of the "
                f"{self._settings.validation} documents for validation; give a fraction, or "
                "larger parts"
            )
        for taker in self._takers.values():
            taker.close()
        for sharder in self._sharders.values():
            sharder.close()
        splits = [split for split in (TRAINING, VALIDATION) if split in self._sharders]
        return [shard for split in splits for shard in self._sharders[split].facts]

    def _taker(self, split: str) -> _Sharder | Shuffler:
        if split not in self._takers:
            sharder = _Sharder(self._settings, self._part, split, self._files)
            self._sharders[split] = sharder
            if self._settings.shuffle is None:
                self._takers[split] = sharder
            else:
                seed = f"{self._settings.shuffle} {split} {self._part}"
                self._takers[split] = Shuffler(self._files, seed, sharder.write)
        return self._takers[split]


class _Sharder:
    """Writes documents to one shard after another, each of at most `max_ids` ids.

    Only a longer document makes a larger shard, unless the format cuts documents.
    """

    def __init__(self, settings: Settings, part: int, split: str, files: NewFiles) -> None:
        self.facts: list[ShardFacts] = []
        self._settings = settings
        self._format = settings.token_format
        self._part = part
        self._split = split
        self._files = files
        self._max_ids = settings.shard_tokens
        self._writer: ShardWriter | None = None
        self._name = ""
        self._documents = self._ids = 0

    def write(self, tokens: Tokens) -> None:
        if self._max_ids is None:
            self._append(tokens, len(tokens.rows))
        elif self._format.cuts_documents:
            self._write_cutting(tokens, self._max_ids)
        else:
            while tokens.rows:
                tokens = self._write_some(tokens, self._max_ids)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self.facts.append(ShardFacts(self._name, self._split, self._documents, self._ids))
            self._writer = None
            self._documents = self._ids = 0

    def _write_some(self, tokens: Tokens, max_ids: int) -> Tokens:
        """Write the documents that this shard has room for; return the rest."""
        count = len(tokens.rows)
        fitting = bisect_right(tokens.offsets, max_ids - self._ids) - 1
        if fitting < 1 and self._ids:
            self.close()
            return tokens
        if fitting == 0:
            self._check_length(tokens.offsets[1])
            fitting = 1
        self._append(tokens.part(0, fitting), fitting)
        return tokens.part(fitting, count)

    def _write_cutting(self, tokens: Tokens, max_ids: int) -> None:
        """Fill each shard up to its last id. A document counts where it begins."""
        start = 0
        while start < len(tokens.ids):
            end = min(start + max_ids - self._ids, len(tokens.ids))
            documents = bisect_left(tokens.offsets, end) - bisect_left(tokens.offsets, start)
            self._append(Tokens(tokens.ids[start:end], [], [], []), documents)
            start = end
            if self._ids == max_ids:
                self.close()

    def _append(self, tokens: Tokens, documents: int) -> None:
        if self._writer is None:
            shard = self._settings.new_shard(self._part, self._split, len(self.facts))
            self._writer = self._format.writer(shard, self._files)
            self._name = shard.name
        self._writer.write(tokens)
        self._documents += documents
        self._ids += len(tokens.ids)

    def _check_length(self, ids: int) -> None:
        limit = self._format.max_shard_ids
        if limit is not None and ids > limit:
            raise ValueError(
                f"a document has {ids} ids, but {self._format.name} files hold at most {limit}"
            )
