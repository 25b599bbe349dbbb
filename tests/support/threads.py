"""Threads that share every public object; their results are compared with those of one thread.

In each round, threads begin at the same moment with new objects,
so that they meet while caches and lazy values are made. They use all public methods in random
order.

Streams and iterators belong to one thread at a time. Here threads share them all the same, and
change lists and buffers that other threads encode or decode. Such calls may return anything and
raise ordinary errors, but they must not end the process, and the objects must work after a reset.
"""

from __future__ import annotations

import asyncio
import copy
import pickle
import random
import sys
import tempfile
import threading
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

import bpetite.tiktoken as door
from bpetite import (
    DecodeStream,
    DecodeStreamBatch,
    PieceCounts,
    Prompt,
    StreamVocabulary,
    Tokenizer,
    Trusted,
    analysis,
    corpora,
)
from support.examples import randoms

END = "<|endoftext|>"
TEXT = f"It's the hen: then, met the ten men's.\r\n\tDon't! 你好世界 {END} 12345 é🙂 \n\n"
LONG_TEXT = TEXT * 60
TEXTS = [TEXT, "", LONG_TEXT, "the hen", END, "naïve 🙂" * 30]
PARTS = ["ask: ", Trusted(END), f"the {END} hen"]
FORBIDDEN_ERRORS = (MemoryError, SystemError, RecursionError)
"""Ordinary errors that even misuse of an object by threads must not cause."""

CHANGING_TEXT = "text in a buffer"
"""An object that may make the native engine raise a RuntimeError."""

Use = Callable[["Objects"], object]


# The objects


class Objects:
    """New objects of all public classes, which no thread has used."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.numbers = count()
        self.tokenizer = Tokenizer.train(LONG_TEXT, 320, threads=1)
        self.smaller = self.tokenizer.with_vocab_size(300)
        self.vocabulary = StreamVocabulary(
            dict(enumerate(self.tokenizer.tokens)), [*self.tokenizer.special_tokens.values()]
        )
        self.file = folder / "texts.jsonl"
        if not self.file.exists():
            self.file.write_text('{"text": "the hen then"}\n{"text": "é🙂 ten"}\n' * 20)
            (folder / "plain.txt").write_text(LONG_TEXT, newline="")
        self.corpus = corpora.Corpus(self.file)
        self.token_files = self.path()
        corpora.tokenize(self.corpus, self.tokenizer, self.token_files, "nanogpt")
        self.token_folder = corpora.open(self.token_files)
        self.blocks = self.token_folder.blocks(20, seed=3)
        self.counts = PieceCounts.from_corpus(LONG_TEXT, threads=1)
        self.ids = self.tokenizer.encode(LONG_TEXT)  # the encoder of the Python engine is lazy
        self.tokenizer = pickle.loads(pickle.dumps(self.tokenizer))
        self.encoding = door.Encoding(
            "shared",
            pat_str=self.tokenizer.patterns[0],
            mergeable_ranks={token: id for id, token in enumerate(self.smaller.tokens[:300])},
            special_tokens={END: 300, "<|other|>": 300},
        )

    def path(self, name: str = "") -> Path:
        """Return a path that no other call returns."""
        return self.folder / f"{next(self.numbers)}-{threading.get_ident()}{name}"


def plain(value: Any) -> object:
    """Return a result in a form that can be compared."""
    if isinstance(value, memoryview):
        return value.tolist()
    if isinstance(value, str | bytes | int | Tokenizer):
        return value
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, Sequence | Iterator):
        return [plain(each) for each in value]
    return value


# Uses of objects that threads may share, each with the same result in all threads


def offsets() -> tuple[bytes, array[int]]:
    """Return two documents in a buffer, and where they begin."""
    data = LONG_TEXT.encode()
    return data, array("Q", [0, len(TEXT.encode()), len(data)])


async def collected(texts: AsyncIterator[str]) -> list[str]:
    """Return the texts of an asynchronous stream."""
    return [text async for text in texts]


async def arriving(ids: Sequence[int]) -> AsyncIterator[int]:
    """Yield ids to an asynchronous stream."""
    for id in ids:
        yield id


def edited(prompt: Prompt) -> list[object]:
    """Edit a prompt, and return the changes and the ids."""
    changes = [prompt.set(LONG_TEXT), prompt.append(PARTS), prompt.copy().set(TEXT)]
    return [plain(changes), prompt.text, prompt.ids()]


def saved_and_loaded(objects: Objects) -> object:
    """Save a tokenizer, and return the loaded one."""
    path = objects.path(".json")
    objects.tokenizer.save(path, format="bpetite")
    return Tokenizer.load(path)


TOKENIZER: dict[str, Use] = {
    "chunks": lambda o: [(each.text, each.ids) for each in o.tokenizer.chunks(LONG_TEXT, 20)],
    "count": lambda o: o.tokenizer.count(LONG_TEXT),
    "decode": lambda o: [o.tokenizer.decode(o.ids), o.tokenizer.decode(array("I", o.ids))],
    "decode_batch": lambda o: o.tokenizer.decode_batch([o.ids[:9], o.ids]),
    "decode_bytes": lambda o: o.tokenizer.decode_bytes(o.ids),
    "decode_stream": lambda o: streamed(o.tokenizer.decode_stream(stop="ten", tags=["hen"]), o.ids),
    "decode_with_offsets": lambda o: o.tokenizer.decode_with_offsets(o.ids),
    "encode": lambda o: [o.tokenizer.encode(text, threads=2) for text in TEXTS],
    "encode to an array": lambda o: o.tokenizer.encode(LONG_TEXT, dtype="uint16"),
    "encode_batch": lambda o: o.tokenizer.encode_batch(TEXTS, threads=2),
    "encode_batch to arrays": lambda o: o.tokenizer.encode_batch(TEXTS, threads=2, dtype="uint32"),
    "encode_bytes": lambda o: o.tokenizer.encode_bytes(LONG_TEXT.encode()),
    "encode_buffer": lambda o: o.tokenizer.encode_buffer(*offsets(), threads=2),
    "encode_ordinary": lambda o: o.tokenizer.encode_ordinary(LONG_TEXT.encode()),
    "encode_parts": lambda o: o.tokenizer.encode_parts(PARTS),
    "encode_parts to arrays": lambda o: o.tokenizer.encode_parts(PARTS, dtype="uint32"),
    "encode_stream": lambda o: (lambda s: [s.step(LONG_TEXT), s.flush()])(
        o.tokenizer.encode_stream()
    ),
    "encode_with_offsets": lambda o: o.tokenizer.encode_with_offsets(LONG_TEXT, unit="bytes"),
    "encode_with_offsets to arrays": lambda o: o.tokenizer.encode_with_offsets(
        TEXT, dtype="uint32"
    ),
    "extend_ids": lambda o: o.tokenizer.extend_ids([*o.ids, *o.tokenizer.encode(END)], PARTS),
    "fingerprint": lambda o: o.tokenizer.fingerprint,
    "first_noncanonical": lambda o: o.tokenizer.first_noncanonical(o.ids),
    "fits": lambda o: o.tokenizer.fits(LONG_TEXT, 100),
    "from_tiktoken": lambda o: Tokenizer.from_tiktoken(encoding_of(o)),
    "ids": lambda o: o.tokenizer.ids,
    "ids_with_prefix": lambda o: o.tokenizer.ids_with_prefix(b" t"),
    "load": saved_and_loaded,
    "lossless": lambda o: o.tokenizer.lossless,
    "merges": lambda o: o.tokenizer.merges,
    "n_vocab": lambda o: o.tokenizer.n_vocab,
    "patterns": lambda o: o.tokenizer.patterns,
    "with_vocab_size": lambda o: o.tokenizer.with_vocab_size(300),
    "without_rare": lambda o: o.tokenizer.without_rare(Counter(o.ids), 300),
    "save": saved_and_loaded,
    "settings": lambda o: o.tokenizer.settings,
    "special_tokens": lambda o: o.tokenizer.special_tokens,
    "stream": lambda o: o.tokenizer.stream(o.ids),
    "astream": lambda o: asyncio.run(collected(o.tokenizer.astream(arriving(o.ids[:50])))),
    "token_bytes": lambda o: [o.tokenizer.token_bytes(id) for id in o.tokenizer.ids],
    "token_id": lambda o: [o.tokenizer.token_id(token) for token in o.tokenizer.tokens],
    "tokens": lambda o: o.tokenizer.tokens,
    "train": lambda o: [
        Tokenizer.train(o.corpus, 270, threads=2),
        Tokenizer.train(TEXT, 330, base=o.tokenizer),
        Tokenizer.train(o.counts, 280),
        Tokenizer.train([o.folder / "plain.txt"], 280),
    ],
    "truncate": lambda o: o.tokenizer.truncate(LONG_TEXT, 50, keep="end"),
    "prompt": lambda o: edited(o.tokenizer.prompt()),
    "vocab_size": lambda o: o.tokenizer.vocab_size,
    "with_settings": lambda o: o.tokenizer.with_settings(chat_template="x"),
    "with_special_tokens": lambda o: o.tokenizer.with_special_tokens(["<|a|>"]),
    "copies": lambda o: [copy.deepcopy(o.tokenizer), pickle.loads(pickle.dumps(o.tokenizer))],
}

FACTS = "dropped_pieces", "min_count", "pattern", "pieces", "text_bytes"

PIECE_COUNTS: dict[str, Use] = {
    "from_corpus": lambda o: PieceCounts.from_corpus(o.corpus, threads=2),
    "from_items": lambda o: PieceCounts.from_items(o.counts.items()),
    **dict.fromkeys(FACTS, lambda o: [getattr(o.counts, fact) for fact in FACTS]),
    "checked_pattern": lambda o: o.counts.checked_pattern(None),
    "items": lambda o: o.counts.items(),
    "load": lambda o: PieceCounts.load(counts_file(o)),
    "mixture": lambda o: PieceCounts.mixture([o.counts, o.counts * 2], [0.3, None]),
    "partition": lambda o: o.counts.partition(3),
    "prune": lambda o: (o.counts + o.counts * 2).prune(4),
    "read_header": lambda o: PieceCounts.read_header(counts_file(o)),
    "save": lambda o: PieceCounts.load(counts_file(o)),
}

CORPUS: dict[str, Use] = {
    "batches": lambda o: o.corpus.batches(batch_bytes=100),
    "files": lambda o: [(each.path, each.spans(200)) for each in o.corpus.files],
    "items": lambda o: o.corpus.items(),
    "part": lambda o: [[*o.corpus.part(file.spans(200)[:1])] for file in o.corpus.files],
    "parts": lambda o: [[*part] for part in o.corpus.parts(200)],
    "segments": lambda o: o.corpus.segments(batch_bytes=100),
    "settings": lambda o: o.corpus.settings,
    "total_bytes": lambda o: o.corpus.total_bytes(),
    "texts": lambda o: [*o.corpus],
}

STREAM_VOCABULARY: dict[str, Use] = {
    "decode_stream": lambda o: streamed(o.vocabulary.decode_stream(), o.ids),
    "special_ids": lambda o: o.vocabulary.special_ids,
    "stream": lambda o: o.vocabulary.stream(o.ids, skip_special_tokens=True),
    "astream": lambda o: asyncio.run(collected(o.vocabulary.astream(arriving(o.ids[:50])))),
    "token_bytes": lambda o: [o.vocabulary.token_bytes(id) for id in range(len(o.vocabulary))],
}


def explained(objects: Objects) -> list[object]:
    """Return how texts merge, with all states."""
    pieces = analysis.explain(objects.tokenizer, TEXT)
    return [(piece, [*piece.states()]) for piece in pieces]


def page(objects: Objects) -> str:
    """Return the page of a report on two vocabularies."""
    tokenizers = {"one": objects.tokenizer, "two": objects.smaller}
    return analysis.page(analysis.report(tokenizers, {"text": LONG_TEXT}, next_merges=20))


def tokenized(objects: Objects, **options: Any) -> list[object]:
    """Tokenize a corpus, and return the manifest, the errors and the first document."""
    folder = objects.path()
    manifest = corpora.tokenize(objects.corpus, objects.tokenizer, folder, "megatron", **options)
    errors = corpora.verify(folder, objects.tokenizer, deep=True)
    return [manifest["shards"], errors]


def tokenized_in_parts(objects: Objects) -> object:
    """Tokenize a corpus part by part, and return the shards of the manifest."""
    folder = objects.path()
    parts = corpora.plan(objects.corpus, objects.tokenizer, folder, "megatron", part_bytes=500)
    corpora.tokenize_part(parts[0])
    corpora.tokenize_parts(parts)
    return corpora.finish(folder)["shards"]


def by_threads(objects: Objects) -> object:
    """Tokenize a corpus whose parts are done by threads."""
    with ThreadPoolExecutor(3) as executor:
        return tokenized(objects, part_bytes=300, executor=executor)


TOKEN_FOLDER: dict[str, Use] = {
    "blocks": lambda o: [*map(plain, o.token_folder.blocks(50, seed=1))],
    "documents": lambda o: [*map(plain, o.token_folder)],
    "ids": lambda o: o.token_folder.ids,
}

BLOCKS: dict[str, Use] = {"slices": lambda o: [*map(plain, o.blocks[::2])]}

FUNCTIONS: dict[str, Use] = {
    "count": lambda o: [corpora.count(o.tokenizer, each) for each in (o.corpus, TEXTS)],
    "embedding_map": lambda o: analysis.embedding_map(o.tokenizer, o.smaller),
    "encode": lambda o: [
        [plain(each) for each in corpora.encode(o.tokenizer, documents, threads=2)]
        for documents in (o.corpus, TEXTS)
    ],
    "explain": explained,
    "merge_ids": lambda o: analysis.merge_ids(o.tokenizer),
    "open": lambda o: [*map(plain, corpora.open(o.token_files))],
    "page": page,
    "report": page,
    "finish": tokenized_in_parts,
    "plan": tokenized_in_parts,
    "repair": lambda o: corpora.repair(o.token_files, o.tokenizer),
    "tokenize": by_threads,
    "tokenize_part": tokenized_in_parts,
    "tokenize_parts": tokenized_in_parts,
    "split_ids": lambda o: analysis.split_ids(o.tokenizer, o.ids, 0.3, seed=7),
    "verify": tokenized,
}


def column(objects: Objects) -> Any:
    """Return a column of ids, made from a column of texts."""
    arrow, pyarrow = import_module("bpetite.arrow"), import_module("pyarrow")
    return arrow.encode(objects.tokenizer, pyarrow.array([*TEXTS, None]), end=END, threads=2)


def counted_column(objects: Objects) -> object:
    """Return the number of ids of each text of a column."""
    arrow, pyarrow = import_module("bpetite.arrow"), import_module("pyarrow")
    return arrow.count(objects.tokenizer, pyarrow.array(TEXTS)).to_pylist()


ARROW: dict[str, Use] = {
    "count": counted_column,
    "decode": lambda o: import_module("bpetite.arrow").decode(o.tokenizer, column(o)).to_pylist(),
    "encode": lambda o: column(o).to_pylist(),
}

ENCODING: dict[str, Use] = {
    "decode": lambda o: o.encoding.decode(o.encoding.encode_ordinary(LONG_TEXT)),
    "decode_batch": lambda o: o.encoding.decode_batch([[97, 300], [98]], num_threads=2),
    "decode_bytes": lambda o: o.encoding.decode_bytes([97, 300]),
    "decode_bytes_batch": lambda o: o.encoding.decode_bytes_batch([[97, 300], [98]], num_threads=2),
    "decode_single_token_bytes": lambda o: [*map(o.encoding.decode_single_token_bytes, range(300))],
    "decode_tokens_bytes": lambda o: o.encoding.decode_tokens_bytes([97, 299]),
    "decode_with_offsets": lambda o: o.encoding.decode_with_offsets([97, 300, 98]),
    "encode": lambda o: [
        o.encoding.encode(LONG_TEXT, allowed_special="all"),
        o.encoding.encode(f"a<|other|>{END}\ud800", allowed_special={"<|other|>", END}),
        o.encoding.encode("the hen\ud800"),
    ],
    "encode_batch": lambda o: o.encoding.encode_batch(TEXTS, num_threads=2, allowed_special="all"),
    "encode_ordinary": lambda o: o.encoding.encode_ordinary(LONG_TEXT),
    "encode_ordinary_batch": lambda o: o.encoding.encode_ordinary_batch(TEXTS, num_threads=2),
    "encode_single_token": lambda o: [o.encoding.encode_single_token(each) for each in ("a", END)],
    "encode_to_numpy": lambda o: o.encoding.encode_to_numpy(TEXT, allowed_special="all").tolist(),
    "encode_with_unstable": lambda o: o.encoding.encode_with_unstable("the he")[0],
    "eot_token": lambda o: o.encoding.eot_token,
    "is_special_token": lambda o: o.encoding.is_special_token(300),
    "n_vocab": lambda o: o.encoding.n_vocab,
    "special_tokens_set": lambda o: sorted(o.encoding.special_tokens_set),
    "token_byte_values": lambda o: o.encoding.token_byte_values(),
    "copies": lambda o: pickle.loads(pickle.dumps(o.encoding)).encode("the hen"),
}

SHARED: dict[str, dict[str, Use]] = {
    "Tokenizer": TOKENIZER,
    "Encoding": ENCODING,
    "PieceCounts": PIECE_COUNTS,
    "Corpus": CORPUS,
    "TokenFolder": TOKEN_FOLDER,
    "Blocks": BLOCKS,
    "StreamVocabulary": STREAM_VOCABULARY,
    "functions": FUNCTIONS,
    "arrow": ARROW,
}
"""The uses of all objects that threads may share, by the names of methods or functions."""

NEEDED_LIBRARIES = {
    "Tokenizer.from_tiktoken": ("tiktoken",),
    "Encoding.encode_to_numpy": ("numpy",),
    **dict.fromkeys(["functions.page", "functions.report"], ("jinja2",)),
    **dict.fromkeys(["arrow.count", "arrow.decode", "arrow.encode"], ("pyarrow",)),
}
"""The libraries that some uses need; without them, these are left out."""


def encoding_of(objects: Objects) -> object:
    """Return an Encoding of tiktoken."""
    return import_module("tiktoken").Encoding(
        "one",
        pat_str=objects.tokenizer.patterns[0],
        mergeable_ranks={token: id for id, token in enumerate(objects.smaller.tokens[:300])},
        special_tokens={},
    )


def counts_file(objects: Objects) -> Path:
    """Return a new file of piece counts."""
    path = objects.path(".counts")
    objects.counts.save(path)
    return path


def streamed(stream: DecodeStream, ids: Sequence[int]) -> list[str]:
    """Return the text of a stream's steps."""
    return [*map(stream.step, ids), stream.flush()]


def usable() -> dict[str, Use]:
    """Return the uses whose libraries are installed, by the names of object and method."""
    uses = {f"{name}.{each}": use for name, group in SHARED.items() for each, use in group.items()}
    return {name: use for name, use in uses.items() if not missing(NEEDED_LIBRARIES.get(name, ()))}


def missing(libraries: Iterable[str]) -> list[str]:
    """Return the libraries that are not installed, in alphabetical order."""
    return sorted({library for library in libraries if find_spec(library) is None})


# Uses of objects that belong to one thread at a time

Stream = Any


def stream_calls(objects: Objects, rng: random.Random) -> dict[str, Callable[[Stream], object]]:
    """Return the calls of a DecodeStream, by the names of its methods."""
    ids, one = objects.ids, rng.choice(objects.ids)
    start = rng.randrange(len(ids))
    return {
        "atexts": lambda s: asyncio.run(collected(s.atexts(arriving(ids[:9])))),
        "aevents": lambda s: asyncio.run(collected(s.aevents(arriving(ids[:9])))),
        "copy": lambda s: s.copy().step(one),
        "events": lambda s: [*s.events(ids[:9])],
        "flush": lambda s: s.flush(),
        "finish_reason": lambda s: s.finish_reason,
        "flush_event": lambda s: s.flush_event(),
        "from_state": lambda s: DecodeStream.from_state(objects.tokenizer, s.to_state()),
        "pause_stops": lambda s: s.pause_stops(),
        "pending": lambda s: s.pending,
        "reset": lambda s: s.reset(),
        "resume_stops": lambda s: s.resume_stops(),
        "step": lambda s: [s.step(ids[start : start + 9]), *map(s.step, ids[start : start + 99])],
        "step_event": lambda s: s.step_event(ids[start : start + 9]),
        "stop_reason": lambda s: s.stop_reason,
        "stops_paused": lambda s: s.stops_paused,
        "text_after_stop": lambda s: s.text_after_stop,
        "texts": lambda s: [*s.texts(ids[start : start + 9])],
        "to_state": lambda s: s.to_state(),
        "withheld": lambda s: s.withheld,
    }


def encode_stream_calls(rng: random.Random) -> dict[str, Callable[[Stream], object]]:
    """Return the calls of an EncodeStream, by the names of its methods."""
    start = rng.randrange(len(LONG_TEXT))
    return {
        "copy": lambda s: s.copy().flush(),
        "flush": lambda s: s.flush(),
        "pending": lambda s: s.pending,
        "reset": lambda s: s.reset(),
        "step": lambda s: [s.step(LONG_TEXT[start : start + 50]), s.step(TEXT.encode()[:-9])],
        "step with segments": lambda s: s.step(PARTS),
    }


def prompt_calls(rng: random.Random) -> dict[str, Callable[[Prompt], object]]:
    """Return the calls of a Prompt, by the names of its methods."""
    start = rng.randrange(len(LONG_TEXT))
    return {
        "append": lambda p: p.append(rng.choice([TEXT, PARTS])),
        "copy": lambda p: p.copy().append(TEXT),
        "ids": lambda p: p.ids("uint32"),
        "set": lambda p: p.set(LONG_TEXT[start:] + TEXT),
        "text": lambda p: p.text,
    }


def batch_calls(objects: Objects, rng: random.Random) -> dict[str, Callable[[Stream], object]]:
    """Return the calls of a DecodeStreamBatch, by the names of its methods."""
    key, id = rng.randrange(4), rng.choice(objects.ids)
    return {
        "add": lambda s: s.add(key),
        "finish": lambda s: s.finish(key),
        "step": lambda s: s.step({key: id} | {each: [id, id] for each in s}),
        "step_event": lambda s: s.step_event({each: [id, id] for each in s}),
        "texts": lambda s: [s[each].step(id) for each in s],
    }


def list_calls(objects: Objects, rng: random.Random) -> dict[str, Callable[[Any], object]]:
    """Return calls that read or change one list of ids."""
    tokenizer, id = objects.tokenizer, rng.choice([0, 300, 2**31, 2**70, -1])
    start = rng.randrange(len(objects.ids))
    return {
        "clear": lambda ids: ids.clear(),
        "change": lambda ids: ids.__setitem__(start % (len(ids) or 1), id),
        "delete": lambda ids: ids.__delitem__(slice(start, start + 5)),
        "extend": lambda ids: ids.extend(objects.ids),
        "decode": lambda ids: tokenizer.decode(ids),
        "decode_bytes": lambda ids: tokenizer.decode_bytes(ids),
        "decode_with_offsets": lambda ids: tokenizer.decode_with_offsets(ids),
        "decode_batch": lambda ids: tokenizer.decode_batch([ids, ids]),
        "step": lambda ids: tokenizer.decode_stream().step(ids),
        "split_ids": lambda ids: analysis.split_ids(tokenizer, ids, 0.5, seed=1),
        "sort": lambda ids: ids.sort(),
    }


def texts_calls(objects: Objects, rng: random.Random) -> dict[str, Callable[[Any], object]]:
    """Return calls that read or change one list of texts."""
    tokenizer, text = objects.tokenizer, rng.choice([*TEXTS, "\ud800"])
    return {
        "append": lambda texts: texts.append(text),
        "clear": lambda texts: texts.clear(),
        "extend": lambda texts: texts.extend(TEXTS),
        "encode_batch": lambda texts: tokenizer.encode_batch(texts, threads=2),
        "encode_batch to arrays": lambda texts: tokenizer.encode_batch(texts, dtype="uint32"),
        "encode_parts": lambda texts: tokenizer.encode_parts(texts),
        "train": lambda texts: Tokenizer.train(texts, 258, threads=2),
    }


def buffer_calls(objects: Objects, rng: random.Random) -> dict[str, Callable[[Any], object]]:
    """Return calls that encode or change one text in a buffer."""
    tokenizer, start = objects.tokenizer, rng.randrange(len(LONG_TEXT))
    return {
        "change": lambda text: text.__setitem__(slice(start, start + 9), b"the hens\n"),
        "break": lambda text: text.__setitem__(start, 0xE4),
        "encode": lambda text: tokenizer.encode(text),
        "encode to an array": lambda text: tokenizer.encode(text, threads=2, dtype="uint32"),
        "count": lambda text: tokenizer.count(text),
    }


def iterator_calls(_: Objects, rng: random.Random) -> dict[str, Callable[[Any], object]]:
    """Return calls that read one iterator."""
    return {"next": lambda iterator: next(iterator), "rest": lambda i: [*i][: rng.randrange(9)]}


def owned(objects: Objects) -> Iterator[tuple[str, Any, Callable[[random.Random], Any]]]:
    """Yield new objects that belong to one thread: a name, the object, and a maker of its calls."""
    tokenizer = objects.tokenizer
    options: list[dict[str, Any]] = [{}, {"stop": ["ten m", "zz"], "tags": ["hen"]}]
    for makes in (tokenizer, objects.vocabulary):
        for each in options:
            stream: Any = makes.decode_stream(**each)
            yield "DecodeStream", stream, partial(stream_calls, objects)
    yield "EncodeStream", tokenizer.encode_stream(), encode_stream_calls
    yield "Prompt", tokenizer.prompt(), prompt_calls
    batch: Any = DecodeStreamBatch(tokenizer, stop="ten")
    yield "DecodeStreamBatch", batch, partial(batch_calls, objects)
    yield "list of ids", [*objects.ids], partial(list_calls, objects)
    yield "list of texts", [*TEXTS], partial(texts_calls, objects)
    yield CHANGING_TEXT, bytearray(LONG_TEXT.encode()), partial(buffer_calls, objects)
    for iterator in (
        corpora.encode(tokenizer, TEXTS * 9),
        tokenizer.chunks(LONG_TEXT, 5),
        tokenizer.stream(objects.ids),
        objects.corpus.batches(batch_bytes=100),
        objects.corpus.items(),
        objects.counts.items(),
        analysis.explain(tokenizer, TEXT),
    ):
        yield "iterator", iterator, partial(iterator_calls, objects)


# Rounds


def do_round(seed: int, folder: Path, threads: int, counts: Counter[str]) -> list[str]:
    """Use new objects by threads at once; return the differences and faults."""
    uses = usable()
    alone = Objects(folder)
    expected = {name: plain(use(alone)) for name, use in uses.items()}
    objects = Objects(folder)
    streams = [*owned(objects)]
    faults: list[str] = []
    together = threading.Barrier(threads)

    def share(number: int) -> None:
        rng = random.Random(f"{seed} {number}")
        names = rng.sample([*uses], len(uses))
        together.wait()
        for name in names:
            try:
                if plain(uses[name](objects)) != expected[name]:
                    faults.append(f"{name}: another result than in one thread")
            except BaseException as error:
                faults.append(f"{name}: {error!r}")
            misuse(rng)

    def misuse(rng: random.Random) -> None:
        name, stream, calls_of = rng.choice(streams)
        method, call = rng.choice([*calls_of(rng).items()])
        try:
            call(stream)
        except Exception as error:
            has_failed = "native engine failed" in str(error) and name != CHANGING_TEXT
            if isinstance(error, FORBIDDEN_ERRORS) or has_failed:
                faults.append(f"{name}.{method}: {error!r}")
            counts[f"calls with the error {type(error).__name__}"] += 1
        except BaseException as error:
            faults.append(f"{name}.{method}: {error!r}")

    workers = [threading.Thread(target=share, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    counts["uses of shared objects"] += threads * len(uses)
    return [*faults, *faults_after(objects, streams)]


def faults_after(objects: Objects, streams: Sequence[tuple[str, Any, Any]]) -> Iterator[str]:
    """Yield a fault for each stream of `owned` that differs from a new one after a reset."""
    for (name, stream, _), (_, new, _) in zip(streams, owned(objects), strict=True):
        if name == "DecodeStream":
            stream.resume_stops()
            stream.reset()
            if stream.step(objects.ids) != new.step(objects.ids):
                yield f"{name}: another text after a reset"
        elif name == "EncodeStream":
            stream.reset()
            if [*stream.step(LONG_TEXT), *stream.flush()] != objects.tokenizer.encode(LONG_TEXT):
                yield f"{name}: other ids after a reset"
        elif name == "Prompt":
            stream.set(LONG_TEXT)
            if stream.ids() != objects.tokenizer.encode(LONG_TEXT):
                yield f"{name}: other ids after another text"


@pytest.mark.filterwarnings("ignore::bpetite.CorpusWarning")  # texts here are short
@settings(max_examples=max(settings().max_examples // 150, 1))
@given(randoms)
def threads_share_every_public_object(rng: random.Random) -> None:
    """Fail if a result of any thread differs, whatever the order of calls."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    counts: Counter[str] = Counter()
    n_threads = 2 if settings().max_examples < 300 else rng.choice((2, 4, 8))
    try:
        with tempfile.TemporaryDirectory(prefix="bpetite-threads-") as folder:
            faults = do_round(rng.getrandbits(32), Path(folder), n_threads, counts)
    finally:
        sys.setswitchinterval(interval)
    assert not faults, sorted({*faults})
    assert counts["uses of shared objects"] == n_threads * len(usable())
