"""The other libraries: how to load and to call each of them.

Any of them may be missing, so functions import them. Some read no vocabulary files, and know only
public vocabularies by name.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import pickle
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
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
    """The functions of a library for one vocabulary, on one thread; None for missing functions."""

    ids: Callable[[str], Ids]
    """Text to a list of ids."""
    array: Callable[[str], Any] | None = None
    """Text to a buffer of ids, four bytes each."""
    ids_of_batch: Callable[[list[str]], Sequence[Ids]] | None = None
    """Texts to a list of ids for each."""
    array_of_batch: Callable[[list[str]], Any] | None = None
    """Texts to one array of all ids; with the offsets of the texts, if it is a buffer."""
    to_text: Callable[[Ids], str] | None = None
    """A list of ids to text."""
    to_bytes: Callable[[Any], bytes] | None = None
    """A buffer of ids, as `buffer` makes it, to bytes; a list if `buffer` is None."""
    buffer: Callable[[Ids], Any] | None = None

    def encoder(self, way: str) -> Callable[[str], object]:
        """Return the function that encodes into an array, or else into a list."""
        return self.array if way == "array" and self.array else self.ids


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


def open_bpetite(subject: Subject) -> Calls:
    """Return the calls of a fresh tokenizer of bpetite."""
    return calls_of(pickle.loads(subject.pickled))


def calls_of(tokenizer: Tokenizer) -> Calls:
    """Return the calls of a tokenizer of bpetite."""
    return Calls(
        ids=tokenizer.encode_ordinary,
        array=partial(tokenizer.encode, dtype="uint32"),
        ids_of_batch=partial(tokenizer.encode_batch, allowed_special=(), threads=1),
        array_of_batch=partial(
            tokenizer.encode_batch, dtype="uint32", allowed_special=(), threads=1
        ),
        to_text=tokenizer.decode,
        to_bytes=tokenizer.decode_bytes,
        buffer=lambda ids: array("I", ids),
    )


# Others


@cache
def encoding_of(subject: Subject) -> tiktoken.Encoding:
    """Return tiktoken's own Encoding of a public vocabulary; else make one from the tokenizer."""
    if subject.data is not None and subject.public_name is not None:
        return public_encoding(subject.public_name, subject.data)
    return tiktoken_of(subject.tokenizer)


def tiktoken_of(tokenizer: Tokenizer) -> tiktoken.Encoding:
    """Return a tiktoken Encoding of a vocabulary."""
    import tiktoken

    return tiktoken.Encoding(
        "bpetite",
        pat_str=tokenizer.patterns[0],
        mergeable_ranks={token: id for id, token in enumerate(mergeable_tokens(tokenizer))},
        special_tokens=dict(tokenizer.special_tokens),
    )


def mergeable_tokens(tokenizer: Tokenizer) -> list[bytes]:
    """Return the bytes of each id, without special tokens."""
    return [tokenizer.token_bytes(id) for id in range(256 + len(tokenizer.merges))]


def open_tiktoken(subject: Subject) -> Calls:
    encoding = encoding_of(subject)
    return Calls(
        ids=encoding.encode_ordinary,
        ids_of_batch=partial(encoding.encode_ordinary_batch, num_threads=1),
        to_text=encoding.decode,
        to_bytes=encoding.decode_bytes,
    )


def huggingface_of(json: bytes) -> tokenizers.Tokenizer:
    """Return the tokenizer of a tokenizer.json."""
    import tokenizers

    return tokenizers.Tokenizer.from_buffer(json)


def open_tokenizers(subject: Subject) -> Calls:
    twin = huggingface_of(subject.json)
    return Calls(
        ids=lambda text: twin.encode(text, add_special_tokens=False).ids,
        to_text=lambda ids: twin.decode(ids, skip_special_tokens=False),
    )


def open_gigatoken(subject: Subject) -> Calls:
    """Return the calls of gigatoken, whose arrays are numpy's and awkward's."""
    numpy = module("numpy")
    kind = module("gigatoken").Tokenizer
    model = subject.model
    twin = kind.from_sentencepiece(model) if model else kind.from_json(subject.json)
    return Calls(
        ids=lambda text: twin.encode_batch_list([text], parallel=False)[0],
        array=twin.encode,
        ids_of_batch=partial(twin.encode_batch_list, parallel=False),
        array_of_batch=partial(twin.encode_batch, parallel=False),
        to_bytes=twin.decode,
        buffer=lambda ids: numpy.array(ids, dtype=numpy.uint32),
    )


def open_fastokens(subject: Subject) -> Calls:
    """Return the calls of fastokens, which reads cl100k only from tiktoken's file."""
    kind = module("fastokens").Tokenizer
    if subject.data is not None and subject.public_name != "gpt2":
        path = str(subject.data / f"{subject.public_name}.tiktoken")
        return calls_of_fastokens(kind.from_tiktoken(path, encoding=subject.public_name))
    return calls_of_fastokens(kind.from_json_str(subject.json.decode("utf-8")))


def open_snaptokens(subject: Subject) -> Calls:
    """Return the calls of snaptokens, without special tokens, since it refuses gaps between ids."""
    fields = json.loads(subject.json)
    fields["added_tokens"] = []
    for literal in subject.tokenizer.special_tokens:
        fields["model"]["vocab"].pop(literal, None)
    return calls_of_fastokens(module("snaptokens").Tokenizer.from_json_str(json.dumps(fields)))


def calls_of_fastokens(twin: Any) -> Calls:
    """Return the calls of fastokens or of snaptokens, its fork."""
    return Calls(
        ids=lambda text: twin.encode(text).ids,
        array=lambda text: twin.encode_batch_flat([text])[0],
        ids_of_batch=lambda texts: [each.ids for each in twin.encode_batch(texts)],
        array_of_batch=twin.encode_batch_flat,
        to_text=twin.decode,
    )


def open_splintr(subject: Subject) -> Calls:
    """Return the calls of splintr, which decodes this format only to text."""
    splintr = module("splintr")
    if subject.model:  # which it has built in
        twin = splintr.Tokenizer.from_pretrained("mistral_v1")
    else:
        twin = splintr.from_json_bytes(subject.json)
    return Calls(
        ids=twin.encode,
        array=twin.encode_flat,
        ids_of_batch=twin.encode_batch,
        array_of_batch=twin.encode_batch_flat,
        to_text=twin.decode,
    )


def open_kitoken(subject: Subject) -> Calls:
    if not subject.model and not subject.file:
        raise LookupError("it reads the files of models, and is compared with these alone")
    kind, model = module("kitoken").Kitoken, subject.model
    twin = kind.from_sentencepiece_file(model) if model else kind.from_tokenizers(subject.file)
    return Calls(ids=lambda text: twin.encode(text, False))


def open_sentencepiece(subject: Subject) -> Calls:
    if not subject.model:
        raise LookupError("it reads only SentencePiece models")
    twin = module("sentencepiece").SentencePieceProcessor(model_file=subject.model)
    return Calls(ids=twin.encode, to_text=twin.decode)


def open_toktok(subject: Subject) -> Calls:
    twin = module("toktok._toktok").Tokenizer(built_in(subject), "")
    return Calls(
        ids=twin.encode_ordinary,
        array=lambda text: twin.encode_to_buffer(text, None, ()),
        array_of_batch=lambda texts: twin.encode_batch(texts, 1),
        to_text=twin.decode,
    )


def open_quicktok(subject: Subject) -> Calls:
    twin = module("quicktok").Tokenizer(built_in(subject), "")
    return Calls(
        ids=twin.encode,
        array=lambda text: twin.encode_batch([text], 1)[0],
        array_of_batch=lambda texts: twin.encode_batch(texts, 1),
        to_text=twin.decode,
    )


def built_in(subject: Subject) -> str:
    """Return the public name of a vocabulary that toktok and quicktok have built in."""
    if subject.public_name != "cl100k_base":
        raise LookupError(f"{subject.name} is not built in")
    return subject.public_name


TIKTOKEN = Library("tiktoken", "tiktoken", open_tiktoken, has_no_cache=True)

LIBRARIES = (
    TIKTOKEN,
    Library("tokenizers", "tokenizers", open_tokenizers, has_no_cache=True, is_slow=True),
    Library("gigatoken", "gigatoken", open_gigatoken),
    Library("fastokens", "fastokens", open_fastokens),
    Library("snaptokens", "snaptokens", open_snaptokens),
    Library("toktok", "toktok-rs", open_toktok),
    Library("splintr", "splintr-rs", open_splintr),
    Library("quicktok", "quicktok-v1", open_quicktok, has_no_cache=True),
    Library("kitoken", "kitoken", open_kitoken, has_no_cache=True, is_slow=True),
    Library("sentencepiece", "sentencepiece", open_sentencepiece, has_no_cache=True, is_slow=True),
)
"""Libraries that encode or decode."""

TRAINERS = ("tokenizers", "rustbpe", "gigatoken", "ffbpe", "gigabpe")
"""Packages that train."""


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
