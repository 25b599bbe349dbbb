"""The plan of a folder of token files: its settings, and the sources of each part."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

from bpetite import Tokenizer
from bpetite._arguments import as_integer
from bpetite.corpora import _storage as storage
from bpetite.corpora._corpus import Corpus, PartSource, parts_of
from bpetite.corpora._folder import PLAN, Folder, Plan, Settings, VocabularyFacts, plain
from bpetite.corpora._token_files import FORMATS
from bpetite.corpora._token_files.token_format import TokenFormat

PART_BYTES = 1 << 28
"""The bytes of input files that a part has by default. Compressed files are not divided."""

DEFAULT_SHARD_TOKENS = {"llmc": 100_000_000, "olmo": 1 << 30}
"""What the readers of a format expect of its files."""

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
    """The path of each input file, its range, and the bytes of the range. The plan file has the
    same, but its URLs lack their user and their query."""

    def __repr__(self) -> str:  # without secrets: schedulers log their tasks
        sources = [{**source, "path": storage.public(source["path"])} for source in self.sources]
        return f"Part(folder={self.folder!r}, number={self.number}, sources={sources})"

    @property
    def bytes(self) -> int:
        """The size of the sources as stored. The time for a part grows with it."""
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

    The arguments are as in `tokenize`. The folder receives the plan and the vocabulary. Any
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
    begin, end = _boundary_literals(tokenizer, token_format, begin, end)
    if shard_tokens is None:
        shard_tokens = DEFAULT_SHARD_TOKENS.get(format)
    if shard_tokens is not None:
        shard_tokens = as_integer(shard_tokens, "shard_tokens must be an integer or None")
    if not isinstance(validation, float):
        validation = as_integer(validation, "validation must be a number")
    if shuffle is not None:
        shuffle = as_integer(shuffle, "shuffle must be an integer or None")
    part_bytes = as_integer(part_bytes, "part_bytes must be an integer")
    _check_numbers(token_format, shard_tokens, validation, part_bytes)
    place = Folder(folder)
    parts = parts_of(corpus, part_bytes)
    if not parts:
        raise ValueError("the corpus has no files")
    if format == "olmo" or isinstance(validation, float):
        # Only these need the row of a document in its whole file.
        parts = _counted(place, parts) or parts_of(corpus, part_bytes, counts_rows=True)
    settings = Settings(
        format,
        token_format.dtype(tokenizer.n_vocab),
        VocabularyFacts.of(tokenizer),
        begin,
        end,
        shard_tokens,
        validation,
        shuffle,
        part_bytes,
        corpus.settings,
    )
    _check_queries(parts)
    place.begin(Plan(settings, _public(parts)), tokenizer)
    return [Part(str(place), number, plain(part)) for number, part in enumerate(parts)]


def _public(parts: list[list[PartSource]]) -> list[list[PartSource]]:
    """Return parts as a plan has them: without secrets of URLs."""
    return [[source.public for source in part] for part in parts]


def _check_queries(parts: list[list[PartSource]]) -> None:
    """Raise ValueError if two URLs differ only in what a plan leaves out."""
    urls: dict[str, str] = {}
    for source in chain.from_iterable(parts):
        name = source.public.path
        if urls.setdefault(name, source.path) != source.path:
            raise ValueError(
                f"{name}: two inputs have this URL, with other queries or users, which a folder of "
                "token files does not store; download them, or write a folder for each"
            )


def _counted(folder: Folder, parts: list[list[PartSource]]) -> list[list[PartSource]] | None:
    """Return parts with the rows that a plan of this folder counted, if it has these parts."""
    present = folder.found(PLAN, Plan)
    if present is None or [*map(len, present.parts)] != [*map(len, parts)]:
        return None
    counted = [
        [replace(source, first_row=other.first_row) for source, other in zip(*pair, strict=True)]
        for pair in zip(parts, present.parts, strict=True)
    ]
    return counted if _public(counted) == present.parts else None


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
