"""The libraries: how to load and to call each of them.

Any but bpetite may be missing, so functions import them. Some read no vocabulary files, and know
only public vocabularies by name.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import pickle
from array import array
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

from tools.public import PUBLIC, public_encoding

from benchmarks import data
from benchmarks.cases import MB, OURS, PYTHON, MissingError
from bpetite import Tokenizer

Ids = Sequence[int]


class Calls(NamedTuple):
    """The functions of a library for one vocabulary, on one thread; None for missing functions.

    Arrays are buffers of four bytes an id. An array of a batch has all its ids, and the offsets of
    the texts, if it is a buffer.
    """

    ids: Callable[[str], Ids]
    array: Callable[[str], Any] | None = None
    ids_of_batch: Callable[[list[str]], Sequence[Ids]] | None = None
    array_of_batch: Callable[[list[str]], Any] | None = None
    to_text: Callable[[Ids], str] | None = None
    to_bytes: Callable[[Any], bytes] | None = None
    buffer: Callable[[Ids], Any] = list  # makes what `to_bytes` takes


class Library(NamedTuple):
    """A library to measure."""

    package: str
    open: Callable[[str], Calls]  # loads a vocabulary; raises MissingError if it is unknown
    has_no_cache: bool = False  # whether all calls are equally fast, so that one object will do
    sample_bytes: int | None = None  # the longest text that a slow library gets


def version_of(package: str) -> str:
    """Return the version of an installed package; "" if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def module(name: str) -> Any:
    """Import a module that may be missing or have no type hints."""
    return importlib.import_module(name)


def open_bpetite(name: str) -> Calls:
    own: Tokenizer = pickle.loads(data.pickled(name))
    ids, batch = own.encode_ordinary, partial(own.encode_batch, allowed_special=(), threads=1)
    one = partial(own.encode, dtype="uint32", allowed_special=())
    arrays = one, batch, partial(batch, dtype="uint32")
    return Calls(ids, *arrays, own.decode, own.decode_bytes, partial(array, "I"))


def tiktoken_of(tokenizer: Tokenizer, package: str = "tiktoken") -> Any:
    """Return an Encoding of tiktoken, or of a package with its names, for a vocabulary."""
    special_tokens = dict(tokenizer.special_tokens)
    ordinary = {*tokenizer.ids} - {*special_tokens.values()}
    ranks = {tokenizer.token_bytes(id): id for id in ordinary}
    make = partial(module(package).Encoding, "bpetite", pat_str=tokenizer.patterns[0])
    return make(mergeable_ranks=ranks, special_tokens=special_tokens)


def open_tiktoken(name: str) -> Calls:
    if name == "Phi-3":  # which has byte fallback
        raise MissingError
    folder, is_public = data.path_of(name).parent, name in PUBLIC
    public = partial(public_encoding, data=folder)
    own = public(PUBLIC[name][0]) if is_public else tiktoken_of(data.tokenizer(name))
    batch = partial(own.encode_ordinary_batch, num_threads=1)
    return Calls(own.encode_ordinary, None, batch, None, own.decode, own.decode_bytes)


def open_tokenizers(name: str) -> Calls:
    twin = module("tokenizers").Tokenizer.from_buffer(data.json_of(name))
    to_text = partial(twin.decode, skip_special_tokens=False)
    return Calls(lambda text: twin.encode(text, add_special_tokens=False).ids, to_text=to_text)


def open_gigatoken(name: str) -> Calls:
    """Return the calls of gigatoken, whose arrays are numpy's and awkward's."""
    numpy, twin = module("numpy"), module("gigatoken").Tokenizer.from_json(data.json_of(name))
    lists, arrays = (
        partial(f, parallel=False) for f in (twin.encode_batch_list, twin.encode_batch)
    )
    buffer = partial(numpy.array, dtype=numpy.uint32)
    return Calls(
        lambda text: lists([text])[0], twin.encode, lists, arrays, None, twin.decode, buffer
    )


def open_fastokens(name: str) -> Calls:
    """Return the calls of fastokens, which reads cl100k only from tiktoken's file."""
    kind, path = module("fastokens").Tokenizer, data.path_of(name)
    if name in PUBLIC and path.suffix == ".tiktoken":
        twin = kind.from_tiktoken(str(path), encoding=PUBLIC[name][0])
    else:
        twin = kind.from_json_str(data.json_of(name).decode("utf-8"))
    return Calls(
        lambda text: twin.encode(text).ids,
        lambda text: twin.encode_batch_flat([text])[0],
        lambda texts: [each.ids for each in twin.encode_batch(texts)],
        twin.encode_batch_flat,
        twin.decode,
    )


def open_toktok(name: str) -> Calls:
    """Return the calls of toktok, which has cl100k built in."""
    if name != "cl100k":
        raise MissingError
    twin = module("toktok._toktok").Tokenizer("cl100k_base", "")
    return Calls(
        twin.encode_ordinary,
        lambda text: twin.encode_to_buffer(text, None, ()),
        array_of_batch=lambda texts: twin.encode_batch(texts, 1),
        to_text=twin.decode,
    )


def open_splintr(name: str) -> Calls:
    """Return the calls of splintr, which decodes this format only to text."""
    own = module("splintr").from_json_bytes(data.json_of(name))
    return Calls(own.encode, own.encode_flat, own.encode_batch, own.encode_batch_flat, own.decode)


LIBRARIES = {
    **dict.fromkeys(OURS, Library("bpetite", open_bpetite)),
    PYTHON: Library("bpetite", open_bpetite, sample_bytes=2 * MB),
    "tiktoken": Library("tiktoken", open_tiktoken, has_no_cache=True, sample_bytes=4 * MB),
    "tokenizers": Library("tokenizers", open_tokenizers, has_no_cache=True, sample_bytes=MB // 4),
    "gigatoken": Library("gigatoken", open_gigatoken),
    "fastokens": Library("fastokens", open_fastokens),
    "toktok": Library("toktok-rs", open_toktok),
    "splintr": Library("splintr-rs", open_splintr),
}
RIVALS = [name for name in LIBRARIES if name not in OURS]


def columns(*names: str) -> dict[str, str]:
    """Return our columns and the installed libraries, each in a process of its own name."""
    packages = {name: LIBRARIES[name].package if name in LIBRARIES else name for name in names}
    return {name: name for name in names if name in OURS or version_of(packages[name])}


@cache
def loaded(column: str, vocabulary: str = "") -> Calls:
    """Return the calls of a column for a vocabulary or the main one, loaded once."""
    return LIBRARIES[column].open(vocabulary or data.main())


def fresh(column: str, vocabulary: str) -> Calls:
    """Return the calls of an object that has seen no text, unless the library has no cache."""
    library = LIBRARIES[column]
    return loaded(column, vocabulary) if library.has_no_cache else library.open(vocabulary)
