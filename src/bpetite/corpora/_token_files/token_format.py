"""What a token-file format provides: the files of a shard, and what their reader needs.

The rule for dtypes is here; Megatron's and nanoGPT's readers have others, in their modules. The
module of each format has its header, if there is one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

from bpetite.corpora._new_files import NewFiles

ITEM_SIZES = {"uint16": 2, "int32": 4, "uint32": 4}
"""The bytes of an id, by the dtype of a file."""


class Tokens(NamedTuple):
    """Documents as ids, in order."""

    ids: memoryview
    """The ids of all documents, begin and end tokens included."""
    offsets: Sequence[int]
    """Where each document begins in `ids`, and where the last one ends; the first is 0."""
    rows: Sequence[int]
    """The row of each document in its file, from 0."""
    sources: Sequence[str]
    """The path of each document's file."""

    def part(self, first: int, last: int) -> Tokens:
        """Return the documents from `first` up to `last`, which is not among them."""
        start, end = self.offsets[first], self.offsets[last]
        return Tokens(
            self.ids[start:end],
            [offset - start for offset in self.offsets[first : last + 1]],
            self.rows[first:last],
            self.sources[first:last],
        )


class TokenBlock(NamedTuple):
    """Documents that a shard has."""

    ids: memoryview
    offsets: Sequence[int] | None
    """Where each document begins in `ids`, and where the last one ends; None if unknown."""


class Mapped(NamedTuple):
    """A shard that is mapped into memory, and where its documents end if its files say so."""

    ids: memoryview
    ends: memoryview | None
    """Where each document but the last ends, counted in units; None if not stored."""
    units: int = 1
    """How many units an id has."""


class Shard(NamedTuple):
    """What a writer needs to know of its shard."""

    name: str
    """The name of its files without an extension, for example `train_00000`."""
    dtype: str
    tokenizer_name: str


class ShardWriter(ABC):
    """Writes the files of one shard. All files get their names together, at the end."""

    @abstractmethod
    def write(self, tokens: Tokens) -> None:
        """Append documents."""

    @abstractmethod
    def close(self) -> None:
        """Complete and close every file; `NewFiles` then names them in order of their creation."""


class TokenFormat(ABC):
    """One format. A new one is a subclass in a module of its own, and an entry in `FORMATS`."""

    name: ClassVar[str]
    extension: ClassVar[str]
    """Of the file that holds the ids."""
    stores_boundaries: ClassVar[bool]
    """Whether a reader learns where documents end without an end or begin token."""
    keeps_empty: ClassVar[bool]
    """Whether its readers take a document without text."""
    begins_documents: ClassVar[bool] = False
    """Whether its readers expect the end-of-text token before each document, not after it."""
    max_shard_ids: ClassVar[int | None] = None
    """The most ids that its readers take in a file; None without a bound."""
    cuts_documents: ClassVar[bool] = False
    """Whether a document may go on in the next shard."""
    one_file: ClassVar[bool] = False
    """Whether its readers take one file for all parts."""

    def dtype(self, vocab_size: int) -> str:
        """Return the dtype of the ids, by the reader's rule. Raises ValueError if none fits."""
        return "uint16" if vocab_size <= 1 << 16 else "uint32"

    @abstractmethod
    def writer(self, shard: Shard, files: NewFiles) -> ShardWriter:
        """Return a writer of a new shard."""

    @abstractmethod
    def read(self, folder: Path, shard: Shard) -> Iterator[TokenBlock]:
        """Yield the documents of a shard, some at a time, as its reader finds them.

        Raises ValueError if a file is not what its reader expects.
        """

    @abstractmethod
    def mapped(self, folder: Path, shard: Shard) -> Mapped:
        """Return a shard without reading its ids. Raises ValueError if its header does not fit."""
