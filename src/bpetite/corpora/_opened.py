"""A folder of token files, mapped: its documents by number, and blocks of a sequence length."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from functools import lru_cache, partial
from importlib import import_module
from itertools import accumulate
from typing import Any, Literal, overload

from bpetite._arguments import as_integer
from bpetite.corpora._encode import Block
from bpetite.corpora._folder import Folder, Settings, ShardFacts
from bpetite.corpora._new_files import in_file_order
from bpetite.corpora._shuffle import Shuffle
from bpetite.corpora._storage import is_remote
from bpetite.corpora._token_files.raw import KEEPS_HANDLES
from bpetite.corpora._token_files.token_format import Mapped
from bpetite.corpora._verify import checked_manifest

_MAX_MAPPED_SHARDS = 64 if KEEPS_HANDLES else None
"""A shard has two mapped files, and some systems allow only 256 open files."""

_SEARCHED_IDS = 1 << 20


def open(folder: str | os.PathLike[str], split: str = "train") -> TokenFolder:
    r"""Return the documents of a folder that `tokenize` wrote, of any format, without loading them.

    `split` is "train" or "val". The result has a length, and `result[i]` has the ids of document i
    with its begin and end tokens. It can be pickled, as its path, so other processes can have it.

    >>> import pathlib, tempfile
    >>> from bpetite import Tokenizer
    >>> from bpetite.corpora import Corpus, open, tokenize
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.jsonl").write_bytes(b'{"text": "ab"}\n{"text": "ba"}\n')
    >>> tokenizer = Tokenizer.train("ab ab", 257)
    >>> _ = tokenize(Corpus(folder / "a.jsonl"), tokenizer, folder / "tokens", "nanogpt")
    >>> documents = open(folder / "tokens")
    >>> len(documents), documents[1].tolist(), documents.ids
    (2, [98, 97, 257], 5)
    >>> [(block.ids.tolist(), block.offsets.tolist()) for block in documents.blocks(3)]
    [([256, 257, 98], [0, 2, 3]), ([97, 257], [0, 2])]

    Raises ValueError for a folder that is not complete, that lacks a receipt, or that has a file of
    another size than its manifest says; `verify` reads the content too. Raises ValueError for a
    split that the folder lacks and for a URL, NotADirectoryError, and OSError from the system.
    """
    return TokenFolder(folder, split)


class TokenFolder:
    """The documents of a split of a folder; `open` makes it."""

    def __init__(self, folder: str | os.PathLike[str], split: str) -> None:
        """Not for users: call `open`."""
        place = Folder(folder)
        if is_remote(place.path):
            raise ValueError(f"{place}: the files of a URL cannot be mapped; copy them to a disk")
        manifest = checked_manifest(place)
        shards = [shard for shard in manifest.shards if shard.split == split]
        if not shards:
            known = ", ".join(dict.fromkeys(shard.split for shard in manifest.shards)) or "none"
            raise ValueError(f"{place}: no split {split!r}; the folder has {known}")
        self._path = str(place)
        self._split = split
        self._shards = shards
        self._first_ids = [*accumulate((shard.ids for shard in shards), initial=0)]
        self._first_documents = [*accumulate((shard.documents for shard in shards), initial=0)]
        settings = manifest.settings
        # A cached method would keep its folder alive, and so every mapped file.
        self._mapped = lru_cache(_MAX_MAPPED_SHARDS)(partial(_mapped, place, settings, shards))
        self._starts: dict[int, array[int]] = {}
        """Where documents begin, of shards whose files do not say so."""
        self._format: Literal["H", "I"] = "H" if settings.dtype == "uint16" else "I"
        self._stores_ends = settings.token_format.stores_boundaries
        special_tokens = settings.tokenizer.special_tokens
        self._end, self._begin = (
            array(self._format, [] if literal is None else [special_tokens[literal]])
            for literal in (settings.end, settings.begin)
        )
        try:
            self._numpy: Any = None if self._stores_ends else import_module("numpy")
        except ImportError:
            self._numpy = None

    @property
    def ids(self) -> int:
        """The number of ids."""
        return self._first_ids[-1]

    def __len__(self) -> int:
        """Return the number of documents."""
        return self._first_documents[-1]

    def __getitem__(self, number: int) -> memoryview:
        """Return the ids of a document. Raises IndexError for a number beyond the last."""
        number = range(len(self))[number]
        return self._packed(self._start(number), self._start(number + 1)).ids

    def __iter__(self) -> Iterator[memoryview]:
        return map(self.__getitem__, range(len(self)))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._path, self._split)

    def blocks(self, length: int, *, seed: int | None = None) -> Sequence[Block]:
        """Return all ids in blocks of `length`, the last of which may be shorter.

        A seed shuffles the others, into the same order on every machine. A slice is again such a
        sequence: `blocks[done:][rank::ranks][worker::workers]` is what is left for a worker. A
        block is computed when it is asked for, and the sequence can be pickled. The docstring of
        `open` has an example. Raises ValueError for a length below 1.
        """
        return _Blocks(self, length, seed)

    def _packed(self, start: int, end: int) -> Block:
        """Return the ids from a position among all ids up to another, which is not among them."""
        parts: list[memoryview] = []
        offsets = [0]
        at = start
        while at < end:
            shard = bisect_right(self._first_ids, at) - 1
            first = self._first_ids[shard]
            ids, bounds, units = self._mapped(shard)
            low, high = at - first, min(end - first, len(ids))
            parts.append(ids[low:high])
            if bounds is not None:
                number, count = bisect_right(bounds, low * units), len(bounds)
                while number < count and (bound := bounds[number] // units) < high:
                    if (offset := first + bound - start) != offsets[-1]:  # of an empty document
                        offsets.append(offset)
                    number += 1
                offsets.append(first + high - start)
            at = first + high
        ids = parts[0] if len(parts) == 1 else memoryview(array(self._format, b"".join(parts)))
        if not self._stores_ends:
            offsets += (offset for offset in self._boundaries(ids) if 0 < offset < len(ids))
            offsets.append(len(ids))
        return Block(ids, memoryview(array("i", offsets)))

    def _boundaries(self, ids: memoryview) -> Iterable[int]:
        """Return where a document ends and the next begins, found by the tokens around them."""
        searched = self._end + self._begin
        if self._numpy is not None:  # it reads ten times as fast
            numbers = self._numpy.frombuffer(ids, ids.format)  # in a sixth of the time of `asarray`
            found = numbers == searched[0]
            if len(searched) == 2:
                found = found[:-1] & (numbers[1:] == searched[1])
            return [at + len(self._end) for at in found.nonzero()[0].tolist()]
        return self._searched(searched.tobytes(), ids.tobytes(), ids.itemsize)

    def _searched(self, searched: bytes, data: bytes, size: int) -> Iterator[int]:
        at = data.find(searched)
        while at >= 0:
            if at % size == 0:
                yield at // size + len(self._end)
            at = data.find(searched, at + 1)

    def _start(self, document: int) -> int:
        """Return the position of the first id of a document; after the last one, of the end."""
        if document == len(self):
            return self.ids
        shard = bisect_right(self._first_documents, document) - 1
        number = document - self._first_documents[shard]
        _, bounds, units = self._mapped(shard)
        if bounds is None:
            return self._first_ids[shard] + self._found_starts(shard)[number]
        return self._first_ids[shard] + (bounds[number - 1] // units if number else 0)

    def _found_starts(self, number: int) -> array[int]:
        """Return where documents begin in a shard. The whole shard is read, once."""
        if number not in self._starts:
            ids, shard = self._mapped(number).ids, self._shards[number]
            overlap = len(self._end) + len(self._begin) - 1
            starts = array("Q")
            for first in range(0, len(ids), _SEARCHED_IDS):
                some = ids[first : first + _SEARCHED_IDS + overlap]
                starts.extend(first + start for start in self._boundaries(some))
            if starts[-1:] == array("Q", [len(ids)]):
                starts.pop()
            if len(starts) == shard.documents - 1:
                starts.insert(0, 0)  # else the shard begins within a document
            if len(starts) != shard.documents:
                raise ValueError(
                    f"{self._path}: {shard.name} has {len(starts)} documents, not "
                    f"{shard.documents}; verify the folder"
                )
            self._starts[number] = starts
        return self._starts[number]


def _mapped(
    folder: Folder, settings: Settings, shards: Sequence[ShardFacts], number: int
) -> Mapped:
    """Return a shard by its number. Raises ValueError if it has another size than its facts say."""
    shard = shards[number]
    ids, bounds, units = settings.token_format.mapped(folder.path, settings.shard(shard.name))
    count = None if bounds is None else len(bounds)
    if len(ids) != shard.ids or count not in (None, max(shard.documents - 1, 0)):
        raise ValueError(
            f"{folder.path / shard.name}: not {shard.ids} ids of {shard.documents} documents; "
            "verify the folder"
        )
    return Mapped(in_file_order(ids), None if bounds is None else in_file_order(bounds), units)


class _Blocks(Sequence[Block]):
    """All ids of a folder in blocks, in an order."""

    def __init__(self, folder: TokenFolder, length: int, seed: int | None) -> None:
        length = as_integer(length, "length must be an integer")
        if length < 1:
            raise ValueError(f"length must be positive, got {length}")
        if seed is not None:
            seed = as_integer(seed, "seed must be an integer or None")
        self._folder = folder
        self._ids = folder.ids
        self._length = length
        self._whole, rest = divmod(folder.ids, length)
        self._shuffle = int if seed is None else Shuffle(self._whole, seed)
        self._places = range(self._whole + (rest > 0))

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Block: ...
    @overload
    def __getitem__(self, index: slice) -> _Blocks: ...
    def __getitem__(self, index: int | slice) -> Block | _Blocks:
        """Return a block, or some as a sequence."""
        place = self._places[index]
        if isinstance(place, range):
            some = copy(self)
            some._places = place
            return some
        return self._block(place)

    def __iter__(self) -> Iterator[Block]:
        return map(self._block, self._places)

    def _block(self, place: int) -> Block:
        start = (self._shuffle(place) if place < self._whole else place) * self._length
        return self._folder._packed(start, min(start + self._length, self._ids))
