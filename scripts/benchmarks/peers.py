"""The other libraries: how to load and to call each of them.

Any of them may be missing, so functions import them. Some read no vocabulary files, and know only
public vocabularies by name.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import pickle
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from tools.public import public_encoding

from benchmarks.measure import Subject
from bpetite import Tokenizer

# A process that measures the memory of training must not import other libraries.
if TYPE_CHECKING:
    import tiktoken
    import tokenizers

Ids = Sequence[int]


@dataclass(frozen=True)
class Calls:
    """The functions of a library for one vocabulary, on one thread; None if it lacks one."""

    ids: Callable[[str], Ids] | None = None
    """Text to a list of ids."""
    array: Callable[[str], Any] | None = None
    """Text to a buffer of ids, four bytes each."""
    to_bytes: Callable[[Any], bytes] | None = None
    """A list of ids to bytes."""
    to_text: Callable[[Any], str] | None = None
    """A list of ids to text."""
    array_to_bytes: Callable[[Any], bytes] | None = None
    """A buffer of ids, as `buffer` makes it, to bytes."""
    array_to_text: Callable[[Any], str] | None = None
    """A buffer of ids, as `buffer` makes it, to text."""
    buffer: Callable[[Ids], Any] = lambda ids: array("I", ids)


@dataclass(frozen=True)
class Library:
    """A library to measure."""

    name: str
    package: str
    open: Callable[[Subject], Calls]
    """Loads a fresh object; raises LookupError if the library does not know the vocabulary."""
    has_no_cache: bool = False
    """Whether all calls are equally fast, so that one object serves all turns."""
    is_slow: bool = False
    """Whether it gets a smaller sample."""

    @property
    def is_installed(self) -> bool:
        """Whether its package is installed."""
        return is_installed(self.package)


def version_of(package: str) -> str:
    """Return the version of an installed package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def is_installed(package: str) -> bool:
    """Return whether a package is installed."""
    return version_of(package) != "not installed"


def module(name: str) -> Any:
    """Import a module that may be missing or have no type hints."""
    return importlib.import_module(name)


# bpetite itself


def open_bpetite(subject: Subject) -> Calls:
    """Return the calls of a fresh tokenizer."""
    return calls_of(pickle.loads(subject.pickled))


def calls_of(tokenizer: Tokenizer) -> Calls:
    """Return the calls of a tokenizer."""
    return Calls(
        ids=tokenizer.encode_ordinary,
        array=tokenizer.encode_array,
        to_bytes=tokenizer.decode_bytes,
        to_text=tokenizer.decode,
        array_to_bytes=tokenizer.decode_bytes,
        array_to_text=tokenizer.decode,
    )


# Others


@cache
def encoding_of(subject: Subject) -> tiktoken.Encoding:
    """Return tiktoken's own Encoding of a public vocabulary, else one made from the tokenizer."""
    if subject.data is not None and subject.public_name is not None:
        return public_encoding(subject.public_name, subject.data)
    return tiktoken_of(subject.tokenizer)


def tiktoken_of(tokenizer: Tokenizer) -> tiktoken.Encoding:
    """Return a tiktoken Encoding of a vocabulary."""
    import tiktoken

    return tiktoken.Encoding(
        "bpetite",
        pat_str=tokenizer.pattern,
        mergeable_ranks={token: id for id, token in enumerate(mergeable_tokens(tokenizer))},
        special_tokens=dict(tokenizer.special_tokens),
    )


def mergeable_tokens(tokenizer: Tokenizer) -> list[bytes]:
    """Return the bytes of each id, without special tokens."""
    return [tokenizer.token_bytes(id) for id in range(256 + len(tokenizer.merges))]


def open_tiktoken(subject: Subject) -> Calls:
    """Return the calls of tiktoken."""
    encoding = encoding_of(subject)
    return Calls(
        ids=encoding.encode_ordinary, to_bytes=encoding.decode_bytes, to_text=encoding.decode
    )


def huggingface_of(json: bytes) -> tokenizers.Tokenizer:
    """Return the tokenizer of a tokenizer.json."""
    import tokenizers

    return tokenizers.Tokenizer.from_buffer(json)


def open_tokenizers(subject: Subject) -> Calls:
    """Return the calls of Hugging Face's tokenizers."""
    twin = huggingface_of(subject.json)
    return Calls(
        ids=lambda text: twin.encode(text, add_special_tokens=False).ids,
        to_text=lambda ids: twin.decode(ids, skip_special_tokens=False),
    )


def open_gigatoken(subject: Subject) -> Calls:
    """Return the calls of gigatoken, whose arrays are numpy arrays."""
    numpy = module("numpy")
    try:
        twin = module("gigatoken").Tokenizer.from_json(subject.json)
    except RuntimeError as error:  # it has no scanner for the patterns
        raise LookupError(str(error)) from None
    return Calls(
        ids=lambda text: twin.encode_batch_list([text], parallel=False)[0],
        array=twin.encode,
        to_bytes=twin.decode,
        array_to_bytes=twin.decode,
        buffer=lambda ids: numpy.array(ids, dtype=numpy.uint32),
    )


def open_fastokens(subject: Subject) -> Calls:
    """Return the calls of fastokens, which reads cl100k and o200k only from tiktoken's files."""
    kind = module("fastokens").Tokenizer
    if subject.data is not None and subject.public_name != "gpt2":
        path = str(subject.data / f"{subject.public_name}.tiktoken")
        twin = kind.from_tiktoken(path, encoding=subject.public_name)
    else:
        twin = kind.from_json_str(subject.json.decode("utf-8"))
    return Calls(
        ids=lambda text: twin.encode(text).ids,
        array=lambda text: twin.encode_batch_flat([text])[0],
        to_text=twin.decode,
    )


def open_splintr(subject: Subject) -> Calls:
    """Return the calls of splintr, which decodes this format to text only."""
    twin = module("splintr").from_json_bytes(subject.json)
    return Calls(ids=twin.encode, array=twin.encode_flat, to_text=twin.decode)


def open_toktok(subject: Subject) -> Calls:
    """Return the calls of toktok, which has built-in vocabularies."""
    twin = module("toktok._toktok").Tokenizer(built_in(subject, "cl100k_base", "o200k_base"), "")
    return Calls(
        ids=twin.encode_ordinary,
        array=lambda text: twin.encode_to_buffer(text, None, ()),
        to_bytes=twin.decode_bytes,
        to_text=twin.decode,
    )


def open_quicktok(subject: Subject) -> Calls:
    """Return the calls of quicktok, which has built-in vocabularies."""
    twin = module("quicktok").Tokenizer(built_in(subject, "cl100k_base", "o200k_base"), "")
    return Calls(
        ids=twin.encode, array=lambda text: twin.encode_batch([text], 1)[0], to_text=twin.decode
    )


def built_in(subject: Subject, *names: str) -> str:
    """Return the public name of a vocabulary if it is one of the built-in `names`."""
    if subject.public_name not in names:
        raise LookupError(f"{subject.name} is not built in")
    return subject.public_name


TIKTOKEN = Library("tiktoken", "tiktoken", open_tiktoken, has_no_cache=True)

LIBRARIES = (
    TIKTOKEN,
    Library("tokenizers", "tokenizers", open_tokenizers, has_no_cache=True, is_slow=True),
    Library("gigatoken", "gigatoken", open_gigatoken),
    Library("fastokens", "fastokens", open_fastokens),
    Library("toktok", "toktok-rs", open_toktok),
    Library("splintr", "splintr-rs", open_splintr),
    Library("quicktok", "quicktok-v1", open_quicktok, has_no_cache=True),
)
"""Libraries that encode or decode."""

TRAINERS = {name: name for name in ("tokenizers", "rustbpe", "gigatoken", "ffbpe")}
"""Libraries that train, and the package of each."""


def openable(subject: Subject) -> list[tuple[Library, Calls]]:
    """Return the installed libraries that know a vocabulary, each loaded once."""
    found = []
    for library in LIBRARIES:
        if library.is_installed:
            try:
                found.append((library, library.open(subject)))
            except LookupError:
                continue
    return found
